//! `ottla container`: what the scripts of a container image call.
//!
//! `configure` turns the environment into a properties file; `launch` serves with such a file. Between the two, people's
//! own scripts look at the file or add to it, as they do in the images whose place this one takes. Where the file cannot
//! be written, because the root of the file system is read-only, `launch` reads the environment itself.
//!
//! | file | owns |
//! |---|---|
//! | `environment` | variables → settings, warnings, problems; pure |
//! | `listeners` | the addresses that the environment left open; pure |
//! | `log_levels` | what is logged, as log4j's variables say; pure |
//! | `data` | where the data goes, whether that can be written, and making it so |

mod data;
mod environment;
mod listeners;
mod log_levels;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _, UdpSocket};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand, ValueEnum};
use tracing::warn;

use super::server::{Announcement, serve_with};
use super::{refuse, start};
use crate::config::properties;
use crate::telemetry;
use environment::{Convention, Settings, Texts};

/// Where people put a properties file of their own.
const MOUNTED: &[&str] = &["/mnt/shared/config/server.properties", "/bitnami/kafka/config/server.properties"];
/// What Kafka's own image calls the cluster if nobody does.
const DEFAULT_CLUSTER_ID: &str = "5L6g3nShT-eMCtK--X86sw";

/// What the scripts of a container image call
#[derive(Args, Clone, Debug)]
pub struct ContainerArguments {
    #[command(subcommand)]
    step: Step,
}

#[derive(Clone, Debug, Subcommand)]
enum Step {
    /// Writes the broker's settings, as the environment says them, to a properties file
    Configure {
        #[arg(long, value_enum, default_value = "apache")]
        like: Like,
        #[arg(value_name = "SERVER_PROPERTIES")]
        file: PathBuf,
    },
    /// Serves with such a file
    Launch {
        #[arg(long, value_enum, default_value = "apache")]
        like: Like,
        #[arg(value_name = "SERVER_PROPERTIES")]
        file: PathBuf,
        /// Overrides a setting of the file; may be given many times
        #[arg(long = "override", value_name = "KEY=VALUE", value_parser = super::settings::parse_override)]
        overrides: Vec<(String, String)>,
    },
}

/// The image whose conventions hold.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Like {
    Apache,
    Confluent,
    Bitnami,
}

impl Like {
    fn convention(self) -> Convention {
        match self {
            Like::Apache => Convention::Apache,
            Like::Confluent => Convention::Confluent,
            Like::Bitnami => Convention::Bitnami,
        }
    }
}

/// Runs the step; returns the process's exit code.
pub(super) fn run(arguments: &ContainerArguments) -> u8 {
    let environment = variables();
    if let Err(error) = telemetry::init_with(&log_levels::log_levels(&environment).directives) {
        return refuse(&[error.to_string()]);
    }
    match &arguments.step {
        Step::Configure { like, file } => configure(&environment, like.convention(), file),
        Step::Launch { like, file, overrides } => launch(&environment, like.convention(), file, overrides),
    }
}

