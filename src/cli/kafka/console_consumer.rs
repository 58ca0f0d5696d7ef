//! `kafka-console-consumer`: records become lines on standard output.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use super::console::signaled;
use super::console_producer::key_values;
use super::message_formatter::{self, Formatter};
use super::options::{Kind, Options, Spec};
use super::topic_filter::subscription;
use super::{Stop, complain, conclude, say, uncaught, uncaught_in_main};
use crate::client::consumer::{EARLIEST, GroupProtocol, LATEST, Subscription};
use crate::client::log::{self, Level};
use crate::client::{Consumed, Consumer, ConsumerConfig, Error, block_on, config};
use crate::config::java;
use crate::types::TopicPartition;

const ABOUT: &str = "This tool helps to read data from Kafka topics and outputs it to standard output.";
const LOGGER: &str = "org.apache.kafka.tools.consumer.ConsoleConsumer";
const FORMATTER_PROPERTIES: &str = "What is printed, key=value:\nprint.timestamp=true|false\nprint.key=true|false\nprint.offset=true|false\nprint.epoch=true|false\nprint.partition=true|false\nprint.headers=true|false\nprint.value=true|false\nkey.separator=<key.separator>\nline.separator=<line.separator>\nheaders.separator=<headers.separator>\nnull.literal=<null.literal>\nkey.deserializer=<key.deserializer>\nvalue.deserializer=<value.deserializer>\nheaders.deserializer=<headers.deserializer>";

const OPTIONS: &[Spec] = &[
    Spec::with_argument("topic", "topic", "The topic to read."),
    Spec::with_argument("include", "Java regex (String)", "A regular expression: the topics to read."),
    Spec::with_argument("partition", "partition", "The partition to read, from its end if there is no --offset.")
        .of(Kind::Integer),
    Spec::with_argument("offset", "consume offset", "Where to begin: a number, earliest, or latest.")
        .default(&["latest"]),
    Spec::with_argument("consumer-property", "consumer_prop", "(DEPRECATED) See --command-property."),
    Spec::with_argument("command-property", "consumer_prop", "A setting of the consumer, key=value."),
    Spec::with_argument("consumer.config", "config file", "(DEPRECATED) See --command-config."),
    Spec::with_argument(
        "command-config",
        "config file",
        "A properties file with settings of the consumer. --command-property takes precedence.",
    ),
    Spec::with_argument("formatter", "class", "What makes text of records.").default(&[message_formatter::DEFAULT]),
    Spec::with_argument("property", "prop", "(DEPRECATED) See --formatter-property."),
    Spec::with_argument("formatter-property", "prop", FORMATTER_PROPERTIES),
    Spec::with_argument(
        "formatter-config",
        "config file",
        "A file of those properties. --formatter-property takes precedence.",
    ),
    Spec::flag("from-beginning", "Begin with the oldest record there is, if the group has no offset yet."),
    Spec::with_argument("max-messages", "num_messages", "End after so many records.").of(Kind::Integer),
    Spec::with_argument("timeout-ms", "timeout_ms", "End when no record has come for so long.").of(Kind::Long),
    Spec::flag("skip-message-on-error", "Go on after a record that cannot be printed."),
    Spec::with_argument("bootstrap-server", "server to connect to", "REQUIRED: The brokers to connect to first."),
    Spec::with_argument("key-deserializer", "deserializer for keys", "The class that reads keys."),
    Spec::with_argument("value-deserializer", "deserializer for values", "The class that reads values."),
    Spec::flag("enable-systest-events", "Tell of the consumer's end on standard output."),
    Spec::with_argument("isolation-level", "", "read_committed leaves out what was not committed.")
        .default(&["read_uncommitted"]),
    Spec::with_argument("group", "consumer group id", "The group to be a member of."),
];

/// Options by their old and their new name.
const RENAMED: [(&str, &str); 2] = [("consumer-property", "command-property"), ("consumer.config", "command-config")];

