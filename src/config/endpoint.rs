//! Listeners and security protocols, as `listeners`, `advertised.listeners` and `listener.security.protocol.map` name them.

use std::fmt;

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
    /// 0 in `listeners`: one the system picks. 0 in `advertised.listeners`: the one that the listener of the same name got.
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
