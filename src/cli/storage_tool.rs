//! `kafka-storage`: formats log directories, says what is in them, makes up ids. As Kafka's tool of the same name.
//!
//! A broker formats what is new by itself; this is for scripts that do it first, and for directories that Apache Kafka is
//! to start on. Any word will do for a cluster's id, as in Kafka.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use crate::clock::{Clock as _, SystemClock};
use crate::config::{BrokerConfig, properties};
use crate::controller::features::bootstrap_records;
use crate::metadata::snapshot::{self, BOOTSTRAP_FILE};
use crate::metadata::version::MetadataVersion;
use crate::storage::disk::{Disk, RealDisk};
use crate::storage::meta_properties::{self, MetaProperties, MetaPropertiesEnsemble, random_cluster_id};

/// The Kafka storage tool
#[derive(Debug, Parser)]
#[command(name = "kafka-storage", disable_help_subcommand = true)]
struct StorageArguments {
    #[command(subcommand)]
    command: StorageCommand,
}

#[derive(Debug, Subcommand)]
enum StorageCommand {
    /// Get information about the log directories on this node
    Info {
        #[arg(long, short)]
        config: PathBuf,
    },
    /// Format the log directories on this node
    Format(Format),
    /// Print a random id
    RandomUuid,
}

#[derive(Debug, clap::Args)]
struct Format {
    #[arg(long, short)]
    config: PathBuf,
    #[arg(long, short = 't')]
    cluster_id: String,
    /// Skip directories that are formatted already rather than fail
    #[arg(long, short = 'g')]
    ignore_formatted: bool,
    #[arg(long, short = 'S')]
    add_scram: Vec<String>,
    #[arg(long, short = 'r')]
    release_version: Option<String>,
    #[arg(long, short = 'f')]
    feature: Vec<String>,
    #[arg(long, short = 's')]
    standalone: bool,
    #[arg(long, short = 'N')]
    no_initial_controllers: bool,
    #[arg(long, short = 'I')]
    initial_controllers: Option<String>,
}

/// Returns the exit code.
pub fn run(arguments: &[String]) -> u8 {
    let words = std::iter::once("kafka-storage".to_owned()).chain(arguments.iter().cloned());
    let arguments = match StorageArguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = u8::from(error.use_stderr());
            let _ = error.print();
            return code;
        }
    };
    let done = match &arguments.command {
        StorageCommand::RandomUuid => Ok(vec![random_cluster_id()]),
        StorageCommand::Format(options) => format(&*RealDisk::new(), options, SystemClock::new().now_ms()),
        StorageCommand::Info { config } => return info(config),
    };
    match done {
        Ok(lines) => {
            lines.iter().for_each(|line| drop(writeln!(io::stdout(), "{line}")));
            0
        }
        Err(reason) => {
            let _ = writeln!(io::stderr(), "{reason}");
            1
        }
    }
}

fn load(file: &Path) -> Result<BrokerConfig, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let given = properties::parse(&bytes).map_err(|error| format!("{}: {error}", file.display()))?;
    let loaded = BrokerConfig::load(given)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    Ok(loaded.config)
}

/// All directories, in their order.
fn directories(config: &BrokerConfig) -> Vec<PathBuf> {
    let mut directories = config.log_dirs.clone();
    directories.push(config.metadata_log_dir.clone());
    directories.sort();
    directories.dedup();
    directories
}

/// What is printed.
fn format(disk: &dyn Disk, options: &Format, now_ms: i64) -> Result<Vec<String>, String> {
    if !options.add_scram.is_empty() {
        return Err("--add-scram: SCRAM is not supported yet".to_owned());
    }
    if let Some(release) = options.release_version.as_deref().filter(|release| !is_latest(release)) {
        return Err(format!("--release-version {release}: directories are formatted for {} only", release_name()));
    }
    let config = load(&options.config)?;
    let is_voter = !config.controller_quorum_voters.is_empty();
    if is_voter && (options.standalone || options.initial_controllers.is_some()) {
        return Err("You cannot specify controller.quorum.voters and format the node with --initial-controllers or --standalone. \
                    If you want to use dynamic quorum, please remove controller.quorum.voters and specify \
                    controller.quorum.bootstrap.servers instead."
            .to_owned());
    }
    let mut ensemble = MetaPropertiesEnsemble::load(disk, &directories(&config), &config.metadata_log_dir);
    ensemble.verify(Some(&options.cluster_id), config.node_id).map_err(|error| error.to_string())?;
    if let Some(formatted) = ensemble.formatted.keys().next().filter(|_| !options.ignore_formatted) {
        return Err(format!(
            "Log directory {} is already formatted. Use --ignore-formatted to ignore this directory and format the others.",
            formatted.display()
        ));
    }
    let mut lines: Vec<String> = ensemble
        .failed
        .keys()
        .map(|dir| format!("I/O error trying to read log directory {}. Ignoring...", dir.display()))
        .collect();
    if ensemble.unformatted.is_empty() {
        lines.push("All of the log directories are already formatted.".to_owned());
        return Ok(lines);
    }
    let new = ensemble.unformatted.clone();
    for dir in &new {
        let kind = if *dir == config.metadata_log_dir { "metadata directory" } else { "data directory" };
        lines.push(format!("Formatting {kind} {} with metadata.version {}.", dir.display(), release_name()));
        disk.create_dir_all(dir)
            .and_then(|()| snapshot::write_bootstrap(disk, dir, &bootstrap_records(), now_ms))
            .map_err(|error| format!("{}: {error}", dir.join(BOOTSTRAP_FILE).display()))?;
    }
    ensemble.format(disk, &options.cluster_id, config.node_id, now_ms);
    match new.iter().find_map(|dir| Some((dir, ensemble.failed.get(dir)?))) {
        Some((dir, error)) => Err(format!("Error while writing meta.properties file {}: {error}", dir.display())),
        None => Ok(lines),
    }
}

