//! Logs that move between directories: what arrives, and what is found when the process dies on the way.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use super::*;
use crate::record::batch::batches;
use crate::record::control::{ControlRecord, EndTxnMarker};
use crate::storage::log::{HandoverError, Wait};
use crate::storage::producer_state::{ProducerStateEntry, VerificationGuard};

/// Everything that a replica keeps of its records.
#[derive(Debug, PartialEq)]
struct Kept {
    bounds: (Offset, Offset, Option<Offset>),
    /// How many, and their hash.
    bytes: (usize, u64),
    /// Of the last batch alone: no more is in a snapshot.
    producers: Vec<(ProducerId, ProducerEpoch, i32, i32, Offset, Option<Offset>)>,
    epochs: Vec<(i32, Option<Offset>)>,
    aborted: BTreeSet<(ProducerId, Offset)>,
}

fn producer(entry: &ProducerStateEntry) -> (ProducerId, ProducerEpoch, i32, i32, Offset, Option<Offset>) {
    let last = (entry.last_sequence(), entry.last_data_offset());
    (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, last.0, last.1, entry.current_txn_first_offset)
}

fn kept(log: &Log) -> Kept {
    let (start, end) = (log.log_start_offset(), log.log_end_offset());
    let mut bytes = Vec::new();
    let mut aborted = BTreeSet::new();
    let mut next = start;
    while next < end {
        let read = log.read(next, 1 << 20, end, true, Wait::ForDisk).unwrap();
        let mut part = vec![0; read.slice.len()];
        read.slice.read(&mut part).unwrap();
        next = batches(&part).last().unwrap().unwrap().last_offset().plus(1);
        let found = log.aborted_transactions_in(&read, start, Wait::ForDisk).unwrap();
        aborted.extend(found.iter().map(|aborted| (aborted.producer_id, aborted.first_offset)));
        bytes.extend(part);
    }
    Kept {
        bounds: (start, end, log.first_unstable_offset()),
        bytes: (bytes.len(), BuildHasherDefault::<DefaultHasher>::default().hash_one(&bytes)),
        producers: log.with_producers(|producers| producers.active_producers().into_iter().map(producer).collect()),
        // Those in which something was written: a start forgets the others.
        epochs: (0..6)
            .map(|epoch| (epoch, log.end_offset_for_epoch(LeaderEpoch(epoch)).map(|end| end.end_offset)))
            .collect(),
        aborted,
    }
}

fn transactional(log: &Log, producer: i64, sequence: i32, count: usize) {
    let batch = RecordBatchBuilder::new(Offset(0))
        .producer(ProducerId(producer), ProducerEpoch(3), sequence)
        .transactional(true);
    write_batch(log, count, batch);
}

fn write(log: &Log, count: usize) {
    write_batch(log, count, RecordBatchBuilder::new(Offset(0)));
}

fn write_batch(log: &Log, count: usize, mut batch: RecordBatchBuilder) {
    (0..count).for_each(|n| batch.append(1_000_000, None, Some(format!("record {n}").as_bytes()), &[]));
    append_as(log, batch, AppendOrigin::Client, None);
}

fn marker(log: &Log, producer: i64, committed: bool) {
    let mut batch = RecordBatchBuilder::new(Offset(0))
        .producer(ProducerId(producer), ProducerEpoch(3), -1)
        .transactional(true)
        .control(true);
    batch.append_control(1_000_000, &ControlRecord::EndTxn(EndTxnMarker { committed, coordinator_epoch: 1 }));
    append_as(log, batch, AppendOrigin::Coordinator, None);
}

fn append_as(log: &Log, batch: RecordBatchBuilder, origin: AppendOrigin, guard: Option<VerificationGuard>) {
    let name = log.topic_partition().clone();
    let settings = ValidationConfig {
        partition: &name,
        origin,
        leader_epoch: LeaderEpoch(0),
        max_message_bytes: 1 << 20,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: i64::MAX,
        compression: TargetCompression::Producer,
        compacted: false,
    };
    let records = validate(batch.build(), &settings, 1_000_000).unwrap();
    let epoch = log.latest_epoch().unwrap_or(LeaderEpoch(0));
    log.append_as_leader(records, epoch, origin, AppendContext { guard, ..AppendContext::default() }).unwrap();
}

/// Small segments, and producers that need no verification.
fn config() -> Arc<TopicConfig> {
    Arc::new(TopicConfig { segment_bytes: 2000, index_interval_bytes: 100, ..TopicConfig::default() })
}

