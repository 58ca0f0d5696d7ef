//! `LogCleaner`: compaction, on threads of its own.
//!
//! Each thread looks at all logs with `cleanup.policy=compact`, takes the dirtiest of those that are due, cleans it, and
//! looks again; if none is due it waits for `log.cleaner.backoff.ms`. After each look retention is applied to all of
//! them: what removes segments from one log comes from one place, or it would have to wait for the other. How far each log
//! is cleaned is kept in its directory's `cleaner-offset-checkpoint`.
//!
//! | a cleaning ends by | the log |
//! |---|---|
//! | being done | is clean up to an offset, which is checkpointed |
//! | a change of the log, or the end of the thread | is looked at again |
//! | a full disk | is tried again after the backoff; told once, at WARN |
//! | something in the log that cannot be cleaned | is set aside until the next start; told once, at WARN |
//! | a disk that fails | is offline, with its directory |
//!
//! Split along nouns: [`to_clean`] chooses, [`offset_map`] knows the keys, [`filter`] and [`transactions`] decide what
//! survives (all pure); [`segments`] reads and writes; [`Throttler`] paces. The exchange of segments is the log's.

mod filter;
mod offset_map;
mod segments;
mod to_clean;
mod transactions;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::{debug, error, info, warn};

use self::segments::{CleanError, CleanStats, Cleaner, CleanerBuffers, Stop, log_facts};
use self::to_clean::{LogToClean, Mismatch};
use crate::config::BrokerConfig;
use crate::storage::disk::is_full;
use crate::storage::log::Log;
use crate::storage::manager::LogManager;
use crate::storage::throttler::Throttler;
use crate::types::{Offset, TopicPartition};

/// Settings of the broker that concern compaction. All but the first may change at runtime.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerConfig {
    /// `log.cleaner.enable`
    pub enabled: bool,
    /// `log.cleaner.threads`
    pub threads: usize,
    /// `log.cleaner.dedupe.buffer.size`, of all threads
    pub dedupe_buffer_bytes: u64,
    /// `log.cleaner.io.buffer.load.factor`
    pub dedupe_load_factor: f64,
    /// `log.cleaner.io.buffer.size`, of all threads
    pub io_buffer_bytes: u64,
    /// `log.cleaner.io.max.bytes.per.second`, of all threads
    pub io_max_bytes_per_second: f64,
    /// `log.cleaner.backoff.ms`
    pub backoff_ms: i64,
}

impl CleanerConfig {
    /// These settings among those of the broker.
    pub fn of(config: &BrokerConfig) -> CleanerConfig {
        CleanerConfig {
            enabled: config.log_cleaner_enable,
            threads: config.log_cleaner_threads.max(0) as usize,
            dedupe_buffer_bytes: config.log_cleaner_dedupe_buffer_size.max(0) as u64,
            dedupe_load_factor: config.log_cleaner_io_buffer_load_factor,
            io_buffer_bytes: config.log_cleaner_io_buffer_size.max(0) as u64,
            io_max_bytes_per_second: config.log_cleaner_io_max_bytes_per_second,
            backoff_ms: config.log_cleaner_backoff_ms,
        }
    }

    /// What each thread gets. As in Kafka no more than 2 GiB to find duplicates with.
    fn buffers(&self) -> CleanerBuffers {
        let threads = self.threads.max(1) as u64;
        CleanerBuffers {
            dedupe_bytes: (self.dedupe_buffer_bytes / threads).min(i32::MAX as u64) as usize,
            dedupe_load_factor: self.dedupe_load_factor,
            io_bytes: (self.io_buffer_bytes / threads / 2) as usize,
        }
    }
}

/// How far a partition is replicated; `None`: it is not served here, and not to be cleaned.
pub type HighWatermarks = Arc<dyn Fn(&TopicPartition) -> Option<Offset> + Send + Sync>;

/// Applies retention to all logs that the cleaner [looks after](LogManager::is_cleaned), as of this time in milliseconds. It depends on
/// high watermarks, and whoever watches partitions is told, so this is the replica layer's.
pub type Retention = Arc<dyn Fn(i64) + Send + Sync>;

/// See the module's documentation. Its threads end with it.
pub struct LogCleaner {
    shared: Arc<Shared>,
    threads: Mutex<Threads>,
}

struct Shared {
    logs: Weak<LogManager>,
    high_watermarks: HighWatermarks,
    retention: Retention,
    throttler: Arc<Throttler>,
    backoff_ms: AtomicI64,
}

struct Threads {
    config: CleanerConfig,
    stop: Arc<Stop>,
    running: Vec<JoinHandle<()>>,
}

