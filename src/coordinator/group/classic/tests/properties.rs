//! Whatever happens in a group, in whatever order: nothing is lost, leaked or answered twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest};
use kafka_protocol::protocol::StrBytes;
use proptest::prelude::*;

use crate::config::BrokerConfig;
use crate::coordinator::group::classic::{ClassicGroup, ClassicGroupState};
use crate::coordinator::group::{DeferredReply, Group, GroupShard, RequestContext};
use crate::coordinator::shard::harness::Harness;
use crate::coordinator::shard::{CoordinatorError, ReplyTo};
use crate::metadata::image::MetadataImage;

const GROUP: &str = "g";
const CLIENTS: usize = 5;

/// One thing that happens. Clients 0 and 1 are static members.
#[derive(Clone, Debug)]
enum Event {
    /// With the id that the client was given last, or as a new one.
    Join {
        client: usize,
        anew: bool,
        version: i16,
        protocols: u8,
        session_s: u8,
        rebalance_s: u8,
    },
    Sync {
        client: usize,
        wrong_generation: bool,
    },
    Heartbeat {
        client: usize,
    },
    Leave {
        clients: Vec<usize>,
        by_instance: bool,
    },
    Advance {
        ms: u32,
    },
    Fail(bool),
    MaxSize(i32),
    Reload,
}

fn event() -> impl Strategy<Value = Event> {
    let client = 0..CLIENTS;
    prop_oneof![
        8 => (client.clone(), prop::bool::weighted(0.3), prop::sample::select(vec![0i16, 3, 4, 8, 9]), 1..8u8, 6..30u8, 0..60u8)
            .prop_map(|(client, anew, version, protocols, session_s, rebalance_s)| {
                Event::Join { client, anew, version, protocols, session_s, rebalance_s }
            }),
        6 => (client.clone(), prop::bool::weighted(0.1))
            .prop_map(|(client, wrong_generation)| Event::Sync { client, wrong_generation }),
        4 => client.clone().prop_map(|client| Event::Heartbeat { client }),
        1 => (prop::collection::vec(client, 0..3), any::<bool>())
            .prop_map(|(clients, by_instance)| Event::Leave { clients, by_instance }),
        5 => prop_oneof![0..10u32, 0..70_000u32].prop_map(|ms| Event::Advance { ms }),
        1 => prop::bool::weighted(0.3).prop_map(Event::Fail),
        1 => prop::sample::select(vec![1, 3, i32::MAX]).prop_map(Event::MaxSize),
        1 => Just(Event::Reload),
    ]
}

/// What a client knows.
#[derive(Clone, Default)]
struct Client {
    member_id: String,
    generation_id: i32,
}

struct World {
    harness: Harness<GroupShard>,
    clients: Vec<Client>,
    callers: BTreeMap<ReplyTo, usize>,
    /// The leader of each generation, as the members were told. A group that falls back to an older record counts anew.
    leaders: BTreeMap<i32, String>,
    next_caller: u64,
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

impl World {
    fn new() -> World {
        World {
            harness: Harness::new(GroupShard::default(), MetadataImage::empty(), BrokerConfig::default()),
            clients: vec![Client::default(); CLIENTS],
            callers: BTreeMap::new(),
            leaders: BTreeMap::new(),
            next_caller: 0,
        }
    }

    fn instance(client: usize) -> Option<StrBytes> {
        (client < 2).then(|| text(&format!("instance-{client}")))
    }

    fn caller(&mut self, client: usize) -> ReplyTo {
        self.next_caller += 1;
        self.callers.insert(ReplyTo(self.next_caller), client);
        ReplyTo(self.next_caller)
    }

    fn context(client: usize, api_version: i16) -> RequestContext {
        RequestContext { api_version, client_id: format!("client-{client}"), client_host: "/127.0.0.1".to_owned() }
    }

