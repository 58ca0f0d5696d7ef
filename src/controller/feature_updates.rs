//! UpdateFeatures: which levels of which features may follow on one another (KIP-584, KIP-778, KIP-1022).
//!
//! All updates of a request hold, or none: the first that is refused speaks for all. In which order they are looked at,
//! and so which one speaks, is that of Kafka's hash map. What a request asks for is checked in this order:
//!
//! 1. the kind of the update is known (upgrade, safe downgrade, unsafe downgrade);
//! 2. the level is not negative, and this node, all brokers and all controllers know it;
//! 3. it goes the way that the kind of the update says; staying where one is goes any way;
//! 4. a lower `metadata.version` must not take anything away from what metadata can say; `kraft.version` never sinks;
//!    of others, what they depend on must be there, or come with the same request.
//!
//! `kraft.version` stands in control records of the quorum and not among the features' records: the driver writes them.

use std::collections::BTreeMap;

use kafka_protocol::messages::UpdateFeaturesRequest;
use kafka_protocol::messages::UpdateFeaturesResponse;
use kafka_protocol::messages::update_features_response::UpdatableFeatureResult;

use super::decision::{ApiError, Decision};
use super::features::{Feature, cluster_min_insync_replicas};
use super::settings::ControllerSettings;
use crate::config;
use crate::metadata::image::{ConfigResourceType, FeaturesImage, MetadataImage, VersionRange};
use crate::metadata::records::{ConfigRecord, FeatureLevelRecord, NoOpRecord, VersionedRecord};
use crate::metadata::version::MetadataVersion;
use crate::protocol::ErrorCode;

/// What becomes of a request.
pub struct FeaturesDecision {
    pub decision: Decision<UpdateFeaturesResponse>,
    /// The voters are to be written down, before the records, with this `kraft.version`.
    pub kraft_version: Option<i16>,
}

/// Which way an update may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpgradeType {
    Unknown,
    Upgrade,
    SafeDowngrade,
    UnsafeDowngrade,
}

impl UpgradeType {
    fn from_code(code: i8) -> UpgradeType {
        match code {
            1 => UpgradeType::Upgrade,
            2 => UpgradeType::SafeDowngrade,
            3 => UpgradeType::UnsafeDowngrade,
            _ => UpgradeType::Unknown,
        }
    }
}

/// What one update brings about.
enum Accepted {
    Record(FeatureLevelRecord),
    /// `kraft.version`; it may stay as it is, which is written down by a record that says nothing.
    KraftVersion(i16),
    Nothing,
}

/// Decides on a request of that version.
pub fn update_features(
    image: &MetadataImage,
    settings: &ControllerSettings,
    request: &UpdateFeaturesRequest,
    api_version: i16,
) -> FeaturesDecision {
    // v0 has its own word for a downgrade, which Kafka's controller does not read: there it is an upgrade.
    let mut updates: BTreeMap<&str, (i16, UpgradeType)> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for update in &request.feature_updates {
        let wanted = (update.max_version_level, UpgradeType::from_code(update.upgrade_type));
        // Of a feature that stands twice the last word counts.
        if updates.insert(&update.feature, wanted).is_none() {
            order.push(&update.feature);
        }
    }
    config::in_hash_order(&mut order);

    let mut records = Vec::new();
    let mut kraft_version = None;
    let proposed = |feature: &str| match updates.get(feature) {
        Some((level, _)) => Some(*level),
        None => current_level(image, feature),
    };
    for name in order {
        let (level, upgrade_type) = updates[name];
        match update_feature(image, settings, name, level, upgrade_type, &proposed) {
            Ok(Accepted::Record(record)) => records.push(VersionedRecord::lowest(record)),
            Ok(Accepted::KraftVersion(version)) => {
                kraft_version = (version != image.features.kraft_version).then_some(version);
                records.push(VersionedRecord::lowest(NoOpRecord));
            }
            Ok(Accepted::Nothing) => {}
            Err(error) => return refusal(&error),
        }
    }
    if request.validate_only {
        return accepted(Vec::new(), None, request, api_version);
    }
    let elr = updates.get(FeaturesImage::ELIGIBLE_LEADER_REPLICAS).is_some_and(|(level, _)| *level > 0);
    let mut all = if elr { elr_safety_records(image, settings) } else { Vec::new() };
    all.append(&mut records);
    accepted(all, kraft_version, request, api_version)
}

