//! The whole layer over real sockets: order, limits, ends of connections, pieces of the log.

use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::thread;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;

use super::*;
use crate::clock::{ManualClock, SystemClock};
use crate::net::{CloseReason, Reply, Response};
use crate::protocol::frame::{Chunk, Frame};
use crate::storage::disk::{DiskFile, OpenMode, RealDisk};
use crate::storage::slice::LogSlice;

/// A handler made of a closure.
struct Script<F>(F);

impl<F> RequestHandler for Script<F>
where
    F: Fn(&Arc<ConnectionContext>, Bytes) -> Reply + Send + Sync + 'static,
{
    fn handle(&self, connection: &Arc<ConnectionContext>, frame: Bytes) -> Reply {
        (self.0)(connection, frame)
    }
}

fn echo(_: &Arc<ConnectionContext>, frame: Bytes) -> Reply {
    Reply::Now(frame.into())
}

fn listener(name: &str, host: &str) -> Endpoint {
    Endpoint {
        listener_name: name.to_owned(),
        security_protocol: SecurityProtocol::Plaintext,
        host: host.to_owned(),
        port: 0,
    }
}

fn config() -> BrokerConfig {
    BrokerConfig { listeners: vec![listener("PLAINTEXT", "127.0.0.1")], ..BrokerConfig::default() }
}

fn bind(config: &BrokerConfig, clock: Arc<dyn Clock>) -> SocketServer {
    // On a runtime and a thread of its own, for this thread is the test's.
    let bind = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(SocketServer::bind(config, clock)).unwrap()
    };
    thread::scope(|scope| scope.spawn(bind).join().unwrap())
}

fn serve<F>(config: &BrokerConfig, script: F) -> SocketServer
where
    F: Fn(&Arc<ConnectionContext>, Bytes) -> Reply + Send + Sync + 'static,
{
    let mut server = bind(config, SystemClock::new());
    server.start(Arc::new(Script(script))).unwrap();
    server
}

struct Client(TcpStream);

impl Client {
    async fn connect(server: &SocketServer) -> Client {
        Client::connect_to(server, 0).await
    }

    async fn connect_to(server: &SocketServer, listener: usize) -> Client {
        let endpoint = server.endpoints().nth(listener).unwrap();
        Client(TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.unwrap())
    }

    async fn send(&mut self, frame: &[u8]) {
        self.0.write_all(&framed(frame)).await.unwrap();
    }

    async fn receive(&mut self) -> Vec<u8> {
        let mut frame = vec![0; self.0.read_i32().await.unwrap() as usize];
        self.0.read_exact(&mut frame).await.unwrap();
        frame
    }

    /// Waits for the end; fails if something else comes.
    async fn closed(mut self) {
        match timeout(Duration::from_secs(10), self.0.read_u8()).await.expect("it is still open") {
            Ok(byte) => panic!("got {byte} instead of the end"),
            Err(error) => assert!(
                matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset),
                "{error}"
            ),
        }
    }

    async fn is_open(&mut self) -> bool {
        let mut byte = [0];
        timeout(Duration::from_millis(50), self.0.peek(&mut byte)).await.is_err()
    }
}

fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as i32).to_be_bytes(), frame].concat()
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("in vain waited until {what}");
}

/// Replies that wait until the test lets them go, by the request's first byte.
#[derive(Default)]
struct Gates {
    open: Mutex<BTreeMap<u8, oneshot::Sender<()>>>,
    handled: Mutex<Vec<u8>>,
    dropped: AtomicUsize,
}

struct CountDrop(Arc<Gates>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Gates {
    /// A request of id and kind: `n`ow, `p`arked, `i`n order, `-` none, `c`lose, `l`ast response.
    fn handle(self: &Arc<Gates>, frame: Bytes) -> Reply {
        let (id, kind) = (frame[0], frame[1]);
        self.handled.lock().push(id);
        let response = Response::from(frame.slice(..1));
        match kind {
            b'n' => Reply::Now(response),
            b'-' => Reply::None,
            b'c' => Reply::Close(CloseReason::new("asked to")),
            b'l' => Reply::Now(response.then_close(CloseReason::new("asked to"))),
            b'p' => Reply::Parked(self.wait(id, response)),
            b'i' => Reply::InOrder(self.wait(id, response)),
            other => panic!("kind {other}"),
        }
    }

    fn wait(self: &Arc<Gates>, id: u8, response: Response) -> futures_util::future::BoxFuture<'static, Response> {
        let (opened, gate) = oneshot::channel();
        self.open.lock().insert(id, opened);
        let count = CountDrop(Arc::clone(self));
        Box::pin(async move {
            let _count = count;
            gate.await.unwrap();
            response
        })
    }

    fn let_go(&self, id: u8) {
        let _ = self.open.lock().remove(&id).unwrap().send(());
    }

    async fn until_handled(&self, ids: &[u8]) {
        until("the requests are handled", || *self.handled.lock() == ids).await;
    }
}

