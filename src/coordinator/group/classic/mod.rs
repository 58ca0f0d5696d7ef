//! Classic groups: members meet (JoinGroup), one of them, the leader, shares the work out, and all get their part
//! (SyncGroup); whoever comes, leaves or falls silent has them meet again.
//!
//! | module | holds |
//! |---|---|
//! | [`group`](ClassicGroup), [`member`](ClassicGroupMember), [`state`](ClassicGroupState) | who is in a group, and the states it goes through |
//! | `rebalance` | what leads from one generation to the next, and its timers |
//! | `join`, `sync`, `heartbeat`, `leave` | one request each |
//! | `describe` | what DescribeGroups tells of a group |
//! | `records` | the group as its record has it |
//! | `validation` | what a group allows to other requests |
//!
//! A group changes at once, before its record is written: members wait for answers, which no record says. So a step that
//! writes a group's record says in a [`Continuation`] what happens once that is done, and what if it fails, and the record
//! is replayed by those alone who read the log. A step writes the record of one group at most; with a group that takes
//! the place of an empty one of the other protocol come the tombstones of that one.

mod describe;
mod group;
mod heartbeat;
mod join;
mod leave;
mod member;
mod rebalance;
mod records;
mod state;
mod sync;
mod validation;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tracing::{debug, info};

pub use self::group::ClassicGroup;
pub use self::join::StaticMemberReplacement;
pub use self::member::{ClassicGroupMember, Protocol};
use self::rebalance::GroupStep;
pub use self::state::ClassicGroupState;
pub use self::sync::StoredAssignment;
use super::records::{GroupMetadataKey, GroupMetadataValue};
use super::{Group, GroupShard, GroupTimer, Step};
use crate::coordinator::shard::CoordinatorError;

/// What a timer of a classic group is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClassicTimer {
    /// The join phase of a rebalance ends.
    Join(Arc<str>),
    /// Members that have not asked for their assignment are removed.
    Sync(Arc<str>),
    /// A member (the second id) is lost, or an id that was handed out lapses.
    Session(Arc<str>, Arc<str>),
}

/// What else happens once a step's record is in the log, or is not.
#[derive(Debug)]
pub enum Continuation {
    /// A join created the group, maybe in the place of an empty one.
    GroupCreated {
        group_id: Arc<str>,
        replaced: Option<Group>,
    },
    /// The last member is gone.
    GroupEmptied {
        group_id: Arc<str>,
    },
    AssignmentStored(StoredAssignment),
    StaticMemberReplaced(Box<StaticMemberReplacement>),
}

impl GroupShard {
    pub(super) fn replay_group_metadata(&mut self, key: GroupMetadataKey, value: Option<GroupMetadataValue>) {
        let group_id: Arc<str> = key.group.into();
        match value {
            Some(value) => {
                self.remove_classic_group(&group_id);
                let group = ClassicGroup::from_record(group_id.clone(), value);
                self.groups.insert(group_id, Group::Classic(Box::new(group)));
            }
            None => {
                self.remove_classic_group(&group_id);
            }
        }
    }

    pub(super) fn on_loaded_classic(&mut self, step: &mut Step<'_>) {
        let max_size = usize::try_from(step.config.group_max_size).unwrap_or(0);
        let mut too_large = Vec::new();
        for group in self.groups.values_mut() {
            let Group::Classic(group) = group else { continue };
            debug!(group_id = %group.group_id, members = group.num_members(), "loaded a classic group");
            if group.num_members() > max_size {
                too_large.push(group.group_id.clone());
            }
            GroupStep { group, timers: &mut self.timers, step }.schedule_sessions();
        }
        for group_id in too_large {
            let reason = || format!("there are more members than group.max.size, which is {max_size}");
            self.prepare_classic_rebalance(&group_id, reason, step);
        }
    }

