//! Brokers come and go: registration, fencing and unfencing, controlled shutdown (KIP-631, KIP-841, KIP-966).
//!
//! | broker is | heartbeat wants | becomes | partitions |
//! |---|---|---|---|
//! | fenced | shut down | may shut down | stay as they are |
//! | fenced | serve, and has read its registration | unfenced | those without a leader may get one |
//! | unfenced | fence | fenced | it leaves ISRs and leaderships |
//! | unfenced | shut down, and leads | in controlled shutdown | it leaves ISRs and leaderships |
//! | unfenced | shut down, leads nothing | fenced, may shut down | it leaves ISRs |
//! | in controlled shutdown | anything, leads nothing | fenced, may shut down | it leaves ISRs |
//!
//! Which of its log directories are cordoned a broker tells with its heartbeats (KIP-1066); it gets no new replicas when
//! all are.
//!
//! A new incarnation starts fenced. What the one before it led and was in sync with is given up first; if that one did
//! not shut down cleanly, it is no eligible leader replica either.

use std::collections::BTreeSet;

use kafka_protocol::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerRegistrationRequest, BrokerRegistrationResponse,
};

use super::decision::{ApiError, Decision};
use super::partition_change::PartitionChange;
use super::settings::ControllerSettings;
use crate::metadata::image::{FeaturesImage, MetadataImage, PartitionRegistration};
use crate::metadata::records::{
    BrokerEndpoint, BrokerFeature, BrokerRegistrationChangeRecord, RegisterBrokerRecord, VersionedRecord,
};
use crate::protocol::errors::ErrorCode;
use crate::types::{BrokerId, DirectoryId, Offset, PartitionId, TopicId};

/// Checks that a broker speaks for its current registration.
pub fn check_broker_epoch(image: &MetadataImage, broker: BrokerId, epoch: i64) -> Result<(), ApiError> {
    match image.broker(broker) {
        None => Err(ApiError::new(
            ErrorCode::StaleBrokerEpoch,
            format!("No broker registration found for broker id {broker}"),
        )),
        Some(registration) if registration.epoch != epoch => Err(ApiError::new(
            ErrorCode::StaleBrokerEpoch,
            format!("Expected broker epoch {}, but got broker epoch {epoch}", registration.epoch),
        )),
        Some(_) => Ok(()),
    }
}

/// Registers a broker. `next_offset` is the offset that the first record of the decision will get: the offset of the
/// registration's record becomes the broker's epoch.
pub fn register_broker(
    image: &MetadataImage,
    settings: &ControllerSettings,
    request: &BrokerRegistrationRequest,
    next_offset: Offset,
) -> Result<Decision<BrokerRegistrationResponse>, ApiError> {
    let version = image.metadata_version();
    if *request.cluster_id != settings.cluster_id {
        return Err(ApiError::new(
            ErrorCode::InconsistentClusterId,
            format!("Expected cluster ID {}, but got cluster ID {}", settings.cluster_id, request.cluster_id),
        ));
    }
    let broker_id = BrokerId(request.broker_id.0);
    let existing = image.broker(broker_id);
    if request.is_migrating_zk_broker {
        return Err(ApiError::new(
            ErrorCode::BrokerIdNotRegistered,
            "Controller does not support registering ZK brokers.",
        ));
    }
    let directories: Vec<DirectoryId> = request.log_dirs.iter().copied().map(DirectoryId).collect();
    if version.has_directory_assignment() {
        check_directories(image, broker_id, &directories)?;
    }
    check_features(image, request)?;

    let mut records = Vec::new();
    let mut record = RegisterBrokerRecord {
        broker_id,
        incarnation_id: request.incarnation_id,
        end_points: request
            .listeners
            .iter()
            .map(|listener| BrokerEndpoint {
                name: listener.name.to_string(),
                host: listener.host.to_string(),
                port: listener.port,
                security_protocol: listener.security_protocol,
            })
            .collect(),
        features: request
            .features
            .iter()
            .map(|feature| BrokerFeature {
                name: feature.name.to_string(),
                min_supported_version: feature.min_supported_version,
                max_supported_version: feature.max_supported_version,
            })
            .collect(),
        rack: request.rack.as_ref().map(|rack| rack.to_string()),
        log_dirs: if version.has_directory_assignment() { directories } else { Vec::new() },
        ..RegisterBrokerRecord::default()
    };
    match existing {
        // The same incarnation amends what it said.
        Some(existing) if existing.incarnation_id == request.incarnation_id => {
            record.fenced = existing.fenced;
            record.in_controlled_shutdown = existing.in_controlled_shutdown;
            record.broker_epoch = existing.epoch;
        }
        _ => {
            let clean = existing.is_some_and(|existing| existing.epoch == request.previous_broker_epoch);
            let leaving = if clean || !image.elr_enabled() {
                Leaving { broker: broker_id, unclean: false }
            } else {
                Leaving { broker: broker_id, unclean: true }
            };
            if existing.is_some() {
                partition_changes(image, settings, Some(leaving), None, &mut records);
            }
            record.broker_epoch = next_offset.plus(records.len() as i64).0;
        }
    }
    let response = BrokerRegistrationResponse::default().with_broker_epoch(record.broker_epoch);
    records.push(VersionedRecord::at(version.register_broker_record_version(), record));
    Ok(Decision { records, response })
}

