//! The signals that end the broker: SIGTERM, SIGINT, and SIGHUP unless whoever started it said otherwise (`nohup`).

use std::fs;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives the signals instead of the process ending by them.
pub(super) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Option<Signal>,
}

impl EndSignals {
    /// To be called within the runtime.
    pub(super) fn listen() -> io::Result<EndSignals> {
        Ok(EndSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: if ignores(SignalKind::hangup()) { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// Waits for the next of them.
    pub(super) async fn next(&mut self) -> SignalKind {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = hang_up => SignalKind::hangup(),
        }
    }
}

/// Whether the process was started with the signal ignored; false where the system does not tell.
fn ignores(signal: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw_value() - 1) & 1 == 1)
}
