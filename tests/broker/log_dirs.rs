//! Several log directories: partitions are spread over them, and what happens when the disk under one of them fails.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use kafka_protocol::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    AlterReplicaLogDirsRequest, DescribeLogDirsRequest, DescribeTopicPartitionsRequest, FetchRequest, MetadataRequest,
};
use ottla::protocol::ErrorCode;

use crate::broker::{Broker, Data, names_in};
use crate::client::{
    CREATE_TOPICS, Client, FETCH, FOR_EVER_MS, METADATA, Resource, create_topics, error, fetch, only_partition, soon,
    text, topic_name, until,
};
use crate::disk::FaultyDisk;
use crate::records::{batch, large};

const TWO: [(&str, &str); 2] = [("log.dirs", "a,b"), ("metadata.log.dir", "a")];

/// The partitions of a topic that lie in a log directory.
fn partitions_in(dir: &Path, topic: &str) -> Vec<i32> {
    let index = |name: String| name.strip_prefix(&format!("{topic}-"))?.parse().ok();
    let mut partitions: Vec<i32> = names_in(dir).into_iter().filter_map(index).collect();
    partitions.sort();
    partitions
}

/// Produces to a partition until that fails; returns with what.
async fn until_refused(client: &mut Client, topic: &str, partition: i32, records: &bytes::Bytes) -> ErrorCode {
    loop {
        let answer = client.produce(topic, partition, 1, records.clone()).await;
        if answer.error_code != 0 {
            return error(answer.error_code);
        }
    }
}

/// What Metadata says of a partition, from version 12 on: its error, leader, leader epoch, ISR and offline replicas.
type Told = (ErrorCode, i32, i32, Vec<i32>, Vec<i32>);

async fn metadata(client: &mut Client, topic: &str, partition: i32) -> Told {
    let topics = vec![MetadataRequestTopic::default().with_name(Some(topic_name(topic)))];
    let request = MetadataRequest::default().with_topics(Some(topics));
    let response = client.call(METADATA, &request).await;
    let found = response.topics[0].partitions.iter().find(|found| found.partition_index == partition);
    let found = found.expect("the partition");
    let ids = |ids: &[kafka_protocol::messages::BrokerId]| ids.iter().map(|id| id.0).collect();
    let (isr, offline) = (ids(&found.isr_nodes), ids(&found.offline_replicas));
    (error(found.error_code), found.leader_id.0, found.leader_epoch, isr, offline)
}

fn led(leader_epoch: i32) -> Told {
    (ErrorCode::None, 1, leader_epoch, vec![1], vec![])
}

fn without_leader(leader_epoch: i32) -> Told {
    (ErrorCode::LeaderNotAvailable, -1, leader_epoch, vec![], vec![1])
}

