//! Whatever is committed, deleted and read again from the log: offsets are what a plain model says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use uuid::Uuid;

use super::{Commit, DeleteTopic, T, commit, fetched};
use crate::config::BrokerConfig;
use crate::coordinator::group::GroupShard;
use crate::coordinator::group::records::GroupRecord;
use crate::coordinator::shard::{
    Append, CoordinatorRecord as _, CoordinatorShard as _, Environment, RecordOrigin, Step, TransactionalProducer,
    run_step,
};
use crate::metadata::image::MetadataImage;
use crate::types::{Offset, PartitionId, ProducerEpoch, ProducerId};

/// What the log holds.
enum Entry {
    Record { key: Vec<u8>, value: Option<Vec<u8>>, producer: Option<ProducerId> },
    Marker { producer: ProducerId, committed: bool },
}

/// A shard with a log that knows transactions.
struct Logged {
    shard: GroupShard,
    log: Vec<Entry>,
}

impl Logged {
    fn step<T>(&mut self, op: impl FnOnce(&mut GroupShard, &mut Step<'_, GroupShard>) -> T) -> T {
        let mut environment = Environment {
            now: Duration::ZERO,
            now_ms: 0,
            image: &MetadataImage::empty(),
            config: &BrokerConfig::default(),
            batch_limit: None,
            new_uuid: &mut || Uuid::nil(),
        };
        let log = &mut self.log;
        let mut append = |append: Append<'_, GroupRecord>| {
            let first = Offset(log.len() as i64);
            for record in append.records {
                let (key, value) = record.to_bytes();
                log.push(Entry::Record { key, value, producer: append.producer.map(|producer| producer.producer_id) });
            }
            Ok(crate::coordinator::shard::Appended { first, count: append.records.len() })
        };
        run_step(&mut self.shard, &mut environment, &mut append, op).answer.expect("appended")
    }

    fn end(&mut self, producer: ProducerId, committed: bool) {
        self.log.push(Entry::Marker { producer, committed });
        self.shard.replay_end_transaction(producer, committed);
    }

    /// Reads the log from its start, maybe as the cleaner would leave it.
    fn reload(&mut self, compacted: bool) {
        self.shard = GroupShard::default();
        let cleaned = if compacted { self.cleaned() } else { BTreeSet::new() };
        for (offset, entry) in self.log.iter().enumerate().filter(|(offset, _)| !cleaned.contains(offset)) {
            match entry {
                Entry::Record { key, value, producer } => {
                    let record = GroupRecord::from_bytes(key, value.as_deref()).expect("sound").expect("known");
                    let origin = RecordOrigin {
                        offset: Offset(offset as i64),
                        producer_id: producer.unwrap_or(ProducerId::NONE),
                    };
                    self.shard.replay(record, origin);
                }
                Entry::Marker { producer, committed } => {
                    self.shard.replay_end_transaction(*producer, *committed);
                }
            }
        }
    }

    /// The records that compaction takes away: below the first open transaction, those that were aborted and those
    /// whose key comes again.
    fn cleaned(&self) -> BTreeSet<usize> {
        let mut open: BTreeMap<ProducerId, Vec<usize>> = BTreeMap::new();
        let mut aborted = BTreeSet::new();
        for (offset, entry) in self.log.iter().enumerate() {
            match entry {
                Entry::Record { producer: Some(producer), .. } => open.entry(*producer).or_default().push(offset),
                Entry::Record { .. } => {}
                Entry::Marker { producer, committed } => {
                    let ended = open.remove(producer).unwrap_or_default();
                    if !committed {
                        aborted.extend(ended);
                    }
                }
            }
        }
        let last_stable_offset = open.values().flatten().min().copied().unwrap_or(self.log.len());
        let mut last = BTreeMap::new();
        for (offset, entry) in self.log[..last_stable_offset].iter().enumerate() {
            if let Entry::Record { key, .. } = entry
                && !aborted.contains(&offset)
            {
                last.insert(key, offset);
            }
        }
        let is_cleaned = |(offset, entry): (usize, &Entry)| match entry {
            Entry::Record { key, .. } => (aborted.contains(&offset) || last[key] != offset).then_some(offset),
            Entry::Marker { .. } => None,
        };
        self.log[..last_stable_offset].iter().enumerate().filter_map(is_cleaned).collect()
    }
}

#[derive(Clone, Debug)]
enum Action {
    Commit { group: u8, partitions: Vec<(i32, i64)> },
    TransactionalCommit { group: u8, producer: i64, partitions: Vec<(i32, i64)> },
    End { producer: i64, committed: bool },
    Delete { group: u8, partition: i32 },
    DeleteGroup { group: u8 },
    Reload { compacted: bool },
}

