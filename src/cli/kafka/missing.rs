//! The tools of Kafka's that are not in this program: each says so in one sentence, with what does its work instead.
//!
//! A program that is called like one of them must not take itself for the broker.

use super::{Tool, complain};

/// A row for each: the name, and what does its work.
macro_rules! missing {
    ($($name:literal: $instead:expr,)*) => { &[$(Tool { name: $name, run: |_| say_so($name, $instead) },)*] };
}

/// All scripts of Apache Kafka 4.3.1 that nothing here does the work of, and those of older ones for ZooKeeper.
pub const MISSING_TOOLS: &[Tool] = missing! {
    "connect-distributed": CONNECT,
    "connect-mirror-maker": CONNECT,
    "connect-plugin-path": CONNECT,
    "connect-standalone": CONNECT,
    "kafka-acls": "Ottla has no ACLs yet, and lets everybody do everything",
    "kafka-client-metrics": "use kafka-configs --client-metrics NAME, which sets and shows the same; Ottla keeps it, and collects no metrics of clients yet",
    "kafka-console-share-consumer": SHARE,
    "kafka-delegation-tokens": "Ottla has no authentication yet, so there are no tokens to manage",
    "kafka-jmx": "there is no Java here; what Ottla tells of itself stands in its log",
    "kafka-metadata-shell": "read the metadata log with kafka-dump-log --cluster-metadata-decoder --files FILE",
    "kafka-replica-verification": "check the files of a stopped broker with ottla verify-log, and replicas with kafka-topics --describe --under-replicated-partitions",
    "kafka-run-class": "there are no Java classes here; call the tools by the names of their scripts",
    "kafka-share-consumer-perf-test": SHARE,
    "kafka-share-groups": SHARE,
    "kafka-streams-application-reset": "use kafka-consumer-groups --reset-offsets and kafka-topics --delete, or run Apache Kafka's own against Ottla",
    "kafka-streams-groups": "Ottla has no streams groups (KIP-1071) yet; those of group.protocol=classic are shown by kafka-consumer-groups",
    "kafka-verifiable-share-consumer": SHARE,
    "trogdor": "run Apache Kafka's own against Ottla",
    "zookeeper-security-migration": ZOOKEEPER,
    "zookeeper-shell": ZOOKEEPER,
};

/// For what else is called like a tool of Kafka's.
pub const UNKNOWN_TOOL: Tool = Tool {
    name: "",
    run: |_| {
        complain!("ottla: this tool of Kafka's is not there; run Apache Kafka's own against Ottla");
        1
    },
};

const CONNECT: &str = "Kafka Connect is a program of its own; run Apache Kafka's against Ottla";
const SHARE: &str = "Ottla has no share groups (KIP-932) yet; use kafka-console-consumer and kafka-consumer-groups";
const ZOOKEEPER: &str = "Kafka has no ZooKeeper since 4.0; use kafka-broker-api-versions, kafka-topics and kafka-configs with --bootstrap-server";

fn say_so(name: &str, instead: &str) -> u8 {
    complain!("{name}: this tool of Kafka's is not there in Ottla: {instead}");
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::kafka::{LOCAL_TOOLS, TOOLS};

    #[test]
    fn nothing_is_said_to_be_missing_that_is_there() {
        for tool in MISSING_TOOLS {
            assert!(TOOLS.iter().chain(LOCAL_TOOLS).all(|there| there.name != tool.name), "{}", tool.name);
            assert_eq!((tool.run)(&[]), 1);
        }
    }
}
