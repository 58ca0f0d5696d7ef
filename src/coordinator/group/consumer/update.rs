//! A member's change and what comes of it: subscriptions, the group's epoch, the target assignment, and the member's way
//! to it. What heartbeats and the joins of classic members have in common.
//!
//! Decides on a group as it is; records say what is to change. The group may be one that no record tells of yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::{debug, error, info, warn};

use super::group::{ConsumerGroup, SubscriptionCount, default_assignor};
use super::member::{ConsumerGroupMember, LEAVE_GROUP_STATIC_MEMBER_EPOCH, MemberState};
use super::reconciliation::{OwnedPartitions, Reconciliation};
use super::topics::SubscribedTopics;
use super::{ConsumerTimer, new_records, timeout};
use crate::config::ConsumerGroupConfig;
use crate::coordinator::group::assignor::{Assignor, GroupSpec, MemberSpec, SubscriptionType, TopicPartitions};
use crate::coordinator::group::records::GroupRecord;
use crate::coordinator::group::{GroupTimer, Step};
use crate::coordinator::timers::Timers;
use crate::metadata::image::{ConfigResource, ConfigResourceType};
use crate::protocol::{ApiError, ErrorCode};
use crate::types::{TopicId, TopicName};

/// A group looks at its topics at least this often: Kafka's longest wait, 24 days.
pub(super) const METADATA_REFRESH_INTERVAL_MS: i64 = i32::MAX as i64;

/// See the module.
pub(super) struct Update<'u, 's> {
    pub group: &'u mut ConsumerGroup,
    pub topics: &'u mut SubscribedTopics,
    pub last_image_with_new_topics: i64,
    pub timers: &'u mut Timers<GroupTimer>,
    pub step: &'u Step<'s>,
    pub records: Vec<GroupRecord>,
}

/// The protocol by which a member comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberProtocol {
    Consumer,
    Classic,
}

impl MemberProtocol {
    fn name(self) -> &'static str {
        match self {
            MemberProtocol::Consumer => "consumer",
            MemberProtocol::Classic => "classic",
        }
    }
}

/// What a member is to have, and the group epoch that says so.
pub(super) struct Target {
    pub epoch: i32,
    pub partitions: Arc<TopicPartitions>,
}

impl Update<'_, '_> {
    pub fn fail_if_full(&self, member_id: &str) -> Result<(), ApiError> {
        let max_size = self.step.config.group_consumer_max_size;
        let full = self.group.num_members() >= usize::try_from(max_size).unwrap_or(0);
        if full && (member_id.is_empty() || self.group.member(member_id).is_none()) {
            let message = format!("The consumer group has reached its maximum capacity of {max_size} members.");
            return Err(ApiError::new(ErrorCode::GroupMaxSizeReached, message));
        }
        Ok(())
    }

    /// The dynamic member with this id, a new one if `join`.
    pub fn dynamic_member(
        &self,
        member_id: &Arc<str>,
        member_epoch: i32,
        owned: Option<&OwnedPartitions>,
        join: bool,
        protocol: MemberProtocol,
    ) -> Result<Arc<ConsumerGroupMember>, ApiError> {
        let member = match self.group.member(member_id) {
            None if join => Arc::new(ConsumerGroupMember::new(Arc::clone(member_id))),
            _ => Arc::clone(self.group.known_member(member_id)?),
        };
        if protocol == MemberProtocol::Consumer {
            validate_member_epoch(&member, member_epoch, owned)?;
        }
        if join {
            info!(group_id = %self.group.group_id(), %member_id, protocol = protocol.name(), "member joins");
        }
        Ok(member)
    }

