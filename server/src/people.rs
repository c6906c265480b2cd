//! People who may sign in, and their tokens.
//!
//! The database stores them; every request is checked in memory. A server that only this machine
//! can reach has no people and needs none.

use crate::identity;
use crate::oidc::Identity;
use crate::plain::{is_plain, plain};
use crate::store::{IdentityRow, Store, StoreError, StoreResult, TokenRow};
use api::ids::{PersonId, TokenId};
use api::people::{
    AddedPerson, ChangePerson, CreatedToken, NewPerson, NewToken, Person, PersonalToken, Role,
    Scopes,
};
use api::projects::ProjectName;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::Mutex;

/// The largest number of tokens that a person may have at a time.
pub const MOST_TOKENS: usize = 64;

/// The largest number of people, including those who have left.
pub const MOST_PEOPLE: usize = 10_000;

/// The stored time of a token's last use may be out of date by at most this much.
const USED_EVERY_MS: i64 = 5 * 60 * 1000;

/// The beginning of a secret, so that programs that search files for secrets find it.
const SECRET_PREFIX: &str = "tidemark_";

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
pub struct Shown {
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
    pub fn of_secret(&self, secret: &str, now_ms: i64) -> Option<Shown> {
        let hash = hash_of(secret);
        let known = self.known();
        self.shown(&known, known.tokens.get(&hash)?, now_ms)
    }

    /// The same for a token that was shown before.
    pub fn of_token(&self, id: &TokenId, now_ms: i64) -> Option<Shown> {
        let known = self.known();
        let token = known.tokens.values().find(|token| token.id == *id)?;
        self.shown(&known, token, now_ms)
    }

    /// What a token shows. One that has ended by itself stays ended when the clock is set back.
    fn shown(&self, known: &Known, token: &PersonalToken, now_ms: i64) -> Option<Shown> {
        if let Some(ended_ms) = token.expires_ms.filter(|at| *at <= now_ms) {
            self.store.remember_soon(ended_ms);
            return None;
        }
        known.shown(token)
    }

    /// Tokens of a person, newest first.
    pub fn tokens_of(&self, person: &PersonId) -> Vec<PersonalToken> {
        let known = self.known();
        let of_person = known.tokens.values().filter(|t| t.person == *person);
        let mut tokens: Vec<PersonalToken> = of_person.cloned().collect();
        tokens.sort_by(|a, b| (b.created_ms, &b.id).cmp(&(a.created_ms, &a.id)));
        tokens
    }

    /// Adds a person with a first token, which allows everything that the role allows.
    ///
    /// # Errors
    /// [`PeopleError`], for example if the first person would not be an admin.
    pub async fn add(&self, new: &NewPerson, now_ms: i64) -> Result<AddedPerson, PeopleError> {
        // Roles say less, and may differ in projects.
        self.add_within(new, (Scopes::ALL, None), now_ms).await
    }

    /// The same with a first token that has at most these scopes and ends at `until` at the latest,
    /// because the token of whoever adds the person does.
    ///
    /// # Errors
    /// [`PeopleError`].
    pub async fn add_within(
        &self,
        new: &NewPerson,
        (scopes, until): (Scopes, Option<i64>),
        now_ms: i64,
    ) -> Result<AddedPerson, PeopleError> {
        let _changing = self.changing.lock().await;
        self.insert_with_token(new, (scopes, until), now_ms).await
    }

    /// The same, asked for by somebody who did not need to sign in: that is so until the first
    /// person is there.
    ///
    /// # Errors
    /// [`PeopleError`], for example if somebody else was added in the meantime.
    pub async fn add_first(
        &self,
        new: &NewPerson,
        within: (Scopes, Option<i64>),
        now_ms: i64,
    ) -> Result<AddedPerson, PeopleError> {
        let _changing = self.changing.lock().await;
        if !self.is_empty() {
            let why = "somebody else was added first, at the same moment, and from now on \
                       everybody signs in: ask them to add you";
            return Err(StoreError::Conflict(why.to_owned()).into());
        }
        self.insert_with_token(new, within, now_ms).await
    }

