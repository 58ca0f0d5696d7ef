//! `zookeeper-server-start`: a port that is open where scripts wait for ZooKeeper's; and `zookeeper-server-stop`.
//!
//! Test modules for images from before Kafka 4 start ZooKeeper beside the broker and wait for its port. Nothing needs it
//! any more, so it serves nothing, but for the words by which people ask whether it is well. Its first line is the one
//! that a test module waits for.

use std::io::{self, Read, Write as _};
use std::net::{Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::{health, server_script};
use crate::config::properties;

const DEFAULT_PORT: u16 = 2181;

const START_USAGE: &str = "USAGE: zookeeper-server-start zookeeper.properties";

/// How long a connection may say nothing, or not take what it is told.
const PATIENCE: Duration = Duration::from_secs(2);

/// Of what a connection says beyond its word.
const MOST_UNREAD: u64 = 1 << 10;

/// Takes ZooKeeper's properties file, of which the port matters; returns the exit code, or does not.
pub fn start(arguments: &[String]) -> u8 {
    let words = match server_script::without_java(arguments) {
        Ok(words) => words,
        Err(reason) => return super::refuse(&[reason]),
    };
    let [file] = &words[..] else { return server_script::usage(START_USAGE) };
    if file.starts_with('-') {
        return server_script::usage(START_USAGE);
    }
    let port = match port(Path::new(file)) {
        Ok(port) => port,
        Err(reason) => return super::refuse(&[reason]),
    };
    let listener = match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
        .or_else(|_| TcpListener::bind(("0.0.0.0", port)))
    {
        Ok(listener) => listener,
        Err(error) => return super::refuse(&[format!("port {port}: {error}")]),
    };
    let _ = writeln!(
        io::stdout(),
        "Creating new log file: none, for there is no ZooKeeper here: port {port} is open for those who wait for it"
    );
    for connection in listener.incoming().flatten() {
        // One at a time: whoever asks here asks whether the port is open.
        let _ = answer(connection);
    }
    0
}

/// Ends what [`start`] serves.
pub fn stop(arguments: &[String]) -> u8 {
    if arguments.iter().any(|argument| argument.starts_with('-')) {
        return server_script::usage("USAGE: zookeeper-server-stop");
    }
    let processes: Vec<i32> = health::processes().iter().map(|process| process.id).filter(|id| serves(*id)).collect();
    if processes.is_empty() {
        return server_script::nothing_to_stop("zookeeper");
    }
    server_script::tell(processes.into_iter(), "zookeeper")
}

/// Whether a process of this program is such a server: by its first words, of which the first may be an emulator's.
fn serves(process: i32) -> bool {
    let Ok(words) = std::fs::read(format!("/proc/{process}/cmdline")) else { return false };
    words.split(|byte| *byte == 0).take(3).any(is_start)
}

fn is_start(word: &[u8]) -> bool {
    let name = word.rsplit(|byte| *byte == b'/').next().unwrap_or(word);
    name.strip_suffix(b".sh").unwrap_or(name) == b"zookeeper-server-start"
}

fn port(file: &Path) -> Result<u16, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let entries = properties::parse(&bytes).map_err(|error| format!("{}: {error}", file.display()))?;
    match entries.get("clientPort") {
        None => Ok(DEFAULT_PORT),
        Some(text) => text.trim().parse().map_err(|_| format!("{}: clientPort={text} is not a port", file.display())),
    }
}

fn answer(mut connection: TcpStream) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let mut word = [0; 4];
    connection.read_exact(&mut word)?;
    match &word {
        b"ruok" => connection.write_all(b"imok")?,
        b"srvr" | b"stat" => connection.write_all(b"Mode: standalone\n")?,
        _ => {}
    }
    // A close with bytes unread, such as the end of a line, would take the answer back.
    connection.shutdown(Shutdown::Write)?;
    connection.take(MOST_UNREAD).read_to_end(&mut Vec::new()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("zookeeper.properties");
        std::fs::write(&file, "clientPort=2182\ndataDir=/x\n").unwrap();
        assert_eq!(port(&file), Ok(2182));
        std::fs::write(&file, "dataDir=/x\n").unwrap();
        assert_eq!(port(&file), Ok(2181));
        std::fs::write(&file, "clientPort=x\n").unwrap();
        assert!(port(&file).unwrap_err().contains("clientPort=x"));
    }

    #[test]
    fn a_server_is_known_by_how_it_was_called() {
        assert!(
            [&b"zookeeper-server-start"[..], b"/opt/kafka/bin/zookeeper-server-start.sh"].into_iter().all(is_start)
        );
        assert!(![&b"zookeeper-server-stop"[..], b"/usr/bin/ottla", b""].into_iter().any(is_start));
        assert!(!serves(std::process::id() as i32));
    }

    #[test]
    fn it_says_that_it_is_well() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"ruok\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        answer(listener.accept().unwrap().0).unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).unwrap();
        assert_eq!(said, "imok");
    }
}
