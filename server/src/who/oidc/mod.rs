//! Sign-in by a provider of OpenID Connect: the company's own page asks who somebody is, and tells
//! the server.
//!
//! The protocol itself is the crate `openidconnect`'s (authorization code with PKCE). The cargo
//! feature `oidc` compiles it; without it, [`Provider`] cannot be made. `http/account/oidc.rs` has
//! the two addresses that a browser visits, and [`crate::who::people`] turns an [`Identity`] into a
//! person.

mod allow;
#[cfg(feature = "oidc")]
mod provider;
#[cfg(not(feature = "oidc"))]
#[path = "absent.rs"]
mod provider;

pub use allow::Rule;
pub use provider::Provider;

use api::people::Role;
use std::fmt;

/// What the operator says about the provider.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its address, exactly as its discovery document and its tokens name it.
    pub issuer: String,
    /// What the provider calls this server.
    pub client: String,
    /// The password that goes with it; none for a client that the provider calls public.
    pub secret: Option<Secret>,
    /// Who may come in: one of these must hold.
    pub allow: Vec<Rule>,
    /// The role of people who come for the first time.
    pub newcomers: Role,
}

/// The password of the server at the provider. It is never printed.
#[derive(Clone)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Somebody whom the provider has signed in and whom a rule lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Which provider.
    pub issuer: String,
    /// What it calls this person, for good.
    pub subject: String,
    /// The address of mail, if the provider has verified it.
    pub email: Option<String>,
    /// Other names, the best one first. People may be able to choose these themselves.
    pub names: Vec<String>,
}

/// A sign-in that has begun. The browser keeps it in a cookie meanwhile, so that the server has
/// nothing to remember, and the sign-in can end only in the browser in which it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Comes back in the address.
    pub state: String,
    /// Comes back in the token.
    pub nonce: String,
    /// Shows the provider that whoever takes the token is the one who asked for it (PKCE,
    /// RFC 7636).
    pub verifier: String,
}

impl Attempt {
    /// As the value of a cookie.
    pub fn cookie(&self) -> String {
        format!("{}.{}.{}", self.state, self.nonce, self.verifier)
    }

    /// From the value of a cookie.
    pub fn parse(cookie: &str) -> Option<Attempt> {
        let mut parts = cookie.split('.').map(str::to_owned);
        let (state, nonce, verifier) = (parts.next()?, parts.next()?, parts.next()?);
        let whole =
            parts.next().is_none() && ![&state, &nonce, &verifier].iter().any(|p| p.is_empty());
        whole.then_some(Attempt {
            state,
            nonce,
            verifier,
        })
    }
}

/// Why somebody is not signed in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    /// The provider does not answer, or not as it should.
    #[error(
        "{host} does not answer as a provider of OpenID Connect should: {why}. Try again, or tell \
         an admin of this server"
    )]
    Provider {
        /// Its host.
        host: String,
        /// What was wrong.
        why: String,
    },
    /// The provider did not sign this person in, or its answer is not for this sign-in.
    #[error("{host} did not sign you in: {why}. Try again")]
    NotSignedIn {
        /// Its host.
        host: String,
        /// What was wrong.
        why: String,
    },
    /// No rule lets this person in.
    #[error(
        "{who} is signed in at {host}, but may not come in here. An admin of this server says who \
         may (--oidc-allow)"
    )]
    NotAllowed {
        /// The person.
        who: String,
        /// The provider's host.
        host: String,
    },
    /// Too many sign-ins at this moment.
    #[error("too many people are signing in at this moment; try again in a few seconds")]
    Busy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_has_three_parts() {
        let attempt = Attempt {
            state: "a-b_c".to_owned(),
            nonce: "d".to_owned(),
            verifier: "e~".to_owned(),
        };
        assert_eq!(Attempt::parse(&attempt.cookie()), Some(attempt));
        for broken in ["", "a", "a.b", "a.b.", ".b.c", "a.b.c.d"] {
            assert_eq!(Attempt::parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn the_secret_is_not_printed() {
        let printed = format!("{:?}", Secret("hush".to_owned()));
        assert!(!printed.contains("hush"), "{printed}");
    }
}
