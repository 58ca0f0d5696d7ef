//! One connection to a node. Requests may follow each other without waiting; a node answers them in their order.
//!
//! ```text
//! Connection::send ──queue──▶ writer task ──▶ socket ──▶ reader task ──▶ the Answer that waits longest
//! ```
//!
//! A future that is dropped halfway loses its answer and nothing else: frames are written by a task of their own. The
//! tasks end with the connection, and the connection ends with them: whoever still waits is told that it did.

use std::collections::VecDeque;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use kafka_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::{Message as _, Request, StrBytes, VersionRange};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::config::ClientConfig;
use super::error::{Error, Result};
use crate::protocol::wire::Reader;
use crate::protocol::{ApiKey, ErrorCode, messages};

/// Frames that wait to be written.
const WRITE_QUEUE: usize = 16;
/// No answer is longer: 2 GiB, as Kafka has it, less what is surely no length.
const MAX_FRAME: u32 = i32::MAX as u32;
/// So much is reserved for a frame ahead of its bytes.
const READ_AHEAD: usize = 1 << 20;

/// An open connection whose peer has told what it speaks.
pub struct Connection {
    frames: mpsc::Sender<(Bytes, Waiting)>,
    /// Host and port.
    pub(super) address: (String, u16),
    /// By API key: the lowest and the highest version.
    pub versions: Versions,
    client_id: String,
    next_correlation_id: Mutex<i32>,
    _tasks: JoinSet<()>,
}

/// What a node says it speaks.
#[derive(Clone, Debug, Default)]
pub struct Versions(pub ApiVersionsResponse);

impl Versions {
    /// The versions of an API, lowest and highest.
    pub fn of(&self, key: i16) -> Option<(i16, i16)> {
        let api = self.0.api_keys.iter().find(|api| api.api_key == key)?;
        Some((api.min_version, api.max_version))
    }

    /// The highest version that both speak and that `most` does not forbid.
    pub fn common<R: Request>(&self, most: i16) -> Result<i16> {
        self.common_of(R::KEY, R::VERSIONS, most)
    }

    fn common_of(&self, key: i16, ours: VersionRange, most: i16) -> Result<i16> {
        let api_key = ApiKey::from_key(key).expect("the crate's APIs are Kafka's");
        let (lowest, highest) = self.of(key).ok_or_else(|| Error::unsupported_api(api_key))?;
        let version = highest.min(ours.max).min(most);
        if version < lowest.max(ours.min) {
            return Err(Error::unsupported_api(api_key));
        }
        Ok(version)
    }
}

/// A request of any kind. What does not depend on its fields is compiled once, for all requests.
pub(super) trait AnyRequest {
    /// The highest version that both speak and that `most` does not forbid.
    fn version(&self, versions: &Versions, most: i16) -> Result<i16>;
    fn frame(&self, version: i16, correlation_id: i32, client_id: &str) -> Result<Bytes>;
}

impl<R: Request> AnyRequest for R {
    fn version(&self, versions: &Versions, most: i16) -> Result<i16> {
        versions.common::<R>(most)
    }

    fn frame(&self, version: i16, correlation_id: i32, client_id: &str) -> Result<Bytes> {
        messages::encode_request(self, version, correlation_id, Some(client_id))
            .map_err(|error| Error::unsupported_version(error.to_string()))
    }
}

/// Who waits for what becomes of a request.
enum Waiting {
    Answer(Awaited),
    /// It is written: nothing comes back.
    Written(oneshot::Sender<()>),
}

/// Whom a frame is read for.
struct Awaited {
    correlation_id: i32,
    answer: oneshot::Sender<Bytes>,
}

/// An answer that is on its way.
pub struct Answer<R> {
    frame: oneshot::Receiver<Bytes>,
    version: i16,
    request: PhantomData<R>,
}

impl<R: Request> Answer<R> {
    /// Waits for it; the caller sets the limit.
    pub async fn receive(self) -> Result<R::Response> {
        decode::<R>(received(self.frame).await?, self.version)
    }
}

