//! `ottla` itself: reads the settings, runs the node until it is told to end, and leaves nothing behind that it should
//! not.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::ready_file::{ReadyFile, address};
use super::signals::EndSignals;
use super::{Arguments, refuse, settings};
use crate::config::{BrokerConfig, Endpoint};
use crate::telemetry;
use crate::types::BrokerId;

/// Threads that may wait for disks at the same time.
const BLOCKING_THREADS: usize = 64;
/// How long the process waits at its end for such threads.
const BLOCKING_GRACE: Duration = Duration::from_secs(5);

/// Why a node did not start or cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFailure(pub String);

impl fmt::Display for NodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A node that serves.
pub trait RunningNode: Send + Sized {
    /// The listeners for clients, with the host of `listeners` and the port they got.
    fn endpoints(&self) -> Vec<Endpoint>;

    /// Ends only if the node cannot go on.
    fn failed(&self) -> impl Future<Output = NodeFailure> + Send;

    /// Ends the node in good order.
    fn shutdown(self) -> impl Future<Output = ()> + Send;
}

/// Runs a node with the settings that the arguments say, until a signal. Returns the process's exit code.
pub fn run<N, F>(arguments: &Arguments, start: impl FnOnce(BrokerConfig) -> F) -> u8
where
    N: RunningNode,
    F: Future<Output = Result<N, NodeFailure>>,
{
    if let Err(error) = telemetry::init() {
        return refuse(&[error.to_string()]);
    }
    let data = match arguments.ephemeral.then(|| tempfile::Builder::new().prefix("ottla-").tempdir()).transpose() {
        Ok(data) => data,
        Err(error) => return refuse(&[format!("no temporary directory: {error}")]),
    };
    let given = match settings::read(arguments, data.as_ref().map(TempDir::path)) {
        Ok(given) => given,
        Err(reason) => return refuse(&[reason]),
    };
    let code = serve_with(given, arguments.ready_file.as_deref(), Announcement::InOneLine, start);
    if let Some(data) = data
        && let Err(error) = data.close()
    {
        warn!(%error, "the temporary directory could not be removed");
    }
    code
}

/// How it is told that the node serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announcement {
    InOneLine,
    /// Also by the lines of Kafka's log that scripts and test modules wait for.
    AsKafka,
}

/// Runs a node with these settings until a signal, the log being set up. Returns the process's exit code.
pub(super) fn serve_with<N, F>(
    given: BTreeMap<String, String>,
    ready_file: Option<&Path>,
    announcement: Announcement,
    start: impl FnOnce(BrokerConfig) -> F,
) -> u8
where
    N: RunningNode,
    F: Future<Output = Result<N, NodeFailure>>,
{
    let config = match load(given) {
        Ok(config) => config,
        Err(reasons) => return refuse(&reasons),
    };
    let node_id = config.node_id;
    let ready_file = match ready_file.map(ReadyFile::prepare).transpose() {
        Ok(ready_file) => ready_file,
        Err(error) => return refuse(&[format!("--ready-file: {error}")]),
    };
    raise_file_limit();
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&[format!("no runtime: {error}")]),
    };
    let ended = runtime.block_on(async {
        let signals = EndSignals::listen().map_err(|error| NodeFailure(format!("no signal handlers: {error}")))?;
        serve(start(config), signals, ready_file, |endpoints| announce(endpoints, announcement, node_id)).await
    });
    let mut reason = None;
    let (code, grace) = match ended {
        Ok(Ended::Cleanly) => (0, BLOCKING_GRACE),
        // As shells have it for a process that a signal ended.
        Ok(Ended::AtOnce(signal)) => (128 + signal as u8, Duration::ZERO),
        Err(failure) => {
            reason = Some(failure.to_string());
            (1, BLOCKING_GRACE)
        }
    };
    runtime.shutdown_timeout(grace);
    // Once, after all that the log has to say, and whatever that lets through.
    reason.map_or(code, |reason| refuse(&[reason]))
}

enum Ended {
    Cleanly,
    /// By a second signal, of this number.
    AtOnce(i32),
}

/// For so long after a signal to end another one says nothing new.
const ECHO: Duration = Duration::from_millis(500);

async fn serve<N: RunningNode>(
    start: impl Future<Output = Result<N, NodeFailure>>,
    mut signals: EndSignals,
    ready_file: Option<ReadyFile>,
    announce: impl FnOnce(&[Endpoint]),
) -> Result<Ended, NodeFailure> {
    let node = tokio::select! {
        node = start => node?,
        signal = signals.next() => {
            info!(signal = signal.as_raw_value(), "told to end while starting");
            return Ok(Ended::Cleanly);
        }
    };
    let endpoints = node.endpoints();
    if let Some(file) = &ready_file {
        file.write(&endpoints).map_err(|error| NodeFailure(format!("--ready-file: {error}")))?;
    }
    announce(&endpoints);
    let failure = tokio::select! {
        failure = node.failed() => Some(failure),
        signal = signals.next() => {
            info!(signal = signal.as_raw_value(), "told to end");
            None
        }
    };
    drop(ready_file);
    let again = async {
        // `timeout` and supervisors send a signal to the process and to its group: that is still one.
        let echoes_end = Instant::now() + ECHO;
        loop {
            let signal = signals.next().await;
            if Instant::now() >= echoes_end {
                return signal;
            }
        }
    };
    tokio::select! {
        () = node.shutdown() => {}
        signal = again => {
            warn!(signal = signal.as_raw_value(), "told to end at once");
            return Ok(Ended::AtOnce(signal.as_raw_value()));
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None => {
            info!("ended");
            Ok(Ended::Cleanly)
        }
    }
}

/// What is printed whatever the log lets through.
fn announce(endpoints: &[Endpoint], announcement: Announcement, node_id: BrokerId) {
    let addresses: Vec<String> = endpoints.iter().map(address).collect();
    let mut text = format!("ottla {} serves on {}\n", env!("CARGO_PKG_VERSION"), addresses.join(" "));
    if announcement == Announcement::AsKafka {
        let ready = [
            (
                format!(
                    "[BrokerLifecycleManager id={node_id}] The broker has been unfenced. Transitioning from RECOVERY to RUNNING."
                ),
                "kafka.server.BrokerLifecycleManager",
            ),
            (format!("[KafkaRaftServer nodeId={node_id}] Kafka Server started"), "kafka.server.KafkaRaftServer"),
            // Before Kafka 4, with ZooKeeper.
            (format!("[KafkaServer id={node_id}] started"), "kafka.server.KafkaServer"),
        ];
        text.extend(ready.map(|(message, logger)| telemetry::info_line(&message, logger)));
    }
    // Nobody may be there to read it.
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn load(given: BTreeMap<String, String>) -> Result<BrokerConfig, Vec<String>> {
    match BrokerConfig::load(given) {
        Ok(loaded) => {
            loaded.warnings.iter().for_each(|warning| warn!("{warning}"));
            Ok(loaded.config)
        }
        Err(problems) => Err(problems.iter().map(ToString::to_string).collect()),
    }
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("ottla")
        .build()
}

/// Connections and segments are files; the system's default for how many a process may have is made for other programs.
pub(super) fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    limit.current = limit.maximum;
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => debug!(limit = ?limit.current, "limit of open files raised"),
        Err(error) => warn!(%error, "the limit of open files could not be raised"),
    }
}

#[cfg(test)]
mod tests;
