//! The names of the server: which `Host` headers are allowed, and which address is written into
//! links.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A host, perhaps with a port, in the form of the header `Host`; nothing else is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    host: String,
    port: Option<u16>,
}

impl Authority {
    /// `name`, `name:1`, `1.2.3.4:1` or `[::1]:1`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Authority> {
        let (host, rest) = match text.strip_prefix('[') {
            Some(inside) => {
                let (address, rest) = inside.split_once(']')?;
                address.parse::<Ipv6Addr>().ok()?;
                (&text[..address.len() + 2], rest)
            }
            None => text.split_at(text.find(':').unwrap_or(text.len())),
        };
        let port = match rest.strip_prefix(':') {
            // `parse` alone would accept a sign.
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            Some(_) => return None,
            None if rest.is_empty() => None,
            None => return None,
        };
        let is_name_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        let is_name = host.starts_with('[') || host.bytes().all(is_name_byte);
        let fits = !host.is_empty() && host.len() <= 253 && is_name;
        fits.then(|| Authority {
            host: host.to_ascii_lowercase(),
            port,
        })
    }

    /// The port, if it names one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The IP address, if it is one.
    pub fn ip(&self) -> Option<IpAddr> {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        bare.parse().ok()
    }

    /// Whether it is a loopback name or address.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.ip().is_some_and(|ip| ip.is_loopback())
    }

    /// Whether both are the same host, whatever the port.
    pub fn is_host_of(&self, other: &Authority) -> bool {
        self.host == other.host
    }

    /// Whether it is this machine's host name, alone or with the suffix of the local network.
    pub fn is_machine(&self, hostname: &str) -> bool {
        let name = self.host.strip_suffix(".local").unwrap_or(&self.host);
        !hostname.is_empty() && name.eq_ignore_ascii_case(hostname)
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// The scheme of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Not encrypted.
    Http,
    /// Over TLS, which a proxy in front of the server ends.
    Https,
}

impl Scheme {
    /// As at the beginning of an address.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// The address under which people reach the server: `https://tidemark.example`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    /// The scheme.
    pub scheme: Scheme,
    /// The host and port.
    pub authority: Authority,
}

/// A text that is not the address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address such as https://tidemark.example (without a path)")]
pub struct NoPublicUrl(String);

impl std::str::FromStr for PublicUrl {
    type Err = NoPublicUrl;

    fn from_str(text: &str) -> Result<PublicUrl, NoPublicUrl> {
        let wrong = || NoPublicUrl(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let scheme = match scheme {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(wrong()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let authority = Authority::parse(rest).ok_or_else(wrong)?;
        Ok(PublicUrl { scheme, authority })
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority)
    }
}

/// An origin that a browser trusts with secrets: `https://pages.example`, or `http://` on the
/// browser's own machine. Written as browsers write it in the header `Origin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin(String);

/// A text that is not such an origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not https://NAME, or http:// with a loopback address (without a path): a token would \
     cross the network unencrypted"
)]
pub struct NoWebOrigin(String);

impl WebOrigin {
    /// Whether this is what a browser sends as the origin of its pages.
    pub fn is(&self, header: &str) -> bool {
        self.0 == header
    }

    /// Whether the host is an IPv6 address, which no content security policy can name.
    pub fn is_ipv6(&self) -> bool {
        self.0.contains("://[")
    }
}

impl std::str::FromStr for WebOrigin {
    type Err = NoWebOrigin;

