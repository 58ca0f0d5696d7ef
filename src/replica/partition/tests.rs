//! A partition over a real log, on a disk that can be made to fail, with flushes that happen when the test says so.

use std::time::Duration;

use super::*;
use crate::clock::ManualClock;
use crate::metadata::image::LeaderRecoveryState;
use crate::record::batch::batches;
use crate::record::builder::RecordBatchBuilder;
use crate::storage::background::Background;
use crate::storage::faulty_disk::{Faults, FaultyDisk};
use crate::storage::file_cache::FileCache;
use crate::storage::log::{LogContext, LogParams};
use crate::storage::producer_state::ProducerStateConfig;
use crate::storage::recovery::DamagePolicy;
use crate::types::{DirectoryId, ProducerEpoch, ProducerId};

const NOW_MS: i64 = 1_000_000;
const LOCAL: BrokerId = BrokerId(1);
const OTHER: BrokerId = BrokerId(2);

/// A partition's directory, and the threads that flush it.
struct Fixture {
    dir: tempfile::TempDir,
    context: LogContext,
    faults: Arc<Faults>,
    config: TopicConfig,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with(TopicConfig::default())
    }

    /// Each record is to be flushed.
    fn flushing() -> Fixture {
        Fixture::with(TopicConfig { flush_messages: 1, ..TopicConfig::default() })
    }

    /// Flushes happen in [`Fixture::flush`] alone.
    fn with(config: TopicConfig) -> Fixture {
        Fixture::on_threads(config, Background::stepped())
    }

    fn on_threads(config: TopicConfig, background: Background) -> Fixture {
        let (disk, faults) = FaultyDisk::with_faults();
        let files = FileCache::new(disk.clone(), background.clone(), 8);
        let context = LogContext { files, disk, clock: ManualClock::new(NOW_MS), background };
        Fixture { dir: tempfile::tempdir().unwrap(), context, faults, config }
    }

    fn open(&self, high_watermark: i64) -> Arc<Partition> {
        let params = LogParams {
            dir: self.dir.path().join("t-0"),
            topic_partition: TopicPartition::new("t", 0),
            config: Arc::new(self.config.clone()),
            log_start_offset: Offset(0),
            recovery_point: Offset(0),
            gaps_up_to: Offset(0),
            clean_shutdown: false,
            damage: DamagePolicy::KeepReadable,
            producers: ProducerStateConfig { verification_enabled: false, ..ProducerStateConfig::default() },
            progress: None,
            on_failure: None,
        };
        let (log, _) = Log::open(&self.context, params).unwrap();
        Arc::new(Partition::new(log, Offset(high_watermark)))
    }

    /// One that this broker leads alone, in epoch 0.
    fn leader(&self) -> Arc<Partition> {
        let partition = self.open(0);
        partition.apply(&led_by(LOCAL, 0), LOCAL).unwrap();
        partition
    }

    /// Does what waits to be flushed.
    fn flush(&self) {
        self.context.background.run_pending(Duration::ZERO);
    }

    fn syncs(&self) -> u64 {
        self.faults.syncs.load(Ordering::Relaxed)
    }
}

fn led_by(leader: BrokerId, epoch: i32) -> PartitionRegistration {
    PartitionRegistration {
        replicas: vec![LOCAL],
        directories: vec![DirectoryId::UNASSIGNED],
        isr: vec![LOCAL],
        removing_replicas: Vec::new(),
        adding_replicas: Vec::new(),
        elr: Vec::new(),
        last_known_elr: Vec::new(),
        leader: (leader != BrokerId(-1)).then_some(leader),
        leader_recovery_state: LeaderRecoveryState::Recovered,
        leader_epoch: LeaderEpoch(epoch),
        partition_epoch: 0,
    }
}

fn nobody(epoch: i32) -> PartitionRegistration {
    led_by(BrokerId(-1), epoch)
}

fn batch_at(timestamp: i64, values: &[&str]) -> Bytes {
    let mut builder = RecordBatchBuilder::new(Offset(0));
    values.iter().for_each(|value| builder.append(timestamp, None, Some(value.as_bytes()), &[]));
    builder.build()
}

fn batch(values: &[&str]) -> Bytes {
    batch_at(NOW_MS, values)
}

fn append(partition: &Arc<Partition>, values: &[&str]) -> Appended {
    partition.append(batch(values), RequiredAcks::Leader, NOW_MS).unwrap()
}

const FETCH: PartitionFetch = PartitionFetch {
    fetch_offset: Offset(0),
    max_bytes: 1 << 20,
    min_one_batch: false,
    isolation: FetchIsolation::HighWatermark,
    follower: None,
    current_leader_epoch: None,
    last_fetched_epoch: None,
};

/// The base offsets of the batches that a read gives.
fn offsets(read: &PartitionRead) -> Vec<i64> {
    let mut bytes = bytes::BytesMut::new();
    read.records.read_into(&mut bytes).unwrap();
    batches(&bytes).map(|batch| batch.unwrap().base_offset().0).collect()
}

