//! Which segments of a log are no longer wanted: too old, too much, or before the log's start.
//!
//! Pure: facts about the segments go in, how many of the first ones may go comes out. Segments are only ever removed
//! from the front, and none that reaches above the high watermark.

use crate::config::TopicConfig;
use crate::types::Offset;

/// What is known of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentExtent {
    pub base_offset: Offset,
    /// Base offset of the next segment, or the log's end.
    pub end_offset: Offset,
    pub size: u64,
}

/// How many of `segments`, from the first on, may be deleted.
///
/// The checks run one after the other, each on what the one before left: by the log's start, by size, by time; the last
/// two only if `cleanup.policy` has `delete`. The last segment may go, too, unless it is empty: a new one takes its place.
///
/// `largest_timestamp_ms` of a segment, by its number, costs a look at the disk: it is asked for the old ones and the first young
/// one. Where no record has a timestamp it is when the file was last written.
pub fn deletable<E>(
    segments: &[SegmentExtent],
    log_start_offset: Offset,
    high_watermark: Offset,
    config: &TopicConfig,
    now_ms: i64,
    largest_timestamp_ms: impl Fn(usize) -> Result<i64, E>,
) -> Result<usize, E> {
    let (last, before) = match segments.split_last() {
        Some((last, before)) => (last, before.len()),
        None => return Ok(0),
    };
    let replicated = segments.iter().take_while(|segment| segment.end_offset <= high_watermark).count();
    let available = if last.size == 0 { replicated.min(before) } else { replicated };

    let mut count =
        segments[..available.min(before)].iter().take_while(|segment| segment.end_offset <= log_start_offset).count();
    if !config.cleanup_policy.delete {
        return Ok(count);
    }
    if let Ok(limit) = u64::try_from(config.retention_bytes) {
        let size: u64 = segments[count..].iter().map(|segment| segment.size).sum();
        let mut surplus = size.saturating_sub(limit);
        for segment in &segments[count..available] {
            if size < limit || segment.size > surplus {
                break;
            }
            surplus -= segment.size;
            count += 1;
        }
    }
    if config.retention_ms >= 0 {
        while count < available && now_ms.saturating_sub(largest_timestamp_ms(count)?) > config.retention_ms {
            count += 1;
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::config::topic::CleanupPolicy;

    /// Four segments of ten offsets and 100 bytes each, the last one written to; timestamps 10, 20, 30, 40.
    fn segments() -> Vec<SegmentExtent> {
        (0..4)
            .map(|n| SegmentExtent { base_offset: Offset(n * 10), end_offset: Offset(n * 10 + 10), size: 100 })
            .collect()
    }

    const TIMESTAMPS: [i64; 4] = [10, 20, 30, 40];

    fn count_of(
        segments: &[SegmentExtent],
        start: i64,
        high_watermark: i64,
        config: &TopicConfig,
        now_ms: i64,
    ) -> usize {
        let timestamp = |n: usize| Ok::<_, Infallible>(TIMESTAMPS[n]);
        let Ok(count) = deletable(segments, Offset(start), Offset(high_watermark), config, now_ms, timestamp);
        count
    }

    fn unlimited() -> TopicConfig {
        TopicConfig { retention_ms: -1, retention_bytes: -1, ..TopicConfig::default() }
    }

    #[test]
    fn nothing_goes_without_limits() {
        assert_eq!(count_of(&segments(), 0, 40, &unlimited(), i64::MAX), 0);
        assert_eq!(count_of(&[], 0, 40, &unlimited(), i64::MAX), 0);
    }

    #[test]
    fn segments_before_the_start_go() {
        for (start, count) in [(9, 0), (10, 1), (29, 2), (30, 3), (40, 3)] {
            assert_eq!(count_of(&segments(), start, 40, &unlimited(), 0), count, "{start}");
            let compacted =
                TopicConfig { cleanup_policy: CleanupPolicy { compact: true, delete: false }, ..unlimited() };
            assert_eq!(count_of(&segments(), start, 40, &compacted, 0), count, "{start}");
        }
    }

    #[test]
    fn size_leaves_at_least_the_limit() {
        for (limit, count) in [(0, 4), (1, 3), (100, 3), (101, 2), (399, 0), (400, 0), (500, 0)] {
            let config = TopicConfig { retention_bytes: limit, ..unlimited() };
            assert_eq!(count_of(&segments(), 0, 40, &config, 0), count, "{limit}");
        }
    }

    #[test]
    fn age_stops_at_the_first_young_one() {
        let config = TopicConfig { retention_ms: 100, ..unlimited() };
        for (now_ms, count) in [(110, 0), (111, 1), (131, 3), (140, 3), (141, 4)] {
            assert_eq!(count_of(&segments(), 0, 40, &config, now_ms), count, "{now_ms}");
        }
        // Those behind it are not looked at.
        let mixed = |n: usize| [10, 1000].get(n).copied().ok_or(());
        let by = |config| deletable(&segments(), Offset(0), Offset(40), config, 200, mixed);
        assert_eq!(by(&config), Ok(1));
        let compacted =
            TopicConfig { cleanup_policy: CleanupPolicy { compact: true, delete: false }, ..config.clone() };
        assert_eq!(by(&compacted), Ok(0));
    }

    #[test]
    fn what_is_not_replicated_stays() {
        let config = TopicConfig { retention_bytes: 0, ..unlimited() };
        for (high_watermark, count) in [(0, 0), (9, 0), (10, 1), (39, 3)] {
            assert_eq!(count_of(&segments(), 0, high_watermark, &config, 0), count);
        }
    }

    #[test]
    fn an_empty_last_segment_stays() {
        let mut segments = segments();
        segments[3] = SegmentExtent { size: 0, end_offset: Offset(30), ..segments[3] };
        let config = TopicConfig { retention_bytes: 0, retention_ms: 0, ..unlimited() };
        assert_eq!(count_of(&segments, 0, 30, &config, i64::MAX), 3);
    }

    #[test]
    fn the_limits_add_up() {
        let config = TopicConfig { retention_bytes: 250, retention_ms: 100, ..unlimited() };
        // By the start 1, then 300 bytes are left, none to spare for 250; by time the two next ones.
        assert_eq!(count_of(&segments(), 10, 40, &config, 131), 3);
    }
}