impl LogCleaner {
    /// Starts the threads.
    pub fn start(
        logs: &Arc<LogManager>,
        config: CleanerConfig,
        high_watermarks: HighWatermarks,
        retention: Retention,
    ) -> LogCleaner {
        let now = logs.context().clock.monotonic();
        let shared = Arc::new(Shared {
            logs: Arc::downgrade(logs),
            high_watermarks,
            retention,
            throttler: Arc::new(Throttler::new(config.io_max_bytes_per_second, now)),
            backoff_ms: AtomicI64::new(config.backoff_ms),
        });
        let mut threads = Threads { config, stop: Arc::default(), running: Vec::new() };
        threads.spawn(&shared, Vec::new());
        LogCleaner { shared, threads: Mutex::new(threads) }
    }

    /// Takes over changed settings. Threads with other memory take the place of those that there are, which end as soon as
    /// they can, and before the others begin; what they were cleaning is begun again.
    pub fn update(&self, config: CleanerConfig, now: Duration) {
        let mut threads = self.threads.lock();
        let config = CleanerConfig { enabled: threads.config.enabled, ..config };
        let old = std::mem::replace(&mut threads.config, config);
        if old == config {
            return;
        }
        self.shared.throttler.set_rate(config.io_max_bytes_per_second, now);
        self.shared.backoff_ms.store(config.backoff_ms, Ordering::Relaxed);
        if (old.threads, old.buffers()) == (config.threads, config.buffers()) {
            threads.stop.wake();
            return;
        }
        threads.stop.set();
        threads.stop = Arc::default();
        let before = std::mem::take(&mut threads.running);
        threads.spawn(&self.shared, before);
    }

    /// Whether there are threads that clean this log, and apply retention to it.
    pub fn looks_after(&self, log: &Log) -> bool {
        log.config().cleanup_policy.compact
            && !log.cleaning.is_uncleanable.load(Ordering::Relaxed)
            && !self.threads.lock().running.is_empty()
    }

    /// Ends the threads, and waits for them.
    pub fn shutdown(&self) {
        let running = {
            let mut threads = self.threads.lock();
            threads.stop.set();
            std::mem::take(&mut threads.running)
        };
        await_end(running);
    }
}

impl Drop for LogCleaner {
    fn drop(&mut self) {
        self.threads.lock().stop.set();
    }
}

/// Waits for threads that were told to end.
fn await_end(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        if thread.join().is_err() {
            error!("a cleaner thread ended by a panic");
        }
    }
}

impl Threads {
    /// `before` are those that were told to end. Together they would take twice the memory that they may.
    fn spawn(&mut self, shared: &Arc<Shared>, before: Vec<JoinHandle<()>>) {
        if !self.config.enabled {
            return;
        }
        let before = Arc::new(Mutex::new(before));
        info!(threads = self.config.threads, "starting the log cleaner");
        for number in 0..self.config.threads {
            let (shared, stop, before) = (shared.clone(), self.stop.clone(), before.clone());
            let cleaner = Cleaner::new(self.config.buffers(), shared.throttler.clone(), stop.clone());
            let run = move || {
                // The first waits for them, and the others for the first.
                await_end(before.lock().drain(..));
                shared.run(cleaner, &stop);
            };
            match thread::Builder::new().name(format!("log-cleaner-{number}")).spawn(run) {
                Ok(thread) => self.running.push(thread),
                Err(error) => error!(%error, "cannot start a cleaner thread"),
            }
        }
        if self.running.is_empty() {
            // A shutdown waits for them still.
            self.running.append(&mut before.lock());
        }
    }
}

impl Shared {
    fn run(&self, mut cleaner: Cleaner, stop: &Stop) {
        while !stop.is_set() {
            let Some(logs) = self.logs.upgrade() else { return };
            let has_cleaned = self.clean_dirtiest(&logs, &mut cleaner, stop);
            let retention = || (self.retention)(logs.context().clock.now_ms());
            if !stop.is_set() && catch_unwind(AssertUnwindSafe(retention)).is_err() {
                error!("retention of compacted logs panicked; going on");
            }
            logs.checkpoint_cleaner_offsets();
            // It is not to be kept by somebody who waits.
            drop(logs);
            if !has_cleaned && !stop.is_set() {
                stop.wait(Duration::from_millis(self.backoff_ms.load(Ordering::Relaxed).max(0) as u64));
            }
        }
    }

    /// Cleans the dirtiest log that is due, or the next one if that cannot be. Returns whether one was cleaned.
    fn clean_dirtiest(&self, logs: &LogManager, cleaner: &mut Cleaner, stop: &Stop) -> bool {
        let now_ms = logs.context().clock.now_ms();
        let mut due: Vec<(LogToClean, TopicPartition, Arc<Log>)> = Vec::new();
        for (partition, log) in logs.logs() {
            if !log.cleaning.is_running()
                && let Some(to_clean) = self.look_at(&partition, &log, now_ms)
            {
                due.push((to_clean, partition, log));
            }
        }
        due.sort_by(|a, b| b.0.cleanable_ratio().total_cmp(&a.0.cleanable_ratio()));
        due.into_iter().take_while(|_| !stop.is_set()).any(|(_, partition, log)| {
            // Another thread may have it.
            let Some(_running) = log.cleaning.try_begin() else { return false };
            let truncations = log.truncations_done();
            // It may have changed since.
            let to_clean = self.look_at(&partition, &log, now_ms);
            to_clean.is_some_and(|to_clean| clean(&log, &to_clean, truncations, cleaner))
        })
    }

