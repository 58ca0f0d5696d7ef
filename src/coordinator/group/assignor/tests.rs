//! What the assignors promise, over the lives of random groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use uuid::Uuid;

use super::*;

const TOPICS: usize = 5;

fn topic(at: usize) -> TopicId {
    TopicId(Uuid::from_u128(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835_u128.wrapping_mul(at as u128 + 1)))
}

fn topic_set(topics: impl IntoIterator<Item = usize>) -> Arc<BTreeSet<TopicId>> {
    Arc::new(topics.into_iter().map(topic).collect())
}

/// A group, the sizes of its topics, and what changes.
#[derive(Clone, Debug)]
struct Group {
    spec: GroupSpec,
    counts: [usize; TOPICS],
}

#[derive(Clone, Debug)]
enum Event {
    Join {
        member: u8,
        is_static: bool,
        topics: BTreeSet<usize>,
    },
    Leave {
        member: prop::sample::Index,
    },
    Subscribe {
        member: prop::sample::Index,
        topics: BTreeSet<usize>,
    },
    Grow {
        topic: usize,
        by: usize,
    },
    /// Nonsense in a target, as a damaged log could hold: partitions that another has, that are none, of topics not subscribed to.
    Damage {
        member: prop::sample::Index,
        topic: usize,
        partition: i32,
    },
}

fn events(damage: u32) -> impl Strategy<Value = Vec<Event>> {
    let topics = || prop::collection::btree_set(0..TOPICS, 0..=TOPICS);
    let event = prop_oneof![
        4 => (any::<u8>(), any::<bool>(), topics())
            .prop_map(|(member, is_static, topics)| Event::Join { member, is_static, topics }),
        2 => any::<prop::sample::Index>().prop_map(|member| Event::Leave { member }),
        1 => (any::<prop::sample::Index>(), topics()).prop_map(|(member, topics)| Event::Subscribe { member, topics }),
        1 => (0..TOPICS, 1..20usize).prop_map(|(topic, by)| Event::Grow { topic, by }),
        damage => (any::<prop::sample::Index>(), 0..TOPICS, -3..40).prop_map(|(member, topic, partition)| Event::Damage {
            member, topic, partition
        }),
    ];
    prop::collection::vec(event, 1..25)
}

impl Group {
    fn new(subscription_type: SubscriptionType) -> Group {
        Group { spec: GroupSpec { members: BTreeMap::new(), subscription_type }, counts: [3, 1, 7, 12, 20] }
    }

    fn member(&mut self, at: prop::sample::Index) -> Option<&mut MemberSpec> {
        let at = at.index(self.spec.members.len().max(1));
        self.spec.members.values_mut().nth(at)
    }

    /// Lets an event happen; in a homogeneous group everyone subscribes to what one does.
    fn apply(&mut self, event: &Event) {
        let mut subscription = None;
        match event {
            Event::Join { member, is_static, topics } => {
                let id: Arc<str> = format!("member-{member}").into();
                let instance_id = is_static.then(|| format!("instance-{member}").into());
                let subscribed = match self.spec.members.values().next() {
                    Some(other) if self.spec.subscription_type == SubscriptionType::Homogeneous => {
                        Arc::clone(&other.subscribed)
                    }
                    _ => topic_set(topics.iter().copied()),
                };
                let spec = MemberSpec { instance_id, subscribed, assigned: Arc::default() };
                self.spec.members.entry(id).or_insert(spec);
            }
            Event::Leave { member } => {
                let at = member.index(self.spec.members.len().max(1));
                if let Some(id) = self.spec.members.keys().nth(at).cloned() {
                    self.spec.members.remove(&id);
                }
            }
            Event::Subscribe { member, topics } => {
                if let Some(member) = self.member(*member) {
                    member.subscribed = topic_set(topics.iter().copied());
                    subscription = Some(Arc::clone(&member.subscribed));
                }
            }
            Event::Grow { topic, by } => self.counts[*topic] += by,
            Event::Damage { member, topic: at, partition } => {
                if let Some(member) = self.member(*member) {
                    let assigned = Arc::make_mut(&mut member.assigned);
                    assigned.entry(topic(*at)).or_default().insert(PartitionId(*partition));
                }
            }
        }
        if let (SubscriptionType::Homogeneous, Some(subscription)) = (self.spec.subscription_type, subscription) {
            self.spec.members.values_mut().for_each(|member| member.subscribed = Arc::clone(&subscription));
        }
    }

