//! THE table of configuration keys, as data: `keys.tsv` holds every key of Kafka 4.3.1 with type, default, limits,
//! dynamic mode and documentation, in Kafka's order of definition (it decides which of several wrong values is
//! reported first).
//!
//! `scripts/config-keys/generate` writes the file from a Kafka release. What Ottla makes of a key stands in
//! [`support`](super::support), so that writing the file anew loses nothing.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::validator::Validator;
use super::value::{ConfigError, ConfigType, ConfigValue};

const TABLE: &str = include_str!("keys.tsv");

/// Whether and how far a broker's key can be changed while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateMode {
    ReadOnly,
    /// For one broker only.
    PerBroker,
    /// For one broker or as the default of all.
    ClusterWide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    High,
    Medium,
    Low,
}

/// A broker's key that gives a topic's or group's key its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySynonym {
    pub name: &'static str,
    /// From the broker key's unit to that of the key.
    pub factor: i64,
}

/// What is known of one key.
#[derive(Debug)]
pub struct ConfigKey {
    pub name: &'static str,
    pub config_type: ConfigType,
    /// The outer `None`: there is no default, the key is required. The inner one: the default is "not set".
    pub default: Option<Option<ConfigValue>>,
    pub validator: Validator,
    pub importance: Importance,
    pub update_mode: UpdateMode,
    /// Not described, and for tests.
    pub internal: bool,
    /// In order of precedence.
    pub synonyms: Vec<KeySynonym>,
    pub documentation: String,
}

impl ConfigKey {
    /// The value of a key that was given as `text`, or its default.
    pub fn parse(&self, text: Option<&str>) -> Result<Option<ConfigValue>, ConfigError> {
        let mut value = match (text, &self.default) {
            (Some(text), _) => Some(ConfigValue::parse(self.name, text, self.config_type)?),
            (None, Some(default)) => default.clone(),
            (None, None) => {
                return Err(ConfigError(format!(
                    "Missing required configuration \"{}\" which has no default value.",
                    self.name
                )));
            }
        };
        if let (Validator::List { .. }, Some(ConfigValue::List(items))) = (&self.validator, &mut value) {
            let mut seen = HashSet::new();
            items.retain(|item| seen.insert(item.clone()));
        }
        self.validator.check(self.name, value.as_ref())?;
        Ok(value)
    }

    /// The default's text, if it has one.
    pub fn default_text(&self) -> Option<String> {
        self.default.as_ref()?.as_ref().map(ConfigValue::to_text)
    }

    pub fn is_sensitive(&self) -> bool {
        self.config_type == ConfigType::Password
    }
}

/// The keys of one kind of resource, in order of definition.
pub struct ConfigDef {
    keys: Vec<ConfigKey>,
    by_name: HashMap<&'static str, usize>,
}

impl ConfigDef {
    fn read(scope: &str) -> ConfigDef {
        let keys: Vec<ConfigKey> = TABLE
            .lines()
            .filter_map(|line| line.split_once('\t').filter(|(first, _)| *first == scope))
            .map(|(_, rest)| parse_key(rest).unwrap_or_else(|| panic!("a line of keys.tsv is malformed: {rest}")))
            .collect();
        let by_name = keys.iter().enumerate().map(|(index, key)| (key.name, index)).collect();
        ConfigDef { keys, by_name }
    }

    pub fn get(&self, name: &str) -> Option<&ConfigKey> {
        self.by_name.get(name).map(|&index| &self.keys[index])
    }

    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &ConfigKey> {
        self.keys.iter()
    }

    /// Values of all keys, from the texts that `given` knows and the defaults. The first wrong one, in order of
    /// definition, is the error.
    pub fn parse<'a>(&self, given: impl Fn(&str) -> Option<&'a str>) -> Result<Values, ConfigError> {
        let mut values = Values::default();
        for key in &self.keys {
            values.set(key.name, key.parse(given(key.name))?);
        }
        Ok(values)
    }
}

