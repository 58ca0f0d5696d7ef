//! What a partition should hold: the batches that were written, as a list, and what follows from them.

use std::sync::Arc;

use crate::config::TopicConfig;
use crate::storage::recovery::DamagePolicy;
use crate::types::{LeaderEpoch, TopicId, TopicPartition};

/// So many producers write to a partition; the first two in transactions, too.
pub const PRODUCERS: usize = 3;

/// What a partition is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Written by producers; records are deleted by retention and by request.
    Leader,
    /// The same, compacted.
    Compacted,
    /// Written by what its leader sent; truncated as that says.
    Follower,
}

/// What kind of batch it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Data { transactional: bool },
    Marker { committed: bool },
}

/// A record: what is to be found at an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub timestamp: i64,
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

/// A batch that was written.
#[derive(Clone, Debug)]
pub struct Written {
    pub base: i64,
    pub last: i64,
    pub epoch: LeaderEpoch,
    /// As it stands in the log.
    pub bytes: Vec<u8>,
    pub producer: Option<usize>,
    pub last_sequence: i32,
    pub kind: Kind,
    pub entries: Vec<Entry>,
}

/// What a log knows of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerView {
    pub last_sequence: i32,
    pub open_since: Option<i64>,
}

pub const UNKNOWN: ProducerView = ProducerView { last_sequence: -1, open_since: None };

/// What is known of the producers behind these batches.
pub fn producers_after<'a>(written: impl Iterator<Item = &'a Written>) -> [ProducerView; PRODUCERS] {
    let mut views = [UNKNOWN; PRODUCERS];
    written.for_each(|batch| take_over(&mut views, batch));
    views
}

fn take_over(views: &mut [ProducerView; PRODUCERS], batch: &Written) {
    let Some(producer) = batch.producer else { return };
    let view = &mut views[producer];
    match batch.kind {
        Kind::Data { transactional } => {
            view.last_sequence = batch.last_sequence;
            if transactional {
                view.open_since.get_or_insert(batch.base);
            }
        }
        Kind::Marker { .. } => view.open_since = None,
    }
}

/// What was being done when a call failed: it may have happened, or not, or in part.
#[derive(Clone, Debug)]
pub enum Doubt {
    Append(Written),
    /// Everything from there on may be gone.
    Truncate(i64),
    /// Everything may be gone, and the log begin there.
    StartAnew(i64),
    /// The log may begin there.
    DeleteRecords(i64),
}

/// A partition, and what is to be found in it.
pub struct Partition {
    pub topic_partition: TopicPartition,
    pub topic_id: TopicId,
    pub role: Role,
    pub config: Arc<TopicConfig>,
    pub damage: DamagePolicy,
    /// All that stands in the log, and before its start.
    pub written: Vec<Written>,
    pub start: i64,
    pub end: i64,
    /// Everything below was promised to be on disk.
    pub durable: i64,
    /// The largest start that the log had.
    pub largest_start: i64,
    /// The log start offset that was checkpointed.
    pub durable_start: i64,
    /// Of the last one that was written, or that a leader had.
    pub epoch: LeaderEpoch,
    /// Below, compaction may have removed what it likes.
    pub cleaned_to: i64,
    pub producers: [ProducerView; PRODUCERS],
    pub doubts: Vec<Doubt>,
    /// Gaps that somebody was told of.
    pub gaps: Vec<(i64, i64)>,
    /// What a power loss has taken. A copy of the log may have it.
    pub lost: Vec<Written>,
    /// What a killed process was cutting off. It may not have been on disk that it is gone.
    pub ghosts: Vec<Written>,
}

impl Partition {
    pub fn new(topic_partition: TopicPartition, role: Role, config: TopicConfig, damage: DamagePolicy) -> Partition {
        Partition {
            topic_partition,
            topic_id: TopicId::random(),
            role,
            config: Arc::new(config),
            damage,
            written: Vec::new(),
            start: 0,
            end: 0,
            durable: 0,
            durable_start: 0,
            largest_start: 0,
            epoch: LeaderEpoch(0),
            cleaned_to: 0,
            producers: [UNKNOWN; PRODUCERS],
            doubts: Vec::new(),
            gaps: Vec::new(),
            lost: Vec::new(),
            ghosts: Vec::new(),
        }
    }

    /// The topic was deleted, and one of its name made.
    pub fn recreate(&mut self) {
        *self = Partition::new(self.topic_partition.clone(), self.role, TopicConfig::clone(&self.config), self.damage);
    }

    /// A batch was appended.
    pub fn append(&mut self, batch: Written) {
        self.end = batch.last + 1;
        // Not by all batches: those before the log's start may be forgotten.
        take_over(&mut self.producers, &batch);
        self.written.push(batch);
    }

    /// The log ends at `end` now.
    pub fn truncate(&mut self, end: i64) {
        self.written.retain(|batch| batch.last < end);
        self.end = end;
        self.start = self.start.min(end);
        self.durable = self.durable.min(end);
    }

    pub fn start_anew(&mut self, at: i64) {
        self.written.clear();
        (self.start, self.end, self.durable, self.cleaned_to) = (at, at, 0, 0);
        self.durable_start = self.durable_start.min(at);
        self.largest_start = at;
        self.producers = [UNKNOWN; PRODUCERS];
    }

    /// Below this, nothing may be lost, whatever was being done.
    pub fn kept_below(&self) -> i64 {
        let limits = self.doubts.iter().filter_map(|doubt| match doubt {
            Doubt::Truncate(to) => Some(*to),
            Doubt::StartAnew(_) => Some(0),
            Doubt::Append(_) | Doubt::DeleteRecords(_) => None,
        });
        limits.fold(self.durable, i64::min)
    }

    /// The largest offset at which the log may begin.
    pub fn start_at_most(&self) -> i64 {
        let moves = self.doubts.iter().filter_map(|doubt| match doubt {
            Doubt::DeleteRecords(to) => Some(*to),
            // What is left of the old segments may begin anywhere.
            Doubt::StartAnew(to) => Some(*to.max(&self.end)),
            Doubt::Append(_) | Doubt::Truncate(_) => None,
        });
        moves.fold(self.start, i64::max)
    }

    /// Whether the transaction of the data batch number `n` ended by a commit; `None`: it is open.
    pub fn is_committed(written: &[Written], n: usize) -> Option<bool> {
        written[n + 1..].iter().filter(|batch| batch.producer == written[n].producer).find_map(|batch| {
            match batch.kind {
                Kind::Marker { committed } => Some(committed),
                Kind::Data { .. } => None,
            }
        })
    }
}
