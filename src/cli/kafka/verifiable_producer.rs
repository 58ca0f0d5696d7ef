//! `kafka-verifiable-producer`: numbers that count up, and a line of JSON for what became of each.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use serde_json::{Value, json};

use super::argparse::{Argument, Arguments, End, Exclusive, Grammar, Kind, Section};
use super::console::signaled;
use super::producer_perf_test::keep_pace;
use super::{json, say, uncaught_in_main};
use crate::client::{Error, Outgoing, Producer, ProducerConfig, block_on, config, epoch_ms};
use crate::config::java;

static GRAMMAR: Grammar = Grammar {
    program: "verifiable-producer",
    about: "Sends numbers that count up to a topic, and prints a line of JSON for what became of each.",
    arguments: &[
        Argument::new(&["--topic"], "The topic.").required(),
        Argument::new(&["--bootstrap-server"], "REQUIRED: The brokers to connect to first.")
            .metavar("HOST1:PORT1[,HOST2:PORT2[...]]"),
        Argument::new(&["--max-messages"], "How many records to send. If -1, until somebody ends the process.")
            .of(Kind::Integer)
            .metavar("MAX-MESSAGES")
            .default("-1"),
        Argument::new(&["--throughput"], "Records in a second, approximately, if >= 0.")
            .of(Kind::Integer)
            .default("-1"),
        Argument::new(&["--acks"], "Who must have a record before it is acknowledged.")
            .of(Kind::Integer)
            .choices(&["0", "1", "-1"])
            .metavar("ACKS")
            .default("-1"),
        Argument::new(&["--producer.config"], "(DEPRECATED) As --command-config.").metavar("CONFIG-FILE"),
        Argument::new(&["--message-create-time"], "The time of the first record, in ms since 1970.")
            .of(Kind::Long)
            .metavar("CREATE-TIME")
            .default("-1"),
        Argument::new(&["--value-prefix"], "A number that stands before each value, with a dot behind it.")
            .of(Kind::Integer)
            .metavar("VALUE-PREFIX"),
        Argument::new(&["--repeating-keys"], "Keys count up, too, and begin with 0 again at this number.")
            .of(Kind::Integer)
            .metavar("REPEATING-KEYS"),
        Argument::new(&["--command-config"], "A properties file with settings of the producer; they go before others.")
            .metavar("CONFIG-FILE"),
    ],
    exclusive: &[Exclusive { required: true, names: &["bootstrap-server"] }],
    sections: &[Section { title: "Connection Group", about: "Where the brokers are.", names: &["bootstrap-server"] }],
    ..Grammar::EMPTY
};

pub fn run(words: &[String]) -> u8 {
    let read = Arguments::parse_or_help(&GRAMMAR, words).and_then(|arguments| Ok((settings(&arguments)?, arguments)));
    let (settings, arguments) = match read {
        Ok(read) => read,
        Err(end) => return end.report(0),
    };
    match ProducerConfig::new(settings, "producer-1") {
        Ok(config) => block_on(produce(config, &arguments)),
        Err(error) => uncaught_in_main(&error),
    }
}