    /// The member with this instance id. If `join`, a new member takes the place of the one that had it.
    pub fn static_member(
        &mut self,
        member_id: &Arc<str>,
        member_epoch: i32,
        instance_id: &str,
        owned: Option<&OwnedPartitions>,
        join: bool,
        protocol: MemberProtocol,
    ) -> Result<Arc<ConsumerGroupMember>, ApiError> {
        let existing = self.group.static_member(instance_id).cloned();
        if !join {
            let existing = existing.ok_or_else(|| unknown_instance(instance_id))?;
            fail_if_fenced(&existing, member_id, instance_id)?;
            if protocol == MemberProtocol::Consumer {
                validate_member_epoch(&existing, member_epoch, owned)?;
            }
            return Ok(existing);
        }
        let Some(existing) = existing else {
            info!(group_id = %self.group.group_id(), %member_id, %instance_id, protocol = protocol.name(),
                "static member joins");
            return Ok(match self.group.member(member_id) {
                Some(member) => Arc::clone(member),
                None => Arc::new(ConsumerGroupMember::new(Arc::clone(member_id))),
            });
        };
        let both_new = protocol == MemberProtocol::Consumer && !existing.uses_classic_protocol();
        if both_new && existing.member_epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH {
            let owner = &existing.member_id;
            let message = format!(
                "Static member {member_id} with instance id {instance_id} cannot join the group because the instance \
                 id is owned by {owner} member."
            );
            return Err(ApiError::new(ErrorCode::UnreleasedInstanceId, message));
        }
        let member = ConsumerGroupMember {
            member_id: Arc::clone(member_id),
            member_epoch: 0,
            previous_member_epoch: 0,
            ..(*existing).clone()
        };
        self.replace_member(&existing, &member);
        info!(group_id = %self.group.group_id(), %member_id, %instance_id, replaced = %existing.member_id,
            protocol = protocol.name(), "static member joins again");
        Ok(Arc::new(member))
    }

    fn replace_member(&mut self, old: &ConsumerGroupMember, new: &ConsumerGroupMember) {
        let group_id = &**self.group.group_id();
        new_records::remove_member(&mut self.records, group_id, &old.member_id);
        self.records.push(new_records::member(group_id, new));
        let target = self.group.target_assignment(&old.member_id).cloned().unwrap_or_default();
        self.records.push(new_records::target_assignment(group_id, &new.member_id, &target));
        self.records.push(new_records::current_assignment(group_id, new));
    }

    /// Writes the member down if it changed. Whether it names other topics than before.
    pub fn write_member(&mut self, old: &ConsumerGroupMember, new: &ConsumerGroupMember) -> bool {
        if new == old {
            return false;
        }
        self.records.push(new_records::member(self.group.group_id(), new));
        new.subscribed_topic_names != old.subscribed_topic_names
    }

    /// Asks for the group's regular expressions to be looked at, if it is time; forgets the one that the member was the
    /// last to use. Says whether the member has another one, and whether it is known what that one matches.
    pub fn update_regexes(
        &mut self,
        old: &ConsumerGroupMember,
        new: &ConsumerGroupMember,
    ) -> Result<RegexChange, ApiError> {
        let group_id = &**self.group.group_id();
        let mut change = RegexChange::None;
        let mut refresh = false;
        if old.subscribed_topic_regex != new.subscribed_topic_regex {
            change = RegexChange::Changed;
            if let Some(regex) = old.regex()
                && self.group.subscribers_of_regex(regex) == 1
            {
                self.records.push(new_records::regex_tombstone(group_id, regex));
            }
            match new.regex() {
                Some(regex) if self.group.subscribers_of_regex(regex) == 0 => {
                    super::regexes::validate(regex)?;
                    refresh = true;
                }
                Some(regex) if self.group.resolved_regex(regex).is_some() => change = RegexChange::ChangedAndResolved,
                Some(_) => {}
                None if old.regex().is_some() => change = RegexChange::ChangedAndResolved,
                None => {}
            }
        }
        if !refresh && self.group.subscribed_regexes().is_empty() {
            return Ok(change);
        }
        let timer = GroupTimer::Consumer(ConsumerTimer::ResolveRegexes(Arc::clone(self.group.group_id())));
        if self.timers.deadline(&timer).is_none() && self.is_regex_refresh_due(old, new, refresh) {
            // After this step, when the member is there: Kafka looks at them beside its requests, too.
            self.timers.set(timer, self.step.now);
        }
        Ok(change)
    }

