//! `kafka-consumer-perf-test`: reads many records, and tells how fast they came.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::console_producer::key_values;
use super::options::{Kind, Options, Spec};
use super::topic_filter::subscription;
use super::{Stop, complain, conclude, say};
use crate::client::consumer::Subscription;
use crate::client::{Consumer, ConsumerConfig, Error, block_on, config};
use crate::clock::DateTime;

const ABOUT: &str = "This tool is used to verify the consumer performance.";
const POLL: Duration = Duration::from_millis(100);
const MIB: f64 = (1 << 20) as f64;

const OPTIONS: &[Spec] = &[
    Spec::with_argument("bootstrap-server", "server to connect to", "REQUIRED: The brokers to connect to first."),
    Spec::with_argument("topic", "topic", "The topic to read."),
    Spec::with_argument("include", "Java regex (String)", "A regular expression: the topics to read."),
    Spec::with_argument("group", "gid", "The group to be a member of; by default one of its own."),
    Spec::with_argument("fetch-size", "size", "Bytes that a fetch brings of one partition at most.")
        .of(Kind::Integer)
        .default(&["1048576"]),
    Spec::with_argument("command-property", "prop1=val1", "A setting of the consumer, key=value."),
    Spec::flag("from-latest", "Begin at the end, if the group has no offset yet."),
    Spec::with_argument("socket-buffer-size", "size", "Bytes of the socket's buffer.")
        .of(Kind::Integer)
        .default(&["2097152"]),
    Spec::with_argument("consumer.config", "config file", "(DEPRECATED) See --command-config."),
    Spec::with_argument("command-config", "config file", "A properties file with settings of the consumer."),
    Spec::flag("print-metrics", "Print the consumer's metrics at the end."),
    Spec::flag("show-detailed-stats", "Report each interval."),
    Spec::with_optional_argument("timeout", "milliseconds", "End when no record has come for so long.")
        .of(Kind::Long)
        .default(&["10000"]),
    Spec::with_argument("messages", "count", "(DEPRECATED) See --num-records.").of(Kind::Long),
    Spec::with_argument("num-records", "count", "REQUIRED: The number of records to read.").of(Kind::Long),
    Spec::with_argument("reporting-interval", "interval_ms", "Time between reports.").of(Kind::Long).default(&["5000"]),
    Spec::with_argument("date-format", "date format", "Of the times, as SimpleDateFormat takes it.")
        .default(&["yyyy-MM-dd HH:mm:ss:SSS"]),
    Spec::flag("hide-header", "No line with the names of the columns."),
];

pub fn run(words: &[String]) -> u8 {
    let ended = Options::parse_or_usage(OPTIONS, words).and_then(|options| {
        check(&options)?;
        let test = Test::new(&options)?;
        Ok(block_on(test.run())?)
    });
    conclude(ended, |error| complain!("{}\n{}", error.message(), error.trace()))
}

fn check(options: &Options) -> Result<(), Stop> {
    options.help_or_version(ABOUT)?;
    options.require(&["bootstrap-server"])?;
    options.one_of(&["topic", "include"])?;
    options.one_of(&["messages", "num-records"])?;
    options.exclude("consumer.config", &["command-config"])?;
    if options.has("messages") {
        say!("Warning: --messages is deprecated. Use --num-records instead.");
    }
    if options.has("consumer.config") {
        say!("Warning: --consumer.config is deprecated. Use --command-config instead.");
    }
    Ok(())
}

fn settings(options: &Options) -> Result<BTreeMap<String, String>, Error> {
    let file = if options.has("consumer.config") { "consumer.config" } else { "command-config" };
    let mut settings = config::read_properties_of(options.value(file)?)?;
    settings.extend(key_values(&options.values("command-property")));
    let group = match options.value("group")? {
        Some(group) => group.to_owned(),
        None => format!("perf-consumer-{}", rand::random_range(0..100_000)),
    };
    for (key, value) in [
        (config::BOOTSTRAP_SERVERS, options.text("bootstrap-server")?),
        ("group.id", &group),
        ("receive.buffer.bytes", options.text("socket-buffer-size")?),
        ("max.partition.fetch.bytes", options.text("fetch-size")?),
        ("auto.offset.reset", if options.has("from-latest") { "latest" } else { "earliest" }),
        ("check.crcs", "false"),
    ] {
        settings.insert(key.to_owned(), value.to_owned());
    }
    Ok(settings)
}

struct Test {
    config: ConsumerConfig,
    subscription: Subscription,
    records: i64,
    timeout: Duration,
    every: Duration,
    details: bool,
    metrics: bool,
    date_format: String,
}

impl Test {
    fn new(options: &Options) -> Result<Test, Error> {
        if !options.has("hide-header") {
            let first = if options.has("show-detailed-stats") { "time, threadId" } else { "start.time, end.time" };
            say!(
                "{first}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
            );
        }
        let records = options.long(if options.has("messages") { "messages" } else { "num-records" })?;
        let every = options.long("reporting-interval")?.unwrap_or_default();
        if every <= 0 {
            return Err(Error::illegal_argument("Reporting interval must be greater than 0."));
        }
        let subscription = subscription(options)?;
        let timeout = options.long("timeout")?.unwrap_or_default();
        Ok(Test {
            config: ConsumerConfig::new(settings(options)?, "perf-consumer-client")?,
            subscription,
            records: records.unwrap_or_default(),
            timeout: Duration::from_millis(u64::try_from(timeout).unwrap_or_default()),
            every: Duration::from_millis(every as u64),
            details: options.has("show-detailed-stats"),
            metrics: options.has("print-metrics"),
            date_format: options.text("date-format")?.to_owned(),
        })
    }

