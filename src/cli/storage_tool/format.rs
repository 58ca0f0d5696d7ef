//! `kafka-storage format`: what a new node's log directories hold before it first starts.
//!
//! Each directory gets `bootstrap.checkpoint`, the records of a new cluster, and `meta.properties`; the directory of the
//! metadata log, where the voters are dynamic and named here, the snapshot that they stand in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::scram;
use super::{Failure, directories};
use crate::cli::kafka::argparse::Arguments;
use crate::cli::kafka::feature_levels::{FEATURES, name_and_level, release, release_name};
use crate::client::Error;
use crate::config::{BrokerConfig, java};
use crate::metadata::records::{FeatureLevelRecord, MetadataRecord, UserScramCredentialRecord, VersionedRecord};
use crate::metadata::snapshot::{self, SnapshotQuorum};
use crate::metadata::version::MetadataVersion;
use crate::record::control::{Voter, VoterEndpoint};
use crate::storage::disk::Disk;
use crate::storage::meta_properties::{EnsembleError, FILE_NAME, MetaProperties, MetaPropertiesEnsemble};
use crate::types::{BrokerId, DirectoryId};

const METADATA: &str = "metadata.version";
const KRAFT: &str = "kraft.version";
const METADATA_LOG: &str = "__cluster_metadata-0";
/// The first level that has records for SCRAM: 3.5-IV2.
const FIRST_WITH_SCRAM: i16 = 11;

/// What is asked for.
pub struct Format<'a> {
    pub config: &'a BrokerConfig,
    /// Levels that are not in production yet may be chosen.
    pub unstable: bool,
    pub arguments: &'a Arguments,
    pub now_ms: i64,
}

type Levels = BTreeMap<String, i16>;

