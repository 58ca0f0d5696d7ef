//! `kafka-e2e-latency`: how long a record is on its way, from the producer to a consumer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use tokio::sync::oneshot;

use super::argparse::{TERSE, terse};
use super::options::{Kind, Options, Spec};
use super::{Stop, complain, conclude, say, uncaught};
use crate::client::producer::Headers;
use crate::client::text;
use crate::client::{
    Client, ClientConfig, Consumed, Consumer, ConsumerConfig, Error, Outgoing, Position, Producer, ProducerConfig,
    block_on, config, epoch_ms, groups, offsets, topics,
};
use crate::config::java;
use crate::types::TopicPartition;

const ABOUT: &str = "This tool measures end-to-end latency in Kafka by sending messages and timing their reception.";

const OPTIONS: &[Spec] = &[
    Spec::with_argument("bootstrap-server", "bootstrap-server", "REQUIRED: The brokers to connect to first."),
    Spec::with_argument("topic", "topic-name", "REQUIRED: The topic. It is created if it does not exist."),
    Spec::with_argument("num-records", "count", "REQUIRED: How many records to send, one after the other.")
        .of(Kind::Integer),
    Spec::with_argument("producer-acks", "producer-acks", "REQUIRED: Who must have a record: '1' or 'all'."),
    Spec::with_argument("record-size", "bytes", "REQUIRED: The size of a value.").of(Kind::Integer),
    Spec::with_optional_argument("record-key-size", "bytes", "The size of a key.").of(Kind::Integer).default(&["0"]),
    Spec::with_optional_argument("record-header-key-size", "bytes", "The size of a header's key.")
        .of(Kind::Integer)
        .default(&["0"]),
    Spec::with_optional_argument("record-header-size", "bytes", "The size of a header's value; -1 for null.")
        .of(Kind::Integer)
        .default(&["0"]),
    Spec::with_optional_argument("num-headers", "count", "How many headers a record has.")
        .of(Kind::Integer)
        .default(&["0"]),
    Spec::with_optional_argument("command-config", "config-file", "A properties file with settings of all clients."),
];

/// What stands in their places, if there are no names: the last one may be missing.
const POSITIONAL: [&str; 6] =
    ["--bootstrap-server", "--topic", "--num-records", "--producer-acks", "--record-size", "--command-config"];

const POLL: Duration = Duration::from_secs(60);

pub fn run(words: &[String]) -> u8 {
    let ended = named(words).map_err(Stop::from).and_then(|words| {
        let options = Options::parse_or_usage(OPTIONS, &words)?;
        let test = Test::new(&options)?;
        Ok(block_on(test.run())?)
    });
    conclude(ended, |error| match error.class.as_str() {
        TERSE => complain!("{}", error.message()),
        _ => uncaught(error),
    })
}

/// Arguments with their names.
fn named(words: &[String]) -> Result<Vec<String>, Error> {
    if words.is_empty() || words.iter().any(|word| POSITIONAL[..5].contains(&word.as_str())) {
        return Ok(words.to_vec());
    }
    if !(5..=6).contains(&words.len()) {
        return Err(terse(format!(
            "Invalid number of arguments. Expected 5 or 6 positional arguments, but got {}. Usage: bootstrap-server topic num-records producer-acks record-size [optional] command-config",
            words.len()
        )));
    }
    say!(
        "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. Please use named arguments instead: {}",
        POSITIONAL.join(", ")
    );
    Ok(POSITIONAL.iter().zip(words).flat_map(|(name, word)| [(*name).to_owned(), word.clone()]).collect())
}

#[derive(Debug)]
struct Test {
    topic: String,
    records: usize,
    sizes: Sizes,
    admin: ClientConfig,
    consumer: ConsumerConfig,
    producer: ProducerConfig,
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    value: usize,
    key: usize,
    headers: usize,
    header_key: usize,
    /// `None` for null.
    header_value: Option<usize>,
}

