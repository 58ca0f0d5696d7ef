//! How the files in a partition's directory are named.
//!
//! | name | what |
//! |---|---|
//! | `00000000000000000042.log` | the records of a segment; the number is its base offset, in twenty digits |
//! | `….index`, `….timeindex`, `….txnindex` | its indexes |
//! | `….snapshot` | the producers' state at this offset |
//! | any of them with `.deleted` | to be removed |
//! | with `.cleaned` | compaction was writing it |
//! | with `.swap` | compaction was done with it, and was putting it in the place of what it replaces |
//! | an `.index` or `.timeindex` with `.tmp` | was being built anew, to take the place of one that lies. Kafka leaves it alone |
//!
//! A name that is none of these belongs to somebody else and is left alone.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::types::Offset;

/// The largest offset at which a segment may begin. No log gets there; arithmetic on offsets of a segment that does not
/// begin behind it cannot overflow.
pub const MAX_BASE_OFFSET: Offset = Offset(i64::MAX - (1 << 32));

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    Log,
    OffsetIndex,
    TimeIndex,
    TxnIndex,
    Snapshot,
}

impl FileKind {
    fn extension(self) -> &'static str {
        match self {
            FileKind::Log => "log",
            FileKind::OffsetIndex => "index",
            FileKind::TimeIndex => "timeindex",
            FileKind::TxnIndex => "txnindex",
            FileKind::Snapshot => "snapshot",
        }
    }
}

/// What is to become of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileState {
    InUse,
    Deleted,
    Cleaned,
    Swap,
    /// Only indexes: what else has such a name is somebody else's.
    Temporary,
}

impl FileState {
    fn suffix(self) -> &'static str {
        match self {
            FileState::InUse => "",
            FileState::Deleted => ".deleted",
            FileState::Cleaned => ".cleaned",
            FileState::Swap => ".swap",
            FileState::Temporary => ".tmp",
        }
    }
}

/// The name of a file in a partition's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName {
    pub base_offset: Offset,
    pub kind: FileKind,
    pub state: FileState,
}

impl FileName {
    pub fn new(base_offset: Offset, kind: FileKind) -> FileName {
        FileName { base_offset, kind, state: FileState::InUse }
    }

    pub fn with_state(self, state: FileState) -> FileName {
        FileName { state, ..self }
    }

    /// Whether it has records that are the log's, or will be.
    pub fn holds_records(self) -> bool {
        self.kind == FileKind::Log && matches!(self.state, FileState::InUse | FileState::Swap)
    }

    pub fn parse(name: &str) -> Option<FileName> {
        let states = [FileState::Deleted, FileState::Cleaned, FileState::Swap, FileState::Temporary];
        let (name, state) = states
            .into_iter()
            .find_map(|state| Some((name.strip_suffix(state.suffix())?, state)))
            .unwrap_or((name, FileState::InUse));
        let (digits, extension) = name.split_once('.')?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let base_offset = Some(Offset(digits.parse().ok()?)).filter(|offset| *offset <= MAX_BASE_OFFSET)?;
        let kind = [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::TxnIndex, FileKind::Snapshot]
            .into_iter()
            .find(|kind| kind.extension() == extension)?;
        if state == FileState::Temporary && !matches!(kind, FileKind::OffsetIndex | FileKind::TimeIndex) {
            return None;
        }
        let parsed = FileName { base_offset, kind, state };
        // Only names that this would write: `1.log` is not another name of segment 1.
        (parsed.to_string().strip_suffix(state.suffix()) == Some(name)).then_some(parsed)
    }

    pub fn path_in(&self, dir: &Path) -> PathBuf {
        dir.join(self.to_string())
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}.{}{}", self.base_offset.0, self.kind.extension(), self.state.suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kafkas() {
        let name = FileName::new(Offset(42), FileKind::TimeIndex);
        assert_eq!(name.to_string(), "00000000000000000042.timeindex");
        assert_eq!(FileName::parse("00000000000000000042.timeindex"), Some(name));
        let deleted = FileName::new(MAX_BASE_OFFSET, FileKind::Log).with_state(FileState::Deleted);
        assert_eq!(deleted.to_string(), "09223372032559808511.log.deleted");
        assert_eq!(FileName::parse(&deleted.to_string()), Some(deleted));
        assert_eq!(FileName::parse("00000000000000000042.timeindex.tmp"), Some(name.with_state(FileState::Temporary)));
    }

    #[test]
    fn other_names_are_not_ours() {
        for name in [
            "partition.metadata",
            "leader-epoch-checkpoint",
            "00000000000000000000-0000000001.checkpoint",
            "00000000000000000000-0000000001.checkpoint.deleted",
            "42.log",
            "+0000000000000000042.log",
            "-0000000000000000042.log",
            "99999999999999999999.log",
            "09223372036854775807.log",
            "00000000000000000042.log.deleted.deleted",
            "00000000000000000042.log.bak",
            "00000000000000000042.log.tmp",
            "00000000000000000042.txnindex.tmp",
            "00000000000000000042",
            ".log",
            "",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
