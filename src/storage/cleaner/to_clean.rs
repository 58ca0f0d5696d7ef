//! `LogToClean`: what of a log may be cleaned, whether it should be now, and which of its segments become one.
//!
//! ```text
//!  log start        first dirty offset          first uncleanable offset       log end
//!      | clean: read again, | dirty: its keys are   | not yet: the segment that is |
//!      | to take out what   | looked at, and its    | written to, what is not      |
//!      | is superseded      | older records go      | stable, what is too young    |
//! ```
//! A log is due if its dirty part is larger than `min.cleanable.dirty.ratio` of what may be cleaned, or has a record older
//! than `max.compaction.lag.ms`. Of several the dirtiest is first. Pure.

use crate::config::TopicConfig;
use crate::types::Offset;

/// What is known of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFacts {
    pub log_start_offset: Offset,
    pub log_end_offset: Offset,
    pub last_stable_offset: Offset,
    /// Up to where it was cleaned.
    pub cleaned_offset: Option<Offset>,
    /// In order; the last one is written to.
    pub segments: Vec<SegmentFacts>,
}

/// What is known of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFacts {
    pub base_offset: Offset,
    pub size: u64,
    /// The largest timestamp in it; where no record has one, when the file was last written. Only needed with
    /// `min.compaction.lag.ms`.
    pub largest_timestamp_ms: i64,
    /// The largest timestamp in its first batch, if there is one. Only needed with `max.compaction.lag.ms`.
    pub first_timestamp_ms: Option<i64>,
    /// In bytes.
    pub offset_index_size: u64,
    pub time_index_size: u64,
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogToClean {
    pub first_dirty_offset: Offset,
    /// The base offset of a segment.
    pub first_uncleanable_offset: Offset,
    pub clean_bytes: u64,
    pub cleanable_bytes: u64,
    /// For how long `max.compaction.lag.ms` has been over.
    pub overdue_ms: i64,
    /// What is known of earlier cleanings cannot be.
    pub mismatch: Option<Mismatch>,
}

/// Why the offset up to which the log is said to be clean is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    BeforeLogStart,
    BehindLogEnd,
}

impl LogToClean {
    /// The active segment is never cleaned, nor anything above the last stable offset.
    pub fn of(facts: &LogFacts, config: &TopicConfig, now_ms: i64) -> LogToClean {
        let (active, sealed) = facts.segments.split_last().expect("a log has a segment");
        let cleaned = facts.cleaned_offset.unwrap_or(facts.log_start_offset);
        let mismatch = if cleaned < facts.log_start_offset {
            Some(Mismatch::BeforeLogStart)
        } else if cleaned > facts.log_end_offset {
            Some(Mismatch::BehindLogEnd)
        } else {
            None
        };
        let first_dirty_offset = if mismatch.is_some() { facts.log_start_offset } else { cleaned };

        let dirty = from_floor(sealed, active, first_dirty_offset);
        let lag_ms = config.min_compaction_lag_ms;
        let young =
            dirty.iter().find(|segment| lag_ms > 0 && segment.largest_timestamp_ms > now_ms.saturating_sub(lag_ms));
        let bound = facts.last_stable_offset.min(active.base_offset);
        let bound = young.map_or(bound, |segment| bound.min(segment.base_offset)).max(first_dirty_offset);
        // Only whole segments.
        let first_uncleanable = from_floor(sealed, active, bound).first().unwrap_or(active).base_offset;

        let from = first_dirty_offset.min(first_uncleanable);
        let cleanable = from_floor(sealed, active, from);
        let cleanable_bytes = sum(cleanable.iter().take_while(|segment| segment.base_offset < first_uncleanable));
        let clean_bytes = sum(facts.segments.iter().filter(|segment| segment.base_offset < first_dirty_offset));

        let clean_until_ms = now_ms.saturating_sub(config.max_compaction_lag_ms.max(0));
        let oldest_ms = dirty.iter().filter_map(|segment| segment.first_timestamp_ms).filter(|ms| *ms > 0).min();
        let overdue_ms = oldest_ms.map_or(0, |oldest_ms| clean_until_ms.saturating_sub(oldest_ms).max(0));
        LogToClean {
            first_dirty_offset,
            first_uncleanable_offset: first_uncleanable,
            clean_bytes,
            cleanable_bytes,
            overdue_ms,
            mismatch,
        }
    }

    /// How much of what may be cleaned is dirty.
    pub fn cleanable_ratio(&self) -> f64 {
        let total = self.clean_bytes + self.cleanable_bytes;
        if total == 0 { 0.0 } else { self.cleanable_bytes as f64 / total as f64 }
    }

    pub fn is_due(&self, config: &TopicConfig) -> bool {
        self.overdue_ms > 0 && self.cleanable_bytes > 0 || self.cleanable_ratio() > config.min_cleanable_dirty_ratio
    }
}

/// The sealed segments from the one that holds `offset` on.
fn from_floor<'a>(sealed: &'a [SegmentFacts], active: &SegmentFacts, offset: Offset) -> &'a [SegmentFacts] {
    if offset >= active.base_offset {
        return &[];
    }
    let first = sealed.partition_point(|segment| segment.base_offset <= offset).saturating_sub(1);
    &sealed[first..]
}

fn sum<'a>(segments: impl Iterator<Item = &'a SegmentFacts>) -> u64 {
    segments.map(|segment| segment.size).sum()
}

/// Cuts `segments` into groups, each to be cleaned into one segment, by how many there are in each: together they fit in
/// one, with its indexes and the offsets that it can hold.
pub fn group(segments: &[SegmentFacts], config: &TopicConfig, first_uncleanable_offset: Offset) -> Vec<usize> {
    let segment_bytes = config.segment_bytes.max(0) as u64;
    let index_bytes = config.segment_index_bytes.max(0) as u64;
    let mut groups = Vec::new();
    let mut at = 0;
    while at < segments.len() {
        let first = &segments[at];
        let (mut size, mut offsets, mut times) = (first.size, first.offset_index_size, first.time_index_size);
        let mut count = 1;
        while let Some(next) = segments.get(at + count) {
            size += next.size;
            offsets += next.offset_index_size;
            times += next.time_index_size;
            // The last offset may be hard to find; the next segment's base is close enough.
            let end = segments.get(at + count + 1).map_or(first_uncleanable_offset, |behind| behind.base_offset);
            let spans = end.0 - 1 - first.base_offset.0;
            if size > segment_bytes
                || offsets > index_bytes
                || times > index_bytes
                || next.size > 0 && spans > i64::from(i32::MAX)
            {
                break;
            }
            count += 1;
        }
        groups.push(count);
        at += count;
    }
    groups
}

#[cfg(test)]
mod tests;
