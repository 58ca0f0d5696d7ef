//! The shell around the decisions: one thread that owns the metadata log.
//!
//! It takes the commands that wait, decides one after the other on an image that grows with each, appends the records of
//! all in one piece, makes them durable with one flush, has the publishers take them over, makes the image visible, and
//! only then answers. So what is answered is true on this node, and commands that come together share an fsync.
//!
//! A log that fails ends the driver: nobody can tell what is on disk, and so nothing more is decided (until then every
//! command is answered, afterwards none).
//!
//! Kafka's controller appends a NoOpRecord every `metadata.max.idle.interval.ms` so that observers see the high
//! watermark move. There are none here yet; an idle controller writes nothing.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{SeedableRng as _, rng};
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};

use super::decision::Decision;
use super::features::FEATURES;
use super::handle::{Command, Publisher};
use super::refusal::Refusable;
use super::settings::ControllerSettings;
use super::{brokers, configs, directories, feature_updates, partitions, producer_ids, topic_deletion, topics};
use crate::clock::Clock;
use crate::metadata::batch::{encode_atomically, encode_control};
use crate::metadata::image::{
    ConfigResourceType, ControllerRegistration, FeaturesImage, MetadataDelta, MetadataHandle, MetadataImage, Provenance,
};
use crate::metadata::log::{MetadataAppendError, MetadataLog};
use crate::metadata::records::{MetadataRecord, VersionedRecord};
use crate::metadata::snapshot::{self, SnapshotId};
use crate::metadata::version::MetadataVersion;
use crate::quorum::state::{Event, QuorumState};
use crate::quorum::voters::VoterSet;
use crate::record::control::{ControlRecord, Voter};
use crate::storage::background::{Background, Lane};
use crate::storage::log::{AppendError, ChangeError};
use crate::types::{Offset, TopicId};

/// Records after which a group of commands is closed; with the last command it may be up to twice as many.
const GROUP_RECORDS: usize = 10_000;
/// How often retention is looked at, as in Kafka.
const CLEAN_INTERVAL: Duration = Duration::from_secs(60);

pub(super) struct Driver {
    pub log: MetadataLog,
    pub quorum: QuorumState,
    pub metadata: MetadataHandle,
    pub settings: Arc<ControllerSettings>,
    pub clock: Arc<dyn Clock>,
    pub background: Background,
    pub publishers: Vec<Publisher>,
    /// What is recorded when `metadata.version` comes to know it.
    pub registration: ControllerRegistration,
    /// This node as the voter that is recorded when `kraft.version` comes to know it.
    pub voter: Voter,
    pub snapshots: SnapshotPolicy,
    /// The last records were refused for want of room; somebody was told.
    pub lacks_room: bool,
    /// To be woken by; weak, so that the queue closes with the last handle.
    pub wake: mpsc::WeakSender<Command>,
}

/// When a snapshot is due.
pub(super) struct SnapshotPolicy {
    max_bytes: u64,
    /// Zero: no limit.
    max_interval: Duration,
    bytes_since: u64,
    last: Duration,
    last_clean: Duration,
    /// Where the one being written will leave its outcome.
    writing: Option<SnapshotSlot>,
}

type SnapshotSlot = Arc<Mutex<Option<std::io::Result<(SnapshotId, u64)>>>>;

impl SnapshotPolicy {
    pub fn new(max_bytes: u64, max_interval: Duration, bytes_since: u64, now: Duration) -> SnapshotPolicy {
        SnapshotPolicy { max_bytes, max_interval, bytes_since, last: now, last_clean: now, writing: None }
    }

    fn is_due(&self, now: Duration) -> bool {
        let by_time = !self.max_interval.is_zero() && now.saturating_sub(self.last) >= self.max_interval;
        self.writing.is_none() && self.bytes_since > 0 && (self.bytes_since >= self.max_bytes || by_time)
    }

    /// Until something may be due; `None`: nothing will be before the next command.
    fn wait(&self, now: Duration) -> Option<Duration> {
        let waits = self.writing.is_none() && self.bytes_since > 0 && !self.max_interval.is_zero();
        waits.then(|| (self.last + self.max_interval).saturating_sub(now))
    }
}

/// Commands that were decided together: their records, and the answers that wait for them.
struct Group {
    image: MetadataImage,
    delta: MetadataDelta,
    batches: Vec<Bytes>,
    next_offset: Offset,
    records: usize,
    /// How the voters were kept, if that changes.
    voters_before: Option<VoterSet>,
    /// Told whether the records are there.
    answers: Vec<Box<dyn FnOnce(bool)>>,
}

