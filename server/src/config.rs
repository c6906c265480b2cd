//! The settings of `tidemark serve`, checked.

use crate::bench::BenchSettings;
use crate::limits::clients::{ClientLimits, Proxies};
use crate::page_files::{FrontEnd, Site};
use crate::webhook::Webhook;
use crate::who::host_names::{PublicUrl, WebOrigin};
use crate::who::oidc;
use crate::who::server_token::Token;
use api::people::Role;
use axum::http::HeaderName;
use std::net::SocketAddr;
use std::path::PathBuf;
use trace::naming::Rules;
use trace::units::Bytes;

/// All settings of the server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens; anything but loopback needs a token.
    pub listen: SocketAddr,
    /// Folder of the database and, unless set otherwise, of the blobs.
    pub data: PathBuf,
    /// Where uploaded bytes are kept; `None`: in the folder.
    pub blobs: Option<String>,
    /// The token that clients must know.
    pub token: Option<Token>,
    /// Largest upload accepted.
    pub upload_limit: Bytes,
    /// Space that must stay free on the disk.
    pub keep_free: Bytes,
    /// Memory for everything that grows with what people send and ask.
    pub memory: Bytes,
    /// Memory for decoded traces that are not in use; part of the above.
    pub cache: Bytes,
    /// zstd level for packing blobs again when the server is idle; `None`: they are not packed
    /// again.
    pub repack_level: Option<i32>,
    /// The team's own categories, as a file has them; `None`: as the database has them.
    pub categories: Option<(String, Rules)>,
    /// Who is told what to look at in trainings that report.
    pub alert: Option<Webhook>,
    /// How rows of benches are run.
    pub bench: BenchSettings,
    /// The address under which people reach the server; it is written into links.
    pub public_url: Option<PublicUrl>,
    /// Pages of other sites that may send recordings here and ask for links to them.
    pub pages: Vec<WebOrigin>,
    /// Proxies whose headers about clients are believed.
    pub proxies: Proxies,
    /// The header of these proxies that names people.
    pub user_header: Option<UserHeader>,
    /// The provider of OpenID Connect that signs people in.
    pub oidc: Option<oidc::Settings>,
    /// Limits for clients.
    pub clients: ClientLimits,
    /// Where the page comes from.
    pub site: Site,
}

impl Config {
    /// Largest upload accepted, if nothing else is said.
    pub const UPLOAD_LIMIT: Bytes = Bytes::gib(8);

    /// The defaults, for a data folder.
    pub fn new(data: PathBuf) -> Config {
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 7878)),
            data,
            blobs: None,
            token: None,
            upload_limit: Config::UPLOAD_LIMIT,
            keep_free: Bytes::mib(256),
            memory: Bytes::gib(1),
            cache: Bytes::mib(320),
            repack_level: None,
            categories: None,
            alert: None,
            bench: BenchSettings::default(),
            public_url: None,
            pages: Vec::new(),
            proxies: Proxies::default(),
            user_header: None,
            oidc: None,
            clients: ClientLimits::default(),
            site: Site::Embedded(FrontEnd::default()),
        }
    }

    /// Whether other machines may reach it, and nothing keeps them out yet.
    pub fn needs_admin(&self) -> bool {
        let exposed = !self.listen.ip().is_loopback();
        exposed && self.token.is_none() && self.user_header.is_none()
    }

    /// The role of people whom a proxy or a provider signs in for the first time, if there is one.
    pub fn newcomers(&self) -> Option<Role> {
        let named = self.user_header.as_ref().map(|header| header.newcomers);
        named.or_else(|| self.oidc.as_ref().map(|oidc| oidc.newcomers))
    }

    /// Refuses settings that would believe any client about who it is.
    ///
    /// # Errors
    /// A sentence that says what to do.
    pub fn check(&self) -> Result<(), Credulous> {
        match self.user_header.is_some() && self.proxies.is_empty() {
            true => Err(Credulous),
            false => Ok(()),
        }
    }
}

/// The header in which a proxy names people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserHeader {
    /// Its name.
    pub name: HeaderName,
    /// The role of people whom the header names for the first time.
    pub newcomers: Role,
}

/// A header names people, but no proxy is trusted to send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--user-header needs --trusted-proxy ADDR: the address of the proxy that signs people in. \
     Nobody else is believed"
)]
pub struct Credulous;

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "correct-horse-battery-staple-0001";

    #[test]
    fn only_loopback_goes_without_anybody_to_sign_in() {
        let check = |listen: &str, token: Option<&str>, needs_admin: bool| {
            let token = token.map(|text| Token::new(text).unwrap());
            let listen = listen.parse().unwrap();
            let config = Config {
                listen,
                token,
                ..Config::new(PathBuf::new())
            };
            assert_eq!(config.needs_admin(), needs_admin, "{listen}");
        };
        check("127.0.0.1:7878", None, false);
        check("[::1]:7878", None, false);
        check("0.0.0.0:7878", None, true);
        check("192.168.1.2:80", None, true);
        check("0.0.0.0:7878", Some(GOOD), false);
    }

    #[test]
    fn a_header_that_names_people_needs_a_proxy() {
        let mut config = Config::new(PathBuf::new());
        config.user_header = Some(UserHeader {
            name: HeaderName::from_static("x-forwarded-user"),
            newcomers: Role::Member,
        });
        assert_eq!(config.check(), Err(Credulous));
        config.proxies = Proxies::parse(["10.0.0.1"]).unwrap();
        assert_eq!(config.check(), Ok(()));
    }
}
