//! People who may sign in, and their tokens.
//!
//! The database stores them; every request is checked in memory. A server that only this machine
//! can reach has no people and needs none.

mod identities;
mod tokens;

use crate::identity;
use crate::store::{Store, StoreError, StoreResult};
use crate::system::plain::is_plain;
use api::ids::{PersonId, TokenId};
use api::people::{
    AddedPerson, ChangePerson, NewPerson, NewToken, Person, PersonalToken, Role, Scopes,
};
use api::projects::ProjectName;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use tokens::MOST_TOKENS;
use tokens::hash_of;
use tokio::sync::Mutex;

/// The largest number of people, including those who have left.
pub const MOST_PEOPLE: usize = 10_000;

/// What the audit calls those who are no person. No person may have such a name.
pub const ANYBODY: &str = "somebody on this machine";
/// Whoever shows the token that the server was started with.
pub const OPERATOR: &str = "the server's token";
/// Whoever shows nothing, or only a link.
pub const STRANGER: &str = "somebody with a link";

/// The name of a first token.
pub const FIRST: &str = "sign in";

/// Everybody. Cloning shares them.
#[derive(Clone)]
pub struct People {
    store: Store,
    known: Arc<RwLock<Known>>,
    /// Held from the look at what is known until the change is stored and known, so that nobody
    /// decides by what another change has just made untrue.
    changing: Arc<Mutex<()>>,
}

#[derive(Default)]
struct Known {
    people: HashMap<PersonId, Person>,
    /// By the hash of the secret. The hash is not secret, so the time of a look-up reveals nothing.
    tokens: HashMap<String, PersonalToken>,
}

