//! How a node becomes the controller of its cluster of one: open the metadata log, lead a new epoch, write what a new
//! cluster starts with, register the controller. All of that is one append and one flush.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::{info, warn};
use uuid::Uuid;

use super::driver::{Driver, OnFailure, SnapshotPolicy};
use super::features::{FEATURES, bootstrap_records};
use super::handle::ControllerHandle;
use super::settings::ControllerSettings;
use crate::metadata::batch::{encode_control, encode_records};
use crate::metadata::image::{
    ControllerRegistration, Endpoint, FeaturesImage, MetadataDelta, MetadataHandle, MetadataImage, Provenance,
};
use crate::metadata::log::{MetadataAppendError, MetadataLog, MetadataLogError, MetadataLogSettings};
use crate::metadata::records::{
    AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord, MetadataRecord, VersionedRecord,
};
use crate::metadata::replay::Replay;
use crate::metadata::snapshot::{self, SnapshotError, SnapshotQuorum};
use crate::metadata::version::MetadataVersion;
use crate::quorum::state::{Action, Event, QuorumState};
use crate::quorum::state_file::{self, ElectionState, StateFileError};
use crate::quorum::voters::{SUPPORTED_KRAFT_VERSIONS, VoterSet, VotersError};
use crate::record::control::{ControlRecord, Voter, VoterEndpoint};
use crate::storage::log::LogContext;
use crate::storage::recovery::{RecoveryProgress, RecoveryReport};
use crate::types::{DirectoryId, LeaderEpoch, Offset};

/// Commands that may wait for the driver.
const QUEUE_SIZE: usize = 1024;

/// What the controller is started with.
pub struct ControllerParams {
    pub log_context: LogContext,
    /// `metadata.log.dir`
    pub metadata_log_dir: PathBuf,
    /// Of that directory, from its `meta.properties`.
    pub directory_id: DirectoryId,
    pub log_settings: MetadataLogSettings,
    /// `metadata.log.max.record.bytes.between.snapshots`
    pub max_bytes_between_snapshots: u64,
    /// `metadata.log.max.snapshot.interval.ms`; 0: no limit.
    pub max_snapshot_interval: Duration,
    pub settings: ControllerSettings,
    /// `controller.quorum.voters`, or this node alone. Voters on record, if there are, count instead.
    pub static_voters: VoterSet,
    /// The controller's listeners, to be registered.
    pub listeners: Vec<Endpoint>,
    /// Called while a long log is read.
    pub progress: Option<RecoveryProgress>,
    /// Called when the driver ends because its log failed, or by a bug: the node cannot go on.
    pub on_failure: OnFailure,
}

/// A running controller.
pub struct StartedController {
    pub handle: ControllerHandle,
    /// What the log looked like.
    pub report: RecoveryReport,
    /// The new leader's epoch.
    pub epoch: LeaderEpoch,
    /// Whether the cluster is new.
    pub formatted: bool,
}

