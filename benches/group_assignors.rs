//! How long it takes to assign a large consumer group's partitions. Run by `cargo bench --bench group_assignors`.
//!
//! 1,000 members and 10,000 partitions, from scratch, and when one member joins or leaves. Prints milliseconds, the median of several
//! rounds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla::coordinator::group::assignor::{Assignor, GroupAssignment, GroupSpec, MemberSpec, SubscriptionType};
use ottla::types::TopicId;

const MEMBERS: usize = 1000;
const ROUNDS: usize = 15;

/// What is assigned.
struct Load {
    topics: Vec<TopicId>,
    partitions_per_topic: usize,
    subscription_type: SubscriptionType,
}

impl Load {
    fn new(topics: usize, partitions_per_topic: usize, subscription_type: SubscriptionType) -> Load {
        Load { topics: (0..topics).map(|_| TopicId::random()).collect(), partitions_per_topic, subscription_type }
    }

    /// All topics, or without the tenth that a member does not care for.
    fn subscription(&self, member: usize) -> Arc<BTreeSet<TopicId>> {
        let left_out = match self.subscription_type {
            SubscriptionType::Homogeneous => None,
            SubscriptionType::Heterogeneous => Some(member % 10),
        };
        Arc::new(
            self.topics
                .iter()
                .enumerate()
                .filter(|(at, _)| Some(at % 10) != left_out)
                .map(|(_, topic)| *topic)
                .collect(),
        )
    }

    fn spec(&self, members: usize) -> GroupSpec {
        let subscriptions: Vec<_> = (0..10).map(|at| self.subscription(at)).collect();
        let member = |at: usize| {
            let subscribed = Arc::clone(&subscriptions[at % 10]);
            (TopicId::random().to_string().into(), MemberSpec { subscribed, ..MemberSpec::default() })
        };
        GroupSpec { members: (0..members).map(member).collect(), subscription_type: self.subscription_type }
    }

    fn assign(&self, assignor: Assignor, spec: &GroupSpec) -> GroupAssignment {
        assignor.assign(spec, &|_| Some(self.partitions_per_topic)).expect("all topics exist")
    }
}

/// The median time of `work`, in milliseconds.
fn median(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[ROUNDS / 2].as_secs_f64() * 1000.0
}

fn main() {
    println!("{:<46} {:>9} {:>9} {:>9}", "milliseconds", "scratch", "join", "leave");
    let loads = [
        ("1 topic of 10,000 partitions", Load::new(1, 10_000, SubscriptionType::Homogeneous)),
        ("100 topics of 100 partitions", Load::new(100, 100, SubscriptionType::Homogeneous)),
        ("100 topics of 100, different subscriptions", Load::new(100, 100, SubscriptionType::Heterogeneous)),
    ];
    for (name, load) in &loads {
        for assignor in Assignor::ALL {
            let mut spec = load.spec(MEMBERS);
            let scratch = median(|| drop(load.assign(assignor, &spec)));
            for (member, target) in load.assign(assignor, &spec).members {
                spec.members.get_mut(&member).expect("a member of the group").assigned = target;
            }
            let mut smaller = spec.clone();
            smaller.members.pop_first();
            let leave = median(|| drop(load.assign(assignor, &smaller)));
            spec.members.extend(load.spec(1).members);
            let join = median(|| drop(load.assign(assignor, &spec)));
            println!("{:<46} {scratch:>9.3} {join:>9.3} {leave:>9.3}", format!("{}: {name}", assignor.name()));
        }
    }
}