    fn run(&mut self, event: &Event) {
        match event {
            Event::Join { client, anew, version, protocols, session_s, rebalance_s } => {
                let instance = World::instance(*client).filter(|_| *version >= 5);
                let names = ["range", "roundrobin", "sticky"].iter().enumerate();
                let protocols = names.filter(|(bit, _)| protocols >> bit & 1 == 1).map(|(_, name)| {
                    JoinGroupRequestProtocol::default().with_name(text(name)).with_metadata(Bytes::from_static(b"m"))
                });
                let member_id = if *anew { "" } else { &self.clients[*client].member_id };
                let request = JoinGroupRequest::default()
                    .with_group_id(text(GROUP).into())
                    .with_member_id(text(member_id))
                    .with_group_instance_id(instance)
                    .with_protocol_type(text("test"))
                    .with_protocols(protocols.collect())
                    .with_session_timeout_ms(i32::from(*session_s) * 1000)
                    .with_rebalance_timeout_ms(i32::from(*rebalance_s) * 1000);
                let caller = self.caller(*client);
                let context = World::context(*client, *version);
                let done = self.harness.step(|shard, step| shard.join_group(step, &context, request, caller));
                self.after(caller, done);
            }
            Event::Sync { client, wrong_generation } => {
                let Client { member_id, generation_id } = self.clients[*client].clone();
                let members = self.clients.iter().map(|client| {
                    SyncGroupRequestAssignment::default()
                        .with_member_id(text(&client.member_id))
                        .with_assignment(Bytes::copy_from_slice(client.member_id.as_bytes()))
                });
                let request = SyncGroupRequest::default()
                    .with_group_id(text(GROUP).into())
                    .with_member_id(text(&member_id))
                    .with_generation_id(generation_id - i32::from(*wrong_generation))
                    .with_assignments(members.collect());
                let caller = self.caller(*client);
                let done = self.harness.step(|shard, step| shard.sync_group(step, request, caller));
                self.after(caller, done);
            }
            Event::Heartbeat { client } => {
                let Client { member_id, generation_id } = &self.clients[*client];
                let request = HeartbeatRequest::default()
                    .with_group_id(text(GROUP).into())
                    .with_member_id(text(member_id))
                    .with_generation_id(*generation_id);
                self.harness.step(|shard, step| shard.heartbeat(step, &request)).expect("nothing is written");
            }
            Event::Leave { clients, by_instance } => {
                let members = clients.iter().map(|client| {
                    let identity = MemberIdentity::default();
                    match World::instance(*client).filter(|_| *by_instance) {
                        Some(instance) => identity.with_group_instance_id(Some(instance)),
                        None => identity.with_member_id(text(&self.clients[*client].member_id)),
                    }
                });
                let request =
                    LeaveGroupRequest::default().with_group_id(text(GROUP).into()).with_members(members.collect());
                let _ = self.harness.step(|shard, step| shard.leave_group(step, request));
            }
            Event::Advance { ms } => self.harness.advance(Duration::from_millis(u64::from(*ms))),
            Event::Fail(fail) => self.harness.append_error = fail.then_some(CoordinatorError::NotCoordinator),
            Event::MaxSize(size) => {
                let mut config = (*self.harness.config).clone();
                config.group_max_size = *size;
                self.harness.config = config.into();
            }
            Event::Reload => {
                // A log that takes nothing has another leader, whose shard begins when it does.
                self.harness.append_error = None;
                self.harness.reload(GroupShard::default());
                self.callers.clear();
                self.leaders.clear();
            }
        }
        self.take_replies();
        self.check();
    }

    fn after(&mut self, caller: ReplyTo, done: Result<(), CoordinatorError>) {
        let answered = self.harness.replies.iter().any(|(to, _)| *to == caller);
        if done.is_err() && !answered {
            self.callers.remove(&caller);
        }
    }