    async fn run(self) -> Result<(), Error> {
        let mut consumer = Consumer::subscribed(self.config.clone(), self.subscription.clone());
        let (begun, begun_at) = (DateTime::now(), Instant::now());
        let mut read = Read::default();
        let mut last = (Instant::now(), Read::default(), Duration::ZERO);
        let mut last_record = Instant::now();
        while read.records < self.records && last_record.elapsed() <= self.timeout {
            let records = consumer.poll(POLL).await?;
            if !records.is_empty() {
                last_record = Instant::now();
            }
            for record in records {
                read.records += 1;
                read.bytes += [record.key, record.value].iter().flatten().map(Vec::len).sum::<usize>() as u64;
            }
            if last.0.elapsed() >= self.every {
                if self.details {
                    let joining = consumer.joining() - last.2;
                    let time = self.date(DateTime::now());
                    say!("{time}, 0, {}", read.since(&last.1, last.0.elapsed(), joining, read));
                }
                last = (Instant::now(), read, consumer.joining());
            }
        }
        if read.records < self.records {
            say!(
                "WARNING: Exiting before consuming the expected number of records: timeout ({} ms) exceeded. You can use the --timeout option to increase the timeout.",
                self.timeout.as_millis()
            );
        }
        let (elapsed, joining) = (begun_at.elapsed(), consumer.joining());
        if !self.details {
            let line = read.since(&Read::default(), elapsed, joining, read);
            say!("{}, {}, {line}", self.date(begun), self.date(DateTime::now()));
        }
        if self.metrics {
            say!("\n{:<60} Value", "Metric Name");
            let name = "consumer-fetch-manager-metrics:records-consumed-total:{client-id=perf-consumer-client}";
            say!("{name:<60} : {:.3}", read.records as f64);
        }
        consumer.close().await;
        Ok(())
    }

    /// A time as the pattern has it: runs of `y`, `M`, `d`, `H`, `m`, `s`, `S`, texts in quotes, and whatever else stands there.
    fn date(&self, at: DateTime) -> String {
        let fields = [at.year, at.month, at.day, at.hour, at.minute, at.second, at.ms];
        let (mut text, mut rest, mut quoted) = (String::new(), self.date_format.as_str(), false);
        while let Some(letter) = rest.chars().next() {
            if let Some(behind) = rest.strip_prefix("''") {
                text.push('\'');
                rest = behind;
                continue;
            }
            if letter == '\'' {
                quoted = !quoted;
                rest = &rest[1..];
                continue;
            }
            if quoted {
                text.push(letter);
                rest = &rest[letter.len_utf8()..];
                continue;
            }
            let length = rest.find(|other| other != letter).unwrap_or(rest.len());
            match "yMdHmsS".find(letter) {
                Some(0) if length == 2 => text.push_str(&format!("{:02}", fields[0] % 100)),
                Some(field) => text.push_str(&format!("{:0length$}", fields[field])),
                None => text.push_str(&rest[..length]),
            }
            rest = &rest[length..];
        }
        text
    }
}

/// What was read so far.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    records: i64,
    bytes: u64,
}

impl Read {
    /// The columns from `data.consumed.in.MB` on, with rates since `before`.
    fn since(&self, before: &Read, elapsed: Duration, joining: Duration, total: Read) -> String {
        let mb = (self.bytes - before.bytes) as f64 / MIB;
        let records = (self.records - before.records) as f64;
        let fetching = elapsed.saturating_sub(joining);
        let rate = |amount: f64, time: Duration| if time.is_zero() { 0.0 } else { amount / time.as_secs_f64() };
        format!(
            "{:.4}, {:.4}, {}, {:.4}, {}, {}, {:.4}, {:.4}",
            total.bytes as f64 / MIB,
            rate(mb, elapsed),
            total.records,
            rate(records, elapsed),
            joining.as_millis(),
            fetching.as_millis(),
            rate(mb, fetching),
            rate(records, fetching),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        Options::parse(OPTIONS, &line.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn options_become_settings() {
        let options = options(
            "--topic t --bootstrap-server a:1 --num-records 5 --from-latest --command-property group.id=x --group g",
        );
        let settings = settings(&options).unwrap();
        assert_eq!((settings["group.id"].as_str(), settings["auto.offset.reset"].as_str()), ("g", "latest"));
        let test = Test::new(&options).unwrap();
        assert_eq!((test.records, test.timeout, test.every), (5, Duration::from_secs(10), Duration::from_secs(5)));
    }

    #[test]
    fn times_follow_the_pattern() {
        let mut test = Test::new(&options("--topic t --bootstrap-server a:1 --num-records 5")).unwrap();
        let at = DateTime::utc(951_782_400_007);
        assert_eq!(test.date(at), "2000-02-29 00:00:00:007");
        test.date_format = "yy 'o''clock' H".to_owned();
        assert_eq!(test.date(at), "00 o'clock 0");
    }

    #[test]
    fn columns_are_kafkas() {
        let read = Read { records: 20_000, bytes: 4 << 20 };
        let line = read.since(&Read::default(), Duration::from_secs(4), Duration::from_secs(2), read);
        assert_eq!(line, "4.0000, 1.0000, 20000, 5000.0000, 2000, 2000, 2.0000, 10000.0000");
    }
}
