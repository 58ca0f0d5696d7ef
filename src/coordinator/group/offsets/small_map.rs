//! A sorted map for many maps of few entries, some of which get many.
//!
//! Most groups commit a few partitions of a few topics, and there may be a million such groups; others commit thousands.
//! So entries take little more than their own room: they stand in sorted pieces of bounded length, which are full where
//! entries came in their order. One allocation holds a map of up to [`PIECE`] entries.

use std::borrow::Borrow;

/// The longest piece.
const PIECE: usize = 64;

#[derive(Clone, Debug)]
pub struct SmallMap<K, V> {
    pieces: Pieces<K, V>,
}

type Piece<K, V> = Vec<(K, V)>;

/// No piece but that of an empty map is empty.
#[derive(Clone, Debug)]
enum Pieces<K, V> {
    One(Piece<K, V>),
    /// In the order of their keys.
    Many(Vec<Piece<K, V>>),
}

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        SmallMap { pieces: Pieces::One(Vec::new()) }
    }
}

impl<K: Ord, V> SmallMap<K, V> {
    pub fn is_empty(&self) -> bool {
        match &self.pieces {
            Pieces::One(piece) => piece.is_empty(),
            Pieces::Many(pieces) => pieces.is_empty(),
        }
    }

    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let piece = match &self.pieces {
            Pieces::One(piece) => piece,
            Pieces::Many(pieces) => pieces.get(piece_of(pieces, key))?,
        };
        find(piece, key).ok().map(|at| &piece[at].1)
    }

    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let piece = match &mut self.pieces {
            Pieces::One(piece) => piece,
            Pieces::Many(pieces) => {
                let at = piece_of(pieces, key);
                pieces.get_mut(at)?
            }
        };
        find(piece, key).ok().map(|at| &mut piece[at].1)
    }

    /// Gives the value that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Pieces::One(piece) = &mut self.pieces {
            if piece.len() < PIECE || find(piece, &key).is_ok() {
                return insert_into(piece, key, value);
            }
            let first = std::mem::take(piece);
            self.pieces = Pieces::Many(vec![first]);
        }
        let Pieces::Many(pieces) = &mut self.pieces else { unreachable!("it has just become many") };
        let mut at = piece_of(pieces, &key);
        match pieces.get(at) {
            None => pieces.push(Vec::new()),
            Some(piece) if piece.len() < PIECE || find(piece, &key).is_ok() => {}
            // In order: the full piece stays full.
            Some(piece) if at + 1 == pieces.len() && piece.last().is_some_and(|(last, _)| *last < key) => {
                at += 1;
                pieces.push(Vec::new());
            }
            Some(_) => {
                let upper = pieces[at].split_off(PIECE / 2);
                pieces[at].shrink_to_fit();
                let goes_up = upper[0].0 <= key;
                pieces.insert(at + 1, upper);
                at += usize::from(goes_up);
            }
        }
        insert_into(&mut pieces[at], key, value)
    }

    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match &mut self.pieces {
            Pieces::One(piece) => find(piece, key).ok().map(|at| piece.remove(at).1),
            Pieces::Many(pieces) => {
                let at = piece_of(pieces, key);
                let piece = pieces.get_mut(at)?;
                let (_, value) = find(piece, key).ok().map(|at| piece.remove(at))?;
                if piece.is_empty() {
                    pieces.remove(at);
                }
                Some(value)
            }
        }
    }

    /// In the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let pieces = match &self.pieces {
            Pieces::One(piece) => std::slice::from_ref(piece),
            Pieces::Many(pieces) => pieces,
        };
        pieces.iter().flatten().map(|(key, value)| (key, value))
    }
}

fn insert_into<K: Ord, V>(piece: &mut Piece<K, V>, key: K, value: V) -> Option<V> {
    match find(piece, &key) {
        Ok(at) => Some(std::mem::replace(&mut piece[at].1, value)),
        Err(at) => {
            if piece.len() == piece.capacity() {
                // Half as much again, and not the four that a vector begins with.
                piece.reserve_exact((piece.len() / 2 + 1).min(PIECE - piece.len()));
            }
            piece.insert(at, (key, value));
            None
        }
    }
}

/// Where the key is, or would be inserted.
fn find<K: Borrow<Q>, V, Q: Ord + ?Sized>(piece: &[(K, V)], key: &Q) -> Result<usize, usize> {
    piece.binary_search_by(|(other, _)| other.borrow().cmp(key))
}

/// The piece that the key is in if it is anywhere: the last that does not begin behind it.
fn piece_of<K: Borrow<Q>, V, Q: Ord + ?Sized>(pieces: &[Piece<K, V>], key: &Q) -> usize {
    pieces.partition_point(|piece| piece[0].0.borrow() <= key).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0..300u16, 0..3u8, any::<u16>()), 0..1000)) {
            let mut map = SmallMap::default();
            let mut model = BTreeMap::new();
            for (key, insert, value) in steps {
                if insert > 0 {
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
            for key in model.clone().into_keys() {
                prop_assert_eq!(map.remove(&key), model.remove(&key));
            }
            prop_assert!(map.is_empty() && map.iter().next().is_none());
            prop_assert_eq!(map.insert(1, 1), None);
            prop_assert_eq!(map.get(&1), Some(&1));
        }
    }

    fn capacity(map: &SmallMap<u32, u32>) -> usize {
        match &map.pieces {
            Pieces::One(piece) => piece.capacity(),
            Pieces::Many(pieces) => pieces.iter().map(Vec::capacity).sum(),
        }
    }

    #[test]
    fn entries_take_little_more_than_their_room() {
        let mut map = SmallMap::default();
        map.insert(1, 1);
        assert_eq!(capacity(&map), 1);
        for key in 0..10_000 {
            map.insert(key, key);
        }
        assert!(capacity(&map) < 10_100, "in their order: {}", capacity(&map));
        let mut map = SmallMap::default();
        for key in 0..10_000 {
            map.insert((key * 7919) % 10_007, key);
        }
        assert!(capacity(&map) < 17_000, "in any order: {}", capacity(&map));
    }
}