fn read_all(partition: &Partition, isolation: FetchIsolation) -> Vec<i64> {
    offsets(&partition.read(&PartitionFetch { isolation, ..FETCH }, Wait::ForDisk).unwrap())
}

/// What a wait has come to; `None`: it goes on.
fn outcome(wait: &mut Option<oneshot::Receiver<Reached>>) -> Option<Reached> {
    wait.as_mut().expect("there is something to wait for").try_recv().ok()
}

// --- the high watermark ----------------------------------------------------------------------------------------------

#[test]
fn records_are_told_of_when_they_are_in_the_log() {
    let fixture = Fixture::new();
    let partition = fixture.leader();
    let ready = Arc::new(ReadySet::default());
    let _watch = partition.watch(ready.clone(), 3);
    for acks in [RequiredAcks::Leader, RequiredAcks::AllInSync] {
        let before = partition.high_watermark();
        let appended = partition.append(batch(&["a", "b"]), acks, NOW_MS).unwrap();
        assert_eq!((appended.info.first_offset, appended.info.last_offset), (before, before.plus(1)));
        assert!(appended.wait.is_none());
        assert_eq!(partition.high_watermark(), before.plus(2));
        assert_eq!(ready.take(), [3]);
    }
    assert_eq!(read_all(&partition, FetchIsolation::HighWatermark), [0, 2]);
    assert_eq!(fixture.syncs(), 1, "the epoch alone");
}

#[test]
fn with_flush_messages_nothing_is_told_before_the_disk_has_it() {
    let fixture = Fixture::flushing();
    let partition = fixture.leader();
    let ready = Arc::new(ReadySet::default());
    let _watch = partition.watch(ready.clone(), 0);
    let syncs = fixture.syncs();
    let mut waits: Vec<_> = (0..3).map(|_| append(&partition, &["a"]).wait).collect();
    assert_eq!((partition.high_watermark(), partition.log().log_end_offset()), (Offset(0), Offset(3)));
    assert!(ready.take().is_empty());
    assert!(waits.iter_mut().all(|wait| outcome(wait).is_none()));
    for isolation in [FetchIsolation::HighWatermark, FetchIsolation::TransactionCommitted] {
        assert!(read_all(&partition, isolation).is_empty());
    }
    assert_eq!(read_all(&partition, FetchIsolation::LogEnd), [0, 1, 2]);

    fixture.flush();
    assert_eq!(partition.high_watermark(), Offset(3));
    assert_eq!(ready.take(), [0]);
    assert!(waits.iter_mut().all(|wait| outcome(wait) == Some(Reached::Yes)));
    assert_eq!(read_all(&partition, FetchIsolation::HighWatermark), [0, 1, 2]);
    assert_eq!(fixture.syncs(), syncs + 1, "one for all three");
}

#[test]
fn with_a_larger_flush_messages_only_a_due_flush_is_waited_for() {
    let fixture = Fixture::with(TopicConfig { flush_messages: 2, ..TopicConfig::default() });
    let partition = fixture.leader();
    assert!(append(&partition, &["a"]).wait.is_none());
    assert_eq!(partition.high_watermark(), Offset(1));
    let mut second = append(&partition, &["b"]).wait;
    assert_eq!((outcome(&mut second), partition.high_watermark()), (None, Offset(1)));
    fixture.flush();
    assert_eq!((outcome(&mut second), partition.high_watermark()), (Some(Reached::Yes), Offset(2)));
}

/// Several at once: no more is ever told of than `flush.messages` allows to be lost, whoever tells of it.
#[test]
fn appends_side_by_side_do_not_tell_of_each_other() {
    const FLUSH_MESSAGES: i64 = 3;
    let config = TopicConfig { flush_messages: FLUSH_MESSAGES, ..TopicConfig::default() };
    let fixture = Fixture::on_threads(config, Background::new(1));
    let partition = fixture.leader();
    let check = |acknowledged: Offset| {
        let told = partition.high_watermark();
        // Looked at later, it may only be further.
        let durable = partition.log().recovery_point();
        assert!(told >= acknowledged && told.0 - durable.0 < FLUSH_MESSAGES, "{told} of which {durable} is durable");
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..300 {
                    let Appended { info, wait } = append(&partition, &["a"]);
                    check(Offset(0));
                    if let Some(wait) = wait {
                        assert_eq!(wait.blocking_recv(), Ok(Reached::Yes));
                    }
                    check(info.last_offset.plus(1));
                }
            });
        }
    });
    assert_eq!(partition.high_watermark(), Offset(1200));
}

