//! The topics that a group's regular expressions match, looked at anew now and then.
//!
//! All expressions of a group are looked at together: at most every ten seconds, when one of them is new or there are
//! new topics, and otherwise after `group.consumer.regex.refresh.interval.ms`. A heartbeat finds that it is time; the
//! look itself is the next step of the shard, whose records bring the group's next epoch.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::{error, info};

use super::group::ResolvedRegularExpression;
use super::new_records;
use super::update::METADATA_REFRESH_INTERVAL_MS;
use crate::coordinator::group::subscription_regex::SubscriptionRegex;
use crate::coordinator::group::{Group, GroupShard, Step};
use crate::protocol::{ApiError, ErrorCode};

/// The shortest time between two looks.
pub(super) const MIN_REFRESH_INTERVAL_MS: i64 = 10_000;

/// Whether it is a regular expression at all.
pub(super) fn validate(regex: &str) -> Result<(), ApiError> {
    match SubscriptionRegex::compile(regex) {
        Ok(_) => Ok(()),
        Err(error) => Err(ApiError::new(ErrorCode::InvalidRegularExpression, error.to_string())),
    }
}

impl GroupShard {
    pub(super) fn resolve_regexes(&mut self, group_id: &str, step: &mut Step<'_>) {
        let Some(Group::Consumer(group)) = self.groups.get_mut(group_id) else { return };
        let mut resolved: BTreeMap<Arc<str>, ResolvedRegularExpression> = BTreeMap::new();
        let mut changed = BTreeMap::new();
        for pattern in group.subscribed_regexes().keys() {
            let topics = match SubscriptionRegex::compile(pattern) {
                Ok(regex) => regex.resolve(step.image.topics.iter().map(|topic| &topic.name)),
                // It was valid when its member came, to whichever broker that was.
                Err(error) => {
                    error!(%group_id, %error, "a regular expression of the log is not valid: it matches nothing");
                    Default::default()
                }
            };
            let new = ResolvedRegularExpression {
                topics: Arc::new(topics),
                version: step.image.provenance.offset.0,
                timestamp_ms: step.now_ms,
            };
            let before = group.resolved_regex(pattern);
            // One that matches nothing is nothing new, be it looked at for the first time.
            if before.map_or(!new.topics.is_empty(), |before| before.topics != new.topics) {
                changed.insert(Arc::clone(pattern), new.clone());
            }
            resolved.insert(Arc::clone(pattern), new);
        }
        if resolved.is_empty() {
            return;
        }
        group.set_unwritten_regex_look(step.now_ms);
        info!(%group_id, topics = step.image.topics.len(), regexes = resolved.len(), "regular expressions looked at");
        for (pattern, new) in &resolved {
            step.append(new_records::regex(group_id, pattern, new));
        }
        let topics = group.subscriptions_resolved_to(&changed);
        let hash = self.consumer_groups.topics.group_hash(&topics, step.image);
        if !changed.is_empty() || hash != group.metadata_hash() {
            let epoch = group.group_epoch().wrapping_add(1);
            step.append(new_records::group_epoch(group_id, epoch, hash));
            info!(%group_id, epoch, metadata_hash = hash, "group epoch bumped");
            group.set_metadata_refresh_deadline(step.now_ms + METADATA_REFRESH_INTERVAL_MS, epoch);
        }
    }
}