const UNVERIFIED: ProducerStateConfig =
    ProducerStateConfig { expiration_ms: 86_400_000, max_transaction_timeout_ms: 900_000, verification_enabled: false };

/// A log in `a` with all that a log can have.
fn fill(node: &Node, manager: &Arc<LogManager>) -> Arc<Log> {
    let id = TopicId(uuid::Uuid::from_u128(7));
    let new = NewLog { directory: Some(node.ids[0]), config: config(), ..new_log(id) };
    let log = manager.get_or_create(&partition("t", 0), new).unwrap();
    for (round, epoch) in [0, 2, 5].into_iter().enumerate() {
        log.assign_epoch(LeaderEpoch(epoch), log.log_end_offset()).unwrap();
        (0..20).for_each(|_| write(&log, 5));
        transactional(&log, 7, 4 * round as i32, 4);
        marker(&log, 7, epoch == 0);
    }
    transactional(&log, 9, 0, 3);
    // An epoch in which nothing is written.
    log.assign_epoch(LeaderEpoch(6), log.log_end_offset()).unwrap();
    log.advance_log_start_offset(Offset(13)).unwrap();
    log.delete_old_segments(1_000_000, log.log_end_offset()).unwrap();
    log.on_high_watermark(log.log_end_offset());
    manager.checkpoint_log_start_offsets();
    log
}

