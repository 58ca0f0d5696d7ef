//! Against a node made of a socket, which answers what it is told to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::metadata_response::MetadataResponseBroker;
use kafka_protocol::messages::{ApiVersionsResponse, MetadataResponse};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::protocol::{ApiKey, RequestHeader, messages};

/// Serves ApiVersions and Metadata, which names this node alone, and has no answer to FindCoordinator. `before` sees how many requests came before each one,
/// and ends the connection by `false`.
async fn node(before: fn(usize) -> bool) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, port, counted.clone(), before));
        }
    });
    (port, requests)
}

async fn serve(mut stream: TcpStream, port: u16, requests: Arc<AtomicUsize>, before: fn(usize) -> bool) {
    while let Ok(length) = stream.read_u32().await {
        let mut frame = BytesMut::zeroed(length as usize);
        stream.read_exact(&mut frame).await.unwrap();
        let header = RequestHeader::parse(&mut frame.freeze()).unwrap();
        if !before(requests.fetch_add(1, Ordering::Relaxed)) {
            return;
        }
        if header.api_key == ApiKey::FindCoordinator {
            continue;
        }
        let answer = answer(&header, port);
        stream.write_u32(answer.len() as u32).await.unwrap();
        stream.write_all(&answer).await.unwrap();
    }
}

fn answer(header: &RequestHeader, port: u16) -> Bytes {
    match header.api_key {
        ApiKey::ApiVersions => {
            let api = |key, highest| ApiVersion::default().with_api_key(key).with_max_version(highest);
            let response = ApiVersionsResponse::default().with_api_keys(vec![api(3, 12), api(10, 4), api(18, 4)]);
            messages::encode_response(header, &response).unwrap()
        }
        _ => {
            let broker = MetadataResponseBroker::default()
                .with_node_id(1.into())
                .with_host(text("127.0.0.1"))
                .with_port(port.into());
            let response = MetadataResponse::default().with_brokers(vec![broker]).with_controller_id(1.into());
            messages::encode_response(header, &response).unwrap()
        }
    }
}

fn client(servers: &[u16]) -> Client {
    let servers: Vec<String> = servers.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let given = [
        ("bootstrap.servers", servers.join(",")),
        ("default.api.timeout.ms", "2000".to_owned()),
        ("request.timeout.ms", "1000".to_owned()),
        ("retry.backoff.ms", "1".to_owned()),
    ];
    let given: BTreeMap<String, String> = given.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Client::new(ClientConfig::admin(given).unwrap())
}

/// A port that nobody listens on.
async fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

fn metadata() -> MetadataRequest {
    MetadataRequest::default().with_topics(Some(Vec::new()))
}

#[tokio::test]
async fn the_next_bootstrap_server_is_asked_where_one_is_not_there() {
    let (port, _) = node(|_| true).await;
    let client = client(&[closed_port().await, port]);
    assert_eq!(client.nodes().await.unwrap(), [Node { id: 1, host: "127.0.0.1".to_owned(), port, rack: None }]);
    // By its id, too.
    assert!(client.call("test", &Target::Node(1), &metadata()).await.is_ok());
    assert!(client.call("test", &Target::Controller, &metadata()).await.is_ok());
}

#[tokio::test]
async fn a_request_is_sent_again_when_its_connection_breaks() {
    // The first connection ends with its second request, which is the first after ApiVersions.
    let (port, requests) = node(|count| count != 1).await;
    assert!(client(&[port]).call("test", &Target::Any, &metadata()).await.is_ok());
    assert_eq!(requests.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn time_is_up_at_some_time() {
    let mut client = client(&[closed_port().await]);
    client.config.api_timeout = Duration::from_millis(200);
    let error = client.call("listTopics", &Target::Any, &metadata()).await.unwrap_err();
    assert_eq!(error.message(), "Timed out waiting for a node assignment. Call: listTopics");
    assert_eq!(error.class, "org.apache.kafka.common.errors.TimeoutException");
}

/// A node that hung kept whoever looked for a coordinator waiting for ever, and was asked again and again.
#[tokio::test]
async fn a_coordinator_is_looked_for_no_longer_than_a_request_may_take() {
    let (port, requests) = node(|_| true).await;
    let client = client(&[port]);
    let error = client.group_coordinator("g").await.unwrap_err();
    assert_eq!(error.message(), "no answer in time");
    assert_eq!(requests.load(Ordering::Relaxed), 2);
    // By another connection, which asks for ApiVersions first.
    client.group_coordinator("g").await.unwrap_err();
    assert_eq!(requests.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn what_a_node_does_not_speak_is_said_and_not_tried_again() {
    let (port, requests) = node(|_| true).await;
    let request = kafka_protocol::messages::ElectLeadersRequest::default();
    let error = client(&[port]).call("electLeaders", &Target::Any, &request).await.unwrap_err();
    assert_eq!(error.message(), "The node does not support ELECT_LEADERS");
    assert_eq!(requests.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn answers_come_in_order_and_nobody_has_to_wait_for_theirs() {
    let (port, _) = node(|_| true).await;
    let config = client(&[port]).config;
    let connection = Connection::open("127.0.0.1", port, &config).await.unwrap();
    let mut answers = Vec::new();
    for version in [0, 12, 5] {
        answers.push(connection.send(&metadata(), version).await.unwrap());
    }
    // One that is not waited for leaves the others theirs.
    drop(answers.remove(1));
    for answer in answers {
        assert_eq!(answer.receive().await.unwrap().brokers.len(), 1);
    }
}
