//! A cluster as a client sees it: its nodes, a connection to each that is talked to, and retries until time is up.
//!
//! Nodes are learnt from the bootstrap servers with the first thing to do, and anew after each failure. A node that does
//! not answer costs a warning as Kafka's clients log it, and the next one is asked.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::metadata_response::MetadataResponseBroker;
use kafka_protocol::messages::{DescribeClusterRequest, FindCoordinatorRequest, MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::Request;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use super::config::ClientConfig;
use super::connection::{AnyRequest, Connection, decode, no_answer};
use super::epoch_ms;
use super::error::{Error, Result};
use super::log::{self, Level};
use super::text;

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: i32,
    pub host: String,
    pub port: u16,
    pub rack: Option<String>,
}

impl From<&MetadataResponseBroker> for Node {
    fn from(broker: &MetadataResponseBroker) -> Node {
        let rack = broker.rack.as_deref().map(str::to_owned);
        Node { id: broker.node_id.0, host: broker.host.to_string(), port: broker.port as u16, rack }
    }
}

impl From<&DescribeClusterBroker> for Node {
    fn from(broker: &DescribeClusterBroker) -> Node {
        let rack = broker.rack.as_deref().map(str::to_owned);
        Node { id: broker.broker_id.0, host: broker.host.to_string(), port: broker.port as u16, rack }
    }
}

/// Who is to answer a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Any,
    Controller,
    Node(i32),
    /// Of a group, by its id.
    GroupCoordinator(String),
    /// Of a transactional id.
    TransactionCoordinator(String),
}

/// Talks to a cluster.
pub struct Client {
    pub config: ClientConfig,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Empty until the cluster is known.
    nodes: BTreeMap<i32, Node>,
    controller: Option<i32>,
    /// By node, and by position among the bootstrap servers, counted down from -1.
    connections: HashMap<i32, Arc<Connection>>,
    /// When a node may be connected to again, and how long the next wait is.
    refused: HashMap<i32, (Instant, Duration)>,
}

/// How often something was tried, and until when it may be.
struct Tries<'a> {
    name: &'a str,
    deadline: Instant,
    deadline_ms: i64,
    made: u32,
}

impl Tries<'_> {
    fn begin<'a>(name: &'a str, config: &ClientConfig) -> Tries<'a> {
        let deadline_ms = epoch_ms() + config.api_timeout.as_millis() as i64;
        Tries { name, deadline: Instant::now() + config.api_timeout, deadline_ms, made: 0 }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

impl Client {
    /// Nothing is connected to yet.
    pub fn new(config: ClientConfig) -> Client {
        Client { config, state: Mutex::default() }
    }

    /// Does something once more until it succeeds, fails for good, or the time for it is up. `name` is what Kafka calls
    /// it in its messages.
    pub async fn retry<T>(&self, name: &str, attempt: impl AsyncFn() -> Result<T>) -> Result<T> {
        let mut tries = Tries::begin(name, &self.config);
        loop {
            // Boxed, so that those who call this are not compiled around a copy of what they do.
            let attempted = timeout(tries.left(), Box::pin(attempt())).await;
            let error = match attempted {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(error)) if !error.is_retriable() => return Err(error),
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            self.before_next(&mut tries, error).await?;
        }
    }

    /// Waits until it may be tried again, if there is time left for it.
    async fn before_next(&self, tries: &mut Tries<'_>, error: Option<Error>) -> Result<()> {
        tries.made += 1;
        self.state.lock().nodes.clear();
        let backoff = self.backoff(tries.made);
        if Instant::now() + backoff < tries.deadline {
            sleep(backoff).await;
            return Ok(());
        }
        let Tries { name, deadline_ms, made, .. } = tries;
        let no_node = error.as_ref().is_none_or(|error| error.message() == NO_NODE);
        if no_node {
            return Err(Error::timeout(format!("Timed out waiting for a node assignment. Call: {name}")));
        }
        let now = epoch_ms();
        let timed_out = Error::timeout(format!(
            "Call(callName={name}, deadlineMs={deadline_ms}, tries={made}, nextAllowedTryMs={}) timed out at {now} after {made} attempt(s)",
            now + backoff.as_millis() as i64,
        ));
        Err(match error {
            Some(error) => timed_out.caused_by(error),
            None => timed_out,
        })
    }

    /// One request, once more where a node is missing or the connection breaks. What the answer says is the caller's.
    pub async fn call<R: Request>(&self, name: &str, target: &Target, request: &R) -> Result<R::Response> {
        self.retry(name, async || self.send(target, request).await).await
    }

    /// One request, once.
    pub async fn send<R: Request>(&self, target: &Target, request: &R) -> Result<R::Response> {
        self.send_at_most(target, request, i16::MAX).await
    }

