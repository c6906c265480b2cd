//! Who may do what: the server's token, people and their tokens, sessions of browsers that signed
//! in, people whom a proxy names. It also limits how often a client may show a wrong secret.

use crate::limits::clients::guesses::Tally;
use crate::limits::clients::{ClientAddress, Guesses, Later};
use crate::store::{Store, StoreError, StoreResult};
use crate::who::people::{self, People, PeopleError};
use crate::who::server_token::Token;
use crate::who::sessions::{Found, Opener, Sessions, Visitor};
use crate::who::used_forms::UsedForms;
use api::ids::{PersonId, SessionId, TokenId};
use api::people::{ChangePerson, NewPerson, Person, PersonalToken, Role, Scope, Scopes};
use api::projects::ProjectName;
use api::runs::{Access, Session};
use std::time::Instant;
use tokio::sync::Mutex;

/// The cookie of a session, so that a token is typed only once.
pub const COOKIE: &str = "tidemark_session";

/// Decides who may come in.
pub struct Gate {
    /// A hash and not the text, because `blake3::Hash` compares in constant time.
    token: Option<blake3::Hash>,
    /// Everybody who may sign in.
    pub people: People,
    sessions: Sessions,
    /// Wrong tokens.
    guesses: Guesses,
    /// Wrong links. They have an account of their own: a page of another site can make a browser
    /// ask for links, but not show a token.
    of_links: Guesses,
    newcomers: Option<Role>,
    /// Forms that were sent.
    pub forms: UsedForms,
    /// Held while a session is opened, and while a person's access ends: none is opened in between.
    opening: Mutex<()>,
}

/// What a client shows to come in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'a> {
    /// A token, which programs send.
    pub token: Option<&'a str>,
    /// The secret of a session, which browsers send.
    pub session: Option<&'a str>,
    /// The name that a trusted proxy gives to the person who asks.
    pub named: Option<&'a str>,
}

/// What kind of secret a client shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// What signs somebody in.
    Token,
    /// That of a link.
    Link,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Somebody on this machine; here nobody needs to sign in.
    Anybody,
    /// Somebody with the server's own token.
    Operator,
    /// A person.
    Person(Person),
    /// Somebody who showed nothing, or only a link.
    Stranger,
}

/// What a client may do, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whether it may come in.
    pub access: Access,
    /// Who it is.
    pub who: Who,
    /// What it may do in the project that the request is about.
    pub scopes: Scopes,
    /// What its token is good for, in any project.
    pub limit: Scopes,
    /// The only project that its token opens.
    pub bound: Option<ProjectName>,
    /// The project that the request is about, where the server has several.
    pub membership: Option<Membership>,
    /// Where no project lets it in: one that would, if it could be opened.
    pub shut: Option<ProjectName>,
    /// The session that it showed.
    pub session: Option<SessionId>,
    /// The person's token that it showed, now or when it signed in.
    pub token: Option<TokenId>,
}

/// A project, and what somebody may do in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Which.
    pub project: ProjectName,
    /// What they are in it.
    pub role: Role,
}

impl Entry {
    /// A client that showed nothing, or nothing valid.
    pub const STRANGER: Entry = Entry {
        access: Access::TokenNeeded,
        who: Who::Stranger,
        scopes: Scopes::NONE,
        limit: Scopes::NONE,
        bound: None,
        membership: None,
        shut: None,
        session: None,
        token: None,
    };

    fn granted(who: Who, scopes: Scopes) -> Entry {
        Entry {
            access: match who {
                Who::Anybody => Access::Open,
                _ => Access::Granted,
            },
            who,
            scopes,
            limit: Scopes::ALL,
            bound: None,
            membership: None,
            shut: None,
            session: None,
            token: None,
        }
    }

    fn of_shown(shown: people::TokenHolder) -> Entry {
        Entry {
            limit: shown.limit,
            bound: shown.bound,
            token: Some(shown.token),
            ..Entry::granted(Who::Person(shown.person), shown.scopes)
        }
    }

    /// The same client, for a request about this project.
    pub fn at(self, membership: Membership) -> Entry {
        Entry {
            scopes: membership.role.scopes().both(self.limit),
            membership: Some(membership),
            ..self
        }
    }

    /// The same client, for a request about a project that it may not enter.
    pub fn outside(self) -> Entry {
        Entry {
            scopes: Scopes::NONE,
            membership: None,
            ..self
        }
    }

