//! The check of a transactional producer with its coordinator, from its start to the first append (KIP-890).
//!
//! Owns the guard that ties an append to the verification that allowed it, so that a marker written in between is
//! noticed. The transaction layer starts verifications; [`super::ProducerStateManager`] keeps and expires them.

use crate::types::ProducerEpoch;

/// Names one verification. Appending takes the guard of the verification that is still current.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VerificationGuard(pub(super) u64);

/// A verification that is running or done, with no append after it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerificationStateEntry {
    /// When it began.
    pub timestamp_ms: i64,
    pub guard: VerificationGuard,
    /// Lowest first sequence that asked for verification: a higher one must not be appended before it, or the
    /// lower one's retry would be out of order for ever.
    pub lowest_sequence: i32,
    pub epoch: ProducerEpoch,
    /// Whether the client speaks the protocol of `transaction.version` 2.
    pub supports_epoch_bump: bool,
}

impl VerificationStateEntry {
    /// Another batch asks for the same verification.
    pub fn observe(&mut self, sequence: i32, epoch: ProducerEpoch) {
        if epoch == self.epoch {
            self.lowest_sequence = self.lowest_sequence.min(sequence);
        } else if epoch > self.epoch {
            self.epoch = epoch;
            self.lowest_sequence = sequence;
        }
    }
}
