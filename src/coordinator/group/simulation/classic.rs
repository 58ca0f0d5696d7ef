//! A client of the classic protocol, as Kafka's consumer behaves.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest,
    SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::owners::Owners;
use super::{GROUP_ID, Member, Partitions, World, context, topic_name};
use crate::coordinator::group::DeferredReply;
use crate::coordinator::group::classic::{ClassicGroup, ClassicGroupState};
use crate::coordinator::group::consumer_protocol::{Assignment, Subscription};
use crate::coordinator::shard::{CoordinatorError, ReplyTo};
use crate::protocol::ErrorCode;
use crate::types::{PartitionId, TopicId, TopicName};

const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3);
const PROTOCOL_NAME: &str = "range";

/// What a client does at its next turn.
#[derive(Clone, Debug)]
enum Next {
    /// Comes (back) as a new process.
    Start,
    Join,
    /// The leader brings assignments.
    Sync(Vec<SyncGroupRequestAssignment>),
    Heartbeat,
}

/// See the module.
pub(super) struct ClassicClient {
    pub(super) at: usize,
    pub(super) token: u64,
    /// Of a static member.
    pub(super) instance_id: Option<String>,
    member_id: String,
    generation_id: i32,
    owned: Partitions,
    /// How many partitions it shared out, if it leads.
    shared_out: Option<usize>,
    next: Next,
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn group_id() -> GroupId {
    GroupId(StrBytes::from_static_str(GROUP_ID))
}

impl ClassicClient {
    pub(super) fn new(at: usize, world: &mut World) -> ClassicClient {
        let instance_id = world.chance(4).then(|| format!("instance-{at}"));
        let mut client = ClassicClient {
            at,
            token: 0,
            instance_id,
            member_id: String::new(),
            generation_id: -1,
            owned: Partitions::new(),
            shared_out: None,
            next: Next::Start,
        };
        let after = world.millis(0..5000);
        client.at_next_turn(Next::Start, after, world);
        client
    }

    /// `None`: the process does not run.
    pub(super) fn as_member(&self) -> Option<Member<'_>> {
        let there = !matches!(self.next, Next::Start);
        there.then_some(Member {
            client: self.at,
            member_id: &self.member_id,
            generation_or_epoch: self.generation_id,
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
        self.member_id.clear();
        self.generation_id = -1;
        let after = world.millis(100..60_000);
        self.at_next_turn(Next::Start, after, world);
    }

    pub(super) fn act(&mut self, world: &mut World, owners: &mut Owners) {
        if world.troubled && self.as_member().is_some() && world.chance(world.trouble_once_in) {
            match world.millis(0..4).as_millis() {
                0 => self.leave(world),
                // It hangs, and goes on as if nothing had been.
                1 => {
                    let after = world.millis(1000..40_000);
                    let next = self.next.clone();
                    self.at_next_turn(next, after, world);
                }
                _ => self.die(world),
            }
            return;
        }
        match std::mem::replace(&mut self.next, Next::Join) {
            Next::Start if !world.troubled => self.at_next_turn(Next::Start, Duration::from_secs(1000), world),
            Next::Start | Next::Join => self.join(world, owners),
            Next::Sync(assignments) => self.sync(assignments, world),
            // The leader watches the topics.
            Next::Heartbeat if self.shared_out.is_some_and(|count| count != world.num_partitions()) => {
                self.join(world, owners);
            }
            Next::Heartbeat => self.heartbeat(world),
        }
    }

    /// Gives everything up, and joins.
    fn join(&mut self, world: &mut World, owners: &mut Owners) {
        owners.give_up(std::mem::take(&mut self.owned), &self.member_id);
        let to = world.wait(self.at, &mut self.token);
        let subscription = Subscription {
            topics: world.partitions.keys().map(|topic| topic_name(*topic).into()).collect(),
            user_data: None,
            owned_partitions: Vec::new(),
            generation_id: self.generation_id,
            rack_id: None,
        };
        let protocol =
            JoinGroupRequestProtocol::default().with_name(text(PROTOCOL_NAME)).with_metadata(subscription.encode(3));
        let request = JoinGroupRequest::default()
            .with_group_id(group_id())
            .with_session_timeout_ms(10_000 + 10_000 * (self.at % 4) as i32)
            // Shorter than some sessions and longer than others.
            .with_rebalance_timeout_ms(15_000 + 1000 * (self.at % 10) as i32)
            .with_member_id(text(&self.member_id))
            .with_group_instance_id(self.instance_id.as_deref().map(text))
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        let context = context(self.at, 9);
        let asked = world.ask(|shard, step| shard.join_group(step, &context, request, to));
        self.retry_if_refused(asked, to, world);
    }

    fn sync(&mut self, assignments: Vec<SyncGroupRequestAssignment>, world: &mut World) {
        let to = world.wait(self.at, &mut self.token);
        let request = SyncGroupRequest::default()
            .with_group_id(group_id())
            .with_generation_id(self.generation_id)
            .with_member_id(text(&self.member_id))
            .with_group_instance_id(self.instance_id.as_deref().map(text))
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text(PROTOCOL_NAME)))
            .with_assignments(assignments);
        let asked = world.ask(|shard, step| shard.sync_group(step, request, to));
        self.retry_if_refused(asked, to, world);
    }

