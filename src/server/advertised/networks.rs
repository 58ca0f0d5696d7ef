//! The networks this machine is on, as far as they say where a connection came from.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where a connection came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// This machine.
    Here,
    /// The gateway of a container's network: what came by a mapped port wears its address.
    Gateway,
    Network,
}

/// One line of the routing table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Route {
    interface: String,
    network: IpAddr,
    prefix: u32,
    gateway: Option<IpAddr>,
}

impl Route {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let rest = 32 - self.prefix;
                self.prefix == 0 || u32::from(network) >> rest == u32::from(address) >> rest
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let rest = 128 - self.prefix;
                self.prefix == 0 || u128::from(network) >> rest == u128::from(address) >> rest
            }
            _ => false,
        }
    }

    /// The first address of the network, which engines give to the gateway.
    fn first(&self) -> IpAddr {
        match self.network {
            IpAddr::V4(network) => Ipv4Addr::from(u32::from(network).saturating_add(1)).into(),
            IpAddr::V6(network) => Ipv6Addr::from(u128::from(network).saturating_add(1)).into(),
        }
    }

    /// Whether it leads to a network that this machine is on, not merely to one address.
    fn is_network(&self) -> bool {
        let all = if self.network.is_ipv4() { 32 } else { 128 };
        self.gateway.is_none() && self.prefix > 0 && self.prefix < all
    }
}

/// The routing table, and which interfaces are a container's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Networks {
    routes: Vec<Route>,
    /// Interfaces whose other end is in another namespace: an engine can map ports onto them.
    of_container: BTreeSet<String>,
}

impl Networks {
    /// As `/proc` and `/sys` say; without them nothing is known, and every connection is taken for one of the network.
    pub(super) fn of_this_machine() -> Networks {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut networks = Networks::parse(&read("/proc/net/route"), &read("/proc/net/ipv6_route"));
        let index = |interface: &str, file: &str| {
            read(&format!("/sys/class/net/{interface}/{file}")).trim().parse::<u32>().ok()
        };
        let is_linked = |interface: &&String| {
            let (own, other) = (index(interface, "ifindex"), index(interface, "iflink"));
            own.is_some() && other.is_some() && own != other
        };
        networks.of_container =
            networks.routes.iter().map(|route| &route.interface).filter(is_linked).cloned().collect();
        networks
    }

    fn parse(route: &str, ipv6_route: &str) -> Networks {
        let routes = route.lines().filter_map(v4_route).chain(ipv6_route.lines().filter_map(v6_route));
        Networks { routes: routes.collect(), of_container: BTreeSet::new() }
    }

    /// Whether the address is in a network of this machine.
    pub(super) fn know(&self, local: IpAddr) -> bool {
        self.network_of(local).is_some()
    }

    fn network_of(&self, address: IpAddr) -> Option<&Route> {
        let around = self.routes.iter().filter(|route| route.is_network() && route.contains(address));
        around.max_by_key(|route| route.prefix)
    }

    pub(super) fn origin(&self, peer: IpAddr, local: IpAddr) -> Origin {
        if peer.is_loopback() || local.is_loopback() || peer == local {
            return Origin::Here;
        }
        let Some(network) = self.network_of(local).filter(|network| self.of_container.contains(&network.interface))
        else {
            return Origin::Network;
        };
        let is_gateway =
            self.routes.iter().any(|route| route.interface == network.interface && route.gateway == Some(peer))
                || network.first() == peer;
        if is_gateway { Origin::Gateway } else { Origin::Network }
    }
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, addresses as words in the machine's order.
fn v4_route(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let word = |at: usize| {
        let text = fields.get(at).filter(|text| text.len() == 8)?;
        Some(Ipv4Addr::from(u32::from_str_radix(text, 16).ok()?.to_ne_bytes()))
    };
    let (network, gateway, mask) = (word(1)?, word(2)?, word(7)?);
    Some(Route {
        interface: (*fields.first()?).to_owned(),
        network: network.into(),
        prefix: u32::from(mask).count_ones(),
        gateway: (!gateway.is_unspecified()).then_some(gateway.into()),
    })
}

/// `network prefix source prefix gateway … interface`, addresses as the 32 digits that they have.
fn v6_route(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let address = |at: usize| {
        let text = fields.get(at).filter(|text| text.len() == 32)?;
        Some(Ipv6Addr::from(u128::from_str_radix(text, 16).ok()?))
    };
    let (network, gateway) = (address(0)?, address(4)?);
    let prefix = u32::from_str_radix(fields.get(1)?, 16).ok().filter(|prefix| *prefix <= 128)?;
    Some(Route {
        interface: (*fields.last()?).to_owned(),
        network: network.into(),
        prefix,
        gateway: (!gateway.is_unspecified()).then_some(gateway.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a container on two networks, 172.29.1.0/24 with the default route and 10.5.0.0/16 without.
    const V4: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t01011DAC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth1\t0000050A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth0\t00011DAC\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
";
    const V6: &str = "\
fd000000000000010000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd0000000000000100000000000000fe 00000400 00000003 00000000 00000003     eth0
";

    fn networks(of_container: &[&str]) -> Networks {
        let mut networks = Networks::parse(V4, V6);
        assert_eq!(networks.routes.len(), 5);
        networks.of_container = of_container.iter().map(|interface| (*interface).to_owned()).collect();
        networks
    }

    fn origin(networks: &Networks, peer: &str, local: &str) -> Origin {
        networks.origin(peer.parse().unwrap(), local.parse().unwrap())
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_container_tells_its_gateway_from_others() {
        let networks = networks(&["eth0", "eth1"]);
        for (peer, local, expected) in [
            ("127.0.0.1", "127.0.0.1", Origin::Here),
            ("::1", "::1", Origin::Here),
            ("172.29.1.5", "172.29.1.5", Origin::Here),
            ("172.29.1.1", "172.29.1.5", Origin::Gateway),
            ("172.29.1.9", "172.29.1.5", Origin::Network),
            ("192.0.2.7", "172.29.1.5", Origin::Network),
            ("10.5.0.1", "10.5.0.3", Origin::Gateway),
            ("10.5.9.1", "10.5.0.3", Origin::Network),
            ("172.29.1.1", "10.5.0.3", Origin::Network),
            ("fd00:0:0:1::fe", "fd00:0:0:1::5", Origin::Gateway),
            ("fd00:0:0:1::1", "fd00:0:0:1::5", Origin::Gateway),
            ("fd00:0:0:1::9", "fd00:0:0:1::5", Origin::Network),
        ] {
            assert_eq!(origin(&networks, peer, local), expected, "{peer} {local}");
        }
        assert!(networks.know("10.5.0.3".parse().unwrap()) && !networks.know("10.6.0.3".parse().unwrap()));
    }

    #[test]
    fn a_machine_that_is_no_container_has_no_mapped_ports() {
        let networks = networks(&[]);
        assert_eq!(origin(&networks, "172.29.1.1", "172.29.1.5"), Origin::Network);
        assert_eq!(origin(&Networks::default(), "172.29.1.1", "172.29.1.5"), Origin::Network);
    }

    #[test]
    fn nonsense_is_no_route() {
        for line in ["", "eth0", "eth0 zz 00000000 0 0 0 0 00000000", "eth0 00000000 00000000"] {
            assert_eq!(v4_route(line), None, "{line}");
        }
        assert_eq!(v6_route("00 00 00 00 00 eth0"), None);
        let wide = V6.lines().next().unwrap().replace(" 40 ", " ff ");
        assert_eq!(v6_route(&wide), None);
    }
}
