//! Readers of sealed segments that were damaged after the log was closed in order: nobody looks at these before they do.
//!
//! Consumers of a segment that was cut in half, or that had a wrong name, got CORRUPT_MESSAGE for ever, where Kafka reads on
//! behind it.

use super::transactions::{marker, produced};
use super::*;
use crate::record::batch::RecordBatch;
use crate::telemetry::LogCapture;

const RECORDS: i64 = 5;
const BATCHES: i64 = 40;
const END: i64 = RECORDS * BATCHES;

/// A log that was closed, and what its files held.
struct Closed {
    fixture: Fixture,
    dir: PathBuf,
    bases: Vec<i64>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Closed {
    fn new() -> Closed {
        Closed::with_index_interval(300)
    }

    fn with_index_interval(index_interval_bytes: i32) -> Closed {
        let config = TopicConfig { segment_bytes: 2500, index_interval_bytes, ..Default::default() };
        let fixture = Fixture::with(config);
        let log = fixture.open();
        for n in 0..BATCHES {
            append(&log, batch(RECORDS as usize, 30, n * 10));
        }
        log.close().unwrap();
        let dir = log.dir();
        let bases: Vec<i64> = log.segments().iter().map(|segment| segment.base_offset.0).collect();
        assert!(bases.len() > 3, "{bases:?}");
        let paths = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
        let files = paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
        Closed { fixture, dir, bases, files }
    }

    fn path(&self, base: i64, extension: &str) -> PathBuf {
        self.dir.join(format!("{base:020}.{extension}"))
    }

    /// Puts the files back as they were, lets `damage` change the second segment's bytes, and opens the log.
    fn open_with(&self, damage: impl FnOnce(&mut Vec<u8>)) -> (Arc<Log>, LogContext) {
        self.restore();
        let path = self.path(self.bases[1], "log");
        let mut bytes = std::fs::read(&path).unwrap();
        damage(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        self.open()
    }

    fn restore(&self) {
        std::fs::remove_dir_all(&self.dir).unwrap();
        std::fs::create_dir(&self.dir).unwrap();
        self.files.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    }

    fn open(&self) -> (Arc<Log>, LogContext) {
        let context = self.fixture.context();
        let params = LogParams { recovery_point: Offset(END), ..self.fixture.params() };
        let (log, report) = Log::open(&context, params).unwrap();
        assert_eq!((report.repairs, log.log_end_offset()), (vec![], Offset(END)));
        (log, context)
    }

    /// Where the batches of the second segment begin, and where it ends.
    fn starts(&self) -> Vec<usize> {
        let (_, bytes) = self.files.iter().find(|(path, _)| *path == self.path(self.bases[1], "log")).unwrap();
        let sizes = batches(bytes).map(|batch| batch.unwrap().size_in_bytes());
        [0].into_iter()
            .chain(sizes.scan(0, |at, size| {
                *at += size;
                Some(*at)
            }))
            .collect()
    }

    /// The batches' base offsets but for some of the second segment, by number there.
    fn all_but(&self, lost: &[i64]) -> Vec<i64> {
        let lost: Vec<i64> = lost.iter().map(|n| self.bases[1] + n * RECORDS).collect();
        (0..BATCHES).map(|n| n * RECORDS).filter(|base| !lost.contains(base)).collect()
    }
}

/// What a client makes of a slice: the whole batches before the first that it does not take for one. Whether such a one
/// follows.
fn as_client(slice: &LogSlice) -> (Vec<(i64, i64)>, bool) {
    let bytes = bytes_of(slice);
    let mut found = Vec::new();
    for batch in batches(&bytes) {
        match batch {
            Ok(batch) if batch.is_crc_valid() => found.push((batch.base_offset().0, batch.last_offset().0)),
            Ok(_) | Err(_) => return (found, true),
        }
    }
    (found, false)
}

/// Reads everything from the start on as a consumer: the base offsets of the batches, and how often something was sent
/// that is none.
fn consume(log: &Log, max_bytes: usize) -> (Vec<i64>, usize) {
    let (mut found, mut refused, mut next) = (Vec::new(), 0, 0);
    while next < END {
        let read = log.read(Offset(next), max_bytes, Offset(END), true, Wait::ForDisk).unwrap();
        let (batches, has_more) = as_client(&read.slice);
        refused += usize::from(has_more);
        let before = next;
        for (base, last) in batches.into_iter().filter(|(_, last)| *last < END) {
            if last >= next {
                found.push(base);
                next = last + 1;
            }
        }
        assert!(next > before, "stuck at {next}");
    }
    (found, refused)
}

/// How often somebody was told of damage in a segment, and of a wrong index.
fn told_of_both(capture: &LogCapture) -> (usize, usize) {
    let warnings = capture.take().into_iter().filter(|event| event.level <= tracing::Level::WARN);
    let texts: Vec<String> = warnings.map(|event| event.text).collect();
    assert!(texts.iter().all(|text| text.contains(".log")), "{texts:?}");
    let damage = texts.iter().filter(|text| text.contains("segment is damaged")).count();
    (damage, texts.len() - damage)
}

fn told(capture: &LogCapture) -> usize {
    told_of_both(capture).0
}

/// Each offset and each time by itself: what is left of the log, as if nothing else had ever been there.
fn check_lookups(log: &Log, left: &[i64]) {
    for offset in 0..END {
        let found = read(log, offset, 1, END);
        let expected = left.iter().find(|base| **base + RECORDS > offset).map(|base| (*base, *base + RECORDS - 1));
        assert_eq!(found.first().copied(), expected, "{offset}");
    }
    for n in 0..BATCHES {
        let found = log.offset_for_timestamp(n * 10).unwrap().map(|found| found.offset.0);
        assert_eq!(found, left.iter().find(|base| **base >= n * RECORDS).copied(), "{n}");
    }
    assert_eq!(log.max_timestamp_offset().unwrap().map(|max| max.offset.0), Some(END - 1));
}

#[test]
fn a_segment_that_was_cut_short_is_read_past() {
    let closed = Closed::new();
    let starts = closed.starts();
    let size = *starts.last().unwrap();
    let near_starts = starts.iter().flat_map(|start| [*start, start + 1, start + 30, start + 61, start + 62]);
    for len in near_starts.chain((0..size).step_by(97)).filter(|len| *len < size) {
        let whole = starts.iter().filter(|start| **start <= len).count() as i64 - 1;
        let lost: Vec<i64> = (whole..starts.len() as i64 - 1).collect();
        for max_bytes in [1, 700, 1 << 20] {
            let capture = LogCapture::start();
            let (log, _) = closed.open_with(|bytes| bytes.truncate(len));
            assert_eq!(consume(&log, max_bytes), (closed.all_but(&lost), 0), "{len} {max_bytes}");
            // Between two batches only an index can tell.
            let expected = if starts.contains(&len) { (0, 1) } else { (1, 0) };
            assert_eq!(told_of_both(&capture), expected, "{len} {max_bytes}");
            check_lookups(&log, &closed.all_but(&lost));
            assert_eq!(told_of_both(&capture), (0, 0));
        }
    }
}

/// Nobody was told where the segment was too small for an index of offsets.
#[test]
fn a_segment_that_is_shorter_than_its_indexes_say_is_told_of() {
    for index_interval_bytes in [300, 10_000] {
        let closed = Closed::with_index_interval(index_interval_bytes);
        let starts = closed.starts();
        let size = *starts.last().unwrap();
        let has_entries = !std::fs::read(closed.path(closed.bases[1], "index")).unwrap().is_empty();
        assert_eq!(has_entries, index_interval_bytes == 300);
        for len in starts.iter().flat_map(|start| [*start, start + 70]).filter(|len| *len <= size) {
            let capture = LogCapture::start();
            let (log, _) = closed.open_with(|bytes| bytes.truncate(len));
            // By the start, if it is empty.
            let (damage, index) = told_of_both(&capture);
            assert_eq!(damage + index, usize::from(len == 0), "{len} of {size}");
            // Whoever reads it hears of nothing twice.
            consume(&log, 1);
            log.max_timestamp_offset().unwrap();
            let (damage_read, index_read) = told_of_both(&capture);
            let expected = if starts.contains(&len) { (0, usize::from(len < size)) } else { (1, 0) };
            assert_eq!((damage + damage_read, index + index_read), expected, "{len} of {size}");
        }
        // An index is built anew by then.
        let (log, context) = closed.open_with(Vec::clear);
        consume(&log, 1);
        context.background.run_pending(Duration::ZERO);
        log.close().unwrap();
        let capture = LogCapture::start();
        let (log, _) = closed.open();
        consume(&log, 1);
        assert_eq!(told_of_both(&capture), (0, 0));
    }
}

/// A start stays quick, also on a cold disk.
#[test]
fn a_start_reads_nothing_of_sound_segments() {
    let closed = Closed::new();
    let reads = Arc::new(Mutex::new(Vec::new()));
    let noted = reads.clone();
    closed.fixture.faults.before(move |call, path| {
        if call == Call::Read {
            noted.lock().push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
        Ok(())
    });
    let (log, _) = closed.open();
    closed.fixture.faults.before(|_, _| Ok(()));
    let (last, sealed) = closed.bases.split_last().unwrap();
    let reads = std::mem::take(&mut *reads.lock());
    assert!(reads.contains(&format!("{last:020}.log")), "{reads:?}");
    for base in sealed {
        let of_segment: Vec<&String> = reads.iter().filter(|name| name.starts_with(&format!("{base:020}."))).collect();
        assert_eq!(of_segment, [] as [&String; 0]);
    }
    drop(log);
}

#[test]
fn what_is_damaged_within_a_segment_is_passed_over() {
    let closed = Closed::new();
    let starts = closed.starts();
    let at = |n: usize, field: usize| starts[n] + field;
    type Damage<'a> = Box<dyn Fn(&mut Vec<u8>) + 'a>;
    let put = |at: usize, new: Vec<u8>| -> Damage<'_> {
        Box::new(move |bytes: &mut Vec<u8>| bytes[at..at + new.len()].copy_from_slice(&new))
    };
    let garbage: Vec<u8> = (0..200u32).map(|n| (n * 73 + 41) as u8).collect();
    let twice: Damage<'_> = Box::new(|bytes| {
        let batch = bytes[starts[2]..starts[3]].to_vec();
        bytes.splice(starts[3]..starts[3], batch).for_each(drop);
    });
    let exchanged: Damage<'_> = Box::new(|bytes| bytes[starts[2]..starts[4]].rotate_left(starts[3] - starts[2]));
    let cases: Vec<(&str, Damage<'_>, Vec<i64>)> = vec![
        ("length too big", put(at(2, 8), i32::MAX.to_be_bytes().to_vec()), vec![2]),
        ("length too small", put(at(2, 8), 5i32.to_be_bytes().to_vec()), vec![2]),
        ("negative length", put(at(2, 8), vec![0xff; 4]), vec![2]),
        ("magic", put(at(2, 16), vec![7]), vec![2]),
        ("zeros", put(at(2, 0), vec![0; starts[3] - starts[2] + 50]), vec![2, 3]),
        ("offset 0", put(at(2, 0), vec![0; 8]), vec![2]),
        ("negative offset", put(at(2, 0), vec![0xff; 8]), vec![2]),
        ("offset behind the log's end", put(at(2, 0), END.to_be_bytes().to_vec()), vec![2]),
        ("the first one is damaged", put(8, vec![0; 4]), vec![0]),
        ("the last one is damaged", put(at(starts.len() - 2, 16), vec![9]), vec![starts.len() as i64 - 2]),
        ("a batch twice", twice, vec![]),
        ("two batches exchanged", exchanged, vec![2]),
        ("zeros behind", Box::new(|bytes| bytes.extend([0; 300])), vec![]),
        ("garbage behind", Box::new(move |bytes| bytes.extend(&garbage)), vec![]),
    ];
    for (what, damage, lost) in &cases {
        for max_bytes in [1, 700, 1 << 20] {
            let capture = LogCapture::start();
            let (log, _) = closed.open_with(damage);
            let (found, refused) = consume(&log, max_bytes);
            assert_eq!(found, closed.all_but(lost), "{what} {max_bytes}");
            if max_bytes == 1 || what.ends_with("behind") {
                assert_eq!(refused, 0, "{what} {max_bytes}");
            }
            check_lookups(&log, &closed.all_but(lost));
            let first = told(&capture);
            assert!(first == 1 || max_bytes == 1 && what.ends_with("behind"), "{what} {max_bytes}");
            // Now that it is known, nobody is sent any of it, and nobody is told again.
            for max_bytes in [1, 700, 1 << 20] {
                assert_eq!(consume(&log, max_bytes), (closed.all_but(lost), 0), "{what}");
            }
            // An index that is built anew has what is left.
            let segment = log.segments.load()[1].clone();
            segment.rebuild_indexes(&TopicConfig { index_interval_bytes: 100, ..Default::default() }).unwrap();
            check_lookups(&log, &closed.all_but(lost));
            assert_eq!(first + told(&capture), 1, "{what}");
        }
    }
}

