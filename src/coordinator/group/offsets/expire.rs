//! Offsets expire when nobody has used them for `offsets.retention.minutes`, and empty groups go with their last offset.
//!
//! | the group | an offset expires so long after |
//! |---|---|
//! | has no protocol: it only holds offsets | its commit |
//! | is a classic one, and Empty | the group became empty |
//! | is a classic one of consumers, and Stable; a consumer group | its commit, unless members subscribe to the topic |
//! | is in any other state | never |
//!
//! A committer that said itself how long (OffsetCommit v2..4) has its way where anything expires at all. What an open
//! transaction is about to change stays.

use std::time::Duration;

use tracing::{debug, info};

use super::super::{Group, GroupShard, GroupTimer, RetentionStart, Step};
use super::store::CommittedOffset;
use super::tombstone;
use crate::config::BrokerConfig;
use crate::coordinator::group::records::GroupRecord;

/// How many groups are named when offsets expire.
const SHOWN_GROUPS: usize = 20;

impl GroupShard {
    pub(in super::super) fn schedule_expiration(&mut self, step: &mut Step<'_>) {
        let interval_ms = u64::try_from(step.config.offsets_retention_check_interval_ms).unwrap_or(1);
        self.timers.set(GroupTimer::Expiration, step.now + Duration::from_millis(interval_ms));
    }

    /// Removes what has expired, and looks again after a while.
    pub(in super::super) fn expire(&mut self, step: &mut Step<'_>) {
        self.schedule_expiration(step);
        self.offsets.forget_unused_topics();
        let mut records = Vec::new();
        let mut affected = Vec::new();
        for (group_id, group) in &self.groups {
            let before = records.len();
            let all_expired = self.expire_group(group_id, group, step, &mut records);
            let offsets = records.len() - before;
            let is_removed = all_expired && group.is_empty();
            if is_removed {
                records.extend(group.tombstone_records());
            }
            if offsets > 0 || is_removed {
                debug!(%group_id, offsets, is_removed, "offsets have expired");
                affected.push(&**group_id);
            }
        }
        if !records.is_empty() {
            // There may be a hundred thousand.
            let some = affected.get(..SHOWN_GROUPS).unwrap_or(&affected);
            info!(groups = affected.len(), records = records.len(), group_ids = ?some,
                "expired offsets and groups removed");
            step.allow_several_batches();
            step.append_all(records);
        }
    }

    /// Whether nothing is left of the group's offsets.
    fn expire_group(&self, group_id: &str, group: &Group, step: &Step<'_>, records: &mut Vec<GroupRecord>) -> bool {
        let Some(topics) = self.offsets.of_group(group_id) else { return !self.offsets.has_pending(group_id) };
        let Some(start) = group.retention_start() else { return false };
        let mut all_expired = true;
        for (topic, partitions) in topics.iter() {
            let in_use = group.is_subscribed_to_topic(topic);
            for (partition, offset) in partitions.iter() {
                if !in_use
                    && is_expired(offset, start, step.now_ms, step.config)
                    && !self.offsets.is_pending(group_id, topic, *partition)
                {
                    records.push(tombstone(group_id, topic, *partition));
                } else {
                    all_expired = false;
                }
            }
        }
        all_expired && !self.offsets.has_pending(group_id)
    }
}

fn is_expired(offset: &CommittedOffset, start: RetentionStart, now_ms: i64, config: &BrokerConfig) -> bool {
    if let Some(expire_timestamp_ms) = offset.expire_timestamp_ms() {
        return now_ms >= expire_timestamp_ms;
    }
    let start_ms = match start {
        RetentionStart::Commit => offset.commit_timestamp_ms,
        RetentionStart::GroupEmpty(since_ms) => since_ms,
    };
    now_ms.saturating_sub(start_ms) >= i64::from(config.offsets_retention_minutes) * 60_000
}
