//! Who may read: the token, its cookie, and comparing them in constant time.

use crate::config::Token;
use api::runs::Access;

/// The cookie that remembers a token typed once.
pub const COOKIE: &str = "tidemark_session";

/// What clients must show.
pub struct Gate {
    expected: Option<Expected>,
}

/// Hashes rather than texts: `blake3::Hash` compares in constant time.
struct Expected {
    token: blake3::Hash,
    session: blake3::Hash,
}

impl Gate {
    /// A gate that this token opens; without one it is open.
    pub fn new(token: Option<&Token>) -> Gate {
        let expected = token.map(|token| Expected {
            token: blake3::hash(token.secret().as_bytes()),
            session: session_of(token),
        });
        Gate { expected }
    }

    /// Whether no token is needed.
    pub fn is_open(&self) -> bool {
        self.expected.is_none()
    }

    /// What a client with these credentials may do.
    pub fn check(&self, bearer: Option<&str>, session: Option<&str>) -> Access {
        let Some(expected) = &self.expected else {
            return Access::Open;
        };
        let by_token = bearer.is_some_and(|text| blake3::hash(text.as_bytes()) == expected.token);
        let session = session.and_then(|text| blake3::Hash::from_hex(text).ok());
        let by_session = session.is_some_and(|hash| hash == expected.session);
        if by_token | by_session {
            Access::Granted
        } else {
            Access::TokenNeeded
        }
    }

    /// The cookie's value for a client that knows the token. Not the token itself: a cookie jar
    /// that leaks opens this server only, and only until its token changes.
    pub fn session(&self) -> Option<String> {
        let expected = self.expected.as_ref()?;
        Some(expected.session.to_hex().to_string())
    }
}

fn session_of(token: &Token) -> blake3::Hash {
    let key = blake3::derive_key("tidemark 2026-11 session cookie", token.secret().as_bytes());
    blake3::Hash::from_bytes(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_and_its_cookie_open_the_gate() {
        let token = Token::new("correct-horse").unwrap();
        let gate = Gate::new(Some(&token));
        let session = gate.session().unwrap();
        assert_eq!(gate.check(None, None), Access::TokenNeeded);
        assert_eq!(
            gate.check(Some("battery-staple"), None),
            Access::TokenNeeded
        );
        assert_eq!(gate.check(Some("correct-horse"), None), Access::Granted);
        assert_eq!(gate.check(None, Some(&session)), Access::Granted);
        assert_eq!(gate.check(None, Some("correct-horse")), Access::TokenNeeded);
        assert_eq!(Gate::new(None).check(None, None), Access::Open);
    }
}
