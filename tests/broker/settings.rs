//! Settings that change while the broker runs hold from the answer on.

use kafka_protocol::messages::{ApiVersionsRequest, FetchRequest};
use ottla::config::keys::{UpdateMode, broker_keys, topic_keys};
use ottla::config::support::{self, Support};
use ottla::protocol::ErrorCode;

use crate::broker::{Broker, names_in};
use crate::client::{Client, FETCH, FOR_EVER_MS, Resource, error, fetch, until};
use crate::records::{batch, batch_at, idempotent, large, now_ms};

async fn code_of(client: &mut Client, topic: &str, size: usize) -> ErrorCode {
    error(client.produce(topic, 0, 1, batch(&[large(size)])).await.error_code)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_message_is_that_of_the_topic_or_the_broker() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("own", 1, &[("max.message.bytes", "5000")]).await;
    client.create_topic("default", 1, &[]).await;
    for size in [4000, 6000] {
        let expected = if size > 5000 { ErrorCode::MessageTooLarge } else { ErrorCode::None };
        assert_eq!(code_of(&mut client, "own", size).await, expected);
        assert_eq!(code_of(&mut client, "default", size).await, ErrorCode::None);
    }
    client.alter(Resource::Topic("own"), &[("max.message.bytes", Some("7000"))]).await;
    assert_eq!(code_of(&mut client, "own", 6000).await, ErrorCode::None);
    client.alter(Resource::Broker(""), &[("message.max.bytes", Some("1000"))]).await;
    assert_eq!(code_of(&mut client, "own", 6000).await, ErrorCode::None);
    assert_eq!(code_of(&mut client, "default", 2000).await, ErrorCode::MessageTooLarge);
    client.alter(Resource::Broker("1"), &[("message.max.bytes", Some("3000"))]).await;
    assert_eq!(code_of(&mut client, "default", 2000).await, ErrorCode::None);
    client.alter(Resource::Topic("own"), &[("max.message.bytes", None)]).await;
    assert_eq!(code_of(&mut client, "own", 6000).await, ErrorCode::MessageTooLarge);

    // All of that is still so after a restart.
    let broker = broker.restart().await;
    let mut client = broker.client().await;
    for topic in ["own", "default"] {
        assert_eq!(code_of(&mut client, topic, 4000).await, ErrorCode::MessageTooLarge);
        assert_eq!(code_of(&mut client, topic, 2000).await, ErrorCode::None);
    }
    client.create_topic("later", 1, &[]).await;
    assert_eq!(code_of(&mut client, "later", 4000).await, ErrorCode::MessageTooLarge);
    broker.shut_down().await;
}

