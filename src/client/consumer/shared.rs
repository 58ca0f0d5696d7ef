//! What the consumer and the task of its member know together.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, TopicName};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{ConsumerConfig, EARLIEST, LATEST, Position, Rebalance, Reset, Subscription, back_off, offsets};
use crate::client::cluster::{Client, Target};
use crate::client::error::{Error, Result};
use crate::client::log;
use crate::client::text;
use crate::protocol::ErrorCode;
use crate::types::{TopicId, TopicPartition};

/// A topic as the cluster tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub name: String,
    pub id: TopicId,
    pub partitions: Vec<i32>,
}

pub struct Shared {
    pub client: Client,
    pub config: ConsumerConfig,
    /// The partitions that are read.
    pub positions: RefCell<BTreeMap<TopicPartition, Position>>,
    pub leaders: RefCell<BTreeMap<TopicPartition, i32>>,
    /// Who commits: the member's id and its generation or epoch.
    pub member: RefCell<(String, i32)>,
    /// Since when it has no partitions, and for how long it had none before.
    idle_since: Cell<Instant>,
    idle: Cell<Duration>,
    /// Why the member cannot go on.
    pub failure: RefCell<Option<Error>>,
    /// The consumer has something to look at.
    pub changed: Notify,
    pub wake_member: Notify,
    pub closing: Cell<bool>,
    /// Is told what happens to the partitions, and commits by itself.
    listener: Option<Listener>,
    /// Records were handed out that the listener may still commit.
    in_use: Cell<bool>,
    done: Notify,
}

/// See [`Shared::tell`].
pub type Listener = Box<dyn Fn(Rebalance)>;

impl Shared {
    pub fn new(client: Client, config: ConsumerConfig, listener: Option<Listener>) -> Shared {
        Shared {
            client,
            config,
            positions: RefCell::default(),
            leaders: RefCell::default(),
            member: RefCell::new((String::new(), -1)),
            idle_since: Cell::new(Instant::now()),
            idle: Cell::new(Duration::ZERO),
            failure: RefCell::default(),
            changed: Notify::new(),
            wake_member: Notify::new(),
            closing: Cell::new(false),
            listener,
            in_use: Cell::new(false),
            done: Notify::new(),
        }
    }

    /// The group, which a member has for sure.
    pub fn group_id(&self) -> &str {
        self.config.group_id.as_deref().unwrap_or_default()
    }

    pub fn coordinator(&self) -> Target {
        Target::GroupCoordinator(self.group_id().to_owned())
    }

    /// Reads these from now on; those that were read before go on where they are.
    pub fn assign(&self, partitions: BTreeMap<TopicPartition, i64>) {
        let mut positions = self.positions.borrow_mut();
        match (positions.is_empty(), partitions.is_empty()) {
            (true, false) => self.idle.set(self.idle.get() + self.idle_since.get().elapsed()),
            (false, true) => self.idle_since.set(Instant::now()),
            _ => {}
        }
        positions.retain(|place, _| partitions.contains_key(place));
        for (place, offset) in partitions {
            positions.entry(place).or_insert(Position { offset, fetched: offset });
        }
        self.changed.notify_one();
    }

    /// Gives all partitions up.
    pub fn give_up(&self) {
        let all: Vec<TopicPartition> = self.positions.borrow().keys().cloned().collect();
        self.assign(BTreeMap::new());
        if !all.is_empty() {
            self.tell(Rebalance::Revoked(all));
        }
    }

    fn tell(&self, event: Rebalance) {
        if let Some(listener) = &self.listener {
            listener(event);
        }
    }

    /// Notes whether what was handed out is still worked with.
    pub fn use_records(&self, in_use: bool) {
        self.in_use.set(in_use && self.listener.is_some());
        if !in_use {
            self.done.notify_one();
        }
    }

