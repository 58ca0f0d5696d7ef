//! Sessions by the rules of KIP-227, and against a model that reads everything again at every fetch.

use kafka_protocol::protocol::StrBytes;
use proptest::prelude::*;

use super::*;

/// A request about partitions of the topic `t` at offset 0.
fn request(session_id: i32, session_epoch: i32, partitions: &[i32]) -> FetchRequest {
    let partitions: Vec<(i32, i64)> = partitions.iter().map(|&partition| (partition, 0)).collect();
    request_at(session_id, session_epoch, &partitions)
}

fn request_at(session_id: i32, session_epoch: i32, partitions: &[(i32, i64)]) -> FetchRequest {
    let mut request = FetchRequest::default();
    (request.session_id, request.session_epoch) = (session_id, session_epoch);
    let partitions = partitions.iter().map(|&(partition, offset)| FetchPartition {
        partition: PartitionId(partition),
        fetch_offset: Offset(offset),
        partition_max_bytes: 1000,
        ..FetchPartition::default()
    });
    request.push_topic(StrBytes::from_static_str("t"), TopicId::ZERO, partitions.collect());
    request
}

fn forget(partitions: &[i32]) -> Vec<ForgottenTopic> {
    vec![ForgottenTopic {
        name: StrBytes::from_static_str("t"),
        topic_id: TopicId::ZERO,
        partitions: partitions.iter().map(|&partition| PartitionId(partition)).collect(),
    }]
}

/// The partitions of slots, in their order.
fn named(slots: &FetchSlots, which: &[usize]) -> Vec<i32> {
    which.iter().map(|&slot| slots.get(slot).unwrap().partition.0).collect()
}

/// Makes a session of these partitions by a full fetch; returns its id.
fn open(cache: &FetchSessionCache, partitions: &[i32], now_ms: i64) -> i32 {
    open_as(cache, partitions, false, now_ms)
}

fn open_as(cache: &FetchSessionCache, partitions: &[i32], privileged: bool, now_ms: i64) -> i32 {
    let context = cache.begin(&request(0, 0, partitions), false, now_ms).unwrap();
    let FetchContext::Full(slots) = context else { panic!("a full fetch that asks for a session") };
    cache.create(slots, false, privileged, now_ms)
}

/// Continues a session; `None`: it is not there.
fn is_there(cache: &FetchSessionCache, id: i32, epoch: i32, now_ms: i64) -> bool {
    match cache.begin(&request(id, epoch, &[]), false, now_ms) {
        Ok(FetchContext::Incremental { .. }) => true,
        Err(ErrorCode::FetchSessionIdNotFound) => false,
        Ok(_) => panic!("no incremental fetch"),
        Err(code) => panic!("{code:?}"),
    }
}

#[test]
fn a_request_is_full_or_goes_on_where_its_session_is() {
    let cache = FetchSessionCache::new(10);
    let kind = |session_id, epoch, by_id| match cache.begin(&request(session_id, epoch, &[0]), by_id, 0) {
        Ok(FetchContext::Sessionless(slots)) => Ok(("sessionless", slots.lock().len())),
        Ok(FetchContext::Full(slots)) => Ok(("full", slots.lock().len())),
        Ok(FetchContext::Incremental { slots, .. }) => Ok(("incremental", slots.lock().len())),
        Err(code) => Err(code),
    };
    let id = open(&cache, &[0, 1, 2], 0);
    // session id, epoch, by topic ids, what it is; in this order
    let other = id ^ 1;
    for (session_id, epoch, by_id, expected) in [
        (0, 0, false, Ok(("full", 1))),
        (0, -1, false, Ok(("sessionless", 1))),
        (0, 1, false, Err(ErrorCode::FetchSessionIdNotFound)),
        (0, -2, false, Err(ErrorCode::FetchSessionIdNotFound)),
        (other, 0, false, Ok(("full", 1))),
        (other, -1, false, Ok(("sessionless", 1))),
        (other, 1, false, Err(ErrorCode::FetchSessionIdNotFound)),
        (id, 2, false, Err(ErrorCode::InvalidFetchSessionEpoch)),
        (id, -2, false, Err(ErrorCode::InvalidFetchSessionEpoch)),
        (id, i32::MIN, false, Err(ErrorCode::InvalidFetchSessionEpoch)),
        // The epoch is looked at first.
        (id, 2, true, Err(ErrorCode::InvalidFetchSessionEpoch)),
        (id, 1, true, Err(ErrorCode::FetchSessionTopicIdError)),
        (id, 1, false, Ok(("incremental", 3))),
        (id, 1, false, Err(ErrorCode::InvalidFetchSessionEpoch)),
        (id, 2, false, Ok(("incremental", 3))),
        // Full ones end the session they name.
        (id, 0, false, Ok(("full", 1))),
        (id, 3, false, Err(ErrorCode::FetchSessionIdNotFound)),
    ] {
        assert_eq!(kind(session_id, epoch, by_id), expected, "{session_id} (of {id}) at {epoch}");
    }
    let id = open(&cache, &[0], 0);
    assert_eq!(kind(id, -1, true), Ok(("sessionless", 1)));
    assert_eq!(kind(id, 1, false), Err(ErrorCode::FetchSessionIdNotFound));
}

