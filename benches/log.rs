//! How long the log takes: appends, lookups, reads, and flushes that are waited for. Run by `cargo bench --bench log`,
//! optionally with a directory on the disk that is to be measured.
//!
//! Prints nanoseconds per operation; the median of several rounds, as a machine has its moods.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};

use ottla::clock::SystemClock;
use ottla::config::TopicConfig;
use ottla::record::batch::TimestampType;
use ottla::record::builder::RecordBatchBuilder;
use ottla::storage::background::Background;
use ottla::storage::disk::RealDisk;
use ottla::storage::file_cache::FileCache;
use ottla::storage::log::{AppendContext, Log, LogContext, LogParams, Wait};
use ottla::storage::producer_state::ProducerStateConfig;
use ottla::storage::recovery::DamagePolicy;
use ottla::storage::validate::{AppendOrigin, TargetCompression, ValidationConfig, validate};
use ottla::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition};

const ROUNDS: usize = 7;

struct Bench {
    dir: tempfile::TempDir,
    context: LogContext,
    logs: usize,
}

impl Bench {
    fn open(&mut self, config: TopicConfig) -> Arc<Log> {
        self.logs += 1;
        let topic_partition = TopicPartition::new("bench", self.logs as i32);
        let params = LogParams {
            dir: self.dir.path().join(topic_partition.to_string()),
            topic_partition,
            config: Arc::new(config),
            log_start_offset: Offset(0),
            recovery_point: Offset(0),
            gaps_up_to: Offset(0),
            clean_shutdown: true,
            damage: DamagePolicy::CutOff,
            producers: ProducerStateConfig::default(),
            progress: None,
            on_failure: None,
        };
        Log::open(&self.context, params).expect("the log opens").0
    }
}

fn main() {
    let base = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_else(|| ".".to_owned());
    let disk = RealDisk::new();
    let background = Background::new(2);
    let context = LogContext {
        files: FileCache::new(disk.clone(), background.clone(), 1000),
        disk,
        clock: SystemClock::new(),
        background,
    };
    let dir = tempfile::tempdir_in(base).expect("a directory to write to");
    let mut bench = Bench { dir, context, logs: 0 };

    for size in [100, 1024, 16 << 10, 256 << 10] {
        appends(&mut bench, size);
    }
    idempotent_appends(&mut bench);
    reads(&mut bench);
    cold_open(&mut bench);
    flushes(&mut bench);
}

/// A batch as a producer sends it: one record of `size` bytes.
fn batch(size: usize, producer: Option<i32>) -> Bytes {
    let mut builder = RecordBatchBuilder::new(Offset(0));
    if let Some(sequence) = producer {
        builder = builder.producer(ProducerId(1), ProducerEpoch(0), sequence);
    }
    builder.append(1_700_000_000_000, None, Some(&vec![7; size]), &[]);
    builder.build()
}

fn append(log: &Log, bytes: Bytes) {
    let partition = log.topic_partition();
    let config = ValidationConfig {
        partition,
        origin: AppendOrigin::Client,
        leader_epoch: LeaderEpoch(0),
        max_message_bytes: 1 << 20,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: i64::MAX,
        compression: TargetCompression::Producer,
        compacted: false,
    };
    let records = validate(bytes, &config, 1_700_000_000_000).expect("the batch is valid");
    log.append_as_leader(records, LeaderEpoch(0), AppendOrigin::Client, AppendContext::default())
        .expect("the disk takes it");
}

fn measure(name: &str, operations: usize, mut operation: impl FnMut(usize)) {
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (start, start_cpu) = (Instant::now(), cpu_time());
        for n in 0..operations {
            operation(round * operations + n);
        }
        cpu.push((cpu_time() - start_cpu) as f64 / operations as f64);
        wall.push(start.elapsed().as_nanos() as f64 / operations as f64);
    }
    wall.sort_by(f64::total_cmp);
    cpu.sort_by(f64::total_cmp);
    println!("{name:<48} {:>12.0} ns {:>12.0} ns of it on the processor", wall[ROUNDS / 2], cpu[ROUNDS / 2]);
}

