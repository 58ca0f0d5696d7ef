//! Batches written down as text, and what is left of them.

use super::*;
use crate::record::batch::batches;
use crate::record::control::{ControlRecord, EndTxnMarker};
use crate::types::LeaderEpoch;

const NOW_MS: i64 = 1_000_000;
const RETENTION_MS: i64 = 1_000;

/// What a batch is made of.
#[derive(Clone, Copy)]
struct Made {
    codec: Codec,
    producer: Option<(i64, i16)>,
    transactional: bool,
    log_append_time_ms: Option<i64>,
    horizon_ms: Option<i64>,
}

const PLAIN: Made =
    Made { codec: Codec::None, producer: None, transactional: false, log_append_time_ms: None, horizon_ms: None };

/// A batch of records `key=value`, `key` (a tombstone) or `=value` (without a key), one offset and millisecond apart.
fn batch(made: Made, base_offset: i64, records: &str) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(Offset(base_offset))
        .compression(made.codec, made.codec.default_level())
        .leader_epoch(LeaderEpoch(7))
        .transactional(made.transactional);
    if let Some((id, epoch)) = made.producer {
        builder = builder.producer(ProducerId(id), ProducerEpoch(epoch), 40);
    }
    if let Some(time_ms) = made.log_append_time_ms {
        builder = builder.log_append_time_ms(time_ms);
    }
    if let Some(horizon_ms) = made.horizon_ms {
        builder = builder.delete_horizon_ms(horizon_ms);
    }
    for (n, record) in records.split_whitespace().enumerate() {
        let (key, value) = record.split_once('=').map_or((record, None), |(key, value)| (key, Some(value)));
        let header = crate::record::record::Header { key: b"h", value: None };
        builder.append(
            500 + base_offset + n as i64,
            (!key.is_empty()).then_some(key.as_bytes()),
            value.map(str::as_bytes),
            &[header],
        );
    }
    builder.build().to_vec()
}

fn marker(base_offset: i64, producer: (i64, i16), committed: bool, horizon_ms: Option<i64>) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(Offset(base_offset))
        .producer(ProducerId(producer.0), ProducerEpoch(producer.1), -1)
        .transactional(true)
        .control(true);
    if let Some(horizon_ms) = horizon_ms {
        builder = builder.delete_horizon_ms(horizon_ms);
    }
    builder.append_control(600, &ControlRecord::EndTxn(EndTxnMarker { committed, coordinator_epoch: 3 }));
    builder.build().to_vec()
}

/// A log that is cleaned.
struct Case {
    upper_bound: i64,
    aborted: Vec<AbortedTxn>,
    last_records: HashMap<ProducerId, LastRecord>,
    now_ms: i64,
}

impl Default for Case {
    fn default() -> Case {
        Case { upper_bound: 1000, aborted: Vec::new(), last_records: HashMap::new(), now_ms: NOW_MS }
    }
}

impl Case {
    /// What is left, and what was said of each batch.
    fn clean(self, log: &[Vec<u8>]) -> (Vec<u8>, Vec<Filtered>) {
        let mut map = OffsetMap::new(24 * 1000, 0.9);
        map.clear_for(100);
        for bytes in log {
            let batch = RecordBatch::parse(bytes).unwrap();
            let header = batch.to_header();
            if !header.is_control() {
                let mut buffer = Vec::new();
                let is_aborted = self.aborted.iter().any(|txn| {
                    txn.producer_id == header.producer_id()
                        && (txn.first_offset..txn.last_offset).contains(&header.base_offset())
                });
                let body = decompress(&header, batch.body(), &mut buffer).unwrap();
                for record in Records::new(&header, body).map(|record| record.unwrap()) {
                    if let (Some(key), false) = (record.key, is_aborted) {
                        assert!(map.put(map.hash(key), record.offset));
                    }
                }
            }
            map.update_latest_offset(header.last_offset());
        }
        let round = Round {
            map: &map,
            upper_bound: Offset(self.upper_bound),
            delete_retention_ms: RETENTION_MS,
            now_ms: self.now_ms,
        };
        let mut transactions = CleanedTransactionMetadata::default();
        transactions.add_aborted(self.aborted.clone());
        // Those that reach into several segments are named more than once.
        transactions.add_aborted(self.aborted);
        let (mut filter, mut output) = (BatchFilter::new(), Vec::new());
        let filtered = log.iter().map(|bytes| {
            let batch = RecordBatch::parse(bytes).unwrap();
            filter.filter(&round, &mut transactions, &self.last_records, &batch, &mut output).unwrap()
        });
        let filtered = filtered.collect();
        (output, filtered)
    }
}

