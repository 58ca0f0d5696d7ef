//! A client of the consumer protocol (KIP-848), as Kafka's consumer behaves.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::consumer_group_heartbeat_response::Assignment;
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, GroupId, TopicName as WireTopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::owners::Owners;
use super::{GROUP_ID, Member, Partitions, World, context, topic_name};
use crate::coordinator::group::consumer::{ConsumerGroup, ConsumerGroupState};
use crate::protocol::ErrorCode;
use crate::types::{PartitionId, TopicId};

pub(super) const LEAVE: i32 = -1;
const LEAVE_FOR_A_WHILE: i32 = -2;

/// What a client does at its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Comes (back) as a new process.
    Start,
    Heartbeat,
}

/// See the module.
pub(super) struct ConsumerClient {
    pub(super) at: usize,
    pub(super) token: u64,
    /// Of a static member.
    pub(super) instance_id: Option<String>,
    /// Subscribes by a regular expression.
    by_regex: bool,
    member_id: String,
    member_epoch: i32,
    owned: Partitions,
    /// What it was told to own, and from when on it does: it takes time to give partitions up.
    target: Option<(Partitions, Duration)>,
    /// Whether the coordinator is to be told what it owns.
    owned_changed: bool,
    /// Whether it is to be told everything: an answer has not come.
    tells_all: bool,
    next: Next,
}

impl ConsumerClient {
    pub(super) fn new(at: usize, world: &mut World) -> ConsumerClient {
        let instance_id = world.chance(4).then(|| format!("instance-{at}"));
        let mut client = ConsumerClient {
            at,
            token: 0,
            instance_id,
            by_regex: world.chance(3),
            member_id: String::new(),
            member_epoch: 0,
            owned: Partitions::new(),
            target: None,
            owned_changed: false,
            tells_all: false,
            next: Next::Start,
        };
        let after = world.millis(0..5000);
        client.at_next_turn(Next::Start, after, world);
        client
    }

