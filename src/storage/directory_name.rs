//! How the directories in a log directory are named.
//!
//! | name | what |
//! |---|---|
//! | `topic-3` | a partition; the topic may have dashes, too |
//! | `topic-3.UNIQUE-delete` | a deleted one, whose files go after `file.delete.delay.ms` |
//! | `topic-3.UNIQUE-stray` | one that does not belong to this node any more, left for a person to look at |
//! | `topic-3.UNIQUE-future` | a copy that will take the place of one in another log directory |
//!
//! UNIQUE is a random UUID of 32 digits, so that a topic of the same name may come again. Other names belong to somebody
//! else and are left alone.

use std::fmt;

use uuid::Uuid;

use crate::types::TopicPartition;

/// Kafka's limit, and that of most file systems.
pub const MAX_LENGTH: usize = 255;

/// The metadata log's topic; the quorum opens its directory.
pub const METADATA_TOPIC: &str = "__cluster_metadata";

/// Tiered storage of a Kafka broker keeps its indexes there.
pub const REMOTE_INDEX_CACHE: &str = "remote-log-index-cache";

/// What a partition's directory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryKind {
    Current,
    Deleted,
    Stray,
    Future,
}

impl DirectoryKind {
    fn suffix(self) -> &'static str {
        match self {
            DirectoryKind::Current => "",
            DirectoryKind::Deleted => "-delete",
            DirectoryKind::Stray => "-stray",
            DirectoryKind::Future => "-future",
        }
    }
}

/// The parsed name of a partition's directory. A long topic name may be cut off in other than current ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryName {
    pub topic_partition: TopicPartition,
    pub kind: DirectoryKind,
}

impl DirectoryName {
    /// `None` if the name is none of a partition's directory.
    pub fn parse(name: &str) -> Option<DirectoryName> {
        let marked = [DirectoryKind::Deleted, DirectoryKind::Stray, DirectoryKind::Future];
        let (stem, kind) = match marked.into_iter().find(|kind| name.ends_with(kind.suffix())) {
            None => (name, DirectoryKind::Current),
            Some(kind) => {
                let (stem, unique) = name[..name.len() - kind.suffix().len()].rsplit_once('.')?;
                if unique.is_empty() || name.contains(char::is_whitespace) {
                    return None;
                }
                (stem, kind)
            }
        };
        let (topic, partition) = stem.rsplit_once('-')?;
        let number: i32 = partition.parse().ok()?;
        // `p-01` is a copy that somebody made, and not the partition 1 beside it.
        if topic.is_empty() || partition != number.to_string() {
            return None;
        }
        Some(DirectoryName { topic_partition: TopicPartition::new(topic, number), kind })
    }
}

/// How long such a name is if nothing is cut off.
pub fn untruncated_length(topic_partition: &TopicPartition, kind: DirectoryKind) -> usize {
    let unique = if kind == DirectoryKind::Current { 0 } else { ".".len() + 32 };
    topic_partition.to_string().len() + unique + kind.suffix().len()
}

/// A new name of this kind for the directory of a partition.
pub fn name_for(topic_partition: &TopicPartition, kind: DirectoryKind) -> impl fmt::Display {
    if kind == DirectoryKind::Current {
        return topic_partition.to_string();
    }
    let ending = format!("-{}.{}{}", topic_partition.partition, Uuid::new_v4().simple(), kind.suffix());
    let topic = &*topic_partition.topic;
    let kept = topic.floor_char_boundary(MAX_LENGTH.saturating_sub(ending.len()));
    format!("{}{ending}", &topic[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str) -> Option<(String, i32, DirectoryKind)> {
        let name = DirectoryName::parse(name)?;
        Some((name.topic_partition.topic.to_string(), name.topic_partition.partition.0, name.kind))
    }

    #[test]
    fn partitions_are_told_from_what_is_foreign() {
        use DirectoryKind::*;
        let unique = "0123456789abcdef0123456789abcdef";
        assert_eq!(parsed("topic-0"), Some(("topic".into(), 0, Current)));
        assert_eq!(parsed("a.b_c-d-17"), Some(("a.b_c-d".into(), 17, Current)));
        assert_eq!(parsed("a--1"), Some(("a-".into(), 1, Current)));
        assert_eq!(parsed("x-delete-0"), Some(("x-delete".into(), 0, Current)));
        assert_eq!(parsed(&format!("a-b-3.{unique}-delete")), Some(("a-b".into(), 3, Deleted)));
        assert_eq!(parsed(&format!("a-b-3.{unique}-stray")), Some(("a-b".into(), 3, Stray)));
        assert_eq!(parsed(&format!("a.b-3.{unique}-future")), Some(("a.b".into(), 3, Future)));
        for name in [
            "",
            "-",
            "topic",
            "-0",
            "topic-",
            "topic-x",
            "topic-1x",
            "topic-+1",
            "topic-01",
            "topic-00",
            "topic--1x",
            "topic-99999999999",
            "lost+found",
            "a-delete",
            "a-1-delete",
            "a-1.-delete",
            "a b-1.u-stray",
            "a.u-future",
        ] {
            assert_eq!(parsed(name), None, "{name}");
        }
    }

    #[test]
    fn made_names_are_parsed_and_short_enough() {
        let long = TopicPartition::new("t".repeat(249), 1234);
        assert_eq!(name_for(&long, DirectoryKind::Current).to_string().len(), 249 + 5);
        let deleted = name_for(&long, DirectoryKind::Deleted).to_string();
        assert_eq!(deleted.len(), MAX_LENGTH);
        assert_eq!(DirectoryName::parse(&deleted).unwrap().kind, DirectoryKind::Deleted);
        let short = TopicPartition::new("a-b", 0);
        let name = name_for(&short, DirectoryKind::Stray).to_string();
        assert_eq!(name.len(), "a-b-0.".len() + 32 + "-stray".len());
        assert_eq!(DirectoryName::parse(&name).unwrap().topic_partition, short);
        assert_ne!(name, name_for(&short, DirectoryKind::Stray).to_string());
    }
}
