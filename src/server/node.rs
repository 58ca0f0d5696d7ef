//! `Node`: puts the layers together, in order, and takes them apart again.
//!
//! ```text
//! start     directories (formatted if new) → lock → controller (metadata log, image) → logs (recovery) → ports
//!           → registration → partitions open → unfenced, partitions led → listening
//! shutdown  no new requests → controlled shutdown → metadata log closed → logs flushed, checkpoints, clean marker
//! ```
//! Nothing listens before everything serves: whoever finds the port open finds a broker.

mod assignments;
mod directories;
mod housekeeping;
mod registration;

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustix::process::{Resource, getrlimit};
use thiserror::Error;
use tokio::sync::{Notify, SetOnce, mpsc};
use tokio::task::{JoinSet, spawn_blocking};
use tracing::{error, info, warn};

use self::registration::{Registration, lacks_directories};
use super::advertised::AdvertisedAddresses;
use super::broker::Broker;
use super::cordoned::CordonedLogDirs;
use super::dispatch::Dispatcher;
use super::fetch_session::FetchSessionCache;
use super::topics::{RefusedTopics, TestTopicsError, create_test_topics};
use crate::clock::{Clock, SystemClock};
use crate::config::dynamic::DynamicBrokerConfig;
use crate::config::topic::TopicConfig;
use crate::config::{BrokerConfig, Endpoint};
use crate::controller::settings::ControllerSettings;
use crate::controller::start::{self, ControllerParams, StartError, StartedController};
use crate::controller::{ControllerError, ControllerHandle, DriverError};
use crate::coordinator::group::coordinator::GroupCoordinator;
use crate::coordinator::transaction::coordinator::{TransactionCoordinator, TransactionCoordinatorParams};
use crate::metadata::image::{ConfigResource, Endpoint as RegisteredEndpoint, MetadataImage};
use crate::metadata::log::MetadataLogSettings;
use crate::net::{BindError, SocketServer};
use crate::quorum::voters::VoterSet;
use crate::record::control::VoterEndpoint;
use crate::replica::{ReplicaManager, Settings};
use crate::storage::background::Background;
use crate::storage::disk::{Disk, RealDisk, is_full};
use crate::storage::file_cache::FileCache;
use crate::storage::log::LogContext;
use crate::storage::manager::{
    DirectoryFailure, HostedPartition, LoadEvent, LogManager, LogManagerConfig, OpenError, recovery_threads,
};
use crate::storage::meta_properties::EnsembleError;
use crate::storage::producer_state::ProducerStateConfig;
use crate::storage::recovery::DamagePolicy;
use crate::types::{DirectoryId, TopicId, TopicPartition};

/// Threads per lane that wait for the disk on behalf of all logs.
const BACKGROUND_THREADS: usize = 4;
/// Segment and index files that are kept open, at most; and no more than this part of what the system allows.
const OPEN_FILES: usize = 4096;
const OPEN_FILES_SHARE: usize = 4;
/// How long requests that are being handled may take to end at a shutdown.
const DRAIN: Duration = Duration::from_secs(5);
/// The port of a controller that nobody reaches by the network: it is written into the metadata, as the quorum's
/// records want one.
const DEFAULT_CONTROLLER_PORT: u16 = 9093;

