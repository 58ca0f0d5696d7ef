//! The controller as a whole, on a real disk: what is answered is in the image, in the log, and there after a restart.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::{
    AllocateProducerIdsRequest, BrokerHeartbeatRequest, BrokerId as WireBrokerId, BrokerRegistrationRequest,
    CreateTopicsRequest, DeleteTopicsRequest, TopicName, UpdateFeaturesRequest, broker_registration_request,
    update_features_request,
};
use kafka_protocol::protocol::StrBytes;

use super::*;
use crate::clock::SystemClock;
use crate::config::BrokerConfig;
use crate::controller::ControllerHandle;
use crate::controller::features::FEATURES;
use crate::controller::start::{ControllerParams, StartError, StartedController, start};
use crate::metadata::fixtures;
use crate::metadata::image::{ConfigResource, Endpoint, LeaderRecoveryState};
use crate::metadata::log::{DIRECTORY, MetadataLogSettings};
use crate::metadata::records::FeatureLevelRecord;
use crate::protocol::errors::ErrorCode;
use crate::quorum::voters::VoterSet;
use crate::record::control::VoterEndpoint;
use crate::storage::disk::RealDisk;
use crate::storage::file_cache::FileCache;
use crate::storage::log::LogContext;
use crate::storage::meta_properties::MetaProperties;
use crate::types::{BrokerId, DirectoryId, LeaderEpoch, PartitionId};

const NODE: BrokerId = BrokerId(1);

