//! Groups over a long time, with a clock that is moved by hand: members join, die, leave, fall silent and come back at random, topics
//! grow, appends fail, and the shard is lost and read from its log. Everything follows from a seed.
//!
//! What holds all the while:
//! - within a generation, and among members that are not fenced, no partition has two owners, as the clients see it;
//! - no partition is with two members of a consumer group, nor in two targets, as the coordinator sees it;
//! - timers, and what the shard remembers, are bounded by the members that there are.
//!
//! And whenever nothing happens any more, the group comes to rest: who is there is a member, everyone in the same generation or epoch, and
//! all partitions are owned.
//!
//! A test run is small. `scripts/simulate-groups` runs 1,000 members for a million events.

mod classic;
mod consumer;
mod log;
mod owners;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use uuid::Uuid;

use self::classic::ClassicClient;
use self::consumer::ConsumerClient;
use self::log::CompactedLog;
use self::owners::Owners;
use super::consumer::ConsumerTimer;
use super::{DeferredReply, Group, GroupShard, GroupTimer, RequestContext, Step};
use crate::config::BrokerConfig;
use crate::coordinator::shard::harness::Harness;
use crate::coordinator::shard::{CoordinatorError, CoordinatorShard as _, ReplyTo};
use crate::metadata::image::{MetadataDelta, MetadataImage};
use crate::metadata::records::{MetadataRecord, PartitionRecord, TopicRecord};
use crate::types::{BrokerId, DirectoryId, LeaderEpoch, PartitionId, TopicId};

/// The group that all are members of.
const GROUP_ID: &str = "group";

/// How large a run is.
#[derive(Clone, Copy, Debug)]
struct Scale {
    members: usize,
    events: u64,
    topics: usize,
    partitions_per_topic: usize,
    seeds: u64,
}

impl Scale {
    /// A small one, or what the environment says.
    fn from_environment() -> Scale {
        let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
        let members = number("SIMULATED_MEMBERS").unwrap_or(40) as usize;
        let events = number("SIMULATED_EVENTS").unwrap_or(12_000);
        let seeds = number("SIMULATED_SEEDS").unwrap_or(2);
        Scale { members, events, topics: 4, partitions_per_topic: (members / 2).max(5), seeds }
    }
}

/// A client's turn; void once the client has another turn to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    client: usize,
    token: u64,
}

/// Everything but the clients.
struct World {
    harness: Harness<GroupShard>,
    random: StdRng,
    turns: BinaryHeap<Reverse<(Duration, u64, Turn)>>,
    /// Who waits for an answer.
    waiting: BTreeMap<ReplyTo, Turn>,
    log: CompactedLog,
    /// Whether things go wrong.
    troubled: bool,
    /// One client's turn in so many ends in trouble.
    trouble_once_in: u32,
    partitions: BTreeMap<TopicId, usize>,
    next: u64,
}

impl World {
    fn new(seed: u64, scale: Scale) -> World {
        let partitions =
            (0..scale.topics).map(|at| (TopicId(Uuid::from_u128(at as u128 + 1)), scale.partitions_per_topic));
        let partitions = partitions.collect();
        let config = BrokerConfig::load(BTreeMap::new()).expect("the defaults are valid").config;
        World {
            harness: Harness::new(GroupShard::default(), image(&partitions), config),
            random: StdRng::seed_from_u64(seed),
            turns: BinaryHeap::new(),
            waiting: BTreeMap::new(),
            log: CompactedLog::default(),
            troubled: true,
            // So that a rebalance, in which everyone has some turns, mostly comes to its end.
            trouble_once_in: 6 * scale.members as u32,
            partitions,
            next: 0,
        }
    }

    fn now(&self) -> Duration {
        self.harness.now
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// True once in so many times.
    fn chance(&mut self, once_in: u32) -> bool {
        self.random.random_ratio(1, once_in)
    }

    fn millis(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.random.random_range(range))
    }

    /// Gives a client its next turn; those that it had are void.
    fn schedule(&mut self, client: usize, token: &mut u64, after: Duration) {
        *token = self.number();
        let turn = Turn { client, token: *token };
        let at = self.now() + after;
        let order = self.number();
        self.turns.push(Reverse((at, order, turn)));
    }

    /// Has a client wait for an answer, instead of a turn.
    fn wait(&mut self, client: usize, token: &mut u64) -> ReplyTo {
        *token = self.number();
        let to = ReplyTo(*token);
        self.waiting.insert(to, Turn { client, token: *token });
        to
    }

