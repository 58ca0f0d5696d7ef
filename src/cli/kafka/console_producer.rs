//! `kafka-console-producer`: lines of standard input become records.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};

use tokio::sync::mpsc;

use super::line_reader::LineReader;
use super::options::{Kind, Options, Spec};
use super::{Stop, conclude, say};
use crate::client::log::{self, Level};
use crate::client::{Error, Outgoing, Position, Producer, ProducerConfig, block_on, config};

const ABOUT: &str = "This tool helps to read data from standard input and publish it to Kafka.";
const DEFAULT_READER: &str = "org.apache.kafka.tools.LineMessageReader";

const OPTIONS: &[Spec] = &[
    Spec::with_argument("topic", "topic", "REQUIRED: The topic to write to."),
    Spec::with_argument(
        "bootstrap-server",
        "server to connect to",
        "REQUIRED: The brokers to connect to first, as HOST1:PORT1,HOST2:PORT2.",
    ),
    Spec::flag("sync", "Waits for each record to be acknowledged before the next is read."),
    Spec::with_optional_argument(
        "compression-codec",
        "compression-codec",
        "none, gzip, snappy, lz4 or zstd; gzip if nothing is named.",
    ),
    Spec::with_argument("batch-size", "size", "Bytes of a batch: batch.size.").of(Kind::Integer).default(&["16384"]),
    Spec::with_argument("message-send-max-retries", "", "How often a batch is sent once more: retries.")
        .of(Kind::Integer)
        .default(&["3"]),
    Spec::with_argument("retry-backoff-ms", "", "How long to wait before that: retry.backoff.ms.")
        .of(Kind::Long)
        .default(&["100"]),
    Spec::with_argument("timeout", "timeout_ms", "How long a record waits for others to fill a batch: linger.ms.")
        .of(Kind::Long)
        .default(&["1000"]),
    Spec::with_argument("request-required-acks", "request required acks", "Who must have a record: acks.")
        .default(&["-1"]),
    Spec::with_argument("request-timeout-ms", "request timeout ms", "How long a request may take: request.timeout.ms.")
        .of(Kind::Integer)
        .default(&["1500"]),
    Spec::with_argument(
        "metadata-expiry-ms",
        "metadata expiration interval",
        "When the leaders are asked for anew: metadata.max.age.ms.",
    )
    .of(Kind::Long)
    .default(&["300000"]),
    Spec::with_argument("max-block-ms", "max block on send", "How long the topic is waited for: max.block.ms.")
        .of(Kind::Long)
        .default(&["60000"]),
    Spec::with_argument("max-memory-bytes", "total memory in bytes", "What records that wait may take: buffer.memory.")
        .of(Kind::Long)
        .default(&["33554432"]),
    Spec::with_argument(
        "max-partition-memory-bytes",
        "memory in bytes per partition",
        "(Deprecated) See --batch-size.",
    )
    .of(Kind::Integer)
    .default(&["16384"]),
    Spec::with_argument("line-reader", "reader_class", "What takes lines apart. Only Kafka's own is there.")
        .default(&[DEFAULT_READER]),
    Spec::with_argument("socket-buffer-size", "size", "Bytes of the socket's buffer: send.buffer.bytes.")
        .of(Kind::Integer)
        .default(&["102400"]),
    Spec::with_argument("property", "prop", "(DEPRECATED) See --reader-property."),
    Spec::with_argument(
        "reader-property",
        "prop",
        "How lines are taken apart, key=value:\nparse.key=false\nparse.headers=false\nignore.error=false\nkey.separator=\\t\nheaders.delimiter=\\t\nheaders.separator=,\nheaders.key.separator=:\nnull.marker=   stands for null in keys, values and headers",
    ),
    Spec::with_argument(
        "reader-config",
        "config file",
        "A file of those properties. --reader-property takes precedence.",
    ),
    Spec::with_argument("producer-property", "producer_prop", "(DEPRECATED) See --command-property."),
    Spec::with_argument("command-property", "producer_prop", "A setting of the producer, key=value."),
    Spec::with_argument("producer.config", "config file", "(DEPRECATED) See --command-config."),
    Spec::with_argument(
        "command-config",
        "config file",
        "A properties file with settings of the producer. --command-property takes precedence.",
    ),
];