/// By its offset it was a segment with a wrong name, but that the next batch does not follow.
#[test]
fn a_first_batch_of_a_lower_offset_is_passed_over() {
    let closed = Closed::new();
    for max_bytes in [1, 700, 1 << 20] {
        let capture = LogCapture::start();
        let (log, _) = closed.open_with(|bytes| bytes[..8].fill(0));
        assert_eq!(consume(&log, max_bytes), (closed.all_but(&[0]), 0));
        assert_eq!(told(&capture), 1);
    }
}

/// A batch whose checksum is wrong is sent as it is: the client finds out, as with Kafka. So is one with a wrong length, if
/// there are so many bytes; whoever goes on behind it is sent the next one that is whole.
#[test]
fn a_wrong_checksum_is_for_clients_to_find() {
    let closed = Closed::new();
    let at = closed.starts()[2];
    let base = closed.bases[1] + 2 * RECORDS;
    for (field, next, warnings) in [(80, base + RECORDS, 0), (11, base + 2 * RECORDS, 1)] {
        let (log, _) = closed.open_with(|bytes| bytes[at + field] ^= 1);
        let capture = LogCapture::start();
        let read_at = |offset| log.read(Offset(offset), 1, Offset(END), true, Wait::ForDisk).unwrap();
        let bytes = bytes_of(&read_at(base).slice);
        let batch = RecordBatch::parse(&bytes).unwrap();
        assert_eq!((batch.base_offset(), batch.is_crc_valid()), (Offset(base), false));
        assert_eq!(as_client(&read_at(base + RECORDS).slice).0[0].0, next, "{field}");
        assert_eq!(told(&capture), warnings);
    }
}

