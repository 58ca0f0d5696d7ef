//! Whole data directories that Apache Kafka 4.3.1 wrote (`tests/golden/fixtures`), opened log by log, and what a
//! consumer of Kafka reads from them, for the tests of this layer.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BytesMut;

use crate::clock::ManualClock;
use crate::config::TopicConfig;
use crate::record::batch::{self, RecordBatch, TimestampType};
use crate::record::control::ControlRecord;
use crate::record::record::RecordStream;
use crate::storage::background::Background;
use crate::storage::checkpoint::{CleanShutdownFile, LOG_START_OFFSETS, OffsetCheckpointFile, RECOVERY_POINTS};
use crate::storage::disk::{Disk, RealDisk};
use crate::storage::file_cache::FileCache;
use crate::storage::log::{Log, LogContext, LogParams, Wait};
use crate::storage::producer_state::ProducerStateConfig;
use crate::storage::recovery::{DamagePolicy, RecoveryReport};
use crate::types::{Offset, TopicPartition};

/// The time at which the fixtures are opened: before their producers expire.
pub const NOW_MS: i64 = 1_795_962_000_000;

/// A copy of a fixture's `data` directory.
pub struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    pub fn unpack(name: &str) -> Fixture {
        let archive = fs::read(golden(&format!("{name}.tar.zst"))).unwrap();
        let archive = zstd::decode_all(&archive[..]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        untar(&archive, dir.path(), |_| true);
        Fixture { dir }
    }

    /// Only one of its partitions, and the files beside them.
    pub fn unpack_only(name: &str, partition: &str) -> Fixture {
        let archive = fs::read(golden(&format!("{name}.tar.zst"))).unwrap();
        let archive = zstd::decode_all(&archive[..]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        untar(&archive, dir.path(), |path| match path.split('/').collect::<Vec<_>>()[..] {
            ["data", dir, _] => dir == partition,
            _ => true,
        });
        Fixture { dir }
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Opens the log of a partition as the node's start would.
    pub fn open(
        &self,
        context: &LogContext,
        partition: &TopicPartition,
        damage: DamagePolicy,
    ) -> (Arc<Log>, RecoveryReport) {
        Log::open(context, self.params(context, partition, damage)).unwrap()
    }

    pub fn params(&self, context: &LogContext, partition: &TopicPartition, damage: DamagePolicy) -> LogParams {
        let data = self.data();
        let checkpoint = |name| OffsetCheckpointFile::new(context.disk.clone(), &data, name).read().unwrap();
        let offset = |name| checkpoint(name).get(partition).copied().unwrap_or_default();
        LogParams {
            dir: data.join(partition.to_string()),
            topic_partition: partition.clone(),
            config: Arc::new(TopicConfig::default()),
            log_start_offset: offset(LOG_START_OFFSETS),
            recovery_point: offset(RECOVERY_POINTS),
            gaps_up_to: Offset(0),
            clean_shutdown: CleanShutdownFile::new(context.disk.clone(), &data).exists().unwrap(),
            damage,
            producers: ProducerStateConfig::default(),
            progress: None,
            on_failure: None,
        }
    }
}

/// What real disks, a clock that stands at [`NOW_MS`] and helper threads that are stepped by hand make.
pub fn context() -> LogContext {
    context_on(RealDisk::new())
}

pub fn context_on(disk: Arc<dyn Disk>) -> LogContext {
    let background = Background::stepped();
    LogContext {
        files: FileCache::new(disk.clone(), background.clone(), 20),
        disk,
        clock: ManualClock::new(NOW_MS),
        background,
    }
}

/// A line of `NAME.offsets.tsv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub partition: TopicPartition,
    pub log_start: i64,
    pub log_end: i64,
    pub last_stable: i64,
    pub max_timestamp: i64,
    pub max_timestamp_offset: i64,
    pub uncommitted: String,
    pub committed: String,
}

/// What Kafka says of a fixture, by directory name.
pub fn expected(name: &str) -> BTreeMap<String, Expected> {
    let text = fs::read_to_string(golden(&format!("{name}.offsets.tsv"))).unwrap();
    let lines = text.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |n: usize| fields[n].parse::<i64>().unwrap();
        let partition = TopicPartition::new(fields[0], number(1) as i32);
        let expected = Expected {
            partition: partition.clone(),
            log_start: number(3),
            log_end: number(4),
            last_stable: number(5),
            max_timestamp: number(6),
            max_timestamp_offset: number(7),
            uncommitted: fields[8].to_owned(),
            committed: fields[9].to_owned(),
        };
        (partition.to_string(), expected)
    });
    lines.collect()
}