/// What ends the driver before it is told to.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error("the metadata log failed: {0}")]
    Append(#[from] MetadataAppendError),
    #[error("the metadata log failed: {0}")]
    TakeBack(#[from] ChangeError),
    /// By a bug; the panic's own message stands in the log.
    #[error("the controller ended by a panic")]
    Panic,
}

/// Told of what ends the driver.
pub type OnFailure = Box<dyn FnOnce(DriverError) + Send>;

/// Whether the driver goes on.
enum Next {
    GoOn,
    Stop,
}

impl Driver {
    /// Runs the driver on a thread of its own.
    pub fn spawn(self, queue: mpsc::Receiver<Command>, on_failure: OnFailure) -> std::io::Result<()> {
        // Only for waiting with a timeout; no I/O goes through it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let run = move || {
            let ended = std::panic::catch_unwind(AssertUnwindSafe(move || self.run(queue, &runtime)));
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => on_failure(error),
                Err(_) => on_failure(DriverError::Panic),
            }
        };
        std::thread::Builder::new().name("controller".to_owned()).spawn(run).map(drop)
    }

    fn run(mut self, mut queue: mpsc::Receiver<Command>, runtime: &tokio::runtime::Runtime) -> Result<(), DriverError> {
        loop {
            self.keep_house();
            let wait = self.snapshots.wait(self.clock.monotonic());
            let received = runtime.block_on(async {
                match wait {
                    None => Ok(queue.recv().await),
                    Some(wait) => tokio::time::timeout(wait, queue.recv()).await,
                }
            });
            match received {
                Err(_elapsed) => {}
                // Every handle is gone.
                Ok(None) => {
                    self.close();
                    return Ok(());
                }
                Ok(Some(command)) => match self.handle(command, &mut queue)? {
                    Next::GoOn => {}
                    Next::Stop => return Ok(()),
                },
            }
        }
    }

    /// Decides on a command and on those that wait behind it.
    fn handle(&mut self, first: Command, queue: &mut mpsc::Receiver<Command>) -> Result<Next, DriverError> {
        let mut group = self.new_group();
        let mut next = Some(first);
        while let Some(command) = next.take() {
            match command {
                Command::Wake => {}
                // These see what was decided before them.
                Command::InstallPublisher(publisher, answer) => {
                    self.commit(group)?;
                    self.install(publisher);
                    let _ = answer.send(());
                    group = self.new_group();
                }
                Command::Shutdown(answer) => {
                    self.commit(group)?;
                    self.close();
                    let _ = answer.send(());
                    return Ok(Next::Stop);
                }
                command => self.decide(command, &mut group),
            }
            if group.records < GROUP_RECORDS {
                next = queue.try_recv().ok();
            }
        }
        self.commit(group)?;
        Ok(Next::GoOn)
    }

    fn new_group(&self) -> Group {
        Group {
            image: MetadataImage::clone(&self.metadata.load()),
            delta: MetadataDelta::default(),
            batches: Vec::new(),
            next_offset: self.log.log_end_offset(),
            records: 0,
            voters_before: None,
            answers: Vec::new(),
        }
    }

    fn decide(&mut self, command: Command, group: &mut Group) {
        let settings = &*Arc::clone(&self.settings);
        let too_late = |deadline: Duration| self.clock.monotonic() >= deadline;
        match command {
            Command::CreateTopics(request, deadline, answer) => {
                let decision = topics::create_topics(
                    &group.image,
                    settings,
                    &request,
                    too_late(deadline),
                    &mut StdRng::from_rng(&mut rng()),
                    &mut TopicId::random,
                );
                self.accept(decision, answer, group);
            }
            Command::DeleteTopics(request, api_version, deadline, answer) => {
                let late = too_late(deadline);
                let decision = topic_deletion::delete_topics(&group.image, settings, &request, api_version, late);
                self.accept(decision, answer, group);
            }
            Command::CreatePartitions(request, deadline, answer) => {
                let random = &mut StdRng::from_rng(&mut rng());
                let decision = partitions::create_partitions(&group.image, &request, too_late(deadline), random);
                self.accept(decision, answer, group);
            }
            Command::IncrementalAlterConfigs(request, answer) => {
                let decision = configs::incremental_alter_configs(&group.image, settings, &request);
                self.accept(decision, answer, group);
            }
            Command::AlterConfigs(request, answer) => {
                let decision = configs::alter_configs(&group.image, settings, &request);
                self.accept(decision, answer, group);
            }
            Command::UpdateFeatures(request, api_version, answer) => {
                let decided = feature_updates::update_features(&group.image, settings, &request, api_version);
                let before = Arc::clone(&group.image.features);
                if let Some(kraft_version) = decided.kraft_version {
                    self.record_voters(kraft_version, group);
                }
                self.accept(decided.decision, answer, group);
                self.features_updated(&before, group);
            }
            Command::AllocateProducerIds(request, answer) => {
                let decision = producer_ids::allocate_producer_ids(&group.image, &request);
                self.accept(decision, answer, group);
            }
            Command::BrokerRegistration(request, answer) => {
                let decision = brokers::register_broker(&group.image, settings, &request, group.next_offset);
                let decision = decision.unwrap_or_else(|error| {
                    warn!(broker = request.broker_id.0, error = %error, "refused a broker's registration");
                    Decision::answer(brokers::registration_refused(&error))
                });
                self.accept(decision, answer, group);
            }
            Command::BrokerHeartbeat(heartbeat, answer) => {
                let decision = brokers::heartbeat(&group.image, settings, &heartbeat);
                let decision = decision.unwrap_or_else(|error| {
                    debug!(broker = heartbeat.request.broker_id.0, error = %error, "refused a broker's heartbeat");
                    Decision::answer(brokers::heartbeat_refused(&error))
                });
                self.accept(decision, answer, group);
            }
            Command::AssignReplicasToDirs(request, answer) => {
                let decision = directories::assign_replicas_to_dirs(&group.image, settings, &request);
                let decision = decision.unwrap_or_else(|error| {
                    debug!(broker = request.broker_id.0, error = %error, "refused an assignment to directories");
                    Decision::answer(directories::refused(&error))
                });
                self.accept(decision, answer, group);
            }
            Command::InstallPublisher(..) | Command::Shutdown(_) | Command::Wake => {
                unreachable!("these are no decisions")
            }
        }
    }

    /// Takes a decision into the group; its answer waits for the group's commit.
    fn accept<R: Refusable + 'static>(
        &mut self,
        decision: Decision<R>,
        answer: tokio::sync::oneshot::Sender<R>,
        group: &mut Group,
    ) {
        let Decision { records, mut response } = decision;
        let changes_nothing = records.is_empty();
        if !records.is_empty() {
            self.append_to_group(&records, group);
            let of_broker = |record: &VersionedRecord| match &record.record {
                MetadataRecord::Config(config) => config.resource_type == ConfigResourceType::BROKER.0,
                _ => false,
            };
            if records.iter().any(of_broker) {
                self.settings = Arc::new(self.settings.updated(&group.image));
            }
        }
        // Who asked may have gone away meanwhile.
        group.answers.push(Box::new(move |written| {
            if !written && !changes_nothing {
                response.refuse();
            }
            let _ = answer.send(response);
        }));
    }

    fn append_to_group(&self, records: &[VersionedRecord], group: &mut Group) {
        for record in records {
            group
                .image
                .apply(&record.record, &mut group.delta)
                .unwrap_or_else(|error| panic!("a decision contradicts the image it was made on: {error}"));
        }
        let batches = encode_atomically(group.next_offset, self.quorum.epoch(), self.clock.now_ms(), records);
        group.next_offset = batches.next_offset;
        group.batches.extend(batches.bytes);
        group.records += records.len();
    }

    /// Writes down who votes; from here on that is no longer a matter of configuration.
    fn record_voters(&mut self, kraft_version: i16, group: &mut Group) {
        let voters = vec![self.voter.clone()];
        let records = [ControlRecord::KRaftVersion { kraft_version }, ControlRecord::KRaftVoters(voters.clone())];
        group.batches.push(encode_control(group.next_offset, self.quorum.epoch(), self.clock.now_ms(), &records));
        group.next_offset = group.next_offset.plus(records.len() as i64);
        group.records += records.len();
        group.voters_before.get_or_insert_with(|| self.quorum.voters().clone());
        self.quorum.record_voters(VoterSet::recorded(kraft_version, voters));
        Arc::make_mut(&mut group.image.features).kraft_version = kraft_version;
        group.delta.features_changed = true;
    }

    /// What a new level brings with it, and a word of it in the log.
    fn features_updated(&self, before: &FeaturesImage, group: &mut Group) {
        let now = Arc::clone(&group.image.features);
        for feature in &FEATURES {
            let (from, to) = (before.level_of(feature.name), now.level_of(feature.name));
            if from != to {
                info!(feature = feature.name, from, to, "the level of a feature was changed");
            }
        }
        let is_registered = group.image.cluster.controllers.contains_key(&self.registration.id);
        if MetadataVersion(now.metadata_version).has_controller_registration() && !is_registered {
            self.append_to_group(&[self.registration.to_record()], group);
        }
    }

    /// Makes a group durable and visible, and gives its answers.
    fn commit(&mut self, group: Group) -> Result<(), DriverError> {
        let Group { mut image, delta, batches, next_offset, records, voters_before, answers } = group;
        let mut written = true;
        if records > 0 {
            let now_ms = self.clock.now_ms();
            written = self.append(batches, now_ms)?;
        }
        if records > 0 && written {
            let now_ms = self.clock.now_ms();
            self.log.flush().map_err(MetadataAppendError::Flush)?;
            self.quorum.handle(Event::Flushed { end_offset: next_offset });
            assert_eq!(self.quorum.high_watermark(), Some(next_offset), "a quorum of one commits what it flushed");
            image.provenance = Provenance {
                offset: Offset(next_offset.0 - 1),
                epoch: self.quorum.epoch(),
                last_contained_log_time_ms: now_ms,
            };
            let image = Arc::new(image);
            for publisher in &self.publishers {
                publisher(&image, &delta);
            }
            self.metadata.publish(image);
        }
        if let Some(voters) = voters_before.filter(|_| !written) {
            self.quorum.record_voters(voters);
        }
        for answer in answers {
            answer(written);
        }
        Ok(())
    }

    /// Appends the batches of a group. Returns whether there was room for all of them; if not, none is there.
    fn append(&mut self, batches: Vec<Bytes>, now_ms: i64) -> Result<bool, DriverError> {
        let start = self.log.log_end_offset();
        let mut bytes = 0;
        for batch in batches {
            let len = batch.len() as u64;
            match self.log.append(batch, self.quorum.epoch(), now_ms) {
                Ok(()) => bytes += len,
                Err(MetadataAppendError::Append(AppendError::NoRoom(error))) => {
                    if !std::mem::replace(&mut self.lacks_room, true) {
                        error!(%error, "no room for the metadata log: changes of the cluster are refused until there is");
                    }
                    // Nothing of it was committed, and nobody has seen it.
                    self.log.take_back(start)?;
                    self.log.keep_room();
                    self.settings = Arc::new(self.settings.updated(&self.metadata.load()));
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.snapshots.bytes_since += bytes;
        self.log.keep_room();
        if std::mem::take(&mut self.lacks_room) {
            info!("the metadata log has room again");
        }
        Ok(true)
    }

    fn install(&mut self, publisher: Publisher) {
        let image = self.metadata.load();
        publisher(&image, &MetadataDelta::between(&MetadataImage::empty(), &image));
        self.publishers.push(publisher);
    }

    /// Takes over a snapshot that was written, starts one that is due, and lets retention have its way.
    fn keep_house(&mut self) {
        let now = self.clock.monotonic();
        let finished = self.snapshots.writing.as_ref().and_then(|slot| slot.lock().take());
        if let Some(outcome) = finished {
            self.snapshots.writing = None;
            match outcome {
                Ok((id, size)) => {
                    info!(snapshot = %id, size, "wrote a metadata snapshot");
                    self.log.snapshot_written(id, size);
                    self.snapshots.last_clean = Duration::ZERO;
                }
                // The log goes on without; the next attempt comes with the next occasion.
                Err(error) => warn!(%error, "cannot write a metadata snapshot"),
            }
        }
        if self.snapshots.last_clean.is_zero() || now.saturating_sub(self.snapshots.last_clean) >= CLEAN_INTERVAL {
            self.snapshots.last_clean = now;
            if let Err(error) = self.log.clean(self.clock.now_ms()) {
                warn!(%error, "cannot remove old metadata");
            }
        }
        if self.snapshots.is_due(now) {
            self.start_snapshot(now);
        }
    }

    fn start_snapshot(&mut self, now: Duration) {
        let image = self.metadata.load();
        let id = SnapshotId { end_offset: image.provenance.offset.plus(1), epoch: image.provenance.epoch };
        let quorum = super::start::snapshot_quorum(&self.quorum);
        let disk = Arc::clone(self.log.disk());
        let dir = self.log.dir().to_owned();
        let slot: SnapshotSlot = Arc::default();
        self.snapshots.bytes_since = 0;
        self.snapshots.last = now;
        self.snapshots.writing = Some(Arc::clone(&slot));
        let wake = self.wake.clone();
        let now_ms = self.clock.now_ms();
        self.background.run(Lane::Housekeeping, move || {
            let written = snapshot::write(&*disk, &dir, id, &image, &quorum, now_ms);
            *slot.lock() = Some(written.map(|size| (id, size)));
            // If the queue is full, the driver comes by anyway.
            if let Some(wake) = wake.upgrade() {
                let _ = wake.try_send(Command::Wake);
            }
        });
    }

    fn close(&mut self) {
        self.quorum.handle(Event::Resign);
        match self.log.close() {
            Ok(()) => info!(log_end_offset = %self.log.log_end_offset(), "closed the metadata log"),
            Err(error) => error!(%error, "cannot close the metadata log"),
        }
    }
}

#[cfg(test)]
mod tests;
