//! Metadata (key 3), versions 0 to 13: the brokers, and topics with their leaders.
//!
//! - No topics asked for: all of them (null from v1, an empty list in v0). v10+: topic ids (KIP-516); v12+: asked by id,
//!   and when one topic is, those that are only named are left out, as in Kafka.
//! - v4+: `allow_auto_topic_creation` (earlier versions mean yes). A topic that is created by this request is answered
//!   as unknown, as in Kafka; it serves by the time the client asks again.
//! - v8 to v10: authorized operations of the cluster; v8+: of topics (KIP-430).
//!
//! What is said here serves: the image is published only after the logs are open.

use std::sync::Arc;

use indexmap::IndexSet;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId as WireBrokerId, MetadataRequest, MetadataResponse};
use kafka_protocol::protocol::StrBytes;

use super::Call;
use crate::metadata::image::{BrokerRegistration, MetadataImage, PartitionRegistration, TopicImage};
use crate::metadata::topic_name;
use crate::net::Response;
use crate::protocol::ErrorCode;
use crate::server::advertised::Address;
use crate::server::authorized_operations;
use crate::server::request::RequestError;
use crate::server::topics::{auto_create, is_internal};
use crate::types::{BrokerId, TopicId};

pub async fn handle(mut call: Call) -> Result<Response, RequestError> {
    let request: MetadataRequest = call.decode()?;
    let version = call.header.api_version;
    let image = call.broker.image();
    let listener = call.connection.listener.name.clone();
    if let Some(error) = refusal(&request, version) {
        return call.encode(&refuse(&request, error));
    }
    let mut describer = Describer { image: &image, listener: &listener, version, answers: Vec::new() };

    match wanted(&request, version) {
        Wanted::All => {
            for topic in image.topics.iter() {
                describer.known(topic);
            }
        }
        Wanted::Ids(ids) => {
            let (known, unknown): (Vec<_>, Vec<_>) = ids.into_iter().partition(|&id| image.topic_by_id(id).is_some());
            for id in unknown.into_iter().chain(known) {
                describer.by_id(id);
            }
        }
        Wanted::Names(names) => {
            let may_create = request.allow_auto_topic_creation && call.broker.config.auto_create_topics_enable;
            let missing: Vec<&str> =
                names.iter().map(|name| &**name).filter(|name| image.topic(name).is_none()).collect();
            if may_create && !missing.is_empty() {
                auto_create(&call.broker, &missing).await;
            }
            let (known, unknown): (Vec<_>, Vec<_>) = names.iter().partition(|name| image.topic(name).is_some());
            for name in known.into_iter().chain(unknown) {
                describer.by_name(name);
            }
        }
    }
    let mut topics = describer.answers;
    if version >= 8 && request.include_topic_authorized_operations {
        for topic in &mut topics {
            topic.topic_authorized_operations = authorized_operations::TOPIC;
        }
    }
    let wants_cluster_operations = (8..=10).contains(&version) && request.include_cluster_authorized_operations;
    let response = MetadataResponse::default()
        .with_brokers(alive_brokers(&image, |broker| call.broker.addresses.tell(broker, &call.connection)))
        .with_cluster_id(Some(StrBytes::from_string(call.broker.cluster_id.clone())))
        .with_controller_id(WireBrokerId(any_alive_broker(&image).map_or(-1, |id| id.0)))
        .with_topics(topics)
        .with_cluster_authorized_operations(if wants_cluster_operations {
            authorized_operations::CLUSTER
        } else {
            authorized_operations::NOT_REQUESTED
        });
    call.encode(&response)
}

/// What a request asks for, each once.
enum Wanted {
    All,
    Ids(IndexSet<TopicId>),
    Names(IndexSet<Arc<str>>),
}

fn wanted(request: &MetadataRequest, version: i16) -> Wanted {
    let Some(topics) = &request.topics else { return Wanted::All };
    if version == 0 && topics.is_empty() {
        return Wanted::All;
    }
    let ids: IndexSet<TopicId> =
        topics.iter().map(|topic| TopicId(topic.topic_id)).filter(|&id| id != TopicId::ZERO).collect();
    if !ids.is_empty() {
        return Wanted::Ids(ids);
    }
    Wanted::Names(topics.iter().filter_map(|topic| topic.name.as_ref()).map(|name| name.as_str().into()).collect())
}

/// What is wrong with the request as a whole.
fn refusal(request: &MetadataRequest, version: i16) -> Option<ErrorCode> {
    let topics = request.topics.as_deref().unwrap_or_default();
    let unnamed = topics.iter().any(|topic| topic.name.is_none());
    let has_ids = topics.iter().any(|topic| !topic.topic_id.is_nil());
    // v10 and v11 have the fields for topic ids, and do not serve them yet (KIP-516).
    if version < 12 {
        return (unnamed || has_ids).then_some(ErrorCode::InvalidRequest);
    }
    // Neither name nor id: Kafka stumbles over it.
    (unnamed && !has_ids).then_some(ErrorCode::UnknownServerError)
}

/// The error for every topic.
fn refuse(request: &MetadataRequest, error: ErrorCode) -> MetadataResponse {
    let topics = request.topics.iter().flatten().map(|topic| {
        MetadataResponseTopic::default()
            .with_error_code(error.code())
            .with_name(Some(topic.name.clone().unwrap_or_default()))
            .with_topic_id(topic.topic_id)
    });
    MetadataResponse::default()
        .with_error_code(error.code())
        .with_cluster_id(None)
        .with_controller_id(WireBrokerId(-1))
        .with_topics(topics.collect())
}