#[test]
fn epochs_go_round_and_never_through_zero() {
    assert_eq!([0, 1, i32::MAX - 1, i32::MAX].map(next_epoch), [1, 2, i32::MAX, 1]);
    assert_eq!([-1, -2, i32::MIN].map(next_epoch), [-1; 3]);
    let cache = FetchSessionCache::new(1);
    let id = open(&cache, &[0], 0);
    cache.sessions.lock().by_id[&id].slots.lock().epoch = i32::MAX;
    assert!(is_there(&cache, id, i32::MAX, 0));
    assert!(is_there(&cache, id, 1, 0));
}

#[test]
fn a_fetch_that_was_overtaken_knows_it() {
    let cache = FetchSessionCache::new(1);
    let id = open(&cache, &[0], 0);
    let begin = |epoch| match cache.begin(&request(id, epoch, &[]), false, 0) {
        Ok(FetchContext::Incremental { epoch, slots, .. }) => (epoch, slots),
        _ => panic!("no incremental fetch"),
    };
    let (first, slots) = begin(1);
    assert!(!slots.lock().is_beyond(first));
    let (second, same) = begin(2);
    assert!(Arc::ptr_eq(&slots, &same));
    assert!(slots.lock().is_beyond(first) && !slots.lock().is_beyond(second));
    // Its session being gone is another matter, as in Kafka.
    cache.begin(&request(id, -1, &[]), false, 0).unwrap();
    assert!(!slots.lock().is_beyond(second));
}

/// Whoever waits for the session's last request hears that there is a next one.
#[tokio::test]
async fn a_fetch_that_is_overtaken_is_woken() {
    let cache = FetchSessionCache::new(1);
    let id = open(&cache, &[0], 0);
    let FetchContext::Incremental { slots, .. } = cache.begin(&request(id, 1, &[]), false, 0).unwrap() else {
        panic!()
    };
    let ready = slots.lock().ready.clone();
    // That of its own beginning.
    ready.changed().await;
    let waiting = tokio::spawn(async move { ready.changed().await });
    assert!(is_there(&cache, id, 2, 0));
    tokio::time::timeout(std::time::Duration::from_secs(60), waiting).await.expect("it is woken").unwrap();
}

#[test]
fn partitions_are_read_in_the_order_they_came_and_those_with_records_last() {
    let mut slots = FetchSlots::of(&request_at(0, 0, &[(5, 1), (3, 2), (5, 3), (1, 4)]));
    // One that is named twice has its first place and its last offset.
    let all = slots.candidates();
    assert_eq!(named(&slots, &all), [5, 3, 1]);
    let offsets: Vec<i64> = all.iter().map(|&slot| slots.get(slot).unwrap().fetch_offset.0).collect();
    assert_eq!(offsets, [3, 2, 4]);

    let answer = Answered {
        has_records: true,
        high_watermark: Offset(9),
        log_start_offset: Offset(0),
        must_tell: false,
        is_error: false,
    };
    slots.answered(all[0], &answer);
    slots.answered(all[2], &Answered { has_records: false, ..answer });
    slots.settle(all);
    let again = slots.candidates();
    assert_eq!(named(&slots, &again), [3, 1, 5]);
    slots.settle(Vec::new());
    assert!(slots.candidates().is_empty());
}