/// Options by their old and their new name.
const RENAMED: [(&str, &str); 3] =
    [("producer.config", "command-config"), ("producer-property", "command-property"), ("property", "reader-property")];

/// Which option is which setting of the producer.
const SETTINGS: [(&str, &str); 10] = [
    ("timeout", "linger.ms"),
    ("request-required-acks", "acks"),
    ("request-timeout-ms", "request.timeout.ms"),
    ("message-send-max-retries", "retries"),
    ("retry-backoff-ms", "retry.backoff.ms"),
    ("socket-buffer-size", "send.buffer.bytes"),
    ("max-memory-bytes", "buffer.memory"),
    ("batch-size", "batch.size"),
    ("metadata-expiry-ms", "metadata.max.age.ms"),
    ("max-block-ms", "max.block.ms"),
];

pub fn run(words: &[String]) -> u8 {
    let ended = Options::parse_or_usage(OPTIONS, words).and_then(|options| {
        check(&options)?;
        let reader = LineReader::new(&reader_properties(&options)?)?;
        let config = ProducerConfig::new(settings(&options)?, "console-producer")?;
        Ok(block_on(produce(config, &options, reader))?)
    });
    conclude(ended, |error| {
        let of_options = error.class.starts_with("joptsimple.");
        super::complain!("{}", if of_options { error.message().to_owned() } else { error.trace() });
    })
}

fn check(options: &Options) -> Result<(), Stop> {
    options.help_or_version(ABOUT)?;
    options.require(&["topic"])?;
    for (old, new) in RENAMED {
        if options.has(old) && options.has(new) {
            return Err(options.usage(format!("Options --{new} and --{old} cannot be specified together.")));
        }
    }
    for (old, new) in [RENAMED[1], RENAMED[0], RENAMED[2]] {
        if options.has(old) {
            say!("Warning: --{old} is deprecated and will be removed in a future version. Use --{new} instead.");
        }
    }
    if options.has("max-partition-memory-bytes") {
        say!(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. Use --batch-size instead."
        );
    }
    options.check_addresses("bootstrap-server")?;
    if options.text("line-reader")? != DEFAULT_READER {
        return Err(Error::new("java.lang.ClassNotFoundException", options.text("line-reader")?).into());
    }
    Ok(())
}

fn reader_properties(options: &Options) -> Result<BTreeMap<String, String>, Error> {
    let mut properties = config::read_properties_of(options.value("reader-config")?)?;
    properties.extend(key_values(&options.renamed_values(&RENAMED, "reader-property")));
    Ok(properties)
}

fn settings(options: &Options) -> Result<BTreeMap<String, String>, Error> {
    let mut settings = config::read_properties_of(options.renamed_values(&RENAMED, "command-config").last().copied())?;
    settings.extend(key_values(&options.renamed_values(&RENAMED, "command-property")));
    let codec = match (options.has("compression-codec"), options.value("compression-codec")?) {
        (false, _) => "none",
        (true, None | Some("")) => "gzip",
        (true, Some(codec)) => codec,
    };
    settings.insert("compression.type".to_owned(), codec.to_owned());
    settings.insert(config::BOOTSTRAP_SERVERS.to_owned(), options.text("bootstrap-server")?.to_owned());
    // What an option says counts, and its default where nothing else says anything.
    for (option, key) in SETTINGS {
        match option {
            "batch-size" | "message-send-max-retries" | "request-timeout-ms" => drop(options.integer(option)?),
            "request-required-acks" | "socket-buffer-size" => {}
            _ => drop(options.long(option)?),
        }
        if options.has(option) || !settings.contains_key(key) {
            settings.insert(key.to_owned(), options.text(option)?.to_owned());
        }
    }
    if options.has("max-partition-memory-bytes") {
        settings.insert("batch.size".to_owned(), options.text("max-partition-memory-bytes")?.to_owned());
    }
    Ok(settings)
}

