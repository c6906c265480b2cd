//! Which client a request belongs to: the address of the connection, or the one that a proxy
//! reports, if the proxy is trusted.

use ipnet::{IpNet, Ipv6Net};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// How many bits of an IPv6 address identify a client: a client with one address of such a network
/// has the whole network.
const IPV6_CLIENT_BITS: u8 = 64;

/// One client, as far as the server can know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    /// A client whose address is not known.
    pub const UNKNOWN: ClientAddress = ClientAddress(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

    /// A client on this machine.
    pub const HERE: ClientAddress = ClientAddress(IpAddr::V4(Ipv4Addr::LOCALHOST));

    /// Whether it is on this machine. Local clients are not distinguished: for them, the quotas of
    /// one address are those of all addresses.
    pub fn is_local(self) -> bool {
        self.0.is_loopback()
    }
}

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> ClientAddress {
        let address = match address {
            IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
                Some(ip) => IpAddr::V4(ip),
                None if ip.is_loopback() => address,
                None => IpAddr::V6(network_of(ip)),
            },
            IpAddr::V4(_) => address,
        };
        ClientAddress(address)
    }
}

fn network_of(ip: Ipv6Addr) -> Ipv6Addr {
    Ipv6Net::new(ip, IPV6_CLIENT_BITS).map_or(ip, |net| net.network())
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ip if *self == ClientAddress::UNKNOWN => write!(f, "an unknown address ({ip})"),
            IpAddr::V6(ip) if !ip.is_loopback() => write!(f, "{ip}/{IPV6_CLIENT_BITS}"),
            ip => write!(f, "{ip}"),
        }
    }
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The other end.
    pub remote: SocketAddr,
    /// This end.
    pub local: SocketAddr,
}

/// Networks of the proxies in front of this server. Only what these say about a client is believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies(Vec<IpNet>);

/// A text that is neither an address nor a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address (10.0.0.7) and not a network (10.0.0.0/24)")]
pub struct NoNetwork(String);

impl Proxies {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads addresses and networks from text.
    ///
    /// # Errors
    /// The first that is neither.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Proxies, NoNetwork> {
        let network = |text: &str| {
            let address = || IpAddr::from_str(text).map(IpNet::from);
            let network = IpNet::from_str(text).or_else(|_| address());
            network.map_err(|_| NoNetwork(text.to_owned()))
        };
        texts
            .into_iter()
            .map(network)
            .collect::<Result<_, _>>()
            .map(Proxies)
    }

    /// Whether this address is a proxy's.
    pub fn has(&self, address: IpAddr) -> bool {
        self.0
            .iter()
            .any(|network| network.contains(&address.to_canonical()))
    }

    /// The client behind a connection from `remote`, given the values of `X-Forwarded-For`: the
    /// last address that is not a trusted proxy. Anything before it may have been written by
    /// anybody.
    pub fn client<'a>(
        &self,
        remote: IpAddr,
        forwarded: impl DoubleEndedIterator<Item = &'a str>,
    ) -> ClientAddress {
        if !self.has(remote) {
            return remote.into();
        }
        let mut hops = forwarded.flat_map(|value| value.split(',')).map(str::trim);
        let stranger = hops.rfind(|hop| !hop_address(hop).is_some_and(|ip| self.has(ip)));
        match stranger {
            // It is the proxy itself, or something that only the proxy can have let through.
            None => remote.into(),
            Some(hop) => hop_address(hop).map_or(ClientAddress::UNKNOWN, ClientAddress::from),
        }
    }
}

/// `1.2.3.4`, `1.2.3.4:567`, `2001:db8::1` or `[2001:db8::1]:567`.
fn hop_address(hop: &str) -> Option<IpAddr> {
    let bare = hop
        .trim_start_matches('[')
        .split(']')
        .next()
        .unwrap_or_default();
    let plain = hop.parse().or_else(|_| bare.parse()).ok();
    plain.or_else(|| hop.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_is_one_address_or_one_network_of_ipv6() {
        let check = |text: &str, shown: &str, local: bool| {
            let client = ClientAddress::from(text.parse::<IpAddr>().unwrap());
            assert_eq!(client.to_string(), shown);
            assert_eq!(client.is_local(), local, "{text}");
        };
        check("10.1.2.3", "10.1.2.3", false);
        check("::ffff:10.1.2.3", "10.1.2.3", false);
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", false);
        check("127.0.0.1", "127.0.0.1", true);
        check("::1", "::1", true);
        check("::ffff:127.0.0.1", "127.0.0.1", true);
    }

    #[test]
    fn only_a_trusted_proxy_says_who_asks() {
        let proxies = Proxies::parse(["127.0.0.1", "10.0.0.0/8"]).unwrap();
        let check = |remote: &str, forwarded: &[&str], expected: &str| {
            let remote = remote.parse().unwrap();
            let client = proxies.client(remote, forwarded.iter().copied());
            assert_eq!(client.to_string(), expected, "{forwarded:?}");
        };
        check("127.0.0.1", &["203.0.113.5"], "203.0.113.5");
        check("127.0.0.1", &["6.6.6.6, 203.0.113.5"], "203.0.113.5");
        check(
            "127.0.0.1",
            &["6.6.6.6, 203.0.113.5, 10.0.0.9"],
            "203.0.113.5",
        );
        check("127.0.0.1", &["6.6.6.6", "203.0.113.5:99"], "203.0.113.5");
        check("127.0.0.1", &["[2001:db8::1]:4"], "2001:db8::/64");
        check("127.0.0.1", &[], "127.0.0.1");
        check("127.0.0.1", &["nonsense"], "an unknown address (0.0.0.0)");
        // This is not a trusted proxy, so its header is not believed.
        check("203.0.113.9", &["127.0.0.1"], "203.0.113.9");
    }

    #[test]
    fn a_proxy_is_an_address_or_a_network() {
        assert!(Proxies::parse(["::1", "192.168.0.0/16"]).is_ok());
        let wrong = Proxies::parse(["proxy.example"]).unwrap_err();
        assert!(
            wrong
                .to_string()
                .contains("`proxy.example` is not an address")
        );
    }
}
