//! The metadata log and its snapshots, and whether the log directories hold what the metadata says.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::cli::verify_log::progress::Progress;
use crate::cli::verify_log::root::{LogDirectory, PartitionDirectory};
use crate::cli::verify_log::said;
use crate::metadata::batch::MetadataBatch;
use crate::metadata::image::{ConfigResource, MetadataImage, TopicImage};
use crate::metadata::log::DIRECTORY;
use crate::metadata::replay::Replay;
use crate::metadata::snapshot::{self, SnapshotFile, SnapshotId};
use crate::quorum::state_file::{self, ElectionState, StateFileError};
use crate::record::batch::RecordBatch;
use crate::storage::directory_name::{DirectoryKind, METADATA_TOPIC};
use crate::storage::disk::Disk;
use crate::storage::meta_properties;
use crate::storage::partition_metadata;
use crate::storage::verify::{Finding, Remedy, VerifiedLog, VerifyObserver, VerifyParams, verify};
use crate::types::{BrokerId, DirectoryId, Offset, TopicId};

/// What was found in the metadata log's directory.
pub(super) struct MetadataFound {
    /// The number of the log directory.
    pub dir: usize,
    pub path: PathBuf,
    pub log: VerifiedLog,
    pub findings: Vec<Finding>,
    /// What all records add up to, if all of them could be read.
    image: Option<MetadataImage>,
}

/// Adds up the records behind a snapshot.
struct Follow<'a> {
    progress: &'a Progress,
    replay: Option<Replay>,
    from: Offset,
    /// The first record that makes no sense.
    failed: Option<String>,
}

impl VerifyObserver for Follow<'_> {
    fn read(&mut self, bytes: u64) {
        self.progress.add(bytes, DIRECTORY);
    }

    fn batch(&mut self, batch: &RecordBatch<'_>) {
        let Some(replay) = &mut self.replay else { return };
        // Also what a snapshot stands for is decoded.
        let result = MetadataBatch::decode(batch).map_err(|error| error.to_string()).and_then(|decoded| {
            if decoded.base_offset < self.from {
                return Ok(());
            }
            replay.apply(&decoded).map_err(|error| error.to_string())
        });
        if let Err(reason) = result {
            self.failed.get_or_insert(reason);
        }
    }
}

impl MetadataFound {
    pub fn look(disk: &Arc<dyn Disk>, dir: &LogDirectory, progress: &Progress) -> MetadataFound {
        let path = dir.path.join(DIRECTORY);
        let mut findings = Vec::new();
        let mut newest: Option<(SnapshotId, Replay)> = None;
        // Verifying the log says that it cannot be listed.
        let entries = disk.list(&path).unwrap_or_default();
        let mut names: Vec<String> = entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect();
        names.sort();
        for name in names {
            match SnapshotFile::parse(&name) {
                None => {}
                Some(SnapshotFile::Leftover) => {
                    findings.push(Finding::note(name, "half written, or waits for its deletion", Remedy::None));
                }
                Some(SnapshotFile::Complete(id)) => match snapshot::read(&**disk, &path, id) {
                    Ok(replay) => newest = Some((id, replay)),
                    Err(error) => {
                        let what = said(error, &path.join(&name));
                        findings.push(Finding::fault(name, None, what, Remedy::None));
                    }
                },
            }
        }
        let covered = newest.as_ref().map(|(id, _)| id.end_offset);
        let (from, replay) = match newest {
            Some((id, replay)) => (id.end_offset, replay),
            None => (Offset(0), Replay::new(MetadataImage::empty())),
        };
        let mut follow = Follow { progress, replay: Some(replay), from, failed: None };
        let params = VerifyParams {
            dir: path.clone(),
            log_start_offset: Offset(0),
            was_closed: dir.was_closed,
            is_set_aside: false,
        };
        let mut log = verify(disk, &params, &mut follow).unwrap_or_else(VerifiedLog::unreadable);
        let mut is_complete = log.damaged.is_empty() && !log.is_unreadable;
        let first = log.first_offset.unwrap_or_default();
        if first > covered.unwrap_or_default() {
            let what = format!("the log begins at {first}, and no readable snapshot holds what was before");
            findings.push(Finding::fault("", None, what, Remedy::None));
            is_complete = false;
        }
        if let Some(reason) = follow.failed.filter(|_| is_complete) {
            findings.push(Finding::fault("", None, reason, Remedy::None));
            is_complete = false;
        }
        findings.extend(election_state(&**disk, &path, &log));
        // Everything behind damage would have to go with it, and with the metadata the topics.
        let last = log.damaged.last().map(|damage| damage.base_offset);
        let loses_records = log.damaged.iter().any(|damage| damage.is_followed || Some(damage.base_offset) != last);
        for finding in &mut log.findings {
            if loses_records && finding.position.is_some() && matches!(finding.remedy, Remedy::TakeOut | Remedy::CutOff)
            {
                finding.remedy = Remedy::None;
                finding.what += "; what follows is readable, but a start cuts it off: take the directory of another \
                                 controller, or a backup";
            }
        }
        if loses_records {
            // Nor is anything to be made anew then: that begins with cutting off.
            log.findings.iter_mut().for_each(|finding| finding.remedy = Remedy::None);
        }
        let image = follow.replay.filter(|_| is_complete).map(Replay::into_committed_image);
        if image.is_none() {
            let what = "not all of the metadata can be read: what it says of the other logs is not compared";
            findings.push(Finding::note("", what, Remedy::None));
        }
        findings.append(&mut log.findings);
        MetadataFound { dir: dir.number, path: path.clone(), log, findings, image }
    }