#[test]
fn what_is_ready_stays_until_it_is_settled() {
    let mut slots = FetchSlots::of(&request(0, 0, &[0, 1, 2]));
    slots.candidates();
    slots.settle(Vec::new());
    slots.ready.mark(1);
    assert_eq!(slots.candidates(), [1]);
    slots.ready.mark(0);
    assert_eq!(slots.candidates(), [0, 1], "the one before was given up");
    slots.ready.mark(2);
    slots.settle(vec![1]);
    assert_eq!(slots.candidates(), [1, 2], "what came after the look is looked at by the next");
    slots.forget(&forget(&[1, 7]));
    assert_eq!(slots.candidates(), [2]);
    assert_eq!(slots.len(), 2);
}

#[test]
fn a_place_that_is_free_is_taken_again() {
    let mut slots = FetchSlots::of(&request(0, 0, &[0, 1, 2]));
    let all = slots.candidates();
    slots.settle(Vec::new());
    slots.forget(&forget(&[1]));
    assert!(slots.get(all[1]).is_none());
    slots.update(&request(0, 0, &[8]));
    let new = slots.candidates();
    assert_eq!((named(&slots, &new), slots.slots.len()), (vec![8], 3));
    assert_eq!(new[0], all[1]);
    // It has nothing of what was there before.
    let answer = Answered {
        has_records: false,
        high_watermark: Offset(-1),
        log_start_offset: Offset(-1),
        must_tell: false,
        is_error: false,
    };
    assert!(!slots.answered(new[0], &answer));
    assert!(!slots.answered(99, &answer), "nor is anything said of a place that never was");
}

#[test]
fn another_reader_of_the_session_is_told_by_its_own_bounds() {
    let cache = FetchSessionCache::new(1);
    let id = open(&cache, &[0, 1], 0);
    let mut epoch = 0;
    let mut candidates = |isolation_level, replica_id| {
        epoch += 1;
        let mut next = request(id, epoch, &[]);
        (next.isolation_level, next.replica_id) = (isolation_level, BrokerId(replica_id));
        let context = cache.begin(&next, false, 0).unwrap();
        let mut slots = context.slots().lock();
        let found = slots.candidates();
        slots.settle(Vec::new());
        found
    };
    candidates(0, -1);
    assert!(candidates(0, -1).is_empty());
    assert_eq!(candidates(1, -1), [0, 1]);
    assert!(candidates(1, -1).is_empty());
    assert_eq!(candidates(1, -2), [0, 1]);
}

#[test]
fn only_what_is_new_is_told() {
    let mut slots = FetchSlots::of(&request(0, 0, &[0]));
    let nothing = Answered {
        has_records: false,
        high_watermark: Offset(10),
        log_start_offset: Offset(0),
        must_tell: false,
        is_error: false,
    };
    let mut tell = |answer: Answered| slots.answered(0, &answer);
    assert!(tell(Answered { ..nothing }), "at first");
    assert!(!tell(Answered { ..nothing }));
    assert!(tell(Answered { high_watermark: Offset(11), ..nothing }));
    assert!(!tell(Answered { high_watermark: Offset(11), ..nothing }));
    assert!(tell(Answered { high_watermark: Offset(10), ..nothing }), "whichever way it went");
    assert!(tell(Answered { log_start_offset: Offset(1), ..nothing }));
    assert!(tell(Answered { ..nothing }));
    for _ in 0..2 {
        assert!(tell(Answered { has_records: true, ..nothing }), "records at all times");
        assert!(tell(Answered { must_tell: true, ..nothing }));
    }
    for _ in 0..2 {
        assert!(tell(Answered { is_error: true, ..nothing }));
    }
    assert!(tell(Answered { ..nothing }), "that the error is over");
    assert!(!tell(Answered { ..nothing }));
}

// --- how many there are ----------------------------------------------------------------------------------------------------

#[test]
fn a_session_gives_way_when_it_is_idle_or_had_its_time() {
    let first = |now_ms: i64, partitions: &[i32], uses: &[i64]| {
        let cache = FetchSessionCache::new(1);
        let old = open(&cache, &[0, 1], 0);
        for (epoch, &used_ms) in (1..).zip(uses) {
            assert!(is_there(&cache, old, epoch, used_ms));
        }
        let new = open(&cache, partitions, now_ms);
        assert_eq!(is_there(&cache, old, uses.len() as i32 + 1, now_ms), new == 0, "one of them is there");
        new != 0
    };
    // now, partitions of the new session, uses of the old one, whether it gives way
    let (idle, young) = (EVICTION_MS + 1, EVICTION_MS);
    assert!(!first(0, &[0, 1, 2], &[]));
    assert!(!first(young, &[0, 1, 2], &[]));
    assert!(first(idle, &[0], &[]), "idle: even to a smaller one");
    // Used lately, it gives way to a larger one, once it has been used beyond its time.
    assert!(!first(idle, &[0, 1, 2], &[young]));
    assert!(!first(idle, &[0], &[idle]));
    assert!(!first(idle, &[0, 1], &[idle]));
    assert!(first(idle, &[0, 1, 2], &[idle]));
}