pub fn run(words: &[String]) -> u8 {
    let options = match Options::parse_or_usage(OPTIONS, words) {
        Ok(options) => options,
        Err(stop) => return conclude(Err(stop), uncaught),
    };
    let prepared = check(&options).and_then(|()| {
        let start_at = numbers(&options)?;
        let settings = settings(&options)?;
        Ok((start_at, settings, formatter(&options)?))
    });
    let (offset, settings, formatter) = match prepared {
        Ok(prepared) => prepared,
        Err(Stop::Failed(error)) => return uncaught_in_main(&error),
        Err(stop) => return conclude(Err(stop), uncaught),
    };
    let prepared = ConsumerConfig::new(settings, "console-consumer").and_then(|config| {
        recommend_next_protocol(&options, &config);
        Ok(Task {
            start: start(&options, offset)?,
            formatter,
            limit: limit(&options)?,
            timeout: options.long("timeout-ms")?.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis),
            skip_errors: options.has("skip-message-on-error"),
            events: options.has("enable-systest-events"),
            config,
        })
    });
    match prepared {
        Ok(task) => block_on(consume(task)),
        Err(error) => {
            unknown_error(&error);
            1
        }
    }
}

fn unknown_error(error: &Error) {
    log::write_failure(Level::Error, LOGGER, "Unknown error when running consumer: ", error);
}

/// Kafka's tool finds out about the numbers at several times: about this one when it reads records.
fn limit(options: &Options) -> Result<Option<i32>, Error> {
    let limit = options.integer("max-messages");
    if limit.is_err() {
        complain!("Processed a total of 0 messages");
    }
    Ok(limit?.filter(|&limit| limit != -1))
}

fn recommend_next_protocol(options: &Options, config: &ConsumerConfig) {
    if !options.has("partition") && config.group_protocol == GroupProtocol::Classic {
        complain!(
            "The consumer rebalance protocol (KIP-848) is production-ready! Set group.protocol=consumer to try it out. See https://kafka.apache.org/documentation/#consumer_rebalance_protocol"
        );
    }
}

fn check(options: &Options) -> Result<(), Stop> {
    options.help_or_version(ABOUT)?;
    options.one_of(&["topic", "include"])?;
    if options.has("partition") {
        if !options.has("topic") {
            return Err(options.usage("The topic is required when partition is specified."));
        }
        if options.has("from-beginning") && options.has("offset") {
            return Err(options.usage("Options from-beginning and offset cannot be specified together."));
        }
    } else if options.has("offset") {
        return Err(options.usage("The partition is required when offset is specified."));
    }
    options.require(&["bootstrap-server"])?;
    for (old, new) in RENAMED {
        if options.has(old) && options.has(new) {
            return Err(options.usage(format!("Options --{old} and --{new} cannot be specified together.")));
        }
    }
    for (old, new) in RENAMED {
        if options.has(old) {
            say!("Option --{old} is deprecated and will be removed in a future version. Use --{new} instead.");
        }
    }
    Ok(())
}

fn settings(options: &Options) -> Result<BTreeMap<String, String>, Stop> {
    let file = config::read_properties_of(options.renamed_values(&RENAMED, "command-config").last().copied())?;
    let given = key_values(&options.renamed_values(&RENAMED, "command-property"));
    let group = options.value("group")?.map(str::to_owned);
    let groups: BTreeSet<&String> = group.iter().chain(file.get("group.id")).chain(given.get("group.id")).collect();
    if groups.len() > 1 {
        let mut groups: Vec<&str> = groups.iter().map(|group| group.as_str()).collect();
        java::in_hash_order(&mut groups);
        let named: Vec<String> = groups.iter().map(|group| format!("'{group}'")).collect();
        return Err(options.usage(format!(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via '--consumer.config') do not match. Detected group ids: {}",
            named.join(", ")
        )));
    }
    let group = groups.first().map(|group| (*group).clone());
    if group.is_some() && options.has("partition") {
        return Err(options.usage("Options group and partition cannot be specified together."));
    }
    let mut settings = file;
    settings.extend(given);
    let set = |settings: &mut BTreeMap<String, String>, key: &str, value: &str| {
        settings.insert(key.to_owned(), value.to_owned());
    };
    let reset = "auto.offset.reset";
    match settings.get(reset) {
        Some(given) if options.has("from-beginning") && given != "earliest" => {
            let message = format!(
                "Can't simultaneously specify --from-beginning and '{reset}={given}', please remove one option"
            );
            return Err(Stop::Usage { message, usage: String::new() });
        }
        Some(_) => {}
        None => set(&mut settings, reset, if options.has("from-beginning") { "earliest" } else { "latest" }),
    }
    set(&mut settings, config::BOOTSTRAP_SERVERS, options.text("bootstrap-server")?);
    if options.has("isolation-level") || !settings.contains_key("isolation.level") {
        set(&mut settings, "isolation.level", options.text("isolation-level")?);
    }
    match group {
        Some(group) => set(&mut settings, "group.id", &group),
        None => {
            set(&mut settings, "group.id", &format!("console-consumer-{}", rand::random_range(0..100_000)));
            // Nobody will ever ask for its offsets.
            settings.entry("enable.auto.commit".to_owned()).or_insert_with(|| "false".to_owned());
        }
    }
    Ok(settings)
}