fn action() -> impl Strategy<Value = Action> {
    let partitions = || prop::collection::vec((0..40i32, 0..1000i64), 1..6);
    prop_oneof![
        4 => (0..3u8, partitions()).prop_map(|(group, partitions)| Action::Commit { group, partitions }),
        3 => (0..3u8, 0..3i64, partitions())
            .prop_map(|(group, producer, partitions)| Action::TransactionalCommit { group, producer, partitions }),
        3 => (0..3i64, any::<bool>()).prop_map(|(producer, committed)| Action::End { producer, committed }),
        2 => (0..3u8, 0..40i32).prop_map(|(group, partition)| Action::Delete { group, partition }),
        1 => (0..3u8).prop_map(|group| Action::DeleteGroup { group }),
        1 => any::<bool>().prop_map(|compacted| Action::Reload { compacted }),
    ]
}

type Key = (u8, i32);

/// Plain lists, in the order of the log.
#[derive(Default)]
struct Model {
    time: usize,
    groups: BTreeSet<u8>,
    committed: BTreeMap<Key, (i64, usize)>,
    pending: BTreeMap<(i64, Key), (i64, usize)>,
}

impl Model {
    fn fetched(&self, group: u8, stable: bool) -> Vec<String> {
        let of_group = self.committed.iter().filter(|((of, _), _)| *of == group);
        of_group
            .map(|(key, (offset, _))| match stable && self.pending.keys().any(|(_, pending)| pending == key) {
                true => format!("t {} UNSTABLE_OFFSET_COMMIT", key.1),
                false => format!("t {} {offset}", key.1),
            })
            .collect()
    }

    fn apply(&mut self, action: &Action) {
        match action {
            Action::Commit { group, partitions } => {
                self.groups.insert(*group);
                for (partition, offset) in partitions {
                    self.time += 1;
                    self.committed.insert((*group, *partition), (*offset, self.time));
                }
            }
            Action::TransactionalCommit { group, producer, partitions } => {
                self.groups.insert(*group);
                for (partition, offset) in partitions {
                    self.time += 1;
                    self.pending.insert((*producer, (*group, *partition)), (*offset, self.time));
                }
            }
            Action::End { producer, committed } => {
                let ended: Vec<_> = self.pending.extract_if(.., |(of, _), _| of == producer).collect();
                for ((_, key), pending) in ended {
                    let newer = self.committed.get(&key).is_some_and(|(_, time)| *time > pending.1);
                    if *committed && !newer {
                        self.committed.insert(key, pending);
                    }
                }
            }
            Action::Delete { group, partition } => {
                self.committed.remove(&(*group, *partition));
                self.pending.retain(|(_, key), _| *key != (*group, *partition));
            }
            Action::DeleteGroup { group } => {
                self.groups.remove(group);
                self.committed.retain(|(of, _), _| of != group);
                self.pending.retain(|(_, (of, _)), _| of != group);
            }
            Action::Reload { .. } => {}
        }
    }
}

fn apply(logged: &mut Logged, action: &Action) {
    let name = |group: &u8| format!("g{group}");
    let all = |partitions: &[(i32, i64)]| partitions.iter().map(|(at, offset)| (*at, *offset, "")).collect::<Vec<_>>();
    match action {
        Action::Commit { group, partitions } => {
            let group = name(group);
            let commit = Commit { topic_id: T, ..commit(&group, &all(partitions)) };
            commit.run(false, |commit| logged.step(|shard, step| shard.commit_offsets(commit, step).map(|_| ())))
        }
        Action::TransactionalCommit { group, producer, partitions } => {
            let producer = TransactionalProducer {
                producer_id: ProducerId(*producer),
                producer_epoch: ProducerEpoch(0),
                guard: None,
            };
            commit(&name(group), &all(partitions)).run(true, |commit| {
                logged.step(|shard, step| shard.commit_transactional_offsets(commit, producer, step).map(|_| ()))
            })
        }
        Action::End { producer, committed } => {
            logged.end(ProducerId(*producer), *committed);
            Ok(())
        }
        Action::Delete { group, partition } => {
            let topic = DeleteTopic { name: "t", partitions: vec![PartitionId(*partition)] };
            logged.step(|shard, step| shard.delete_offsets(&name(group), &[&topic], step).map(|_| ()))
        }
        Action::DeleteGroup { group } => logged.step(|shard, step| shard.delete_group(&name(group), step)),
        Action::Reload { compacted } => {
            logged.reload(*compacted);
            Ok(())
        }
    }
    // A group that does not exist has nothing to delete.
    .unwrap_or_default();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn offsets_are_what_the_log_says(actions in prop::collection::vec(action(), 1..60)) {
        let mut logged = Logged { shard: GroupShard::default(), log: Vec::new() };
        let mut model = Model::default();
        for action in &actions {
            apply(&mut logged, action);
            model.apply(action);
            for group in 0..3u8 {
                for stable in [false, true] {
                    let ours = fetched(&logged.shard, &format!("g{group}"), stable).expect("no error");
                    prop_assert_eq!(ours, model.fetched(group, stable), "{:?}", action);
                }
            }
        }
    }
}