    /// One request, once, in no version above `most`.
    pub async fn send_at_most<R: Request>(&self, target: &Target, request: &R, most: i16) -> Result<R::Response> {
        let (answer, version) = Box::pin(self.exchange(target, request, most)).await?;
        decode::<R>(answer, version)
    }

    async fn exchange(&self, target: &Target, request: &dyn AnyRequest, most: i16) -> Result<(Bytes, i16)> {
        let connection = self.connection(target).await?;
        self.in_time(&connection, connection.exchange(request, most)).await
    }

    /// Waits for an answer as long as one may take. A connection on which none has come is not used again.
    pub(super) async fn in_time<T>(
        &self,
        connection: &Arc<Connection>,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        timeout(self.config.request_timeout, answer).await.unwrap_or_else(|_| {
            self.state.lock().connections.retain(|_, kept| !Arc::ptr_eq(kept, connection));
            Err(no_answer())
        })
    }

    /// An open connection to whom `target` says.
    pub async fn connection(&self, target: &Target) -> Result<Arc<Connection>> {
        let id = match target {
            Target::Any => return self.any().await,
            Target::Node(id) => *id,
            Target::Controller => {
                self.learn_nodes().await?;
                let controller = self.state.lock().controller;
                controller.ok_or_else(no_node)?
            }
            Target::GroupCoordinator(group) => self.find_coordinator(GROUP, group).await?.id,
            Target::TransactionCoordinator(id) => self.find_coordinator(TRANSACTION, id).await?.id,
        };
        if let Some(open) = self.open_connection(id) {
            return Ok(open);
        }
        self.learn_nodes().await?;
        let node = self.state.lock().nodes.get(&id).cloned().ok_or_else(no_node)?;
        self.connect(id, &node.host, node.port).await
    }

    /// A connection of the caller's own, for answers that may take long.
    pub async fn own_connection(&self, target: &Target) -> Result<Connection> {
        let (host, port) = &self.connection(target).await?.address;
        Connection::open(host, *port, &self.config).await
    }

    /// The nodes, ascending by id; asked for anew.
    pub async fn nodes(&self) -> Result<Vec<Node>> {
        self.retry("listNodes", async || self.learn_nodes().await).await?;
        Ok(self.state.lock().nodes.values().cloned().collect())
    }

    /// Where the coordinator of a group is.
    pub async fn group_coordinator(&self, group: &str) -> Result<Node> {
        self.find_coordinator(GROUP, group).await
    }

    /// Where the coordinator of a transactional id is.
    pub async fn transaction_coordinator(&self, id: &str) -> Result<Node> {
        self.find_coordinator(TRANSACTION, id).await
    }

    async fn find_coordinator(&self, kind: i8, key: &str) -> Result<Node> {
        let any = self.any().await?;
        let version = any.versions.common::<FindCoordinatorRequest>(i16::MAX)?;
        let request = FindCoordinatorRequest::default().with_key_type(kind);
        let ask = async |request: FindCoordinatorRequest| {
            self.in_time(&any, async { any.send(&request, version).await?.receive().await }).await
        };
        if version < FIRST_OF_MANY_COORDINATORS {
            let answer = ask(request.with_key(text(key))).await?;
            Error::check(answer.error_code, answer.error_message.as_deref())?;
            return Ok(self.remember(answer.node_id.0, answer.host.as_str(), answer.port));
        }
        let answer = ask(request.with_coordinator_keys(vec![text(key)])).await?;
        let found = answer.coordinators.first().ok_or_else(no_node)?;
        Error::check(found.error_code, found.error_message.as_deref().filter(|text| !text.is_empty()))?;
        Ok(self.remember(found.node_id.0, found.host.as_str(), found.port))
    }

    /// Takes a node over that an answer named, where it is now.
    fn remember(&self, id: i32, host: &str, port: i32) -> Node {
        let node = Node { id, host: host.to_owned(), port: port as u16, rack: None };
        let mut state = self.state.lock();
        if !state.nodes.is_empty() {
            let known = state.nodes.entry(id).or_insert_with(|| node.clone());
            (known.host, known.port) = (node.host.clone(), node.port);
        }
        node
    }

    /// Asks for the nodes if they are not known.
    async fn learn_nodes(&self) -> Result<()> {
        if !self.state.lock().nodes.is_empty() {
            return Ok(());
        }
        let any = self.any().await?;
        let (nodes, controller) = self.in_time(&any, self.ask_nodes(&any)).await?;
        if nodes.is_empty() {
            return Err(no_node());
        }
        self.know(nodes, controller);
        Ok(())
    }

    /// Takes the nodes over from an answer that somebody asked for.
    pub fn take_nodes(&self, answer: &MetadataResponse) {
        self.know(brokers(answer), known(answer.controller_id.0));
    }