    /// The caller gets the error of its own step.
    fn retry_if_refused(&mut self, asked: Result<(), CoordinatorError>, to: ReplyTo, world: &mut World) {
        if asked.is_err() && world.waiting.remove(&to).is_some() {
            self.retry(world);
        }
    }

    fn retry(&mut self, world: &mut World) {
        let after = world.millis(50..500);
        self.at_next_turn(Next::Join, after, world);
    }

    fn heartbeat(&mut self, world: &mut World) {
        let request = HeartbeatRequest::default()
            .with_group_id(group_id())
            .with_generation_id(self.generation_id)
            .with_member_id(text(&self.member_id))
            .with_group_instance_id(self.instance_id.as_deref().map(text));
        let code = match world.ask(|shard, step| shard.heartbeat(step, &request)) {
            Ok(response) => ErrorCode::from_code(response.error_code).expect("a known code"),
            Err(error) => error.code(),
        };
        self.go_on(code, world);
    }

    /// What follows from an answer.
    fn go_on(&mut self, code: ErrorCode, world: &mut World) {
        match code {
            ErrorCode::None => {
                let jitter = world.millis(0..500);
                self.at_next_turn(Next::Heartbeat, HEARTBEAT_INTERVAL - jitter, world);
            }
            ErrorCode::RebalanceInProgress
            | ErrorCode::IllegalGeneration
            | ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorNotAvailable => self.retry(world),
            ErrorCode::UnknownMemberId => {
                self.member_id.clear();
                self.generation_id = -1;
                self.retry(world);
            }
            // Another process with this instance id has taken over, which in this world is its own next life.
            ErrorCode::FencedInstanceId => self.die(world),
            other => panic!("client {} in generation {}: {other:?}", self.at, self.generation_id),
        }
    }

    pub(super) fn leave(&mut self, world: &mut World) {
        let member = MemberIdentity::default()
            .with_member_id(text(&self.member_id))
            .with_group_instance_id(self.instance_id.as_deref().map(text));
        let request = LeaveGroupRequest::default().with_group_id(group_id()).with_members(vec![member]);
        // Whatever comes of it, the client is gone.
        let _ = world.ask(|shard, step| shard.leave_group(step, request));
        self.die(world);
    }

    pub(super) fn on_reply(
        &mut self,
        reply: Result<DeferredReply, CoordinatorError>,
        world: &mut World,
        owners: &mut Owners,
    ) {
        match reply {
            Ok(DeferredReply::Join(response)) => self.on_join(response, world),
            Ok(DeferredReply::Sync(response)) => self.on_sync(response, world, owners),
            Err(error) => self.go_on(error.code(), world),
        }
    }

