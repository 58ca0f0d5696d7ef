//! Random operations on a log, compared with what a list of batches would say.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Operation {
    Append {
        count: usize,
        size: usize,
        time_step: i64,
    },
    /// What a follower gets from a compacted leader: offsets leave gaps.
    AppendWithGap {
        gap: i64,
    },
    Roll,
    /// By how many of the last batches.
    Truncate {
        batches: usize,
    },
    StartAnew {
        ahead: i64,
    },
    /// By how many of the first batches, and to within a batch or not.
    AdvanceStart {
        batches: usize,
        inside: bool,
    },
    DeleteOld,
    Flush,
    Reopen {
        in_order: bool,
    },
    RunBackground,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        10 => (1..6usize, 0..400usize, -3..10i64)
            .prop_map(|(count, size, time_step)| Operation::Append { count, size, time_step }),
        3 => (0..20i64).prop_map(|gap| Operation::AppendWithGap { gap }),
        1 => Just(Operation::Roll),
        2 => (1..6usize).prop_map(|batches| Operation::Truncate { batches }),
        1 => (0..50i64).prop_map(|ahead| Operation::StartAnew { ahead }),
        1 => (1..4usize, any::<bool>()).prop_map(|(batches, inside)| Operation::AdvanceStart { batches, inside }),
        1 => Just(Operation::DeleteOld),
        1 => Just(Operation::Flush),
        2 => any::<bool>().prop_map(|in_order| Operation::Reopen { in_order }),
        1 => Just(Operation::RunBackground),
    ]
}

/// A batch: its first and last offset, the timestamps of its records, and its bytes.
struct Batch {
    base: i64,
    last: i64,
    timestamp: i64,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Model {
    batches: Vec<Batch>,
    start: i64,
    end: i64,
    timestamp: i64,
}

impl Model {
    fn push(&mut self, base: i64, records: &ValidatedRecords, epoch: LeaderEpoch) {
        for batch in &records.batches {
            let mut header = batch.header;
            header.set_base_offset(Offset(base));
            header.set_partition_leader_epoch(epoch);
            self.end = header.last_offset().0 + 1;
            self.batches.push(Batch {
                base,
                last: self.end - 1,
                timestamp: header.base_timestamp(),
                bytes: [header.as_bytes(), &batch.body[..]].concat(),
            });
        }
    }

    /// Batches that hold records at or behind `offset`.
    fn from(&self, offset: i64) -> &[Batch] {
        &self.batches[self.batches.partition_point(|batch| batch.last < offset)..]
    }