fn check_directories(image: &MetadataImage, broker: BrokerId, directories: &[DirectoryId]) -> Result<(), ApiError> {
    let invalid = |message: String| Err(ApiError::new(ErrorCode::InvalidRegistration, message));
    if directories.is_empty() {
        return invalid("No directories specified in request".to_owned());
    }
    // The first hundred ids are reserved (KIP-858).
    if directories.iter().any(|directory| directory.is_reserved()) {
        return invalid("Reserved directory ID in request".to_owned());
    }
    if directories.iter().enumerate().any(|(at, directory)| directories[..at].contains(directory)) {
        return invalid("Duplicate directory ID in request".to_owned());
    }
    for directory in directories {
        let owner = image.cluster.brokers.values().find(|other| other.directories.contains(directory));
        if let Some(owner) = owner.filter(|owner| owner.id != broker) {
            return invalid(format!("Broker {} is already registered with directory {directory}", owner.id));
        }
    }
    Ok(())
}

/// A broker must be able to work at every finalized level.
fn check_features(image: &MetadataImage, request: &BrokerRegistrationRequest) -> Result<(), ApiError> {
    let finalized = |name: &str| match name {
        FeaturesImage::METADATA_VERSION => image.features.metadata_version,
        name => image.features.level(name),
    };
    let check = |name: &str, min: i16, max: i16| {
        let level = finalized(name);
        if (min..=max).contains(&level) {
            return Ok(());
        }
        Err(ApiError::new(
            ErrorCode::UnsupportedVersion,
            format!(
                "Unable to register because the broker does not support finalized version {level} of {name}. The \
                 broker wants a version between {min} and {max}, inclusive."
            ),
        ))
    };
    for feature in &request.features {
        check(&feature.name, feature.min_supported_version, feature.max_supported_version)?;
    }
    let said = |name: &str| request.features.iter().any(|feature| *feature.name == *name);
    if !said(FeaturesImage::METADATA_VERSION) {
        return Err(ApiError::new(
            ErrorCode::InvalidRegistration,
            "Request features do not contain 'metadata.version'",
        ));
    }
    for name in image.features.finalized.keys().filter(|name| !said(name)) {
        check(name, 0, 0)?;
    }
    Ok(())
}

/// A broker's heartbeat, version 2.
#[derive(Clone, Debug, Default)]
pub struct BrokerHeartbeat {
    /// As of version 1, which is the newest that the crate has.
    pub request: BrokerHeartbeatRequest,
    /// v2+: KIP-1066. `None`: nothing is said of them.
    pub cordoned_log_dirs: Option<Vec<DirectoryId>>,
}