    async fn insert_with_token(
        &self,
        new: &NewPerson,
        (scopes, until): (Scopes, Option<i64>),
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

    /// The person whom a provider of OpenID Connect has signed in. Who comes for the first time is
    /// the person whom an admin has added under the verified address of mail, or else a new one
    /// with this role; the very first person is an admin. Other names prove nothing, because people
    /// may choose them at the provider.
    ///
    /// # Errors
    /// [`PeopleError`], for example if the person's access has ended.
    pub async fn identified(
        &self,
        identity: &Identity,
        role: Role,
        now_ms: i64,
    ) -> Result<Person, PeopleError> {
        let _changing = self.changing.lock().await;
        let (issuer, subject) = (identity.issuer.clone(), identity.subject.clone());
        let read = self
            .store
            .read(move |reader| reader.identified(&issuer, &subject));
        let person = match read.await? {
            Some(known) => self.person(&known)?,
            None => self.met(identity, role, now_ms).await?,
        };
        match person.left_ms {
            None => Ok(person),
            Some(_) => {
                refuse("your access has ended; an admin of this server can let you in again")
            }
        }
    }

    /// Notes who somebody is for a provider.
    async fn met(
        &self,
        identity: &Identity,
        role: Role,
        now_ms: i64,
    ) -> Result<Person, PeopleError> {
        let person = match self.expected(identity).await? {
            Some(person) => person,
            None => self.newcomer(identity, role, now_ms).await?,
        };
        let row = IdentityRow {
            issuer: identity.issuer.clone(),
            subject: identity.subject.clone(),
            person: person.id.clone(),
            created_ms: now_ms,
        };
        self.store.write(move |w| w.insert_identity(&row)).await?;
        Ok(person)
    }

    /// The person whom an admin has added under this address of mail, and who has not come yet. A
    /// person who has come is somebody else: providers give addresses to others, too.
    async fn expected(&self, identity: &Identity) -> StoreResult<Option<Person>> {
        let email = identity.email.as_deref();
        let Some(person) = email.and_then(|email| self.called(email)) else {
            return Ok(None);
        };
        let id = person.id.clone();
        let came = self.store.read(move |reader| reader.is_identified(&id));
        Ok((!came.await?).then_some(person))
    }

    async fn newcomer(
        &self,
        identity: &Identity,
        role: Role,
        now_ms: i64,
    ) -> Result<Person, PeopleError> {
        // Room for a number, if others have the same name.
        let fit = |name: &str| -> String {
            let short: String = plain(name).chars().take(NewPerson::MAX_NAME - 6).collect();
            short.trim().to_owned()
        };
        // Nobody may take the address of somebody else as a name.
        let others = identity.names.iter().map(|name| name.replace('@', " at "));
        let names = identity.email.clone().into_iter().chain(others);
        let mut names = names.map(|name| fit(&name));
        let name = names.find(|name| !name.is_empty() && !is_nobodys(name));
        let name = name.unwrap_or_else(|| "somebody".to_owned());
        let numbered = (2..1000).map(|n| format!("{name} ({n})"));
        let mut free = [name.clone()].into_iter().chain(numbered);
        let name = free
            .find(|name| self.called(name).is_none())
            .unwrap_or(name);
        self.insert_newcomer(&NewPerson { name, role }, now_ms)
            .await
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

    /// When a token ends by itself; `None`: never.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], if it has been ended.
    pub fn end_of(&self, token: &TokenId) -> StoreResult<Option<i64>> {
        let known = self.known();
        let found = known.tokens.values().find(|one| one.id == *token);
        let found = found.map(|token| token.expires_ms);
        found.ok_or_else(|| missing("token", token.as_str()))
    }

    /// Makes a token for a person. Only this answer has its secret.
    ///
    /// # Errors
    /// [`PeopleError`].
    pub async fn make_token(
        &self,
        person: &PersonId,
        new: &NewToken,
        now_ms: i64,
    ) -> Result<CreatedToken, PeopleError> {
        self.make_token_until(person, new, None, now_ms).await
    }

    /// The same for a token that ends at `until` at the latest.
    ///
    /// # Errors
    /// [`PeopleError`].
    pub async fn make_token_until(
        &self,
        person: &PersonId,
        new: &NewToken,
        until: Option<i64>,
        now_ms: i64,
    ) -> Result<CreatedToken, PeopleError> {
        let _changing = self.changing.lock().await;
        self.insert_token(person, new, until, now_ms).await
    }

    async fn insert_token(
        &self,
        person: &PersonId,
        new: &NewToken,
        until: Option<i64>,
        now_ms: i64,
    ) -> Result<CreatedToken, PeopleError> {
        if self.person(person)?.left_ms.is_some() {
            return refuse("who has left gets no tokens");
        }
        if new.expires_in_s == Some(0) {
            return refuse("a token that ends at once is good for nothing");
        }
        if new.scopes == Scopes::NONE {
            return refuse("a token must be good for something: read, upload or manage");
        }
        if self.tokens_of(person).len() >= MOST_TOKENS {
            return refuse("a person has 64 tokens at most: end one first");
        }
        let secret = format!("{SECRET_PREFIX}{}", identity::secret());
        let token = PersonalToken {
            id: identity::token_id(),
            person: person.clone(),
            name: line(&new.name, "name")?,
            scopes: new.scopes,
            created_ms: now_ms,
            expires_ms: [
                new.expires_in_s.map(|s| now_ms + i64::from(s) * 1000),
                until,
            ]
            .into_iter()
            .flatten()
            .min(),
            used_ms: None,
            project: new.project.clone(),
        };
        let row = TokenRow {
            token: token.clone(),
            secret_hash: hash_of(&secret),
        };
        let hash = row.secret_hash.clone();
        self.store.write(move |w| w.insert_token(&row)).await?;
        self.known_mut().tokens.insert(hash, token.clone());
        Ok(CreatedToken { token, secret })
    }

    /// The owner of this token.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn owner_of(&self, token: &TokenId) -> StoreResult<PersonId> {
        let known = self.known();
        let found = known.tokens.values().find(|one| one.id == *token);
        let found = found.map(|token| token.person.clone());
        found.ok_or_else(|| missing("token", token.as_str()))
    }

    /// Ends a token at once, with the sessions that were opened with it.
    ///
    /// # Errors
    /// The database's; the token then stays valid.
    pub async fn end_token(&self, id: &TokenId) -> StoreResult<()> {
        let of = id.clone();
        self.store.write(move |w| w.delete_token(&of)).await?;
        self.known_mut().tokens.retain(|_, token| token.id != *id);
        Ok(())
    }

    /// Stores that a token was used, but not every time.
    ///
    /// # Errors
    /// The database's.
    pub async fn note_use(&self, id: &TokenId, now_ms: i64) -> StoreResult<()> {
        {
            let mut known = self.known_mut();
            let token = known.tokens.values_mut().find(|token| token.id == *id);
            let Some(token) = token else { return Ok(()) };
            if token.used_ms.is_some_and(|at| now_ms - at < USED_EVERY_MS) {
                return Ok(());
            }
            token.used_ms = Some(now_ms);
        }
        let id = id.clone();
        self.store.write(move |w| w.token_used(&id, now_ms)).await
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
    fn shown(&self, token: &PersonalToken) -> Option<Shown> {
        let person = self.people.get(&token.person)?;
        if person.left_ms.is_some() {
            return None;
        }
        Some(Shown {
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

/// The stored form of a secret: it has 256 random bits, so it cannot be guessed from this hash.
fn hash_of(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn people() -> (tempfile::TempDir, People) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("db")).unwrap();
        let people = People::load(&store).await.unwrap();
        (folder, people)
    }

    fn new(name: &str, role: Role) -> NewPerson {
        let name = name.to_owned();
        NewPerson { name, role }
    }

    async fn again(people: &People) -> People {
        People::load(&people.store).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_first_person_is_an_admin_and_one_always_stays() {
        let (_folder, people) = people().await;
        let refused = people.add(&new("bo", Role::Member), 1).await.unwrap_err();
        assert_eq!(refused.to_string(), "the first person must be an admin");
        let ada = people.add(&new("Ada", Role::Admin), 1).await.unwrap();
        let twice = people.add(&new("ADA", Role::Member), 2).await.unwrap_err();
        assert_eq!(twice.to_string(), "there is somebody called ADA already");
        for change in [
            ChangePerson {
                left: Some(true),
                role: None,
            },
            ChangePerson {
                left: None,
                role: Some(Role::Member),
            },
        ] {
            let refused = people.change(&ada.person.id, &change, 3).await.unwrap_err();
            assert!(refused.to_string().contains("stay an admin"), "{refused}");
        }
        people.add(&new("bo", Role::Admin), 4).await.unwrap();
        let left = ChangePerson {
            left: Some(true),
            role: None,
        };
        people.change(&ada.person.id, &left, 5).await.unwrap();
        for people in [people.clone(), again(&people).await] {
            assert_eq!(people.of_secret(&ada.token.secret, 6), None);
            assert_eq!(people.active(&ada.person.id), None);
            assert_eq!(people.list().len(), 2, "what she did stays hers");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_two_first_people_at_once_one_comes() {
        let (_folder, people) = people().await;
        let (ada, bo) = (new("ada", Role::Admin), new("bo", Role::Admin));
        let within = (Scopes::ALL, None);
        let (one, two) = tokio::join!(
            people.add_first(&ada, within, 1),
            people.add_first(&bo, within, 1)
        );
        assert_eq!(one.unwrap().person.name, "ada");
        let refused = two.unwrap_err();
        let is_conflict = matches!(refused, PeopleError::Store(StoreError::Conflict(_)));
        assert!(is_conflict && refused.to_string().contains("ask them to add you"));
        assert_eq!(people.list().len(), 1);
    }

    fn change_to(role: Option<Role>, left: Option<bool>) -> ChangePerson {
        ChangePerson { role, left }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn changes_at_once_do_not_undo_each_other() {
        let (_folder, people) = people().await;
        let add = async |name: &str, role| people.add(&new(name, role), 1).await.unwrap().person.id;
        let (ada, bo) = (add("ada", Role::Admin).await, add("bo", Role::Admin).await);
        let cy = add("cy", Role::Member).await;
        let (leaves, reads) = (
            change_to(None, Some(true)),
            change_to(Some(Role::Reader), None),
        );
        let (one, two) = tokio::join!(
            people.change(&ada, &reads, 2),
            people.change(&bo, &reads, 2)
        );
        assert_eq!([one.is_ok(), two.is_ok()], [true, false]);
        let token = NewToken {
            name: "CI".to_owned(),
            scopes: Scopes::ALL,
            expires_in_s: None,
            person: None,
            project: None,
        };
        let (left, changed, made) = tokio::join!(
            people.change(&cy, &leaves, 3),
            people.change(&cy, &reads, 3),
            people.make_token(&cy, &token, 3),
        );
        assert!(left.is_ok() && changed.is_ok() && made.is_err());
        for people in [people.clone(), again(&people).await] {
            let is_admin = |id| people.active(id).map(|person| person.role == Role::Admin);
            assert_eq!([is_admin(&ada), is_admin(&bo)], [Some(false), Some(true)]);
            assert_eq!(people.person(&cy).unwrap().left_ms, Some(3));
            assert!(people.tokens_of(&cy).is_empty());
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn of_newcomers_at_once_one_is_an_admin_and_nobody_comes_twice() {
        let (_folder, people) = people().await;
        let identity = Identity {
            issuer: "https://login.example".to_owned(),
            subject: "u1".to_owned(),
            email: None,
            names: vec!["cy".to_owned()],
        };
        let (ada, bo) = (new("ada", Role::Reader), new("bo", Role::Reader));
        let (one, two, three, four, five) = tokio::join!(
            people.welcome(&ada, 1),
            people.welcome(&bo, 1),
            people.welcome(&bo, 1),
            people.identified(&identity, Role::Reader, 1),
            people.identified(&identity, Role::Reader, 1),
        );
        assert!(one.is_ok() && two.is_ok() && three.is_ok());
        assert_eq!(four.unwrap(), five.unwrap());
        for people in [people.clone(), again(&people).await] {
            let listed = people.list();
            let said: Vec<_> = listed.iter().map(|p| (p.name.as_str(), p.role)).collect();
            let expected = [
                ("ada", Role::Admin),
                ("bo", Role::Reader),
                ("cy", Role::Reader),
            ];
            assert_eq!(said, expected);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_token_ends_when_it_is_ended_by_itself_and_with_its_person() {
        let (_folder, people) = people().await;
        people.add(&new("ada", Role::Admin), 1).await.unwrap();
        let bo = people.add(&new("bo", Role::Reader), 1).await.unwrap();
        let id = &bo.person.id;
        let asked = NewToken {
            name: "CI".to_owned(),
            scopes: Scopes::ALL,
            expires_in_s: Some(10),
            person: None,
            project: None,
        };
        let token = people.make_token(id, &asked, 1000).await.unwrap();
        assert!(token.secret.starts_with("tidemark_") && token.secret.len() > 64);
        let scopes = |people: &People, now_ms| {
            let shown = people.of_secret(&token.secret, now_ms);
            shown.map(|shown| shown.scopes.to_string())
        };
        let reads = Some("read".to_owned());
        assert_eq!(
            scopes(&people, 10_999),
            reads,
            "a reader's token only reads"
        );
        assert_eq!(scopes(&people, 11_000), None, "its time is over");
        let member = ChangePerson {
            role: Some(Role::Member),
            left: None,
        };
        people.change(id, &member, 2000).await.unwrap();
        assert_eq!(
            scopes(&again(&people).await, 2000),
            Some("read, upload, manage".to_owned())
        );
        people.note_use(&token.token.id, 3000).await.unwrap();
        assert_eq!(again(&people).await.tokens_of(id)[0].used_ms, Some(3000));
        people.end_token(&token.token.id).await.unwrap();
        assert_eq!(scopes(&people, 2000), None);
        assert_eq!(scopes(&again(&people).await, 2000), None);
        let empty = NewToken {
            scopes: Scopes::NONE,
            ..asked
        };
        assert!(people.make_token(id, &empty, 1).await.is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn names_hide_nothing() {
        let (_folder, people) = people().await;
        let check = async |name: &str, ok: bool| {
            let added = people.add(&new(name, Role::Admin), 1).await;
            assert_eq!(added.is_ok(), ok, "{name:?}");
        };
        check("", false).await;
        check("  ", false).await;
        check("a\u{202e}b", false).await;
        check("a\nb", false).await;
        check(&"x".repeat(65), false).await;
        check(" Zoë Ångström ", true).await;
        assert_eq!(people.list()[0].name, "Zoë Ångström");
    }

    #[test]
    fn nobody_has_a_name_that_means_somebody_else() {
        let check = |name: &str, taken: bool| assert_eq!(is_nobodys(name), taken, "{name}");
        check("the server's token", true);
        check("The Server\u{2019}s  TOKEN", true);
        check("somebody with a link", true);
        check("Somebody on this machine", true);
        check("somebody", false);
        check("ada", false);
    }

    #[tokio::test]
    async fn such_a_name_is_refused() {
        let (_folder, people) = people().await;
        let refused = people.add(&new("The server's token", Role::Admin), 0).await;
        assert!(matches!(refused, Err(PeopleError::Refused(_))));
        people.add(&new("ada", Role::Admin), 0).await.unwrap();
    }
}