fn params(dir: &Path) -> ControllerParams {
    let disk = RealDisk::new();
    let background = Background::new(1);
    let directory_id = match MetaProperties::read(&*disk, dir).unwrap() {
        Some(properties) => properties.directory_id.unwrap(),
        None => {
            let directory_id = DirectoryId::random();
            std::fs::create_dir_all(dir).unwrap();
            MetaProperties::new("cluster", NODE, directory_id).write(&*disk, dir, 0).unwrap();
            directory_id
        }
    };
    let endpoint = VoterEndpoint { name: "CONTROLLER".to_owned(), host: "localhost".to_owned(), port: 9093 };
    ControllerParams {
        log_context: LogContext {
            clock: SystemClock::new(),
            files: FileCache::new(Arc::clone(&disk), background.clone(), 100),
            background,
            disk,
        },
        metadata_log_dir: dir.to_owned(),
        directory_id,
        log_settings: MetadataLogSettings {
            segment_bytes: 1 << 30,
            segment_ms: i64::MAX,
            retention_bytes: 100 << 20,
            retention_ms: -1,
        },
        max_bytes_between_snapshots: 20 << 20,
        max_snapshot_interval: Duration::from_secs(3600),
        settings: ControllerSettings::new("cluster".to_owned(), Arc::new(BrokerConfig::default())),
        static_voters: VoterSet::fixed([(NODE, endpoint)]),
        listeners: vec![Endpoint {
            name: "CONTROLLER".to_owned(),
            host: "localhost".to_owned(),
            port: 9093,
            security_protocol: 0,
        }],
        progress: None,
        on_failure: Box::new(|error| panic!("{error}")),
    }
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Registers the broker and unfences it; gives its epoch.
async fn bring_up(controller: &ControllerHandle, dir: &Path, previous_epoch: i64) -> i64 {
    let directory = MetaProperties::read(&RealDisk, dir).unwrap().unwrap().directory_id.unwrap();
    let features = FEATURES.iter().map(|feature| {
        broker_registration_request::Feature::default()
            .with_name(text(feature.name))
            .with_min_supported_version(feature.supported.min)
            .with_max_supported_version(feature.supported.max)
    });
    let request = BrokerRegistrationRequest::default()
        .with_broker_id(WireBrokerId(NODE.0))
        .with_cluster_id(text("cluster"))
        .with_incarnation_id(uuid::Uuid::new_v4())
        .with_features(features.collect())
        .with_log_dirs(vec![directory.0])
        .with_previous_broker_epoch(previous_epoch);
    let response = controller.register_broker(request).await.unwrap();
    assert_eq!(response.error_code, 0);
    let epoch = response.broker_epoch;
    let heartbeat = heartbeat(epoch, |request| request.with_current_metadata_offset(epoch));
    let response = controller.broker_heartbeat(heartbeat).await.unwrap();
    assert_eq!((response.error_code, response.is_fenced), (0, false));
    epoch
}

fn heartbeat(
    epoch: i64,
    with: impl FnOnce(BrokerHeartbeatRequest) -> BrokerHeartbeatRequest,
) -> BrokerHeartbeatRequest {
    with(BrokerHeartbeatRequest::default().with_broker_id(WireBrokerId(NODE.0)).with_broker_epoch(epoch))
}

async fn shut_down(controller: &ControllerHandle, epoch: i64) {
    let leaves = || heartbeat(epoch, |request| request.with_want_shut_down(true));
    let response = controller.broker_heartbeat(leaves()).await.unwrap();
    if !response.should_shut_down {
        assert!(controller.broker_heartbeat(leaves()).await.unwrap().should_shut_down);
    }
    controller.shutdown().await.unwrap();
}

fn topic(name: &str, partitions: i32) -> CreatableTopic {
    CreatableTopic::default()
        .with_name(TopicName(text(name)))
        .with_num_partitions(partitions)
        .with_replication_factor(1)
}

fn create(topics: Vec<CreatableTopic>) -> CreateTopicsRequest {
    CreateTopicsRequest::default().with_topics(topics).with_timeout_ms(10_000)
}

#[tokio::test]
async fn a_new_cluster_lives_through_restarts() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let StartedController { handle, formatted, epoch, .. } = start(params(&dir)).unwrap();
    assert_eq!((formatted, epoch), (true, LeaderEpoch(1)));
    let image = handle.metadata().load();
    assert_eq!(image.features.metadata_version, 30);
    assert_eq!(image.configs.value(&ConfigResource::cluster(), "min.insync.replicas"), Some("1"));
    assert_eq!(image.cluster.controllers[&NODE].listeners[0].port, 9093);
    // LeaderChange, then as Kafka: Begin, 6 feature levels, a config, End, the controller's registration.
    assert_eq!(image.provenance.offset, Offset(10));

    let broker_epoch = bring_up(&handle, &dir, -1).await;
    assert_eq!(broker_epoch, 11);
    let configured = topic("b", 1).with_configs(vec![
        CreatableTopicConfig::default().with_name(text("retention.ms")).with_value(Some(text("5"))),
    ]);
    let response = handle.create_topics(create(vec![topic("a", 3), configured])).await.unwrap();
    assert!(response.topics.iter().all(|topic| topic.error_code == 0), "{response:?}");
    // Answered, it is true.
    let image = handle.metadata().load();
    let partition = image.partition("a", PartitionId(2)).unwrap();
    assert_eq!((partition.leader, partition.leader_epoch, partition.partition_epoch), (Some(NODE), LeaderEpoch(0), 0));
    assert_eq!(image.configs.value(&ConfigResource::topic("b"), "retention.ms"), Some("5"));
    let ids = AllocateProducerIdsRequest::default().with_broker_id(WireBrokerId(1)).with_broker_epoch(broker_epoch);
    let block = handle.allocate_producer_ids(ids).await.unwrap();
    assert_eq!((block.producer_id_start.0, block.producer_id_len), (0, 1000));
    shut_down(&handle, broker_epoch).await;
    assert!(handle.create_topics(create(vec![topic("late", 1)])).await.is_err());
    let down = handle.metadata().load();
    assert_eq!(down.partition("a", PartitionId(0)).unwrap().leader, None);

    // A clean restart: the partitions come back from the ELR, with a new leader epoch.
    let StartedController { handle, formatted, epoch, .. } = start(params(&dir)).unwrap();
    assert_eq!((formatted, epoch), (false, LeaderEpoch(2)));
    assert_eq!(handle.metadata().load().topics, down.topics);
    let previous = broker_epoch;
    let broker_epoch = bring_up(&handle, &dir, previous).await;
    let image = handle.metadata().load();
    let partition = image.partition("a", PartitionId(0)).unwrap();
    assert_eq!((partition.leader, partition.leader_epoch), (Some(NODE), LeaderEpoch(2)));
    assert_eq!(partition.leader_recovery_state, LeaderRecoveryState::Recovered);
    assert_eq!((partition.elr.len(), partition.last_known_elr.len()), (0, 0));

    // The broker crashes: its next incarnation may have lost records, and leads as who recovers.
    handle.shutdown().await.unwrap();
    let StartedController { handle, .. } = start(params(&dir)).unwrap();
    assert_eq!(handle.metadata().load().partition("a", PartitionId(0)).unwrap().leader, Some(NODE));
    let next = bring_up(&handle, &dir, -1).await;
    assert!(next > broker_epoch);
    let image = handle.metadata().load();
    let partition = image.partition("a", PartitionId(0)).unwrap();
    assert_eq!((partition.leader, partition.leader_epoch), (Some(NODE), LeaderEpoch(4)));
    assert_eq!(partition.leader_recovery_state, LeaderRecoveryState::Recovering);
    let ids = AllocateProducerIdsRequest::default().with_broker_id(WireBrokerId(1)).with_broker_epoch(next);
    assert_eq!(handle.allocate_producer_ids(ids).await.unwrap().producer_id_start.0, 1000);

    let request = DeleteTopicsRequest::default().with_topic_names(vec![TopicName(text("a"))]).with_timeout_ms(1000);
    let response = handle.delete_topics(request, 5).await.unwrap();
    assert_eq!(response.responses[0].error_code, 0);
    assert!(handle.metadata().load().topic("a").is_none());
}

