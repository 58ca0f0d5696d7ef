//! Brokers come and go, told as transcripts: what is asked, what becomes of brokers and partitions.

use std::sync::Arc;

use kafka_protocol::messages::BrokerId as WireBrokerId;
use kafka_protocol::messages::broker_registration_request::Feature;
use kafka_protocol::protocol::StrBytes;

use super::*;
use crate::config::BrokerConfig;
use crate::controller::features::{FEATURES, bootstrap_records, cluster_min_insync_replicas};
use crate::metadata::image::{LeaderRecoveryState, MetadataDelta};
use crate::metadata::records::{ConfigRecord, PartitionRecord, TopicRecord};
use crate::types::LeaderEpoch;

/// A cluster that takes requests; offsets grow as records come.
struct Cluster {
    image: MetadataImage,
    settings: ControllerSettings,
    next_offset: Offset,
}

impl Cluster {
    fn new() -> Cluster {
        let mut cluster = Cluster {
            image: MetadataImage::empty(),
            settings: ControllerSettings::new("cluster".to_owned(), Arc::new(BrokerConfig::default())),
            next_offset: Offset(1),
        };
        cluster.apply(bootstrap_records());
        cluster.apply(vec![cluster_min_insync_replicas(1)]);
        cluster
    }

    fn apply(&mut self, records: Vec<VersionedRecord>) {
        self.next_offset = self.next_offset.plus(records.len() as i64);
        for record in &records {
            self.image.apply(&record.record, &mut MetadataDelta::default()).unwrap();
        }
    }

    fn request(id: i32, incarnation: u128) -> BrokerRegistrationRequest {
        let features = FEATURES.iter().map(|feature| {
            Feature::default()
                .with_name(StrBytes::from_static_str(feature.name))
                .with_min_supported_version(feature.supported.min)
                .with_max_supported_version(feature.supported.max)
        });
        BrokerRegistrationRequest::default()
            .with_broker_id(WireBrokerId(id))
            .with_cluster_id(StrBytes::from_static_str("cluster"))
            .with_incarnation_id(uuid::Uuid::from_u128(incarnation))
            .with_features(features.collect())
            .with_log_dirs(vec![uuid::Uuid::from_u128(1000 + id as u128)])
            .with_previous_broker_epoch(-1)
    }

    fn register(&mut self, request: &BrokerRegistrationRequest) -> Result<i64, String> {
        let decision = register_broker(&self.image, &self.settings, request, self.next_offset)
            .map_err(|error| error.to_string())?;
        self.apply(decision.records);
        Ok(decision.response.broker_epoch)
    }

    /// A heartbeat: whether the broker is fenced, and whether it should shut down.
    fn beat(&mut self, id: i32, with: impl FnOnce(BrokerHeartbeatRequest) -> BrokerHeartbeatRequest) -> (bool, bool) {
        let epoch = self.image.broker(BrokerId(id)).unwrap().epoch;
        let request = BrokerHeartbeatRequest::default()
            .with_broker_id(WireBrokerId(id))
            .with_broker_epoch(epoch)
            .with_current_metadata_offset(i64::MAX);
        let decision = heartbeat(&self.image, &self.settings, &with(request).into()).unwrap();
        self.apply(decision.records);
        (decision.response.is_fenced, decision.response.should_shut_down)
    }

    /// Registers and unfences.
    fn up(&mut self, id: i32) {
        self.register(&Cluster::request(id, id as u128)).unwrap();
        assert_eq!(self.beat(id, |request| request), (false, false));
    }

    fn create(&mut self, topic: TopicId, replicas: &[i32]) {
        let brokers: Vec<BrokerId> = replicas.iter().copied().map(BrokerId).collect();
        let directories = brokers.iter().map(|broker| self.image.broker(*broker).unwrap().directories[0]).collect();
        self.apply(vec![
            VersionedRecord::lowest(TopicRecord { name: topic.to_string(), topic_id: topic }),
            VersionedRecord::at(
                2,
                PartitionRecord {
                    partition_id: PartitionId(0),
                    topic_id: topic,
                    leader: brokers[0],
                    isr: brokers.clone(),
                    replicas: brokers,
                    directories,
                    leader_epoch: LeaderEpoch(0),
                    partition_epoch: 0,
                    ..PartitionRecord::default()
                },
            ),
        ]);
    }

