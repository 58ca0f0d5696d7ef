//! What may be done to the files of a log, for the tests of those who must live with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::record::batch::RecordBatch;

/// What is done to a file. Places are counted round and round its length.
#[derive(Clone, Debug)]
pub enum Harm {
    Flip {
        at: usize,
        bits: u8,
    },
    /// A bit of a batch's base offset, which no checksum covers.
    Lie {
        batch: usize,
        bit: u8,
    },
    Cut {
        at: usize,
    },
    Zero {
        at: usize,
        len: usize,
    },
    Twice {
        at: usize,
        len: usize,
    },
    Insert {
        at: usize,
        bytes: Vec<u8>,
    },
    Append {
        bytes: Vec<u8>,
    },
    Remove,
    Rename {
        to: usize,
    },
}

/// Some of it, each with which of the files it is done to.
pub type Harms = Vec<(prop::sample::Index, Harm)>;

pub fn harms() -> impl Strategy<Value = Harms> {
    prop::collection::vec((any::<prop::sample::Index>(), harm()), 1..4)
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = any::<usize>;
    let bytes = || prop::collection::vec(any::<u8>(), 1..100);
    prop_oneof![
        3 => (at(), 1..=255u8).prop_map(|(at, bits)| Harm::Flip { at, bits }),
        3 => (at(), 0..64u8).prop_map(|(batch, bit)| Harm::Lie { batch, bit }),
        1 => at().prop_map(|at| Harm::Cut { at }),
        1 => (at(), 1..5000usize).prop_map(|(at, len)| Harm::Zero { at, len }),
        1 => (at(), 1..5000usize).prop_map(|(at, len)| Harm::Twice { at, len }),
        1 => (at(), bytes()).prop_map(|(at, bytes)| Harm::Insert { at, bytes }),
        1 => bytes().prop_map(|bytes| Harm::Append { bytes }),
        1 => Just(Harm::Remove),
        1 => at().prop_map(|to| Harm::Rename { to }),
    ]
}

/// Does all of it to the files in a directory.
pub fn inflict(dir: &Path, harms: &Harms) {
    for (which, harm) in harms {
        let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        if !files.is_empty() {
            harm.inflict(&files[which.index(files.len())]);
        }
    }
}

impl Harm {
    fn inflict(&self, path: &Path) {
        let mut bytes = fs::read(path).unwrap();
        let len = bytes.len().max(1);
        match self {
            Harm::Flip { at, bits } if !bytes.is_empty() => bytes[at % len] ^= bits,
            Harm::Lie { batch, bit } if path.extension().is_some_and(|extension| extension == "log") => {
                let starts = batches(&bytes).into_keys().collect::<Vec<_>>();
                if let Some(start) = starts.get(batch % starts.len().max(1)) {
                    bytes[start + 7 - usize::from(bit / 8)] ^= 1 << (bit % 8);
                }
            }
            Harm::Flip { .. } | Harm::Lie { .. } => {}
            Harm::Cut { at } => bytes.truncate(at % len),
            Harm::Zero { at, len: zeros } => bytes.iter_mut().skip(at % len).take(*zeros).for_each(|byte| *byte = 0),
            Harm::Twice { at, len: again } => {
                let at = (at % len).min(bytes.len());
                let part: Vec<u8> = bytes.iter().skip(at).take(*again).copied().collect();
                bytes.splice(at..at, part);
            }
            Harm::Insert { at, bytes: more } => {
                let at = (at % len).min(bytes.len());
                bytes.splice(at..at, more.iter().copied());
            }
            Harm::Append { bytes: more } => bytes.extend_from_slice(more),
            Harm::Remove => return fs::remove_file(path).unwrap(),
            Harm::Rename { to } => {
                let name = path.file_name().unwrap().to_str().unwrap();
                if let Some((_, extension)) = name.split_once('.') {
                    fs::rename(path, path.with_file_name(format!("{:020}.{extension}", to % 110))).unwrap();
                }
                return;
            }
        }
        fs::write(path, bytes).unwrap();
    }
}

/// The whole batches in some bytes, wherever they are: where each begins, and all of it but the leader epoch.
pub fn batches(bytes: &[u8]) -> BTreeMap<usize, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut at = 0;
    while at + 61 <= bytes.len() {
        let size = i32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap());
        let end = usize::try_from(size).ok().map(|size| at + 12 + size).filter(|end| *end <= bytes.len());
        let batch = end.and_then(|end| RecordBatch::parse(&bytes[at..end]).ok()).filter(|batch| batch.is_crc_valid());
        match (batch, end) {
            (Some(_), Some(end)) => {
                found.insert(at, [&bytes[at..at + 12], &bytes[at + 16..end]].concat());
                at = end;
            }
            _ => at += 1,
        }
    }
    found
}