impl Test {
    fn new(options: &Options) -> Result<Test, Stop> {
        options.help_or_version(ABOUT)?;
        options.require(&["bootstrap-server", "topic", "num-records", "producer-acks", "record-size"])?;
        let acks = options.text("producer-acks")?;
        if !["1", "all"].contains(&acks) {
            return Err(options.usage(
                "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. Please use '1' or 'all'.",
            ));
        }
        let number = |name: &str, least: i32, must: &str| -> Result<i32, Stop> {
            match options.integer(name)?.unwrap_or_default() {
                number if number >= least => Ok(number),
                _ => Err(options.usage(format!("Value for --{name} must be a {must}."))),
            }
        };
        let natural = "non-negative integer";
        let records = number("num-records", 1, "positive integer")? as usize;
        let sizes = Sizes {
            value: number("record-size", 0, natural)? as usize,
            key: number("record-key-size", 0, natural)? as usize,
            header_key: number("record-header-key-size", 0, natural)? as usize,
            header_value: usize::try_from(number(
                "record-header-size",
                -1,
                "non-negative integer or -1 for null header value",
            )?)
            .ok(),
            headers: number("num-headers", 0, natural)? as usize,
        };
        let settings = |own: &[(&str, &str)]| -> Result<BTreeMap<String, String>, Error> {
            let mut settings = config::read_properties_of(options.value("command-config")?)?;
            let servers = (config::BOOTSTRAP_SERVERS, options.text("bootstrap-server")?);
            settings.extend([servers].iter().chain(own).map(|&(key, value)| (key.to_owned(), value.to_owned())));
            Ok(settings)
        };
        let group = format!("test-group-{}", epoch_ms());
        let consumer = settings(&[
            ("group.id", &group),
            ("enable.auto.commit", "false"),
            ("auto.offset.reset", "latest"),
            ("fetch.max.wait.ms", "0"),
        ])?;
        let producer = settings(&[("linger.ms", "0"), ("max.block.ms", &i64::MAX.to_string()), ("acks", acks)])?;
        Ok(Test {
            topic: options.text("topic")?.to_owned(),
            records,
            sizes,
            consumer: ConsumerConfig::new(consumer, &format!("consumer-{group}-1"))?,
            producer: ProducerConfig::new(producer, "producer-1")?,
            admin: ClientConfig::admin(settings(&[])?)?,
        })
    }

    async fn run(self) -> Result<(), Error> {
        let client = Client::new(self.admin.clone());
        let there = topics::list(&client, true).await?;
        if !there.iter().any(|topic| topic.name == self.topic) {
            say!(
                "Topic \"{}\" does not exist. Will create topic with 1 partition(s) and replication factor = 1",
                self.topic
            );
            let topic = CreatableTopic::default().with_name(text(&self.topic).into());
            let topic = topic.with_num_partitions(1).with_replication_factor(1);
            topics::create(&client, topic).await.map_err(|error| {
                say!("Creation of topic {} failed", self.topic);
                let error = error.in_execution();
                Error::new("java.lang.RuntimeException", error.to_string()).caused_by(error)
            })?;
        }
        let mut positions = ends(&client, &self.topic).await?;
        let mut consumer = Consumer::assigned(self.consumer.clone(), positions.clone());
        let producer = Producer::start(self.producer, &self.topic, |done: oneshot::Sender<_>, outcome| {
            // The test may have ended meanwhile.
            let _ = done.send(outcome);
        });
        let mut latencies = Vec::with_capacity(self.records.min(1 << 20));
        let mut outcome = Ok(());
        for number in 0..self.records {
            let sent = Sent::random(self.sizes);
            let (elapsed, records) = round(&producer, &mut consumer, &sent).await?;
            for record in &records {
                positions.insert(record.place(), record.offset + 1);
            }
            outcome = sent.check(&records);
            if outcome.is_err() {
                break;
            }
            if number % 1000 == 0 {
                say!("{number}\t{}", java::double_text(elapsed.as_nanos() as f64 / 1000.0 / 1000.0));
            }
            latencies.push(elapsed);
        }
        if outcome.is_ok() {
            results(latencies).iter().for_each(|line| say!("{line}"));
        }
        groups::commit(&client, self.consumer.group_id.as_deref().unwrap_or_default(), &positions).await?;
        producer.close().await;
        consumer.close().await;
        outcome
    }
}