fn formatter(options: &Options) -> Result<Formatter, Stop> {
    let (old, new) = ("property", "formatter-property");
    if options.has(old) && options.has(new) {
        return Err(options.usage("Options --property and --formatter-property cannot be specified together."));
    }
    if options.has(old) {
        say!(
            "Option --property is deprecated and will be removed in a future version. Use --formatter-property instead."
        );
    }
    let mut properties = config::read_properties_of(options.value("formatter-config")?)
        .map_err(|error| options.usage(error.message()))?;
    for (option, key) in [("key-deserializer", "key.deserializer"), ("value-deserializer", "value.deserializer")] {
        if let Some(class) = options.value(option)?.filter(|class| !class.is_empty()) {
            properties.insert(key.to_owned(), class.to_owned());
        }
    }
    properties.extend(key_values(&options.values(if options.has(old) { old } else { new })));
    Formatter::of_class(options.text("formatter")?, &properties).map_err(|error| options.usage(error.message()))
}

/// What is read, and from where.
enum Start {
    Partition(String, i32, i64),
    Subscription(Subscription),
}

/// What the tool looks at first: the partition and its offset, and the time-out.
fn numbers(options: &Options) -> Result<Option<(i32, i64)>, Stop> {
    options.long("timeout-ms")?;
    if let Some(partition) = options.integer("partition")? {
        let offset = match options.text("offset")? {
            _ if !options.has("offset") && options.has("from-beginning") => EARLIEST,
            text if text.eq_ignore_ascii_case("earliest") => EARLIEST,
            text if text.eq_ignore_ascii_case("latest") => LATEST,
            text => match text.parse::<i64>() {
                Ok(offset) if offset >= 0 => offset,
                _ => {
                    return Err(options.usage(format!(
                        "The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long."
                    )));
                }
            },
        };
        return Ok(Some((partition, offset)));
    }
    Ok(None)
}

fn start(options: &Options, offset: Option<(i32, i64)>) -> Result<Start, Error> {
    if let Some((partition, offset)) = offset {
        return Ok(Start::Partition(options.text("topic")?.to_owned(), partition, offset));
    }
    Ok(Start::Subscription(subscription(options)?))
}

struct Task {
    config: ConsumerConfig,
    start: Start,
    formatter: Formatter,
    /// How many records; `None` for as many as come.
    limit: Option<i32>,
    timeout: Option<Duration>,
    skip_errors: bool,
    events: bool,
}

async fn consume(task: Task) -> u8 {
    let mut consumer = match task.start {
        Start::Partition(topic, partition, offset) => {
            Consumer::assigned(task.config, [(TopicPartition::new(topic.as_str(), partition), offset)])
        }
        Start::Subscription(subscription) => Consumer::subscribed(task.config, subscription),
    };
    let mut printed =
        Printed { formatter: task.formatter, skip_errors: task.skip_errors, limit: task.limit, count: 0, failed: None };
    let code = tokio::select! {
        code = print_all(&mut consumer, &mut printed, task.timeout) => code,
        code = signaled() => code,
    };
    consumer.close().await;
    complain!("Processed a total of {} messages", printed.count);
    if let Some(error) = &printed.failed {
        unknown_error(error);
    }
    if task.events {
        say!("shutdown_complete");
    }
    code
}

struct Printed {
    formatter: Formatter,
    skip_errors: bool,
    limit: Option<i32>,
    count: i32,
    /// Why a record could not be printed, if that ends the tool.
    failed: Option<Error>,
}

impl Printed {
    fn is_enough(&self) -> bool {
        self.limit.is_some_and(|limit| self.count >= limit)
    }

