//! The tools as processes: arguments, exit codes, and a directory that a broker uses.
//!
//! What they print is tested in the library, beside what Kafka's tools print.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn ottla() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ottla"));
    command.stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = ottla().args(arguments).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// A broker on a directory, which is killed when the test ends.
struct Broker(Child);

impl Broker {
    fn start(data: &Path) -> Broker {
        Broker::start_as(data, "1")
    }

    fn start_as(data: &Path, node_id: &str) -> Broker {
        let ready = data.with_file_name("ready");
        let child = ottla()
            .args(["--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override"])
            .arg(format!("log.dirs={}", data.display()))
            .arg("--override")
            .arg(format!("node.id={node_id}"))
            .arg("--ready-file")
            .arg(&ready)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let broker = Broker(child);
        let end = Instant::now() + Duration::from_secs(60);
        while !ready.exists() {
            assert!(Instant::now() < end, "the broker does not start");
            sleep(Duration::from_millis(10));
        }
        broker
    }

    /// Waits for its end.
    fn ended(&mut self) -> bool {
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.success();
            }
            sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for arguments in [
        &["dump-log"][..],
        &["dump-log", "--files", "x.log", "--max-bytes", "-1"],
        &["dump-log", "--files", "x.log", "--value-decoder-class", "com.example.Decoder"],
        &["dump-log", "--files", "x.log", "--remote-log-metadata-decoder"],
        &["verify-log"],
        &["verify-log", "/nowhere"],
        &["verify-log", "data", "--backup", "elsewhere"],
    ] {
        let (code, out, err) = run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(!err.is_empty(), "{arguments:?}");
    }
    let (code, out, _) = run(&["dump-log", "--help"]);
    assert!(code == 0 && out.contains("--cluster-metadata-decoder"), "{out}");
    let (code, out, err) = run(&["dump-log", "--files", "/nowhere/0.log"]);
    assert_eq!((code, out.as_str()), (1, "Dumping /nowhere/0.log\nLog starting offset: 0\n"));
    assert!(err.starts_with("ottla: /nowhere/0.log: "), "{err}");
}

#[test]
fn a_directory_is_looked_at_while_a_broker_uses_it_and_not_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let text = data.to_str().unwrap();
    let broker = Broker::start(&data);

    let (code, out, err) = run(&["verify-log", text]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("note  .lock: "), "{out}");
    let (code, _, err) = run(&["verify-log", "--repair", text]);
    assert_eq!(code, 2);
    assert!(err.contains("is in use by"), "{err}");
    let log = data.join("__cluster_metadata-0/00000000000000000000.log");
    let (code, out, _) = run(&["dump-log", "--cluster-metadata-decoder", "--files", log.to_str().unwrap()]);
    assert!(code == 0 && out.contains(r#"payload: {"type":"REGISTER_BROKER_RECORD","#), "{out}");

    drop(broker);
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, [&bytes[..], b"torn"].concat()).unwrap();
    let (code, out, _) = run(&["verify-log", text]);
    assert_eq!(code, 1);
    let named =
        format!("fault __cluster_metadata-0/00000000000000000000.log at {}: 4 bytes are no records", bytes.len());
    assert!(out.contains(&named), "{out}");
    let backup = dir.path().join("kept");
    let (code, out, _) = run(&["verify-log", "--repair", "--backup", backup.to_str().unwrap(), text]);
    assert_eq!(code, 0, "{out}");
    assert_eq!(fs::read(&log).unwrap(), bytes);
    let stretch = format!("__cluster_metadata-0/00000000000000000000.log.bytes-{}-{}", bytes.len(), bytes.len() + 4);
    assert_eq!(fs::read(backup.join(stretch)).unwrap(), b"torn");
    assert_eq!(run(&["verify-log", text]).0, 0);
}

/// Asked for help it ended every broker.
#[test]
fn the_scripts_that_stop_servers_stop_those_that_are_meant() {
    let dir = tempfile::tempdir().unwrap();
    // Ids that the brokers of other tests do not have.
    let mut brokers = ["70701", "70702"].map(|id| {
        let data = dir.path().join(id).join("data");
        fs::create_dir_all(data.parent().unwrap()).unwrap();
        Broker::start_as(&data, id)
    });
    for arguments in [&["--help"][..], &["--node-id", "70701"], &["--nodeid=70701"], &["-h"]] {
        let (code, out, err) = run(&[&["kafka-server-stop"], arguments].concat());
        assert_eq!((code, out.as_str()), (1, ""), "{arguments:?}");
        assert!(err.starts_with("USAGE: kafka-server-stop "), "{err}");
    }
    for (arguments, said) in [
        (&["--node-id=70703"][..], ""),
        (&["--process-role=broker"], ""),
        (&["--node-id=70703", "--process-role=broker,controller"], "When both node-id and process-role are provided"),
    ] {
        let (code, out, _) = run(&[&["kafka-server-stop"], arguments].concat());
        assert!(code == 0 && out.starts_with(said), "{arguments:?}: {code} {out}");
    }
    let (code, out, err) = run(&["kafka-server-stop", "--node-id=70702", "config/server.properties"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    let [first, second] = &mut brokers;
    assert!(second.ended());
    assert_eq!(first.0.try_wait().unwrap(), None, "the other goes on");

    let stop = || ottla().args(["kafka-server-stop", "--node-id=70701"]).env("SIGNAL", "NONE").output().unwrap();
    assert_eq!(stop().status.code(), Some(1));
    assert_eq!(run(&["kafka-server-stop", "--node-id=70701"]).0, 0);
    assert!(first.ended());
}

#[test]
fn the_scripts_that_start_servers_say_how() {
    for script in ["kafka-server-start", "zookeeper-server-start"] {
        for arguments in [&[][..], &["--help"], &["a.properties", "--nonesuch"]] {
            let (code, out, err) = run(&[&[script], arguments].concat());
            assert_eq!((code, out.as_str()), (1, ""), "{script} {arguments:?}");
            assert!(err.starts_with(&format!("USAGE: {script} ")), "{err}");
        }
        let (code, _, err) = run(&[script, "-daemon", "a.properties"]);
        assert!(code == 1 && err.contains("foreground"), "{err}");
    }
}

#[test]
fn what_stands_in_for_zookeeper_is_stopped_by_its_script() {
    let dir = tempfile::tempdir().unwrap();
    let properties = dir.path().join("zookeeper.properties");
    fs::write(&properties, "clientPort=0\n").unwrap();
    let mut zookeeper =
        Broker(ottla().arg("zookeeper-server-start").arg(&properties).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(zookeeper.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("Creating new log file"), "{line}");
    let (code, _, err) = run(&["zookeeper-server-stop", "--help"]);
    assert!(code == 1 && err.starts_with("USAGE: "), "{err}");
    assert_eq!(zookeeper.0.try_wait().unwrap(), None);
    assert_eq!(run(&["zookeeper-server-stop"]).0, 0);
    assert!(!zookeeper.ended(), "by the signal");
    let (code, out, _) = run(&["zookeeper-server-stop"]);
    assert_eq!((code, out.as_str()), (1, "No zookeeper server to stop\n"));
}
