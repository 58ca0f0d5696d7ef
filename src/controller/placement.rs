//! Which brokers get the replicas of new partitions.
//!
//! Kafka's striped placement: racks are visited in turns, and the brokers of a rack in turns, so that leaders and
//! replicas spread over racks first and brokers second. The leader is never a fenced broker; fenced brokers get
//! replicas only when unfenced ones do not suffice. Starting points are random, so that small topics do not all land on
//! the same brokers.

use std::collections::BTreeMap;

use rand::seq::SliceRandom as _;
use rand::{Rng, RngExt as _};

use crate::metadata::image::ClusterImage;
use crate::types::{BrokerId, DirectoryId};

/// Why partitions cannot be placed; the texts are Kafka's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    #[error("Invalid replication factor {0}: the replication factor must be positive.")]
    NonPositive(i16),
    #[error("All brokers are currently fenced, or have all their log directories cordoned.")]
    NoBrokers,
    #[error(
        "The target replication factor of {replicas} cannot be reached because only {brokers} broker(s) are registered \
         or some brokers have all their log directories cordoned."
    )]
    TooFewBrokers { replicas: i16, brokers: usize },
}

/// Brokers of a list, visited in turns from a random start.
struct Ring {
    brokers: Vec<BrokerId>,
    epoch: usize,
    offset: usize,
    index: usize,
}

impl Ring {
    fn new(brokers: Vec<BrokerId>) -> Ring {
        Ring { brokers, epoch: 0, offset: 0, index: 0 }
    }

    fn start_at_random(&mut self, random: &mut dyn Rng) {
        if !self.brokers.is_empty() {
            self.offset = random.random_range(0..self.brokers.len());
        }
    }

    /// The next broker of this epoch (a partition); a new epoch starts one further than the last. `None` after a
    /// whole turn.
    fn next(&mut self, epoch: usize) -> Option<BrokerId> {
        if self.brokers.is_empty() {
            return None;
        }
        if self.epoch != epoch {
            self.epoch = epoch;
            self.index = 0;
            self.offset = (self.offset + 1) % self.brokers.len();
        }
        if self.index >= self.brokers.len() {
            return None;
        }
        let broker = self.brokers[(self.index + self.offset) % self.brokers.len()];
        self.index += 1;
        Some(broker)
    }
}

/// A rack's brokers: the unfenced before the fenced.
struct Rack {
    unfenced: Ring,
    fenced: Ring,
}

impl Rack {
    fn next(&mut self, epoch: usize) -> Option<BrokerId> {
        self.unfenced.next(epoch).or_else(|| self.fenced.next(epoch))
    }
}

/// Places `partitions` partitions of `replicas` replicas each; the first replica of each is its preferred leader.
pub fn place(
    cluster: &ClusterImage,
    partitions: usize,
    replicas: i16,
    random: &mut dyn Rng,
) -> Result<Vec<Vec<BrokerId>>, PlacementError> {
    let usable = cluster.brokers.values().filter(|broker| broker.takes_new_replicas());
    let usable = usable.map(|broker| Candidate { id: broker.id, rack: broker.rack.as_deref(), fenced: broker.fenced });
    place_on(usable, partitions, replicas, random)
}

/// A broker that may get replicas.
pub struct Candidate<'a> {
    pub id: BrokerId,
    pub rack: Option<&'a str>,
    pub fenced: bool,
}

/// The same for any brokers.
pub fn place_on<'a>(
    candidates: impl Iterator<Item = Candidate<'a>>,
    partitions: usize,
    replicas: i16,
    random: &mut dyn Rng,
) -> Result<Vec<Vec<BrokerId>>, PlacementError> {
    let mut by_rack: BTreeMap<Option<&str>, Rack> = BTreeMap::new();
    let mut brokers = 0;
    let mut unfenced = 0;
    for broker in candidates {
        let rack = by_rack
            .entry(broker.rack)
            .or_insert_with(|| Rack { unfenced: Ring::new(Vec::new()), fenced: Ring::new(Vec::new()) });
        brokers += 1;
        if broker.fenced {
            rack.fenced.brokers.push(broker.id);
        } else {
            unfenced += 1;
            rack.unfenced.brokers.push(broker.id);
        }
    }
    if replicas <= 0 {
        return Err(PlacementError::NonPositive(replicas));
    }
    if unfenced == 0 {
        return Err(PlacementError::NoBrokers);
    }
    let count = usize::from(replicas.unsigned_abs());
    if count > brokers {
        return Err(PlacementError::TooFewBrokers { replicas, brokers });
    }
    // Racks that have an unfenced broker come first; else the order of their names.
    let mut racks: Vec<Rack> = by_rack.into_values().collect();
    racks.sort_by_key(|rack| rack.unfenced.brokers.is_empty());
    for rack in &mut racks {
        rack.unfenced.start_at_random(random);
        rack.fenced.start_at_random(random);
    }

    let mut placements = Vec::with_capacity(partitions.min(super::decision::MAX_RECORDS_PER_REQUEST));
    let mut epoch = 0;
    let mut offset = random.random_range(0..racks.len());
    for _ in 0..partitions {
        // After as many partitions as there are brokers the pattern would repeat itself.
        if epoch == unfenced && unfenced > 1 {
            shuffle(&mut racks, random);
            epoch = 0;
        }
        placements.push(place_partition(&mut racks, offset, epoch, count));
        epoch += 1;
        offset = (offset + 1) % racks.len();
    }
    Ok(placements)
}

