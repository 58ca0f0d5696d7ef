//! Two things done to one log at the same time: at each call of the disk that the first one makes, the second one is begun
//! on another thread, and given the time to end unless it has to wait for the first.
//!
//! Whatever the two are, nothing of it is a fault: no log fails, none is set aside, nobody is warned, and of what was deleted
//! nothing is left.
//!
//! `SIDE_BY_SIDE` says at how many of the calls, instead of a few.

use std::sync::mpsc;
use std::thread::ThreadId;

use tracing::Level;

use super::*;
use crate::storage::cleaner::clean_now;
use crate::storage::log::Wait;
use crate::storage::simulated_disk::SimulatedDisk;
use crate::telemetry::LogCapture;

/// What is done to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Clean,
    Retention,
    DeleteRecords,
    DeleteTopic,
    /// And made anew.
    Recreate,
    Move,
    EndMove,
    /// With a snapshot of the producers.
    Roll,
    Flush,
    Checkpoint,
    /// `cleanup.policy=delete`
    DeleteByAge,
    Truncate,
    StartAnew,
    Read,
}

const ALL: [Act; 14] = [
    Act::Clean,
    Act::Retention,
    Act::DeleteRecords,
    Act::DeleteTopic,
    Act::Recreate,
    Act::Move,
    Act::EndMove,
    Act::Roll,
    Act::Flush,
    Act::Checkpoint,
    Act::DeleteByAge,
    Act::Truncate,
    Act::StartAnew,
    Act::Read,
];

/// At how many of the first one's calls the second one is begun.
const PLACES: u64 = 4;
/// How long the first one waits for the second, which waits for the first, perhaps.
const PATIENCE: Duration = Duration::from_millis(2);

/// Calls somebody before one of the calls that a thread makes.
#[derive(Default)]
struct Watch(Mutex<Option<Watched>>);

struct Watched {
    thread: ThreadId,
    calls: u64,
    at: u64,
    act: Option<Box<dyn FnOnce() + Send>>,
}

impl Watch {
    fn begin(&self, at: u64, act: impl FnOnce() + Send + 'static) {
        let thread = std::thread::current().id();
        *self.0.lock() = Some(Watched { thread, calls: 0, at, act: Some(Box::new(act)) });
    }

    /// How many calls there were.
    fn end(&self) -> u64 {
        self.0.lock().take().map_or(0, |watched| watched.calls)
    }

    fn call(&self) {
        let act = {
            let mut watched = self.0.lock();
            let Some(watched) = watched.as_mut().filter(|watched| watched.thread == std::thread::current().id()) else {
                return;
            };
            watched.calls += 1;
            if watched.calls == watched.at { watched.act.take() } else { None }
        };
        if let Some(act) = act {
            act();
        }
    }
}

/// A disk in memory, whose calls are watched, and which removes directories as a system does, file by file.
struct WatchedDisk {
    disk: SimulatedDisk,
    watch: Arc<Watch>,
}

