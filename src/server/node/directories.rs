//! The log directories at a start: whose they are, and the formatting of new ones.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tracing::{info, warn};

use super::NodeError;
use crate::config::BrokerConfig;
use crate::metadata::image::MetadataImage;
use crate::storage::disk::Disk;
use crate::storage::manager::LogManager;
use crate::storage::meta_properties::{FILE_NAME, MetaPropertiesEnsemble, random_cluster_id};
use crate::types::{BrokerId, DirectoryId};

/// The directories of this node.
pub(super) struct Directories {
    pub cluster_id: String,
    /// A directory had to be formatted beside others that were in use: it was added, or the volume is missing that should
    /// be mounted there.
    pub one_is_new: bool,
    /// `log.dirs`, all of them.
    pub log_dirs: Vec<(PathBuf, DirectoryId)>,
    /// Those that cannot be used, and why.
    pub unusable: BTreeMap<PathBuf, String>,
    pub metadata_log_dir: (PathBuf, DirectoryId),
}

/// Reads `meta.properties` of all directories, checks that they belong together and to this node, and formats those that
/// are new, so that `ottla` needs no step before its first start. A directory that cannot be read is left offline.
pub(super) fn prepare(disk: &dyn Disk, config: &BrokerConfig, now_ms: i64) -> Result<Directories, NodeError> {
    let mut ensemble = MetaPropertiesEnsemble::load(disk, &config.log_dirs, &config.metadata_log_dir);
    let wanted = config.ottla.cluster_id.as_deref();
    let cluster_id = match ensemble.verify(wanted, config.node_id)? {
        Some(cluster_id) if !ensemble.formatted.is_empty() => cluster_id,
        wanted => {
            let cluster_id = wanted.unwrap_or_else(random_cluster_id);
            info!(cluster_id, "a new cluster");
            cluster_id
        }
    };
    let one_is_new = !ensemble.formatted.is_empty() && !ensemble.unformatted.is_empty();
    for dir in ensemble.unformatted.iter().filter(|_| one_is_new) {
        warn!(dir = %dir.display(), "a new log directory beside others: no partition is made anew in place of one that should \
            lie there already");
    }
    ensemble.format(disk, &cluster_id, config.node_id, now_ms);
    ensemble.check_metadata_log_dir()?;
    let ids = ensemble.directory_ids();
    let log_dirs = config
        .log_dirs
        .iter()
        .map(|dir| {
            // One that failed keeps its place in the list, under an id that nothing lies in.
            let id = ids.get(dir).copied().unwrap_or_else(DirectoryId::random);
            (dir.clone(), id)
        })
        .collect();
    let reasons = ensemble.failed.iter().map(|(dir, error)| (dir.clone(), format!("cannot use {FILE_NAME}: {error}")));
    let unusable: BTreeMap<PathBuf, String> = reasons.collect();
    // All that did not fail has an id now.
    let metadata_log_dir = (config.metadata_log_dir.clone(), ids[&config.metadata_log_dir]);
    Ok(Directories { cluster_id, one_is_new, log_dirs, unusable, metadata_log_dir })
}

/// Says of the logs that lie in another directory than the metadata names, where that is none of this node's: its `directory.id` has
/// changed. The controller is told where they are.
pub(super) fn tell_unknown(node: BrokerId, logs: &LogManager, image: &MetadataImage) {
    let known: Vec<DirectoryId> = logs.log_dirs().into_iter().map(|dir| dir.id).collect();
    let mut moved: BTreeMap<(DirectoryId, DirectoryId), usize> = BTreeMap::new();
    for (topic_partition, _) in logs.logs() {
        let registration =
            image.topic(&topic_partition.topic).and_then(|topic| topic.partition(topic_partition.partition));
        let named = registration.and_then(|registration| registration.directory(node));
        let is_other = |named: &DirectoryId| !named.is_reserved() && !known.contains(named);
        if let (Some(named), Some(actual)) = (named.filter(is_other), logs.directory_of(&topic_partition)) {
            *moved.entry((named, actual)).or_default() += 1;
        }
    }
    for ((named, actual), replicas) in moved {
        warn!(directory_id = %actual, expected = %named, replicas, "a log directory has another directory.id in meta.properties than the \
            metadata says: noting where its replicas are");
    }
}