    fn find_time(&self, timestamp: i64) -> Option<(i64, i64)> {
        let records = self.from(self.start).iter().flat_map(|batch| {
            (batch.base..=batch.last).map(move |offset| (batch.timestamp + offset - batch.base, offset))
        });
        records.filter(|(_, offset)| *offset >= self.start).find(|record| record.0 >= timestamp)
    }
}

fn check(log: &Log, model: &Model, probe: usize) {
    assert_eq!((log.log_start_offset().0, log.log_end_offset().0), (model.start, model.end));
    assert!(log.recovery_point() <= log.log_end_offset());
    let segments = log.segments();
    assert!(segments.windows(2).all(|pair| pair[0].base_offset < pair[1].base_offset), "{segments:?}");
    // From the start, and from somewhere, in reads of several sizes.
    let from = model.start + (probe as i64 * 7919) % (model.end - model.start + 1);
    for (from, max_bytes) in [(model.start, 100_000), (from, 700), (from, 1)] {
        let mut expected = model.from(from).iter();
        let mut next = from;
        while next < model.end {
            let read = log.read(Offset(next), max_bytes, Offset(model.end), true, Wait::ForDisk).unwrap();
            let bytes = bytes_of(&read.slice);
            let before = next;
            for batch in batches(&bytes) {
                let batch = batch.unwrap();
                let wanted = expected.next().expect("no more batches than there are");
                assert_eq!(batch.bytes(), &wanted.bytes[..]);
                next = wanted.last + 1;
            }
            if next == before {
                // Nothing but a gap up to the end.
                assert!(read.slice.is_empty());
                break;
            }
        }
        assert!(expected.next().is_none(), "batches are missing from {next} on");
    }
    for timestamp in [0, model.timestamp / 2, model.timestamp, model.timestamp + 10] {
        let found = log.offset_for_timestamp(timestamp).unwrap().map(|found| (found.timestamp, found.offset.0));
        assert_eq!(found, model.find_time(timestamp), "record at {timestamp}");
    }
}

fn run(operations: Vec<Operation>) {
    let fixture = Fixture::with(TopicConfig {
        segment_bytes: 3000,
        index_interval_bytes: 300,
        retention_ms: -1,
        retention_bytes: 12_000,
        file_delete_delay_ms: 1000,
        ..Default::default()
    });
    let mut context = fixture.context();
    let mut log = Log::open(&context, fixture.params()).unwrap().0;
    let mut model = Model::default();
    for (n, operation) in operations.into_iter().enumerate() {
        match operation {
            Operation::Append { count, size, time_step } => {
                model.timestamp = (model.timestamp + time_step).max(0);
                let records = batch(count, size, model.timestamp);
                model.push(model.end, &records, LeaderEpoch(3));
                append(&log, records);
            }
            Operation::AppendWithGap { gap } => {
                let records = fetched(&[(model.end + gap, 3)]);
                model.push(model.end + gap, &records, LeaderEpoch(3));
                log.append_as_follower(records).unwrap();
            }
            Operation::Roll => drop(log.roll().unwrap()),
            Operation::Truncate { batches } => {
                let kept = model.batches.len().saturating_sub(batches);
                // Not to within a gap in front of the batches that go: a restart would not know that end.
                let to = match kept.checked_sub(1) {
                    Some(last) => model.batches[last].last + 1,
                    None => log.segments()[0].base_offset.0,
                };
                model.batches.truncate(kept);
                if to < model.end {
                    model.end = to;
                    model.start = model.start.min(to);
                }
                log.truncate_to(Offset(to)).unwrap();
            }
            Operation::StartAnew { ahead } => {
                model.end += ahead;
                model.start = model.end;
                model.batches.clear();
                log.truncate_fully_and_start_at(Offset(model.end)).unwrap();
            }
            Operation::AdvanceStart { batches, inside } => {
                let Some(batch) = model.from(model.start).get(batches) else { continue };
                let to = if inside { batch.last } else { batch.base };
                model.start = model.start.max(to);
                log.advance_log_start_offset(Offset(to)).unwrap();
            }
            Operation::DeleteOld => {
                log.delete_old_segments(NOW_MS, log.log_end_offset()).unwrap();
                // What goes is the business of other tests; that it is a head is checked here.
                let start = log.log_start_offset().0;
                assert!(start >= model.start);
                let first = log.segments()[0].base_offset.0;
                model.batches.retain(|batch| batch.base >= first);
                model.start = start;
            }
            Operation::Flush => {
                log.flush(log.log_end_offset()).unwrap();
                assert_eq!(log.recovery_point(), log.log_end_offset());
            }
            Operation::Reopen { in_order } => {
                if in_order {
                    log.close().unwrap();
                }
                let params = LogParams {
                    log_start_offset: log.log_start_offset(),
                    recovery_point: log.recovery_point(),
                    clean_shutdown: in_order,
                    ..fixture.params()
                };
                context = fixture.context();
                let (opened, report) = Log::open(&context, params).unwrap();
                assert_eq!(report.repairs, []);
                assert_eq!(report.bytes_removed, 0);
                log = opened;
                // A gap at the end is not on disk.
                model.end = log.log_end_offset().0;
                let last = model.batches.last().map_or(model.start, |batch| batch.last + 1);
                assert!(model.end >= last);
            }
            Operation::RunBackground => context.background.run_pending(Duration::from_secs(1)),
        }
        check(&log, &model, n);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_is_a_list_of_batches(operations in prop::collection::vec(operation(), 1..60)) {
        run(operations);
    }
}
