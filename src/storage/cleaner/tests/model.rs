//! Random keyed workloads with tombstones, transactions, several codecs, compaction, truncation, restarts and crashes at
//! every change of the disk, compared with what a list of records would say.
//!
//! `CLEANER_SEEDS` says how many are run, `CLEANER_SEED` runs one. What is held, after each cleaning and each start:
//!
//! - a record that is read is one that was written, at its offset, as it was written;
//! - the last committed record of a key is there; a tombstone may be missing behind its horizon, if nothing older of its
//!   key is there;
//! - what is not clean yet, or not decided yet, is all there;
//! - below what is clean a key has one committed record, and an aborted transaction none;
//! - a reader of committed records is told of every aborted transaction of which it gets a record;
//! - producers know their last sequence and their open transactions, and the log its end.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::clock::{Clock as _, ManualClock};
use crate::config::TopicConfig;
use crate::config::topic::CleanupPolicy;
use crate::record::builder::RecordBatchBuilder;
use crate::record::compression::Codec;
use crate::record::control::{ControlRecord, EndTxnMarker};
use crate::storage::background::Background;
use crate::storage::disk::Disk as _;
use crate::storage::file_cache::FileCache;
use crate::storage::log::{AppendContext, LogParams};
use crate::storage::producer_state::ProducerStateConfig;
use crate::storage::recovery::DamagePolicy;
use crate::storage::simulated_disk::{Crash, SimulatedDisk};
use crate::storage::validate::{AppendOrigin, ValidatedBatch, ValidatedRecords};
use crate::types::{LeaderEpoch, ProducerEpoch, ProducerId};

const SEEDS: u64 = 1000;
const OPERATIONS: usize = 40;
const DIR: &str = "/logs/t-0";

/// What was written.
#[derive(Clone, Debug)]
struct Written {
    key: Option<u8>,
    value: Option<Vec<u8>>,
    timestamp: i64,
    /// Of a record in a transaction: its number.
    transaction: Option<usize>,
    /// When a cleaning first came by.
    met_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    /// With the offset of the marker.
    Committed(i64),
    Aborted(i64),
}

/// A producer as it knows itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ProducerModel {
    next_sequence: i32,
    transaction: Option<usize>,
}

/// The producers after each batch, to go back to.
type Producers = [ProducerModel; 3];

struct Model {
    seed: u64,
    random: SmallRng,
    disk: SimulatedDisk,
    clock: Arc<ManualClock>,
    config: Arc<TopicConfig>,
    log: Arc<Log>,
    context: LogContext,
    /// Of a thread that goes on whatever happens; with room for everything, and for little.
    cleaners: [Cleaner; 2],
    records: BTreeMap<i64, Written>,
    transactions: Vec<Fate>,
    first_offsets: Vec<i64>,
    /// By the log's end behind it.
    producers: BTreeMap<i64, Producers>,
    /// What the checkpoint says.
    checkpoint: Option<Offset>,
    recovery_point: Offset,
    /// Up to where a cleaning has come, or may have.
    cleaned_to: i64,
    coverage: Coverage,
}

/// That the test meets what it is for.
#[derive(Clone, Copy, Debug, Default)]
struct Coverage {
    cleanings: u64,
    crashes_in_cleaning: u64,
    completed_swaps: u64,
    records_removed: u64,
    tombstones_removed: u64,
    aborted_removed: u64,
    truncations: u64,
    full_maps: u64,
}

fn context(disk: &SimulatedDisk, clock: &Arc<ManualClock>) -> LogContext {
    let background = Background::stepped();
    let disk = Arc::new(disk.clone());
    LogContext { files: FileCache::new(disk.clone(), background.clone(), 1000), disk, clock: clock.clone(), background }
}

