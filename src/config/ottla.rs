//! Ottla's own settings, `ottla.*`: for what Kafka has no word.
//!
//! | key | value | what it does |
//! |---|---|---|
//! | `ottla.advertised.auto` | boolean, false | each client is told an address that works from where it came |
//! | `ottla.advertised.dynamic` | boolean, false | `advertised.listeners` of a broker can be changed while it runs, as in Kafka's ZooKeeper mode |
//! | `ottla.advertised.external` | list of `[LISTENER://][host][:port]` | what clients from outside of the container's networks are told with it: `localhost` and the listener's port where nothing else is said |
//! | `ottla.cluster.id` | text | what new log directories are formatted with; those in use must have it |
//! | `ottla.test.topics` | list of `name[:partitions[:replicas[:cleanup.policy]]]` | topics that are created at the start, unless they are there; one that cannot be stops it |

use std::collections::BTreeMap;

use super::value::ConfigError;

const ADVERTISED_AUTO: &str = "ottla.advertised.auto";
const ADVERTISED_DYNAMIC: &str = "ottla.advertised.dynamic";
const ADVERTISED_EXTERNAL: &str = "ottla.advertised.external";
const CLUSTER_ID: &str = "ottla.cluster.id";
const TEST_TOPICS: &str = "ottla.test.topics";
/// As it is called where something is wrong with it: most people set it by an image's variable.
pub const TEST_TOPICS_TOLD: &str = "ottla.test.topics (KAFKA_CREATE_TOPICS)";

/// Every key, in the order of the alphabet.
pub const KEYS: [&str; 5] = [ADVERTISED_AUTO, ADVERTISED_DYNAMIC, ADVERTISED_EXTERNAL, CLUSTER_ID, TEST_TOPICS];

/// The settings of this node that are Ottla's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OttlaConfig {
    pub advertised_auto: bool,
    pub advertised_dynamic: bool,
    pub advertised_external: Vec<ExternalAddress>,
    pub cluster_id: Option<String>,
    pub test_topics: Vec<TestTopic>,
}

/// One entry of `ottla.advertised.external`. What it leaves out is as it would be without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExternalAddress {
    /// Upper case; for all listeners without an entry of their own if there is none.
    pub listener: Option<String>,
    pub host: Option<String>,
    pub port: Option<u16>,
}

/// One entry of `ottla.test.topics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestTopic {
    pub name: String,
    /// -1: as the broker's defaults say.
    pub partitions: i32,
    /// -1: as the broker's defaults say.
    pub replication_factor: i16,
    pub cleanup_policy: Option<String>,
}

impl OttlaConfig {
    /// Reads them out of all that was given.
    pub fn read(given: &BTreeMap<String, String>) -> Result<OttlaConfig, ConfigError> {
        let text = |key: &str| given.get(key).map(|text| text.trim()).filter(|text| !text.is_empty());
        Ok(OttlaConfig {
            advertised_auto: is_auto(given)?,
            advertised_dynamic: boolean(given, ADVERTISED_DYNAMIC)?,
            advertised_external: entries(text(ADVERTISED_EXTERNAL), ADVERTISED_EXTERNAL, parse_external)?,
            cluster_id: text(CLUSTER_ID).map(str::to_owned),
            test_topics: each_once(entries(text(TEST_TOPICS), TEST_TOPICS_TOLD, parse_topic)?)?,
        })
    }
}

/// The topics, of which some may be named again; but not as something else.
fn each_once(topics: Vec<TestTopic>) -> Result<Vec<TestTopic>, ConfigError> {
    let mut distinct: Vec<TestTopic> = Vec::with_capacity(topics.len());
    for topic in topics {
        match distinct.iter().find(|other| other.name == topic.name) {
            None => distinct.push(topic),
            Some(other) if *other == topic => {}
            Some(_) => {
                let name = topic.name;
                let reason = format!("{TEST_TOPICS_TOLD}: {name}: is there twice, and not the same both times");
                return Err(ConfigError(reason));
            }
        }
    }
    Ok(distinct)
}

/// `ottla.advertised.auto` by itself: what else is given depends on it.
pub(super) fn is_auto(given: &BTreeMap<String, String>) -> Result<bool, ConfigError> {
    boolean(given, ADVERTISED_AUTO)
}

fn boolean(given: &BTreeMap<String, String>, key: &str) -> Result<bool, ConfigError> {
    match given.get(key).map(|text| text.trim().to_ascii_lowercase()).as_deref() {
        None | Some("" | "false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(ConfigError(format!("{key}={other}: true or false is expected"))),
    }
}

fn entries<T>(
    text: Option<&str>,
    key: &str,
    parse: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<Vec<T>, ConfigError> {
    text.into_iter()
        .flat_map(|text| text.split([',', '\n']))
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(|entry| parse(entry).map_err(|reason| ConfigError(format!("{key}: {entry}: {reason}"))))
        .collect()
}

fn parse_external(entry: &str) -> Result<ExternalAddress, &'static str> {
    const EXPECTED: &str = "LISTENER://host:port is expected, each of the three may be left out";
    let (listener, address) = match entry.split_once("://") {
        Some((listener, address)) => (Some(listener.to_uppercase()), address),
        None => (None, entry),
    };
    // An address of IPv6 stands in brackets.
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        // A number is no host.
        _ if !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_digit()) => ("", Some(address)),
        _ => (address, None),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.map(str::parse::<u16>).transpose().map_err(|_| EXPECTED)?;
    if port == Some(0) || (host.is_empty() && port.is_none()) || host.contains(['[', ']', ' ']) {
        return Err(EXPECTED);
    }
    Ok(ExternalAddress { listener, host: (!host.is_empty()).then(|| host.to_owned()), port })
}

