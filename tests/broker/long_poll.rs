//! Fetches that wait: for an append, for enough bytes, for their time to be over; and what ends them early.

use std::time::{Duration, Instant};

use kafka_protocol::messages::{ApiVersionsRequest, FetchRequest, ProduceRequest};
use ottla::protocol::ErrorCode;

use crate::broker::Broker;
use crate::client::{FETCH, FOR_EVER_MS, PRODUCE, error, fetch, only_partition, produce, until};
use crate::records::{batch, values};

#[tokio::test(flavor = "multi_thread")]
async fn an_append_wakes_whoever_waits_for_it() {
    let broker = Broker::start(&[]).await;
    let mut producer = broker.client().await;
    producer.create_topic("t", 2, &[]).await;

    let mut waiting = Vec::new();
    for partition in [0, 0, 1] {
        let mut client = broker.client().await;
        client.send(FETCH, &fetch(&[("t", &[(partition, 0)])], FOR_EVER_MS, 1)).await;
        waiting.push(client);
    }
    // Others are served meanwhile.
    assert_eq!(producer.latest("t", 0).await, 0);
    assert!(waiting.iter().all(|client| !client.has_answer()));

    producer.produced("t", 0, 1, batch(&["a"])).await;
    for client in &mut waiting[..2] {
        assert_eq!(values(&only_partition(&client.receive::<FetchRequest>(FETCH).await)), ["a"]);
    }
    assert!(!waiting[2].has_answer(), "nothing came to the partition that it waits for");
    producer.produced("t", 1, -1, batch(&["b"])).await;
    assert_eq!(values(&only_partition(&waiting[2].receive::<FetchRequest>(FETCH).await)), ["b"]);
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_append_is_missed_between_two_fetches() {
    const RECORDS: i64 = 300;
    let broker = Broker::start(&[]).await;
    let mut producer = broker.client().await;
    producer.create_topic("t", 1, &[]).await;
    let mut consumer = broker.client().await;
    let consumed = tokio::spawn(async move {
        let mut offset = 0;
        while offset < RECORDS {
            let response = consumer.call(FETCH, &fetch(&[("t", &[(0, offset)])], FOR_EVER_MS, 1)).await;
            let read = crate::records::of(&only_partition(&response));
            assert!(!read.is_empty(), "woken for nothing");
            for (at, value) in read {
                assert_eq!((at, value), (offset, offset.to_string()));
                offset += 1;
            }
        }
    });
    for n in 0..RECORDS {
        producer.produced("t", 0, 1, batch(&[n.to_string()])).await;
    }
    consumed.await.expect("all of them");
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn min_bytes_are_waited_for_over_all_partitions() {
    let broker = Broker::start(&[]).await;
    let mut producer = broker.client().await;
    producer.create_topic("t", 2, &[]).await;
    let records = batch(&["0123456789"]);
    let mut client = broker.client().await;
    let wanted = fetch(&[("t", &[(0, 0), (1, 0)])], FOR_EVER_MS, 3 * records.len() as i32);
    client.send(FETCH, &wanted).await;
    producer.produced("t", 0, 1, records.clone()).await;
    producer.produced("t", 1, 1, records.clone()).await;
    assert_eq!(producer.latest("t", 0).await, 1);
    assert!(!client.has_answer(), "two batches are less than three");
    producer.produced("t", 0, 1, records.clone()).await;
    let response = client.receive::<FetchRequest>(FETCH).await;
    let bytes: Vec<usize> = response.responses[0]
        .partitions
        .iter()
        .map(|partition| partition.records.as_ref().map_or(0, |records| records.len()))
        .collect();
    assert_eq!(bytes, [2 * records.len(), records.len()]);
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_ends_with_its_time_and_tells_what_there_is() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    client.produced("t", 0, 1, batch(&["little"])).await;
    let began = Instant::now();
    for (offset, expected) in [(1, &[][..]), (0, &["little"])] {
        let response = client.call(FETCH, &fetch(&[("t", &[(0, offset)])], 200, 1 << 20)).await;
        assert_eq!(values(&only_partition(&response)), expected);
    }
    assert!(began.elapsed() >= Duration::from_millis(400), "it did not wait");
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_told_at_once() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 2, &[]).await;
    let beyond = client.call(FETCH, &fetch(&[("t", &[(0, 0), (1, 5)])], FOR_EVER_MS, 1)).await;
    let codes: Vec<_> = beyond.responses[0].partitions.iter().map(|partition| error(partition.error_code)).collect();
    assert_eq!(codes, [ErrorCode::None, ErrorCode::OffsetOutOfRange]);
    let nothing = client.call(FETCH, &fetch(&[("u", &[(0, 0)])], FOR_EVER_MS, 1)).await;
    assert_eq!(error(only_partition(&nothing).error_code), ErrorCode::UnknownTopicOrPartition);
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_what_the_disk_has_not_confirmed_sees_it_when_it_has() {
    let broker = Broker::start(&[]).await;
    let mut producer = broker.client().await;
    producer.create_topic("t", 1, &[("flush.messages", "1")]).await;
    for n in 0..50 {
        let mut client = broker.client().await;
        client.send(FETCH, &fetch(&[("t", &[(0, n)])], FOR_EVER_MS, 1)).await;
        producer.send(PRODUCE, &produce("t", 0, 1, batch(&[n.to_string()]))).await;
        assert_eq!(values(&only_partition(&client.receive::<FetchRequest>(FETCH).await)), [n.to_string()]);
        producer.receive::<ProduceRequest>(PRODUCE).await;
    }
    broker.shut_down().await;
}

/// A connection is held by its long poll until the peer goes: with one connection allowed, the next one is only let in
/// when the waiting fetch of the first was given up.
#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_is_given_up_when_its_peer_goes() {
    let broker = Broker::start(&[("max.connections.per.ip", "1")]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    for _ in 0..3 {
        client.send(FETCH, &fetch(&[("t", &[(0, 0)])], FOR_EVER_MS, 1)).await;
        // Those that come too early are closed.
        std::mem::replace(&mut client, broker.client().await).reset();
        until("the connection to be let go", async || {
            client = broker.client().await;
            client.is_served(0, &ApiVersionsRequest::default()).await
        })
        .await;
    }
    client.produced("t", 0, 1, batch(&["still served"])).await;
    broker.shut_down().await;
}