impl From<BrokerHeartbeatRequest> for BrokerHeartbeat {
    fn from(request: BrokerHeartbeatRequest) -> BrokerHeartbeat {
        BrokerHeartbeat { request, cordoned_log_dirs: None }
    }
}

/// Decides on a broker's heartbeat.
pub fn heartbeat(
    image: &MetadataImage,
    settings: &ControllerSettings,
    heartbeat: &BrokerHeartbeat,
) -> Result<Decision<BrokerHeartbeatResponse>, ApiError> {
    let BrokerHeartbeat { request, cordoned_log_dirs } = heartbeat;
    let version = image.metadata_version();
    let broker_id = BrokerId(request.broker_id.0);
    check_broker_epoch(image, broker_id, request.broker_epoch)?;
    let registration = image.broker(broker_id).expect("its epoch was checked");
    let caught_up = request.current_metadata_offset >= registration.epoch;
    let leads = || {
        image.topics.iter().any(|topic| topic.partitions.values().any(|partition| partition.leader == Some(broker_id)))
    };
    let change = |record: BrokerRegistrationChangeRecord, record_version: i16| {
        VersionedRecord::at(
            record_version,
            BrokerRegistrationChangeRecord { broker_id, broker_epoch: request.broker_epoch, ..record },
        )
    };

    let mut records = Vec::new();
    let mut response =
        BrokerHeartbeatResponse::default().with_is_caught_up(caught_up).with_is_fenced(registration.fenced);
    let fence = |records: &mut Vec<VersionedRecord>| {
        let leaving = Leaving { broker: broker_id, unclean: false };
        partition_changes(image, settings, Some(leaving), None, records);
        records.push(change(BrokerRegistrationChangeRecord { fenced: 1, ..Default::default() }, 0));
    };
    if registration.fenced {
        if request.want_shut_down {
            response.should_shut_down = true;
        } else if !request.want_fence && caught_up {
            response.is_fenced = false;
            records.push(change(BrokerRegistrationChangeRecord { fenced: -1, ..Default::default() }, 0));
            partition_changes(image, settings, None, Some(broker_id), &mut records);
        }
    } else if registration.in_controlled_shutdown {
        if !leads() {
            fence(&mut records);
            response.is_fenced = true;
            response.should_shut_down = true;
        }
    } else if request.want_fence || (request.want_shut_down && !leads()) {
        fence(&mut records);
        response.is_fenced = true;
        response.should_shut_down = request.want_shut_down;
    } else if request.want_shut_down {
        records.push(change(BrokerRegistrationChangeRecord { in_controlled_shutdown: 1, ..Default::default() }, 1));
        partition_changes(image, settings, Some(Leaving { broker: broker_id, unclean: false }), None, &mut records);
    }

    if version.has_directory_assignment() {
        let offline: Vec<DirectoryId> = request.offline_log_dirs.iter().copied().map(DirectoryId).collect();
        if registration.directories.iter().any(|directory| offline.contains(directory)) {
            directories_offline(image, settings, broker_id, &offline, &mut records);
            let online = registration.directories.iter().copied().filter(|directory| !offline.contains(directory));
            records
                .push(change(BrokerRegistrationChangeRecord { log_dirs: online.collect(), ..Default::default() }, 2));
        }
    }
    if version.has_cordoned_log_dirs()
        && let Some(cordoned) = cordoned_log_dirs
        && !registration.has_cordoned(cordoned)
    {
        let cordoned_log_dirs = Some(cordoned.clone());
        records.push(change(BrokerRegistrationChangeRecord { cordoned_log_dirs, ..Default::default() }, 3));
    }
    Ok(Decision { records, response })
}

/// How a response says that a registration is refused.
pub fn registration_refused(error: &ApiError) -> BrokerRegistrationResponse {
    BrokerRegistrationResponse::default().with_error_code(error.code.code())
}

