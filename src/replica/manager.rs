//! The replicas on this broker, found by topic and partition, and kept as the metadata says.
//!
//! [`ReplicaManager::apply`] is the controller's publisher: it opens the logs of new partitions, hands changed settings
//! and leaderships to the others, and closes and deletes what is gone. It returns when all of it holds, and only then
//! is the metadata published; so whatever the metadata names is served.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use thiserror::Error;
use tracing::{error, info, warn};

use super::assignments::Assignments;
use super::late_transactions::LateTransactions;
use super::moves::ReplicaMoves;
use super::partition::Partition;
use crate::config::dynamic::DynamicBrokerConfig;
use crate::config::{BrokerConfig, TopicConfig};
use crate::metadata::image::{
    ConfigResource, ConfigResourceType, MetadataDelta, MetadataImage, PartitionRegistration, TopicImage,
};
use crate::storage::cleaner::CleanerConfig;
use crate::storage::log::{ChangeError, Log};
use crate::storage::manager::{CreateError, LogLookupError, LogManager, NewLog};
use crate::storage::recovery::DamagePolicy;
use crate::storage::work_queue::in_parallel;
use crate::types::{LeaderEpoch, Offset, PartitionId, ProducerId, TopicId, TopicName, TopicPartition};

/// Partitions that are opened, or get a new leader epoch, at the same time.
const PARALLEL_OPENS: usize = 32;

/// Why a partition is not to be had here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LookupError {
    #[error("no topic has this id")]
    UnknownTopicId,
    #[error("there is no such topic or partition")]
    UnknownTopicOrPartition,
    #[error("this broker has no replica of the partition")]
    NotHere,
    #[error("the partition's log, or its directory, is offline")]
    Offline,
}

/// A partition as this broker sees it.
#[derive(Clone)]
enum Hosted {
    Online(Arc<Partition>),
    /// Its log cannot be used.
    Offline,
    /// Only other brokers have it.
    Elsewhere,
}

/// A topic with all its partitions, whether they are here or not.
struct HostedTopic {
    name: TopicName,
    partitions: Vec<Hosted>,
}

impl HostedTopic {
    fn partition(&self, partition: PartitionId) -> Result<Arc<Partition>, LookupError> {
        let index = usize::try_from(partition.0).map_err(|_| LookupError::UnknownTopicOrPartition)?;
        match self.partitions.get(index) {
            Some(Hosted::Online(partition)) => Ok(partition.clone()),
            Some(Hosted::Offline) => Err(LookupError::Offline),
            Some(Hosted::Elsewhere) => Err(LookupError::NotHere),
            None => Err(LookupError::UnknownTopicOrPartition),
        }
    }

    fn online(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.partitions.iter().filter_map(|hosted| match hosted {
            Hosted::Online(partition) => Some(partition),
            Hosted::Offline | Hosted::Elsewhere => None,
        })
    }
}

/// A partition as the metadata wants it, and as it is.
struct Assignment<'a> {
    topic: &'a Arc<TopicImage>,
    id: PartitionId,
    registration: &'a PartitionRegistration,
    /// Whether it was given to this broker while that ran, as of when it was tried first.
    is_new: bool,
    /// Whether one that is offline is to be tried again.
    retry: bool,
    config: Arc<TopicConfig>,
    before: Option<Hosted>,
}

/// Partitions for which there was no room, and whether they were new then: a log of one that was not may be somewhere.
type LackingRoom = BTreeMap<(TopicId, PartitionId), bool>;

#[derive(Default)]
struct Topics {
    by_id: HashMap<TopicId, Arc<HostedTopic>>,
    by_name: HashMap<TopicName, Arc<HostedTopic>>,
}

/// The broker's settings in force, for all who read them. Written by [`ReplicaManager::apply`].
pub type Settings = Arc<ArcSwap<DynamicBrokerConfig>>;

/// The settings of a topic as an image has them. What cannot be read is left out, and logged.
pub fn topic_config(broker: &BrokerConfig, image: &MetadataImage, topic: &str) -> TopicConfig {
    let Some(overrides) = image.configs.get(&ConfigResource::topic(topic)) else {
        return broker.topic_defaults.clone();
    };
    let (config, complaints) = TopicConfig::resolve(overrides, broker);
    for complaint in complaints {
        warn!(topic, complaint, "a topic's setting cannot be used");
    }
    config
}