/// Moves a log as far as the disk lets it.
fn move_to(node: &Node, manager: &Arc<LogManager>, dir: &str) -> Result<(), String> {
    let name = partition("t", 0);
    let path = node.path(dir);
    let Some(logs) = manager.create_future(&name, path.to_str().unwrap()).map_err(|error| error.to_string())? else {
        return Ok(());
    };
    loop {
        logs.future.align_with(&logs.current).map_err(|error| error.to_string())?;
        while logs.future.copy_from(&logs.current).map_err(|error| error.to_string())? > 0 {}
        match manager.replace_with_future(&name, &logs) {
            Ok(exchange) => {
                exchange.log().on_high_watermark(exchange.log().log_end_offset());
                manager.finish_exchange(exchange);
                return Ok(());
            }
            Err(HandoverError::Differs) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// A log and a copy of it in `b`, which has all that the log had.
fn copied(node: &Node, manager: &Arc<LogManager>) -> FutureLog {
    let path = node.path("b");
    let logs = manager.create_future(&partition("t", 0), path.to_str().unwrap()).unwrap().unwrap();
    while logs.future.copy_from(&logs.current).unwrap() > 0 {}
    logs
}

fn node() -> Node {
    let mut node = Node::new();
    node.producers = UNVERIFIED;
    node
}

#[test]
fn a_moved_log_has_all_that_it_had() {
    let node = node();
    let (manager, _) = node.start();
    let log = fill(&node, &manager);
    let before = kept(&log);
    assert_eq!((before.aborted.len(), before.producers.len()), (2, 2));
    assert_eq!(before.bounds.2, Some(Offset(log.log_end_offset().0 - 3)));
    move_to(&node, &manager, "b").unwrap();
    let moved = manager.get(&partition("t", 0)).unwrap();
    assert!(!Arc::ptr_eq(&moved, &log) && log.is_offline());
    assert_eq!(manager.directory_of(&partition("t", 0)), Some(node.ids[1]));
    assert_eq!(kept(&moved), before);
    assert_eq!(moved.recovery_point(), moved.log_end_offset(), "all of it is on disk");
    assert_eq!(moved.latest_epoch(), Some(LeaderEpoch(6)));
    // Who read the old one reads on.
    assert_eq!(kept(&log).bytes, before.bytes);

    // What a transaction goes on with, and what a restart finds.
    transactional(&moved, 9, 3, 2);
    marker(&moved, 9, true);
    moved.on_high_watermark(moved.log_end_offset());
    let after = kept(&moved);
    assert_eq!(node.text(&format!("a/{RECOVERY_POINTS}")), "0\n0\n");
    assert_eq!(node.text(&format!("a/{LOG_START_OFFSETS}")), "0\n0\n");
    assert_eq!(node.text(&format!("b/{LOG_START_OFFSETS}")), "0\n1\nt 0 13\n");
    node.background.run_pending(Duration::from_secs(61));
    assert!(!node.files("a").iter().any(|name| name.starts_with("t-0")));
    drop((log, moved));
    drop(manager);
    let (manager, report) = node.start();
    assert_eq!((report.loaded, report.strays), (1, vec![]));
    let found = manager.get(&partition("t", 0)).unwrap();
    found.on_high_watermark(found.log_end_offset());
    assert_eq!(kept(&found), after);
    // And back, which finds the name free.
    move_to(&node, &manager, "a").unwrap();
    assert_eq!(kept(&manager.get(&partition("t", 0)).unwrap()), after);
    assert!(manager.futures().is_empty());
}

#[test]
fn a_copy_follows_what_its_log_loses() {
    let node = node();
    let (manager, _) = node.start();
    let log = fill(&node, &manager);
    let logs = copied(&node, &manager);
    // A leader's epoch has cut it, and others have written since.
    log.truncate_to(Offset(150)).unwrap();
    log.assign_epoch(LeaderEpoch(8), log.log_end_offset()).unwrap();
    (0..30).for_each(|_| write(&log, 5));
    logs.future.align_with(&log).unwrap();
    assert!(logs.future.log_end_offset() <= Offset(150));
    while logs.future.copy_from(&log).unwrap() > 0 {}
    // Retention has passed what was copied.
    log.truncate_fully_and_start_at(Offset(1000)).unwrap();
    write(&log, 5);
    assert!(matches!(manager.replace_with_future(&partition("t", 0), &logs), Err(HandoverError::Differs)));
    move_to(&node, &manager, "b").unwrap();
    let moved = manager.get(&partition("t", 0)).unwrap();
    assert_eq!(kept(&moved), kept(&log));
    assert_eq!((moved.log_start_offset(), moved.log_end_offset()), (Offset(1000), Offset(1005)));
}

/// The copy had all of the log when that began anew at its end, and went on from there with the transaction that was open.
#[test]
fn a_copy_of_a_log_that_began_anew_knows_no_producers_of_before() {
    let node = node();
    let (manager, _) = node.start();
    let log = fill(&node, &manager);
    let logs = copied(&node, &manager);
    log.truncate_fully_and_start_at(log.log_end_offset()).unwrap();
    log.assign_epoch(LeaderEpoch(8), log.log_end_offset()).unwrap();
    write(&log, 5);
    log.on_high_watermark(log.log_end_offset());
    move_to(&node, &manager, "b").unwrap();
    let before = kept(&log);
    assert_eq!((before.producers.len(), before.bounds.2), (0, None));
    assert_eq!(kept(&manager.get(&partition("t", 0)).unwrap()), before);
    drop((log, logs));
    drop(manager);
    // Else the start goes by the one of the exchange.
    for snapshot in node.files("b/t-0").iter().filter(|name| name.ends_with(".snapshot")) {
        std::fs::remove_file(node.path("b/t-0").join(snapshot)).unwrap();
    }
    let (manager, _) = node.start();
    let found = manager.get(&partition("t", 0)).unwrap();
    found.on_high_watermark(found.log_end_offset());
    assert_eq!(kept(&found), before);
}

#[test]
fn a_move_can_be_called_off_or_sent_elsewhere() {
    let node = node();
    let (manager, _) = node.start();
    let log = fill(&node, &manager);
    let name = partition("t", 0);
    let [a, b] = ["a", "b"].map(|dir| node.path(dir).to_str().unwrap().to_owned());
    let future = |files: Vec<String>, ending: &str| files.iter().filter(|name| name.ends_with(ending)).count();
    let first = manager.create_future(&name, &b).unwrap().unwrap();
    let again = manager.create_future(&name, &b).unwrap().unwrap();
    assert!(Arc::ptr_eq(&first.future, &again.future));
    assert_eq!(future(node.files("b"), "-future"), 1);
    assert_eq!(
        manager.describe(node.ids[1]),
        [DescribedLog { topic_partition: name.clone(), size: 0, log_end_offset: Offset(13), is_future: true }]
    );
    assert!(manager.create_future(&name, &a).unwrap().is_none());
    assert_eq!((future(node.files("b"), "-future"), future(node.files("b"), "-delete")), (0, 1));
    assert!(manager.futures().is_empty() && first.future.is_offline() && !log.is_offline());
    assert!(matches!(manager.create_future(&name, "/nowhere"), Err(MoveError::UnknownDir(_))));
    assert!(matches!(manager.create_future(&name, &format!("{b}/")), Err(MoveError::UnknownDir(_))));
    assert!(matches!(manager.create_future(&partition("u", 0), &b), Err(MoveError::NoLog)));
    let long = partition(&"x".repeat(214), 0);
    assert!(matches!(manager.create_future(&long, &b), Err(MoveError::NameTooLong)));
    // The topic goes in the midst of it.
    let last = manager.create_future(&name, &b).unwrap().unwrap();
    assert!(manager.delete(std::slice::from_ref(&name)).is_empty());
    assert!(last.future.is_offline() && manager.future(&name).is_none());
    assert_eq!(future(node.files("b"), "-future"), 0);
}

/// Until a log that was moved is removed, its directory has the partition's name. A move back in this time was renamed onto
/// it, and the refusal taken for a failed disk; and a new topic of the name would have been given what lies there.
#[test]
fn nobody_comes_in_between_an_exchange_and_the_removal_of_the_old_log() {
    let node = node();
    let (manager, _) = node.start();
    let log = fill(&node, &manager);
    let before = kept(&log);
    let name = partition("t", 0);
    let b = node.path("b").to_str().unwrap().to_owned();
    let logs = manager.create_future(&name, &b).unwrap().unwrap();
    while logs.future.copy_from(&log).unwrap() > 0 {}
    let exchange = manager.replace_with_future(&name, &logs).unwrap();
    std::thread::scope(|scope| {
        let back = scope.spawn(|| move_to(&node, &manager, "a"));
        assert!(node.files("a").contains(&"t-0".to_owned()) && manager.busy.lock().contains(&name));
        manager.finish_exchange(exchange);
        back.join().unwrap().unwrap();
    });
    assert!(manager.busy.lock().is_empty());
    assert_eq!(kept(&manager.get(&name).unwrap()), before);
    assert_eq!(manager.directory_of(&name), Some(node.ids[0]));
    assert!(node.failures.lock().is_empty());
    // A move that has come to its end cannot do so again.
    assert!(matches!(manager.replace_with_future(&name, &logs).map(drop), Err(HandoverError::Ended)));
}

/// Of two moves of a partition only the last one comes to its end, however alike their copies are.
#[test]
fn a_move_that_another_one_has_replaced_does_not_end_that_one() {
    let node = node();
    let (manager, _) = node.start();
    let log = fill(&node, &manager);
    let name = partition("t", 0);
    let [a, b] = ["a", "b"].map(|dir| node.path(dir).to_str().unwrap().to_owned());
    let first = manager.create_future(&name, &b).unwrap().unwrap();
    assert!(manager.create_future(&name, &a).unwrap().is_none());
    let second = manager.create_future(&name, &b).unwrap().unwrap();
    while second.future.copy_from(&log).unwrap() > 0 {}
    assert!(matches!(manager.replace_with_future(&name, &first).map(drop), Err(HandoverError::Ended)));
    manager.finish_exchange(manager.replace_with_future(&name, &second).unwrap());
    assert_eq!(manager.directory_of(&name), Some(node.ids[1]));
}

/// Something else has the name that the copy is to get: that is for a person to look at, but the disk is well.
#[test]
fn a_name_that_is_taken_is_no_failed_disk() {
    let node = node();
    let (manager, _) = node.start();
    let log = fill(&node, &manager);
    let in_the_way = node.path("b/t-0");
    for is_file in [true, false] {
        match is_file {
            true => fs::write(&in_the_way, "").unwrap(),
            false => fs::create_dir_all(in_the_way.join("x")).unwrap(),
        }
        let refused = move_to(&node, &manager, "b").unwrap_err();
        assert!(refused.starts_with("the copy cannot take the log's place: "), "{refused}");
        assert!(node.failures.lock().is_empty() && manager.future(&partition("t", 0)).is_some());
        write(&log, 1);
        match is_file {
            true => fs::remove_file(&in_the_way).unwrap(),
            false => fs::remove_dir_all(&in_the_way).unwrap(),
        }
    }
    let before = kept(&log);
    move_to(&node, &manager, "b").unwrap();
    assert_eq!(kept(&manager.get(&partition("t", 0)).unwrap()), before);
}

#[test]
fn a_directory_that_fails_ends_the_moves_to_it() {
    let node = node();
    let (manager, _) = node.start();
    let log = fill(&node, &manager);
    let name = partition("t", 0);
    let b = node.path("b").to_str().unwrap().to_owned();
    let logs = manager.create_future(&name, &b).unwrap().unwrap();
    logs.current.pause_cleaning(true);
    node.disk.fail_below(&node.path("b"));
    assert!(logs.future.copy_from(&log).is_err());
    assert!(manager.future(&name).is_none());
    assert_eq!(node.failures.lock()[0].partitions, []);
    write(&log, 1);
    assert!(matches!(manager.check_dir(&b), Err(MoveError::Storage(_))));
}

/// Each try to move a log to a full disk left a directory there, and the next start took the move up of which the client had
/// been told that it had failed.
#[test]
fn where_there_is_no_room_for_a_log_nothing_is_left_of_it() {
    for is_copy in [true, false] {
        for room in 0.. {
            let node = node();
            let (manager, _) = node.start();
            let name = if is_copy { partition("t", 0) } else { partition("u", 0) };
            fill(&node, &manager);
            let path = node.path("b");
            node.disk.room_left.store(room, Ordering::Relaxed);
            let made = match is_copy {
                true => {
                    manager.create_future(&name, path.to_str().unwrap()).map(drop).map_err(|error| error.to_string())
                }
                false => {
                    let new = NewLog { directory: Some(node.ids[1]), ..new_log(TopicId::random()) };
                    manager.get_or_create(&name, new).map(drop).map_err(|error| error.to_string())
                }
            };
            let was_full = node.disk.room_left.swap(i64::MAX, Ordering::Relaxed) < 0;
            assert!(was_full || made.is_ok(), "{made:?}");
            if !was_full {
                assert!(room > 2, "{room}");
                break;
            }
            // What can do without goes on.
            if made.is_err() {
                assert!(!node.files("b").iter().any(|name| name.contains("-0")), "{room}: {:?}", node.files("b"));
            }
            assert!(!manager.has_offline_dirs());
            assert!(!manager.look_for_room());
            node.clock.advance(Duration::from_secs(3));
            assert!(manager.look_for_room(), "{room}: nobody was told that it is full");
            if made.is_err() && is_copy {
                assert!(manager.create_future(&name, path.to_str().unwrap()).unwrap().is_some());
            }
        }
    }
}

/// What the checkpoint says of a log that was moved stayed as it was when the log was cut below it.
#[test]
fn the_checkpoints_follow_a_moved_log_that_is_cut() {
    let node = node();
    let (manager, _) = node.start();
    fill(&node, &manager);
    move_to(&node, &manager, "b").unwrap();
    let log = manager.get(&partition("t", 0)).unwrap();
    let end = log.log_end_offset();
    assert_eq!(node.text(&format!("b/{RECOVERY_POINTS}")), format!("0\n1\nt 0 {end}\n"));
    log.truncate_to(Offset(20)).unwrap();
    assert_eq!(node.text(&format!("b/{RECOVERY_POINTS}")), "0\n1\nt 0 20\n");
    log.truncate_fully_and_start_at(Offset(5)).unwrap();
    assert_eq!(node.text(&format!("b/{RECOVERY_POINTS}")), "0\n1\nt 0 5\n");
}

/// A power loss took records out of the copy of a lone replica. It was kept with a gap, as a log would be that nobody else has, and took
/// the place of the one that had them.
#[test]
fn what_a_copy_has_lost_is_copied_again() {
    let node = node();
    let (manager, _) = node.start();
    let log = fill(&node, &manager);
    let before = kept(&log);
    let path = node.path("b");
    let logs = manager.create_future(&partition("t", 0), path.to_str().unwrap()).unwrap().unwrap();
    while logs.future.copy_from(&logs.current).unwrap() > 0 {}
    let segments = logs.future.segments();
    let lost = logs.future.dir().join(format!("{:020}.log", segments[1].base_offset.0));
    assert!(segments.len() > 3);
    drop((log, logs, manager));
    fs::File::options().write(true).open(lost).unwrap().set_len(0).unwrap();

    let node = node.reborn();
    let manager = node.open();
    manager.load(&|_, _| Some(HostedPartition { config: config(), ..hosted() }), Arc::new(|_| {}));
    move_to(&node, &manager, "b").unwrap();
    let moved = manager.get(&partition("t", 0)).unwrap();
    assert_eq!(manager.directory_of(&partition("t", 0)), Some(node.ids[1]));
    assert_eq!(kept(&moved), before);
}

/// The process dies at each change of the disk that a move makes. The log is always there, whole and once, and the move
/// goes on.
#[test]
fn a_death_at_any_step_of_a_move_loses_nothing() {
    let mut steps = 0;
    loop {
        let named = steps as usize % 2;
        let node = node();
        let (manager, _) = node.start();
        let log = fill(&node, &manager);
        let before = kept(&log);
        node.disk.changes_left.store(steps, Ordering::Relaxed);
        let outcome = move_to(&node, &manager, "b");
        let died = node.disk.changes_left.load(Ordering::Relaxed) < 0;
        assert!(died || outcome.is_ok());
        drop((log, manager));

        let node = node.reborn();
        let manager = node.open();
        let directory = Some(node.ids[named]);
        let report =
            manager.load(&|_, _| Some(HostedPartition { config: config(), directory, ..hosted() }), Arc::new(|_| {}));
        assert_eq!(report.strays, Vec::<PathBuf>::new(), "step {steps}");
        let found = manager.get(&partition("t", 0)).unwrap();
        found.on_high_watermark(found.log_end_offset());
        assert_eq!(kept(&found), before, "step {steps}");
        let current = |dir: &str| node.files(dir).iter().filter(|name| *name == "t-0").count();
        assert_eq!(current("a") + current("b"), 1, "step {steps}");
        move_to(&node, &manager, "b").unwrap();
        assert_eq!(kept(&manager.get(&partition("t", 0)).unwrap()), before, "step {steps}");
        assert_eq!((current("a"), current("b")), (0, 1), "step {steps}");
        if !died {
            break;
        }
        steps += 1;
    }
    assert!(steps > 30, "{steps}");
}

/// A copy and its log that both have the partition's name, by a crash in the midst of an exchange: the move is finished, also when the
/// copy took records meanwhile. The log was set aside then, and told of as an error, though it held nothing that its copy had not.
#[test]
fn of_two_logs_the_one_that_goes_further_counts() {
    for (extra, named) in [(0, 0), (0, 1), (3, 0), (3, 1)] {
        let node = node();
        let (manager, _) = node.start();
        let log = fill(&node, &manager);
        let end = log.log_end_offset();
        move_to(&node, &manager, "b").unwrap();
        if extra > 0 {
            write(&manager.get(&partition("t", 0)).unwrap(), extra);
        }
        let old = node.files("a").into_iter().find(|name| name.ends_with("-delete")).unwrap();
        fs::rename(node.path("a").join(old), node.path("a/t-0")).unwrap();
        drop((log, manager));
        let manager = node.open();
        let directory = Some(node.ids[named]);
        manager.load(&|_, _| Some(HostedPartition { config: config(), directory, ..hosted() }), Arc::new(|_| {}));
        let found = manager.get(&partition("t", 0)).unwrap();
        assert_eq!(found.log_end_offset(), end.plus(extra as i64));
        let kept_in = if extra > 0 { 1 } else { named };
        assert_eq!(manager.directory_of(&partition("t", 0)), Some(node.ids[kept_in]));
        let loser = ["b", "a"][kept_in];
        assert!(node.files(loser).iter().any(|name| name.ends_with("-delete")), "{:?}", node.files(loser));
        assert!(!node.files(loser).iter().any(|name| name == "t-0"));
    }
}

/// What a person does to a log that is out of the way, before both are found.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Done {
    Nothing,
    /// It took other records at the same offsets, in the same epoch.
    Written,
    /// Its copy lost some in its middle.
    CopyDamaged,
    /// Records of it were deleted from its copy.
    CopyStartsLater,
    /// Nobody knows of which leader its records are.
    WithoutEpochs,
}

/// Only a log of which everything is in the other one is deleted.
#[test]
fn of_two_logs_the_one_with_records_of_its_own_is_set_aside() {
    let name = partition("t", 0);
    for done in [Done::Nothing, Done::Written, Done::CopyDamaged, Done::CopyStartsLater, Done::WithoutEpochs] {
        let node = node();
        let (manager, _) = node.start();
        let log = fill(&node, &manager);
        move_to(&node, &manager, "b").unwrap();
        let old = node.files("a").into_iter().find(|name| name.ends_with("-delete")).unwrap();
        fs::rename(node.path("a").join(old), node.path("a/t-0")).unwrap();
        if done == Done::CopyStartsLater {
            let copy = manager.get(&name).unwrap();
            copy.advance_log_start_offset(log.log_start_offset().plus(1)).unwrap();
            manager.checkpoint_log_start_offsets();
        }
        drop((log, manager));
        if done == Done::Written {
            fs::rename(node.path("b/t-0"), node.path("aside")).unwrap();
            let (manager, _) = node.start();
            write(&manager.get(&name).unwrap(), 2);
            drop(manager);
            fs::rename(node.path("aside"), node.path("b/t-0")).unwrap();
        }
        if let Done::WithoutEpochs = done {
            for dir in ["a", "b"] {
                let epochs = node.path(dir).join("t-0/leader-epoch-checkpoint");
                fs::remove_file(epochs).unwrap();
                for file in node.files(&format!("{dir}/t-0")).iter().filter(|file| file.ends_with(".log")) {
                    let path = node.path(dir).join("t-0").join(file);
                    let mut bytes = fs::read(&path).unwrap();
                    let mut at = 0;
                    while at < bytes.len() {
                        let size = u32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap());
                        bytes[at + 12..at + 16].copy_from_slice(&(-1i32).to_be_bytes());
                        at += 12 + size as usize;
                    }
                    fs::write(&path, bytes).unwrap();
                }
            }
        }
        let manager = node.open();
        let load = |manager: &Arc<LogManager>| {
            let hosted = HostedPartition { config: config(), directory: Some(node.ids[1]), ..hosted() };
            manager.load(&|_, _| Some(hosted.clone()), Arc::new(|_| {}))
        };
        if matches!(done, Done::Written | Done::CopyDamaged) {
            // The copy goes further.
            drop(manager);
            fs::rename(node.path("a/t-0"), node.path("aside")).unwrap();
            let manager = node.open();
            load(&manager);
            (0..2).for_each(|_| write(&manager.get(&name).unwrap(), 3));
            drop(manager);
            fs::rename(node.path("aside"), node.path("a/t-0")).unwrap();
            if done == Done::CopyDamaged {
                let log = node.files("b/t-0").into_iter().find(|name| name.ends_with(".log")).unwrap();
                let path = node.path("b/t-0").join(log);
                let mut bytes = fs::read(&path).unwrap();
                bytes[100] ^= 1;
                fs::write(&path, bytes).unwrap();
                fs::remove_file(node.path("b").join(RECOVERY_POINTS)).unwrap();
            }
            let manager = node.open();
            load(&manager);
        } else {
            load(&manager);
        }
        let ending = match done {
            // Of logs that reach as far the one goes that has nothing more.
            Done::Nothing | Done::CopyStartsLater | Done::WithoutEpochs => "-delete",
            Done::Written | Done::CopyDamaged => "-stray",
        };
        let files = node.files("a");
        assert!(files.iter().any(|name| name.ends_with(ending)), "{done:?}: {files:?}");
        assert!(!files.iter().any(|name| name == "t-0"), "{done:?}: {files:?}");
    }
}

/// If the directory of the one that counts failed while they were loaded, it was entered all the same, and took records in a
/// directory that was given up.
#[test]
fn of_two_logs_none_is_served_from_a_directory_that_fails_while_they_are_loaded() {
    use std::sync::atomic::AtomicBool;
    let name = partition("t", 0);
    for (further, failing, first) in (0..12).map(|case| (case % 3, case / 3 % 2, case / 6)) {
        let node = node();
        let (manager, _) = node.start();
        for at in [0, 1] {
            let new = NewLog { directory: Some(node.ids[at]), ..new_log(hosted().topic_id) };
            manager.get_or_create(&partition("u", at as i32), new).unwrap();
        }
        fill(&node, &manager);
        let counts = further % 2;
        let to = ["a", "b"][counts];
        if to == "a" {
            move_to(&node, &manager, "b").unwrap();
        }
        move_to(&node, &manager, to).unwrap();
        let log = manager.get(&name).unwrap();
        if further < 2 {
            write(&log, 3);
        }
        let end = log.log_end_offset();
        let other = ["b", "a"][counts];
        let old = node.files(other).into_iter().find(|name| name.ends_with("-delete")).unwrap();
        fs::rename(node.path(other).join(old), node.path(other).join("t-0")).unwrap();
        drop((log, manager));

        let node = node.reborn();
        let manager = node.open();
        let is_loaded = Arc::new(AtomicBool::new(false));
        let (second, seen) = (node.path(["b", "a"][first]).join("t-0"), is_loaded.clone());
        node.disk.before_open(move |path| {
            while path.starts_with(&second) && !seen.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        });
        let (weak, of_failing) = (Arc::downgrade(&manager), partition("u", failing as i32));
        let directory = Some(node.ids[counts]);
        manager.load(
            &|_, _| Some(HostedPartition { config: config(), directory, ..hosted() }),
            Arc::new(move |event| {
                let LoadEvent::Loaded { partition, loaded, total, .. } = event else { return };
                is_loaded.fetch_or(&*partition.topic == "t", Ordering::SeqCst);
                if loaded == total {
                    let log = weak.upgrade().unwrap().get(&of_failing).unwrap();
                    log.disk_failed(&io::Error::from_raw_os_error(libc::EIO));
                }
            }),
        );
        assert_eq!(node.failures.lock().len(), 1);
        let case = format!("{further} goes further, {failing} fails, {first} is first");
        if counts == failing {
            assert_eq!(manager.get(&name).err(), Some(LogLookupError::Offline), "{case}");
        } else {
            assert_eq!(manager.get(&name).unwrap().log_end_offset(), end, "{case}");
            assert_eq!(manager.directory_of(&name), Some(node.ids[counts]), "{case}");
        }
        manager.shutdown(1, &BTreeMap::new());
        drop(manager);
        // The next start decides.
        assert!(["a/t-0", "b/t-0"].iter().all(|path| node.path(path).exists()), "{case}");
        let node = node.reborn();
        let manager = node.open();
        manager.load(&|_, _| Some(HostedPartition { config: config(), directory, ..hosted() }), Arc::new(|_| {}));
        assert_eq!(manager.get(&name).unwrap().log_end_offset(), end, "{case}");
        assert_eq!(manager.directory_of(&name), Some(node.ids[counts]), "{case}");
    }
}

#[test]
fn a_copy_without_its_log_takes_its_place_unless_that_may_be_missing() {
    for (named, one_fails) in [(0, false), (1, false), (0, true), (1, true)] {
        let node = node();
        let (manager, _) = node.start();
        let log = fill(&node, &manager);
        let path = node.path("b");
        let logs = manager.create_future(&partition("t", 0), path.to_str().unwrap()).unwrap().unwrap();
        while logs.future.copy_from(&log).unwrap() > 0 {}
        drop((log, logs, manager));
        if one_fails {
            node.disk.fail_below(&node.path("a"));
        } else {
            fs::remove_dir_all(node.path("a/t-0")).unwrap();
        }
        let manager = node.open();
        let directory = Some(node.ids[named]);
        manager.load(&|_, _| Some(HostedPartition { config: config(), directory, ..hosted() }), Arc::new(|_| {}));
        let is_there = manager.get(&partition("t", 0)).is_ok();
        assert_eq!(is_there, !one_fails || named == 1, "{named} {one_fails}");
        assert_eq!(manager.futures().len(), usize::from(!is_there));
    }
}

#[test]
fn logs_are_made_where_they_are_wished_for_and_not_where_they_are_not() {
    let node = node();
    let (manager, _) = node.start();
    let id = TopicId::random();
    manager.prefer_dir(&partition("t", 0), node.ids[1]);
    manager.prefer_dir(&partition("t", 1), node.ids[1]);
    manager.get_or_create(&partition("t", 0), new_log(id)).unwrap();
    // A wish counts more than the metadata, as in Kafka.
    let named = NewLog { directory: Some(node.ids[0]), ..new_log(id) };
    manager.get_or_create(&partition("t", 1), named).unwrap();
    assert_eq!(node.ids.map(|dir| manager.logs_in(dir).len()), [0, 2]);
    manager.update_cordoned(&[node.path("a").to_str().unwrap().to_owned()]);
    manager.get_or_create(&partition("t", 2), new_log(id)).unwrap();
    assert_eq!(node.ids.map(|dir| manager.logs_in(dir).len()), [0, 3]);
    assert!(manager.is_cordoned(node.ids[0]) && !manager.is_cordoned(node.ids[1]));
    manager.update_cordoned(&[]);
    manager.get_or_create(&partition("t", 3), new_log(id)).unwrap();
    assert_eq!(node.ids.map(|dir| manager.logs_in(dir).len()), [1, 3]);
    // What must lie somewhere lies in the first one, as in Kafka.
    manager.update_cordoned(&["*".to_owned()]);
    for n in 4..8 {
        manager.get_or_create(&partition("t", n), new_log(id)).unwrap();
    }
    assert_eq!(node.ids.map(|dir| manager.logs_in(dir).len()), [5, 3]);
    assert_eq!(manager.cordoned_dirs(), node.ids);
}

#[test]
fn paths_are_made_absolute_as_java_does() {
    let here = std::env::current_dir().unwrap();
    let text = |path: &str| absolute(Path::new(path)).into_os_string().into_string().unwrap();
    assert_eq!(text("/a//b/"), "/a/b");
    assert_eq!(text("/a/./b"), "/a/./b");
    assert_eq!(text("x/y"), format!("{}/x/y", here.display()));
    assert_eq!(text("./x"), format!("{}/./x", here.display()));
}
