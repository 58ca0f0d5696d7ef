//! The sockets of this network that are listened on, as the system has them.
//!
//! They are asked for by `sock_diag`, which gives these alone. The files `/proc/net/tcp` and `tcp6` say the same, and are read where
//! that is not to be had (a kernel without it, an emulator). But each piece that is read of them costs a walk over the system's
//! table of all connections, which has room for hundreds of thousands: milliseconds, where the rest takes microseconds.
//!
//! A request, and an answer's part about one socket (`linux/inet_diag.h`), in the machine's order but for ports and addresses:
//!
//! | bytes | request | answer |
//! |---|---|---|
//! | 16 | header: length, type 20, flags, sequence, port | header: the same |
//! | 4 | family, protocol, extensions, 0 | family, state, timer, retransmissions |
//! | 4 | states, one bit each | ports: own, other |
//! | 48 | which socket: none | 32: own address, other address; 12: interface, cookie |
//! | 16 | | expiry, queues, user |
//! | 4 | | inode |

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// Where each of them can be reached from here, by its inode.
pub fn listeners() -> BTreeMap<u64, SocketAddr> {
    asked_for().unwrap_or_else(|_| read())
}

/// Of a listener on all addresses, one that works.
fn reachable(ip: IpAddr, port: u16) -> SocketAddr {
    let ip = match ip.to_canonical() {
        // Such a socket of IPv6 takes IPv4 too, and a container often has no other loopback.
        ip if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::from((ip, port))
}

/// `SOCK_DIAG_BY_FAMILY`
const REQUEST: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const ALL_OF_THEM: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER: usize = 16;
/// As the system fills it; longer than it makes its answers.
const ANSWER: usize = 32 << 10;
/// The system answers within the call.
const TIMEOUT: Duration = Duration::from_secs(1);

fn asked_for() -> io::Result<BTreeMap<u64, SocketAddr>> {
    let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_SOCK_DIAG)))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let mut found = BTreeMap::new();
    let mut answer = vec![0; ANSWER];
    for family in [libc::AF_INET, libc::AF_INET6] {
        socket.send(&request(family as u8))?;
        loop {
            let length = (&socket).read(&mut answer)?;
            if take(&answer[..length], &mut found)? {
                break;
            }
        }
    }
    Ok(found)
}