/// A duplicate is acknowledged when what it repeats is durable.
#[test]
fn a_duplicate_waits_for_the_same_flush() {
    let fixture = Fixture::flushing();
    let partition = fixture.leader();
    let builder = RecordBatchBuilder::new(Offset(0));
    let mut builder = builder.producer(ProducerId(7), ProducerEpoch(0), 0);
    builder.append(NOW_MS, None, Some(b"a"), &[]);
    let records = builder.build();
    let mut waits: Vec<_> = (0..2)
        .map(|n| {
            let appended = partition.append(records.clone(), RequiredAcks::Leader, NOW_MS).unwrap();
            assert_eq!((appended.info.first_offset, appended.info.duplicate), (Offset(0), n == 1));
            appended.wait
        })
        .collect();
    assert!(waits.iter_mut().all(|wait| outcome(wait).is_none()));
    fixture.flush();
    assert!(waits.iter_mut().all(|wait| outcome(wait) == Some(Reached::Yes)));
    let again = partition.append(records, RequiredAcks::AllInSync, NOW_MS).unwrap();
    assert!(again.info.duplicate && again.wait.is_none());
    assert_eq!(partition.high_watermark(), Offset(1));
}

/// The topic changes (it gets more partitions, say) while a flush is under way.
#[test]
fn a_decision_that_changes_nothing_here_lets_nothing_through() {
    let fixture = Fixture::flushing();
    let partition = fixture.leader();
    let mut wait = append(&partition, &["a"]).wait;
    partition.apply(&led_by(LOCAL, 0), LOCAL).unwrap();
    assert_eq!((outcome(&mut wait), partition.high_watermark()), (None, Offset(0)));
    fixture.flush();
    assert_eq!((outcome(&mut wait), partition.high_watermark()), (Some(Reached::Yes), Offset(1)));
}

/// After a kill the log may hold what no disk has confirmed.
#[test]
fn what_a_kill_left_is_flushed_before_it_is_led() {
    let fixture = Fixture::flushing();
    append(&fixture.leader(), &["a", "b"]);
    let partition = fixture.open(0);
    assert!(partition.log().recovery_point() < Offset(2));
    partition.apply(&led_by(LOCAL, 1), LOCAL).unwrap();
    assert!(partition.log().recovery_point() >= Offset(2));
    assert_eq!(read_all(&partition, FetchIsolation::HighWatermark), [0]);

    // Without flush.messages a start waits for no disk on behalf of what is in the log.
    let fixture = Fixture::new();
    append(&fixture.leader(), &["a", "b"]);
    let partition = fixture.open(0);
    partition.apply(&led_by(LOCAL, 1), LOCAL).unwrap();
    assert_eq!((partition.high_watermark(), partition.log().recovery_point()), (Offset(2), Offset(0)));
}

#[test]
fn a_high_watermark_that_was_noted_is_within_the_log() {
    let fixture = Fixture::new();
    append(&fixture.leader(), &["a", "b"]);
    for (noted, expected) in [(-5, 0), (1, 1), (2, 2), (100, 2)] {
        assert_eq!(fixture.open(noted).high_watermark(), Offset(expected));
    }
}

// --- leadership --------------------------------------------------------------------------------------------------------

#[test]
fn requests_of_another_leadership_are_fenced() {
    use LeaderError::{FencedLeaderEpoch, NotLeaderOrFollower, UnknownLeaderEpoch};
    let fixture = Fixture::new();
    let partition = fixture.leader();
    append(&partition, &["a"]);
    let epoch = |epoch: i32| Some(LeaderEpoch(epoch));
    let check =
        |current: Option<LeaderEpoch>, expected: Result<(), LeaderError>, follower_too: Result<(), LeaderError>| {
            let read = partition.read(&PartitionFetch { current_leader_epoch: current, ..FETCH }, Wait::ForDisk);
            let list = |leader_only| {
                partition.list_offset(OffsetSpec::Latest, FetchIsolation::HighWatermark, current, leader_only)
            };
            let leader_error = |error| match error {
                PartitionReadError::Leader(error) => error,
                error => panic!("{error}"),
            };
            assert_eq!(read.map(drop).map_err(leader_error), expected);
            assert_eq!(list(true).map(drop).map_err(leader_error), expected);
            assert_eq!(list(false).map(drop).map_err(leader_error), follower_too);
            assert_eq!(partition.end_offset_for_epoch(current, LeaderEpoch(0)).map(drop), expected);
        };
    partition.apply(&led_by(LOCAL, 3), LOCAL).unwrap();
    check(None, Ok(()), Ok(()));
    check(epoch(3), Ok(()), Ok(()));
    check(epoch(2), Err(FencedLeaderEpoch), Err(FencedLeaderEpoch));
    check(epoch(4), Err(UnknownLeaderEpoch), Err(UnknownLeaderEpoch));

    partition.apply(&led_by(OTHER, 4), LOCAL).unwrap();
    check(None, Err(NotLeaderOrFollower), Ok(()));
    check(epoch(4), Err(NotLeaderOrFollower), Ok(()));
    check(epoch(3), Err(FencedLeaderEpoch), Err(FencedLeaderEpoch));
    partition.apply(&nobody(5), LOCAL).unwrap();
    check(epoch(5), Err(NotLeaderOrFollower), Ok(()));
    let refused = partition.append(batch(&["b"]), RequiredAcks::Leader, NOW_MS).unwrap_err();
    assert!(matches!(refused, PartitionAppendError::Leader(NotLeaderOrFollower)));
    assert!(matches!(partition.delete_records(None), Err(DeleteRecordsError::Leader(NotLeaderOrFollower))));

    // Led again: it goes on where it was, and each record tells in which epoch it was written.
    partition.apply(&led_by(LOCAL, 6), LOCAL).unwrap();
    append(&partition, &["b"]);
    let end = |epoch: i32| partition.end_offset_for_epoch(None, LeaderEpoch(epoch)).unwrap().unwrap();
    assert_eq!(end(0), EpochEndOffset { leader_epoch: LeaderEpoch(0), end_offset: Offset(1) });
    assert_eq!(end(6), EpochEndOffset { leader_epoch: LeaderEpoch(6), end_offset: Offset(2) });
}

