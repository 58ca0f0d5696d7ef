//! Settings of topics and of the broker, and the logs that they reach.

use super::*;

#[test]
fn settings_of_topics_and_brokers_reach_the_partitions() {
    let (of_topic, of_broker) = (ConfigResourceType::TOPIC, ConfigResourceType::BROKER);
    let mut node = Node::new();
    let own = |value| set(of_topic, "own", "max.message.bytes", value);
    node.apply(vec![topic("own", 1), own(Some("2000")), partition(1, 0), topic("default", 2), partition(2, 0)]);
    let partitions = ["own", "default"].map(|topic| node.partition(topic, 0).unwrap());
    let limits = || partitions.each_ref().map(|partition| [1000, 3000, 5000].map(|size| takes(partition, size)));
    assert_eq!(limits(), [[true, false, false], [true, true, true]], "from its creation on");
    let broker = |broker, value| set(of_broker, broker, "message.max.bytes", value);
    node.apply(vec![broker("", Some("500"))]);
    assert_eq!(limits(), [[true, false, false], [false, false, false]]);
    node.apply(vec![broker("1", Some("4000")), broker("2", Some("1"))]);
    assert_eq!(limits(), [[true, false, false], [true, true, false]], "this broker's own before those of all");
    node.apply(vec![own(Some("10000")), broker("1", None)]);
    assert_eq!(limits(), [[true, true, true], [false, false, false]], "both kinds at once");
    assert_eq!(node.replicas.settings.load().current().topic_defaults.max_message_bytes, 500);
    node.apply(vec![own(None), broker("", None)]);
    assert_eq!(limits(), [[true, true, true]; 2]);
    // Neither of these is ours.
    node.apply(vec![set(of_topic, "nowhere", "max.message.bytes", Some("1")), broker("7", Some("1"))]);
    assert_eq!(limits(), [[true, true, true]; 2]);
}

/// Each default of topics that may change while the broker runs, with another value than it has.
const DYNAMIC_DEFAULTS: &[(&str, &str)] = &[
    ("compression.gzip.level", "3"),
    ("compression.type", "lz4"),
    ("compression.zstd.level", "7"),
    ("log.cleaner.delete.retention.ms", "7"),
    ("log.cleaner.max.compaction.lag.ms", "7"),
    ("log.cleaner.min.cleanable.ratio", "0.7"),
    ("log.cleaner.min.compaction.lag.ms", "7"),
    ("log.cleanup.policy", "compact"),
    ("log.flush.interval.messages", "7"),
    ("log.flush.interval.ms", "7"),
    ("log.index.interval.bytes", "7"),
    ("log.index.size.max.bytes", "7"),
    ("log.message.timestamp.after.max.ms", "7"),
    ("log.message.timestamp.before.max.ms", "7"),
    ("log.message.timestamp.type", "LogAppendTime"),
    ("log.preallocate", "true"),
    ("log.retention.bytes", "7"),
    ("log.retention.ms", "7"),
    ("log.roll.jitter.ms", "7"),
    ("log.roll.ms", "7"),
    ("log.segment.bytes", "1048577"),
    ("log.segment.delete.delay.ms", "7"),
    ("message.max.bytes", "7"),
    ("min.insync.replicas", "7"),
];

#[test]
fn each_default_that_changes_reaches_the_logs() {
    let is_dynamic = |name: &&str| {
        let key = broker_keys().get(name).unwrap();
        key.update_mode != UpdateMode::ReadOnly && support::of(name) == Support::Effective
    };
    let synonyms = topic_keys().iter().filter_map(|key| Some(key.synonyms.first()?.name));
    let dynamic: BTreeSet<&str> = synonyms.filter(is_dynamic).collect();
    assert_eq!(dynamic, DYNAMIC_DEFAULTS.iter().map(|(name, _)| *name).collect());

    let mut node = Node::new();
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    let config = |node: &Node| format!("{:?}", node.logs.get(&TopicPartition::new("t", 0)).unwrap().config());
    let before = config(&node);
    for (name, value) in DYNAMIC_DEFAULTS {
        for broker in ["", "1"] {
            node.apply(vec![set(ConfigResourceType::BROKER, broker, name, Some(value))]);
            assert_ne!(config(&node), before, "{name}");
            node.apply(vec![set(ConfigResourceType::BROKER, broker, name, None)]);
            assert_eq!(config(&node), before, "{name}");
        }
    }
}

#[test]
fn a_setting_that_cannot_be_used_leaves_the_others() {
    let mut node = Node::new();
    let set = |name, value| set(ConfigResourceType::TOPIC, "t", name, Some(value));
    node.apply(vec![topic("t", 1), partition(1, 0)]);
    node.apply(vec![set("max.message.bytes", "2000"), set("retention.ms", "soon"), set("made.up", "1")]);
    let partition = node.partition("t", 0).unwrap();
    assert_eq!([1000, 3000].map(|size| takes(&partition, size)), [true, false]);
}