    pub(super) fn on_append_classic(
        &mut self,
        continuation: Continuation,
        appended: Result<(), CoordinatorError>,
        step: &mut Step<'_>,
    ) {
        match continuation {
            Continuation::GroupCreated { group_id, replaced } => self.on_group_created(&group_id, replaced, appended),
            Continuation::GroupEmptied { group_id } => {
                if let (Some(group), Err(error)) = (self.group_step(&group_id, step), appended) {
                    group.warn_not_stored(&error);
                }
            }
            Continuation::AssignmentStored(stored) => {
                if let Some(mut group) = self.group_step(&stored.group_id, step) {
                    group.on_assignment_stored(&stored, appended);
                }
            }
            Continuation::StaticMemberReplaced(replacement) => {
                if let Some(mut group) = self.group_step(replacement.group_id(), step) {
                    group.on_static_member_replaced(*replacement, appended);
                }
            }
        }
    }

    pub(super) fn on_classic_timer(&mut self, timer: ClassicTimer, step: &mut Step<'_>) {
        let (ClassicTimer::Join(group_id) | ClassicTimer::Sync(group_id) | ClassicTimer::Session(group_id, _)) = &timer;
        let Some(mut group) = self.group_step(group_id, step) else { return };
        match &timer {
            ClassicTimer::Join(_) => group.on_join_timer(),
            ClassicTimer::Sync(_) => group.on_sync_timer(),
            ClassicTimer::Session(_, member_id) => group.on_session_timer(member_id),
        }
    }

    fn group_step<'a, 's>(&'a mut self, group_id: &str, step: &'a mut Step<'s>) -> Option<GroupStep<'a, 's>> {
        match self.groups.get_mut(group_id)? {
            Group::Classic(group) => Some(GroupStep { group, timers: &mut self.timers, step }),
            Group::Consumer(_) => None,
        }
    }

    /// Puts a group in the place of what is there under its id, and begins the sessions of its members: for a group that
    /// goes over from the consumer protocol. Its record is the caller's to write.
    pub(super) fn insert_classic_group(&mut self, group: ClassicGroup, step: &mut Step<'_>) {
        let group_id = group.group_id.clone();
        info!(%group_id, members = group.num_members(), "a consumer group becomes a classic group");
        self.groups.insert(group_id.clone(), Group::Classic(Box::new(group)));
        if let Some(mut group) = self.group_step(&group_id, step) {
            group.schedule_sessions();
        }
    }

    /// Has the members of a classic group meet again, if they do not already.
    pub(super) fn prepare_classic_rebalance(
        &mut self,
        group_id: &str,
        reason: impl FnOnce() -> String,
        step: &mut Step<'_>,
    ) {
        if let Some(mut group) = self.group_step(group_id, step)
            && group.group.can_rebalance()
        {
            group.prepare_rebalance(reason);
        }
    }

    /// Answers all that wait in a classic group with an error: the group goes over to the consumer protocol.
    pub(super) fn answer_classic_waiters(
        &mut self,
        group_id: &str,
        error: crate::protocol::ErrorCode,
        step: &mut Step<'_>,
    ) {
        if let Some(mut group) = self.group_step(group_id, step) {
            group.answer_waiters(error);
        }
    }

    /// Takes a classic group out, and its timers.
    pub(super) fn remove_classic_group(&mut self, group_id: &str) -> Option<Box<ClassicGroup>> {
        if !matches!(self.groups.get(group_id), Some(Group::Classic(_))) {
            return None;
        }
        let Some((group_id, Group::Classic(group))) = self.groups.remove_entry(group_id) else { return None };
        self.timers.cancel(&GroupTimer::Classic(ClassicTimer::Join(group_id.clone())));
        self.timers.cancel(&GroupTimer::Classic(ClassicTimer::Sync(group_id.clone())));
        let members = group.members().map(|member| &member.member_id).chain(group.pending_join_members());
        for member_id in members {
            let timer = ClassicTimer::Session(group_id.clone(), member_id.clone());
            self.timers.cancel(&GroupTimer::Classic(timer));
        }
        Some(group)
    }
}
