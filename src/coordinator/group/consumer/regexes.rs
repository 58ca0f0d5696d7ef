//! The topics that a group's regular expressions match, looked at anew now and then.
//!
//! All expressions of a group are looked at together: at most every ten seconds, when one of them is new or there are
//! new topics, and otherwise after `group.consumer.regex.refresh.interval.ms`. A heartbeat finds that it is time; the
//! look itself is the next step of the shard, or several if it takes long, and the records of the last one bring the
//! group's next epoch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tracing::{error, info};

use super::group::ResolvedRegularExpression;
use super::update::METADATA_REFRESH_INTERVAL_MS;
use super::{ConsumerTimer, new_records};
use crate::coordinator::group::subscription_regex::SubscriptionRegex;
use crate::coordinator::group::{Group, GroupShard, GroupTimer, Step};
use crate::metadata::image::MetadataImage;
use crate::protocol::{ApiError, ErrorCode};
use crate::types::TopicName;

/// The shortest time between two looks.
pub(super) const MIN_REFRESH_INTERVAL_MS: i64 = 10_000;

/// Between two steps of a look.
const PAUSE: Duration = Duration::from_millis(1);

/// Whether it is a regular expression at all.
pub(super) fn validate(regex: &str) -> Result<(), ApiError> {
    match SubscriptionRegex::compile(regex) {
        Ok(_) => Ok(()),
        Err(error) => Err(ApiError::new(ErrorCode::InvalidRegularExpression, error.to_string())),
    }
}

/// What one step of a look may cost, in about the time that compiling ten characters of an expression takes: some ten
/// milliseconds. Other requests, and other timers, come in between.
const STEP_COST: usize = 20_000;
/// What a name that an expression matches takes beside its characters.
const NAME_OVERHEAD: usize = 16;
/// A look that finds more than this, in bytes, is given up: no batch could hold it.
const MAX_FOUND_BYTES: usize = 32 << 20;

/// A look at all regular expressions of a group that is under way.
#[derive(Debug)]
pub(super) struct RegexLook {
    /// Offset of the image with which it began: what comes after it is looked at the next time.
    version: i64,
    /// What is known so far.
    topics: BTreeMap<Arc<str>, Arc<BTreeSet<TopicName>>>,
    found_bytes: usize,
}

impl RegexLook {
    #[cfg(test)]
    pub fn nearly_full() -> RegexLook {
        RegexLook { version: 0, topics: BTreeMap::new(), found_bytes: MAX_FOUND_BYTES - 1 }
    }

    /// Goes on as long as a step may take. Whether it is done; not if it found too much.
    fn advance<'a>(
        &mut self,
        group_id: &str,
        patterns: impl Iterator<Item = &'a Arc<str>>,
        image: &MetadataImage,
    ) -> Result<bool, TooMuchFound> {
        let mut cost = 0;
        for pattern in patterns {
            if self.topics.contains_key(pattern) {
                continue;
            }
            if cost >= STEP_COST {
                return Ok(false);
            }
            cost += pattern.len() + image.topics.len();
            let topics = match SubscriptionRegex::compile(pattern) {
                Ok(regex) => regex.resolve(image.topics.iter().map(|topic| &topic.name)),
                // It was valid when its member came, to whichever broker that was.
                Err(error) => {
                    error!(%group_id, %error, "a regular expression of the log is not valid: it matches nothing");
                    Default::default()
                }
            };
            self.found_bytes += topics.iter().map(|name| name.len() + NAME_OVERHEAD).sum::<usize>();
            if self.found_bytes > MAX_FOUND_BYTES {
                return Err(TooMuchFound);
            }
            self.topics.insert(Arc::clone(pattern), Arc::new(topics));
        }
        Ok(true)
    }
}

/// See [`MAX_FOUND_BYTES`].
struct TooMuchFound;

impl GroupShard {
    /// Looks at the regular expressions, in this step and maybe in later ones.
    pub(super) fn resolve_regexes(&mut self, group_id: &Arc<str>, step: &mut Step<'_>) {
        let Some(Group::Consumer(group)) = self.groups.get_mut(group_id) else { return };
        let mut look = group.take_regex_look().unwrap_or_else(|| {
            let version = step.image.provenance.offset.0;
            Box::new(RegexLook { version, topics: BTreeMap::new(), found_bytes: 0 })
        });
        match look.advance(group_id, group.subscribed_regexes().keys(), step.image) {
            Ok(true) => self.write_resolved_regexes(group_id, &look, step),
            Ok(false) => {
                group.put_regex_look(look);
                let timer = GroupTimer::Consumer(ConsumerTimer::ResolveRegexes(Arc::clone(group_id)));
                self.timers.set(timer, step.now + PAUSE);
            }
            Err(TooMuchFound) => {
                group.set_unwritten_regex_look(step.now_ms);
                info!(%group_id, regexes = group.subscribed_regexes().len(), topics = step.image.topics.len(),
                    "a group's regular expressions match too much: they are not looked at");
            }
        }
    }

    fn write_resolved_regexes(&mut self, group_id: &Arc<str>, look: &RegexLook, step: &mut Step<'_>) {
        let Some(Group::Consumer(group)) = self.groups.get_mut(group_id) else { return };
        let mut resolved: BTreeMap<Arc<str>, ResolvedRegularExpression> = BTreeMap::new();
        let mut changed = BTreeMap::new();
        // Members may have gone since the look began.
        for pattern in group.subscribed_regexes().keys() {
            let Some(topics) = look.topics.get(pattern) else { continue };
            let topics = Arc::clone(topics);
            let new = ResolvedRegularExpression { topics, version: look.version, timestamp_ms: step.now_ms };
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
