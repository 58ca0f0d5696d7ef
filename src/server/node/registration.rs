//! This broker's registration with the controller (KIP-631): an incarnation, its epoch, and its heartbeats.
//!
//! The controller is in the same process, so it needs no heartbeats to know that this broker lives; there is one for
//! each change of state.
//!
//! A registration that was made when `metadata.version` knew nothing of log directories is made again when it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kafka_protocol::messages::broker_registration_request::{Feature, Listener};
use kafka_protocol::messages::{
    BrokerHeartbeatRequest, BrokerHeartbeatResponse, BrokerId as WireBrokerId, BrokerRegistrationRequest,
};
use kafka_protocol::protocol::StrBytes;
use tokio::sync::Notify;
use tracing::{info, warn};
use uuid::Uuid;

use super::NodeError;
use crate::config::Endpoint;
use crate::controller::brokers::BrokerHeartbeat;
use crate::controller::features::FEATURES;
use crate::metadata::image::MetadataImage;
use crate::net::look_up;
use crate::protocol::ErrorCode;
use crate::server::broker::Broker;
use crate::storage::manager::LogManager;
use crate::types::{BrokerId, DirectoryId};

/// One life of this broker.
pub(super) struct Registration {
    broker: Arc<Broker>,
    logs: Arc<LogManager>,
    incarnation_id: Uuid,
    advertised: Vec<Endpoint>,
    epoch: AtomicI64,
}

impl Registration {
    pub(super) async fn new(broker: Arc<Broker>, logs: Arc<LogManager>, bound: &[Endpoint]) -> Registration {
        let mut advertised = Vec::new();
        for endpoint in &broker.config.advertised_listeners {
            advertised.push(reachable(endpoint, bound).await);
        }
        Registration { broker, logs, incarnation_id: Uuid::new_v4(), advertised, epoch: AtomicI64::new(-1) }
    }

    /// The offset of the registration's record; -1 before.
    pub(super) fn epoch(&self) -> i64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Registers the broker, fenced.
    pub(super) async fn register(&self) -> Result<(), NodeError> {
        let listener = |endpoint: &Endpoint| {
            Listener::default()
                .with_name(StrBytes::from_string(endpoint.listener_name.clone()))
                .with_host(StrBytes::from_string(endpoint.host.clone()))
                .with_port(endpoint.port)
                .with_security_protocol(endpoint.security_protocol.id())
        };
        let features = FEATURES
            .iter()
            .map(|feature| {
                Feature::default()
                    .with_name(StrBytes::from_static_str(feature.name))
                    .with_min_supported_version(feature.supported.min)
                    .with_max_supported_version(feature.supported.max)
            })
            .collect();
        let mut log_dirs: Vec<Uuid> =
            self.logs.log_dirs().into_iter().filter(|dir| dir.is_online).map(|dir| dir.id.0).collect();
        log_dirs.sort();
        let request = BrokerRegistrationRequest::default()
            .with_broker_id(self.id())
            .with_cluster_id(StrBytes::from_string(self.broker.cluster_id.clone()))
            .with_incarnation_id(self.incarnation_id)
            .with_listeners(self.advertised.iter().map(listener).collect())
            .with_features(features)
            .with_rack(self.broker.config.broker_rack.clone().map(StrBytes::from_string))
            .with_log_dirs(log_dirs)
            .with_previous_broker_epoch(self.logs.previous_broker_epoch().unwrap_or(-1));
        let response = self.broker.controller.register_broker(request).await?;
        check(response.error_code)?;
        self.epoch.store(response.broker_epoch, Ordering::SeqCst);
        for endpoint in &self.advertised {
            info!(broker_epoch = response.broker_epoch, advertised = %endpoint, "registered");
        }
        Ok(())
    }

    /// Registers the broker again, the same as before, whenever it is told to.
    pub(super) async fn register_again(self: Arc<Self>, stale: Arc<Notify>) {
        loop {
            stale.notified().await;
            if let Err(error) = self.register().await {
                warn!(%error, "the broker's registration does not name its log directories");
            }
            self.broker.tell_cordoned().await;
        }
    }

    /// Asks to serve: partitions get their leaders.
    pub(super) async fn unfence(&self) -> Result<(), NodeError> {
        let cordoned_log_dirs = Some(self.broker.replicas.cordoned_log_dirs());
        let heartbeat = BrokerHeartbeat { request: self.heartbeat_request(), cordoned_log_dirs };
        let response = self.broker.controller.broker_heartbeat(heartbeat).await?;
        check(response.error_code)?;
        match response.is_fenced {
            false => Ok(()),
            true => Err(NodeError::Registration("it stays fenced".to_owned())),
        }
    }

    /// Tells the controller of log directories that failed.
    pub(super) async fn report_offline(&self, directories: &[DirectoryId]) {
        let offline = directories.iter().map(|directory| directory.0).collect();
        if let Err(error) = self.heartbeat(|request| request.with_offline_log_dirs(offline)).await {
            warn!(%error, "the controller was not told of a failed log directory");
        }
    }

    /// Gives up all leaderships (KIP-841).
    pub(super) async fn shut_down(&self) {
        // The second one ends what the first began.
        for _ in 0..2 {
            match self.heartbeat(|request| request.with_want_shut_down(true)).await {
                Ok(response) if response.should_shut_down => return,
                Ok(_) => {}
                Err(error) => {
                    warn!(%error, "no controlled shutdown");
                    return;
                }
            }
        }
    }

    async fn heartbeat(
        &self,
        change: impl FnOnce(BrokerHeartbeatRequest) -> BrokerHeartbeatRequest,
    ) -> Result<BrokerHeartbeatResponse, NodeError> {
        Ok(self.broker.controller.broker_heartbeat(change(self.heartbeat_request())).await?)
    }

    fn heartbeat_request(&self) -> BrokerHeartbeatRequest {
        BrokerHeartbeatRequest::default()
            .with_broker_id(self.id())
            .with_broker_epoch(self.epoch())
            .with_current_metadata_offset(self.broker.image().provenance.offset.0)
    }

    fn id(&self) -> WireBrokerId {
        WireBrokerId(self.broker.config.node_id.0)
    }
}

/// Whether a registration lacks the log directories that it should name by now.
pub(super) fn lacks_directories(image: &MetadataImage, broker: BrokerId) -> bool {
    image.metadata_version().has_directory_assignment()
        && image.broker(broker).is_some_and(|registration| registration.directories.is_empty())
}

fn check(error_code: i16) -> Result<(), NodeError> {
    match ErrorCode::from_code(error_code) {
        Some(ErrorCode::None) => Ok(()),
        // So it answers when its log takes no more.
        Some(ErrorCode::KafkaStorageError) => Err(NodeError::NoRoomToRegister),
        Some(code) => Err(NodeError::Registration(format!("{code:?}"))),
        None => Err(NodeError::Registration(format!("error {error_code}"))),
    }
}

/// The address that clients are told: with the port the listener got, and a name for a host that was left empty.
async fn reachable(advertised: &Endpoint, bound: &[Endpoint]) -> Endpoint {
    let mut endpoint = advertised.clone();
    if endpoint.port == 0
        && let Some(listener) = bound.iter().find(|listener| listener.listener_name == endpoint.listener_name)
    {
        endpoint.port = listener.port;
    }
    if endpoint.host.is_empty() {
        endpoint.host = host_name().await;
    }
    endpoint
}

/// The machine's name, if it can be resolved, or else `localhost`.
async fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    match look_up(&name, "this machine, for advertised.listeners without a host").await {
        Ok(_) => name,
        Err(_) => "localhost".to_owned(),
    }
}
