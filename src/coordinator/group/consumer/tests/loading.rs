//! Groups that are read from the log: our own, and Kafka's.

use super::*;
use crate::coordinator::shard::{CoordinatorRecord, CoordinatorShard, RecordOrigin};
use crate::metadata::batch::{BatchContents, MetadataBatch};
use crate::metadata::fixtures;
use crate::record::batch::batches;
use crate::types::ProducerId;

#[test]
fn a_group_goes_on_with_another_coordinator() {
    let mut kit = Kit::new(&[("orders", 4)]);
    kit.beat(Beat::join("a", &["orders"]).rebalance_timeout(5000));
    kit.pass(1000);
    kit.beat(Beat::join("b", &["orders"]));
    kit.beat(Beat::at("a", 2));
    let before = (kit.describe(), kit.state(), kit.group().metadata_hash());
    kit.harness.reload(GroupShard::default());
    assert_eq!((kit.describe(), kit.state(), kit.group().metadata_hash()), before);
    // Sessions begin anew, and the time to give partitions up.
    kit.pass(4999);
    assert_eq!(kit.beat(Beat::at("b", 3)), "epoch 3");
    assert_eq!(kit.describe().len(), 2);
    kit.pass(1);
    assert_eq!(kit.describe(), ["b 3: nothing"]);
    assert_eq!(kit.beat(Beat::at("b", 3)), "epoch 4: orders 0 1 2 3");
    kit.pass(45_000);
    assert_eq!(kit.state(), "consumer Empty");
}

#[test]
fn metadata_as_brokers_before_4_1_kept_it_is_removed() {
    let mut kit = Kit::new(&[("orders", 1)]);
    kit.beat(Beat::join("a", &["orders"]));
    let key = ConsumerGroupPartitionMetadataKey { group_id: "g".to_owned() };
    let record = GroupRecord::ConsumerGroupPartitionMetadata(key, Some(ConsumerGroupPartitionMetadataValue::default()));
    kit.harness.step(|_, step| step.append(record)).unwrap();
    kit.harness.reload(GroupShard::default());
    kit.written();
    kit.beat(Beat::at("a", 2));
    assert_eq!(kit.written(), ["x partitions"]);
    kit.add_partition("orders");
    kit.beat(Beat::at("a", 2));
    assert!(!kit.written().contains(&"x partitions".to_owned()));
}

/// The records of Kafka's broker make the groups that it had, and its hashes of their topics are ours.
#[test]
fn kafkas_groups_are_read() {
    let files = fixtures::files("groups");
    let mut image = MetadataImage::empty();
    for batch in batches(&files["__cluster_metadata-0/00000000000000000000.log"]) {
        let batch = MetadataBatch::decode(&batch.unwrap()).unwrap();
        let BatchContents::Records(records) = batch.contents else { continue };
        for record in &records {
            let _ = image.apply(&record.record, &mut MetadataDelta::default());
        }
    }
    let mut shard = GroupShard::default();
    let mut hashes = 0;
    let logs = files.iter().filter(|(path, _)| path.starts_with("__consumer_offsets-") && path.ends_with(".log"));
    for (_, bytes) in logs {
        for batch in batches(bytes) {
            let batch = batch.unwrap();
            if batch.is_control() {
                continue;
            }
            for record in batch.uncompressed_records().expect("offsets are not compressed by default") {
                let record = record.unwrap();
                let Some(record) = GroupRecord::from_bytes(record.key.unwrap(), record.value).unwrap() else {
                    continue;
                };
                let origin = RecordOrigin { offset: Offset(0), producer_id: ProducerId::NONE };
                shard.replay(record, origin);
                for group in shard.groups.values() {
                    let Group::Consumer(group) = group else { continue };
                    assert_one_owner(group);
                }
            }
        }
    }
    for group in shard.groups.values() {
        let Group::Consumer(group) = group else { continue };
        if group.is_empty() {
            continue;
        }
        let hash = shard.consumer_groups.topics.group_hash(group.subscribed_topics(), &image);
        assert_eq!(hash, group.metadata_hash(), "{}", group.group_id());
        hashes += 1;
    }
    assert!(hashes > 0, "some groups have members");
}
