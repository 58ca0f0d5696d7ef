//! The settings of Kafka's clients, in so far as they have a meaning here.
//!
//! Whatever a properties file says beside is kept as text, for the tools that know more ([`ClientConfig::get`]).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::error::{Error, Result};
use crate::config::properties;

/// Kafka's names of the settings.
pub const BOOTSTRAP_SERVERS: &str = "bootstrap.servers";
pub const BOOTSTRAP_CONTROLLERS: &str = "bootstrap.controllers";

/// The settings among those known here that are longs.
const LONGS: [&str; 9] = [
    "linger.ms",
    "max.block.ms",
    "buffer.memory",
    "retry.backoff.ms",
    "retry.backoff.max.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "metadata.max.age.ms",
    "socket.connection.setup.timeout.ms",
];

/// How a client is to behave.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// `(host, port)` of the nodes to ask first.
    pub bootstrap: Vec<(String, u16)>,
    /// The bootstrap nodes are controllers, and it is them that are talked to.
    pub controllers: bool,
    pub client_id: String,
    /// What it is called in the log: `AdminClient`, `Producer`, `Consumer`.
    pub role: &'static str,
    /// For one request and its answer.
    pub request_timeout: Duration,
    /// For one thing to do, with all its retries.
    pub api_timeout: Duration,
    pub retry_backoff: Duration,
    pub retry_backoff_max: Duration,
    pub reconnect_backoff: Duration,
    pub reconnect_backoff_max: Duration,
    pub connection_setup_timeout: Duration,
    given: BTreeMap<String, String>,
}

impl ClientConfig {
    /// The admin client's, from Kafka's keys. A key that is not known is kept, and means nothing here.
    pub fn admin(given: BTreeMap<String, String>) -> Result<ClientConfig> {
        ClientConfig::new(given, "adminclient-1", 60_000).map_err(|error| {
            Error::new("org.apache.kafka.common.KafkaException", "Failed to create new KafkaAdminClient")
                .caused_by(error)
        })
    }

    /// With the defaults that differ among Kafka's clients.
    pub fn new(given: BTreeMap<String, String>, client_id: &str, api_timeout_ms: i64) -> Result<ClientConfig> {
        check_protocol(&given)?;
        let (key, controllers) = match given.contains_key(BOOTSTRAP_CONTROLLERS) {
            true => (BOOTSTRAP_CONTROLLERS, true),
            false => (BOOTSTRAP_SERVERS, false),
        };
        let bootstrap = addresses(key, given.get(key).map_or("", String::as_str))?;
        let ms = |key: &str, default: i64| Ok(Duration::from_millis(number(&given, key, default, 0)? as u64));
        let request_timeout = ms("request.timeout.ms", 30_000)?;
        let api_timeout = ms("default.api.timeout.ms", api_timeout_ms.max(request_timeout.as_millis() as i64))?;
        if api_timeout < request_timeout && given.contains_key("default.api.timeout.ms") {
            return Err(Error::config(
                "The specified value of default.api.timeout.ms must be no smaller than the value of request.timeout.ms.",
            ));
        }
        Ok(ClientConfig {
            bootstrap,
            controllers,
            role: "AdminClient",
            client_id: given.get("client.id").filter(|id| !id.is_empty()).map_or(client_id, String::as_str).to_owned(),
            request_timeout,
            api_timeout,
            retry_backoff: ms("retry.backoff.ms", 100)?,
            retry_backoff_max: ms("retry.backoff.max.ms", 1000)?,
            reconnect_backoff: ms("reconnect.backoff.ms", 50)?,
            reconnect_backoff_max: ms("reconnect.backoff.max.ms", 1000)?,
            connection_setup_timeout: ms("socket.connection.setup.timeout.ms", 10_000)?,
            given,
        })
    }

    /// That of a producer or a consumer.
    pub fn of(role: &'static str, given: BTreeMap<String, String>, client_id: &str) -> Result<ClientConfig> {
        addresses(BOOTSTRAP_SERVERS, given.get(BOOTSTRAP_SERVERS).map_or("", String::as_str)).map_err(|error| {
            let message = format!("Failed to construct kafka {}", role.to_lowercase());
            Error::new("org.apache.kafka.common.KafkaException", message).caused_by(error)
        })?;
        Ok(ClientConfig::new(given, client_id, 60_000)?.called(role))
    }

    /// A number that is not below `least`; what was given for the key, or the default. It fits into 32 bits unless the setting
    /// is a long.
    pub fn number(&self, key: &str, default: i64, least: i64) -> Result<i64> {
        number(&self.given, key, default, least)
    }

    /// The same under another name in the log.
    pub fn called(self, role: &'static str) -> ClientConfig {
        ClientConfig { role, ..self }
    }

    /// What requests have as their `timeout_ms`.
    pub fn request_timeout_ms(&self) -> i32 {
        i32::try_from(self.request_timeout.as_millis()).unwrap_or(i32::MAX)
    }

    /// What was given for a key, as it was written.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.given.get(key).map(String::as_str)
    }
}

/// See [`ClientConfig::number`].
fn number(given: &BTreeMap<String, String>, key: &str, default: i64, least: i64) -> Result<i64> {
    let Some(text) = given.get(key) else { return Ok(default) };
    let (kind, most) = if LONGS.contains(&key) { ("LONG", i64::MAX) } else { ("INT", i64::from(i32::MAX)) };
    match text.trim().parse::<i64>().ok().filter(|value| *value <= most) {
        Some(value) if value >= least => Ok(value),
        Some(value) => {
            Err(Error::config(format!("Invalid value {value} for configuration {key}: Value must be at least {least}")))
        }
        None => {
            Err(Error::config(format!("Invalid value {text} for configuration {key}: Not a number of type {kind}")))
        }
    }
}