    /// Whether it may do what this scope allows.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.has(scope)
    }

    /// What it is on the server, whatever the project.
    pub fn role(&self) -> Role {
        match &self.who {
            Who::Anybody | Who::Operator => Role::Admin,
            Who::Person(person) => person.role,
            Who::Stranger => Role::Guest,
        }
    }

    /// Whether it may do with the server itself what this scope allows. A token of one project may
    /// not.
    pub fn may_on_server(&self, scope: Scope) -> bool {
        self.bound.is_none() && self.role().scopes().both(self.limit).has(scope)
    }

    /// Whether it may change what people may do.
    pub fn is_admin(&self) -> bool {
        self.role() == Role::Admin && self.may_on_server(Scope::Manage)
    }

    /// The person.
    pub fn person(&self) -> Option<&Person> {
        match &self.who {
            Who::Person(person) => Some(person),
            Who::Anybody | Who::Operator | Who::Stranger => None,
        }
    }

    /// Who sends what it sends, as the audit says it. `None` if nobody needs to sign in.
    pub fn sender(&self) -> Option<String> {
        match &self.who {
            Who::Person(_) | Who::Operator => Some(self.name().to_owned()),
            Who::Anybody | Who::Stranger => None,
        }
    }

    /// The name in the audit.
    pub fn name(&self) -> &str {
        match &self.who {
            Who::Person(person) => &person.name,
            Who::Anybody => people::ANYBODY,
            Who::Operator => people::OPERATOR,
            Who::Stranger => people::STRANGER,
        }
    }
}

impl Gate {
    /// A gate that opens for this token, for people, and for sessions that were opened before.
    /// If somebody else signs people in (a proxy, a provider), newcomers are added with this role.
    ///
    /// # Errors
    /// The database's.
    pub async fn new(
        token: Option<&Token>,
        newcomers: Option<Role>,
        store: &Store,
        now_ms: i64,
    ) -> StoreResult<Gate> {
        let people = People::load(store).await?;
        let kept = token.map(kept_hash_of).unwrap_or_default();
        Ok(Gate {
            token: token.map(|token| hash_of(token.secret())),
            sessions: Sessions::load(store, kept, now_ms).await?,
            people,
            guesses: Guesses::default(),
            of_links: Guesses::default(),
            forms: UsedForms::default(),
            newcomers,
            opening: Mutex::default(),
        })
    }

    /// Whether nobody needs to sign in.
    pub fn is_open(&self) -> bool {
        self.token.is_none() && self.people.is_empty() && self.newcomers.is_none()
    }

    /// What a client that shows this may do.
    ///
    /// # Errors
    /// When it showed wrong secrets too often. Then what it shows now is not checked.
    pub fn check(&self, shown: Shown, who: ClientAddress, now_ms: i64) -> Result<Entry, Later> {
        if self.is_open() {
            return Ok(Entry::granted(Who::Anybody, Scopes::ALL));
        }
        // This comes before the session: if the proxy names another person now, it is another
        // person.
        let named = shown.named.and_then(|name| self.people.called(name));
        if let Some(person) = named.filter(|person| person.left_ms.is_none()) {
            return Ok(self.signed_in(person));
        }
        if let Some(entry) = self.of_session(shown.session, now_ms) {
            return Ok(entry);
        }
        let Some(token) = shown.token else {
            return Ok(Entry::STRANGER);
        };
        let (hash, now) = (hash_of(token), Instant::now());
        if !self.guesses.was_right(who, hash, now) {
            self.may_guess(who, Secret::Token)?;
        }
        let entry = self.of_token(token, now_ms);
        match entry.is_some() {
            true => self.guesses.right_token(who, hash, now),
            false => self.guesses.wrong_token(who, hash, now),
        }
        Ok(entry.unwrap_or(Entry::STRANGER))
    }

    fn of_token(&self, token: &str, now_ms: i64) -> Option<Entry> {
        if self.token == Some(hash_of(token)) {
            return Some(Entry::granted(Who::Operator, Scopes::ALL));
        }
        let shown = self.people.of_secret(token, now_ms)?;
        Some(Entry::of_shown(shown))
    }

    /// A session tells who signed in. What that person may do is looked up each time.
    fn of_session(&self, secret: Option<&str>, now_ms: i64) -> Option<Entry> {
        let Found { id, opener } = self.sessions.find(secret?, now_ms)?;
        let entry = match opener {
            Opener::Operator => Entry::granted(Who::Operator, Scopes::ALL),
            Opener::Token(token) => Entry::of_shown(self.people.of_token(&token, now_ms)?),
            Opener::Person(person) => self.signed_in(self.people.active(&person)?),
        };
        Some(Entry {
            session: Some(id),
            ..entry
        })
    }