    /// `leader/epoch isr elr` of partition 0, the recovering leader with `!`.
    fn partition(&self, topic: TopicId) -> String {
        let partition = self.image.topic_by_id(topic).unwrap().partition(PartitionId(0)).unwrap();
        let ids = |ids: &[BrokerId]| ids.iter().map(|id| id.0.to_string()).collect::<Vec<_>>().join(",");
        format!(
            "{}{}/{} isr={} elr={}",
            partition.leader.map_or("-".to_owned(), |leader| leader.to_string()),
            if partition.leader_recovery_state == LeaderRecoveryState::Recovering { "!" } else { "" },
            partition.leader_epoch,
            ids(&partition.isr),
            ids(&partition.elr),
        )
    }
}

fn topic(id: u128) -> TopicId {
    TopicId(uuid::Uuid::from_u128(id))
}

#[test]
fn a_broker_serves_once_it_has_read_its_registration() {
    let mut cluster = Cluster::new();
    let epoch = cluster.register(&Cluster::request(1, 7)).unwrap();
    assert_eq!(epoch, cluster.next_offset.0 - 1);
    assert_eq!(cluster.beat(1, |request| request.with_current_metadata_offset(epoch - 1)), (true, false));
    assert_eq!(cluster.beat(1, |request| request.with_want_fence(true)), (true, false));
    assert_eq!(cluster.beat(1, |request| request.with_current_metadata_offset(epoch)), (false, false));
    assert_eq!(cluster.beat(1, |request| request), (false, false));
    // The same incarnation amends its registration: epoch and state stay.
    assert_eq!(cluster.register(&Cluster::request(1, 7)), Ok(epoch));
    assert!(!cluster.image.broker(BrokerId(1)).unwrap().fenced);
    // Another one starts fenced, with an epoch of its own.
    assert!(cluster.register(&Cluster::request(1, 8)).unwrap() > epoch);
    assert!(cluster.image.broker(BrokerId(1)).unwrap().fenced);
    let stale = BrokerHeartbeatRequest::default().with_broker_id(WireBrokerId(1)).with_broker_epoch(epoch);
    let error = heartbeat(&cluster.image, &cluster.settings, &stale.clone().into()).unwrap_err();
    assert_eq!(error.code, ErrorCode::StaleBrokerEpoch);
    let unknown = stale.with_broker_id(WireBrokerId(2));
    let error = heartbeat(&cluster.image, &cluster.settings, &unknown.into()).unwrap_err();
    assert_eq!(error.to_string(), "STALE_BROKER_EPOCH: No broker registration found for broker id 2");
}

#[test]
fn a_controlled_shutdown_moves_leaders_first() {
    let mut cluster = Cluster::new();
    (1..=3).for_each(|id| cluster.up(id));
    cluster.create(topic(1), &[1, 2, 3]);
    cluster.create(topic(2), &[2, 1]);
    cluster.create(topic(3), &[1]);
    assert_eq!(cluster.beat(1, |request| request.with_want_shut_down(true)), (false, false));
    assert!(cluster.image.broker(BrokerId(1)).unwrap().in_controlled_shutdown);
    assert_eq!(cluster.partition(topic(1)), "2/1 isr=2,3 elr=");
    assert_eq!(cluster.partition(topic(2)), "2/0 isr=2 elr=");
    // Nobody else has this one; it waits for the broker to come back.
    assert_eq!(cluster.partition(topic(3)), "-/1 isr= elr=1");
    assert_eq!(cluster.beat(1, |request| request.with_want_shut_down(true)), (true, true));
    assert_eq!(cluster.beat(1, |request| request.with_want_shut_down(true)), (true, true));

    // Back, with the epoch of its clean shutdown: what it alone has is served again at once.
    let previous = cluster.image.broker(BrokerId(1)).unwrap().epoch;
    cluster.register(&Cluster::request(1, 77).with_previous_broker_epoch(previous)).unwrap();
    assert_eq!(cluster.partition(topic(3)), "-/1 isr= elr=1");
    cluster.beat(1, |request| request);
    assert_eq!(cluster.partition(topic(1)), "2/1 isr=2,3 elr=");
    assert_eq!(cluster.partition(topic(3)), "1/2 isr=1 elr=");
}

