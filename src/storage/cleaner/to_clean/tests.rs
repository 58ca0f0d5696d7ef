//! Logs drawn as text, and what is chosen of them.

use super::*;
use crate::config::topic::CleanupPolicy;

const NOW_MS: i64 = 1_000_000;

/// A log as text: `base:size` for each segment, with `@largest/first` timestamps before now where they matter; then
/// `key=value` for the rest.
fn log(text: &str) -> LogFacts {
    let mut facts = LogFacts {
        log_start_offset: Offset(0),
        log_end_offset: Offset(0),
        last_stable_offset: Offset(0),
        cleaned_offset: None,
        segments: Vec::new(),
    };
    for word in text.split_whitespace() {
        if let Some((key, value)) = word.split_once('=') {
            let offset = Offset(value.parse().unwrap());
            match key {
                "start" => facts.log_start_offset = offset,
                "end" => facts.log_end_offset = offset,
                "stable" => facts.last_stable_offset = offset,
                "cleaned" => facts.cleaned_offset = Some(offset),
                key => panic!("{key}"),
            }
            continue;
        }
        let (place, age) = word.split_once('@').unwrap_or((word, "0/0"));
        let (base, size) = place.split_once(':').unwrap();
        let (largest, first) = age.split_once('/').unwrap();
        facts.segments.push(SegmentFacts {
            base_offset: Offset(base.parse().unwrap()),
            size: size.parse().unwrap(),
            largest_timestamp_ms: NOW_MS - largest.parse::<i64>().unwrap(),
            first_timestamp_ms: (first != "none").then(|| NOW_MS - first.parse::<i64>().unwrap()),
            offset_index_size: 0,
            time_index_size: 0,
        });
    }
    if !text.contains("end=") {
        facts.log_end_offset = facts.segments.last().unwrap().base_offset.plus(10);
    }
    if !text.contains("stable=") {
        facts.last_stable_offset = facts.log_end_offset;
    }
    facts
}

fn config(min_lag_ms: i64, max_lag_ms: i64) -> TopicConfig {
    TopicConfig {
        cleanup_policy: CleanupPolicy { compact: true, delete: false },
        min_compaction_lag_ms: min_lag_ms,
        max_compaction_lag_ms: max_lag_ms,
        min_cleanable_dirty_ratio: 0.5,
        ..TopicConfig::default()
    }
}

/// `dirty..uncleanable clean+cleanable` bytes, then whether it is due, and why.
fn chosen(facts: &LogFacts, config: &TopicConfig) -> String {
    let chosen = LogToClean::of(facts, config, NOW_MS);
    let mut text = format!(
        "{}..{} {}+{}",
        chosen.first_dirty_offset, chosen.first_uncleanable_offset, chosen.clean_bytes, chosen.cleanable_bytes
    );
    if let Some(mismatch) = chosen.mismatch {
        text += &format!(" {mismatch:?}");
    }
    if chosen.overdue_ms > 0 {
        text += &format!(" overdue {}", chosen.overdue_ms);
    }
    if chosen.is_due(config) {
        text += " due";
    }
    text
}

#[test]
fn transcript_of_what_may_be_cleaned() {
    for (facts, expected) in [
        // Never cleaned: all but the segment that is written to.
        ("0:100 10:100 20:100 30:50", "0..30 0+300 due"),
        ("0:50", "0..0 0+0"),
        // The part that is clean counts against it.
        ("0:100 10:100 20:100 30:50 cleaned=20", "20..30 200+100"),
        ("0:100 10:100 20:100 30:50 cleaned=10", "10..30 100+200 due"),
        // Cleaned up to the inside of a segment: that one is both.
        ("0:100 10:100 20:100 30:50 cleaned=15", "15..30 200+200"),
        ("0:100 10:100 20:100 30:50 cleaned=30", "30..30 300+0"),
        // Not beyond what is stable, and only whole segments.
        ("0:100 10:100 20:100 30:50 stable=25", "0..20 0+200 due"),
        ("0:100 10:100 20:100 30:50 stable=20", "0..20 0+200 due"),
        ("0:100 10:100 20:100 30:50 stable=5", "0..0 0+0"),
        ("0:100 10:100 20:100 30:50 stable=15 cleaned=20", "20..20 200+0"),
        // What was noted cannot be true.
        ("0:100 10:100 20:100 30:50 cleaned=50", "0..30 0+300 BehindLogEnd due"),
        ("20:100 30:100 40:50 start=25 cleaned=20", "25..40 100+200 BeforeLogStart due"),
        // Deleted records: from the log's start on.
        ("20:100 30:100 40:50 start=25", "25..40 100+200 due"),
        // Segments without a byte.
        ("0:0 10:0 20:50", "0..20 0+0"),
    ] {
        assert_eq!(chosen(&log(facts), &config(0, i64::MAX)), expected, "{facts}");
    }
}

