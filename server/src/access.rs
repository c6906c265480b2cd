//! Who may read: the token, the sessions of browsers that typed it, and how often one may be
//! wrong about a secret.

use crate::clients::guesses::Tally;
use crate::clients::{ClientAddress, Guesses, Later};
use crate::config::Token;
use crate::sessions::{Sessions, Visitor};
use crate::store::{Store, StoreResult};
use api::ids::SessionId;
use api::runs::{Access, Session};
use std::time::Instant;

/// The cookie that remembers a token typed once.
pub const COOKIE: &str = "tidemark_session";

/// What clients must show.
pub struct Gate {
    locked: Option<Locked>,
    guesses: Guesses,
}

struct Locked {
    /// A hash rather than the text: `blake3::Hash` compares in constant time.
    token: blake3::Hash,
    sessions: Sessions,
}

/// What a client shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'a> {
    /// The token itself, which programs send.
    pub token: Option<&'a str>,
    /// The secret of a session, which browsers send.
    pub session: Option<&'a str>,
}

/// What a client may do, and on which ground.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it may do.
    pub access: Access,
    /// The session that it showed.
    pub session: Option<SessionId>,
}

impl From<Access> for Entry {
    fn from(access: Access) -> Entry {
        Entry {
            access,
            session: None,
        }
    }
}

impl Gate {
    /// A gate that this token opens, with the sessions that were opened with it; without a token
    /// it is open.
    ///
    /// # Errors
    /// The database's.
    pub async fn new(token: Option<&Token>, store: &Store, now_ms: i64) -> StoreResult<Gate> {
        let locked = match token {
            None => None,
            Some(token) => Some(Locked {
                token: hash_of(token.secret()),
                sessions: Sessions::load(store, kept_hash_of(token), now_ms).await?,
            }),
        };
        Ok(Gate {
            locked,
            guesses: Guesses::default(),
        })
    }

    /// Whether no token is needed.
    pub fn is_open(&self) -> bool {
        self.locked.is_none()
    }

    /// What a client that shows this may do.
    ///
    /// # Errors
    /// When it was wrong too often; what it shows is not looked at then.
    pub fn check(&self, shown: Shown, who: ClientAddress, now_ms: i64) -> Result<Entry, Later> {
        let Some(locked) = &self.locked else {
            return Ok(Access::Open.into());
        };
        let session = shown
            .session
            .and_then(|secret| locked.sessions.find(secret, now_ms));
        if session.is_some() {
            return Ok(Entry {
                access: Access::Granted,
                session,
            });
        }
        let Some(token) = shown.token else {
            return Ok(Access::TokenNeeded.into());
        };
        self.may_guess(who)?;
        let right = hash_of(token) == locked.token;
        self.guessed(who, right);
        match right {
            true => Ok(Access::Granted.into()),
            false => Ok(Access::TokenNeeded.into()),
        }
    }

    /// Whether a client may show a secret of which only the database knows whether it is right;
    /// [`Gate::guessed`] then says whether it was.
    ///
    /// # Errors
    /// When too many before it were wrong.
    pub fn may_guess(&self, who: ClientAddress) -> Result<(), Later> {
        self.guesses.may_try(who, Instant::now())
    }

    /// A client showed a secret.
    pub fn guessed(&self, who: ClientAddress, right: bool) {
        match right {
            true => self.guesses.right(who),
            false => self.guesses.wrong(who, Instant::now()),
        }
    }

    /// Wrong secrets since the start.
    pub fn tally(&self) -> Tally {
        self.guesses.tally()
    }

    /// Opens a session for a browser that has shown the token; its secret. `None` without a token.
    ///
    /// # Errors
    /// The database's.
    pub async fn open_session(&self, visitor: Visitor, now_ms: i64) -> StoreResult<Option<String>> {
        match &self.locked {
            Some(locked) => locked.sessions.open(visitor, now_ms).await.map(Some),
            None => Ok(None),
        }
    }