fn accepted(
    records: Vec<VersionedRecord>,
    kraft_version: Option<i16>,
    request: &UpdateFeaturesRequest,
    api_version: i16,
) -> FeaturesDecision {
    let mut response = UpdateFeaturesResponse::default().with_error_message(None);
    // v0 and v1: an answer for each feature, which are all the same.
    if api_version <= 1 {
        let result = |feature: &kafka_protocol::protocol::StrBytes| {
            UpdatableFeatureResult::default()
                .with_feature(feature.clone())
                .with_error_code(ErrorCode::None.code())
                .with_error_message(Some(ErrorCode::None.name().into()))
        };
        response =
            response.with_results(request.feature_updates.iter().map(|update| result(&update.feature)).collect());
    }
    FeaturesDecision { decision: Decision { records, response }, kraft_version }
}

fn refusal(error: &ApiError) -> FeaturesDecision {
    let message = format!(
        "The update failed for all features since the following feature had an error: {}",
        error.message.as_deref().unwrap_or("null")
    );
    let response =
        UpdateFeaturesResponse::default().with_error_code(error.code.code()).with_error_message(Some(message.into()));
    FeaturesDecision { decision: Decision::answer(response), kraft_version: None }
}

/// The level that a feature has; `None` for one that has none on record.
fn current_level(image: &MetadataImage, feature: &str) -> Option<i16> {
    match feature {
        FeaturesImage::METADATA_VERSION => Some(image.features.metadata_version),
        FeaturesImage::KRAFT_VERSION => Some(image.features.kraft_version),
        other => image.features.finalized.get(other).copied(),
    }
}

fn update_feature(
    image: &MetadataImage,
    settings: &ControllerSettings,
    name: &str,
    level: i16,
    upgrade_type: UpgradeType,
    proposed: &dyn Fn(&str) -> Option<i16>,
) -> Result<Accepted, ApiError> {
    let invalid = |reason: &str| {
        let message = format!("Invalid update version {level} for feature {name}. {reason}");
        ApiError::new(ErrorCode::InvalidUpdateVersion, message)
    };
    if upgrade_type == UpgradeType::Unknown {
        return Err(invalid("The controller does not support the given upgrade type."));
    }
    let current = current_level(image, name).unwrap_or(0);
    if level < 0 {
        return Err(invalid("A feature version cannot be less than 0."));
    }
    check_support(image, settings, name, level).map_err(|reason| invalid(&reason))?;
    if level < current && upgrade_type == UpgradeType::Upgrade {
        return Err(invalid(
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe \
             downgrade.",
        ));
    }
    if level > current && upgrade_type != UpgradeType::Upgrade {
        return Err(invalid("Can't downgrade to a newer version."));
    }
    match name {
        FeaturesImage::METADATA_VERSION => {
            check_metadata_version(MetadataVersion(current), MetadataVersion(level), upgrade_type)?;
        }
        FeaturesImage::KRAFT_VERSION if upgrade_type == UpgradeType::Upgrade => {
            return Ok(Accepted::KraftVersion(level));
        }
        FeaturesImage::KRAFT_VERSION if level != current => {
            return Err(invalid("Can't downgrade the version of this feature."));
        }
        FeaturesImage::KRAFT_VERSION => return Ok(Accepted::Nothing),
        // Level 0 of what nobody knows is supported by all, but nothing that could be set.
        unknown if Feature::named(unknown).is_none() => {
            return Err(invalid(&format!("Feature {unknown} not found.")));
        }
        other => check_dependency(other, level, proposed).map_err(|reason| invalid(&reason))?,
    }
    Ok(Accepted::Record(FeatureLevelRecord { name: name.to_owned(), feature_level: level }))
}