impl Format<'_> {
    /// Formats; hands each line that is to be printed to `say`, when it is true.
    pub fn run(&self, disk: &dyn Disk, say: &mut dyn FnMut(String)) -> Result<(), Failure> {
        let mut asked = Levels::new();
        let release = match self.arguments.value("release-version") {
            Some(text) => Some(self.release(text)?),
            None => None,
        };
        for text in self.arguments.values("feature") {
            let (name, level) = name_and_level(text)?;
            asked.insert(name.to_owned(), level);
        }
        let voters = self.voters()?;
        let metadata = self.metadata_version(&asked, release)?;
        let levels = self.levels(asked, metadata)?;
        let mut records = bootstrap_records(&levels);
        let credentials = self.arguments.values("add-scram");
        if !credentials.is_empty() {
            if metadata.0 < FIRST_WITH_SCRAM {
                return Err(Failure::Terse("SCRAM is only supported in metadata.version 3.5-IV2 or later.".to_owned()));
            }
            for text in credentials {
                records.push(VersionedRecord::lowest(scram::record(text).map_err(Failure::Terse)?));
            }
        }
        self.write(disk, &records, (metadata, levels[KRAFT]), voters.as_deref(), say)
    }

    fn has_dynamic_quorum(&self) -> bool {
        self.config.controller_quorum_voters.is_empty() && !self.is_alone()
    }

    /// A node without `process.roles`, which Kafka does not have: a controller that nobody else can reach needs to be told of none.
    fn is_alone(&self) -> bool {
        self.config.process_roles.controller && self.config.advertised_controller_listeners.is_empty()
    }

    fn release(&self, text: &str) -> Result<MetadataVersion, Failure> {
        release(text, self.unstable).map(MetadataVersion).map_err(Failure::told)
    }

    /// The dynamic voters, if they are named.
    fn voters(&self) -> Result<Option<Vec<Voter>>, Failure> {
        let (standalone, named) = (self.arguments.has("standalone"), self.arguments.value("initial-controllers"));
        if !self.config.controller_quorum_voters.is_empty() && (standalone || named.is_some()) {
            return Err(Failure::Terse(
                "You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. \
                 If you want to use dynamic quorum, please remove controller.quorum.voters and specify \
                 controller.quorum.bootstrap.servers instead."
                    .to_owned(),
            ));
        }
        let listener = self.config.controller_listener_names.first().map_or("CONTROLLER", String::as_str);
        if standalone {
            return Ok(Some(vec![self.own_voter(listener)?]));
        }
        if let Some(text) = named {
            return Ok(Some(voters(text, listener)?));
        }
        if self.has_dynamic_quorum() && !self.arguments.has("no-initial-controllers") {
            return Err(Failure::Terse(
                "Because controller.quorum.voters is not set on this controller, you must specify one of the following: \
                 --standalone, --initial-controllers, or --no-initial-controllers."
                    .to_owned(),
            ));
        }
        Ok(None)
    }

    /// This node as the only voter, under the address that its controller's listener is known by.
    fn own_voter(&self, listener: &str) -> Result<Voter, Failure> {
        let endpoint = self.config.advertised_controller_listeners.first().ok_or_else(|| {
            Failure::Uncaught(Error::new("java.lang.RuntimeException", "No controller listeners found."))
        })?;
        let host = match endpoint.host.as_str() {
            "" | "0.0.0.0" => "localhost",
            host => host,
        };
        Ok(voter(self.config.node_id.0, host, endpoint.port, DirectoryId::random(), listener))
    }

    fn metadata_version(&self, asked: &Levels, release: Option<MetadataVersion>) -> Result<MetadataVersion, Failure> {
        let version = match (asked.get(METADATA), release) {
            (Some(_), Some(_)) => {
                return Err(Failure::Terse(
                    "Use --release-version instead of --feature metadata.version=X to avoid ambiguity.".to_owned(),
                ));
            }
            (Some(&level), None) => {
                release_name(level).ok_or_else(|| {
                    Failure::Uncaught(Error::illegal_argument(format!(
                        "No MetadataVersion with feature level {level}. Valid feature levels are from {} to {}.",
                        MetadataVersion::MINIMUM.0,
                        MetadataVersion::LATEST.0 + 1
                    )))
                })?;
                MetadataVersion(level)
            }
            (None, Some(release)) => release,
            (None, None) => MetadataVersion::LATEST,
        };
        match version > MetadataVersion::LATEST {
            true if self.unstable => Err(Failure::Terse(format!(
                "metadata.version {} is not known to Ottla; the latest is {}",
                release_name(version.0).unwrap_or_default(),
                MetadataVersion::LATEST
            ))),
            true => Err(Failure::Terse(format!(
                "metadata.version {} is not yet stable.",
                release_name(version.0).unwrap_or_default()
            ))),
            false => Ok(version),
        }
    }

    /// The levels of all features: those that are asked for, else those of the release.
    fn levels(&self, asked: Levels, metadata: MetadataVersion) -> Result<Levels, Failure> {
        let mut names: Vec<&str> = FEATURES.iter().map(|feature| feature.name).collect();
        names.sort_unstable();
        let unknown = asked.keys().find(|name| *name != METADATA && !names.contains(&name.as_str()));
        if let Some(name) = unknown {
            return Err(Failure::Terse(format!(
                "Unsupported feature: {name}. Supported features are: {}",
                names.join(", ")
            )));
        }
        let mut levels = asked;
        levels.insert(METADATA.to_owned(), metadata.0);
        let kraft = self.kraft_version(levels.get(KRAFT).copied())?;
        levels.insert(KRAFT.to_owned(), kraft);
        for feature in &FEATURES {
            levels.entry(feature.name.to_owned()).or_insert_with(|| feature.default_at(metadata.0));
        }
        for (name, level) in &levels {
            let Some(feature) = FEATURES.iter().find(|feature| feature.name == name) else { continue };
            let known = feature.levels.iter().find(|(known, _, _)| known == level);
            let (_, _, needs) = known.ok_or_else(|| {
                Failure::Uncaught(Error::illegal_argument(format!("No feature:{name} with feature level {level}")))
            })?;
            if let Some((needed, least)) = needs.iter().find(|(needed, least)| levels.get(*needed) < Some(least)) {
                return Err(Failure::Uncaught(Error::illegal_argument(format!(
                    "{name} could not be set to {level} because it depends on {needed} level {least}"
                ))));
            }
        }
        Ok(levels)
    }

    fn kraft_version(&self, asked: Option<i16>) -> Result<i16, Failure> {
        match (asked, self.has_dynamic_quorum()) {
            (None, dynamic) => Ok(i16::from(dynamic)),
            (Some(0), true) => Err(Failure::Terse(
                "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the flags --standalone, \
                 --initial-controllers, or --no-initial-controllers is used. For dynamic controllers support, try removing \
                 the --feature flag for kraft.version."
                    .to_owned(),
            )),
            (Some(level), false) if level != 0 => Err(Failure::Terse(format!(
                "Cannot set kraft.version to {level} unless controller.quorum.voters is empty and one of the flags \
                 --standalone, --initial-controllers, or --no-initial-controllers is used. For dynamic controllers \
                 support, try using one of --standalone, --initial-controllers, or --no-initial-controllers and removing \
                 controller.quorum.voters."
            ))),
            (Some(level), _) => Ok(level),
        }
    }

    fn write(
        &self,
        disk: &dyn Disk,
        records: &[VersionedRecord],
        (metadata, kraft_version): (MetadataVersion, i16),
        voters: Option<&[Voter]>,
        say: &mut dyn FnMut(String),
    ) -> Result<(), Failure> {
        let cluster_id = self.arguments.value("cluster-id").unwrap_or_default();
        let (node_id, metadata_dir) = (self.config.node_id, &self.config.metadata_log_dir);
        let mut ensemble = MetaPropertiesEnsemble::load(disk, &directories(self.config), metadata_dir);
        ensemble.verify(Some(cluster_id), node_id).map_err(|error| Failure::Uncaught(not_ours(&error)))?;
        if !self.arguments.has("ignore-formatted")
            && let Some(formatted) = in_hash_order(ensemble.formatted.keys(), java::copied_map).first()
        {
            return Err(Failure::Terse(format!(
                "Log directory {} is already formatted. Use --ignore-formatted to ignore this directory and format the others.",
                formatted.display()
            )));
        }
        for dir in ensemble.failed.keys() {
            say(format!("I/O error trying to read log directory {}. Ignoring...", dir.display()));
        }
        if ensemble.unformatted.is_empty() {
            if ensemble.formatted.is_empty() {
                return Err(Failure::Terse("No available log directories to format.".to_owned()));
            }
            say("All of the log directories are already formatted.".to_owned());
            return Ok(());
        }
        say(format!("Bootstrap metadata: {}", shown(records, metadata)));
        let own = voters.into_iter().flatten().find(|voter| voter.id == node_id);
        for dir in in_hash_order(ensemble.unformatted.clone().iter(), java::grown_table) {
            let is_metadata = dir == *metadata_dir;
            let kind = match (is_metadata, voters, own) {
                (false, _, _) => "data directory",
                (true, None, _) => "metadata directory",
                (true, Some(_), Some(_)) => "dynamic metadata voter directory",
                (true, Some(_), None) => "dynamic metadata directory",
            };
            say(format!("Formatting {kind} {} with metadata.version {metadata}.", dir.display()));
            let written = disk.create_dir_all(&dir).and_then(|()| {
                snapshot::write_bootstrap(disk, &dir, records, self.now_ms)?;
                match voters.filter(|_| is_metadata) {
                    Some(voters) => write_voters(disk, &dir.join(METADATA_LOG), kraft_version, voters, self.now_ms),
                    None => Ok(()),
                }
            });
            written.map_err(|error| Failure::Terse(format!("{}: {error}", dir.display())))?;
            // Each directory is finished before the next: what holds a metadata log without saying whose is refused.
            let id = own.filter(|_| is_metadata).map_or_else(DirectoryId::random, |voter| voter.directory_id);
            ensemble.format_directory(disk, &dir, MetaProperties::new(cluster_id, node_id, id), self.now_ms);
            if let Some(error) = ensemble.failed.get(&dir) {
                return Err(Failure::Terse(format!("Error while writing {FILE_NAME} file {}: {error}", dir.display())));
            }
        }
        Ok(())
    }
}

