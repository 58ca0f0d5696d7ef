//! How the rest of the node asks the controller for a change.
//!
//! Every method queues a command for the driver's thread and waits for its answer, which comes when the change is
//! durable, applied, taken over by the publishers and visible in the image: once answered, it is true here. The queue
//! is bounded; a full one makes callers wait.

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, AlterConfigsRequest, AlterConfigsResponse,
    AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, BrokerHeartbeatResponse, BrokerRegistrationRequest,
    BrokerRegistrationResponse, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest,
    CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, UpdateFeaturesRequest, UpdateFeaturesResponse,
};
use tokio::sync::{mpsc, oneshot};

use super::brokers::BrokerHeartbeat;
use crate::clock::Clock;
use crate::metadata::image::{MetadataDelta, MetadataHandle, MetadataImage};

/// Told of each new image before it becomes visible, on the driver's thread: opens and closes logs, applies
/// configurations. Gets the new image and what changed since the one before.
pub type Publisher = Box<dyn Fn(&Arc<MetadataImage>, &MetadataDelta) + Send>;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControllerError {
    /// The node is shutting down, or its metadata log failed. Clients see NOT_CONTROLLER and ask again.
    #[error("the controller is not running")]
    NotRunning,
}

/// A request to the driver and where its answer goes.
pub(super) enum Command {
    /// With the time at which it is too late.
    CreateTopics(CreateTopicsRequest, Duration, oneshot::Sender<CreateTopicsResponse>),
    /// With the request's version, and the time at which it is too late.
    DeleteTopics(DeleteTopicsRequest, i16, Duration, oneshot::Sender<DeleteTopicsResponse>),
    /// With the time at which it is too late.
    CreatePartitions(CreatePartitionsRequest, Duration, oneshot::Sender<CreatePartitionsResponse>),
    IncrementalAlterConfigs(IncrementalAlterConfigsRequest, oneshot::Sender<IncrementalAlterConfigsResponse>),
    AlterConfigs(AlterConfigsRequest, oneshot::Sender<AlterConfigsResponse>),
    /// With the request's version.
    UpdateFeatures(UpdateFeaturesRequest, i16, oneshot::Sender<UpdateFeaturesResponse>),
    AllocateProducerIds(AllocateProducerIdsRequest, oneshot::Sender<AllocateProducerIdsResponse>),
    BrokerRegistration(BrokerRegistrationRequest, oneshot::Sender<BrokerRegistrationResponse>),
    BrokerHeartbeat(BrokerHeartbeat, oneshot::Sender<BrokerHeartbeatResponse>),
    AssignReplicasToDirs(AssignReplicasToDirsRequest, oneshot::Sender<AssignReplicasToDirsResponse>),
    InstallPublisher(Publisher, oneshot::Sender<()>),
    Shutdown(oneshot::Sender<()>),
    /// Something else than a command is there to be looked at.
    Wake,
}

/// Asks the controller. Cheap to clone.
#[derive(Clone)]
pub struct ControllerHandle {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) metadata: MetadataHandle,
    pub(super) clock: Arc<dyn Clock>,
}

impl ControllerHandle {
    /// The published image.
    pub fn metadata(&self) -> &MetadataHandle {
        &self.metadata
    }

    /// Creates topics, or only checks (`validate_only`). The response carries ids, counts and configurations (v5+,
    /// v7+), which encode away at older versions.
    pub async fn create_topics(&self, request: CreateTopicsRequest) -> Result<CreateTopicsResponse, ControllerError> {
        let deadline = self.deadline(request.timeout_ms);
        self.ask(|answer| Command::CreateTopics(request, deadline, answer)).await
    }

    /// Deletes topics by name (`topic_names` or `topics`) or by id. The version decides how it says that deletion is
    /// disabled.
    pub async fn delete_topics(
        &self,
        request: DeleteTopicsRequest,
        api_version: i16,
    ) -> Result<DeleteTopicsResponse, ControllerError> {
        let deadline = self.deadline(request.timeout_ms);
        self.ask(|answer| Command::DeleteTopics(request, api_version, deadline, answer)).await
    }

    pub async fn create_partitions(
        &self,
        request: CreatePartitionsRequest,
    ) -> Result<CreatePartitionsResponse, ControllerError> {
        let deadline = self.deadline(request.timeout_ms);
        self.ask(|answer| Command::CreatePartitions(request, deadline, answer)).await
    }

    pub async fn incremental_alter_configs(
        &self,
        request: IncrementalAlterConfigsRequest,
    ) -> Result<IncrementalAlterConfigsResponse, ControllerError> {
        self.ask(|answer| Command::IncrementalAlterConfigs(request, answer)).await
    }

    pub async fn alter_configs(&self, request: AlterConfigsRequest) -> Result<AlterConfigsResponse, ControllerError> {
        self.ask(|answer| Command::AlterConfigs(request, answer)).await
    }

    /// Sets levels of features, all or none, or only checks (`validate_only`). The version decides whether each feature
    /// is answered by itself.
    pub async fn update_features(
        &self,
        request: UpdateFeaturesRequest,
        api_version: i16,
    ) -> Result<UpdateFeaturesResponse, ControllerError> {
        self.ask(|answer| Command::UpdateFeatures(request, api_version, answer)).await
    }

    /// A block of 1000 producer ids for a broker.
    pub async fn allocate_producer_ids(
        &self,
        request: AllocateProducerIdsRequest,
    ) -> Result<AllocateProducerIdsResponse, ControllerError> {
        self.ask(|answer| Command::AllocateProducerIds(request, answer)).await
    }

    /// Registers a broker, fenced. The response carries its epoch, which its heartbeats name.
    pub async fn register_broker(
        &self,
        request: BrokerRegistrationRequest,
    ) -> Result<BrokerRegistrationResponse, ControllerError> {
        self.ask(|answer| Command::BrokerRegistration(request, answer)).await
    }

    /// A broker's sign of life: unfences it when `want_fence` is false, starts its controlled shutdown with
    /// `want_shut_down`.
    pub async fn broker_heartbeat(
        &self,
        heartbeat: impl Into<BrokerHeartbeat>,
    ) -> Result<BrokerHeartbeatResponse, ControllerError> {
        let heartbeat = heartbeat.into();
        self.ask(|answer| Command::BrokerHeartbeat(heartbeat, answer)).await
    }

    /// Notes in which log directories of a broker replicas lie.
    pub async fn assign_replicas_to_dirs(
        &self,
        request: AssignReplicasToDirsRequest,
    ) -> Result<AssignReplicasToDirsResponse, ControllerError> {
        self.ask(|answer| Command::AssignReplicasToDirs(request, answer)).await
    }

    /// Adds a publisher. It is called at once with the current image and everything as new, and then for every
    /// change; this returns after the first call.
    pub async fn install_publisher(
        &self,
        publisher: impl Fn(&Arc<MetadataImage>, &MetadataDelta) + Send + 'static,
    ) -> Result<(), ControllerError> {
        self.ask(|answer| Command::InstallPublisher(Box::new(publisher), answer)).await
    }

    /// Stops the driver after what is queued, with the metadata log closed cleanly.
    pub async fn shutdown(&self) -> Result<(), ControllerError> {
        self.ask(Command::Shutdown).await
    }

    /// A request that gives no time is too late when it comes, as in Kafka.
    fn deadline(&self, timeout_ms: i32) -> Duration {
        self.clock.monotonic() + Duration::from_millis(timeout_ms.max(0) as u64)
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, ControllerError> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).await.map_err(|_| ControllerError::NotRunning)?;
        answered.await.map_err(|_| ControllerError::NotRunning)
    }
}