fn parse_topic(entry: &str) -> Result<TestTopic, &'static str> {
    const EXPECTED: &str = "name:partitions:replicas:cleanup.policy is expected, with numbers from 1 to 32767; all but the name may be left out";
    let mut parts = entry.split(':').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty()).ok_or(EXPECTED)?;
    let mut number = || match parts.next() {
        None | Some("" | "-1") => Ok(-1),
        Some(text) => text.parse::<i16>().ok().filter(|number| *number > 0).ok_or(EXPECTED),
    };
    let (partitions, replication_factor) = (i32::from(number()?), number()?);
    let cleanup_policy = parts.next().filter(|policy| !policy.is_empty()).map(|policy| policy.replace('+', ","));
    if cleanup_policy.iter().flat_map(|policy| policy.split(',')).any(|policy| !["compact", "delete"].contains(&policy))
    {
        return Err("the cleanup.policy is compact, delete or compact+delete");
    }
    match parts.next() {
        Some(_) => Err(EXPECTED),
        None => Ok(TestTopic { name: name.to_owned(), partitions, replication_factor, cleanup_policy }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<OttlaConfig, String> {
        let given = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        OttlaConfig::read(&given).map_err(|error| error.0)
    }

    #[test]
    fn nothing_is_on_by_itself() {
        assert_eq!(read(&[("node.id", "1")]).unwrap(), OttlaConfig::default());
        assert_eq!(
            read(&[(ADVERTISED_AUTO, ""), (CLUSTER_ID, " "), (TEST_TOPICS, " , ")]).unwrap(),
            OttlaConfig::default()
        );
        assert!(read(&[(ADVERTISED_AUTO, "TRUE")]).unwrap().advertised_auto);
        assert!(read(&[(ADVERTISED_AUTO, "yes")]).unwrap_err().contains("ottla.advertised.auto=yes"));
    }

    #[test]
    fn external_addresses_leave_out_what_they_like() {
        let config =
            read(&[(ADVERTISED_EXTERNAL, "out://broker.example:29092, :19092,[::1]:5,h,IN://[fd00::1]")]).unwrap();
        let own = |(listener, host, port): (Option<&str>, Option<&str>, Option<u16>)| ExternalAddress {
            listener: listener.map(str::to_owned),
            host: host.map(str::to_owned),
            port,
        };
        let expected = [
            (Some("OUT"), Some("broker.example"), Some(29092)),
            (None, None, Some(19092)),
            (None, Some("::1"), Some(5)),
            (None, Some("h"), None),
            (Some("IN"), Some("fd00::1"), None),
        ];
        assert_eq!(config.advertised_external, expected.map(own));
        assert_eq!(
            read(&[(ADVERTISED_EXTERNAL, "29092")]).unwrap().advertised_external,
            [own((None, None, Some(29092)))]
        );
        for wrong in ["A://", ":", "h:", "h:0", "h:70000", "a b:1", ":x", "70000"] {
            assert!(read(&[(ADVERTISED_EXTERNAL, wrong)]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn topics_are_named_with_or_without_their_numbers() {
        let topics =
            read(&[(TEST_TOPICS, "orders:3:1,plain,\ncompacted:1:1:compact,both:2::compact+delete,")]).unwrap();
        let shown: Vec<_> = topics
            .test_topics
            .iter()
            .map(|t| (t.name.as_str(), t.partitions, t.replication_factor, t.cleanup_policy.as_deref()))
            .collect();
        let expected = [
            ("orders", 3, 1, None),
            ("plain", -1, -1, None),
            ("compacted", 1, 1, Some("compact")),
            ("both", 2, -1, Some("compact,delete")),
        ];
        assert_eq!(shown, expected);
        for wrong in [":1", "t:1:1:bogus", "t:0", "t:x", "t:1:1:compact:more", "t:1:99999"] {
            assert!(read(&[(TEST_TOPICS, wrong)]).unwrap_err().starts_with(TEST_TOPICS_TOLD), "{wrong}");
        }
        assert_eq!(read(&[(TEST_TOPICS, "a:1,b,a:1:-1,b:")]).unwrap().test_topics.len(), 2);
        let told = read(&[(TEST_TOPICS, "a:1,b,a:2")]).unwrap_err();
        assert_eq!(told, "ottla.test.topics (KAFKA_CREATE_TOPICS): a: is there twice, and not the same both times");
    }
}