/// See the module.
pub struct ReplicaManager {
    config: Arc<BrokerConfig>,
    settings: Settings,
    logs: Arc<LogManager>,
    assignments: Arc<Assignments>,
    moves: Arc<ReplicaMoves>,
    topics: RwLock<Topics>,
    /// From `replication-offset-checkpoint`, for partitions that are opened.
    high_watermarks: BTreeMap<TopicPartition, Offset>,
    /// What was applied last. Held while something is.
    applied: Mutex<Option<MetadataImage>>,
    /// Partitions that could not be opened for want of room.
    lacking_room: Mutex<LackingRoom>,
    /// Whether [`Self::apply`] has been called: a partition that appears later was assigned just now.
    started: AtomicBool,
    /// A log directory may be missing: a log that is not there at the start is not made anew.
    may_miss_logs: bool,
    late_transactions: LateTransactions,
    /// The settings of which it was told that they do nothing.
    told_without_effect: Mutex<Vec<String>>,
}

impl ReplicaManager {
    /// No partitions yet. `high_watermarks` are those of the last checkpoint. With `may_miss_logs`, partitions that the
    /// metadata knows at the start and no log directory has are offline, instead of beginning anew at offset 0.
    pub fn new(
        config: Arc<BrokerConfig>,
        settings: Settings,
        logs: Arc<LogManager>,
        high_watermarks: BTreeMap<TopicPartition, Offset>,
        may_miss_logs: bool,
    ) -> Arc<ReplicaManager> {
        logs.update_cordoned(&settings.load().current().cordoned_log_dirs);
        let assignments: Arc<Assignments> = Arc::default();
        let threads = config.num_replica_alter_log_dirs_threads.unwrap_or(config.log_dirs.len() as i32).max(1) as usize;
        let moves = ReplicaMoves::new(logs.clone(), assignments.clone(), threads);
        Arc::new(ReplicaManager {
            assignments,
            moves,
            config,
            settings,
            logs,
            topics: RwLock::default(),
            high_watermarks,
            applied: Mutex::default(),
            lacking_room: Mutex::default(),
            started: AtomicBool::new(false),
            may_miss_logs,
            late_transactions: LateTransactions::default(),
            told_without_effect: Mutex::default(),
        })
    }

    /// A partition by its topic's name.
    pub fn partition(&self, topic: &str, partition: PartitionId) -> Result<Arc<Partition>, LookupError> {
        let topics = self.topics.read();
        topics.by_name.get(topic).ok_or(LookupError::UnknownTopicOrPartition)?.partition(partition)
    }

    /// A partition by its topic's id.
    pub fn partition_by_id(&self, topic: TopicId, partition: PartitionId) -> Result<Arc<Partition>, LookupError> {
        let topics = self.topics.read();
        topics.by_id.get(&topic).ok_or(LookupError::UnknownTopicId)?.partition(partition)
    }

    /// All partitions that are online here.
    pub fn online(&self) -> Vec<Arc<Partition>> {
        let topics = self.topics.read();
        topics.by_id.values().flat_map(|topic| topic.online().cloned()).collect()
    }

    /// The high watermarks as of now, for the checkpoint.
    pub fn high_watermarks(&self) -> BTreeMap<TopicPartition, Offset> {
        self.online()
            .into_iter()
            .map(|partition| (partition.topic_partition().clone(), partition.high_watermark()))
            .collect()
    }

    /// Starts compaction of the logs of partitions that are online, and retention of those.
    pub fn start_cleaner(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        let retention = move |now_ms: i64| {
            if let Some(this) = this.upgrade() {
                this.delete_old_segments_of(now_ms, |log| this.logs.is_cleaned(log));
            }
        };
        let this = Arc::downgrade(self);
        let high_watermark = move |partition: &TopicPartition| {
            let partition = this.upgrade()?.partition(&partition.topic, partition.partition).ok()?;
            Some(partition.high_watermark())
        };
        let config = CleanerConfig::of(self.settings.load().current());
        self.logs.start_cleaner(config, Arc::new(high_watermark), Arc::new(retention));
    }

    /// Makes this broker's replicas what `image` says; `delta` tells what is new in it.
    pub fn apply(&self, image: &MetadataImage, delta: &MetadataDelta) {
        let mut applied = self.applied.lock();
        if delta.changed_configs.iter().any(|resource| resource.kind == ConfigResourceType::BROKER) {
            self.update_settings(image);
        }
        for topic in delta.deleted_topics.values() {
            self.delete_topic(topic);
        }
        let changed = delta.created_topics.iter().chain(delta.changed_topics.keys());
        self.apply_topics(image, changed.filter_map(|&id| image.topic_by_id(id)), &LackingRoom::new());
        self.apply_configs(image, delta);
        if !self.started.swap(true, Ordering::Relaxed) {
            self.resume_moves();
        }
        *applied = Some(image.clone());
    }

