//! `OffsetMap`: the last offset of each key in the dirty part of a log, in bounded memory.
//!
//! An entry takes 24 bytes, whatever the key: 16 of a hash and 8 of an offset, as in Kafka's map, so that the same
//! `log.cleaner.dedupe.buffer.size` covers as many keys. Two keys of the same hash would be taken for one, and a record
//! lost; the hash has 128 bits and is keyed at random, so that nobody can make them so. (Kafka's is MD5 without a key.)
//!
//! When the map is full, the cleaner goes as far as it came and leaves the rest to the next time.

use std::hash::{BuildHasher as _, RandomState};

use crate::types::Offset;

/// Two words of hash, and the offset plus one: a free slot is all zeros, memory that the system need not even touch.
type Slot = [u64; 3];

/// For how many keys [`OffsetMap::warm_up`] is to be called at once.
pub const WARM_UP: usize = 256;

/// Stands for a key, in one map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash([u64; 2]);

/// See the module's documentation.
pub struct OffsetMap {
    slots: Vec<Slot>,
    max_slots: usize,
    max_entries: usize,
    entries: usize,
    latest_offset: Offset,
    hashers: [RandomState; 2],
}

impl OffsetMap {
    /// Takes `memory` bytes at most, of which the part `load_factor` is filled at most. Of these there is always room
    /// for a key, or no log could ever be cleaned.
    pub fn new(memory: usize, load_factor: f64) -> OffsetMap {
        let max_slots = (memory / size_of::<Slot>()).max(2);
        let max_entries = (max_slots as f64 * load_factor) as usize;
        OffsetMap {
            slots: Vec::new(),
            max_slots,
            // One slot stays free: a search ends there.
            max_entries: max_entries.clamp(1, max_slots - 1),
            entries: 0,
            latest_offset: Offset(-1),
            hashers: [RandomState::new(), RandomState::new()],
        }
    }

    /// Forgets everything, and makes room for up to `expected` keys, as far as the memory goes.
    pub fn clear_for(&mut self, expected: u64) {
        // Twice as many slots as keys keep searches short.
        let wanted = usize::try_from(expected.saturating_mul(2)).unwrap_or(usize::MAX).clamp(2, self.max_slots);
        self.slots = vec![[0; 3]; wanted];
        self.entries = 0;
        self.latest_offset = Offset(-1);
    }

    /// Forgets everything and gives the memory back.
    pub fn release(&mut self) {
        self.slots = Vec::new();
        self.entries = 0;
    }

    /// What the map knows of a key.
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash([self.hashers[0].hash_one(key), self.hashers[1].hash_one(key)])
    }

    /// Brings the slots of these keys into the processor's caches, all at once: one after the other each of them would be
    /// waited for, and that is most of what a cleaning takes.
    pub fn warm_up(&self, keys: impl Iterator<Item = KeyHash>) {
        if !self.slots.is_empty() {
            std::hint::black_box(keys.fold(0, |sum, key| sum ^ self.slots[self.home(key)][2]));
        }
    }

    /// Notes that a key stands at `offset`. Returns false, and notes nothing, if the map is full.
    pub fn put(&mut self, KeyHash(hash): KeyHash, offset: Offset) -> bool {
        if self.entries >= self.max_entries.min(self.slots.len() - 1) {
            return false;
        }
        let slot = self.find(hash);
        if is_free(&self.slots[slot]) {
            self.entries += 1;
        }
        self.slots[slot] = [hash[0], hash[1], offset.0 as u64 + 1];
        self.latest_offset = offset;
        true
    }

    /// The last offset that was noted for a key.
    pub fn get(&self, KeyHash(hash): KeyHash) -> Option<Offset> {
        if self.slots.is_empty() {
            return None;
        }
        let slot = &self.slots[self.find(hash)];
        (!is_free(slot)).then(|| Offset(slot[2] as i64 - 1))
    }

    /// All offsets up to here were looked at.
    pub fn latest_offset(&self) -> Offset {
        self.latest_offset
    }

    pub fn update_latest_offset(&mut self, offset: Offset) {
        self.latest_offset = offset;
    }

    /// How much of the memory is used, between 0 and 1.
    pub fn utilization(&self) -> f64 {
        self.entries as f64 / self.max_slots as f64
    }

    /// Where a search begins.
    fn home(&self, KeyHash(hash): KeyHash) -> usize {
        ((u128::from(hash[0]) * self.slots.len() as u128) >> 64) as usize
    }

    /// The slot that holds `hash`, or the free one where it belongs.
    fn find(&self, hash: [u64; 2]) -> usize {
        let len = self.slots.len();
        let mut at = self.home(KeyHash(hash));
        loop {
            let slot = &self.slots[at];
            if is_free(slot) || slot[..2] == hash {
                return at;
            }
            at += 1;
            if at == len {
                at = 0;
            }
        }
    }
}

fn is_free(slot: &Slot) -> bool {
    slot[2] == 0
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn keeps_the_last_offset_of_each_key() {
        let mut map = OffsetMap::new(24 * 1000, 0.9);
        map.clear_for(1000);
        let mut expected = HashMap::new();
        for n in 0..3000_i64 {
            let key = (n * n % 701).to_string();
            assert!(map.put(map.hash(key.as_bytes()), Offset(n)));
            expected.insert(key, Offset(n));
        }
        assert_eq!(map.latest_offset(), Offset(2999));
        assert_eq!(map.entries, expected.len());
        for (key, offset) in expected {
            assert_eq!(map.get(map.hash(key.as_bytes())), Some(offset));
        }
        assert_eq!(map.get(map.hash(b"another")), None);
        map.release();
        assert_eq!(map.get(map.hash(b"0")), None);
    }

    #[test]
    fn is_full_at_its_load_factor_whatever_comes() {
        let mut map = OffsetMap::new(24 * 100, 0.9);
        map.clear_for(u64::MAX);
        for n in 0..90_i64 {
            assert!(map.put(map.hash(&n.to_be_bytes()), Offset(n)), "{n}");
        }
        // Kafka does not ask whether the key is known.
        assert!(!map.put(map.hash(&0_i64.to_be_bytes()), Offset(90)));
        assert_eq!(map.latest_offset(), Offset(89));
        assert_eq!(map.get(map.hash(&0_i64.to_be_bytes())), Some(Offset(0)));
        assert!((map.utilization() - 0.9).abs() < 1e-9);
    }

    #[test]
    fn offset_zero_and_the_empty_key_are_no_holes() {
        let mut map = OffsetMap::new(0, 0.0);
        map.clear_for(0);
        assert!(map.put(map.hash(b""), Offset(0)));
        assert_eq!(map.get(map.hash(b"")), Some(Offset(0)));
        assert!(!map.put(map.hash(b"x"), Offset(1)));
    }
}