/// Of the metadata version that directories are formatted with.
fn release_name() -> String {
    MetadataVersion::LATEST.to_string()
}

fn is_latest(release: &str) -> bool {
    let name = release_name();
    name == release || name.split("-IV").next() == Some(release) || release.starts_with("4.3")
}

fn info(file: &Path) -> u8 {
    let config = match load(file) {
        Ok(config) => config,
        Err(reason) => {
            let _ = writeln!(io::stderr(), "{reason}");
            return 1;
        }
    };
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let mut metadata: Option<MetaProperties> = None;
    for dir in directories(&config) {
        let shown = dir.display();
        if !dir.is_dir() {
            let what = if dir.exists() { "is not a directory" } else { "does not exist" };
            problems.push(format!("{shown} {what}"));
            continue;
        }
        found.push(shown.to_string());
        match MetaProperties::read(&*RealDisk::new(), &dir) {
            Ok(None) => problems.push(format!("{shown} is not formatted.")),
            Ok(Some(own)) => match &metadata {
                Some(first) if first.cluster_id != own.cluster_id => {
                    problems.push("Mismatched cluster IDs between storage directories.".to_owned());
                }
                Some(first) if first.node_id != own.node_id => {
                    problems.push("Mismatched node IDs between storage directories.".to_owned());
                }
                Some(_) => {}
                None => metadata = Some(own),
            },
            Err(error) => {
                problems.push(format!("Error loading {}: {error}", dir.join(meta_properties::FILE_NAME).display()));
            }
        }
    }
    let mut out = list(["Found log directory", "Found log directories"], &found);
    if let Some(metadata) = &metadata {
        let text = metadata.encode(0);
        let entries: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        out += &format!("Found metadata: {{{}}}\n\n", entries.join(", "));
    }
    out += &list(["Found problem", "Found problems"], &problems);
    let _ = io::stdout().write_all(out.as_bytes());
    u8::from(!problems.is_empty())
}

/// Entries below their title, which is the first for one and the second for more.
fn list(titles: [&str; 2], entries: &[String]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = entries.iter().map(|entry| format!("  {entry}\n")).collect();
    format!("{}:\n{}\n", titles[usize::from(entries.len() > 1)], lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(dir: &Path, more: &[&str]) -> Format {
        let file = dir.join("server.properties");
        let text = format!(
            "node.id=3\nprocess.roles=broker,controller\ncontroller.listener.names=C\nlisteners=PLAINTEXT://:1,C://:2\n\
            listener.security.protocol.map=C:PLAINTEXT,PLAINTEXT:PLAINTEXT\ncontroller.quorum.voters=3@localhost:2\n\
            log.dirs={0}/a,{0}/b\nmetadata.log.dir={0}/b\n",
            dir.display()
        );
        std::fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap().to_owned();
        let words = ["kafka-storage", "format", "-c", &file, "-t", "any word"];
        match StorageArguments::try_parse_from(words.iter().chain(more)).unwrap().command {
            StorageCommand::Format(options) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn directories_are_formatted_once() {
        let root = tempfile::tempdir().unwrap();
        let disk = RealDisk::new();
        let format = |more: &[&str]| super::format(&*disk, &options(root.path(), more), 7);
        let shown = |name: &str| root.path().join(name).display().to_string();
        assert_eq!(
            format(&[]).unwrap(),
            [
                format!("Formatting data directory {} with metadata.version 4.3-IV0.", shown("a")),
                format!("Formatting metadata directory {} with metadata.version 4.3-IV0.", shown("b")),
            ]
        );
        for dir in ["a", "b"] {
            let found = MetaProperties::read(&*disk, &root.path().join(dir)).unwrap().unwrap();
            assert_eq!(found.cluster_id.as_deref(), Some("any word"));
            let records = snapshot::read_bootstrap(&*disk, &root.path().join(dir)).unwrap().unwrap();
            assert_eq!(records, bootstrap_records());
        }
        assert!(format(&[]).unwrap_err().contains("is already formatted. Use --ignore-formatted"));
        assert_eq!(format(&["--ignore-formatted"]).unwrap(), ["All of the log directories are already formatted."]);
    }

    #[test]
    fn what_cannot_be_is_said() {
        let root = tempfile::tempdir().unwrap();
        let disk = RealDisk::new();
        for (more, reason) in [
            (["--add-scram", "SCRAM-SHA-256=[name=a,password=b]"], "SCRAM is not supported yet"),
            (["--release-version", "3.9"], "4.3-IV0 only"),
            (["--initial-controllers", "3@h:2:JEXY6aqzQY-32P5TStzaFg"], "You cannot specify controller.quorum.voters"),
        ] {
            let error = super::format(&*disk, &options(root.path(), &more), 7).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        super::format(&*disk, &options(root.path(), &["--release-version", "4.3"]), 7).unwrap();
    }

    #[test]
    fn lists_have_their_titles() {
        assert_eq!(list(["One", "Many"], &[]), "");
        assert_eq!(list(["One", "Many"], &["a".to_owned()]), "One:\n  a\n\n");
        assert_eq!(list(["One", "Many"], &["a".to_owned(), "b".to_owned()]), "Many:\n  a\n  b\n\n");
    }
}
