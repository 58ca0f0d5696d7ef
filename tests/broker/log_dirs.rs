//! Several log directories: partitions are spread over them, and what happens when the disk under one of them fails.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use kafka_protocol::messages::FetchRequest;
use ottla::protocol::ErrorCode;

use crate::broker::Broker;
use crate::client::{Client, FETCH, FOR_EVER_MS, error, fetch, only_partition, soon};
use crate::records::{batch, large};

const TWO: [(&str, &str); 2] = [("log.dirs", "a,b"), ("metadata.log.dir", "a")];

/// The partitions of a topic that lie in a log directory.
fn partitions_in(dir: &Path, topic: &str) -> Vec<i32> {
    let entries = fs::read_dir(dir).expect("a log directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let index = |name: String| name.strip_prefix(&format!("{topic}-"))?.parse().ok();
    let mut partitions: Vec<i32> = names.filter_map(index).collect();
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

/// A full disk, with `/dev/full` in the place of a segment's file: it opens, it is empty, and nothing can be written to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_takes_its_partitions_offline_and_no_others() {
    let broker = Broker::start(&TWO).await;
    let mut client = broker.client().await;
    client.create_topic("t", 4, &[]).await;
    let [healthy, failing] = ["a", "b"].map(|dir| partitions_in(&broker.path().join(dir), "t"));
    for &partition in [&healthy, &failing].into_iter().flatten() {
        if partition != failing[0] {
            client.produced("t", partition, 1, batch(&["before"])).await;
        }
    }
    let segment = broker.path().join(format!("b/t-{}/{:020}.log", failing[0], 0));
    let data = broker.shut_down().await;
    fs::remove_file(&segment).expect("an empty segment");
    symlink("/dev/full", &segment).expect("a link");

    let broker = Broker::start_in(data, &TWO).await;
    let mut client = broker.client().await;
    assert_eq!(client.read_from("t", failing[1], 0).await.len(), 1, "it is not known yet");
    let answer = client.produce("t", failing[0], -1, batch(&["too much"])).await;
    assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
    for &partition in &failing {
        let answer = client.produce("t", partition, 1, batch(&["x"])).await;
        assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
    }
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
    soon("the node to say so", broker.node().failed()).await;
}