impl Model {
    fn new(seed: u64) -> Model {
        let mut random = SmallRng::seed_from_u64(seed);
        let disk = SimulatedDisk::new();
        disk.create_dir_all(std::path::Path::new("/logs")).unwrap();
        disk.sync_dir(std::path::Path::new("/")).unwrap();
        let clock = ManualClock::new(1_000_000);
        let context = context(&disk, &clock);
        let config = Arc::new(TopicConfig {
            cleanup_policy: CleanupPolicy { compact: true, delete: random.random_bool(0.2) },
            segment_bytes: random.random_range(400..2500),
            index_interval_bytes: random.random_range(0..400),
            delete_retention_ms: [0, 50, i64::MAX / 4][random.random_range(0..3)],
            min_cleanable_dirty_ratio: 0.0,
            min_compaction_lag_ms: if random.random_bool(0.2) { 40 } else { 0 },
            file_delete_delay_ms: 20,
            retention_ms: -1,
            ..TopicConfig::default()
        });
        let log = open(&context, &config, None, Offset(0), false).0;
        Model {
            seed,
            random,
            disk,
            clock,
            config,
            log,
            context,
            cleaners: [24 * 4000, 24 * 8].map(|dedupe_bytes| {
                cleaner_with(CleanerBuffers { dedupe_bytes, dedupe_load_factor: 0.9, io_bytes: 4096 })
            }),
            records: BTreeMap::new(),
            transactions: Vec::new(),
            first_offsets: Vec::new(),
            producers: BTreeMap::from([(0, Producers::default())]),
            checkpoint: None,
            recovery_point: Offset(0),
            cleaned_to: 0,
            coverage: Coverage::default(),
        }
    }

    fn end(&self) -> i64 {
        self.log.log_end_offset().0
    }

    fn current(&self) -> Producers {
        *self.producers.last_key_value().unwrap().1
    }

    fn run(&mut self) {
        for _ in 0..OPERATIONS {
            match self.random.random_range(0..100) {
                0..55 => self.append(),
                55..64 => self.end_transaction(),
                64..69 => {
                    self.log.roll().unwrap();
                    self.context.background.run_pending(Duration::ZERO);
                }
                69..86 => self.clean(),
                86..89 => self.truncate(),
                89..92 => self.clock.advance(Duration::from_millis(self.random.random_range(0..60))),
                92..94 => self.flush(),
                94..96 => self.context.background.run_pending(Duration::from_millis(10)),
                96..98 => self.restart(true, false),
                _ => {
                    let power_went = self.random.random_bool(0.5);
                    self.restart(false, power_went);
                }
            }
            assert!(!self.log.is_offline(), "seed {}: the log failed", self.seed);
        }
        self.clean();
        self.restart(true, false);
    }

    /// Shows the way of a single seed.
    fn say(&self, what: impl std::fmt::Display) {
        if std::env::var("CLEANER_SEED").is_ok() {
            let end = self.end();
            let segments =
                self.log.segments().iter().map(|s| format!("{}:{}", s.base_offset, s.size)).collect::<Vec<_>>();
            println!(
                "{what}: end {end} cleaned {:?} recovery {} {segments:?} {:?}",
                self.log.cleaned_offset(),
                self.recovery_point,
                self.disk
                    .file_names(std::path::Path::new(DIR))
                    .into_iter()
                    .filter(|n| n.contains("snapshot"))
                    .collect::<Vec<_>>()
            );
        }
    }

    fn flush(&mut self) {
        self.log.flush(self.log.log_end_offset()).unwrap();
        self.recovery_point = self.log.recovery_point();
    }

    /// Appends a batch of a producer, or of nobody; perhaps in a transaction.
    fn append(&mut self) {
        let mut producers = self.current();
        let base = self.end();
        let codec = Codec::ALL[if self.random.random_bool(0.75) { 0 } else { self.random.random_range(0..5) }];
        let who = self.random.random_range(0..5);
        let mut builder = RecordBatchBuilder::new(Offset(0)).compression(codec, codec.default_level());
        let transactional = who < 2 && (producers[who].transaction.is_some() || self.random.random_bool(0.3));
        let count = self.random.random_range(1..6);
        if let Some(producer) = producers.get_mut(who) {
            builder = builder
                .producer(ProducerId(who as i64), ProducerEpoch(0), producer.next_sequence)
                .transactional(transactional);
            producer.next_sequence += count;
        }
        let transaction = transactional.then(|| {
            *producers[who].transaction.get_or_insert_with(|| {
                self.transactions.push(Fate::Open);
                self.first_offsets.push(base);
                self.transactions.len() - 1
            })
        });
        let keys = if self.random.random_bool(0.1) { 60 } else { 8 };
        for n in 0..count {
            // Now and then one without a key, which the broker would refuse.
            let key = self.random.random_bool(0.97).then(|| self.random.random_range(0..keys));
            let is_tombstone = self.random.random_bool(0.2);
            let size = if self.random.random_bool(0.02) { 3000 } else { self.random.random_range(0..60) };
            let size = size.min(self.config.segment_bytes as usize / 8);
            let value = (!is_tombstone).then(|| vec![self.random.random(); size]);
            let timestamp = self.clock.now_ms() - self.random.random_range(0..10);
            builder.append(timestamp, key.as_ref().map(std::slice::from_ref), value.as_deref(), &[]);
            self.records.insert(base + i64::from(n), Written { key, value, timestamp, transaction, met_ms: None });
        }
        self.write(builder, AppendOrigin::Client, producers);
    }

