//! `kafka-producer-perf-test`: many records, and how fast they were acknowledged.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::argparse::{Argument, Arguments, Exclusive, Grammar, Kind};
use super::console_producer::key_values;
use super::{complain, say, uncaught_in_main};
use crate::client::{Error, Outgoing, Position, Producer, ProducerConfig, block_on, config};

const NAME: &str = "kafka-producer-perf-test";
const PAIR: &str = "PROP-NAME=PROP-VALUE";
/// Kafka keeps so many latencies for the percentiles, of more records every so many-th.
const SAMPLES: u64 = 500_000;
const TRANSACTIONAL_ID_PREFIX: &str = "performance-producer-";
const DEFAULT_TRANSACTION_MS: u64 = 3000;

static GRAMMAR: Grammar = Grammar {
    program: NAME,
    about: "This tool is used to verify the producer performance. Transactions are used if there is a transactional id, by an option or a setting, or --transaction-duration-ms.",
    arguments: &[
        Argument::new(
            &["--bootstrap-server"],
            "The brokers to connect to first. Takes precedence over bootstrap.servers elsewhere.",
        )
        .metavar("BOOTSTRAP-SERVER"),
        Argument::new(&["--topic"], "Produce records to this topic.").required(),
        Argument::new(&["--num-records"], "Number of records to produce.")
            .metavar("NUM-RECORDS")
            .of(Kind::Long)
            .required(),
        Argument::new(&["--payload-delimiter"], "What stands between the parts of the payload file.")
            .metavar("PAYLOAD-DELIMITER")
            .default("\\n"),
        Argument::new(&["--throughput"], "Records in a second, approximately; -1 for as many as go.")
            .of(Kind::Double)
            .required(),
        Argument::new(&["--producer-props"], "(DEPRECATED) See --command-property.").many().metavar(PAIR),
        Argument::new(&["--command-property"], "Settings of the producer.").many().metavar(PAIR),
        Argument::new(&["--producer.config"], "(DEPRECATED) See --command-config.").metavar("CONFIG-FILE"),
        Argument::new(&["--command-config"], "A properties file with settings of the producer.").metavar("CONFIG-FILE"),
        Argument::flag(&["--print-metrics"], "Print the producer's metrics at the end."),
        Argument::new(&["--transactional-id"], "The transactional id.").metavar("TRANSACTIONAL-ID"),
        Argument::new(&["--transaction-duration-ms"], "How long a transaction lasts at most.")
            .of(Kind::Long)
            .metavar("TRANSACTION-DURATION"),
        Argument::new(&["--warmup-records"], "So many records at first do not count for the second summary.")
            .metavar("WARMUP-RECORDS")
            .of(Kind::Long)
            .default("0"),
        Argument::new(&["--reporting-interval"], "Time between reports, in ms.")
            .of(Kind::Long)
            .default("5000")
            .metavar("INTERVAL-MS"),
        Argument::new(&["--record-size"], "Bytes of a record.").metavar("RECORD-SIZE").of(Kind::Integer),
        Argument::new(&["--payload-file"], "UTF-8 text; each record is a part of it, chosen at random.")
            .metavar("PAYLOAD-FILE"),
        Argument::flag(&["--payload-monotonic"], "Records are numbers that count up."),
    ],
    exclusive: &[Exclusive { required: true, names: &["record-size", "payload-file", "payload-monotonic"] }],
    commands: &[],
    ..Grammar::EMPTY
};

pub fn run(words: &[String]) -> u8 {
    let parsed = Arguments::parse_or_help(&GRAMMAR, words).and_then(|arguments| match wrong(&arguments) {
        Some(message) => Err(arguments.fault(message)),
        None => Ok(arguments),
    });
    let arguments = match parsed {
        Ok(arguments) => arguments,
        // Kafka's tool ends well after help only where there was nothing to read.
        Err(end) => return end.report(u8::from(!words.is_empty())),
    };
    match load(&arguments).and_then(|load| block_on(produce(load))) {
        Ok(()) => 0,
        Err(error) => uncaught_in_main(&error),
    }
}

