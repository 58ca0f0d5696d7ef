//! `ottla health`: whether a broker serves. For the health check of a container, which runs it every second or two.
//!
//! It opens one connection and sends ApiVersions, which a broker answers without looking at anything but itself; a broker
//! that is starting does not listen yet. Which port that is, is found out: those on which a process of this very program
//! listens. So it works for any listeners, and with a file system that cannot be written.
//!
//! | file | owns |
//! |---|---|
//! | `processes` | the other processes of this program |
//! | `listeners` | what is listened on in this network |

mod listeners;
mod processes;

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use clap::Args;

pub(super) use processes::{OtherProcess, processes};

/// How long a connection, or an answer, may take.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Ports that are tried, at most.
const PORTS: usize = 16;
/// An answer to ApiVersions in its first version is far shorter.
const LONGEST_ANSWER: usize = 64 << 10;

/// Says whether a broker serves: exit code 0 if so
#[derive(Args, Clone, Debug, Default)]
pub struct HealthArguments {
    /// The broker; without it, whatever this program serves in this container or for this user
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap_server: Option<String>,
    /// Set when it runs itself again as the user who serves
    #[arg(long, hide = true)]
    as_owner: bool,
}

/// Returns the process's exit code.
pub(super) fn run(arguments: &HealthArguments) -> u8 {
    match &arguments.bootstrap_server {
        Some(server) => match server.to_socket_addrs() {
            Ok(addresses) => ask_each(addresses),
            Err(error) => super::refuse(&[format!("{server}: {error}")]),
        },
        None => {
            let processes = processes();
            let mut listeners = listeners::listeners();
            let sockets = processes.iter().flat_map(OtherProcess::sockets);
            let mut addresses = sockets.filter_map(|socket| listeners.remove(&socket)).peekable();
            match processes.iter().find_map(|process| process.hidden_owner) {
                Some((user, group)) if addresses.peek().is_none() && !arguments.as_owner => ask_as(user, group),
                _ => ask_each(addresses),
            }
        }
    }
}

/// Asks one after the other, until one answers as a broker does.
fn ask_each(addresses: impl Iterator<Item = SocketAddr>) -> u8 {
    let mut reasons = Vec::new();
    for address in addresses.take(PORTS) {
        match ask(address) {
            Ok(()) => {
                let _ = writeln!(io::stdout(), "serves on {address}");
                return 0;
            }
            Err(error) => reasons.push(format!("{address}: {error}")),
        }
    }
    if reasons.is_empty() {
        reasons.push("nothing is served: no process of this program listens".to_owned());
    }
    super::refuse(&reasons)
}

/// Whether whoever listens there answers ApiVersions as a broker does.
fn ask(address: SocketAddr) -> io::Result<()> {
    const CORRELATION_ID: i32 = 1;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // ApiVersions (18) in version 0: correlation id, client id, and no body.
    let mut request = Vec::new();
    request.extend(18i16.to_be_bytes());
    request.extend(0i16.to_be_bytes());
    request.extend(CORRELATION_ID.to_be_bytes());
    let client = b"ottla-health";
    request.extend((client.len() as i16).to_be_bytes());
    request.extend(client);
    let mut frame = (request.len() as i32).to_be_bytes().to_vec();
    frame.extend(request);
    stream.write_all(&frame)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
    let strange = || io::Error::new(io::ErrorKind::InvalidData, "the answer is not that of a broker");
    if !(10..=LONGEST_ANSWER).contains(&length) {
        return Err(strange());
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    match answer[..] {
        // Correlation id, error code, number of APIs.
        [a, b, c, d, 0, 0, ..] if i32::from_be_bytes([a, b, c, d]) == CORRELATION_ID => Ok(()),
        _ => Err(strange()),
    }
}

/// Root in a container may do much, but not look into another user's processes. The broker's user may.
fn ask_as(user: u32, group: u32) -> u8 {
    if !rustix::process::geteuid().is_root() {
        return super::refuse(&["no process of this program listens that may be looked into".to_owned()]);
    }
    let status = Command::new("/proc/self/exe").args(["health", "--as-owner"]).uid(user).gid(group).status();
    match status {
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
        Err(error) => super::refuse(&[format!("cannot ask as user {user}: {error}")]),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answering(answer: Vec<u8>) -> SocketAddr {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut request = [0; 26];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(&answer).unwrap();
        });
        address
    }

    #[test]
    fn a_broker_is_told_by_its_answer() {
        let frame = |body: &[u8]| [&(body.len() as i32).to_be_bytes(), body].concat();
        ask(answering(frame(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]))).unwrap();
        for wrong in
            [frame(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 0]), frame(&[0, 0, 0, 1, 0, 35, 0, 0, 0, 0]), b"HTTP/1.1 400".to_vec()]
        {
            assert!(ask(answering(wrong)).is_err());
        }
        assert!(ask(answering(Vec::new())).is_err());
    }
}
