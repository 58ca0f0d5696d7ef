//! A sorted map for many maps of few entries, some of which get many.
//!
//! Most groups commit a few partitions of a few topics, and there may be a million such groups: so few entries take just
//! their own room, in a sorted vector. Many are a B-tree.

use std::borrow::Borrow;
use std::collections::{BTreeMap, btree_map};
use std::slice;

/// Up to here the entries are a vector. A map that shrinks again stays a B-tree.
const FEW: usize = 32;

#[derive(Clone, Debug)]
pub enum SmallMap<K, V> {
    Few(Vec<(K, V)>),
    Many(BTreeMap<K, V>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        SmallMap::Few(Vec::new())
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    pub fn is_empty(&self) -> bool {
        match self {
            SmallMap::Few(entries) => entries.is_empty(),
            SmallMap::Many(map) => map.is_empty(),
        }
    }

    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        match self {
            SmallMap::Few(entries) => find(entries, key).ok().map(|at| &entries[at].1),
            SmallMap::Many(map) => map.get(key),
        }
    }

    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        match self {
            SmallMap::Few(entries) => find(entries, key).ok().map(|at| &mut entries[at].1),
            SmallMap::Many(map) => map.get_mut(key),
        }
    }

    /// Gives the value that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self {
            SmallMap::Few(entries) => match find(entries, &key) {
                Ok(at) => Some(std::mem::replace(&mut entries[at].1, value)),
                Err(at) if entries.len() < FEW => {
                    if entries.len() == entries.capacity() {
                        // Half as much again, and not the four that a vector begins with.
                        entries.reserve_exact(entries.len() / 2 + 1);
                    }
                    entries.insert(at, (key, value));
                    None
                }
                Err(_) => {
                    let mut map: BTreeMap<K, V> = std::mem::take(entries).into_iter().collect();
                    map.insert(key, value);
                    *self = SmallMap::Many(map);
                    None
                }
            },
            SmallMap::Many(map) => map.insert(key, value),
        }
    }

    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match self {
            SmallMap::Few(entries) => find(entries, key).ok().map(|at| entries.remove(at).1),
            SmallMap::Many(map) => map.remove(key),
        }
    }

    /// In the order of the keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        match self {
            SmallMap::Few(entries) => Iter::Few(entries.iter()),
            SmallMap::Many(map) => Iter::Many(map.iter()),
        }
    }
}

fn find<K: Borrow<Q>, V, Q: Ord + ?Sized>(entries: &[(K, V)], key: &Q) -> Result<usize, usize> {
    entries.binary_search_by(|(other, _)| other.borrow().cmp(key))
}

pub enum Iter<'a, K, V> {
    Few(slice::Iter<'a, (K, V)>),
    Many(btree_map::Iter<'a, K, V>),
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Iter::Few(entries) => entries.next().map(|(key, value)| (key, value)),
            Iter::Many(entries) => entries.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0..100u8, any::<bool>(), any::<u16>()), 0..400)) {
            let mut map = SmallMap::default();
            let mut model = BTreeMap::new();
            for (key, insert, value) in steps {
                if insert {
                    prop_assert_eq!(map.insert(key, value), model.insert(key, value));
                } else {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                }
                prop_assert_eq!(map.get(&key), model.get(&key));
                prop_assert_eq!(map.is_empty(), model.is_empty());
                if let Some(value) = map.get_mut(&key) {
                    *value ^= 1;
                    *model.get_mut(&key).unwrap() ^= 1;
                }
            }
            prop_assert!(map.iter().eq(model.iter()));
        }
    }

    #[test]
    fn one_entry_takes_the_room_of_one() {
        let mut map = SmallMap::default();
        map.insert(1, 1);
        let SmallMap::Few(entries) = &map else { panic!("one entry is few") };
        assert_eq!(entries.capacity(), 1);
    }
}