    /// What is to be cleaned of a log, if it is due.
    fn look_at(&self, partition: &TopicPartition, log: &Log, now_ms: i64) -> Option<LogToClean> {
        let config = log.config();
        let is_out = !config.cleanup_policy.compact
            || log.is_offline()
            || log.cleaning.is_paused.load(Ordering::SeqCst)
            || log.cleaning.is_uncleanable.load(Ordering::Relaxed);
        if is_out {
            return None;
        }
        let high_watermark = (self.high_watermarks)(partition)?;
        let facts = match log_facts(log, high_watermark) {
            Ok(facts) => facts,
            Err(error) => {
                end_badly(log, error);
                return None;
            }
        };
        let to_clean = LogToClean::of(&facts, &config, now_ms);
        if let Some(mismatch) = to_clean.mismatch {
            let (cleaned, start) = (facts.cleaned_offset.unwrap_or_default(), facts.log_start_offset);
            // Retention has moved its start, now or when the policy was another, and that is all there is to it.
            if mismatch == Mismatch::BeforeLogStart {
                debug!(%partition, %cleaned, log_start_offset = %start, "the log starts behind what was cleaned");
            } else {
                warn!(%partition, %cleaned, log_start_offset = %start, log_end_offset = %facts.log_end_offset, "the log is not clean as far as was noted; cleaning all of it");
            }
            log.cleaning.set_cleaned_offset(start);
        }
        to_clean.is_due(&config).then_some(to_clean)
    }
}

/// Cleans a log that was taken for it. Returns whether it did.
fn clean(log: &Log, to_clean: &LogToClean, truncations: u64, cleaner: &mut Cleaner) -> bool {
    debug!(partition = %log.topic_partition, from = %to_clean.first_dirty_offset, to = %to_clean.first_uncleanable_offset, "cleaning");
    match cleaner.clean(log, to_clean, truncations) {
        Ok(stats) => {
            log.note_cleaned(stats.end_offset, stats.truncations);
            log.cleaning.lacks_room.store(false, Ordering::Relaxed);
            report(log, to_clean, &stats);
            true
        }
        Err(error) => {
            end_badly(log, error);
            false
        }
    }
}

fn end_badly(log: &Log, error: CleanError) {
    let partition = &log.topic_partition;
    match error {
        CleanError::Aborted => debug!(%partition, "cleaning was aborted"),
        CleanError::Io(error) if !is_full(&error) => log.disk_failed(&error),
        CleanError::NoRoom(error) | CleanError::Io(error) => {
            if !log.cleaning.lacks_room.swap(true, Ordering::Relaxed) {
                warn!(%partition, %error, "no room to clean the log; trying again until there is");
            }
        }
        CleanError::Uncleanable(reason) => {
            if !log.cleaning.is_uncleanable.swap(true, Ordering::Relaxed) {
                warn!(%partition, reason, "the log cannot be cleaned and is set aside");
            }
        }
    }
}

fn report(log: &Log, to_clean: &LogToClean, stats: &CleanStats) {
    let partition = &log.topic_partition;
    info!(
        %partition,
        from = %to_clean.first_dirty_offset,
        to = %stats.end_offset,
        bytes_read = stats.map_bytes_read + stats.bytes_read,
        bytes_before = stats.bytes_read,
        bytes_after = stats.bytes_written,
        records_before = stats.records_read,
        records_after = stats.records_written,
        map_percent = (stats.map_utilization * 100.0) as u64,
        ms = stats.took.as_millis() as u64,
        map_ms = stats.map_took.as_millis() as u64,
        "cleaned log"
    );
    if stats.records_without_key > 0 {
        warn!(%partition, records = stats.records_without_key, "records without a key were removed from a compacted log");
    }
}

/// Cleans a log once, on this thread, if it is due: for simulations.
#[cfg(test)]
pub(in crate::storage) fn clean_now(log: &Log, high_watermark: Offset) -> bool {
    let Some(_running) = log.cleaning.try_begin().filter(|_| !log.cleaning.is_paused.load(Ordering::SeqCst)) else {
        return false;
    };
    let truncations = log.truncations_done();
    let Ok(facts) = log_facts(log, high_watermark).map_err(|error| end_badly(log, error)) else { return false };
    let config = log.config();
    let to_clean = LogToClean::of(&facts, &config, log.context.clock.now_ms());
    if !to_clean.is_due(&config) {
        return false;
    }
    let buffers = CleanerBuffers { dedupe_bytes: 24 * 1000, dedupe_load_factor: 0.9, io_bytes: 4096 };
    let throttler = Arc::new(Throttler::new(f64::MAX, Duration::ZERO));
    clean(log, &to_clean, truncations, &mut Cleaner::new(buffers, throttler, Arc::default()))
}

#[cfg(test)]
mod tests;