/// What makes no sense, in Kafka's words.
fn wrong(arguments: &Arguments) -> Option<&'static str> {
    let long = |name: &str| arguments.long(name);
    let (records, warm_up) = (long("num-records").unwrap_or(0), long("warmup-records").unwrap_or(0));
    let has = |name: &str| arguments.has(name);
    let settings = ["bootstrap-server", "command-property", "producer-props", "producer.config", "command-config"];
    let checks = [
        (records <= 0, "--num-records should be greater than zero."),
        (
            warm_up.max(0) >= records,
            "The value for --warmup-records must be strictly fewer than the number of records in the test, --num-records.",
        ),
        (arguments.integer("record-size").is_some_and(|size| size <= 0), "--record-size should be greater than zero."),
        (
            !settings.into_iter().any(has),
            "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or --command-config must be specified.",
        ),
        (
            has("command-property") && has("producer-props"),
            "--command-property and --producer-props cannot be specified together.",
        ),
        (
            has("command-config") && has("producer.config"),
            "--command-config and --producer.config cannot be specified together.",
        ),
        (
            long("transaction-duration-ms").is_some_and(|ms| ms <= 0),
            "--transaction-duration-ms should be greater than zero.",
        ),
        (long("reporting-interval").is_some_and(|ms| ms <= 0), "--reporting-interval should be greater than zero."),
    ];
    checks.into_iter().find(|(wrong, _)| *wrong).map(|(_, message)| message)
}

fn load(arguments: &Arguments) -> Result<Load, Error> {
    let payloads = match arguments.value("payload-file") {
        Some(path) => read_payloads(Path::new(path), arguments.value("payload-delimiter").unwrap_or("\n"))?,
        None => Vec::new(),
    };
    for (old, new) in [("producer-props", "command-property"), ("producer.config", "command-config")] {
        if arguments.has(old) {
            say!("Option --{old} has been deprecated and will be removed in a future version. Use --{new} instead.");
        }
    }
    let mut settings =
        config::read_properties_of(arguments.value("command-config").or(arguments.value("producer.config")))?;
    for pair in [arguments.values("command-property"), arguments.values("producer-props")].concat() {
        if pair.trim_end_matches('=').split('=').count() != 2 {
            return Err(Error::illegal_argument(format!("Invalid property: {pair}")));
        }
        settings.extend(key_values(&[pair]));
    }
    if let Some(servers) = arguments.value("bootstrap-server") {
        settings.insert(config::BOOTSTRAP_SERVERS.to_owned(), servers.to_owned());
    }
    let key = "transactional.id";
    let transactional =
        arguments.has("transaction-duration-ms") || arguments.has("transactional-id") || settings.contains_key(key);
    if transactional {
        let id = arguments.value("transactional-id").map(str::to_owned).or_else(|| settings.get(key).cloned());
        let id = id.unwrap_or_else(|| format!("{TRANSACTIONAL_ID_PREFIX}{}", uuid::Uuid::new_v4()));
        settings.insert(key.to_owned(), id);
    }
    let ms = |name: &str, default: u64| arguments.long(name).map_or(default, |ms| ms.max(0) as u64);
    Ok(Load {
        config: ProducerConfig::new(settings, "perf-producer-client")?,
        topic: arguments.value("topic").unwrap_or_default().to_owned(),
        records: ms("num-records", 0),
        warm_up: ms("warmup-records", 0),
        payload: match arguments.integer("record-size") {
            _ if !payloads.is_empty() => Payload::OneOf(payloads),
            Some(size) => Payload::Random(size as usize),
            None => Payload::Numbers,
        },
        throughput: arguments.double("throughput").unwrap_or(-1.0),
        transaction: transactional
            .then(|| Duration::from_millis(ms("transaction-duration-ms", DEFAULT_TRANSACTION_MS))),
        report_every: Duration::from_millis(ms("reporting-interval", 5000)),
        metrics: arguments.has("print-metrics"),
    })
}

fn read_payloads(path: &Path, delimiter: &str) -> Result<Vec<Vec<u8>>, Error> {
    let shown = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    say!("Reading payloads from: {}", shown.display());
    let text = std::fs::read(path).unwrap_or_default();
    if text.is_empty() {
        return Err(Error::illegal_argument("File does not exist or empty file provided."));
    }
    let delimiter = if delimiter == "\\n" { "\n" } else { delimiter };
    // Java's Scanner takes it as an expression, and sees no empty part at the end.
    let expression = regex::Regex::new(delimiter)
        .map_err(|error| Error::new("java.util.regex.PatternSyntaxException", error.to_string()))?;
    let text = String::from_utf8_lossy(&text);
    let mut parts: Vec<Vec<u8>> = expression.split(&text).map(|part| part.as_bytes().to_vec()).collect();
    if parts.last().is_some_and(Vec::is_empty) {
        parts.pop();
    }
    // Nor one at the beginning.
    if parts.first().is_some_and(Vec::is_empty) {
        parts.remove(0);
    }
    say!("Number of records read: {}", parts.len());
    Ok(parts)
}