fn place_partition(racks: &mut [Rack], offset: usize, epoch: usize, count: usize) -> Vec<BrokerId> {
    let mut replicas = Vec::with_capacity(count);
    // The leader's rack is the first from `offset` on that has an unfenced broker left; there is one.
    let rack_count = racks.len();
    let leader_rack = (0..rack_count)
        .map(|step| (offset + step) % rack_count)
        .find(|rack| match racks[*rack].unfenced.next(epoch) {
            Some(leader) => {
                replicas.push(leader);
                true
            }
            None => false,
        })
        .expect("an unfenced broker is registered");
    // The others go round the racks from `offset` on; the first turn passes over the leader's rack.
    let mut rack = offset;
    let mut pass_over = Some(leader_rack);
    while replicas.len() < count {
        if pass_over == Some(rack) {
            pass_over = None;
        } else if let Some(replica) = racks[rack].next(epoch) {
            replicas.push(replica);
        }
        rack = (rack + 1) % racks.len();
    }
    replicas
}

fn shuffle(racks: &mut [Rack], random: &mut dyn Rng) {
    racks.shuffle(random);
    for rack in racks {
        rack.unfenced.brokers.shuffle(random);
        rack.fenced.brokers.shuffle(random);
    }
}

/// The log directory a new replica is assigned to: the broker's only one, else the broker will choose (KIP-858).
pub fn default_directory(cluster: &ClusterImage, broker: BrokerId) -> DirectoryId {
    let Some(registration) = cluster.broker(broker) else { return DirectoryId::UNASSIGNED };
    match registration.directories.as_slice() {
        [] => DirectoryId::MIGRATING,
        [only] => *only,
        _ => DirectoryId::UNASSIGNED,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;
    use crate::metadata::image::BrokerRegistration;

    fn cluster(brokers: &[(i32, Option<&str>, bool)]) -> ClusterImage {
        let mut cluster = ClusterImage::default();
        for (id, rack, fenced) in brokers {
            let broker = BrokerRegistration {
                id: BrokerId(*id),
                epoch: 1,
                incarnation_id: uuid::Uuid::nil(),
                listeners: Vec::new(),
                supported_features: BTreeMap::new(),
                rack: rack.map(str::to_owned),
                fenced: *fenced,
                in_controlled_shutdown: false,
                is_migrating_zk_broker: false,
                directories: vec![DirectoryId::random()],
                cordoned_directories: None,
            };
            cluster.brokers.insert(broker.id, Arc::new(broker));
        }
        cluster
    }

    #[test]
    fn spreads_leaders_evenly_and_replicas_over_racks() {
        let racks = [Some("a"), Some("a"), Some("b"), Some("b"), Some("c"), Some("c")];
        let brokers: Vec<_> = racks.iter().enumerate().map(|(id, rack)| (id as i32, *rack, false)).collect();
        let cluster = cluster(&brokers);
        for seed in 0..50 {
            let placements = place(&cluster, 6, 3, &mut StdRng::seed_from_u64(seed)).unwrap();
            let leaders: BTreeSet<_> = placements.iter().map(|replicas| replicas[0]).collect();
            assert_eq!(leaders.len(), 6, "{placements:?}");
            for replicas in &placements {
                let racks: BTreeSet<_> = replicas.iter().map(|replica| racks[replica.0 as usize]).collect();
                assert_eq!(racks.len(), 3, "{placements:?}");
            }
        }
    }

    #[test]
    fn fenced_brokers_follow_only_when_needed() {
        let cluster = cluster(&[(1, None, false), (2, None, true), (3, None, false)]);
        for seed in 0..50 {
            for replicas in place(&cluster, 5, 2, &mut StdRng::seed_from_u64(seed)).unwrap() {
                assert!(!replicas.contains(&BrokerId(2)), "{replicas:?}");
            }
            for replicas in place(&cluster, 5, 3, &mut StdRng::seed_from_u64(seed)).unwrap() {
                assert_eq!(replicas[2], BrokerId(2), "{replicas:?}");
            }
        }
    }

    #[test]
    fn refuses_what_cannot_be_placed() {
        let random = &mut StdRng::seed_from_u64(1);
        let one = cluster(&[(1, None, false)]);
        assert_eq!(place(&one, 1, 0, random), Err(PlacementError::NonPositive(0)));
        assert_eq!(place(&one, 1, 2, random), Err(PlacementError::TooFewBrokers { replicas: 2, brokers: 1 }));
        assert_eq!(place(&cluster(&[(1, None, true)]), 1, 1, random), Err(PlacementError::NoBrokers));
        assert_eq!(place(&one, 3, 1, random), Ok(vec![vec![BrokerId(1)]; 3]));
    }
}
