//! A producer to one topic: what Java's does with its default partitioner, for the tools that write.
//!
//! ```text
//! Producer::send ──commands──▶ Sender: a queue of batches for each partition ──requests──▶ leaders
//!                                      └── what became of each record ──▶ the deliveries' closure
//! ```
//!
//! Batches of a partition keep their order through every retry: several requests may be on their way to a node, but a
//! partition one of whose batches has failed sends nothing more until all of its others have come back, and begins anew
//! with the oldest. A batch that is larger than the topic allows fails; it is not split.

mod batch;
mod config;
mod sender;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::cluster::Client;
use super::error::{Error, Result};
pub use config::{Acks, ProducerConfig};
use sender::Sender;

/// Records that wait for the sender. Enough that neither waits for the other's turn.
const QUEUE: usize = 256;

/// Names and values, in their order.
pub type Headers = Vec<(String, Option<Vec<u8>>)>;

/// One record to send.
#[derive(Clone, Debug, Default)]
pub struct Outgoing<T> {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Headers,
    /// `None`: by the key's hash, or wherever the producer is at.
    pub partition: Option<i32>,
    /// In ms; `None` for now.
    pub timestamp: Option<i64>,
    /// Handed back with the outcome.
    pub receipt: T,
}

/// Where a record is. The offset is -1 where nobody was asked for it (`acks=0`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub partition: i32,
    pub offset: i64,
}

enum Command<T> {
    Send(Outgoing<T>),
    /// Answered when everything sent before has its outcome.
    Flush(oneshot::Sender<Result<()>>),
    InitTransactions(oneshot::Sender<Result<()>>),
    /// Flushes, and then commits.
    Commit(oneshot::Sender<Result<()>>),
}

/// Hands records to the task that sends them. What becomes of each is told to the closure that it was made with.
pub struct Producer<T> {
    commands: mpsc::Sender<Command<T>>,
    sender: JoinHandle<()>,
}

impl<T: 'static> Producer<T> {
    /// `deliver` gets each record's receipt, once. Within [`block_on`](crate::client::block_on).
    pub fn start(
        config: ProducerConfig,
        topic: &str,
        deliver: impl FnMut(T, Result<Position>) + 'static,
    ) -> Producer<T> {
        let (commands, queue) = mpsc::channel(QUEUE);
        let client = Client::new(config.client.clone());
        let sender = Sender::new(client, config, topic.to_owned(), Box::new(deliver));
        Producer { commands, sender: tokio::task::spawn_local(sender.run(queue)) }
    }

    /// Waits while `buffer.memory` is full.
    pub async fn send(&self, record: Outgoing<T>) -> Result<()> {
        self.commands.send(Command::Send(record)).await.map_err(|_| ended())
    }

    /// Waits until everything sent before has its outcome.
    pub async fn flush(&self) -> Result<()> {
        self.ask(Command::Flush).await
    }

    /// Fences earlier producers of the transactional id.
    pub async fn init_transactions(&self) -> Result<()> {
        self.ask(Command::InitTransactions).await
    }

    /// Commits what was sent since the last time.
    pub async fn commit_transaction(&self) -> Result<()> {
        self.ask(Command::Commit).await
    }

    async fn ask(&self, command: impl FnOnce(oneshot::Sender<Result<()>>) -> Command<T>) -> Result<()> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).await.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?
    }

    /// Ends once everything has its outcome.
    pub async fn close(self) {
        drop(self.commands);
        // It can only have panicked, and has said so.
        let _ = self.sender.await;
    }
}

fn ended() -> Error {
    Error::new("java.lang.IllegalStateException", "Cannot perform operation after producer has been closed")
}
