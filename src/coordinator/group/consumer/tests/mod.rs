//! Consumer groups by transcripts: requests go in, and what was answered and written is read as text.
//!
//! ```text
//! answer      "epoch 2: orders 0 1"        member epoch, and the assignment if there is one ("epoch 2: nothing")
//!             "epoch 2"                    no assignment in the answer
//!             "UNKNOWN_MEMBER_ID: …"       an error and its message
//! record      "member m orders"            member metadata, with the topics it names, ~expression, !assignor, #instance
//!             "group 2"                    the group's epoch
//!             "target m orders 0 1"        a member's part of the target assignment; "target 2": its epoch
//!             "current m 2<0 Stable orders 0 1 - orders 2"   epoch, the one before, state, assigned, pending revocation
//!             "x member m"                 a tombstone
//! ```

mod heartbeats;
mod loading;
mod migrations;
mod regexes;
mod rules;
mod simulation;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions as WireTopicPartitions;
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, GroupId, TopicName as WireTopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::validate_consumer_group_heartbeat;
use crate::config::BrokerConfig;
use crate::coordinator::group::records::*;
use crate::coordinator::group::{Group, GroupShard, RequestContext};
use crate::coordinator::shard::harness::Harness;
use crate::metadata::image::{MetadataDelta, MetadataImage};
use crate::metadata::records::{
    ConfigRecord, FeatureLevelRecord, MetadataRecord, PartitionRecord, RegisterBrokerRecord, RemoveTopicRecord,
    TopicRecord,
};
use crate::protocol::ApiError;
use crate::types::{BrokerId, LeaderEpoch, Offset, PartitionId, TopicId};

/// A shard, and the cluster around it.
pub struct Kit {
    pub harness: Harness<GroupShard>,
    next_topic: u128,
}

pub fn config(settings: &[(&str, &str)]) -> BrokerConfig {
    let given = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    BrokerConfig::load(given).expect("settings of a test are valid").config
}

impl Kit {
    /// With topics of so many partitions.
    pub fn new(topics: &[(&str, i32)]) -> Kit {
        Kit::with(topics, &[])
    }

    pub fn with(topics: &[(&str, i32)], settings: &[(&str, &str)]) -> Kit {
        let mut kit = Kit {
            harness: Harness::new(GroupShard::default(), MetadataImage::empty(), config(settings)),
            next_topic: 1,
        };
        kit.change(FeatureLevelRecord { name: "group.version".to_owned(), feature_level: 1 });
        for (name, partitions) in topics {
            kit.create_topic(name, *partitions);
        }
        kit
    }

    /// Has the cluster's metadata say one thing more.
    pub fn change(&mut self, record: impl Into<MetadataRecord>) {
        self.change_all([record.into()]);
    }

    pub fn change_all(&mut self, records: impl IntoIterator<Item = MetadataRecord>) {
        let mut image = self.harness.image.clone();
        for record in records {
            image.apply(&record, &mut MetadataDelta::default()).expect("a test's records are valid");
            image.provenance.offset = Offset(image.provenance.offset.0 + 1);
        }
        self.harness.set_image(image);
    }

    pub fn create_topic(&mut self, name: &str, partitions: i32) {
        let topic_id = TopicId(Uuid::from_u128(self.next_topic));
        self.next_topic += 1;
        let topic = MetadataRecord::from(TopicRecord { name: name.to_owned(), topic_id });
        let partitions = (0..partitions).map(|index| partition_record(topic_id, index).into());
        self.change_all([topic].into_iter().chain(partitions));
    }

    pub fn add_partition(&mut self, name: &str) {
        let topic = self.harness.image.topic(name).expect("a topic");
        let record = partition_record(topic.id, topic.partitions.len() as i32);
        self.change(record);
    }

    pub fn delete_topic(&mut self, name: &str) {
        let topic_id = self.topic_id(name);
        self.change(RemoveTopicRecord { topic_id });
    }

