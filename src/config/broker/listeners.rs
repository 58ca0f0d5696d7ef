//! The listeners of a node, put together from the five keys that say something of them.

use std::collections::{BTreeMap, BTreeSet};

use super::super::endpoint::{Endpoint, SecurityProtocol, normalised_listener_name, parse_csv_map, parse_endpoints};
use super::super::keys::Values;
use super::super::validator::parse_voter;
use super::super::value::{ConfigError, ConfigType, ConfigValue};

const PROTOCOL_MAP: &str = "listener.security.protocol.map";

/// Which protocol each listener name stands for. Without a map of their own, a controller's listeners are PLAINTEXT
/// as long as nothing else is in use.
pub(super) fn protocol_map(
    values: &Values,
    map_given: bool,
) -> Result<BTreeMap<String, SecurityProtocol>, ConfigError> {
    let mut protocols = BTreeMap::new();
    for (name, protocol) in parse_csv_map(PROTOCOL_MAP, values.string(PROTOCOL_MAP))? {
        let name = normalised_listener_name(&name)?;
        protocols.insert(name, parse_protocol(&protocol, PROTOCOL_MAP)?);
    }
    let controllers = values.list("controller.listener.names");
    if map_given || controllers.iter().any(|name| is_ssl_or_sasl(name)) {
        return Ok(protocols);
    }
    for listener in values.list("listeners") {
        let (name, _) = listener
            .split_once(':')
            .ok_or_else(|| ConfigError(format!("Unable to parse a listener name from {listener}")))?;
        if is_ssl_or_sasl(&name.to_uppercase()) {
            return Ok(protocols);
        }
    }
    for name in controllers.iter().filter(|name| name.as_str() != "PLAINTEXT") {
        protocols.insert(name.clone(), SecurityProtocol::Plaintext);
    }
    Ok(protocols)
}

fn is_ssl_or_sasl(name: &str) -> bool {
    matches!(name, "SSL" | "SASL_SSL" | "SASL_PLAINTEXT")
}

fn parse_protocol(text: &str, key: &str) -> Result<SecurityProtocol, ConfigError> {
    SecurityProtocol::parse(text)
        .ok_or_else(|| ConfigError(format!("Invalid security protocol `{text}` defined in {key}")))
}

/// What a node listens on and what it tells others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listeners {
    pub protocols: BTreeMap<String, SecurityProtocol>,
    pub bound: Vec<Endpoint>,
    /// As given, or those bound.
    advertised: Vec<Endpoint>,
    advertised_given: bool,
    /// As given: Kafka compares them in the case they were written in.
    pub controller_names: Vec<String>,
    /// This node's address in `controller.quorum.voters`.
    voter: Option<(String, u16)>,
}

impl Listeners {
    pub fn read(values: &Values, map_given: bool) -> Result<Listeners, ConfigError> {
        let protocols = protocol_map(values, map_given)?;
        let bound = parse_endpoints(values.list("listeners"), &protocols, true)?;
        let advertised = match values.optional_list("advertised.listeners") {
            Some(entries) => Some(parse_endpoints(entries, &protocols, false)?),
            None => None,
        };
        Ok(Listeners {
            protocols,
            advertised_given: advertised.is_some(),
            advertised: advertised.unwrap_or_else(|| bound.clone()),
            bound,
            controller_names: values.list("controller.listener.names").to_vec(),
            voter: own_voter(values)?,
        })
    }

    /// The numbers that listeners have for themselves, `listener.name.<name>.<key>`, by their names.
    pub fn own_ints(&self, given: &BTreeMap<String, String>, key: &str) -> BTreeMap<String, i32> {
        let own = |endpoint: &Endpoint| {
            let key = format!("listener.name.{}.{key}", endpoint.listener_name.to_lowercase());
            match ConfigValue::parse(&key, given.get(&key)?, ConfigType::Int) {
                Ok(ConfigValue::Int(number)) => Some((endpoint.listener_name.clone(), number)),
                _ => None,
            }
        };
        self.bound.iter().filter_map(own).collect()
    }

    fn is_controller(&self, endpoint: &Endpoint) -> bool {
        self.controller_names.contains(&endpoint.listener_name)
    }

    /// What clients are told.
    pub fn advertised_broker(&self) -> Vec<Endpoint> {
        self.advertised.iter().filter(|endpoint| !self.is_controller(endpoint)).cloned().collect()
    }

    /// What other nodes are told of the controller on this node.
    pub fn advertised_controller(&self) -> Vec<Endpoint> {
        let advertised = if self.advertised_given { self.advertised.as_slice() } else { &[] };
        let mut endpoints = Vec::new();
        for (index, name) in self.controller_names.iter().enumerate() {
            let named =
                |endpoint: &&Endpoint| self.is_controller(endpoint) && endpoint.listener_name == name.to_uppercase();
            if let Some(endpoint) = advertised.iter().find(named) {
                endpoints.push(endpoint.clone());
            } else if let Some(endpoint) = self.bound.iter().find(named) {
                endpoints.push(self.reachable(endpoint.clone(), index == 0));
            }
        }
        endpoints
    }

    /// Nobody can connect to the address that means "all of them": the first controller listener has the address that
    /// the voters know, others the machine's name.
    fn reachable(&self, mut endpoint: Endpoint, first: bool) -> Endpoint {
        let any = endpoint.host == "0.0.0.0";
        match &self.voter {
            Some((host, port)) if first && (any || endpoint.host.is_empty()) => {
                (endpoint.host, endpoint.port) = (host.clone(), *port);
            }
            _ if any => endpoint.host.clear(),
            _ => {}
        }
        endpoint
    }

    pub fn bound_controllers(&self) -> impl Iterator<Item = &Endpoint> {
        self.bound.iter().filter(|endpoint| self.is_controller(endpoint))
    }

    pub fn bound_names(&self) -> BTreeSet<&str> {
        self.bound.iter().map(|endpoint| endpoint.listener_name.as_str()).collect()
    }

    /// The listener over which brokers reach each other, and its protocol.
    pub fn inter_broker(
        &self,
        values: &Values,
        protocol_given: bool,
    ) -> Result<(String, SecurityProtocol), ConfigError> {
        const NAME: &str = "inter.broker.listener.name";
        const PROTOCOL: &str = "security.inter.broker.protocol";
        let Some(name) = values.optional_string(NAME) else {
            let protocol = parse_protocol(values.string(PROTOCOL), PROTOCOL)?;
            return Ok((protocol.name().to_owned(), protocol));
        };
        if protocol_given {
            return Err(ConfigError(format!("Only one of {NAME} and {PROTOCOL} should be set.")));
        }
        let name = normalised_listener_name(name)?;
        match self.protocols.get(&name) {
            Some(protocol) => Ok((name, *protocol)),
            None => {
                Err(ConfigError(format!("Listener with name {name} defined in {NAME} not found in {PROTOCOL_MAP}.")))
            }
        }
    }
}

fn own_voter(values: &Values) -> Result<Option<(String, u16)>, ConfigError> {
    let mut own = None;
    for entry in values.list("controller.quorum.voters") {
        let (id, host, port) = parse_voter(entry)?;
        if host == "0.0.0.0" {
            return Err(ConfigError(format!("Host string ({host}) is not routeable")));
        }
        if id == values.int("node.id") {
            own = Some((host, port));
        }
    }
    Ok(own)
}
