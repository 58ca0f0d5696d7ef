//! Fetch sessions (KIP-227): a consumer names its partitions once, and later only what changed of them.
//!
//! A session owns its partitions' last request and last answered offsets, and a [`ReadySet`] that its partitions mark
//! when they change, so that an incremental fetch costs what changed and not what is subscribed. Whatever was marked and
//! not yet told stays with the session, so that a fetch that is given up loses no news. Rules and errors are
//! Kafka's: a session has an epoch that each request must continue; a full fetch ends the session it names; at most
//! `max.incremental.fetch.session.cache.slots` sessions are kept, and a new one takes the place of one that was idle
//! for [`EVICTION_MS`], or of a smaller one that is at least that old.
//!
//! ```text
//! session_id  session_epoch   means
//! any         0               full fetch, make a session (ending the named one)
//! any         -1              full fetch without a session (ending the named one)
//! N           E > 0           incremental: session N must exist and be at E; it goes on to E + 1
//! ```

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::protocol::ErrorCode;
use crate::protocol::fetch::{FetchPartition, FetchRequest, ForgottenTopic};
use crate::replica::{ReadySet, Watch};
use crate::types::{BrokerId, LeaderEpoch, Offset, PartitionId, TopicId, TopicName};

/// "No session", as the wire says it.
pub const INVALID_SESSION_ID: i32 = 0;
/// Asks for a session.
const INITIAL_EPOCH: i32 = 0;
/// Asks for none.
const FINAL_EPOCH: i32 = -1;
/// A session idle for this long may be evicted by any other (Kafka's constant).
const EVICTION_MS: i64 = 120_000;

/// The epoch after `epoch`: 0 is never come back to.
fn next_epoch(epoch: i32) -> i32 {
    if epoch < 0 { FINAL_EPOCH } else { epoch.checked_add(1).unwrap_or(1) }
}

/// Names a partition within a session: by topic id from Fetch v13, by name before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PartitionKey {
    topic_id: TopicId,
    /// Empty when there is an id.
    topic: TopicName,
    partition: PartitionId,
}

/// A partition that is fetched, and what the fetcher was last told of it.
pub struct SlotPartition {
    /// As in the request: empty from v13.
    pub topic: TopicName,
    /// As in the request: zero up to v12.
    pub topic_id: TopicId,
    pub partition: PartitionId,
    pub fetch_offset: Offset,
    pub max_bytes: i32,
    /// `None`: the fetcher knows none.
    pub current_leader_epoch: Option<LeaderEpoch>,
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// Told in the last answer; -1 before, and after an error.
    high_watermark: Offset,
    log_start_offset: Offset,
    /// Where in the order of the session it is read: partitions that had records go to the end.
    order: u64,
    /// The topic's name, once it was found by its id.
    pub resolved: Option<TopicName>,
    /// The registration that marks the slot; made at the first read.
    pub watch: Option<Watch>,
}

/// What became of a partition in an answer, as far as the session keeps it.
pub struct Answered {
    pub has_records: bool,
    pub high_watermark: Offset,
    pub log_start_offset: Offset,
    /// An error, a diverging epoch or a preferred replica: always told.
    pub must_tell: bool,
    pub is_error: bool,
}

/// The partitions of one fetcher, by slot.
#[derive(Default)]
pub struct FetchSlots {
    slots: Vec<Option<SlotPartition>>,
    free: Vec<usize>,
    by_key: HashMap<PartitionKey, usize>,
    next_order: u64,
    pub ready: Arc<ReadySet>,
    /// Slots that were ready, and are to be looked at until an answer settles them.
    candidates: Vec<usize>,
    /// The session's: that of the next request. Whoever works for an earlier one comes too late.
    epoch: i32,
    /// Replica id and isolation level of the last request: they decide how far may be read.
    reader: (BrokerId, i8),
}

