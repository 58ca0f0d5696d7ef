//! What changed between two images, for those who must act on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ConfigResource, TopicImage};
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