/// Paths as a Java map has them in its order, in a table that is as large as `table` says of so many.
fn in_hash_order<'p>(paths: impl Iterator<Item = &'p PathBuf>, table: fn(usize) -> u32) -> Vec<PathBuf> {
    let texts: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    let mut names: Vec<&str> = texts.iter().map(String::as_str).collect();
    let table = table(names.len());
    java::hash_order(&mut names, table);
    names.into_iter().map(PathBuf::from).collect()
}

/// The levels of a new cluster; that of the quorum is in no such record.
fn bootstrap_records(levels: &Levels) -> Vec<VersionedRecord> {
    let metadata = levels.iter().filter(|(name, _)| *name == METADATA);
    let others = levels.iter().filter(|(name, level)| *name != METADATA && *name != KRAFT && **level > 0);
    let record = |(name, level): (&String, &i16)| {
        VersionedRecord::lowest(FeatureLevelRecord { name: name.clone(), feature_level: *level })
    };
    metadata.chain(others).map(record).collect()
}

fn write_voters(disk: &dyn Disk, dir: &Path, kraft_version: i16, voters: &[Voter], now_ms: i64) -> std::io::Result<()> {
    disk.create_dir_all(dir)?;
    let quorum = SnapshotQuorum { kraft_version, voters: Some(voters.to_vec()) };
    snapshot::write_first(disk, dir, &quorum, now_ms)
}

