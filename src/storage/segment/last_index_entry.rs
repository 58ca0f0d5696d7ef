//! `LastIndexEntry`: when a segment's indexes get their next entry.
//!
//! As in Kafka a batch gets one if it begins more than `index.interval.bytes` behind the beginning of the last one that did;
//! the first batch of a segment gets none.

use crate::config::TopicConfig;

/// Where the batch begins that the last index entry names; the segment's start if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::storage) struct LastIndexEntry {
    position: u64,
}

impl LastIndexEntry {
    pub fn at(position: u64) -> LastIndexEntry {
        LastIndexEntry { position }
    }

    /// Whether the batch that begins at `position` gets an entry.
    pub fn is_next_due(self, position: u64, config: &TopicConfig) -> bool {
        position.saturating_sub(self.position) > config.index_interval_bytes.max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_more_than_the_interval_apart() {
        let config = |index_interval_bytes| TopicConfig { index_interval_bytes, ..TopicConfig::default() };
        let first = LastIndexEntry::default();
        assert!(!first.is_next_due(0, &config(0)) && first.is_next_due(1, &config(0)));
        let last = LastIndexEntry::at(1000);
        assert!(!last.is_next_due(1100, &config(100)) && last.is_next_due(1101, &config(100)));
        // What was truncated since, and an interval that nobody could mean.
        assert!(!last.is_next_due(900, &config(100)) && last.is_next_due(1001, &config(-1)));
    }
}
