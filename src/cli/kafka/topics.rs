//! `kafka-topics`: creates, lists, describes, changes and deletes topics.

mod describe;

use std::collections::BTreeMap;

use kafka_protocol::messages::create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::{BrokerId, CreatePartitionsRequest, DeleteTopicsRequest};

use super::options::{Kind, Options, Spec};
use super::topic_filter::{TopicFilter, is_internal};
use super::{Stop, complain, conclude, say, uncaught};
use crate::client::log::{self, Level};
use crate::client::text;
use crate::client::topics::{self, answered};
use crate::client::{Client, Error, Target, block_on};
use crate::config::{java, keys};
use crate::protocol::ErrorCode;

const ABOUT: &str = "This tool helps to create, delete, describe, or change a topic.";
const SETTINGS_ELSEWHERE: &str = " (To alter topic configurations, the kafka-configs tool can be used.)";

const OPTIONS: &[Spec] = &[
    Spec::with_argument("bootstrap-server", "server to connect to", "REQUIRED: The broker to connect to."),
    Spec::with_argument("command-config", "command config property file", "A properties file with settings of the client."),
    Spec::flag("list", "List the topics."),
    Spec::flag("create", "Create a topic."),
    Spec::flag("delete", "Delete a topic."),
    Spec::flag("alter", "Change the number of partitions. Settings are for kafka-configs."),
    Spec::flag("describe", "Describe topics and their partitions."),
    Spec::with_argument("topic", "topic", "The topic; but for --create, a regular expression that topics match."),
    Spec::with_argument("topic-id", "topic-id", "The id of the topic to describe."),
    Spec::with_argument("config", "name=value", "With --create: a setting of the new topic. May be given many times."),
    Spec::with_argument("delete-config", "name", "Not supported any more, as since Kafka 4.0."),
    Spec::with_argument("partitions", "# of partitions", "How many partitions the topic is to have. With keys, records go elsewhere when partitions are added. Without, a new topic has what the cluster's default says.").of(Kind::Integer),
    Spec::with_argument("replication-factor", "replication factor", "How many replicas each partition of the new topic is to have. Without, the cluster's default.").of(Kind::Integer),
    Spec::with_argument("replica-assignment", "broker_id_for_part1_replica1 : broker_id_for_part1_replica2 , broker_id_for_part2_replica1 : broker_id_for_part2_replica2 , ...", "Which brokers have the replicas of each partition."),
    Spec::flag("under-replicated-partitions", "With --describe: only partitions with replicas that lag behind."),
    Spec::flag("unavailable-partitions", "With --describe: only partitions without a leader that lives."),
    Spec::flag("under-min-isr-partitions", "With --describe: only partitions with fewer replicas in sync than min.insync.replicas."),
    Spec::flag("at-min-isr-partitions", "With --describe: only partitions with just as many replicas in sync as min.insync.replicas."),
    Spec::flag("topics-with-overrides", "With --describe: only topics with settings of their own."),
    Spec::flag("if-exists", "With --alter, --delete and --describe: no failure if there is no such topic."),
    Spec::flag("if-not-exists", "With --create: no failure if the topic exists."),
    Spec::flag("exclude-internal", "With --list and --describe: without the topics that Kafka keeps for itself."),
    Spec::with_argument("partition-size-limit-per-response", "maximum number of partitions per response", "How many partitions one answer to --describe may have.").of(Kind::Integer),
];

const ACTIONS: [&str; 5] = ["create", "list", "alter", "describe", "delete"];
const REPORTS: [&str; 4] =
    ["under-replicated-partitions", "under-min-isr-partitions", "at-min-isr-partitions", "unavailable-partitions"];

pub fn run(words: &[String]) -> u8 {
    let ended = Options::parse(OPTIONS, words).map_err(Stop::from).and_then(|options| {
        check(&options)?;
        let client = Client::new(options.client_config()?);
        match block_on(act(&client, &options)) {
            Ok(()) => Ok(0),
            Err(error) => {
                say!("Error while executing topic command : {}", error.message());
                log::write(Level::Error, "org.apache.kafka.tools.TopicCommand", format_args!("{}\n", error.trace()));
                Ok(1)
            }
        }
    });
    match ended {
        Ok(code) => code,
        Err(stop) => conclude(Err(stop), uncaught),
    }
}