fn segments(broker: &Broker, topic: &str) -> Vec<String> {
    let mut names = names_in(&broker.partition_dir(topic, 0));
    names.retain(|name| name.ends_with(".log"));
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_are_as_large_as_the_setting_says_now() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    for _ in 0..4 {
        client.produced("t", 0, 1, batch(&[large(600_000)])).await;
    }
    assert_eq!(segments(&broker, "t").len(), 1);
    client.alter(Resource::Topic("t"), &[("segment.bytes", Some("1048576"))]).await;
    for _ in 0..3 {
        client.produced("t", 0, 1, batch(&[large(600_000)])).await;
    }
    let expected = [0, 4, 5, 6].map(|base_offset| format!("{base_offset:020}.log"));
    assert_eq!(segments(&broker, "t"), expected);
    assert_eq!(client.read_from("t", 0, 0).await.len(), 7);
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_older_than_retention_goes() {
    let settings = [("log.initial.task.delay.ms", "0"), ("log.retention.check.interval.ms", "50")];
    let broker = Broker::start(&settings).await;
    let mut client = broker.client().await;
    let old_ms = now_ms() - 365 * 24 * 60 * 60 * 1000;
    let kept = [("retention.ms", "-1"), ("segment.bytes", "1048576"), ("file.delete.delay.ms", "0")];
    client.create_topic("t", 1, &kept).await;
    for _ in 0..3 {
        client.produced("t", 0, 1, batch_at(old_ms, &[large(600_000)])).await;
    }
    client.produced("t", 0, 1, batch(&[large(600_000)])).await;
    // Whoever waits at the end is not disturbed by what is deleted before it.
    let mut waiting = broker.client().await;
    waiting.send(FETCH, &fetch(&[("t", &[(0, 4)])], FOR_EVER_MS, 1)).await;
    assert_eq!((client.earliest("t", 0).await, segments(&broker, "t").len()), (0, 4));

    client.alter(Resource::Topic("t"), &[("retention.ms", Some("3600000"))]).await;
    until("old segments to go", async || client.earliest("t", 0).await == 3).await;
    assert_eq!(error(client.fetch("t", 0, 2).await.error_code), ErrorCode::OffsetOutOfRange);
    assert_eq!(client.read_from("t", 0, 3).await.len(), 1);
    until("their files to go", async || segments(&broker, "t").len() == 1).await;
    assert!(!waiting.has_answer());
    client.produced("t", 0, 1, batch(&["news"])).await;
    waiting.receive::<FetchRequest>(FETCH).await;

    // By size: as little as there may be.
    client.alter(Resource::Topic("t"), &[("retention.ms", Some("-1")), ("retention.bytes", Some("1000"))]).await;
    client.produced("t", 0, 1, batch(&[large(600_000)])).await;
    until("the older segment to go", async || client.earliest("t", 0).await >= 4).await;
    let broker = broker.restart().await;
    assert!(broker.client().await.earliest("t", 0).await >= 4);
    broker.shut_down().await;
}

/// Settings are put in force by the time they are answered for, whoever asks for them at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_setting_is_in_force_when_it_is_answered() {
    let broker = Broker::start(&[]).await;
    let mut tasks = Vec::new();
    for n in 0..4 {
        let (mut admin, mut producer) = (broker.client().await, broker.client().await);
        tasks.push(tokio::spawn(async move {
            let topic = format!("t{n}");
            admin.create_topic(&topic, 1, &[]).await;
            for _ in 0..20 {
                admin.alter(Resource::Topic(&topic), &[("max.message.bytes", Some("100"))]).await;
                assert_eq!(code_of(&mut producer, &topic, 1000).await, ErrorCode::MessageTooLarge);
                admin.alter(Resource::Topic(&topic), &[("max.message.bytes", Some("2000"))]).await;
                assert_eq!(code_of(&mut producer, &topic, 1000).await, ErrorCode::None);
            }
        }));
    }
    for task in tasks {
        task.await.expect("no error");
    }
    broker.shut_down().await;
}

/// The settings that may change while a broker runs and that are no defaults of topics, each with who follows it. Of those
/// that are, the replica manager's tests have each.
const FOLLOWED: &[(&str, &str)] = &[
    ("cordoned.log.dirs", "LogManager; tests in log_dirs.rs"),
    ("group.consumer.assignment.interval.ms", "each step of a group reads it"),
    ("listener.security.protocol.map", "nobody: its changes are refused"),
    ("listeners", "nobody: its changes are refused"),
    ("log.cleaner.backoff.ms", "LogCleaner; tests beside it"),
    ("log.cleaner.dedupe.buffer.size", "LogCleaner"),
    ("log.cleaner.io.buffer.load.factor", "LogCleaner"),
    ("log.cleaner.io.buffer.size", "LogCleaner"),
    ("log.cleaner.io.max.bytes.per.second", "LogCleaner"),
    ("log.cleaner.threads", "LogCleaner"),
    ("max.connection.creation.rate", "ConnectionQuotas; tests beside SocketServer, and below"),
    ("max.connections", "ConnectionQuotas"),
    ("max.connections.per.ip", "ConnectionQuotas"),
    ("max.connections.per.ip.overrides", "ConnectionQuotas"),
    ("num.recovery.threads.per.data.dir", "LogManager, at the end and at the next start"),
    ("producer.id.expiration.ms", "each log's producers; below"),
    ("transaction.partition.verification.enable", "each request reads it"),
];