#[test]
fn who_waits_learns_that_the_leadership_is_lost() {
    for how in ["another leads", "it stops"] {
        let fixture = Fixture::flushing();
        let partition = fixture.leader();
        let ready = Arc::new(ReadySet::default());
        let _watch = partition.watch(ready.clone(), 0);
        let mut wait = append(&partition, &["a"]).wait;
        match how {
            "it stops" => partition.stop(),
            _ => partition.apply(&led_by(OTHER, 1), LOCAL).unwrap(),
        }
        assert_eq!(outcome(&mut wait), Some(Reached::Never), "{how}");
        assert_eq!(ready.take(), [0], "{how}");
        // One that had checked the leadership before and comes too late to be told with the others.
        assert_eq!(partition.wait_for(Offset(9)).try_recv(), Ok(Reached::Never), "{how}");
        let refused = partition.append(batch(&["b"]), RequiredAcks::Leader, NOW_MS).unwrap_err();
        assert!(matches!(refused, PartitionAppendError::Leader(LeaderError::NotLeaderOrFollower)), "{how}");
        // The flush that was under way does no harm.
        fixture.flush();
        let refused = partition.read(&FETCH, Wait::ForDisk).unwrap_err();
        assert!(matches!(refused, PartitionReadError::Leader(LeaderError::NotLeaderOrFollower)), "{how}");
    }
}

#[test]
fn a_new_leadership_is_news_and_the_same_one_is_not() {
    let fixture = Fixture::new();
    let partition = fixture.leader();
    let ready = Arc::new(ReadySet::default());
    let watch = partition.watch(ready.clone(), 5);
    assert!(watch.is_of(&partition) && !watch.is_of(&fixture.open(0)));
    partition.apply(&led_by(LOCAL, 0), LOCAL).unwrap();
    assert!(ready.take().is_empty());
    partition.apply(&led_by(LOCAL, 1), LOCAL).unwrap();
    assert_eq!(ready.take(), [5]);
    drop(watch);
    partition.apply(&led_by(LOCAL, 2), LOCAL).unwrap();
    assert!(ready.take().is_empty());
}

#[test]
fn as_many_replicas_as_min_insync_replicas_must_be_in_sync() {
    let fixture = Fixture::with(TopicConfig { min_insync_replicas: 2, ..TopicConfig::default() });
    let partition = fixture.leader();
    let append = |registration: PartitionRegistration, acks| {
        partition.apply(&registration, LOCAL).unwrap();
        match partition.append(batch(&["a"]), acks, NOW_MS) {
            Ok(_) => Ok(()),
            Err(PartitionAppendError::NotEnoughReplicas { in_sync, min_insync_replicas }) => {
                Err((in_sync, min_insync_replicas))
            }
            Err(error) => panic!("{error}"),
        }
    };
    // No more than there are can be asked for.
    assert_eq!(append(led_by(LOCAL, 0), RequiredAcks::AllInSync), Ok(()));
    let of_three = |isr: &[BrokerId]| PartitionRegistration {
        replicas: vec![LOCAL, OTHER, BrokerId(3)],
        isr: isr.to_vec(),
        ..led_by(LOCAL, 0)
    };
    assert_eq!(append(of_three(&[LOCAL, OTHER]), RequiredAcks::AllInSync), Ok(()));
    assert_eq!(append(of_three(&[LOCAL]), RequiredAcks::AllInSync), Err((1, 2)));
    assert_eq!(append(of_three(&[LOCAL]), RequiredAcks::Leader), Ok(()));
}

// --- failure -------------------------------------------------------------------------------------------------------------

#[test]
fn a_flush_that_fails_is_an_acknowledgement_that_never_comes() {
    let fixture = Fixture::flushing();
    let partition = fixture.leader();
    let ready = Arc::new(ReadySet::default());
    let _watch = partition.watch(ready.clone(), 0);
    let mut waits: Vec<_> = (0..2).map(|_| append(&partition, &["a"]).wait).collect();
    fixture.faults.syncs_fail.store(true, Ordering::Relaxed);
    fixture.flush();
    assert!(waits.iter_mut().all(|wait| outcome(wait) == Some(Reached::Never)));
    assert_eq!(ready.take(), [0], "who waits for records hears of it, too");
    assert_eq!(partition.high_watermark(), Offset(0));
    // Whatever the disk says now.
    fixture.faults.syncs_fail.store(false, Ordering::Relaxed);
    assert_offline(&partition);
}

