//! Which addresses a container listens on and tells others, where the environment leaves that open.
//!
//! - `listeners` missing: those of `advertised.listeners`, on all addresses, as Kafka's own image has it.
//! - A controller without a listener for that role gets one.
//! - `advertised.listeners` missing: each client is told an address that works from where it came
//!   (`ottla.advertised.auto`), unless the old `KAFKA_ADVERTISED_HOST_NAME` says one for all.

use std::collections::BTreeMap;

use super::environment::Texts;

/// What is to be set besides, and what there is to say about it.
#[derive(Debug, Default)]
pub(super) struct Completion {
    pub settings: Texts,
    pub warnings: Vec<String>,
    pub problems: Vec<String>,
}

/// One entry of a list of listeners, `NAME://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Upper case.
    pub name: String,
    pub host: String,
    pub port: String,
}

impl Entry {
    pub(super) fn parse(text: &str) -> Option<Entry> {
        let (name, address) = text.trim().split_once("://")?;
        let (host, port) = address.rsplit_once(':')?;
        Some(Entry { name: name.to_uppercase(), host: host.to_owned(), port: port.to_owned() })
    }

    fn text(&self) -> String {
        format!("{}://{}:{}", self.name, self.host, self.port)
    }

    fn is_everywhere(&self) -> bool {
        matches!(self.host.as_str(), "" | "0.0.0.0" | "[::]" | "::")
    }
}

/// The entries of a list; those that make no sense are for the settings' own rules to complain of.
pub(super) fn entries(text: Option<&String>) -> Vec<Entry> {
    text.into_iter().flat_map(|text| text.split(',')).filter_map(Entry::parse).collect()
}

fn names(text: Option<&String>) -> Vec<String> {
    text.into_iter()
        .flat_map(|text| text.split(','))
        .map(|name| name.trim().to_uppercase())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Fills in what is missing. `variable` looks into the environment.
pub(super) fn complete<'a>(given: &Texts, variable: impl Fn(&str) -> Option<&'a str>) -> Completion {
    let mut done = Completion::default();
    let roles = names(given.get("process.roles"));
    let controllers = match given.get("controller.listener.names") {
        Some(_) => names(given.get("controller.listener.names")),
        None => vec!["CONTROLLER".to_owned()],
    };
    let is_controller = |entry: &Entry| controllers.contains(&entry.name);

    for key in ["listeners", "advertised.listeners"] {
        if let Some(text) = given.get(key)
            && text.contains("_{")
        {
            let problem =
                format!("{key}={text}: commands in _{{...}} are not run here; write the name or address itself");
            done.problems.push(problem);
            return done;
        }
    }
    let mut advertised = entries(given.get("advertised.listeners"));
    let mut bound = entries(given.get("listeners"));
    if bound.is_empty() && !given.contains_key("listeners") {
        let everywhere = |entry: &Entry| Entry { host: "0.0.0.0".to_owned(), ..entry.clone() };
        bound = advertised.iter().map(everywhere).collect();
        if bound.is_empty() {
            let port = variable("KAFKA_PORT").filter(|port| port.parse::<u16>().is_ok()).unwrap_or("9092");
            bound.push(Entry { name: "PLAINTEXT".to_owned(), host: String::new(), port: port.to_owned() });
        }
    }
    if roles.iter().any(|role| role == "CONTROLLER")
        && !bound.iter().any(is_controller)
        && let Some(name) = controllers.first()
    {
        let entry = Entry { name: name.clone(), host: String::new(), port: controller_port(given, &bound) };
        if let Some(map) = given.get("listener.security.protocol.map")
            && !map
                .split(',')
                .any(|pair| pair.split(':').next().is_some_and(|key| key.trim().eq_ignore_ascii_case(name)))
        {
            done.settings.insert("listener.security.protocol.map".to_owned(), format!("{map},{name}:PLAINTEXT"));
        }
        bound.push(entry);
    }
    if bound.is_empty() {
        // Not to be understood: the rules of the settings say why.
        return done;
    }
    let text = |entries: &[Entry]| entries.iter().map(Entry::text).collect::<Vec<_>>().join(",");
    if entries(given.get("listeners")).len() != bound.len() {
        done.settings.insert("listeners".to_owned(), text(&bound));
    }
    if !advertised.is_empty() || given.contains_key("advertised.listeners") {
        return done;
    }
    let clients = bound.iter().filter(|entry| !is_controller(entry));
    let port = variable("KAFKA_ADVERTISED_PORT").filter(|port| {
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        if !is_port {
            done.warnings.push(format!("KAFKA_ADVERTISED_PORT={port}: no port; it is left out"));
        }
        is_port
    });
    if let Some(host) = variable("KAFKA_ADVERTISED_HOST_NAME") {
        advertised = clients
            .enumerate()
            .map(|(index, entry)| Entry {
                host: host.to_owned(),
                // The port is that of the first.
                port: port.filter(|_| index == 0).unwrap_or(&entry.port).to_owned(),
                ..entry.clone()
            })
            .collect();
        done.settings.insert("advertised.listeners".to_owned(), text(&advertised));
        return done;
    }
    if let Some(auto) = given.get("ottla.advertised.auto") {
        if auto.trim().eq_ignore_ascii_case("false") {
            return done;
        }
    } else {
        done.settings.insert("ottla.advertised.auto".to_owned(), "true".to_owned());
    }
    if let Some(port) = port
        && !given.contains_key("ottla.advertised.external")
    {
        done.settings.insert("ottla.advertised.external".to_owned(), format!(":{port}"));
    }
    advertised = clients
        .map(|entry| {
            if entry.is_everywhere() { Entry { host: "localhost".to_owned(), ..entry.clone() } } else { entry.clone() }
        })
        .collect();
    if !advertised.is_empty() {
        done.settings.insert("advertised.listeners".to_owned(), text(&advertised));
    }
    done
}