    /// Asks the shard; the append fails now and then.
    fn ask<T>(&mut self, op: impl FnOnce(&mut GroupShard, &mut Step<'_>) -> T) -> Result<T, CoordinatorError> {
        self.maybe_fail_appends(2000);
        let answer = self.harness.step(op);
        self.after_step();
        answer
    }

    fn maybe_fail_appends(&mut self, once_in: u32) {
        let fails = self.troubled && self.chance(once_in);
        self.harness.append_error = fails.then(|| CoordinatorError::NotAvailable("simulated".to_owned()));
    }

    fn after_step(&mut self) {
        self.harness.append_error = None;
        self.log.append(self.harness.log.drain(..));
        self.check_bounds();
    }

    fn advance_to(&mut self, at: Duration) {
        self.maybe_fail_appends(5000);
        let now = self.now();
        self.harness.advance(at.saturating_sub(now));
        self.after_step();
    }

    /// Another shard takes over: it reads the log, and who waits for an answer of the first gets none.
    fn fail_over(&mut self) -> Vec<Turn> {
        self.harness.log = self.log.records().collect();
        self.harness.reload(GroupShard::default());
        self.harness.log.clear();
        self.after_step();
        std::mem::take(&mut self.waiting).into_values().collect()
    }

    /// A topic gets more partitions.
    fn grow_topic(&mut self) {
        let at = self.random.random_range(0..self.partitions.len());
        *self.partitions.values_mut().nth(at).expect("one of them") += 1;
        self.harness.set_image(image(&self.partitions));
        self.after_step();
    }

    fn num_partitions(&self) -> usize {
        self.partitions.values().sum()
    }

    fn group(&self) -> Option<&Group> {
        self.harness.shard.groups.get(GROUP_ID)
    }

    /// What the shard holds follows from the members that it knows.
    fn check_bounds(&self) {
        let shard = &self.harness.shard;
        assert!(shard.groups.len() <= 1);
        let members = match self.group() {
            None => 0,
            Some(Group::Classic(group)) => group.num_members() + group.num_pending_members(),
            Some(Group::Consumer(group)) => group.num_members(),
        };
        // A session for each, and in a consumer group one for a rebalance, and one for a JoinGroup or SyncGroup that is to come; the
        // group's own, and the expiration of offsets.
        let timers = shard.timers.len();
        assert!(timers <= 3 * members + 4, "{timers} timers for {members} members");
    }
}

/// Topics `topic-1`… with so many partitions.
fn image(partitions: &BTreeMap<TopicId, usize>) -> MetadataImage {
    let mut image = MetadataImage::empty();
    let mut delta = MetadataDelta::default();
    for (topic_id, count) in partitions {
        let name = topic_name(*topic_id);
        let mut records = vec![MetadataRecord::Topic(TopicRecord { name, topic_id: *topic_id })];
        records.extend((0..*count).map(|partition| {
            MetadataRecord::Partition(PartitionRecord {
                partition_id: PartitionId(partition as i32),
                topic_id: *topic_id,
                replicas: vec![BrokerId(1)],
                isr: vec![BrokerId(1)],
                leader: BrokerId(1),
                leader_epoch: LeaderEpoch(0),
                directories: vec![DirectoryId::MIGRATING],
                ..PartitionRecord::default()
            })
        }));
        for record in records {
            image.apply(&record, &mut delta).expect("a sound record");
        }
    }
    image
}

fn topic_name(topic: TopicId) -> String {
    format!("topic-{}", topic.0.as_u128())
}

impl Group {
    fn generation_or_epoch(&self) -> i32 {
        match self {
            Group::Classic(group) => group.generation_id(),
            Group::Consumer(group) => group.group_epoch(),
        }
    }
}

fn context(client: usize, api_version: i16) -> RequestContext {
    RequestContext { api_version, client_id: format!("client-{client}"), client_host: "/127.0.0.1".to_owned() }
}

enum Client {
    Classic(ClassicClient),
    Consumer(ConsumerClient),
}

type Partitions = BTreeSet<(TopicId, PartitionId)>;

/// A client that is there, as it sees itself.
struct Member<'a> {
    client: usize,
    member_id: &'a str,
    generation_or_epoch: i32,
    owned: &'a Partitions,
}

impl Client {
    fn token(&self) -> u64 {
        match self {
            Client::Classic(client) => client.token,
            Client::Consumer(client) => client.token,
        }
    }

    fn is_classic(&self) -> bool {
        matches!(self, Client::Classic(_))
    }

    /// Whether the process runs.
    fn is_there(&self) -> bool {
        self.as_member().is_some()
    }

