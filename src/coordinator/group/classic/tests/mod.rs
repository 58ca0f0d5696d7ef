//! Tests of classic groups: transcripts of what happens in one, properties of whatever may happen, and its record.

mod limits;
mod load;
mod properties;
mod transcript;

use self::transcript::check;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ClassicGroup, ClassicGroupState};
use crate::coordinator::group::records::{GroupMetadataValue, GroupRecord};
use crate::coordinator::shard::ReplyTo;

macro_rules! transcripts {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*
    };
}

transcripts! {
    first_generation
    member_id_required
    initial_delay
    rebalance
    rejoin
    protocols
    sessions
    sync
    leave
    static_members
    skip_assignment
    group_size
    heartbeats
    errors
    failed_appends
    reload
}

impl ClassicGroup {
    /// Holds what the group counts against what there is.
    fn check_invariants(&self) {
        let awaiting = self.members().filter(|member| member.is_awaiting_join()).count();
        assert_eq!(self.num_awaiting_join(), awaiting, "members that wait with a join");
        let mut supported: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for protocol in self.members().flat_map(|member| &member.protocols) {
            *supported.entry(protocol.name.clone()).or_default() += 1;
        }
        assert_eq!(self.counted_protocols(), &supported);
        assert_eq!(self.leader_id().is_some(), self.num_members() > 0, "a group that is not empty has a leader");
        assert!(self.leader_id().is_none_or(|leader_id| self.member(leader_id).is_some()), "the leader is a member");
        for member in self.members() {
            assert!(!self.is_pending(&member.member_id), "a member's id is not waited for");
            assert!(!(member.is_awaiting_join() && member.is_awaiting_sync()), "a member waits for one thing");
        }
        assert!(self.pending_sync_members.iter().all(|id| self.member(id).is_some()));
        assert_eq!(self.initial_rebalance.is_some(), self.is_in_initial_rebalance());
        match self.state() {
            ClassicGroupState::Empty => assert_eq!(self.num_members(), 0),
            ClassicGroupState::PreparingRebalance => assert!(!self.members().any(|member| member.is_awaiting_sync())),
            ClassicGroupState::CompletingRebalance => assert!(awaiting == 0 && self.num_members() > 0),
            ClassicGroupState::Stable => {
                assert!(awaiting == 0 && self.num_members() > 0);
                assert!(!self.members().any(|member| member.is_awaiting_sync()));
            }
        }
    }

    fn is_in_initial_rebalance(&self) -> bool {
        self.state() == ClassicGroupState::PreparingRebalance && self.previous_state() == ClassicGroupState::Empty
    }

    /// Callers that wait for an answer.
    fn waiting(&self) -> impl Iterator<Item = ReplyTo> {
        self.members().flat_map(|member| [member.presence.awaiting_join, member.presence.awaiting_sync]).flatten()
    }

    fn record_for_comparison(&self) -> GroupMetadataValue {
        let GroupRecord::GroupMetadata(_, Some(value)) = self.record() else { unreachable!("a group has a value") };
        value
    }
}