/// The port under which the voters know this node's controller, or one that the system picks.
fn controller_port(given: &Texts, bound: &[Entry]) -> String {
    let id = given.get("node.id").or_else(|| given.get("broker.id")).map_or("1", |id| id.trim());
    let voters = given.get("controller.quorum.voters").map(String::as_str).unwrap_or_default();
    let own = voters.split(',').filter_map(|voter| voter.split_once('@')).find(|(voter, _)| voter.trim() == id);
    own.and_then(|(_, address)| address.rsplit_once(':'))
        .map(|(_, port)| port.trim())
        .filter(|port| port.parse::<u16>().is_ok() && !bound.iter().any(|entry| entry.port == *port))
        .unwrap_or("0")
        .to_owned()
}

/// The listeners that ask for TLS or SASL, and for which of it.
pub(super) fn protected(given: &Texts) -> Vec<(String, String)> {
    let map: BTreeMap<String, String> = given
        .get("listener.security.protocol.map")
        .into_iter()
        .flat_map(|map| map.split(','))
        .filter_map(|pair| pair.split_once(':'))
        .map(|(name, protocol)| (name.trim().to_uppercase(), protocol.trim().to_uppercase()))
        .collect();
    entries(given.get("listeners"))
        .into_iter()
        .filter_map(|entry| {
            let protocol = map.get(&entry.name).unwrap_or(&entry.name).clone();
            ["SSL", "SASL_PLAINTEXT", "SASL_SSL"].contains(&protocol.as_str()).then(|| (entry.text(), protocol))
        })
        .collect()
}

/// What clients are told that cannot be: this machine's own name or address with a port that nobody listens on.
pub(super) fn unreachable(given: &Texts, is_own: impl Fn(&str) -> bool) -> Vec<String> {
    let bound = entries(given.get("listeners"));
    entries(given.get("advertised.listeners"))
        .into_iter()
        .filter(|told| !bound.iter().any(|entry| entry.port == told.port || entry.port == "0") && is_own(&told.host))
        .filter_map(|told| {
            let listener = bound.iter().find(|entry| entry.name == told.name)?;
            Some(format!(
                "advertised.listeners tells clients of {} to come to {}:{}, which is this container, but nothing listens on port {}: \
                 say {}:{}, or have {} listen on port {}",
                told.name, told.host, told.port, told.port, told.host, listener.port, told.name, told.port
            ))
        })
        .collect()
}