/// `base-last@horizon[record record]` for each batch.
fn told(bytes: &[u8]) -> String {
    let batches = batches(bytes).map(|batch| {
        let batch = batch.unwrap();
        assert!(batch.is_crc_valid());
        let header = batch.to_header();
        let mut buffer = Vec::new();
        let body = decompress(&header, batch.body(), &mut buffer).unwrap();
        let records = Records::new(&header, body).map(|record| {
            let record = record.unwrap();
            if header.is_control() {
                return "marker".to_owned();
            }
            assert_eq!(record.headers.len(), 1);
            if header.timestamp_type() == TimestampType::CreateTime {
                assert_eq!(record.timestamp, 500 + record.offset.0);
            }
            let key = record.key.map_or(String::new(), |key| String::from_utf8_lossy(key).into_owned());
            let value = record.value.map_or(String::new(), |v| format!("={}", String::from_utf8_lossy(v)));
            format!("{}:{key}{value}", record.offset)
        });
        let records = records.collect::<Vec<_>>().join(" ");
        let horizon = header.delete_horizon_ms().map_or(String::new(), |horizon| format!("@{horizon}"));
        format!("{}-{}{horizon}[{records}]", header.base_offset(), header.last_offset())
    });
    batches.collect::<Vec<_>>().join(" ")
}

fn aborted(producer: i64, first: i64, marker: i64) -> AbortedTxn {
    AbortedTxn {
        producer_id: ProducerId(producer),
        first_offset: Offset(first),
        last_offset: Offset(marker),
        last_stable_offset: Offset(marker + 1),
    }
}

#[test]
fn the_last_of_each_key_stays_in_its_place() {
    for codec in Codec::ALL {
        let made = Made { codec, ..PLAIN };
        let log = [batch(made, 0, "a=1 b=1 c=1"), batch(made, 3, "a=2 =x d=1"), batch(made, 6, "a=3 c=2")];
        let (left, filtered) = Case::default().clean(&log);
        assert_eq!(told(&left), "0-2[1:b=1] 3-5[5:d=1] 6-7[6:a=3 7:c=2]");
        assert_eq!(filtered[1].records_without_key, 1);
        assert_eq!(filtered.iter().map(|f| f.is_unchanged).collect::<Vec<_>>(), [false, false, true]);
        for batch in batches(&left).map(|batch| batch.unwrap()) {
            assert_eq!((batch.codec(), batch.partition_leader_epoch()), (Ok(codec), LeaderEpoch(7)));
        }
        assert!(left.ends_with(&log[2]), "a batch of which nothing goes is copied");
        let last = filtered.iter().filter_map(|f| f.written).map(|header| header.last_offset().0);
        assert_eq!(last.collect::<Vec<_>>(), [2, 5, 7]);
    }
}

#[test]
fn the_first_record_that_stays_sets_the_base_timestamp() {
    let (left, _) = Case::default().clean(&[batch(PLAIN, 0, "a=1 b=1"), batch(PLAIN, 2, "a=2")]);
    let first = RecordBatch::parse(&left).unwrap();
    assert_eq!((first.base_timestamp(), first.max_timestamp()), (501, 501));
}