    /// Opens the partitions for which there was no room when they came. For a thread that may wait.
    pub fn retry_for_room(&self) {
        self.open_those_with_room();
        let applied = self.applied.lock();
        let lacking = std::mem::take(&mut *self.lacking_room.lock());
        if let Some(image) = &*applied {
            let topics: BTreeSet<TopicId> = lacking.keys().map(|(topic, _)| *topic).collect();
            self.apply_topics(image, topics.iter().filter_map(|&id| image.topic_by_id(id)), &lacking);
        }
    }

    /// Opens logs that are there: they may have to be recovered, and that takes longer than changes of the cluster are to wait.
    fn open_those_with_room(&self) {
        let lacking: Vec<(TopicId, PartitionId)> = self.lacking_room.lock().keys().copied().collect();
        if lacking.is_empty() {
            return;
        }
        let Some(image) = self.applied.lock().clone() else { return };
        for (topic, id) in lacking {
            if let Some(topic) = image.topic_by_id(topic)
                && let Some(registration) = topic.partitions.get(&id)
            {
                let topic_partition = TopicPartition { topic: topic.name.clone(), partition: id };
                let config = Arc::new(self.topic_config(&image, &topic.name));
                let new = self.new_log(topic, registration, config, false);
                // Whatever comes of it is found, and told, when the partition is tried again.
                let _ = self.logs.open_if_unopened(&topic_partition, &new);
            }
        }
    }