/// What DescribeTopicPartitions says of a partition: leader, ISR, eligible and last known leaders, offline replicas.
async fn described(client: &mut Client, topic: &str, partition: i32) -> [Vec<i32>; 5] {
    let topics = vec![TopicRequest::default().with_name(topic_name(topic))];
    let request = DescribeTopicPartitionsRequest::default().with_topics(topics).with_response_partition_limit(100);
    let response = client.call(0, &request).await;
    let found = response.topics[0].partitions.iter().find(|found| found.partition_index == partition);
    let found = found.expect("the partition");
    assert_eq!(error(found.error_code), ErrorCode::None);
    let ids = |ids: &[kafka_protocol::messages::BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
    let nullable = |list: &Option<Vec<_>>| list.as_deref().map(ids).unwrap_or_default();
    [
        vec![found.leader_id.0],
        ids(&found.isr_nodes),
        nullable(&found.eligible_leader_replicas),
        nullable(&found.last_known_elr),
        ids(&found.offline_replicas),
    ]
}

/// What DescribeLogDirs says of the directories, in the order of the setting: the error, and which partitions of a topic
/// are there.
async fn log_dirs(client: &mut Client, topic: &str) -> Vec<(ErrorCode, Vec<i32>)> {
    let response = client.call(4, &DescribeLogDirsRequest::default().with_topics(None)).await;
    let describe = |dir: &kafka_protocol::messages::describe_log_dirs_response::DescribeLogDirsResult| {
        let code = error(dir.error_code);
        assert_eq!(code == ErrorCode::None, dir.total_bytes > 0 && dir.usable_bytes > 0, "{dir:?}");
        let topics = dir.topics.iter().filter(|found| *found.name.0 == *topic);
        (code, topics.flat_map(|topic| topic.partitions.iter().map(|found| found.partition_index)).collect())
    };
    response.results.iter().map(describe).collect()
}

async fn move_to(client: &mut Client, dir: &Path, topic: &str, partition: i32) -> ErrorCode {
    let topic = AlterReplicaLogDirTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let dir = AlterReplicaLogDir::default().with_path(text(dir.to_str().expect("UTF-8"))).with_topics(vec![topic]);
    let response = client.call(2, &AlterReplicaLogDirsRequest::default().with_dirs(vec![dir])).await;
    error(response.results[0].partitions[0].error_code)
}

/// Nothing can be done with a partition whose directory failed.
async fn is_offline(client: &mut Client, topic: &str, partition: i32) {
    for acks in [1, -1] {
        let answer = client.produce(topic, partition, acks, batch(&["x"])).await;
        assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
    }
    assert_eq!(error(client.fetch(topic, partition, 0).await.error_code), ErrorCode::KafkaStorageError);
    for timestamp in [-1, -2, -3, 0] {
        assert_eq!(client.list_offset(topic, partition, timestamp).await, Err(ErrorCode::KafkaStorageError));
    }
    assert_eq!(client.delete_records(topic, partition, 0).await, Err(ErrorCode::KafkaStorageError));
}

/// The disk under a directory fails while the node serves. All of it is as Apache Kafka 4.3.1 answers; so is what follows
/// from a restart with the directory back.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fails_is_told_of_as_kafka_does() {
    let disk = FaultyDisk::default();
    let broker = Broker::start_on(Data::new(), &TWO, Arc::new(disk.clone())).await;
    let mut client = broker.client().await;
    for topic in ["t", "gone"] {
        client.create_topic(topic, 4, &[]).await;
        for partition in 0..4 {
            client.produced(topic, partition, -1, batch(&["before"])).await;
        }
    }
    let [healthy, failing] = ["a", "b"].map(|dir| partitions_in(&broker.path().join(dir), "t"));
    assert_eq!(
        log_dirs(&mut client, "t").await,
        [(ErrorCode::None, healthy.clone()), (ErrorCode::None, failing.clone())]
    );

    disk.fail(&broker.path().join("b"));
    let answer = client.produce("t", failing[0], 1, batch(&["lost"])).await;
    assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
    until("the controller to know", async || metadata(&mut client, "t", failing[1]).await == without_leader(1)).await;
    for &partition in &failing {
        is_offline(&mut client, "t", partition).await;
        assert_eq!(metadata(&mut client, "t", partition).await, without_leader(1));
        assert_eq!(described(&mut client, "t", partition).await, [vec![-1], vec![], vec![1], vec![1], vec![1]]);
        for dir in ["a", "b"] {
            let code = move_to(&mut client, &broker.path().join(dir), "t", partition).await;
            assert_eq!(code, ErrorCode::KafkaStorageError);
        }
    }
    assert_eq!(
        log_dirs(&mut client, "t").await,
        [(ErrorCode::None, healthy.clone()), (ErrorCode::KafkaStorageError, vec![])]
    );
    for &partition in &healthy {
        assert_eq!(client.produced("t", partition, -1, batch(&["still"])).await, 1);
        assert_eq!(metadata(&mut client, "t", partition).await, led(0));
        assert_eq!(described(&mut client, "t", partition).await, [vec![1], vec![1], vec![], vec![], vec![]]);
    }
    // What is new lies where there is a disk; what is deleted is gone, whatever lies on the other.
    client.create_topic("new", 2, &[]).await;
    client.create_partitions("t", 6).await;
    client.delete_topic("gone").await;
    client.create_topic("gone", 2, &[]).await;
    for (topic, partition) in [("new", 0), ("new", 1), ("t", 4), ("t", 5), ("gone", 0), ("gone", 1)] {
        assert_eq!(client.produced(topic, partition, -1, batch(&["new"])).await, 0);
        assert_eq!(metadata(&mut client, topic, partition).await, led(0));
    }
    let placed = log_dirs(&mut client, "gone").await;
    assert_eq!(placed[0], (ErrorCode::None, vec![0, 1]));

    let broker = Broker::start_in(broker.shut_down().await, &TWO).await;
    let mut client = broker.client().await;
    for &partition in &failing {
        assert_eq!(metadata(&mut client, "t", partition).await, led(2));
        let read = client.read_from("t", partition, 0).await;
        assert_eq!(read, [(0, "before".to_owned())]);
        client.produced("t", partition, -1, batch(&["after"])).await;
    }
    assert_eq!(client.read_from("gone", 0, 0).await, [(0, "new".to_owned())]);
    assert_eq!(log_dirs(&mut client, "gone").await, [(ErrorCode::None, vec![0, 1]), (ErrorCode::None, vec![])]);
    broker.shut_down().await;
}

