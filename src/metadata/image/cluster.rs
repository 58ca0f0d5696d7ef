//! Brokers and controllers as they registered (KIP-631, KIP-919).

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::apply::ApplyError;
use crate::metadata::records::{
    BrokerEndpoint, BrokerFeature, BrokerRegistrationChangeRecord, ControllerEndpoint, ControllerFeature, Record as _,
    RegisterBrokerRecord, RegisterControllerRecord, VersionedRecord,
};
use crate::metadata::version::MetadataVersion;
use crate::types::{BrokerId, DirectoryId};

/// The nodes of the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterImage {
    pub brokers: BTreeMap<BrokerId, Arc<BrokerRegistration>>,
    pub controllers: BTreeMap<BrokerId, Arc<ControllerRegistration>>,
}

/// A broker's last registration.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerRegistration {
    pub id: BrokerId,
    /// The offset of the registration's record: tells this incarnation from others.
    pub epoch: i64,
    pub incarnation_id: Uuid,
    pub listeners: Vec<Endpoint>,
    pub supported_features: BTreeMap<String, VersionRange>,
    pub rack: Option<String>,
    /// A fenced broker leads nothing and is shown to no client.
    pub fenced: bool,
    pub in_controlled_shutdown: bool,
    pub is_migrating_zk_broker: bool,
    /// The online log directories (KIP-858).
    pub directories: Vec<DirectoryId>,
    /// Directories that take no new partitions; `None` until the broker says (KIP-1066).
    pub cordoned_directories: Option<Vec<DirectoryId>>,
}

/// A controller's last registration.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerRegistration {
    pub id: BrokerId,
    pub incarnation_id: Uuid,
    pub zk_migration_ready: bool,
    pub listeners: Vec<Endpoint>,
    pub supported_features: BTreeMap<String, VersionRange>,
}

/// Where a listener is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The listener's name.
    pub name: String,
    pub host: String,
    pub port: u16,
    /// 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    pub security_protocol: i16,
}

/// Levels of a feature that a node can work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    pub min: i16,
    pub max: i16,
}

impl ClusterImage {
    pub fn broker(&self, id: BrokerId) -> Option<&Arc<BrokerRegistration>> {
        self.brokers.get(&id)
    }

    /// Whether a broker is registered, not fenced and not shutting down.
    pub fn is_active(&self, id: BrokerId) -> bool {
        self.broker(id).is_some_and(|broker| broker.is_active())
    }

    /// Brokers that serve: registered and not fenced.
    pub fn unfenced(&self) -> impl Iterator<Item = &Arc<BrokerRegistration>> {
        self.brokers.values().filter(|broker| !broker.fenced)
    }
}

impl BrokerRegistration {
    pub(super) fn from_record(record: &RegisterBrokerRecord) -> BrokerRegistration {
        BrokerRegistration {
            id: record.broker_id,
            epoch: record.broker_epoch,
            incarnation_id: record.incarnation_id,
            listeners: record
                .end_points
                .iter()
                .map(|endpoint| Endpoint {
                    name: endpoint.name.clone(),
                    host: endpoint.host.clone(),
                    port: endpoint.port,
                    security_protocol: endpoint.security_protocol,
                })
                .collect(),
            supported_features: record
                .features
                .iter()
                .map(|feature| {
                    let range = VersionRange { min: feature.min_supported_version, max: feature.max_supported_version };
                    (feature.name.clone(), range)
                })
                .collect(),
            rack: record.rack.clone(),
            fenced: record.fenced,
            in_controlled_shutdown: record.in_controlled_shutdown,
            is_migrating_zk_broker: record.is_migrating_zk_broker,
            directories: record.log_dirs.clone(),
            cordoned_directories: record.cordoned_log_dirs.clone(),
        }
    }

    pub(super) fn change(&mut self, record: &BrokerRegistrationChangeRecord) -> Result<(), ApplyError> {
        let invalid = |field, value| ApplyError::InvalidValue {
            record: BrokerRegistrationChangeRecord::NAME,
            field,
            value: i64::from(value),
        };
        match record.fenced {
            -1 => self.fenced = false,
            0 => {}
            1 => self.fenced = true,
            value => return Err(invalid("fenced", value)),
        }
        match record.in_controlled_shutdown {
            0 => {}
            1 => self.in_controlled_shutdown = true,
            value => return Err(invalid("inControlledShutdown", value)),
        }
        if !record.log_dirs.is_empty() {
            self.directories = record.log_dirs.clone();
        }
        if let Some(cordoned) = &record.cordoned_log_dirs {
            self.cordoned_directories = Some(cordoned.clone());
        }
        Ok(())
    }

