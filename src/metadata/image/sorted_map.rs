//! A sorted map whose copies share what they have in common.
//!
//! Entries stand in sorted chunks of at most [`CHUNK`], each behind an `Arc`, and so does the list of chunks. A clone
//! is one reference count; a change to a clone copies the list of chunks (one pointer per ~`CHUNK` entries) and the
//! one chunk it touches. So an image of 10,000 topics is not copied for each topic that is created. A map that
//! nobody shares is changed in place, which makes replay at start cheap.
//!
//! Invariants: no chunk is empty; keys ascend strictly within chunks and across them.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// Entries of a chunk before it is split in two.
const CHUNK: usize = 64;

type Chunk<K, V> = Vec<(K, V)>;

pub struct SortedMap<K, V> {
    chunks: Arc<Vec<Arc<Chunk<K, V>>>>,
    len: usize,
}

impl<K, V> SortedMap<K, V> {
    pub fn new() -> SortedMap<K, V> {
        SortedMap { chunks: Arc::new(Vec::new()), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Entries in ascending order of keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().map(|(key, value)| (key, value)))
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    pub fn last(&self) -> Option<(&K, &V)> {
        self.chunks.last()?.last().map(|(key, value)| (key, value))
    }

    /// Whether both are the same copy; false says nothing.
    pub fn same(&self, other: &SortedMap<K, V>) -> bool {
        Arc::ptr_eq(&self.chunks, &other.chunks)
    }
}

impl<K: Ord + Clone, V: Clone> SortedMap<K, V> {
    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let chunk = self.chunks.get(self.chunk_of(key)?)?;
        let at = chunk.binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        Some(&chunk[at].1)
    }

    /// Entries from `start` (inclusive) on, in ascending order.
    pub fn range_from<Q>(&self, start: &Q) -> impl Iterator<Item = (&K, &V)>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let first = self.chunk_of(start).unwrap_or(0);
        let skip = self.chunks.get(first).map_or(0, |chunk| chunk.partition_point(|(key, _)| key.borrow() < start));
        self.chunks[first.min(self.chunks.len())..]
            .iter()
            .flat_map(|chunk| chunk.iter())
            .skip(skip)
            .map(|(key, value)| (key, value))
    }

    /// Puts an entry and gives back the one it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some(index) = self.chunk_of(&key) else {
            Arc::make_mut(&mut self.chunks).push(Arc::new(vec![(key, value)]));
            self.len = 1;
            return None;
        };
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(&mut chunks[index]);
        match chunk.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(at) => Some(std::mem::replace(&mut chunk[at].1, value)),
            Err(at) => {
                chunk.insert(at, (key, value));
                self.len += 1;
                if chunk.len() > CHUNK {
                    // Ascending insertion (replay, snapshots) leaves full chunks behind instead of half ones.
                    let split = if at + 1 == chunk.len() { CHUNK } else { CHUNK / 2 };
                    let upper = chunk.split_off(split);
                    chunks.insert(index + 1, Arc::new(upper));
                }
                None
            }
        }
    }

    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let index = self.chunk_of(key)?;
        let at = self.chunks[index].binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(&mut chunks[index]);
        let (_, value) = chunk.remove(at);
        if chunk.is_empty() {
            chunks.remove(index);
        }
        self.len -= 1;
        Some(value)
    }

    /// The value of `key`, to be changed in place; copied first if another map shares it.
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let index = self.chunk_of(key)?;
        let at = self.chunks[index].binary_search_by(|(other, _)| other.borrow().cmp(key)).ok()?;
        let chunks = Arc::make_mut(&mut self.chunks);
        Some(&mut Arc::make_mut(&mut chunks[index])[at].1)
    }

    /// The only chunk in which `key` can stand: the last one that starts at or before it, else the first.
    fn chunk_of<Q>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        if self.chunks.is_empty() {
            return None;
        }
        Some(self.chunks.partition_point(|chunk| chunk[0].0.borrow() <= key).saturating_sub(1))
    }
}

impl<K, V> Clone for SortedMap<K, V> {
    fn clone(&self) -> Self {
        SortedMap { chunks: Arc::clone(&self.chunks), len: self.len }
    }
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        SortedMap::new()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SortedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.same(other) || (self.len == other.len && self.iter().eq(other.iter()))
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SortedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = SortedMap::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_btree_map(steps in prop::collection::vec((0u16..400, any::<bool>()), 0..1500), from in 0u16..400) {
            let mut map = SortedMap::new();
            let mut model = BTreeMap::new();
            for (step, (key, put)) in steps.into_iter().enumerate() {
                if put {
                    prop_assert_eq!(map.insert(key, step), model.insert(key, step));
                } else {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                }
                prop_assert_eq!(map.get(&key), model.get(&key));
            }
            prop_assert_eq!(map.len(), model.len());
            prop_assert!(map.iter().eq(model.iter()));
            prop_assert!(map.range_from(&from).eq(model.range(from..)));
            prop_assert_eq!(map.last(), model.last_key_value());
        }
    }

    #[test]
    fn a_clone_keeps_what_it_had() {
        let mut map: SortedMap<u32, u32> = (0..1000).map(|key| (key * 2, key)).collect();
        let before = map.clone();
        map.insert(501, 7);
        map.remove(&10);
        *map.get_mut(&20).unwrap() = 99;
        assert_eq!(before.len(), 1000);
        assert_eq!(before.get(&501), None);
        assert_eq!(before.get(&10), Some(&5));
        assert_eq!(before.get(&20), Some(&10));
        assert_eq!(map.get(&20), Some(&99));
        assert_ne!(map, before);
        // Only the touched chunks were copied.
        let shared =
            map.chunks.iter().filter(|chunk| before.chunks.iter().any(|other| Arc::ptr_eq(chunk, other))).count();
        assert!(shared >= map.chunks.len() - 4, "{shared} of {}", map.chunks.len());
    }
}