/// Segments with another's name, or content: nothing is served twice or from below what was asked for, and readers get on.
#[test]
fn segments_with_wrong_names_are_read() {
    let closed = Closed::new();
    let [_, second, third, fourth, ..] = closed.bases[..] else { panic!("{:?}", closed.bases) };
    let rename = |to: i64| {
        closed.restore();
        for extension in ["log", "index", "timeindex", "snapshot"] {
            std::fs::rename(closed.path(second, extension), closed.path(to, extension)).unwrap();
        }
    };
    let all = closed.all_but(&[]);
    for to in [second + 1, second + 3, third - 1, second - 1, second - RECORDS] {
        for max_bytes in [1 << 20, 1, 700] {
            rename(to);
            let capture = LogCapture::start();
            let (log, context) = closed.open();
            let (found, _) = consume(&log, max_bytes);
            if to > second || max_bytes > 1000 {
                assert_eq!(found, all, "{to} {max_bytes}");
            }
            for n in 0..BATCHES {
                let found = log.offset_for_timestamp(n * 10).unwrap().unwrap();
                assert_eq!((found.timestamp, found.offset.0), (n * 10, n * RECORDS), "{to}");
            }
            log.max_timestamp_offset().unwrap();
            // Its neighbours have right names and indexes.
            let texts: Vec<String> = capture.take().into_iter().map(|event| event.text).collect();
            assert!(texts.iter().all(|text| text.contains(&format!("{to:020}.log"))), "{texts:?}");
            // With indexes that are built anew, and after another start.
            context.background.run_pending(Duration::ZERO);
            let again = consume(&log, max_bytes);
            assert_eq!(again.0, found, "{to} {max_bytes}");
            assert_eq!(log.offset_for_timestamp(0).unwrap().unwrap().offset, Offset(0));
            log.close().unwrap();
            assert_eq!(consume(&closed.open().0, max_bytes).0, found, "{to} {max_bytes}");
        }
    }
    // Where a name takes the segment behind the next one, its records are out of reach; those of the others are not.
    let out_of_place = |what: &str| {
        for max_bytes in [1 << 20, 1, 700] {
            let (log, _) = closed.open();
            let (found, _) = consume(&log, max_bytes);
            let unaffected = |base: &&i64| **base < second || **base >= fourth;
            let expected: Vec<i64> = all.iter().filter(unaffected).copied().collect();
            let others: Vec<i64> = found.iter().filter(unaffected).copied().collect();
            assert_eq!(others, expected, "{what} {max_bytes}");
            for n in 0..BATCHES {
                assert!(log.offset_for_timestamp(n * 10).unwrap().is_some(), "{what}");
            }
        }
    };
    rename(third + 3);
    out_of_place("behind the next");
    closed.restore();
    let contents = [second, third].map(|base| std::fs::read(closed.path(base, "log")).unwrap());
    std::fs::write(closed.path(second, "log"), &contents[1]).unwrap();
    std::fs::write(closed.path(third, "log"), &contents[0]).unwrap();
    out_of_place("exchanged");
    // The same records twice.
    closed.restore();
    for extension in ["log", "index", "timeindex"] {
        std::fs::copy(closed.path(second, extension), closed.path(second + 12, extension)).unwrap();
    }
    for max_bytes in [1 << 20, 1, 700] {
        assert_eq!(consume(&closed.open().0, max_bytes).0, all, "{max_bytes}");
    }
}