/// The same facts of a log of ours, whose records are all replicated.
pub fn found(log: &Log) -> Expected {
    log.on_high_watermark(log.log_end_offset());
    let last_stable = log.first_unstable_offset().unwrap_or(log.log_end_offset());
    let max = log.max_timestamp_offset().unwrap();
    Expected {
        partition: log.topic_partition().clone(),
        log_start: log.log_start_offset().0,
        log_end: log.log_end_offset().0,
        last_stable: last_stable.0,
        max_timestamp: max.map_or(-1, |max| max.timestamp),
        max_timestamp_offset: max.map_or(-1, |max| max.offset.0),
        uncommitted: read_all(log, log.log_end_offset(), false),
        committed: read_all(log, last_stable, true),
    }
}

/// `COUNT FIRST..LAST HASH` of what a consumer reads below `upper_bound`.
pub fn read_all(log: &Log, upper_bound: Offset, committed_only: bool) -> String {
    let mut hash = Sha256::new();
    let (mut count, mut first, mut last) = (0, -1, -1);
    let mut next = log.log_start_offset();
    while next < upper_bound {
        let read = log.read(next, 3000, upper_bound, true, Wait::ForDisk).unwrap();
        let mut bytes = BytesMut::new();
        read.slice.read_into(&mut bytes).unwrap();
        let mut aborted = aborted_by_producer(log, next, upper_bound, committed_only);
        let before = next;
        for batch in batch::batches(&bytes) {
            let batch = batch.unwrap();
            assert!(batch.is_crc_valid(), "a torn batch is served at {}", batch.base_offset());
            assert!(batch.last_offset() >= next, "a batch before the wanted offset is served");
            if is_visible(&batch, &mut aborted, committed_only) {
                for_each_record(&batch, |offset, line| {
                    if offset >= next.0 {
                        first = if count == 0 { offset } else { first };
                        last = offset;
                        count += 1;
                        hash.update(line.as_bytes());
                    }
                });
            }
            next = batch.last_offset().plus(1);
        }
        if next == before {
            assert!(read.slice.is_empty(), "a fetch brings at least a batch");
            break;
        }
    }
    format!("{count} {first}..{last} {}", &hash.finish()[..16])
}

/// First offsets of aborted transactions by producer, ascending.
fn aborted_by_producer(log: &Log, from: Offset, to: Offset, committed_only: bool) -> HashMap<i64, VecDeque<i64>> {
    let mut by_producer: HashMap<i64, VecDeque<i64>> = HashMap::new();
    if committed_only {
        let mut aborted = log.aborted_transactions(from, to, Wait::ForDisk).unwrap();
        aborted.sort_by_key(|txn| txn.first_offset);
        for txn in aborted {
            by_producer.entry(txn.producer_id.0).or_default().push_back(txn.first_offset.0);
        }
    }
    by_producer
}

/// What a consumer does with a batch: it passes over markers, and over those of aborted transactions if it is told to.
fn is_visible(batch: &RecordBatch<'_>, aborted: &mut HashMap<i64, VecDeque<i64>>, committed_only: bool) -> bool {
    let ongoing = aborted.get_mut(&batch.producer_id().0);
    if batch.is_control() {
        let record = batch.uncompressed_records().unwrap().next().unwrap().unwrap();
        let marker = ControlRecord::parse(record.key.unwrap(), record.value.unwrap()).unwrap();
        if let (ControlRecord::EndTxn(marker), Some(ongoing)) = (marker, ongoing)
            && !marker.committed
            && ongoing.front().is_some_and(|first| *first <= batch.base_offset().0)
        {
            ongoing.pop_front();
        }
        return false;
    }
    let is_aborted = ongoing.and_then(|ongoing| ongoing.front()).is_some_and(|first| *first <= batch.last_offset().0);
    !(committed_only && batch.is_transactional() && is_aborted)
}