/// What a start finds in the place of a directory.
#[derive(Clone, Copy, Debug)]
enum Broken {
    /// The disk fails.
    Disk,
    /// It is no directory.
    File,
    /// It does not say whose it is.
    MetaProperties,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_cannot_be_used_is_left_out_of_a_start() {
    let broker = Broker::start(&TWO).await;
    let mut client = broker.client().await;
    client.create_topic("t", 4, &[]).await;
    for partition in 0..4 {
        client.produced("t", partition, -1, batch(&["before"])).await;
    }
    let [healthy, failing] = ["a", "b"].map(|dir| partitions_in(&broker.path().join(dir), "t"));
    let mut data = broker.shut_down().await;
    let mut leader_epoch = 0;
    for (n, broken) in [Broken::Disk, Broken::File, Broken::MetaProperties].into_iter().enumerate() {
        let disk = FaultyDisk::default();
        let [dir, away] = ["b", "b.away"].map(|name| data.path().join(name));
        let [file, kept] = ["b/meta.properties", "meta.properties.kept"].map(|name| data.path().join(name));
        match broken {
            Broken::Disk => disk.fail(&dir),
            Broken::File => {
                fs::rename(&dir, &away).expect("a rename");
                fs::write(&dir, "").expect("a file");
            }
            Broken::MetaProperties => {
                fs::rename(&file, &kept).expect("a rename");
                fs::write(&file, "version=9\n").expect("a file");
            }
        }
        let broker = Broker::start_on(data, &TWO, Arc::new(disk)).await;
        let mut client = broker.client().await;
        for &partition in &healthy {
            assert_eq!(client.read_from("t", partition, 0).await.len(), 1 + 2 * n, "{broken:?}");
            client.produced("t", partition, -1, batch(&["still"])).await;
        }
        for &partition in &failing {
            is_offline(&mut client, "t", partition).await;
            let (code, leader, _, isr, offline) = metadata(&mut client, "t", partition).await;
            let expected = (ErrorCode::LeaderNotAvailable, -1, vec![], vec![1]);
            assert_eq!((code, leader, isr, offline), expected, "{broken:?}");
        }
        assert_eq!(
            log_dirs(&mut client, "t").await,
            [(ErrorCode::None, healthy.clone()), (ErrorCode::KafkaStorageError, vec![])],
            "{broken:?}"
        );
        let new = format!("new-{n}");
        client.create_topic(&new, 2, &[]).await;
        assert_eq!(log_dirs(&mut client, &new).await[0], (ErrorCode::None, vec![0, 1]));
        let stopped = broker.shut_down().await;

        match broken {
            Broken::Disk => {}
            Broken::File => {
                fs::remove_file(&dir).expect("the file");
                fs::rename(&away, &dir).expect("a rename");
            }
            Broken::MetaProperties => fs::rename(&kept, &file).expect("a rename"),
        }
        let broker = Broker::start_in(stopped, &TWO).await;
        let mut client = broker.client().await;
        for partition in 0..4 {
            let (code, leader, epoch, isr, offline) = metadata(&mut client, "t", partition).await;
            assert_eq!((code, leader, isr, offline), (ErrorCode::None, 1, vec![1], vec![]), "{broken:?}");
            assert!(epoch > leader_epoch, "{epoch} after {leader_epoch}");
            client.produced("t", partition, -1, batch(&["again"])).await;
        }
        leader_epoch = metadata(&mut client, "t", failing[0]).await.2;
        assert_eq!(client.read_from("t", failing[0], 0).await.len(), 2 + n, "{broken:?}");
        data = broker.shut_down().await;
    }
}

/// Cordoned directories get nothing new, and when all are, nothing is created (KIP-1066); as Apache Kafka 4.3.1, but that
/// it holds when the change is answered.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_new_lies_in_a_cordoned_directory() {
    let broker = Broker::start(&TWO).await;
    let mut client = broker.client().await;
    let paths = ["a", "b"].map(|dir| broker.path().join(dir).to_str().expect("UTF-8").to_owned());
    let create = async |client: &mut Client, name: &str| {
        let answer = client.call(CREATE_TOPICS, &create_topics(&[name], 2, &[])).await.topics.remove(0);
        (error(answer.error_code), answer.error_message.map(|message| message.to_string()))
    };
    let refused = "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log \
                   directories cordoned.";
    let refused = (ErrorCode::InvalidReplicationFactor, Some(refused.to_owned()));
    const KEY: &str = "cordoned.log.dirs";