async fn received(frame: oneshot::Receiver<Bytes>) -> Result<Bytes> {
    frame.await.map_err(|_| Error::disconnected("The server disconnected before a response was received."))
}

/// Reads the answer to a request of `version`.
pub(super) fn decode<R: Request>(mut frame: Bytes, version: i16) -> Result<R::Response> {
    let api_key = ApiKey::from_key(R::KEY).expect("the crate's APIs are Kafka's");
    let version = take_header(&mut frame, api_key, version)?;
    messages::decode_response::<R>(&mut frame, version).map_err(|error| malformed(api_key, error))
}

/// Returns the version of what follows.
fn take_header(frame: &mut Bytes, api_key: ApiKey, version: i16) -> Result<i16> {
    if api_key.response_header_version(version) >= 1 {
        Reader::new(frame, true).unknown_tagged_fields().map_err(|error| malformed(api_key, error))?;
    }
    // The answer to an ApiVersions request that is too new has the layout of v0.
    let too_new = ErrorCode::UnsupportedVersion.code().to_be_bytes();
    Ok(if api_key == ApiKey::ApiVersions && frame.starts_with(&too_new) { 0 } else { version })
}

fn malformed(api_key: ApiKey, reason: impl std::fmt::Display) -> Error {
    Error::new("org.apache.kafka.common.protocol.types.SchemaException", format!("{api_key} response: {reason}"))
}

/// Waits for what a node answers, and no longer than so long.
pub(super) async fn in_time<T>(limit: Duration, answer: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(limit, answer).await.unwrap_or_else(|_| Err(no_answer()))
}

/// A node is there, and says nothing.
pub(super) fn no_answer() -> Error {
    Error::disconnected("no answer in time")
}

impl Connection {
    /// Connects and asks what the node speaks.
    pub async fn open(host: &str, port: u16, config: &ClientConfig) -> Result<Connection> {
        let failed = |error: std::io::Error| Error::disconnected(error.to_string());
        let stream = timeout(config.connection_setup_timeout, TcpStream::connect((host, port)))
            .await
            .map_err(|_| Error::disconnected("no connection in time"))?
            .map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let (reading, writing) = stream.into_split();
        let (frames, queue) = mpsc::channel(WRITE_QUEUE);
        let waiting = Arc::new(Mutex::new(Some(VecDeque::new())));
        let mut tasks = JoinSet::new();
        tasks.spawn(write_frames(writing, queue, waiting.clone()));
        tasks.spawn(read_frames(reading, waiting));
        let mut connection = Connection {
            frames,
            address: (host.to_owned(), port),
            versions: Versions::default(),
            client_id: config.client_id.clone(),
            next_correlation_id: Mutex::new(0),
            _tasks: tasks,
        };
        connection.versions = Versions(in_time(config.request_timeout, connection.ask_versions()).await?);
        Ok(connection)
    }

    async fn ask_versions(&self) -> Result<ApiVersionsResponse> {
        let text = StrBytes::from_static_str;
        let request = ApiVersionsRequest::default()
            .with_client_software_name(text("ottla"))
            .with_client_software_version(text(env!("CARGO_PKG_VERSION")));
        let newest = ApiVersionsRequest::VERSIONS.max;
        let mut response = self.send(&request, newest).await?.receive().await?;
        if response.error_code == ErrorCode::UnsupportedVersion.code() {
            response = self.send(&ApiVersionsRequest::default(), 0).await?.receive().await?;
        }
        Error::check(response.error_code, None::<String>)?;
        Ok(response)
    }

    /// Sends a request at the highest version that both sides speak and waits for its answer; the caller sets the limit.
    pub async fn call<R: Request>(&self, request: &R) -> Result<R::Response> {
        let (answer, version) = self.exchange(request, i16::MAX).await?;
        decode::<R>(answer, version)
    }

    /// Sends a request of this version. The answer may be received while others are sent.
    pub async fn send<R: Request>(&self, request: &R, version: i16) -> Result<Answer<R>> {
        Ok(Answer { frame: self.put(request, version).await?, version, request: PhantomData })
    }

