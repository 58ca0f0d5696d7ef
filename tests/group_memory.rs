//! What groups cost: a committed offset a little, a hostile client's groups not much and not for ever. Measured as the growth of this
//! process, which uses the broker's own allocator; the tests take turns.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::{GroupId, JoinGroupRequest};
use kafka_protocol::protocol::StrBytes;
use ottla::config::BrokerConfig;
use ottla::coordinator::group::admin::ListFilter;
use ottla::coordinator::group::offsets::commit::{CommitTopic, OffsetCommit};
use ottla::coordinator::group::{Committer, GroupShard, RequestContext, Step};
use ottla::coordinator::shard::{CoordinatorShard as _, Environment, ReplyTo, run_step};
use ottla::metadata::image::MetadataImage;
use ottla::protocol::ErrorCode;
use ottla::protocol::offset_commit::OffsetCommitPartition;
use ottla::types::{LeaderEpoch, Offset, PartitionId, TopicId};
use uuid::Uuid;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MIB: usize = 1 << 20;
static TURN: Mutex<()> = Mutex::new(());

fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a field");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

/// A shard whose records go nowhere, once they have taken effect.
struct Sink {
    shard: GroupShard,
    now: Duration,
    next_offset: i64,
    image: MetadataImage,
    config: BrokerConfig,
    uuids: u128,
}

impl Sink {
    fn new() -> Sink {
        let mut sink = Sink {
            shard: GroupShard::default(),
            now: Duration::ZERO,
            next_offset: 0,
            image: MetadataImage::empty(),
            config: BrokerConfig::default(),
            uuids: 0,
        };
        sink.step(|shard, step| shard.on_loaded(step));
        sink
    }

    fn step<T>(&mut self, op: impl FnOnce(&mut GroupShard, &mut Step<'_>) -> T) -> T {
        let uuids = &mut self.uuids;
        let mut environment = Environment {
            now: self.now,
            now_ms: self.now.as_millis() as i64,
            image: &self.image,
            config: &self.config,
            batch_limit: None,
            new_uuid: &mut || {
                *uuids += 1;
                Uuid::from_u128(*uuids)
            },
        };
        let next = &mut self.next_offset;
        let mut append = |append: ottla::coordinator::shard::Append<'_, _>| {
            let first = Offset(*next);
            *next += append.records.len() as i64;
            Ok(ottla::coordinator::shard::Appended { first, count: append.records.len() })
        };
        run_step(&mut self.shard, &mut environment, &mut append, op).answer.expect("appended")
    }

    fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        while let Some(deadline) = self.shard.next_deadline().filter(|deadline| *deadline <= end) {
            self.now = self.now.max(deadline);
            self.step(|shard, step| shard.on_timer(step));
        }
        self.now = end;
    }

    fn group_count(&self) -> usize {
        self.shard.list_groups(&ListFilter::default()).len()
    }

    /// Commits the first so many partitions of a topic. `None`: refused as a whole.
    fn commit(&mut self, group: &str, member: &str, topic: &str, count: i32, metadata: &str) -> Option<Vec<ErrorCode>> {
        let partitions: Vec<_> = (0..count)
            .map(|partition| OffsetCommitPartition {
                partition: PartitionId(partition),
                committed_offset: Offset(i64::from(partition)),
                committed_leader_epoch: LeaderEpoch(1),
                committed_metadata: Some(StrBytes::from_string(metadata.to_owned())),
            })
            .collect();
        let topic_id = TopicId(Uuid::from_u128(7));
        let commit = OffsetCommit {
            group_id: group,
            committer: Committer {
                member_id: member,
                group_instance_id: None,
                generation_id_or_member_epoch: if member.is_empty() { -1 } else { 1 },
                transactional: false,
                api_version: 10,
            },
            retention_time_ms: -1,
            topics: vec![CommitTopic { name: topic, topic_id, partitions: partitions.iter().collect() }],
        };
        self.step(|shard, step| shard.commit_offsets(&commit, step)).ok()
    }

    /// Asks to join a group of its own, and never comes back for the id that it is given.
    fn join(&mut self, group: &str, reply_to: u64) {
        let protocol = JoinGroupRequestProtocol::default().with_name(StrBytes::from_static_str("range"));
        let request = JoinGroupRequest::default()
            .with_group_id(GroupId(StrBytes::from_string(group.to_owned())))
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_session_timeout_ms(10_000)
            .with_rebalance_timeout_ms(10_000)
            .with_protocols(vec![protocol]);
        let context =
            RequestContext { api_version: 9, client_id: "hostile".to_owned(), client_host: "/127.0.0.1".to_owned() };
        self.step(|shard, step| shard.join_group(step, &context, request, ReplyTo(reply_to)));
    }
}

/// What `work` leaves behind in a new shard, in bytes.
fn cost(work: impl FnOnce(&mut Sink)) -> (Sink, usize) {
    let before = resident();
    let mut sink = Sink::new();
    work(&mut sink);
    let cost = resident().saturating_sub(before);
    (sink, cost)
}

/// Memory that is freed would be what the next measurement finds.
fn keep(sink: Sink) {
    std::mem::forget(sink);
}

#[test]
fn a_committed_offset_takes_little() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // Groups, topics in each, partitions in each.
    for (groups, topics, partitions, limit) in [(100, 10, 250, 100), (2500, 1, 100, 110), (50_000, 1, 5, 250)] {
        let (sink, cost) = cost(|sink| {
            for group in 0..groups {
                for topic in 0..topics {
                    sink.commit(&format!("group-{group}"), "", &format!("topic-{topic}"), partitions, "")
                        .expect("taken");
                }
            }
        });
        assert_eq!(sink.group_count(), groups);
        keep(sink);
        let each = cost / (groups * topics * partitions as usize);
        println!("{groups} groups of {topics} topics of {partitions} partitions: {each} bytes for each offset");
        assert!(each < limit, "{each} bytes");
    }
}

#[test]
fn a_hostile_clients_groups_are_bounded_and_expire() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    const COUNT: usize = 100_000;
    let too_large = "m".repeat(4097);
    let (mut sink, cost) = cost(|sink| {
        for group in 0..COUNT / 2 {
            let codes = sink.commit(&format!("commits-{group}"), "", "t", 1, &too_large);
            assert_eq!(codes, Some(vec![ErrorCode::OffsetMetadataTooLarge]));
            sink.join(&format!("joins-{group}"), group as u64);
        }
    });
    assert_eq!(sink.group_count(), COUNT);
    println!("{} bytes for each empty group", cost / COUNT);
    assert!(cost < 150 * MIB, "{} MiB", cost / MIB);
    // Ids that were handed out lapse, and empty groups without offsets go with the next look for such.
    sink.advance(Duration::from_secs(1300));
    assert_eq!(sink.group_count(), 0);
    keep(sink);
}

#[test]
fn forged_members_leave_nothing_behind() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (sink, cost) = cost(|sink| {
        for attempt in 0..100_000 {
            assert_eq!(sink.commit(&format!("group-{attempt}"), &format!("member-{attempt}"), "t", 1, ""), None);
        }
    });
    assert_eq!((sink.group_count(), sink.next_offset), (0, 0));
    assert!(cost < 16 * MIB, "{} MiB", cost / MIB);
}
