//! A consumer: what Java's does, for the tools that read. Of one partition that is named, or of topics, as a member of a group.
//!
//! ```text
//! Consumer::poll ◀──records── a fetch for each leader
//!       │
//!       └── Shared: assignment, positions ◀── member task: joins, heartbeats, gives partitions up
//! ```
//!
//! Everything runs on the thread of [`block_on`](crate::client::block_on). The member's task commits what was consumed before it
//! gives partitions up; the consumer commits now and then, and at its end.

mod assignor;
mod classic;
mod config;
mod decode;
mod next_generation;
mod offsets;
mod shared;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{BrokerId, FetchRequest, FetchResponse, TopicName};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::cluster::{Client, Target};
use super::connection::{Connection, in_time};
use super::error::{Error, Result};
/// Positions that are still to be looked up.
pub use super::offsets::{EARLIEST, LATEST};
use super::producer::Headers;
use super::text;
use crate::protocol::ErrorCode;
use crate::record::batch::TimestampType;
use crate::types::{TopicName as Name, TopicPartition};
pub use config::{ConsumerConfig, GroupProtocol, Reset};
use shared::{Listener, Shared};

/// A position that is looked up by the time that [`Reset::ByDuration`] is before now.
const BY_DURATION: i64 = -100;
/// Names of topics stand in the requests up to here, ids in those after it.
const LAST_FETCH_WITH_NAMES: i16 = 12;
/// No fetch session.
const NO_SESSION: i32 = 0;
const FINAL_EPOCH: i32 = -1;

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumed {
    pub topic: Name,
    pub partition: i32,
    pub offset: i64,
    /// In ms.
    pub timestamp: (TimestampType, i64),
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Headers,
}

impl Consumed {
    /// Its partition.
    pub fn place(&self) -> TopicPartition {
        TopicPartition::new(self.topic.clone(), self.partition)
    }
}

/// What happens to a member's partitions, ascending: those that are new, and those that are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebalance {
    Assigned(Vec<TopicPartition>),
    Revoked(Vec<TopicPartition>),
}

/// Which topics a member of a group wants.
#[derive(Clone, Debug)]
pub enum Subscription {
    Topics(Vec<String>),
    /// Those whose whole name matches.
    Pattern(regex::Regex),
}

/// Where the next record to hand out is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    /// [`EARLIEST`], [`LATEST`] until it was looked up.
    offset: i64,
    /// Up to here the records were fetched, if not all of them handed out.
    fetched: i64,
}

/// See the module.
pub struct Consumer {
    shared: Rc<Shared>,
    /// The task of the member, unless the partition was named.
    member: Option<JoinHandle<()>>,
    buffer: VecDeque<Consumed>,
    fetches: FuturesUnordered<LocalBoxFuture<'static, Fetched>>,
    /// Nodes that are asked.
    busy: BTreeSet<i32>,
    connections: HashMap<i32, Rc<Connection>>,
    /// When nodes may be asked again after a failure.
    not_before: Instant,
    next_commit: Instant,
}

struct Fetched {
    node: i32,
    /// What was asked for.
    from: BTreeMap<TopicPartition, i64>,
    answer: Result<FetchResponse>,
}

impl Consumer {
    fn new(config: ConsumerConfig, listener: Option<Listener>) -> Consumer {
        let interval = config.auto_commit_interval;
        Consumer {
            shared: Rc::new(Shared::new(Client::new(config.client.clone()), config, listener)),
            member: None,
            buffer: VecDeque::new(),
            fetches: FuturesUnordered::new(),
            busy: BTreeSet::new(),
            connections: HashMap::new(),
            not_before: Instant::now(),
            next_commit: Instant::now() + interval,
        }
    }

    /// Reads partitions from offsets, [`EARLIEST`] or [`LATEST`].
    pub fn assigned(config: ConsumerConfig, partitions: impl IntoIterator<Item = (TopicPartition, i64)>) -> Consumer {
        let consumer = Consumer::new(config, None);
        consumer.shared.assign(partitions.into_iter().collect());
        consumer
    }

