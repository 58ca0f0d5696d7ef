//! What the leader of a classic group does for its members: the assignor `range`, the first of the Java consumer's two.

use std::collections::BTreeMap;

use super::shared::Topic;

/// Partitions of each member, by topic.
pub type Assigned = BTreeMap<String, BTreeMap<String, Vec<i32>>>;

/// A member, its static id if it has one, and what it subscribes to.
pub struct Member {
    pub id: String,
    pub instance_id: Option<String>,
    pub topics: Vec<String>,
}

/// Each topic by itself: its partitions in a row, to its members in theirs, the first ones getting one more. Static members come first,
/// by their static ids.
pub fn range(members: &[Member], topics: &[Topic]) -> Assigned {
    let mut assigned: Assigned = members.iter().map(|member| (member.id.clone(), BTreeMap::new())).collect();
    for topic in topics {
        let mut takers: Vec<&Member> = members.iter().filter(|member| member.topics.contains(&topic.name)).collect();
        takers.sort_by_key(|member| (member.instance_id.is_none(), member.instance_id.clone(), member.id.clone()));
        if takers.is_empty() {
            continue;
        }
        let (each, more) = (topic.partitions.len() / takers.len(), topic.partitions.len() % takers.len());
        let mut rest = &topic.partitions[..];
        for (place, taker) in takers.iter().enumerate() {
            let (own, others) = rest.split_at(each + usize::from(place < more));
            rest = others;
            if let Some(of_member) = assigned.get_mut(&taker.id).filter(|_| !own.is_empty()) {
                of_member.insert(topic.name.clone(), own.to_vec());
            }
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TopicId;

    fn member(id: &str, instance_id: Option<&str>, topics: &[&str]) -> Member {
        let topics = topics.iter().map(|&topic| topic.to_owned()).collect();
        Member { id: id.to_owned(), instance_id: instance_id.map(str::to_owned), topics }
    }

    fn topic(name: &str, partitions: i32) -> Topic {
        Topic { name: name.to_owned(), id: TopicId::default(), partitions: (0..partitions).collect() }
    }

    #[test]
    fn each_topic_is_divided_by_itself() {
        let members = [member("b", None, &["t", "u"]), member("a", None, &["t"]), member("c", Some("i"), &["t"])];
        let assigned = range(&members, &[topic("t", 5), topic("u", 1), topic("v", 1)]);
        let of = |id: &str, topic: &str| assigned[id].get(topic).cloned().unwrap_or_default();
        assert_eq!((of("c", "t"), of("a", "t"), of("b", "t")), (vec![0, 1], vec![2, 3], vec![4]));
        assert_eq!(of("b", "u"), [0]);
        assert!(!assigned["a"].contains_key("u") && !assigned["b"].contains_key("v"));
    }
}