#[tokio::test]
async fn publishers_see_everything_before_others_do() {
    let root = tempfile::tempdir().unwrap();
    let handle = start(params(root.path())).unwrap().handle;
    bring_up(&handle, root.path(), -1).await;
    handle.create_topics(create(vec![topic("early", 1)])).await.unwrap();

    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let publisher = {
        let (calls, seen, metadata) = (Arc::clone(&calls), Arc::clone(&seen), handle.metadata().clone());
        move |image: &Arc<MetadataImage>, delta: &MetadataDelta| {
            let names: Vec<String> =
                delta.created_topics.iter().map(|id| image.topic_by_id(*id).unwrap().name.to_string()).collect();
            if calls.fetch_add(1, Ordering::SeqCst) > 0 {
                // Nobody else has this image yet.
                assert!(names.iter().all(|name| metadata.load().topic(name).is_none()));
            }
            let deleted = delta.deleted_topics.values().map(|topic| format!("-{}", topic.name));
            seen.lock().extend(names.into_iter().chain(deleted));
        }
    };
    handle.install_publisher(publisher).await.unwrap();
    assert_eq!(*seen.lock(), ["early"]);
    handle.create_topics(create(vec![topic("late", 1)])).await.unwrap();
    // Only checked, or refused: nothing to publish.
    handle.create_topics(create(vec![topic("checked", 1)]).with_validate_only(true)).await.unwrap();
    handle.create_topics(create(vec![topic("late", 1)])).await.unwrap();
    let request = DeleteTopicsRequest::default().with_topic_names(vec![TopicName(text("early"))]).with_timeout_ms(1000);
    handle.delete_topics(request, 5).await.unwrap();
    assert_eq!(*seen.lock(), ["early", "late", "-early"]);
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn commands_that_come_together_see_each_other_and_share_a_flush() {
    let root = tempfile::tempdir().unwrap();
    let handle = start(params(root.path())).unwrap().handle;
    bring_up(&handle, root.path(), -1).await;
    let requests = (0..500).map(|at| handle.create_topics(create(vec![topic(&format!("t{}", at % 250), 1)])));
    let responses = futures_util::future::join_all(requests).await;
    let codes: Vec<i16> = responses.iter().map(|response| response.as_ref().unwrap().topics[0].error_code).collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 250);
    assert_eq!(codes.iter().filter(|code| **code == ErrorCode::TopicAlreadyExists as i16).count(), 250);
    let image = handle.metadata().load();
    assert_eq!(image.topics.len(), 250);

    // Too late is too late, and nothing happens.
    let late = create(vec![topic("late", 1)]).with_timeout_ms(0);
    let response = handle.create_topics(late).await.unwrap();
    assert_eq!(response.topics[0].error_code, ErrorCode::RequestTimedOut as i16);
    assert!(handle.metadata().load().topic("late").is_none());

    handle.shutdown().await.unwrap();
    let again = start(params(root.path())).unwrap().handle;
    assert_eq!(again.metadata().load().topics, image.topics);
}