#[test]
fn a_full_disk_refuses_records_until_there_is_room() {
    let fixture = Fixture::new();
    let partition = fixture.leader();
    append(&partition, &["a"]);
    fixture.faults.room.store(10, Ordering::Relaxed);
    let failed = partition.append(batch(&["b"]), RequiredAcks::Leader, NOW_MS).unwrap_err();
    assert!(matches!(failed, PartitionAppendError::Log(AppendError::NoRoom(_))), "{failed}");
    // It leads on, in a new epoch, too, and can be read.
    partition.apply(&led_by(LOCAL, 1), LOCAL).unwrap();
    assert_eq!((partition.high_watermark(), partition.log_end_offset()), (Offset(1), Offset(1)));
    fixture.faults.room.store(0, Ordering::Relaxed);
    partition.append(batch(&["b"]), RequiredAcks::Leader, NOW_MS).unwrap_err();
    fixture.faults.room.store(-1, Ordering::Relaxed);
    append(&partition, &["b"]);
    assert_eq!((partition.high_watermark(), partition.log().latest_epoch()), (Offset(2), Some(LeaderEpoch(1))));
}

#[test]
fn an_epoch_that_cannot_be_written_is_not_led() {
    let fixture = Fixture::new();
    let partition = fixture.leader();
    fixture.faults.syncs_fail.store(true, Ordering::Relaxed);
    let refused = partition.apply(&led_by(LOCAL, 1), LOCAL).unwrap_err();
    assert!(matches!(refused, PartitionApplyError::Epoch(ChangeError::Io(_))), "{refused}");
    assert!(partition.append(batch(&["a"]), RequiredAcks::Leader, NOW_MS).is_err());
}

fn assert_offline(partition: &Arc<Partition>) {
    let refused = partition.append(batch(&["x"]), RequiredAcks::Leader, NOW_MS).unwrap_err();
    assert!(matches!(refused, PartitionAppendError::Leader(LeaderError::Offline)), "{refused}");
    // Before any other error: clients are to look for another broker, not for another epoch.
    let fetch = PartitionFetch { current_leader_epoch: Some(LeaderEpoch(77)), ..FETCH };
    let refused = partition.read(&fetch, Wait::ForDisk).unwrap_err();
    assert!(matches!(refused, PartitionReadError::Leader(LeaderError::Offline)), "{refused}");
    let listed = partition.list_offset(OffsetSpec::Latest, FetchIsolation::LogEnd, None, false).unwrap_err();
    assert!(matches!(listed, PartitionReadError::Leader(LeaderError::Offline)), "{listed}");
    assert!(matches!(partition.delete_records(None), Err(DeleteRecordsError::Leader(LeaderError::Offline))));
}

/// Jobs come by when a log was closed or deleted under them: that is no failure of any disk.
#[test]
fn retention_of_a_closed_log_is_nothing() {
    let fixture = Fixture::new();
    let partition = fixture.leader();
    append(&partition, &["a"]);
    partition.log().close().unwrap();
    partition.delete_old_segments(i64::MAX);
    assert_eq!(partition.log_start_offset(), Offset(0));
}

// --- reading ---------------------------------------------------------------------------------------------------------------

#[test]
fn a_read_keeps_to_its_limits() {
    let fixture = Fixture::new();
    let partition = fixture.leader();
    let size = batch(&["0123456789"]).len() as i32;
    for _ in 0..3 {
        append(&partition, &["0123456789"]);
    }
    let read = |fetch: PartitionFetch| {
        let read = partition.read(&fetch, Wait::ForDisk).unwrap();
        (read.records.len() as i32, read.has_more)
    };
    assert_eq!(read(FETCH), (3 * size, true));
    assert_eq!(read(PartitionFetch { fetch_offset: Offset(1), ..FETCH }), (2 * size, true));
    assert_eq!(read(PartitionFetch { fetch_offset: Offset(3), ..FETCH }), (0, false));
    assert_eq!(read(PartitionFetch { max_bytes: 2 * size - 1, ..FETCH }), (2 * size - 1, true), "the last one is cut");
    // Less than a batch: nothing, unless one is to come in any case. There is something all the same.
    assert_eq!(read(PartitionFetch { max_bytes: size - 1, ..FETCH }), (0, true));
    assert_eq!(read(PartitionFetch { max_bytes: 0, ..FETCH }), (0, true));
    assert_eq!(read(PartitionFetch { max_bytes: 0, min_one_batch: true, ..FETCH }), (size, true));

    let refused = |fetch: PartitionFetch| partition.read(&fetch, Wait::ForDisk).unwrap_err();
    for fetch_offset in [Offset(-1), Offset(4)] {
        let error = refused(PartitionFetch { fetch_offset, ..FETCH });
        let expected = (fetch_offset, Offset(0), Offset(3));
        match error {
            PartitionReadError::Log(ReadError::OutOfRange { offset, log_start_offset, log_end_offset }) => {
                assert_eq!((offset, log_start_offset, log_end_offset), expected);
            }
            error => panic!("{error}"),
        }
    }
    let negative = PartitionFetch { max_bytes: -1, ..FETCH };
    assert!(matches!(refused(negative), PartitionReadError::NegativeSize));
    assert_eq!(read(PartitionFetch { fetch_offset: Offset(3), ..negative }), (0, false));
}

