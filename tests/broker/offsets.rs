//! Offsets that groups have committed: they outlive restarts and kills, but not their topics.

use kafka_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::{
    DeleteGroupsRequest, GroupId, ListGroupsRequest, OffsetCommitRequest, OffsetFetchRequest,
};
use ottla::protocol::ErrorCode;

use crate::broker::Broker;
use crate::client::{Client, error, text, topic_name, until};

const FIND_COORDINATOR: i16 = 4;
/// Has member epochs and still names topics.
const COMMIT: i16 = 9;
const FETCH: i16 = 9;

/// Few partitions, for each is a log.
const SETTINGS: &[(&str, &str)] = &[("offsets.topic.num.partitions", "3")];

fn group_id(group: &str) -> GroupId {
    text(group).into()
}

/// Has the offsets topic created, as every consumer does.
async fn find_coordinators(client: &mut Client, groups: &[String]) {
    let keys = groups.iter().map(|group| text(group)).collect();
    let request = FindCoordinatorRequest::default().with_key_type(0).with_coordinator_keys(keys);
    for coordinator in client.call(FIND_COORDINATOR, &request).await.coordinators {
        assert_eq!(error(coordinator.error_code), ErrorCode::None, "{}", &*coordinator.key);
    }
}

fn commit(group: &str, offsets: &[(&str, i32, i64)]) -> OffsetCommitRequest {
    let topics = offsets.iter().map(|(topic, partition, offset)| {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(*partition)
            .with_committed_offset(*offset)
            .with_committed_metadata(Some(text(&format!("of {group}"))));
        OffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition])
    });
    OffsetCommitRequest::default().with_group_id(group_id(group)).with_topics(topics.collect())
}

async fn committed(client: &mut Client, request: &OffsetCommitRequest) {
    let response = client.call(COMMIT, request).await;
    for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
        assert_eq!(error(partition.error_code), ErrorCode::None, "{}", &*request.group_id);
    }
}

/// All offsets of a group, once its coordinator is loaded: `TOPIC-PARTITION OFFSET METADATA`.
async fn fetch_all(client: &mut Client, group: &str) -> Vec<String> {
    let mut lines = Vec::new();
    until("the coordinator", async || {
        let wanted = OffsetFetchRequestGroup::default().with_group_id(group_id(group)).with_topics(None);
        let request = OffsetFetchRequest::default().with_groups(vec![wanted]).with_require_stable(true);
        let response = client.call(FETCH, &request).await;
        let answer = &response.groups[0];
        match error(answer.error_code) {
            ErrorCode::None => {}
            ErrorCode::CoordinatorLoadInProgress => return false,
            code => panic!("{group}: {code}"),
        }
        lines = answer
            .topics
            .iter()
            .flat_map(|topic| {
                topic.partitions.iter().map(|partition| {
                    let metadata = partition.metadata.as_deref().expect("metadata");
                    let index = partition.partition_index;
                    format!("{}-{index} {} {metadata}", &**topic.name, partition.committed_offset)
                })
            })
            .collect();
        true
    })
    .await;
    lines
}

async fn groups(client: &mut Client) -> Vec<String> {
    let mut groups = Vec::new();
    until("the coordinators", async || {
        let response = client.call(4, &ListGroupsRequest::default()).await;
        groups = response.groups.iter().map(|group| group.group_id.to_string()).collect();
        match error(response.error_code) {
            ErrorCode::None => true,
            ErrorCode::CoordinatorLoadInProgress => false,
            code => panic!("{code}"),
        }
    })
    .await;
    groups.sort();
    groups
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_offsets_survive_restarts_and_kills() {
    let broker = Broker::start(SETTINGS).await;
    let mut client = broker.client().await;
    client.create_topic("t", 2, &[]).await;
    let names: Vec<String> = (0..8).map(|group| format!("group-{group}")).collect();
    find_coordinators(&mut client, &names).await;
    for (offset, group) in (0..).zip(&names) {
        committed(&mut client, &commit(group, &[("t", 0, 99), ("t", 1, 7)])).await;
        committed(&mut client, &commit(group, &[("t", 0, offset)])).await;
    }
    async fn check(client: &mut Client, names: &[String]) {
        assert_eq!(groups(client).await, names);
        for (offset, group) in (0..).zip(names) {
            let expected = [format!("t-0 {offset} of {group}"), format!("t-1 7 of {group}")];
            assert_eq!(fetch_all(client, group).await, expected);
        }
    }
    check(&mut client, &names).await;
    let survivor = broker.survivor().await;
    check(&mut survivor.client().await, &names).await;
    survivor.shut_down().await;
    let broker = broker.restart().await;
    let mut client = broker.client().await;
    check(&mut client, &names).await;

    // A deleted group does not come back.
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group_id("group-7"), group_id("nobody")]);
    let deleted = client.call(2, &request).await;
    let codes: Vec<ErrorCode> = deleted.results.iter().map(|result| error(result.error_code)).collect();
    assert_eq!(codes, [ErrorCode::None, ErrorCode::GroupIdNotFound]);
    let survivor = broker.survivor().await;
    check(&mut survivor.client().await, &names[..7]).await;
    survivor.shut_down().await;
    let broker = broker.restart().await;
    check(&mut broker.client().await, &names[..7]).await;
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_go_with_their_topic() {
    let broker = Broker::start(SETTINGS).await;
    let mut client = broker.client().await;
    client.create_topic("stays", 1, &[]).await;
    client.create_topic("goes", 1, &[]).await;
    find_coordinators(&mut client, &["g".to_owned()]).await;
    committed(&mut client, &commit("g", &[("stays", 0, 1), ("goes", 0, 2)])).await;
    client.delete_topic("goes").await;
    client.create_topic("goes", 1, &[]).await;
    assert_eq!(fetch_all(&mut client, "g").await, ["stays-0 1 of g"]);
    let broker = broker.restart().await;
    assert_eq!(fetch_all(&mut broker.client().await, "g").await, ["stays-0 1 of g"]);
    broker.shut_down().await;
}

/// Up to version 4 a client says itself how long its offsets are kept.
#[tokio::test(flavor = "multi_thread")]
async fn offsets_expire() {
    let settings = [SETTINGS, &[("offsets.retention.check.interval.ms", "50")]].concat();
    let broker = Broker::start(&settings).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[]).await;
    find_coordinators(&mut client, &["short".to_owned(), "long".to_owned()]).await;
    committed(&mut client, &commit("long", &[("t", 0, 1)])).await;
    let mut request = commit("short", &[("t", 0, 1)]);
    request.retention_time_ms = 100;
    let response = client.call(2, &request).await;
    assert_eq!(error(response.topics[0].partitions[0].error_code), ErrorCode::None);
    until("the offset expires", async || groups(&mut client).await == ["long"]).await;
    let broker = broker.restart().await;
    assert_eq!(groups(&mut broker.client().await).await, ["long"]);
    broker.shut_down().await;
}
