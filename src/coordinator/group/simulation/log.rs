//! What the cleaner leaves of a partition of `__consumer_offsets`: the last record of each key.

use std::collections::{BTreeMap, HashMap};

/// A record's bytes; without a value it is a tombstone.
type Record = (Vec<u8>, Option<Vec<u8>>);

/// See the module.
#[derive(Default)]
pub(super) struct CompactedLog {
    by_offset: BTreeMap<u64, Record>,
    offsets: HashMap<Vec<u8>, u64>,
    end: u64,
}

impl CompactedLog {
    pub(super) fn append(&mut self, records: impl Iterator<Item = Record>) {
        for (key, value) in records {
            if let Some(before) = self.offsets.remove(&key) {
                self.by_offset.remove(&before);
            }
            if value.is_some() {
                self.offsets.insert(key.clone(), self.end);
                self.by_offset.insert(self.end, (key, value));
            }
            self.end += 1;
        }
    }

    /// In the order of their offsets.
    pub(super) fn records(&self) -> impl Iterator<Item = Record> {
        self.by_offset.values().cloned()
    }

    pub(super) fn len(&self) -> usize {
        self.by_offset.len()
    }
}