fn gated(config: &BrokerConfig) -> (SocketServer, Arc<Gates>) {
    let gates = Arc::new(Gates::default());
    let script = Arc::clone(&gates);
    (serve(config, move |_, frame| script.handle(frame)), gates)
}

#[tokio::test]
async fn replies_leave_in_the_order_of_requests() {
    let (server, gates) = gated(&config());
    let mut client = Client::connect(&server).await;
    let requests = [b"1p", b"2n", b"3p", b"4-", b"5n"].map(|request| framed(request)).concat();
    client.0.write_all(&requests).await.unwrap();
    gates.until_handled(b"12345").await;
    gates.let_go(b'3');
    assert!(client.is_open().await);
    gates.let_go(b'1');
    for reply in [b"1", b"2", b"3", b"5"] {
        assert_eq!(client.receive().await, reply);
    }
    client.send(b"6n").await;
    assert_eq!(client.receive().await, b"6");
}

#[tokio::test]
async fn nothing_is_handled_behind_a_reply_in_order() {
    let (server, gates) = gated(&config());
    let mut client = Client::connect(&server).await;
    client.0.write_all(&[b"1p", b"2i", b"3n"].map(|request| framed(request)).concat()).await.unwrap();
    gates.until_handled(b"12").await;
    sleep(Duration::from_millis(50)).await;
    gates.until_handled(b"12").await;
    // It ends although the reply before it still waits, and lets the next one in.
    gates.let_go(b'2');
    gates.until_handled(b"123").await;
    assert!(client.is_open().await);
    gates.let_go(b'1');
    for reply in [b"1", b"2", b"3"] {
        assert_eq!(client.receive().await, reply);
    }
}

#[tokio::test]
async fn a_closing_reply_waits_for_those_before_it_and_ends_those_behind() {
    for closing in [b"3c", b"3l"] {
        let (server, gates) = gated(&config());
        let mut client = Client::connect(&server).await;
        let requests = [b"1p", b"2n", closing, b"4n"].map(|request| framed(request)).concat();
        client.0.write_all(&requests).await.unwrap();
        gates.until_handled(b"123").await;
        assert!(client.is_open().await);
        gates.let_go(b'1');
        assert_eq!(client.receive().await, b"1");
        assert_eq!(client.receive().await, b"2");
        if closing == b"3l" {
            assert_eq!(client.receive().await, b"3");
        }
        client.closed().await;
        gates.until_handled(b"123").await;
    }
}

#[tokio::test]
async fn invalid_sizes_close_after_the_replies_due() {
    let config = BrokerConfig { socket_request_max_bytes: 1000, ..config() };
    let server = serve(&config, echo);
    for size in [0, -1, i32::MIN, 1001, i32::MAX, i32::from_be_bytes(*b"GET ")] {
        let mut client = Client::connect(&server).await;
        let bytes = [framed(b"valid"), size.to_be_bytes().to_vec(), vec![0; 10]].concat();
        client.0.write_all(&bytes).await.unwrap();
        assert_eq!(client.receive().await, b"valid");
        client.closed().await;
    }
    until("all are gone", || server.connection_count() == 0).await;
}

