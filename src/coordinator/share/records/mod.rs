//! The records of `__share_group_state` and their bytes, generated from Kafka's schemas.

mod generated;
#[cfg(test)]
mod samples;

pub use crate::metadata::records::codec::DecodeError;
pub use generated::*;

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::samples::one_of_each;
    use super::*;

    #[test]
    fn every_record_round_trips_at_every_version() {
        for seed in 0..50 {
            for (version, record) in one_of_each(&mut StdRng::seed_from_u64(seed)) {
                let (key, value) = record.encode(version).expect("a sample fits its version");
                assert_eq!(ShareRecord::decode(&key, value.as_deref()), Ok((record, version)));
            }
        }
    }
}
