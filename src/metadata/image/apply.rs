//! How each record changes the image.
//!
//! A record that contradicts the image (a partition of no topic, a broker that is not registered) means that the log
//! is damaged or that this code is wrong; it is an error and nobody guesses on.

use std::sync::Arc;

use super::cluster::{BrokerRegistration, ControllerRegistration};
use super::config::{ConfigResource, ConfigResourceType};
use super::delta::MetadataDelta;
use super::security::QuotaEntity;
use super::topics::{PartitionRegistration, TopicImage};
use super::{FeaturesImage, MetadataImage, SortedMap};
use crate::metadata::records::*;
use crate::types::{BrokerId, PartitionId, ProducerId, TopicId};

/// Why a record cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("{record} names the topic id {topic_id}, which is not known")]
    UnknownTopic { record: &'static str, topic_id: TopicId },
    #[error("{record} names partition {partition} of topic id {topic_id}, which is not known")]
    UnknownPartition { record: &'static str, topic_id: TopicId, partition: PartitionId },
    #[error("TopicRecord names {name}, which is there with id {topic_id}")]
    TopicExists { name: String, topic_id: TopicId },
    #[error("{record} names broker {broker} of epoch {epoch}, which is not registered")]
    UnknownBroker { record: &'static str, broker: BrokerId, epoch: i64 },
    #[error("{record} has an invalid {field}: {value}")]
    InvalidValue { record: &'static str, field: &'static str, value: i64 },
    #[error("partition {partition} of topic id {topic_id} has {directories} directories for {replicas} replicas")]
    DirectoryCount { topic_id: TopicId, partition: PartitionId, directories: usize, replicas: usize },
    #[error("{0} stands outside of the transactions it belongs to")]
    Transaction(&'static str),
}

impl MetadataImage {
    /// Applies one record and notes in `delta` what it changed.
    pub fn apply(&mut self, record: &MetadataRecord, delta: &mut MetadataDelta) -> Result<(), ApplyError> {
        match record {
            MetadataRecord::RegisterBroker(record) => {
                let broker = BrokerRegistration::from_record(record);
                delta.changed_brokers.insert(broker.id);
                Arc::make_mut(&mut self.cluster).brokers.insert(broker.id, Arc::new(broker));
            }
            MetadataRecord::UnregisterBroker(record) => {
                delta.changed_brokers.insert(record.broker_id);
                Arc::make_mut(&mut self.cluster).brokers.remove(&record.broker_id);
            }
            MetadataRecord::FenceBroker(record) => {
                self.broker_mut(FenceBrokerRecord::NAME, record.id, record.epoch, delta)?.fenced = true;
            }
            MetadataRecord::UnfenceBroker(record) => {
                self.broker_mut(UnfenceBrokerRecord::NAME, record.id, record.epoch, delta)?.fenced = false;
            }
            MetadataRecord::BrokerRegistrationChange(record) => {
                self.broker_mut(BrokerRegistrationChangeRecord::NAME, record.broker_id, record.broker_epoch, delta)?
                    .change(record)?;
            }
            MetadataRecord::RegisterController(record) => {
                let controller = ControllerRegistration::from_record(record);
                delta.changed_controllers.insert(controller.id);
                Arc::make_mut(&mut self.cluster).controllers.insert(controller.id, Arc::new(controller));
            }
            MetadataRecord::Topic(record) => self.create_topic(record, delta)?,
            MetadataRecord::Partition(record) => {
                let registration = Arc::new(PartitionRegistration::from_record(record)?);
                let topic = self.topic_mut(PartitionRecord::NAME, record.topic_id)?;
                topic.partitions.insert(record.partition_id, registration);
                delta.partition_changed(record.topic_id, record.partition_id);
            }
            MetadataRecord::PartitionChange(record) => self.change_partition(record, delta)?,
            MetadataRecord::RemoveTopic(record) => self.remove_topic(record.topic_id, delta)?,
            MetadataRecord::ClearElr(record) => self.clear_elr(&record.topic_name, delta),
            MetadataRecord::Config(record) => {
                let resource = ConfigResource {
                    kind: ConfigResourceType(record.resource_type),
                    name: record.resource_name.clone(),
                };
                match &record.value {
                    Some(value) => self.configs.set(resource.clone(), record.name.clone(), value.clone()),
                    None => self.configs.unset(&resource, &record.name),
                }
                delta.changed_configs.insert(resource);
            }
            MetadataRecord::FeatureLevel(record) => {
                delta.features_changed = true;
                let features = Arc::make_mut(&mut self.features);
                match (record.name.as_str(), record.feature_level) {
                    (FeaturesImage::METADATA_VERSION, level) => features.metadata_version = level,
                    // Once written by mistake; what counts are the quorum's control records.
                    (FeaturesImage::KRAFT_VERSION, _) => {}
                    (name, 0) => {
                        features.finalized.remove(name);
                    }
                    (name, level) => {
                        features.finalized.insert(name.to_owned(), level);
                    }
                }
            }
            MetadataRecord::ProducerIds(record) => {
                delta.producer_ids_changed = true;
                self.next_producer_id = Some(ProducerId(record.next_producer_id));
            }
            MetadataRecord::ClientQuota(record) => {
                delta.client_quotas_changed = true;
                let quotas = Arc::make_mut(&mut self.client_quotas);
                let entity = QuotaEntity::from_record(&record.entity);
                if record.remove {
                    let Some(values) = quotas.get_mut(&entity) else { return Ok(()) };
                    values.remove(&record.key);
                    if values.is_empty() {
                        quotas.remove(&entity);
                    }
                } else {
                    quotas.entry(entity).or_default().insert(record.key.clone(), record.value);
                }
            }
            MetadataRecord::UserScramCredential(record) => {
                delta.scram_changed = true;
                Arc::make_mut(&mut self.scram).insert((record.mechanism, record.name.clone()), record.clone());
            }
            MetadataRecord::RemoveUserScramCredential(record) => {
                delta.scram_changed = true;
                Arc::make_mut(&mut self.scram).remove(&(record.mechanism, record.name.clone()));
            }
            MetadataRecord::DelegationToken(record) => {
                delta.delegation_tokens_changed = true;
                Arc::make_mut(&mut self.delegation_tokens).insert(record.token_id.clone(), record.clone());
            }
            MetadataRecord::RemoveDelegationToken(record) => {
                delta.delegation_tokens_changed = true;
                Arc::make_mut(&mut self.delegation_tokens).remove(&record.token_id);
            }
            MetadataRecord::AccessControlEntry(record) => {
                delta.acls_changed = true;
                self.acls.insert(record.id, Arc::new(record.clone()));
            }
            MetadataRecord::RemoveAccessControlEntry(record) => {
                delta.acls_changed = true;
                self.acls.remove(&record.id);
            }
            // Written to advance the log's end, and by clusters that once might have migrated from ZooKeeper.
            MetadataRecord::NoOp(_) | MetadataRecord::ZkMigrationState(_) => {}
            // Whoever reads the log or a snapshot deals with these before it applies what they enclose.
            MetadataRecord::BeginTransaction(_)
            | MetadataRecord::EndTransaction(_)
            | MetadataRecord::AbortTransaction(_) => return Err(ApplyError::Transaction(record.name())),
        }
        Ok(())
    }

    fn broker_mut(
        &mut self,
        record: &'static str,
        broker: BrokerId,
        epoch: i64,
        delta: &mut MetadataDelta,
    ) -> Result<&mut BrokerRegistration, ApplyError> {
        match Arc::make_mut(&mut self.cluster).brokers.get_mut(&broker) {
            Some(registration) if registration.epoch == epoch => {
                delta.changed_brokers.insert(broker);
                Ok(Arc::make_mut(registration))
            }
            _ => Err(ApplyError::UnknownBroker { record, broker, epoch }),
        }
    }

    fn topic_mut(&mut self, record: &'static str, topic_id: TopicId) -> Result<&mut TopicImage, ApplyError> {
        self.topics.topic_mut(topic_id).ok_or(ApplyError::UnknownTopic { record, topic_id })
    }

    fn create_topic(&mut self, record: &TopicRecord, delta: &mut MetadataDelta) -> Result<(), ApplyError> {
        if let Some(topic) = self.topic(&record.name).or(self.topic_by_id(record.topic_id)) {
            return Err(ApplyError::TopicExists { name: record.name.clone(), topic_id: topic.id });
        }
        self.topics.insert(Arc::new(TopicImage {
            name: record.name.as_str().into(),
            id: record.topic_id,
            partitions: SortedMap::new(),
        }));
        delta.created_topics.insert(record.topic_id);
        Ok(())
    }

    fn change_partition(
        &mut self,
        record: &PartitionChangeRecord,
        delta: &mut MetadataDelta,
    ) -> Result<(), ApplyError> {
        let topic = self.topic_mut(PartitionChangeRecord::NAME, record.topic_id)?;
        let Some(partition) = topic.partitions.get_mut(&record.partition_id) else {
            return Err(ApplyError::UnknownPartition {
                record: PartitionChangeRecord::NAME,
                topic_id: record.topic_id,
                partition: record.partition_id,
            });
        };
        *partition = Arc::new(partition.merge(record)?);
        delta.partition_changed(record.topic_id, record.partition_id);
        Ok(())
    }

    fn remove_topic(&mut self, topic_id: TopicId, delta: &mut MetadataDelta) -> Result<(), ApplyError> {
        let Some(topic) = self.topics.remove(topic_id) else {
            return Err(ApplyError::UnknownTopic { record: RemoveTopicRecord::NAME, topic_id });
        };
        let resource = ConfigResource::topic(&topic.name);
        if self.configs.remove_resource(&resource) {
            delta.changed_configs.insert(resource);
        }
        delta.topic_deleted(topic);
        Ok(())
    }

    /// Forgets the eligible leader replicas of a topic, or of all when no name is given (KIP-966).
    fn clear_elr(&mut self, topic_name: &str, delta: &mut MetadataDelta) {
        let cleared: Vec<_> = self
            .topics
            .iter()
            .filter(|topic| topic_name.is_empty() || &*topic.name == topic_name)
            .filter(|topic| topic.partitions.values().any(|partition| partition.has_elr()))
            .cloned()
            .collect();
        for topic in cleared {
            let Some(changed) = self.topics.topic_mut(topic.id) else { continue };
            for (id, partition) in topic.partitions.iter().filter(|(_, partition)| partition.has_elr()) {
                let partition = PartitionRegistration {
                    elr: Vec::new(),
                    last_known_elr: Vec::new(),
                    ..PartitionRegistration::clone(partition)
                };
                changed.partitions.insert(*id, Arc::new(partition));
                delta.partition_changed(topic.id, *id);
            }
        }
    }
}