    /// `None`: the process does not run.
    pub(super) fn as_member(&self) -> Option<Member<'_>> {
        let there = self.next != Next::Start;
        there.then_some(Member {
            client: self.at,
            member_id: &self.member_id,
            generation_or_epoch: self.member_epoch,
            owned: &self.owned,
        })
    }

    fn at_next_turn(&mut self, next: Next, after: Duration, world: &mut World) {
        self.next = next;
        world.schedule(self.at, &mut self.token, after);
    }

    /// The process ends without a word, to be started anew some time. What it owned counts as owned until the coordinator has
    /// noticed.
    pub(super) fn die(&mut self, world: &mut World) {
        self.owned.clear();
        self.target = None;
        let after = world.millis(100..100_000);
        self.at_next_turn(Next::Start, after, world);
    }

    pub(super) fn act(&mut self, world: &mut World, owners: &mut Owners) {
        if world.troubled && self.as_member().is_some() && world.chance(world.trouble_once_in) {
            match world.millis(0..5).as_millis() {
                0 => self.leave(LEAVE, world, owners),
                1 if self.instance_id.is_some() => self.leave(LEAVE_FOR_A_WHILE, world, owners),
                // It hangs, and goes on as if nothing had been.
                2 => {
                    let after = world.millis(1000..90_000);
                    self.at_next_turn(Next::Heartbeat, after, world);
                }
                _ => self.die(world),
            }
            return;
        }
        if self.next == Next::Start {
            if !world.troubled {
                self.at_next_turn(Next::Start, Duration::from_secs(1000), world);
                return;
            }
            self.member_id = TopicId(Uuid::from_u128(u128::from(world.number()) << 64 | 7)).to_string();
            self.member_epoch = 0;
            self.by_regex ^= world.chance(5);
        }
        self.next = Next::Heartbeat;
        self.reconcile(world, owners);
        self.heartbeat(world, owners);
    }

    /// Owns what it is to own, once it has given up what it has to.
    fn reconcile(&mut self, world: &World, owners: &mut Owners) {
        let Some((target, from)) = self.target.take() else { return };
        if from > world.now() {
            self.target = Some((target, from));
            return;
        }
        owners.give_up(self.owned.difference(&target).copied(), &self.member_id);
        owners.take(target.difference(&self.owned).copied(), &self.member_id, world);
        self.owned = target;
        self.owned_changed = true;
    }

    fn request(&self, world: &World) -> ConsumerGroupHeartbeatRequest {
        let joins = self.member_epoch == 0;
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let mut request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str(GROUP_ID)))
            .with_member_id(text(&self.member_id))
            .with_member_epoch(self.member_epoch)
            .with_instance_id(self.instance_id.as_deref().map(text));
        if joins || self.tells_all {
            request =
                request.with_rebalance_timeout_ms(20_000 + 1000 * (self.at % 10) as i32).with_server_assignor(None);
            let names = world.partitions.keys().map(|topic| WireTopicName(text(&topic_name(*topic))));
            request = match self.by_regex {
                true => {
                    request.with_subscribed_topic_regex(Some(text("topic-[0-9]+"))).with_subscribed_topic_names(None)
                }
                false => request.with_subscribed_topic_names(Some(names.collect())),
            };
        } else {
            request = request.with_rebalance_timeout_ms(-1).with_subscribed_topic_names(None);
        }
        let owned = (joins || self.tells_all || self.owned_changed).then(|| {
            let mut topics: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
            for (topic, partition) in &self.owned {
                topics.entry(*topic).or_default().push(partition.0);
            }
            let topic = |(topic, partitions): (TopicId, _)| {
                TopicPartitions::default().with_topic_id(topic.0).with_partitions(partitions)
            };
            topics.into_iter().map(topic).collect()
        });
        request.with_topic_partitions(owned)
    }

    fn heartbeat(&mut self, world: &mut World, owners: &mut Owners) {
        let request = self.request(world);
        let context = context(self.at, 1);
        let answer = world.ask(|shard, step| shard.consumer_group_heartbeat(&context, &request, step));
        // Answers are lost now and then.
        let lost = world.troubled && world.chance(500);
        match answer {
            _ if lost => {
                self.tells_all = true;
                self.soon(world);
            }
            Ok(Ok(response)) => self.on_response(response, world, owners),
            Ok(Err(error)) => self.on_error(error.code, world, owners),
            Err(error) => self.on_error(error.code(), world, owners),
        }
    }

    fn soon(&mut self, world: &mut World) {
        let after = world.millis(50..500);
        self.at_next_turn(Next::Heartbeat, after, world);
    }

    fn on_response(&mut self, response: ConsumerGroupHeartbeatResponse, world: &mut World, owners: &mut Owners) {
        assert!(response.member_epoch >= self.member_epoch, "epochs do not go back");
        self.member_epoch = response.member_epoch;
        self.owned_changed = false;
        self.tells_all = false;
        if let Some(assignment) = &response.assignment {
            let target = partitions(assignment);
            // Some take longer to give partitions up than they said they would.
            let gives_up = !self.owned.is_subset(&target);
            let slow = world.troubled && world.chance(50);
            let takes = match (gives_up, slow) {
                (false, _) => Duration::ZERO,
                (true, false) => world.millis(10..3000),
                (true, true) => world.millis(3000..40_000),
            };
            self.target = Some((target, world.now() + takes));
            self.reconcile(world, owners);
        }
        let interval = Duration::from_millis(response.heartbeat_interval_ms as u64);
        match &self.target {
            Some((_, from)) => {
                let after = (*from - world.now()).min(interval);
                self.at_next_turn(Next::Heartbeat, after, world);
            }
            None if self.owned_changed => self.soon(world),
            None => {
                let jitter = world.millis(0..500);
                self.at_next_turn(Next::Heartbeat, interval - jitter, world);
            }
        }
    }

    fn on_error(&mut self, code: ErrorCode, world: &mut World, owners: &mut Owners) {
        self.tells_all = true;
        match code {
            ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator => self.soon(world),
            // It gives everything up, and joins again.
            ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId | ErrorCode::GroupIdNotFound => {
                self.abandon(owners);
                self.soon(world);
            }
            // Its last life has not been noticed yet. Or, at a join, the classic group has not had its first generation.
            ErrorCode::UnreleasedInstanceId | ErrorCode::UnknownServerError if self.member_epoch == 0 => {
                let after = world.millis(1000..5000);
                self.at_next_turn(Next::Heartbeat, after, world);
            }
            ErrorCode::FencedInstanceId => {
                self.abandon(owners);
                self.die(world);
            }
            other => panic!("client {} in epoch {}: {other:?}", self.at, self.member_epoch),
        }
    }

    fn abandon(&mut self, owners: &mut Owners) {
        owners.give_up(std::mem::take(&mut self.owned), &self.member_id);
        self.target = None;
        self.member_epoch = 0;
    }

    pub(super) fn leave(&mut self, epoch: i32, world: &mut World, owners: &mut Owners) {
        self.abandon(owners);
        self.member_epoch = epoch;
        let request = self.request(world);
        let context = context(self.at, 1);
        // Whatever comes of it, the client is gone.
        let _ = world.ask(|shard, step| shard.consumer_group_heartbeat(&context, &request, step));
        self.die(world);
    }
}

fn partitions(assignment: &Assignment) -> Partitions {
    let of_topic = |topic: &kafka_protocol::messages::consumer_group_heartbeat_response::TopicPartitions| {
        let id = TopicId(topic.topic_id);
        topic.partitions.clone().into_iter().map(move |partition| (id, PartitionId(partition)))
    };
    assignment.topic_partitions.iter().flat_map(of_topic).collect()
}

/// Who is there is a member in the group's epoch, and owns what it is to own.
pub(super) fn check_at_rest(group: &ConsumerGroup, there: &[Member<'_>]) {
    assert_eq!(group.num_members(), there.len(), "members");
    if there.is_empty() {
        assert_eq!(group.state(), ConsumerGroupState::Empty);
        return;
    }
    assert_eq!(group.state(), ConsumerGroupState::Stable);
    for client in there {
        let member = group.member(client.member_id).unwrap_or_else(|| panic!("client {} is no member", client.client));
        assert_eq!(client.generation_or_epoch, group.group_epoch(), "epoch of client {}", client.client);
        let assigned = member.assigned.iter();
        let assigned = assigned.flat_map(|(topic, partitions)| partitions.keys().map(|partition| (*topic, *partition)));
        assert_eq!(*client.owned, assigned.collect(), "what client {} owns", client.client);
        assert!(member.pending_revocation.is_empty());
    }
}
