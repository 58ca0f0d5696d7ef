//! Images and what changes them.

use std::collections::BTreeSet;

use super::*;
use crate::metadata::batch::{BatchContents, MetadataBatch};
use crate::metadata::fixtures;
use crate::metadata::records::*;
use crate::record::batch::batches;
use crate::types::DirectoryId;

fn apply(image: &mut MetadataImage, record: impl Into<MetadataRecord>) -> Result<MetadataDelta, ApplyError> {
    let mut delta = MetadataDelta::default();
    image.apply(&record.into(), &mut delta)?;
    Ok(delta)
}

fn topic(name: &str, id: u128) -> TopicRecord {
    TopicRecord { name: name.to_owned(), topic_id: TopicId(uuid::Uuid::from_u128(id)) }
}

fn partition(topic: u128, partition: i32) -> PartitionRecord {
    PartitionRecord {
        partition_id: PartitionId(partition),
        topic_id: TopicId(uuid::Uuid::from_u128(topic)),
        replicas: vec![BrokerId(1)],
        isr: vec![BrokerId(1)],
        leader: BrokerId(1),
        leader_epoch: LeaderEpoch(0),
        partition_epoch: 0,
        ..PartitionRecord::default()
    }
}

#[test]
fn an_image_is_what_its_records_say() {
    // Through all of Kafka's logs: what is said to have changed has, and nothing else; and the image writes itself.
    for name in ["plain", "metadata", "unclean"] {
        let bytes = &fixtures::files(name)["__cluster_metadata-0/00000000000000000000.log"];
        let mut image = MetadataImage::empty();
        let mut applied = 0;
        for batch in batches(bytes) {
            let batch = MetadataBatch::decode(&batch.unwrap()).unwrap();
            let BatchContents::Records(records) = batch.contents else { continue };
            let before = image.clone();
            let mut delta = MetadataDelta::default();
            for record in &records {
                use MetadataRecord::{BeginTransaction, EndTransaction};
                if !matches!(record.record, BeginTransaction(_) | EndTransaction(_)) {
                    image.apply(&record.record, &mut delta).unwrap();
                    applied += 1;
                }
            }
            let between = MetadataDelta::between(&before, &image);
            assert_eq!(delta.created_topics, between.created_topics);
            assert_eq!(delta.changed_topics, between.changed_topics);
            assert_eq!(delta.deleted_topics, between.deleted_topics);
            assert_eq!(
                delta.is_empty(),
                records.iter().all(|record| matches!(
                    record.record,
                    MetadataRecord::NoOp(_) | MetadataRecord::BeginTransaction(_) | MetadataRecord::EndTransaction(_)
                ))
            );
            // A value set to what it was counts as changed: whoever set it wants it looked at.
            assert!(delta.changed_configs.is_superset(&between.changed_configs));
            assert!(delta.changed_brokers.is_superset(&between.changed_brokers));
            assert!(delta.acls_changed >= between.acls_changed && delta.scram_changed >= between.scram_changed);
            assert!(delta.features_changed >= between.features_changed);
            assert!(delta.client_quotas_changed >= between.client_quotas_changed);
            assert!(delta.producer_ids_changed >= between.producer_ids_changed);
        }
        assert!(applied > 20, "{name}");

        let mut copy = MetadataImage::empty();
        for record in image.to_records() {
            copy.apply(&record.record, &mut MetadataDelta::default()).unwrap();
        }
        assert_eq!(copy, image, "{name}");
        let all = MetadataDelta::between(&MetadataImage::empty(), &image);
        assert_eq!(all.created_topics.len(), image.topics.len());
        assert!(MetadataDelta::between(&image, &copy).is_empty());
    }
}

