//! Listeners and security protocols, as `listeners`, `advertised.listeners` and `listener.security.protocol.map` name
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use super::java;
use super::value::ConfigError;

/// How a listener's connections are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SecurityProtocol {
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

impl SecurityProtocol {
    /// Kafka's spelling, in upper case.
    pub fn name(self) -> &'static str {
        match self {
            SecurityProtocol::Plaintext => "PLAINTEXT",
            SecurityProtocol::Ssl => "SSL",
            SecurityProtocol::SaslPlaintext => "SASL_PLAINTEXT",
            SecurityProtocol::SaslSsl => "SASL_SSL",
        }
    }

    /// Reads Kafka's spelling in any case.
    pub fn parse(text: &str) -> Option<SecurityProtocol> {
        match text.to_ascii_uppercase().as_str() {
            "PLAINTEXT" => Some(SecurityProtocol::Plaintext),
            "SSL" => Some(SecurityProtocol::Ssl),
            "SASL_PLAINTEXT" => Some(SecurityProtocol::SaslPlaintext),
            "SASL_SSL" => Some(SecurityProtocol::SaslSsl),
            _ => None,
        }
    }

    /// The protocol's number in RegisterBroker and the metadata records.
    pub fn id(self) -> i16 {
        match self {
            SecurityProtocol::Plaintext => 0,
            SecurityProtocol::Ssl => 1,
            SecurityProtocol::SaslPlaintext => 2,
            SecurityProtocol::SaslSsl => 3,
        }
    }
}

impl fmt::Display for SecurityProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A listener with its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Upper case, as Kafka keeps listener names.
    pub listener_name: String,
    pub security_protocol: SecurityProtocol,
    /// Empty in `listeners`: every interface. Empty in `advertised.listeners`: the machine's own canonical name.
    /// IPv6 addresses stand here without brackets.
    pub host: String,
    /// 0 in `listeners`: one the system picks. 0 in `advertised.listeners`: the one that the listener of the same
    /// name got.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "{}://[{}]:{}", self.listener_name, self.host, self.port)
        } else {
            write!(f, "{}://{}:{}", self.listener_name, self.host, self.port)
        }
    }
}

/// Whether an address has only the characters that Kafka expects in one.
pub(super) fn is_valid_host(host: &str) -> bool {
    host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'%' | b'.' | b'_' | b':'))
}

/// Splits `host:port`, with an optional scheme before it and brackets around an IPv6 address. The port is `None` when
/// it is out of range.
pub(super) fn split_host_port(address: &str) -> Option<(&str, Option<u16>)> {
    let address = match address.split_once("://") {
        Some((scheme, rest)) if is_valid_host(scheme) && !scheme.contains(':') => rest,
        _ => address,
    };
    let (host, port) = address.strip_prefix('[').unwrap_or(address).rsplit_once(':')?;
    let host = host.strip_suffix(']').unwrap_or(host);
    (is_valid_host(host) && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
        .then(|| (host, port.parse().ok()))
}

/// Upper case, as Kafka normalises listener names.
pub(super) fn normalised_listener_name(name: &str) -> Result<String, ConfigError> {
    if java::trim(name).is_empty() {
        return Err(ConfigError("The provided listener name is null or empty string".to_owned()));
    }
    Ok(name.to_uppercase())
}

/// Reads `k1:v1,k2:v2`, the last colon of an entry being the one that divides it.
pub(super) fn parse_csv_map(name: &str, text: &str) -> Result<BTreeMap<String, String>, ConfigError> {
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    // Java's split drops empty parts at the end
    let mut entries: Vec<&str> = java::split_commas(text).collect();
    while entries.last().is_some_and(|entry| entry.is_empty()) {
        entries.pop();
    }
    entries
        .into_iter()
        .map(|entry| match entry.rsplit_once(':') {
            Some((key, value)) => Ok((java::trim(key).to_owned(), java::trim(value).to_owned())),
            None => Err(ConfigError(format!(
                "Error parsing configuration property '{name}': begin 0, end -1, length {}",
                entry.encode_utf16().count()
            ))),
        })
        .collect()
}

/// Reads a list of listeners. Ports must differ in `listeners` and need not in `advertised.listeners`.
pub(super) fn parse_endpoints(
    entries: &[String],
    protocols: &BTreeMap<String, SecurityProtocol>,
    distinct_ports: bool,
) -> Result<Vec<Endpoint>, ConfigError> {
    let endpoints = entries.iter().map(|entry| parse_endpoint(entry, protocols)).collect::<Result<Vec<_>, _>>();
    endpoints.and_then(|endpoints| check_endpoints(endpoints, entries, distinct_ports)).map_err(|reason| {
        ConfigError(format!("Error creating broker listeners from '{}': {reason}", java::list_text(entries)))
    })
}

fn parse_endpoint(entry: &str, protocols: &BTreeMap<String, SecurityProtocol>) -> Result<Endpoint, String> {
    let unparsed = || format!("Unable to parse {entry} to a broker endpoint");
    let (name, address) = entry.rsplit_once("://").ok_or_else(unparsed)?;
    let (host, port) = address.strip_prefix('[').unwrap_or(address).rsplit_once(':').ok_or_else(unparsed)?;
    let host = host.strip_suffix(']').unwrap_or(host);
    let digits = port.strip_prefix('-').unwrap_or(port);
    if !is_valid_host(host) || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(unparsed());
    }
    let listener_name = normalised_listener_name(name).map_err(|error| error.0)?;
    let port = port.parse().map_err(|_| format!("{entry} has a port outside of 0 to 65535"))?;
    let security_protocol = *protocols
        .get(&listener_name)
        .ok_or_else(|| format!("No security protocol defined for listener {listener_name}"))?;
    Ok(Endpoint { listener_name, security_protocol, host: host.to_owned(), port })
}