/// Values by key. The typed getters are for keys of the table: a name or type that is not in it is a mistake in this
/// code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values(HashMap<&'static str, Option<ConfigValue>>);

impl Values {
    pub(super) fn set(&mut self, name: &'static str, value: Option<ConfigValue>) {
        self.0.insert(name, value);
    }

    /// `None`: not set, and without a default.
    pub fn get(&self, name: &str) -> Option<&ConfigValue> {
        self.0.get(name).and_then(Option::as_ref)
    }

    pub(super) fn boolean(&self, name: &str) -> bool {
        match self.get(name) {
            Some(ConfigValue::Boolean(value)) => *value,
            other => panic!("{name} is no BOOLEAN: {other:?}"),
        }
    }

    pub(super) fn int(&self, name: &str) -> i32 {
        self.optional_int(name).unwrap_or_else(|| panic!("{name} has no INT"))
    }

    pub(super) fn optional_int(&self, name: &str) -> Option<i32> {
        self.get(name).map(|value| match value {
            ConfigValue::Int(value) => *value,
            other => panic!("{name} is no INT: {other:?}"),
        })
    }

    pub(super) fn short(&self, name: &str) -> i16 {
        match self.get(name) {
            Some(ConfigValue::Short(value)) => *value,
            other => panic!("{name} is no SHORT: {other:?}"),
        }
    }

    pub(super) fn long(&self, name: &str) -> i64 {
        self.optional_long(name).unwrap_or_else(|| panic!("{name} has no LONG"))
    }

    pub(super) fn optional_long(&self, name: &str) -> Option<i64> {
        self.get(name).map(|value| match value {
            ConfigValue::Long(value) => *value,
            other => panic!("{name} is no LONG: {other:?}"),
        })
    }

    pub(super) fn double(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(ConfigValue::Double(value)) => *value,
            other => panic!("{name} is no DOUBLE: {other:?}"),
        }
    }

    pub(super) fn string(&self, name: &str) -> &str {
        self.optional_string(name).unwrap_or_else(|| panic!("{name} has no STRING"))
    }

    pub(super) fn optional_string(&self, name: &str) -> Option<&str> {
        self.get(name).map(|value| match value {
            ConfigValue::String(text) => text.as_str(),
            other => panic!("{name} is no STRING: {other:?}"),
        })
    }

    pub(super) fn list(&self, name: &str) -> &[String] {
        self.optional_list(name).unwrap_or_else(|| panic!("{name} has no LIST"))
    }

    pub(super) fn optional_list(&self, name: &str) -> Option<&[String]> {
        self.get(name).map(|value| match value {
            ConfigValue::List(items) => items.as_slice(),
            other => panic!("{name} is no LIST: {other:?}"),
        })
    }
}

fn parse_key(line: &'static str) -> Option<ConfigKey> {
    let mut fields = line.split('\t');
    let name = fields.next()?;
    let config_type = ConfigType::parse(fields.next()?)?;
    let default = match fields.next()? {
        "\\R" => None,
        "\\N" => Some(None),
        text => Some(Some(ConfigValue::parse(name, &unescape(text), config_type).ok()?)),
    };
    let validator = Validator::parse(fields.next()?)?;
    let importance = match fields.next()? {
        "HIGH" => Importance::High,
        "MEDIUM" => Importance::Medium,
        "LOW" => Importance::Low,
        _ => return None,
    };
    let update_mode = match fields.next()? {
        "" => UpdateMode::ReadOnly,
        "per-broker" => UpdateMode::PerBroker,
        "cluster-wide" => UpdateMode::ClusterWide,
        _ => return None,
    };
    let internal = fields.next()? == "internal";
    let synonyms = fields.next()?.split(',').filter(|synonym| !synonym.is_empty());
    let synonyms = synonyms
        .map(|synonym| match synonym.split_once('*') {
            Some((name, factor)) => Some(KeySynonym { name, factor: factor.parse().ok()? }),
            None => Some(KeySynonym { name: synonym, factor: 1 }),
        })
        .collect::<Option<Vec<_>>>()?;
    let documentation = unescape(fields.next()?);
    fields.next().is_none().then_some(ConfigKey {
        name,
        config_type,
        default,
        validator,
        importance,
        update_mode,
        internal,
        synonyms,
        documentation,
    })
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

static BROKER: LazyLock<ConfigDef> = LazyLock::new(|| ConfigDef::read("broker"));
static BROKER_DYNAMIC: LazyLock<ConfigDef> = LazyLock::new(|| ConfigDef::read("broker-dynamic"));
static TOPIC: LazyLock<ConfigDef> = LazyLock::new(|| ConfigDef::read("topic"));
static GROUP: LazyLock<ConfigDef> = LazyLock::new(|| ConfigDef::read("group"));
static CLIENT_METRICS: LazyLock<ConfigDef> = LazyLock::new(|| ConfigDef::read("client-metrics"));
static CLIENT_QUOTA: LazyLock<ConfigDef> = LazyLock::new(|| ConfigDef::read("client-quota"));
static IP_QUOTA: LazyLock<ConfigDef> = LazyLock::new(|| ConfigDef::read("ip-quota"));

/// Keys of a broker's or controller's properties file.
pub fn broker_keys() -> &'static ConfigDef {
    &BROKER
}