/// A file that lacks an index is read as a whole at the start, which took everything below its name out.
#[test]
fn a_wrong_name_costs_no_records_when_an_index_is_missing() {
    let closed = Closed::new();
    let (second, to) = (closed.bases[1], closed.bases[1] + 13);
    std::fs::rename(closed.path(second, "log"), closed.path(to, "log")).unwrap();
    let context = closed.fixture.context();
    let params = LogParams { recovery_point: Offset(END), ..closed.fixture.params() };
    let (log, report) = Log::open(&context, params).unwrap();
    assert_eq!(report.bytes_removed, 0, "{report:?}");
    assert_eq!(consume(&log, 1).0, closed.all_but(&[]));
}

/// There are clients that drop all of an answer with something in it that is no batch, and ask again.
#[test]
fn a_client_that_refuses_is_not_sent_the_same_for_ever() {
    let config = TopicConfig { segment_bytes: 60_000, index_interval_bytes: 1000, ..Default::default() };
    let fixture = Fixture::with(config);
    let log = fixture.open();
    while log.segments().len() < 2 {
        append(&log, batch(5, 100, 0));
    }
    log.close().unwrap();
    let end = log.log_end_offset();
    let path = log.dir().join("00000000000000000000.log");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = batches(&bytes).take(5).map(|batch| batch.unwrap().size_in_bytes()).sum::<usize>();
    bytes[at + 16] = 9;
    std::fs::write(&path, bytes).unwrap();

    let params = LogParams { recovery_point: end, ..fixture.params() };
    let (log, _) = Log::open(&fixture.context(), params).unwrap();
    let mut next = 0;
    for _ in 0..10 {
        let read = log.read(Offset(next), 6000, end, true, Wait::ForDisk).unwrap();
        if let (batches, false) = as_client(&read.slice) {
            next = batches.last().unwrap().1 + 1;
        }
    }
    assert!(next > 30, "{next}");
}

