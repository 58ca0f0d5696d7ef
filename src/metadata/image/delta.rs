//! What changed between two images, for those who must act on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ConfigResource, MetadataImage, TopicImage};
use crate::types::{BrokerId, PartitionId, TopicId};

/// The difference between an image and the one published before it. Against the empty image, everything is new.
#[derive(Clone, Debug, Default)]
pub struct MetadataDelta {
    /// Topics that were not there before; look them up in the new image.
    pub created_topics: BTreeSet<TopicId>,
    /// Topics that were there and are: those of their partitions that are new or changed.
    pub changed_topics: BTreeMap<TopicId, BTreeSet<PartitionId>>,
    /// Topics that are gone, as they last were. A topic created and deleted in between is in neither list.
    pub deleted_topics: BTreeMap<TopicId, Arc<TopicImage>>,
    /// Resources whose configurations are not what they were. Those of deleted topics are listed too.
    pub changed_configs: BTreeSet<ConfigResource>,
    /// Brokers that registered, changed or are gone.
    pub changed_brokers: BTreeSet<BrokerId>,
    pub changed_controllers: BTreeSet<BrokerId>,
    pub features_changed: bool,
    pub producer_ids_changed: bool,
    pub client_quotas_changed: bool,
    pub scram_changed: bool,
    pub acls_changed: bool,
    pub delegation_tokens_changed: bool,
}

impl MetadataDelta {
    /// What leads from one image to another. Topics are the same only if their ids are.
    pub fn between(old: &MetadataImage, new: &MetadataImage) -> MetadataDelta {
        let mut delta = MetadataDelta {
            changed_configs: changed_keys(
                old.configs.iter().map(|(resource, configs)| (resource, &**configs)),
                new.configs.iter().map(|(resource, configs)| (resource, &**configs)),
            ),
            changed_brokers: changed_keys(old.cluster.brokers.iter(), new.cluster.brokers.iter()),
            changed_controllers: changed_keys(old.cluster.controllers.iter(), new.cluster.controllers.iter()),
            features_changed: old.features != new.features,
            producer_ids_changed: old.next_producer_id != new.next_producer_id,
            client_quotas_changed: old.client_quotas != new.client_quotas,
            scram_changed: old.scram != new.scram,
            acls_changed: old.acls != new.acls,
            delegation_tokens_changed: old.delegation_tokens != new.delegation_tokens,
            ..MetadataDelta::default()
        };
        for topic in old.topics.iter() {
            match new.topic_by_id(topic.id) {
                None => {
                    delta.deleted_topics.insert(topic.id, Arc::clone(topic));
                }
                Some(other) if Arc::ptr_eq(topic, other) => {}
                Some(other) => {
                    let changed = changed_keys(topic.partitions.iter(), other.partitions.iter());
                    if !changed.is_empty() {
                        delta.changed_topics.insert(topic.id, changed);
                    }
                }
            }
        }
        delta.created_topics =
            new.topics.iter().map(|topic| topic.id).filter(|id| old.topic_by_id(*id).is_none()).collect();
        delta
    }

    pub(super) fn partition_changed(&mut self, topic_id: TopicId, partition: PartitionId) {
        if !self.created_topics.contains(&topic_id) {
            self.changed_topics.entry(topic_id).or_default().insert(partition);
        }
    }

    pub(super) fn topic_deleted(&mut self, topic: Arc<TopicImage>) {
        self.changed_topics.remove(&topic.id);
        if !self.created_topics.remove(&topic.id) {
            self.deleted_topics.insert(topic.id, topic);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.created_topics.is_empty()
            && self.changed_topics.is_empty()
            && self.deleted_topics.is_empty()
            && self.changed_configs.is_empty()
            && self.changed_brokers.is_empty()
            && self.changed_controllers.is_empty()
            && !self.features_changed
            && !self.producer_ids_changed
            && !self.client_quotas_changed
            && !self.scram_changed
            && !self.acls_changed
            && !self.delegation_tokens_changed
    }
}

/// Keys whose values are not equal, or that only one side has. Both sides ascend.
fn changed_keys<'a, K: Ord + Clone + 'a, V: PartialEq + 'a>(
    old: impl Iterator<Item = (&'a K, &'a V)>,
    new: impl Iterator<Item = (&'a K, &'a V)>,
) -> BTreeSet<K> {
    let old: BTreeMap<&K, &V> = old.collect();
    let new: BTreeMap<&K, &V> = new.collect();
    let gone = old.keys().filter(|key| !new.contains_key(**key));
    let changed = new.iter().filter(|(key, value)| old.get(**key) != Some(value)).map(|(key, _)| key);
    gone.chain(changed).map(|key| (*key).clone()).collect()
}
