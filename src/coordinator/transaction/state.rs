//! The states of a transaction, and which may follow which.
//!
//! | state | how it is reached | from |
//! |---|---|---|
//! | `Empty` | a producer got its id and epoch | itself, `CompleteCommit`, `CompleteAbort` |
//! | `Ongoing` | partitions were added | itself, `Empty`, `CompleteCommit`, `CompleteAbort` |
//! | `PrepareCommit` | the producer commits: decided, markers are being written | `Ongoing` |
//! | `PrepareAbort` | the producer aborts, is fenced or too slow: decided, markers are being written | `Ongoing`; with an epoch for each transaction also `Empty`, `CompleteCommit`, `CompleteAbort` |
//! | `CompleteCommit` | all markers are written | `PrepareCommit` |
//! | `CompleteAbort` | all markers are written | `PrepareAbort` |
//!
//! Kafka has two more which are never in the log: `PrepareEpochFence` and `Dead`, between a decision and its record.
//! Here a decision and its record are one step.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionState {
    Empty,
    Ongoing,
    PrepareCommit,
    PrepareAbort,
    CompleteCommit,
    CompleteAbort,
    Dead,
    PrepareEpochFence,
}

impl TransactionState {
    pub const ALL: [TransactionState; 8] = [
        TransactionState::Empty,
        TransactionState::Ongoing,
        TransactionState::PrepareCommit,
        TransactionState::PrepareAbort,
        TransactionState::CompleteCommit,
        TransactionState::CompleteAbort,
        TransactionState::Dead,
        TransactionState::PrepareEpochFence,
    ];

    /// As records say it.
    pub fn id(self) -> i8 {
        self as i8
    }

    pub fn from_id(id: i8) -> Option<TransactionState> {
        TransactionState::ALL.into_iter().find(|state| state.id() == id)
    }

    /// As Kafka's tools and APIs say it.
    pub fn name(self) -> &'static str {
        match self {
            TransactionState::Empty => "Empty",
            TransactionState::Ongoing => "Ongoing",
            TransactionState::PrepareCommit => "PrepareCommit",
            TransactionState::PrepareAbort => "PrepareAbort",
            TransactionState::CompleteCommit => "CompleteCommit",
            TransactionState::CompleteAbort => "CompleteAbort",
            TransactionState::Dead => "Dead",
            TransactionState::PrepareEpochFence => "PrepareEpochFence",
        }
    }

    pub fn from_name(name: &str) -> Option<TransactionState> {
        TransactionState::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Decided, and its markers are not all written yet.
    pub fn is_prepared(self) -> bool {
        matches!(self, TransactionState::PrepareCommit | TransactionState::PrepareAbort)
    }

    /// Whether a transactional id that is not used in it for long is forgotten.
    pub fn may_expire(self) -> bool {
        matches!(self, TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_kafkas_numbers_and_names() {
        for (id, state) in (0..).zip(TransactionState::ALL) {
            assert_eq!(state.id(), id);
            assert_eq!(TransactionState::from_id(id), Some(state));
            assert_eq!(TransactionState::from_name(state.name()), Some(state));
        }
        assert_eq!(TransactionState::from_id(8), None);
        assert_eq!(TransactionState::from_name("ongoing"), None);
    }
}