/// Whether this node and all others of the cluster know the level, and if not, who does not.
fn check_support(image: &MetadataImage, settings: &ControllerSettings, name: &str, level: i16) -> Result<(), String> {
    const OFF: VersionRange = VersionRange { min: 0, max: 0 };
    let check = |who: &dyn Fn() -> String, range: VersionRange| match range {
        range if (range.min..=range.max).contains(&level) => Ok(()),
        VersionRange { max: 0, .. } => Err(format!("{} does not support this feature.", who())),
        range if range.min == range.max => Err(format!("{} only supports versions {}", who(), range.min)),
        range => Err(format!("{} only supports versions {}-{}", who(), range.min, range.max)),
    };
    let node_id = settings.node_id();
    let local = Feature::named(name).map_or(OFF, |feature| feature.supported);
    check(&|| format!("Local controller {node_id}"), local)?;
    for broker in image.cluster.brokers.values() {
        let supported = broker.supported_features.get(name).copied().unwrap_or(OFF);
        check(&|| format!("Broker {}", broker.id), supported)?;
    }
    if image.metadata_version().has_controller_registration() {
        for controller in image.cluster.controllers.values().filter(|controller| controller.id != node_id) {
            let supported = controller.supported_features.get(name).copied().unwrap_or(OFF);
            check(&|| format!("Controller {}", controller.id), supported)?;
        }
    }
    Ok(())
}

/// A `metadata.version` may sink only as far as nothing of what metadata can say goes with it.
fn check_metadata_version(
    current: MetadataVersion,
    new: MetadataVersion,
    upgrade_type: UpgradeType,
) -> Result<(), ApiError> {
    if new >= current || !current.changed_metadata_since(new) {
        return Ok(());
    }
    let reason = match upgrade_type {
        UpgradeType::UnsafeDowngrade => "Unsafe metadata downgrade is not supported in this version.",
        UpgradeType::Unknown | UpgradeType::Upgrade | UpgradeType::SafeDowngrade => {
            "Refusing to perform the requested downgrade because it might delete metadata information."
        }
    };
    let message = format!("Unsupported metadata.version downgrade from {} to {}. {reason}", current.0, new.0);
    Err(ApiError::new(ErrorCode::InvalidUpdateVersion, message))
}

/// What a level needs of another feature.
fn check_dependency(name: &str, level: i16, proposed: &dyn Fn(&str) -> Option<i16>) -> Result<(), String> {
    let dependency = match (name, level) {
        (FeaturesImage::ELIGIBLE_LEADER_REPLICAS, 1..) => Some((FeaturesImage::METADATA_VERSION, 23)),
        _ => None,
    };
    match dependency {
        Some((needed, at_least)) if proposed(needed).is_none_or(|level| level < at_least) => {
            Err(format!("{name} could not be set to {level} because it depends on {needed} level {at_least}"))
        }
        _ => Ok(()),
    }
}

/// While eligible leader replicas are on, `min.insync.replicas` is the same on all brokers (KIP-966): the cluster gets
/// one if it has none, and brokers lose theirs.
fn elr_safety_records(image: &MetadataImage, settings: &ControllerSettings) -> Vec<VersionedRecord> {
    const KEY: &str = "min.insync.replicas";
    let mut records = Vec::new();
    let mut of_brokers = Vec::new();
    let mut is_set = false;
    for (resource, configs) in image.configs.iter() {
        if resource.kind != ConfigResourceType::BROKER || !configs.contains_key(KEY) {
            continue;
        }
        match resource.name.is_empty() {
            true => is_set = true,
            false => of_brokers.push(VersionedRecord::lowest(ConfigRecord {
                resource_type: resource.kind.0,
                resource_name: resource.name.clone(),
                name: KEY.to_owned(),
                value: None,
            })),
        }
    }
    if !is_set {
        records.push(cluster_min_insync_replicas(settings.broker.fixed().topic_defaults.min_insync_replicas));
    }
    records.append(&mut of_brokers);
    records
}

#[cfg(test)]
mod tests;