/// The records as Java prints them.
fn shown(records: &[VersionedRecord], metadata: MetadataVersion) -> String {
    let record = |record: &VersionedRecord| {
        let text = match &record.record {
            MetadataRecord::FeatureLevel(feature) => {
                format!("FeatureLevelRecord(name='{}', featureLevel={})", feature.name, feature.feature_level)
            }
            MetadataRecord::UserScramCredential(credential) => shown_credential(credential),
            other => other.name().to_owned(),
        };
        format!("ApiMessageAndVersion({text} at version {})", record.version)
    };
    let records: Vec<String> = records.iter().map(record).collect();
    format!(
        "BootstrapMetadata(records=[{}], metadataVersionLevel={}, source=format command)",
        records.join(", "),
        metadata.0
    )
}

fn shown_credential(credential: &UserScramCredentialRecord) -> String {
    let bytes = |bytes: &[u8]| {
        let bytes: Vec<String> = bytes.iter().map(|byte| byte.cast_signed().to_string()).collect();
        format!("[{}]", bytes.join(", "))
    };
    format!(
        "UserScramCredentialRecord(name='{}', mechanism={}, salt={}, storedKey={}, serverKey={}, iterations={})",
        credential.name,
        credential.mechanism,
        bytes(&credential.salt),
        bytes(&credential.stored_key),
        bytes(&credential.server_key),
        credential.iterations
    )
}

/// Why the directories are not this node's, as Kafka tells it where it looks at the same.
fn not_ours(error: &EnsembleError) -> Error {
    let file = |dir: &Path| dir.join(FILE_NAME).display().to_string();
    let message = match error {
        EnsembleError::ClusterId { dir, expected, found } => {
            format!("Invalid cluster.id in: {}. Expected {expected}, but read {found}", file(dir))
        }
        EnsembleError::NodeId { dir, expected, found } => format!(
            "Stored node id {found} doesn't match previous node id {expected} in {}. If you moved your data, make sure your configured node id matches. If you intend to create a new node, you should remove all data in your data directories.",
            file(dir)
        ),
        other => other.to_string(),
    };
    Error::new("java.lang.RuntimeException", message)
}

fn voter(id: i32, host: &str, port: u16, directory_id: DirectoryId, listener: &str) -> Voter {
    Voter {
        id: BrokerId(id),
        directory_id,
        endpoints: vec![VoterEndpoint { name: listener.to_owned(), host: host.to_owned(), port }],
        min_kraft_version: 0,
        max_kraft_version: 1,
    }
}

