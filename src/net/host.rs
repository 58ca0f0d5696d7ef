//! Names of hosts, looked up aside: a name server that does not answer takes ten seconds to be given up by the system, and
//! neither signals nor the log may wait for that.

use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::warn;

/// For so long nobody wonders why nothing happens.
const PATIENCE: Duration = Duration::from_secs(1);

/// The address of a host, an IPv4 one if there is one, as in Java. `whose` is for a person who waits for it.
pub async fn look_up(host: &str, whose: &str) -> io::Result<IpAddr> {
    look_up_with(host, whose, resolve).await
}

/// The same, by what asks the system and blocks.
async fn look_up_with(
    host: &str,
    whose: &str,
    resolve: impl FnOnce(&str) -> io::Result<IpAddr> + Send + 'static,
) -> io::Result<IpAddr> {
    let host = host.trim();
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let (answer, mut answered) = oneshot::channel();
    let name = host.to_owned();
    // A thread of its own: the end of the process would wait for one of the runtime's.
    std::thread::Builder::new().name("look-up".to_owned()).spawn(move || {
        // Nobody may wait for it any more.
        let _ = answer.send(resolve(&name));
    })?;
    let outcome = match timeout(PATIENCE, &mut answered).await {
        Ok(outcome) => outcome,
        Err(_) => {
            warn!(host, whose, "looking up a host takes long: the name server has not answered yet");
            answered.await
        }
    };
    outcome.unwrap_or_else(|_| Err(io::Error::other("looking it up ended by a panic")))
}

/// The same, for who may wait.
pub(super) fn resolve(host: &str) -> io::Result<IpAddr> {
    let addresses: Vec<IpAddr> = (host.trim(), 0).to_socket_addrs()?.map(|address| address.ip()).collect();
    let first = addresses.iter().find(|ip| ip.is_ipv4()).or(addresses.first());
    first.copied().ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Instant;

    use super::*;
    use crate::telemetry::LogCapture;

    #[tokio::test]
    async fn addresses_and_names_have_an_address() {
        let none_is_asked = |_: &str| -> io::Result<IpAddr> { unreachable!("an address needs no looking up") };
        for (host, address) in [("127.0.0.1", "127.0.0.1"), (" ::1 ", "::1")] {
            assert_eq!(look_up_with(host, "", none_is_asked).await.unwrap(), address.parse::<IpAddr>().unwrap());
        }
        assert!(look_up("localhost", "").await.unwrap().is_loopback());
        // A label so long is no name, and no name server is asked.
        assert!(look_up(&"x".repeat(64), "").await.is_err());
        let panics = |_: &str| -> io::Result<IpAddr> { panic!("on purpose") };
        assert!(look_up_with("host", "", panics).await.is_err());
    }

    #[tokio::test]
    async fn a_name_server_that_does_not_answer_is_told_of_and_holds_nobody_up() {
        let (let_go, held) = std::sync::mpsc::channel::<()>();
        let slow = move |_: &str| {
            held.recv().unwrap();
            Ok(IpAddr::from(Ipv4Addr::LOCALHOST))
        };
        let log = LogCapture::start();
        let began = Instant::now();
        let mut looked_up = std::pin::pin!(look_up_with("kafka", "listener A", slow));
        assert!(timeout(PATIENCE / 2, &mut looked_up).await.is_err(), "others run meanwhile");
        assert!(log.take().is_empty());
        assert!(timeout(PATIENCE, &mut looked_up).await.is_err());
        assert!(began.elapsed() < PATIENCE * 3);
        let [event] = &log.take()[..] else { panic!("one event") };
        assert!(event.text.contains(r#"host="kafka" whose="listener A""#), "{}", event.text);
        let_go.send(()).unwrap();
        assert_eq!(looked_up.await.unwrap(), IpAddr::from(Ipv4Addr::LOCALHOST));
    }
}