/// Sends a record, waits until it is acknowledged, and then for what comes.
async fn round(
    producer: &Producer<oneshot::Sender<Result<Position, Error>>>,
    consumer: &mut Consumer,
    sent: &Sent,
) -> Result<(Duration, Vec<Consumed>), Error> {
    let (receipt, acknowledged) = oneshot::channel();
    let record = Outgoing {
        key: Some(sent.key.clone()),
        value: Some(sent.value.clone()),
        headers: sent.headers.clone(),
        partition: None,
        timestamp: None,
        receipt,
    };
    let begun = Instant::now();
    producer.send(record).await?;
    let closed = |_| Error::new("java.lang.IllegalStateException", "The producer has ended");
    acknowledged.await.map_err(closed)?.map_err(Error::in_execution)?;
    let records = consumer.poll(POLL).await?;
    Ok((begun.elapsed(), records))
}

/// Where the partitions of a topic end now.
async fn ends(client: &Client, topic: &str) -> Result<BTreeMap<TopicPartition, i64>, Error> {
    // A topic that was just made may not be known to all.
    let described = client
        .retry("partitionsFor", async || {
            let described = topics::describe_once(client, &[topic.to_owned()], i32::MAX).await;
            described.map_err(Error::for_another_try)
        })
        .await?;
    let partitions = described.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| TopicPartition::new(topic.name.as_str(), partition.index))
    });
    let wanted = partitions.map(|partition| (partition, offsets::LATEST)).collect();
    let listed = offsets::list(client, &wanted, false).await;
    listed.into_iter().map(|(partition, listed)| Ok((partition, listed?.offset))).collect()
}

/// A record as it was sent.
struct Sent {
    key: Vec<u8>,
    value: Vec<u8>,
    headers: Headers,
}

impl Sent {
    fn random(sizes: Sizes) -> Sent {
        let bytes = |length: usize| vec![rand::random_range(b'A'..=b'Z'); length];
        let header = |_| {
            let key = String::from_utf8(bytes(sizes.header_key)).expect("letters are UTF-8");
            (key, sizes.header_value.map(bytes))
        };
        Sent { key: bytes(sizes.key), value: bytes(sizes.value), headers: (0..sizes.headers).map(header).collect() }
    }

    /// Whether it is what has come, and nothing else.
    fn check(&self, records: &[Consumed]) -> Result<(), Error> {
        let fault = |message: String| Err(Error::new("java.lang.RuntimeException", message));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let Some(record) = records.first() else {
            return fault(format!("poll() timed out before finding a result (timeout:[{}ms])", POLL.as_millis()));
        };
        let (read, sent) = (text(record.value.as_deref().unwrap_or_default()), text(&self.value));
        if read != sent {
            return fault(format!("The message value read [{read}] did not match the message value sent [{sent}]"));
        }
        let Some(key) = &record.key else { return fault("Expected message key but received null".to_owned()) };
        if *key != self.key {
            return fault(format!(
                "The message key read [{}] did not match the message key sent [{}]",
                text(key),
                text(&self.key)
            ));
        }
        if !self.headers.is_empty() && record.headers.is_empty() {
            return fault("Expected message headers but received none".to_owned());
        }
        for (read, sent) in record.headers.iter().zip(&self.headers) {
            if read != sent {
                let shown = |(key, value): &(String, Option<Vec<u8>>)| match value {
                    Some(value) => format!("{key}:{value:?}"),
                    None => format!("{key}:null"),
                };
                return fault(format!(
                    "The message header read [{}] did not match the message header sent [{}]",
                    shown(read),
                    shown(sent)
                ));
            }
        }
        if !self.headers.is_empty() && record.headers.len() != self.headers.len() {
            return fault("Header count mismatch between sent and received messages".to_owned());
        }
        match records.len() {
            1 => Ok(()),
            count => fault(format!("Only one result was expected during this test. We found [{count}]")),
        }
    }
}

