//! What is asked for by which version, and what is answered of topics and brokers in every state.

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;

use super::*;
use crate::metadata::image::MetadataDelta;
use crate::metadata::records::{BrokerEndpoint, MetadataRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord};
use crate::types::{DirectoryId, LeaderEpoch, PartitionId};

fn name(name: &str) -> MetadataRequestTopic {
    MetadataRequestTopic::default().with_name(Some(StrBytes::from_string(name.to_owned()).into()))
}

fn unnamed(id: u128) -> MetadataRequestTopic {
    MetadataRequestTopic::default().with_name(None).with_topic_id(uuid::Uuid::from_u128(id))
}

fn request(topics: Option<Vec<MetadataRequestTopic>>) -> MetadataRequest {
    MetadataRequest::default().with_topics(topics)
}

#[test]
fn a_request_is_for_all_topics_or_for_some() {
    let show = |request: &MetadataRequest, version| match wanted(request, version) {
        Wanted::All => "all".to_owned(),
        Wanted::Ids(ids) => format!("{} by id", ids.len()),
        Wanted::Names(names) => names.iter().map(|name| &**name).collect::<Vec<_>>().join(","),
    };
    assert_eq!(show(&request(None), 1), "all");
    assert_eq!(show(&request(Some(vec![])), 0), "all");
    assert_eq!(show(&request(Some(vec![])), 1), "", "none of them");
    assert_eq!(show(&request(Some(vec![name("b"), name("a"), name("b")])), 9), "b,a");
    assert_eq!(show(&request(Some(vec![unnamed(1), unnamed(2), unnamed(1)])), 12), "2 by id");
    // Kafka leaves out those that are only named.
    assert_eq!(show(&request(Some(vec![name("a"), unnamed(2)])), 12), "1 by id");
}

#[test]
fn topic_ids_are_served_from_version_12() {
    for (topics, version, expected) in [
        (vec![name("a")], 4, None),
        (vec![unnamed(1)], 10, Some(ErrorCode::InvalidRequest)),
        (vec![unnamed(1)], 11, Some(ErrorCode::InvalidRequest)),
        (vec![name("a").with_topic_id(uuid::Uuid::from_u128(1))], 11, Some(ErrorCode::InvalidRequest)),
        (vec![unnamed(1)], 12, None),
        (vec![name("a"), unnamed(1)], 12, None),
        (vec![unnamed(0)], 12, Some(ErrorCode::UnknownServerError)),
        (vec![unnamed(0), unnamed(1)], 12, None),
    ] {
        assert_eq!(refusal(&request(Some(topics.clone())), version), expected, "{topics:?} in version {version}");
    }
    assert_eq!(refusal(&request(None), 12), None);
    let refused = refuse(&request(Some(vec![name("a"), unnamed(0)])), ErrorCode::UnknownServerError);
    assert_eq!(refused.topics.len(), 2);
    assert!(refused.topics.iter().all(|topic| topic.error_code == ErrorCode::UnknownServerError.code()));
}

/// Brokers 1 to 4: the second is fenced, the third has no listener that the client could use, the fourth lost a directory.
fn image(partitions: &[PartitionRecord]) -> MetadataImage {
    let directory = |broker: i32| DirectoryId(uuid::Uuid::from_u128(1000 + broker as u128));
    let broker = |id: i32| RegisterBrokerRecord {
        broker_id: BrokerId(id),
        end_points: vec![BrokerEndpoint {
            name: if id == 3 { "INTERNAL".to_owned() } else { "PLAINTEXT".to_owned() },
            host: format!("host-{id}"),
            port: 9000 + id as u16,
            security_protocol: 0,
        }],
        fenced: id == 2,
        log_dirs: if id == 4 { vec![directory(99)] } else { vec![directory(id)] },
        ..RegisterBrokerRecord::default()
    };
    let id = TopicId(uuid::Uuid::from_u128(7));
    let mut records: Vec<MetadataRecord> = (1..=4).map(|id| broker(id).into()).collect();
    records.push(TopicRecord { name: "t".to_owned(), topic_id: id }.into());
    for (partition, record) in (0..).zip(partitions) {
        let directories = record.replicas.iter().map(|replica| directory(replica.0)).collect();
        let record =
            PartitionRecord { partition_id: PartitionId(partition), topic_id: id, directories, ..record.clone() };
        records.push(record.into());
    }
    let mut image = MetadataImage::empty();
    for record in records {
        image.apply(&record, &mut MetadataDelta::default()).unwrap();
    }
    image
}

