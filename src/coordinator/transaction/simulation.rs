//! Transactions in a simulated cluster: producers with zombies, requests that are late or lost, markers that are written
//! one by one, timeouts, and a coordinator that comes and goes. The coordinator's shard and the partitions' rules for
//! producers are the real ones; the logs are lists.
//!
//! At the end everything heals, and then: the records of each transaction are all visible or none, those of one whose
//! commit was acknowledged are, those of one whose abort was are not, and no transaction is open for ever.
//!
//! `OTTLA_SIMULATION_SEEDS=100000` runs more of them, see `scripts/simulate-transactions`. Known bugs, put back in turn
//! ([`Bug`]), are found.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::config::BrokerConfig;
use crate::coordinator::shard::ReplyTo;
use crate::coordinator::shard::harness::Harness;
use crate::coordinator::transaction::metadata::TransactionVersion;
use crate::metadata::image::MetadataImage;
use crate::protocol::ErrorCode;
use crate::storage::disk::RealDisk;
use crate::storage::file_cache::Directory;
use crate::storage::producer_state::{
    Analysis, BatchKind, EndTransactionMarker, ProducerBatch, ProducerStateConfig, ProducerStateError,
    ProducerStateManager, VerificationGuard,
};
use crate::storage::validate::AppendOrigin;
use crate::types::{Offset, ProducerEpoch, ProducerId, TopicPartition};
use std::sync::Arc;
use std::time::Duration;

const PARTITIONS: i32 = 3;
const IDS: usize = 2;
const STEPS: usize = 150;

/// A fault that Kafka or somebody else once had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// A partition whose leader is not known just now gets no marker, as if it were gone.
    SkipsPartitionsWithoutLeader,
    /// Appends are not tied to the verification that allowed them.
    AppendsUnverified,
    /// A coordinator that takes over does not write the markers of what was decided.
    ForgetsWhatIsDecided,
    /// The first marker that is written counts as all of them.
    CompletesEarly,
    /// Markers do not wait for the decision to be in the log: one that is lost with its coordinator has markers.
    WritesMarkersBeforeTheDecision,
}

/// A transaction as the test knows it.
type Tag = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Data { producer_id: ProducerId, tag: Tag },
    Marker { producer_id: ProducerId, committed: bool },
}

struct Partition {
    name: TopicPartition,
    producers: ProducerStateManager,
    entries: Vec<Entry>,
    _dir: tempfile::TempDir,
}

impl Partition {
    fn new(index: i32, bug: Bug) -> Partition {
        let dir = tempfile::tempdir().unwrap();
        let config = ProducerStateConfig {
            verification_enabled: bug != Bug::AppendsUnverified,
            ..ProducerStateConfig::default()
        };
        let producers = ProducerStateManager::open(RealDisk::new(), Directory::new(dir.path().into()), config).unwrap();
        Partition { name: TopicPartition::new("data", index), producers, entries: Vec::new(), _dir: dir }
    }

    fn append(
        &mut self,
        batch: ProducerBatch,
        entry: Entry,
        origin: AppendOrigin,
        version: TransactionVersion,
        guard: Option<VerificationGuard>,
    ) -> Result<(), ProducerStateError> {
        match self.producers.analyze([batch], origin, version, guard)? {
            Analysis::Duplicate(_) => {}
            Analysis::Accepted(updates) => {
                self.entries.push(entry);
                let end = Offset(self.entries.len() as i64);
                self.producers.apply(updates, end);
                self.producers.on_high_watermark_updated(end);
            }
        }
        Ok(())
    }

    fn batch(&self, id: ProducerId, epoch: ProducerEpoch, base_sequence: i32, kind: BatchKind) -> ProducerBatch {
        ProducerBatch {
            producer_id: id,
            producer_epoch: epoch,
            base_sequence,
            base_offset: Offset(self.entries.len() as i64),
            last_offset_delta: 0,
            max_timestamp: 0,
            kind,
        }
    }
}

/// A batch on its way: first to be verified, then to be appended.
#[derive(Clone)]
struct Batch {
    instance: usize,
    partition: usize,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    sequence: i32,
    tag: Tag,
    guard: Option<VerificationGuard>,
    verified: bool,
}

/// What a producer knows of its transaction's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Open,
    Committed,
    Aborted,
    /// It asked, and did not hear.
    Unknown,
}