#[test]
fn older_images_stay_as_they_were() {
    let mut image = MetadataImage::empty();
    apply(&mut image, topic("a", 1)).unwrap();
    apply(&mut image, partition(1, 0)).unwrap();
    let before = image.clone();
    let change = PartitionChangeRecord {
        partition_id: PartitionId(0),
        topic_id: TopicId(uuid::Uuid::from_u128(1)),
        leader: NO_LEADER,
        isr: Some(Vec::new()),
        ..PartitionChangeRecord::default()
    };
    let delta = apply(&mut image, change.clone()).unwrap();
    assert_eq!(delta.changed_topics[&change.topic_id], BTreeSet::from([PartitionId(0)]));
    let now = image.partition("a", PartitionId(0)).unwrap();
    assert_eq!((now.leader, now.leader_epoch, now.partition_epoch), (None, LeaderEpoch(1), 1));
    assert_eq!(before.partition("a", PartitionId(0)).unwrap().leader, Some(BrokerId(1)));

    let delta = apply(&mut image, RemoveTopicRecord { topic_id: change.topic_id }).unwrap();
    assert_eq!(delta.deleted_topics[&change.topic_id].partitions.len(), 1);
    assert!(image.topic_by_id(change.topic_id).is_none() && before.topic("a").is_some());
}

#[test]
fn a_topic_that_comes_and_goes_leaves_no_trace() {
    let mut image = MetadataImage::empty();
    let mut delta = MetadataDelta::default();
    let id = TopicId(uuid::Uuid::from_u128(1));
    let records: [MetadataRecord; 4] = [
        topic("a", 1).into(),
        partition(1, 0).into(),
        ConfigRecord {
            resource_type: 2,
            resource_name: "a".to_owned(),
            name: "retention.ms".to_owned(),
            value: Some("1".to_owned()),
        }
        .into(),
        RemoveTopicRecord { topic_id: id }.into(),
    ];
    for record in &records {
        image.apply(record, &mut delta).unwrap();
    }
    assert_eq!(image, MetadataImage::empty());
    assert!(delta.created_topics.is_empty() && delta.deleted_topics.is_empty() && delta.changed_topics.is_empty());
}

#[test]
fn contradictions_are_errors() {
    let mut image = MetadataImage::empty();
    let unknown = TopicId(uuid::Uuid::from_u128(1));
    let error = |image: &mut MetadataImage, record: MetadataRecord| apply(image, record).unwrap_err().to_string();
    assert!(error(&mut image, partition(1, 0).into()).starts_with("PartitionRecord names the topic id"));
    assert!(error(&mut image, RemoveTopicRecord { topic_id: unknown }.into()).starts_with("RemoveTopicRecord names"));
    apply(&mut image, topic("a", 1)).unwrap();
    assert!(error(&mut image, topic("a", 2).into()).starts_with("TopicRecord names a, which is there"));
    assert!(error(&mut image, topic("b", 1).into()).starts_with("TopicRecord names b, which is there"));
    let change = PartitionChangeRecord { partition_id: PartitionId(3), topic_id: unknown, ..Default::default() };
    assert!(error(&mut image, change.into()).contains("names partition 3"));
    let two = PartitionRecord { directories: vec![DirectoryId::LOST; 2], ..partition(1, 0) };
    assert!(error(&mut image, two.into()).contains("has 2 directories for 1 replicas"));
    let state = PartitionRecord { leader_recovery_state: 9, ..partition(1, 0) };
    assert!(error(&mut image, state.into()).contains("invalid leader recovery state: 9"));
    let fence = FenceBrokerRecord { id: BrokerId(1), epoch: 4 };
    assert!(error(&mut image, fence.into()).contains("broker 1 of epoch 4, which is not registered"));
    assert!(error(&mut image, EndTransactionRecord.into()).contains("outside of the transactions"));
}

#[test]
fn clearing_elr_touches_who_has_some() {
    let mut image = MetadataImage::empty();
    for (name, id) in [("a", 1), ("b", 2), ("c", 3)] {
        apply(&mut image, topic(name, id)).unwrap();
        let elr = (id != 3).then(|| vec![BrokerId(1)]);
        apply(&mut image, PartitionRecord { eligible_leader_replicas: elr, ..partition(id, 0) }).unwrap();
    }
    let delta = apply(&mut image, ClearElrRecord { topic_name: "a".to_owned() }).unwrap();
    assert_eq!(delta.changed_topics.len(), 1);
    assert!(image.partition("a", PartitionId(0)).unwrap().elr.is_empty());
    assert!(!image.partition("b", PartitionId(0)).unwrap().elr.is_empty());
    let delta = apply(&mut image, ClearElrRecord { topic_name: String::new() }).unwrap();
    assert_eq!(delta.changed_topics.len(), 1);
    assert!(image.partition("b", PartitionId(0)).unwrap().elr.is_empty());
}