    /// Of the partitions that are offline, those that were `lacking` room are tried again.
    fn apply_topics<'a>(
        &self,
        image: &MetadataImage,
        topics: impl Iterator<Item = &'a Arc<TopicImage>>,
        lacking: &LackingRoom,
    ) {
        let started = self.started.load(Ordering::Relaxed);
        let mut assignments = Vec::new();
        for topic in topics {
            let known = self.topics.read().by_id.get(&topic.id).cloned();
            let config = Arc::new(self.topic_config(image, &topic.name));
            for (&id, registration) in topic.partitions.iter() {
                let before = known.as_ref().and_then(|known| known.partitions.get(id.0 as usize).cloned());
                let tried = lacking.get(&(topic.id, id)).copied();
                let (is_new, retry) = (tried.unwrap_or(started), tried.is_some());
                assignments.push(Assignment { topic, id, registration, is_new, retry, config: config.clone(), before });
            }
        }
        // Each waits for the disk several times, and the disk takes many at once.
        let mut hosted = in_parallel(vec![((), assignments.iter().collect())], PARALLEL_OPENS, |(), assignment| {
            self.host(assignment)
        })
        .into_iter();
        for of_topic in assignments.chunk_by(|a, b| a.topic.id == b.topic.id) {
            let topic = of_topic[0].topic;
            let partitions: Vec<Hosted> = hosted.by_ref().take(of_topic.len()).collect();
            let is_new = |(assignment, hosted): &(&Assignment<'_>, &Hosted)| {
                matches!(assignment.before, None | Some(Hosted::Elsewhere)) && matches!(hosted, Hosted::Online(_))
            };
            let created = of_topic.iter().zip(&partitions).filter(is_new).count();
            if created > 0 && started {
                info!(topic = %topic.name, partitions = created, "created logs");
            }
            let hosted = Arc::new(HostedTopic { name: topic.name.clone(), partitions });
            let mut topics = self.topics.write();
            topics.by_id.insert(topic.id, hosted.clone());
            topics.by_name.insert(topic.name.clone(), hosted.clone());
            // A directory that failed before this was not told of those that were not here yet; one that fails now waits.
            for partition in hosted.online() {
                if matches!(self.logs.get(partition.topic_partition()), Err(LogLookupError::Offline)) {
                    partition.set_offline();
                }
            }
        }
    }

    /// Brings one partition into the state that the metadata wants.
    fn host(&self, assignment: &Assignment<'_>) -> Hosted {
        let registration = assignment.registration;
        let hosted = self.host_log(assignment);
        if let Hosted::Online(partition) = &hosted {
            self.check_directory(
                assignment.topic.id,
                partition.topic_partition(),
                registration.directory(self.config.node_id),
            );
        }
        if let Hosted::Online(partition) = &hosted
            && let Err(error) = partition.apply(registration, self.config.node_id)
        {
            error!(partition = %partition.topic_partition(), %error, "the partition cannot be led");
        }
        hosted
    }

    fn host_log(&self, assignment: &Assignment<'_>) -> Hosted {
        let registration = assignment.registration;
        match &assignment.before {
            _ if !registration.replicas.contains(&self.config.node_id) => Hosted::Elsewhere,
            Some(Hosted::Offline) if assignment.retry => self.open(assignment),
            Some(hosted @ (Hosted::Online(_) | Hosted::Offline)) => hosted.clone(),
            Some(Hosted::Elsewhere) | None => self.open(assignment),
        }
    }

    fn open(&self, assignment: &Assignment<'_>) -> Hosted {
        let &Assignment { topic, id, registration, is_new, ref config, .. } = assignment;
        let topic_partition = TopicPartition { topic: topic.name.clone(), partition: id };
        if self.may_miss_logs && !is_new && matches!(self.logs.get(&topic_partition), Err(LogLookupError::Unknown)) {
            error!(partition = %topic_partition, "no log directory has the partition's log, and one of them is new: the partition \
                stays offline");
            return Hosted::Offline;
        }
        let noted = self.high_watermarks.get(&topic_partition).copied();
        // Of one that never was here, as there was no room, none is noted, though it has been given to this node for many a start.
        let had_log =
            || noted.is_some() || registration.leader_epoch > LeaderEpoch(0) && !self.logs.knows_high_watermarks();
        let is_lost = !is_new
            && !self.logs.has_offline_dirs()
            && matches!(self.logs.get(&topic_partition), Err(LogLookupError::Unknown))
            && had_log();
        let new = self.new_log(topic, registration, config.clone(), is_new);
        match self.logs.get_or_create(&topic_partition, new) {
            Ok(log) => {
                if is_lost {
                    warn!(partition = %topic_partition, "the partition's log is not there: an empty one takes its place");
                }
                Hosted::Online(Arc::new(Partition::new(log, noted.unwrap_or(Offset(0)))))
            }
            // It is told of the directory, and not of each partition.
            Err(CreateError::Full { .. }) => {
                self.lacking_room.lock().insert((topic.id, id), is_new);
                Hosted::Offline
            }
            Err(CreateError::Unopened(_)) => Hosted::Offline,
            Err(error) => {
                error!(partition = %topic_partition, %error, "the partition's log cannot be opened");
                Hosted::Offline
            }
        }
    }

    fn new_log(
        &self,
        topic: &TopicImage,
        registration: &PartitionRegistration,
        config: Arc<TopicConfig>,
        is_new: bool,
    ) -> NewLog {
        NewLog {
            topic_id: topic.id,
            config,
            // Where nobody else has the records, what can still be read is kept.
            damage: if registration.replicas.len() > 1 { DamagePolicy::CutOff } else { DamagePolicy::KeepReadable },
            directory: registration.directory(self.config.node_id),
            is_new,
        }
    }

    fn delete_topic(&self, topic: &TopicImage) {
        let removed = {
            let mut topics = self.topics.write();
            // A new topic of the same name may have taken the name over already.
            let removed = topics.by_id.remove(&topic.id);
            if let (Some(removed), Some(named)) = (&removed, topics.by_name.get(&topic.name))
                && Arc::ptr_eq(removed, named)
            {
                topics.by_name.remove(&topic.name);
            }
            removed
        };
        let Some(removed) = removed else { return };
        let mut here = Vec::new();
        for (index, hosted) in removed.partitions.iter().enumerate() {
            match hosted {
                Hosted::Online(partition) => partition.stop(),
                Hosted::Offline => {}
                Hosted::Elsewhere => continue,
            }
            here.push(TopicPartition::new(removed.name.clone(), index as i32));
        }
        let left = self.logs.delete(&here).len();
        if left > 0 {
            warn!(topic = %topic.name, id = %topic.id, partitions = left, "logs of a deleted topic are in directories that are offline, \
                perhaps: what is found there at a start is set aside");
        }
        info!(topic = %removed.name, id = %topic.id, partitions = removed.partitions.len(), "topic deleted");
    }

    fn apply_configs(&self, image: &MetadataImage, delta: &MetadataDelta) {
        let mut topics: Vec<&str> = Vec::new();
        for resource in &delta.changed_configs {
            match resource.kind {
                ConfigResourceType::TOPIC => topics.push(&resource.name),
                // A broker's setting is the default of all topics.
                ConfigResourceType::BROKER => {
                    let names: Vec<TopicName> = self.topics.read().by_name.keys().cloned().collect();
                    for name in names {
                        self.update_config(image, &name);
                    }
                    return;
                }
                _ => {}
            }
        }
        for topic in topics {
            self.update_config(image, topic);
        }
    }

    fn update_settings(&self, image: &MetadataImage) {
        let of_all = image.configs.of(&ConfigResource::cluster());
        let of_this = image.configs.of(&ConfigResource::broker(self.config.node_id));
        let (updated, complaints) = self.settings.load().update(of_all, of_this);
        for complaint in complaints {
            warn!(complaint, "a dynamic setting of the broker cannot be used");
        }
        let without_effect = updated.without_effect();
        let told_before = std::mem::replace(&mut *self.told_without_effect.lock(), without_effect.clone());
        for line in without_effect.iter().filter(|line| !told_before.contains(line)) {
            warn!("{line}");
        }
        let told = |settings: &DynamicBrokerConfig| settings.current().advertised_listeners.clone();
        if told(&updated) != told(&self.settings.load()) {
            // The end of it is what a test module of ZooKeeper's times waits for after such a change.
            let addresses: Vec<String> = told(&updated).iter().map(ToString::to_string).collect();
            info!(
                addresses = addresses.join(","),
                "clients are told other addresses; Checking need to trigger auto leader balancing"
            );
        }
        self.logs.update(updated.current());
        self.moves.set_rate(updated.replica_alter_log_dirs_io_max_bytes_per_second());
        self.settings.store(Arc::new(updated));
    }

    fn update_config(&self, image: &MetadataImage, topic: &str) {
        let Some(hosted) = self.topics.read().by_name.get(topic).cloned() else { return };
        let config = Arc::new(self.topic_config(image, topic));
        for partition in hosted.online() {
            partition.update_config(config.clone());
            if let Some(logs) = self.logs.future(partition.topic_partition()) {
                logs.future.update_config(config.clone());
            }
        }
    }

    fn topic_config(&self, image: &MetadataImage, topic: &str) -> TopicConfig {
        topic_config(self.settings.load().current(), image, topic)
    }

    /// The directory of these partitions failed: they are offline from now on, unless they were moved to another one while it
    /// did.
    pub fn set_offline(&self, partitions: &[TopicPartition]) {
        for TopicPartition { topic, partition } in partitions {
            if let Ok(partition) = self.partition(topic, *partition) {
                partition.follow_directory(&self.logs);
            }
        }
    }

    /// Tells of transactions that hang, each once. Gives the producers of those told now.
    pub fn report_late_transactions(&self, now_ms: i64) -> BTreeSet<ProducerId> {
        self.late_transactions.look(&self.online(), now_ms)
    }

    /// Applies retention to all logs but those that the cleaner looks after, which does that. Reads and deletes files: for a thread
    /// that may wait.
    pub fn delete_old_segments(&self, now_ms: i64) {
        self.delete_old_segments_of(now_ms, |log| !self.logs.is_cleaned(log));
        for (partition, log) in self.logs.futures() {
            match log.delete_old_segments(now_ms, log.log_end_offset()) {
                // The move may have ended since, or its directory failed, which was told where it was found.
                Ok(_) | Err(ChangeError::Offline | ChangeError::Moved) => {}
                Err(error) => warn!(%partition, %error, "cannot delete old segments of a future log"),
            }
        }
    }

    fn delete_old_segments_of(&self, now_ms: i64, is_meant: impl Fn(&Log) -> bool) {
        for partition in self.online().into_iter().filter(|partition| is_meant(&partition.log())) {
            partition.delete_old_segments(now_ms);
        }
    }

    /// The logs behind the replicas.
    pub(super) fn logs(&self) -> &Arc<LogManager> {
        &self.logs
    }

    pub(super) fn moves(&self) -> &Arc<ReplicaMoves> {
        &self.moves
    }

    /// Replicas of whose directory the controller is to be told.
    pub fn assignments(&self) -> &Arc<Assignments> {
        &self.assignments
    }

    /// Interrupts the moves between log directories; the next start goes on with them. Waits for those that write.
    pub fn stop_moves(&self) {
        self.moves.stop();
    }
}

impl std::fmt::Debug for ReplicaManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplicaManager").field("node_id", &self.config.node_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