/// The environment; a variable that is not text is nobody's setting.
fn variables() -> Texts {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn configure(environment: &Texts, convention: Convention, file: &Path) -> u8 {
    let settings = match read(environment, convention) {
        Ok(settings) => settings,
        Err(reason) => return refuse(&[reason]),
    };
    if !settings.problems.is_empty() {
        return refuse(&settings.problems);
    }
    match fs::write(file, text(&settings.properties)) {
        Ok(()) => {}
        // Launching will look at the environment itself.
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem || !file.exists() => return 0,
        Err(error) => return refuse(&[format!("{}: {error}", file.display())]),
    }
    settings.warnings.iter().for_each(|warning| warn!("{warning}"));
    0
}

/// The environment, and the mounted file if there is one.
fn read(environment: &Texts, convention: Convention) -> Result<Settings, String> {
    let mounted = MOUNTED.iter().map(Path::new).find(|path| path.is_file());
    let mounted = mounted.map(read_properties).transpose()?;
    Ok(environment::settings(environment, convention, mounted.as_ref(), &mounts()))
}

/// What is mounted; nothing where that cannot be seen.
fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

fn read_properties(path: &Path) -> Result<Texts, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    properties::parse(&bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// As a properties file. A key that could be taken for something else in there is nobody's setting.
fn text(settings: &Texts) -> String {
    let mut text = String::from("# Made from the environment at each start.\n");
    for (key, value) in settings {
        if key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
            text.push_str(&format!("{key}={}\n", properties::escape(value)));
        }
    }
    text
}

fn launch(environment: &Texts, convention: Convention, file: &Path, overrides: &[(String, String)]) -> u8 {
    let mut given = match settings_at_launch(environment, convention, file) {
        Ok(given) => given,
        Err(reasons) => return refuse(&reasons),
    };
    given.extend(overrides.iter().cloned());
    let directories = directories(&given);
    let is_new = !directories.iter().any(|dir| dir.join("meta.properties").exists());
    if is_new && !given.contains_key("ottla.cluster.id") {
        let id =
            environment::cluster_id(environment).or((convention == Convention::Apache).then_some(DEFAULT_CLUSTER_ID));
        given.extend(id.map(|id| ("ottla.cluster.id".to_owned(), id.to_owned())));
    } else if !is_new && convention == Convention::Confluent {
        // Scripts format the directories with an id of their own before, and there nobody compares the two. Elsewhere
        // another id says that this is not the data that was meant.
        given.remove("ottla.cluster.id");
    }
    if rustix::process::geteuid().is_root() && environment.get("OTTLA_STAY_ROOT").is_none_or(|stay| stay != "true") {
        match data::hand_over(&directories) {
            Ok(()) => return become_user(environment),
            Err(error) => warn!("serving as root: the data cannot be given to user {}: {error}", data::USER),
        }
    }
    if let Err(problems) = data::check(&directories) {
        return refuse(&problems);
    }
    let told = given.clone();
    // Aside: it looks up names, and a name server that does not answer is nothing to wait for.
    let advice = move || listeners::unreachable(&told, is_own_name).iter().for_each(|sentence| warn!("{sentence}"));
    if let Err(error) = std::thread::Builder::new().spawn(advice) {
        warn!(%error, "whether clients are told of a port that nobody listens on was not looked at");
    }
    serve_with(given, None, Announcement::AsKafka, start)
}

/// What `configure` left, or would have.
fn settings_at_launch(environment: &Texts, convention: Convention, file: &Path) -> Result<Texts, Vec<String>> {
    let unwritable = |error: io::Error| error.kind() == io::ErrorKind::ReadOnlyFilesystem;
    let written = fs::OpenOptions::new().append(true).open(file);
    if !file.exists() || written.is_err_and(unwritable) {
        let settings = read(environment, convention).map_err(|reason| vec![reason])?;
        settings.warnings.iter().for_each(|warning| warn!("{warning}"));
        return if settings.problems.is_empty() { Ok(settings.properties) } else { Err(settings.problems) };
    }
    let mut given = read_properties(file).map_err(|reason| vec![reason])?;
    let convention = environment::convention_of(environment, convention);
    environment::add_log_dirs(&mut given, convention, true, &mounts());
    Ok(given)
}

/// The directories that data goes to, as the settings have them.
fn directories(given: &Texts) -> Vec<PathBuf> {
    let dirs = given.get("log.dirs").or_else(|| given.get("log.dir")).map_or("/tmp/kafka-logs", String::as_str);
    dirs.split(',')
        .chain(given.get("metadata.log.dir").map(String::as_str))
        .map(str::trim)
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from)
        .collect()
}

/// Runs the same command as the user that serves. Does not return if that can be.
fn become_user(environment: &Texts) -> u8 {
    let home = environment.get("HOME").filter(|home| *home != "/root").map_or("/home/appuser", String::as_str);
    let error = Command::new("/proc/self/exe")
        .arg0("ottla")
        .args(std::env::args_os().skip(1))
        .env("HOME", home)
        .uid(data::USER)
        .gid(data::GROUP)
        .exec();
    refuse(&[format!("cannot run as user {}: {error}", data::USER)])
}

/// Whether a name or address is this machine's.
fn is_own_name(host: &str) -> bool {
    if host == "localhost" || host.is_empty() {
        // Behind a mapped port that is somebody else's.
        return false;
    }
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_here = |address: IpAddr| !address.is_loopback() && UdpSocket::bind((address, 0)).is_ok();
    host == name || (host, 0u16).to_socket_addrs().is_ok_and(|mut found| found.any(|address| is_here(address.ip())))
}
