//! `ottla health`: whether a broker serves. For the health check of a container, which runs it every second or two.
//!
//! It opens one connection and sends ApiVersions, which a broker answers without looking at anything but itself; a broker
//! that is starting does not listen yet. Which port that is, is found out: those on which a process of this very program
//! listens, as `/proc` has it, also if the program is emulated. So it works for any listeners, and with a file system that cannot be written.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::storage::dir_lock;

/// How long a connection, or an answer, may take.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Ports that are tried, at most.
const PORTS: usize = 16;
/// An answer to ApiVersions in its first version is far shorter.
const LONGEST_ANSWER: usize = 64 << 10;

/// Says whether a broker serves: exit code 0 if so
#[derive(Args, Clone, Debug)]
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
    let addresses = match &arguments.bootstrap_server {
        Some(server) => match server.to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(error) => return super::refuse(&[format!("{server}: {error}")]),
        },
        None => {
            let found = listening();
            match found.hidden_owner {
                Some((user, group)) if found.addresses.is_empty() && !arguments.as_owner => return ask_as(user, group),
                _ => found.addresses,
            }
        }
    };
    if addresses.is_empty() {
        return super::refuse(&["nothing is served: no process of this program listens".to_owned()]);
    }
    let mut reasons = Vec::new();
    for address in addresses.into_iter().take(PORTS) {
        match ask(address) {
            Ok(()) => {
                let _ = writeln!(io::stdout(), "serves on {address}");
                return 0;
            }
            Err(error) => reasons.push(format!("{address}: {error}")),
        }
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

/// What processes of this program listen on.
#[derive(Debug, Default)]
struct Listening {
    addresses: Vec<SocketAddr>,
    /// Somebody whose processes this one may not look into.
    hidden_owner: Option<(u32, u32)>,
}

fn listening() -> Listening {
    let mut found = Listening::default();
    let mut sockets = BTreeSet::new();
    for process in processes() {
        if let Some((user, group)) = process.hidden_owner {
            found.hidden_owner.get_or_insert((user, group));
        }
        sockets.extend(process.sockets);
    }
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        found
            .addresses
            .extend(text.lines().filter_map(listener).filter(|(_, inode)| sockets.contains(inode)).map(|(at, _)| at));
    }
    found.addresses.sort_by_key(SocketAddr::port);
    found
}

/// Another process of this program.
#[derive(Debug, Default)]
pub(super) struct OtherProcess {
    pub id: i32,
    /// Inodes of its sockets.
    pub sockets: Vec<u64>,
    /// The log directories that it has locked, as this process can reach them.
    pub log_dirs: Vec<PathBuf>,
    /// User and group, if this process may not look into it. Then it may be any program.
    pub hidden_owner: Option<(u32, u32)>,
}

/// The other processes of this program, and those that this one may not look into.
pub(super) fn processes() -> Vec<OtherProcess> {
    let (Ok(own), Ok(entries)) = (fs::read_link("/proc/self/exe"), fs::read_dir("/proc")) else { return Vec::new() };
    let own_id = std::process::id() as i32;
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let ids: Vec<i32> = ids.filter(|id| *id != own_id).collect();
    let those = |runs: fn(&Path, &Path) -> io::Result<bool>| -> Vec<OtherProcess> {
        ids.iter().filter_map(|&id| look_into(id, &own, runs)).collect()
    };
    let found = those(runs);
    let is_told = found.iter().any(|process| process.hidden_owner.is_none());
    if is_told { found } else { those(runs_under_an_emulator) }
}

fn runs(process: &Path, program: &Path) -> io::Result<bool> {
    Ok(fs::read_link(process.join("exe"))? == program)
}

/// Where the machine is of another architecture than this program, what a process executes is the emulator, which has the
/// program in its memory.
fn runs_under_an_emulator(process: &Path, program: &Path) -> io::Result<bool> {
    let emulator = fs::read_link(process.join("exe"))?;
    let maps = fs::read(process.join("maps"))?;
    let names = |line: &[u8]| line.ends_with(program.as_os_str().as_bytes());
    Ok(emulator != program && maps.split(|byte| *byte == b'\n').any(names))
}