#[test]
fn a_crashed_broker_is_not_trusted_to_have_all_records() {
    let mut cluster = Cluster::new();
    (1..=2).for_each(|id| cluster.up(id));
    cluster.create(topic(1), &[1, 2]);
    cluster.create(topic(2), &[1]);
    // Nobody fenced it before it came back.
    cluster.register(&Cluster::request(1, 99)).unwrap();
    assert_eq!(cluster.partition(topic(1)), "2/1 isr=2 elr=");
    assert_eq!(cluster.partition(topic(2)), "-/1 isr= elr=");
    cluster.beat(1, |request| request);
    assert_eq!(cluster.partition(topic(2)), "1!/2 isr=1 elr=");
}

#[test]
fn fencing_takes_a_broker_out() {
    let mut cluster = Cluster::new();
    (1..=2).for_each(|id| cluster.up(id));
    cluster.create(topic(1), &[1, 2]);
    assert_eq!(cluster.beat(1, |request| request.with_want_fence(true)), (true, false));
    assert_eq!(cluster.partition(topic(1)), "2/1 isr=2 elr=");
    assert_eq!(cluster.beat(2, |request| request.with_want_fence(true).with_want_shut_down(true)), (true, true));
    assert_eq!(cluster.partition(topic(1)), "-/2 isr= elr=2");
    // Who comes first is not who may lead.
    cluster.beat(1, |request| request);
    assert_eq!(cluster.partition(topic(1)), "-/2 isr= elr=2");
    cluster.beat(2, |request| request);
    assert_eq!(cluster.partition(topic(1)), "2/3 isr=2 elr=");
}

#[test]
fn below_min_isr_a_leaving_replica_stays_eligible() {
    let mut cluster = Cluster::new();
    (1..=3).for_each(|id| cluster.up(id));
    cluster.create(topic(1), &[1, 2, 3]);
    cluster.apply(vec![VersionedRecord::lowest(ConfigRecord {
        resource_type: 2,
        resource_name: topic(1).to_string(),
        name: "min.insync.replicas".to_owned(),
        value: Some("2".to_owned()),
    })]);
    cluster.beat(3, |request| request.with_want_fence(true));
    assert_eq!(cluster.partition(topic(1)), "1/0 isr=1,2 elr=");
    cluster.beat(2, |request| request.with_want_fence(true));
    assert_eq!(cluster.partition(topic(1)), "1/0 isr=1 elr=2");
    cluster.beat(1, |request| request.with_want_fence(true));
    assert_eq!(cluster.partition(topic(1)), "-/1 isr= elr=1,2");
    cluster.beat(3, |request| request);
    assert_eq!(cluster.partition(topic(1)), "-/1 isr= elr=1,2");
    cluster.beat(2, |request| request);
    assert_eq!(cluster.partition(topic(1)), "2/2 isr=2 elr=1");
}

#[test]
fn a_lost_directory_takes_its_partitions_only() {
    let mut cluster = Cluster::new();
    cluster.up(2);
    let two = vec![uuid::Uuid::from_u128(501), uuid::Uuid::from_u128(502)];
    cluster.register(&Cluster::request(1, 1).with_log_dirs(two.clone())).unwrap();
    cluster.beat(1, |request| request);
    cluster.create(topic(1), &[1, 2]);
    cluster.create(topic(2), &[2, 1]);
    cluster.beat(1, |request| request.with_offline_log_dirs(vec![two[1]]));
    assert_eq!(cluster.partition(topic(1)), "1/0 isr=1,2 elr=");
    cluster.beat(1, |request| request.with_offline_log_dirs(two.clone()));
    assert_eq!(cluster.partition(topic(1)), "2/1 isr=2 elr=");
    assert_eq!(cluster.partition(topic(2)), "2/0 isr=2 elr=");
}

