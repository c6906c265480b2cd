//! Sessions of browsers that are signed in. Each has a random secret of its own in a cookie. A
//! session ends at logout, when it is revoked, after some days, and together with the token that
//! opened it.
//!
//! The database keeps them over restarts; every request is checked in memory. While nothing can be
//! written, a session is only in memory: somebody must be able to sign in to see what is wrong.

use crate::identity;
use crate::store::{SessionRow, Store, StoreError, StoreResult};
use api::ids::{PersonId, SessionId, TokenId};
use api::runs::Session;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long a session lives.
pub const LIFE_S: i64 = 7 * 24 * 3600;

/// The largest number of sessions; one more ends the oldest of whoever has the most.
pub const MOST: usize = 256;

/// The largest number of sessions of one person; one more ends the oldest of them. The server's
/// token has no such limit, because several people may have it.
pub const MOST_OF_PERSON: usize = 16;

/// How many characters of a browser's user agent are kept.
const AGENT_CHARS: usize = 200;

/// The stored time of a session's last use may be out of date by at most this much, because not
/// every request is worth a transaction.
const SEEN_EVERY_MS: i64 = 5 * 60 * 1000;

/// The client that opens a session.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// Its address.
    pub address: String,
    /// Its browser.
    pub agent: String,
}

/// How a session was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opener {
    /// With the token that the server was started with.
    Operator,
    /// With a token of a person.
    Token(TokenId),
    /// By an identity provider, which says who the person is.
    Person(PersonId),
}

/// A session that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which one.
    pub id: SessionId,
    /// How it was opened. The caller must check whether that is still valid.
    pub opener: Opener,
}

/// All sessions. Cloning shares them.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    token_hash: String,
    /// By the hash of the secret. The hash is not secret, so the time of a look-up reveals nothing.
    live: Mutex<HashMap<String, Live>>,
    /// The latest time that was seen, so that a clock that is set back brings no session back.
    latest_ms: AtomicI64,
}

/// A session that has not ended.
#[derive(Clone)]
struct Live {
    /// Its row in the database.
    row: SessionRow,
    /// When it was used last.
    seen_ms: i64,
    /// Whether the database has it. One that it has not ends with the server.
    is_stored: bool,
}

impl From<SessionRow> for Live {
    fn from(row: SessionRow) -> Live {
        let seen_ms = row.seen_ms;
        Live {
            row,
            seen_ms,
            is_stored: true,
        }
    }
}