    client.alter(Resource::Broker("1"), &[(KEY, Some(&paths[1]))]).await;
    client.create_topic("first", 4, &[]).await;
    assert_eq!(log_dirs(&mut client, "first").await, [(ErrorCode::None, vec![0, 1, 2, 3]), (ErrorCode::None, vec![])]);
    let code = move_to(&mut client, Path::new(&paths[1]), "first", 0).await;
    assert_eq!(code, ErrorCode::InvalidReplicaAssignment);
    for all in [&*paths.join(","), "*"] {
        client.alter(Resource::Broker("1"), &[(KEY, Some(all))]).await;
        assert_eq!(create(&mut client, "none").await, refused);
        client.produced("first", 0, -1, batch(&["x"])).await;
        client.alter(Resource::Broker("1"), &[(KEY, Some(&paths[0]))]).await;
        assert_eq!(create(&mut client, "second").await, (ErrorCode::None, None));
        client.delete_topic("second").await;
    }
    client.alter(Resource::Broker("1"), &[(KEY, Some("*"))]).await;
    let broker = broker.restart().await;
    let mut client = broker.client().await;
    assert_eq!(create(&mut client, "none").await, refused);
    client.alter(Resource::Broker("1"), &[(KEY, None)]).await;
    client.create_topic("third", 4, &[]).await;
    assert_eq!(log_dirs(&mut client, "third").await[1], (ErrorCode::None, vec![0, 1, 2, 3]), "it had the fewest");
    broker.shut_down().await;
}

/// Replicas are sent to and fro, and again before they have arrived, while retention and clients come to their logs. Nobody
/// is refused, no directory is taken for failed, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_are_sent_to_and_fro_serve_all_the_while() {
    const PARTITIONS: i32 = 4;
    let settings = [
        ("log.dirs", "a,b,c"),
        ("metadata.log.dir", "a"),
        ("log.initial.task.delay.ms", "0"),
        ("log.retention.check.interval.ms", "1"),
    ];
    let broker = Broker::start(&settings).await;
    let mut client = broker.client().await;
    client.create_topic("t", PARTITIONS, &[]).await;
    let dirs = ["a", "b", "c"].map(|dir| broker.path().join(dir));
    let mut expected = 0;
    for round in 0..100 {
        for partition in 0..PARTITIONS {
            let to = &dirs[[1, 2, 1, 0][(round + partition as usize) % 4]];
            for _ in 0..2 {
                assert_eq!(move_to(&mut client, to, "t", partition).await, ErrorCode::None);
            }
            assert_eq!(client.produced("t", partition, -1, batch(&[round.to_string()])).await, expected);
            assert_eq!(client.delete_records("t", partition, 0).await, Ok(0));
        }
        expected += 1;
    }
    for partition in 0..PARTITIONS {
        assert_eq!(move_to(&mut client, &dirs[2], "t", partition).await, ErrorCode::None);
    }
    let all: Vec<i32> = (0..PARTITIONS).collect();
    until("the replicas to arrive", async || {
        let mut found = log_dirs(&mut client, "t").await;
        found[2].1.sort();
        found == [(ErrorCode::None, vec![]), (ErrorCode::None, vec![]), (ErrorCode::None, all.clone())]
            && dirs.each_ref().map(|dir| partitions_in(dir, "t")) == [vec![], vec![], all.clone()]
    })
    .await;
    let broker = broker.restart().await;
    let mut client = broker.client().await;
    let expected: Vec<_> = (0..expected).map(|n| (n, n.to_string())).collect();
    for partition in 0..PARTITIONS {
        assert_eq!(client.read_from("t", partition, 0).await, expected);
    }
    broker.shut_down().await;
}