#[test]
fn batches_of_the_brokers_time_keep_it() {
    let made = Made { log_append_time_ms: Some(777), codec: Codec::Lz4, ..PLAIN };
    let (left, _) = Case::default().clean(&[batch(made, 0, "a=1 b=1"), batch(PLAIN, 2, "a=2")]);
    let first = RecordBatch::parse(&left).unwrap();
    assert_eq!(first.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!((first.base_timestamp(), first.max_timestamp()), (777, 777));
}

#[test]
fn what_was_not_looked_at_stays() {
    let log = [batch(PLAIN, 0, "a=1 =x"), batch(PLAIN, 2, "a=2 =y")];
    let mut map = OffsetMap::new(24 * 10, 0.9);
    map.clear_for(2);
    map.put(map.hash(b"a"), Offset(0));
    let round = Round { map: &map, upper_bound: Offset(99), delete_retention_ms: 0, now_ms: 0 };
    let mut output = Vec::new();
    for bytes in &log {
        let batch = RecordBatch::parse(bytes).unwrap();
        let mut transactions = CleanedTransactionMetadata::default();
        BatchFilter::new().filter(&round, &mut transactions, &HashMap::new(), &batch, &mut output).unwrap();
    }
    assert_eq!(output, log.concat());
}

/// KIP-534: the horizon is set when a tombstone is first seen by a cleaning, and counts from then.
#[test]
fn tombstones_go_behind_their_horizon() {
    let log = [batch(PLAIN, 0, "a=1 b=1"), batch(PLAIN, 2, "a c=1")];
    let (first, _) = Case::default().clean(&log);
    assert_eq!(told(&first), "0-1[1:b=1] 2-3@1001000[2:a 3:c=1]");
    let again = |log: &[u8], now_ms| {
        let parts = batches(log).map(|batch| batch.unwrap().bytes().to_vec()).collect::<Vec<_>>();
        let (left, filtered) = Case { now_ms, ..Case::default() }.clean(&parts);
        (told(&left), filtered.iter().all(|f| f.is_unchanged), left)
    };
    let before = again(&first, NOW_MS + RETENTION_MS - 1);
    assert_eq!((before.0.as_str(), before.1), ("0-1[1:b=1] 2-3@1001000[2:a 3:c=1]", true));
    // The horizon stays with the batch, and its records keep their time.
    let behind = again(&first, NOW_MS + RETENTION_MS);
    assert_eq!((behind.0.as_str(), behind.1), ("0-1[1:b=1] 2-3@1001000[3:c=1]", false));
    assert_eq!(again(&behind.2, NOW_MS + 10 * RETENTION_MS).0, behind.0);
}

#[test]
fn a_tombstone_that_is_superseded_goes_at_once() {
    let (left, _) = Case::default().clean(&[batch(PLAIN, 0, "a"), batch(PLAIN, 1, "a=1")]);
    assert_eq!(told(&left), "1-1[1:a=1]");
}

/// A producer's sequence numbers live in its last batch: if that went, the producer would be taken for a new one after
/// a restart, and its next batch be refused.
#[test]
fn the_last_batch_of_a_producer_stays_without_records() {
    for codec in Codec::ALL {
        let made = Made { codec, producer: Some((5, 2)), horizon_ms: Some(9), ..PLAIN };
        let log = [batch(made, 0, "a=1"), batch(made, 1, "a=2 b=2"), batch(PLAIN, 3, "a=3 b=3")];
        let last = LastRecord { last_data_offset: Some(Offset(2)), producer_epoch: ProducerEpoch(2) };
        let known = || HashMap::from([(ProducerId(5), last)]);
        let (left, filtered) = Case { last_records: known(), ..Case::default() }.clean(&log);
        assert_eq!(told(&left), "1-2[] 3-4[3:a=3 4:b=3]");
        let empty = RecordBatch::parse(&left).unwrap();
        assert_eq!((empty.bytes().len(), empty.record_count(), empty.codec()), (61, 0, Ok(Codec::None)));
        assert_eq!((empty.producer_id(), empty.base_sequence(), empty.last_sequence()), (ProducerId(5), 40, 41));
        assert_eq!((empty.base_timestamp(), empty.max_timestamp(), empty.delete_horizon_ms()), (-1, 502, None));
        assert_eq!(filtered[1].records_written, 0);
        // It stays until the producer is forgotten.
        let parts = [left[..61].to_vec(), left[61..].to_vec()];
        let (again, filtered) = Case { last_records: known(), ..Case::default() }.clean(&parts);
        assert_eq!(again, left);
        // Else its segment were written anew at each cleaning.
        assert!(filtered.iter().all(|filtered| filtered.is_unchanged), "{filtered:?}");
        assert_eq!(told(&Case::default().clean(&parts).0), "3-4[3:a=3 4:b=3]");
    }
}

#[test]
fn the_last_batch_of_a_round_stays_so_that_offsets_do_not_go_back() {
    let log = [batch(PLAIN, 0, "a=1"), batch(PLAIN, 1, "=x =y")];
    let (left, _) = Case { upper_bound: 3, ..Case::default() }.clean(&log);
    assert_eq!(told(&left), "0-0[0:a=1] 1-2[]");
    assert_eq!(told(&Case { upper_bound: 4, ..Case::default() }.clean(&log).0), "0-0[0:a=1]");
}

#[test]
fn aborted_records_go_and_their_marker_follows() {
    let made = Made { producer: Some((5, 2)), transactional: true, ..PLAIN };
    let log =
        [batch(PLAIN, 0, "a=1"), batch(made, 1, "a=2 b=2"), marker(3, (5, 2), false, None), batch(PLAIN, 4, "c=1")];
    let txn = || vec![aborted(5, 1, 3)];
    // The records hide nothing; the marker stays as long as records of its transaction were there, as does its entry.
    let (left, filtered) = Case { aborted: txn(), ..Case::default() }.clean(&log);
    assert_eq!(told(&left), "0-0[0:a=1] 3-3[marker] 4-4[4:c=1]");
    assert_eq!(filtered[2].retained_abort, Some(aborted(5, 1, 3)));
    // Next time it gets a horizon, and goes behind that.
    let log = [log[0].clone(), log[2].clone(), log[3].clone()];
    let (left, filtered) = Case { aborted: txn(), ..Case::default() }.clean(&log);
    assert_eq!(told(&left), "0-0[0:a=1] 3-3@1001000[marker] 4-4[4:c=1]");
    assert_eq!(filtered[1].retained_abort, None);
    for (horizon_ms, expected) in
        [(NOW_MS + 1, "0-0[0:a=1] 3-3@1000001[marker] 4-4[4:c=1]"), (NOW_MS, "0-0[0:a=1] 4-4[4:c=1]")]
    {
        let log = [log[0].clone(), marker(3, (5, 2), false, Some(horizon_ms)), log[2].clone()];
        assert_eq!(told(&Case::default().clean(&log).0), expected);
    }
}

#[test]
fn a_commit_marker_stays_as_long_as_its_records() {
    let made = Made { producer: Some((5, 2)), transactional: true, ..PLAIN };
    let log = [batch(made, 0, "a=1"), marker(1, (5, 2), true, Some(0)), batch(PLAIN, 2, "b=1")];
    assert_eq!(told(&Case::default().clean(&log).0), "0-0[0:a=1] 1-1@0[marker] 2-2[2:b=1]");
    // Records that went in this very round still count.
    let log = [log[0].clone(), log[1].clone(), batch(PLAIN, 2, "a=2")];
    let (left, _) = Case::default().clean(&log);
    assert_eq!(told(&left), "1-1@0[marker] 2-2[2:a=2]");
    assert_eq!(told(&Case::default().clean(&log[1..]).0), "2-2[2:a=2]");
}

/// The marker may be all that is there of a producer: its epoch fences those before it.
#[test]
fn the_marker_that_fences_stays_without_its_record() {
    let fence = LastRecord { last_data_offset: None, producer_epoch: ProducerEpoch(2) };
    let known = || HashMap::from([(ProducerId(5), fence)]);
    let log = [marker(0, (5, 1), false, Some(0)), marker(1, (5, 2), false, Some(0)), batch(PLAIN, 2, "a=1")];
    let (left, _) = Case { last_records: known(), ..Case::default() }.clean(&log);
    assert_eq!(told(&left), "1-1[] 2-2[2:a=1]");
    let empty = RecordBatch::parse(&left).unwrap();
    assert!(empty.is_control() && empty.is_transactional());
    // An empty one was a marker once, and is treated as one.
    let parts = [left[..61].to_vec(), left[61..].to_vec()];
    let (again, filtered) = Case { last_records: known(), ..Case::default() }.clean(&parts);
    assert_eq!(again, left);
    assert!(filtered.iter().all(|filtered| filtered.is_unchanged), "{filtered:?}");
    assert_eq!(told(&Case::default().clean(&parts).0), "2-2[2:a=1]");
}

#[test]
fn interleaved_transactions_are_told_apart() {
    let of = |id| Made { producer: Some((id, 0)), transactional: true, ..PLAIN };
    let log = [
        batch(of(1), 0, "a=1"),
        batch(of(2), 1, "a=2"),
        marker(2, (1, 0), false, None),
        batch(of(1), 3, "b=1"),
        marker(4, (2, 0), true, None),
        marker(5, (1, 0), true, None),
    ];
    let (left, filtered) = Case { aborted: vec![aborted(1, 0, 2)], ..Case::default() }.clean(&log);
    assert_eq!(told(&left), "1-1[1:a=2] 2-2[marker] 3-3[3:b=1] 4-4[marker] 5-5[marker]");
    assert_eq!(filtered.iter().filter(|f| f.retained_abort.is_some()).count(), 1);
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let filter = |bytes: &[u8]| {
        let map = OffsetMap::new(0, 1.0);
        let round = Round { map: &map, upper_bound: Offset(99), delete_retention_ms: 0, now_ms: 0 };
        let batch = RecordBatch::parse(bytes).unwrap();
        let mut transactions = CleanedTransactionMetadata::default();
        BatchFilter::new().filter(&round, &mut transactions, &HashMap::new(), &batch, &mut Vec::new())
    };
    let mut bytes = batch(Made { codec: Codec::Zstd, ..PLAIN }, 0, "a=1");
    let at = bytes.len() - 3;
    bytes[at..].fill(0xff);
    assert!(filter(&bytes).is_err());
    let mut bytes = batch(PLAIN, 0, "a=1 b=1");
    bytes[57..61].copy_from_slice(&9i32.to_be_bytes());
    assert!(filter(&bytes).is_err());
}

/// A client can have offsets stored inside a batch that run backwards. They would not survive being written anew.
#[test]
fn offsets_that_do_not_grow_are_no_panic() {
    let mut builder = RecordBatchBuilder::new(Offset(10));
    for (offset, key) in [(10, b"a"), (11, b"b"), (12, b"c")] {
        builder.append_at(Offset(offset), 5, Some(key), Some(b"v"), std::iter::empty());
    }
    let mut bytes = builder.build().to_vec();
    let body = bytes.split_off(61);
    // Each record is size, attributes, timestamp, offset, …: give the last one the first one's offset.
    let record = body.len() / 3;
    let mut backwards = body.clone();
    backwards[2 * record + 3] = 0;
    bytes.extend_from_slice(&backwards);
    let mut map = OffsetMap::new(1000, 0.9);
    map.clear_for(10);
    map.put(map.hash(b"a"), Offset(20));
    let round = Round { map: &map, upper_bound: Offset(99), delete_retention_ms: 0, now_ms: 0 };
    let mut transactions = CleanedTransactionMetadata::default();
    let batch = RecordBatch::parse(&bytes).unwrap();
    let filtered = BatchFilter::new().filter(&round, &mut transactions, &HashMap::new(), &batch, &mut Vec::new());
    assert!(filtered.unwrap_err().contains("holds offset 10"));
}
