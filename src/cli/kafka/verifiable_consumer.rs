//! `kafka-verifiable-consumer`: a member of a group that prints a line of JSON for all that happens to it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::argparse::{Argument, Arguments, Exclusive, Grammar, Kind, Section};
use super::console::signaled;
use super::verifiable_producer::from_file;
use super::{complain, json, uncaught_in_main};
use crate::client::consumer::{Rebalance, Subscription};
use crate::client::log::{self, Level};
use crate::client::{Consumed, Consumer, ConsumerConfig, Error, block_on, config};
use crate::types::TopicPartition;

static GRAMMAR: Grammar = Grammar {
    program: "verifiable-consumer",
    about: "Reads a topic as a member of a group, and prints a line of JSON for each thing that happens.",
    arguments: &[
        Argument::new(&["--bootstrap-server"], "The brokers to connect to first.")
            .metavar("HOST1:PORT1[,HOST2:PORT2[...]]")
            .required(),
        Argument::new(&["--topic"], "The topic.").required(),
        Argument::new(&["--group-protocol"], "The protocol of the group: CLASSIC or CONSUMER.")
            .metavar("GROUP-PROTOCOL")
            .default("classic"),
        Argument::new(&["--group-remote-assignor"], "Who divides the partitions, with CONSUMER.")
            .metavar("GROUP-REMOTE-ASSIGNOR"),
        Argument::new(&["--group-id"], "The group.").metavar("GROUP-ID").required(),
        Argument::new(&["--group-instance-id"], "The name of a static member.").metavar("GROUP-INSTANCE-ID"),
        Argument::new(&["--max-messages"], "How many records to read. If -1, until somebody ends the process.")
            .of(Kind::Integer)
            .metavar("MAX-MESSAGES")
            .default("-1"),
        Argument::new(&["--session-timeout"], "How long a member may be silent, with CLASSIC.")
            .of(Kind::Integer)
            .metavar("TIMEOUT-MS"),
        Argument::flag(&["--verbose"], "Print each record, too."),
        Argument::flag(&["--enable-autocommit"], "Offsets are committed now and then, and not with each answer."),
        Argument::new(&["--reset-policy"], "Where to begin without an offset: 'earliest', 'latest', or 'none'.")
            .metavar("RESET-POLICY")
            .default("earliest"),
        Argument::new(&["--assignment-strategy"], "How the leader divides the partitions, with CLASSIC: by ranges.")
            .metavar("ASSIGNMENT-STRATEGY")
            .default("org.apache.kafka.clients.consumer.RangeAssignor"),
        Argument::new(&["--consumer.config"], "(DEPRECATED) As --command-config.").metavar("CONFIG-FILE"),
        Argument::new(&["--command-config"], "A properties file with settings of the consumer; arguments go before.")
            .metavar("CONFIG-FILE"),
    ],
    exclusive: &[Exclusive { required: true, names: &["bootstrap-server"] }],
    sections: &[Section { title: "Connection Group", about: "Where the brokers are.", names: &["bootstrap-server"] }],
    ..Grammar::EMPTY
};

const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);
const LOGGER: &str = "org.apache.kafka.tools.VerifiableConsumer";

pub fn run(words: &[String]) -> u8 {
    let read = Arguments::parse_or_help(&GRAMMAR, words)
        .and_then(|arguments| Ok((from_file(&arguments, "consumer.config")?, arguments)));
    let (settings, arguments) = match read {
        Ok(read) => read,
        Err(end) => return end.report(0),
    };
    match config(settings, &arguments) {
        Ok(config) => block_on(consume(config, &arguments)),
        Err(error) => uncaught_in_main(&error),
    }
}

/// What the arguments say goes before the file.
fn config(mut settings: BTreeMap<String, String>, arguments: &Arguments) -> Result<ConsumerConfig, Error> {
    let protocol = arguments.value("group-protocol").unwrap_or_default().to_uppercase();
    if !["CLASSIC", "CONSUMER"].contains(&&*protocol) {
        return Err(Error::illegal_argument(format!(
            "No enum constant org.apache.kafka.clients.consumer.GroupProtocol.{protocol}"
        )));
    }
    let (dividing, who) = match &*protocol {
        "CONSUMER" => ("group.remote.assignor", arguments.value("group-remote-assignor")),
        _ => ("partition.assignment.strategy", arguments.value("assignment-strategy")),
    };
    let auto_commit = arguments.has("enable-autocommit").to_string();
    for (key, value) in [
        (config::BOOTSTRAP_SERVERS, arguments.value("bootstrap-server")),
        ("group.protocol", Some(&*protocol)),
        (dividing, who),
        ("session.timeout.ms", arguments.value("session-timeout")),
        ("group.id", arguments.value("group-id")),
        ("group.instance.id", arguments.value("group-instance-id")),
        ("enable.auto.commit", Some(&*auto_commit)),
        ("auto.offset.reset", arguments.value("reset-policy")),
    ] {
        if let Some(value) = value {
            settings.insert(key.to_owned(), value.to_owned());
        }
    }
    let group = settings["group.id"].clone();
    ConsumerConfig::new(settings, &format!("consumer-{group}-1"))
}

/// How many records there may be, and how many there were.
struct Reader {
    limit: Option<usize>,
    consumed: usize,
    verbose: bool,
}

impl Reader {
    fn is_finished(&self) -> bool {
        self.limit.is_some_and(|limit| self.consumed >= limit)
    }

