//! Which command lines make sense, and what is meant by them.

use super::*;

fn read(line: &str) -> Result<Entities, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let options = Options::parse(OPTIONS, &words).map_err(|error| error.message().to_owned())?;
    check(&options).map_err(|stop| match stop {
        Stop::Usage { message, .. } => message,
        Stop::Failed(error) => error.message().to_owned(),
        Stop::Version => "version".to_owned(),
    })
}

fn entities(types: &[EntityType], names: &[&str]) -> Result<Entities, String> {
    Ok(Entities { types: types.to_vec(), names: names.iter().map(|&name| name.to_owned()).collect() })
}

#[test]
fn entities_and_their_names() {
    let server = "--bootstrap-server a:1 --describe";
    assert_eq!(read(&format!("{server} --topic t")), entities(&[EntityType::Topics], &["t"]));
    assert_eq!(read(&format!("{server} --entity-type topics")), entities(&[EntityType::Topics], &[]));
    assert_eq!(read(&format!("{server} --broker-defaults")), entities(&[EntityType::Brokers], &[""]));
    let both = [EntityType::Users, EntityType::Clients];
    let line = "--entity-type users --entity-default --entity-type clients --entity-name c";
    assert_eq!(read(&format!("{server} {line}")), entities(&both, &["", "c"]));
    // Flags come in an order of their own.
    let both = [EntityType::Clients, EntityType::Users];
    assert_eq!(read(&format!("{server} --user u --client c")), entities(&both, &["c", "u"]));
}

#[test]
fn mistakes_are_told_as_kafka_tells_them() {
    let wrong = |line: &str| read(line).unwrap_err();
    assert_eq!(wrong("--topic t"), "Command must include exactly one action: --describe, --alter");
    assert_eq!(wrong("--describe --topic t"), "Either --bootstrap-server or --bootstrap-controller must be specified.");
    let server = "--bootstrap-server a:1";
    assert_eq!(wrong(&format!("{server} --describe")), "At least one entity type must be specified");
    assert_eq!(
        wrong(&format!("{server} --describe --topic t --group g")),
        "Only 'users' and 'clients' entity types may be specified together"
    );
    assert_eq!(
        wrong(&format!("{server} --describe --entity-type tables")),
        "Invalid entity type tables, the entity type must be one of topics, clients, users, brokers, ips, client-metrics, groups, broker-loggers with a --bootstrap-server or --bootstrap-controller argument"
    );
    assert_eq!(
        wrong(&format!("{server} --describe --broker x")),
        "The entity name for brokers must be a valid integer broker id, but it is: x"
    );
    assert_eq!(
        wrong(&format!("{server} --alter --topic t")),
        "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
    );
    assert_eq!(
        wrong(&format!("{server} --describe --topic t --add-config a=b")),
        "Option \"[describe]\" can't be used with option \"[add-config]\""
    );
}
