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

mod classic_members;
mod describe;
mod fencing;
mod group;
mod heartbeat;
mod member;
mod migration;
mod new_records;
mod reconciliation;
mod regexes;
mod replay;
#[cfg(test)]
mod tests;
mod topics;
mod update;
mod validation;

use std::sync::Arc;
use std::time::Duration;

use tracing::info;

pub use self::group::{ConsumerGroup, ConsumerGroupState};
pub use self::heartbeat::validate_consumer_group_heartbeat;
pub use self::member::{ConsumerGroupMember, MemberState};
use self::topics::SubscribedTopics;
use super::classic::ClassicGroup;
use super::{Group, GroupShard, GroupTimer, Step};
use crate::config::BrokerConfig;
use crate::coordinator::shard::CoordinatorError;
use crate::metadata::image::{FeaturesImage, MetadataDelta, MetadataImage};

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
pub enum Continuation {
    /// The consumer group is a classic group from here on; why its members are to meet again, if they are.
    Downgraded { classic: Box<ClassicGroup>, rebalance: Option<String> },
}

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

/// Whether this broker serves the protocol at all: by `group.coordinator.rebalance.protocols`, and by the cluster's
/// `group.version`.
pub fn is_protocol_enabled(config: &BrokerConfig, image: &MetadataImage) -> bool {
    let is_set = config.group_coordinator_rebalance_protocols.iter().any(|name| name.eq_ignore_ascii_case("consumer"));
    is_set && image.features.level(FeaturesImage::GROUP_VERSION) > 0
}

/// Milliseconds of a setting or a request, as a timer wants it.
fn timeout(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

impl GroupShard {
    pub(super) fn on_loaded_consumer(&mut self, step: &mut Step<'_>) {
        self.consumer_groups.last_image_with_new_topics = step.image.provenance.offset.0;
        for group in self.groups.values() {
            let Group::Consumer(group) = group else { continue };
            info!(group_id = %group.group_id(), members = group.num_members(), "consumer group loaded");
            let session_timeout_ms = update::group_config(group.group_id(), step).session_timeout_ms;
            for member in group.members() {
                update::set_session_timer(
                    &mut self.timers,
                    group.group_id(),
                    &member.member_id,
                    session_timeout_ms,
                    step,
                );
                if member.state == MemberState::UnrevokedPartitions {
                    update::set_rebalance_timer(&mut self.timers, group.group_id(), member, step);
                }
            }
        }
    }

    pub(super) fn on_consumer_timer(&mut self, timer: ConsumerTimer, step: &mut Step<'_>) {
        match timer {
            ConsumerTimer::Session(group_id, member_id) => {
                let timer = ConsumerTimer::Session(Arc::clone(&group_id), Arc::clone(&member_id));
                self.fence_silent_member(timer, &group_id, &member_id, None, "the member session expired", step);
            }
            ConsumerTimer::Rebalance(group_id, member_id, epoch) => {
                let timer = ConsumerTimer::Rebalance(Arc::clone(&group_id), Arc::clone(&member_id), epoch);
                let reason = "it failed to leave its epoch within the rebalance timeout";
                self.fence_silent_member(timer, &group_id, &member_id, Some(epoch), reason, step);
            }
            ConsumerTimer::Join(group_id, member_id) => {
                let timer = ConsumerTimer::Join(Arc::clone(&group_id), Arc::clone(&member_id));
                let reason = "the classic member failed to join within the rebalance timeout";
                self.fence_silent_member(timer, &group_id, &member_id, None, reason, step);
            }
            ConsumerTimer::Sync(group_id, member_id) => {
                let timer = ConsumerTimer::Sync(Arc::clone(&group_id), Arc::clone(&member_id));
                let reason = "the member failed to sync within timeout";
                self.fence_silent_member(timer, &group_id, &member_id, None, reason, step);
            }
            ConsumerTimer::ResolveRegexes(group_id) => self.resolve_regexes(&group_id, step),
        }
    }

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
        appended: Result<(), CoordinatorError>,
        step: &mut Step<'_>,
    ) {
        match (continuation, appended) {
            (Continuation::Downgraded { classic, rebalance }, Ok(())) => {
                let group_id = Arc::clone(classic.group_id());
                self.forget_consumer_group(&group_id);
                self.insert_classic_group(*classic, step);
                if let Some(reason) = rebalance {
                    self.prepare_classic_rebalance(&group_id, || reason, step);
                }
            }
            // The group stays as it was.
            (Continuation::Downgraded { .. }, Err(_)) => {}
        }
    }

    fn cancel(&mut self, timer: ConsumerTimer) {
        self.timers.cancel(&GroupTimer::Consumer(timer));
    }
}