    /// Tells of the records of one answer; returns what to commit, in the order in which the partitions came.
    fn tell(&mut self, records: &[Consumed]) -> Vec<(TopicPartition, i64)> {
        let mut partitions: Vec<(TopicPartition, Vec<&Consumed>)> = Vec::new();
        for record in records {
            let place = record.place();
            match partitions.iter_mut().find(|(known, _)| *known == place) {
                Some((_, of_partition)) => of_partition.push(record),
                None => partitions.push((place, vec![record])),
            }
        }
        let (mut offsets, mut summaries) = (Vec::new(), Vec::new());
        for (place, mut records) in partitions {
            if let Some(limit) = self.limit {
                records.truncate(limit - self.consumed);
            }
            let (Some(first), Some(last)) = (records.first(), records.last()) else { continue };
            let mut summary = json_of(&place);
            summary["count"] = records.len().into();
            summary["minOffset"] = first.offset.into();
            summary["maxOffset"] = last.offset.into();
            summaries.push(summary);
            offsets.push((place, last.offset + 1));
            if self.verbose {
                records.iter().for_each(|record| tell_record(record));
            }
            self.consumed += records.len();
            if self.is_finished() {
                break;
            }
        }
        json::say_event("records_consumed", json!({"count": records.len(), "partitions": summaries}));
        offsets
    }
}

fn json_of(place: &TopicPartition) -> Value {
    json!({"topic": &*place.topic, "partition": place.partition.0})
}

fn tell_record(record: &Consumed) {
    let text = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    json::say_event(
        "record_data",
        json!({
            "key": text(&record.key),
            "value": text(&record.value),
            "topic": &*record.topic,
            "partition": record.partition,
            "offset": record.offset,
        }),
    );
}

fn tell_commit(offsets: &[(TopicPartition, i64)], outcome: &Result<(), Error>) {
    let each = offsets.iter().map(|(place, offset)| {
        let mut committed = json_of(place);
        committed["offset"] = (*offset).into();
        committed
    });
    let mut event = json!({"offsets": each.collect::<Vec<_>>()});
    if let Err(error) = outcome {
        event["error"] = error.message.clone().into();
    }
    event["success"] = outcome.is_ok().into();
    json::say_event("offsets_committed", event);
}

async fn consume(config: ConsumerConfig, arguments: &Arguments) -> u8 {
    let topics = Subscription::Topics(vec![arguments.value("topic").unwrap_or_default().to_owned()]);
    let commits = !config.auto_commit;
    let limit = arguments.integer("max-messages").and_then(|limit| usize::try_from(limit).ok());
    let mut reader = Reader { limit, consumed: 0, verbose: arguments.has("verbose") };
    json::say_event("startup_complete", json!({}));
    let mut consumer = Consumer::listening(config, topics, |event| {
        let (name, partitions) = match &event {
            Rebalance::Assigned(partitions) => ("partitions_assigned", partitions),
            Rebalance::Revoked(partitions) => ("partitions_revoked", partitions),
        };
        json::say_event(name, json!({"partitions": partitions.iter().map(json_of).collect::<Vec<_>>()}));
    });
    let mut signal = std::pin::pin!(signaled());
    let ended = loop {
        if reader.is_finished() {
            break Ok(0);
        }
        let records = tokio::select! {
            records = consumer.poll(FOR_EVER) => records,
            code = &mut signal => break Ok(code),
        };
        let offsets = match records {
            Ok(records) => reader.tell(&records),
            Err(error) => break Err(error),
        };
        if commits {
            let outcome = consumer.commit(&offsets.iter().cloned().collect()).await;
            tell_commit(&offsets, &outcome);
        }
    };
    let requested = || json::say_event("shutdown_requested", json!({}));
    let by_signal = ended.as_ref().is_ok_and(|&code| code > 0);
    if by_signal {
        requested();
    }
    if let Err(error) = &ended {
        log::write(Level::Error, LOGGER, "Error during processing, terminating consumer process: ");
        complain!("{}", error.trace());
    }
    consumer.close().await;
    json::say_event("shutdown_complete", json!({}));
    if !by_signal {
        requested();
    }
    ended.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::TimestampType;

    fn parse(line: &str) -> Arguments {
        let words: Vec<String> = format!("--bootstrap-server a:1 --topic t --group-id g {line}")
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        Arguments::parse(&GRAMMAR, &words).unwrap()
    }

    #[test]
    fn arguments_go_before_the_file() {
        let file = || BTreeMap::from([("group.id".to_owned(), "other".to_owned())]);
        let read = config(file(), &parse("--session-timeout 6000")).unwrap();
        assert_eq!((read.group_id.as_deref(), read.session_timeout_ms, read.auto_commit), (Some("g"), 6000, false));
        let message = |line| config(file(), &parse(line)).unwrap_err().message().to_owned();
        assert!(message("--group-protocol z").ends_with("GroupProtocol.Z"));
        assert_eq!(
            message("--group-protocol consumer --session-timeout 5"),
            "session.timeout.ms cannot be set when group.protocol=CONSUMER"
        );
    }

    #[test]
    fn no_more_is_read_than_is_wanted() {
        let record = |partition, offset| Consumed {
            topic: "t".into(),
            partition,
            offset,
            timestamp: (TimestampType::CreateTime, 0),
            key: None,
            value: None,
            headers: Vec::new(),
        };
        let mut reader = Reader { limit: Some(3), consumed: 0, verbose: false };
        let offsets = reader.tell(&[record(1, 5), record(1, 6), record(0, 0), record(0, 1), record(2, 0)]);
        assert_eq!(offsets, [(TopicPartition::new("t", 1), 7), (TopicPartition::new("t", 0), 1)]);
        assert!(reader.is_finished());
    }
}
