//! What is done by the clock: retention, flushes by time, checkpoints, expiry of producers.
//!
//! Each job has its interval setting. They read and write files, so they run on threads that may wait.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tracing::error;

use crate::server::broker::Broker;
use crate::storage::manager::LogManager;

/// How often transactions that hang are looked for.
const LATE_TRANSACTIONS_INTERVAL_MS: i64 = 60_000;

/// How often clients that do not come are looked for.
const OVERDUE_CLIENTS_INTERVAL_MS: i64 = 5_000;

/// How often it is looked whether a full log directory has room again.
const ROOM_INTERVAL_MS: i64 = 1_000;

/// Starts the jobs; they end with the set.
pub(super) fn spawn(jobs: &mut JoinSet<()>, broker: Arc<Broker>, logs: Arc<LogManager>) {
    let config = broker.config.clone();
    let initial = config.log_initial_task_delay_ms;
    let mut every = |period_ms: i64, delay_ms: i64, job: fn(&Broker, &LogManager)| {
        jobs.spawn(repeat(period_ms, delay_ms, broker.clone(), logs.clone(), job));
    };
    every(config.log_retention_check_interval_ms, initial, |broker, _| {
        broker.replicas.delete_old_segments(broker.clock.now_ms());
    });
    every(config.log_flush_scheduler_interval_ms, initial, |broker, logs| {
        logs.flush_dirty_logs(broker.clock.now_ms());
    });
    every(i64::from(config.log_flush_offset_checkpoint_interval_ms), initial, |_, logs| {
        logs.checkpoint_recovery_points();
    });
    every(i64::from(config.log_flush_start_offset_checkpoint_interval_ms), initial, |_, logs| {
        logs.checkpoint_log_start_offsets();
    });
    every(ROOM_INTERVAL_MS, ROOM_INTERVAL_MS, |broker, logs| {
        if logs.look_for_room() {
            broker.replicas.retry_for_room();
        }
    });
    let high_watermark_interval_ms = config.replica_high_watermark_checkpoint_interval_ms;
    every(high_watermark_interval_ms, high_watermark_interval_ms, |broker, logs| {
        logs.checkpoint_high_watermarks(&broker.replicas.high_watermarks());
    });
    every(LATE_TRANSACTIONS_INTERVAL_MS, LATE_TRANSACTIONS_INTERVAL_MS, |broker, _| {
        broker.replicas.report_late_transactions(broker.clock.now_ms());
    });
    every(OVERDUE_CLIENTS_INTERVAL_MS, OVERDUE_CLIENTS_INTERVAL_MS, |broker, _| {
        broker.addresses.report_overdue();
    });
    let expiry_interval_ms = i64::from(config.producer_id_expiration_check_interval_ms);
    every(expiry_interval_ms, expiry_interval_ms, |broker, logs| logs.remove_expired_producers(broker.clock.now_ms()));
}

async fn repeat(
    period_ms: i64,
    delay_ms: i64,
    broker: Arc<Broker>,
    logs: Arc<LogManager>,
    job: fn(&Broker, &LogManager),
) {
    let millis = |ms: i64| Duration::from_millis(ms.max(1) as u64);
    // `log.flush.scheduler.interval.ms` is for ever by default, which no clock can count to.
    let Some(first) = Instant::now().checked_add(millis(delay_ms.max(0))) else { return };
    if period_ms == i64::MAX {
        return;
    }
    let mut ticks = interval_at(first, millis(period_ms));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (broker, logs) = (broker.clone(), logs.clone());
        if spawn_blocking(move || job(&broker, &logs)).await.is_err() {
            error!("a periodic job ended by a panic");
        }
    }
}