/// Whoever must not wait for the disk does not look for what is behind damage; once that is known, it need not.
#[test]
fn damage_is_looked_into_by_who_may_wait() {
    let closed = Closed::new();
    let at = closed.starts()[2];
    let (log, _) = closed.open_with(|bytes| bytes[at + 16] = 9);
    let damaged = Offset(closed.bases[1] + 2 * RECORDS);
    let read = |wait| log.read(damaged, 1, Offset(END), true, wait);
    assert!(matches!(read(Wait::Never), Err(ReadError::WouldBlock)));
    for wait in [Wait::ForDisk, Wait::Never] {
        assert_eq!(as_client(&read(wait).unwrap().slice).0[0].0, damaged.0 + RECORDS);
    }
}

#[test]
fn a_file_of_nothing_but_damage_is_given_up() {
    let config = TopicConfig { segment_bytes: 500_000, index_interval_bytes: i32::MAX, ..Default::default() };
    let fixture = Fixture::with(config);
    let log = fixture.open();
    for _ in 0..2100 {
        append(&log, batch(1, 10, 0));
    }
    let end = log.roll().unwrap();
    append(&log, batch(1, 10, 0));
    log.close().unwrap();
    let path = log.dir().join("00000000000000000000.log");
    let mut bytes = std::fs::read(&path).unwrap();
    let size = bytes.len() / 2100;
    bytes.chunks_mut(size).step_by(2).for_each(|batch| batch[16] = 9);
    std::fs::write(&path, bytes).unwrap();

    let params = LogParams { recovery_point: Offset(2101), ..fixture.params() };
    let (log, _) = Log::open(&fixture.context(), params).unwrap();
    let capture = LogCapture::start();
    let mut next = 0;
    let mut found = Vec::new();
    while next < 2101 {
        let (base, last) = read(&log, next, 1, 2101)[0];
        found.push(base);
        next = last + 1;
    }
    assert_eq!(told(&capture), 1);
    let expected: Vec<i64> = (0..1000).map(|n| n * 2 + 1).chain([end.0]).collect();
    assert_eq!(found, expected);
}