struct Load {
    config: ProducerConfig,
    topic: String,
    records: u64,
    warm_up: u64,
    payload: Payload,
    /// Records in a second; no limit below 0.
    throughput: f64,
    transaction: Option<Duration>,
    report_every: Duration,
    metrics: bool,
}

enum Payload {
    Random(usize),
    OneOf(Vec<Vec<u8>>),
    Numbers,
}

impl Payload {
    fn next(&self, number: u64) -> Vec<u8> {
        match self {
            Payload::Random(size) => (0..*size).map(|_| rand::random_range(b'A'..=b'Z')).collect(),
            Payload::OneOf(parts) => parts[rand::random_range(0..parts.len())].clone(),
            Payload::Numbers => number.to_string().into_bytes(),
        }
    }
}

/// When a record was sent, how large it is, and whether it counts for the steady state.
type Receipt = (Instant, usize, bool);

async fn produce(load: Load) -> Result<(), Error> {
    let steady_records = load.records - load.warm_up;
    if load.warm_up > 0 {
        say!("Warmup first {} records. Steady state results will print after the complete test summary.", load.warm_up);
    }
    let all = Arc::new(Mutex::new(Stats::new(load.records, load.report_every, false)));
    let steady = Arc::new(Mutex::new(None::<Stats>));
    let deliver = {
        let (all, steady) = (all.clone(), steady.clone());
        move |(sent, size, is_steady): Receipt, outcome: Result<Position, Error>| match outcome {
            Ok(_) => {
                let latency = sent.elapsed().as_millis() as u32;
                all.lock().record(latency, size);
                if let Some(steady) = steady.lock().as_mut().filter(|_| is_steady) {
                    steady.record(latency, size);
                }
            }
            Err(error) => complain!("{}", error.trace()),
        }
    };
    let producer = Producer::start(load.config, &load.topic, deliver);
    if load.transaction.is_some() {
        producer.init_transactions().await?;
    }
    let begun = Instant::now();
    let mut transaction_begun = None;
    for number in 0..load.records {
        let value = load.payload.next(number);
        let now = Instant::now();
        if load.warm_up > 0 && number == load.warm_up {
            *steady.lock() = Some(Stats::new(steady_records, load.report_every, true));
            all.lock().quiet = true;
        }
        transaction_begun.get_or_insert(now);
        let is_steady = load.warm_up > 0 && number >= load.warm_up;
        let receipt = (now, value.len(), is_steady);
        let record =
            Outgoing { key: None, value: Some(value), headers: Vec::new(), partition: None, timestamp: None, receipt };
        producer.send(record).await?;
        if let (Some(length), Some(since)) = (load.transaction, transaction_begun)
            && now - since >= length
        {
            producer.commit_transaction().await?;
            transaction_begun = None;
        }
        keep_pace(begun, number + 1, load.throughput).await;
    }
    if load.transaction.is_some() && transaction_begun.is_some() {
        producer.commit_transaction().await?;
    }
    producer.close().await;
    say!("{}", all.lock().total());
    if let Some(steady) = steady.lock().as_mut() {
        say!("{}", steady.total());
    }
    if load.metrics {
        print_metrics(&all.lock());
    }
    Ok(())
}

/// Waits until so many records are due, so many in a second; not at all with a negative `throughput`.
pub async fn keep_pace(begun: Instant, sent: u64, throughput: f64) {
    if throughput < 0.0 {
        return;
    }
    let due = Duration::try_from_secs_f64(sent as f64 / throughput).unwrap_or(Duration::MAX);
    if due > begun.elapsed() {
        tokio::time::sleep(due - begun.elapsed()).await;
    }
}

/// Of the producer's metrics those that this one keeps.
fn print_metrics(stats: &Stats) {
    say!("\n{:<60} Value", "Metric Name");
    say!("{:<60} : {:.3}", "producer-metrics:record-send-total:{client-id=perf-producer-client}", stats.count as f64);
}

/// Latencies in ms, all of them and those since the last report.
struct Stats {
    begun: Instant,
    every: Duration,
    samples: Vec<u32>,
    sampling: u64,
    count: u64,
    bytes: u64,
    latency: u64,
    max_latency: u32,
    window: Window,
    steady: bool,
    quiet: bool,
}

struct Window {
    begun: Instant,
    count: u64,
    bytes: u64,
    latency: u64,
    max_latency: u32,
}

impl Window {
    fn new() -> Window {
        Window { begun: Instant::now(), count: 0, bytes: 0, latency: 0, max_latency: 0 }
    }
}

const MIB: f64 = (1 << 20) as f64;

