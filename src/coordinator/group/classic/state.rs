//! The states of a classic group, and what leads from one to the next.
//!
//! | state | JoinGroup | SyncGroup | Heartbeat | LeaveGroup |
//! |---|---|---|---|---|
//! | Empty | a new member begins a rebalance | UNKNOWN_MEMBER_ID | UNKNOWN_MEMBER_ID | UNKNOWN_MEMBER_ID |
//! | PreparingRebalance | waits for the others | REBALANCE_IN_PROGRESS | REBALANCE_IN_PROGRESS | member removed |
//! | CompletingRebalance | unchanged: answered; else a rebalance | waits for the leader's | accepted | a rebalance |
//! | Stable | unchanged follower: answered; else a rebalance | the assignment | accepted | a rebalance |
//!
//! ```text
//!                  first member joins                 all have joined, or time is up
//!        Empty ───────────────────────→ PreparingRebalance ──────────────────────→ CompletingRebalance
//!          ↑                              │  ↑  ↑                                   │    │
//!          └──────── nobody is left ──────┘  │  └─ a join, a leave, a lost member ──┘    │ leader's SyncGroup is stored
//!                                            │                                           ↓
//!                                            └─ a join, a leave, a lost member ──────── Stable
//! ```
//!
//! In a group that was empty the first rebalance waits a while for more members (`group.initial.rebalance.delay.ms`).
//! Kafka has one more, Dead: a group whose shard is gone. Here a group goes with its shard. DescribeGroups says it of
//! groups that are not there.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassicGroupState {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
}

impl ClassicGroupState {
    /// Kafka's name, as clients see it.
    pub const fn name(self) -> &'static str {
        match self {
            ClassicGroupState::Empty => "Empty",
            ClassicGroupState::PreparingRebalance => "PreparingRebalance",
            ClassicGroupState::CompletingRebalance => "CompletingRebalance",
            ClassicGroupState::Stable => "Stable",
        }
    }

    /// Whether a group in this state may go over to `next`.
    pub const fn may_become(self, next: ClassicGroupState) -> bool {
        use ClassicGroupState::*;
        match next {
            Empty | CompletingRebalance => matches!(self, PreparingRebalance),
            PreparingRebalance => matches!(self, Stable | CompletingRebalance | Empty),
            Stable => matches!(self, CompletingRebalance),
        }
    }
}
