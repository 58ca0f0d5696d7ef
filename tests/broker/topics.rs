//! Topics come and go: what is answered is true from then on.

use kafka_protocol::messages::{FetchRequest, ProduceRequest};
use ottla::protocol::ErrorCode;
use ottla::storage::disk::RealDisk;

use crate::broker::{Broker, Data, names_in};
use crate::client::{
    Client, FETCH, FETCH_BY_ID, FOR_EVER_MS, PRODUCE, error, fetch, fetch_topic, only_partition, produce, produce_all,
    until,
};
use crate::records::{batch, values};

/// Once CreateTopics is answered every partition takes records: no client has to try twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_serves_when_it_is_created_however_many_are_at_the_same_time() {
    const CLIENTS: usize = 8;
    const TOPICS: usize = 6;
    const PARTITIONS: i32 = 5;
    let broker = Broker::start(&[]).await;
    let mut tasks = Vec::new();
    for n in 0..CLIENTS {
        let (mut creator, mut producer) = (broker.client().await, broker.client().await);
        tasks.push(tokio::spawn(async move {
            for m in 0..TOPICS {
                let topic = format!("t-{n}-{m}");
                creator.create_topic(&topic, PARTITIONS, &[]).await;
                let batches: Vec<_> =
                    (0..PARTITIONS).map(|partition| (&*topic, partition, batch(&[partition.to_string()]))).collect();
                // By another connection than the one that was told of it.
                let response = producer.call(PRODUCE, &produce_all(-1, &batches)).await;
                for answer in response.responses.iter().flat_map(|topic| &topic.partition_responses) {
                    assert_eq!((error(answer.error_code), answer.base_offset), (ErrorCode::None, 0), "{topic}");
                }
                for partition in 0..PARTITIONS {
                    assert_eq!(producer.latest(&topic, partition).await, 1);
                }
            }
        }));
    }
    for task in tasks {
        task.await.expect("no error");
    }
    let mut client = broker.client().await;
    assert_eq!(client.topics().await.len(), CLIENTS * TOPICS);
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_deleted_ends_the_fetches_that_wait_for_it() {
    let broker = Broker::start(&[]).await;
    let mut admin = broker.client().await;
    let id = admin.create_topic("t", 1, &[]).await;
    admin.produced("t", 0, 1, batch(&["old"])).await;
    let mut by_name = broker.client().await;
    by_name.send(FETCH, &fetch(&[("t", &[(0, 1)])], FOR_EVER_MS, 1)).await;
    let mut by_id = broker.client().await;
    let topics = vec![fetch_topic(("", &[(0, 1)])).with_topic_id(id)];
    by_id.send(FETCH_BY_ID, &fetch(&[], FOR_EVER_MS, 1).with_topics(topics)).await;
    assert_eq!(admin.latest("t", 0).await, 1);

    admin.delete_topic("t").await;
    for (client, version) in [(&mut by_name, FETCH), (&mut by_id, FETCH_BY_ID)] {
        let answer = only_partition(&client.receive::<FetchRequest>(version).await);
        assert_eq!(error(answer.error_code), ErrorCode::UnknownTopicOrPartition);
    }
    let answer = admin.produce("t", 0, 1, batch(&["late"])).await;
    assert_eq!(error(answer.error_code), ErrorCode::UnknownTopicOrPartition);
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_of_the_same_name_begins_anew() {
    let broker = Broker::start(&[("log.segment.delete.delay.ms", "0")]).await;
    let mut client = broker.client().await;
    let mut id = client.create_topic("t", 2, &[]).await;
    for life in 0..5 {
        assert_eq!(client.produced("t", 0, -1, batch(&[format!("life {life}"), "more".to_owned()])).await, 0);
        let mut waiting = broker.client().await;
        waiting.send(FETCH, &fetch(&[("t", &[(0, 2), (1, 0)])], FOR_EVER_MS, 1)).await;
        assert_eq!(client.latest("t", 0).await, 2);
        client.delete_topic("t").await;
        let new_id = client.create_topic("t", 2, &[]).await;
        assert_ne!(new_id, id);
        // It may be late enough to find the new one, which has nothing at offset 2.
        let answer = waiting.receive::<FetchRequest>(FETCH).await;
        let codes: Vec<_> = answer.responses[0].partitions.iter().map(|answer| error(answer.error_code)).collect();
        assert!(
            codes.iter().all(|code| matches!(code, ErrorCode::UnknownTopicOrPartition | ErrorCode::OffsetOutOfRange))
                || codes == [ErrorCode::OffsetOutOfRange, ErrorCode::None],
            "{codes:?}"
        );
        assert_eq!(client.read_from("t", 0, 0).await, []);

        // A reader of the old one is told that it is gone.
        let topics = vec![fetch_topic(("", &[(0, 0)])).with_topic_id(id)];
        let answer = client.call(FETCH_BY_ID, &fetch(&[], 0, 0).with_topics(topics)).await;
        assert_eq!(error(only_partition(&answer).error_code), ErrorCode::UnknownTopicId);
        id = new_id;
    }
    let broker = broker.restart().await;
    let mut client = broker.client().await;
    assert_eq!((client.earliest("t", 0).await, client.latest("t", 0).await), (0, 0));
    let is_left = |name: &String| name.ends_with("-delete") || name.ends_with("-stray");
    let data = broker.path().join("data");
    until("what was deleted to be removed", async || !names_in(&data).iter().any(is_left)).await;
    broker.shut_down().await;
}

/// Producers go on while the topic is deleted under them: each batch is stored or refused, and none fails as if a disk had.
#[tokio::test(flavor = "multi_thread")]
async fn appends_to_a_topic_that_goes_are_refused_cleanly() {
    let broker = Broker::start(&[]).await;
    let mut admin = broker.client().await;
    for (round, acks, settings) in
        [(0, 1, &[][..]), (1, -1, &[][..]), (2, -1, &[("flush.messages", "1")][..]), (3, 1, &[("flush.messages", "1")])]
    {
        let topic = format!("t{round}");
        admin.create_topic(&topic, 1, settings).await;
        let mut producers = Vec::new();
        for _ in 0..4 {
            producers.push(tokio::spawn(append_until_refused(broker.client().await, topic.clone(), acks)));
        }
        until("appends", async || admin.latest(&topic, 0).await >= 100).await;
        admin.delete_topic(&topic).await;
        for producer in producers {
            let code = producer.await.expect("a producer");
            assert!(matches!(code, ErrorCode::UnknownTopicOrPartition | ErrorCode::NotLeaderOrFollower), "{code:?}");
        }
    }
    broker.shut_down().await;
}

async fn append_until_refused(mut client: Client, topic: String, acks: i16) -> ErrorCode {
    loop {
        for _ in 0..10 {
            client.send(PRODUCE, &produce(&topic, 0, acks, batch(&["x"]))).await;
        }
        let mut refused = None;
        for _ in 0..10 {
            let response = client.receive::<ProduceRequest>(PRODUCE).await;
            let code = error(response.responses[0].partition_responses[0].error_code);
            refused = refused.or((code != ErrorCode::None).then_some(code));
        }
        if let Some(code) = refused {
            return code;
        }
    }
}

/// A topic whose acknowledgements wait for the disk gets more partitions: what waits goes on waiting, and is answered.
#[tokio::test(flavor = "multi_thread")]
async fn more_partitions_serve_at_once_and_disturb_no_one() {
    let broker = Broker::start(&[]).await;
    let mut admin = broker.client().await;
    admin.create_topic("t", 1, &[("flush.messages", "1")]).await;
    let mut producer = broker.client().await;
    for count in 2..12 {
        for _ in 0..5 {
            producer.send(PRODUCE, &produce("t", 0, -1, batch(&["x"]))).await;
        }
        admin.create_partitions("t", count).await;
        assert_eq!(admin.produced("t", count - 1, -1, batch(&["first"])).await, 0);
        for _ in 0..5 {
            let response = producer.receive::<ProduceRequest>(PRODUCE).await;
            assert_eq!(error(response.responses[0].partition_responses[0].error_code), ErrorCode::None);
        }
    }
    assert_eq!(admin.latest("t", 0).await, 50);
    let answer = admin.fetch("t", 11 - 1, 0).await;
    assert_eq!(values(&answer), ["first"]);
    broker.shut_down().await;
}

/// Topics of `ottla.test.topics` are there before anybody can ask; one that cannot be ends the start, and leaves what the next start
/// goes on with.
#[tokio::test(flavor = "multi_thread")]
async fn topics_of_the_settings_are_there_from_the_start_or_it_ends() {
    let wished = |topics: &'static str| [("ottla.test.topics", topics)];
    let mut data = Data::new();
    for (topics, told) in [
        ("kept:2,or/ders", "or/ders: Topic name is invalid: "),
        ("copied:1:3", "This node is the only one: write 1 for the replicas, or leave them out"),
    ] {
        let outcome = Broker::try_start_on(data, &wished(topics), RealDisk::new()).await;
        let Err((error, same)) = outcome else { panic!("{topics}: it started") };
        let error = error.to_string();
        assert!(error.starts_with("ottla.test.topics (KAFKA_CREATE_TOPICS): ") && error.contains(told), "{error}");
        data = same;
    }
    let broker = Broker::start_in(data, &wished("kept:2,orders:3:1:delete")).await;
    let mut client = broker.client().await;
    assert_eq!(client.produced("orders", 2, -1, batch(&["x"])).await, 0);
    assert_eq!(client.produced("kept", 1, -1, batch(&["x"])).await, 0);
    broker.shut_down().await;
}