    /// The sessions that have not ended.
    pub fn sessions(&self, current: Option<&SessionId>, now_ms: i64) -> Vec<Session> {
        let locked = self.locked.as_ref();
        locked.map_or_else(Vec::new, |locked| locked.sessions.list(current, now_ms))
    }

    /// Notes that a session was used. What cannot be written down is not worth a word: reading
    /// goes on when writing cannot.
    pub async fn note_use(&self, session: &SessionId) {
        if let Some(locked) = &self.locked
            && let Err(error) = locked.sessions.note_use(session).await
        {
            tracing::debug!(%error, "cannot note that a session was used");
        }
    }

    /// Ends all sessions but one.
    ///
    /// # Errors
    /// The database's.
    pub async fn end_other_sessions(&self, kept: Option<&SessionId>) -> StoreResult<()> {
        match &self.locked {
            Some(locked) => locked.sessions.end_others(kept).await,
            None => Ok(()),
        }
    }

    /// Ends a session.
    ///
    /// # Errors
    /// [`crate::store::StoreError::NotFound`], and the database's.
    pub async fn end_session(&self, id: &SessionId) -> StoreResult<()> {
        match &self.locked {
            Some(locked) => locked.sessions.end(id).await,
            None => Err(crate::store::StoreError::NotFound {
                what: "session",
                id: id.to_string(),
            }),
        }
    }
}

fn hash_of(text: &str) -> blake3::Hash {
    blake3::hash(text.as_bytes())
}

/// Tells in the database which token a session was opened with, and nothing else about it.
fn kept_hash_of(token: &Token) -> String {
    let key = blake3::derive_key(
        "tidemark 2026-11 token of a session",
        token.secret().as_bytes(),
    );
    blake3::Hash::from_bytes(key).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "correct-horse-battery-staple-0001";

    #[tokio::test(flavor = "multi_thread")]
    async fn the_token_and_a_session_open_the_gate() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let token = Token::new(TOKEN).unwrap();
        let gate = Gate::new(Some(&token), &store, 0).await.unwrap();
        let visitor = Visitor {
            address: String::new(),
            agent: String::new(),
        };
        let secret = gate.open_session(visitor, 0).await.unwrap().unwrap();
        let access = |token, session| {
            let shown = Shown { token, session };
            gate.check(shown, ClientAddress::HERE, 1).unwrap().access
        };
        assert_eq!(access(None, None), Access::TokenNeeded);
        assert_eq!(access(Some("battery-staple"), None), Access::TokenNeeded);
        assert_eq!(access(Some(TOKEN), None), Access::Granted);
        assert_eq!(access(None, Some(&secret)), Access::Granted);
        assert_eq!(access(None, Some(TOKEN)), Access::TokenNeeded);
        assert_eq!(access(Some(&secret), None), Access::TokenNeeded);
        let open = Gate::new(None, &store, 0).await.unwrap();
        let entry = open.check(Shown::default(), ClientAddress::HERE, 1);
        assert_eq!(entry.unwrap().access, Access::Open);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_was_wrong_too_often_is_not_looked_at_but_sessions_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let token = Token::new(TOKEN).unwrap();
        let gate = Gate::new(Some(&token), &store, 0).await.unwrap();
        let visitor = Visitor {
            address: String::new(),
            agent: String::new(),
        };
        let secret = gate.open_session(visitor, 0).await.unwrap();
        let check = |token, session| {
            let shown = Shown { token, session };
            gate.check(shown, ClientAddress::HERE, 1)
        };
        let tries = (0..1000).filter(|_| check(Some("wrong"), None).is_ok());
        let looked_at = tries.count();
        assert!((10..15).contains(&looked_at), "{looked_at}");
        assert!(check(Some(TOKEN), None).is_err(), "the answer would tell");
        let entry = check(Some("wrong"), secret.as_deref()).unwrap();
        assert_eq!(entry.access, Access::Granted);
        assert_eq!(gate.tally().wrong, looked_at as u64);
    }
}