/// A process with a transactional id. Of several with the same id the older ones are zombies.
#[derive(Clone, Default)]
struct Instance {
    id: usize,
    producer: Option<(ProducerId, ProducerEpoch)>,
    tag: Option<Tag>,
    sequences: BTreeMap<usize, i32>,
    /// Nothing more comes from it.
    dead: bool,
    /// What it asked for and was not answered.
    ending: Option<bool>,
}

struct World {
    random: StdRng,
    bug: Bug,
    version: TransactionVersion,
    coordinator: Harness<TransactionShard>,
    partitions: Vec<Partition>,
    instances: Vec<Instance>,
    batches: Vec<Batch>,
    effects: VecDeque<TransactionEffect>,
    tags: Vec<Known>,
    /// Records that a producer was told are in the log.
    acknowledged: BTreeMap<Tag, usize>,
    next_producer_id: i64,
    next_reply: u64,
    epoch: i32,
}

impl World {
    fn new(seed: u64, bug: Bug) -> World {
        let mut random = StdRng::seed_from_u64(seed);
        let version = TransactionVersion(if random.random_bool(0.7) { 2 } else { 0 });
        let mut image = MetadataImage::empty();
        Arc::make_mut(&mut image.features).finalized.insert("transaction.version".to_owned(), version.0);
        World {
            random,
            bug,
            version,
            coordinator: Harness::new(TransactionShard::default(), image, BrokerConfig::default()),
            partitions: (0..PARTITIONS).map(|index| Partition::new(index, bug)).collect(),
            instances: (0..IDS).map(|id| Instance { id, ..Instance::default() }).collect(),
            batches: Vec::new(),
            effects: VecDeque::new(),
            tags: Vec::new(),
            acknowledged: BTreeMap::new(),
            next_producer_id: 1000,
            next_reply: 0,
            epoch: 0,
        }
    }

    fn new_producer_id(&mut self) -> ProducerId {
        self.next_producer_id += 1;
        ProducerId(self.next_producer_id)
    }

    fn is_lost(&mut self) -> bool {
        self.random.random_bool(0.1)
    }

    fn transactional_id(id: usize) -> Arc<str> {
        format!("txn-{id}").into()
    }