impl FetchSlots {
    /// All partitions of a full fetch; the last entry of a partition that is named twice counts.
    fn of(request: &FetchRequest) -> FetchSlots {
        let mut slots = FetchSlots::default();
        slots.update(request);
        slots
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn get(&self, slot: usize) -> Option<&SlotPartition> {
        self.slots.get(slot)?.as_ref()
    }

    pub fn get_mut(&mut self, slot: usize) -> Option<&mut SlotPartition> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The slots to be looked at, in reading order: those that have become ready, and those that were before.
    pub fn candidates(&mut self) -> Vec<usize> {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.extend(self.ready.take());
        candidates.retain(|&slot| self.get(slot).is_some());
        candidates.sort_unstable_by_key(|&slot| self.get(slot).map(|partition| partition.order));
        candidates.dedup();
        self.candidates.clone_from(&candidates);
        candidates
    }

    /// Everything that was looked at is answered; of that, these slots are to be looked at again by the next fetch.
    pub fn settle(&mut self, candidates: Vec<usize>) {
        self.candidates = candidates;
    }

    /// Takes over what a request says of its partitions, and marks them, for what they are to be told may differ now.
    fn update(&mut self, request: &FetchRequest) {
        let reader = (request.replica_id, request.isolation_level);
        if self.reader != reader {
            // Where there was nothing for the last one there may be something for this one.
            self.by_key.values().for_each(|&slot| self.ready.mark_quietly(slot));
            self.reader = reader;
        }
        for (topic, partitions) in request.topics() {
            let name: TopicName = topic.name.as_str().into();
            for partition in partitions {
                let key =
                    PartitionKey { topic_id: topic.topic_id, topic: name.clone(), partition: partition.partition };
                let slot = match self.by_key.get(&key) {
                    Some(&slot) => slot,
                    None => self.add(key),
                };
                if let Some(cached) = self.get_mut(slot) {
                    cached.take_request(partition);
                }
                self.ready.mark_quietly(slot);
            }
        }
    }

    fn add(&mut self, key: PartitionKey) -> usize {
        let partition = SlotPartition {
            topic: key.topic.clone(),
            topic_id: key.topic_id,
            partition: key.partition,
            fetch_offset: Offset(0),
            max_bytes: 0,
            current_leader_epoch: None,
            last_fetched_epoch: None,
            high_watermark: Offset(-1),
            log_start_offset: Offset(-1),
            order: self.next_order,
            resolved: None,
            watch: None,
        };
        self.next_order += 1;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(partition);
                slot
            }
            None => {
                self.slots.push(Some(partition));
                self.slots.len() - 1
            }
        };
        self.by_key.insert(key, slot);
        slot
    }

    fn forget(&mut self, forgotten: &[ForgottenTopic]) {
        for topic in forgotten {
            let name: TopicName = topic.name.as_str().into();
            for &partition in &topic.partitions {
                let key = PartitionKey { topic_id: topic.topic_id, topic: name.clone(), partition };
                if let Some(slot) = self.by_key.remove(&key) {
                    self.slots[slot] = None;
                    self.free.push(slot);
                }
            }
        }
    }

    /// Notes an answer. Returns whether an incremental fetch has to tell it at all.
    pub fn answered(&mut self, slot: usize, answer: &Answered) -> bool {
        let order = self.next_order;
        let Some(cached) = self.get_mut(slot) else { return false };
        let mut told = answer.has_records || answer.must_tell || answer.is_error;
        told |= cached.high_watermark != answer.high_watermark;
        told |= cached.log_start_offset != answer.log_start_offset;
        // After an error the partition is told again, whatever its watermark then is.
        cached.high_watermark = if answer.is_error { Offset(-1) } else { answer.high_watermark };
        cached.log_start_offset = answer.log_start_offset;
        if answer.has_records {
            cached.order = order;
            self.next_order += 1;
        }
        told
    }

    /// Whether the session went on without the fetch that was to be answered in `epoch`.
    pub fn is_beyond(&self, epoch: i32) -> bool {
        self.epoch != epoch
    }
}

impl SlotPartition {
    fn take_request(&mut self, request: &FetchPartition) {
        let known = |epoch: LeaderEpoch| (epoch.0 >= 0).then_some(epoch);
        self.fetch_offset = request.fetch_offset;
        self.max_bytes = request.partition_max_bytes;
        self.current_leader_epoch = known(request.current_leader_epoch);
        self.last_fetched_epoch = known(request.last_fetched_epoch);
    }
}

/// Slots that a fetch works on: its own, or those of the session it continues.
pub type SharedSlots = Arc<Mutex<FetchSlots>>;

/// How a fetch is to be answered.
pub enum FetchContext {
    /// All partitions are answered; no session is made.
    Sessionless(SharedSlots),
    /// All partitions are answered; a session is made of them.
    Full(SharedSlots),
    /// Only what changed is answered. `epoch` is the one the session must still have when it is: otherwise the request
    /// was sent twice, or its client has given it up.
    Incremental { id: i32, epoch: i32, slots: SharedSlots },
}

impl FetchContext {
    pub fn slots(&self) -> &SharedSlots {
        match self {
            FetchContext::Sessionless(slots) | FetchContext::Full(slots) => slots,
            FetchContext::Incremental { slots, .. } => slots,
        }
    }

    pub fn is_incremental(&self) -> bool {
        matches!(self, FetchContext::Incremental { .. })
    }
}

struct FetchSession {
    slots: SharedSlots,
    uses_topic_ids: bool,
    /// Followers' sessions are not evicted for consumers'.
    privileged: bool,
    created_ms: i64,
    last_used_ms: i64,
    /// Its partitions, as of the last use.
    size: usize,
}

impl FetchSession {
    /// As of its last use, as in Kafka.
    fn had_its_time(&self) -> bool {
        self.last_used_ms - self.created_ms > EVICTION_MS
    }
}

