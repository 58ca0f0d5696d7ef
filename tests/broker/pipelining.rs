//! Many requests on a connection before the first is answered: each has its effect in its turn, and is answered in its turn.

use kafka_protocol::messages::{
    ApiVersionsRequest, CreateTopicsRequest, FetchRequest, InitProducerIdRequest, MetadataRequest, ProduceRequest,
};
use ottla::protocol::ErrorCode;

use crate::broker::Broker;
use crate::client::{
    CREATE_TOPICS, FETCH, FOR_EVER_MS, INIT_PRODUCER_ID, PRODUCE, create_topics, error, fetch, init_producer_id,
    only_partition, produce, produce_all,
};
use crate::records::{batch, values};

/// An acknowledgement that waits for the disk, or for the time to be over, keeps back the answers behind it and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn answers_keep_the_order_behind_one_that_waits() {
    const ROUNDS: i64 = 50;
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("flushed", 1, &[("flush.messages", "1")]).await;
    client.create_topic("quick", 1, &[]).await;
    for round in 0..ROUNDS {
        client.send(PRODUCE, &produce("flushed", 0, -1, batch(&[round.to_string()]))).await;
        client.send(0, &ApiVersionsRequest::default()).await;
        client.send(PRODUCE, &produce("quick", 0, 1, batch(&[round.to_string()]))).await;
        client.send(9, &MetadataRequest::default().with_topics(None)).await;
        client.send(FETCH, &fetch(&[("quick", &[(0, round)])], FOR_EVER_MS, 1)).await;
        client.send(INIT_PRODUCER_ID, &init_producer_id()).await;
        client.send(FETCH, &fetch(&[("quick", &[(0, round + 1)])], 1, 1)).await;
        // Of nothing; it is answered all the same.
        client.send(PRODUCE, &produce_all(1, &[])).await;
    }
    let mut producer_ids = Vec::new();
    for round in 0..ROUNDS {
        let produced = client.receive::<ProduceRequest>(PRODUCE).await;
        assert_eq!(produced.responses[0].partition_responses[0].base_offset, round);
        client.receive::<ApiVersionsRequest>(0).await;
        let produced = client.receive::<ProduceRequest>(PRODUCE).await;
        assert_eq!(produced.responses[0].partition_responses[0].base_offset, round);
        assert_eq!(client.receive::<MetadataRequest>(9).await.topics.len(), 2);
        let fetched = client.receive::<FetchRequest>(FETCH).await;
        assert_eq!(values(&only_partition(&fetched))[0], round.to_string());
        producer_ids.push(client.receive::<InitProducerIdRequest>(INIT_PRODUCER_ID).await.producer_id.0);
        client.receive::<FetchRequest>(FETCH).await;
        assert!(client.receive::<ProduceRequest>(PRODUCE).await.responses.is_empty());
    }
    assert!(producer_ids.is_sorted_by(|a, b| a < b), "{producer_ids:?}");
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_appended_in_the_order_they_were_sent() {
    const REQUESTS: i64 = 1000;
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    let mut consumer = broker.client().await;
    let consumed = tokio::spawn(async move {
        let mut offset = 0;
        while offset < REQUESTS {
            let response = consumer.call(FETCH, &fetch(&[("t", &[(0, offset)])], FOR_EVER_MS, 1)).await;
            for value in values(&only_partition(&response)) {
                assert_eq!(value, offset.to_string());
                offset += 1;
            }
        }
    });
    for n in 0..REQUESTS {
        client.send(PRODUCE, &produce("t", 0, if n % 2 == 0 { 1 } else { -1 }, batch(&[n.to_string()]))).await;
        // No more than the connection may owe, or both sides wait for the other to read.
        if n >= 200 {
            client.receive::<ProduceRequest>(PRODUCE).await;
        }
    }
    consumed.await.expect("all in order");
    broker.shut_down().await;
}

/// A topic is there for the request behind the one that creates it, without waiting for the answer.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_created_serves_the_next_request() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    for n in 0..20 {
        let topic = format!("t{n}");
        client.send(CREATE_TOPICS, &create_topics(&[&topic], 3, &[])).await;
        let batches = [(&*topic, 0, batch(&["a"])), (&*topic, 1, batch(&["b"])), (&*topic, 2, batch(&["c"]))];
        client.send(PRODUCE, &produce_all(-1, &batches)).await;
        client.send(FETCH, &fetch(&[(&*topic, &[(2, 0)])], FOR_EVER_MS, 1)).await;
    }
    for _ in 0..20 {
        let created = client.receive::<CreateTopicsRequest>(CREATE_TOPICS).await;
        assert_eq!(error(created.topics[0].error_code), ErrorCode::None);
        let produced = client.receive::<ProduceRequest>(PRODUCE).await;
        for answer in produced.responses.iter().flat_map(|topic| &topic.partition_responses) {
            assert_eq!((error(answer.error_code), answer.base_offset), (ErrorCode::None, 0));
        }
        assert_eq!(values(&only_partition(&client.receive::<FetchRequest>(FETCH).await)), ["c"]);
    }
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acks_0_is_not_answered_and_an_error_ends_the_connection() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    for n in 0..10 {
        client.send_unanswered(PRODUCE, &produce("t", 0, 0, batch(&["unanswered"]))).await;
        // The next answer is that to the next request.
        assert_eq!(client.latest("t", 0).await, n + 1);
    }
    // What was asked before is still answered; then the connection ends.
    client.send(PRODUCE, &produce("t", 0, 1, batch(&["answered"]))).await;
    client.send_unanswered(PRODUCE, &produce("nowhere", 0, 0, batch(&["lost"]))).await;
    let produced = client.receive::<ProduceRequest>(PRODUCE).await;
    assert_eq!(produced.responses[0].partition_responses[0].base_offset, 10);
    client.closed().await;

    // Also behind an answer that waits for the disk; and nothing behind the error is done.
    let mut client = broker.client().await;
    client.create_topic("flushed", 1, &[("flush.messages", "1")]).await;
    client.send(PRODUCE, &produce("flushed", 0, -1, batch(&["answered"]))).await;
    client.send_unanswered(PRODUCE, &produce("t", 1, 0, batch(&["no such partition"]))).await;
    client.send_unanswered(PRODUCE, &produce("t", 0, 1, batch(&["too late"]))).await;
    client.receive::<ProduceRequest>(PRODUCE).await;
    client.closed().await;
    assert_eq!(broker.client().await.latest("t", 0).await, 11);
    broker.shut_down().await;
}