    fn take_effects(&mut self) {
        let effects = std::mem::take(&mut self.coordinator.effects);
        self.effects.extend(effects);
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..45 => self.instance_acts(),
            45..70 => self.batch_arrives(),
            70..85 => self.effect_happens(),
            85..92 => {
                let seconds = self.random.random_range(1..40);
                self.coordinator.advance(Duration::from_secs(seconds));
                self.take_effects();
            }
            92..95 => self.coordinator_fails_over(),
            _ => {
                // Another process with the same id begins; the old one lives on as a zombie.
                let id = self.random.random_range(0..IDS);
                self.instances.push(Instance { id, ..Instance::default() });
            }
        }
    }

    fn coordinator_fails_over(&mut self) {
        self.epoch += 1;
        self.effects.clear();
        self.coordinator.replies.clear();
        self.coordinator.reload(TransactionShard::default());
        if self.bug == Bug::ForgetsWhatIsDecided {
            self.coordinator.effects.clear();
        }
        self.take_effects();
    }

    fn instance_acts(&mut self) {
        let at = self.random.random_range(0..self.instances.len());
        if self.instances[at].dead {
            return;
        }
        let Some(producer) = self.instances[at].producer else { return self.init(at) };
        if self.instances[at].ending.is_some() {
            return self.end(at, producer);
        }
        match self.random.random_range(0..10) {
            0..7 => self.produce(at, producer),
            7..9 if self.instances[at].tag.is_some() => {
                // A producer may give up on batches and abort, while the network still has them.
                let commits = !self.has_batches(at) && self.random.random_bool(0.7);
                self.instances[at].ending = Some(commits);
                self.end(at, producer);
            }
            9 if self.random.random_bool(0.1) => self.instances[at].dead = true,
            _ => {}
        }
    }

    fn has_batches(&self, instance: usize) -> bool {
        self.batches.iter().any(|batch| batch.instance == instance)
    }

    fn init(&mut self, at: usize) {
        let id = World::transactional_id(self.instances[at].id);
        let new_id = self.new_producer_id();
        let step =
            self.coordinator.step(|shard, step| shard.init_producer_id(step, &id, 20_000, None, Some(new_id))).unwrap();
        self.take_effects();
        if self.is_lost() {
            return;
        }
        if let Initialized::Producer(producer_id, producer_epoch) = step {
            let instance = &mut self.instances[at];
            instance.producer = Some((producer_id, producer_epoch));
            instance.sequences.clear();
        }
    }

    fn produce(&mut self, at: usize, (producer_id, producer_epoch): (ProducerId, ProducerEpoch)) {
        let partition = self.random.random_range(0..self.partitions.len());
        // One batch of a partition at a time: a client keeps its sequences in order.
        if self.batches.iter().any(|batch| batch.instance == at && batch.partition == partition) {
            return;
        }
        let tag = *self.instances[at].tag.get_or_insert_with(|| {
            self.tags.push(Known::Open);
            self.tags.len() - 1
        });
        let sequence = *self.instances[at].sequences.entry(partition).or_default();
        if !self.version.supports_epoch_bump() {
            // Clients without implicit adds say so first.
            let added = BTreeSet::from([self.partitions[partition].name.clone()]);
            if let Err(error) = self.add(at, (producer_id, producer_epoch), added) {
                self.failed(at, error);
                return;
            }
        }
        let batch =
            Batch { instance: at, partition, producer_id, producer_epoch, sequence, tag, guard: None, verified: false };
        self.batches.push(batch);
    }

    fn add(
        &mut self,
        at: usize,
        (producer_id, producer_epoch): (ProducerId, ProducerEpoch),
        added: BTreeSet<TopicPartition>,
    ) -> Result<(), ErrorCode> {
        let id = World::transactional_id(self.instances[at].id);
        let version = self.version;
        self.coordinator
            .step(|shard, step| shard.add_partitions(step, &id, producer_id, producer_epoch, added, version))
            .unwrap()
    }

    /// The producer's request failed: it tries again, or cannot go on.
    fn failed(&mut self, at: usize, error: ErrorCode) {
        if error != ErrorCode::ConcurrentTransactions {
            self.give_up(at);
        }
    }

    /// The instance begins anew; of its transaction it knows nothing.
    fn give_up(&mut self, at: usize) {
        let instance = &mut self.instances[at];
        if let Some(tag) = instance.tag.take() {
            self.tags[tag] = Known::Unknown;
        }
        instance.producer = None;
        instance.ending = None;
        instance.sequences.clear();
        // A fenced instance mostly ends; sometimes it starts again.
        instance.dead = self.random.random_bool(0.7);
    }

    fn batch_arrives(&mut self) {
        if self.batches.is_empty() {
            return;
        }
        let at = self.random.random_range(0..self.batches.len());
        let mut batch = self.batches[at].clone();
        let now_ms = self.coordinator.now.as_millis() as i64;
        let supports_epoch_bump = self.version.supports_epoch_bump();
        let partition = &mut self.partitions[batch.partition];
        if !batch.verified {
            let started = partition.producers.start_verification(
                batch.producer_id,
                batch.producer_epoch,
                batch.sequence,
                supports_epoch_bump,
                now_ms,
            );
            match started {
                Ok(guard) => batch.guard = guard,
                Err(_) => return self.refused(at, &batch),
            }
            if batch.guard.is_some() {
                let added = BTreeSet::from([partition.name.clone()]);
                let producer = (batch.producer_id, batch.producer_epoch);
                let outcome = if supports_epoch_bump {
                    self.add(batch.instance, producer, added)
                } else {
                    let id = World::transactional_id(self.instances[batch.instance].id);
                    let shard = &self.coordinator.shard;
                    shard.verify_partitions(&id, producer.0, producer.1, &added).and_then(|verified| {
                        match verified.into_values().next() {
                            Some(ErrorCode::None) | None => Ok(()),
                            Some(error) => Err(error),
                        }
                    })
                };
                match outcome {
                    Ok(()) => {}
                    Err(ErrorCode::ConcurrentTransactions) => return,
                    Err(_) => return self.refused(at, &batch),
                }
            }
            batch.verified = true;
            // The append may come much later.
            if self.random.random_bool(0.5) {
                self.batches[at] = batch;
                return;
            }
        }
        let partition = &mut self.partitions[batch.partition];
        let record = partition.batch(
            batch.producer_id,
            batch.producer_epoch,
            batch.sequence,
            BatchKind::Data { transactional: true },
        );
        let entry = Entry::Data { producer_id: batch.producer_id, tag: batch.tag };
        match partition.append(record, entry, AppendOrigin::Client, self.version, batch.guard) {
            Ok(()) => {
                if self.is_lost() {
                    // The client sends it again, from the start.
                    self.batches[at] = Batch { guard: None, verified: false, ..batch };
                    return;
                }
                self.batches.remove(at);
                *self.acknowledged.entry(batch.tag).or_default() += 1;
                let instance = &mut self.instances[batch.instance];
                if instance.tag == Some(batch.tag) {
                    instance.sequences.insert(batch.partition, batch.sequence + 1);
                }
            }
            Err(_) => self.refused(at, &batch),
        }
    }

    fn refused(&mut self, at: usize, batch: &Batch) {
        self.batches.remove(at);
        if self.instances[batch.instance].tag == Some(batch.tag) {
            self.give_up(batch.instance);
        }
    }

    fn end(&mut self, at: usize, (producer_id, producer_epoch): (ProducerId, ProducerEpoch)) {
        let committed = self.instances[at].ending.unwrap_or(false);
        self.next_reply += 1;
        let reply_to = ReplyTo(self.next_reply);
        let end = EndTransaction {
            transactional_id: World::transactional_id(self.instances[at].id),
            producer_id,
            producer_epoch,
            committed,
            client_version: self.version,
            new_producer_id: Some(self.new_producer_id()),
        };
        self.coordinator.step(|shard, step| shard.end_transaction(step, &end, reply_to)).unwrap();
        if self.bug == Bug::WritesMarkersBeforeTheDecision && self.random.random_bool(0.3) {
            // The markers are out, and the decision is not in the log of the coordinator that takes over.
            let markers = std::mem::take(&mut self.coordinator.effects);
            for effect in markers {
                if let TransactionEffect::WriteMarkers(markers) = effect {
                    for index in 0..self.partitions.len() {
                        if markers.partitions.contains(&self.partitions[index].name) && self.random.random_bool(0.5) {
                            self.write_marker(index, &markers);
                        }
                    }
                    self.coordinator.log.pop();
                    self.coordinator_fails_over();
                }
            }
            return;
        }
        self.take_effects();
        // The answer waits for the markers, but not for ever.
        if self.random.random_bool(0.5) {
            while !self.effects.is_empty() && self.random.random_bool(0.9) {
                self.effect_happens();
            }
        }
        self.coordinator.advance(Duration::from_millis(150));
        self.take_effects();
        let replies = std::mem::take(&mut self.coordinator.replies);
        let Some((_, Ok(answer))) = replies.into_iter().find(|(to, _)| *to == reply_to) else { return };
        if self.is_lost() {
            return;
        }
        match answer {
            EndedTransaction::Ended(producer_id, producer_epoch) => {
                let instance = &mut self.instances[at];
                instance.ending = None;
                if let Some(tag) = instance.tag.take() {
                    self.tags[tag] = if committed { Known::Committed } else { Known::Aborted };
                }
                if self.batches.iter().any(|batch| batch.instance == at) {
                    // Its sequences are in doubt: it asks for another epoch, as clients do.
                    instance.producer = None;
                    instance.sequences.clear();
                } else if self.version.supports_epoch_bump() {
                    instance.producer = Some((producer_id, producer_epoch));
                    instance.sequences.clear();
                }
            }
            EndedTransaction::Refused(error) => self.failed(at, error),
            EndedTransaction::NeedsProducerId => unreachable!("one was given"),
        }
    }

    fn write_marker(&mut self, index: usize, markers: &MarkersToWrite) -> bool {
        let partition = &mut self.partitions[index];
        let marker = EndTransactionMarker { aborted: !markers.committed, coordinator_epoch: self.epoch, timestamp: 0 };
        let record =
            partition.batch(markers.producer_id, markers.producer_epoch, -1, BatchKind::EndTransaction(Some(marker)));
        let entry = Entry::Marker { producer_id: markers.producer_id, committed: markers.committed };
        let written = partition.append(record, entry, AppendOrigin::Coordinator, markers.transaction_version, None);
        match written {
            Ok(()) => true,
            // It has seen a later transaction of the producer: passed over, as the coordinator does.
            Err(ProducerStateError::InvalidProducerEpoch { .. }) => true,
            Err(error) => panic!("{error}"),
        }
    }

    fn effect_happens(&mut self) {
        let Some(effect) = self.effects.pop_front() else { return };
        match effect {
            TransactionEffect::WriteMarkers(mut markers) => {
                let mut written = Vec::new();
                for index in 0..self.partitions.len() {
                    let name = self.partitions[index].name.clone();
                    if !markers.partitions.contains(&name) {
                        continue;
                    }
                    // Its leader may not be known just now.
                    if self.random.random_bool(0.3) {
                        if self.bug == Bug::SkipsPartitionsWithoutLeader {
                            written.push(name);
                        }
                        continue;
                    }
                    if self.write_marker(index, &markers) {
                        written.push(name);
                        if self.bug == Bug::CompletesEarly {
                            written = markers.partitions.iter().cloned().collect();
                            break;
                        }
                    }
                }
                // Written, and the word of it lost: written again.
                if !self.is_lost() {
                    self.coordinator.step(|shard, step| shard.markers_written(step, &markers, &written)).unwrap();
                    for partition in &written {
                        markers.partitions.remove(partition);
                    }
                    if markers.partitions.is_empty() {
                        return self.take_effects();
                    }
                }
                self.take_effects();
                self.effects.push_back(TransactionEffect::WriteMarkers(markers));
            }
            TransactionEffect::Abort(mut end) => {
                end.new_producer_id = Some(self.new_producer_id());
                let aborted = self.coordinator.step(|shard, step| shard.abort_if_timed_out(step, &end)).unwrap();
                assert!(aborted.is_ok(), "an id was given");
                self.take_effects();
            }
        }
    }

    /// Nothing is lost any more, and time passes.
    fn heal(&mut self) {
        for _ in 0..20 {
            for _ in 0..200 {
                self.batch_arrives();
            }
            for _ in 0..200 {
                self.effect_happens();
            }
            self.coordinator.advance(Duration::from_secs(15));
            self.take_effects();
        }
    }

    fn check(&self) -> Result<(), String> {
        // What became of each record: the next marker of its producer decides.
        let mut fates: BTreeMap<Tag, BTreeSet<Option<bool>>> = BTreeMap::new();
        let mut visible: BTreeMap<Tag, usize> = BTreeMap::new();
        for partition in &self.partitions {
            for (at, entry) in partition.entries.iter().enumerate() {
                let Entry::Data { producer_id, tag } = entry else { continue };
                let fate = partition.entries[at..].iter().find_map(|later| match later {
                    Entry::Marker { producer_id: of, committed } if of == producer_id => Some(*committed),
                    _ => None,
                });
                fates.entry(*tag).or_default().insert(fate);
                if fate == Some(true) {
                    *visible.entry(*tag).or_default() += 1;
                }
            }
            if let Some(open) = partition.producers.first_unstable_offset() {
                return Err(format!("{}: a transaction is open from {open} on", partition.name));
            }
        }
        for (tag, fates) in &fates {
            if fates.len() != 1 {
                return Err(format!("transaction {tag} is torn: {fates:?}"));
            }
            match (self.tags[*tag], fates.first()) {
                (Known::Committed, Some(Some(false))) => {
                    return Err(format!("transaction {tag} was acknowledged as committed, and is aborted"));
                }
                (Known::Aborted, Some(Some(true))) => {
                    return Err(format!("transaction {tag} was acknowledged as aborted, and is visible"));
                }
                _ => {}
            }
        }
        for (tag, known) in self.tags.iter().enumerate() {
            let (acknowledged, visible) = (self.acknowledged.get(&tag), visible.get(&tag));
            if *known == Known::Committed && acknowledged > visible {
                return Err(format!(
                    "of transaction {tag} {acknowledged:?} records were acknowledged, {visible:?} are there"
                ));
            }
        }
        Ok(())
    }
}

fn run(seed: u64, bug: Bug) -> Result<(), String> {
    let mut world = World::new(seed, bug);
    for _ in 0..STEPS {
        world.step();
    }
    world.heal();
    world.check()
}

#[test]
fn transactions_are_whole_whatever_happens() {
    let seeds = std::env::var("OTTLA_SIMULATION_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1000);
    for seed in 0..seeds {
        if let Err(fault) = run(seed, Bug::None) {
            panic!("seed {seed}: {fault}");
        }
    }
}

/// The simulation would notice.
#[test]
fn known_bugs_are_found() {
    for bug in [
        Bug::SkipsPartitionsWithoutLeader,
        Bug::AppendsUnverified,
        Bug::ForgetsWhatIsDecided,
        Bug::CompletesEarly,
        Bug::WritesMarkersBeforeTheDecision,
    ] {
        let found = (0..2000).find(|seed| run(*seed, bug).is_err());
        assert!(found.is_some(), "{bug:?} is not found");
    }
}
