//! A classic group: who is in it, what they agree on, and which state it is in.
//!
//! Owns the state and its invariants; what a request or a timer does to it is in the modules beside this one. Members are
//! kept in the order of their ids, so that the same events always end in the same leader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tracing::info;

use super::ClassicTimer;
use super::member::{ClassicGroupMember, Presence, Protocol};
use super::rebalance::duration_ms;
use super::state::ClassicGroupState;
use crate::config::java;
use crate::coordinator::group::consumer_protocol::{PROTOCOL_TYPE, Subscription};
use crate::coordinator::shard::ReplyTo;
use crate::types::TopicName;

/// See the module.
#[derive(Clone, Debug)]
pub struct ClassicGroup {
    pub(super) group_id: Arc<str>,
    state: ClassicGroupState,
    previous_state: ClassicGroupState,
    /// Milliseconds since 1970. `None`: not known, as in groups of old records.
    pub(super) current_state_timestamp: Option<i64>,
    pub(super) protocol_type: Option<String>,
    pub(super) protocol_name: Option<Arc<str>>,
    pub(super) generation_id: i32,
    pub(super) leader_id: Option<Arc<str>>,
    members: BTreeMap<Arc<str>, ClassicGroupMember>,
    /// Instance ids, and which member each is.
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    /// Ids that were handed out and have not joined yet (KIP-394).
    pending_join_members: BTreeSet<Arc<str>>,
    /// Members of this generation whose SyncGroup is still to come.
    pub(super) pending_sync_members: BTreeSet<Arc<str>>,
    /// How many members have a JoinGroup waiting.
    members_awaiting_join: usize,
    /// How many members support each protocol.
    supported_protocols: BTreeMap<Arc<str>, usize>,
    /// `None`: not known.
    subscribed_topics: Option<BTreeSet<TopicName>>,
    pub(super) initial_rebalance: Option<InitialRebalance>,
}

/// How long the first rebalance of an empty group still waits for more members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InitialRebalance {
    /// The wait that is under way.
    pub delay: Duration,
    /// What may be added to it, as long as members come.
    pub remaining: Duration,
    /// Whether one came since the wait began.
    pub new_member_added: bool,
}

impl ClassicGroup {
    /// A group that came to be now.
    pub fn new(group_id: Arc<str>, now_ms: i64) -> ClassicGroup {
        ClassicGroup { current_state_timestamp: Some(now_ms), ..ClassicGroup::simple(group_id) }
    }

    /// A group without members and protocol, made by commits that name no member: a "simple" one.
    pub fn simple(group_id: Arc<str>) -> ClassicGroup {
        ClassicGroup {
            group_id,
            state: ClassicGroupState::Empty,
            previous_state: ClassicGroupState::Empty,
            current_state_timestamp: None,
            protocol_type: None,
            protocol_name: None,
            generation_id: 0,
            leader_id: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_join_members: BTreeSet::new(),
            pending_sync_members: BTreeSet::new(),
            members_awaiting_join: 0,
            supported_protocols: BTreeMap::new(),
            subscribed_topics: None,
            initial_rebalance: None,
        }
    }

    /// A stable group of consumers that spoke the consumer protocol until now (KIP-848). Their assignments are still to
    /// be [set](Self::set_assignment). `None`: they have no protocol in common.
    pub fn of_consumers(
        group_id: Arc<str>,
        generation_id: i32,
        members: impl IntoIterator<Item = ClassicGroupMember>,
        now_ms: i64,
    ) -> Option<ClassicGroup> {
        let mut group = ClassicGroup::new(group_id, now_ms);
        group.state = ClassicGroupState::Stable;
        group.generation_id = generation_id;
        group.protocol_type = Some(PROTOCOL_TYPE.to_owned());
        for member in members {
            group.add(member);
        }
        group.protocol_name = Some(group.select_protocol()?);
        group.compute_subscribed_topics();
        Some(group)
    }

    /// A group as a record has it.
    pub(super) fn loaded(
        group_id: Arc<str>,
        generation_id: i32,
        protocol_type: String,
        protocol_name: Option<String>,
        leader_id: Option<String>,
        current_state_timestamp: Option<i64>,
        members: Vec<ClassicGroupMember>,
    ) -> ClassicGroup {
        let mut group = ClassicGroup::simple(group_id);
        group.state = if members.is_empty() { ClassicGroupState::Empty } else { ClassicGroupState::Stable };
        group.generation_id = generation_id;
        group.protocol_type = Some(protocol_type).filter(|protocol_type| !protocol_type.is_empty());
        group.protocol_name = protocol_name.map(Arc::from);
        group.current_state_timestamp = current_state_timestamp;
        group.leader_id = leader_id.map(Arc::from);
        for member in members {
            group.add(member);
        }
        if group.leader_id.as_ref().is_some_and(|leader_id| !group.members.contains_key(leader_id)) {
            group.leader_id = group.members.keys().next().cloned();
        }
        group.compute_subscribed_topics();
        group
    }

