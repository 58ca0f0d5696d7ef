//! Which features this version knows, at which levels, and the records a new cluster starts with.

use crate::metadata::image::{ConfigResource, FeaturesImage, VersionRange};
use crate::metadata::records::{ConfigRecord, FeatureLevelRecord, VersionedRecord};
use crate::metadata::version::MetadataVersion;

/// A feature: levels that are served, and the level in a new cluster.
pub struct Feature {
    pub name: &'static str,
    pub supported: VersionRange,
    pub default_level: i16,
}

const fn feature(name: &'static str, min: i16, max: i16, default_level: i16) -> Feature {
    Feature { name, supported: VersionRange { min, max }, default_level }
}

impl Feature {
    /// The feature of this name, if it is known.
    pub fn named(name: &str) -> Option<&'static Feature> {
        FEATURES.iter().find(|feature| feature.name == name)
    }
}

/// All features of Kafka 4.3's level, in the order in which a new cluster records them. `kraft.version` is kept by
/// control records of the quorum, not by a feature record.
pub static FEATURES: [Feature; 7] = [
    feature(FeaturesImage::METADATA_VERSION, MetadataVersion::MINIMUM.0, MetadataVersion::LATEST.0, 30),
    feature(FeaturesImage::ELIGIBLE_LEADER_REPLICAS, 0, 1, 1),
    feature(FeaturesImage::GROUP_VERSION, 0, 1, 1),
    feature(FeaturesImage::KRAFT_VERSION, 0, 1, 0),
    feature("share.version", 0, 1, 1),
    feature("streams.version", 0, 1, 1),
    feature(FeaturesImage::TRANSACTION_VERSION, 0, 2, 2),
];

/// The bootstrap records of a new cluster: the features' levels.
pub fn bootstrap_records() -> Vec<VersionedRecord> {
    FEATURES
        .iter()
        .filter(|feature| feature.default_level > 0)
        .map(|feature| {
            VersionedRecord::lowest(FeatureLevelRecord {
                name: feature.name.to_owned(),
                feature_level: feature.default_level,
            })
        })
        .collect()
}

/// The `min.insync.replicas` of the whole cluster.
pub fn cluster_min_insync_replicas(min_insync_replicas: i32) -> VersionedRecord {
    let cluster = ConfigResource::cluster();
    VersionedRecord::lowest(ConfigRecord {
        resource_type: cluster.kind.0,
        resource_name: cluster.name,
        name: "min.insync.replicas".to_owned(),
        value: Some(min_insync_replicas.to_string()),
    })
}