    /// A setting of group `g`.
    pub fn set_group(&mut self, key: &str, value: &str) {
        self.change(ConfigRecord {
            resource_type: 32,
            resource_name: "g".to_owned(),
            name: key.to_owned(),
            value: Some(value.to_owned()),
        });
    }

    pub fn register_broker(&mut self, id: i32, rack: &str) {
        self.change(RegisterBrokerRecord {
            broker_id: BrokerId(id),
            rack: Some(rack.to_owned()),
            ..RegisterBrokerRecord::default()
        });
    }

    pub fn topic_id(&self, name: &str) -> TopicId {
        self.harness.image.topic(name).expect("a topic").id
    }

    /// Lets milliseconds pass.
    pub fn pass(&mut self, ms: u64) {
        self.harness.advance(Duration::from_millis(ms));
    }

    pub fn send(&mut self, beat: Beat) -> Result<ConsumerGroupHeartbeatResponse, ApiError> {
        let request = beat.request(&self.harness.image);
        validate_consumer_group_heartbeat(&request, 1, &self.harness.config)?;
        let answer = self.harness.step(|shard, step| shard.consumer_group_heartbeat(&context(), &request, step));
        // What the step asked for is done before anything else happens.
        self.pass(0);
        answer.unwrap_or_else(|error| Err(ApiError::bare(error.code())))
    }

    /// The answer as text.
    pub fn beat(&mut self, beat: Beat) -> String {
        match self.send(beat) {
            Err(ApiError { code, message: None }) => code.name().to_owned(),
            Err(ApiError { code, message: Some(message) }) => format!("{}: {message}", code.name()),
            Ok(response) => {
                let mut text = format!("epoch {}", response.member_epoch);
                if let Some(assignment) = response.assignment {
                    let topics = assignment.topic_partitions;
                    let topics = topics.into_iter().map(|topic| (TopicId(topic.topic_id), topic.partitions));
                    write!(text, ": {}", partitions(topics, &self.harness.image)).unwrap();
                }
                text
            }
        }
    }

    /// What was written since the last time, as text.
    pub fn written(&mut self) -> Vec<String> {
        let records = self.harness.take_records();
        records.iter().map(|record| self.record(record)).collect()
    }

    pub fn group(&self) -> &super::ConsumerGroup {
        match self.harness.shard.groups.get("g") {
            Some(Group::Consumer(group)) => group,
            other => panic!("g is no consumer group: {other:?}"),
        }
    }

    pub fn state(&self) -> String {
        match self.harness.shard.groups.get("g") {
            None => "none".to_owned(),
            Some(group) => format!("{} {}", group.group_type().name(), group.state_name()),
        }
    }

    /// Members and what they own, in the words of ConsumerGroupDescribe.
    pub fn describe(&self) -> Vec<String> {
        let described = self.group().as_described_group(&self.harness.image, &self.harness.config);
        let members = described.members.into_iter().map(|member| {
            let topics = member.assignment.topic_partitions.into_iter();
            let topics = topics.map(|topic| (TopicId(topic.topic_id), topic.partitions));
            let partitions = partitions(topics, &self.harness.image);
            format!("{} {}: {partitions}", &*member.member_id, member.member_epoch)
        });
        members.collect()
    }