    /// Sends a request that no node answers: Produce with `acks=0`. Returns once the system has it.
    pub async fn send_unanswered<R: Request>(&self, request: &R, version: i16) -> Result<()> {
        let (written, is_written) = oneshot::channel();
        self.put_for(request, version, |_| Waiting::Written(written)).await?;
        is_written.await.map_err(|_| Error::disconnected("The server disconnected before the request was sent."))
    }

    /// Sends a request of the highest version that is possible, none above `most`, and waits for its answer, which is of
    /// the version that is returned.
    pub(super) async fn exchange(&self, request: &dyn AnyRequest, most: i16) -> Result<(Bytes, i16)> {
        let version = request.version(&self.versions, most)?;
        Ok((received(self.put(request, version).await?).await?, version))
    }

    async fn put(&self, request: &dyn AnyRequest, version: i16) -> Result<oneshot::Receiver<Bytes>> {
        let (answer, frame) = oneshot::channel();
        self.put_for(request, version, |correlation_id| Waiting::Answer(Awaited { correlation_id, answer })).await?;
        Ok(frame)
    }

    async fn put_for(
        &self,
        request: &dyn AnyRequest,
        version: i16,
        waiting: impl FnOnce(i32) -> Waiting,
    ) -> Result<()> {
        let closed = |_| Error::disconnected("The server disconnected before the request was sent.");
        // A place in the queue first: from there on nothing waits, and correlation ids keep their order.
        let place = self.frames.reserve().await.map_err(closed)?;
        let mut next = self.next_correlation_id.lock();
        let correlation_id = *next;
        *next = next.wrapping_add(1);
        let frame = request.frame(version, correlation_id, &self.client_id)?;
        place.send((frame, waiting(correlation_id)));
        Ok(())
    }

    /// Whether it can still be used, as far as is known.
    pub fn is_open(&self) -> bool {
        !self.frames.is_closed()
    }
}

/// `None` once the connection has ended.
type Queue = Arc<Mutex<Option<VecDeque<Awaited>>>>;

async fn write_frames(mut socket: OwnedWriteHalf, mut queue: mpsc::Receiver<(Bytes, Waiting)>, awaited: Queue) {
    while let Some((frame, waiting)) = queue.recv().await {
        let written = match (awaited.lock().as_mut(), waiting) {
            (None, _) => return,
            (Some(queue), Waiting::Answer(waiting)) => {
                queue.push_back(waiting);
                None
            }
            (Some(_), Waiting::Written(written)) => Some(written),
        };
        let length = (frame.len() as u32).to_be_bytes();
        let mut bytes = bytes::Buf::chain(&length[..], frame);
        if socket.write_all_buf(&mut bytes).await.is_err() {
            break;
        }
        if let Some(written) = written {
            // Nobody may wait for it any more.
            let _ = written.send(());
        }
    }
    awaited.lock().take();
}

async fn read_frames(mut socket: OwnedReadHalf, awaited: Queue) {
    while let Some(mut frame) = read_frame(&mut socket).await {
        let first = awaited.lock().as_mut().and_then(VecDeque::pop_front);
        match (first, frame.try_get_i32()) {
            (Some(waiting), Ok(correlation_id)) if waiting.correlation_id == correlation_id => {
                // Nobody may wait for it any more.
                let _ = waiting.answer.send(frame);
            }
            _ => break,
        }
    }
    awaited.lock().take();
}

/// `None` at the end of the connection, or where no frame can be.
async fn read_frame(socket: &mut OwnedReadHalf) -> Option<Bytes> {
    let length = socket.read_u32().await.ok().filter(|&length| length <= MAX_FRAME)? as usize;
    let mut frame = BytesMut::with_capacity(length.min(READ_AHEAD));
    while frame.len() < length {
        let missing = length - frame.len();
        frame.reserve(missing.min(READ_AHEAD));
        if socket.take(missing as u64).read_buf(&mut frame).await.ok()? == 0 {
            return None;
        }
    }
    Some(frame.freeze())
}
