//! Our assignments against those of Kafka 4.3.1, over the lives of random groups (`tests/golden/assignors`).
//!
//! ```text
//! group ASSIGNOR TOPIC_ID…                 a new group; topics are named by their place here
//! step = COUNT,… EVENT…                    the partitions of each topic, and what happens; `~` for different subscriptions
//!   join MEMBER INSTANCE TOPICS    leave MEMBER    replace MEMBER BY    subscribe MEMBER TOPICS
//! is MEMBER=TOPIC:PARTITIONS;… …           what Kafka assigns
//! crc CRC                                  or the CRC-32C of that line
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use super::{Assignor, GroupAssignment, GroupSpec, SubscriptionType};
use crate::types::{PartitionId, TopicId};

/// `0-2,5` as numbers; `-` and nothing are none.
fn numbers(text: &str) -> BTreeSet<usize> {
    let mut numbers = BTreeSet::new();
    for range in text.split(',').filter(|range| !range.is_empty() && *range != "-") {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        numbers.extend(first.parse::<usize>().unwrap()..=last.parse().unwrap());
    }
    numbers
}

fn ranges(numbers: &BTreeSet<PartitionId>) -> String {
    let mut text = String::new();
    let mut numbers = numbers.iter().map(|number| number.0).peekable();
    while let Some(first) = numbers.next() {
        let mut last = first;
        while numbers.next_if_eq(&(last + 1)).is_some() {
            last += 1;
        }
        let comma = if text.is_empty() { "" } else { "," };
        match first == last {
            true => write!(text, "{comma}{first}").unwrap(),
            false => write!(text, "{comma}{first}-{last}").unwrap(),
        }
    }
    text
}

fn text(assignment: &GroupAssignment, topics: &[TopicId]) -> String {
    let mut members = Vec::new();
    for (member, partitions) in &assignment.members {
        let by_place: BTreeMap<usize, String> = partitions
            .iter()
            .map(|(topic, of_topic)| (topics.iter().position(|other| other == topic).unwrap(), ranges(of_topic)))
            .collect();
        let by_place: Vec<String> = by_place.into_iter().map(|(topic, ranges)| format!("{topic}:{ranges}")).collect();
        members.push(format!("{member}={}", by_place.join(";")));
    }
    members.join(" ")
}

/// A group as the file has it so far.
struct Group {
    assignor: Assignor,
    topics: Vec<TopicId>,
    spec: GroupSpec,
}

impl Group {
    fn new(line: &str) -> Group {
        let (assignor, topics) = line.split_once(' ').unwrap();
        Group {
            assignor: Assignor::parse(assignor).unwrap(),
            topics: topics.split(' ').map(|id| TopicId::parse(id).unwrap()).collect(),
            spec: GroupSpec::default(),
        }
    }

    fn subscription(&self, topics: &str) -> Arc<BTreeSet<TopicId>> {
        Arc::new(numbers(topics).into_iter().map(|topic| self.topics[topic]).collect())
    }

    /// Lets the events of a step happen and assigns.
    fn step(&mut self, line: &str) -> GroupAssignment {
        let mut words = line.split(' ');
        self.spec.subscription_type = match words.next() {
            Some("=") => SubscriptionType::Homogeneous,
            _ => SubscriptionType::Heterogeneous,
        };
        let counts: Vec<usize> = words.next().unwrap().split(',').map(|count| count.parse().unwrap()).collect();
        while let Some(event) = words.next() {
            let member: Arc<str> = words.next().unwrap().into();
            match event {
                "join" => {
                    let instance_id = words.next().filter(|id| *id != "-").map(Arc::from);
                    let subscribed = self.subscription(words.next().unwrap());
                    let joined = super::MemberSpec { instance_id, subscribed, assigned: Arc::default() };
                    self.spec.members.insert(member, joined);
                }
                "leave" => drop(self.spec.members.remove(&member)),
                "replace" => {
                    let replaced = self.spec.members.remove(&member).unwrap();
                    self.spec.members.insert(words.next().unwrap().into(), replaced);
                }
                "subscribe" => {
                    let subscribed = self.subscription(words.next().unwrap());
                    self.spec.members.get_mut(&member).unwrap().subscribed = subscribed;
                }
                _ => panic!("unknown event {event}"),
            }
        }
        let count = |topic| self.topics.iter().position(|id| *id == topic).map(|at| counts[at]);
        let assignment = self.assignor.assign(&self.spec, &count).unwrap();
        for (member, partitions) in &assignment.members {
            self.spec.members.get_mut(member).unwrap().assigned = Arc::clone(partitions);
        }
        assignment
    }
}

#[test]
fn assignments_are_kafkas() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/assignors/groups.txt.zst");
    let file = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let file = String::from_utf8(file).unwrap();
    let mut group = None;
    let mut ours = String::new();
    let mut compared = 0;
    for (number, line) in file.lines().enumerate() {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "group" => group = Some(Group::new(rest)),
            "step" => {
                let group = group.as_mut().unwrap();
                let assignment = group.step(rest);
                ours = text(&assignment, &group.topics);
            }
            "is" => {
                assert_eq!(ours, rest, "line {}", number + 1);
                compared += 1;
            }
            "crc" => {
                assert_eq!(crc32c::crc32c(ours.as_bytes()).to_string(), rest, "line {}", number + 1);
                compared += 1;
            }
            _ => panic!("line {}: {kind}", number + 1),
        }
    }
    assert!(compared > 1000, "the golden file was not read: {compared}");
}