    pub(super) fn to_record(&self, version: MetadataVersion) -> VersionedRecord {
        let record_version = version.register_broker_record_version();
        let record = RegisterBrokerRecord {
            broker_id: self.id,
            is_migrating_zk_broker: self.is_migrating_zk_broker && record_version >= 2,
            incarnation_id: self.incarnation_id,
            broker_epoch: self.epoch,
            end_points: self
                .listeners
                .iter()
                .map(|listener| BrokerEndpoint {
                    name: listener.name.clone(),
                    host: listener.host.clone(),
                    port: listener.port,
                    security_protocol: listener.security_protocol,
                })
                .collect(),
            features: self
                .supported_features
                .iter()
                .map(|(name, range)| BrokerFeature {
                    name: name.clone(),
                    min_supported_version: range.min,
                    max_supported_version: range.max,
                })
                .collect(),
            rack: self.rack.clone(),
            fenced: self.fenced,
            in_controlled_shutdown: self.in_controlled_shutdown,
            log_dirs: if version.has_directory_assignment() { self.directories.clone() } else { Vec::new() },
            cordoned_log_dirs: self.cordoned_directories.clone().filter(|_| version.has_cordoned_log_dirs()),
        };
        VersionedRecord::at(record_version, record)
    }

    pub fn listener(&self, name: &str) -> Option<&Endpoint> {
        self.listeners.iter().find(|listener| listener.name == name)
    }

    /// Whether the broker serves and will go on serving: it can lead and be in sync.
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }

    /// Whether new replicas may be placed here: it does not shut down, and has a directory that is not cordoned.
    pub fn takes_new_replicas(&self) -> bool {
        let cordoned = self.cordoned_directories.as_deref().unwrap_or_default();
        let has_directory =
            self.directories.is_empty() || self.directories.iter().any(|directory| !cordoned.contains(directory));
        !self.in_controlled_shutdown && has_directory
    }

    /// Whether exactly these directories are known to be cordoned.
    pub fn has_cordoned(&self, directories: &[DirectoryId]) -> bool {
        self.cordoned_directories.as_ref().is_some_and(|known| {
            known.iter().all(|known| directories.contains(known))
                && directories.iter().all(|directory| known.contains(directory))
        })
    }

    /// Whether the directory can be used; the reserved ids of KIP-858 count as online, as Kafka has it.
    pub fn has_online_directory(&self, directory: DirectoryId) -> bool {
        if directory == DirectoryId::UNASSIGNED || directory == DirectoryId::MIGRATING {
            return true;
        }
        if directory == DirectoryId::LOST {
            return false;
        }
        // A registration from before directories had ids names none; then all count as online.
        self.directories.is_empty() || self.directories.contains(&directory)
    }
}

impl ControllerRegistration {
    pub(super) fn from_record(record: &RegisterControllerRecord) -> ControllerRegistration {
        ControllerRegistration {
            id: record.controller_id,
            incarnation_id: record.incarnation_id,
            zk_migration_ready: record.zk_migration_ready,
            listeners: record
                .end_points
                .iter()
                .map(|endpoint| Endpoint {
                    name: endpoint.name.clone(),
                    host: endpoint.host.clone(),
                    port: endpoint.port,
                    security_protocol: endpoint.security_protocol,
                })
                .collect(),
            supported_features: record
                .features
                .iter()
                .map(|feature| {
                    let range = VersionRange { min: feature.min_supported_version, max: feature.max_supported_version };
                    (feature.name.clone(), range)
                })
                .collect(),
        }
    }

    /// The record that says all of the registration.
    pub fn to_record(&self) -> VersionedRecord {
        VersionedRecord::lowest(RegisterControllerRecord {
            controller_id: self.id,
            incarnation_id: self.incarnation_id,
            zk_migration_ready: self.zk_migration_ready,
            end_points: self
                .listeners
                .iter()
                .map(|listener| ControllerEndpoint {
                    name: listener.name.clone(),
                    host: listener.host.clone(),
                    port: listener.port,
                    security_protocol: listener.security_protocol,
                })
                .collect(),
            features: self
                .supported_features
                .iter()
                .map(|(name, range)| ControllerFeature {
                    name: name.clone(),
                    min_supported_version: range.min,
                    max_supported_version: range.max,
                })
                .collect(),
        })
    }
}