    fn is_regex_refresh_due(&self, old: &ConsumerGroupMember, new: &ConsumerGroupMember, mut due: bool) -> bool {
        let now_ms = self.step.now_ms;
        let (last_ms, last_version) = self.group.last_regex_refresh().unwrap_or((i64::MIN, 0));
        // What a look found may have been refused: that is not tried again with every heartbeat.
        let last_look_ms =
            self.group.unwritten_regex_look_ms().map_or(last_ms, |unwritten_ms| unwritten_ms.max(last_ms));
        if now_ms <= last_look_ms.saturating_add(super::regexes::MIN_REFRESH_INTERVAL_MS) {
            return false;
        }
        let regexes = self.group.regexes_with(old, new);
        due |= regexes != self.group.resolved_regexes().len();
        due |= last_version < self.last_image_with_new_topics;
        let interval_ms = i64::from(self.step.config.group_consumer_regex_refresh_interval_ms);
        due |= now_ms > last_ms.saturating_add(interval_ms);
        due && regexes > 0
    }

    /// Looks at the topics; the group gets a new epoch if they are others than before, or if `bump` says so.
    pub fn update_subscription_metadata(
        &mut self,
        mut bump: bool,
        old: &ConsumerGroupMember,
        new: &ConsumerGroupMember,
    ) -> (i32, Option<SubscriptionType>) {
        let group_id = Arc::clone(self.group.group_id());
        let (regexes, topics) = self.group.subscriptions_with(old, new);
        let hash = self.topics.group_hash(&topics, self.step.image);
        let subscription_type = self.subscription_type_of(&regexes, &topics, new);
        bump |= hash != self.group.metadata_hash();
        let mut epoch = self.group.group_epoch();
        if bump {
            epoch = epoch.wrapping_add(1);
            self.records.push(new_records::group_epoch(&group_id, epoch, hash));
            info!(%group_id, epoch, metadata_hash = hash, "group epoch bumped");
        }
        self.group.set_metadata_refresh_deadline(self.step.now_ms + METADATA_REFRESH_INTERVAL_MS, epoch);
        if self.group.has_partition_metadata_record() {
            self.records.push(new_records::partition_metadata_tombstone(&group_id));
        }
        (epoch, Some(subscription_type))
    }

    /// Whether all members subscribe to the same, `new` among them.
    fn subscription_type_of(
        &self,
        regexes: &BTreeMap<Arc<str>, usize>,
        topics: &BTreeMap<TopicName, SubscriptionCount>,
        new: &ConsumerGroupMember,
    ) -> SubscriptionType {
        let known = self.group.member(&new.member_id).is_some()
            || new.instance_id.as_ref().is_some_and(|instance_id| self.group.static_member(instance_id).is_some());
        ConsumerGroup::subscription_type_of(regexes, topics, self.group.num_members() + usize::from(!known))
    }

