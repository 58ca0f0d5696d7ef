//! What a group subscribes to: topics by name, and topics that its regular expressions matched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ConsumerGroup, ResolvedRegularExpression, decrement};
use crate::coordinator::group::assignor::SubscriptionType;
use crate::coordinator::group::consumer::member::ConsumerGroupMember;
use crate::coordinator::group::consumer::topics::SubscribedTopics;
use crate::types::TopicName;

/// How often a topic is subscribed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionCount {
    /// Members that name it.
    pub by_name: usize,
    /// Regular expressions of the group that match it.
    pub by_regex: usize,
}

impl SubscriptionCount {
    fn is_zero(self) -> bool {
        self == SubscriptionCount::default()
    }
}

impl ConsumerGroup {
    /// Whether all members subscribe to the same, once the group is as counted here.
    pub(in crate::coordinator::group::consumer) fn subscription_type_of(
        regexes: &BTreeMap<Arc<str>, usize>,
        topics: &BTreeMap<TopicName, SubscriptionCount>,
        members: usize,
    ) -> SubscriptionType {
        let homogeneous = match regexes.values().next() {
            None => topics.values().all(|count| count.by_name == members),
            // A second expression has other subscribers than the first.
            Some(subscribers) => {
                *subscribers == members && topics.values().all(|count| count.by_regex == 1 && count.by_name == 0)
            }
        };
        if homogeneous { SubscriptionType::Homogeneous } else { SubscriptionType::Heterogeneous }
    }

    /// Subscriptions with a member in the place of another.
    pub(in crate::coordinator::group::consumer) fn subscriptions_with(
        &self,
        old: &ConsumerGroupMember,
        new: &ConsumerGroupMember,
    ) -> (BTreeMap<Arc<str>, usize>, BTreeMap<TopicName, SubscriptionCount>) {
        let mut topics = self.subscribed_topics.clone();
        for name in old.subscribed_topic_names.iter() {
            count(&mut topics, name, |count| count.by_name = count.by_name.saturating_sub(1));
        }
        for name in new.subscribed_topic_names.iter() {
            count(&mut topics, name, |count| count.by_name += 1);
        }
        let mut regexes = self.subscribed_regexes.clone();
        if old.regex() != new.regex() {
            if let Some(regex) = old.regex() {
                if self.subscribers_of_regex(regex) == 1 {
                    self.forget_regex(&mut topics, regex);
                }
                decrement(&mut regexes, regex);
            }
            if let Some(regex) = new.regex() {
                *regexes.entry(Arc::clone(regex)).or_default() += 1;
            }
        }
        (regexes, topics)
    }

    /// How many regular expressions there are with a member in the place of another.
    pub(in crate::coordinator::group::consumer) fn regexes_with(
        &self,
        old: &ConsumerGroupMember,
        new: &ConsumerGroupMember,
    ) -> usize {
        let gone = |regex: &Arc<str>| usize::from(self.subscribers_of_regex(regex) == 1);
        let comes = |regex: &Arc<str>| usize::from(self.subscribers_of_regex(regex) == 0);
        match old.regex() == new.regex() {
            true => self.subscribed_regexes.len(),
            false => self.subscribed_regexes.len() + new.regex().map_or(0, comes) - old.regex().map_or(0, gone),
        }
    }

    /// Subscriptions without some of the members and regular expressions.
    pub(in crate::coordinator::group::consumer) fn subscriptions_without(
        &self,
        members: &[Arc<ConsumerGroupMember>],
        regexes: &BTreeSet<Arc<str>>,
    ) -> BTreeMap<TopicName, SubscriptionCount> {
        let mut topics = self.subscribed_topics.clone();
        for name in members.iter().flat_map(|member| member.subscribed_topic_names.iter()) {
            count(&mut topics, name, |count| count.by_name = count.by_name.saturating_sub(1));
        }
        for regex in regexes {
            self.forget_regex(&mut topics, regex);
        }
        topics
    }

    fn forget_regex(&self, topics: &mut BTreeMap<TopicName, SubscriptionCount>, regex: &str) {
        let Some(resolved) = self.resolved_regexes.get(regex) else { return };
        for name in resolved.topics.iter() {
            count(topics, name, |count| count.by_regex = count.by_regex.saturating_sub(1));
        }
    }

    /// Subscriptions with other matches of the regular expressions.
    pub(in crate::coordinator::group::consumer) fn subscriptions_resolved_to(
        &self,
        resolved: &BTreeMap<Arc<str>, ResolvedRegularExpression>,
    ) -> BTreeMap<TopicName, SubscriptionCount> {
        let mut topics = self.subscribed_topics.clone();
        for (regex, resolved) in resolved {
            self.forget_regex(&mut topics, regex);
            for name in resolved.topics.iter() {
                count(&mut topics, name, |count| count.by_regex += 1);
            }
        }
        topics
    }

    pub(in crate::coordinator::group::consumer) fn update_resolved_regex(
        &mut self,
        regex: Arc<str>,
        resolved: ResolvedRegularExpression,
        topics: &mut SubscribedTopics,
    ) {
        self.unwritten_regex_look_ms = None;
        for name in resolved.topics.iter() {
            self.count_topic(name, topics, |count| count.by_regex += 1);
        }
        if let Some(old) = self.resolved_regexes.insert(regex, resolved) {
            self.uncount_regex(&old, topics);
        }
    }

    pub(in crate::coordinator::group::consumer) fn remove_resolved_regex(
        &mut self,
        regex: &str,
        topics: &mut SubscribedTopics,
    ) {
        if let Some(old) = self.resolved_regexes.remove(regex) {
            self.uncount_regex(&old, topics);
        }
    }

    fn uncount_regex(&mut self, old: &ResolvedRegularExpression, topics: &mut SubscribedTopics) {
        for name in old.topics.iter() {
            self.count_topic(name, topics, |count| count.by_regex = count.by_regex.saturating_sub(1));
        }
    }

    pub(super) fn count_topic(
        &mut self,
        name: &TopicName,
        topics: &mut SubscribedTopics,
        change: impl FnOnce(&mut SubscriptionCount),
    ) {
        let before = self.subscribed_topics.contains_key(name);
        count(&mut self.subscribed_topics, name, change);
        match (before, self.subscribed_topics.contains_key(name)) {
            (false, true) => topics.subscribe(&self.group_id, name),
            (true, false) => topics.unsubscribe(&self.group_id, name),
            _ => {}
        }
    }
}

fn count(
    topics: &mut BTreeMap<TopicName, SubscriptionCount>,
    name: &TopicName,
    change: impl FnOnce(&mut SubscriptionCount),
) {
    let entry = topics.entry(Arc::clone(name)).or_default();
    change(entry);
    if entry.is_zero() {
        topics.remove(name);
    }
}