/// What a properties file says that an option names, `--command-config` mostly; nothing where it is not there.
pub fn read_properties_of(option: Option<&str>) -> Result<BTreeMap<String, String>> {
    option.map_or_else(|| Ok(BTreeMap::new()), |path| read_properties(Path::new(path)))
}

/// What a properties file says.
pub fn read_properties(path: &Path) -> Result<BTreeMap<String, String>> {
    let bytes = std::fs::read(path).map_err(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::PermissionDenied => "Permission denied".to_owned(),
            _ => error.to_string().split(" (os error").next().unwrap_or_default().to_owned(),
        };
        let class = match error.kind() {
            std::io::ErrorKind::NotFound => {
                return Error::new("java.nio.file.NoSuchFileException", path.display().to_string());
            }
            _ => "java.nio.file.FileSystemException",
        };
        Error::new(class, format!("{}: {reason}", path.display()))
    })?;
    properties::parse(&bytes).map_err(|error| Error::illegal_argument(format!("Malformed \\uxxxx encoding: {error}")))
}

/// Encryption and authentication are not built into the tools: that is said, instead of waiting for an answer that
/// will never come.
fn check_protocol(given: &BTreeMap<String, String>) -> Result<()> {
    let given = given.get("security.protocol").map(|protocol| protocol.trim());
    match given.map(str::to_uppercase).as_deref() {
        None | Some("PLAINTEXT") => Ok(()),
        Some(protocol @ ("SSL" | "SASL_PLAINTEXT" | "SASL_SSL")) => Err(Error::config(format!(
            "security.protocol={protocol}: these tools speak PLAINTEXT only so far; use a PLAINTEXT listener, or Apache Kafka's own tools"
        ))),
        Some(_) => Err(Error::config(format!(
            "Invalid value {} for configuration security.protocol: String must be one of (case insensitive): SASL_SSL, PLAINTEXT, SSL, SASL_PLAINTEXT",
            given.unwrap_or_default()
        ))),
    }
}

/// `host:port,host:port`; a host may be an IPv6 address in brackets, and a scheme may stand before it.
pub fn addresses(key: &str, text: &str) -> Result<Vec<(String, u16)>> {
    let mut addresses = Vec::new();
    for url in text.split(',').map(str::trim).filter(|url| !url.is_empty()) {
        let invalid = || Error::config(format!("Invalid url in {key}: {url}"));
        let address = url.split_once("://").map_or(url, |(_, address)| address);
        let (host, port) = address.rsplit_once(':').ok_or_else(invalid)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || port.is_empty() || !port.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(invalid());
        }
        let port = port.parse().map_err(|_| Error::config(format!("Invalid port in {key}: {url}")))?;
        addresses.push((host.to_owned(), port));
    }
    if addresses.is_empty() {
        return Err(Error::config(match text.trim() {
            "" => format!("You must set either {BOOTSTRAP_SERVERS} or {BOOTSTRAP_CONTROLLERS}"),
            _ => format!("No resolvable bootstrap urls given in {key}"),
        }));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(given: &[(&str, &str)]) -> Result<ClientConfig> {
        ClientConfig::new(given.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect(), "c", 60_000)
    }

    #[test]
    fn bootstrap_servers_are_hosts_and_ports() {
        let bootstrap = |text| config(&[(BOOTSTRAP_SERVERS, text)]).map(|config| config.bootstrap);
        let host = |host: &str, port| (host.to_owned(), port);
        assert_eq!(bootstrap("a:1, b:2,").unwrap(), [host("a", 1), host("b", 2)]);
        assert_eq!(bootstrap("[::1]:9092").unwrap(), [host("::1", 9092)]);
        assert_eq!(bootstrap("PLAINTEXT://a:1").unwrap(), [host("a", 1)]);
        assert_eq!(bootstrap("nowhere").unwrap_err().message(), "Invalid url in bootstrap.servers: nowhere");
        assert_eq!(bootstrap("a:b").unwrap_err().message(), "Invalid url in bootstrap.servers: a:b");
        assert_eq!(bootstrap("a:70000").unwrap_err().message(), "Invalid port in bootstrap.servers: a:70000");
        assert!(bootstrap("").is_err());
    }

    #[test]
    fn what_is_not_built_is_said() {
        let error = config(&[(BOOTSTRAP_SERVERS, "a:1"), ("security.protocol", "sasl_ssl")]).unwrap_err();
        assert!(error.message().starts_with("security.protocol=SASL_SSL: these tools speak PLAINTEXT only"));
        assert!(config(&[(BOOTSTRAP_SERVERS, "a:1"), ("security.protocol", "PLAINTEXT")]).is_ok());
    }

    #[test]
    fn times_are_checked() {
        let with = |key, value| config(&[(BOOTSTRAP_SERVERS, "a:1"), (key, value)]);
        assert_eq!(with("request.timeout.ms", "5").unwrap().request_timeout, Duration::from_millis(5));
        assert_eq!(with("request.timeout.ms", "90000").unwrap().api_timeout, Duration::from_secs(90));
        assert!(with("request.timeout.ms", "soon").unwrap_err().message().ends_with("Not a number of type INT"));
        assert!(with("request.timeout.ms", "4294967296").unwrap_err().message().ends_with("Not a number of type INT"));
        assert!(with("retry.backoff.ms", "4294967296").is_ok());
        assert!(with("default.api.timeout.ms", "5").is_err());
    }
}
