//! What was acknowledged is there after a restart, and after a kill.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::broker::Broker;
use crate::client::{Client, until};
use crate::records::batch;

#[tokio::test(flavor = "multi_thread")]
async fn records_survive_restarts_in_good_order() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 2, &[]).await;
    assert_eq!(client.produced("t", 0, 1, batch(&["a", "b"])).await, 0);
    assert_eq!(client.produced("t", 0, -1, batch(&["c"])).await, 2);
    assert_eq!(client.produced("t", 1, 1, batch(&["other"])).await, 0);

    let broker = broker.restart().await;
    let mut client = broker.client().await;
    assert_eq!(client.produced("t", 0, 1, batch(&["d"])).await, 3);

    let broker = broker.restart().await;
    let mut client = broker.client().await;
    let expected = ["a", "b", "c", "d"].iter().enumerate().map(|(at, value)| (at as i64, (*value).to_owned()));
    assert_eq!(client.read_from("t", 0, 0).await, expected.collect::<Vec<_>>());
    assert_eq!(client.read_from("t", 1, 0).await, [(0, "other".to_owned())]);
    assert_eq!(client.latest("t", 0).await, 4);
    broker.shut_down().await;
}

/// Writes numbered records to a partition, one after the other, until it is told to stop. `acknowledged` is the number of
/// those that were acknowledged.
async fn write_numbers(
    mut client: Client,
    partition: i32,
    acks: i16,
    acknowledged: Arc<AtomicI64>,
    stop: Arc<AtomicBool>,
) {
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        assert_eq!(client.produced("t", partition, acks, batch(&[n.to_string()])).await, n);
        acknowledged.store(n + 1, Ordering::SeqCst);
    }
}

/// Kills a node again and again while producers write to it: what a start on each one's remains serves must begin with all
/// that was acknowledged before the kill, and go on without a gap.
async fn killed_while_writing(settings: &[(&str, &str)], acks: i16) {
    const PARTITIONS: i32 = 3;
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", PARTITIONS, settings).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for partition in 0..PARTITIONS {
        let acknowledged = Arc::new(AtomicI64::new(0));
        let (client, count, stop) = (broker.client().await, acknowledged.clone(), stop.clone());
        writers.push((acknowledged, tokio::spawn(write_numbers(client, partition, acks, count, stop))));
    }
    for kill in 1..=5 {
        for (acknowledged, _) in &writers {
            until("writes", async || acknowledged.load(Ordering::SeqCst) >= kill * 20).await;
        }
        let acknowledged: Vec<i64> = writers.iter().map(|(count, _)| count.load(Ordering::SeqCst)).collect();
        let survivor = broker.survivor().await;
        let mut client = survivor.client().await;
        for (partition, acknowledged) in (0..).zip(acknowledged) {
            let found = client.read_from("t", partition, 0).await;
            assert!(found.len() as i64 >= acknowledged, "{} of {acknowledged} in {partition}", found.len());
            for (n, (offset, value)) in (0..).zip(&found) {
                assert_eq!((*offset, value.as_str()), (n, n.to_string().as_str()));
            }
            // And it goes on behind them.
            let next = client.produced("t", partition, acks, batch(&["after"])).await;
            assert_eq!(next, found.len() as i64);
        }
        survivor.shut_down().await;
    }
    stop.store(true, Ordering::Relaxed);
    for (_, writer) in writers {
        writer.await.expect("a writer");
    }
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_keeps_what_was_acknowledged() {
    killed_while_writing(&[], 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_keeps_what_was_acknowledged_with_a_flush_for_each_message() {
    killed_while_writing(&[("flush.messages", "1")], -1).await;
}