fn check_endpoints(
    endpoints: Vec<Endpoint>,
    entries: &[String],
    distinct_ports: bool,
) -> Result<Vec<Endpoint>, String> {
    let listeners = java::list_text(entries);
    let names: BTreeSet<&str> = endpoints.iter().map(|endpoint| endpoint.listener_name.as_str()).collect();
    if names.len() != endpoints.len() {
        return Err(format!("Each listener must have a different name, listeners: {listeners}"));
    }
    let mut by_port: BTreeMap<u16, Vec<&Endpoint>> = BTreeMap::new();
    for endpoint in endpoints.iter().filter(|endpoint| distinct_ports && endpoint.port != 0) {
        by_port.entry(endpoint.port).or_default().push(endpoint);
    }
    for (port, sharing) in by_port.into_iter().filter(|(_, sharing)| sharing.len() > 1) {
        let (addresses, names): (Vec<_>, Vec<_>) =
            sharing.into_iter().map(|e| e.host.parse::<IpAddr>()).partition(Result::is_ok);
        if names.len() > 1 {
            return Err(format!("Each listener must have a different port, listeners: {listeners}"));
        }
        match addresses[..] {
            [] => {}
            // one may listen on IPv4 and the other on IPv6
            [Ok(first), Ok(second)] if first.is_ipv4() != second.is_ipv4() && names.is_empty() => {}
            [_, _] => {
                return Err(format!(
                    "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, \
                     listeners: {listeners}, port: {port}"
                ));
            }
            _ => {
                return Err(format!(
                    "Each listener must have a different port unless exactly one listener has an IPv4 address and the \
                     other IPv6 address, listeners: {listeners}, port: {port}"
                ));
            }
        }
    }
    Ok(endpoints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Endpoint>, ConfigError> {
        let protocols = [("PLAINTEXT", SecurityProtocol::Plaintext), ("IN-SIDE", SecurityProtocol::SaslSsl)];
        let protocols = protocols.map(|(name, protocol)| (name.to_owned(), protocol)).into();
        let entries: Vec<String> = text.split(',').map(str::to_owned).collect();
        parse_endpoints(&entries, &protocols, true)
    }

    #[test]
    fn listeners_are_read() {
        let endpoints = parse("plaintext://[::1]:9092,IN-side://:0").unwrap();
        assert_eq!(endpoints[0].to_string(), "PLAINTEXT://[::1]:9092");
        assert_eq!(endpoints[0].host, "::1");
        assert_eq!(endpoints[1].to_string(), "IN-SIDE://:0");
        assert_eq!(endpoints[1].security_protocol, SecurityProtocol::SaslSsl);
        // the same port is free once for each family of addresses
        assert!(parse("PLAINTEXT://127.0.0.1:9092,IN-SIDE://[::1]:9092").is_ok());
    }

    #[test]
    fn wrong_listeners_are_refused() {
        for (text, reason) in [
            ("PLAINTEXT:9092", "Unable to parse PLAINTEXT:9092 to a broker endpoint"),
            ("PLAINTEXT://h", "Unable to parse PLAINTEXT://h to a broker endpoint"),
            ("OTHER://:1", "No security protocol defined for listener OTHER"),
            ("PLAINTEXT://:1,plaintext://:2", "Each listener must have a different name"),
            ("PLAINTEXT://:1,IN-SIDE://:1", "Each listener must have a different port, listeners"),
            ("PLAINTEXT://:-1", "has a port outside of 0 to 65535"),
            ("PLAINTEXT://1.1.1.1:1,IN-SIDE://2.2.2.2:1", "one needs to be IPv4 and the other IPv6"),
        ] {
            let error = parse(text).unwrap_err().0;
            assert!(error.contains(reason) && error.starts_with("Error creating broker listeners from '["), "{error}");
        }
    }

    #[test]
    fn hosts_and_ports_split() {
        assert_eq!(split_host_port("localhost:9093"), Some(("localhost", Some(9093))));
        assert_eq!(split_host_port("[2001:db8::1]:1"), Some(("2001:db8::1", Some(1))));
        assert_eq!(split_host_port("PLAINTEXT://h:70000"), Some(("h", None)));
        assert_eq!(split_host_port("h"), None);
        assert_eq!(split_host_port("a b:1"), None);
    }
}
