//! Brokers and controllers as they registered (KIP-631, KIP-919).

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

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

    /// Brokers that serve: registered and not fenced.
    pub fn unfenced(&self) -> impl Iterator<Item = &Arc<BrokerRegistration>> {
        self.brokers.values().filter(|broker| !broker.fenced)
    }
}

impl BrokerRegistration {
    pub fn listener(&self, name: &str) -> Option<&Endpoint> {
        self.listeners.iter().find(|listener| listener.name == name)
    }

    /// Whether the directory can be used; the reserved ids of KIP-858 count as online, as Kafka has it.
    pub fn has_online_directory(&self, directory: DirectoryId) -> bool {
        if directory == DirectoryId::UNASSIGNED || directory == DirectoryId::MIGRATING {
            return true;
        }
        if directory == DirectoryId::LOST {
            return false;
        }
        self.directories.contains(&directory)
    }
}
