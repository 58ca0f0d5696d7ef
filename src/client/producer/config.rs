//! The settings of Kafka's producer that have a meaning here, with its defaults.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::config::ClientConfig;
use crate::client::error::{Error, Result};
use crate::record::compression::Codec;

/// Who must have a record before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    None,
    Leader,
    All,
}

impl Acks {
    /// The number in a request.
    pub fn number(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

/// How a producer is to behave.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    pub client: ClientConfig,
    pub acks: Acks,
    pub idempotent: bool,
    pub transactional_id: Option<String>,
    pub transaction_timeout_ms: i32,
    /// Records go to the partitions in turn, and not by their keys.
    pub round_robin: bool,
    pub codec: Codec,
    pub compression_level: i32,
    /// Bytes of a batch before compression.
    pub batch_size: usize,
    pub linger: Duration,
    pub buffer_memory: usize,
    pub max_request_size: usize,
    pub max_in_flight: usize,
    pub max_block: Duration,
    pub delivery_timeout: Duration,
    /// Of one batch.
    pub retries: u32,
}

impl ProducerConfig {
    /// From Kafka's keys. A key that is not known means nothing here.
    pub fn new(given: BTreeMap<String, String>, client_id: &str) -> Result<ProducerConfig> {
        let client = ClientConfig::of("Producer", given, client_id)?;
        let number = |key: &str, default: i64, least: i64| client.number(key, default, least);
        let ms = |key: &str, default: i64| Ok(Duration::from_millis(number(key, default, 0)? as u64));
        let bytes = |key: &str, default: i64| Ok(number(key, default, 0)? as usize);
        let acks = match client.get("acks").map(str::trim) {
            None | Some("all" | "-1") => Acks::All,
            Some("1") => Acks::Leader,
            Some("0") => Acks::None,
            Some(other) => {
                return Err(Error::config(format!(
                    "Invalid value {other} for configuration acks: String must be one of: all, -1, 0, 1"
                )));
            }
        };
        let name = client.get("compression.type").map_or("none", str::trim);
        let codec = Codec::ALL.into_iter().find(|codec| codec.name() == name).ok_or_else(|| {
            Error::config(format!(
                "Invalid value {name} for configuration compression.type: String must be one of: none, gzip, snappy, lz4, zstd"
            ))
        })?;
        let level = format!("compression.{codec}.level");
        let compression_level = match client.get(&level) {
            Some(_) => number(&level, 0, i64::from(i32::MIN))? as i32,
            None => codec.default_level(),
        };
        let transactional_id = client.get("transactional.id").map(str::to_owned);
        let retries = number("retries", i64::from(i32::MAX), 0)? as u32;
        let max_in_flight = number("max.in.flight.requests.per.connection", 5, 1)? as usize;
        let asked = client.get("enable.idempotence").map(|text| text.trim().eq_ignore_ascii_case("true"));
        let possible = acks == Acks::All && retries > 0 && max_in_flight <= 5;
        if (asked == Some(true) || transactional_id.is_some()) && !possible {
            return Err(Error::config(match (acks, retries) {
                (Acks::All, 0) => "Must set retries to non-zero when using the idempotent producer.",
                (Acks::All, _) => {
                    "Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent producer."
                }
                _ => {
                    "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence."
                }
            }));
        }
        if asked == Some(false) && transactional_id.is_some() {
            return Err(Error::config("Cannot set a transactional.id without also enabling idempotence."));
        }
        let round_robin = match client.get("partitioner.class").map(str::trim) {
            None | Some("") => false,
            Some("org.apache.kafka.clients.producer.RoundRobinPartitioner") => true,
            Some(other) => {
                return Err(Error::config(format!(
                    "Invalid value {other} for configuration partitioner.class: Class {other} could not be found."
                )));
            }
        };
        Ok(ProducerConfig {
            acks,
            round_robin,
            idempotent: asked.unwrap_or(possible),
            transactional_id,
            transaction_timeout_ms: number("transaction.timeout.ms", 60_000, 0)? as i32,
            codec,
            compression_level,
            batch_size: bytes("batch.size", 16_384)?,
            linger: ms("linger.ms", 5)?,
            buffer_memory: bytes("buffer.memory", 32 << 20)?,
            max_request_size: bytes("max.request.size", 1 << 20)?,
            max_in_flight,
            max_block: ms("max.block.ms", 60_000)?,
            delivery_timeout: ms("delivery.timeout.ms", 120_000)?,
            retries,
            client,
        })
    }

    /// Whether a batch fits into the memory at all.
    pub fn check_buffer(&self) -> Result<()> {
        match self.batch_size > self.buffer_memory {
            true => Err(Error::illegal_argument(format!(
                "Attempt to allocate {} bytes, but there is a hard limit of {} on memory allocations.",
                self.batch_size, self.buffer_memory
            ))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(given: &[(&str, &str)]) -> Result<ProducerConfig> {
        let given = given.iter().chain(&[("bootstrap.servers", "a:1")]);
        ProducerConfig::new(given.map(|&(key, value)| (key.to_owned(), value.to_owned())).collect(), "c")
    }

    #[test]
    fn defaults_are_kafkas() {
        let config = config(&[]).unwrap();
        assert_eq!((config.acks, config.idempotent, config.batch_size), (Acks::All, true, 16_384));
        assert_eq!((config.linger.as_millis(), config.codec), (5, Codec::None));
        assert!(!config.round_robin);
    }

    #[test]
    fn idempotence_goes_without_a_word_where_nobody_asked_for_it() {
        assert!(!config(&[("acks", "1")]).unwrap().idempotent);
        assert!(!config(&[("retries", "0")]).unwrap().idempotent);
        assert!(config(&[("acks", "1"), ("enable.idempotence", "true")]).is_err());
        assert!(config(&[("acks", "0"), ("transactional.id", "t")]).is_err());
        assert!(config(&[("enable.idempotence", "false"), ("transactional.id", "t")]).is_err());
    }

    #[test]
    fn mistakes_are_told() {
        let message = |key, value| config(&[(key, value)]).unwrap_err().message().to_owned();
        assert_eq!(
            message("acks", "2"),
            "Invalid value 2 for configuration acks: String must be one of: all, -1, 0, 1"
        );
        assert!(message("compression.type", "rar").ends_with("String must be one of: none, gzip, snappy, lz4, zstd"));
        assert!(message("partitioner.class", "Mine").ends_with("Class Mine could not be found."));
        assert!(message("batch.size", "x").ends_with("Not a number of type INT"));
        assert!(message("linger.ms", "-1").ends_with("Value must be at least 0"));
    }
}
