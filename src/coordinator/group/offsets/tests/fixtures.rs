//! Directories that Apache Kafka 4.3.1 wrote: what is read from them is what Kafka itself said of a copy that it had
//! started on.

use kafka_protocol::protocol::StrBytes;

use crate::coordinator::group::GroupShard;
use crate::coordinator::group::admin::ListFilter;
use crate::coordinator::group::records::GroupRecord;
use crate::coordinator::shard::{CoordinatorRecord as _, CoordinatorShard as _, RecordOrigin};
use crate::metadata::fixtures;
use crate::protocol::ErrorCode;
use crate::protocol::offset_fetch::{OffsetFetchGroup, OffsetFetchTopic};
use crate::record::batch::batches;
use crate::record::control::ControlRecord;
use crate::types::{PartitionId, TopicId};

/// A shard for each partition of `__consumer_offsets`.
fn shards(fixture: &str) -> Vec<GroupShard> {
    let logs = fixtures::files(fixture).into_iter();
    let logs = logs.filter(|(path, _)| path.starts_with("__consumer_offsets-") && path.ends_with(".log"));
    logs.map(|(path, bytes)| load(&path, &bytes)).collect()
}

fn load(path: &str, bytes: &[u8]) -> GroupShard {
    let mut shard = GroupShard::default();
    for batch in batches(bytes) {
        let batch = batch.unwrap_or_else(|error| panic!("{path}: {error}"));
        for record in batch.uncompressed_records().expect("Kafka does not compress them") {
            let record = record.unwrap_or_else(|error| panic!("{path}: {error}"));
            let producer_id = batch.producer_id();
            if batch.is_control() {
                let marker = ControlRecord::parse(record.key.unwrap_or_default(), record.value.unwrap_or_default());
                match marker.expect("a control record") {
                    ControlRecord::EndTxn(marker) => {
                        shard.replay_end_transaction(producer_id, marker.committed);
                    }
                    other => panic!("{path}: {other:?}"),
                }
                continue;
            }
            let decoded = GroupRecord::from_bytes(record.key.expect("a key"), record.value);
            let decoded = decoded.unwrap_or_else(|error| panic!("{path}: {error}")).expect("a known kind");
            shard.replay(decoded, RecordOrigin { offset: record.offset, producer_id });
        }
    }
    shard
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn groups(shards: &[GroupShard]) -> String {
    let listed = shards.iter().flat_map(|shard| shard.list_groups(&ListFilter::default()));
    let lines = listed.map(|group| {
        let fields = [&*group.group_id, &*group.protocol_type, group.state, group.group_type.name()];
        fields.join("\t")
    });
    sorted("group\tprotocol_type\tstate\ttype", lines)
}

fn committed(shards: &[GroupShard]) -> String {
    let mut lines = Vec::new();
    for shard in shards {
        for group in shard.list_groups(&ListFilter::default()) {
            let all = OffsetFetchGroup { group_id: text(&group.group_id), ..Default::default() };
            let any = shard.fetch_offsets(&all, false, usize::MAX).expect("no error");
            let stable = shard.fetch_offsets(&all, true, usize::MAX).expect("no error");
            for (topic, stable) in any.iter().zip(&stable) {
                for (partition, stable) in topic.partitions.iter().zip(&stable.partitions) {
                    lines.push(format!(
                        "{}\t{}-{}\t{}\t{}\t{}\t{}",
                        group.group_id,
                        topic.name,
                        partition.partition,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.metadata.as_deref().unwrap_or_default(),
                        if stable.error_code.is_error() { "no" } else { "yes" },
                    ));
                }
            }
        }
    }
    sorted("group\ttopic_partition\toffset\tleader_epoch\tmetadata\tstable", lines.into_iter())
}

fn sorted(head: &str, lines: impl Iterator<Item = String>) -> String {
    let mut lines: Vec<String> = lines.collect();
    lines.sort_unstable();
    std::iter::once(head.to_owned()).chain(lines).map(|line| line + "\n").collect()
}

#[test]
fn groups_and_offsets_of_kafka_are_read() {
    let shards = shards("groups");
    assert_eq!(groups(&shards), include_str!("../../../../../tests/golden/fixtures/groups.groups.tsv"));
    assert_eq!(committed(&shards), include_str!("../../../../../tests/golden/fixtures/groups.committed.tsv"));
}

#[test]
fn offsets_of_kafkas_transactions_are_committed_aborted_and_pending() {
    let shards = shards("transactions");
    assert_eq!(groups(&shards), include_str!("../../../../../tests/golden/fixtures/transactions.groups.tsv"));
    assert_eq!(committed(&shards), include_str!("../../../../../tests/golden/fixtures/transactions.committed.tsv"));
    // The transaction of the third group is open.
    for (group_id, expected) in [
        ("txn-group", ErrorCode::None),
        ("txn-group-2", ErrorCode::None),
        ("txn-group-3", ErrorCode::UnstableOffsetCommit),
    ] {
        let topic = OffsetFetchTopic { name: text("in"), topic_id: TopicId::ZERO, partitions: vec![PartitionId(0)] };
        let group =
            OffsetFetchGroup { group_id: text(group_id), topics: Some(vec![topic]), ..OffsetFetchGroup::default() };
        let shard = shards.iter().find(|shard| shard.groups.contains_key(group_id)).expect("the group");
        let fetched = shard.fetch_offsets(&group, true, usize::MAX).expect("no error");
        assert_eq!(fetched[0].partitions[0].error_code, expected, "{group_id}");
    }
}
