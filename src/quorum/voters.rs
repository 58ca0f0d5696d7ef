//! The voters of the metadata quorum.
//!
//! With `kraft.version` 0 they are what `controller.quorum.voters` says, on every node. With 1 they are what the last
//! voters record in log or snapshot says, with their directories and endpoints (KIP-853).

use std::fmt;

use crate::record::control::{Voter, VoterEndpoint};
use crate::types::{BrokerId, DirectoryId};

/// The levels of `kraft.version` that this version can work with.
pub const SUPPORTED_KRAFT_VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;

/// Who votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoterSet {
    /// 0: static, 1: dynamic.
    pub kraft_version: i16,
    /// In ascending order of their ids. Static voters have no directory: [`DirectoryId::UNASSIGNED`].
    pub voters: Vec<Voter>,
}

/// Why this node cannot serve with these voters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VotersError {
    #[error("kraft.version {0} is not known")]
    UnknownKraftVersion(i16),
    #[error("the metadata quorum has no voters")]
    NoVoters,
    #[error(
        "the metadata quorum has voters {voters}: a cluster of more than one controller is not served yet, and this \
         node ({node_id}) alone must not decide for it"
    )]
    OtherVoters { voters: String, node_id: BrokerId },
    #[error(
        "voter {node_id} is the directory {voter_directory}, but this node's metadata directory is {directory}: it \
         was replaced or copied"
    )]
    OtherDirectory { node_id: BrokerId, voter_directory: DirectoryId, directory: DirectoryId },
}

impl VoterSet {
    /// Static voters, as configured.
    pub fn fixed(voters: impl IntoIterator<Item = (BrokerId, VoterEndpoint)>) -> VoterSet {
        let voters = voters.into_iter().map(|(id, endpoint)| Voter {
            id,
            directory_id: DirectoryId::UNASSIGNED,
            endpoints: vec![endpoint],
            min_kraft_version: 0,
            max_kraft_version: 0,
        });
        VoterSet { kraft_version: 0, voters: sorted(voters.collect()) }
    }

    /// Dynamic voters, as a record has them.
    pub fn recorded(kraft_version: i16, voters: Vec<Voter>) -> VoterSet {
        VoterSet { kraft_version, voters: sorted(voters) }
    }

    pub fn ids(&self) -> Vec<BrokerId> {
        self.voters.iter().map(|voter| voter.id).collect()
    }

    pub fn is_dynamic(&self) -> bool {
        self.kraft_version > 0
    }

    /// Checks that this node is the only voter.
    pub fn check_sole_voter(&self, node_id: BrokerId, directory: DirectoryId) -> Result<(), VotersError> {
        if !SUPPORTED_KRAFT_VERSIONS.contains(&self.kraft_version) {
            return Err(VotersError::UnknownKraftVersion(self.kraft_version));
        }
        match self.voters.as_slice() {
            [] => Err(VotersError::NoVoters),
            [voter] if voter.id == node_id => {
                if self.is_dynamic() && voter.directory_id != directory {
                    return Err(VotersError::OtherDirectory {
                        node_id,
                        voter_directory: voter.directory_id,
                        directory,
                    });
                }
                Ok(())
            }
            _ => Err(VotersError::OtherVoters { voters: self.to_string(), node_id }),
        }
    }
}

fn sorted(mut voters: Vec<Voter>) -> Vec<Voter> {
    voters.sort_by_key(|voter| voter.id);
    voters
}

impl fmt::Display for VoterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, voter) in self.voters.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            match voter.endpoints.first() {
                Some(endpoint) => write!(f, "{separator}{}@{}:{}", voter.id, endpoint.host, endpoint.port)?,
                None => write!(f, "{separator}{}", voter.id)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(port: u16) -> VoterEndpoint {
        VoterEndpoint { name: "CONTROLLER".to_owned(), host: "host".to_owned(), port }
    }

    #[test]
    fn only_a_quorum_of_this_node_is_served() {
        let directory = DirectoryId::random();
        let alone = VoterSet::fixed([(BrokerId(1), endpoint(9093))]);
        assert_eq!(alone.check_sole_voter(BrokerId(1), directory), Ok(()));
        let other = alone.check_sole_voter(BrokerId(2), directory).unwrap_err().to_string();
        assert!(other.contains("voters 1@host:9093") && other.contains("(2)"), "{other}");
        let three = VoterSet::fixed([3, 1, 2].map(|id| (BrokerId(id), endpoint(9090 + id as u16))));
        assert_eq!(three.to_string(), "1@host:9091,2@host:9092,3@host:9093");
        assert!(matches!(three.check_sole_voter(BrokerId(1), directory), Err(VotersError::OtherVoters { .. })));
        assert_eq!(VoterSet::recorded(1, vec![]).check_sole_voter(BrokerId(1), directory), Err(VotersError::NoVoters));
    }

    #[test]
    fn a_dynamic_voter_is_its_directory() {
        let directory = DirectoryId::random();
        let voter = Voter {
            id: BrokerId(1),
            directory_id: directory,
            endpoints: vec![endpoint(1)],
            min_kraft_version: 0,
            max_kraft_version: 1,
        };
        let voters = VoterSet::recorded(1, vec![voter.clone()]);
        assert_eq!(voters.check_sole_voter(BrokerId(1), directory), Ok(()));
        let moved = voters.check_sole_voter(BrokerId(1), DirectoryId::random());
        assert!(matches!(moved, Err(VotersError::OtherDirectory { .. })));
        let future = VoterSet::recorded(2, vec![voter]);
        assert_eq!(future.check_sole_voter(BrokerId(1), directory), Err(VotersError::UnknownKraftVersion(2)));
    }
}
