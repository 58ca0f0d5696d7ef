//! A member of a classic group.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;

use crate::coordinator::group::consumer::ConsumerGroupMember;
use crate::coordinator::group::consumer_protocol::PROTOCOL_TYPE;
use crate::coordinator::group::records::MemberMetadata;
use crate::coordinator::shard::ReplyTo;

/// A way to share the work out that a member supports, with what it tells the leader for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    pub name: Arc<str>,
    pub metadata: Bytes,
}

/// What a member says of itself, and what it was assigned.
#[derive(Clone, Debug)]
pub struct ClassicGroupMember {
    pub member_id: Arc<str>,
    /// Of a static member (KIP-345).
    pub group_instance_id: Option<Arc<str>>,
    pub client_id: String,
    pub client_host: String,
    pub rebalance_timeout_ms: i32,
    pub session_timeout_ms: i32,
    pub protocol_type: String,
    /// By preference; each name once.
    pub protocols: Vec<Protocol>,
    /// Empty: none.
    pub assignment: Bytes,
    pub(super) presence: Presence,
}

/// What no record says of a member.
#[derive(Clone, Debug, Default)]
pub(super) struct Presence {
    /// It has joined for the first time and waits for its first generation: it may have gone, since it cannot send
    /// heartbeats yet.
    pub is_new: bool,
    pub awaiting_join: Option<ReplyTo>,
    pub awaiting_sync: Option<ReplyTo>,
    /// When it counts as lost.
    pub session_deadline: Duration,
    /// When its timer fires, which may be earlier: heartbeats do not move it, it looks at the deadline when it fires.
    pub timer: Option<Duration>,
}

impl ClassicGroupMember {
    /// A member as a record has it; `protocol` is its group's.
    pub(super) fn from_record(record: MemberMetadata, protocol_type: &str, protocol: &str) -> ClassicGroupMember {
        let rebalance_timeout_ms = match record.rebalance_timeout {
            // v0 of the record has none.
            -1 => record.session_timeout,
            timeout => timeout,
        };
        ClassicGroupMember {
            member_id: record.member_id.into(),
            group_instance_id: record.group_instance_id.map(Arc::from),
            client_id: record.client_id,
            client_host: record.client_host,
            rebalance_timeout_ms,
            session_timeout_ms: record.session_timeout,
            protocol_type: protocol_type.to_owned(),
            protocols: vec![Protocol { name: protocol.into(), metadata: record.subscription }],
            assignment: record.assignment,
            presence: Presence::default(),
        }
    }

    /// A member of a consumer group that speaks the classic protocol; `None` for one that does not. What it was assigned
    /// is still to be set.
    pub(in crate::coordinator::group) fn from_consumer_group(
        member: &ConsumerGroupMember,
    ) -> Option<ClassicGroupMember> {
        let classic = member.classic.as_ref()?;
        let mut names = BTreeSet::new();
        let distinct = classic.supported_protocols.iter().filter(|protocol| names.insert(&protocol.name));
        let protocols = distinct
            .map(|protocol| Protocol { name: protocol.name.as_str().into(), metadata: protocol.metadata.clone() });
        Some(ClassicGroupMember {
            member_id: member.member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            client_id: member.client_id.to_string(),
            client_host: member.client_host.to_string(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: classic.session_timeout_ms,
            protocol_type: PROTOCOL_TYPE.to_owned(),
            protocols: protocols.collect(),
            assignment: Bytes::new(),
            presence: Presence::default(),
        })
    }

    pub(super) fn to_record(&self, protocol: Option<&str>, assignment: Bytes) -> MemberMetadata {
        MemberMetadata {
            member_id: self.member_id.to_string(),
            group_instance_id: self.group_instance_id.as_deref().map(str::to_owned),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            rebalance_timeout: self.rebalance_timeout_ms,
            session_timeout: self.session_timeout_ms,
            subscription: protocol.map(|protocol| self.metadata(protocol)).unwrap_or_default(),
            assignment,
        }
    }

    /// What it tells the leader for this protocol; empty for one that it does not support.
    pub fn metadata(&self, protocol: &str) -> Bytes {
        let protocol = self.protocols.iter().find(|supported| &*supported.name == protocol);
        protocol.map(|supported| supported.metadata.clone()).unwrap_or_default()
    }

    pub fn is_static(&self) -> bool {
        self.group_instance_id.is_some()
    }

    pub(super) fn is_awaiting_join(&self) -> bool {
        self.presence.awaiting_join.is_some()
    }

    pub(super) fn is_awaiting_sync(&self) -> bool {
        self.presence.awaiting_sync.is_some()
    }

    /// Who waits for an answer needs no heartbeat, but for a new member.
    pub(super) fn has_satisfied_heartbeat(&self) -> bool {
        !self.presence.is_new && (self.is_awaiting_join() || self.is_awaiting_sync())
    }

    /// The protocol it likes best among the candidates.
    pub(super) fn vote(&self, candidates: &BTreeSet<Arc<str>>) -> Option<&Arc<str>> {
        self.protocols.iter().map(|protocol| &protocol.name).find(|name| candidates.contains(*name))
    }
}

/// The protocols of a request, in memory of their own: the request's bytes are part of a larger buffer. Of a name that
/// comes twice the first counts.
pub(super) fn protocols_of(request: &[JoinGroupRequestProtocol]) -> Vec<Protocol> {
    let mut names = BTreeSet::new();
    let distinct = request.iter().filter(|protocol| names.insert(protocol.name.as_str()));
    distinct
        .map(|protocol| Protocol {
            name: protocol.name.as_str().into(),
            metadata: Bytes::copy_from_slice(&protocol.metadata),
        })
        .collect()
}