    /// Prints records until there are enough; the code to end with, if this is the end.
    fn print(&mut self, consumer: &Consumer, records: Vec<Consumed>) -> Option<u8> {
        let mut out = Vec::new();
        let mut records = records.into_iter();
        let mut failed = None;
        while !self.is_enough()
            && failed.is_none()
            && let Some(record) = records.next()
        {
            self.count = self.count.wrapping_add(1);
            if let Err(error) = self.formatter.write(&record, &mut out) {
                if self.skip_errors {
                    let message = "Error processing message, skipping this message: ";
                    log::write_failure(Level::Error, LOGGER, message, &error);
                } else {
                    failed = Some(error);
                }
            }
        }
        // What was fetched and not printed is not to be committed.
        consumer.put_back(records);
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(&out).and_then(|()| stdout.flush());
        if failed.is_some() {
            self.failed = failed;
            return Some(1);
        }
        if written.is_err() {
            complain!("Unable to write to standard out, closing consumer.");
            return Some(0);
        }
        self.is_enough().then_some(0)
    }
}

async fn print_all(consumer: &mut Consumer, printed: &mut Printed, timeout: Option<Duration>) -> u8 {
    if printed.is_enough() {
        return 0;
    }
    let mut last = Instant::now();
    loop {
        let polled = consumer.poll(timeout.unwrap_or(Duration::MAX)).await;
        let error = match polled {
            Ok(records) if !records.is_empty() => {
                if let Some(code) = printed.print(consumer, records) {
                    return code;
                }
                last = Instant::now();
                continue;
            }
            Ok(_) if timeout.is_some_and(|timeout| last.elapsed() >= timeout) => Error::timeout("").bare(),
            Ok(_) => continue,
            Err(error) => error,
        };
        let message = "Error processing message, terminating consumer process: ";
        log::write_failure(Level::Error, LOGGER, message, &error);
        return 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        Options::parse(OPTIONS, &line.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    fn complaint<T>(outcome: Result<T, Stop>) -> String {
        match outcome {
            Err(Stop::Usage { message, .. }) => message,
            Err(other) => panic!("{other:?}"),
            Ok(_) => String::new(),
        }
    }

    #[test]
    fn options_become_settings() {
        let of = |line: &str| settings(&options(&format!("--topic t --bootstrap-server a:1 {line}"))).unwrap();
        let with_group = of("--group g --from-beginning --consumer-property isolation.level=read_committed");
        assert_eq!(with_group["auto.offset.reset"], "earliest");
        assert_eq!(with_group["group.id"], "g");
        assert_eq!(with_group["isolation.level"], "read_committed");
        assert!(!with_group.contains_key("enable.auto.commit"));
        let without = of("--isolation-level read_committed");
        assert_eq!(
            (without["auto.offset.reset"].as_str(), without["enable.auto.commit"].as_str()),
            ("latest", "false")
        );
        assert!(without["group.id"].starts_with("console-consumer-"));
    }

    #[test]
    fn what_does_not_go_together() {
        let checked = |line: &str| complaint(check(&options(line)));
        assert!(checked("--bootstrap-server a:1").starts_with("Exactly one of the following arguments is required"));
        assert_eq!(checked("--include t --partition 1"), "The topic is required when partition is specified.");
        assert_eq!(checked("--topic t --offset 1"), "The partition is required when offset is specified.");
        assert_eq!(checked("--topic t"), "Missing required argument \"[bootstrap-server]\"");
        let groups = settings(&options("--topic t --bootstrap-server a:1 --group g --command-property group.id=h"));
        assert!(complaint(groups).ends_with("Detected group ids: 'g', 'h'"));
        let offset = numbers(&options("--topic t --partition 0 --offset -4"));
        assert!(complaint(offset).starts_with("The provided offset value '-4' is incorrect."));
    }

    #[test]
    fn where_to_begin() {
        let of = |line: &str| numbers(&options(&format!("--topic t {line}"))).unwrap();
        assert_eq!(of("--partition 2"), Some((2, LATEST)));
        assert_eq!(of("--partition 2 --from-beginning"), Some((2, EARLIEST)));
        assert_eq!(of("--partition 2 --offset 17"), Some((2, 17)));
        assert_eq!(of(""), None);
    }
}