    fn assign(&self, assignor: Assignor) -> GroupAssignment {
        let count = |id| (0..TOPICS).find(|at| topic(*at) == id).map(|at| self.counts[at]);
        assignor.assign(&self.spec, &count).expect("all topics exist")
    }

    fn take(&mut self, assignment: &GroupAssignment) {
        for (id, assigned) in &assignment.members {
            self.spec.members.get_mut(id).unwrap().assigned = Arc::clone(assigned);
        }
    }
}

fn size(partitions: &TopicPartitions) -> usize {
    partitions.values().map(BTreeSet::len).sum()
}

/// By how many partitions the members differ.
fn spread<'a>(targets: impl Iterator<Item = &'a Arc<TopicPartitions>> + Clone) -> usize {
    let sizes = targets.map(|target| size(target));
    sizes.clone().max().unwrap_or(0) - sizes.min().unwrap_or(0)
}

/// Every partition of a topic that anyone subscribes to has one owner, which subscribes to it; there is nothing else.
fn check(group: &Group, assignment: &GroupAssignment) -> Result<(), TestCaseError> {
    prop_assert!(assignment.members.keys().eq(group.spec.members.keys()));
    let mut owned = BTreeMap::new();
    for (id, target) in &assignment.members {
        for (topic, partitions) in target.iter() {
            prop_assert!(group.spec.members[id].subscribed.contains(topic), "{id} does not subscribe to it");
            prop_assert!(!partitions.is_empty());
            for &partition in partitions {
                let other = owned.insert((*topic, partition), id);
                prop_assert!(other.is_none(), "{id} and {other:?} have {topic}-{partition}");
            }
        }
    }
    let all: BTreeSet<(TopicId, PartitionId)> = (0..TOPICS)
        .filter(|at| group.spec.members.values().any(|member| member.subscribed.contains(&topic(*at))))
        .flat_map(|at| (0..group.counts[at]).map(move |partition| (topic(at), PartitionId(partition as i32))))
        .collect();
    prop_assert_eq!(owned.into_keys().collect::<BTreeSet<_>>(), all);
    Ok(())
}

/// Partitions that a member had, still may have, and has not: `(id, how many it lost, how many it got)`.
fn moves<'a>(group: &'a Group, assignment: &'a GroupAssignment) -> impl Iterator<Item = (&'a Arc<str>, usize, usize)> {
    group.spec.members.iter().map(|(id, member)| {
        let flat = |target: &TopicPartitions| -> BTreeSet<(TopicId, PartitionId)> {
            target.iter().flat_map(|(topic, of_topic)| of_topic.iter().map(|partition| (*topic, *partition))).collect()
        };
        let (mut old, new) = (flat(&member.assigned), flat(&assignment.members[id]));
        old.retain(|(topic, _)| member.subscribed.contains(topic));
        (id, old.difference(&new).count(), new.difference(&old).count())
    })
}

