//! A process that has no file descriptor left to accept a connection with waits for one, quietly, and goes on. A disk that
//! cannot open a file for want of one is as one that is full, and names are made durable all the same.
//!
//! A test binary of its own, because the limit holds for the whole process.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;
use ottla::clock::SystemClock;
use ottla::config::BrokerConfig;
use ottla::net::{ConnectionContext, Reply, RequestHandler, SocketServer};
use ottla::storage::disk::{OpenMode, RealDisk, concerns_file, is_full};
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit, setrlimit};

struct Echo;

impl RequestHandler for Echo {
    fn handle(&self, _: &Arc<ConnectionContext>, frame: Bytes) -> Reply {
        Reply::Now(frame.into())
    }
}

fn exchange(stream: &mut TcpStream) {
    stream.write_all(b"\0\0\0\x04echo").unwrap();
    let mut reply = [0; 8];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"\0\0\0\x04echo");
}

/// Processor time used by all threads so far, in hundredths of a second, from `/proc/self/stat`.
fn ticks(stat: &File) -> u64 {
    let mut text = [0; 1024];
    let length = stat.read_at(&mut text, 0).unwrap();
    let text = std::str::from_utf8(&text[..length]).unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// One test at a time.
static LIMIT: Mutex<()> = Mutex::new(());

#[test]
fn a_disk_without_descriptors_is_full_and_not_broken() {
    let _alone = LIMIT.lock();
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::new();
    disk.sync_dir(dir.path()).unwrap();
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).unwrap();
    let fill: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let refused = disk.open(&dir.path().join("new"), OpenMode::CreateNew).err().unwrap();
    assert!(is_full(&refused) && !concerns_file(&refused), "{refused}");
    for _ in 0..3 {
        disk.sync_dir(dir.path()).unwrap();
    }
    drop(fill);
    disk.open(&dir.path().join("new"), OpenMode::CreateNew).unwrap();
}

#[test]
fn waits_for_a_descriptor() {
    let _alone = LIMIT.lock();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut config = BrokerConfig::default();
    config.listeners[0].host = "127.0.0.1".to_owned();
    config.listeners[0].port = 0;
    let mut server = runtime.block_on(SocketServer::bind(&config, SystemClock::new())).unwrap();
    runtime.block_on(async { server.start(Arc::new(Echo)) }).unwrap();
    let address = ("127.0.0.1", server.endpoints().next().unwrap().port);

    // Three descriptors are left: for both ends of one connection, and for the near end of a second.
    let stat = File::open("/proc/self/stat").unwrap();
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut fill: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    fill.truncate(fill.len() - 3);
    let mut served = TcpStream::connect(address).unwrap();
    exchange(&mut served);
    let mut waiting = TcpStream::connect(address).unwrap();
    waiting.write_all(b"\0\0\0\x04echo").unwrap();
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    waiting.read_exact(&mut [0]).unwrap_err();
    exchange(&mut served);

    let before = ticks(&stat);
    sleep(Duration::from_secs(1));
    assert!(ticks(&stat) - before < 20, "it spins while it has no descriptor");

    drop(served);
    waiting.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut reply = [0; 8];
    waiting.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"\0\0\0\x04echo");
    exchange(&mut waiting);
}
