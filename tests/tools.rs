//! The tools as processes: arguments, exit codes, and a directory that a broker uses.
//!
//! What they print is tested in the library, beside what Kafka's tools print.

use std::fs;
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
        let ready = data.with_file_name("ready");
        let child = ottla()
            .args(["--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override"])
            .arg(format!("log.dirs={}", data.display()))
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
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.0.kill().unwrap();
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
    assert_eq!((code, out.as_str()), (1, "Dumping /nowhere/0.log\n"));
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