impl Sessions {
    /// Loads the sessions of people, and those of the server's token with this hash. Sessions of an
    /// earlier server token end.
    ///
    /// # Errors
    /// The database's.
    pub async fn load(store: &Store, token_hash: String, now_ms: i64) -> StoreResult<Sessions> {
        let rows = store.read(|reader| reader.sessions()).await?;
        let latest_ms = rows.iter().map(|row| row.created_ms).fold(now_ms, i64::max);
        let (live, ended): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| {
            let is_ours = row.person.is_some() || row.token_hash == token_hash;
            is_ours && row.expires_ms > latest_ms
        });
        let sessions = Sessions {
            shared: Arc::new(Shared {
                store: store.clone(),
                token_hash,
                live: Mutex::new(by_secret(live)),
                latest_ms: AtomicI64::new(latest_ms),
            }),
        };
        sessions.forget(ended).await?;
        Ok(sessions)
    }

    /// Opens one; returns its secret, which is not stored here.
    ///
    /// # Errors
    /// The database's, unless only writing fails.
    pub async fn open(
        &self,
        opener: Opener,
        person: Option<PersonId>,
        visitor: Visitor,
        now_ms: i64,
    ) -> StoreResult<String> {
        let now_ms = self.now(now_ms);
        let secret = identity::secret();
        let row = SessionRow {
            id: identity::session_id(),
            secret_hash: hash_of(&secret),
            token_hash: match opener {
                Opener::Operator => self.shared.token_hash.clone(),
                _ => String::new(),
            },
            person,
            token: match opener {
                Opener::Token(token) => Some(token),
                _ => None,
            },
            created_ms: now_ms,
            seen_ms: now_ms,
            expires_ms: now_ms + LIFE_S * 1000,
            address: visitor.address,
            agent: visitor.agent.chars().take(AGENT_CHARS).collect(),
        };
        let (kept, new) = (row.clone(), row.id.clone());
        let insert = self.shared.store.write(move |w| w.insert_session(&kept));
        let is_stored = written(insert.await)?;
        let live = Live {
            is_stored,
            ..row.into()
        };
        self.live().insert(live.row.secret_hash.clone(), live);
        let over = over(self.rows(), &new, now_ms);
        // There are never more in memory, whether the others can be deleted or not.
        if !written(self.forget(over.clone()).await)? {
            self.drop_from_memory(&over);
        }
        Ok(secret)
    }

    /// The session with this secret, if it has not ended. Also notes that it is used.
    pub fn find(&self, secret: &str, now_ms: i64) -> Option<Found> {
        let now_ms = self.now(now_ms);
        let mut live = self.live();
        let session = live.get_mut(&hash_of(secret))?;
        if session.row.expires_ms <= now_ms {
            self.shared.store.remember_soon(session.row.expires_ms);
            return None;
        }
        session.seen_ms = now_ms;
        let SessionRow { person, token, .. } = &session.row;
        Some(Found {
            id: session.row.id.clone(),
            opener: match (person, token) {
                (Some(_), Some(token)) => Opener::Token(token.clone()),
                (Some(person), None) => Opener::Person(person.clone()),
                (None, _) => Opener::Operator,
            },
        })
    }

    /// Stores when a session was last used, but not every time.
    ///
    /// # Errors
    /// The database's; it tries again when the session is used after a while.
    pub async fn note_use(&self, id: &SessionId) -> StoreResult<()> {
        let seen_ms = {
            let mut live = self.live();
            let session = live.values_mut().find(|session| session.row.id == *id);
            let Some(session) = session else {
                return Ok(());
            };
            if session.seen_ms - session.row.seen_ms < SEEN_EVERY_MS {
                return Ok(());
            }
            session.row.seen_ms = session.seen_ms;
            session.seen_ms
        };
        let id = id.clone();
        let write = self
            .shared
            .store
            .write(move |w| w.session_seen(&id, seen_ms));
        write.await
    }

    /// The sessions that have not ended, newest first, each with its owner. `current` is the
    /// session that asks. Sessions of people without a name are left out.
    pub fn list(
        &self,
        current: Option<&SessionId>,
        now_ms: i64,
        name: impl Fn(&PersonId) -> Option<String>,
    ) -> Vec<(Option<PersonId>, Session)> {
        let now_ms = self.now(now_ms);
        let live = self.live();
        let rows = live.values().filter(|live| live.row.expires_ms > now_ms);
        let told = rows.filter_map(|Live { row, seen_ms, .. }| {
            let person = match &row.person {
                None => None,
                Some(id) => Some(name(id)?),
            };
            let session = Session {
                id: row.id.clone(),
                created_ms: row.created_ms,
                seen_ms: *seen_ms,
                expires_ms: row.expires_ms,
                address: row.address.clone(),
                agent: row.agent.clone(),
                current: current == Some(&row.id),
                person,
            };
            Some((row.person.clone(), session))
        });
        let mut sessions: Vec<_> = told.collect();
        sessions.sort_by(|(_, a), (_, b)| (b.created_ms, &b.id).cmp(&(a.created_ms, &a.id)));
        sessions
    }

    /// Ends one.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and the database's. In that case the session stays valid, so that
    /// nobody believes in an end that a restart would undo.
    pub async fn end(&self, id: &SessionId) -> StoreResult<()> {
        let mut found = self.rows();
        found.retain(|row| row.id == *id);
        match found.pop() {
            Some(row) => self.forget(vec![row]).await,
            None => Err(StoreError::NotFound {
                what: "session",
                id: id.to_string(),
            }),
        }
    }

    /// The owner of a session; `Some(None)` for somebody with the server's token, `None` if there
    /// is no such session.
    pub fn owner_of(&self, id: &SessionId) -> Option<Option<PersonId>> {
        let rows = self.rows();
        let found = rows.into_iter().find(|row| row.id == *id);
        found.map(|row| row.person)
    }

    /// Ends all sessions of one owner except one.
    ///
    /// # Errors
    /// The database's; they then stay valid.
    pub async fn end_others(
        &self,
        kept: Option<&SessionId>,
        owner: &Option<PersonId>,
    ) -> StoreResult<()> {
        let mut others = self.rows();
        others.retain(|row| Some(&row.id) != kept && row.person == *owner);
        self.forget(others).await
    }

    /// Forgets the sessions of a person whose access has ended: the database deleted them together
    /// with the access.
    pub fn forget_person(&self, person: &PersonId) {
        self.live()
            .retain(|_, session| session.row.person.as_ref() != Some(person));
    }

    async fn forget(&self, rows: Vec<SessionRow>) -> StoreResult<()> {
        let in_memory: Vec<String> = {
            let live = self.live();
            let only = live.values().filter(|live| !live.is_stored);
            only.map(|live| live.row.secret_hash.clone()).collect()
        };
        let stored = rows
            .iter()
            .filter(|row| !in_memory.contains(&row.secret_hash));
        let ids: Vec<SessionId> = stored.map(|row| row.id.clone()).collect();
        if !ids.is_empty() {
            let delete = self.shared.store.write(move |w| w.delete_sessions(&ids));
            delete.await?;
        }
        self.drop_from_memory(&rows);
        Ok(())
    }

    fn drop_from_memory(&self, rows: &[SessionRow]) {
        let mut live = self.live();
        for row in rows {
            live.remove(&row.secret_hash);
        }
    }

    fn rows(&self) -> Vec<SessionRow> {
        let live = self.live();
        live.values().map(|session| session.row.clone()).collect()
    }

    fn now(&self, now_ms: i64) -> i64 {
        let before = self.shared.latest_ms.fetch_max(now_ms, Ordering::Relaxed);
        before.max(now_ms)
    }

    fn live(&self) -> MutexGuard<'_, HashMap<String, Live>> {
        self.shared
            .live
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a write was made; false if nothing can be written.
fn written(write: StoreResult<()>) -> StoreResult<bool> {
    match write {
        Ok(()) => Ok(true),
        Err(error) if error.refuses_writes() => {
            tracing::warn!(%error, "sessions are only in memory, and end with the server");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The sessions that make room for a new one: those that have ended, the oldest beyond what a
/// person may have, and the oldest of whoever has the most while there are too many in all. So
/// nobody signs others out by signing in.
fn over(rows: Vec<SessionRow>, new: &SessionId, now_ms: i64) -> Vec<SessionRow> {
    let (live, mut gone): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|row| row.expires_ms > now_ms);
    let mut left = live.len();
    let mut of_owners: HashMap<Option<PersonId>, Vec<SessionRow>> = HashMap::new();
    for row in live {
        of_owners.entry(row.person.clone()).or_default().push(row);
    }
    // The newest first, and the one that was just opened before all others.
    for rows in of_owners.values_mut() {
        rows.sort_by_key(|row| Reverse((row.id == *new, row.created_ms)));
    }
    for (owner, rows) in &mut of_owners {
        if owner.is_some() && rows.len() > MOST_OF_PERSON {
            let older = rows.split_off(MOST_OF_PERSON);
            left -= older.len();
            gone.extend(older);
        }
    }
    while left > MOST {
        let oldest = |rows: &Vec<SessionRow>| {
            let last = rows.last();
            last.map(|row| Reverse((row.id == *new, row.created_ms)))
        };
        let owners = of_owners.values_mut();
        let most = owners.max_by_key(|rows| (rows.len(), oldest(rows)));
        gone.extend(most.and_then(Vec::pop));
        left -= 1;
    }
    gone
}

fn by_secret(rows: Vec<SessionRow>) -> HashMap<String, Live> {
    let rows = rows.into_iter();
    rows.map(|row| (row.secret_hash.clone(), row.into()))
        .collect()
}

/// The stored form of a secret: it has 256 random bits, so it cannot be guessed from this hash.
fn hash_of(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600 * 1000;

    fn visitor() -> Visitor {
        Visitor {
            address: "10.0.0.1".to_owned(),
            agent: "a browser".to_owned(),
        }
    }

    async fn open(sessions: &Sessions, now_ms: i64) -> StoreResult<String> {
        sessions
            .open(Opener::Operator, None, visitor(), now_ms)
            .await
    }

    fn list(sessions: &Sessions, current: Option<&SessionId>, now_ms: i64) -> Vec<Session> {
        let found = sessions.list(current, now_ms, |_| None).into_iter();
        found.map(|(_, session)| session).collect()
    }

    async fn load(store: &Store, token: &str, now_ms: i64) -> Sessions {
        Sessions::load(store, token.to_owned(), now_ms)
            .await
            .unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_session_lives_over_restarts_until_its_day() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let sessions = load(&store, "token", 0).await;
        let secret = open(&sessions, 5).await.unwrap();
        assert_ne!(secret, open(&sessions, 6).await.unwrap());
        assert!(sessions.find(&secret, 6 * DAY).is_some());
        let again = load(&store, "token", 6 * DAY).await;
        let id = again.find(&secret, 6 * DAY).unwrap().id;
        assert_eq!(list(&again, Some(&id), 6 * DAY).len(), 2);
        assert_eq!(again.find("another", 6), None);
        assert_eq!(again.find(&secret, 7 * DAY + 5), None);
        // A clock that is set back brings no session back.
        assert_eq!(again.find(&secret, 5), None);
        // The stored rows open nothing.
        let rows = store.read(|reader| reader.sessions()).await.unwrap();
        assert_eq!(again.find(&rows[0].secret_hash, 5), None);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn it_ends_when_it_is_ended_and_with_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let sessions = load(&store, "token", 0).await;
        let one = open(&sessions, 1).await.unwrap();
        let two = open(&sessions, 2).await.unwrap();
        let id = sessions.find(&one, 3).unwrap().id;
        sessions.end(&id).await.unwrap();
        assert_eq!(sessions.find(&one, 3), None);
        assert!(sessions.find(&two, 3).is_some());
        let missing = sessions.end(&id).await;
        assert!(matches!(missing, Err(StoreError::NotFound { .. })));
        assert_eq!(load(&store, "token", 3).await.find(&one, 3), None);
        assert_eq!(load(&store, "another", 3).await.find(&two, 3), None);
        // They are deleted, not only hidden.
        assert_eq!(load(&store, "token", 3).await.find(&two, 3), None);
    }

    /// As on a full disk. Who signs in then can also sign out.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_session_that_cannot_be_stored_is_one_until_the_server_ends() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let sessions = load(&store, "token", 0).await;
        let stored = open(&sessions, 1).await.unwrap();
        store.refuse_writes();
        let secret = open(&sessions, 2).await.unwrap();
        let id = |secret: &str| sessions.find(secret, 3).map(|found| found.id);
        let (old, new) = (id(&stored).unwrap(), id(&secret).unwrap());
        // A restart would undo this end.
        assert!(sessions.end(&old).await.is_err());
        sessions.end(&new).await.unwrap();
        assert_eq!((id(&stored), id(&secret)), (Some(old), None));
        for n in 0..=MOST as i64 {
            open(&sessions, 4 + n).await.unwrap();
        }
        assert_eq!(sessions.rows().len(), MOST);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn it_is_known_when_it_was_used_last() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let sessions = load(&store, "token", 0).await;
        let secret = open(&sessions, 1).await.unwrap();
        let used = async |at: i64| {
            let id = sessions.find(&secret, at).unwrap().id;
            sessions.note_use(&id).await.unwrap();
            let kept = list(&load(&store, "token", at).await, None, at)[0].seen_ms;
            (list(&sessions, None, at)[0].seen_ms, kept)
        };
        assert_eq!(used(1000).await, (1000, 1));
        let late = SEEN_EVERY_MS + 1;
        assert_eq!(used(late).await, (late, late));
        assert_eq!(used(late + 9).await, (late + 9, late));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn all_others_end_and_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let sessions = load(&store, "token", 0).await;
        let mut secrets = Vec::new();
        for n in 0..4 {
            secrets.push(open(&sessions, n).await.unwrap());
        }
        let kept = sessions.find(&secrets[2], 9).unwrap().id;
        sessions.end_others(Some(&kept), &None).await.unwrap();
        for sessions in [sessions, load(&store, "token", 9).await] {
            let live: Vec<bool> = secrets
                .iter()
                .map(|secret| sessions.find(secret, 9).is_some())
                .collect();
            assert_eq!(live, [false, false, true, false]);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn there_are_only_so_many() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let sessions = load(&store, "token", 0).await;
        let first = open(&sessions, 1).await.unwrap();
        for n in 0..MOST as i64 {
            open(&sessions, 2 + n).await.unwrap();
        }
        assert_eq!(list(&sessions, None, 999).len(), MOST);
        assert_eq!(sessions.find(&first, 999), None);
    }

    /// What stays when the last one is opened: whose sessions, and when they were opened.
    fn check(opened: &[(&str, i64)], now_ms: i64, expected: &str) {
        let rows = opened.iter().enumerate().map(|(n, &(owner, created_ms))| {
            let person = format!("per_{owner}").parse();
            SessionRow {
                id: format!("ses_{n:032}").parse().unwrap(),
                secret_hash: String::new(),
                token_hash: String::new(),
                person: (owner != "operator").then(|| person.unwrap()),
                token: None,
                created_ms,
                seen_ms: created_ms,
                expires_ms: created_ms + LIFE_S * 1000,
                address: String::new(),
                agent: String::new(),
            }
        });
        let rows: Vec<SessionRow> = rows.collect();
        let new = &rows[rows.len() - 1];
        let gone = over(rows.clone(), &new.id, now_ms);
        assert!(!gone.contains(new));
        let said: Vec<String> = rows
            .iter()
            .zip(opened)
            .filter(|(row, _)| gone.contains(row))
            .map(|(_, (owner, at))| format!("{owner} {at}"))
            .collect();
        assert_eq!(said.join(", "), expected);
    }

    #[test]
    fn nobody_signs_others_out_by_signing_in() {
        let times =
            |owner: &'static str, n: usize, at: i64| (0..n as i64).map(move |n| (owner, at + n));
        let many: Vec<(&str, i64)> = times("ada", 1, 0).chain(times("bo", 17, 1)).collect();
        check(&many, 99, "bo 1");
        // Without a limit of its own, whoever has the most makes room, and not who came first.
        let full: Vec<_> = times("ada", 2, 0)
            .chain(times("operator", MOST - 2, 5))
            .chain(times("ada", 1, 999))
            .collect();
        check(&full, 999, "operator 5");
        // The one that was just opened stays, whatever the clock says.
        let at_once: Vec<_> = times("ada", 1, 0)
            .chain((0..17).map(|_| ("bo", 7)))
            .collect();
        check(&at_once, 7, "bo 7");
        // Those that have ended go first.
        let later = LIFE_S * 1000 + 5;
        let ended: Vec<_> = times("ada", 9, 0)
            .chain(times("operator", MOST - 3, 10))
            .collect();
        check(&ended, later, "ada 0, ada 1, ada 2, ada 3, ada 4, ada 5");
    }
}
