//! What `tidemark serve` is told, checked.

use crate::bench::BenchSettings;
use std::net::SocketAddr;
use std::path::PathBuf;
use trace::units::Bytes;

/// Everything the server is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it listens; anything but loopback needs a token.
    pub listen: SocketAddr,
    /// Folder of the database and, unless told otherwise, of the blobs.
    pub data: PathBuf,
    /// Where uploaded bytes are kept; `None`: in the folder.
    pub blobs: Option<String>,
    /// What clients must know.
    pub token: Option<Token>,
    /// Largest upload accepted.
    pub upload_limit: Bytes,
    /// What must stay free on the disk.
    pub keep_free: Bytes,
    /// Memory for decoded traces.
    pub cache: Bytes,
    /// zstd level at which blobs are packed again when the server is idle; `None`: they are not.
    pub repack_level: Option<i32>,
    /// How rows of benches are run.
    pub bench: BenchSettings,
}

impl Config {
    /// The defaults, for a data folder.
    pub fn new(data: PathBuf) -> Config {
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 7878)),
            data,
            blobs: None,
            token: None,
            upload_limit: Bytes::gib(8),
            keep_free: Bytes::mib(256),
            cache: Bytes::mib(384),
            repack_level: None,
            bench: BenchSettings::default(),
        }
    }

    /// Refuses to be reachable from other machines without a token.
    ///
    /// # Errors
    /// A sentence that says what to do.
    pub fn check(&self) -> Result<(), ExposedWithoutToken> {
        match self.token.is_some() || self.listen.ip().is_loopback() {
            true => Ok(()),
            false => Err(ExposedWithoutToken(self.listen)),
        }
    }
}

/// An address that others can reach, and nothing that keeps them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "refusing to listen on {0} without an access token: anyone who reaches that address could read \
     and delete runs; set TIDEMARK_TOKEN (or --token-file FILE), or listen on 127.0.0.1"
)]
pub struct ExposedWithoutToken(pub SocketAddr);

/// The access token. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// A token that anyone could guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the access token must have {} to {} printable ASCII characters without spaces; \
     `openssl rand -hex 16` makes a good one",
    Token::SHORTEST,
    Token::LONGEST
)]
pub struct BadToken;

impl Token {
    const SHORTEST: usize = 8;
    const LONGEST: usize = 512;

    /// A token, without the line break that files end with.
    ///
    /// # Errors
    /// When it is too short, too long, or cannot be sent in a header.
    pub fn new(text: &str) -> Result<Token, BadToken> {
        let text = text.trim_end_matches(['\r', '\n']);
        let fits = (Token::SHORTEST..=Token::LONGEST).contains(&text.len());
        match fits && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Token(text.to_owned())),
            false => Err(BadToken),
        }
    }

    /// The secret itself.
    pub fn secret(&self) -> &str {
        &self.0
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

    #[test]
    fn only_loopback_goes_without_a_token() {
        let check = |listen: &str, token: Option<&str>, ok: bool| {
            let token = token.map(|text| Token::new(text).unwrap());
            let listen = listen.parse().unwrap();
            let config = Config {
                listen,
                token,
                ..Config::new(PathBuf::new())
            };
            assert_eq!(config.check().is_ok(), ok, "{listen}");
        };
        check("127.0.0.1:7878", None, true);
        check("[::1]:7878", None, true);
        check("0.0.0.0:7878", None, false);
        check("192.168.1.2:80", None, false);
        check("0.0.0.0:7878", Some("correct-horse"), true);
    }

    #[test]
    fn a_token_is_sendable_and_never_printed() {
        let check = |text: &str, ok: bool| assert_eq!(Token::new(text).is_ok(), ok, "{text}");
        check("correct-horse\n", true);
        check("short", false);
        check("with a space", false);
        let token = Token::new("correct-horse").unwrap();
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