fn look_into(id: i32, own: &Path, runs: fn(&Path, &Path) -> io::Result<bool>) -> Option<OtherProcess> {
    let process = PathBuf::from(format!("/proc/{id}"));
    match runs(&process, own) {
        Ok(true) => {
            let links = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            let mut found = OtherProcess { id, ..OtherProcess::default() };
            for target in links.filter_map(|link| fs::read_link(link.path()).ok()) {
                if target.file_name().is_some_and(|name| name == dir_lock::FILE_NAME) {
                    let dir = target.parent().unwrap_or(&target);
                    // In a container of its own it has a root of its own.
                    found.log_dirs.push(process.join("root").join(dir.strip_prefix("/").unwrap_or(dir)));
                } else if let Some(inode) = socket(&target) {
                    found.sockets.push(inode);
                }
            }
            Some(found)
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let owner = fs::metadata(&process).ok()?;
            Some(OtherProcess { id, hidden_owner: Some((owner.uid(), owner.gid())), ..OtherProcess::default() })
        }
        _ => None,
    }
}

/// The inode of a socket, from the link to it.
fn socket(target: &Path) -> Option<u64> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
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

/// Address and inode of a line of `/proc/net/tcp` or `tcp6`, if it is that of a socket that is listened on.
fn listener(line: &str) -> Option<(SocketAddr, u64)> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_ascii_whitespace();
    let (local, state) = (fields.nth(1)?, fields.nth(1)?);
    let inode = fields.nth(5)?.parse().ok()?;
    if state != LISTEN {
        return None;
    }
    let (address, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = |text: &str| -> Option<Vec<u8>> {
        // Each word of 32 bits in the machine's order.
        let words = text.as_bytes().chunks(8).map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
        Some(words.collect::<Option<Vec<u32>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect())
    };
    let bytes = words(address)?;
    let ip = match (<[u8; 4]>::try_from(&bytes[..]), <[u8; 16]>::try_from(&bytes[..])) {
        (Ok(v4), _) => IpAddr::from(Ipv4Addr::from(v4)),
        (_, Ok(v6)) => Ipv6Addr::from(v6).to_canonical(),
        _ => return None,
    };
    let ip = match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        // Such a socket takes IPv4 too, and a container often has no other loopback.
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        ip => ip,
    };
    Some((SocketAddr::from((ip, port)), inode))
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

    #[test]
    fn the_systems_table_is_read() {
        let line = "   1: 00000000:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0";
        assert_eq!(listener(line), Some(("127.0.0.1:9092".parse().unwrap(), 4711)));
        assert_eq!(listener(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(
            listener(
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
            ),
            None
        );
        let everywhere = line.replace(" 00000000:2384", " 00000000000000000000000000000000:2384");
        assert_eq!(listener(&everywhere), Some(("127.0.0.1:9092".parse().unwrap(), 4711)));
        let mapped = line.replace(" 00000000:2384", " 0000000000000000FFFF00000100007F:2384");
        assert_eq!(listener(&mapped), Some(("127.0.0.1:9092".parse().unwrap(), 4711)));
    }

    #[test]
    fn a_program_is_told_from_others_under_an_emulator_too() {
        let program = std::env::current_exe().unwrap();
        let own = Path::new("/proc/self");
        assert!(runs(own, &program).unwrap());
        assert!(!runs(own, Path::new("/usr/bin/ottla")).unwrap());
        assert!(!runs_under_an_emulator(own, &program).unwrap());

        let process = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/usr/bin/qemu-aarch64-static", process.path().join("exe")).unwrap();
        let maps = |path: &str| {
            format!(
                "00200000-003a5000 r--p 00000000 fe:00 4711      {path}\n7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n"
            )
        };
        for (mapped, is_ours) in
            [("/usr/bin/ottla", true), ("/usr/bin/bash", false), ("/usr/bin/ottla-of-others", false)]
        {
            fs::write(process.path().join("maps"), maps(mapped)).unwrap();
            assert_eq!(
                runs_under_an_emulator(process.path(), Path::new("/usr/bin/ottla")).unwrap(),
                is_ours,
                "{mapped}"
            );
        }
        assert!(!runs(process.path(), Path::new("/usr/bin/ottla")).unwrap());
    }

    #[test]
    fn a_socket_of_this_machine_is_in_it() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        assert!(table.lines().filter_map(listener).any(|(found, _)| found == address));
    }
}