    fn end_transaction(&mut self) {
        let mut producers = self.current();
        let who = self.random.random_range(0..2);
        let Some(transaction) = producers[who].transaction.take() else { return };
        let committed = self.random.random_bool(0.6);
        let mut builder = RecordBatchBuilder::new(Offset(0))
            .producer(ProducerId(who as i64), ProducerEpoch(0), -1)
            .transactional(true)
            .control(true);
        let marker = EndTxnMarker { committed, coordinator_epoch: 0 };
        builder.append_control(self.clock.now_ms(), &ControlRecord::EndTxn(marker));
        let at = self.end();
        self.transactions[transaction] = if committed { Fate::Committed(at) } else { Fate::Aborted(at) };
        self.write(builder, AppendOrigin::Coordinator, producers);
    }

    fn write(&mut self, builder: RecordBatchBuilder, origin: AppendOrigin, producers: Producers) {
        let (header, body) = builder.build_parts();
        let batch = ValidatedBatch { header, body: Bytes::copy_from_slice(&body) };
        let records = ValidatedRecords {
            size_in_bytes: batch.size_in_bytes(),
            max_timestamp: batch.header.max_timestamp(),
            log_append_time_ms: None,
            as_given: None,
            batches: vec![batch],
        };
        self.log.append_as_leader(records, LeaderEpoch(0), origin, AppendContext::default()).unwrap();
        self.log.on_high_watermark(self.log.log_end_offset());
        // That a power loss may take the end of a sealed segment and leave what follows is for recovery's own tests.
        self.context.background.run_pending(Duration::ZERO);
        self.producers.insert(self.end(), producers);
        self.say(format_args!("wrote {producers:?}"));
    }

    /// Cuts off the last batches, as a follower does.
    fn truncate(&mut self) {
        let back = self.random.random_range(1..4);
        let Some(to) = self.producers.keys().rev().nth(back).copied() else { return };
        // Not below what was cleaned: that is replicated.
        if to < self.cleaned_to {
            return;
        }
        self.coverage.truncations += 1;
        self.say(format_args!("truncate to {to}"));
        self.log.truncate_to(Offset(to)).unwrap();
        self.checkpoint = self.checkpoint.map(|offset| offset.min(Offset(to)));
        self.recovery_point = self.recovery_point.min(Offset(to));
        self.forget_from(self.end());
        self.log.on_high_watermark(self.log.log_end_offset());
        self.check();
    }

    /// The log ends at `end` now, perhaps before a batch that compaction has left as a gap.
    fn forget_from(&mut self, end: i64) {
        self.records.split_off(&end);
        let behind = self.producers.split_off(&(end + 1));
        if self.producers.last_key_value().is_none_or(|(at, _)| *at != end) {
            // Where compaction has removed batches, the end may lie between two that were written; the state is the later.
            let state = behind.first_key_value().map_or_else(|| self.current(), |(_, state)| *state);
            self.producers.insert(end, state);
        }
        for (transaction, fate) in self.transactions.iter_mut().enumerate() {
            if let Fate::Committed(at) | Fate::Aborted(at) = *fate
                && at >= end
                && self.first_offsets[transaction] < end
            {
                *fate = Fate::Open;
            }
        }
    }