    /// Whether the directories hold the logs that this node is given, and no others.
    pub fn check_directories(&self, dirs: &[LogDirectory], findings: &mut Vec<(String, Finding)>) {
        let Some(image) = &self.image else { return };
        let Some(node_id) = dirs[self.dir].properties.as_ref().and_then(|properties| properties.node_id) else {
            return;
        };
        let cluster = &image.cluster;
        // Right after formatting nobody is registered.
        let is_empty = cluster.brokers.is_empty() && cluster.controllers.is_empty();
        let is_known = cluster.brokers.contains_key(&node_id) || cluster.controllers.contains_key(&node_id);
        if !is_known && !is_empty {
            let known: BTreeSet<&BrokerId> = cluster.brokers.keys().chain(cluster.controllers.keys()).collect();
            let known: Vec<String> = known.iter().map(ToString::to_string).collect();
            let what = format!("node.id is {node_id}, the metadata knows only {}", known.join(", "));
            let file = dirs[self.dir].shown(meta_properties::FILE_NAME);
            findings.push((file, Finding::fault(meta_properties::FILE_NAME, None, what, Remedy::None)));
            return;
        }
        for topic in image.topics.iter() {
            check_topic(topic, node_id, dirs, findings);
        }
        for dir in dirs {
            for log in dir.partitions.iter().filter(|log| is_current(log)) {
                if let Some(what) = unwanted(image, node_id, log) {
                    let file = format!("{}/{}", log.dir_name, partition_metadata::FILE_NAME);
                    findings.push((dir.shown(&file), Finding::fault(file, None, what, Remedy::None)));
                }
            }
            check_directory_id(dir, image, node_id, dirs, findings);
        }
    }

    /// The id of the topic whose log a directory without one holds, if that is beyond doubt.
    pub fn topic_id_of(&self, log: &PartitionDirectory, node_id: BrokerId) -> Option<TopicId> {
        if log.dir_name == DIRECTORY {
            return Some(TopicId::METADATA);
        }
        let topic = self.image.as_ref()?.topic(&log.name.topic_partition.topic)?;
        let partition = topic.partition(log.name.topic_partition.partition)?;
        partition.replicas.contains(&node_id).then_some(topic.id)
    }

    /// How many replicas a partition has; `None`: that is not known.
    pub fn replication_factor(&self, topic: &str, partition: crate::types::PartitionId) -> Option<usize> {
        Some(self.image.as_ref()?.partition(topic, partition)?.replicas.len())
    }

    /// Whether the settings have a topic compacted; `None`: it is not known, as what stands in the node's own file of settings.
    pub fn is_compacted(&self, topic: &str, node_id: Option<BrokerId>) -> Option<bool> {
        let image = self.image.as_ref()?;
        image.topic(topic)?;
        let of_topic = image.configs.value(&ConfigResource::topic(topic), "cleanup.policy");
        let of_node = || image.configs.value(&ConfigResource::broker(node_id?), "log.cleanup.policy");
        let of_cluster = || image.configs.value(&ConfigResource::cluster(), "log.cleanup.policy");
        let policy = of_topic.or_else(of_node).or_else(of_cluster)?;
        Some(policy.split(',').any(|word| word.trim() == "compact"))
    }
}

fn is_current(log: &PartitionDirectory) -> bool {
    log.name.kind == DirectoryKind::Current && &*log.name.topic_partition.topic != METADATA_TOPIC
}

