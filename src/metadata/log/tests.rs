//! The metadata log on a disk that dies before each of its changes: what was flushed is in what the next start reads, and
//! nothing else than was appended, whichever snapshot it begins from.

use std::time::Duration;

use super::*;
use crate::clock::ManualClock;
use crate::metadata::batch::encode_records;
use crate::metadata::records::{ConfigRecord, VersionedRecord};
use crate::metadata::snapshot::SnapshotQuorum;
use crate::storage::background::Background;
use crate::storage::file_cache::FileCache;
use crate::storage::simulated_disk::{Crash, Fault, SimulatedDisk};

const ROOT: &str = "/meta";
const BATCHES: i64 = 14;

/// A controller, as far as its log goes.
struct Controller {
    disk: SimulatedDisk,
    background: Background,
    log: MetadataLog,
    replay: Replay,
}

impl Controller {
    fn start(disk: &SimulatedDisk) -> Result<Controller, MetadataLogError> {
        disk.set_activity("start");
        let background = Background::stepped();
        let seam: Arc<dyn Disk> = Arc::new(disk.clone());
        let context = LogContext {
            files: FileCache::new(seam.clone(), background.clone(), 100),
            disk: seam,
            clock: ManualClock::new(1_000),
            background: background.clone(),
        };
        let settings =
            MetadataLogSettings { segment_bytes: 400, segment_ms: i64::MAX, retention_bytes: 700, retention_ms: -1 };
        let opened = MetadataLog::open(&context, Path::new(ROOT), settings, None)?;
        Ok(Controller { disk: disk.clone(), background, log: opened.log, replay: opened.replay })
    }

    /// Appends and flushes up to [`BATCHES`] batches, with a snapshot after each third, and cleans. Returns how many were
    /// flushed.
    fn work(&mut self) -> (i64, Result<(), String>) {
        let mut flushed = self.log.log_end_offset().0;
        let result = (|| {
            while self.log.log_end_offset().0 < BATCHES {
                self.disk.set_activity("append and flush");
                let end = self.log.log_end_offset();
                let batch = encode_records(end, LeaderEpoch(1), 1_000, &[record(end.0)]);
                let parsed = batches(&batch).next().expect("a batch").map_err(text)?;
                let parsed = MetadataBatch::decode(&parsed).map_err(text)?;
                self.log.append(batch.clone(), LeaderEpoch(1), 1_000).map_err(text)?;
                self.log.flush().map_err(text)?;
                flushed = end.0 + 1;
                self.replay.apply(&parsed).map_err(text)?;
                if end.0 % 3 == 2 {
                    self.disk.set_activity("snapshot");
                    let id = SnapshotId { end_offset: end.plus(1), epoch: LeaderEpoch(1) };
                    let (disk, dir) = (self.log.disk().clone(), self.log.dir().to_owned());
                    let image = self.replay.image();
                    let size = snapshot::write(&*disk, &dir, id, image, &SnapshotQuorum::default(), 1_000);
                    self.log.snapshot_written(id, size.map_err(text)?);
                    self.disk.set_activity("clean");
                    self.log.clean(1_000).map_err(text)?;
                }
                self.disk.set_activity("jobs");
                self.background.run_pending(Duration::ZERO);
            }
            Ok(())
        })();
        (flushed, result)
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn record(n: i64) -> VersionedRecord {
    VersionedRecord::lowest(ConfigRecord {
        resource_type: 2,
        resource_name: format!("topic-{n}"),
        name: "retention.ms".to_owned(),
        value: Some("x".repeat(40)),
    })
}

/// The image after so many records.
fn image(count: i64) -> MetadataImage {
    let mut image = MetadataImage::empty();
    for n in 0..count {
        image.apply(&record(n).record, &mut Default::default()).unwrap();
    }
    image
}

/// Starts until it is started, and checks what it finds.
fn start(disk: &mut SimulatedDisk, crash: Crash, seed: u64, flushed: i64) -> Controller {
    for attempt in 0.. {
        match Controller::start(disk) {
            Ok(controller) => {
                let end = controller.log.log_end_offset().0;
                let found = controller.replay.image();
                assert!(end >= flushed, "{crash:?} {seed}: flushed was up to {flushed}, and it ends at {end}");
                assert_eq!(found.configs, image(end).configs, "{crash:?} {seed}: up to {end}");
                assert_eq!(found.provenance.offset.0, end - 1);
                return controller;
            }
            Err(error) => {
                assert!(disk.is_dead() || disk.failed_at().is_some(), "{crash:?} {seed}: {error}");
                *disk = disk.restart(crash, seed + attempt);
            }
        }
    }
    unreachable!("it does not die for ever")
}

/// Three lives of a controller; returns whether it died in a call.
fn run(crash: Crash, seed: u64, plan: impl Fn(&SimulatedDisk)) -> bool {
    let mut disk = SimulatedDisk::with_seed(seed);
    disk.create_dir_all(Path::new(ROOT)).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    plan(&disk);
    let mut flushed = 0;
    for life in 0..3 {
        let mut controller = start(&mut disk, crash, seed * 31 + life, flushed);
        let (up_to, result) = controller.work();
        flushed = up_to;
        let has_ended = disk.is_dead() || disk.failed_at().is_some();
        assert!(result.is_ok() || has_ended, "{crash:?} {seed}: {result:?}");
        let crash = if disk.has_failed_to_sync() { Crash::PowerLoss } else { crash };
        disk.make_room();
        let background = controller.background.clone();
        disk = disk.restart(crash, seed * 17 + life);
        drop(controller);
        background.run_pending(Duration::from_secs(100));
    }
    disk.coverage().sites.values().any(|hits| hits.killed + hits.power_lost > 0)
}

#[test]
fn what_was_flushed_is_read_after_a_crash_at_any_change() {
    for (crash, seeds) in [(Crash::Kill, 0..1), (Crash::PowerLoss, 0..3)] {
        for seed in seeds {
            for at in 0.. {
                if !run(crash, seed, |disk| disk.die_after(Some(at))) {
                    assert!(at > 100, "{at} changes are too few for what is done");
                    break;
                }
            }
        }
    }
}

#[test]
fn what_was_flushed_is_read_after_a_fault_at_any_call() {
    for fault in [Fault::Error, Fault::Full] {
        for at in (0..600).step_by(3) {
            run(Crash::PowerLoss, at, |disk| disk.fail_after(Some((at, fault))));
        }
    }
}