    fn clean(&mut self) {
        let dies = self.random.random_bool(0.35);
        let power_went = self.random.random_bool(0.5);
        if dies {
            self.disk.die_after(Some(self.random.random_range(0..60)));
        }
        let truncations = self.log.truncations();
        let facts = log_facts(&self.log, self.log.log_end_offset());
        let now_ms = self.clock.now_ms();
        let facts = match facts {
            Ok(facts) => facts,
            Err(_) => {
                assert!(self.disk.is_dead());
                return self.restart(false, power_went);
            }
        };
        let to_clean = LogToClean::of(&facts, &self.config, now_ms);
        if to_clean.is_due(&self.config) {
            // Of a producer the last batch is kept, wherever it stands: as in Kafka one that is truncated is missed.
            self.cleaned_to = self.end();
            for (_, record) in self.records.range_mut(..to_clean.first_uncleanable_offset.0) {
                record.met_ms.get_or_insert(now_ms);
            }
            let cleaner = usize::from(self.random.random_bool(0.1));
            let running = self.log.cleaning.try_begin().unwrap();
            self.say(format_args!("clean {to_clean:?}"));
            match self.cleaners[cleaner].clean(&self.log, &to_clean, truncations) {
                Ok(stats) => {
                    self.log.note_cleaned(stats.end_offset, stats.truncations);
                    self.coverage.cleanings += 1;
                    self.coverage.records_removed += stats.records_read - stats.records_written;
                    self.coverage.full_maps += u64::from(stats.end_offset < to_clean.first_uncleanable_offset);
                    if self.random.random_bool(0.8) {
                        self.checkpoint = self.log.cleaned_offset();
                    }
                }
                Err(error) => {
                    assert!(self.disk.is_dead(), "seed {}: {error}", self.seed);
                    self.coverage.crashes_in_cleaning += 1;
                    drop(running);
                    return self.restart(false, power_went);
                }
            }
        }
        self.disk.die_after(None);
        if self.disk.is_dead() {
            return self.restart(false, power_went);
        }
        self.check();
        self.check_compacted();
    }

    fn restart(&mut self, in_order: bool, power_went: bool) {
        if in_order {
            self.log.close().unwrap();
            self.recovery_point = self.log.recovery_point();
            self.checkpoint = self.log.cleaned_offset();
        } else if self.random.random_bool(0.5) {
            self.recovery_point = self.log.recovery_point();
        }
        self.say(format_args!("restart in order {in_order} power went {power_went}"));
        let durable = self.log.recovery_point().0;
        let start = self.log.log_start_offset();
        let crash = if power_went { Crash::PowerLoss } else { Crash::Kill };
        self.disk = self.disk.restart(crash, self.random.random());
        self.context = context(&self.disk, &self.clock);
        let (log, repairs) = open(&self.context, &self.config, self.checkpoint, self.recovery_point, in_order);
        assert_eq!(log.log_start_offset(), start, "seed {}", self.seed);
        self.coverage.completed_swaps += u64::from(repairs.iter().any(|found| found.contains("exchange")));
        let end = log.log_end_offset().0;
        let before = std::mem::replace(&mut self.log, log).log_end_offset().0;
        self.say(format_args!("restarted {repairs:?}"));
        if !power_went {
            assert_eq!(end, before, "seed {}: {repairs:?}", self.seed);
        }
        assert!(end >= durable, "seed {}: lost what was flushed, {end} < {durable}: {repairs:?}", self.seed);
        self.forget_from(end);
        self.log.on_high_watermark(self.log.log_end_offset());
        self.check();
        let left = self.disk.file_names(std::path::Path::new(DIR));
        assert!(left.iter().all(|name| !name.ends_with("swap") && !name.ends_with("cleaned")), "{left:?}");
    }

    fn fate(&self, record: &Written) -> Fate {
        record.transaction.map_or(Fate::Committed(-1), |transaction| self.transactions[transaction])
    }