fn for_each_record(batch: &RecordBatch<'_>, mut each: impl FnMut(i64, String)) {
    let kind = match batch.timestamp_type() {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    };
    let codec = batch.codec().unwrap();
    let mut stream = RecordStream::new(&batch.to_header(), codec, batch.body(), 1 << 30).unwrap();
    let mut buffer = Vec::new();
    while let Some(record) = stream.next_record(&mut buffer).unwrap() {
        let mut headers = String::new();
        for header in record.headers.iter() {
            headers += &format!("{}={},", String::from_utf8_lossy(header.key), hex(header.value));
        }
        let (key, value) = (hex(record.key), hex(record.value));
        each(record.offset.0, format!("{}|{}|{kind}|{key}|{value}|{headers}\n", record.offset, record.timestamp));
    }
}

fn hex(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "null".to_owned(),
        Some(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/fixtures").join(name)
}

/// Unpacks a POSIX archive of plain files and directories.
fn untar(mut archive: &[u8], to: &Path, wanted: impl Fn(&str) -> bool) {
    while let Some((header, rest)) = archive.split_at_checked(512) {
        let text = |from: usize, len: usize| {
            let field = &header[from..from + len];
            let end = field.iter().position(|byte| *byte == 0).unwrap_or(len);
            std::str::from_utf8(&field[..end]).unwrap().trim().to_owned()
        };
        if header[0] == 0 {
            break;
        }
        let name = match text(345, 155) {
            prefix if prefix.is_empty() => text(0, 100),
            prefix => format!("{prefix}/{}", text(0, 100)),
        };
        let size = usize::from_str_radix(&text(124, 12), 8).unwrap();
        match header[156] {
            b'5' => fs::create_dir_all(to.join(name)).unwrap(),
            b'0' | 0 if !wanted(&name) => {}
            b'0' | 0 => {
                let path = to.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, &rest[..size]).unwrap();
            }
            kind => panic!("{name} is of kind {kind}"),
        }
        archive = &rest[size.next_multiple_of(512)..];
    }
}

/// SHA-256 (FIPS 180-4), for the hashes beside the fixtures.
struct Sha256 {
    state: [u32; 8],
    pending: Vec<u8>,
    len: u64,
}

impl Sha256 {
    fn new() -> Sha256 {
        let state = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
        Sha256 { state, pending: Vec::new(), len: 0 }
    }

    fn update(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        self.pending.extend_from_slice(bytes);
        let whole = self.pending.len() / 64 * 64;
        let blocks: Vec<u8> = self.pending.drain(..whole).collect();
        blocks.chunks_exact(64).for_each(|block| self.block(block));
    }

    fn finish(mut self) -> String {
        let bits = self.len * 8;
        self.update(&[0x80]);
        while self.pending.len() != 56 {
            self.update(&[0]);
        }
        self.update(&bits.to_be_bytes());
        self.state.iter().map(|word| format!("{word:08x}")).collect()
    }

    fn block(&mut self, block: &[u8]) {
        let mut w = [0u32; 64];
        for (word, bytes) in w.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes(bytes.try_into().unwrap());
        }
        for n in 16..64 {
            let (a, b) = (w[n - 15], w[n - 2]);
            let s0 = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let s1 = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            w[n] = w[n - 16].wrapping_add(s0).wrapping_add(w[n - 7]).wrapping_add(s1);
        }
        let constants = round_constants();
        let mut v = self.state;
        for n in 0..64 {
            let s1 = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
            let t1 = v[7].wrapping_add(s1).wrapping_add(choice).wrapping_add(constants[n]).wrapping_add(w[n]);
            let s0 = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
            let t2 = s0.wrapping_add(majority);
            v = [t1.wrapping_add(t2), v[0], v[1], v[2], v[3].wrapping_add(t1), v[4], v[5], v[6]];
        }
        for (state, word) in self.state.iter_mut().zip(v) {
            *state = state.wrapping_add(word);
        }
    }
}

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
fn round_constants() -> [u32; 64] {
    static CONSTANTS: std::sync::LazyLock<[u32; 64]> = std::sync::LazyLock::new(|| {
        let is_prime = |n: &u128| (2..*n).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
        let mut primes = (2u128..).filter(is_prime);
        std::array::from_fn(|_| {
            // The largest r with r^3 <= p * 2^96 is the cube root of p with 32 bits behind the point.
            let target = primes.next().unwrap() << 96;
            let (mut low, mut high) = (0u128, 1 << 36);
            while high - low > 1 {
                let middle = (low + high) / 2;
                if middle * middle * middle <= target { low = middle } else { high = middle }
            }
            low as u32
        })
    });
    *CONSTANTS
}

#[test]
fn the_hash_is_sha256() {
    let mut hash = Sha256::new();
    hash.update(b"abc");
    assert_eq!(hash.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