/// Why a node cannot be the controller.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Log(#[from] MetadataLogError),
    #[error(transparent)]
    Append(#[from] MetadataAppendError),
    #[error(transparent)]
    StateFile(#[from] StateFileError),
    #[error(transparent)]
    Voters(#[from] VotersError),
    #[error(transparent)]
    Bootstrap(#[from] SnapshotError),
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
    #[error(
        "the cluster's {feature} is at level {level}, and this version knows levels {min} to {max}: it was written by a \
         newer version"
    )]
    Feature { feature: String, level: i16, min: i16, max: i16 },
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// Starts the controller; on return it leads, and its image is published.
pub fn start(params: ControllerParams) -> Result<StartedController, StartError> {
    let clock = Arc::clone(&params.log_context.clock);
    let now_ms = clock.now_ms();
    let opened =
        MetadataLog::open(&params.log_context, &params.metadata_log_dir, params.log_settings, params.progress)?;
    let (mut log, replay) = (opened.log, opened.replay);
    for repair in &opened.report.repairs {
        warn!(file = repair.file, found = repair.found, done = repair.done, "repaired the metadata log");
    }
    let voters = match (replay.kraft_version(), replay.voters()) {
        (0, _) => params.static_voters,
        (version, voters) => VoterSet::recorded(version, voters.unwrap_or_default().to_vec()),
    };
    voters.check_sole_voter(params.settings.node_id(), params.directory_id)?;
    check_features(replay.image())?;

    let remembered = ElectionState::read(&**log.disk(), log.dir())?;
    if remembered.is_none() && log.last_epoch() > LeaderEpoch(0) {
        let (file, done) = (state_file::FILE_NAME, "took the epoch from the log");
        warn!(file, found = "missing", done, "repaired the metadata log");
    }
    let mut quorum = QuorumState::new(
        params.settings.node_id(),
        voters,
        remembered.as_ref(),
        log.last_epoch(),
        log.log_end_offset(),
    );
    let mut appended = Vec::new();
    let mut next_offset = log.log_end_offset();
    for action in quorum.handle(Event::Started) {
        match action {
            Action::Remember(state) => {
                let path = log.dir().to_owned();
                state
                    .write(&**log.disk(), &path, quorum.voters().kraft_version)
                    .map_err(|source| StartError::Io { path, source })?;
            }
            Action::AppendLeaderChange { epoch, record } => {
                let control = [ControlRecord::LeaderChange(record)];
                appended.push(encode_control(next_offset, epoch, now_ms, &control));
                next_offset = next_offset.plus(1);
            }
            Action::AdvanceHighWatermark(_) => unreachable!("nothing is flushed yet"),
        }
    }

    let formatted = replay.image().features.metadata_version == 0;
    let registration = ControllerRegistration {
        id: params.settings.node_id(),
        incarnation_id: Uuid::new_v4(),
        zk_migration_ready: false,
        listeners: params.listeners,
        supported_features: FEATURES.iter().map(|feature| (feature.name.to_owned(), feature.supported)).collect(),
    };
    let voter = Voter {
        id: registration.id,
        directory_id: params.directory_id,
        endpoints: registration
            .listeners
            .iter()
            .map(|listener| VoterEndpoint {
                name: listener.name.clone(),
                host: listener.host.clone(),
                port: listener.port,
            })
            .collect(),
        min_kraft_version: *SUPPORTED_KRAFT_VERSIONS.start(),
        max_kraft_version: *SUPPORTED_KRAFT_VERSIONS.end(),
    };
    let (mut image, batches) =
        activate(replay, &params.settings, &registration, &log, &params.metadata_log_dir, now_ms)?;
    for records in batches {
        appended.push(encode_records(next_offset, quorum.epoch(), now_ms, &records));
        next_offset = next_offset.plus(records.len() as i64);
    }
    let size = appended.iter().map(|batch| batch.len() as u64).sum::<u64>();
    for batch in appended {
        log.append(batch, quorum.epoch(), now_ms)?;
    }
    log.flush().map_err(MetadataAppendError::Flush)?;
    quorum.handle(Event::Flushed { end_offset: log.log_end_offset() });
    Arc::make_mut(&mut image.features).kraft_version = quorum.voters().kraft_version;
    image.provenance = Provenance {
        offset: Offset(log.log_end_offset().0 - 1),
        epoch: quorum.epoch(),
        last_contained_log_time_ms: now_ms,
    };
    info!(
        epoch = %quorum.epoch(),
        log_start_offset = %log.log_start_offset(),
        log_end_offset = %log.log_end_offset(),
        topics = image.topics.len(),
        "metadata loaded, leading the quorum"
    );

    let (commands, queue) = mpsc::channel(QUEUE_SIZE);
    let metadata = MetadataHandle::new(Arc::new(image));
    let epoch = quorum.epoch();
    let settings = Arc::new(params.settings.updated(&metadata.load()));
    let driver = Driver {
        log,
        quorum,
        metadata: metadata.clone(),
        settings,
        clock: Arc::clone(&clock),
        background: params.log_context.background,
        publishers: Vec::new(),
        registration,
        voter,
        lacks_room: false,
        snapshots: SnapshotPolicy::new(
            params.max_bytes_between_snapshots,
            params.max_snapshot_interval,
            opened.bytes_since_snapshot + size,
            clock.monotonic(),
        ),
        wake: commands.downgrade(),
    };
    driver.spawn(queue, params.on_failure).map_err(StartError::Thread)?;
    let handle = ControllerHandle { commands, metadata, clock };
    Ok(StartedController { handle, report: opened.report, epoch, formatted })
}

/// The cluster must not be at a level that this version does not know.
fn check_features(image: &MetadataImage) -> Result<(), StartError> {
    let check = |name: &str, level: i16| {
        let known = FEATURES.iter().find(|feature| feature.name == name).map(|feature| feature.supported);
        let (min, max) = known.map_or((0, 0), |known| (known.min, known.max));
        match (min..=max).contains(&level) {
            true => Ok(()),
            false => Err(StartError::Feature { feature: name.to_owned(), level, min, max }),
        }
    };
    if image.features.metadata_version != 0 {
        check(FeaturesImage::METADATA_VERSION, image.features.metadata_version)?;
    }
    image.features.finalized.iter().try_for_each(|(name, level)| check(name, *level))
}

/// The batches a new leader writes first, and the image with them applied.
fn activate(
    replay: Replay,
    settings: &ControllerSettings,
    registration: &ControllerRegistration,
    log: &MetadataLog,
    metadata_log_dir: &std::path::Path,
    now_ms: i64,
) -> Result<(MetadataImage, Vec<Vec<VersionedRecord>>), StartError> {
    let mut batches = Vec::new();
    // A leader that went down in a transaction leaves it to the next one to undo.
    let abort = replay
        .open_transaction()
        .map(|_| VersionedRecord::lowest(AbortTransactionRecord { reason: Some("Controller failover".to_owned()) }));
    let mut image = replay.into_committed_image();
    let formatted = image.features.metadata_version == 0;
    let mut first = Vec::from_iter(abort);
    if formatted {
        first.extend(format_records(settings, log, metadata_log_dir, now_ms)?);
    }
    if !first.is_empty() {
        batches.push(first);
    }
    apply_all(&mut image, batches.iter().flatten());
    if image.metadata_version().has_controller_registration() {
        let register = vec![registration.to_record()];
        apply_all(&mut image, &register);
        batches.push(register);
    }
    Ok((image, batches))
}

/// Applies records that were just made.
fn apply_all<'a>(image: &mut MetadataImage, records: impl IntoIterator<Item = &'a VersionedRecord>) {
    let mut delta = MetadataDelta::default();
    for record in records {
        let brackets = matches!(
            record.record,
            MetadataRecord::BeginTransaction(_)
                | MetadataRecord::EndTransaction(_)
                | MetadataRecord::AbortTransaction(_)
        );
        if !brackets {
            image.apply(&record.record, &mut delta).expect("what a new leader writes fits what it read");
        }
    }
}

/// The records a new cluster starts with: those that the directory was formatted with, or this version's own.
fn format_records(
    settings: &ControllerSettings,
    log: &MetadataLog,
    metadata_log_dir: &std::path::Path,
    now_ms: i64,
) -> Result<Vec<VersionedRecord>, StartError> {
    let disk = &**log.disk();
    let bootstrap = match snapshot::read_bootstrap(disk, metadata_log_dir)? {
        Some(records) => records,
        None => {
            let records = bootstrap_records();
            snapshot::write_bootstrap(disk, metadata_log_dir, &records, now_ms)
                .map_err(|source| StartError::Io { path: metadata_log_dir.join(snapshot::BOOTSTRAP_FILE), source })?;
            records
        }
    };
    let level = |feature: &str| {
        bootstrap.iter().rev().find_map(|record| match &record.record {
            MetadataRecord::FeatureLevel(level) if level.name == feature => Some(level.feature_level),
            _ => None,
        })
    };
    let version = MetadataVersion(level(FeaturesImage::METADATA_VERSION).unwrap_or(MetadataVersion::LATEST.0));
    // While eligible leader replicas are on, the cluster has a min.insync.replicas of its own.
    let min_isr = (level(FeaturesImage::ELIGIBLE_LEADER_REPLICAS).unwrap_or(0) > 0).then(|| {
        super::features::cluster_min_insync_replicas(settings.broker.fixed().topic_defaults.min_insync_replicas)
    });
    let mut records = Vec::with_capacity(bootstrap.len() + 3);
    if version.has_transactions() {
        records.push(VersionedRecord::lowest(BeginTransactionRecord { name: Some("Bootstrap records".to_owned()) }));
    }
    records.extend(bootstrap);
    records.extend(min_isr);
    if version.has_transactions() {
        records.push(VersionedRecord::lowest(EndTransactionRecord));
    }
    Ok(records)
}

/// What a snapshot says of the quorum.
pub(super) fn snapshot_quorum(quorum: &QuorumState) -> SnapshotQuorum {
    let voters = quorum.voters();
    SnapshotQuorum { kraft_version: voters.kraft_version, voters: voters.is_dynamic().then(|| voters.voters.clone()) }
}
