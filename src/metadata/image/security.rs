//! ACLs, SCRAM credentials, delegation tokens and client quotas, kept as their records say so that they survive
//! snapshots. The security layer reads them when it honours them.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use super::sorted_map::SortedMap;
use crate::metadata::records::{
    AccessControlEntryRecord, DelegationTokenRecord, EntityData, UserScramCredentialRecord,
};

/// All ACLs by their ids.
pub type AclsImage = SortedMap<Uuid, Arc<AccessControlEntryRecord>>;

/// Credentials by mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512) and user.
pub type ScramImage = BTreeMap<(i8, String), UserScramCredentialRecord>;

/// Tokens by their ids.
pub type DelegationTokensImage = BTreeMap<String, DelegationTokenRecord>;

/// Quotas of each entity: key to value.
pub type ClientQuotasImage = BTreeMap<QuotaEntity, BTreeMap<String, f64>>;

/// Whom a quota is for: names by kind (`user`, `client-id`, `ip`); no name is the kind's default.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaEntity(pub BTreeMap<String, Option<String>>);

impl QuotaEntity {
    pub(super) fn from_record(entity: &[EntityData]) -> QuotaEntity {
        QuotaEntity(entity.iter().map(|part| (part.entity_type.clone(), part.entity_name.clone())).collect())
    }

    pub(super) fn to_record(&self) -> Vec<EntityData> {
        self.0
            .iter()
            .map(|(entity_type, entity_name)| EntityData {
                entity_type: entity_type.clone(),
                entity_name: entity_name.clone(),
            })
            .collect()
    }
}