/// Collects the topics of an answer.
struct Describer<'a> {
    image: &'a MetadataImage,
    listener: &'a str,
    version: i16,
    answers: Vec<MetadataResponseTopic>,
}

impl Describer<'_> {
    fn by_id(&mut self, id: TopicId) {
        match self.image.topic_by_id(id) {
            Some(topic) => self.known(topic),
            None => self.answers.push(
                MetadataResponseTopic::default()
                    .with_error_code(ErrorCode::UnknownTopicId.code())
                    .with_name(None)
                    .with_topic_id(id.0),
            ),
        }
    }

    fn by_name(&mut self, name: &str) {
        match self.image.topic(name) {
            Some(topic) => self.known(topic),
            None => {
                let error = if topic_name::validate(name).is_ok() {
                    ErrorCode::UnknownTopicOrPartition
                } else {
                    ErrorCode::InvalidTopicException
                };
                self.answers.push(
                    MetadataResponseTopic::default()
                        .with_error_code(error.code())
                        .with_name(Some(StrBytes::from_string(name.to_owned()).into()))
                        .with_is_internal(is_internal(name)),
                );
            }
        }
    }

    fn known(&mut self, topic: &TopicImage) {
        let partitions = topic.partitions.iter().map(|(id, partition)| self.partition(id.0, partition)).collect();
        self.answers.push(
            MetadataResponseTopic::default()
                .with_name(Some(StrBytes::from_string(topic.name.to_string()).into()))
                .with_topic_id(topic.id.0)
                .with_is_internal(is_internal(&topic.name))
                .with_partitions(partitions),
        );
    }

    fn partition(&self, index: i32, partition: &PartitionRegistration) -> MetadataResponsePartition {
        // Before v1, brokers that are down are left out of the lists, and missed in an error.
        let filtered = self.version == 0;
        let shown = |ids: &[BrokerId]| -> Vec<WireBrokerId> {
            ids.iter()
                .filter(|&&id| !filtered || is_alive(self.image, self.listener, id))
                .map(|id| WireBrokerId(id.0))
                .collect()
        };
        let replicas = shown(&partition.replicas);
        let isr = shown(&partition.isr);
        let answer = MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_epoch(partition.leader_epoch.0)
            .with_offline_replicas(offline_replicas(self.image, self.listener, partition));
        let leader = partition.leader.and_then(|id| self.image.broker(id));
        let (leader_id, error) = match leader {
            None => (-1, ErrorCode::LeaderNotAvailable),
            Some(broker) if broker.fenced => (-1, self.listener_not_found()),
            Some(broker) if broker.listener(self.listener).is_none() => (-1, self.listener_not_found()),
            Some(broker) => {
                let all_there = replicas.len() == partition.replicas.len() && isr.len() == partition.isr.len();
                (broker.id.0, if all_there { ErrorCode::None } else { ErrorCode::ReplicaNotAvailable })
            }
        };
        answer
            .with_error_code(error.code())
            .with_leader_id(WireBrokerId(leader_id))
            .with_replica_nodes(replicas)
            .with_isr_nodes(isr)
    }

    /// v6+: LISTENER_NOT_FOUND.
    fn listener_not_found(&self) -> ErrorCode {
        if self.version >= 6 { ErrorCode::ListenerNotFound } else { ErrorCode::LeaderNotAvailable }
    }
}

/// Whether a broker can be reached on the listener.
fn is_alive(image: &MetadataImage, listener: &str, id: BrokerId) -> bool {
    image.broker(id).is_some_and(|broker| !broker.fenced && broker.listener(listener).is_some())
}

/// The replicas of a partition that cannot serve: their broker is down, or the directory they lie in.
pub(super) fn offline_replicas(
    image: &MetadataImage,
    listener: &str,
    partition: &PartitionRegistration,
) -> Vec<WireBrokerId> {
    let is_offline = |id: BrokerId| {
        !is_alive(image, listener, id)
            || !image.broker(id).is_some_and(|broker| {
                partition.directory(id).is_none_or(|directory| broker.has_online_directory(directory))
            })
    };
    partition.replicas.iter().filter(|&&id| is_offline(id)).map(|id| WireBrokerId(id.0)).collect()
}

/// The brokers that serve, where `address` says that the client reaches them.
fn alive_brokers(
    image: &MetadataImage,
    address: impl Fn(&BrokerRegistration) -> Option<Address>,
) -> Vec<MetadataResponseBroker> {
    image
        .cluster
        .unfenced()
        .filter_map(|broker| {
            let Address { host, port } = address(broker)?;
            Some(
                MetadataResponseBroker::default()
                    .with_node_id(WireBrokerId(broker.id.0))
                    .with_host(StrBytes::from_string(host))
                    .with_port(i32::from(port))
                    .with_rack(broker.rack.clone().map(StrBytes::from_string)),
            )
        })
        .collect()
}

/// Clients that look for the controller are sent to any broker, which forwards (KIP-590).
pub(super) fn any_alive_broker(image: &MetadataImage) -> Option<BrokerId> {
    let alive: Vec<BrokerId> = image.cluster.unfenced().map(|broker| broker.id).collect();
    (!alive.is_empty()).then(|| alive[rand::random_range(0..alive.len())])
}

#[cfg(test)]
mod tests;