    /// Reads what the group gives it.
    pub fn subscribed(config: ConsumerConfig, subscription: Subscription) -> Consumer {
        Consumer::member(config, subscription, None)
    }

    /// The same for somebody who wants to know what happens to the partitions, and commits by [`Consumer::commit`] what a
    /// poll has given: until the next poll, no partition is given up.
    pub fn listening(
        config: ConsumerConfig,
        subscription: Subscription,
        listener: impl Fn(Rebalance) + 'static,
    ) -> Consumer {
        Consumer::member(config, subscription, Some(Box::new(listener)))
    }

    fn member(config: ConsumerConfig, subscription: Subscription, listener: Option<Listener>) -> Consumer {
        let mut consumer = Consumer::new(config, listener);
        let shared = consumer.shared.clone();
        let member = match shared.config.group_protocol {
            GroupProtocol::Classic => tokio::task::spawn_local(classic::run(shared, subscription)),
            GroupProtocol::Consumer => tokio::task::spawn_local(next_generation::run(shared, subscription)),
        };
        consumer.member = Some(member);
        consumer
    }

    /// How long it was without partitions before it got some: what joining a group takes.
    pub fn joining(&self) -> Duration {
        self.shared.idle()
    }

    /// The records that come next; none if none have come in time. Not to be dropped halfway.
    pub async fn poll(&mut self, limit: Duration) -> Result<Vec<Consumed>> {
        self.shared.use_records(false);
        let deadline =
            Instant::now().checked_add(limit).unwrap_or_else(|| Instant::now() + Duration::from_secs(u32::MAX.into()));
        loop {
            if let Some(error) = self.shared.failure.borrow_mut().take() {
                return Err(error);
            }
            self.commit_now_and_then().await;
            let records = self.hand_out();
            if !records.is_empty() {
                return Ok(records);
            }
            let wake = deadline.min(self.fetch(deadline).await?);
            tokio::select! {
                Some(fetched) = self.fetches.next() => self.take(fetched)?,
                () = self.shared.changed.notified() => {}
                () = sleep_until(wake) => {}
            }
            if Instant::now() >= deadline {
                return Ok(self.hand_out());
            }
        }
    }

    /// Records of the buffer whose partitions are still assigned, as many as a poll may give.
    fn hand_out(&mut self) -> Vec<Consumed> {
        let mut positions = self.shared.positions.borrow_mut();
        let mut records = Vec::new();
        while records.len() < self.shared.config.max_poll_records
            && let Some(record) = self.buffer.pop_front()
        {
            if let Some(position) =
                positions.get_mut(&record.place()).filter(|position| position.offset <= record.offset)
            {
                position.offset = record.offset + 1;
                records.push(record);
            }
        }
        if self.buffer.is_empty() {
            // Control records and those of aborted transactions lie behind, too.
            for position in
                positions.values_mut().filter(|position| position.fetched > position.offset && position.offset >= 0)
            {
                position.offset = position.fetched;
            }
        }
        self.shared.use_records(!records.is_empty());
        records
    }

    /// Gives back records that were handed out and not used: they are not committed.
    pub fn put_back(&self, unused: impl IntoIterator<Item = Consumed>) {
        let mut positions = self.shared.positions.borrow_mut();
        let mut seen = BTreeSet::new();
        for record in unused {
            let place = record.place();
            if seen.insert(place.clone())
                && let Some(position) = positions.get_mut(&place)
            {
                position.offset = record.offset;
            }
        }
    }

    async fn commit_now_and_then(&mut self) {
        if self.member.is_some() && Instant::now() >= self.next_commit {
            self.next_commit = Instant::now() + self.shared.config.auto_commit_interval;
            offsets::auto_commit(&self.shared).await;
        }
    }

