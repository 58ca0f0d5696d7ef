//! Decisions against the answers that Apache Kafka 4.3.1 gave to the same requests in the same order
//! (`scripts/golden-controller` records them), and what only a cluster of several can show.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest,
    CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;

use super::decision::Decision;
use super::settings::ControllerSettings;
use super::{configs, features, partitions, topic_deletion, topics};
use crate::config::BrokerConfig;
use crate::metadata::batch::MetadataBatch;
use crate::metadata::image::{MetadataDelta, MetadataImage, PartitionRegistration};
use crate::metadata::records::{RegisterBrokerRecord, VersionedRecord};
use crate::protocol::errors::ErrorCode;
use crate::types::{BrokerId, DirectoryId, TopicId};

/// A new cluster of brokers that serve.
fn cluster(brokers: &[i32]) -> MetadataImage {
    let mut image = MetadataImage::empty();
    let mut records = features::bootstrap_records();
    records.push(features::cluster_min_insync_replicas(1));
    records.extend(brokers.iter().map(|id| {
        VersionedRecord::lowest(RegisterBrokerRecord {
            broker_id: BrokerId(*id),
            fenced: false,
            log_dirs: vec![DirectoryId::random()],
            ..RegisterBrokerRecord::default()
        })
    }));
    apply(&mut image, &records);
    image
}

fn apply(image: &mut MetadataImage, records: &[VersionedRecord]) {
    for record in records {
        image.apply(&record.record, &mut MetadataDelta::default()).unwrap();
    }
}

/// Kafka's answers, replayed: ids of topics are ours for Kafka's.
struct Replay {
    image: MetadataImage,
    settings: ControllerSettings,
    /// Kafka's id of a topic to ours.
    ids: BTreeMap<uuid::Uuid, uuid::Uuid>,
}

impl Replay {
    fn ours(&self, kafkas: uuid::Uuid) -> uuid::Uuid {
        self.ids.get(&kafkas).copied().unwrap_or(kafkas)
    }

    fn take<R>(&mut self, decision: Decision<R>) -> R {
        apply(&mut self.image, &decision.records);
        self.settings = self.settings.updated(&self.image);
        decision.response
    }

    fn random() -> StdRng {
        StdRng::seed_from_u64(1)
    }

    fn create_topics(
        &mut self,
        request: CreateTopicsRequest,
        mut expected: CreateTopicsResponse,
        version: i16,
    ) -> [String; 2] {
        let decision = topics::create_topics(
            &self.image,
            &self.settings,
            &request,
            request.timeout_ms <= 0,
            &mut Replay::random(),
            &mut TopicId::random,
        );
        let mut response = self.take(decision);
        for result in &mut expected.topics {
            let made = response.topics.iter().find(|topic| topic.name == result.name).map(|topic| topic.topic_id);
            if let Some(made) = made.filter(|_| result.topic_id != uuid::Uuid::nil()) {
                self.ids.insert(result.topic_id, made);
                result.topic_id = made;
            }
        }
        // Kafka's answer may stand in another order behind the topics that were asked for.
        response.topics.sort_by(|one, other| one.name.cmp(&other.name));
        expected.topics.sort_by(|one, other| one.name.cmp(&other.name));
        [at_version(&response, version), at_version(&expected, version)]
    }

    fn delete_topics(
        &mut self,
        mut request: DeleteTopicsRequest,
        mut expected: DeleteTopicsResponse,
        version: i16,
    ) -> [String; 2] {
        for topic in &mut request.topics {
            topic.topic_id = self.ours(topic.topic_id);
        }
        let late = request.timeout_ms <= 0;
        let decision = topic_deletion::delete_topics(&self.image, &self.settings, &request, version, late);
        let mut response = self.take(decision);
        for result in &mut expected.responses {
            result.topic_id = self.ours(result.topic_id);
        }
        // Kafka shuffles.
        for responses in [&mut response.responses, &mut expected.responses] {
            responses.sort_by(|one, other| (&one.name, one.topic_id).cmp(&(&other.name, other.topic_id)));
        }
        [at_version(&response, version), at_version(&expected, version)]
    }

