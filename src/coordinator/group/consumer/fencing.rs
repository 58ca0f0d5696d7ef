//! Members that leave, or are removed because they were silent or slow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, info};

use super::member::ConsumerGroupMember;
use super::{ConsumerTimer, migration, new_records};
use crate::coordinator::group::{Group, GroupShard, GroupTimer, Step};
use crate::protocol::ApiError;

/// When a removal that could not be written down is tried again.
const RETRY_BACKOFF: Duration = Duration::from_millis(500);

impl GroupShard {
    /// A timer of a member fired: the member is removed, if it is there and (`in_epoch`) still in that epoch.
    pub(super) fn fence_silent_member(
        &mut self,
        timer: ConsumerTimer,
        group_id: &str,
        member_id: &str,
        in_epoch: Option<i32>,
        reason: &str,
        step: &mut Step<'_>,
    ) {
        let Ok(member) = self.consumer_group(group_id).and_then(|group| group.known_member(member_id)) else { return };
        if in_epoch.is_some_and(|epoch| epoch != member.member_epoch) {
            return;
        }
        let members = [Arc::clone(member)];
        info!(%group_id, %member_id, reason, "member is removed");
        // Its removal cancels it, once it is in the log.
        self.timers.set(GroupTimer::Consumer(timer), step.now + RETRY_BACKOFF);
        if let Err(error) = self.fence_consumer_group_members(group_id, &members, step) {
            debug!(%group_id, %member_id, %error, "member is not removed");
        }
    }

    /// Removes members of a consumer group. If only members of the classic protocol are left, it becomes a classic group.
    pub(super) fn fence_consumer_group_members(
        &mut self,
        group_id: &str,
        members: &[Arc<ConsumerGroupMember>],
        step: &mut Step<'_>,
    ) -> Result<(), ApiError> {
        if members.is_empty() {
            return Ok(());
        }
        if migration::may_downgrade_without(self.consumer_group(group_id)?, members, step) {
            return migration::downgrade_without(self, group_id, members, step);
        }
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else { return Ok(()) };
        let mut records = Vec::new();
        for member in members {
            new_records::remove_member(&mut records, group_id, &member.member_id);
        }
        let mut users: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for regex in members.iter().filter_map(|member| member.regex()) {
            *users.entry(regex).or_default() += 1;
        }
        let unused = users.into_iter().filter(|(regex, users)| group.subscribers_of_regex(regex) == *users);
        let unused: BTreeSet<Arc<str>> = unused.map(|(regex, _)| Arc::clone(regex)).collect();
        records.extend(unused.iter().map(|regex| new_records::regex_tombstone(group_id, regex)));
        let topics = group.subscriptions_without(members, &unused);
        let hash = self.consumer_groups.topics.group_hash(&topics, step.image);
        let epoch = group.group_epoch().wrapping_add(1);
        records.push(new_records::group_epoch(group_id, epoch, hash));
        info!(%group_id, epoch, metadata_hash = hash, "group epoch bumped");
        step.append_all(records);
        Ok(())
    }
}