    fn as_member(&self) -> Option<Member<'_>> {
        match self {
            Client::Classic(client) => client.as_member(),
            Client::Consumer(client) => client.as_member(),
        }
    }

    fn die(&mut self, world: &mut World) {
        match self {
            Client::Classic(client) => client.die(world),
            Client::Consumer(client) => client.die(world),
        }
    }

    /// The next life of a client that is not there speaks this protocol; its turn comes at once.
    fn change_protocol(&mut self, classic: bool, world: &mut World) {
        let (at, instance_id) = match self {
            Client::Classic(client) => (client.at, client.instance_id.clone()),
            Client::Consumer(client) => (client.at, client.instance_id.clone()),
        };
        match self {
            Client::Consumer(_) if classic => {
                let mut client = ClassicClient::new(at, world);
                client.instance_id = instance_id;
                *self = Client::Classic(client);
            }
            Client::Classic(_) if !classic => {
                let mut client = ConsumerClient::new(at, world);
                client.instance_id = instance_id;
                *self = Client::Consumer(client);
            }
            Client::Classic(_) | Client::Consumer(_) => {}
        }
    }
}

/// Which protocols the clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocols {
    Classic,
    Consumer,
    /// Some the one and some the other, and another in another life: the group changes its protocol all the time.
    Mixed,
}

struct Simulation {
    world: World,
    protocols: Protocols,
    clients: Vec<Client>,
    owners: Owners,
    events: u64,
    /// How often the group changed its protocol.
    migrations: u64,
    is_classic: bool,
    generation: i32,
    /// Whether clients are being moved to the classic protocol, or to the other; `None`: each life speaks either.
    moved_to_classic: Option<bool>,
}

impl Simulation {
    fn new(seed: u64, scale: Scale, protocols: Protocols) -> Simulation {
        let mut world = World::new(seed, scale);
        let mut clients = Vec::with_capacity(scale.members);
        for at in 0..scale.members {
            clients.push(match protocols {
                Protocols::Classic | Protocols::Mixed => Client::Classic(ClassicClient::new(at, &mut world)),
                Protocols::Consumer => Client::Consumer(ConsumerClient::new(at, &mut world)),
            });
        }
        Simulation {
            world,
            protocols,
            clients,
            owners: Owners::default(),
            events: 0,
            migrations: 0,
            is_classic: true,
            generation: 0,
            moved_to_classic: Some(true),
        }
    }

    /// One client's turn, and all that comes of it.
    fn event(&mut self) {
        // Timers first: what comes of them may give somebody an earlier turn. If all wait for an answer, only timers go on.
        self.look_at_group();
        let patience = self.world.now() + Duration::from_secs(3600);
        while let Some(deadline) = self.world.harness.shard.next_deadline()
            && self.world.turns.peek().is_none_or(|Reverse((at, ..))| deadline <= *at)
        {
            assert!(deadline < patience, "nobody gets an answer any more");
            self.world.advance_to(deadline);
            self.look_at_group();
            self.deliver();
        }
        let Reverse((at, _, turn)) = self.world.turns.pop().expect("a timer of the shard is always set");
        self.world.advance_to(at);
        let client = &mut self.clients[turn.client];
        if client.token() != turn.token {
            return;
        }
        if self.protocols == Protocols::Mixed && self.world.troubled {
            if !client.is_there() {
                let classic = self.moved_to_classic.unwrap_or_else(|| self.world.random.random());
                client.change_protocol(classic, &mut self.world);
            } else if self.moved_to_classic.is_some_and(|classic| classic != client.is_classic())
                && self.world.chance(4)
            {
                // Stopped, to be started with the other protocol.
                match client {
                    Client::Classic(client) => client.leave(&mut self.world),
                    Client::Consumer(client) => client.leave(consumer::LEAVE, &mut self.world, &mut self.owners),
                }
                return;
            }
        }
        match client {
            Client::Classic(client) => client.act(&mut self.world, &mut self.owners),
            Client::Consumer(client) => client.act(&mut self.world, &mut self.owners),
        }
        self.events += 1;
        self.deliver();
        self.look_at_group();
    }

    /// Notices when the group changed its protocol, or began anew. A timer may have it change, and the turn after it change back.
    fn look_at_group(&mut self) {
        if let Some(group) = self.world.group() {
            let is_classic = matches!(group, Group::Classic(_));
            let generation = group.generation_or_epoch();
            if is_classic != std::mem::replace(&mut self.is_classic, is_classic) {
                self.migrations += 1;
                if is_classic {
                    self.owners.on_downgrade();
                }
            }
            if generation < std::mem::replace(&mut self.generation, generation) {
                self.owners.on_first_generation();
            }
        }
    }

    /// Hands out the answers that waited.
    fn deliver(&mut self) {
        for (to, reply) in std::mem::take(&mut self.world.harness.replies) {
            if let Some(turn) = self.world.waiting.remove(&to) {
                self.answer(turn, reply);
            }
        }
    }