/// Each partition of this node has its directory, unless it is given to a directory that was not looked at. One that lies in
/// another directory is not missing: see [`check_directory_id`].
fn check_topic(topic: &TopicImage, node_id: BrokerId, dirs: &[LogDirectory], findings: &mut Vec<(String, Finding)>) {
    for (number, partition) in topic.partitions.iter() {
        let Some(assigned) = partition.directory(node_id) else { continue };
        let holds = |dir: &&LogDirectory| {
            dir.properties.as_ref().and_then(|properties| properties.directory_id) == Some(assigned)
        };
        let dir = match dirs.iter().find(holds) {
            Some(dir) => dir,
            None if dirs.len() == 1 && assigned == DirectoryId::UNASSIGNED => &dirs[0],
            None => continue,
        };
        let name = format!("{}-{number}", topic.name);
        if !dirs.iter().flat_map(|dir| &dir.partitions).any(|log| log.dir_name == name) {
            let what = match dir.no_directories.get(&name) {
                None => "missing: the metadata gives this log to this directory".to_owned(),
                Some(kind) => format!(
                    "is {kind}, not a directory: the partition stays offline until its directory is there again; or take this \
                     away, and the log begins anew"
                ),
            };
            findings.push((dir.shown(&name), Finding::fault(name, None, what, Remedy::None)));
        }
    }
}

/// Why a log is none of this node's, if so: a start sets it aside.
fn unwanted(image: &MetadataImage, node_id: BrokerId, log: &PartitionDirectory) -> Option<String> {
    let topic_id = log.topic_id?;
    let Some(topic) = image.topic_by_id(topic_id) else {
        let named = image.topic(&log.name.topic_partition.topic);
        let named = named.map_or(String::new(), |topic| format!(", and its name has the id {}", topic.id));
        return Some(format!("topic id {topic_id} is not in the metadata{named}: a start sets the log aside as stray"));
    };
    if topic.name != log.name.topic_partition.topic {
        return Some(format!("topic id {topic_id} is that of topic {}", topic.name));
    }
    match topic.partition(log.name.topic_partition.partition) {
        Some(partition) if partition.replicas.contains(&node_id) => None,
        Some(_) => Some(format!("node {node_id} is no replica of this partition: a start sets the log aside as stray")),
        None => Some("the topic has no such partition: a start sets the log aside as stray".to_owned()),
    }
}

/// Whether the directory has the id by which the metadata knows it. That a log lies in another directory of the node than the
/// metadata says is what a move leaves of which the controller was not told: a start, Kafka's too, does so.
fn check_directory_id(
    dir: &LogDirectory,
    image: &MetadataImage,
    node_id: BrokerId,
    dirs: &[LogDirectory],
    findings: &mut Vec<(String, Finding)>,
) {
    let Some(id) = dir.properties.as_ref().and_then(|properties| properties.directory_id) else { return };
    let reserved = [DirectoryId::UNASSIGNED, DirectoryId::LOST, DirectoryId::MIGRATING];
    let ids: Vec<DirectoryId> =
        dirs.iter().filter_map(|dir| dir.properties.as_ref().and_then(|properties| properties.directory_id)).collect();
    let elsewhere: Vec<(&PartitionDirectory, DirectoryId)> = dir
        .partitions
        .iter()
        .filter(|log| is_current(log))
        .filter_map(|log| {
            let name = &log.name.topic_partition;
            let assigned = image.partition(&name.topic, name.partition)?.directory(node_id)?;
            (assigned != id && !reserved.contains(&assigned)).then_some((log, assigned))
        })
        .collect();
    let (moved, unknown): (Vec<_>, Vec<_>) = elsewhere.into_iter().partition(|(_, assigned)| ids.contains(assigned));
    let file = meta_properties::FILE_NAME;
    if let Some((first, _)) = moved.first() {
        let (count, first) = (moved.len(), &first.dir_name);
        let what = format!(
            "{count} logs here, {first} the first, are given to another directory of this node: the next start tells the \
             controller"
        );
        findings.push((dir.shown(file), Finding::note(file, what, Remedy::None)));
    }
    if let Some((_, assigned)) = unknown.first() {
        let count = unknown.len();
        let what = format!(
            "directory.id is {id}, but the metadata gives {count} of the logs here to {assigned}: with Kafka they stay \
             without a leader, Ottla tells the controller where they are and serves them"
        );
        findings.push((dir.shown(file), Finding::fault(file, None, what, Remedy::None)));
    }
}

/// Whether the file that keeps a node from voting twice is there, and not behind the log.
fn election_state(disk: &dyn Disk, path: &std::path::Path, log: &VerifiedLog) -> Option<Finding> {
    let name = state_file::FILE_NAME;
    match ElectionState::read(disk, path) {
        Ok(Some(state)) => log.last_epoch.filter(|last| last.0 > state.epoch).map(|last| {
            let what = format!("is of epoch {}, the log is of epoch {last}", state.epoch);
            Finding::fault(name, None, what, Remedy::None)
        }),
        Ok(None) => log.last_epoch.filter(|last| last.0 > 0).map(|last| {
            let what = format!("missing: the node may vote again in an epoch up to {last}");
            Finding::fault(name, None, what, Remedy::None)
        }),
        Err(error @ (StateFileError::Io { .. } | StateFileError::Malformed { .. })) => {
            Some(Finding::fault(name, None, said(error, &path.join(name)), Remedy::None))
        }
    }
}
