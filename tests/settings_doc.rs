//! `docs/settings.md` says of each of Kafka's broker and topic settings what it does here, and is made from the table that
//! the broker itself goes by. After a change of that table: `UPDATE_DOCS=1 cargo test --test settings_doc`.

use std::fmt::Write as _;
use std::path::Path;

use ottla::config::keys::{ConfigDef, ConfigKey, UpdateMode, broker_dynamic_only_keys, broker_keys, topic_keys};
use ottla::config::support::{self, Support};

const HEAD: &str = "\
# Settings

All settings of Apache Kafka 4.3.1's brokers and topics are known, with Kafka's types, defaults and rules. This page says what each does in
Ottla:

- **works**: as in Kafka;
- **no effect**: nothing yet, or only meaningful in a JVM. The log has a warning, at the start or when it is set at run time, if a broker's setting is
  something else than its default; but not of `share.coordinator.*`, which Kafka's own `server.properties` sets and share groups alone need;
- **stops the start**: it protects something, and is not honoured yet. What was meant to be closed is never served open. At run time such a change is
  refused.

Dynamic: whether Kafka lets it change at run time, for all brokers or for each. Ottla takes such changes, and those of the settings that work hold when
the request is answered, and from the next start on; one that needs a new listener is refused.
";

const OWN: &str = "
## Ottla's own
| key | type | default | |
|---|---|---|---|
| `ottla.advertised.auto` | boolean | `false`; `true` in the container image where nobody sets `advertised.listeners` | each client is told an address that works from where it came: [docker.md](docker.md#which-address-a-client-is-told) |
| `ottla.advertised.dynamic` | boolean | `false`; `true` in the container image with `KAFKA_ZOOKEEPER_CONNECT` | `advertised.listeners` of this broker can be changed at run time, as in Kafka's ZooKeeper mode |
| `ottla.advertised.external` | list | (empty) | with it, `[LISTENER://][host][:port]` for clients that come by a mapped port |
| `ottla.cluster.id` | string | a random one | what new log directories are formatted with; those in use must have it |
| `ottla.test.topics` | list | (empty) | `name[:partitions[:replicas[:cleanup.policy]]]`: created at the start, before anybody can connect; one that cannot be stops the start |
";

fn default_of(key: &ConfigKey) -> String {
    match key.default_text() {
        Some(text) if text.is_empty() => "(empty)".to_owned(),
        Some(text) => format!("`{text}`"),
        None => String::new(),
    }
}

fn kind_of(key: &ConfigKey) -> String {
    format!("{:?}", key.config_type).to_lowercase()
}

/// The keys that are shown, by name.
fn shown(def: &'static ConfigDef) -> Vec<&'static ConfigKey> {
    let mut keys: Vec<&ConfigKey> = def.iter().filter(|key| !key.internal).collect();
    keys.sort_by_key(|key| key.name);
    keys
}

fn here(key: &ConfigKey, support: Support) -> String {
    let does = match support {
        Support::Effective => "works",
        Support::NoEffect => "no effect",
        Support::Protects => "**stops the start**",
    };
    match support::remark(key.name) {
        Some(remark) => format!("{does}; {remark}"),
        None => does.to_owned(),
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("\n## Broker\n| key | type | default | dynamic | here |\n|---|---|---|---|---|\n");
    for key in shown(broker_keys()) {
        let dynamic = match key.update_mode {
            UpdateMode::ReadOnly => "",
            UpdateMode::PerBroker => "per broker",
            UpdateMode::ClusterWide => "all or per broker",
        };
        let (name, kind, here) = (key.name, kind_of(key), here(key, support::of(key.name)));
        writeln!(page, "| `{name}` | {kind} | {} | {dynamic} | {here} |", default_of(key)).unwrap();
    }
    let mut table = |title: &str, def, support: fn(&str) -> Support| {
        write!(page, "\n## {title}\n| key | type | default | here |\n|---|---|---|---|\n").unwrap();
        for key in shown(def) {
            let here = here(key, support(key.name));
            writeln!(page, "| `{}` | {} | {} | {here} |", key.name, kind_of(key), default_of(key)).unwrap();
        }
    };
    table("Broker, at run time only", broker_dynamic_only_keys(), support::of_dynamic_only);
    table("Topic", topic_keys(), support::of_topic);
    page.push_str(OWN);
    page
}

#[test]
fn the_page_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/settings.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, page()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        written == page(),
        "docs/settings.md is not what the table says: UPDATE_DOCS=1 cargo test --test settings_doc"
    );
}