    fn know(&self, nodes: Vec<Node>, controller: Option<i32>) {
        let mut state = self.state.lock();
        // An address may have changed hands.
        state.connections.retain(|id, _| *id < 0 || nodes.iter().any(|node| node.id == *id));
        state.nodes = nodes.into_iter().map(|node| (node.id, node)).collect();
        state.controller = controller;
    }

    async fn ask_nodes(&self, any: &Connection) -> Result<(Vec<Node>, Option<i32>)> {
        if self.config.controllers {
            let answer = any.call(&DescribeClusterRequest::default().with_endpoint_type(CONTROLLERS)).await?;
            Error::check(answer.error_code, answer.error_message.as_deref())?;
            return Ok((answer.brokers.iter().map(Node::from).collect(), known(answer.controller_id.0)));
        }
        // No topics: in v0 that would mean all of them, but no node of today speaks v0 alone.
        let answer = any.call(&MetadataRequest::default().with_topics(Some(Vec::new()))).await?;
        Ok((brokers(&answer), known(answer.controller_id.0)))
    }

    /// A node that answers: one that is connected already, else those that are known, else the bootstrap servers.
    async fn any(&self) -> Result<Arc<Connection>> {
        let (open, mut candidates) = {
            let mut state = self.state.lock();
            state.connections.retain(|_, connection| connection.is_open());
            let open = state.connections.values().next().cloned();
            let nodes: Vec<_> = state.nodes.values().map(|node| (node.id, node.host.clone(), node.port)).collect();
            (open, nodes)
        };
        if let Some(open) = open {
            return Ok(open);
        }
        let bootstrap = self.config.bootstrap.iter().enumerate();
        let bootstrap = bootstrap.map(|(index, (host, port))| (-1 - index as i32, host.clone(), *port));
        candidates.extend(bootstrap);
        for (id, host, port) in candidates {
            if let Ok(connection) = self.connect(id, &host, port).await {
                return Ok(connection);
            }
        }
        Err(no_node())
    }

    fn open_connection(&self, id: i32) -> Option<Arc<Connection>> {
        self.state.lock().connections.get(&id).filter(|connection| connection.is_open()).cloned()
    }

    async fn connect(&self, id: i32, host: &str, port: u16) -> Result<Arc<Connection>> {
        let not_before = self.state.lock().refused.get(&id).map(|(at, _)| *at);
        if let Some(at) = not_before {
            tokio::time::sleep_until(at).await;
        }
        match Connection::open(host, port, &self.config).await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                let mut state = self.state.lock();
                state.refused.remove(&id);
                state.connections.insert(id, connection.clone());
                Ok(connection)
            }
            Err(error) => {
                let mut state = self.state.lock();
                let wait = state.refused.get(&id).map_or(self.config.reconnect_backoff, |(_, wait)| *wait);
                let next = (wait * 2).min(self.config.reconnect_backoff_max);
                state.refused.insert(id, (Instant::now() + wait, next));
                drop(state);
                log::write(
                    Level::Warn,
                    "org.apache.kafka.clients.NetworkClient",
                    format_args!(
                        "[{} clientId={}] Connection to node {id} ({host}:{port}) could not be established. Node may not be available: {}",
                        self.config.role,
                        self.config.client_id,
                        error.message(),
                    ),
                );
                Err(error)
            }
        }
    }

    /// Logs what went wrong at an API, as the handler of that name in Java's admin client logs it.
    pub fn log_failure(&self, handler: &str, message: impl Display) {
        log::write(
            Level::Error,
            &format!("org.apache.kafka.clients.admin.internals.{handler}"),
            format_args!("[{} clientId={}] {message}", self.config.role, self.config.client_id),
        );
    }

    /// Doubles from retry to retry, a fifth up or down by chance.
    fn backoff(&self, tries: u32) -> Duration {
        let doubled = self.config.retry_backoff.saturating_mul(1 << (tries - 1).min(16));
        doubled.min(self.config.retry_backoff_max).mul_f64(rand::random_range(0.8..1.2))
    }
}

/// Kinds of coordinators on the wire.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
/// The first FindCoordinator that asks for several.
const FIRST_OF_MANY_COORDINATORS: i16 = 4;
/// The kind of endpoints that DescribeCluster is asked for.
const CONTROLLERS: i8 = 2;

const NO_NODE: &str = "no node";

fn brokers(answer: &MetadataResponse) -> Vec<Node> {
    answer.brokers.iter().map(Node::from).collect()
}

/// Never printed: in its stead stands that time is up.
fn no_node() -> Error {
    Error::disconnected(NO_NODE)
}

fn known(id: i32) -> Option<i32> {
    (id >= 0).then_some(id)
}

#[cfg(test)]
mod tests;