fn check(options: &Options) -> Result<(), Stop> {
    if options.words == 0 {
        return Err(options.usage("Create, delete, describe, or change a topic."));
    }
    options.help_or_version(ABOUT)?;
    if ACTIONS.iter().filter(|action| options.has(action)).count() != 1 {
        return Err(
            options.usage("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
        );
    }
    if options.has("delete-config") {
        complain!(
            "delete-config option is no longer supported and deprecated since version 4.0. The config will be fully removed in future releases."
        );
    }
    if !options.has("bootstrap-server") {
        return Err(Error::illegal_argument("--bootstrap-server must be specified").into());
    }
    if options.has("describe") && options.has("if-exists") {
        match (options.has("topic"), options.has("topic-id")) {
            (false, false) => return Err(options.usage("--topic or --topic-id is required to describe a topic")),
            (true, true) => say!(
                "Only topic id will be used when both --topic and --topic-id are specified and topicId is not Uuid.ZERO_UUID"
            ),
            _ => {}
        }
    }
    if !options.has("list") && !options.has("describe") {
        options.require(&["topic"])?;
    }
    if options.has("alter") {
        if options.has("config") {
            return Err(options.usage(format!(
                "Option combination \"[[bootstrap-server], [config]]\" can't be used with option \"[alter]\"{SETTINGS_ELSEWHERE}"
            )));
        }
        options.require(&["partitions"])?;
    }
    let only_with = |option: &str, actions: &[&str], reports: &[&str]| {
        let others: Vec<&str> =
            ACTIONS.iter().filter(|action| !actions.contains(action)).chain(reports).copied().collect();
        options.exclude(option, &others)
    };
    only_with("config", &["alter", "create"], &[])?;
    only_with("partitions", &["alter", "create"], &[])?;
    only_with("replication-factor", &["create"], &[])?;
    only_with("replica-assignment", &["alter", "create"], &[])?;
    if options.has("create") {
        options.exclude("replica-assignment", &["partitions", "replication-factor"])?;
    }
    for report in REPORTS {
        only_with(report, &["describe"], &["topics-with-overrides"])?;
    }
    only_with("topics-with-overrides", &["describe"], &REPORTS)?;
    only_with("if-exists", &["alter", "delete", "describe"], &[])?;
    only_with("if-not-exists", &["create"], &[])?;
    only_with("exclude-internal", &["list", "describe"], &[])
}

async fn act(client: &Client, options: &Options) -> Result<(), Error> {
    if options.has("create") {
        create(client, options).await
    } else if options.has("alter") {
        alter(client, options).await
    } else if options.has("list") {
        let names = matching(client, options).await?;
        say!("{}", names.join("\n"));
        Ok(())
    } else if options.has("describe") {
        describe::describe(client, options).await
    } else {
        delete(client, options).await
    }
}

// --- create -------------------------------------------------------------------------------------------------------

async fn create(client: &Client, options: &Options) -> Result<(), Error> {
    let name = options.text("topic")?;
    let partitions = options.integer("partitions")?;
    let replication_factor = options.integer("replication-factor")?;
    let assignment = assignment(options)?;
    let settings = settings(options)?;
    if name.contains(['.', '_']) {
        say!(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. To avoid issues it is best to use either, but not both."
        );
    }
    if replication_factor.is_some_and(|factor| !(1..=i32::from(i16::MAX)).contains(&factor)) {
        return Err(Error::illegal_argument(format!(
            "The replication factor must be between 1 and {} inclusive",
            i16::MAX
        )));
    }
    if partitions.is_some_and(|count| count < 1) {
        return Err(Error::illegal_argument("The partitions must be greater than 0"));
    }
    let assignments = assignment.iter().enumerate().map(|(partition, brokers)| {
        CreatableReplicaAssignment::default()
            .with_partition_index(partition as i32)
            .with_broker_ids(brokers.iter().map(|&id| BrokerId(id)).collect())
    });
    let configs = settings
        .iter()
        .map(|(key, value)| CreatableTopicConfig::default().with_name(text(key)).with_value(Some(text(value))));
    let topic = CreatableTopic::default()
        .with_name(text(name).into())
        .with_num_partitions(partitions.unwrap_or(-1))
        .with_replication_factor(replication_factor.unwrap_or(-1) as i16)
        .with_assignments(assignments.collect())
        .with_configs(configs.collect());
    let created = topics::create(client, topic).await;
    match created {
        Ok(()) => {
            say!("Created topic {name}.");
            Ok(())
        }
        Err(error) if error.is(ErrorCode::TopicAlreadyExists) && options.has("if-not-exists") => Ok(()),
        Err(error) => Err(error),
    }
}

/// The brokers of each partition: `0:1,1:2`.
fn assignment(options: &Options) -> Result<Vec<Vec<i32>>, Error> {
    let text = options.text("replica-assignment")?;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut partitions: Vec<Vec<i32>> = Vec::new();
    for (partition, list) in java::split(text, ',').into_iter().enumerate() {
        let mut brokers = Vec::new();
        for id in java::split(list, ':').into_iter().map(java::trim) {
            let not_a_number = || Error::new("java.lang.NumberFormatException", format!("For input string: \"{id}\""));
            brokers.push(java::parse_integer::<i32>(id).ok_or_else(not_a_number)?);
        }
        let mut duplicates: Vec<i32> = Vec::new();
        for (at, id) in brokers.iter().enumerate() {
            if brokers[..at].contains(id) && !duplicates.contains(id) {
                duplicates.push(*id);
            }
        }
        if !duplicates.is_empty() {
            let duplicates: Vec<String> = duplicates.iter().map(ToString::to_string).collect();
            return Err(Error::new(
                "org.apache.kafka.tools.AdminCommandFailedException",
                format!("Partition replica lists may not contain duplicate entries: {}", duplicates.join(",")),
            ));
        }
        if partitions.first().is_some_and(|first| first.len() != brokers.len()) {
            return Err(Error::new(
                "org.apache.kafka.tools.AdminOperationException",
                format!("Partition {partition} has different replication factor: {brokers:?}"),
            ));
        }
        partitions.push(brokers);
    }
    Ok(partitions)
}

/// The settings of a new topic, checked as far as that can be done here.
fn settings(options: &Options) -> Result<BTreeMap<String, String>, Error> {
    let mut settings = BTreeMap::new();
    for pair in options.values("config") {
        let Some((key, value)) = pair.split_once('=').filter(|(_, value)| !value.is_empty() && !value.contains('='))
        else {
            return Err(Error::illegal_argument(
                "requirement failed: Invalid topic config: all configs to be added must be in the format \"key=val\".",
            ));
        };
        settings.insert(java::trim(key).to_owned(), java::trim(value).to_owned());
    }
    let mut names: Vec<&str> = settings.keys().map(String::as_str).collect();
    java::in_hash_order(&mut names);
    if let Some(unknown) = names.iter().find(|name| !keys::topic_keys().contains(name)) {
        return Err(Error::new(
            "org.apache.kafka.common.errors.InvalidConfigurationException",
            format!("Unknown topic config name: {unknown}"),
        ));
    }
    if !settings.is_empty() {
        keys::topic_keys()
            .parse(|name| settings.get(name).map(String::as_str))
            .map_err(|error| Error::config(error.to_string()))?;
    }
    Ok(settings)
}

// --- list, alter, delete ------------------------------------------------------------------------------------------

/// The names of the topics that the options choose, ascending.
async fn matching(client: &Client, options: &Options) -> Result<Vec<String>, Error> {
    let exclude_internal = options.has("exclude-internal");
    let listed = topics::list(client, !exclude_internal).await?;
    let filter = options.value("topic")?.map(TopicFilter::new).transpose()?;
    let mut names: Vec<String> = listed.into_iter().map(|topic| topic.name).collect();
    names.retain(|name| {
        filter.as_ref().is_none_or(|filter| filter.matches(name)) && !(exclude_internal && is_internal(name))
    });
    Ok(names)
}

fn ensure_found(found: usize, options: &Options) -> Result<(), Error> {
    match options.value("topic")? {
        Some(topic) if !topic.is_empty() && found == 0 && !options.has("if-exists") => {
            Err(Error::illegal_argument(format!("Topic '{topic}' does not exist as expected")))
        }
        _ => Ok(()),
    }
}

async fn alter(client: &Client, options: &Options) -> Result<(), Error> {
    let count = options.integer("partitions")?.unwrap_or_default();
    let assignment = assignment(options)?;
    settings(options)?;
    let names = matching(client, options).await?;
    ensure_found(names.len(), options)?;
    if names.is_empty() {
        return Ok(());
    }
    let described = match assignment.is_empty() {
        true => Vec::new(),
        false => topics::describe(client, &names, i32::MAX).await?,
    };
    let topics = names.iter().map(|name| {
        let has = described.iter().find(|topic| topic.name == *name).map_or(0, |topic| topic.partitions.len());
        let added = assignment.iter().skip(has).map(|brokers| {
            CreatePartitionsAssignment::default().with_broker_ids(brokers.iter().map(|&id| BrokerId(id)).collect())
        });
        CreatePartitionsTopic::default()
            .with_name(text(name).into())
            .with_count(count)
            .with_assignments((!assignment.is_empty()).then(|| added.collect()))
    });
    let request = CreatePartitionsRequest::default()
        .with_topics(topics.collect())
        .with_timeout_ms(client.config.request_timeout_ms());
    client
        .retry("createPartitions", async || {
            let response = client.send(&Target::Controller, &request).await?;
            let mut results = response.results.iter();
            results.try_for_each(|result| answered(result.error_code, result.error_message.as_deref()))
        })
        .await
}

async fn delete(client: &Client, options: &Options) -> Result<(), Error> {
    let names = matching(client, options).await?;
    ensure_found(names.len(), options)?;
    if names.is_empty() {
        return Ok(());
    }
    let states = names.iter().map(|name| DeleteTopicState::default().with_name(Some(text(name).into())));
    let timeout_ms = client.config.request_timeout_ms();
    let by_state = DeleteTopicsRequest::default().with_topics(states.collect()).with_timeout_ms(timeout_ms);
    let by_name = DeleteTopicsRequest::default()
        .with_topic_names(names.iter().map(|name| text(name).into()).collect())
        .with_timeout_ms(timeout_ms);
    client
        .retry("deleteTopics", async || {
            let controller = client.connection(&Target::Controller).await?;
            // v6 names topics by name or by id.
            let states = controller.versions.common::<DeleteTopicsRequest>(i16::MAX)? >= 6;
            let response = client.send(&Target::Controller, if states { &by_state } else { &by_name }).await?;
            let mut results = response.responses.iter();
            results.try_for_each(|result| answered(result.error_code, result.error_message.as_deref()))
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(OPTIONS, &words).unwrap()
    }

    fn message<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
        outcome.unwrap_err().message().to_owned()
    }

    #[test]
    fn options_belong_to_actions() {
        let refused = |line: &str| match check(&options(line)).unwrap_err() {
            Stop::Usage { message, .. } => message,
            Stop::Failed(error) => error.message().to_owned(),
            Stop::Version => "version".to_owned(),
        };
        assert_eq!(refused("--list"), "--bootstrap-server must be specified");
        let server = "--bootstrap-server a:1";
        assert_eq!(refused(&format!("{server} --create")), "Missing required argument \"[topic]\"");
        assert_eq!(
            refused(&format!("{server} --list --partitions 3")),
            "Option \"[partitions]\" can't be used with option \"[list]\""
        );
        assert_eq!(
            refused(&format!("{server} --create --topic t --replica-assignment 1 --partitions 1")),
            "Option \"[replica-assignment]\" can't be used with option \"[partitions]\""
        );
        assert!(check(&options(&format!("{server} --list --topic t"))).is_ok());
    }

    #[test]
    fn assignments_are_lists_of_brokers() {
        let assignment = |text: &str| assignment(&options(&format!("--replica-assignment {text}")));
        assert_eq!(assignment("1:2,2:3").unwrap(), [[1, 2], [2, 3]]);
        assert_eq!(message(assignment("1:1")), "Partition replica lists may not contain duplicate entries: 1");
        assert_eq!(message(assignment("1,1:2")), "Partition 1 has different replication factor: [1, 2]");
        assert_eq!(message(assignment("1,x")), "For input string: \"x\"");
    }

    #[test]
    fn settings_are_checked_before_anything_is_asked() {
        let settings = |text: &str| settings(&options(&format!("--config {text}")));
        assert_eq!(settings("retention.ms=5").unwrap()["retention.ms"], "5");
        assert_eq!(message(settings("nonesuch=1")), "Unknown topic config name: nonesuch");
        assert!(message(settings("retention.ms=soon")).contains("retention.ms"));
        assert!(message(settings("retention.ms")).starts_with("requirement failed: Invalid topic config"));
    }
}