    /// Computes a target assignment for the group's epoch, unless it has one or got its last one a moment ago.
    /// `subscription_type`: that of the group with the new member, if it was looked at.
    pub fn update_target_assignment(
        &mut self,
        group_epoch: i32,
        old: &ConsumerGroupMember,
        new: &ConsumerGroupMember,
        subscription_type: Option<SubscriptionType>,
    ) -> Result<Target, ApiError> {
        let group_id = Arc::clone(self.group.group_id());
        let last = || Target { epoch: self.group.assignment_epoch(), partitions: self.group.target_assignment_of(new) };
        if self.group.assignment_epoch() >= group_epoch {
            return Ok(last());
        }
        let last_ms = self.group.assignment_timestamp_ms();
        let interval_ms = i64::from(group_config(&group_id, self.step).assignment_interval_ms);
        if last_ms != 0 && interval_ms != 0 && self.step.now_ms < last_ms.saturating_add(interval_ms) {
            return Ok(last());
        }
        let assignor = match self.group.preferred_assignor(Some(old), Some(new)) {
            None => default_assignor(self.step.config),
            Some(name) => Assignor::parse(&name).unwrap_or_else(|| {
                warn!(%group_id, assignor = %name, "the assignor that most members want is not known here");
                default_assignor(self.step.config)
            }),
        };
        // A member that joins wanting nothing does not begin an epoch, but may be there when one that another began is assigned. It is
        // counted then, too: Kafka forgets it, takes the group to be all alike, and gives it what it did not ask for.
        let subscription_type = subscription_type.unwrap_or_else(|| {
            let (regexes, topics) = self.group.subscriptions_with(old, new);
            self.subscription_type_of(&regexes, &topics, new)
        });
        let spec = self.group_spec(new, subscription_type);
        let partition_count = |topic: TopicId| self.step.image.topic_by_id(topic).map(|topic| topic.partitions.len());
        let assignment = assignor.assign(&spec, &partition_count).map_err(|reason| {
            error!(%group_id, group_epoch, assignor = assignor.name(), %reason, "no target assignment");
            ApiError::bare(ErrorCode::UnknownServerError)
        })?;
        info!(%group_id, epoch = group_epoch, assignor = assignor.name(), "target assignment computed");
        for (member_id, partitions) in &assignment.members {
            let before = self.group.target_assignment(member_id);
            if before.is_none_or(|before| !Arc::ptr_eq(before, partitions) && before != partitions) {
                self.records.push(new_records::target_assignment(&group_id, member_id, partitions));
            }
        }
        self.records.push(new_records::target_assignment_epoch(&group_id, group_epoch, self.step.now_ms));
        let partitions = assignment.members.get(&new.member_id).cloned().unwrap_or_default();
        Ok(Target { epoch: group_epoch, partitions })
    }

    /// The group with this member as an assignor sees it.
    fn group_spec(&self, new: &ConsumerGroupMember, subscription_type: SubscriptionType) -> GroupSpec {
        let image = self.step.image;
        // Most members of a group subscribe to the same.
        type Subscription<'a> = (&'a BTreeSet<TopicName>, Option<&'a Arc<str>>);
        let mut known: BTreeMap<Subscription<'_>, Arc<BTreeSet<TopicId>>> = BTreeMap::new();
        let replaced = new.instance_id.as_deref().and_then(|instance_id| self.group.static_member(instance_id));
        let others = self.group.members().map(|member| &**member).filter(|member| {
            member.member_id != new.member_id && replaced.is_none_or(|replaced| replaced.member_id != member.member_id)
        });
        let mut members = BTreeMap::new();
        for member in others.chain([new]) {
            let regex = member.regex();
            let subscribed = known.entry((&*member.subscribed_topic_names, regex)).or_insert_with(|| {
                let matched = regex.and_then(|regex| self.group.resolved_regex(regex));
                let matched = matched.into_iter().flat_map(|resolved| resolved.topics.iter());
                let names = member.subscribed_topic_names.iter().chain(matched);
                Arc::new(names.filter_map(|name| image.topic(name)).map(|topic| topic.id).collect())
            });
            let assigned = if member.member_id == new.member_id {
                let before = replaced.map_or(&member.member_id, |replaced| &replaced.member_id);
                self.group.target_assignment(before)
            } else {
                self.group.target_assignment(&member.member_id)
            };
            let spec = MemberSpec {
                instance_id: member.instance_id.clone(),
                subscribed: Arc::clone(subscribed),
                assigned: assigned.cloned().unwrap_or_default(),
            };
            members.insert(Arc::clone(&member.member_id), spec);
        }
        GroupSpec { members, subscription_type }
    }

