//! The task behind a [`Producer`](super::Producer): takes its commands, sends what is due, and takes the answers.
//!
//! | file | owns |
//! |---|---|
//! | `topic` | partitions and their leaders |
//! | `answers` | what becomes of batches |
//! | `transactions` | the producer's identity, and its transactions |

mod answers;
mod topic;
mod transactions;

use std::collections::HashMap;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ProduceRequest, ProduceResponse, TopicName, TransactionalId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use self::transactions::uses_transactions_v2;
use super::batch::{Batch, Queue, largest_size_of, size_of};
use super::config::{Acks, ProducerConfig};
use super::{Command, Outgoing, Position};
use crate::client::cluster::{Client, Target};
use crate::client::epoch_ms;
use crate::client::error::{Error, Result};
use crate::client::log::{self, Level};
use crate::client::murmur2::partition_of;
use crate::client::text;
use crate::protocol::ErrorCode;
use crate::types::{ProducerEpoch, ProducerId};

/// Names of topics stand in the requests up to here, ids in those after it.
const LAST_PRODUCE_WITH_NAMES: i16 = 12;
/// From Produce v12 on, the leader adds its partition to the transaction: `transaction.version` 2.
const LAST_PRODUCE_BEFORE_V2: i16 = 11;

pub type Deliver<T> = Box<dyn FnMut(T, Result<Position>)>;

pub struct Sender<T> {
    client: Client,
    config: ProducerConfig,
    topic: String,
    deliver: Deliver<T>,
    /// By partition; empty until the topic is known.
    queues: Vec<Queue<T>>,
    leaders: Vec<Option<i32>>,
    /// The leaders have to be asked for.
    stale: bool,
    in_flight: FuturesUnordered<LocalBoxFuture<'static, Returned<T>>>,
    per_node: HashMap<i32, usize>,
    /// Bytes that wait or are on their way.
    buffered: usize,
    /// Where records without a key go, and how many bytes have gone there.
    sticky: (usize, usize),
    /// How many records have gone to partitions in turn.
    turn: usize,
    identity: Option<(ProducerId, ProducerEpoch)>,
    /// A sequence is missing for good: another producer id is needed before anything goes on.
    broken: bool,
    flushing: Vec<Flush>,
    closing: bool,
    /// The topic's name is none, and the log has that already.
    reported_invalid: bool,
}

struct Flush {
    answer: oneshot::Sender<Result<()>>,
    commit: bool,
}

/// A request that has come back, or never will.
struct Returned<T> {
    node: i32,
    batches: Vec<(usize, Batch<T>)>,
    answer: Result<Option<ProduceResponse>>,
}