/// The lines that stand at the end, of at least one latency.
fn results(mut latencies: Vec<Duration>) -> [String; 2] {
    let total: f64 = latencies.iter().map(|latency| latency.as_nanos() as f64).sum();
    let average = total / latencies.len() as f64 / 1000.0 / 1000.0;
    latencies.sort_unstable();
    let at = |part: f64| latencies[(latencies.len() as f64 * part) as usize].as_millis();
    [
        format!("Avg latency: {average:.4} ms"),
        format!("Percentiles: 50th = {}, 99th = {}, 99.9th = {}", at(0.5), at(0.99), at(0.999)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::batch::TimestampType;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn test(line: &str) -> Result<Test, String> {
        match Test::new(&Options::parse(OPTIONS, &words(line)).unwrap()) {
            Ok(test) => Ok(test),
            Err(Stop::Usage { message, .. }) => Err(message),
            Err(stop) => panic!("{stop:?}"),
        }
    }

    #[test]
    fn arguments_may_have_no_names() {
        let named = |line: &str| named(&words(line));
        assert_eq!(
            named("a:1 t 5 all 10").unwrap().join(" "),
            "--bootstrap-server a:1 --topic t --num-records 5 --producer-acks all --record-size 10"
        );
        assert!(named("--topic").unwrap() == ["--topic"] && named("").unwrap().is_empty());
        assert!(named("--help").unwrap_err().message().ends_with("command-config"));
    }

    #[test]
    fn what_makes_no_sense() {
        let with = |line: &str| test(&format!("--bootstrap-server a:1 --topic t {line}"));
        let read = with("--num-records 5 --producer-acks all --record-size 10 --record-header-size -1").unwrap();
        assert_eq!((read.records, read.sizes.value, read.sizes.header_value), (5, 10, None));
        assert!(
            with("--num-records 5 --producer-acks 0 --record-size 1").unwrap_err().starts_with("Invalid value for")
        );
        assert_eq!(
            with("--num-records 0 --producer-acks 1 --record-size 1").unwrap_err(),
            "Value for --num-records must be a positive integer."
        );
        assert_eq!(
            with("--num-records 1 --producer-acks 1 --record-size 1 --record-header-size -2").unwrap_err(),
            "Value for --record-header-size must be a non-negative integer or -1 for null header value."
        );
    }

    #[test]
    fn what_comes_is_compared() {
        let sizes = Sizes { value: 3, key: 1, headers: 1, header_key: 2, header_value: Some(1) };
        let sent = Sent::random(sizes);
        let record = Consumed {
            topic: "t".into(),
            partition: 0,
            offset: 0,
            timestamp: (TimestampType::CreateTime, 0),
            key: Some(sent.key.clone()),
            value: Some(sent.value.clone()),
            headers: sent.headers.clone(),
        };
        let message = |records: &[Consumed]| sent.check(records).unwrap_err().message().to_owned();
        assert_eq!(sent.check(std::slice::from_ref(&record)), Ok(()));
        assert!(message(&[]).starts_with("poll() timed out"));
        assert!(message(&[record.clone(), record.clone()]).ends_with("We found [2]"));
        assert!(message(&[Consumed { value: None, ..record.clone() }]).starts_with("The message value read []"));
        assert!(message(&[Consumed { key: None, ..record.clone() }]).starts_with("Expected message key"));
        assert!(message(&[Consumed { headers: Vec::new(), ..record }]).starts_with("Expected message headers"));
    }

    #[test]
    fn percentiles_are_kafkas() {
        let lines = results([3, 1, 2].map(Duration::from_millis).to_vec());
        assert_eq!(lines, ["Avg latency: 2.0000 ms", "Percentiles: 50th = 2, 99th = 3, 99.9th = 3"]);
    }
}