    fn from_str(text: &str) -> Result<WebOrigin, NoWebOrigin> {
        let wrong = || NoWebOrigin(text.to_owned());
        let PublicUrl {
            scheme,
            mut authority,
        } = text.parse().map_err(|_| wrong())?;
        let own_port = match scheme {
            Scheme::Https => 443,
            Scheme::Http if authority.is_loopback() => 80,
            Scheme::Http => return Err(wrong()),
        };
        // Browsers leave out the scheme's own port, and write IPv6 in its shortest form.
        authority.port = authority.port.filter(|&port| port != own_port);
        if let Some(IpAddr::V6(ip)) = authority.ip() {
            authority.host = format!("[{ip}]");
        }
        Ok(WebOrigin(format!("{}://{authority}", scheme.name())))
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of this machine.
pub fn hostname() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_a_host_and_a_port_and_nothing_else() {
        let check = |text: &str, ok: bool, loopback: bool| {
            let parsed = Authority::parse(text);
            assert_eq!(parsed.is_some(), ok, "{text}");
            assert_eq!(parsed.is_some_and(|a| a.is_loopback()), loopback, "{text}");
        };
        check("localhost:7878", true, true);
        check("LOCALHOST", true, true);
        check("127.0.0.1", true, true);
        check("127.9.9.9:1", true, true);
        check("[::1]:7878", true, true);
        check("[::1]", true, true);
        check("evil.example:7878", true, false);
        check("127.0.0.1.evil.example", true, false);
        check("localhost.evil.example:7878", true, false);
        for wrong in [
            "[::1]evil.example",
            "[::1].evil.example:1",
            "[::1]:1@evil.example",
            "[evil.example]",
            "[::1",
            "::1",
            "localhost:1@evil",
            "localhost@evil",
            "localhost:",
            "localhost:99999",
            "localhost:+1",
            "localhost/evil",
            "evil\" onload=\"x",
            "",
            ":1",
        ] {
            check(wrong, false, false);
        }
    }

    #[test]
    fn a_public_address_has_no_path() {
        let check = |text: &str, expected: Option<&str>| {
            let parsed = text.parse::<PublicUrl>().ok().map(|url| url.to_string());
            assert_eq!(parsed.as_deref(), expected, "{text}");
        };
        check("https://tidemark.example", Some("https://tidemark.example"));
        check(
            "https://tidemark.example/",
            Some("https://tidemark.example"),
        );
        check("http://Gpu-Box:7878", Some("http://gpu-box:7878"));
        check("https://tidemark.example/x", None);
        check("https://user:pw@tidemark.example", None);
        check("ftp://tidemark.example", None);
        check("tidemark.example", None);
    }

    #[test]
    fn a_token_goes_only_where_nobody_else_reads_it() {
        let check = |text: &str, expected: Option<&str>| {
            let parsed = text.parse::<WebOrigin>().ok();
            let text_of = parsed.as_ref().map(ToString::to_string);
            assert_eq!(text_of.as_deref(), expected, "{text}");
            assert!(parsed.is_none_or(|origin| origin.is(expected.unwrap_or_default())));
        };
        check("https://pages.example", Some("https://pages.example"));
        check("https://Pages.Example:443/", Some("https://pages.example"));
        check(
            "https://pages.example:8443",
            Some("https://pages.example:8443"),
        );
        check("http://127.0.0.1:7878", Some("http://127.0.0.1:7878"));
        check("http://localhost:80", Some("http://localhost"));
        check("http://[0:0:0:0:0:0:0:1]:7878", Some("http://[::1]:7878"));
        for wrong in [
            "http://pages.example",
            "http://127.0.0.1.evil.example",
            "http://localhost@evil.example",
            "https://pages.example/path",
            "https://pages.example evil.example",
            "https://pages.example;",
            "https://*.example",
            "https://user:pw@pages.example",
            "https://",
            "pages.example",
            "null",
            "*",
            "file://",
            "",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_machine_answers_to_its_own_name() {
        let check = |host: &str, machine: &str, own: bool| {
            let host = Authority::parse(host).unwrap();
            assert_eq!(host.is_machine(machine), own, "{host}");
        };
        check("gpu-box:7878", "gpu-box", true);
        check("GPU-BOX.local", "gpu-box", true);
        check("gpu-box.evil.example", "gpu-box", false);
        check("evil.example", "", false);
    }
}