#[test]
fn there_are_no_followers_yet() {
    let fixture = Fixture::new();
    let partition = fixture.leader();
    let follower = PartitionFetch { follower: Some(OTHER), ..FETCH };
    let refused = |fetch: &PartitionFetch| match partition.read(fetch, Wait::ForDisk).unwrap_err() {
        PartitionReadError::Leader(error) => error,
        error => panic!("{error}"),
    };
    assert_eq!(refused(&follower), LeaderError::NotLeaderOrFollower);
    let with_epoch = PartitionFetch { current_leader_epoch: Some(LeaderEpoch(0)), ..follower };
    assert_eq!(refused(&with_epoch), LeaderError::UnknownLeaderEpoch);
}

#[test]
fn a_read_that_must_not_wait_says_so() {
    let fixture = Fixture::new();
    // Far enough back not to be remembered.
    let partition = fixture.leader();
    for _ in 0..100 {
        append(&partition, &["a"]);
    }
    fixture.faults.is_cold.store(true, Ordering::Relaxed);
    let blocked = partition.read(&FETCH, Wait::Never).unwrap_err();
    assert!(matches!(blocked, PartitionReadError::Log(ReadError::WouldBlock)), "{blocked}");
    assert_eq!(read_all(&partition, FetchIsolation::HighWatermark).len(), 100);
}

/// KIP-595: what a fetcher has beyond the end of its last epoch here, it has to give up.
#[test]
fn a_fetcher_whose_log_parts_from_this_one_is_told_where() {
    let fixture = Fixture::new();
    let partition = fixture.leader();
    append(&partition, &["a", "b"]);
    partition.apply(&led_by(LOCAL, 2), LOCAL).unwrap();
    append(&partition, &["c", "d"]);
    partition.delete_records(Some(Offset(1))).unwrap();
    let read = |fetch_offset: i64, last_fetched_epoch: i32| {
        let fetch = PartitionFetch {
            fetch_offset: Offset(fetch_offset),
            last_fetched_epoch: Some(LeaderEpoch(last_fetched_epoch)),
            ..FETCH
        };
        let read = partition.read(&fetch, Wait::ForDisk).map_err(|error| match error {
            PartitionReadError::Log(ReadError::OutOfRange { .. }) => "out of range",
            error => panic!("{error}"),
        })?;
        assert!(read.diverging_epoch.is_none() || read.records.is_empty());
        Ok(read.diverging_epoch.map(|end| (end.leader_epoch.0, end.end_offset.0)))
    };
    assert_eq!(read(2, 0), Ok(None));
    assert_eq!(read(4, 2), Ok(None));
    assert_eq!(read(3, 0), Ok(Some((0, 2))), "beyond the end of epoch 0");
    assert_eq!(read(2, 1), Ok(Some((0, 2))), "of an epoch that is not known here");
    assert_eq!(read(5, 2), Ok(Some((2, 4))));
    assert_eq!(read(2, 3), Err("out of range"), "of an epoch that is yet to come");
    assert_eq!(read(0, 0), Err("out of range"), "before the log's start");
}

// --- offsets ---------------------------------------------------------------------------------------------------------------

#[test]
fn offsets_are_found_by_what_is_asked_for() {
    let fixture = Fixture::new();
    let partition = fixture.leader();
    let list = |spec| {
        let found = partition.list_offset(spec, FetchIsolation::HighWatermark, None, true).unwrap()?;
        Some((found.timestamp, found.offset.0, found.leader_epoch.map(|epoch| epoch.0)))
    };
    assert_eq!(list(OffsetSpec::Earliest), Some((-1, 0, Some(0))));
    assert_eq!(list(OffsetSpec::Latest), Some((-1, 0, Some(0))));
    assert_eq!(list(OffsetSpec::MaxTimestamp), None);
    assert_eq!(list(OffsetSpec::Timestamp(0)), None);

    for timestamp in [100, 300, 200] {
        partition.append(batch_at(timestamp, &["a", "b"]), RequiredAcks::Leader, NOW_MS).unwrap();
    }
    partition.apply(&led_by(LOCAL, 4), LOCAL).unwrap();
    partition.append(batch_at(250, &["c"]), RequiredAcks::Leader, NOW_MS).unwrap();
    assert_eq!(list(OffsetSpec::Earliest), Some((-1, 0, Some(0))));
    assert_eq!(list(OffsetSpec::Latest), Some((-1, 7, Some(4))));
    assert_eq!(list(OffsetSpec::MaxTimestamp), Some((300, 2, Some(0))));
    assert_eq!(list(OffsetSpec::Timestamp(0)), Some((100, 0, Some(0))));
    assert_eq!(list(OffsetSpec::Timestamp(101)), Some((300, 2, Some(0))));
    assert_eq!(list(OffsetSpec::Timestamp(301)), None);
    partition.delete_records(Some(Offset(4))).unwrap();
    assert_eq!(list(OffsetSpec::Earliest), Some((-1, 4, Some(0))));
    assert_eq!(list(OffsetSpec::Timestamp(201)), Some((250, 6, Some(4))));
}

