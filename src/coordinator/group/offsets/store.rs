//! The committed offsets of a shard's groups, and those that open transactions are about to commit.
//!
//! Changed by records alone. Compact: there may be millions, so topic names are held once, and an offset without
//! metadata is one struct of 56 bytes.
//!
//! A transaction's offsets wait under their producer until its marker comes. A tombstone takes both kinds away.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use tracing::debug;

use super::by_partition::{ByPartition, ByTopic};
use crate::coordinator::group::records::OffsetCommitValue;
use crate::types::{LeaderEpoch, Offset, PartitionId, ProducerId, TopicId, TopicName};

/// An offset that a group has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    pub offset: Offset,
    /// Of the record behind which the group continues.
    pub leader_epoch: LeaderEpoch,
    /// Milliseconds since 1970.
    pub commit_timestamp_ms: i64,
    /// Of the topic it was committed for; zero: not known.
    pub topic_id: TopicId,
    /// Where its record stands: a later one wins.
    pub record_offset: Offset,
    details: Option<Box<Details>>,
}

/// What most offsets do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    metadata: Box<str>,
    expire_timestamp_ms: Option<i64>,
}

impl CommittedOffset {
    pub fn from_record(value: OffsetCommitValue, record_offset: Offset) -> CommittedOffset {
        let expire_timestamp_ms = (value.expire_timestamp != -1).then_some(value.expire_timestamp);
        let details = (expire_timestamp_ms.is_some() || !value.metadata.is_empty())
            .then(|| Box::new(Details { metadata: value.metadata.into_boxed_str(), expire_timestamp_ms }));
        CommittedOffset {
            offset: Offset(value.offset),
            leader_epoch: LeaderEpoch(value.leader_epoch),
            commit_timestamp_ms: value.commit_timestamp,
            topic_id: TopicId(value.topic_id),
            record_offset,
            details,
        }
    }

    /// The committer's note; often empty.
    pub fn metadata(&self) -> &str {
        self.details.as_ref().map_or("", |details| &details.metadata)
    }

    /// When it expires, if the committer said so itself (OffsetCommit v2..4).
    pub fn expire_timestamp_ms(&self) -> Option<i64> {
        self.details.as_ref()?.expire_timestamp_ms
    }

    /// Whether it was committed for a topic that is known to be another than this one.
    pub fn is_of_other_topic(&self, topic_id: TopicId) -> bool {
        self.topic_id != TopicId::ZERO && topic_id != TopicId::ZERO && self.topic_id != topic_id
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Offsets {
    committed: ByPartition<CommittedOffset>,
    /// By producer, what its open transaction is to commit. Kept until the transaction ends, even if empty by then.
    pending: BTreeMap<ProducerId, ByPartition<CommittedOffset>>,
    /// The producers that have something in `pending`.
    open_transactions: ByPartition<BTreeSet<ProducerId>>,
    /// Every topic above, once.
    topic_names: HashSet<TopicName>,
}

impl Offsets {
    pub fn get(&self, group: &str, topic: &str, partition: PartitionId) -> Option<&CommittedOffset> {
        self.committed.get(group, topic, partition)
    }

    /// What the group has committed.
    pub fn of_group(&self, group: &str) -> Option<&ByTopic<CommittedOffset>> {
        self.committed.group(group)
    }

    /// Whether a transaction is about to change the offset.
    pub fn is_pending(&self, group: &str, topic: &str, partition: PartitionId) -> bool {
        self.open_transactions.get(group, topic, partition).is_some()
    }

    /// Whether a transaction is about to change any offset of the group.
    pub fn has_pending(&self, group: &str) -> bool {
        self.open_transactions.group(group).is_some()
    }

    /// All partitions of the group that have an offset or are about to get one.
    pub fn partitions_of_group(&self, group: &str) -> BTreeSet<(TopicName, PartitionId)> {
        let committed = self.committed.group(group).into_iter().flat_map(|topics| {
            topics.iter().flat_map(|(topic, partitions)| partitions.iter().map(|(id, _)| (topic.clone(), *id)))
        });
        let pending = self.open_transactions.group(group).into_iter().flat_map(|topics| {
            topics.iter().flat_map(|(topic, partitions)| partitions.iter().map(|(id, _)| (topic.clone(), *id)))
        });
        committed.chain(pending).collect()
    }

    /// All groups' partitions of a topic whose offsets, committed or pending, are of that topic's id or of none.
    pub fn of_topic(&self, name: &str, topic_id: TopicId) -> BTreeSet<(Arc<str>, PartitionId)> {
        let all = self.pending.values().chain([&self.committed]).flat_map(|offsets| offsets.of_topic(name));
        all.filter(|(_, _, offset)| offset.topic_id == TopicId::ZERO || offset.topic_id == topic_id)
            .map(|(group, partition, _)| (group.clone(), partition))
            .collect()
    }

    /// Takes an offset in, at once or with its transaction.
    pub fn put(
        &mut self,
        group: &Arc<str>,
        topic: &str,
        partition: PartitionId,
        offset: CommittedOffset,
        producer_id: ProducerId,
    ) {
        let names = &mut self.topic_names;
        if producer_id == ProducerId::NONE {
            self.committed.insert(group, topic, partition, offset, || intern(names, topic));
            return;
        }
        let pending = self.pending.entry(producer_id).or_default();
        pending.insert(group, topic, partition, offset, || intern(names, topic));
        match self.open_transactions.get_mut(group, topic, partition) {
            Some(producers) => {
                producers.insert(producer_id);
            }
            None => {
                let producers = BTreeSet::from([producer_id]);
                self.open_transactions.insert(group, topic, partition, producers, || intern(names, topic));
            }
        }
    }

    /// Takes an offset out, and what transactions are about to commit there.
    pub fn remove(&mut self, group: &str, topic: &str, partition: PartitionId) {
        self.committed.remove(group, topic, partition);
        for producer_id in self.open_transactions.remove(group, topic, partition).into_iter().flatten() {
            if let Some(pending) = self.pending.get_mut(&producer_id) {
                pending.remove(group, topic, partition);
            }
        }
    }

    /// A producer's transaction has ended: its offsets count, or are dropped.
    pub fn end_transaction(&mut self, producer_id: ProducerId, committed: bool) {
        let Some(pending) = self.pending.remove(&producer_id) else { return };
        for (group, topic, partition, offset) in pending.iter() {
            if let Some(producers) = self.open_transactions.get_mut(group, topic, partition) {
                producers.remove(&producer_id);
                if producers.is_empty() {
                    self.open_transactions.remove(group, topic, partition);
                }
            }
            if !committed {
                continue;
            }
            // Committed again meanwhile outside of the transaction: the log's order counts, or a compacted log would say
            // something else.
            let later = self.committed.get(group, topic, partition).filter(|e| e.record_offset >= offset.record_offset);
            match later {
                Some(_) => debug!(%group, %topic, %partition, "a transaction's offset is older than the group's"),
                None => {
                    self.committed.insert(group, topic, partition, offset.clone(), || topic.clone());
                }
            }
        }
    }

    /// Lets go of the names of topics that have no offset any more.
    pub fn forget_unused_topics(&mut self) {
        self.topic_names.retain(|name| Arc::strong_count(name) > 1);
    }
}

/// The one copy of a topic's name.
fn intern(names: &mut HashSet<TopicName>, name: &str) -> TopicName {
    match names.get(name) {
        Some(known) => known.clone(),
        None => {
            let name = TopicName::from(name);
            names.insert(name.clone());
            name
        }
    }
}