#[tokio::test]
async fn slow_senders_are_waited_for() {
    let server = serve(&config(), echo);
    let mut client = Client::connect(&server).await;
    let other = Client::connect(&server).await;
    for byte in framed(b"slowly").iter().chain(&framed(b"again")) {
        client.0.write_all(&[*byte]).await.unwrap();
        sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(client.receive().await, b"slowly");
    assert_eq!(client.receive().await, b"again");

    // Half a frame, then the end.
    client.0.write_all(&framed(b"never whole")[..7]).await.unwrap();
    drop(client);
    until("only the other is left", || server.connection_count() == 1).await;
    drop(other);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_frames_go_both_ways() {
    let server = serve(&config(), echo);
    let mut client = Client::connect(&server).await;
    client.send(b"a valid request").await;
    client.receive().await;
    for length in [1, 4095, 4096, 262_139, 262_140, 262_141, 300_000, 5_000_000] {
        let frame: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
        let (mut read, mut write) = client.0.split();
        let sending = framed(&frame);
        let receiving = async {
            let mut back = vec![0; read.read_i32().await.unwrap() as usize];
            read.read_exact(&mut back).await.unwrap();
            back
        };
        let (sent, back) = tokio::join!(write.write_all(&sending), receiving);
        sent.unwrap();
        assert!(back == frame, "{length} bytes came back changed");
    }
}

#[tokio::test]
async fn a_reset_drops_the_replies_that_wait() {
    let (server, gates) = gated(&config());
    for request in [b"1p", b"2i"] {
        let mut client = Client::connect(&server).await;
        client.send(request).await;
        until("it is handled", || gates.open.lock().contains_key(&request[0])).await;
        assert_eq!(gates.dropped.swap(0, Ordering::SeqCst), 0);
        SockRef::from(&client.0).set_linger(Some(Duration::ZERO)).unwrap();
        drop(client);
        until("the reply is dropped", || gates.dropped.load(Ordering::SeqCst) == 1).await;
        until("the connection is gone", || server.connection_count() == 0).await;
        gates.dropped.store(0, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_peer_that_sends_no_more_gets_its_replies() {
    let (server, gates) = gated(&config());
    let mut client = Client::connect(&server).await;
    client.0.write_all(&[b"1i", b"2n"].map(|request| framed(request)).concat()).await.unwrap();
    client.0.shutdown().await.unwrap();
    gates.until_handled(b"1").await;
    gates.let_go(b'1');
    assert_eq!(client.receive().await, b"1");
    assert_eq!(client.receive().await, b"2");
    client.closed().await;
    until("the connection is gone", || server.connection_count() == 0).await;
}

#[tokio::test]
async fn a_peer_that_sends_no_more_is_not_waited_for_forever() {
    let clock = ManualClock::new(0);
    let gates = Arc::new(Gates::default());
    let script = Arc::clone(&gates);
    let mut server = bind(&config(), clock.clone());
    server.start(Arc::new(Script(move |_: &_, frame| script.handle(frame)))).unwrap();
    let mut client = Client::connect(&server).await;
    client.send(b"1p").await;
    client.0.shutdown().await.unwrap();
    gates.until_handled(b"1").await;
    sleep(Duration::from_millis(50)).await;
    for _ in 0..2 {
        server.shared.connections.sweep(clock.monotonic());
        assert!(client.is_open().await);
        clock.advance(Duration::from_secs(20));
    }
    server.shared.connections.sweep(clock.monotonic());
    client.closed().await;
    assert_eq!(gates.dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn idle_connections_are_closed_and_busy_ones_are_not() {
    let clock = ManualClock::new(0);
    let mut server = bind(&config(), clock.clone());
    server.start(Arc::new(Script(echo))).unwrap();
    let idle = Client::connect(&server).await;
    let mut half = Client::connect(&server).await;
    half.0.write_all(&framed(b"half")[..5]).await.unwrap();
    let mut busy = Client::connect(&server).await;
    until("all are there", || server.connection_count() == 3).await;
    for _ in 0..10 {
        busy.send(b"busy").await;
        busy.receive().await;
        server.shared.connections.sweep(clock.monotonic());
        assert_eq!(server.connection_count(), 3);
        clock.advance(Duration::from_secs(66));
    }
    // Ten minutes after the sweep that last saw bytes from the first two.
    busy.send(b"busy").await;
    busy.receive().await;
    server.shared.connections.sweep(clock.monotonic());
    idle.closed().await;
    half.closed().await;
    assert!(busy.is_open().await);
    assert_eq!(server.connection_count(), 1);
}

#[tokio::test]
async fn idle_connections_are_closed_by_themselves() {
    let server = serve(&BrokerConfig { connections_max_idle_ms: 100, ..config() }, echo);
    Client::connect(&server).await.closed().await;
}

#[tokio::test]
async fn connections_per_address_are_limited() {
    let limited = |per_ip, own: Option<(&str, i32)>| BrokerConfig {
        max_connections_per_ip: per_ip,
        max_connections_per_ip_overrides: own.into_iter().map(|(host, limit)| (host.to_owned(), limit)).collect(),
        ..config()
    };
    for (config, limit) in [(limited(2, None), 2), (limited(0, Some(("localhost", 3))), 3)] {
        let server = serve(&config, echo);
        let mut clients = Vec::new();
        for _ in 0..limit {
            let mut client = Client::connect(&server).await;
            client.send(b"let in").await;
            client.receive().await;
            clients.push(client);
        }
        Client::connect(&server).await.closed().await;
        clients.pop();
        until("one is gone", || server.connection_count() == limit - 1).await;
        let mut client = Client::connect(&server).await;
        client.send(b"in its place").await;
        assert_eq!(client.receive().await, b"in its place");
    }
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_a_place() {
    let server = serve(&BrokerConfig { max_connections: 1, ..config() }, echo);
    let mut first = Client::connect(&server).await;
    first.send(b"first").await;
    first.receive().await;
    let mut second = Client::connect(&server).await;
    second.send(b"second").await;
    assert!(second.is_open().await);
    drop(first);
    assert_eq!(second.receive().await, b"second");
    assert_eq!(server.connection_count(), 1);
}

#[tokio::test]
async fn brokers_are_let_in_over_the_limit_in_the_place_of_clients() {
    let config = BrokerConfig {
        listeners: vec![listener("PLAINTEXT", "127.0.0.1"), listener("INTERNAL", "127.0.0.1")],
        inter_broker_listener_name: "INTERNAL".to_owned(),
        max_connections: 1,
        max_connections_by_listener: [("INTERNAL".to_owned(), 1)].into(),
        ..config()
    };
    let server = serve(&config, echo);
    let mut client = Client::connect(&server).await;
    client.send(b"client").await;
    client.receive().await;
    let mut broker = Client::connect_to(&server, 1).await;
    broker.send(b"broker").await;
    assert_eq!(broker.receive().await, b"broker");
    client.closed().await;

    let mut another = Client::connect_to(&server, 1).await;
    another.send(b"another").await;
    assert!(another.is_open().await, "the listener's own limit holds");
    drop(broker);
    assert_eq!(another.receive().await, b"another");
}

#[tokio::test]
async fn new_connections_are_slowed_down_to_their_rate() {
    let two = |own: Option<i32>| BrokerConfig {
        listeners: vec![listener("PLAINTEXT", "127.0.0.1"), listener("INTERNAL", "127.0.0.1")],
        inter_broker_listener_name: "INTERNAL".to_owned(),
        max_connection_creation_rate: 2,
        max_connection_creation_rate_by_listener: own.into_iter().map(|own| ("INTERNAL".to_owned(), own)).collect(),
        ..config()
    };
    let waits_from = |connections: &Connections, listener| {
        (0..100).find(|_| !connections.throttle(listener, Duration::ZERO).is_zero())
    };
    let connections = Connections::new(connection_limits(&two(None)).await.unwrap());
    assert_eq!(waits_from(&connections, 0), Some(20), "a window's worth may come at once");
    assert_eq!(connections.throttle(0, Duration::ZERO), Duration::from_millis(1000));
    assert_eq!(waits_from(&connections, 1), Some(20), "brokers are not slowed down by clients");
    let connections = Connections::new(connection_limits(&two(Some(3))).await.unwrap());
    assert_eq!(waits_from(&connections, 1), Some(30), "the listener's own");
}

/// What was set at run time was described, and did not hold.
#[tokio::test]
async fn limits_hold_from_when_they_are_set() {
    let first = config();
    let server = serve(&first, echo);
    let quotas = server.quotas(&first);
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut client = Client::connect(&server).await;
        client.send(b"client").await;
        client.receive().await;
        clients.push(client);
    }
    quotas.update(&BrokerConfig { max_connections: 2, ..first.clone() });
    until("those over the limit are gone", || server.connection_count() == 2).await;
    let mut waiting = Client::connect(&server).await;
    waiting.send(b"waiting").await;
    assert!(waiting.is_open().await);
    assert_eq!(server.connection_count(), 2);
    let listener = [("PLAINTEXT".to_owned(), 1)].into();
    quotas.update(&BrokerConfig { max_connections_by_listener: listener, ..first.clone() });
    assert_eq!(server.connection_count(), 2, "over the limit of a listener connections stay");
    drop(clients);
    assert_eq!(waiting.receive().await, b"waiting");
    until("the other ones are gone", || server.connection_count() == 1).await;
    quotas.update(&BrokerConfig { max_connections_per_ip: 1, ..first.clone() });
    Client::connect(&server).await.closed().await;
    quotas.update(&BrokerConfig {
        max_connections_per_ip: 1,
        max_connections_per_ip_overrides: [("127.0.0.1".to_owned(), 2), ("no.such.host.invalid".to_owned(), 9)].into(),
        ..first.clone()
    });
    let mut second = Client::connect(&server).await;
    second.send(b"second").await;
    assert_eq!(second.receive().await, b"second");
    Client::connect(&server).await.closed().await;
    quotas.update(&first);
    let mut third = Client::connect(&server).await;
    third.send(b"third").await;
    assert_eq!(third.receive().await, b"third");
}

/// A controller's listener made the clients' one count as that of brokers.
#[tokio::test]
async fn a_controllers_listener_leaves_the_limit_to_clients() {
    let config = BrokerConfig {
        listeners: vec![listener("PLAINTEXT", "127.0.0.1"), listener("CONTROLLER", "127.0.0.1")],
        controller_listener_names: vec!["CONTROLLER".to_owned()],
        inter_broker_listener_name: "PLAINTEXT".to_owned(),
        max_connections: 1,
        ..config()
    };
    let server = serve(&config, echo);
    let mut client = Client::connect(&server).await;
    client.send(b"client").await;
    client.receive().await;
    let mut another = Client::connect(&server).await;
    another.send(b"another").await;
    assert!(another.is_open().await);
    assert_eq!(server.connection_count(), 1);
    drop(client);
    assert_eq!(another.receive().await, b"another");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_read_stops_the_handling_of_its_requests() {
    let handled = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&handled);
    let reply = Bytes::from(vec![7; 64 << 10]);
    let server = serve(&config(), move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        Reply::Now(reply.clone().into())
    });
    const REQUESTS: usize = 2000;
    let mut client = Client::connect(&server).await;
    let requests = framed(&[1; 100]).repeat(REQUESTS);
    let (mut read, mut write) = client.0.split();
    let receiving = async {
        let mut at_rest = 0;
        until("it handles no more", || {
            let now = handled.load(Ordering::SeqCst);
            std::mem::replace(&mut at_rest, now) == now && now > 0
        })
        .await;
        sleep(Duration::from_millis(100)).await;
        let handled_unread = handled.load(Ordering::SeqCst);
        // What the sockets hold, and what the connection holds.
        assert!(handled_unread * (64 << 10) < 16 << 20, "{handled_unread} replies for nobody");
        for _ in 0..REQUESTS {
            let mut frame = vec![0; read.read_i32().await.unwrap() as usize];
            read.read_exact(&mut frame).await.unwrap();
            assert!(frame.iter().all(|byte| *byte == 7));
        }
    };
    let (sent, ()) = tokio::join!(write.write_all(&requests), receiving);
    sent.unwrap();
    assert_eq!(handled.load(Ordering::SeqCst), REQUESTS);
}

#[tokio::test]
async fn replies_due_are_limited() {
    let handled = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&handled);
    let server = serve(&config(), move |_, _| {
        counter.fetch_add(1, Ordering::SeqCst);
        Reply::Parked(Box::pin(pending()))
    });
    let mut client = Client::connect(&server).await;
    client.0.write_all(&framed(b"request").repeat(1000)).await.unwrap();
    until("some are handled", || handled.load(Ordering::SeqCst) == 64).await;
    sleep(Duration::from_millis(50)).await;
    assert_eq!(handled.load(Ordering::SeqCst), 64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_are_served_together() {
    let server = serve(&config(), echo);
    let mut clients = Vec::new();
    for _ in 0..500 {
        clients.push(Client::connect(&server).await);
    }
    for round in 0..3u8 {
        for client in &mut clients {
            client.send(&[round; 50]).await;
        }
        for client in &mut clients {
            assert_eq!(client.receive().await, [round; 50]);
        }
    }
    assert_eq!(server.connection_count(), 500);
    drop(clients);
    until("all are gone", || server.connection_count() == 0).await;
}

#[tokio::test]
async fn listens_on_several_addresses_and_names() {
    let mut config = BrokerConfig {
        listeners: vec![listener("A", ""), listener("B", "localhost"), listener("C", "0.0.0.0"), listener("D", "::1")],
        ..config()
    };
    // A machine may have no IPv6.
    if StdListener::bind("[::1]:0").is_err() {
        config.listeners.pop();
    }
    let server = serve(&config, |connection, _| {
        Reply::Now(Bytes::from(format!("{} {}", connection.listener.name, connection.peer.ip())).into())
    });
    for endpoint in server.endpoints() {
        assert_ne!(endpoint.port, 0);
        let hosts = match endpoint.listener_name.as_str() {
            "A" if config.listeners.len() == 4 => vec!["127.0.0.1", "::1"],
            "D" => vec!["::1"],
            _ => vec!["127.0.0.1"],
        };
        for host in hosts {
            let mut client = Client(TcpStream::connect((host, endpoint.port)).await.unwrap());
            client.send(b"who am I?").await;
            assert_eq!(client.receive().await, format!("{} {host}", endpoint.listener_name).into_bytes());
        }
    }
}

#[tokio::test]
async fn a_port_opens_when_it_is_served() {
    let mut server = bind(&config(), SystemClock::new());
    let address = ("127.0.0.1", server.endpoints().next().unwrap().port);
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    server.start_listener("OTHER", Arc::new(Script(echo))).unwrap();
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    server.start_listener("PLAINTEXT", Arc::new(Script(echo))).unwrap();
    TcpStream::connect(address).await.unwrap();
}

#[tokio::test]
async fn a_port_in_use_and_a_protected_listener_are_refused() {
    let taken = StdListener::bind("127.0.0.1:0").unwrap();
    let mut config = config();
    config.listeners[0].port = taken.local_addr().unwrap().port();
    let error = SocketServer::bind(&config, SystemClock::new()).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, BindError::Bind { .. }), "{error}");

    config.listeners[0].security_protocol = SecurityProtocol::SaslSsl;
    let error = SocketServer::bind(&config, SystemClock::new()).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, BindError::Protocol { .. }), "{error}");
}

#[tokio::test]
async fn what_is_not_this_machine_is_no_host_of_a_listener() {
    // A label so long is no name, and no name server is asked.
    for host in ["192.0.2.1", &"x".repeat(64)] {
        let config = BrokerConfig { listeners: vec![listener("PLAINTEXT", host)], ..BrokerConfig::default() };
        let error = SocketServer::bind(&config, SystemClock::new()).await.map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("listener PLAINTEXT://{host}:0: ")), "{error}");
        assert!(error.contains("; the host of a listener is a name or an address of this machine, "), "{error}");
    }
}

#[tokio::test]
async fn shutdown_answers_what_is_due_within_its_time() {
    let (server, gates) = gated(&config());
    let address = ("127.0.0.1", server.endpoints().next().unwrap().port);
    let mut answered = Client::connect(&server).await;
    answered.send(b"1p").await;
    let mut unanswered = Client::connect(&server).await;
    unanswered.send(b"2p").await;
    let idle = Client::connect(&server).await;
    until("they are handled", || gates.handled.lock().len() == 2).await;

    let mut shutdown = pin!(server.shutdown(Duration::from_millis(300)));
    assert!(timeout(Duration::from_millis(50), &mut shutdown).await.is_err());
    idle.closed().await;
    assert_eq!(TcpStream::connect(address).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    answered.send(b"3n").await;
    gates.let_go(b'1');
    assert_eq!(answered.receive().await, b"1");
    answered.closed().await;
    shutdown.await;
    unanswered.closed().await;
    assert_eq!(gates.handled.lock().len(), 2, "nothing new is handled");
    assert_eq!(gates.dropped.load(Ordering::SeqCst), 2);
}

/// A file of `length` bytes and its content.
fn log_file(dir: &tempfile::TempDir, length: usize) -> (Arc<dyn DiskFile>, Vec<u8>) {
    let content: Vec<u8> = (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let file = RealDisk::new().open(&dir.path().join("0.log"), OpenMode::Create).unwrap();
    file.write_all_at(&content, 0).unwrap();
    (file, content)
}

/// A response of pieces of the file, each behind a little header, and what it must be on the wire.
fn pieces(file: &Arc<dyn DiskFile>, content: &[u8], ranges: &[(usize, usize)]) -> (Frame<LogSlice>, Vec<u8>) {
    let mut chunks = Vec::new();
    let mut expected = Vec::new();
    for (start, length) in ranges {
        chunks.push(Chunk::Bytes(Bytes::from_static(b"header")));
        expected.extend(b"header");
        // Longer than what is asked for, as the end of a batch may be.
        let slice = LogSlice::new(Arc::clone(file), *start as u64, length + 10);
        chunks.push(Chunk::File { slice, length: *length });
        expected.extend(&content[*start..start + length]);
    }
    (Frame { chunks }, expected)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pieces_of_the_log_arrive_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (file, content) = log_file(&dir, 9 << 20);
    let mixes: Vec<Vec<(usize, usize)>> = vec![
        vec![(0, 1)],
        vec![(5, 0)],
        vec![(100, 32 << 10)],
        vec![(100, (32 << 10) - 1)],
        vec![(4095, 8 << 20)],
        (0..200).map(|i| (i * 1000, 16 << 10)).collect(),
        (0..100).map(|i| (i * 1003, i * 700)).collect(),
        vec![(0, 10), (1 << 20, 2 << 20), (7, 11), (13, 40 << 10), (17, 0), (19, 300)],
    ];
    for cold in [false, true] {
        let (served_file, served_content) = (Arc::clone(&file), content.clone());
        let served = mixes.clone();
        let server = serve(&config(), move |_, frame| {
            if cold {
                // The pages are clean after a sync; then the system may forget them.
                served_file.sync_all().unwrap();
                let fd = served_file.fd().unwrap();
                rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            }
            Reply::Now(pieces(&served_file, &served_content, &served[usize::from(frame[0])]).0.into())
        });
        let mut client = Client::connect(&server).await;
        for pipelined in [1, 3] {
            for (index, mix) in mixes.iter().enumerate() {
                let expected = pieces(&file, &content, mix).1;
                client.0.write_all(&framed(&[index as u8]).repeat(pipelined)).await.unwrap();
                for _ in 0..pipelined {
                    assert!(client.receive().await == expected, "mix {index} came changed, cold: {cold}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_log_that_became_shorter_ends_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let (file, content) = log_file(&dir, 100_000);
    for length in [1000, 90_000] {
        file.write_all_at(&content, 0).unwrap();
        let (frame, expected) = pieces(&file, &content, &[(1000, length)]);
        let reply = Mutex::new(Some(frame));
        file.set_len(1500).unwrap();
        let server = serve(&config(), move |_, _| Reply::Now(reply.lock().take().unwrap().into()));
        let mut client = Client::connect(&server).await;
        client.send(b"fetch").await;
        let mut got = Vec::new();
        let _ = client.0.read_to_end(&mut got).await;
        assert!(got.len() < 4 + expected.len());
        assert!(framed(&expected).starts_with(&got), "nothing but the log's bytes is sent");
    }
}

#[tokio::test]
async fn a_reply_that_is_empty_or_ready_at_once_is_no_special_case() {
    let server = serve(&config(), |_, frame| match frame[0] {
        b'n' => Reply::Now(Response::empty()),
        b'p' => Reply::Parked(Box::pin(ready(Response::empty()))),
        b'i' => Reply::InOrder(Box::pin(ready(Response::empty()))),
        b'c' => Reply::Parked(Box::pin(ready(Response::empty().then_close(CloseReason::new("asked to"))))),
        _ => Reply::InOrder(Box::pin(ready(frame.into()))),
    });
    let mut client = Client::connect(&server).await;
    client.0.write_all(&[b"n", b"p", b"i", b"x", b"c", b"y"].map(|request| framed(request)).concat()).await.unwrap();
    assert_eq!(client.receive().await, b"x");
    client.closed().await;
}

#[tokio::test]
async fn a_handler_that_panics_ends_its_connection_only() {
    let server = serve(&config(), |_, frame| match frame[0] {
        b'!' => panic!("on purpose"),
        _ => Reply::Now(frame.into()),
    });
    let mut other = Client::connect(&server).await;
    let mut client = Client::connect(&server).await;
    client.send(b"!").await;
    client.closed().await;
    other.send(b"still here").await;
    assert_eq!(other.receive().await, b"still here");
    assert_eq!(server.connection_count(), 1);
}
