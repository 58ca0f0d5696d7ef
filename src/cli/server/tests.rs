//! The whole life of the process, with a node that only echoes: each test runs this test binary again as the process.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Instant;

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};

use super::*;
use crate::clock::SystemClock;
use crate::net::{ConnectionContext, Reply, RequestHandler, SocketServer};

struct Echo;

impl RequestHandler for Echo {
    fn handle(&self, _: &Arc<ConnectionContext>, frame: Bytes) -> Reply {
        Reply::Now(frame.into())
    }
}

/// Echoes; has a file in its data directory; as `behaviour` says, fails at once or does not come to its end.
struct EchoNode {
    sockets: SocketServer,
    behaviour: String,
}

impl EchoNode {
    async fn start(config: BrokerConfig) -> Result<EchoNode, NodeFailure> {
        fs::create_dir_all(&config.log_dirs[0]).map_err(|error| NodeFailure(error.to_string()))?;
        fs::write(config.log_dirs[0].join("data"), "data").map_err(|error| NodeFailure(error.to_string()))?;
        println!("data in {}", config.log_dirs[0].display());
        let sockets = SocketServer::bind(&config, SystemClock::new()).await;
        let mut sockets = sockets.map_err(|error| NodeFailure(error.to_string()))?;
        sockets.start(Arc::new(Echo)).map_err(|error| NodeFailure(error.to_string()))?;
        Ok(EchoNode { sockets, behaviour: env::var("TEST_BEHAVIOUR").unwrap_or_default() })
    }
}

impl RunningNode for EchoNode {
    fn endpoints(&self) -> Vec<Endpoint> {
        self.sockets.endpoints().cloned().collect()
    }

    async fn failed(&self) -> NodeFailure {
        if self.behaviour == "fails" {
            return NodeFailure("the disk is gone".to_owned());
        }
        std::future::pending().await
    }

    async fn shutdown(self) {
        self.sockets.shutdown(Duration::from_secs(1)).await;
        if self.behaviour == "hangs" {
            std::future::pending::<()>().await;
        }
    }
}

/// Not a test: what the tests run as a process of its own.
#[test]
#[ignore = "run by the other tests"]
fn process() {
    let arguments = env::var("TEST_ARGUMENTS").unwrap();
    let arguments = clap::Parser::parse_from(std::iter::once("ottla").chain(arguments.lines()));
    std::process::exit(run(&arguments, EchoNode::start).into());
}

struct Process {
    child: Child,
    output: tempfile::NamedTempFile,
    errors: tempfile::NamedTempFile,
    dir: tempfile::TempDir,
}

impl Process {
    fn start(behaviour: &str, arguments: &[&str]) -> Process {
        let dir = tempfile::tempdir().unwrap();
        let (output, errors) = (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let all = [&["--ready-file", "ready", "--override", "listeners=PLAINTEXT://127.0.0.1:0"], arguments].concat();
        // Whoever runs the tests may ignore SIGHUP, as `nohup` does, and a process inherits that.
        let child = Command::new("env")
            .arg("--default-signal=HUP")
            .arg(env::current_exe().unwrap())
            .args(["--exact", "cli::server::tests::process", "--ignored", "--nocapture"])
            .env("TEST_ARGUMENTS", all.join("\n"))
            .env("TEST_BEHAVIOUR", behaviour)
            .env("TMPDIR", dir.path())
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(output.reopen().unwrap())
            .stderr(errors.reopen().unwrap())
            .spawn()
            .unwrap();
        Process { child, output, errors, dir }
    }

    fn ready(&self) -> String {
        let path = self.dir.path().join("ready");
        self.wait(|| fs::read_to_string(&path).ok())
    }

    fn wait<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "in vain; {}{}", self.output(), self.errors());
            sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "it does not end; {}", self.output());
            sleep(Duration::from_millis(10));
        }
    }

    fn output(&self) -> String {
        fs::read_to_string(self.output.path()).unwrap()
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.errors.path()).unwrap()
    }

    fn data(&self) -> PathBuf {
        let output = self.output();
        let line = output.lines().find_map(|line| line.split("data in ").nth(1));
        Path::new(line.unwrap()).to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn serves_until_a_signal_and_cleans_up() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut process = Process::start("", &["--ephemeral", "--override", "log.dirs=/proc/unwritable"]);
        let address = process.ready();
        assert!(process.data().join("data").exists());
        std::net::TcpStream::connect(address.trim()).unwrap();
        process.signal(signal);
        assert_eq!(process.end().code(), Some(0), "{}", process.errors());
        assert!(process.output().contains(&format!(" serves on {address}")), "{}", process.output());
        assert_eq!(fs::read_dir(process.dir.path()).unwrap().count(), 0, "something is left");
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut process = Process::start("hangs", &["--ephemeral"]);
    process.ready();
    process.signal(Signal::TERM);
    // `timeout` tells the process and its group: that is one signal.
    process.signal(Signal::TERM);
    process.wait(|| process.output().contains("told to end").then_some(()));
    sleep(ECHO + Duration::from_millis(200));
    assert_eq!(process.child.try_wait().unwrap(), None, "an echo ended it: {}", process.output());
    process.signal(Signal::TERM);
    assert_eq!(process.end().code(), Some(128 + 15));
    assert_eq!(fs::read_dir(process.dir.path()).unwrap().count(), 0, "something is left");
}

#[test]
fn data_stays_where_it_was_asked_for() {
    let mut process = Process::start("", &["--override", "log.dirs=kept"]);
    process.ready();
    process.signal(Signal::TERM);
    assert_eq!(process.end().code(), Some(0));
    assert!(process.dir.path().join("kept/data").exists());
}

#[test]
fn tells_all_that_is_wrong_with_the_settings() {
    let mut process = Process::start("", &["--override", "num.partitions=none", "--override", "log.segment.bytes=x"]);
    assert_eq!(process.end().code(), Some(1));
    let errors = process.errors();
    assert!(errors.contains("num.partitions") && errors.contains("log.segment.bytes"), "{errors}");
}

#[test]
fn says_why_it_does_not_start_or_go_on() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listeners = format!("listeners=PLAINTEXT://{}", taken.local_addr().unwrap());
    let mut process = Process::start("", &["--ephemeral", "--override", &listeners]);
    assert_eq!(process.end().code(), Some(1));
    assert!(process.errors().contains(&format!("listener {}", &listeners[10..])), "{}", process.errors());
    assert_eq!(fs::read_dir(process.dir.path()).unwrap().count(), 0, "something is left");

    let mut process = Process::start("fails", &["--ephemeral"]);
    assert_eq!(process.end().code(), Some(1));
    let told = process.output() + &process.errors();
    assert!(told.ends_with("ottla: the disk is gone\n") && told.matches("the disk is gone").count() == 1, "{told}");
    assert_eq!(fs::read_dir(process.dir.path()).unwrap().count(), 0, "something is left");
}
