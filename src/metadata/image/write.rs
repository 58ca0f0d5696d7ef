//! The records that make an image out of nothing: what a snapshot holds, in the order in which Kafka writes them.

use std::sync::Arc;

use super::MetadataImage;
use crate::metadata::records::*;
use crate::types::BrokerId;

impl MetadataImage {
    /// All records of a snapshot of this image, one by one. `metadata.version` is the first, since it decides how the
    /// others are read.
    pub fn to_records(&self) -> impl Iterator<Item = VersionedRecord> {
        let version = self.metadata_version();
        let level = |name: &str, feature_level: i16| {
            VersionedRecord::lowest(FeatureLevelRecord { name: name.to_owned(), feature_level })
        };
        std::iter::once(level(super::FeaturesImage::METADATA_VERSION, version.0))
            .chain(self.features.finalized.iter().map(move |(name, feature_level)| level(name, *feature_level)))
            .chain(self.cluster.brokers.values().map(move |broker| broker.to_record(version)))
            .chain(
                self.cluster
                    .controllers
                    .values()
                    .filter(move |_| version.has_controller_registration())
                    .map(|controller| controller.to_record()),
            )
            .chain(self.topics.iter().flat_map(move |topic| {
                let record = TopicRecord { name: topic.name.to_string(), topic_id: topic.id };
                std::iter::once(VersionedRecord::lowest(record)).chain(
                    topic.partitions.iter().map(move |(id, partition)| partition.to_record(topic.id, *id, version)),
                )
            }))
            .chain(self.configs.iter().flat_map(|(resource, configs)| {
                configs.iter().map(|(name, value)| {
                    VersionedRecord::lowest(ConfigRecord {
                        resource_type: resource.kind.0,
                        resource_name: resource.name.clone(),
                        name: name.clone(),
                        value: Some(value.clone()),
                    })
                })
            }))
            .chain(self.client_quotas.iter().flat_map(|(entity, quotas)| {
                quotas.iter().map(|(key, value)| {
                    VersionedRecord::lowest(ClientQuotaRecord {
                        entity: entity.to_record(),
                        key: key.clone(),
                        value: *value,
                        remove: false,
                    })
                })
            }))
            .chain(self.next_producer_id.map(|next| {
                VersionedRecord::lowest(ProducerIdsRecord {
                    broker_id: BrokerId(-1),
                    broker_epoch: -1,
                    next_producer_id: next.0,
                })
            }))
            .chain(
                self.acls
                    .values()
                    .map(|entry| VersionedRecord::lowest(AccessControlEntryRecord::clone(Arc::as_ref(entry)))),
            )
            .chain(self.scram.values().map(|credential| VersionedRecord::lowest(credential.clone())))
            .chain(self.delegation_tokens.values().map(|token| VersionedRecord::lowest(token.clone())))
    }
}