#[test]
fn truncation_takes_the_damage_before_it() {
    let closed = Closed::new();
    let starts = closed.starts();
    for (len, to, is_left) in [(starts[3] + 40, 3, true), (starts[3] + 40, 6, true), (starts[3] + 40, 1, false)] {
        let (log, _) = closed.open_with(|bytes| bytes.truncate(len));
        consume(&log, 1);
        let to = closed.bases[1] + to * RECORDS + 2;
        log.truncate_to(Offset(to)).unwrap();
        assert_eq!(log.segments()[1].size as usize, if is_left { starts[3] } else { starts[1] });
        let end = log.log_end_offset();
        append(&log, batch(3, 100, 0));
        let found = read(&log, end.0, 1, END);
        assert_eq!(found, [(end.0, end.0 + 2)]);
        let (log, report) = closed.fixture.reopen(log, true);
        assert_eq!((report.repairs, log.log_end_offset()), (vec![], end.plus(3)));
        let (log, report) = closed.fixture.reopen(log, false);
        assert_eq!((report.bytes_removed, log.log_end_offset()), (0, end.plus(3)));
    }
}

#[test]
fn retention_and_deleted_records_do_not_mind_damage() {
    let closed = Closed::new();
    let at = closed.starts()[3] + 20;
    let (log, _) = closed.open_with(|bytes| bytes.truncate(at));
    // Into what is not there any more.
    let start = closed.bases[1] + 4 * RECORDS;
    assert!(log.advance_log_start_offset(Offset(start)).unwrap());
    assert_eq!(read(&log, start, 1, END)[0].0, closed.bases[2]);
    assert_eq!(log.offset_for_timestamp(0).unwrap().unwrap().offset, Offset(closed.bases[2]));
    assert_eq!(log.delete_old_segments(NOW_MS, Offset(END)).unwrap(), 1);
    assert_eq!(log.segments()[0].base_offset.0, closed.bases[1]);
    // By time, and where no index tells it.
    for has_index in [true, false] {
        let (log, context) = closed.open_with(|bytes| bytes.truncate(at));
        if !has_index {
            std::fs::write(closed.path(closed.bases[1], "timeindex"), []).unwrap();
        }
        let config = TopicConfig { retention_ms: 1, ..(*log.config()).clone() };
        log.update_config(Arc::new(config));
        let count = log.segments().len();
        assert_eq!(log.delete_old_segments(NOW_MS, Offset(END)).unwrap(), count);
        assert_eq!(log.log_start_offset(), Offset(END));
        context.background.run_pending(Duration::from_secs(100));
        assert!(!closed.path(closed.bases[1], "log").exists());
    }
}