/// Of the producer. What a file says goes before the arguments.
fn settings(arguments: &Arguments) -> Result<BTreeMap<String, String>, End> {
    let mut settings: BTreeMap<String, String> = [
        (config::BOOTSTRAP_SERVERS, arguments.value("bootstrap-server").unwrap_or_default()),
        ("acks", arguments.value("acks").unwrap_or_default()),
        ("retries", "0"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    settings.extend(from_file(arguments, "producer.config")?);
    Ok(settings)
}

/// The settings of the file that `--command-config` names, or the option that had its meaning before.
pub fn from_file(arguments: &Arguments, old: &'static str) -> Result<BTreeMap<String, String>, End> {
    if arguments.has(old) && arguments.has("command-config") {
        return Err(arguments.fault(format!("Options --{old} and --command-config are mutually exclusive.")));
    }
    if arguments.has(old) {
        say!(
            "Option --{old} has been deprecated and will be removed in a future version. Use --command-config instead."
        );
    }
    config::read_properties_of(arguments.value(old).or(arguments.value("command-config")))
        .map_err(|error| arguments.fault(error.message()))
}

/// Keys and values of the records, one after the other.
struct Numbers {
    prefix: Option<i32>,
    /// The number where keys begin anew.
    keys: Option<i32>,
    key: i32,
}

impl Numbers {
    fn next(&mut self, number: i64) -> (Option<String>, String) {
        let value = self.prefix.map_or_else(|| number.to_string(), |prefix| format!("{prefix}.{number}"));
        let key = self.keys.map(|keys| {
            let key = self.key;
            self.key = self.key.wrapping_add(1);
            if self.key == keys {
                self.key = 0;
            }
            key.to_string()
        });
        (key, value)
    }
}

async fn produce(config: ProducerConfig, arguments: &Arguments) -> u8 {
    let topic = arguments.value("topic").unwrap_or_default().to_owned();
    let acked = Rc::new(Cell::new(0_u64));
    let deliver = {
        let (topic, acked) = (topic.clone(), acked.clone());
        move |(key, value): (Option<String>, String), outcome: Result<crate::client::Position, Error>| match outcome {
            Ok(at) => {
                acked.set(acked.get() + 1);
                json::say_event(
                    "producer_send_success",
                    json!({"key": key, "value": value, "offset": at.offset, "topic": topic, "partition": at.partition}),
                );
            }
            Err(error) => json::say_event("producer_send_error", failure(&topic, key, value, &error)),
        }
    };
    let (begun, begun_ms) = (Instant::now(), epoch_ms());
    let throughput = arguments.integer("throughput").unwrap_or(-1);
    let producer = Producer::start(config, &topic, deliver);
    json::say_event("startup_complete", json!({}));
    let mut sent = 0_i64;
    let send_all = async {
        let limit = arguments.integer("max-messages").map(i64::from);
        let limit = limit.filter(|limit| *limit >= 0).unwrap_or(i64::MAX);
        let mut numbers =
            Numbers { prefix: arguments.integer("value-prefix"), keys: arguments.integer("repeating-keys"), key: 0 };
        let mut time = arguments.long("message-create-time").filter(|&ms| ms != -1);
        while sent < limit {
            let receipt = numbers.next(sent);
            let (key, value) = receipt.clone();
            sent += 1;
            let record = Outgoing {
                key: key.map(String::into_bytes),
                value: Some(value.into_bytes()),
                timestamp: time,
                receipt,
                ..Outgoing::default()
            };
            // It ends only with the producer, which says what became of the record.
            let _ = producer.send(record).await;
            time = time.map(|time| time + (epoch_ms() - begun_ms));
            keep_pace(begun, sent as u64, f64::from(throughput)).await;
        }
    };
    let code = tokio::select! {
        () = send_all => 0,
        code = signaled() => code,
    };
    producer.close().await;
    json::say_event("shutdown_complete", json!({}));
    let average = 1000.0 * (acked.get() as f64 / (epoch_ms() - begun_ms) as f64);
    let average = if average.is_finite() { json!(average) } else { json!(java::double_text(average)) };
    json::say_event(
        "tool_data",
        json!({"sent": sent, "acked": acked.get(), "target_throughput": throughput, "avg_throughput": average}),
    );
    code
}

fn failure(topic: &str, key: Option<String>, value: String, error: &Error) -> Value {
    let class = format!("class {}", error.class);
    json!({"topic": topic, "key": key, "value": value, "exception": class, "message": error.message})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Arguments {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Arguments::parse(&GRAMMAR, &words).unwrap()
    }

    #[test]
    fn keys_and_values_count_up() {
        let mut numbers = Numbers { prefix: Some(7), keys: Some(2), key: 0 };
        let next: Vec<_> = (0..3).map(|number| numbers.next(number)).collect();
        let expected = [("0", "7.0"), ("1", "7.1"), ("0", "7.2")];
        assert_eq!(next, expected.map(|(key, value)| (Some(key.to_owned()), value.to_owned())));
        assert_eq!(Numbers { prefix: None, keys: None, key: 0 }.next(5), (None, "5".to_owned()));
    }

    #[test]
    fn there_are_no_retries() {
        let config = ProducerConfig::new(settings(&parse("--topic t --bootstrap-server a:1")).unwrap(), "p").unwrap();
        assert!(config.retries == 0 && !config.idempotent);
        let both = parse("--topic t --bootstrap-server a:1 --producer.config x --command-config y");
        let wrong = settings(&both).unwrap_err();
        assert_eq!(wrong.message(), "Options --producer.config and --command-config are mutually exclusive.");
        assert_eq!(
            settings(&parse("--topic t --bootstrap-server a:1 --command-config /none")).unwrap_err().message(),
            "/none"
        );
    }
}