#[test]
fn an_offset_that_may_not_be_read_is_not_found() {
    let fixture = Fixture::flushing();
    let partition = fixture.leader();
    partition.append(batch_at(100, &["a"]), RequiredAcks::Leader, NOW_MS).unwrap();
    fixture.flush();
    partition.append(batch_at(200, &["b"]), RequiredAcks::Leader, NOW_MS).unwrap();
    let list =
        |spec, isolation| partition.list_offset(spec, isolation, None, true).unwrap().map(|found| found.offset.0);
    for isolation in [FetchIsolation::HighWatermark, FetchIsolation::TransactionCommitted] {
        assert_eq!(list(OffsetSpec::Latest, isolation), Some(1));
        assert_eq!(list(OffsetSpec::Timestamp(50), isolation), Some(0));
        assert_eq!(list(OffsetSpec::Timestamp(150), isolation), None);
        assert_eq!(list(OffsetSpec::MaxTimestamp, isolation), None);
    }
    assert_eq!(list(OffsetSpec::Latest, FetchIsolation::LogEnd), Some(2));
    assert_eq!(list(OffsetSpec::Timestamp(150), FetchIsolation::LogEnd), Some(1));
    assert_eq!(list(OffsetSpec::MaxTimestamp, FetchIsolation::LogEnd), Some(1));
}

/// Records of an open transaction, and those behind them, are not for readers of committed records.
#[test]
fn committed_records_end_where_a_transaction_is_open() {
    let fixture = Fixture::new();
    let partition = fixture.leader();
    append(&partition, &["a"]);
    let builder = RecordBatchBuilder::new(Offset(0)).transactional(true);
    let mut builder = builder.producer(ProducerId(7), ProducerEpoch(0), 0);
    builder.append(NOW_MS, None, Some(b"open"), &[]);
    partition.append(builder.build(), RequiredAcks::AllInSync, NOW_MS).unwrap();
    append(&partition, &["b"]);

    assert_eq!((partition.high_watermark(), partition.last_stable_offset()), (Offset(3), Offset(1)));
    assert_eq!(read_all(&partition, FetchIsolation::HighWatermark), [0, 1, 2]);
    assert_eq!(read_all(&partition, FetchIsolation::TransactionCommitted), [0]);
    let read = partition
        .read(&PartitionFetch { isolation: FetchIsolation::TransactionCommitted, ..FETCH }, Wait::ForDisk)
        .unwrap();
    assert_eq!((read.high_watermark, read.last_stable_offset), (Offset(3), Offset(1)));
    assert_eq!(read.aborted_transactions, Some(Vec::new()));
    let found =
        partition.list_offset(OffsetSpec::Latest, FetchIsolation::TransactionCommitted, None, true).unwrap().unwrap();
    assert_eq!(found.offset, Offset(1));
}

// --- deletion --------------------------------------------------------------------------------------------------------------

#[test]
fn records_are_deleted_up_to_what_may_be_read() {
    let fixture = Fixture::flushing();
    let partition = fixture.leader();
    append(&partition, &["a", "b", "c"]);
    fixture.flush();
    append(&partition, &["not durable yet"]);
    let ready = Arc::new(ReadySet::default());
    let _watch = partition.watch(ready.clone(), 0);
    let refused = |offset: i64| match partition.delete_records(Some(Offset(offset))) {
        Err(DeleteRecordsError::OutOfRange { offset, high_watermark }) => (offset.0, high_watermark.0),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(4), (4, 3));
    assert_eq!(refused(-1), (-1, 3));
    assert_eq!(partition.delete_records(Some(Offset(0))).unwrap(), Offset(0));
    assert!(ready.take().is_empty(), "nothing has changed");
    assert_eq!(partition.delete_records(Some(Offset(2))).unwrap(), Offset(2));
    assert_eq!(ready.take(), [0]);
    assert_eq!(partition.delete_records(Some(Offset(1))).unwrap(), Offset(2), "never backwards");
    assert_eq!(partition.delete_records(None).unwrap(), Offset(3));
    assert_eq!(partition.log_start_offset(), Offset(3));
}