/// Nanoseconds that this thread has run; what the machine does beside it is not in it.
fn cpu_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|run| run.parse().ok()).unwrap_or_default()
}

fn appends(bench: &mut Bench, size: usize) {
    let log = bench.open(TopicConfig { segment_bytes: 256 << 20, ..TopicConfig::default() });
    let bytes = batch(size, None);
    let operations = ((64 << 20) / (size + 500)).min(20_000);
    measure(&format!("validate and append {size} bytes"), operations, |_| append(&log, bytes.clone()));
    let _ = log.delete();
}

fn idempotent_appends(bench: &mut Bench) {
    let log = bench.open(TopicConfig::default());
    measure("build, validate and append 1 KiB, idempotent", 10_000, |n| append(&log, batch(1024, Some(n as i32))));
    let _ = log.delete();
}

fn reads(bench: &mut Bench) {
    let log = bench.open(TopicConfig { segment_bytes: 64 << 20, ..TopicConfig::default() });
    let bytes = batch(1024, None);
    for _ in 0..200_000 {
        append(&log, bytes.clone());
    }
    let end = log.log_end_offset();
    let waited = Cell::new(0);
    let read = |offset: i64, max_bytes: usize| {
        let read = log.read(Offset(offset), max_bytes, end, true, Wait::Never).or_else(|_| {
            waited.set(waited.get() + 1);
            log.read(Offset(offset), max_bytes, end, true, Wait::ForDisk)
        });
        read.expect("the disk gives it").slice
    };
    measure("locate the last batch", 100_000, |_| drop(read(end.0 - 1, 1 << 20)));
    measure("locate a batch anywhere", 100_000, |n| drop(read((n as i64 * 7919) % end.0, 1 << 20)));
    let mut buffer = BytesMut::new();
    for max_bytes in [1024, 64 << 10, 1 << 20] {
        measure(&format!("locate and read {max_bytes} bytes anywhere"), 2000, |n| {
            buffer.clear();
            read((n as i64 * 7919) % (end.0 - 2000), max_bytes).read_into(&mut buffer).expect("it is there");
        });
    }
    println!("{:<48} {:>12}", "  of these had to wait for the disk", waited.get());
    measure("look up a time", 10_000, |n| {
        log.offset_for_timestamp(1_700_000_000_000 - (n as i64 % 2)).expect("it is there");
    });
    log.close().expect("the disk takes it");
}

/// Opening logs that were closed in order: what a start with many partitions takes.
fn cold_open(bench: &mut Bench) {
    let logs: Vec<Arc<Log>> = (0..200).map(|_| bench.open(TopicConfig::default())).collect();
    for log in &logs {
        append(log, batch(1024, None));
        log.close().expect("the disk takes it");
    }
    let first = bench.logs - logs.len();
    measure("open a closed log", 200, |n| {
        bench.logs = first + n % 200;
        bench.open(TopicConfig::default());
    });
    bench.logs = first + 200;
}

/// Appends that wait until they are durable, 1 and 16 at a time.
fn flushes(bench: &mut Bench) {
    for waiting in [1, 16] {
        let log = bench.open(TopicConfig { flush_messages: 1, ..TopicConfig::default() });
        let bytes = batch(1024, None);
        let (sender, receiver) = mpsc::channel();
        measure(&format!("append 1 KiB durably, {waiting} at a time"), 20, |_| {
            for _ in 0..waiting {
                append(&log, bytes.clone());
                let sender = sender.clone();
                log.flush_then(log.flush_point(log.log_end_offset()), move |result| {
                    sender.send(result).expect("main waits")
                });
            }
            for _ in 0..waiting {
                let flushed = receiver.recv_timeout(Duration::from_secs(60)).expect("each wait ends");
                flushed.expect("the disk takes it");
            }
        });
        let _ = log.delete();
    }
}