#[test]
fn each_setting_that_may_change_has_who_follows_it() {
    let of_topics: Vec<&str> = topic_keys().iter().filter_map(|key| Some(key.synonyms.first()?.name)).collect();
    let mut changing: Vec<&str> = broker_keys()
        .iter()
        .filter(|key| key.update_mode != UpdateMode::ReadOnly && support::of(key.name) == Support::Effective)
        .map(|key| key.name)
        .filter(|name| !of_topics.contains(name))
        .collect();
    changing.sort_unstable();
    let followed: Vec<&str> = FOLLOWED.iter().map(|(name, _)| *name).collect();
    assert_eq!(changing, followed, "whoever makes a setting work must follow its changes");
}

/// They were taken, described, and held from the properties file only.
#[tokio::test(flavor = "multi_thread")]
async fn limits_on_connections_hold_now_and_after_a_restart() {
    let request = ApiVersionsRequest::default();
    let broker = Broker::start(&[]).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = broker.client().await;
        assert!(client.is_served(0, &request).await);
        clients.push(client);
    }
    let mut admin = broker.client().await;
    admin.alter(Resource::Broker(""), &[("max.connections", Some("2"))]).await;
    let served_last = clients.pop().expect("a client");
    for client in clients {
        client.closed().await;
    }
    let mut waiting = broker.client().await;
    waiting.send(0, &request).await;
    admin.alter(Resource::Broker("1"), &[("max.connections", Some("3"))]).await;
    waiting.receive::<ApiVersionsRequest>(0).await;
    drop((served_last, waiting));

    admin.alter(Resource::Broker("1"), &[("max.connections", None), ("max.connections.per.ip", Some("1"))]).await;
    assert!(!broker.client().await.is_served(0, &request).await);
    let broker = broker.restart().await;
    let mut admin = broker.client().await;
    assert!(admin.is_served(0, &request).await);
    assert!(!broker.client().await.is_served(0, &request).await, "the second from this address");
    admin.alter(Resource::Broker("1"), &[("max.connections.per.ip.overrides", Some("127.0.0.1:3"))]).await;
    let mut second = broker.client().await;
    assert!(second.is_served(0, &request).await);
    // Of the three that one address may have, two are all that there may be.
    let mut third = broker.client().await;
    third.send(0, &request).await;
    let listener = [("listener.name.plaintext.max.connections", Some("1")), ("max.connections", Some("9"))];
    admin.alter(Resource::Broker("1"), &listener).await;
    assert!(!third.has_answer(), "the listener's own limit");
    admin.alter(Resource::Broker("1"), &[(listener[0].0, Some("3"))]).await;
    third.receive::<ApiVersionsRequest>(0).await;
    broker.shut_down().await;
}

/// A start went by the properties file, and forgot the producers that it would have let go.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_set_at_run_time_holds_from_the_start() {
    let settings = [("producer.id.expiration.ms", "1"), ("log.segment.delete.delay.ms", "3600000")];
    let broker = Broker::start(&settings).await;
    let mut client = broker.client().await;
    let now = [
        ("producer.id.expiration.ms", Some("86400000")),
        ("log.segment.delete.delay.ms", Some("0")),
        ("num.recovery.threads.per.data.dir", Some("1")),
    ];
    client.alter(Resource::Broker(""), &now).await;
    client.create_topic("t", 1, &[]).await;
    let producer_id = client.producer_id().await;
    let sent = idempotent(producer_id, 0, &["a".to_owned(), "b".to_owned()]);
    client.produced("t", 0, 1, batch(&["first"])).await;
    assert_eq!(client.produced("t", 0, 1, sent.clone()).await, 1);
    let data = broker.shut_down().await;
    let deleted = data.path().join("data/gone-0.0123456789abcdef0123456789abcdef-delete");
    std::fs::create_dir(&deleted).expect("a directory");
    let broker = Broker::start_in(data, &settings).await;
    let mut client = broker.client().await;
    assert_eq!(client.produced("t", 0, 1, sent).await, 1, "the same batch again");
    until("what was deleted to go", async || !deleted.exists()).await;
    broker.shut_down().await;
}