    /// Asks each leader that is not asked yet for what comes next. Returns when to look again.
    async fn fetch(&mut self, deadline: Instant) -> Result<Instant> {
        let now = Instant::now();
        if now < self.not_before {
            return Ok(self.not_before);
        }
        let backoff = self.shared.config.client.retry_backoff;
        let left = deadline.saturating_duration_since(now).max(Duration::from_millis(1));
        match timeout(left, offsets::look_up(&self.shared)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) if !error.is_retriable() => return Err(error),
            Ok(Err(_)) | Err(_) => {
                self.shared.forget_leaders();
                self.not_before = Instant::now() + backoff;
                return Ok(self.not_before);
            }
        }
        let mut by_node: BTreeMap<i32, BTreeMap<TopicPartition, i64>> = BTreeMap::new();
        {
            let leaders = self.shared.leaders.borrow();
            for (place, position) in self.shared.positions.borrow().iter().filter(|(_, position)| position.offset >= 0)
            {
                if let Some(&leader) = leaders.get(place) {
                    by_node.entry(leader).or_default().insert(place.clone(), position.offset.max(position.fetched));
                }
            }
        }
        for (node, from) in by_node {
            if self.busy.contains(&node) {
                continue;
            }
            match self.connection(node).await {
                Ok(connection) => {
                    let request = self.request(&from);
                    let limit = self.shared.config.client.request_timeout + self.shared.config.fetch_max_wait;
                    self.busy.insert(node);
                    self.fetches.push(Box::pin(async move {
                        let version = connection.versions.common::<FetchRequest>(LAST_FETCH_WITH_NAMES);
                        let answer =
                            in_time(limit, async { connection.send(&request, version?).await?.receive().await }).await;
                        Fetched { node, from, answer }
                    }));
                }
                Err(_) => {
                    self.shared.forget_leaders();
                    self.not_before = Instant::now() + backoff;
                    return Ok(self.not_before);
                }
            }
        }
        // The member may get partitions, or a leader be elected, at any time.
        Ok(Instant::now() + backoff.max(Duration::from_millis(100)))
    }

    /// Of the fetches alone: they keep others waiting.
    async fn connection(&mut self, node: i32) -> Result<Rc<Connection>> {
        if let Some(open) = self.connections.get(&node).filter(|connection| connection.is_open()) {
            return Ok(open.clone());
        }
        let opened = Rc::new(self.shared.client.own_connection(&Target::Node(node)).await?);
        self.connections.insert(node, opened.clone());
        Ok(opened)
    }

    fn request(&self, from: &BTreeMap<TopicPartition, i64>) -> FetchRequest {
        let config = &self.shared.config;
        let mut topics: Vec<FetchTopic> = Vec::new();
        for (place, offset) in from {
            let topic = &*place.topic;
            let asked = FetchPartition::default()
                .with_partition(place.partition.0)
                .with_fetch_offset(*offset)
                .with_partition_max_bytes(config.max_partition_fetch_bytes);
            match topics.last_mut().filter(|last| last.topic.as_str() == topic) {
                Some(last) => last.partitions.push(asked),
                None => {
                    topics.push(FetchTopic::default().with_topic(TopicName(text(topic))).with_partitions(vec![asked]))
                }
            }
        }
        FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(config.fetch_max_wait.as_millis() as i32)
            .with_min_bytes(config.fetch_min_bytes)
            .with_max_bytes(config.fetch_max_bytes)
            .with_isolation_level(i8::from(config.read_committed))
            .with_session_id(NO_SESSION)
            .with_session_epoch(FINAL_EPOCH)
            .with_topics(topics)
    }

    fn take(&mut self, fetched: Fetched) -> Result<()> {
        self.busy.remove(&fetched.node);
        let failed = |consumer: &mut Consumer| {
            consumer.shared.forget_leaders();
            consumer.not_before = Instant::now() + consumer.shared.config.client.retry_backoff;
        };
        let answer = match fetched.answer {
            Ok(answer) => answer,
            Err(error) if error.is_retriable() => {
                self.connections.remove(&fetched.node);
                failed(self);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        Error::check(answer.error_code, None::<String>)?;
        for topic in answer.responses {
            let name: Name = topic.topic.as_str().into();
            for data in topic.partitions {
                let place = TopicPartition::new(name.clone(), data.partition_index);
                let Some(&from) = fetched.from.get(&place) else { continue };
                // It may have been given up meanwhile, or begun anew elsewhere.
                let still =
                    self.shared.positions.borrow().get(&place).is_some_and(|at| at.offset.max(at.fetched) == from);
                if !still {
                    continue;
                }
                match ErrorCode::from_code(data.error_code) {
                    Some(ErrorCode::None) => {}
                    Some(ErrorCode::OffsetOutOfRange) if self.shared.config.reset == Reset::None => {
                        return Err(Error::new(
                            "org.apache.kafka.clients.consumer.OffsetOutOfRangeException",
                            format!("Fetch position {from} is out of range for partition {place}"),
                        ));
                    }
                    Some(ErrorCode::OffsetOutOfRange) => {
                        self.shared.reset(&place)?;
                        continue;
                    }
                    Some(code) if code.retriable() => {
                        failed(self);
                        continue;
                    }
                    _ => return Err(Error::of(data.error_code, None::<String>)),
                }
                let aborted = data.aborted_transactions.unwrap_or_default();
                let aborted = match self.shared.config.read_committed {
                    true => aborted.iter().map(|aborted| (aborted.producer_id.0, aborted.first_offset)).collect(),
                    false => Vec::new(),
                };
                let bytes = data.records.unwrap_or_default();
                let decoded =
                    decode::decode(&name, data.partition_index, &bytes, from, aborted, self.shared.config.check_crcs)?;
                if let (Some(next), Some(position)) =
                    (decoded.next_offset, self.shared.positions.borrow_mut().get_mut(&place))
                {
                    position.fetched = next.max(from);
                    self.buffer.extend(decoded.records);
                }
            }
        }
        Ok(())
    }

    /// Commits these offsets, once more where it may succeed in a moment.
    pub async fn commit(&self, offsets: &BTreeMap<TopicPartition, i64>) -> Result<()> {
        self.shared.client.retry("offsetCommit", async || offsets::commit(&self.shared, offsets).await).await
    }

    /// Commits what was handed out, if that is wanted, and leaves the group.
    pub async fn close(mut self) {
        let limit = self.shared.config.client.request_timeout;
        if let Some(member) = self.member.take() {
            offsets::auto_commit(&self.shared).await;
            self.shared.use_records(false);
            self.shared.give_up();
            self.shared.closing.set(true);
            self.shared.wake_member.notify_one();
            // It leaves the group and ends, or the time is up.
            let _ = timeout(limit, member).await;
        }
    }
}

/// Waits before something is tried again.
async fn back_off(config: &ConsumerConfig) {
    sleep(config.client.retry_backoff).await;
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// Records that came just when a poll's time was up could be given up by the member while they were worked with.
    #[tokio::test]
    async fn what_is_handed_out_is_in_use_until_the_next_poll() {
        let config = config::tests::config(&[("group.id", "g")]).unwrap();
        let mut consumer = Consumer::new(config, Some(Box::new(|_| {})));
        let record = Consumed {
            topic: "t".into(),
            partition: 0,
            offset: 0,
            timestamp: (TimestampType::CreateTime, 0),
            key: None,
            value: None,
            headers: Vec::new(),
        };
        consumer.shared.assign([(record.place(), 0)].into());
        consumer.buffer.push_back(record);
        assert!(consumer.shared.until_done().now_or_never().is_some());
        assert_eq!(consumer.hand_out().len(), 1);
        assert!(consumer.shared.until_done().now_or_never().is_none());
        assert_eq!(consumer.hand_out().len(), 0);
        assert!(consumer.shared.until_done().now_or_never().is_some());
    }
}