    pub fn group_id(&self) -> &Arc<str> {
        &self.group_id
    }

    pub fn state(&self) -> ClassicGroupState {
        self.state
    }

    pub(super) fn previous_state(&self) -> ClassicGroupState {
        self.previous_state
    }

    /// Kafka's name of the state.
    pub fn state_name(&self) -> &'static str {
        self.state.name()
    }

    /// Whether the state is Empty. Ids may have been handed out all the same.
    pub fn is_empty(&self) -> bool {
        self.state == ClassicGroupState::Empty
    }

    /// Whether the group is there for its offsets alone.
    pub fn is_simple(&self) -> bool {
        self.protocol_type.is_none() && self.is_empty() && self.pending_join_members.is_empty()
    }

    pub fn generation_id(&self) -> i32 {
        self.generation_id
    }

    /// `consumer`, `connect`, …; empty: none.
    pub fn protocol_type(&self) -> &str {
        self.protocol_type.as_deref().unwrap_or_default()
    }

    /// The assignor that the members agreed on.
    pub fn protocol_name(&self) -> Option<&str> {
        self.protocol_name.as_deref()
    }

    pub fn leader_id(&self) -> Option<&str> {
        self.leader_id.as_deref()
    }

    pub fn is_leader(&self, member_id: &str) -> bool {
        self.leader_id.as_deref() == Some(member_id)
    }

    /// Milliseconds since 1970; `None`: not known.
    pub fn current_state_timestamp(&self) -> Option<i64> {
        self.current_state_timestamp
    }

    /// Whether the members are consumers, as far as the protocol type says it.
    pub fn uses_consumer_group_protocol(&self) -> bool {
        self.protocol_type() == PROTOCOL_TYPE
    }

    /// The topics of all members; `None`: not known.
    pub fn subscribed_topics(&self) -> Option<&BTreeSet<TopicName>> {
        self.subscribed_topics.as_ref()
    }

    /// Whether members consume the topic. Consumers whose topics cannot be read count as consuming all.
    pub fn is_subscribed_to_topic(&self, topic: &str) -> bool {
        match &self.subscribed_topics {
            Some(topics) => topics.contains(topic),
            None => self.uses_consumer_group_protocol(),
        }
    }

    /// In the order of their ids.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &ClassicGroupMember> {
        self.members.values()
    }

    pub fn num_members(&self) -> usize {
        self.members.len()
    }

    pub fn member(&self, member_id: &str) -> Option<&ClassicGroupMember> {
        self.members.get(member_id)
    }

    /// For changes to what the group keeps no count of.
    pub(super) fn member_mut(&mut self, member_id: &str) -> Option<&mut ClassicGroupMember> {
        self.members.get_mut(member_id)
    }

    /// The member counts as lost when it is silent for so long, or for its session timeout. Gives the timer that is to be
    /// set for it, unless it has one that fires before.
    pub(super) fn expect_heartbeat(
        &mut self,
        member_id: &str,
        timeout: Option<Duration>,
        now: Duration,
    ) -> Option<(ClassicTimer, Duration)> {
        let member = self.members.get_mut(member_id)?;
        let deadline = now + timeout.unwrap_or_else(|| duration_ms(member.session_timeout_ms));
        member.presence.session_deadline = deadline;
        // One that fires too early is set again then, which is far rarer than heartbeats are.
        if member.presence.timer.is_some_and(|timer| timer <= deadline) {
            return None;
        }
        member.presence.timer = Some(deadline);
        Some((ClassicTimer::Session(self.group_id.clone(), member.member_id.clone()), deadline))
    }

    pub fn static_member_id(&self, group_instance_id: &str) -> Option<&Arc<str>> {
        self.static_members.get(group_instance_id)
    }

    pub fn num_static_members(&self) -> usize {
        self.static_members.len()
    }

    pub(super) fn is_pending(&self, member_id: &str) -> bool {
        self.pending_join_members.contains(member_id)
    }

    pub(super) fn add_pending(&mut self, member_id: Arc<str>) {
        self.pending_join_members.insert(member_id);
    }

    pub(super) fn pending_join_members(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.pending_join_members.iter()
    }

    #[cfg(test)]
    pub fn num_pending_members(&self) -> usize {
        self.pending_join_members.len()
    }

    pub(super) fn num_awaiting_join(&self) -> usize {
        self.members_awaiting_join
    }

    pub(super) fn has_all_members_joined(&self) -> bool {
        self.members.len() == self.members_awaiting_join && self.pending_join_members.is_empty()
    }

    /// The longest of the members' timeouts.
    pub fn rebalance_timeout(&self) -> Duration {
        let longest = self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0);
        Duration::from_millis(u64::try_from(longest).unwrap_or(0))
    }

    /// Takes a member in. The first one makes the protocol type, and leads if nobody does.
    pub(super) fn add(&mut self, member: ClassicGroupMember) {
        let member_id = member.member_id.clone();
        if let Some(instance_id) = &member.group_instance_id {
            self.static_members.insert(instance_id.clone(), member_id.clone());
        }
        if self.members.is_empty() {
            self.protocol_type = Some(member.protocol_type.clone());
        }
        self.leader_id.get_or_insert_with(|| member_id.clone());
        self.pending_join_members.remove(&member_id);
        self.count_protocols(&member.protocols);
        self.members_awaiting_join += usize::from(member.is_awaiting_join());
        if let Some(before) = self.members.insert(member_id.clone(), member) {
            self.uncount(&before);
            self.forget_instance(&before);
        }
    }

    /// The member's instance id leads to it no more, unless it has come to lead to another, or the same anew.
    fn forget_instance(&mut self, member: &ClassicGroupMember) {
        let Some(instance_id) = &member.group_instance_id else { return };
        let is_kept =
            self.members.get(&member.member_id).is_some_and(|now| now.group_instance_id.as_ref() == Some(instance_id));
        if !is_kept && self.static_members.get(instance_id) == Some(&member.member_id) {
            self.static_members.remove(instance_id);
        }
    }

    /// Removes a member or an id that was handed out. Another member leads if the leader goes. Gives the member, whose
    /// callers are to be answered.
    pub(super) fn remove(&mut self, member_id: &str) -> Option<ClassicGroupMember> {
        let removed = self.members.remove(member_id);
        if let Some(removed) = &removed {
            self.uncount(removed);
            self.forget_instance(removed);
        }
        if self.is_leader(member_id) {
            self.leader_id = self.members.keys().next().cloned();
        }
        self.pending_join_members.remove(member_id);
        self.pending_sync_members.remove(member_id);
        removed
    }

    /// Gives a static member another id, and everything else of it; callers of the old one are to be answered. The
    /// member is there.
    pub(super) fn replace_static_member(
        &mut self,
        group_instance_id: &Arc<str>,
        old_member_id: &str,
        new_member_id: Arc<str>,
    ) -> Presence {
        let mut member = self.members.remove(old_member_id).expect("only members are replaced");
        self.members_awaiting_join -= usize::from(member.is_awaiting_join());
        let presence = std::mem::take(&mut member.presence);
        member.member_id = new_member_id.clone();
        if self.is_leader(old_member_id) {
            self.leader_id = Some(new_member_id.clone());
        }
        // Kafka goes on waiting for the old id, and rebalances when its SyncGroup does not come.
        if self.pending_sync_members.remove(old_member_id) {
            self.pending_sync_members.insert(new_member_id.clone());
        }
        self.static_members.insert(group_instance_id.clone(), new_member_id.clone());
        self.members.insert(new_member_id, member);
        presence
    }

    /// What a member says anew when it joins again. The member is there.
    pub(super) fn update_member(
        &mut self,
        member_id: &str,
        protocols: Vec<Protocol>,
        rebalance_timeout_ms: i32,
        session_timeout_ms: i32,
        awaiting_join: Option<ReplyTo>,
    ) {
        let member = self.members.get_mut(member_id).expect("only members are updated");
        self.members_awaiting_join -= usize::from(member.is_awaiting_join());
        self.members_awaiting_join += usize::from(awaiting_join.is_some());
        member.presence.awaiting_join = awaiting_join;
        member.rebalance_timeout_ms = rebalance_timeout_ms;
        member.session_timeout_ms = session_timeout_ms;
        if member.protocols != protocols {
            let before = std::mem::replace(&mut member.protocols, protocols.clone());
            self.uncount_protocols(&before);
            self.count_protocols(&protocols);
        }
    }

    /// The caller that waits with a JoinGroup, who is to be answered now.
    pub(super) fn take_awaiting_join(&mut self, member_id: &str) -> Option<ReplyTo> {
        let waiting = self.members.get_mut(member_id)?.presence.awaiting_join.take()?;
        self.members_awaiting_join -= 1;
        Some(waiting)
    }

    /// Sets what a member was assigned, if it is there.
    pub fn set_assignment(&mut self, member_id: &str, assignment: Bytes) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.assignment = assignment;
        }
    }

    /// Sets what each member was assigned.
    pub(super) fn set_assignments(&mut self, mut of: impl FnMut(&str) -> Bytes) {
        for member in self.members.values_mut() {
            member.assignment = of(&member.member_id);
        }
    }

    fn uncount(&mut self, member: &ClassicGroupMember) {
        self.members_awaiting_join -= usize::from(member.is_awaiting_join());
        self.uncount_protocols(&member.protocols);
    }

    fn count_protocols(&mut self, protocols: &[Protocol]) {
        for protocol in protocols {
            *self.supported_protocols.entry(protocol.name.clone()).or_default() += 1;
        }
    }

    fn uncount_protocols(&mut self, protocols: &[Protocol]) {
        for protocol in protocols {
            if let Some(count) = self.supported_protocols.get_mut(&protocol.name) {
                *count -= 1;
                if *count == 0 {
                    self.supported_protocols.remove(&protocol.name);
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn counted_protocols(&self) -> &BTreeMap<Arc<str>, usize> {
        &self.supported_protocols
    }

    /// Whether one of the protocols could be that of all members.
    pub fn supports_protocols<'a>(&self, protocol_type: &str, mut protocols: impl Iterator<Item = &'a str>) -> bool {
        if self.is_empty() {
            return !protocol_type.is_empty() && protocols.next().is_some();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.any(|name| self.supported_protocols.get(name).copied().unwrap_or(0) == self.members.len())
    }

    /// Has each member vote for the one it likes best of the protocols that all support. `None`: there is none.
    pub(super) fn select_protocol(&self) -> Option<Arc<str>> {
        let supported_by_all = self.supported_protocols.iter().filter(|(_, count)| **count == self.members.len());
        let candidates: BTreeSet<Arc<str>> = supported_by_all.map(|(name, _)| name.clone()).collect();
        let mut votes: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for vote in self.members.values().filter_map(|member| member.vote(&candidates)) {
            *votes.entry(vote).or_default() += 1;
        }
        let most = votes.values().copied().max()?;
        // Of equals Kafka takes the first of its hash table.
        let table = java::grown_table(votes.len());
        let mut winners: Vec<&Arc<str>> =
            votes.into_iter().filter(|(_, count)| *count == most).map(|(name, _)| name).collect();
        java::sort_by_hash(&mut winners, table, |name| java::string_hash(name));
        winners.first().map(|name| Arc::clone(name))
    }

    /// Whether the group may begin a rebalance: none is being prepared.
    pub(super) fn can_rebalance(&self) -> bool {
        self.state.may_become(ClassicGroupState::PreparingRebalance)
    }

    pub(super) fn transition_to(&mut self, state: ClassicGroupState, now_ms: i64) {
        assert!(self.state.may_become(state), "a group that is {:?} cannot become {state:?}", self.state);
        self.previous_state = self.state;
        self.state = state;
        self.current_state_timestamp = Some(now_ms);
    }

    /// Sees to it that the leader is among those who joined. False: nobody did.
    pub(super) fn elect_joined_leader(&mut self) -> bool {
        let Some(leader_id) = &self.leader_id else { return false };
        if self.members.get(leader_id).is_some_and(ClassicGroupMember::is_awaiting_join) {
            return true;
        }
        let Some(joined) = self.members.values().find(|member| member.is_awaiting_join()) else {
            info!(group_id = %self.group_id, leader = %leader_id,
                "the group's leader has not joined in time, nor has any other member: no next generation yet");
            return false;
        };
        info!(group_id = %self.group_id, leader = %leader_id, elected = %joined.member_id,
            "the group's leader has not joined in time: another member leads");
        self.leader_id = Some(joined.member_id.clone());
        true
    }

    /// Begins the next generation, with those who are in the group now.
    pub(super) fn init_next_generation(&mut self, now_ms: i64) {
        self.generation_id = self.generation_id.wrapping_add(1);
        self.protocol_name = self.select_protocol();
        self.compute_subscribed_topics();
        let state = match self.members.is_empty() {
            false => ClassicGroupState::CompletingRebalance,
            true => ClassicGroupState::Empty,
        };
        self.transition_to(state, now_ms);
        self.pending_sync_members.clear();
    }

    fn compute_subscribed_topics(&mut self) {
        self.subscribed_topics = self.read_subscribed_topics();
    }

    fn read_subscribed_topics(&self) -> Option<BTreeSet<TopicName>> {
        if !self.uses_consumer_group_protocol() {
            return None;
        }
        if self.members.is_empty() {
            return Some(BTreeSet::new());
        }
        let protocol_name = self.protocol_name.as_deref()?;
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            match Subscription::decode_topics(&member.metadata(protocol_name)) {
                Ok(of_member) => topics.extend(of_member),
                Err(error) => {
                    info!(group_id = %self.group_id, member_id = %member.member_id, protocol_name, %error,
                        "a consumer's subscription cannot be read: the group's topics are not known");
                    return None;
                }
            }
        }
        Some(topics)
    }
}
