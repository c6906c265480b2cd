//! Sessions of browsers. Secrets are stored only as hashes.

use super::rows::corrupt;
use super::{Reader, StoreResult, Writer};
use api::ids::{PersonId, SessionId, TokenId};
use rusqlite::params;

/// A session as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// BLAKE3 of the cookie's value, hexadecimal.
    pub secret_hash: String,
    /// Hash of the server's token that opened the session; empty if a person opened it.
    pub token_hash: String,
    /// The person who opened it.
    pub person: Option<PersonId>,
    /// The person's token that opened it.
    pub token: Option<TokenId>,
    /// When it was opened.
    pub created_ms: i64,
    /// When it was used last, to some minutes.
    pub seen_ms: i64,
    /// When it ends by itself.
    pub expires_ms: i64,
    /// The client's address.
    pub address: String,
    /// The browser.
    pub agent: String,
}

impl Reader<'_> {
    /// All sessions, oldest first.
    pub fn sessions(&self) -> StoreResult<Vec<SessionRow>> {
        let sql = "SELECT id, secret_hash, token_hash, person, token, created_ms, seen_ms, \
                   expires_ms, address, agent FROM sessions ORDER BY created_ms, id";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let id: String = row.get("id")?;
            let person: Option<String> = row.get("person")?;
            let token: Option<String> = row.get("token")?;
            found.push(SessionRow {
                id: id.parse().map_err(|_| corrupt("session id", &id))?,
                secret_hash: row.get("secret_hash")?,
                token_hash: row.get("token_hash")?,
                person: person.and_then(|id| id.parse().ok()),
                token: token.and_then(|id| id.parse().ok()),
                created_ms: row.get("created_ms")?,
                seen_ms: row.get("seen_ms")?,
                expires_ms: row.get("expires_ms")?,
                address: row.get("address")?,
                agent: row.get("agent")?,
            });
        }
        Ok(found)
    }
}

impl Writer<'_> {
    /// Keeps a new session.
    ///
    /// # Errors
    /// The database's.
    pub fn insert_session(&mut self, row: &SessionRow) -> StoreResult<()> {
        self.tx.execute(
            "INSERT INTO sessions (id, secret_hash, token_hash, created_ms, seen_ms, expires_ms, \
             address, agent, person, token) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                row.id.as_str(),
                row.secret_hash,
                row.token_hash,
                row.created_ms,
                row.seen_ms,
                row.expires_ms,
                row.address,
                row.agent,
                row.person.as_ref().map(PersonId::as_str),
                row.token.as_ref().map(TokenId::as_str),
            ],
        )?;
        Ok(())
    }

    /// Notes when a session was used.
    ///
    /// # Errors
    /// The database's.
    pub fn session_seen(&mut self, id: &SessionId, seen_ms: i64) -> StoreResult<()> {
        let sql = "UPDATE sessions SET seen_ms = ?2 WHERE id = ?1";
        self.tx.execute(sql, params![id.as_str(), seen_ms])?;
        Ok(())
    }

    /// Ends sessions.
    ///
    /// # Errors
    /// The database's.
    pub fn delete_sessions(&mut self, ids: &[SessionId]) -> StoreResult<()> {
        let mut statement = self
            .tx
            .prepare_cached("DELETE FROM sessions WHERE id = ?1")?;
        for id in ids {
            statement.execute([id.as_str()])?;
        }
        Ok(())
    }
}