impl Disk for WatchedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.watch.call();
        Ok(Arc::new(WatchedFile { file: self.disk.open(path, mode)?, watch: self.watch.clone() }))
    }

    fn info(&self, path: &Path) -> io::Result<FileInfo> {
        self.watch.call();
        self.disk.info(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.watch.call();
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.watch.call();
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.watch.call();
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.watch.call();
        self.disk.remove_file(path)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        for entry in self.list(dir)? {
            match self.remove_file(&dir.join(entry.name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.watch.call();
        match self.disk.list(dir)?.is_empty() {
            true => self.disk.remove_dir_all(dir),
            false => Err(io::ErrorKind::DirectoryNotEmpty.into()),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.watch.call();
        self.disk.sync_dir(dir)
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        self.disk.space(dir)
    }
}

struct WatchedFile {
    file: Arc<dyn DiskFile>,
    watch: Arc<Watch>,
}

impl DiskFile for WatchedFile {
    fn file_len(&self) -> io::Result<u64> {
        self.watch.call();
        self.file.file_len()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.watch.call();
        self.file.read_at(buffer, position)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<Option<usize>> {
        self.file.read_cached_at(buffer, position)
    }

    fn write_vectored_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.watch.call();
        self.file.write_vectored_at(buffers, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.watch.call();
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.watch.call();
        self.file.sync_all()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.watch.call();
        self.file.set_len(len)
    }

    fn set_modified(&self, modified_ms: i64) -> io::Result<()> {
        self.watch.call();
        self.file.set_modified(modified_ms)
    }
}

/// A node with a log that can be compacted, and of which retention wants some as well.
struct World {
    disk: SimulatedDisk,
    watch: Arc<Watch>,
    background: Background,
    manager: Arc<LogManager>,
    ids: [DirectoryId; 2],
    failures: Arc<Mutex<Vec<DirectoryFailure>>>,
}

const NOW_MS: i64 = 2_000_000;

fn name() -> TopicPartition {
    partition("t", 0)
}

fn config() -> TopicConfig {
    TopicConfig {
        cleanup_policy: CleanupPolicy { compact: true, delete: true },
        segment_bytes: 1500,
        index_interval_bytes: 300,
        min_cleanable_dirty_ratio: 0.01,
        // Segments are looked into to choose.
        min_compaction_lag_ms: 1,
        max_compaction_lag_ms: 1,
        retention_ms: -1,
        retention_bytes: 6000,
        file_delete_delay_ms: 0,
        ..TopicConfig::default()
    }
}

impl World {
    fn new() -> World {
        let disk = SimulatedDisk::new();
        let watch = Arc::new(Watch::default());
        let watched: Arc<dyn Disk> = Arc::new(WatchedDisk { disk: disk.clone(), watch: watch.clone() });
        let background = Background::stepped();
        // Few of the files stay open.
        let files = FileCache::new(watched.clone(), background.clone(), 4);
        let clock = ManualClock::new(NOW_MS);
        let context = LogContext { disk: watched, clock, files, background: background.clone() };
        let ids = [DirectoryId::random(), DirectoryId::random()];
        let failures: Arc<Mutex<Vec<DirectoryFailure>>> = Arc::default();
        let told = failures.clone();
        let manager = LogManager::open(
            context,
            LogManagerConfig {
                log_dirs: vec![(PathBuf::from("/a"), ids[0]), (PathBuf::from("/b"), ids[1])],
                unusable: BTreeMap::new(),
                recovery_threads_per_data_dir: 1,
                file_delete_delay_ms: 0,
                producers: ProducerStateConfig { verification_enabled: false, ..ProducerStateConfig::default() },
                on_failure: Arc::new(move |failure| told.lock().push(failure.clone())),
            },
        );
        let world = World { disk, watch, background, manager: manager.unwrap(), ids, failures };
        world.manager.load(&|_, _| Some(hosted()), Arc::new(|_| {}));
        let log = world.create();
        (0..40).for_each(|_| world.append(&log));
        log.on_high_watermark(log.log_end_offset());
        world.background.run_pending(Duration::ZERO);
        world
    }

    fn create(&self) -> Arc<Log> {
        let new = NewLog {
            config: Arc::new(config()),
            directory: Some(self.ids[0]),
            ..new_log(TopicId(uuid::Uuid::from_u128(7)))
        };
        self.manager.get_or_create(&name(), new).unwrap()
    }

    /// A batch of an idempotent producer, so that there are snapshots of producers.
    fn append(&self, log: &Log) {
        let end = log.log_end_offset().0;
        let mut builder = RecordBatchBuilder::new(Offset(0)).producer(ProducerId(1000 + end), ProducerEpoch(0), 0);
        for n in 0..4 {
            let key = format!("key {}", (end + n) % 10);
            builder.append(1_000_000 + end + n, Some(key.as_bytes()), Some(&[7; 30]), &[]);
        }
        append_built(log, builder);
    }

    fn act(&self, act: Act) {
        let Ok(log) = self.manager.get(&name()) else { return };
        let end = log.log_end_offset();
        match act {
            Act::Clean => drop(clean_now(&log, end)),
            Act::Retention => drop(log.delete_old_segments(NOW_MS, end)),
            Act::DeleteRecords => {
                drop(log.advance_log_start_offset(Offset(end.0 / 2)));
                drop(log.delete_old_segments(NOW_MS, end));
            }
            Act::DeleteTopic => assert_eq!(self.manager.delete(&[name()]), []),
            Act::Recreate => {
                assert_eq!(self.manager.delete(&[name()]), []);
                let log = self.create();
                self.append(&log);
            }
            Act::Move => self.move_log(),
            Act::EndMove => {
                drop(self.manager.create_future(&name(), "/b"));
                self.manager.remove_future(&name());
            }
            Act::Roll => drop(log.roll()),
            Act::Flush => drop(log.flush(end)),
            Act::Checkpoint => {
                self.manager.checkpoint_recovery_points();
                self.manager.checkpoint_log_start_offsets();
                self.manager.checkpoint_cleaner_offsets();
            }
            Act::DeleteByAge => {
                let cleanup_policy = CleanupPolicy { compact: false, delete: true };
                log.update_config(Arc::new(TopicConfig { cleanup_policy, ..config() }));
                drop(log.delete_old_segments(NOW_MS, end));
            }
            Act::Truncate => drop(log.truncate_to(Offset(end.0 - 30))),
            Act::StartAnew => drop(log.truncate_fully_and_start_at(Offset(500))),
            Act::Read => {
                for offset in (0..end.0).step_by(20) {
                    match log.read(Offset(offset), 500, end, true, Wait::ForDisk) {
                        Ok(read) => drop(read.slice.read(&mut vec![0; read.slice.len()])),
                        Err(_) => drop(log.offset_for_timestamp(1_000_000 + offset)),
                    }
                }
            }
        }
        // What was put off comes soon after: no file waits for those who use it.
        self.background.run_pending(Duration::from_secs(1));
    }

    /// As the replica layer does, until it succeeds or somebody else has done something about the partition.
    fn move_log(&self) {
        let Ok(Some(moved)) = self.manager.create_future(&name(), "/b") else { return };
        let mut tries = 0;
        let copy = |moved: &FutureLog| -> Result<(), crate::storage::log::CopyError> {
            moved.future.align_with(&moved.current)?;
            while moved.future.copy_from(&moved.current)? > 0 {}
            moved.future.follow_log_start(&moved.current).map(drop)
        };
        while self.manager.future(&name()).is_some_and(|logs| logs.is_same(&moved)) {
            tries += 1;
            assert!(tries < 5_000, "it comes to no end");
            if moved.current.pause_cleaning(true) || copy(&moved).is_err() {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            if let Ok(exchange) = self.manager.replace_with_future(&name(), &moved) {
                self.manager.finish_exchange(exchange);
            }
        }
        moved.current.pause_cleaning(false);
    }

    /// What must be, whoever did what.
    fn check(&self) {
        (0..5).for_each(|_| self.background.run_pending(Duration::from_secs(61)));
        assert_eq!(*self.failures.lock(), []);
        for dir in ["/a", "/b"] {
            let names = self.disk.file_names(Path::new(dir));
            let left = names.iter().filter(|name| name.ends_with("-delete") || name.ends_with("-future"));
            assert_eq!(left.collect::<Vec<_>>(), Vec::<&String>::new(), "{dir}");
            let files = self.disk.file_names(&Path::new(dir).join("t-0"));
            let left =
                files.iter().filter(|name| [".deleted", ".cleaned", ".swap", ".tmp"].iter().any(|e| name.ends_with(e)));
            assert_eq!(left.collect::<Vec<_>>(), Vec::<&String>::new(), "{dir}");
        }
        let Ok(log) = self.manager.get(&name()) else { return };
        assert!(!log.is_offline() && !log.cleaning.is_running());
        assert!(!log.cleaning.is_uncleanable.load(Ordering::Relaxed), "it is set aside");
        assert!(!log.cleaning.is_paused.load(Ordering::Relaxed), "it is not cleaned any more");
        // It goes on.
        let end = log.log_end_offset();
        self.append(&log);
        let mut next = log.log_start_offset();
        while next <= end {
            let read = log.read(next, 1, Offset(i64::MAX), true, Wait::ForDisk).unwrap();
            let mut bytes = vec![0; read.slice.len()];
            read.slice.read(&mut bytes).unwrap();
            let batch = crate::record::batch::batches(&bytes).next().unwrap().unwrap();
            assert!(batch.is_crc_valid() && batch.last_offset() >= next);
            next = batch.last_offset().plus(1);
        }
        log.close().unwrap();
    }
}

/// Returns how many calls of the disk the first one made.
fn run(first: Act, second: Act, at: u64) -> u64 {
    let world = World::new();
    let (go, gone) = mpsc::channel::<()>();
    let (done, is_done) = mpsc::channel::<()>();
    let (calls, events) = std::thread::scope(|scope| {
        let world = &world;
        let other = scope.spawn(move || {
            let capture = LogCapture::start();
            if gone.recv().is_ok() {
                world.act(second);
            }
            drop(done);
            capture.take()
        });
        let capture = LogCapture::start();
        world.watch.begin(at, move || {
            go.send(()).unwrap();
            let _ = is_done.recv_timeout(PATIENCE);
        });
        world.act(first);
        let calls = world.watch.end();
        let mut events = other.join().unwrap();
        world.check();
        events.extend(capture.take());
        (calls, events)
    });
    let told: Vec<_> = events.iter().filter(|event| event.level <= Level::WARN).collect();
    assert!(told.is_empty(), "{told:?}");
    calls
}

#[test]
fn two_at_a_time_do_no_harm() {
    let places =
        std::env::var("SIDE_BY_SIDE").map_or(PLACES, |places| places.parse().expect("SIDE_BY_SIDE is a number"));
    let (mut cases, mut failed) = (0, Vec::new());
    for first in ALL {
        let calls = run(first, Act::Read, u64::MAX);
        let step = calls.div_ceil(places).max(1);
        for (n, second) in ALL.into_iter().enumerate() {
            // Each at others.
            let from = 1 + n as u64 * step / ALL.len() as u64;
            for at in (from..=calls).step_by(step as usize) {
                let case = std::panic::AssertUnwindSafe(|| run(first, second, at));
                if std::panic::catch_unwind(case).is_err() {
                    failed.push(format!("{second:?} before call {at} of {first:?}"));
                }
                cases += 1;
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(cases > 400, "{cases}");
}

/// The directory that a log is moved away from fails, at each call of the move: the log is offline until all of it is in the
/// new directory, and goes on there from then on.
#[test]
fn a_directory_that_fails_under_a_move_keeps_the_log_until_it_has_left() {
    let calls = run(Act::Move, Act::Read, u64::MAX);
    let mut went_on = 0;
    // Most of them copy.
    let places = (1..=calls).filter(|at| at % 25 == 0 || at + 100 > calls);
    for at in places {
        let world = World::new();
        let log = world.manager.get(&name()).unwrap();
        let (end, manager) = (log.log_end_offset(), world.manager.clone());
        world.watch.begin(at, move || {
            let dir = manager.dirs.iter().find(|dir| dir.path == Path::new("/a")).unwrap();
            manager.take_offline(dir, "it is pulled out");
        });
        world.act(Act::Move);
        world.watch.end();
        let has_left = world.disk.file_names(Path::new("/b")).contains(&"t-0".to_owned());
        match world.manager.get(&name()) {
            Ok(moved) => {
                assert!(has_left && !moved.is_offline(), "call {at}");
                assert_eq!(moved.log_end_offset(), end, "call {at}");
                world.append(&moved);
                // Nothing is left of what was taken for offline.
                assert_eq!(world.manager.delete(&[name()]), [], "call {at}");
                assert_eq!(world.manager.get(&name()).err(), Some(LogLookupError::Unknown), "call {at}");
                went_on += 1;
            }
            Err(error) => {
                assert!(!has_left && error == LogLookupError::Offline, "call {at}");
                assert!(world.disk.file_names(Path::new("/b")).iter().any(|name| name.ends_with("-future")) || at < 20);
            }
        }
    }
    assert!(went_on > 0 && went_on < calls, "{went_on} of {calls}");
}