    /// Waits until nothing that was handed out is worked with any more, as long as the group may wait for it.
    pub async fn until_done(&self) {
        let deadline = Instant::now() + Duration::from_millis(self.config.max_poll_interval_ms as u64);
        while self.in_use.get() && Instant::now() < deadline {
            tokio::select! {
                () = self.done.notified() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// How long it was without partitions before it got some.
    pub fn idle(&self) -> Duration {
        self.idle.get()
    }

    /// Where a partition without a position begins.
    pub fn reset(&self, place: &TopicPartition) -> Result<()> {
        let offset = match self.config.reset {
            Reset::Earliest => EARLIEST,
            Reset::Latest => LATEST,
            Reset::ByDuration(_) => super::BY_DURATION,
            Reset::None => {
                return Err(Error::new(
                    "org.apache.kafka.clients.consumer.NoOffsetForPartitionException",
                    format!("Undefined offset with no reset policy for partitions: [{place}]"),
                ));
            }
        };
        if let Some(position) = self.positions.borrow_mut().get_mut(place) {
            *position = Position { offset, fetched: offset };
        }
        Ok(())
    }

    pub fn forget_leaders(&self) {
        self.leaders.borrow_mut().clear();
    }

    /// Asks for the leaders of the partitions that have none.
    pub async fn learn_leaders(&self) -> Result<()> {
        let unknown: Vec<String> = {
            let leaders = self.leaders.borrow();
            let positions = self.positions.borrow();
            let mut topics: Vec<String> = positions
                .keys()
                .filter(|place| !leaders.contains_key(*place))
                .map(|place| place.topic.to_string())
                .collect();
            topics.dedup();
            topics
        };
        if unknown.is_empty() {
            return Ok(());
        }
        self.ask(Some(&unknown)).await?;
        Ok(())
    }

    /// The topics of a subscription that exist. Those that do not exist may be created by that.
    pub async fn subscribed(&self, subscription: &Subscription) -> Result<Vec<Topic>> {
        match subscription {
            Subscription::Topics(names) => self.ask(Some(names)).await,
            Subscription::Pattern(pattern) => {
                let mut topics = self.ask(None).await?;
                topics.retain(|topic| pattern.is_match(&topic.name));
                Ok(topics)
            }
        }
    }

    /// What the cluster tells of these topics.
    pub async fn topics(&self, names: &[String]) -> Result<Vec<Topic>> {
        self.ask(Some(names)).await
    }

    async fn ask(&self, names: Option<&[String]>) -> Result<Vec<Topic>> {
        let topics = names.map(|names| {
            names.iter().map(|name| MetadataRequestTopic::default().with_name(Some(TopicName(text(name))))).collect()
        });
        let request = MetadataRequest::default()
            .with_topics(topics)
            .with_allow_auto_topic_creation(self.config.auto_create_topics);
        let answer = self.client.send(&Target::Any, &request).await?;
        self.client.take_nodes(&answer);
        let mut found = Vec::new();
        let mut leaders = self.leaders.borrow_mut();
        for topic in &answer.topics {
            let Some(name) = topic.name.as_ref().map(|name| name.to_string()) else { continue };
            match ErrorCode::from_code(topic.error_code) {
                Some(ErrorCode::None) => {}
                Some(code) if code.retriable() => continue,
                code => {
                    if code == Some(ErrorCode::InvalidTopicException) {
                        let client_id = &self.config.client.client_id;
                        log::invalid_topic("Consumer", client_id, self.config.group_id.as_deref(), &name);
                    }
                    return Err(Error::of(topic.error_code, Some(format!("Invalid topics: [{name}]"))));
                }
            }
            if topic.is_internal && names.is_none() && self.config.exclude_internal_topics {
                continue;
            }
            for partition in &topic.partitions {
                let place = TopicPartition::new(name.as_str(), partition.partition_index);
                match partition.leader_id.0 {
                    ..0 => leaders.remove(&place),
                    leader => leaders.insert(place, leader),
                };
            }
            let mut partitions: Vec<i32> = topic.partitions.iter().map(|partition| partition.partition_index).collect();
            partitions.sort_unstable();
            found.push(Topic { name, id: TopicId(topic.topic_id), partitions });
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// Takes over what the member is given, from where the group has committed. `events` are told when it has them.
    pub async fn take_over(&self, places: Vec<TopicPartition>, events: &[Rebalance]) -> Result<()> {
        let new: Vec<TopicPartition> = {
            let positions = self.positions.borrow();
            places.iter().filter(|place| !positions.contains_key(*place)).cloned().collect()
        };
        let committed = match new.is_empty() {
            true => BTreeMap::new(),
            false => self.committed(&new).await?,
        };
        let start = |place: &TopicPartition| committed.get(place).copied();
        let missing: Vec<TopicPartition> = new.iter().filter(|place| start(place).is_none()).cloned().collect();
        let begin = |place: TopicPartition| {
            let offset = start(&place).unwrap_or(LATEST);
            (place, offset)
        };
        self.assign(places.into_iter().map(begin).collect());
        events.iter().for_each(|event| self.tell(event.clone()));
        missing.iter().try_for_each(|place| self.reset(place))
    }

    /// What the group has committed. A transaction may keep that open for a while.
    async fn committed(&self, places: &[TopicPartition]) -> Result<BTreeMap<TopicPartition, i64>> {
        loop {
            match offsets::committed(self, places).await {
                Err(error) if error.is_retriable() && !self.closing.get() => back_off(&self.config).await,
                outcome => return outcome,
            }
        }
    }

    /// Ends the member for good.
    pub fn fail(&self, error: Error) {
        *self.failure.borrow_mut() = Some(error);
        self.changed.notify_one();
    }
}
