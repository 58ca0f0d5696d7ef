//! The metadata image: what all records up to one offset add up to. Immutable once published.
//!
//! Copies share what did not change ([`SortedMap`], `Arc`), so publishing costs what changed. The controller's driver
//! publishes; any number of readers load the newest image without a lock and keep using theirs as long as they need
//! one consistent view. An image never shows a topic whose partitions are not served on this node: publishers run
//! before an image becomes visible.

mod apply;
mod cluster;
mod config;
mod delta;
mod security;
mod sorted_map;
mod topics;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

pub use apply::ApplyError;
pub use cluster::{BrokerRegistration, ClusterImage, ControllerRegistration, Endpoint, VersionRange};
pub use config::{ConfigResource, ConfigResourceType, ConfigsImage};
pub use delta::MetadataDelta;
pub use security::{AclsImage, ClientQuotasImage, DelegationTokensImage, QuotaEntity, ScramImage};
pub use sorted_map::SortedMap;
pub use topics::{LeaderRecoveryState, NO_LEADER, NO_LEADER_CHANGE, PartitionRegistration, TopicImage, TopicsImage};

use crate::metadata::version::MetadataVersion;
use crate::types::{BrokerId, LeaderEpoch, Offset, PartitionId, ProducerId, TopicId};

/// The state of the cluster at one offset of the metadata log.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataImage {
    pub provenance: Provenance,
    pub features: Arc<FeaturesImage>,
    pub cluster: Arc<ClusterImage>,
    pub topics: TopicsImage,
    pub configs: ConfigsImage,
    /// The first producer id that no block contains yet; `None` before the first block.
    pub next_producer_id: Option<ProducerId>,
    pub client_quotas: Arc<ClientQuotasImage>,
    pub scram: Arc<ScramImage>,
    pub delegation_tokens: Arc<DelegationTokensImage>,
    pub acls: AclsImage,
}

/// Which records an image contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Offset of the last record contained; -1 of the empty image.
    pub offset: Offset,
    /// Leader epoch of that record.
    pub epoch: LeaderEpoch,
    /// When that record was appended.
    pub last_contained_log_time_ms: i64,
}

/// Finalized feature levels; a feature at level 0 has no entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeaturesImage {
    /// The level of `metadata.version`, see [`crate::metadata::version::MetadataVersion`]; 0 before it is set.
    pub metadata_version: i16,
    /// The level of `kraft.version`, which control records of the quorum say.
    pub kraft_version: i16,
    /// The other features' levels.
    pub finalized: BTreeMap<String, i16>,
}

impl FeaturesImage {
    pub const METADATA_VERSION: &'static str = "metadata.version";
    pub const KRAFT_VERSION: &'static str = "kraft.version";
    pub const GROUP_VERSION: &'static str = "group.version";
    pub const TRANSACTION_VERSION: &'static str = "transaction.version";
    pub const ELIGIBLE_LEADER_REPLICAS: &'static str = "eligible.leader.replicas.version";

    /// The finalized level of any feature; 0 when it is off.
    pub fn level_of(&self, feature: &str) -> i16 {
        match feature {
            Self::METADATA_VERSION => self.metadata_version,
            Self::KRAFT_VERSION => self.kraft_version,
            other => self.level(other),
        }
    }

    /// The finalized level of a feature other than `metadata.version` and `kraft.version`; 0 when it is off.
    pub fn level(&self, feature: &str) -> i16 {
        self.finalized.get(feature).copied().unwrap_or(0)
    }
}

impl MetadataImage {
    /// The state before any record.
    pub fn empty() -> MetadataImage {
        MetadataImage {
            provenance: Provenance { offset: Offset(-1), epoch: LeaderEpoch(0), last_contained_log_time_ms: 0 },
            features: Arc::default(),
            cluster: Arc::default(),
            topics: TopicsImage::default(),
            configs: ConfigsImage::default(),
            next_producer_id: None,
            client_quotas: Arc::default(),
            scram: Arc::default(),
            delegation_tokens: Arc::default(),
            acls: AclsImage::new(),
        }
    }

    /// The level that decides which records may be written.
    pub fn metadata_version(&self) -> MetadataVersion {
        MetadataVersion(self.features.metadata_version)
    }

    /// Whether eligible leader replicas are kept (KIP-966).
    pub fn elr_enabled(&self) -> bool {
        self.metadata_version().has_elr() && self.features.level(FeaturesImage::ELIGIBLE_LEADER_REPLICAS) > 0
    }

    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.by_name(name)
    }

    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.topics.by_id(id)
    }

    pub fn partition(&self, topic: &str, partition: PartitionId) -> Option<&Arc<PartitionRegistration>> {
        self.topic(topic)?.partition(partition)
    }

    pub fn broker(&self, id: BrokerId) -> Option<&Arc<BrokerRegistration>> {
        self.cluster.broker(id)
    }
}

/// Reads the newest published image. Cheap to clone and to load.
#[derive(Clone, Debug)]
pub struct MetadataHandle {
    current: Arc<ArcSwap<MetadataImage>>,
}

impl MetadataHandle {
    /// A handle on `image`, until another is published.
    pub fn new(image: Arc<MetadataImage>) -> MetadataHandle {
        MetadataHandle { current: Arc::new(ArcSwap::new(image)) }
    }

    /// The newest image, to be kept as long as one consistent view is needed.
    pub fn load(&self) -> Arc<MetadataImage> {
        self.current.load_full()
    }

    /// Makes an image the newest. Only the controller's driver (and tests) publish.
    pub fn publish(&self, image: Arc<MetadataImage>) {
        self.current.store(image);
    }
}

#[cfg(test)]
mod tests;
