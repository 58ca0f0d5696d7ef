//! Members that come, work, fall silent and return at random, with topics that grow, come and go: nobody ever owns what
//! another owns, a reader of the log sees what the coordinator sees, and once things calm down everyone has its share.

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::*;

const TOPICS: [&str; 3] = ["a", "b", "c"];

/// A consumer as clients are: it knows its epoch, what it owns and what it is to own.
#[derive(Debug)]
struct Client {
    member_id: String,
    instance_id: Option<String>,
    epoch: i32,
    wants: Wants,
    /// By topic id: a topic of the same name may be another one.
    owned: BTreeSet<(TopicId, i32)>,
    target: BTreeSet<(TopicId, i32)>,
    /// Whether it has told since it last changed what it owns.
    told: bool,
    /// Whether it missed an answer, and says everything again.
    unsure: bool,
}

#[derive(Clone, Debug)]
enum Wants {
    Names(Vec<&'static str>),
    Regex(&'static str),
}

impl Client {
    fn beat(&self) -> Beat {
        let everything = || {
            let beat = Beat { epoch: self.epoch, ..Beat::join(&self.member_id, &[]) };
            match &self.wants {
                Wants::Names(names) => beat.names(names),
                Wants::Regex(regex) => Beat { topics: None, ..beat }.regex(regex),
            }
        };
        let beat = match self.epoch {
            0 => everything(),
            _ if self.unsure => Beat { owned_ids: self.owned_ids(), ..everything() },
            epoch if self.told => Beat::at(&self.member_id, epoch),
            epoch => Beat { owned_ids: self.owned_ids(), ..Beat::at(&self.member_id, epoch) },
        };
        Beat { instance_id: self.instance_id.clone(), ..beat }
    }

    fn owned_ids(&self) -> Option<Vec<(TopicId, Vec<i32>)>> {
        let mut topics: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in &self.owned {
            topics.entry(*topic).or_default().push(*partition);
        }
        Some(topics.into_iter().collect())
    }

    /// Sends a heartbeat, and takes the answer unless it is lost.
    fn turn(&mut self, kit: &mut Kit, lost: bool) {
        let answer = kit.send(self.beat());
        if lost {
            self.unsure = true;
            return;
        }
        self.unsure = false;
        match answer {
            Ok(response) => {
                self.told = true;
                self.epoch = response.member_epoch;
                if let Some(assignment) = response.assignment {
                    self.target.clear();
                    for topic in assignment.topic_partitions {
                        let id = TopicId(topic.topic_id);
                        self.target.extend(topic.partitions.into_iter().map(|partition| (id, partition)));
                    }
                }
                let kept: BTreeSet<_> = self.owned.intersection(&self.target).copied().collect();
                if kept.len() < self.owned.len() {
                    // Gives up first, and tells.
                    self.owned = kept;
                    self.told = false;
                } else if self.owned != self.target {
                    self.owned.clone_from(&self.target);
                    self.told = false;
                }
            }
            // Fenced or removed: from the start.
            Err(error) => {
                assert!(
                    ["FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND", "FENCED_INSTANCE_ID"]
                        .contains(&error.code.name())
                        || error.code.name() == "UNRELEASED_INSTANCE_ID",
                    "{error}"
                );
                self.epoch = 0;
                self.owned.clear();
                self.target.clear();
            }
        }
    }
}

fn some_wants(random: &mut StdRng) -> Wants {
    match random.random_range(0..5) {
        0 => Wants::Regex("a|c"),
        1 => Wants::Regex("b.*"),
        2 => Wants::Names(vec!["b"]),
        3 => Wants::Names(vec!["a", "b", "c"]),
        _ => Wants::Names(vec!["a", "b"]),
    }
}

fn run(seed: u64, steps: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let interval = if random.random_bool(0.5) { "0" } else { "1000" };
    let mut kit = Kit::with(&[("a", 4), ("b", 3)], &[("group.consumer.assignment.interval.ms", interval)]);
    let mut clients: Vec<Client> = Vec::new();
    let mut next_id = 0;
    for _ in 0..steps {
        match random.random_range(0..100) {
            0..6 if clients.len() < 6 => {
                next_id += 1;
                // A static member may return under a new id while its old self is still known.
                let instance_id = random.random_bool(0.3).then(|| format!("i{}", random.random_range(0..2)));
                let member_id = format!("m{next_id}");
                let wants = some_wants(&mut random);
                clients.push(Client {
                    member_id,
                    instance_id,
                    epoch: 0,
                    wants,
                    owned: BTreeSet::new(),
                    target: BTreeSet::new(),
                    told: false,
                    unsure: false,
                });
            }
            6..9 if !clients.is_empty() => {
                // Killed, or leaves.
                let client = clients.swap_remove(random.random_range(0..clients.len()));
                if random.random_bool(0.5) && client.epoch > 0 {
                    let epoch = if client.instance_id.is_some() && random.random_bool(0.5) { -2 } else { -1 };
                    let beat = Beat { instance_id: client.instance_id.clone(), ..Beat::at(&client.member_id, epoch) };
                    let _ = kit.send(beat);
                }
            }
            9 => {
                let topic = TOPICS[random.random_range(0..TOPICS.len())];
                match kit.harness.image.topic(topic).is_some() {
                    true if random.random_bool(0.3) => kit.delete_topic(topic),
                    true => kit.add_partition(topic),
                    false => kit.create_topic(topic, 2),
                }
            }
            10 => kit.harness.reload(GroupShard::default()),
            11 => {
                let error = crate::coordinator::shard::CoordinatorError::NotAvailable("no replicas".to_owned());
                kit.harness.append_error = Some(error);
                let refused = random.random_range(0..clients.len().max(1));
                if let Some(client) = clients.get(refused) {
                    let _ = kit.send(client.beat());
                }
                kit.harness.append_error = None;
            }
            12..20 => kit.pass(random.random_range(0..3000)),
            20 => kit.pass(random.random_range(0..60_000)),
            _ => {
                if !clients.is_empty() {
                    let at = random.random_range(0..clients.len());
                    let lost = random.random_bool(0.05);
                    clients[at].turn(&mut kit, lost);
                }
            }
        }
        if let Some(Group::Consumer(group)) = kit.harness.shard.groups.get("g") {
            assert_one_owner(group);
        }
        assert_nobody_reads_what_another_reads(&kit, &clients);
    }
    // What was read from the log is what was decided.
    let seen = kit.harness.shard.groups.contains_key("g").then(|| (kit.describe(), kit.state()));
    kit.harness.reload(GroupShard::default());
    assert_eq!(kit.harness.shard.groups.contains_key("g").then(|| (kit.describe(), kit.state())), seen);
    // Calm: the dead are removed, and the others come to their share.
    kit.harness.take_records();
    for _ in 0..40 {
        kit.pass(4000);
        for client in &mut clients {
            // Two that claim one instance never come to rest; the later one gives up.
            client.turn(&mut kit, false);
            client.turn(&mut kit, false);
        }
    }
    let claimed: Vec<_> = clients.iter().filter_map(|client| client.instance_id.as_ref()).collect();
    let distinct: BTreeSet<_> = claimed.iter().collect();
    if distinct.len() < claimed.len() || clients.is_empty() {
        return;
    }
    assert_eq!(kit.state(), "consumer Stable", "{:?}", kit.describe());
    for client in &clients {
        assert_eq!(client.owned, client.target);
    }
    let image = &kit.harness.image;
    let mut wanted = BTreeSet::new();
    for topic in image.topics.iter() {
        let is_wanted = clients.iter().any(|client| match &client.wants {
            Wants::Names(names) => names.contains(&&*topic.name),
            Wants::Regex("a|c") => ["a", "c"].contains(&&*topic.name),
            Wants::Regex(_) => &*topic.name == "b",
        });
        if is_wanted {
            wanted.extend(topic.partitions.iter().map(|(partition, _)| (topic.id, partition.0)));
        }
    }
    let owned: BTreeSet<_> = clients.iter().flat_map(|client| client.owned.iter().copied()).collect();
    assert_eq!(owned, wanted);
    // At rest nothing is written.
    kit.harness.take_records();
    for client in &mut clients {
        client.turn(&mut kit, false);
    }
    assert_eq!(kit.written(), [] as [&str; 0]);
}

/// Among clients whose epochs the coordinator still takes for theirs.
fn assert_nobody_reads_what_another_reads(kit: &Kit, clients: &[Client]) {
    let Some(Group::Consumer(group)) = kit.harness.shard.groups.get("g") else { return };
    let mut readers: BTreeMap<(TopicId, i32), &str> = BTreeMap::new();
    for client in clients {
        let is_known = group.member(&client.member_id).is_some_and(|member| member.member_epoch == client.epoch);
        if !is_known {
            continue;
        }
        for partition in &client.owned {
            if let Some(other) = readers.insert(*partition, &client.member_id) {
                panic!("{} and {other} read {partition:?}", client.member_id);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn members_come_and_go(seed in any::<u64>()) {
        run(seed, 400);
    }
}

#[test]
fn a_thousand_members_come_to_rest() {
    let mut kit = Kit::with(&[("a", 1500)], &[("group.consumer.assignment.interval.ms", "1000")]);
    let mut clients: Vec<Client> = (0..1000)
        .map(|index| Client {
            member_id: format!("m{index}"),
            instance_id: None,
            epoch: 0,
            wants: Wants::Names(vec!["a"]),
            owned: BTreeSet::new(),
            target: BTreeSet::new(),
            told: false,
            unsure: false,
        })
        .collect();
    for client in &mut clients {
        client.turn(&mut kit, false);
    }
    kit.pass(1000);
    for _ in 0..4 {
        for client in &mut clients {
            client.turn(&mut kit, false);
        }
    }
    assert_eq!(kit.state(), "consumer Stable");
    assert_one_owner(kit.group());
    assert!(clients.iter().all(|client| (1..=2).contains(&client.owned.len())));
}
