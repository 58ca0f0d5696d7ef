//! How far the reading has come: a line on standard error that is drawn over and over, if that is a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How often the line is drawn.
const INTERVAL: Duration = Duration::from_millis(200);
const WIDTH: usize = 30;

/// See the module's documentation. Threads share it.
pub(super) struct Progress {
    total: u64,
    read: AtomicU64,
    began: Instant,
    /// When it was drawn last; `None`: nobody looks.
    drawn: Option<Mutex<Instant>>,
}

impl Progress {
    /// `total` bytes are to be read.
    pub fn new(total: u64) -> Progress {
        let now = Instant::now();
        let drawn = io::stderr().is_terminal().then(|| Mutex::new(now));
        Progress { total, read: AtomicU64::new(0), began: now, drawn }
    }

    /// So many more bytes were read of a log.
    pub fn add(&self, bytes: u64, name: &str) {
        let read = self.read.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // Whoever does not get it at once leaves it to the other.
        let Some(mut drawn) = self.drawn.as_ref().and_then(Mutex::try_lock) else {
            return;
        };
        if drawn.elapsed() >= INTERVAL {
            *drawn = Instant::now();
            let _ = write!(io::stderr(), "\r\x1b[K{}", line(read, self.total, self.began.elapsed(), name));
        }
    }

    /// Removes the line, until it is drawn again.
    pub fn clear(&self) {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(read: u64, total: u64, elapsed: Duration, name: &str) -> String {
    let part = if total == 0 { 1.0 } else { (read as f64 / total as f64).min(1.0) };
    let filled = (part * WIDTH as f64) as usize;
    let speed = size((read as f64 / elapsed.as_secs_f64().max(0.001)) as u64);
    format!(
        "[{}{}] {:3.0} % of {}, {speed}/s {name}",
        "=".repeat(filled),
        " ".repeat(WIDTH - filled),
        part * 100.0,
        size(total)
    )
}

/// Bytes as people say it.
pub(super) fn size(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    let mut amount = bytes as f64;
    let mut unit = "bytes";
    for next in units {
        if amount < 1000.0 {
            break;
        }
        amount /= 1000.0;
        unit = next;
    }
    if unit == "bytes" { format!("{bytes} bytes") } else { format!("{amount:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_it_is() {
        let line = line(512 << 20, 1 << 30, Duration::from_secs(2), "a-0");
        assert_eq!(line, format!("[{}{}]  50 % of 1.1 GB, 268.4 MB/s a-0", "=".repeat(15), " ".repeat(15)));
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(999), "999 bytes");
        assert_eq!(size(1500), "1.5 kB");
        assert_eq!(size(5_000_000_000_000_000), "5000.0 TB");
    }
}