proptest! {
    #[test]
    fn every_partition_has_one_owner(
        events in events(3),
        assignor in prop::sample::select(Assignor::ALL.to_vec()),
        homogeneous: bool,
    ) {
        let subscription_type = if homogeneous { SubscriptionType::Homogeneous } else { SubscriptionType::Heterogeneous };
        let mut group = Group::new(subscription_type);
        for event in &events {
            group.apply(event);
            let assignment = group.assign(assignor);
            check(&group, &assignment)?;
            prop_assert_eq!(&group.assign(assignor), &assignment, "the same again");
            group.take(&assignment);
        }
    }

    #[test]
    fn uniform_is_balanced_and_sticky_where_subscriptions_are_equal(events in events(0)) {
        let mut group = Group::new(SubscriptionType::Homogeneous);
        for event in &events {
            group.apply(event);
            let assignment = group.assign(Assignor::Uniform);
            prop_assert!(spread(assignment.members.values()) <= 1);
            for (id, lost, got) in moves(&group, &assignment) {
                prop_assert!(lost == 0 || got == 0, "{id} lost {lost} and got {got}");
                let smallest = assignment.members.values().map(|target| size(target)).min().unwrap();
                let kept = size(&assignment.members[id]);
                prop_assert!(lost == 0 || kept >= smallest, "{id} lost {lost}, which leaves it too few");
            }
            group.take(&assignment);
            let again = group.assign(Assignor::Uniform);
            for (id, target) in &again.members {
                prop_assert!(Arc::ptr_eq(target, &group.spec.members[id].assigned), "nothing changed for {id}");
            }
        }
    }

    #[test]
    fn uniform_moves_to_the_new_and_from_the_gone_only(members in 1..12u8, joins: bool) {
        let mut group = Group::new(SubscriptionType::Homogeneous);
        let join = |member| Event::Join { member, is_static: false, topics: (0..TOPICS).collect() };
        (0..members).for_each(|member| group.apply(&join(member)));
        let assignment = group.assign(Assignor::Uniform);
        group.take(&assignment);
        if joins {
            group.apply(&join(200));
        } else {
            group.spec.members.pop_first();
        }
        let assignment = group.assign(Assignor::Uniform);
        for (id, lost, got) in moves(&group, &assignment) {
            if joins {
                prop_assert!(got == 0 || &**id == "member-200", "{id} got {got}");
            } else {
                prop_assert_eq!(lost, 0, "{} lost some", id);
            }
        }
    }

    #[test]
    fn uniform_is_balanced_among_those_who_share_topics_and_nothing_else(
        classes in prop::collection::vec(0..2usize, 1..20),
        rounds in 1..5usize,
    ) {
        // Some members subscribe to the topics 0 and 1, others to the rest.
        let topics = [topic_set(0..2), topic_set(2..TOPICS)];
        let mut group = Group::new(SubscriptionType::Heterogeneous);
        for (at, class) in classes.iter().enumerate() {
            let member = MemberSpec { subscribed: Arc::clone(&topics[*class]), ..MemberSpec::default() };
            group.spec.members.insert(format!("member-{at}").into(), member);
            if at % rounds != 0 {
                continue;
            }
            let assignment = group.assign(Assignor::Uniform);
            check(&group, &assignment)?;
            for class in &topics {
                let of_class = assignment.members.iter().filter(|(id, _)| group.spec.members[*id].subscribed == *class);
                prop_assert!(spread(of_class.map(|(_, target)| target)) <= 1);
            }
            group.take(&assignment);
        }
    }

    #[test]
    fn range_gives_the_same_numbers_of_topics_of_a_size(members in 1..30u8, partitions in 1..40usize) {
        let mut group = Group::new(SubscriptionType::Homogeneous);
        group.counts = [partitions; TOPICS];
        for member in 0..members {
            group.apply(&Event::Join { member, is_static: member % 3 == 0, topics: (0..TOPICS).collect() });
        }
        let assignment = group.assign(Assignor::Range);
        check(&group, &assignment)?;
        for target in assignment.members.values() {
            let numbers: Vec<_> = target.values().collect();
            prop_assert!(numbers.windows(2).all(|pair| pair[0] == pair[1]));
            for of_topic in numbers {
                let (first, last) = (of_topic.first().unwrap().0, of_topic.last().unwrap().0);
                prop_assert_eq!(of_topic.len() as i32, last - first + 1, "a range");
            }
        }
    }
}

#[test]
fn static_members_come_first_in_ranges() {
    let mut group = Group::new(SubscriptionType::Homogeneous);
    for (id, instance_id) in [("a", None), ("b", Some("2")), ("c", Some("1"))] {
        let instance_id = instance_id.map(Arc::from);
        group
            .spec
            .members
            .insert(id.into(), MemberSpec { instance_id, subscribed: topic_set([0]), ..MemberSpec::default() });
    }
    let assignment = group.assign(Assignor::Range);
    let first = |id: &str| assignment.members[id][&topic(0)].first().unwrap().0;
    assert_eq!([first("c"), first("b"), first("a")], [0, 1, 2]);
}

#[test]
fn a_topic_that_does_not_exist_is_an_error() {
    for assignor in Assignor::ALL {
        for subscription_type in [SubscriptionType::Homogeneous, SubscriptionType::Heterogeneous] {
            let mut group = Group::new(subscription_type);
            group.spec.members.insert("a".into(), MemberSpec { subscribed: topic_set([9]), ..MemberSpec::default() });
            let result = assignor.assign(&group.spec, &|_| None);
            assert_eq!(result, Err(AssignError::UnknownTopic(topic(9))));
        }
    }
}

#[test]
fn names_are_kafkas() {
    for assignor in Assignor::ALL {
        assert_eq!(Assignor::parse(assignor.name()), Some(assignor));
    }
    assert_eq!(Assignor::parse("Uniform"), None);
}