#[test]
fn of_several_the_oldest_or_the_smallest_gives_way() {
    let idle = EVICTION_MS + 1;
    let cache = FetchSessionCache::new(3);
    let (large, small, third) = (open(&cache, &[0, 1, 2], 0), open(&cache, &[0], 1), open(&cache, &[0, 1], 2));
    assert!(is_there(&cache, large, 1, 3));
    // `small` was used longest ago, and is the only one that is idle.
    let new = open(&cache, &[0, 1], 1 + idle);
    assert!(new != 0 && !is_there(&cache, small, 1, 1 + idle));
    // Now all are in use; of those that had their time, `third` is the smallest.
    assert!(is_there(&cache, large, 2, 1 + idle + 1));
    assert!(is_there(&cache, third, 1, 2 + idle));
    assert_eq!(open(&cache, &[0], 2 + idle), 0, "smaller than any");
    let newer = open(&cache, &[0, 1, 2], 2 + idle);
    assert!(newer != 0 && !is_there(&cache, third, 2, 2 + idle));
    assert!(is_there(&cache, large, 3, 2 + idle) && is_there(&cache, new, 1, 2 + idle));
}

/// A session counts with the partitions that it has, not with those it began with.
#[test]
fn the_size_of_a_session_is_that_of_its_last_use() {
    let idle = EVICTION_MS + 1;
    let cache = FetchSessionCache::new(1);
    let old = open(&cache, &[0, 1, 2], 0);
    let mut shrinking = request(old, 1, &[]);
    shrinking.forgotten_topics = forget(&[1, 2]);
    cache.begin(&shrinking, false, idle).unwrap();
    assert_ne!(open(&cache, &[5, 6], idle), 0);
    assert!(!is_there(&cache, old, 2, idle));
}

#[test]
fn followers_come_before_consumers() {
    let cache = FetchSessionCache::new(2);
    let (consumer, follower) = (open(&cache, &[0, 1, 2], 0), open_as(&cache, &[0], true, 0));
    // Whatever its size and however young it is, a consumer's session gives way to a follower's; not the reverse.
    let other = open_as(&cache, &[0], true, 0);
    assert!(other != 0 && !is_there(&cache, consumer, 1, 0));
    assert_eq!(open(&cache, &[0, 1, 2, 3], 0), 0);
    assert_eq!(open_as(&cache, &[0, 1, 2, 3], true, 0), 0, "nor one follower's to another's");
    assert!(is_there(&cache, follower, 1, 0) && is_there(&cache, other, 1, 0));
    // After their time consumers still come after them, however large.
    let late = EVICTION_MS + 1;
    assert!(is_there(&cache, follower, 2, late) && is_there(&cache, other, 2, late));
    assert_eq!(open(&cache, &[0, 1, 2, 3], late), 0);
    assert_ne!(open_as(&cache, &[0, 1], true, late), 0);
}

#[test]
fn without_room_there_are_no_sessions() {
    let cache = FetchSessionCache::new(0);
    assert_eq!(open(&cache, &[0], 0), 0);
    let cache = FetchSessionCache::new(2000);
    let mut ids: Vec<i32> = (0..2000).map(|_| open(&cache, &[0], 0)).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), ids[0] > 0), (2000, true), "each has an id of its own, and none is 0");
    let sessions = cache.sessions.lock();
    assert_eq!((sessions.by_id.len(), sessions.by_use.len()), (2000, 2000));
}

// --- against a model -------------------------------------------------------------------------------------------------------

/// A partition as it is: where its records are, or that it cannot be read.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Actual {
    log_start: i64,
    high_watermark: i64,
    is_failing: bool,
}

/// What an answer says of a partition: offset of the first record, if there are any, high watermark, log start, error.
type Told = (i32, Option<i64>, i64, i64, bool);