#[test]
fn a_broker_is_told_of_as_cordoned_when_that_is_news() {
    let mut cluster = Cluster::new();
    let two = [501, 502].map(|id| DirectoryId(uuid::Uuid::from_u128(id)));
    let request = Cluster::request(1, 1).with_log_dirs(two.map(|directory| directory.0).to_vec());
    let epoch = cluster.register(&request).unwrap();
    let tell = |cluster: &mut Cluster, cordoned: Option<&[DirectoryId]>| {
        let request = BrokerHeartbeatRequest::default()
            .with_broker_id(WireBrokerId(1))
            .with_broker_epoch(epoch)
            .with_current_metadata_offset(i64::MAX);
        let heartbeat_2 = BrokerHeartbeat { request, cordoned_log_dirs: cordoned.map(<[DirectoryId]>::to_vec) };
        let records = heartbeat(&cluster.image, &cluster.settings, &heartbeat_2).unwrap().records;
        let versions: Vec<i16> = records.iter().map(|record| record.version).collect();
        cluster.apply(records);
        (versions, cluster.image.broker(BrokerId(1)).unwrap().takes_new_replicas())
    };
    assert_eq!(tell(&mut cluster, None), (vec![0], true), "unfenced");
    // It is not known before that none is.
    assert_eq!(tell(&mut cluster, Some(&[])), (vec![3], true));
    assert_eq!(tell(&mut cluster, Some(&[])), (vec![], true));
    assert_eq!(tell(&mut cluster, Some(&two[1..])), (vec![3], true));
    assert_eq!(tell(&mut cluster, Some(&two)), (vec![3], false));
    assert_eq!(tell(&mut cluster, Some(&[two[1], two[0]])), (vec![], false));
    assert_eq!(tell(&mut cluster, None), (vec![], false), "it said nothing");
    // Whoever registers anew has said nothing yet.
    cluster.register(&Cluster::request(1, 2).with_log_dirs(vec![two[0].0])).unwrap();
    assert!(cluster.image.broker(BrokerId(1)).unwrap().takes_new_replicas());
    Arc::make_mut(&mut cluster.image.features).metadata_version = 29;
    let epoch = cluster.image.broker(BrokerId(1)).unwrap().epoch;
    let request = BrokerHeartbeatRequest::default()
        .with_broker_id(WireBrokerId(1))
        .with_broker_epoch(epoch)
        .with_want_fence(true);
    let heartbeat_2 = BrokerHeartbeat { request, cordoned_log_dirs: Some(two.to_vec()) };
    assert!(heartbeat(&cluster.image, &cluster.settings, &heartbeat_2).unwrap().records.is_empty());
}