    /// What holds always.
    fn check(&mut self) {
        let seed = self.seed;
        let found = self.read(false);
        for (offset, (timestamp, key, value)) in &found {
            let Some(written) = self.records.get(offset) else { panic!("seed {seed}: nobody wrote {offset}") };
            assert_eq!(
                (*timestamp, key, value),
                (written.timestamp, &written.key, &written.value),
                "seed {seed}: offset {offset}"
            );
        }
        let cleaned = self.log.cleaned_offset().unwrap_or_default().0;
        let open = self.current();
        let unstable = open.iter().filter_map(|p| p.transaction).map(|t| self.first_offsets[t]).min();
        assert_eq!(self.log.first_unstable_offset().map(|offset| offset.0), unstable, "seed {seed}");

        let mut last_of_key: HashMap<u8, i64> = HashMap::new();
        for (offset, written) in &self.records {
            if let (Some(key), Fate::Committed(_)) = (written.key, self.fate(written)) {
                last_of_key.insert(key, *offset);
            }
        }
        let now_ms = self.clock.now_ms();
        for (key, offset) in &last_of_key {
            if found.contains_key(offset) {
                continue;
            }
            let written = &self.records[offset];
            if written.value.is_some() {
                let of_key = self.records.iter().filter(|(_, record)| record.key == Some(*key));
                let of_key = of_key.map(|(at, record)| (*at, record.transaction, self.fate(record)));
                self.say(format_args!("written {:?}", of_key.collect::<Vec<_>>()));
                self.say(format_args!(
                    "{:?} {:?} {:?}",
                    self.log.aborted_transactions(Offset(0), self.log.log_end_offset(), Wait::ForDisk),
                    self.transactions,
                    self.first_offsets
                ));
            }
            assert!(written.value.is_none(), "seed {seed}: the last value of {key} at {offset} is gone");
            let horizon_ms = written.met_ms.map(|met_ms| met_ms.saturating_add(self.config.delete_retention_ms));
            assert!(horizon_ms.is_some_and(|ms| ms <= now_ms), "seed {seed}: the tombstone of {key} went too early");
            let older = found.iter().find(|(at, (_, k, _))| {
                *at < offset && *k == Some(*key) && matches!(self.fate(&self.records[at]), Fate::Committed(_))
            });
            assert_eq!(older, None, "seed {seed}: {key} has come back");
            self.coverage.tombstones_removed += 1;
        }
        let undecided = |written: &Written| self.fate(written) == Fate::Open;
        for (offset, written) in &self.records {
            // A cleaning that was not noted may have come further.
            let is_met = written.met_ms.is_some();
            if *offset >= cleaned && !is_met || undecided(written) {
                assert!(found.contains_key(offset), "seed {seed}: {offset} is gone, clean is up to {cleaned}");
            }
        }

        // A reader of committed records gets those, and no others.
        let committed = self.read(true);
        let bound = unstable.unwrap_or(i64::MAX);
        let expected: Vec<i64> = found
            .keys()
            .filter(|offset| **offset < bound && matches!(self.fate(&self.records[offset]), Fate::Committed(_)))
            .copied()
            .collect();
        assert_eq!(committed.keys().copied().collect::<Vec<_>>(), expected, "seed {seed}");
        self.check_producers();
        self.check_positions();
    }

    fn check_producers(&self) {
        for (who, model) in self.current().iter().enumerate() {
            self.log.with_producers(|producers| {
                let entry = producers.entry(ProducerId(who as i64));
                let sequence = entry.map_or(-1, |entry| entry.last_sequence());
                assert_eq!(sequence, model.next_sequence - 1, "seed {}: producer {who}", self.seed);
                let first = entry.and_then(|entry| entry.current_txn_first_offset).map(|offset| offset.0);
                assert_eq!(first, model.transaction.map(|t| self.first_offsets[t]), "seed {}", self.seed);
            });
        }
    }

    /// Reading from anywhere begins where it should, by the indexes.
    fn check_positions(&mut self) {
        let all = read_batches(&self.log);
        let lasts: Vec<i64> = all.iter().map(|b| RecordBatch::parse(b).unwrap().last_offset().0).collect();
        for _ in 0..3 {
            let from = self.random.random_range(0..=self.end());
            let expected = lasts.iter().find(|last| **last >= from);
            let read = self.log.read(Offset(from), 1, self.log.log_end_offset(), true, Wait::ForDisk).unwrap();
            let mut bytes = BytesMut::new();
            read.slice.read_into(&mut bytes).unwrap();
            let first = batches(&bytes).next().map(|batch| batch.unwrap().last_offset().0);
            assert_eq!(first.as_ref(), expected, "seed {}: from {from}", self.seed);
        }
    }

    /// What holds after a cleaning that went to its end.
    fn check_compacted(&mut self) {
        let cleaned = self.log.cleaned_offset().unwrap_or_default().0;
        let found = self.read(false);
        let mut keys: HashSet<u8> = HashSet::new();
        for offset in found.keys().filter(|offset| **offset < cleaned) {
            let written = &self.records[offset];
            match self.fate(written) {
                Fate::Committed(_) => {
                    let key = written.key.unwrap_or_else(|| panic!("seed {}: {offset} has no key", self.seed));
                    assert!(keys.insert(key), "seed {}: {key} is twice below {cleaned}", self.seed);
                }
                fate => panic!("seed {}: {offset} is {fate:?} below {cleaned}", self.seed),
            }
        }
        let aborted = self.records.range(..cleaned).filter(|(_, r)| matches!(self.fate(r), Fate::Aborted(_)));
        self.coverage.aborted_removed += aborted.count() as u64;
    }