fn read(partition: i32, offset: i64, actual: &Actual, has_room: bool) -> Told {
    if actual.is_failing || offset < actual.log_start {
        return (partition, None, -1, -1, true);
    }
    let has_records = has_room && offset < actual.high_watermark;
    (partition, has_records.then_some(offset), actual.high_watermark, actual.log_start, false)
}

/// As Kafka does it: every partition of the session is read at every fetch, and compared with what was told last.
#[derive(Default)]
struct Model {
    /// Partition, offset, and what was told last: high watermark and log start.
    partitions: Vec<(i32, i64, i64, i64)>,
}

impl Model {
    fn take(&mut self, updates: &[(i32, i64)], forgotten: &[i32]) {
        for &(partition, offset) in updates {
            match self.partitions.iter_mut().find(|known| known.0 == partition) {
                Some(known) => known.1 = offset,
                None => self.partitions.push((partition, offset, -1, -1)),
            }
        }
        self.partitions.retain(|known| !forgotten.contains(&known.0));
    }

    /// `room`: how many partitions' records fit.
    fn fetch(&mut self, actual: &[Actual], room: usize, tell_all: bool) -> Vec<Told> {
        let mut left = room;
        let mut told = Vec::new();
        let mut with_records = Vec::new();
        for known in &mut self.partitions {
            let answer = read(known.0, known.1, &actual[known.0 as usize], left > 0);
            let (_, records, high_watermark, log_start, is_error) = answer;
            left -= usize::from(records.is_some());
            if tell_all || records.is_some() || is_error || (known.2, known.3) != (high_watermark, log_start) {
                told.push(answer);
            }
            (known.2, known.3) = (if is_error { -1 } else { high_watermark }, log_start);
            if records.is_some() {
                with_records.push(known.0);
            }
        }
        for partition in with_records {
            let at = self.partitions.iter().position(|known| known.0 == partition).unwrap();
            let known = self.partitions.remove(at);
            self.partitions.push(known);
        }
        told
    }
}

/// A session as the fetch handler keeps it: only what is ready is read.
struct Session {
    cache: FetchSessionCache,
    id: i32,
    epoch: i32,
    ready: Arc<ReadySet>,
    /// Partitions by the slots that are marked when they change.
    watched: HashMap<usize, i32>,
}

impl Session {
    fn changed(&self, partition: i32) {
        let slots = self.watched.iter().filter(|(_, watched)| **watched == partition);
        slots.for_each(|(&slot, _)| self.ready.mark_quietly(slot));
    }

    fn begin(&mut self, updates: &[(i32, i64)], forgotten: &[i32]) -> FetchContext {
        let mut request = request_at(self.id, self.epoch, updates);
        request.forgotten_topics = forget(forgotten);
        self.epoch += 1;
        self.cache.begin(&request, false, 0).unwrap()
    }

    /// One look at what is ready.
    fn look(&mut self, context: &FetchContext, actual: &[Actual], room: usize) -> Vec<(usize, Told)> {
        let mut slots = context.slots().lock();
        self.ready = slots.ready.clone();
        self.watched.retain(|&slot, partition| slots.get(slot).is_some_and(|wanted| wanted.partition.0 == *partition));
        let mut left = room;
        let mut outcomes = Vec::new();
        for slot in slots.candidates() {
            let wanted = slots.get(slot).unwrap();
            let (partition, offset) = (wanted.partition.0, wanted.fetch_offset.0);
            let actual = &actual[partition as usize];
            // A partition that is not there cannot be watched.
            if actual.is_failing {
                self.watched.remove(&slot);
            } else {
                self.watched.insert(slot, partition);
            }
            let answer = read(partition, offset, actual, left > 0);
            left -= usize::from(answer.1.is_some());
            outcomes.push((slot, answer));
        }
        outcomes
    }