/// Keys of a broker that exist only as dynamic ones.
pub fn broker_dynamic_only_keys() -> &'static ConfigDef {
    &BROKER_DYNAMIC
}

pub fn topic_keys() -> &'static ConfigDef {
    &TOPIC
}

pub fn group_keys() -> &'static ConfigDef {
    &GROUP
}

pub fn client_metrics_keys() -> &'static ConfigDef {
    &CLIENT_METRICS
}

/// Quotas of a user or client id.
pub fn client_quota_keys() -> &'static ConfigDef {
    &CLIENT_QUOTA
}

/// Quotas of an address.
pub fn ip_quota_keys() -> &'static ConfigDef {
    &IP_QUOTA
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_key_of_the_release() {
        for (def, count) in [
            (broker_keys(), 360),
            (broker_dynamic_only_keys(), 3),
            (topic_keys(), 34),
            (group_keys(), 17),
            (client_metrics_keys(), 3),
            (client_quota_keys(), 4),
            (ip_quota_keys(), 1),
        ] {
            assert_eq!(def.iter().count(), count);
            assert_eq!(def.by_name.len(), count, "a key stands twice");
        }
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(lines, 360 + 3 + 34 + 17 + 3 + 4 + 1);
    }

    #[test]
    fn defaults_are_valid_and_synonyms_exist() {
        for def in [broker_keys(), topic_keys(), group_keys(), client_metrics_keys(), client_quota_keys()] {
            for key in def.iter().filter(|key| key.default.is_some()) {
                assert_eq!(key.parse(None).err(), None, "{}", key.name);
                assert!(key.internal || key.documentation.len() > 10, "{}", key.name);
            }
            for key in def.iter() {
                assert!(key.synonyms.iter().all(|synonym| broker_keys().contains(synonym.name)), "{}", key.name);
            }
        }
    }

    /// Texts as values of keys of every type and limit, and what Kafka says to them.
    #[test]
    fn texts_become_the_values_and_messages_of_kafka() {
        let cases = include_str!("../../tests/golden/config/values.tsv");
        for case in cases.lines().filter(|line| !line.starts_with('#')) {
            let [scope, name, text, expected] = case.split('\t').collect::<Vec<_>>()[..] else { panic!("{case}") };
            let def = match scope {
                "broker" => broker_keys(),
                "topic" => topic_keys(),
                "group" => group_keys(),
                "client-metrics" => client_metrics_keys(),
                "client-quota" => client_quota_keys(),
                _ => ip_quota_keys(),
            };
            let actual = match def.get(name).unwrap().parse(Some(&unescape(text))) {
                Ok(value) => format!("={}", value.unwrap().to_text()),
                Err(error) => format!("!{error}"),
            };
            assert_eq!(actual, unescape(expected), "{scope} {name} {text:?}");
        }
    }
}
