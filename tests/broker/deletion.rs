//! The log starts later, for good: DeleteRecords (KIP-107), and retention.

use ottla::protocol::ErrorCode;

use crate::broker::Broker;
use crate::client::{error, until};
use crate::records::{batch, keyed, large};

#[tokio::test(flavor = "multi_thread")]
async fn deleted_records_stay_deleted() {
    let settings = [
        ("log.initial.task.delay.ms", "0"),
        ("log.flush.start.offset.checkpoint.interval.ms", "50"),
        ("log.retention.check.interval.ms", "50"),
    ];
    let broker = Broker::start(&settings).await;
    let mut client = broker.client().await;
    client.create_topic("t", 2, &[("segment.bytes", "1048576")]).await;
    for n in 0..5 {
        client.produced("t", 0, 1, batch(&[n.to_string().into_bytes(), large(600_000)])).await;
    }
    client.produced("t", 1, 1, batch(&["a", "b", "c"])).await;

    assert_eq!(client.delete_records("t", 0, 11).await, Err(ErrorCode::OffsetOutOfRange));
    assert_eq!(client.delete_records("t", 0, -2).await, Err(ErrorCode::OffsetOutOfRange));
    assert_eq!(client.delete_records("t", 2, 0).await, Err(ErrorCode::UnknownTopicOrPartition));
    assert_eq!(client.delete_records("t", 0, 3).await, Ok(3));
    assert_eq!(client.delete_records("t", 0, 2).await, Ok(3), "never backwards");
    // All of it; the next record goes on behind.
    assert_eq!(client.delete_records("t", 1, -1).await, Ok(3));
    assert_eq!((client.earliest("t", 1).await, client.latest("t", 1).await), (3, 3));
    assert_eq!(error(client.fetch("t", 0, 2).await.error_code), ErrorCode::OffsetOutOfRange);
    let left = client.read_from("t", 0, 3).await;
    assert_eq!(left.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), (3..10).collect::<Vec<_>>());

    // What lies below in whole segments is removed; what a kill leaves knows of it once it was noted.
    let first_segment = broker.partition_dir("t", 0).join(format!("{:020}.log", 0));
    let checkpoint = broker.path().join("data/log-start-offset-checkpoint");
    let is_noted = || std::fs::read_to_string(&checkpoint).is_ok_and(|text| text.contains("t 1 3"));
    until("the new start to be noted", async || !first_segment.exists() && is_noted()).await;
    let survivor = broker.survivor().await;
    let broker = broker.restart().await;
    for broker in [survivor, broker] {
        let mut client = broker.client().await;
        assert_eq!((client.earliest("t", 0).await, client.latest("t", 0).await), (3, 10));
        assert_eq!((client.earliest("t", 1).await, client.latest("t", 1).await), (3, 3));
        assert_eq!(client.produced("t", 1, 1, batch(&["d"])).await, 3);
        broker.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compacted_topic_keeps_its_records() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[("cleanup.policy", "compact")]).await;
    assert_eq!(client.delete_records("t", 0, 0).await, Err(ErrorCode::PolicyViolation));
    broker.shut_down().await;
}

/// As Kafka's cleaner does after each look, every `log.cleaner.backoff.ms`. It came to compacted topics, too, by
/// `log.retention.check.interval.ms` alone, which is five minutes.
#[tokio::test(flavor = "multi_thread")]
async fn retention_of_a_compacted_topic_does_not_wait_for_that_of_others() {
    let broker = Broker::start(&[("log.cleaner.backoff.ms", "50"), ("log.initial.task.delay.ms", "3600000")]).await;
    let mut client = broker.client().await;
    for (topic, policy) in [("both", "compact,delete"), ("deleted", "delete")] {
        client.create_topic(topic, 1, &[("cleanup.policy", policy), ("retention.ms", "1")]).await;
    }
    client.produced("deleted", 0, 1, batch(&["a"])).await;
    client.produced("both", 0, 1, keyed(&["a"])).await;
    until("the records to be too old", async || client.earliest("both", 0).await == 1).await;
    assert_eq!(client.earliest("deleted", 0).await, 0);
    broker.shut_down().await;
}