#[test]
fn transcript_of_compaction_lags() {
    for (facts, min_lag_ms, max_lag_ms, expected) in [
        // Records stay as they are for the minimum lag; what follows a young segment does, too.
        ("0:100@90/99 10:100@80/89 20:100@70/79 30:50", 85, i64::MAX, "0..10 0+100 due"),
        ("0:100@90/99 10:100@80/89 20:100@70/79 30:50", 80, i64::MAX, "0..20 0+200 due"),
        ("0:100@90/99 10:100@10/89 20:100@90/79 30:50", 80, i64::MAX, "0..10 0+100 due"),
        ("0:100@90/99 10:100@80/89 20:100@70/79 30:50", 100, i64::MAX, "0..0 0+0"),
        // Only the dirty ones count.
        ("0:100@1/99 10:100@80/89 20:100@70/79 30:50 cleaned=10", 75, i64::MAX, "10..20 100+100"),
        // The maximum lag makes a log due that is hardly dirty.
        ("0:900@90/99 10:100@80/89 20:50 cleaned=10", 0, 90, "10..20 900+100"),
        ("0:900@90/99 10:100@80/89 20:50 cleaned=10", 0, 88, "10..20 900+100 overdue 1 due"),
        ("0:900@90/99 10:100@80/none 20:50 cleaned=10", 0, 5, "10..20 900+100"),
        // But not if nothing of it may be cleaned.
        ("0:900@90/99 10:100@80/89 20:50 cleaned=10 stable=10", 0, 5, "10..10 900+0 overdue 84"),
        // Timestamps of nobody.
        ("0:900@90/99 10:100@1000001/1000001 20:50 cleaned=10", 0, 5, "10..20 900+100"),
    ] {
        assert_eq!(chosen(&log(facts), &config(min_lag_ms, max_lag_ms)), expected, "{facts} {min_lag_ms} {max_lag_ms}");
    }
}

#[test]
fn a_ratio_of_exactly_the_limit_is_not_due() {
    let half = log("0:100 10:100 20:50 cleaned=10");
    let config = config(0, i64::MAX);
    assert!(!LogToClean::of(&half, &config, NOW_MS).is_due(&config));
    let always = TopicConfig { min_cleanable_dirty_ratio: 0.0, ..config };
    assert!(LogToClean::of(&half, &always, NOW_MS).is_due(&always));
    let clean = log("0:100 10:100 20:50 cleaned=20");
    assert!(!LogToClean::of(&clean, &always, NOW_MS).is_due(&always));
}

fn grouped(text: &str, segment_bytes: i32, index_bytes: i32) -> Vec<usize> {
    let mut facts = log(text).segments;
    for segment in &mut facts {
        segment.offset_index_size = segment.size / 10;
        segment.time_index_size = segment.size / 5;
    }
    let config = TopicConfig { segment_bytes, segment_index_bytes: index_bytes, ..TopicConfig::default() };
    let end = facts.last().unwrap().base_offset.plus(10);
    group(&facts, &config, end)
}

#[test]
fn groups_fit_in_a_segment_and_its_indexes() {
    assert_eq!(grouped("0:100 10:100 20:100 30:100 40:100", 250, 1000), [2, 2, 1]);
    assert_eq!(grouped("0:100 10:100 20:100", 300, 1000), [3]);
    assert_eq!(grouped("0:100 10:100 20:100", 300, 40), [2, 1]);
    assert_eq!(grouped("0:400 10:100 20:500 30:1", 300, 1000), [1, 1, 1, 1]);
    assert_eq!(group(&[], &TopicConfig::default(), Offset(5)), [] as [usize; 0]);
}

#[test]
fn groups_span_only_offsets_that_a_segment_can_hold() {
    let max = i64::from(i32::MAX);
    let end = |base: i64| format!("0:1 10:1 {base}:1 {}:1", base + 1);
    // The end of a segment is known by the next one's base only.
    assert_eq!(grouped(&end(max), 1000, 1000), [3, 1]);
    assert_eq!(grouped(&end(max + 1), 1000, 1000), [2, 2]);
    // Empty ones hold no offset.
    assert_eq!(grouped(&format!("0:1 10:0 {}:1 {}:1", max * 2, max * 2 + 5), 1000, 1000), [2, 2]);
    assert_eq!(grouped(&format!("0:1 10:1 {}:1 {}:1", max * 2, max * 2 + 5), 1000, 1000), [1, 1, 2]);
}