#[test]
fn a_replica_is_where_its_broker_says() {
    use kafka_protocol::messages::AssignReplicasToDirsRequest;
    use kafka_protocol::messages::assign_replicas_to_dirs_request::{DirectoryData, PartitionData, TopicData};

    use crate::controller::directories::assign_replicas_to_dirs;

    let mut cluster = Cluster::new();
    cluster.up(2);
    let dirs: Vec<_> = (501..504).map(uuid::Uuid::from_u128).collect();
    cluster.register(&Cluster::request(1, 1).with_log_dirs(dirs[..2].to_vec())).unwrap();
    cluster.beat(1, |request| request);
    cluster.create(topic(1), &[1, 2]);
    cluster.create(topic(2), &[2]);
    let assign = |cluster: &mut Cluster, dir: uuid::Uuid, asked: &[(TopicId, i32)]| -> Vec<i16> {
        let topics = asked.iter().map(|(topic, partition)| {
            let partition = PartitionData::default().with_partition_index(*partition);
            TopicData::default().with_topic_id(topic.0).with_partitions(vec![partition])
        });
        let request = AssignReplicasToDirsRequest::default()
            .with_broker_id(WireBrokerId(1))
            .with_broker_epoch(cluster.image.broker(BrokerId(1)).unwrap().epoch)
            .with_directories(vec![DirectoryData::default().with_id(dir).with_topics(topics.collect())]);
        let decision = assign_replicas_to_dirs(&cluster.image, &cluster.settings, &request).unwrap();
        cluster.apply(decision.records);
        let topics = &decision.response.directories[0].topics;
        topics.iter().map(|topic| topic.partitions[0].error_code).collect()
    };
    let directory = |cluster: &Cluster| {
        cluster.image.topic_by_id(topic(1)).unwrap().partition(PartitionId(0)).unwrap().directory(BrokerId(1)).unwrap()
    };
    let before = cluster.next_offset;
    assert_eq!(assign(&mut cluster, dirs[0], &[(topic(1), 0)]), [0]);
    assert_eq!(cluster.next_offset, before, "it was known");
    let asked = [(topic(1), 0), (topic(1), 7), (topic(2), 0), (topic(9), 0)];
    assert_eq!(assign(&mut cluster, dirs[1], &asked), [0, 3, 6, 100]);
    assert_eq!(directory(&cluster), DirectoryId(dirs[1]));
    assert_eq!(cluster.partition(topic(1)), "1/0 isr=1,2 elr=", "and it leads on");
    // It lay there when the directory failed, before the controller knew.
    assert_eq!(assign(&mut cluster, dirs[2], &[(topic(1), 0)]), [0]);
    assert_eq!(cluster.partition(topic(1)), "2/1 isr=2 elr=");
    assert_eq!(directory(&cluster), DirectoryId(dirs[2]));
    // A lone replica lies in a directory whose id has changed: it is led again once that is known. Kafka leaves it without a leader.
    cluster.create(topic(3), &[1]);
    let epoch = cluster.image.broker(BrokerId(1)).unwrap().epoch;
    let request = Cluster::request(1, 2).with_previous_broker_epoch(epoch);
    cluster.register(&request.with_log_dirs(dirs[2..].to_vec())).unwrap();
    cluster.beat(1, |request| request);
    assert_eq!(cluster.partition(topic(3)).split('/').next(), Some("-"));
    assert_eq!(assign(&mut cluster, dirs[2], &[(topic(3), 0)]), [0]);
    assert_eq!(cluster.partition(topic(3)).split('/').next(), Some("1"));
    let stale = AssignReplicasToDirsRequest::default().with_broker_id(WireBrokerId(1)).with_broker_epoch(-7);
    let refused = assign_replicas_to_dirs(&cluster.image, &cluster.settings, &stale).unwrap_err();
    assert_eq!(refused.code, ErrorCode::StaleBrokerEpoch);
}

#[test]
fn registrations_are_refused_in_kafkas_words() {
    let mut cluster = Cluster::new();
    cluster.up(1);
    let mut refused = |request: BrokerRegistrationRequest| cluster.register(&request).unwrap_err();
    let request = || Cluster::request(2, 2);
    let text = StrBytes::from_static_str;
    assert_eq!(
        refused(request().with_cluster_id(text("other"))),
        "INCONSISTENT_CLUSTER_ID: Expected cluster ID cluster, but got cluster ID other"
    );
    let message = refused(request().with_is_migrating_zk_broker(true));
    assert!(message.ends_with("Controller does not support registering ZK brokers."), "{message}");
    let directories = |ids: &[u128]| request().with_log_dirs(ids.iter().map(|id| uuid::Uuid::from_u128(*id)).collect());
    assert!(refused(directories(&[])).ends_with("No directories specified in request"));
    assert!(refused(directories(&[5])).ends_with("Reserved directory ID in request"));
    assert!(refused(directories(&[500, 500])).ends_with("Duplicate directory ID in request"));
    let taken = refused(directories(&[1001]));
    assert!(taken.contains("Broker 1 is already registered with directory "), "{taken}");
    assert!(
        refused(request().with_features(Vec::new())).ends_with("Request features do not contain 'metadata.version'")
    );
    let old = Feature::default()
        .with_name(text("metadata.version"))
        .with_min_supported_version(7)
        .with_max_supported_version(29);
    assert_eq!(
        refused(request().with_features(vec![old])),
        "UNSUPPORTED_VERSION: Unable to register because the broker does not support finalized version 30 of \
         metadata.version. The broker wants a version between 7 and 29, inclusive."
    );
    // A finalized feature that the broker does not name counts as level 0.
    let only = Feature::default().with_name(text("metadata.version")).with_max_supported_version(30);
    let message = refused(request().with_features(vec![only]));
    assert!(message.contains("finalized version 1 of eligible.leader.replicas.version"), "{message}");
}
