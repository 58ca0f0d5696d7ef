//! A disk that is full: records are refused, what is there is read, deletion makes room, and then all goes on without a
//! restart. Nothing that was acknowledged is missing.

use std::sync::Arc;

use kafka_protocol::messages::{CreateTopicsRequest, DescribeClusterRequest};
use ottla::protocol::ErrorCode;

use crate::broker::{Broker, Data};
use crate::client::{Client, create_topics, error, until};
use crate::disk::FaultyDisk;
use crate::records::{batch, large};

/// Small segments, whose files go at once, and a retention that looks often.
const TOPIC: [(&str, &str); 2] = [("segment.bytes", "1048576"), ("file.delete.delay.ms", "0")];
const SETTINGS: [(&str, &str); 3] = [
    ("log.initial.task.delay.ms", "100"),
    ("log.retention.check.interval.ms", "100"),
    ("log.flush.offset.checkpoint.interval.ms", "100"),
];

/// Produces until that is refused; returns how many batches were acknowledged.
async fn fill(client: &mut Client, topic: &str, size: usize) -> usize {
    let records = batch(&[large(size)]);
    for count in 0.. {
        let answer = client.produce(topic, 0, -1, records.clone()).await;
        if answer.error_code != 0 {
            assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
            return count;
        }
    }
    unreachable!("it was never refused")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_records_until_something_is_deleted() {
    let disk = FaultyDisk::default();
    let broker = Broker::start_on(Data::new(), &SETTINGS, Arc::new(disk.clone())).await;
    let mut client = broker.client().await;
    for name in ["t", "other"] {
        client.create_topic(name, 1, &TOPIC).await;
        client.produced(name, 0, -1, batch(&["first"])).await;
    }
    disk.leave(5 << 20);
    let mut acknowledged = 1 + fill(&mut client, "t", 100_000).await;
    assert!(acknowledged > 40);
    // To the last byte.
    acknowledged += fill(&mut client, "t", 1000).await;
    acknowledged += fill(&mut client, "t", 1).await;
    for _ in 0..3 {
        // Those that have their file already, and those that need another one.
        assert_eq!(fill(&mut client, "other", 1).await, 0);
        assert_eq!(fill(&mut client, "t", 100_000).await, 0);
    }

    // All of it can be read.
    assert_eq!(client.latest("t", 0).await, acknowledged as i64);
    assert_eq!(client.read_from("t", 0, 0).await.len(), acknowledged);
    assert_eq!(client.read_from("other", 0, 0).await.len(), 1);
    // What changes the cluster has room of its own, but not for ever; then it is refused, too.
    let refused = loop {
        let request: CreateTopicsRequest = create_topics(&["x"], 2000, &[]);
        let answer = client.call(5, &request).await;
        let code = error(answer.topics[0].error_code);
        if code != ErrorCode::None {
            break code;
        }
        client.delete_topic("x").await;
    };
    assert_eq!(refused, ErrorCode::KafkaStorageError);
    assert!(client.is_served(0, &DescribeClusterRequest::default()).await);

    // What is deleted makes room, and all goes on.
    let half = acknowledged as i64 / 2;
    assert_eq!(client.delete_records("t", 0, half).await, Ok(half));
    let small = batch(&["again"]);
    until("room for records", async || client.produce("t", 0, -1, small.clone()).await.error_code == 0).await;
    client.produced("other", 0, -1, small.clone()).await;
    client.create_topic("new", 1, &TOPIC).await;
    client.produced("new", 0, -1, small.clone()).await;

    // The same by the deletion of a topic, on a disk that is full again.
    let more = 1 + fill(&mut client, "t", 10_000).await;
    client.delete_topic("t").await;
    until("room for records", async || client.produce("other", 0, -1, batch(&[large(200_000)])).await.error_code == 0)
        .await;
    assert!(more > 1);
    assert_eq!(client.read_from("other", 0, 0).await.len(), 3);

    let data = broker.shut_down().await;
    let broker = Broker::start_in(data, &[]).await;
    let mut client = broker.client().await;
    assert_eq!(client.read_from("other", 0, 0).await.len(), 3);
    assert_eq!(client.read_from("new", 0, 0).await, [(0, "again".to_owned())]);
    assert_eq!(client.topics().await, ["new", "other"]);
    broker.shut_down().await;
}

/// The process ends while the disk is full, in order or not, and the next one has all that was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_full_disk_acknowledged_is_there_after_a_restart() {
    let disk = FaultyDisk::default();
    let broker = Broker::start_on(Data::new(), &SETTINGS, Arc::new(disk.clone())).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &TOPIC).await;
    disk.leave(3 << 20);
    let mut acknowledged = fill(&mut client, "t", 50_000).await;
    acknowledged += fill(&mut client, "t", 1).await;
    let survivor = broker.survivor().await;
    assert_eq!(survivor.client().await.read_from("t", 0, 0).await.len(), acknowledged);
    survivor.shut_down().await;
    let broker = Broker::start_in(broker.shut_down().await, &[]).await;
    let mut client = broker.client().await;
    assert_eq!(client.read_from("t", 0, 0).await.len(), acknowledged);
    client.produced("t", 0, -1, batch(&["again"])).await;
    broker.shut_down().await;
}