    /// What a client that came in before may do now; `None` if its token, its session or its person
    /// lets nobody in any more.
    pub fn again(&self, entry: &Entry, now_ms: i64) -> Option<Entry> {
        if let Some(session) = &entry.session {
            self.sessions.owner_of(session)?;
        }
        let now = match (&entry.who, &entry.token) {
            (Who::Stranger, _) => None,
            (Who::Anybody, _) => self.is_open().then(|| entry.clone()),
            (Who::Operator, _) => Some(entry.clone()),
            (Who::Person(_), Some(token)) => {
                Some(Entry::of_shown(self.people.of_token(token, now_ms)?))
            }
            (Who::Person(person), None) => Some(self.signed_in(self.people.active(&person.id)?)),
        };
        Some(Entry {
            session: entry.session.clone(),
            ..now?
        })
    }

    /// What this person may do, who was signed in by somebody else than this server.
    pub fn signed_in(&self, person: Person) -> Entry {
        let scopes = person.role.scopes();
        Entry::granted(Who::Person(person), scopes)
    }

    /// Adds a person whom a proxy names, if the person is not known yet.
    ///
    /// # Errors
    /// When the name is not allowed, and the database's.
    pub async fn welcome(&self, name: &str, now_ms: i64) -> Result<(), PeopleError> {
        let Some(role) = self.newcomers else {
            return Ok(());
        };
        // Nearly always; it takes no lock.
        if self.people.called(name).is_some() {
            return Ok(());
        }
        let name = name.to_owned();
        let new = NewPerson { name, role };
        self.people.welcome(&new, now_ms).await
    }

    /// Whether a client may show a secret that only the database can check. Afterwards
    /// [`Gate::guessed`] must be told whether it was right.
    ///
    /// # Errors
    /// When it showed too many wrong ones before.
    pub fn may_guess(&self, who: ClientAddress, what: Secret) -> Result<(), Later> {
        self.guesses_of(what).may_try(who, Instant::now())
    }

    /// Notes that a client showed a secret, right or wrong.
    pub fn guessed(&self, who: ClientAddress, what: Secret, right: bool) {
        let guesses = self.guesses_of(what);
        match right {
            true => guesses.right(who),
            false => guesses.wrong(who, Instant::now()),
        }
    }

    fn guesses_of(&self, what: Secret) -> &Guesses {
        match what {
            Secret::Token => &self.guesses,
            Secret::Link => &self.of_links,
        }
    }

    /// Wrong secrets since the start.
    pub fn tally(&self) -> Tally {
        let (tokens, links) = (self.guesses.tally(), self.of_links.tally());
        Tally {
            wrong: tokens.wrong + links.wrong,
            refused: tokens.refused + links.refused,
        }
    }

    /// Changes what a person may do. If that ends their access, their sessions are forgotten, too:
    /// otherwise those that a provider has opened would come back when the person is let in again.
    ///
    /// # Errors
    /// [`PeopleError`].
    pub async fn change_person(
        &self,
        id: &PersonId,
        change: &ChangePerson,
        now_ms: i64,
    ) -> Result<Person, PeopleError> {
        let _opening = self.opening.lock().await;
        let person = self.people.change(id, change, now_ms).await?;
        if person.left_ms.is_some() {
            self.sessions.forget_person(id);
        }
        Ok(person)
    }

    /// Opens a session for a browser with this entry, and returns its secret. `None` if nobody
    /// needs a session, or if the access has ended since the entry was checked.
    ///
    /// # Errors
    /// The database's.
    pub async fn open_session(
        &self,
        entry: &Entry,
        visitor: Visitor,
        now_ms: i64,
    ) -> StoreResult<Option<String>> {
        let opener = match (&entry.who, &entry.token) {
            (Who::Operator, _) => Opener::Operator,
            (Who::Person(_), Some(token)) => Opener::Token(token.clone()),
            (Who::Person(person), None) => Opener::Person(person.id.clone()),
            (Who::Anybody | Who::Stranger, _) => return Ok(None),
        };
        let _opening = self.opening.lock().await;
        if self.again(entry, now_ms).is_none() {
            return Ok(None);
        }
        let person = entry.person().map(|person| person.id.clone());
        let opened = self.sessions.open(opener, person, visitor, now_ms).await;
        opened.map(Some)
    }

    /// The tokens of a person that this client may see. One that is bound to a project sees itself
    /// only: the others may name other projects.
    pub fn tokens(&self, entry: &Entry, person: &PersonId) -> Vec<PersonalToken> {
        let mut tokens = self.people.tokens_of(person);
        if entry.bound.is_some() {
            tokens.retain(|token| entry.token.as_ref() == Some(&token.id));
        }
        tokens
    }