fn upgrade(features: &[(&str, i16)]) -> UpdateFeaturesRequest {
    let update = |(name, level): &(&str, i16)| {
        update_features_request::FeatureUpdateKey::default().with_feature(text(name)).with_max_version_level(*level)
    };
    UpdateFeaturesRequest::default().with_feature_updates(features.iter().map(update).collect())
}

#[tokio::test]
async fn an_old_cluster_is_upgraded_and_keeps_its_voters_on_record() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let formatted = params(&dir);
    let old = FeatureLevelRecord { name: FeaturesImage::METADATA_VERSION.to_owned(), feature_level: 14 };
    snapshot::write_bootstrap(&RealDisk, &dir, &[VersionedRecord::lowest(old)], 0).unwrap();
    let handle = start(formatted).unwrap().handle;
    let image = handle.metadata().load();
    assert_eq!(image.features.metadata_version, 14);
    assert!(image.cluster.controllers.is_empty(), "that level knows no registrations of controllers");

    let levels = [("metadata.version", 30), ("kraft.version", 1), ("transaction.version", 1)];
    let too_much = handle.update_features(upgrade(&[levels[1], ("group.version", 2)]), 2).await.unwrap();
    assert_eq!(too_much.error_code, ErrorCode::InvalidUpdateVersion.code());
    assert_eq!(handle.metadata().load().features.kraft_version, 0, "all or none");
    let response = handle.update_features(upgrade(&levels), 2).await.unwrap();
    assert_eq!((response.error_code, response.error_message), (0, None));
    let check = |image: &MetadataImage| {
        for (name, level) in levels {
            assert_eq!(image.features.level_of(name), level, "{name}");
        }
        assert!(image.cluster.controllers.contains_key(&NODE));
    };
    check(&handle.metadata().load());
    handle.shutdown().await.unwrap();

    // From here on the record counts, and no longer the configuration; in a snapshot, too.
    let endpoint = VoterEndpoint { name: "CONTROLLER".to_owned(), host: "elsewhere".to_owned(), port: 1 };
    let restarted = || ControllerParams {
        static_voters: VoterSet::fixed([(BrokerId(7), endpoint.clone())]),
        max_bytes_between_snapshots: 1,
        ..params(&dir)
    };
    for _ in 0..3 {
        let handle = start(restarted()).unwrap().handle;
        check(&handle.metadata().load());
        let response = handle.update_features(upgrade(&[("kraft.version", 1)]), 2).await.unwrap();
        assert_eq!(response.error_code, 0, "it is there already");
        handle.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn snapshots_are_taken_and_old_ones_go() {
    let root = tempfile::tempdir().unwrap();
    let small = |root: &Path| ControllerParams {
        max_bytes_between_snapshots: 2000,
        log_settings: MetadataLogSettings {
            segment_bytes: 8192,
            segment_ms: i64::MAX,
            retention_bytes: 30_000,
            retention_ms: -1,
        },
        ..params(root)
    };
    let handle = start(small(root.path())).unwrap().handle;
    bring_up(&handle, root.path(), -1).await;
    for at in 0..300 {
        let response = handle.create_topics(create(vec![topic(&format!("topic-{at}"), 1)])).await.unwrap();
        assert_eq!(response.topics[0].error_code, 0);
        let deleted = vec![TopicName(text(&format!("topic-{at}")))];
        if at % 10 != 0 {
            let request = DeleteTopicsRequest::default().with_topic_names(deleted).with_timeout_ms(1000);
            handle.delete_topics(request, 5).await.unwrap();
        }
    }
    let image = handle.metadata().load();
    handle.shutdown().await.unwrap();
    let names: Vec<String> = std::fs::read_dir(root.path().join(DIRECTORY))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let snapshots = names.iter().filter(|name| name.ends_with(".checkpoint")).count();
    assert!((1..=8).contains(&snapshots), "{names:?}");
    assert!(!names.contains(&"00000000000000000000.log".to_owned()), "{names:?}");
    let StartedController { handle, .. } = start(small(root.path())).unwrap();
    let again = handle.metadata().load();
    assert_eq!(again.topics, image.topics);
    assert_eq!(again.configs, image.configs);
}

#[tokio::test]
async fn directories_that_kafka_wrote_are_led_on() {
    for name in ["plain", "metadata", "metadata-dynamic", "formatted", "unclean"] {
        let root = tempfile::tempdir().unwrap();
        fixtures::unpack(name, root.path());
        let before = ["plain", "metadata", "unclean"].contains(&name);
        let StartedController { handle, epoch, formatted, .. } = start(params(root.path())).unwrap();
        assert_eq!(formatted, name == "formatted", "{name}");
        let expected = match name {
            "plain" | "metadata" => 3,
            "formatted" => 1,
            _ => 2,
        };
        assert_eq!(epoch, LeaderEpoch(expected), "{name}");
        let image = handle.metadata().load();
        assert_eq!(image.features.metadata_version, 30, "{name}");
        if before {
            assert!(!image.topics.is_empty(), "{name}");
        }
        let state = std::fs::read_to_string(root.path().join(DIRECTORY).join("quorum-state")).unwrap();
        let dynamic = name == "metadata-dynamic" || name == "formatted";
        assert_eq!(state.contains("\"data_version\":1"), dynamic, "{name}: {state}");
        handle.shutdown().await.unwrap();
        let StartedController { handle, .. } = start(params(root.path())).unwrap();
        let again = handle.metadata().load();
        assert_eq!(again.topics, image.topics, "{name}");
        assert_eq!(again.acls, image.acls, "{name}");
        assert_eq!(again.cluster.brokers, image.cluster.brokers, "{name}");
    }
}

#[tokio::test]
async fn damaged_metadata_is_cut_off_as_kafka_does() {
    let started = |name: &str| {
        let root = tempfile::tempdir().unwrap();
        fixtures::unpack(name, root.path());
        let started = start(params(root.path())).unwrap();
        (root, started)
    };
    let (_root, whole) = started("damaged-root-no-quorum-state");
    assert!(whole.report.repairs.is_empty());
    let topics = whole.handle.metadata().load().topics.len();
    assert!(topics > 0);
    // The epoch is in the log.
    assert!(whole.epoch > LeaderEpoch(1), "{}", whole.epoch);

    // The end of the log is torn: what was whole stays, and is written on.
    let (root, torn) = started("damaged-root-metadata-tail-cut");
    assert!(!torn.report.repairs.is_empty());
    let image = torn.handle.metadata().load();
    assert_eq!(image.topics.len(), topics);
    torn.handle.shutdown().await.unwrap();
    let again = start(params(root.path())).unwrap();
    assert!(again.report.repairs.is_empty(), "{:?}", again.report);
    assert_eq!(again.handle.metadata().load().topics, image.topics);

    // A flipped byte in the middle: Kafka goes on with what is before it, and so do we, and say so.
    let (_root, flipped) = started("damaged-root-metadata-flip");
    assert!(!flipped.report.repairs.is_empty());
    assert_eq!(flipped.handle.metadata().load().topics.len(), 0);
}

#[test]
fn a_quorum_of_others_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let endpoint = |port| VoterEndpoint { name: "CONTROLLER".to_owned(), host: "h".to_owned(), port };
    let three = VoterSet::fixed([1, 2, 3].map(|id| (BrokerId(id), endpoint(id as u16))));
    let error = start(ControllerParams { static_voters: three, ..params(root.path()) }).err().unwrap();
    assert!(matches!(error, StartError::Voters(_)), "{error}");

    // The dynamic voter is node 1 in another directory.
    let root = tempfile::tempdir().unwrap();
    fixtures::unpack("metadata-dynamic", root.path());
    let other = ControllerParams { directory_id: DirectoryId::random(), ..params(root.path()) };
    let error = start(other).err().unwrap().to_string();
    assert!(error.contains("was replaced or copied"), "{error}");
}