/// A start on a disk without room serves what is there, or says why it does not, and harms nothing. Apache Kafka 4.3.1 does
/// not start on a full disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_room_reads_or_says_why_not() {
    const PARTITIONS: i32 = 3;
    let broker = Broker::start(&SETTINGS).await;
    let mut client = broker.client().await;
    client.create_topic("t", PARTITIONS, &TOPIC).await;
    // Several segments, one, and none.
    for n in 0..30 {
        client.produced("t", 0, -1, batch(&[large(100_000), large(n)])).await;
    }
    client.produced("t", 1, -1, batch(&["only"])).await;
    let killed = broker.node_remains();
    let stopped = broker.shut_down().await;
    let read = async |broker: &Broker| {
        let mut client = broker.client().await;
        let mut read = Vec::new();
        for partition in 0..PARTITIONS {
            read.push(client.read_from("t", partition, 0).await.len());
        }
        read
    };
    let mut outcomes = Vec::new();
    for (end, data) in [("stopped", &stopped), ("killed", &killed)] {
        for room in [0, 1, 4, 16, 64, 256] {
            let data = data.copy();
            let disk = FaultyDisk::with(data.path());
            disk.leave(room << 10);
            let data = match Broker::try_start_on(data, &SETTINGS, Arc::new(disk.clone())).await {
                Ok(broker) => {
                    let mut client = broker.client().await;
                    let mut waiting = Vec::new();
                    for (partition, expected) in (0..PARTITIONS).zip([60, 1, 0]) {
                        match error(client.fetch("t", partition, 0).await.error_code) {
                            ErrorCode::None => {
                                assert_eq!(
                                    client.read_from("t", partition, 0).await.len(),
                                    expected,
                                    "{end}, {room} KiB"
                                );
                            }
                            code => {
                                assert_eq!(code, ErrorCode::KafkaStorageError, "{end}, {room} KiB");
                                waiting.push(partition);
                            }
                        }
                    }
                    let answer = broker.client().await.produce("t", 2, -1, batch(&[large(900_000)])).await;
                    assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError, "{end}, {room} KiB");
                    outcomes.push((end, room, true));
                    // What its recovery had no room for needs no other start.
                    if !waiting.is_empty() {
                        disk.leave(64 << 20);
                    }
                    for partition in waiting {
                        until("room for its recovery", async || client.fetch("t", partition, 0).await.error_code == 0)
                            .await;
                    }
                    assert_eq!(read(&broker).await, [60, 1, 0], "{end}, {room} KiB");
                    broker.shut_down().await
                }
                Err((refused, data)) => {
                    let refused = refused.to_string();
                    let says_so = ["there is no room to start in /", "all log directories have failed, "];
                    assert!(says_so.iter().any(|says| refused.starts_with(says)), "{end}, {room} KiB: {refused}");
                    assert!(refused.contains(data.path().to_str().unwrap()), "{refused}");
                    outcomes.push((end, room, false));
                    data
                }
            };
            // With room again all of it is there, and goes on.
            let broker = Broker::start_in(data, &SETTINGS).await;
            assert_eq!(read(&broker).await, [60, 1, 0], "{end}, {room} KiB");
            for partition in 0..PARTITIONS {
                broker.client().await.produced("t", partition, -1, batch(&["again"])).await;
            }
            broker.shut_down().await;
        }
    }
    let served = |room| outcomes.iter().filter(|(_, at, is_up)| *at == room && *is_up).count();
    assert_eq!((served(64), served(256)), (2, 2), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_start_without_room_says_so() {
    let disk = FaultyDisk::default();
    let mut data = Data::new();
    for room in [0, 100, 1000] {
        disk.leave(room);
        let Err((refused, left)) = Broker::try_start_on(data, &[], Arc::new(disk.clone())).await else {
            panic!("it starts with {room} bytes")
        };
        let refused = refused.to_string();
        assert!(refused.starts_with("there is no room to start in /"), "{refused}");
        assert!(refused.contains(left.path().to_str().unwrap()), "{refused}");
        data = left;
    }
    // What was begun is no hindrance.
    let broker = Broker::start_in(data, &[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    client.produced("t", 0, -1, batch(&["first"])).await;
    broker.shut_down().await;
}