    /// The sessions that have not ended: an admin gets all of them, others get their own, and who
    /// came with a token that is bound to a project only the one that asks.
    pub fn sessions(&self, entry: &Entry, now_ms: i64) -> Vec<Session> {
        let name = |id: &PersonId| {
            let person = self.people.active(id);
            person.map(|person| person.name)
        };
        let all = self.sessions.list(entry.session.as_ref(), now_ms, name);
        let own = entry.person().map(|person| person.id.clone());
        let sessions = all.into_iter();
        let shown = sessions.filter(|(owner, _)| entry.is_admin() || *owner == own);
        let shown = shown.map(|(_, session)| session);
        let is_bound = entry.bound.is_some();
        shown
            .filter(|session| !is_bound || session.current)
            .collect()
    }

    /// Notes that a session or a token was used. If that cannot be written, nobody is told: reading
    /// must go on when writing fails.
    pub async fn note_use(&self, entry: &Entry, now_ms: i64) {
        if let Some(session) = &entry.session
            && let Err(error) = self.sessions.note_use(session).await
        {
            tracing::debug!(%error, "cannot note that a session was used");
        }
        if let Some(token) = &entry.token
            && let Err(error) = self.people.note_use(token, now_ms).await
        {
            tracing::debug!(%error, "cannot note that a token was used");
        }
    }

    /// Ends all sessions of the same person except this one.
    ///
    /// # Errors
    /// The database's.
    pub async fn end_other_sessions(&self, entry: &Entry) -> StoreResult<()> {
        let own = entry.person().map(|person| person.id.clone());
        self.sessions.end_others(entry.session.as_ref(), &own).await
    }

    /// Ends a session: an admin may end any, others only their own.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and the database's.
    pub async fn end_session(&self, entry: &Entry, id: &SessionId) -> StoreResult<()> {
        let own = entry.person().map(|person| person.id.clone());
        match self.sessions.owner_of(id) {
            Some(owner) if entry.is_admin() || owner == own => self.sessions.end(id).await,
            _ => Err(StoreError::NotFound {
                what: "session",
                id: id.to_string(),
            }),
        }
    }
}

fn hash_of(text: &str) -> blake3::Hash {
    blake3::hash(text.as_bytes())
}