#[test]
fn nothing_is_deleted_where_the_policy_is_compaction_alone() {
    use crate::config::topic::CleanupPolicy;
    for (delete, compact) in [(false, true), (false, false), (true, true)] {
        let cleanup_policy = CleanupPolicy { delete, compact };
        let fixture = Fixture::with(TopicConfig { cleanup_policy, ..TopicConfig::default() });
        let partition = fixture.leader();
        match partition.delete_records(None) {
            Err(DeleteRecordsError::Policy) => assert!(compact && !delete),
            other => assert!((delete || !compact) && other.is_ok()),
        }
    }
}

#[test]
fn retention_is_told_to_who_watches() {
    let config = TopicConfig { retention_ms: 10, ..TopicConfig::default() };
    let fixture = Fixture::with(config);
    let partition = fixture.leader();
    append(&partition, &["a"]);
    let ready = Arc::new(ReadySet::default());
    let _watch = partition.watch(ready.clone(), 0);
    partition.delete_old_segments(NOW_MS + 10);
    assert!(ready.take().is_empty());
    partition.delete_old_segments(NOW_MS + 11);
    assert_eq!(ready.take(), [0]);
    assert_eq!(partition.log_start_offset(), Offset(1));
}

// --- settings --------------------------------------------------------------------------------------------------------------

#[test]
fn a_topics_settings_decide_how_its_records_are_checked() {
    let name = TopicPartition::new("t", 0);
    let check = |config: &TopicConfig| validation_config(&name, config, AppendOrigin::Client, LeaderEpoch(3));
    let config = TopicConfig {
        max_message_bytes: 17,
        message_timestamp_before_max_ms: 18,
        message_timestamp_after_max_ms: 19,
        compression_gzip_level: 1,
        compression_lz4_level: 2,
        compression_zstd_level: 3,
        ..TopicConfig::default()
    };
    let checked = check(&config);
    assert_eq!((checked.max_message_bytes, checked.leader_epoch), (17, LeaderEpoch(3)));
    assert_eq!((checked.timestamp_before_max_ms, checked.timestamp_after_max_ms), (18, 19));
    assert_eq!((checked.timestamp_type, checked.compacted), (TimestampType::CreateTime, false));
    assert_eq!(checked.compression, TargetCompression::Producer);
    for (compression_type, expected) in [
        (CompressionType::Uncompressed, (Codec::None, 0)),
        (CompressionType::Gzip, (Codec::Gzip, 1)),
        (CompressionType::Snappy, (Codec::Snappy, 0)),
        (CompressionType::Lz4, (Codec::Lz4, 2)),
        (CompressionType::Zstd, (Codec::Zstd, 3)),
    ] {
        let config = TopicConfig { compression_type, ..config.clone() };
        let (codec, level) = expected;
        assert_eq!(check(&config).compression, TargetCompression::Codec { codec, level });
    }
    let config = TopicConfig { message_timestamp_type: topic::TimestampType::LogAppendTime, ..config };
    assert_eq!(check(&config).timestamp_type, TimestampType::LogAppendTime);
}

#[test]
fn a_changed_setting_holds_for_the_next_append() {
    let fixture = Fixture::new();
    let partition = fixture.leader();
    append(&partition, &["a"]);
    partition.update_config(Arc::new(TopicConfig { max_message_bytes: 10, ..TopicConfig::default() }));
    let refused = partition.append(batch(&["b"]), RequiredAcks::Leader, NOW_MS).unwrap_err();
    assert!(matches!(refused, PartitionAppendError::Invalid(ValidateError::TooLarge(_))), "{refused}");
    assert!(append_fails_cleanly(&partition), "it goes on when the setting allows it");
}

fn append_fails_cleanly(partition: &Arc<Partition>) -> bool {
    partition.update_config(Arc::new(TopicConfig { flush_messages: 1, ..TopicConfig::default() }));
    let appended = append(partition, &["c"]);
    appended.info.first_offset == Offset(1) && appended.info.flush_due.is_some() && appended.wait.is_some()
}

/// After a crash the log's recovery has read all transactions anew, and nothing advances the high watermark of a log that
/// was replicated to its end: readers of committed records would have to wait for the next record.
#[test]
fn transactions_below_a_known_high_watermark_are_stable() {
    let fixture = crate::storage::fixture::Fixture::unpack_only("damaged-partitions-unclean", "whole-0");
    let context = crate::storage::fixture::context();
    let (log, _) = fixture.open(&context, &TopicPartition::new("whole", 0), DamagePolicy::KeepReadable);
    let partition = Partition::new(log, Offset(102));
    assert_eq!((partition.high_watermark(), partition.last_stable_offset()), (Offset(102), Offset(102)));
    // The marker of the transaction from 40 on stands at 50.
    let (log, _) = fixture.open(&context, &TopicPartition::new("whole", 0), DamagePolicy::KeepReadable);
    assert_eq!(Partition::new(log, Offset(50)).last_stable_offset(), Offset(40));
}