    /// All records, or all that are committed, by their offset.
    #[expect(clippy::type_complexity, reason = "it is a record")]
    fn read(&self, committed_only: bool) -> BTreeMap<i64, (i64, Option<u8>, Option<Vec<u8>>)> {
        let end = self.log.log_end_offset();
        let bound = if committed_only { self.log.first_unstable_offset().unwrap_or(end) } else { end };
        let mut next = self.log.log_start_offset();
        let mut all = BTreeMap::new();
        let max_bytes = if self.seed.is_multiple_of(2) { 1 } else { 100_000 };
        while next < bound {
            let read = self.log.read(next, max_bytes, bound, true, Wait::ForDisk);
            let read = read.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
            let mut bytes = BytesMut::new();
            read.slice.read_into(&mut bytes).unwrap();
            let told = self.log.aborted_transactions_in(&read, next, Wait::ForDisk).unwrap();
            let mut aborted: HashMap<i64, Vec<i64>> = HashMap::new();
            for txn in &told {
                aborted.entry(txn.producer_id.0).or_default().push(txn.first_offset.0);
            }
            aborted.values_mut().for_each(|firsts| firsts.sort_unstable_by(|a, b| b.cmp(a)));
            let before = next;
            for batch in batches(&bytes) {
                let batch = batch.unwrap();
                assert!(batch.is_crc_valid());
                assert!(batch.last_offset() >= next);
                let id = batch.producer_id().0;
                next = batch.last_offset().plus(1);
                // As a consumer does it: a transaction is aborted from its first offset to the next abort marker.
                let current =
                    aborted.get_mut(&id).filter(|firsts| firsts.last().is_some_and(|f| *f <= batch.last_offset().0));
                if batch.is_control() {
                    if let (Some(firsts), Some(Ok(record))) = (current, batch.uncompressed_records().unwrap().next())
                        && record.key == Some(&[0, 0, 0, 0])
                    {
                        firsts.pop();
                    }
                    continue;
                }
                if committed_only && batch.is_transactional() && current.is_some() {
                    continue;
                }
                for record in records(&batch) {
                    let key = record.key.map(|key| key[0]);
                    let is_new = all.insert(record.offset, (record.timestamp, key, record.value)).is_none();
                    assert!(is_new, "offset {} is there twice", record.offset);
                }
            }
            if next == before {
                break;
            }
        }
        all
    }
}

fn open(
    context: &LogContext,
    config: &Arc<TopicConfig>,
    checkpoint: Option<Offset>,
    recovery_point: Offset,
    clean_shutdown: bool,
) -> (Arc<Log>, Vec<String>) {
    let params = LogParams {
        dir: DIR.into(),
        topic_partition: TopicPartition::new("t", 0),
        config: config.clone(),
        log_start_offset: Offset(0),
        recovery_point,
        gaps_up_to: Offset(0),
        clean_shutdown,
        damage: DamagePolicy::CutOff,
        producers: ProducerStateConfig { verification_enabled: false, ..ProducerStateConfig::default() },
        progress: None,
        on_failure: Some(Arc::new(|_| {})),
    };
    let (log, report) = Log::open(context, params).unwrap();
    if let Some(offset) = checkpoint {
        log.restore_cleaned_offset(offset);
    }
    (log, report.repairs.into_iter().map(|repair| repair.found).collect())
}

#[test]
fn compacted_logs_are_what_a_list_of_records_says() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("CLEANER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CLEANER_SEEDS").unwrap_or(SEEDS),
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(4);
    let coverage = Mutex::new(Coverage::default());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (seeds, coverage) = (seeds.clone(), &coverage);
            scope.spawn(move || {
                for seed in seeds.filter(|seed| seed % threads == thread) {
                    let mut model = Model::new(seed);
                    // Of a panic inside of the log the seed is told as well.
                    let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| model.run()));
                    assert!(run.is_ok(), "seed {seed} failed");
                    let mut all = coverage.lock();
                    all.cleanings += model.coverage.cleanings;
                    all.crashes_in_cleaning += model.coverage.crashes_in_cleaning;
                    all.completed_swaps += model.coverage.completed_swaps;
                    all.records_removed += model.coverage.records_removed;
                    all.tombstones_removed += model.coverage.tombstones_removed;
                    all.aborted_removed += model.coverage.aborted_removed;
                    all.truncations += model.coverage.truncations;
                    all.full_maps += model.coverage.full_maps;
                }
            });
        }
    });
    let coverage = coverage.into_inner();
    println!("{coverage:?}");
    if seeds.end - seeds.start >= SEEDS {
        let met = [
            coverage.cleanings,
            coverage.crashes_in_cleaning,
            coverage.completed_swaps,
            coverage.records_removed,
            coverage.tombstones_removed,
            coverage.aborted_removed,
            coverage.truncations,
            coverage.full_maps,
        ];
        assert!(met.iter().all(|count| *count > 20), "{coverage:?}");
    }
}
