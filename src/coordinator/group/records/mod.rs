//! The records of `__consumer_offsets` and their bytes.
//!
//! Structs and codecs are generated from Kafka's schemas, those of share and streams groups too: they are not acted on,
//! but known, so that a log with them can be read.
//!
//! ```text
//! key      int16 kind of record, then the key's fields
//! value    int16 version, then the value's fields; null: a tombstone
//! ```

mod generated;
#[cfg(test)]
mod samples;

pub use crate::metadata::records::codec::DecodeError;
pub use generated::*;

impl GroupRecord {
    /// The version in which Kafka 4.3 writes the value.
    pub fn value_version(&self) -> i16 {
        match self {
            // Version 1 is the only one that holds a time of expiry, which old clients give (retention of OffsetCommit v2..4).
            GroupRecord::OffsetCommit(_, Some(value)) if value.expire_timestamp != -1 => 1,
            GroupRecord::OffsetCommit(..) => 4,
            GroupRecord::GroupMetadata(..) => 3,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::samples::one_of_each;
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_record_round_trips_at_every_version(seed in any::<u64>()) {
            for (version, record) in one_of_each(&mut StdRng::seed_from_u64(seed)) {
                let (key, value) = record.encode(version).expect("a sample fits its version");
                prop_assert_eq!(GroupRecord::decode(&key, value.as_deref()), Ok((record, version)));
                for end in (0..key.len()).step_by(5) {
                    prop_assert!(GroupRecord::decode(&key[..end], value.as_deref()).is_err());
                }
            }
        }

        #[test]
        fn damaged_records_never_panic(
            seed in any::<u64>(),
            hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        ) {
            for (version, record) in one_of_each(&mut StdRng::seed_from_u64(seed)) {
                let (mut key, value) = record.encode(version).expect("a sample fits its version");
                let Some(mut value) = value else { continue };
                for (at, byte) in &hits {
                    let at = at.index(key.len() + value.len());
                    if at < key.len() { key[at] = *byte } else { value[at - key.len()] = *byte }
                }
                let _ = GroupRecord::decode(&key, Some(&value));
            }
        }
    }
}