impl<T: 'static> Sender<T> {
    pub fn new(client: Client, config: ProducerConfig, topic: String, deliver: Deliver<T>) -> Sender<T> {
        Sender {
            client,
            config,
            topic,
            deliver,
            queues: Vec::new(),
            leaders: Vec::new(),
            stale: true,
            in_flight: FuturesUnordered::new(),
            per_node: HashMap::new(),
            buffered: 0,
            sticky: (usize::MAX, 0),
            turn: 0,
            identity: None,
            broken: false,
            flushing: Vec::new(),
            closing: false,
            reported_invalid: false,
        }
    }

    pub async fn run(mut self, mut commands: mpsc::Receiver<Command<T>>) {
        while !(self.closing && self.is_idle()) {
            let wake = self.launch().await;
            self.finish_flushes().await;
            let room = !self.closing && self.buffered < self.config.buffer_memory && self.flushing.is_empty();
            if self.closing && self.is_idle() {
                break;
            }
            tokio::select! {
                command = commands.recv(), if room => match command {
                    Some(command) => {
                        self.take(command).await;
                        // What waits already is taken along, so that a batch is looked at once and not for each record.
                        while self.buffered < self.config.buffer_memory && self.flushing.is_empty()
                            && let Ok(command) = commands.try_recv()
                        {
                            self.take(command).await;
                        }
                    }
                    None => self.closing = true,
                },
                Some(returned) = self.in_flight.next() => self.settle(returned),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.queues.iter().all(|queue| queue.waiting.is_empty())
    }

    async fn take(&mut self, command: Command<T>) {
        match command {
            Command::Send(record) => self.append(record).await,
            Command::Flush(answer) => self.flushing.push(Flush { answer, commit: false }),
            Command::Commit(answer) => self.flushing.push(Flush { answer, commit: true }),
            Command::InitTransactions(answer) => {
                let outcome = self.init_producer().await;
                // Who asked may have gone.
                let _ = answer.send(outcome);
            }
        }
    }

    // --- records come in -------------------------------------------------------------------------------------------

    async fn append(&mut self, record: Outgoing<T>) {
        let size = size_of(&record);
        let largest = largest_size_of(&record);
        if largest > self.config.max_request_size {
            let error = Error::of(
                ErrorCode::MessageTooLarge.code(),
                Some(format!(
                    "The message is {largest} bytes when serialized which is larger than {}, which is the value of the max.request.size configuration.",
                    self.config.max_request_size
                )),
            );
            return (self.deliver)(record.receipt, Err(error));
        }
        if self.queues.is_empty()
            && let Err(error) = self.learn_topic(self.config.max_block).await
        {
            return (self.deliver)(record.receipt, Err(error));
        }
        let partition = match (record.partition, &record.key) {
            (Some(partition), _) => match usize::try_from(partition).ok().filter(|&index| index < self.queues.len()) {
                Some(index) => index,
                None => {
                    let error = Error::timeout(format!(
                        "Partition {partition} of topic {} with partition count {} is not present in metadata after {} ms.",
                        self.topic,
                        self.queues.len(),
                        self.config.max_block.as_millis()
                    ));
                    return (self.deliver)(record.receipt, Err(error));
                }
            },
            (None, _) if self.config.round_robin => self.next_in_turn(),
            (None, Some(key)) => partition_of(key, self.queues.len()),
            (None, None) => self.stick(size),
        };
        let timestamp = record.timestamp.unwrap_or_else(epoch_ms);
        let queue = &mut self.queues[partition];
        let before: usize = queue.waiting.back().map_or(0, Batch::size);
        let batches = queue.waiting.len();
        queue.push(record, timestamp, self.config.batch_size, Instant::now());
        let after = queue.waiting.back().map_or(0, Batch::size);
        self.buffered += if queue.waiting.len() > batches { after } else { after - before };
    }

    /// The partitions with a leader; all, if there is none.
    fn candidates(&self) -> Vec<usize> {
        let led: Vec<usize> = (0..self.leaders.len()).filter(|&index| self.leaders[index].is_some()).collect();
        if led.is_empty() { (0..self.queues.len()).collect() } else { led }
    }

    /// One partition after the other, with or without a key.
    fn next_in_turn(&mut self) -> usize {
        let candidates = self.candidates();
        let turn = self.turn % candidates.len();
        self.turn = self.turn.wrapping_add(1);
        candidates[turn]
    }

    /// The partition for a record without a key: the same until a batch is full, then another one with a leader.
    fn stick(&mut self, size: usize) -> usize {
        if self.sticky.0 >= self.queues.len() || self.sticky.1 >= self.config.batch_size {
            let candidates = self.candidates();
            self.sticky = (candidates[rand::random_range(0..candidates.len())], 0);
        }
        self.sticky.1 += size;
        self.sticky.0
    }

    // --- requests go out -------------------------------------------------------------------------------------------

    /// Sends what is due. Returns when to look again, if time alone will make something due.
    async fn launch(&mut self) -> Option<Instant> {
        self.expire();
        if self.broken {
            if !self.in_flight.is_empty() {
                return None;
            }
            self.identity = None;
        }
        loop {
            let now = Instant::now();
            let flushing = self.closing || !self.flushing.is_empty();
            let wake = self.queues.iter().filter_map(|queue| queue.due(&self.config, flushing)).min()?;
            if wake > now {
                return Some(wake);
            }
            if let Err(error) = self.prepare().await {
                self.postpone_all(&error);
                continue;
            }
            let led_and_due = |index: usize| self.queues[index].due(&self.config, flushing).is_some_and(|at| at <= now);
            let nodes =
                (0..self.queues.len()).filter(|&index| led_and_due(index)).filter_map(|index| self.leaders[index]);
            let free = |node: &i32| self.per_node.get(node).copied().unwrap_or(0) < self.config.max_in_flight;
            match nodes.into_iter().find(free) {
                Some(node) => self.send_to(node, now, flushing).await,
                // Those without a leader are looked for again; for the others an answer has to come first.
                None if self.leaders.contains(&None) => {
                    self.stale = true;
                    return Some(now + self.config.client.retry_backoff);
                }
                None => return None,
            }
        }
    }

    /// Whatever has to be known before anything can be sent.
    async fn prepare(&mut self) -> Result<()> {
        if self.stale {
            self.ask_topic().await?;
        }
        if self.config.idempotent && self.identity.is_none() {
            self.init_producer().await?;
        }
        Ok(())
    }

    /// One request, with the first batch of each partition of the node that is due.
    async fn send_to(&mut self, node: i32, now: Instant, flushing: bool) {
        let connection = match self.client.connection(&Target::Node(node)).await {
            Ok(connection) => connection,
            Err(error) => {
                let due: Vec<usize> =
                    (0..self.queues.len()).filter(|&index| self.leaders[index] == Some(node)).collect();
                return self.postpone(&due, &error);
            }
        };
        let v2 = uses_transactions_v2(&connection);
        let mut batches = Vec::new();
        let mut size = 0;
        for (index, queue) in self.queues.iter_mut().enumerate() {
            let led = self.leaders[index] == Some(node);
            if !led || queue.due(&self.config, flushing).is_none_or(|at| at > now) {
                continue;
            }
            let next = queue.waiting.front().map_or(0, Batch::size);
            if size > 0 && size + next > self.config.max_request_size {
                continue;
            }
            size += next;
            if self.identity.is_some() {
                queue.number_first();
            }
            if let Some(mut batch) = queue.waiting.pop_front() {
                queue.in_flight += 1;
                batch.tries += 1;
                batches.push((index, batch));
            }
        }
        *self.per_node.entry(node).or_default() += 1;
        if !v2
            && self.config.transactional_id.is_some()
            && let Err(error) = self.add_partitions(&batches).await
        {
            return self.settle(Returned { node, batches, answer: Err(error) });
        }
        let data = batches.iter().map(|(index, batch)| {
            PartitionProduceData::default()
                .with_index(*index as i32)
                .with_records(Some(batch.encode(&self.config, self.identity)))
        });
        let topic =
            TopicProduceData::default().with_name(TopicName(text(&self.topic))).with_partition_data(data.collect());
        let request = ProduceRequest::default()
            .with_transactional_id(self.config.transactional_id.as_deref().map(|id| TransactionalId(text(id))))
            .with_acks(self.config.acks.number())
            .with_timeout_ms(self.config.client.request_timeout_ms())
            .with_topic_data(vec![topic]);
        let most =
            if v2 || self.config.transactional_id.is_none() { LAST_PRODUCE_WITH_NAMES } else { LAST_PRODUCE_BEFORE_V2 };
        let version = match connection.versions.common::<ProduceRequest>(most) {
            Ok(version) => version,
            Err(error) => return self.settle(Returned { node, batches, answer: Err(error) }),
        };
        if self.config.acks == Acks::None {
            let answer = connection.send_unanswered(&request, version).await.map(|()| None);
            return self.settle(Returned { node, batches, answer });
        }
        let sent = connection.send(&request, version).await;
        let limit = self.config.client.request_timeout;
        self.in_flight.push(Box::pin(async move {
            let answer = match sent {
                Ok(answer) => match timeout(limit, answer.receive()).await {
                    Ok(answer) => answer.map(Some),
                    Err(_) => Err(Error::of(ErrorCode::RequestTimedOut.code(), None::<String>)),
                },
                Err(error) => Err(error),
            };
            // It must not end before its answer has come.
            drop(connection);
            Returned { node, batches, answer }
        }));
    }

    async fn finish_flushes(&mut self) {
        if self.flushing.is_empty() || !self.is_idle() {
            return;
        }
        for flush in std::mem::take(&mut self.flushing) {
            let outcome = if flush.commit { self.end_transaction().await } else { Ok(()) };
            // Who asked may have gone.
            let _ = flush.answer.send(outcome);
        }
    }

    fn warn(&self, message: std::fmt::Arguments<'_>) {
        log::write(
            Level::Warn,
            "org.apache.kafka.clients.producer.internals.Sender",
            format_args!("[Producer clientId={}] {message}", self.config.client.client_id),
        );
    }
}