    fn answer(&mut self, turn: Turn, reply: Result<DeferredReply, CoordinatorError>) {
        match &mut self.clients[turn.client] {
            Client::Classic(client) if client.token == turn.token => {
                client.on_reply(reply, &mut self.world, &mut self.owners);
            }
            _ => {}
        }
    }

    fn fail_over(&mut self) {
        for turn in self.world.fail_over() {
            self.answer(turn, Err(CoordinatorError::NotCoordinator));
        }
        owners::check(&self.world);
    }

    fn run(&mut self, events: u64) {
        let end = self.events + events;
        let many = u32::try_from(events / 10).unwrap_or(u32::MAX).max(1);
        let a_few_rebalances = 25 * self.clients.len() as u32;
        while self.events < end {
            self.event();
            if self.events.is_multiple_of(256) {
                owners::check(&self.world);
            }
            if self.world.chance(a_few_rebalances) {
                self.moved_to_classic = match self.moved_to_classic {
                    Some(true) => self.world.chance(2).then_some(false),
                    Some(false) | None => Some(true),
                };
            }
            if self.world.chance(many) {
                self.fail_over();
            }
            if self.world.chance(many) {
                self.world.grow_topic();
            }
            if self.world.chance(many) {
                // A third of the clients dies at once.
                for client in &mut self.clients {
                    if self.world.chance(3) {
                        client.die(&mut self.world);
                    }
                }
            }
        }
    }

    /// Lets nothing happen for so long that every session and timeout has passed, and sees whether all is well then.
    fn come_to_rest(&mut self) {
        self.world.troubled = false;
        let end = self.world.now() + Duration::from_secs(400);
        while self.world.now() < end {
            self.event();
        }
        let there: Vec<Member<'_>> = self.clients.iter().filter_map(Client::as_member).collect();
        match self.world.group() {
            None => assert_eq!(there.len(), 0),
            Some(Group::Classic(group)) => {
                assert!(self.clients.iter().all(|client| client.is_classic() || !client.is_there()));
                classic::check_at_rest(group, &there, &self.world);
            }
            Some(Group::Consumer(group)) => {
                consumer::check_at_rest(group, &there);
                let (partitions, members) = (self.world.num_partitions(), there.len());
                let fair = partitions / members.max(1)..=partitions.div_ceil(members.max(1));
                // A classic group that changes its protocol within a rebalance keeps what there was of assignments, and nothing has
                // them balanced if all are who they were.
                let balanced = there.iter().all(|member| fair.contains(&member.owned.len()));
                assert!(balanced || self.protocols == Protocols::Mixed, "not balanced: {group:#?}");
            }
        }
        let mut owned = BTreeSet::new();
        for member in &there {
            for (topic, partition) in member.owned {
                assert!(
                    owned.insert((*topic, *partition)),
                    "client {} is not alone with {topic}-{partition}",
                    member.client
                );
            }
        }
        assert!(
            there.is_empty() || owned.len() == self.world.num_partitions(),
            "only {} partitions are owned",
            owned.len()
        );
        // A session for each member, and the expiration of offsets.
        // And it may just be time to look at regular expressions.
        let timers = &self.world.harness.shard.timers;
        let looks_at_regexes = GroupTimer::Consumer(ConsumerTimer::ResolveRegexes(GROUP_ID.into()));
        let looks_at_regexes = usize::from(timers.deadline(&looks_at_regexes).is_some());
        assert_eq!(timers.len(), there.len() + 1 + looks_at_regexes, "timers at {:?}: {timers:?}", self.world.now());
        owners::check(&self.world);
        // Records for each member at most: its metadata, its target, its assignment; and the group's.
        let records = self.world.log.len();
        assert!(records <= 3 * there.len() + 10, "{records} records are left in the log");
        self.world.troubled = true;
    }
}

fn simulate(protocols: Protocols) {
    let scale = Scale::from_environment();
    for seed in 0..scale.seeds {
        let mut simulation = Simulation::new(seed, scale, protocols);
        for _ in 0..4 {
            simulation.run(scale.events / 4);
            simulation.come_to_rest();
        }
        let generation = simulation.generation;
        println!(
            "{protocols:?}, seed {seed}: {} events in {} s of simulated time, generation {generation}, {} changes of the protocol",
            simulation.events,
            simulation.world.now().as_secs(),
            simulation.migrations
        );
        assert!(scale.members < 20 || generation > 20, "too little has happened: {generation}");
        assert!(protocols != Protocols::Mixed || simulation.migrations > 1, "too few changes of the protocol");
    }
}

#[test]
fn classic_groups_keep_their_promises() {
    simulate(Protocols::Classic);
}

#[test]
fn consumer_groups_keep_their_promises() {
    simulate(Protocols::Consumer);
}

#[test]
fn groups_that_change_their_protocol_keep_their_promises() {
    simulate(Protocols::Mixed);
}