/// `id@host:port:directory`, with commas between them.
fn voters(text: &str, listener: &str) -> Result<Vec<Voter>, Error> {
    let mut voters: BTreeMap<i32, Voter> = BTreeMap::new();
    for text in java::trim(text).split(',').filter(|text| !text.is_empty()) {
        let voter = parse_voter(java::trim(text), listener).map_err(Error::illegal_argument)?;
        let id = voter.id.0;
        if voters.insert(id, voter).is_some() {
            return Err(Error::illegal_argument(format!("Node id {id} was specified more than once.")));
        }
    }
    match voters.is_empty() {
        true => Err(Error::illegal_argument("No voters given.")),
        false => Ok(voters.into_values().collect()),
    }
}

fn parse_voter(text: &str, listener: &str) -> Result<Voter, String> {
    let (id, rest) = text.split_once('@').ok_or("No @ found in dynamic voter string.")?;
    if id.is_empty() {
        return Err("Invalid @ at beginning of dynamic voter string.".to_owned());
    }
    let id: i32 = java::parse_integer(id).ok_or("Failed to parse node id in dynamic voter string.")?;
    if id < 0 {
        return Err(format!("Invalid negative node id {id} in dynamic voter string."));
    }
    if rest.is_empty() {
        return Err("No hostname found after node id.".to_owned());
    }
    let (host, rest) = match rest.strip_prefix('[') {
        Some(rest) => {
            rest.split_once(']').ok_or("Hostname began with left bracket, but no right bracket was found.")?
        }
        None => rest.split_at(rest.find(':').ok_or("No colon following hostname could be found.")?),
    };
    // As Java shows such an address.
    let written = |address: std::net::Ipv6Addr| address.segments().map(|segment| format!("{segment:x}")).join(":");
    let host = &*host.parse().map_or_else(|_| host.to_owned(), written);
    let rest = rest.strip_prefix(':').ok_or("Port section must start with a colon.")?;
    let (port, directory) = rest.split_once(':').ok_or("No colon following port could be found.")?;
    let port: i32 = java::parse_integer(port).ok_or("Failed to parse port in dynamic voter string.")?;
    let port = u16::try_from(port).map_err(|_| format!("Invalid port {port} in dynamic voter string."))?;
    let directory = DirectoryId::parse(directory).ok_or("Failed to parse directory ID in dynamic voter string.")?;
    Ok(voter(id, host, port, directory, listener))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voters_are_read_as_kafka_reads_them() {
        let of = |text: &str| voters(text, "C").map_err(|error| error.message().to_owned());
        let found = of("2@[::1]:2:07R5amHmR32VDA6jHkGbTA, 1@h:1:JEXY6aqzQY-32P5TStzaFg").unwrap();
        let shown = |voter: &Voter| {
            let endpoint = &voter.endpoints[0];
            format!("{} {} {} {}", voter.id.0, endpoint.host, endpoint.port, voter.directory_id)
        };
        assert_eq!(
            found.iter().map(shown).collect::<Vec<_>>(),
            ["1 h 1 JEXY6aqzQY-32P5TStzaFg", "2 0:0:0:0:0:0:0:1 2 07R5amHmR32VDA6jHkGbTA"]
        );
        for (text, message) in [
            ("", "No voters given."),
            ("h:1", "No @ found in dynamic voter string."),
            ("@h:1", "Invalid @ at beginning of dynamic voter string."),
            ("x@h:1:", "Failed to parse node id in dynamic voter string."),
            ("-1@h:1:", "Invalid negative node id -1 in dynamic voter string."),
            ("1@h", "No colon following hostname could be found."),
            ("1@[h:1:", "Hostname began with left bracket, but no right bracket was found."),
            ("1@[h]1:", "Port section must start with a colon."),
            ("1@h:1", "No colon following port could be found."),
            ("1@h:65536:", "Invalid port 65536 in dynamic voter string."),
            ("1@h:1:x", "Failed to parse directory ID in dynamic voter string."),
        ] {
            assert_eq!(of(text), Err(message.to_owned()), "{text}");
        }
        let twice = "1@h:1:JEXY6aqzQY-32P5TStzaFg,1@h:1:JEXY6aqzQY-32P5TStzaFg";
        assert_eq!(of(twice), Err("Node id 1 was specified more than once.".to_owned()));
    }
}