    fn on_join(&mut self, response: JoinGroupResponse, world: &mut World) {
        match ErrorCode::from_code(response.error_code).expect("a known code") {
            ErrorCode::None => {
                self.member_id = response.member_id.to_string();
                self.generation_id = response.generation_id;
                let leads = response.leader == response.member_id;
                let assignments =
                    if leads && !response.skip_assignment { share_out(&response, world) } else { Vec::new() };
                // One that leads on does not know what it shared out in its last life.
                self.shared_out = leads.then(|| if response.skip_assignment { 0 } else { world.num_partitions() });
                let after = world.millis(0..1000);
                self.at_next_turn(Next::Sync(assignments), after, world);
            }
            ErrorCode::MemberIdRequired => {
                self.member_id = response.member_id.to_string();
                self.retry(world);
            }
            other => self.go_on(other, world),
        }
    }

    fn on_sync(&mut self, response: SyncGroupResponse, world: &mut World, owners: &mut Owners) {
        let code = ErrorCode::from_code(response.error_code).expect("a known code");
        if code == ErrorCode::None {
            let assignment = Assignment::decode(&response.assignment).expect("what the leader wrote");
            let topics: BTreeMap<String, TopicId> = world.partitions.keys().map(|id| (topic_name(*id), *id)).collect();
            let partitions = assignment.partitions.iter().flat_map(|(topic, partitions)| {
                let id = topics[&**topic];
                partitions.iter().map(move |partition| (id, *partition))
            });
            self.owned = partitions.collect();
            owners.take(self.owned.iter().copied(), &self.member_id, world);
            owners.take_in_generation(self.generation_id, &self.owned, self.at);
        }
        self.go_on(code, world);
    }
}

/// Gives each member some of the partitions.
fn share_out(response: &JoinGroupResponse, world: &World) -> Vec<SyncGroupRequestAssignment> {
    let mut shares: Vec<BTreeMap<TopicName, Vec<PartitionId>>> = vec![BTreeMap::new(); response.members.len()];
    let mut next = 0;
    for (topic, count) in &world.partitions {
        let name: TopicName = topic_name(*topic).into();
        for partition in 0..*count {
            let share = next % shares.len();
            shares[share].entry(name.clone()).or_default().push(PartitionId(partition as i32));
            next += 1;
        }
    }
    let encode = |share: BTreeMap<TopicName, Vec<PartitionId>>| -> Bytes {
        let assignment = Assignment { partitions: share.into_iter().collect(), user_data: None };
        assignment.encode(3).expect("a version that exists")
    };
    let members = response.members.iter().zip(shares);
    members
        .map(|(member, share)| {
            let assignment = SyncGroupRequestAssignment::default().with_member_id(member.member_id.clone());
            assignment.with_assignment(encode(share))
        })
        .collect()
}

/// Who is there is a member of the group's generation, and owns what it is assigned.
pub(super) fn check_at_rest(group: &ClassicGroup, there: &[Member<'_>], world: &World) {
    assert_eq!(group.num_members(), there.len(), "members");
    assert_eq!(group.num_pending_members(), 0, "ids that were handed out have lapsed");
    if there.is_empty() {
        assert_eq!(group.state(), ClassicGroupState::Empty);
        return;
    }
    assert_eq!(group.state(), ClassicGroupState::Stable);
    for client in there {
        let member = group.member(client.member_id).unwrap_or_else(|| panic!("client {} is no member", client.client));
        assert_eq!(client.generation_or_epoch, group.generation_id(), "generation of client {}", client.client);
        let assignment = Assignment::decode(&member.assignment).expect("what the leader wrote");
        let assigned = assignment.partitions.iter().map(|(_, partitions)| partitions.len()).sum::<usize>();
        assert_eq!(client.owned.len(), assigned, "what client {} owns", client.client);
    }
    let owned: usize = there.iter().map(|client| client.owned.len()).sum();
    assert_eq!(owned, world.num_partitions());
}