    fn record(&self, record: &GroupRecord) -> String {
        let image = &self.harness.image;
        let tombstone = |there: bool| if there { "" } else { "x " };
        match record {
            GroupRecord::ConsumerGroupMetadata(_, Some(value)) => format!("group {}", value.epoch),
            GroupRecord::ConsumerGroupMetadata(_, None) => "x group".to_owned(),
            GroupRecord::ConsumerGroupPartitionMetadata(_, value) => {
                format!("{}partitions", tombstone(value.is_some()))
            }
            GroupRecord::ConsumerGroupMemberMetadata(key, None) => format!("x member {}", key.member_id),
            GroupRecord::ConsumerGroupMemberMetadata(key, Some(value)) => {
                let mut text = format!("member {}", key.member_id);
                for name in &value.subscribed_topic_names {
                    write!(text, " {name}").unwrap();
                }
                if let Some(regex) = value.subscribed_topic_regex.as_deref().filter(|regex| !regex.is_empty()) {
                    write!(text, " ~{regex}").unwrap();
                }
                if let Some(assignor) = &value.server_assignor {
                    write!(text, " !{assignor}").unwrap();
                }
                if let Some(instance_id) = &value.instance_id {
                    write!(text, " #{instance_id}").unwrap();
                }
                if value.classic_member_metadata.is_some() {
                    text += " (classic)";
                }
                text
            }
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(_, Some(value)) => {
                format!("target {}", value.assignment_epoch)
            }
            GroupRecord::ConsumerGroupTargetAssignmentMetadata(_, None) => "x target".to_owned(),
            GroupRecord::ConsumerGroupTargetAssignmentMember(key, None) => format!("x target {}", key.member_id),
            GroupRecord::ConsumerGroupTargetAssignmentMember(key, Some(value)) => {
                let topics = value.topic_partitions.iter().map(|topic| (topic.topic_id, topic.partitions.clone()));
                format!("target {} {}", key.member_id, partitions(topics, image))
            }
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, None) => format!("x current {}", key.member_id),
            GroupRecord::ConsumerGroupCurrentMemberAssignment(key, Some(value)) => {
                let of = |topics: &[ConsumerGroupCurrentMemberAssignmentTopicPartitions]| {
                    partitions(topics.iter().map(|topic| (topic.topic_id, topic.partitions.clone())), image)
                };
                let state = super::MemberState::from_code(value.state);
                let mut text = format!(
                    "current {} {}<{} {state:?} {}",
                    key.member_id,
                    value.member_epoch,
                    value.previous_member_epoch,
                    of(&value.assigned_partitions)
                );
                if !value.partitions_pending_revocation.is_empty() {
                    write!(text, " - {}", of(&value.partitions_pending_revocation)).unwrap();
                }
                text
            }
            GroupRecord::ConsumerGroupRegularExpression(key, None) => format!("x regex {}", key.regular_expression),
            GroupRecord::ConsumerGroupRegularExpression(key, Some(value)) => {
                format!("regex {} = {}", key.regular_expression, value.topics.join(" "))
            }
            GroupRecord::GroupMetadata(key, value) => {
                let members = value.as_ref().map_or(0, |value| value.members.len());
                format!("{}classic {} of {members}", tombstone(value.is_some()), key.group)
            }
            other => panic!("no record of a consumer group: {other:?}"),
        }
    }
}

pub fn context() -> RequestContext {
    RequestContext { api_version: 1, client_id: "client".to_owned(), client_host: "/127.0.0.1".to_owned() }
}

fn partition_record(topic_id: TopicId, index: i32) -> PartitionRecord {
    PartitionRecord {
        partition_id: PartitionId(index),
        topic_id,
        replicas: vec![BrokerId(1)],
        isr: vec![BrokerId(1)],
        leader: BrokerId(1),
        leader_epoch: LeaderEpoch(0),
        partition_epoch: 0,
        ..PartitionRecord::default()
    }
}

/// `orders 0 1, users 0`.
fn partitions(topics: impl Iterator<Item = (TopicId, Vec<i32>)>, image: &MetadataImage) -> String {
    let named: BTreeMap<String, BTreeSet<i32>> = topics
        .map(|(id, partitions)| {
            let name = image.topic_by_id(id).map_or_else(|| "(gone)".to_owned(), |topic| topic.name.to_string());
            (name, partitions.into_iter().collect())
        })
        .collect();
    if named.is_empty() {
        return "nothing".to_owned();
    }
    let topics = named
        .into_iter()
        .map(|(name, partitions)| partitions.into_iter().fold(name, |text, partition| format!("{text} {partition}")));
    topics.collect::<Vec<_>>().join(", ")
}