/// Who reads committed records is told of the aborted ones, though the batches or the marker of their transaction are gone.
#[test]
fn aborted_transactions_are_told_across_damage() {
    let config = TopicConfig { segment_bytes: 1500, index_interval_bytes: 200, ..Default::default() };
    let fixture = Fixture::with(config);
    let log = fixture.open();
    let coordinator = |records| {
        log.append_as_leader(records, LeaderEpoch(3), AppendOrigin::Coordinator, Default::default())
            .unwrap()
            .last_offset
    };
    append(&log, batch(3, 100, 0));
    let aborted = append(&log, produced(1, 0, 0, 3, true)).first_offset;
    while log.segments().len() < 2 {
        append(&log, batch(3, 100, 0));
    }
    append(&log, produced(1, 0, 3, 3, true));
    let second = log.segments()[1].base_offset;
    coordinator(marker(1, 0, false));
    append(&log, produced(2, 0, 0, 3, true));
    coordinator(marker(2, 0, true));
    while log.segments().len() < 4 {
        append(&log, batch(3, 100, 0));
    }
    log.close().unwrap();
    let end = log.log_end_offset();
    let path = log.dir().join(format!("{second:020}.log"));
    let whole = std::fs::read(&path).unwrap();
    for len in (0..whole.len()).step_by(61) {
        std::fs::write(&path, &whole[..len]).unwrap();
        let params = LogParams { recovery_point: end, ..fixture.params() };
        let (log, _) = Log::open(&fixture.context(), params).unwrap();
        log.on_high_watermark(end);
        assert_eq!(log.first_unstable_offset(), None);
        let mut next = 0;
        while next < end.0 {
            let read = log.read(Offset(next), 300, end, true, Wait::ForDisk).unwrap();
            let found = as_client(&read.slice).0;
            let told = log.aborted_transactions_in(&read, Offset(next), Wait::ForDisk).unwrap();
            let has_aborted = found.iter().any(|(base, _)| *base == aborted.0);
            assert!(!has_aborted || told.iter().any(|txn| txn.first_offset == aborted), "{len} {next}");
            next = found.last().unwrap().1 + 1;
        }
        log.close().unwrap();
    }
}

