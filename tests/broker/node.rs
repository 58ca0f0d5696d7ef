//! The node as one of many on a machine: its directory is its own, its connections are counted, its end is marked, and what
//! it knows of the cluster survives it.

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::{
    ApiVersionsRequest, DescribeConfigsRequest, FetchRequest, MetadataRequest, MetadataResponse,
};
use ottla::server::node::NodeError;
use ottla::storage::manager::OpenError;

use crate::broker::Broker;
use crate::client::{Client, FETCH, FOR_EVER_MS, METADATA, Resource, fetch, text, until};
use crate::records::batch;

const CLEAN_SHUTDOWN: &str = "data/.kafka_cleanshutdown";

#[tokio::test(flavor = "multi_thread")]
async fn a_second_node_on_the_same_directory_is_refused() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    for _ in 0..2 {
        let refused = broker.start_second().await;
        assert!(matches!(refused, Some(NodeError::Open(OpenError::Locked(_)))), "{refused:?}");
    }
    // The first one has not noticed.
    client.produced("t", 0, -1, batch(&["a"])).await;
    let broker = broker.restart().await;
    assert_eq!(broker.client().await.latest("t", 0).await, 1);
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_connections_from_an_address_than_configured() {
    let broker = Broker::start(&[("max.connections.per.ip", "3")]).await;
    let request = ApiVersionsRequest::default();
    let mut clients: Vec<Client> = Vec::new();
    for _ in 0..3 {
        let mut client = broker.client().await;
        assert!(client.is_served(0, &request).await);
        clients.push(client);
    }
    for _ in 0..3 {
        assert!(!broker.client().await.is_served(0, &request).await);
    }
    for client in &mut clients {
        assert!(client.is_served(0, &request).await);
    }
    // Each one that goes makes room, as soon as the broker knows.
    clients.pop().expect("a client").reset();
    until("room for another", async || broker.client().await.is_served(0, &request).await).await;
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_marker_of_a_clean_end_stands_between_two_lives_only() {
    let broker = Broker::start(&[]).await;
    let marker = broker.path().join(CLEAN_SHUTDOWN);
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    client.produced("t", 0, 1, batch(&["a"])).await;
    assert!(!marker.exists());
    let data = broker.shut_down().await;
    assert!(marker.exists());
    let broker = Broker::start_in(data, &[]).await;
    assert!(!marker.exists());
    let survivor = broker.survivor().await;
    assert_eq!(survivor.client().await.latest("t", 0).await, 1);
    let data = survivor.shut_down().await;
    assert!(data.path().join(CLEAN_SHUTDOWN).exists(), "what was recovered is as good as what was never lost");
    broker.shut_down().await;
}

/// An end in good order does not wait for those who wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_long_polls() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    client.send(FETCH, &fetch(&[("t", &[(0, 0)])], FOR_EVER_MS, 1)).await;
    broker.shut_down().await;
    client.closed().await;
}

/// What Metadata says of topics, in a form that can be compared.
async fn describe(client: &mut Client) -> Vec<String> {
    let request = MetadataRequest::default().with_topics(None).with_allow_auto_topic_creation(false);
    let response: MetadataResponse = client.call(METADATA, &request).await;
    let mut topics: Vec<String> = response
        .topics
        .iter()
        .map(|topic| {
            let partitions: Vec<_> = topic
                .partitions
                .iter()
                .map(|partition| (partition.partition_index, partition.leader_id.0, partition.error_code))
                .collect();
            format!("{} {} {partitions:?}", topic.name.as_ref().expect("a name").as_str(), topic.topic_id)
        })
        .collect();
    topics.sort();
    topics.push(format!("cluster {:?}", response.cluster_id));
    topics
}

/// What is set, not what holds by default.
async fn settings(client: &mut Client, resource: Resource<'_>) -> Vec<(String, Option<String>)> {
    let (kind, name) = resource.parts();
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let response = client.call(4, &request).await;
    let mut found: Vec<_> = response.results[0]
        .configs
        .iter()
        // 1: of the topic; 2 and 3: of the broker, of all brokers.
        .filter(|config| (1..=3).contains(&config.config_source))
        .map(|config| (config.name.to_string(), config.value.as_ref().map(ToString::to_string)))
        .collect();
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_cluster_is_survives_restarts_and_kills() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("a", 3, &[("retention.ms", "1000"), ("cleanup.policy", "compact,delete")]).await;
    client.create_topic("b", 1, &[]).await;
    client.create_topic("gone", 1, &[("retention.ms", "1")]).await;
    client.alter(Resource::Topic("b"), &[("max.message.bytes", Some("12345"))]).await;
    client.alter(Resource::Topic("a"), &[("retention.ms", None)]).await;
    client.alter(Resource::Broker(""), &[("log.retention.ms", Some("777"))]).await;
    client.alter(Resource::Broker("1"), &[("message.max.bytes", Some("54321"))]).await;
    client.create_partitions("b", 4).await;
    client.delete_topic("gone").await;

    let topics = describe(&mut client).await;
    assert_eq!(topics.len(), 3);
    let of_a = settings(&mut client, Resource::Topic("a")).await;
    assert!(of_a.contains(&("cleanup.policy".to_owned(), Some("compact,delete".to_owned()))), "{of_a:?}");
    assert!(of_a.contains(&("retention.ms".to_owned(), Some("777".to_owned()))), "{of_a:?}");
    let of_b = settings(&mut client, Resource::Topic("b")).await;
    let of_broker = settings(&mut client, Resource::Broker("1")).await;
    assert!(of_broker.contains(&("message.max.bytes".to_owned(), Some("54321".to_owned()))), "{of_broker:?}");

    let survivor = broker.survivor().await;
    for broker in [survivor, broker.restart().await] {
        let mut client = broker.client().await;
        assert_eq!(describe(&mut client).await, topics);
        assert_eq!(settings(&mut client, Resource::Topic("a")).await, of_a);
        assert_eq!(settings(&mut client, Resource::Topic("b")).await, of_b);
        assert_eq!(settings(&mut client, Resource::Broker("1")).await, of_broker);
        for (topic, partitions) in [("a", 3), ("b", 4)] {
            for partition in 0..partitions {
                let answer = client.produce(topic, partition, -1, batch(&["x"])).await;
                // A compacted topic wants keys.
                assert_eq!(answer.error_code, if topic == "a" { 87 } else { 0 });
            }
        }
        broker.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_client_of_an_ended_node_finds_the_next_one() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    let broker = broker.restart().await;
    client.closed().await;
    let mut client = broker.client().await;
    client.send(FETCH, &fetch(&[("t", &[(0, 0)])], FOR_EVER_MS, 1)).await;
    broker.client().await.produced("t", 0, 1, batch(&["a"])).await;
    client.receive::<FetchRequest>(FETCH).await;
    broker.shut_down().await;
}
