//! `metadata.version`: the feature whose level decides which records, and which versions of them, may be written.

/// A level of `metadata.version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetadataVersion(pub i16);

impl MetadataVersion {
    /// The oldest level that Kafka 4 reads: 3.3-IV3.
    pub const MINIMUM: MetadataVersion = MetadataVersion(7);
    /// What a new cluster is formatted with, and the newest that is served: 4.3-IV0.
    pub const LATEST: MetadataVersion = MetadataVersion(30);

    /// Kafka's name of the level.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 24] = [
            "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0",
            "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2",
            "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0",
        ];
        usize::try_from(self.0 - Self::MINIMUM.0).ok().and_then(|at| NAMES.get(at)).copied().unwrap_or("unknown")
    }

    /// Whether a level above `older`, up to this one, changed what metadata can say.
    pub fn changed_metadata_since(self, older: MetadataVersion) -> bool {
        const CHANGES: [i16; 9] = [7, 8, 11, 13, 14, 15, 17, 23, 30];
        CHANGES.iter().any(|level| (older.0 + 1..=self.0).contains(level))
    }

    pub fn register_broker_record_version(self) -> i16 {
        match self.0 {
            30.. => 4,
            17.. => 3,
            8.. => 2,
            _ => 1,
        }
    }

    pub fn partition_record_version(self) -> i16 {
        match self.0 {
            23.. => 2,
            17.. => 1,
            _ => 0,
        }
    }

    pub fn partition_change_record_version(self) -> i16 {
        self.partition_record_version()
    }

    /// KIP-868: bootstrap records stand in a transaction.
    pub fn has_transactions(self) -> bool {
        self.0 >= 13
    }

    /// KIP-919: RegisterControllerRecord.
    pub fn has_controller_registration(self) -> bool {
        self.0 >= 15
    }

    /// KIP-858: replicas are assigned to log directories.
    pub fn has_directory_assignment(self) -> bool {
        self.0 >= 17
    }

    /// KIP-966: eligible leader replicas are recorded.
    pub fn has_elr(self) -> bool {
        self.0 >= 23
    }

    /// KIP-1066: log directories can be cordoned.
    pub fn has_cordoned_log_dirs(self) -> bool {
        self.0 >= 30
    }

    /// Before 3.6 a shrinking ISR bumped the leader epoch.
    pub fn bumps_leader_epoch_on_isr_shrink(self) -> bool {
        self.0 < 12
    }
}

impl std::fmt::Display for MetadataVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_kafkas_names() {
        assert_eq!(MetadataVersion::MINIMUM.name(), "3.3-IV3");
        assert_eq!(MetadataVersion(20).name(), "3.8-IV0");
        assert_eq!(MetadataVersion::LATEST.name(), "4.3-IV0");
        assert_eq!(MetadataVersion(31).name(), "unknown");
        assert_eq!(MetadataVersion(-3).name(), "unknown");
    }
}
