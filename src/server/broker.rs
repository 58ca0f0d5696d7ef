//! What the handlers share: the parts of this broker, and who it is.

use std::sync::Arc;

use super::advertised::AdvertisedAddresses;
use super::fetch_session::FetchSessionCache;
use crate::clock::Clock;
use crate::config::BrokerConfig;
use crate::controller::ControllerHandle;
use crate::coordinator::group::coordinator::GroupCoordinator;
use crate::coordinator::transaction::coordinator::TransactionCoordinator;
use crate::metadata::image::{MetadataHandle, MetadataImage};
use crate::replica::{ReplicaManager, Settings};
use crate::server::cordoned::CordonedLogDirs;
use crate::server::topics::RefusedTopics;

/// One running broker.
pub struct Broker {
    /// As of the start; what may change at run time is in `settings`.
    pub config: Arc<BrokerConfig>,
    /// The settings in force.
    pub settings: Settings,
    pub cluster_id: String,
    pub addresses: AdvertisedAddresses,
    pub clock: Arc<dyn Clock>,
    pub metadata: MetadataHandle,
    pub controller: ControllerHandle,
    pub replicas: Arc<ReplicaManager>,
    pub groups: GroupCoordinator,
    pub transactions: TransactionCoordinator,
    pub fetch_sessions: FetchSessionCache,
    pub refused_topics: RefusedTopics,
    pub cordoned: CordonedLogDirs,
}

impl Broker {
    /// The cluster's metadata as it is now.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.metadata.load()
    }

    /// Has the controller know which log directories are cordoned.
    pub async fn tell_cordoned(&self) {
        self.cordoned.tell(self).await;
    }
}