    fn answer(context: &FetchContext, outcomes: Vec<(usize, Told)>) -> Vec<Told> {
        let mut slots = context.slots().lock();
        let mut told = Vec::new();
        let mut stay = Vec::new();
        for (slot, answer) in outcomes {
            let (_, records, high_watermark, log_start, is_error) = answer;
            let has_more = slots.get(slot).unwrap().fetch_offset.0 < high_watermark;
            if is_error || has_more {
                stay.push(slot);
            }
            let answered = Answered {
                has_records: records.is_some(),
                high_watermark: Offset(high_watermark),
                log_start_offset: Offset(log_start),
                must_tell: false,
                is_error,
            };
            if slots.answered(slot, &answered) || !context.is_incremental() {
                told.push(answer);
            }
        }
        slots.settle(stay);
        told
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(i32),
    DeleteRecords(i32),
    /// The partition fails, or works again.
    Toggle(i32),
    /// Updates by partition and how far behind its end, forgotten partitions, room.
    Fetch(Vec<(i32, i64)>, Vec<i32>, usize),
    /// The same, but the client goes away while it waits. Something may come between its looks.
    GiveUp(Vec<(i32, i64)>, Vec<i32>, i32),
}

const PARTITIONS: i32 = 5;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let partition = || 0..PARTITIONS;
    let updates = || prop::collection::vec((partition(), 0..3i64), 0..4);
    // The first two are never forgotten, or the session would end.
    let forgotten = || prop::collection::vec(2..PARTITIONS, 0..3);
    let step = prop_oneof![
        4 => partition().prop_map(Step::Append),
        2 => partition().prop_map(Step::DeleteRecords),
        1 => partition().prop_map(Step::Toggle),
        5 => (updates(), forgotten(), 0..4usize).prop_map(|(updates, forgotten, room)| {
            Step::Fetch(updates, forgotten, room)
        }),
        1 => (updates(), forgotten(), partition()).prop_map(|(updates, forgotten, partition)| {
            Step::GiveUp(updates, forgotten, partition)
        }),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Looking at what is ready tells the same, and in the same order, as reading everything again.
    #[test]
    fn an_incremental_fetch_misses_nothing(steps in steps()) {
        let mut actual = vec![Actual { log_start: 0, high_watermark: 0, is_failing: false }; PARTITIONS as usize];
        let mut model = Model::default();
        let first = [(0, 0), (1, 0), (2, 0)];
        let cache = FetchSessionCache::new(1);
        let context = cache.begin(&request_at(0, 0, &first), false, 0).unwrap();
        let ready = context.slots().lock().ready.clone();
        let mut session = Session { cache, id: 0, epoch: 1, ready, watched: HashMap::new() };
        let outcomes = session.look(&context, &actual, 9);
        let told = Session::answer(&context, outcomes);
        model.take(&first, &[]);
        prop_assert_eq!(told, model.fetch(&actual, 9, true));
        session.id = session.cache.create(context.slots().clone(), false, false, 0);

        for step in steps {
            match step {
                Step::Append(partition) => {
                    actual[partition as usize].high_watermark += 1;
                    session.changed(partition);
                }
                Step::DeleteRecords(partition) => {
                    let actual = &mut actual[partition as usize];
                    actual.log_start = (actual.log_start + 1).min(actual.high_watermark);
                    session.changed(partition);
                }
                Step::Toggle(partition) => {
                    let actual = &mut actual[partition as usize];
                    actual.is_failing = !actual.is_failing;
                    // Nobody hears of one that is back: it is another one.
                    if actual.is_failing {
                        session.changed(partition);
                    }
                }
                Step::Fetch(updates, forgotten, room) => {
                    let updates = offsets(&updates, &actual);
                    model.take(&updates, &forgotten);
                    let context = session.begin(&updates, &forgotten);
                    let outcomes = session.look(&context, &actual, room);
                    let told = Session::answer(&context, outcomes);
                    prop_assert_eq!(told, model.fetch(&actual, room, false));
                }
                Step::GiveUp(updates, forgotten, partition) => {
                    let updates = offsets(&updates, &actual);
                    model.take(&updates, &forgotten);
                    let context = session.begin(&updates, &forgotten);
                    session.look(&context, &actual, 9);
                    actual[partition as usize].high_watermark += 1;
                    session.changed(partition);
                    session.look(&context, &actual, 9);
                }
            }
        }
        // Whatever there was, it is all known in the end.
        let context = session.begin(&[], &[]);
        let outcomes = session.look(&context, &actual, 9);
        let told = Session::answer(&context, outcomes);
        prop_assert_eq!(told, model.fetch(&actual, 9, false));
    }
}

/// From how far behind the end to offsets.
fn offsets(updates: &[(i32, i64)], actual: &[Actual]) -> Vec<(i32, i64)> {
    let offset =
        |&(partition, behind): &(i32, i64)| (partition, (actual[partition as usize].high_watermark - behind).max(0));
    updates.iter().map(offset).collect()
}