/// A stop in the midst of moves: of those that end with it the controller is told, too.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_moved_is_told_before_the_end() {
    const PARTITIONS: i32 = 8;
    let mut data = Data::new();
    for round in 0..4 {
        let broker = Broker::start_in(data, &TWO).await;
        let mut client = broker.client().await;
        if round == 0 {
            client.create_topic("t", PARTITIONS, &[]).await;
        }
        for partition in 0..PARTITIONS {
            client.produced("t", partition, -1, batch(&["x"])).await;
            let to = broker.path().join(if round % 2 == 0 { "b" } else { "a" });
            assert_eq!(move_to(&mut client, &to, "t", partition).await, ErrorCode::None);
        }
        data = broker.shut_down().await;
        let dirs = ["a", "b"].map(|dir| data.path().join(dir));
        let verify = Command::new(env!("CARGO_BIN_EXE_ottla")).arg("verify-log").args(&dirs).output();
        let said = String::from_utf8(verify.expect("it runs").stdout).expect("UTF-8");
        assert!(!said.contains("given to another directory") && !said.contains("fault "), "round {round}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_spread_and_found_again() {
    let broker = Broker::start(&TWO).await;
    let mut client = broker.client().await;
    client.create_topic("t", 10, &[]).await;
    for partition in 0..10 {
        client.produced("t", partition, 1, batch(&[partition.to_string()])).await;
    }
    let placed = ["a", "b"].map(|dir| partitions_in(&broker.path().join(dir), "t"));
    assert_eq!([placed[0].len(), placed[1].len()], [5, 5]);

    let survivor = broker.survivor().await;
    for broker in [survivor, broker.restart().await] {
        assert_eq!(["a", "b"].map(|dir| partitions_in(&broker.path().join(dir), "t")), placed);
        let mut client = broker.client().await;
        for partition in 0..10 {
            assert_eq!(client.read_from("t", partition, 0).await, [(0, partition.to_string())]);
        }
        broker.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_gone_takes_its_partitions_with_it_and_no_others() {
    let broker = Broker::start(&TWO).await;
    let mut client = broker.client().await;
    client.create_topic("t", 4, &[("segment.bytes", "1048576")]).await;
    let [healthy, failing] = ["a", "b"].map(|dir| partitions_in(&broker.path().join(dir), "t"));
    let mut waiting = Vec::new();
    for partition in [failing[1], healthy[0]] {
        let mut client = broker.client().await;
        client.send(FETCH, &fetch(&[("t", &[(partition, 0)])], FOR_EVER_MS, 1)).await;
        waiting.push(client);
    }

    // The first file that is to be made there shows it.
    fs::rename(broker.path().join("b"), broker.path().join("b.gone")).expect("a rename");
    let refused = until_refused(&mut client, "t", failing[0], &batch(&[large(600_000)])).await;
    assert_eq!(refused, ErrorCode::KafkaStorageError);

    // Also for those who waited, and for the other partition there, whose own files were not touched.
    let answer = only_partition(&waiting[0].receive::<FetchRequest>(FETCH).await);
    assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
    for &partition in &failing {
        let answer = client.produce("t", partition, 1, batch(&["x"])).await;
        assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
        assert_eq!(error(client.fetch("t", partition, 0).await.error_code), ErrorCode::KafkaStorageError);
        assert_eq!(client.list_offset("t", partition, -1).await, Err(ErrorCode::KafkaStorageError));
        assert_eq!(client.delete_records("t", partition, 0).await, Err(ErrorCode::KafkaStorageError));
    }
    // The rest serves on, and new topics find room.
    for &partition in &healthy {
        client.produced("t", partition, -1, batch(&["still"])).await;
    }
    assert_eq!(only_partition(&waiting[1].receive::<FetchRequest>(FETCH).await).error_code, 0);
    client.create_topic("new", 4, &[]).await;
    for partition in 0..4 {
        client.produced("new", partition, -1, batch(&["x"])).await;
    }
    assert_eq!(partitions_in(&broker.path().join("a"), "new"), [0, 1, 2, 3]);

    // With the directory back where it was, a restart has everything again that was acknowledged.
    let root = broker.path().to_owned();
    let expected = client.latest("t", healthy[0]).await;
    let data = broker.shut_down().await;
    fs::rename(root.join("b.gone"), root.join("b")).expect("a rename");
    let broker = Broker::start_in(data, &TWO).await;
    let mut client = broker.client().await;
    assert_eq!(client.latest("t", healthy[0]).await, expected);
    assert!(client.latest("t", failing[0]).await > 0);
    for partition in 0..4 {
        client.produced("t", partition, -1, batch(&["again"])).await;
    }
    broker.shut_down().await;
}

/// `/dev/full` in the place of a segment's file: it opens, it is empty, and nothing can be written to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_in_the_place_of_a_log_takes_its_partition_offline_and_no_others() {
    let broker = Broker::start(&TWO).await;
    let mut client = broker.client().await;
    client.create_topic("t", 4, &[]).await;
    let partitions = partitions_in(&broker.path().join("b"), "t");
    let failing = partitions[0];
    let healthy: Vec<i32> = (0..4).filter(|&partition| partition != failing).collect();
    for &partition in &healthy {
        client.produced("t", partition, 1, batch(&["before"])).await;
    }
    let segment = broker.path().join(format!("b/t-{failing}/{:020}.log", 0));
    let data = broker.shut_down().await;
    fs::remove_file(&segment).expect("an empty segment");
    symlink("/dev/full", &segment).expect("a link");

    let broker = Broker::start_in(data, &TWO).await;
    let mut client = broker.client().await;
    let answer = client.produce("t", failing, -1, batch(&["too much"])).await;
    assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
    for &partition in &healthy {
        assert_eq!(client.produced("t", partition, -1, batch(&["still"])).await, 1);
        assert_eq!(client.read_from("t", partition, 0).await.len(), 2);
    }
    broker.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_last_directory_a_node_cannot_go_on() {
    let broker = Broker::start(&[]).await;
    let mut client = broker.client().await;
    client.create_topic("t", 1, &[("segment.bytes", "1048576")]).await;
    fs::rename(broker.path().join("data"), broker.path().join("data.gone")).expect("a rename");
    let refused = until_refused(&mut client, "t", 0, &batch(&[large(600_000)])).await;
    assert_eq!(refused, ErrorCode::KafkaStorageError);
    let reason = soon("the node to say so", broker.node().failed()).await.to_string();
    let dir = broker.path().join("data");
    let expected = format!("all log directories have failed, the last of them {}: ", dir.display());
    assert!(reason.starts_with(&expected), "{reason}");
}

/// Whatever serves in the other directories: without its metadata a node cannot go on, nor start. The reason is what was
/// found first: a log of the directory, or the metadata log.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_directory_of_the_metadata_log_a_node_cannot_go_on() {
    let broker = Broker::start(&TWO).await;
    let mut client = broker.client().await;
    client.create_topic("t", 4, &[]).await;
    let [failing, healthy] = ["a", "b"].map(|dir| partitions_in(&broker.path().join(dir), "t"));
    client.produced("t", healthy[0], -1, batch(&["x"])).await;
    // The broker tells the controller some time after it has made them where replicas lie, but not after its end: in its
    // next life nothing is written to the metadata log but what this test wants, nor by a cleaner beside it.
    let mut data = broker.shut_down().await;
    let settings = [TWO[0], TWO[1], ("log.cleaner.enable", "false")];

    let dir = data.path().join("a");
    let of_the_log = format!("log directory {} has failed, and with it the metadata log: ", dir.display());
    let of_the_controller =
        format!("the controller, whose log lies in {}, has ended: the metadata log failed: ", dir.display());
    let mut disk = FaultyDisk::default();
    for (is_log_first, expected) in [(true, of_the_log), (false, of_the_controller)] {
        disk = FaultyDisk::default();
        let broker = Broker::start_on(data, &settings, Arc::new(disk.clone())).await;
        let mut client = broker.client().await;
        disk.fail(&dir);
        for is_log in [is_log_first, !is_log_first] {
            match is_log {
                true => {
                    let answer = client.produce("t", failing[0], 1, batch(&["x"])).await;
                    assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
                }
                false => {
                    // Answered or not, it is not created.
                    broker.client().await.is_served(CREATE_TOPICS, &create_topics(&["new"], 1, &[])).await;
                }
            }
            let reason = soon("the node to say so", broker.node().failed()).await.to_string();
            assert!(reason.starts_with(&expected), "{reason}");
        }
        data = broker.shut_down().await;
    }

    let Err((refused, data)) = Broker::try_start_on(data, &TWO, Arc::new(disk)).await else { panic!("it starts") };
    let refused = refused.to_string();
    let expected = format!("cannot read or write meta.properties of the metadata log directory {}: ", dir.display());
    assert!(refused.starts_with(&expected), "{refused}");
    let broker = Broker::start_in(data, &TWO).await;
    assert_eq!(broker.client().await.read_from("t", healthy[0], 0).await.len(), 1);
    broker.shut_down().await;
}