    fn create_partitions(
        &mut self,
        request: CreatePartitionsRequest,
        mut expected: CreatePartitionsResponse,
        version: i16,
    ) -> [String; 2] {
        let late = request.timeout_ms <= 0;
        let decision = partitions::create_partitions(&self.image, &request, late, &mut Replay::random());
        let mut response = self.take(decision);
        for results in [&mut response.results, &mut expected.results] {
            results.sort_by(|one, other| one.name.cmp(&other.name));
        }
        [at_version(&response, version), at_version(&expected, version)]
    }
}

fn decode<T: Decodable>(line: &Value, field: &str, version: i16) -> T {
    let hex = line[field].as_str().unwrap();
    let bytes: Vec<u8> =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    T::decode(&mut Bytes::from(bytes), version).unwrap()
}

/// What a response says at a version, readable: the fields of newer ones have their defaults.
fn at_version<T: Encodable + Decodable + std::fmt::Debug>(response: &T, version: i16) -> String {
    let mut bytes = bytes::BytesMut::new();
    response.encode(&mut bytes, version).unwrap();
    format!("{:#?}", T::decode(&mut bytes.freeze(), version).unwrap())
}

#[test]
fn answers_as_kafka_does() {
    let mut replay = Replay {
        image: cluster(&[1]),
        settings: ControllerSettings::new("cluster".to_owned(), Arc::new(BrokerConfig::default())),
        ids: BTreeMap::new(),
    };
    let mut differences = Vec::new();
    let mut count = 0;
    for line in String::from_utf8(golden("answers.jsonl.zst")).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let api = line["api"].as_str().unwrap();
        let version = line["version"].as_i64().unwrap() as i16;
        let (asked, [ours, kafkas]) = match api {
            "CreateTopics" => {
                let request: CreateTopicsRequest = decode(&line, "request", version);
                (format!("{request:?}"), replay.create_topics(request, decode(&line, "response", version), version))
            }
            "DeleteTopics" => {
                let request: DeleteTopicsRequest = decode(&line, "request", version);
                (format!("{request:?}"), replay.delete_topics(request, decode(&line, "response", version), version))
            }
            "CreatePartitions" => {
                let request: CreatePartitionsRequest = decode(&line, "request", version);
                (format!("{request:?}"), replay.create_partitions(request, decode(&line, "response", version), version))
            }
            "IncrementalAlterConfigs" => {
                let request: IncrementalAlterConfigsRequest = decode(&line, "request", version);
                let decision = configs::incremental_alter_configs(&replay.image, &replay.settings, &request);
                let response = replay.take(decision);
                let expected: IncrementalAlterConfigsResponse = decode(&line, "response", version);
                (format!("{request:?}"), [at_version(&response, version), at_version(&expected, version)])
            }
            "AlterConfigs" => {
                let request: AlterConfigsRequest = decode(&line, "request", version);
                let decision = configs::alter_configs(&replay.image, &replay.settings, &request);
                let response = replay.take(decision);
                let expected: AlterConfigsResponse = decode(&line, "response", version);
                (format!("{request:?}"), [at_version(&response, version), at_version(&expected, version)])
            }
            other => panic!("{other}"),
        };
        count += 1;
        if ours != kafkas {
            let changed: Vec<String> = ours
                .lines()
                .zip(kafkas.lines())
                .filter(|(ours, kafkas)| ours != kafkas)
                .take(4)
                .map(|(ours, kafkas)| format!("  ours:  {}\n  kafka: {}", ours.trim(), kafkas.trim()))
                .collect();
            differences.push(format!("{api} v{version} {asked}\n{}", changed.join("\n")));
        }
    }
    assert!(count > 200, "{count}");
    assert!(differences.is_empty(), "{} of {count} differ:\n{}", differences.len(), differences.join("\n"));
    assert_eq!(summary(&replay.image), summary(&kafkas_image()));
}