/// Why a change of people is refused.
#[derive(Debug, thiserror::Error)]
pub enum PeopleError {
    /// The change makes no sense.
    #[error("{0}")]
    Refused(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A person who showed a token, and what it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHolder {
    /// The person.
    pub person: Person,
    /// Which token.
    pub token: TokenId,
    /// The scopes that both the person and the token have.
    pub scopes: Scopes,
    /// The scopes of the token.
    pub limit: Scopes,
    /// The only project that the token opens.
    pub bound: Option<ProjectName>,
}

impl People {
    /// All people in the database.
    ///
    /// # Errors
    /// The database's.
    pub async fn load(store: &Store) -> StoreResult<People> {
        let read = store.read(|reader| Ok((reader.people()?, reader.tokens()?)));
        let (people, tokens) = read.await?;
        if !people.is_empty() {
            store.mark_people();
        }
        let tokens = tokens.into_iter().map(|row| (row.secret_hash, row.token));
        let known = Known {
            people: people.into_iter().map(|p| (p.id.clone(), p)).collect(),
            tokens: tokens.collect(),
        };
        Ok(People {
            store: store.clone(),
            known: Arc::new(RwLock::new(known)),
            changing: Arc::default(),
        })
    }

    /// Whether nobody could sign in.
    pub fn is_empty(&self) -> bool {
        self.known().people.is_empty()
    }

    /// All people, including those who have left, by name.
    pub fn list(&self) -> Vec<Person> {
        let mut people: Vec<Person> = self.known().people.values().cloned().collect();
        people.sort_by_key(|person| person.name.to_lowercase());
        people
    }

    /// The person with this id, unless they have left.
    pub fn active(&self, id: &PersonId) -> Option<Person> {
        let found = self.known().people.get(id).cloned();
        found.filter(|person| person.left_ms.is_none())
    }

    /// The person with this name.
    pub fn called(&self, name: &str) -> Option<Person> {
        let known = self.known();
        let mut people = known.people.values();
        people
            .find(|person| person.name.eq_ignore_ascii_case(name))
            .cloned()
    }

    /// The person with this secret. `None` if the token has ended or the person has left.
    pub fn of_secret(&self, secret: &str, now_ms: i64) -> Option<TokenHolder> {
        let hash = hash_of(secret);
        let known = self.known();
        self.shown(&known, known.tokens.get(&hash)?, now_ms)
    }

    /// The same for a token that was shown before.
    pub fn of_token(&self, id: &TokenId, now_ms: i64) -> Option<TokenHolder> {
        let known = self.known();
        let token = known.tokens.values().find(|token| token.id == *id)?;
        self.shown(&known, token, now_ms)
    }

    /// What a token shows. One that has ended by itself stays ended when the clock is set back.
    fn shown(&self, known: &Known, token: &PersonalToken, now_ms: i64) -> Option<TokenHolder> {
        if let Some(ended_ms) = token.expires_ms.filter(|at| *at <= now_ms) {
            self.store.remember_soon(ended_ms);
            return None;
        }
        known.shown(token)
    }

    /// Adds a person with a first token, which allows everything that the role allows.
    ///
    /// # Errors
    /// [`PeopleError`], for example if the first person would not be an admin.
    pub async fn add(&self, new: &NewPerson, now_ms: i64) -> Result<AddedPerson, PeopleError> {
        // Roles say less, and may differ in projects.
        self.add_within(new, Scopes::ALL, None, now_ms).await
    }

    /// The same with a first token that has at most these scopes and ends at `until` at the latest,
    /// because the token of whoever adds the person does.
    ///
    /// # Errors
    /// [`PeopleError`].
    pub async fn add_within(
        &self,
        new: &NewPerson,
        scopes: Scopes,
        until: Option<i64>,
        now_ms: i64,
    ) -> Result<AddedPerson, PeopleError> {
        let _changing = self.changing.lock().await;
        self.insert_with_token(new, scopes, until, now_ms).await
    }

    /// The same, asked for by somebody who did not need to sign in: that is so until the first
    /// person is there.
    ///
    /// # Errors
    /// [`PeopleError`], for example if somebody else was added in the meantime.
    pub async fn add_first(
        &self,
        new: &NewPerson,
        scopes: Scopes,
        until: Option<i64>,
        now_ms: i64,
    ) -> Result<AddedPerson, PeopleError> {
        let _changing = self.changing.lock().await;
        if !self.is_empty() {
            let why = "somebody else was added first, at the same moment, and from now on \
                       everybody signs in: ask them to add you";
            return Err(StoreError::Conflict(why.to_owned()).into());
        }
        self.insert_with_token(new, scopes, until, now_ms).await
    }

    async fn insert_with_token(
        &self,
        new: &NewPerson,
        scopes: Scopes,
        until: Option<i64>,
        now_ms: i64,
    ) -> Result<AddedPerson, PeopleError> {
        let person = self.insert(new, now_ms).await?;
        let token = NewToken {
            name: FIRST.to_owned(),
            scopes,
            expires_in_s: None,
            person: None,
            project: None,
        };
        let token = self.insert_token(&person.id, &token, until, now_ms).await?;
        Ok(AddedPerson { person, token })
    }

    /// Adds a person whom a proxy names, unless there is one with this name. The very first person
    /// is an admin, whatever the role.
    ///
    /// # Errors
    /// [`PeopleError`].
    pub async fn welcome(&self, new: &NewPerson, now_ms: i64) -> Result<(), PeopleError> {
        let _changing = self.changing.lock().await;
        match self.called(&new.name) {
            Some(_) => Ok(()),
            None => self.insert_newcomer(new, now_ms).await.map(drop),
        }
    }

    async fn insert_newcomer(&self, new: &NewPerson, now_ms: i64) -> Result<Person, PeopleError> {
        let role = match self.is_empty() {
            true => Role::Admin,
            false => new.role,
        };
        let name = new.name.clone();
        self.insert(&NewPerson { name, role }, now_ms).await
    }

    async fn insert(&self, new: &NewPerson, now_ms: i64) -> Result<Person, PeopleError> {
        let name = line(&new.name, "name")?;
        if is_nobodys(&name) {
            return refuse("this name means somebody else in the audit: choose another one");
        }
        {
            let known = self.known();
            if known.people.is_empty() && new.role != Role::Admin {
                return refuse("the first person must be an admin");
            }
            if known.people.len() >= MOST_PEOPLE {
                return refuse("there are too many people");
            }
        }
        let person = Person {
            id: identity::person_id(),
            name,
            role: new.role,
            created_ms: now_ms,
            left_ms: None,
        };
        let row = person.clone();
        self.store.write(move |w| w.insert_person(&row)).await?;
        self.store.mark_people();
        let mut known = self.known_mut();
        known.people.insert(person.id.clone(), person.clone());
        Ok(person)
    }

    /// Changes what a person may do. While a server runs, this goes through the gate, which also
    /// forgets the sessions of a person who has left.
    ///
    /// # Errors
    /// [`PeopleError`], for example if no admin would be left.
    pub async fn change(
        &self,
        id: &PersonId,
        change: &ChangePerson,
        now_ms: i64,
    ) -> Result<Person, PeopleError> {
        let _changing = self.changing.lock().await;
        let mut person = self.person(id)?;
        person.role = change.role.unwrap_or(person.role);
        person.left_ms = match change.left {
            None => person.left_ms,
            Some(true) => person.left_ms.or(Some(now_ms)),
            Some(false) => None,
        };
        let is_admin = |p: &Person| p.role == Role::Admin && p.left_ms.is_none();
        if !is_admin(&person) {
            let known = self.known();
            let mut others = known.people.values().filter(|other| other.id != *id);
            if !others.any(is_admin) {
                return refuse("somebody must stay an admin: make another one first");
            }
        }
        let (of, role, left_ms) = (person.id.clone(), person.role, person.left_ms);
        let write = self
            .store
            .write(move |w| w.change_person(&of, role, left_ms));
        write.await?;
        let mut known = self.known_mut();
        if person.left_ms.is_some() {
            known.tokens.retain(|_, token| token.person != *id);
        }
        known.people.insert(id.clone(), person.clone());
        Ok(person)
    }

    fn person(&self, id: &PersonId) -> StoreResult<Person> {
        let found = self.known().people.get(id).cloned();
        found.ok_or_else(|| missing("person", id.as_str()))
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn shown(&self, token: &PersonalToken) -> Option<TokenHolder> {
        let person = self.people.get(&token.person)?;
        if person.left_ms.is_some() {
            return None;
        }
        Some(TokenHolder {
            person: person.clone(),
            token: token.id.clone(),
            scopes: person.role.scopes().both(token.scopes),
            limit: token.scopes,
            bound: token.project.clone(),
        })
    }
}

/// A name without spaces around it.
fn line(text: &str, what: &str) -> Result<String, PeopleError> {
    let text = text.trim();
    let fits = (1..=NewPerson::MAX_NAME).contains(&text.chars().count());
    match fits && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => refuse(&format!(
            "a {what} has 1 to {} characters, and none that hides or turns others",
            NewPerson::MAX_NAME
        )),
    }
}

/// Whether the audit means no person by this name, or would be read so.
fn is_nobodys(name: &str) -> bool {
    let folded = name
        .to_lowercase()
        .replace(['\u{2019}', '\u{2018}', '\u{02bc}'], "'");
    let words: Vec<&str> = folded.split_whitespace().collect();
    [ANYBODY, OPERATOR, STRANGER].contains(&words.join(" ").as_str())
}

fn refuse<T>(why: &str) -> Result<T, PeopleError> {
    Err(PeopleError::Refused(why.to_owned()))
}

fn missing(what: &'static str, id: &str) -> StoreError {
    let id = id.to_owned();
    StoreError::NotFound { what, id }
}

#[cfg(test)]
mod tests;
