//! What a tool says, and what it is told by signals. Nobody may be there to read it: a pipe that is closed is no failure of the tool, as in Java.

use tokio::signal::unix::{SignalKind, signal};

/// Exit codes of a process that a signal ends.
pub const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// Waits for the signal that ends the process; returns its exit code.
pub async fn signaled() -> u8 {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => INTERRUPTED,
        _ = terminate.recv() => TERMINATED,
    }
}

/// A line on standard output.
macro_rules! say {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($argument)*);
    }};
}

/// A line on standard error.
macro_rules! complain {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($argument)*);
    }};
}

pub(crate) use {complain, say};