/// Why a node does not start, or cannot go on.
#[derive(Debug, Error)]
pub enum NodeError {
    #[error(transparent)]
    Directories(#[from] EnsembleError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Controller(#[from] StartError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Stopped(#[from] ControllerError),
    #[error("the controller refused this broker: {0}")]
    Registration(String),
    #[error(transparent)]
    TestTopics(#[from] TestTopicsError),
    #[error("there was none for the broker's registration")]
    NoRoomToRegister,
    #[error("the controller, whose log lies in {}, has ended: {error}", metadata_log_dir.display())]
    Driver { metadata_log_dir: PathBuf, error: DriverError },
    #[error("log directory {} has failed, and with it the metadata log: {error}", dir.display())]
    MetadataLogDir { dir: PathBuf, error: String },
    #[error("all log directories have failed, the last of them {}: {error}", dir.display())]
    NoLogDir { dir: PathBuf, error: String },
    #[error("there is no room to start in {}: {error}. What is there is as it was; make room on that disk, and start again", dir.display())]
    NoRoom { dir: PathBuf, error: Box<NodeError> },
    #[error("a start-up step ended by a panic")]
    Panic,
}

impl NodeError {
    /// Says so if it is for want of room. What a start cannot do without lies in the directory of the metadata log.
    fn or_no_room(self, dir: PathBuf) -> NodeError {
        let mut is_no_room = match &self {
            NodeError::Directories(error) => error.is_full(),
            NodeError::NoRoomToRegister => true,
            _ => false,
        };
        let mut cause: Option<&(dyn Error + 'static)> = Some(&self);
        while let Some(error) = cause {
            let io =
                error.downcast_ref::<io::Error>().or_else(|| error.downcast_ref::<Arc<io::Error>>().map(|io| &**io));
            is_no_room |= io.is_some_and(is_full);
            cause = error.source();
        }
        match is_no_room {
            true => NodeError::NoRoom { dir, error: Box::new(self) },
            false => self,
        }
    }
}

/// A node that serves.
pub struct Node {
    endpoints: Vec<Endpoint>,
    server: SocketServer,
    broker: Arc<Broker>,
    logs: Arc<LogManager>,
    registration: Arc<Registration>,
    jobs: JoinSet<()>,
    failure: Arc<Failure>,
}

/// Why the node cannot go on. What comes first is the reason: what fails later may follow from it.
type Failure = SetOnce<NodeError>;

/// What stands once the files are open.
struct Opened {
    cluster_id: String,
    logs: Arc<LogManager>,
    replicas: Arc<ReplicaManager>,
    settings: Settings,
    controller: ControllerHandle,
    failures: mpsc::Receiver<DirectoryFailure>,
}

impl Node {
    /// Starts a node; on return it serves.
    pub async fn start(config: BrokerConfig) -> Result<Node, NodeError> {
        Node::start_on(config, RealDisk::new()).await
    }

    /// As [`Self::start`], on a disk that may be simulated.
    pub async fn start_on(config: BrokerConfig, disk: Arc<dyn Disk>) -> Result<Node, NodeError> {
        let metadata_log_dir = config.metadata_log_dir.clone();
        Node::start_here(config, disk).await.map_err(|error| error.or_no_room(metadata_log_dir))
    }

    async fn start_here(config: BrokerConfig, disk: Arc<dyn Disk>) -> Result<Node, NodeError> {
        let config = Arc::new(config);
        let clock: Arc<dyn Clock> = SystemClock::new();
        info!(version = env!("CARGO_PKG_VERSION"), node_id = %config.node_id, "starting");
        let server = SocketServer::bind(&config, clock.clone()).await?;
        let bound: Vec<Endpoint> = server.endpoints().cloned().collect();
        let failure = Arc::new(Failure::new());

        let opened = {
            let (config, clock, bound, failure) = (config.clone(), clock.clone(), bound.clone(), failure.clone());
            spawn_blocking(move || open(&config, disk, &clock, &bound, failure))
                .await
                .map_err(|_| NodeError::Panic)??
        };
        let (controller, logs) = (opened.controller.clone(), opened.logs.clone());
        let started = Node::serve(config, clock, server, bound, opened, failure).await;
        if started.is_err() {
            if let Err(error) = controller.shutdown().await {
                warn!(%error, "the controller had ended before");
            }
            let closed = spawn_blocking(move || {
                // As it was found, for nothing has changed.
                let broker_epoch = logs.previous_broker_epoch().unwrap_or(-1);
                logs.shutdown(broker_epoch, &logs.read_high_watermarks());
            });
            closed.await.map_err(|_| NodeError::Panic)?;
        }
        started
    }

    /// Has what is open serve.
    async fn serve(
        config: Arc<BrokerConfig>,
        clock: Arc<dyn Clock>,
        mut server: SocketServer,
        bound: Vec<Endpoint>,
        opened: Opened,
        failure: Arc<Failure>,
    ) -> Result<Node, NodeError> {
        let Opened { cluster_id, logs, replicas, settings, controller, mut failures } = opened;
        if logs.log_dirs().iter().all(|dir| !dir.is_online) {
            let last = std::iter::from_fn(|| failures.try_recv().ok()).last();
            let DirectoryFailure { dir, error, .. } = last.expect("it is told of each");
            return Err(NodeError::NoLogDir { dir, error });
        }
        let groups = GroupCoordinator::new(
            config.node_id,
            replicas.clone(),
            controller.metadata().clone(),
            settings.clone(),
            clock.clone(),
        );
        let transactions = TransactionCoordinator::new(TransactionCoordinatorParams {
            broker_id: config.node_id,
            replicas: replicas.clone(),
            groups: groups.clone(),
            controller: controller.clone(),
            settings: settings.clone(),
            clock: clock.clone(),
        });
        let broker = Arc::new(Broker {
            fetch_sessions: FetchSessionCache::new(config.max_incremental_fetch_session_cache_slots.max(0) as usize),
            refused_topics: RefusedTopics::default(),
            cordoned: CordonedLogDirs::default(),
            metadata: controller.metadata().clone(),
            config: config.clone(),
            addresses: AdvertisedAddresses::new(&config, &settings, &bound, clock.clone()),
            settings,
            cluster_id,
            clock,
            controller: controller.clone(),
            replicas: replicas.clone(),
            groups: groups.clone(),
            transactions: transactions.clone(),
        });
        let registration = Arc::new(Registration::new(broker.clone(), logs.clone(), &bound).await);
        registration.register().await?;
        let stale = Arc::new(Notify::new());
        controller
            .install_publisher({
                let (stale, node_id) = (stale.clone(), config.node_id);
                let (quotas, settings) = (server.quotas(&config), broker.settings.clone());
                move |image, delta| {
                    replicas.apply(image, delta);
                    // The replicas keep the settings up to date.
                    quotas.update(settings.load().current());
                    groups.apply(image, delta);
                    transactions.apply(image, delta);
                    if delta.features_changed && lacks_directories(image, node_id) {
                        stale.notify_one();
                    }
                }
            })
            .await?;
        assignments::report_known(&broker, &registration).await;
        registration.unfence().await?;
        create_test_topics(&broker).await?;

        let handler = Arc::new(Dispatcher::new(broker.clone()));
        let mut endpoints = Vec::new();
        for endpoint in bound {
            if config.controller_listener_names.contains(&endpoint.listener_name) {
                info!(listener = %endpoint, "a cluster of one has nobody to talk to on its controller listener: not opened");
                continue;
            }
            server.start_listener(&endpoint.listener_name, handler.clone())?;
            endpoints.push(endpoint);
        }
        let mut jobs = JoinSet::new();
        housekeeping::spawn(&mut jobs, broker.clone(), logs.clone());
        broker.replicas.start_cleaner();
        jobs.spawn(registration.clone().register_again(stale));
        jobs.spawn(watch_directories(failures, broker.clone(), registration.clone(), failure.clone()));
        jobs.spawn(assignments::report(broker.clone(), registration.clone()));
        info!(cluster_id = broker.cluster_id, topics = broker.image().topics.len(), "started");
        Ok(Node { endpoints, server, broker, logs, registration, jobs, failure })
    }

    /// The listeners for clients, with the ports they got.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Ends only if the node cannot go on.
    pub async fn failed(&self) -> &NodeError {
        self.failure.wait().await
    }

    /// Ends the node in good order: what was acknowledged is on disk, and the next start need not look for it.
    pub async fn shutdown(mut self) {
        info!("shutting down");
        self.server.shutdown(DRAIN).await;
        self.jobs.shutdown().await;
        let replicas = self.broker.replicas.clone();
        if spawn_blocking(move || replicas.stop_moves()).await.is_err() {
            error!("the moves of replicas did not end in order");
        }
        // Also of the moves that ended just now.
        assignments::report_last(&self.broker, &self.registration).await;
        let broker_epoch = self.registration.epoch();
        if self.broker.config.controlled_shutdown_enable {
            self.registration.shut_down().await;
        }
        let high_watermarks = self.broker.replicas.high_watermarks();
        if let Err(error) = self.broker.controller.shutdown().await {
            warn!(%error, "the controller had ended before");
        }
        let logs = self.logs.clone();
        let closed = spawn_blocking(move || logs.shutdown(broker_epoch, &high_watermarks)).await;
        if closed.is_err() {
            error!("closing the logs ended by a panic: the next start will recover them");
        }
    }
}

/// How many files and connections the system lets this process have.
fn descriptor_limit() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize)
}

/// Opens directories, controller and logs; blocks.
fn open(
    config: &Arc<BrokerConfig>,
    disk: Arc<dyn Disk>,
    clock: &Arc<dyn Clock>,
    bound: &[Endpoint],
    failure: Arc<Failure>,
) -> Result<Opened, NodeError> {
    let background = Background::new(BACKGROUND_THREADS);
    let context = LogContext {
        files: FileCache::new(
            disk.clone(),
            background.clone(),
            OPEN_FILES.min(descriptor_limit() / OPEN_FILES_SHARE).max(1),
        ),
        disk,
        clock: clock.clone(),
        background,
    };
    let directories = directories::prepare(&*context.disk, config, clock.now_ms())?;
    info!(cluster_id = directories.cluster_id, "log directories are ready");

    // Each directory fails once.
    let (failures_in, failures) = mpsc::channel(config.log_dirs.len().max(1));
    // Weak: the replicas hold the logs, and those this.
    let replicas_slot: Arc<OnceLock<Weak<ReplicaManager>>> = Arc::default();
    let on_failure = {
        let replicas = replicas_slot.clone();
        move |failure: &DirectoryFailure| {
            if let Some(replicas) = replicas.get().and_then(Weak::upgrade) {
                replicas.set_offline(&failure.partitions);
            }
            // Full only if a directory failed twice.
            let _ = failures_in.try_send(failure.clone());
        }
    };
    let logs = LogManager::open(
        context.clone(),
        LogManagerConfig {
            log_dirs: directories.log_dirs,
            unusable: directories.unusable,
            recovery_threads_per_data_dir: recovery_threads(config),
            file_delete_delay_ms: config.topic_defaults.file_delete_delay_ms,
            producers: ProducerStateConfig::of(config),
            on_failure: Arc::new(on_failure),
        },
    )?;
    let controller = start_controller(
        config,
        context,
        directories.cluster_id.clone(),
        directories.metadata_log_dir,
        bound,
        failure,
    )?;
    let image = controller.handle.metadata().load();
    // What was set while an earlier life of the node ran holds from the start. What of it cannot be used is told once the
    // replicas take the settings over.
    let (settings, _complaints) = DynamicBrokerConfig::new(config.clone()).update(
        image.configs.of(&ConfigResource::cluster()),
        image.configs.of(&ConfigResource::broker(config.node_id)),
    );
    logs.update(settings.current());
    load_logs(settings.current(), &logs, &image);
    directories::tell_unknown(config.node_id, &logs, &image);
    let settings: Settings = Arc::new(ArcSwap::from_pointee(settings));
    let replicas = ReplicaManager::new(
        config.clone(),
        settings.clone(),
        logs.clone(),
        logs.read_high_watermarks(),
        directories.one_is_new,
    );
    // Set once, here.
    let _ = replicas_slot.set(Arc::downgrade(&replicas));
    Ok(Opened { cluster_id: directories.cluster_id, logs, replicas, settings, controller: controller.handle, failures })
}

fn start_controller(
    config: &Arc<BrokerConfig>,
    context: LogContext,
    cluster_id: String,
    (metadata_log_dir, directory_id): (PathBuf, DirectoryId),
    bound: &[Endpoint],
    failure: Arc<Failure>,
) -> Result<StartedController, NodeError> {
    let name = config.controller_listener_names.first().cloned().unwrap_or_else(|| "CONTROLLER".to_owned());
    let static_voters: Vec<_> = config
        .controller_quorum_voters
        .iter()
        .map(|voter| (voter.id, VoterEndpoint { name: name.clone(), host: voter.host.clone(), port: voter.port }))
        .collect();
    let alone = || {
        let endpoint =
            VoterEndpoint { name: name.clone(), host: "localhost".to_owned(), port: DEFAULT_CONTROLLER_PORT };
        vec![(config.node_id, endpoint)]
    };
    let voters = if static_voters.is_empty() { alone() } else { static_voters };
    let own = voters.iter().find(|(id, _)| *id == config.node_id).map(|(_, endpoint)| endpoint.clone());
    let is_controller = |endpoint: &&Endpoint| config.controller_listener_names.contains(&endpoint.listener_name);
    let mut listeners: Vec<RegisteredEndpoint> = bound
        .iter()
        .filter(is_controller)
        .map(|endpoint| RegisteredEndpoint {
            name: endpoint.listener_name.clone(),
            host: if endpoint.host.is_empty() { "localhost".to_owned() } else { endpoint.host.clone() },
            port: endpoint.port,
            security_protocol: endpoint.security_protocol.id(),
        })
        .collect();
    if let (true, Some(own)) = (listeners.is_empty(), own) {
        listeners.push(RegisteredEndpoint { name: own.name, host: own.host, port: own.port, security_protocol: 0 });
    }
    let started = start::start(ControllerParams {
        log_context: context,
        metadata_log_dir,
        directory_id,
        log_settings: MetadataLogSettings {
            segment_bytes: config.metadata_log_segment_bytes,
            segment_ms: config.metadata_log_segment_ms,
            retention_bytes: config.metadata_max_retention_bytes,
            retention_ms: config.metadata_max_retention_ms,
        },
        max_bytes_between_snapshots: config.metadata_log_max_record_bytes_between_snapshots.max(1) as u64,
        max_snapshot_interval: Duration::from_millis(config.metadata_log_max_snapshot_interval_ms.max(0) as u64),
        settings: ControllerSettings::new(cluster_id, config.clone()),
        static_voters: VoterSet::fixed(voters),
        listeners,
        progress: None,
        on_failure: {
            let metadata_log_dir = config.metadata_log_dir.clone();
            Box::new(move |error| {
                error!(%error, "the controller has ended");
                let _ = failure.set(NodeError::Driver { metadata_log_dir, error });
            })
        },
    })?;
    info!(epoch = %started.epoch, new_cluster = started.formatted, "the metadata log is open");
    Ok(started)
}

/// Opens the logs that the metadata gives to this node, with a line now and then while that takes long.
fn load_logs(config: &Arc<BrokerConfig>, logs: &Arc<LogManager>, image: &Arc<MetadataImage>) {
    let mut configs: BTreeMap<TopicId, Arc<TopicConfig>> = BTreeMap::new();
    for topic in image.topics.iter() {
        configs.insert(topic.id, Arc::new(crate::replica::topic_config(config, image, &topic.name)));
    }
    let assigned = |partition: &TopicPartition, topic_id: Option<TopicId>| {
        let topic = match topic_id {
            Some(topic_id) => image.topic_by_id(topic_id).filter(|topic| topic.name == partition.topic)?,
            None => image.topic(&partition.topic)?,
        };
        let registration = topic.partition(partition.partition)?;
        let is_here = registration.replicas.contains(&config.node_id);
        is_here.then(|| HostedPartition {
            topic_id: topic.id,
            leader_epoch: registration.leader_epoch,
            config: configs[&topic.id].clone(),
            damage: if registration.replicas.len() > 1 { DamagePolicy::CutOff } else { DamagePolicy::KeepReadable },
            directory: registration.directory(config.node_id),
        })
    };
    let events = Arc::new(|event: LoadEvent<'_>| match event {
        LoadEvent::Began { dir, logs, clean_shutdown } => {
            info!(dir = %dir.display(), logs, clean_shutdown, "loading logs");
        }
        LoadEvent::Recovering { partition, step } => {
            info!(%partition, segment = %step.base_offset, bytes_read = step.bytes_read, bytes_total = step.bytes_total,
                segments_left = step.segments_left, "recovering");
        }
        LoadEvent::Loaded { partition, loaded, total, .. } => {
            if loaded % 1000 == 0 || loaded == total {
                info!(%partition, loaded, total, "loaded log");
            }
        }
    });
    let report = logs.load(&assigned, events);
    info!(logs = report.loaded, took = ?report.took, "logs are loaded");
}

/// Tells the controller of directories that fail, and ends the node when it cannot go on without one.
async fn watch_directories(
    mut failures: mpsc::Receiver<DirectoryFailure>,
    broker: Arc<Broker>,
    registration: Arc<Registration>,
    failure: Arc<Failure>,
) {
    let mut offline = Vec::new();
    while let Some(DirectoryFailure { dir, id, error, online, .. }) = failures.recv().await {
        let end = if online == 0 {
            NodeError::NoLogDir { dir, error }
        } else if dir == broker.config.metadata_log_dir {
            NodeError::MetadataLogDir { dir, error }
        } else {
            offline.push(id);
            registration.report_offline(&offline).await;
            continue;
        };
        let _ = failure.set(end);
    }
}
