//! The settings of `tidemark serve`, checked.

use crate::bench::BenchSettings;
use crate::clients::{ClientLimits, Proxies};
use crate::names::{PublicUrl, WebOrigin};
use crate::oidc;
use crate::site::{FrontEnd, Site};
use crate::webhook::Webhook;
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

/// The access token. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// A token that could be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the access token must hold at least {} random bits, in at most {} printable ASCII characters \
     without spaces; make one with `tidemark token` or `openssl rand -hex 32`",
    Token::BITS,
    Token::LONGEST
)]
pub struct BadToken;

impl Token {
    const BITS: u32 = 128;
    const LONGEST: usize = 512;

    /// A random token has at least this many different characters: of 32 random hexadecimal digits,
    /// only one token in a billion has fewer.
    const FEWEST_DIFFERENT: usize = 7;

    /// A token from text, without a line break at its end.
    ///
    /// # Errors
    /// When it has too few bits, is too long, or cannot be sent in a header.
    pub fn new(text: &str) -> Result<Token, BadToken> {
        let text = text.trim_end_matches(['\r', '\n']);
        let sendable = text.len() <= Token::LONGEST && text.bytes().all(|b| b.is_ascii_graphic());
        match sendable && bits_of(text) >= f64::from(Token::BITS) {
            true => Ok(Token(text.to_owned())),
            false => Err(BadToken),
        }
    }

    /// A new one, of 256 random bits.
    pub fn random() -> Token {
        Token(crate::identity::secret())
    }

    /// The secret itself.
    pub fn secret(&self) -> &str {
        &self.0
    }
}

/// The bits of a text, if its characters were chosen at random from the smallest alphabet that
/// contains them.
fn bits_of(text: &str) -> f64 {
    let has = |is: fn(&u8) -> bool| text.as_bytes().iter().any(is);
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let different: std::collections::HashSet<u8> = text.bytes().collect();
    let letters = match text.bytes().all(is_hex) {
        true => 16 - 10,
        false => 26,
    };
    let alphabet = [
        (has(u8::is_ascii_digit), 10),
        (has(u8::is_ascii_lowercase), letters),
        (has(u8::is_ascii_uppercase), 26),
        // Base 64 adds two characters; counting all punctuation would overrate passphrases.
        (has(u8::is_ascii_punctuation), 2),
    ];
    let size: u32 = alphabet
        .iter()
        .filter(|(has, _)| *has)
        .map(|(_, n)| n)
        .sum();
    match different.len() < Token::FEWEST_DIFFERENT {
        true => 0.0,
        false => text.len() as f64 * f64::from(size).log2(),
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

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

    #[test]
    fn a_token_cannot_be_guessed_can_be_sent_and_is_never_printed() {
        let check = |text: &str, ok: bool| assert_eq!(Token::new(text).is_ok(), ok, "{text}");
        check(GOOD, true);
        check("0123456789abcdef0123456789abcdef\n", true);
        check("0123456789abcdef0123456789abcde", false);
        check("AZaz09-_AZaz09-_bcdefg", true);
        check("correct-horse", false);
        check("correct-horse-battery-staple", true);
        check("12345678901234567890123456789012", false);
        check(&"ab".repeat(100), false);
        check("", false);
        check(&format!("{GOOD} {GOOD}"), false);
        check(&GOOD.repeat(50), false);
        let said = Token::new("short").unwrap_err().to_string();
        assert!(said.contains("`tidemark token`"), "{said}");
        assert!(said.contains("`openssl rand -hex 32`"), "{said}");
        let token = Token::random();
        assert_eq!(format!("{token:?}"), "Token(…)");
        assert!(Token::new(token.secret()).is_ok());
        assert_ne!(token, Token::random());
    }
}