    /// Takes the member one step towards its target; `None`: it stays as it is.
    pub fn reconcile(
        &mut self,
        member: &ConsumerGroupMember,
        target: &Target,
        subscription_changed: bool,
        owned: Option<&OwnedPartitions>,
    ) -> Result<Option<Arc<ConsumerGroupMember>>, ApiError> {
        if !subscription_changed && member.is_reconciled_to(target.epoch) {
            return Ok(None);
        }
        let group = &*self.group;
        let next = Reconciliation {
            member,
            image: self.step.image,
            assignment_epoch: target.epoch,
            target: &target.partitions,
            subscription_changed,
            resolved_regexes: group.resolved_regexes(),
            is_owned: &|topic, partition| group.partition_epoch(topic, partition).is_some(),
            owned,
        };
        let Some(next) = next.next()? else { return Ok(None) };
        let group_id = group.group_id();
        self.records.push(new_records::current_assignment(group_id, &next));
        debug!(%group_id, member_id = %next.member_id, epoch = next.member_epoch, state = ?next.state,
            "member's assignment changed");
        if !next.uses_classic_protocol() && next.state == MemberState::UnrevokedPartitions {
            set_rebalance_timer(self.timers, group_id, &next, self.step);
        }
        Ok(Some(Arc::new(next)))
    }
}

/// What became of a member's regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegexChange {
    None,
    Changed,
    /// It is known what the new one matches, so the group can be assigned anew.
    ChangedAndResolved,
}

impl RegexChange {
    pub fn is_change(self) -> bool {
        self != RegexChange::None
    }
}

/// A member comes with its own epoch; or with the one before, if the answer that told it of the new one was lost.
fn validate_member_epoch(
    member: &ConsumerGroupMember,
    received: i32,
    owned: Option<&OwnedPartitions>,
) -> Result<(), ApiError> {
    let known = member.member_epoch;
    // 0: it joins (again).
    if received == 0 || received == known {
        return Ok(());
    }
    let relation = if received > known { "greater" } else { "smaller" };
    if received < known && received == member.previous_member_epoch {
        let has = |topic: &TopicId, partition| {
            member.assigned.get(topic).is_some_and(|partitions| partitions.contains_key(partition))
        };
        let is_subset = owned.is_some_and(|owned| {
            owned.iter().all(|(topic, partitions)| {
                member.assigned.contains_key(topic) && partitions.iter().all(|partition| has(topic, partition))
            })
        });
        if is_subset {
            return Ok(());
        }
    }
    let message = format!(
        "The consumer group member has a {relation} member epoch ({received}) than the one known by the group \
         coordinator ({known}). The member must abandon all its partitions and rejoin."
    );
    Err(ApiError::new(ErrorCode::FencedMemberEpoch, message))
}

pub(super) fn unknown_instance(instance_id: &str) -> ApiError {
    ApiError::new(ErrorCode::UnknownMemberId, format!("Instance id {instance_id} is unknown."))
}

/// Another member may have come with the same instance id.
pub(super) fn fail_if_fenced(
    member: &ConsumerGroupMember,
    received_member_id: &str,
    instance_id: &str,
) -> Result<(), ApiError> {
    let owner = &member.member_id;
    if **owner == *received_member_id {
        return Ok(());
    }
    let message =
        format!("Static member {received_member_id} with instance id {instance_id} was fenced by member {owner}.");
    Err(ApiError::new(ErrorCode::FencedInstanceId, message))
}

/// The group's settings in force.
pub(super) fn group_config(group_id: &str, step: &Step<'_>) -> ConsumerGroupConfig {
    let resource = ConfigResource { kind: ConfigResourceType::GROUP, name: group_id.to_owned() };
    ConsumerGroupConfig::of(step.image.configs.of(&resource), step.config)
}

pub(super) fn set_session_timer(
    timers: &mut Timers<GroupTimer>,
    group_id: &Arc<str>,
    member_id: &Arc<str>,
    timeout_ms: i32,
    step: &Step<'_>,
) {
    let timer = ConsumerTimer::Session(Arc::clone(group_id), Arc::clone(member_id));
    timers.set(GroupTimer::Consumer(timer), step.now + timeout(timeout_ms));
}

pub(super) fn set_rebalance_timer(
    timers: &mut Timers<GroupTimer>,
    group_id: &Arc<str>,
    member: &ConsumerGroupMember,
    step: &Step<'_>,
) {
    let timer = ConsumerTimer::Rebalance(Arc::clone(group_id), Arc::clone(&member.member_id), member.member_epoch);
    timers.set(GroupTimer::Consumer(timer), step.now + timeout(member.rebalance_timeout_ms));
}