fn golden(file: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/controller").join(file);
    zstd::decode_all(&std::fs::read(path).unwrap()[..]).unwrap()
}

/// What Kafka's metadata log says after all these requests.
fn kafkas_image() -> MetadataImage {
    let bytes = golden("metadata.log.zst");
    let mut replay = crate::metadata::replay::Replay::new(MetadataImage::empty());
    for batch in crate::record::batch::batches(&bytes) {
        replay.apply(&MetadataBatch::decode(&batch.unwrap()).unwrap()).unwrap();
    }
    replay.into_image()
}

/// Topics, partitions and configurations, without ids.
fn summary(image: &MetadataImage) -> Vec<String> {
    let topics = image.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|(id, partition)| {
            let partition =
                PartitionRegistration { directories: Vec::new(), ..PartitionRegistration::clone(partition) };
            format!("{} {id} {partition:?}", topic.name)
        })
    });
    let configs = image.configs.iter().map(|(resource, configs)| format!("{resource} {configs:?}"));
    topics.chain(configs).collect()
}

#[test]
fn what_kafka_falls_over_is_refused() {
    use kafka_protocol::messages::TopicName;
    use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
    use kafka_protocol::messages::create_topics_request::CreatableTopic;
    use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
    use kafka_protocol::protocol::StrBytes;

    let mut replay = Replay {
        image: cluster(&[1]),
        settings: ControllerSettings::new("cluster".to_owned(), Arc::new(BrokerConfig::default())),
        ids: BTreeMap::new(),
    };
    let name = || TopicName(StrBytes::from_static_str("t"));
    let topic = CreatableTopic::default().with_name(name()).with_num_partitions(3).with_replication_factor(1);
    let request = CreateTopicsRequest::default().with_topics(vec![topic]);
    let decision = topics::create_topics(
        &replay.image,
        &replay.settings,
        &request,
        false,
        &mut Replay::random(),
        &mut TopicId::random,
    );
    replay.take(decision);

    // Kafka answers with an unknown error, and makes thousands.
    let grow = |count| {
        let topic = CreatePartitionsTopic::default().with_name(name()).with_count(count).with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![topic]);
        partitions::create_partitions(&replay.image, &request, false, &mut Replay::random())
    };
    for count in [20_000, i32::MAX] {
        let refused = grow(count);
        assert_eq!(refused.response.results[0].error_code, ErrorCode::PolicyViolation as i16);
        assert!(refused.records.is_empty());
    }
    let granted = grow(10_003);
    assert_eq!((granted.response.results[0].error_code, granted.records.len()), (0, 10_000));

    // Kafka's active controller resigns.
    let alter = |operation| {
        let config = AlterableConfig::default()
            .with_name(StrBytes::from_static_str("retention.ms"))
            .with_config_operation(operation)
            .with_value(Some(StrBytes::from_static_str("1")));
        let resource = AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(StrBytes::from_static_str("t"))
            .with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        configs::incremental_alter_configs(&replay.image, &replay.settings, &request)
    };
    for operation in [4, 99, -1] {
        let refused = alter(operation);
        assert_eq!(refused.response.responses[0].error_code, ErrorCode::InvalidRequest as i16);
        assert!(refused.records.is_empty());
    }
    assert_eq!(alter(0).records.len(), 1);

    // Kafka never answers an AlterConfigs in which a resource stands twice.
    let resource = kafka_protocol::messages::alter_configs_request::AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(StrBytes::from_static_str("t"));
    let twice = AlterConfigsRequest::default().with_resources(vec![resource.clone(), resource]);
    let refused = configs::alter_configs(&replay.image, &replay.settings, &twice);
    let codes: Vec<i16> = refused.response.responses.iter().map(|response| response.error_code).collect();
    assert_eq!(codes, [ErrorCode::InvalidRequest as i16; 2]);
}
