//! Consumer groups (KIP-848): members heartbeat, and the coordinator assigns.
//!
//! ```text
//! heartbeat ─→ member, subscriptions ─→ group epoch ─→ target assignment ─→ the member's own way to it
//!              member metadata record    group record   target records       current assignment record
//! ```
//!
//! Each arrow is a step that may change nothing; what changes is a record, and takes effect by its replay. A member that
//! is silent for longer than its session, or holds partitions that it must give up for longer than it said it would, is
//! removed.
//!
//! | module | owns |
//! |---|---|
//! | [`group`], [`member`] | the state: what records say, and what follows from it |
//! | [`replay`] | what each record changes |
//! | [`new_records`] | how each record is written |
//! | [`topics`] | who subscribes to what, and the hash of the topics' metadata |
//! | [`update`] | a member's change: subscriptions, epochs, targets |
//! | [`heartbeat`] | ConsumerGroupHeartbeat |
//! | [`reconciliation`] | a member's way from what it has to what it is to have |
//! | [`regexes`] | which topics the group's regular expressions match |
//! | [`fencing`] | members that leave or are removed |
//! | [`migration`], [`classic_members`] | groups that change their protocol, and members of the classic protocol in them |
//! | [`validation`], [`describe`] | what others ask |

mod group;
mod member;
mod new_records;
mod replay;
mod topics;
mod validation;

use std::sync::Arc;

pub use self::group::{ConsumerGroup, ConsumerGroupState};
pub use self::member::{ConsumerGroupMember, MemberState};
use self::topics::SubscribedTopics;
use super::{Group, GroupShard, Step};
use crate::coordinator::shard::CoordinatorError;
use crate::metadata::image::MetadataDelta;

/// What a timer of a consumer group is for: the ids of group and member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConsumerTimer {
    /// The member must be heard of until then.
    Session(Arc<str>, Arc<str>),
    /// The member must have left this member epoch until then.
    Rebalance(Arc<str>, Arc<str>, i32),
    /// The member, one of the classic protocol, must join again until then.
    Join(Arc<str>, Arc<str>),
    /// The member, one of the classic protocol, must sync until then.
    Sync(Arc<str>, Arc<str>),
    /// The group's regular expressions are to be looked at.
    ResolveRegexes(Arc<str>),
}

/// What takes effect in the place of a step's records.
#[derive(Debug)]
pub enum Continuation {}

/// What consumer groups share.
#[derive(Debug)]
pub struct ConsumerGroups {
    topics: SubscribedTopics,
    /// Offset of the last metadata image that brought new topics.
    last_image_with_new_topics: i64,
}

impl Default for ConsumerGroups {
    fn default() -> ConsumerGroups {
        ConsumerGroups { topics: SubscribedTopics::default(), last_image_with_new_topics: -1 }
    }
}

impl GroupShard {
    pub(super) fn on_loaded_consumer(&mut self, step: &mut Step<'_>) {
        self.consumer_groups.last_image_with_new_topics = step.image.provenance.offset.0;
    }

    pub(super) fn on_consumer_timer(&mut self, _timer: ConsumerTimer, _step: &mut Step<'_>) {}

    pub(super) fn on_metadata_consumer(&mut self, delta: &MetadataDelta, step: &mut Step<'_>) {
        if !delta.created_topics.is_empty() {
            self.consumer_groups.last_image_with_new_topics = step.image.provenance.offset.0;
        }
        // The members' next heartbeats look at the topics.
        for group_id in self.consumer_groups.topics.on_metadata(delta, step.image) {
            if let Some(Group::Consumer(group)) = self.groups.get_mut(&group_id) {
                group.request_metadata_refresh();
            }
        }
    }

    pub(super) fn on_append_consumer(
        &mut self,
        continuation: Continuation,
        _appended: Result<(), CoordinatorError>,
        _step: &mut Step<'_>,
    ) {
        match continuation {}
    }
}
