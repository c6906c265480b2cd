//! The tokens of people.

use super::{People, PeopleError, line, missing, refuse};
use crate::identity;
use crate::store::{StoreResult, TokenRow};
use api::ids::{PersonId, TokenId};
use api::people::{CreatedToken, NewToken, PersonalToken, Scopes};

/// The largest number of tokens that a person may have at a time.
pub const MOST_TOKENS: usize = 64;

/// The stored time of a token's last use may be out of date by at most this much.
const USED_EVERY_MS: i64 = 5 * 60 * 1000;

/// The beginning of a secret, so that programs that search files for secrets find it.
const SECRET_PREFIX: &str = "tidemark_";

impl People {
    /// Tokens of a person, newest first.
    pub fn tokens_of(&self, person: &PersonId) -> Vec<PersonalToken> {
        let known = self.known();
        let of_person = known.tokens.values().filter(|t| t.person == *person);
        let mut tokens: Vec<PersonalToken> = of_person.cloned().collect();
        tokens.sort_by(|a, b| (b.created_ms, &b.id).cmp(&(a.created_ms, &a.id)));
        tokens
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

    pub(super) async fn insert_token(
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
}

/// The stored form of a secret: it has 256 random bits, so it cannot be guessed from this hash.
pub(super) fn hash_of(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}