/// `key=value` each. A value may be missing, and may have the character in it.
pub fn key_values(pairs: &[&str]) -> BTreeMap<String, String> {
    let split = |pair: &&str| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key.to_owned(), value.to_owned())
    };
    pairs.iter().map(split).collect()
}

/// How long key and value are, for the line about a record that was not sent.
type Lengths = (Option<usize>, Option<usize>);

async fn produce(config: ProducerConfig, options: &Options, mut reader: LineReader) -> Result<(), Error> {
    let topic = options.text("topic")?.to_owned();
    let sync = options.has("sync");
    let (failures, mut failed) = mpsc::unbounded_channel();
    let deliver = {
        let topic = topic.clone();
        move |(key, value): Lengths, outcome: Result<Position, Error>| {
            let Err(error) = outcome else { return };
            if sync {
                // Whoever waits for it has gone only when all is over.
                let _ = failures.send(error);
                return;
            }
            let length = |bytes: Option<usize>| bytes.map_or("null".to_owned(), |bytes| format!("{bytes} bytes"));
            log::write_failure(
                Level::Error,
                "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback",
                format_args!(
                    "Error when sending message to topic {topic} with key: {}, value: {} with error:",
                    length(key),
                    length(value),
                ),
                &error,
            );
        }
    };
    let fits = config.check_buffer();
    let producer = Producer::start(config, &topic, deliver);
    let mut lines = lines_of_input();
    while let Some(line) = lines.recv().await {
        let record = match line
            .map_err(|error| Error::new("java.io.IOException", error.to_string()))
            .and_then(|line| reader.read(&line))
        {
            Ok(record) => record,
            Err(error) => {
                producer.close().await;
                return Err(error);
            }
        };
        if let Err(error) = fits {
            return Err(error);
        }
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(Vec::len);
        let receipt = (length(&record.key), length(&record.value));
        let Outgoing { key, value, headers, partition, timestamp, receipt: () } = record;
        producer.send(Outgoing { key, value, headers, partition, timestamp, receipt }).await?;
        if sync {
            producer.flush().await?;
            if let Ok(error) = failed.try_recv() {
                producer.close().await;
                return Err(error.in_execution());
            }
        }
    }
    producer.close().await;
    Ok(())
}

/// Lines of standard input, read by a thread of its own: reading blocks. `\n` and `\r\n` end a line.
fn lines_of_input() -> mpsc::Receiver<std::io::Result<Vec<u8>>> {
    let (lines, queue) = mpsc::channel(256);
    let prompt = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            if prompt {
                let mut out = std::io::stdout();
                // Nobody may be there to read it.
                let _ = out.write_all(b">").and_then(|()| out.flush());
            }
            let mut line = Vec::new();
            let read = input.read_until(b'\n', &mut line);
            let end = match &read {
                Ok(0) => break,
                Ok(_) => false,
                Err(_) => true,
            };
            if line.last() == Some(&b'\n') {
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
            }
            if lines.blocking_send(read.map(|_| line)).is_err() || end {
                break;
            }
        }
    });
    queue
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        Options::parse(OPTIONS, &line.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn options_become_settings() {
        let settings = settings(&options(
            "--topic t --bootstrap-server a:1 --command-property linger.ms=7 --command-property acks=1 --request-required-acks all --compression-codec",
        ))
        .unwrap();
        let of = |key: &str| settings.get(key).map(String::as_str);
        assert_eq!(of("linger.ms"), Some("7"));
        assert_eq!(of("acks"), Some("all"));
        assert_eq!(of("compression.type"), Some("gzip"));
        assert_eq!(of("request.timeout.ms"), Some("1500"));
    }

    #[test]
    fn old_names_still_have_their_meaning() {
        let options = options("--topic t --bootstrap-server a:1 --property parse.key=true --property key.separator==");
        let properties = reader_properties(&options).unwrap();
        assert_eq!(properties.get("key.separator").map(String::as_str), Some("="));
        assert_eq!(properties.get("parse.key").map(String::as_str), Some("true"));
    }

    #[test]
    fn values_may_be_missing() {
        let pairs = [("a", "b=c"), ("d", ""), ("e", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(key_values(&["a=b=c", "d=", "e"]), pairs.into());
    }
}