/// How a response says that a heartbeat is refused.
pub fn heartbeat_refused(error: &ApiError) -> BrokerHeartbeatResponse {
    BrokerHeartbeatResponse::default().with_error_code(error.code.code())
}

/// A broker that gives up its place in ISRs and leaderships.
#[derive(Clone, Copy)]
struct Leaving {
    broker: BrokerId,
    /// It may have lost records, so that it is no eligible leader either.
    unclean: bool,
}

/// The partition changes that follow from one broker leaving or another coming.
fn partition_changes(
    image: &MetadataImage,
    settings: &ControllerSettings,
    leaving: Option<Leaving>,
    coming: Option<BrokerId>,
    records: &mut Vec<VersionedRecord>,
) {
    let concerned = |_: TopicId, _: PartitionId, partition: &PartitionRegistration| match leaving {
        Some(leaving) => {
            partition.isr.contains(&leaving.broker) || (leaving.unclean && partition.elr.contains(&leaving.broker))
        }
        None => partition.leader.is_none(),
    };
    change_partitions(image, settings, leaving, coming, concerned, records);
}

/// Whether a broker serves, and the directory of the partition on it.
pub(super) fn can_lead(image: &MetadataImage, partition: &PartitionRegistration, broker: BrokerId) -> bool {
    image.cluster.is_active(broker) && has_its_directory(image, partition, broker)
}

fn has_its_directory(image: &MetadataImage, partition: &PartitionRegistration, broker: BrokerId) -> bool {
    partition
        .directory(broker)
        .is_some_and(|directory| image.broker(broker).is_some_and(|broker| broker.has_online_directory(directory)))
}

/// A broker gives up its place in the ISRs and leaderships of these partitions.
pub(super) fn leave_partitions(
    image: &MetadataImage,
    settings: &ControllerSettings,
    broker: BrokerId,
    partitions: &BTreeSet<(TopicId, PartitionId)>,
    records: &mut Vec<VersionedRecord>,
) {
    let concerned = |topic: TopicId, id: PartitionId, _: &PartitionRegistration| partitions.contains(&(topic, id));
    change_partitions(image, settings, Some(Leaving { broker, unclean: false }), None, concerned, records);
}

fn directories_offline(
    image: &MetadataImage,
    settings: &ControllerSettings,
    broker: BrokerId,
    offline: &[DirectoryId],
    records: &mut Vec<VersionedRecord>,
) {
    let concerned = |_: TopicId, _: PartitionId, partition: &PartitionRegistration| {
        partition.directory(broker).is_some_and(|directory| offline.contains(&directory))
    };
    change_partitions(image, settings, Some(Leaving { broker, unclean: false }), None, concerned, records);
}

fn change_partitions(
    image: &MetadataImage,
    settings: &ControllerSettings,
    leaving: Option<Leaving>,
    coming: Option<BrokerId>,
    concerned: impl Fn(TopicId, PartitionId, &PartitionRegistration) -> bool,
    records: &mut Vec<VersionedRecord>,
) {
    let gone = leaving.map(|leaving| leaving.broker);
    for topic in image.topics.iter() {
        let mut concerned =
            topic.partitions.iter().filter(|(id, partition)| concerned(topic.id, **id, partition)).peekable();
        if concerned.peek().is_none() {
            continue;
        }
        for (partition_id, partition) in concerned {
            let change = PartitionChange {
                target_isr: partition.isr.iter().copied().filter(|replica| Some(*replica) != gone).collect(),
                unclean_shutdown: leaving.filter(|leaving| leaving.unclean).map(|leaving| leaving.broker),
                ..PartitionChange::of(image, settings, topic, *partition_id, partition)
            };
            // Who comes is still fenced in the image; who goes is perhaps not yet.
            let acceptable = |broker: BrokerId| {
                Some(broker) != gone
                    && (Some(broker) == coming || image.cluster.is_active(broker))
                    && has_its_directory(image, partition, broker)
            };
            records.extend(change.decide(acceptable));
        }
    }
}

#[cfg(test)]
mod tests;