#[derive(Default)]
struct Sessions {
    by_id: HashMap<i32, FetchSession>,
    /// (last used, id), oldest first.
    by_use: BTreeSet<(i64, i32)>,
}

/// All sessions of this broker.
pub struct FetchSessionCache {
    max_sessions: usize,
    sessions: Mutex<Sessions>,
}

impl FetchSessionCache {
    pub fn new(max_sessions: usize) -> FetchSessionCache {
        FetchSessionCache { max_sessions, sessions: Mutex::default() }
    }

    /// Begins a fetch: finds its session and takes over what the request says, or says why not.
    pub fn begin(&self, request: &FetchRequest, uses_topic_ids: bool, now_ms: i64) -> Result<FetchContext, ErrorCode> {
        let epoch = request.session_epoch;
        if epoch == INITIAL_EPOCH || epoch == FINAL_EPOCH {
            self.sessions.lock().remove(request.session_id);
            let slots = Arc::new(Mutex::new(FetchSlots::of(request)));
            let sessionless = epoch == FINAL_EPOCH;
            return Ok(if sessionless { FetchContext::Sessionless(slots) } else { FetchContext::Full(slots) });
        }
        let (shared, session_uses_topic_ids) = {
            let sessions = self.sessions.lock();
            let session = sessions.by_id.get(&request.session_id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
            (session.slots.clone(), session.uses_topic_ids)
        };
        // Without the lock of all sessions: a fetch of this one may be reading, and hold its slots for as long.
        let (size, epoch) = {
            let mut slots = shared.lock();
            if slots.epoch != epoch {
                return Err(ErrorCode::InvalidFetchSessionEpoch);
            }
            if session_uses_topic_ids != uses_topic_ids {
                return Err(ErrorCode::FetchSessionTopicIdError);
            }
            slots.update(request);
            slots.forget(&request.forgotten_topics);
            slots.epoch = next_epoch(epoch);
            // A fetch that still waits, for a client that is gone from its connection, is over.
            slots.ready.wake();
            (slots.len(), slots.epoch)
        };
        let mut sessions = self.sessions.lock();
        if size == 0 {
            sessions.remove(request.session_id);
            return Ok(FetchContext::Sessionless(Arc::new(Mutex::new(FetchSlots::of(request)))));
        }
        if let Some(session) = sessions.by_id.get_mut(&request.session_id) {
            session.size = size;
        }
        sessions.touch(request.session_id, now_ms);
        Ok(FetchContext::Incremental { id: request.session_id, epoch, slots: shared })
    }

    /// Makes a session of a full fetch, if there is room. Returns its id, or 0.
    pub fn create(&self, slots: SharedSlots, uses_topic_ids: bool, privileged: bool, now_ms: i64) -> i32 {
        let size = {
            let mut slots = slots.lock();
            slots.epoch = next_epoch(INITIAL_EPOCH);
            slots.len()
        };
        let mut sessions = self.sessions.lock();
        if sessions.by_id.len() >= self.max_sessions && !sessions.evict(privileged, size, now_ms) {
            return INVALID_SESSION_ID;
        }
        let id = sessions.unused_id();
        sessions.by_id.insert(
            id,
            FetchSession { slots, uses_topic_ids, privileged, created_ms: now_ms, last_used_ms: now_ms, size },
        );
        sessions.by_use.insert((now_ms, id));
        id
    }
}

impl Sessions {
    fn remove(&mut self, id: i32) {
        if let Some(session) = self.by_id.remove(&id) {
            self.by_use.remove(&(session.last_used_ms, id));
        }
    }

    fn touch(&mut self, id: i32, now_ms: i64) {
        if let Some(session) = self.by_id.get_mut(&id) {
            self.by_use.remove(&(session.last_used_ms, id));
            session.last_used_ms = now_ms;
            self.by_use.insert((now_ms, id));
        }
    }

    /// Makes room for a session of `size` partitions; returns whether it could.
    fn evict(&mut self, privileged: bool, size: usize, now_ms: i64) -> bool {
        let Some(&(oldest_ms, oldest)) = self.by_use.first() else { return false };
        if now_ms - oldest_ms > EVICTION_MS {
            self.remove(oldest);
            return true;
        }
        // A session that had its time gives way to a larger one; a consumer's gives way to a follower's at once.
        let smallest = self
            .by_id
            .iter()
            .filter(|(_, session)| session.had_its_time() || (privileged && !session.privileged))
            .map(|(&id, session)| ((session.privileged, session.size, id), id))
            .min();
        match smallest {
            Some((key, id)) if (privileged, size, 0) >= key => {
                self.remove(id);
                true
            }
            _ => false,
        }
    }

    fn unused_id(&self) -> i32 {
        loop {
            let id = rand::random_range(1..i32::MAX);
            if !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests;