fn request(family: u8) -> Vec<u8> {
    const LENGTH: usize = 72;
    const LISTEN: u32 = 10;
    let mut request = Vec::with_capacity(LENGTH);
    request.extend((LENGTH as u32).to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    request.extend(ALL_OF_THEM.to_ne_bytes());
    request.resize(HEADER, 0);
    request.extend([family, libc::IPPROTO_TCP as u8, 0, 0]);
    request.extend((1u32 << LISTEN).to_ne_bytes());
    request.resize(LENGTH, 0);
    request
}

/// Takes what an answer says; whether it was the last.
fn take(mut answer: &[u8], found: &mut BTreeMap<u64, SocketAddr>) -> io::Result<bool> {
    let strange = || io::Error::from(io::ErrorKind::InvalidData);
    if answer.is_empty() {
        return Err(strange());
    }
    while !answer.is_empty() {
        let length = u32_at(answer, 0).ok_or_else(strange)? as usize;
        let message = answer.get(..length).ok_or_else(strange)?;
        let kind = message.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
        let body = message.get(HEADER..).ok_or_else(strange)?;
        match kind {
            Some(DONE) => return Ok(true),
            Some(REQUEST) => {
                let (inode, address) = of_answer(body).ok_or_else(strange)?;
                found.insert(inode, address);
            }
            Some(ERROR) => {
                let code = u32_at(body, 0).ok_or_else(strange)? as i32;
                return Err(io::Error::from_raw_os_error(code.checked_neg().unwrap_or(0)));
            }
            _ => return Err(strange()),
        }
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn of_answer(body: &[u8]) -> Option<(u64, SocketAddr)> {
    let port = u16::from_be_bytes(body.get(4..6)?.try_into().ok()?);
    let ip = match i32::from(*body.first()?) {
        libc::AF_INET => IpAddr::from(<[u8; 4]>::try_from(body.get(8..12)?).ok()?),
        libc::AF_INET6 => IpAddr::from(<[u8; 16]>::try_from(body.get(8..24)?).ok()?),
        _ => return None,
    };
    Some((u64::from(u32_at(body, 68)?), reachable(ip, port)))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The same from `/proc`.
fn read() -> BTreeMap<u64, SocketAddr> {
    let mut found = BTreeMap::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        // In few pieces; see above.
        let mut text = String::with_capacity(256 << 10);
        if File::open(table).and_then(|mut file| file.read_to_string(&mut text)).is_ok() {
            found.extend(text.lines().filter_map(of_line).map(|(address, inode)| (inode, address)));
        }
    }
    found
}

/// Address and inode of a line of `/proc/net/tcp` or `tcp6`, if it is that of a socket that is listened on.
fn of_line(line: &str) -> Option<(SocketAddr, u64)> {
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
    Some((reachable(ip, port), inode))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn the_systems_table_is_read() {
        let line = "   1: 00000000:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0";
        assert_eq!(of_line(line), Some(("127.0.0.1:9092".parse().unwrap(), 4711)));
        assert_eq!(of_line(&line.replace(" 0A ", " 01 ")), None);
        assert_eq!(
            of_line("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"),
            None
        );
        let everywhere = line.replace(" 00000000:2384", " 00000000000000000000000000000000:2384");
        assert_eq!(of_line(&everywhere), Some(("127.0.0.1:9092".parse().unwrap(), 4711)));
        let mapped = line.replace(" 00000000:2384", " 0000000000000000FFFF00000100007F:2384");
        assert_eq!(of_line(&mapped), Some(("127.0.0.1:9092".parse().unwrap(), 4711)));
    }

    #[test]
    fn answers_are_taken_apart_and_lies_refused() {
        let body = |family: i32, address: &[u8], inode: u32| {
            let mut body = vec![family as u8, 10, 0, 0, 0x23, 0x84, 0, 0];
            body.extend(address);
            body.resize(68, 0);
            body.extend(inode.to_ne_bytes());
            body
        };
        let message = |kind: u16, body: &[u8]| {
            let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
            message.extend(kind.to_ne_bytes());
            message.resize(HEADER, 0);
            message.extend(body);
            message
        };
        let everywhere = message(REQUEST, &body(libc::AF_INET6, &[0; 16], 7));
        let here = message(REQUEST, &body(libc::AF_INET, &[127, 0, 0, 2], 8));
        let mut found = BTreeMap::new();
        assert!(!take(&[&everywhere[..], &here].concat(), &mut found).unwrap());
        assert_eq!(found[&7], "127.0.0.1:9092".parse().unwrap());
        assert_eq!(found[&8], "127.0.0.2:9092".parse().unwrap());
        assert!(take(&[&here[..], &message(DONE, &[0; 4])].concat(), &mut found).unwrap());
        let error = take(&message(ERROR, &(-2i32).to_ne_bytes()), &mut found).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        for cut in 0..here.len() {
            assert!(take(&here[..cut], &mut found).is_err(), "{cut}");
            let mut short = here[..cut].to_vec();
            if let Some(length) = short.get_mut(..4) {
                length.copy_from_slice(&(cut as u32).to_ne_bytes());
                assert!(take(&short, &mut found).is_err(), "{cut}");
            }
        }
        assert!(take(&message(9, &[]), &mut found).is_err());
        assert!(take(&message(REQUEST, &body(1, &[0; 16], 1)), &mut found).is_err());
    }

    #[test]
    fn a_socket_of_this_machine_is_in_both_tables() {
        for address in ["127.0.0.1:0", "[::]:0"] {
            let Ok(server) = TcpListener::bind(address) else {
                assert_ne!(address, "127.0.0.1:0");
                continue;
            };
            let port = server.local_addr().unwrap().port();
            let inode = std::fs::metadata(format!("/proc/self/fd/{}", server.as_raw_fd())).unwrap().ino();
            let expected = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            assert_eq!(read().get(&inode), Some(&expected));
            assert_eq!(listeners().get(&inode), Some(&expected));
        }
    }
}
