//! What an idle connection costs: resident memory of a process with 10,000 of them, of the network layer alone.
//!
//! `cargo bench --bench idle_connections` prints it. Each connection has had a request answered before it is idle. The
//! clients live in a process of their own, so that only the broker's side is counted.

use std::env;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;
use ottla::clock::SystemClock;
use ottla::config::BrokerConfig;
use ottla::net::{ConnectionContext, Reply, RequestHandler, SocketServer};
use rustix::process::{Resource, getrlimit, setrlimit};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Echo;

impl RequestHandler for Echo {
    fn handle(&self, _: &Arc<ConnectionContext>, frame: Bytes) -> Reply {
        Reply::Now(frame.into())
    }
}

/// Opens `count` connections, uses each once, and keeps them until standard input ends.
fn clients(port: u16, count: usize) {
    let connections: Vec<TcpStream> = (0..count)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(b"\0\0\0\x10sixteen bytes...").unwrap();
            stream.read_exact(&mut [0; 20]).unwrap();
            stream
        })
        .collect();
    println!("{}", connections.len());
    let _ = std::io::stdin().read(&mut [0]);
}

fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

fn main() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    if let Ok(port) = env::var("BENCH_PORT") {
        return clients(port.parse().unwrap(), env::var("BENCH_COUNT").unwrap().parse().unwrap());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut config = BrokerConfig::default();
    config.listeners[0].host = "127.0.0.1".to_owned();
    config.listeners[0].port = 0;
    let mut server = runtime.block_on(SocketServer::bind(&config, SystemClock::new())).unwrap();
    runtime.block_on(async { server.start(Arc::new(Echo)) }).unwrap();
    let port = server.endpoints().next().unwrap().port;
    let opened = |count: usize| {
        let mut child = Command::new(env::current_exe().unwrap())
            .env("BENCH_PORT", port.to_string())
            .env("BENCH_COUNT", count.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        // Long enough for two sweeps, which free what is not needed.
        sleep(Duration::from_secs(12));
        let resident = resident();
        assert_eq!(server.connection_count(), count);
        drop(child.stdin.take());
        child.wait().unwrap();
        while server.connection_count() > 0 {
            sleep(Duration::from_millis(10));
        }
        resident
    };
    let before = opened(1);
    println!("resident with 1 connection: {} KiB", before >> 10);
    for count in [1000, 10_000, 10_000] {
        let after = opened(count);
        let each = after.saturating_sub(before) / count;
        println!("resident with {count} connections: {} KiB, {each} bytes each", after >> 10);
    }
    println!("resident after they are gone: {} KiB", resident() >> 10);
    runtime.shutdown_background();
}