fn partition(leader: i32, replicas: &[i32], isr: &[i32]) -> PartitionRecord {
    let brokers = |ids: &[i32]| ids.iter().map(|&id| BrokerId(id)).collect();
    PartitionRecord {
        replicas: brokers(replicas),
        isr: brokers(isr),
        leader: BrokerId(leader),
        leader_epoch: LeaderEpoch(5),
        ..PartitionRecord::default()
    }
}

#[test]
fn a_partition_without_a_leader_that_can_be_reached_is_shown_so() {
    let partitions = [
        partition(1, &[1], &[1]),
        partition(-1, &[1], &[1]),
        partition(2, &[2, 1], &[2]),
        partition(3, &[3], &[3]),
        partition(1, &[1, 2, 4], &[1, 2]),
        partition(9, &[9], &[9]),
    ];
    let image = image(&partitions);
    let describe = |version| {
        let mut describer = Describer { image: &image, listener: "PLAINTEXT", version, answers: Vec::new() };
        describer.by_name("t");
        let ids = |ids: &[WireBrokerId]| ids.iter().map(|id| id.0.to_string()).collect::<String>();
        let show = |partition: &MetadataResponsePartition| {
            format!(
                "{:?} {} {}/{}/{}",
                ErrorCode::from_code(partition.error_code).unwrap(),
                partition.leader_id.0,
                ids(&partition.replica_nodes),
                ids(&partition.isr_nodes),
                ids(&partition.offline_replicas)
            )
        };
        describer.answers[0].partitions.iter().map(show).collect::<Vec<_>>()
    };
    let expected = |listener_not_found: &str| {
        [
            "None 1 1/1/".to_owned(),
            "LeaderNotAvailable -1 1/1/".to_owned(),
            format!("{listener_not_found} -1 21/2/2"),
            format!("{listener_not_found} -1 3/3/3"),
            "None 1 124/12/24".to_owned(),
            "LeaderNotAvailable -1 9/9/9".to_owned(),
        ]
    };
    assert_eq!(describe(9), expected("ListenerNotFound"));
    assert_eq!(describe(5), expected("LeaderNotAvailable"));
    // In version 0 those that cannot be reached are left out of the lists.
    let missing = describe(0);
    assert_eq!(missing[4], "ReplicaNotAvailable 1 14/1/24");
    assert_eq!((&*missing[2], &*missing[3]), ("LeaderNotAvailable -1 1//2", "LeaderNotAvailable -1 //3"));
}

#[test]
fn a_topic_that_is_not_there_is_missing_or_cannot_be() {
    let image = image(&[]);
    let mut describer = Describer { image: &image, listener: "PLAINTEXT", version: 12, answers: Vec::new() };
    for name in ["u", "__consumer_offsets", "a/b", "", "."] {
        describer.by_name(name);
    }
    describer.by_id(TopicId(uuid::Uuid::from_u128(8)));
    describer.by_id(TopicId(uuid::Uuid::from_u128(7)));
    let found: Vec<(ErrorCode, bool)> = describer
        .answers
        .iter()
        .map(|topic| (ErrorCode::from_code(topic.error_code).unwrap(), topic.is_internal))
        .collect();
    use ErrorCode::{InvalidTopicException, None, UnknownTopicId, UnknownTopicOrPartition};
    let expected = [
        (UnknownTopicOrPartition, false),
        (UnknownTopicOrPartition, true),
        (InvalidTopicException, false),
        (InvalidTopicException, false),
        (InvalidTopicException, false),
        (UnknownTopicId, false),
        (None, false),
    ];
    assert_eq!(found, expected);
}

#[test]
fn brokers_are_shown_where_the_client_can_reach_them() {
    let image = image(&[]);
    let shown = |name: &str| -> Vec<(i32, i32)> {
        let address = |broker: &BrokerRegistration| {
            broker.listener(name).map(|endpoint| Address { host: endpoint.host.clone(), port: endpoint.port })
        };
        alive_brokers(&image, address).iter().map(|broker| (broker.node_id.0, broker.port)).collect()
    };
    assert_eq!(shown("PLAINTEXT"), [(1, 9001), (4, 9004)]);
    assert_eq!(shown("INTERNAL"), [(3, 9003)]);
    let any: std::collections::BTreeSet<i32> =
        (0..200).map(|_| any_alive_broker(&image).expect("there are some").0).collect();
    assert_eq!(any, [1, 3, 4].into());
    assert_eq!(any_alive_broker(&MetadataImage::empty()), None);
}