/// A heartbeat to group `g` that says as little as it can.
#[derive(Clone, Debug)]
pub struct Beat {
    member_id: String,
    epoch: i32,
    instance_id: Option<String>,
    topics: Option<Vec<String>>,
    regex: Option<String>,
    assignor: Option<String>,
    owned: Option<Vec<(String, Vec<i32>)>>,
    /// In the place of `owned`: of topics that may be gone.
    owned_ids: Option<Vec<(TopicId, Vec<i32>)>>,
    rebalance_timeout_ms: i32,
}

impl Beat {
    pub fn at(member_id: &str, epoch: i32) -> Beat {
        Beat {
            member_id: member_id.to_owned(),
            epoch,
            instance_id: None,
            topics: None,
            regex: None,
            assignor: None,
            owned: None,
            owned_ids: None,
            rebalance_timeout_ms: -1,
        }
    }

    /// Joins.
    pub fn join(member_id: &str, topics: &[&str]) -> Beat {
        Beat { rebalance_timeout_ms: 30_000, ..Beat::at(member_id, 0) }.names(topics).owns("")
    }

    pub fn names(mut self, topics: &[&str]) -> Beat {
        self.topics = Some(topics.iter().map(|name| (*name).to_owned()).collect());
        self
    }

    pub fn regex(mut self, regex: &str) -> Beat {
        self.regex = Some(regex.to_owned());
        self
    }

    pub fn instance(mut self, instance_id: &str) -> Beat {
        self.instance_id = Some(instance_id.to_owned());
        self
    }

    pub fn assignor(mut self, assignor: &str) -> Beat {
        self.assignor = Some(assignor.to_owned());
        self
    }

    pub fn rebalance_timeout(mut self, ms: i32) -> Beat {
        self.rebalance_timeout_ms = ms;
        self
    }

    /// `orders 0 1, users 0`.
    pub fn owns(mut self, partitions: &str) -> Beat {
        let topics = partitions.split(',').map(str::trim).filter(|topic| !topic.is_empty());
        let topics = topics.map(|topic| {
            let mut words = topic.split(' ');
            let name = words.next().unwrap_or_default().to_owned();
            (name, words.map(|word| word.parse().expect("a partition")).collect())
        });
        self.owned = Some(topics.collect());
        self
    }

    pub fn request(&self, image: &MetadataImage) -> ConsumerGroupHeartbeatRequest {
        let text = |text: &String| StrBytes::from_string(text.clone());
        let mut request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str("g")))
            .with_member_id(text(&self.member_id))
            .with_member_epoch(self.epoch)
            .with_rebalance_timeout_ms(self.rebalance_timeout_ms);
        request.instance_id = self.instance_id.as_ref().map(text);
        request.subscribed_topic_regex = self.regex.as_ref().map(text);
        request.server_assignor = self.assignor.as_ref().map(text);
        request.subscribed_topic_names =
            self.topics.as_ref().map(|topics| topics.iter().map(|name| WireTopicName(text(name))).collect());
        request.topic_partitions = self.owned.as_ref().map(|owned| {
            let topics = owned.iter().map(|(name, partitions)| {
                let id = image.topic(name).map_or(TopicId::ZERO, |topic| topic.id);
                WireTopicPartitions::default().with_topic_id(id.0).with_partitions(partitions.clone())
            });
            topics.collect()
        });
        if let Some(owned) = &self.owned_ids {
            let topics = owned.iter().map(|(id, partitions)| {
                WireTopicPartitions::default().with_topic_id(id.0).with_partitions(partitions.clone())
            });
            request.topic_partitions = Some(topics.collect());
        }
        request
    }
}

/// Nobody owns what another owns, whatever else happens.
pub fn assert_one_owner(group: &super::ConsumerGroup) {
    let mut owners: BTreeMap<(TopicId, PartitionId), Arc<str>> = BTreeMap::new();
    for member in group.members() {
        for (topic, partitions) in member.assigned.iter().chain(member.pending_revocation.iter()) {
            for partition in partitions.keys() {
                let other = owners.insert((*topic, *partition), Arc::clone(&member.member_id));
                assert_eq!(other, None, "{} owns {topic}-{partition} of another", member.member_id);
            }
        }
    }
}