impl Stats {
    fn new(records: u64, every: Duration, steady: bool) -> Stats {
        Stats {
            begun: Instant::now(),
            every,
            samples: Vec::new(),
            sampling: records / records.min(SAMPLES),
            count: 0,
            bytes: 0,
            latency: 0,
            max_latency: 0,
            window: Window::new(),
            steady,
            quiet: false,
        }
    }

    fn record(&mut self, latency: u32, bytes: usize) {
        if self.count.is_multiple_of(self.sampling) {
            self.samples.push(latency);
        }
        self.count += 1;
        self.bytes += bytes as u64;
        self.latency += u64::from(latency);
        self.max_latency = self.max_latency.max(latency);
        let window = &mut self.window;
        window.count += 1;
        window.bytes += bytes as u64;
        window.latency += u64::from(latency);
        window.max_latency = window.max_latency.max(latency);
        if window.begun.elapsed() >= self.every {
            if self.steady && self.count == self.window.count {
                say!("In steady state.");
            }
            if !self.quiet {
                say!("{}", self.report());
            }
            self.window = Window::new();
        }
    }

    fn report(&self) -> String {
        let window = &self.window;
        let seconds = window.begun.elapsed().as_secs_f64();
        format!(
            "{} records sent, {:.1} records/sec ({:.2} MB/sec), {:.1} ms avg latency, {:.1} ms max latency.",
            window.count,
            window.count as f64 / seconds,
            window.bytes as f64 / seconds / MIB,
            window.latency as f64 / window.count as f64,
            f64::from(window.max_latency),
        )
    }

    fn total(&mut self) -> String {
        let seconds = self.begun.elapsed().as_secs_f64();
        self.samples.sort_unstable();
        let at = |part: f64| self.samples.get((part * self.samples.len() as f64) as usize).copied().unwrap_or(0);
        format!(
            "{}{} records sent, {:.6} records/sec ({:.2} MB/sec), {:.2} ms avg latency, {:.2} ms max latency, {} ms 50th, {} ms 95th, {} ms 99th, {} ms 99.9th.",
            self.count,
            if self.steady { " steady state" } else { "" },
            self.count as f64 / seconds,
            self.bytes as f64 / seconds / MIB,
            self.latency as f64 / self.count as f64,
            f64::from(self.max_latency),
            at(0.5),
            at(0.95),
            at(0.99),
            at(0.999),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Arguments::parse(&GRAMMAR, &words).map_err(|end| end.message().to_owned())
    }

    #[test]
    fn kafkas_arguments() {
        let found = parse(
            "--topic t --num-records 5 --record-size 3 --throughput -1 --command-property acks=all linger.ms=0 --transactional-id x --bootstrap-server a:1",
        )
        .unwrap();
        assert_eq!(wrong(&found), None);
        let load = load(&found).unwrap();
        assert_eq!((load.records, load.throughput, load.transaction), (5, -1.0, Some(Duration::from_secs(3))));
        assert_eq!(load.config.linger, Duration::ZERO);
        assert_eq!(load.config.transactional_id.as_deref(), Some("x"));
        assert!(parse("--topic t --num-records 5 --record-size 3 --payload-monotonic --throughput 1").is_err());
        assert_eq!(parse("--topic x --num-records 5").unwrap_err(), "argument --throughput is required");
        let with =
            |throughput: &str| parse(&format!("--topic x --num-records 5 --record-size 3 --throughput {throughput}"));
        assert_eq!(with("1f").unwrap().double("throughput"), Some(1.0));
        // A word that begins with a dash is a value only if nothing but digits follows.
        for wrong in ["inf", "-inf", "-1.5", "-.5"] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mistakes_are_told_in_kafkas_words() {
        let of = |line: &str| wrong(&parse(&format!("--topic t --record-size 3 --throughput -1 {line}")).unwrap());
        assert_eq!(of("--num-records -5"), Some("--num-records should be greater than zero."));
        assert!(of("--num-records 5").unwrap().starts_with("At least one of --bootstrap-server"));
    }

    #[test]
    fn summaries_are_kafkas() {
        let mut stats = Stats::new(3, Duration::from_secs(60), false);
        for latency in [1, 2, 30] {
            stats.record(latency, 100);
        }
        let total = stats.total();
        assert!(total.starts_with("3 records sent, "), "{total}");
        assert!(
            total.ends_with(
                "11.00 ms avg latency, 30.00 ms max latency, 2 ms 50th, 30 ms 95th, 30 ms 99th, 30 ms 99.9th."
            ),
            "{total}"
        );
    }
}