/// A truncation into a segment with a damaged index took the log directory offline, as if the disk had failed.
#[test]
fn a_log_is_truncated_into_a_segment_whose_indexes_are_damaged() {
    // Within it, and to its end, where nothing of it is cut off.
    truncate_where_indexes_are_damaged(5);
    truncate_where_indexes_are_damaged(0);
}

fn truncate_where_indexes_are_damaged(before_end: i64) {
    let mut expected = None;
    for extension in ["snapshot", "index", "timeindex", "txnindex", "log"] {
        let config = TopicConfig { segment_bytes: 4000, index_interval_bytes: 300, ..Default::default() };
        let fixture = Fixture::with(config);
        let log = fixture.open();
        let origin = AppendOrigin::Coordinator;
        for n in 0..60 {
            append(&log, produced(1, 0, n * 2, 2, true));
            append(&log, batch(2, 30, NOW_MS + i64::from(n)));
            log.append_as_leader(marker(1, 0, n % 3 == 0), LeaderEpoch(3), origin, Default::default()).unwrap();
        }
        let segments = log.segments();
        let (sealed, next) = (segments[1].base_offset, segments[2].base_offset);
        let to = Offset(next.0 - before_end);
        log.close().unwrap();

        let path = log.dir().join(format!("{:020}.{extension}", sealed.0));
        let mut bytes = std::fs::read(&path).unwrap();
        match extension {
            "log" => bytes[30..200].fill(0),
            // With nothing damaged it is as it should be.
            "snapshot" => {}
            // Of no known version, and no whole number of entries.
            _ => {
                bytes.fill(0xff);
                bytes.push(1);
            }
        }
        std::fs::write(&path, bytes).unwrap();
        let (log, _) = fixture.reopen(log, true);
        assert!(log.truncate_to(to).unwrap(), "{extension}");
        assert!(!log.is_offline());
        let end = log.log_end_offset();
        assert!(end <= to && end > Offset(to.0 - 5), "{extension}: {end}");
        let aborted = log.aborted_transactions(Offset(0), end, Wait::ForDisk).unwrap();
        let expected = expected.get_or_insert_with(|| (end, aborted.clone()));
        assert!(expected.1.iter().any(|txn| txn.first_offset > sealed));
        if extension != "log" {
            assert_eq!((end, aborted), *expected, "{extension}");
        }
        for n in 0..5 {
            append(&log, batch(2, 30, NOW_MS + 1000 + n));
        }
        let from = log.read(end, 1, log.log_end_offset(), true, Wait::ForDisk).unwrap();
        assert_eq!(batches(&bytes_of(&from.slice)).next().unwrap().unwrap().base_offset(), end);
        let (log, _) = fixture.reopen(log, true);
        assert_eq!(log.log_end_offset(), end.plus(10));
    }
}

/// A start after a crash keeps what follows a marker that cannot be read; whoever runs the broker is told whose transactions that may
/// concern.
#[test]
fn transactions_that_are_open_where_records_are_taken_out_are_told() {
    for (producer, is_told) in [(1, true), (2, false)] {
        let fixture = Fixture::new();
        let log = fixture.open();
        let coordinator = |records| {
            log.append_as_leader(records, LeaderEpoch(3), AppendOrigin::Coordinator, Default::default()).unwrap();
        };
        append(&log, produced(producer, 0, 0, 3, producer == 1));
        let at = log.size();
        coordinator(marker(1, 0, false));
        append(&log, produced(1, 0, if producer == 1 { 3 } else { 0 }, 3, true));
        coordinator(marker(1, 0, true));
        drop(log);
        let path = fixture.dir.path().join("t-0/00000000000000000000.log");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[at as usize + 70] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let params = LogParams { clean_shutdown: false, ..fixture.params() };
        let (log, report) = Log::open(&fixture.context(), params).unwrap();
        assert_eq!(log.log_end_offset(), Offset(8));
        let told = report.repairs.iter().any(|repair| repair.found.contains("transactions of producers 1 were open"));
        assert_eq!(told, is_told, "{report:?}");
    }
}
