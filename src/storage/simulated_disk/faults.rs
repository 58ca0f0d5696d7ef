//! What goes wrong on a simulated disk, and when: every call passes here, is counted, and fails if it is its turn.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use super::Crash;

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `EIO`, once.
    Error,
    /// `ENOSPC`, until [`super::SimulatedDisk::make_room`].
    Full,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    Open,
    Info,
    List,
    Len,
    Read,
    // What changes something:
    Create,
    CreateDir,
    Write,
    SetLen,
    /// Makes a file shorter.
    Cut,
    SetModified,
    Sync,
    SyncDir,
    Rename,
    Remove,
    RemoveDir,
}

impl Call {
    pub fn is_change(self) -> bool {
        self >= Call::Create
    }

    /// Whether a full disk can refuse it. The blocks for what was written may be sought only when it is written out.
    pub fn needs_room(self) -> bool {
        matches!(self, Call::Create | Call::CreateDir | Call::Write | Call::SetLen | Call::Sync | Call::Rename)
    }
}

/// A kind of call: where a crash or a fault may come.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallSite {
    /// What was being done, as the simulation says it.
    pub activity: &'static str,
    pub call: Call,
    /// The kind of file, by its name.
    pub file: String,
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24} {:<12} {}", self.activity, format!("{:?}", self.call), self.file)
    }
}

/// How often something happened at a call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    pub passed: u64,
    pub killed: u64,
    pub power_lost: u64,
    pub errors: u64,
    pub full: u64,
}

/// What happened, by call site.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    pub sites: BTreeMap<CallSite, Hits>,
}

impl Coverage {
    pub fn add(&mut self, other: &Coverage) {
        for (site, hits) in &other.sites {
            let all = self.sites.entry(site.clone()).or_default();
            all.passed += hits.passed;
            all.killed += hits.killed;
            all.power_lost += hits.power_lost;
            all.errors += hits.errors;
            all.full += hits.full;
        }
    }
}

/// When the disk dies, when it fails, and what happened so far.
#[derive(Default)]
pub struct Faults {
    pub changes_left: Option<u64>,
    pub calls_left: Option<(u64, Fault)>,
    pub is_full: bool,
    pub is_dead: bool,
    pub is_held: bool,
    /// `EIO` was answered.
    pub has_failed: bool,
    /// Nobody knows any more what is on disk, and what only seems so.
    pub has_failed_to_sync: bool,
    pub trace: Option<Vec<CallSite>>,
    pub died_at: Option<CallSite>,
    pub failed_at: Option<CallSite>,
    pub activity: &'static str,
    pub coverage: Coverage,
}

/// What every call gets that comes after the end.
pub fn dead() -> io::Error {
    io::Error::from_raw_os_error(libc::ENXIO)
}

impl Faults {
    /// Counts a call, and lets it fail if it is to. What fails has changed nothing.
    pub fn call(&mut self, call: Call, kind: &str) -> io::Result<()> {
        if self.is_dead {
            return Err(dead());
        }
        if self.is_held {
            return Ok(());
        }
        let site = CallSite { activity: self.activity, call, file: kind.to_owned() };
        if let Some(trace) = &mut self.trace {
            trace.push(site.clone());
        }
        if call.is_change() {
            if self.changes_left == Some(0) {
                self.is_dead = true;
                self.died_at = Some(site);
                return Err(dead());
            }
            self.changes_left = self.changes_left.map(|left| left - 1);
        }
        let hits = self.coverage.sites.entry(site.clone()).or_default();
        hits.passed += 1;
        if let Some((left, fault)) = self.calls_left {
            match (left, fault) {
                (0, Fault::Error) => {
                    self.calls_left = None;
                    hits.errors += 1;
                    self.has_failed = true;
                    self.failed_at = Some(site);
                    return Err(io::Error::from_raw_os_error(libc::EIO));
                }
                (0, Fault::Full) if call.needs_room() => {
                    (self.calls_left, self.is_full) = (None, true);
                    self.failed_at = Some(site);
                }
                (0, Fault::Full) => {}
                (_, fault) => self.calls_left = Some((left - 1, fault)),
            }
        }
        if self.is_full && call.needs_room() {
            hits.full += 1;
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(())
    }

    /// What still comes over the next process, when this one has ended by `crash`. This disk is dead from then on.
    pub fn restart(&mut self, crash: Crash) -> Faults {
        let died = self.is_dead;
        if let Some(site) = self.died_at.take() {
            let hits = self.coverage.sites.entry(site).or_default();
            match crash {
                Crash::Kill => hits.killed += 1,
                Crash::PowerLoss => hits.power_lost += 1,
            }
        }
        self.is_dead = true;
        Faults {
            // What was to come still comes, if the process ended before.
            changes_left: self.changes_left.filter(|_| !died),
            calls_left: self.calls_left.filter(|_| !died),
            trace: self.trace.take(),
            coverage: std::mem::take(&mut self.coverage),
            ..Faults::default()
        }
    }
}