    fn take_replies(&mut self) {
        for (to, reply) in std::mem::take(&mut self.harness.replies) {
            let client = self.callers.remove(&to).expect("a caller is answered once, and was there to be");
            match reply {
                Ok(DeferredReply::Join(response)) => {
                    let of_client = &mut self.clients[client];
                    if !response.member_id.is_empty() {
                        of_client.member_id = response.member_id.to_string();
                    }
                    if response.error_code != 0 {
                        continue;
                    }
                    of_client.generation_id = response.generation_id;
                    assert!(response.protocol_name.is_some_and(|name| !name.is_empty()));
                    if !response.members.is_empty() {
                        assert_eq!(response.leader, response.member_id, "only the leader is told of the members");
                        assert!(response.members.iter().any(|member| member.member_id == response.member_id));
                    }
                    if response.leader == response.member_id && !response.skip_assignment {
                        let before = self.leaders.insert(response.generation_id, response.member_id.to_string());
                        assert!(
                            before.is_none_or(|before| before == response.member_id.as_str()),
                            "two members were told to share the same generation's work out"
                        );
                    }
                }
                Ok(DeferredReply::Sync(response)) => {
                    // The leaders above give each member its own id; one that changed its id keeps what it had.
                    let own = &self.clients[client].member_id;
                    let assigned = String::from_utf8_lossy(&response.assignment);
                    let is_static = World::instance(client).is_some();
                    assert!(
                        assigned.is_empty() || assigned == own.as_str() || is_static,
                        "{own} got that of {assigned}"
                    );
                }
                Err(_) => {}
            }
        }
    }

    fn group(&self) -> Option<&ClassicGroup> {
        match self.harness.shard.groups.get(GROUP)? {
            Group::Classic(group) => Some(group),
            Group::Consumer(_) => unreachable!("there are only classic groups here"),
        }
    }

    fn check(&self) {
        let shard = &self.harness.shard;
        let Some(group) = self.group() else {
            assert!(shard.timers.len() <= 1, "timers of nobody: {:?}", shard.timers);
            return;
        };
        group.check_invariants();
        // Each member's session, each id handed out, the join and sync phases, and the expiry of offsets.
        let most = group.num_members() + group.pending_join_members().len() + 2 + 1;
        assert!(shard.timers.len() <= most, "{} timers: {:?}", shard.timers.len(), shard.timers);
        let waiting: BTreeSet<ReplyTo> = group.waiting().collect();
        assert!(waiting.iter().all(|to| self.callers.contains_key(to)), "who waits was not answered yet");
        if group.state() == ClassicGroupState::Stable && self.harness.append_error.is_none() {
            self.check_record(group);
        }
    }

    /// What the log says of a stable group is what it is.
    fn check_record(&self, group: &ClassicGroup) {
        let mut fresh = Harness::new(GroupShard::default(), MetadataImage::empty(), BrokerConfig::default());
        fresh.log.clone_from(&self.harness.log);
        fresh.now = self.harness.now;
        fresh.reload(GroupShard::default());
        let Some(Group::Classic(loaded)) = fresh.shard.groups.get(GROUP) else { panic!("the log has no such group") };
        if loaded.generation_id() != group.generation_id() {
            // The record of the generation of nobody before it was lost, or its own one.
            return;
        }
        let (mut loaded, mut own) = (loaded.record_for_comparison(), group.record_for_comparison());
        for value in [&mut loaded, &mut own] {
            // The record is written before the group is stable.
            value.current_state_timestamp = 0;
            for member in &mut value.members {
                // A follower that joins again unchanged but for its timeouts changes nothing that is recorded.
                (member.rebalance_timeout, member.session_timeout) = (0, 0);
            }
        }
        assert_eq!(loaded, own);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_group_survives_anything(events in prop::collection::vec(event(), 1..120)) {
        let mut world = World::new();
        for event in &events {
            world.run(event);
        }
        // When nobody says anything any more, the group is empty in the end, and everybody who could be was answered.
        world.harness.append_error = None;
        for _ in 0..20 {
            world.run(&Event::Advance { ms: 70_000 });
        }
        if let Some(group) = world.group() {
            prop_assert_eq!(group.state(), ClassicGroupState::Empty);
            prop_assert_eq!(group.pending_join_members().len(), 0);
            prop_assert_eq!(group.waiting().count(), 0);
        }
        prop_assert!(world.harness.shard.timers.len() <= 1, "{:?}", world.harness.shard.timers);
    }
}
