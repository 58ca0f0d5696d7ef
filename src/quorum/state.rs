//! The state machine of a voter: an event goes in, what to do comes out. No clock, no disk, no network in it.
//!
//! | in | event | to | actions |
//! |---|---|---|---|
//! | Unattached | started, sole voter | Leader | a new epoch, voted for itself and won: remember it; append LeaderChange |
//! | Leader | records flushed | Leader | the high watermark is what a majority has flushed |
//! | Leader | resign (shutdown) | Resigned | nothing: a leader that restarts starts a new epoch anyway |
//! | any | anything else | same | nothing |
//!
//! Safety rests on three rules that hold for any number of voters. A leader writes only in its own epoch, which is
//! higher than any it has seen in log, snapshot or state file. What it voted is durable before anybody learns of it.
//! Its high watermark does not move before a record of its own epoch is replicated (KIP-595): that is why an epoch
//! starts with a LeaderChange record.

use super::state_file::ElectionState;
use super::voters::VoterSet;
use crate::record::control::LeaderChange;
use crate::types::{BrokerId, LeaderEpoch, Offset};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The node is up, with its log read to the end.
    Started,
    /// This node's own log is durable below the offset.
    Flushed { end_offset: Offset },
    /// The node goes down in an orderly way.
    Resign,
}

/// What to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make this durable before anything else.
    Remember(ElectionState),
    /// Append this control record as the first of the epoch, and flush it.
    AppendLeaderChange { epoch: LeaderEpoch, record: LeaderChange },
    /// Records below the offset are committed.
    AdvanceHighWatermark(Offset),
}

/// Where this node stands in its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Knows no leader.
    Unattached,
    Leader {
        /// Where its LeaderChange record stands.
        epoch_start: Offset,
    },
    /// Was leader and gave up.
    Resigned,
}

/// A voter's state.
#[derive(Debug)]
pub struct QuorumState {
    node_id: BrokerId,
    voters: VoterSet,
    epoch: i32,
    role: Role,
    log_end_offset: Offset,
    high_watermark: Option<Offset>,
}

impl QuorumState {
    /// The state at start: what was remembered, the epoch of the last record in the log or snapshot, and the log's end.
    ///
    /// # Panics
    /// If this node is not the only voter; see [`VoterSet::check_sole_voter`].
    pub fn new(
        node_id: BrokerId,
        voters: VoterSet,
        remembered: Option<&ElectionState>,
        last_epoch: LeaderEpoch,
        log_end_offset: Offset,
    ) -> QuorumState {
        assert_eq!(voters.ids(), [node_id], "only a quorum of one is served");
        let epoch = remembered.map_or(0, |state| state.epoch).max(last_epoch.0).max(0);
        QuorumState { node_id, voters, epoch, role: Role::Unattached, log_end_offset, high_watermark: None }
    }

    pub fn epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.epoch)
    }

    pub fn role(&self) -> Role {
        self.role
    }

    pub fn voters(&self) -> &VoterSet {
        &self.voters
    }

    /// Records below are committed; unknown before the first record of this leader is.
    pub fn high_watermark(&self) -> Option<Offset> {
        self.high_watermark
    }

    /// The voters are on record from here on (`kraft.version` 1).
    ///
    /// # Panics
    /// If they are others: only how they are kept may change.
    pub fn record_voters(&mut self, voters: VoterSet) {
        assert_eq!(voters.ids(), self.voters.ids(), "the voters stay the same");
        self.voters = voters;
    }

    /// Takes an event and says what to do.
    pub fn handle(&mut self, event: Event) -> Vec<Action> {
        match (self.role, event) {
            (Role::Unattached, Event::Started) => self.elect_itself(),
            (Role::Leader { epoch_start }, Event::Flushed { end_offset }) => {
                self.log_end_offset = self.log_end_offset.max(end_offset);
                // The majority of one voter is what that voter has flushed.
                let moves = end_offset > epoch_start && self.high_watermark.is_none_or(|mark| mark < end_offset);
                if !moves {
                    return Vec::new();
                }
                self.high_watermark = Some(end_offset);
                vec![Action::AdvanceHighWatermark(end_offset)]
            }
            (Role::Leader { .. }, Event::Resign) => {
                self.role = Role::Resigned;
                Vec::new()
            }
            (Role::Leader { .. } | Role::Resigned, Event::Started)
            | (Role::Unattached | Role::Resigned, Event::Flushed { .. } | Event::Resign) => Vec::new(),
        }
    }

    /// A vote of one is an election: candidate and leader of the next epoch in one step, of which only the end needs
    /// to be remembered.
    fn elect_itself(&mut self) -> Vec<Action> {
        self.epoch += 1;
        self.role = Role::Leader { epoch_start: self.log_end_offset };
        vec![
            Action::Remember(ElectionState {
                epoch: self.epoch,
                leader: Some(self.node_id),
                voted: None,
                voters: self.voters.ids(),
            }),
            Action::AppendLeaderChange {
                epoch: self.epoch(),
                record: LeaderChange {
                    leader_id: self.node_id,
                    voters: self.voters.ids(),
                    granting_voters: vec![self.node_id],
                },
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::control::VoterEndpoint;

    fn voters() -> VoterSet {
        let endpoint = VoterEndpoint { name: "CONTROLLER".to_owned(), host: "localhost".to_owned(), port: 9093 };
        VoterSet::fixed([(BrokerId(1), endpoint)])
    }

    fn remembered(epoch: i32) -> ElectionState {
        ElectionState { epoch, leader: Some(BrokerId(1)), voted: None, voters: vec![BrokerId(1)] }
    }

    #[test]
    fn the_sole_voter_leads_a_new_epoch() {
        let state = remembered(4);
        let mut quorum = QuorumState::new(BrokerId(1), voters(), Some(&state), LeaderEpoch(3), Offset(100));
        let actions = quorum.handle(Event::Started);
        assert_eq!(
            actions,
            [
                Action::Remember(remembered(5)),
                Action::AppendLeaderChange {
                    epoch: LeaderEpoch(5),
                    record: LeaderChange {
                        leader_id: BrokerId(1),
                        voters: vec![BrokerId(1)],
                        granting_voters: vec![BrokerId(1)]
                    },
                },
            ]
        );
        // What others wrote is committed only with the first record of its own.
        assert_eq!(quorum.handle(Event::Flushed { end_offset: Offset(100) }), []);
        assert_eq!(quorum.high_watermark(), None);
        let moved = quorum.handle(Event::Flushed { end_offset: Offset(101) });
        assert_eq!(moved, [Action::AdvanceHighWatermark(Offset(101))]);
        assert_eq!(quorum.handle(Event::Flushed { end_offset: Offset(101) }), []);

        assert_eq!(quorum.handle(Event::Resign), []);
        assert_eq!(quorum.role(), Role::Resigned);
        assert_eq!(quorum.handle(Event::Flushed { end_offset: Offset(102) }), []);
        assert_eq!(quorum.high_watermark(), Some(Offset(101)));
    }

    #[test]
    fn an_epoch_in_the_log_counts_when_the_file_is_lost_or_older() {
        let new = |state: Option<&ElectionState>, last| {
            let mut quorum = QuorumState::new(BrokerId(1), voters(), state, LeaderEpoch(last), Offset(0));
            quorum.handle(Event::Started);
            quorum.epoch().0
        };
        assert_eq!(new(None, -1), 1);
        assert_eq!(new(None, 7), 8);
        assert_eq!(new(Some(&remembered(2)), 7), 8);
        assert_eq!(new(Some(&remembered(9)), 7), 10);
    }
}
