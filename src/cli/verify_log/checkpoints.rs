//! The offset checkpoints in the root of a log directory.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::cli::verify_log::said;
use crate::storage::checkpoint::{
    self, CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, decode_offsets,
};
use crate::storage::disk::Disk;
use crate::storage::verify::{Finding, Remedy, VerifiedLog};
use crate::types::{Offset, TopicPartition};

/// Room for a million partitions.
const MAX_SIZE: usize = 256 << 20;

/// Which checkpoint it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CheckpointKind {
    RecoveryPoint,
    HighWatermark,
    LogStart,
    Cleaner,
}

/// What a checkpoint says.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    pub kind: CheckpointKind,
    pub exists: bool,
    /// Why it cannot be read as a whole; `offsets` has what can be read then.
    pub damage: Option<String>,
    /// It may be what it should, and cannot be read.
    pub is_unreadable: bool,
    pub offsets: BTreeMap<TopicPartition, Offset>,
}

impl CheckpointKind {
    pub const ALL: [CheckpointKind; 4] = [
        CheckpointKind::RecoveryPoint,
        CheckpointKind::HighWatermark,
        CheckpointKind::LogStart,
        CheckpointKind::Cleaner,
    ];

    pub fn file_name(self) -> &'static str {
        match self {
            CheckpointKind::RecoveryPoint => RECOVERY_POINTS,
            CheckpointKind::HighWatermark => HIGH_WATERMARKS,
            CheckpointKind::LogStart => LOG_START_OFFSETS,
            CheckpointKind::Cleaner => CLEANER_OFFSETS,
        }
    }
}

impl Checkpoint {
    pub fn read(disk: &dyn Disk, dir: &Path, kind: CheckpointKind) -> Checkpoint {
        let mut found = Checkpoint { kind, exists: true, damage: None, is_unreadable: false, offsets: BTreeMap::new() };
        let path = dir.join(kind.file_name());
        let bytes = match disk.read_file(&path, MAX_SIZE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Checkpoint { exists: false, ..found },
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Checkpoint { damage: Some(said(error, &path)), ..found };
            }
            Err(error) => {
                let damage = Some(format!("cannot be read: {}", said(error, &path)));
                return Checkpoint { damage, is_unreadable: true, ..found };
            }
        };
        let decoded = match str::from_utf8(&bytes) {
            Ok(text) => decode_offsets(text).map_err(|error| error.to_string()),
            Err(_) => Err(checkpoint::CheckpointError::NotText.to_string()),
        };
        match decoded {
            Ok(offsets) => found.offsets = offsets.into_iter().collect(),
            Err(reason) => {
                found.damage = Some(reason);
                // Each line stands for itself.
                let text = String::from_utf8_lossy(&bytes);
                let lines = text.lines().skip(2).filter_map(|line| decode_offsets(&format!("0\n1\n{line}\n")).ok());
                found.offsets = lines.flatten().collect();
            }
        }
        found
    }

    /// `is_expected`: a broker that was closed has written it.
    pub fn findings(&self, is_expected: bool) -> Option<Finding> {
        let name = self.kind.file_name();
        if let Some(reason) = &self.damage {
            let remedy = if self.is_unreadable { Remedy::None } else { Remedy::Correct };
            return Some(Finding::fault(name, None, reason, remedy));
        }
        let is_always_there = matches!(self.kind, CheckpointKind::RecoveryPoint | CheckpointKind::HighWatermark);
        if self.exists || !is_expected || !is_always_there {
            return None;
        }
        let remedy = if self.kind == CheckpointKind::RecoveryPoint { Remedy::Rebuild } else { Remedy::None };
        Some(Finding::fault(name, None, "missing, though the broker ended in order", remedy))
    }

    /// Whether its offsets lie within the logs.
    pub fn check_bounds(&self, logs: &BTreeMap<&TopicPartition, &VerifiedLog>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (partition, offset) in &self.offsets {
            let Some(log) = logs.get(partition) else { continue };
            let end = log.log_end_offset;
            let (what, remedy) = if offset.0 < 0 {
                (format!("{partition} is at {offset}, which is no offset"), Remedy::Correct)
            } else if *offset <= end || log.first_offset.is_none() || log.is_unreadable {
                continue;
            } else if self.kind == CheckpointKind::LogStart {
                let what = format!(
                    "{partition} starts at {offset}, but ends at {end}: a broker removes all of its records when it starts"
                );
                (what, Remedy::None)
            } else {
                (format!("{partition} is at {offset}, but ends at {end}"), Remedy::Correct)
            };
            findings.push(Finding::fault(self.kind.file_name(), None, what, remedy));
        }
        findings
    }
}
