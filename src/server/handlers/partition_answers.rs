//! What is said of each partition when offsets are committed or deleted.
//!
//! Topics and partitions that do not exist are refused first; what the group says of the others comes behind them. As
//! soon as anything is refused each topic stands once in the answer; otherwise as it was asked for, be it twice. Kafka
//! has it so.

use std::hash::Hash;

use indexmap::IndexMap;

use crate::protocol::ErrorCode;
use crate::types::PartitionId;

/// Codes by partition, of one topic.
pub type PartitionCodes = Vec<(PartitionId, ErrorCode)>;

/// What was refused so far, by what names a topic.
pub struct Refused<T> {
    topics: IndexMap<T, PartitionCodes>,
}

impl<T: Hash + Eq> Refused<T> {
    pub fn new() -> Refused<T> {
        Refused { topics: IndexMap::new() }
    }

    /// Refuses partitions of a topic; the topic is answered even without any.
    pub fn add(&mut self, topic: T, partitions: impl IntoIterator<Item = PartitionId>, code: ErrorCode) {
        let refused = partitions.into_iter().map(|partition| (partition, code));
        self.topics.entry(topic).or_default().extend(refused);
    }

    /// The answer: what was refused, and behind it what the group says.
    pub fn followed_by(mut self, answered: impl IntoIterator<Item = (T, PartitionCodes)>) -> Vec<(T, PartitionCodes)> {
        if self.topics.is_empty() {
            return answered.into_iter().collect();
        }
        for (topic, codes) in answered {
            self.topics.entry(topic).or_default().extend(codes);
        }
        self.topics.into_iter().collect()
    }
}

/// What a group says of the partitions that it was asked about: one for each in their order, or one for all.
pub struct GroupCodes {
    codes: Result<std::vec::IntoIter<ErrorCode>, ErrorCode>,
}

impl GroupCodes {
    pub fn new(codes: Result<Vec<ErrorCode>, ErrorCode>) -> GroupCodes {
        GroupCodes { codes: codes.map(Vec::into_iter) }
    }

    /// The codes of the next partitions.
    pub fn of(&mut self, partitions: impl Iterator<Item = PartitionId>) -> PartitionCodes {
        let next = |partition| {
            let code = match &mut self.codes {
                Ok(codes) => codes.next().expect("there is a code for each partition"),
                Err(code) => *code,
            };
            (partition, code)
        };
        partitions.map(next).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(partitions: &[i32], code: ErrorCode) -> PartitionCodes {
        partitions.iter().map(|partition| (PartitionId(*partition), code)).collect()
    }

    #[test]
    fn topics_stand_once_as_soon_as_anything_is_refused() {
        let answered = || {
            let mut of_group = GroupCodes::new(Ok(vec![ErrorCode::None, ErrorCode::OffsetMetadataTooLarge]));
            ["a", "a"].map(|topic| (topic, of_group.of([PartitionId(1)].into_iter())))
        };
        let [(_, first), (_, second)] = answered();
        assert_eq!(first, codes(&[1], ErrorCode::None));
        assert_eq!(second, codes(&[1], ErrorCode::OffsetMetadataTooLarge));
        assert_eq!(Refused::new().followed_by(answered()), [("a", first.clone()), ("a", second.clone())]);

        let mut refused = Refused::new();
        refused.add("b", [], ErrorCode::UnknownTopicId);
        refused.add("a", [PartitionId(9)], ErrorCode::UnknownTopicOrPartition);
        let all = [codes(&[9], ErrorCode::UnknownTopicOrPartition), first, second].concat();
        assert_eq!(refused.followed_by(answered()), [("b", vec![]), ("a", all)]);
    }

    #[test]
    fn one_code_may_stand_for_all() {
        let mut of_group = GroupCodes::new(Err(ErrorCode::IllegalGeneration));
        assert_eq!(of_group.of([0, 1].map(PartitionId).into_iter()), codes(&[0, 1], ErrorCode::IllegalGeneration));
    }
}