/// Stored in the database to tell which token opened a session; it reveals nothing else about the
/// token.
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

    async fn gate(token: Option<&str>) -> (tempfile::TempDir, Gate) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let token = token.map(|token| Token::new(token).unwrap());
        let gate = Gate::new(token.as_ref(), None, &store, 0).await.unwrap();
        (folder, gate)
    }

    fn visitor() -> Visitor {
        Visitor {
            address: String::new(),
            agent: String::new(),
        }
    }

    fn showing<'a>(token: Option<&'a str>, session: Option<&'a str>) -> Shown<'a> {
        Shown {
            token,
            session,
            named: None,
        }
    }

    fn enter(gate: &Gate, token: Option<&str>, session: Option<&str>) -> Entry {
        gate.check(showing(token, session), ClientAddress::HERE, 1)
            .unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_token_and_a_session_open_the_gate() {
        let (_folder, gate) = gate(Some(TOKEN)).await;
        let operator = enter(&gate, Some(TOKEN), None);
        let opened = gate.open_session(&operator, visitor(), 0).await.unwrap();
        let secret = opened.unwrap();
        let access = |token, session| enter(&gate, token, session).access;
        assert_eq!(access(None, None), Access::TokenNeeded);
        assert_eq!(access(Some("battery-staple"), None), Access::TokenNeeded);
        assert_eq!(access(Some(TOKEN), None), Access::Granted);
        assert_eq!(access(None, Some(&secret)), Access::Granted);
        assert_eq!(access(None, Some(TOKEN)), Access::TokenNeeded);
        assert_eq!(access(Some(&secret), None), Access::TokenNeeded);
        let (_folder, open) = self::gate(None).await;
        assert_eq!(enter(&open, None, None).access, Access::Open);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_session_ends_with_the_token_that_opened_it() {
        let (_folder, gate) = gate(None).await;
        let new = |name: &str, role| NewPerson {
            name: name.to_owned(),
            role,
        };
        let ada = gate.people.add(&new("ada", Role::Admin), 0).await.unwrap();
        let bo = gate.people.add(&new("bo", Role::Member), 0).await.unwrap();
        assert_eq!(enter(&gate, None, None).access, Access::TokenNeeded);
        let entry = enter(&gate, Some(&bo.token.secret), None);
        assert_eq!((entry.name(), entry.is_admin()), ("bo", false));
        let opened = gate.open_session(&entry, visitor(), 0).await.unwrap();
        let secret = opened.unwrap();
        let within = enter(&gate, None, Some(&secret));
        assert_eq!(within.name(), "bo");
        // Each person sees their own sessions, an admin all of them.
        let admin = enter(&gate, Some(&ada.token.secret), None);
        assert!(admin.is_admin());
        assert_eq!(gate.sessions(&admin, 1)[0].person.as_deref(), Some("bo"));
        assert_eq!(gate.sessions(&within, 1).len(), 1);
        gate.people.end_token(&bo.token.token.id).await.unwrap();
        assert_eq!(
            enter(&gate, None, Some(&secret)).access,
            Access::TokenNeeded
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_is_let_in_again_signs_in_again_whoever_signed_them_in() {
        let (_folder, gate) = gate(None).await;
        let new = |name: &str, role| NewPerson {
            name: name.to_owned(),
            role,
        };
        gate.people.add(&new("ada", Role::Admin), 0).await.unwrap();
        let bo = gate.people.add(&new("bo", Role::Member), 0).await.unwrap();
        let (id, by_token) = (bo.person.id.clone(), bo.token.secret.as_str());
        // As a provider signs people in: without a token.
        let entries = [
            gate.signed_in(bo.person),
            enter(&gate, Some(by_token), None),
        ];
        let mut cookies = Vec::new();
        for entry in &entries {
            let opened = gate.open_session(entry, visitor(), 0).await.unwrap();
            cookies.push(opened.unwrap());
        }
        let change = async |left: bool| {
            let change = ChangePerson {
                left: Some(left),
                role: None,
            };
            gate.change_person(&id, &change, 1).await.unwrap()
        };
        change(true).await;
        // Who was signing in just then gets no session that would come back.
        for entry in &entries {
            let opened = gate.open_session(entry, visitor(), 1).await.unwrap();
            assert_eq!(opened, None);
        }
        change(false).await;
        for cookie in &cookies {
            let entry = enter(&gate, None, Some(cookie));
            assert_eq!(entry.access, Access::TokenNeeded);
        }
        let opened = gate.open_session(&entries[0], visitor(), 2).await.unwrap();
        let entry = enter(&gate, None, opened.as_deref());
        assert_eq!(entry.name(), "bo");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn whom_a_proxy_names_is_not_who_signed_in_before() {
        let (_folder, gate) = gate(None).await;
        let new = |name: &str, role| NewPerson {
            name: name.to_owned(),
            role,
        };
        let ada = gate.people.add(&new("ada", Role::Admin), 0).await.unwrap();
        gate.people.add(&new("bo", Role::Reader), 0).await.unwrap();
        let admin = enter(&gate, Some(&ada.token.secret), None);
        let opened = gate.open_session(&admin, visitor(), 0).await.unwrap();
        let shown = Shown {
            named: Some("bo"),
            ..showing(None, opened.as_deref())
        };
        let entry = gate.check(shown, ClientAddress::HERE, 1).unwrap();
        assert_eq!((entry.name(), entry.is_admin()), ("bo", false));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_was_wrong_too_often_is_not_looked_at_but_sessions_go_on() {
        let (_folder, gate) = gate(Some(TOKEN)).await;
        let operator = enter(&gate, Some(TOKEN), None);
        let secret = gate.open_session(&operator, visitor(), 0).await.unwrap();
        let check = |token, session| gate.check(showing(token, session), ClientAddress::HERE, 1);
        let tries = (0..1000).filter(|_| check(Some("wrong"), None).is_ok());
        let looked_at = tries.count();
        assert!((10..15).contains(&looked_at), "{looked_at}");
        // It was right from here before. From elsewhere, the answer would tell.
        assert_eq!(check(Some(TOKEN), None).unwrap().access, Access::Granted);
        let elsewhere = ClientAddress::UNKNOWN;
        let try_there = |token| gate.check(showing(Some(token), None), elsewhere, 1);
        while try_there("wrong").is_ok() {}
        assert!(try_there(TOKEN).is_err(), "the answer would tell");
        // Neither do links that were wrong keep a token out, nor tokens a link.
        gate.guesses_of(Secret::Link)
            .may_try(elsewhere, Instant::now())
            .unwrap();
        let entry = check(Some("wrong"), secret.as_deref()).unwrap();
        assert_eq!(entry.access, Access::Granted);
        assert!(gate.tally().wrong >= looked_at as u64);
    }
}
