//! People who may sign in, and their tokens. Secrets are stored only as hashes.

use super::rows::corrupt;
use super::{Reader, Store, StoreError, StoreResult, Writer};
use crate::system::data_folder::HAS_PEOPLE;
use api::ids::{PersonId, TokenId};
use api::people::{Person, PersonalToken, Role};
use api::projects::ProjectName;
use rusqlite::{OptionalExtension, Row, params};

impl Store {
    /// Writes the file that says that there are people in this database. If it cannot be written,
    /// only the database says so.
    pub fn mark_people(&self) {
        let mark = self.inner.path.with_file_name(HAS_PEOPLE);
        if !mark.exists()
            && let Err(error) = std::fs::write(&mark, "")
        {
            tracing::debug!(%error, "cannot note that there are people");
        }
    }
}

/// Who a person is for a provider of OpenID Connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityRow {
    /// The provider's address.
    pub issuer: String,
    /// What it calls the person, for good.
    pub subject: String,
    /// The person.
    pub person: PersonId,
    /// When they came for the first time.
    pub created_ms: i64,
}

/// A token as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    /// The public part of it.
    pub token: PersonalToken,
    /// BLAKE3 of its secret, hexadecimal.
    pub secret_hash: String,
}

impl Reader<'_> {
    /// Everybody, including those who have left, by name.
    pub fn people(&self) -> StoreResult<Vec<Person>> {
        let sql = "SELECT id, name, role, created_ms, left_ms FROM people ORDER BY name";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(person_of(row)?);
        }
        Ok(found)
    }

    /// Who is who for providers of OpenID Connect.
    pub fn identities(&self) -> StoreResult<Vec<IdentityRow>> {
        let sql = "SELECT issuer, subject, person, created_ms FROM identities";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let person: String = row.get("person")?;
            found.push(IdentityRow {
                issuer: row.get("issuer")?,
                subject: row.get("subject")?,
                person: person
                    .parse()
                    .map_err(|_| corrupt("person's id", &person))?,
                created_ms: row.get("created_ms")?,
            });
        }
        Ok(found)
    }

    /// The person whom a provider calls this.
    pub fn identified(&self, issuer: &str, subject: &str) -> StoreResult<Option<PersonId>> {
        let sql = "SELECT person FROM identities WHERE issuer = ?1 AND subject = ?2";
        let mut statement = self.tx.prepare_cached(sql)?;
        let found = statement.query_row([issuer, subject], |row| row.get::<_, String>(0));
        let found = found.optional()?;
        found
            .map(|id| id.parse().map_err(|_| corrupt("person's id", &id)))
            .transpose()
    }

    /// Whether any provider knows this person.
    pub fn is_identified(&self, person: &PersonId) -> StoreResult<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM identities WHERE person = ?1)";
        let mut statement = self.tx.prepare_cached(sql)?;
        Ok(statement.query_row([person.as_str()], |row| row.get(0))?)
    }

    /// All tokens, newest first.
    pub fn tokens(&self) -> StoreResult<Vec<TokenRow>> {
        let sql = "SELECT * FROM tokens ORDER BY created_ms DESC, id";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(token_of(row)?);
        }
        Ok(found)
    }
}

fn person_of(row: &Row) -> StoreResult<Person> {
    let (id, role): (String, String) = (row.get("id")?, row.get("role")?);
    Ok(Person {
        id: id.parse().map_err(|_| corrupt("person's id", &id))?,
        name: row.get("name")?,
        role: role.parse().map_err(|_| corrupt("role", &role))?,
        created_ms: row.get("created_ms")?,
        left_ms: row.get("left_ms")?,
    })
}

fn token_of(row: &Row) -> StoreResult<TokenRow> {
    let (id, person): (String, String) = (row.get("id")?, row.get("person")?);
    let scopes: String = row.get("scopes")?;
    // A damaged database may be of a version without projects.
    let project: Option<String> = match row.as_ref().column_index("project") {
        Ok(column) => row.get(column)?,
        Err(_) => None,
    };
    Ok(TokenRow {
        token: PersonalToken {
            id: id.parse().map_err(|_| corrupt("token's id", &id))?,
            person: person
                .parse()
                .map_err(|_| corrupt("person's id", &person))?,
            name: row.get("name")?,
            scopes: scopes.parse().map_err(|_| corrupt("scopes", &scopes))?,
            created_ms: row.get("created_ms")?,
            expires_ms: row.get("expires_ms")?,
            used_ms: row.get("used_ms")?,
            project: project
                .map(|text| text.parse().map_err(|_| corrupt("project's name", &text)))
                .transpose()?,
        },
        secret_hash: row.get("secret_hash")?,
    })
}

impl Writer<'_> {
    /// Adds a person.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when somebody has the name already, and the database's.
    pub fn insert_person(&mut self, person: &Person) -> StoreResult<()> {
        let there = "SELECT count(*) FROM people WHERE name = ?1";
        let same: i64 = self.tx.query_row(there, [&person.name], |row| row.get(0))?;
        if same > 0 {
            return Err(StoreError::Conflict(format!(
                "there is somebody called {} already",
                person.name
            )));
        }
        self.tx.execute(
            "INSERT INTO people (id, name, role, created_ms, left_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                person.id.as_str(),
                person.name,
                person.role.name(),
                person.created_ms,
                person.left_ms,
            ],
        )?;
        Ok(())
    }

    /// Notes who a person is for a provider.
    ///
    /// # Errors
    /// The database's, for example if it has noted another person for the same subject.
    pub fn insert_identity(&mut self, row: &IdentityRow) -> StoreResult<()> {
        self.tx.execute(
            "INSERT INTO identities (issuer, subject, person, created_ms) VALUES (?1, ?2, ?3, ?4)",
            params![row.issuer, row.subject, row.person.as_str(), row.created_ms],
        )?;
        Ok(())
    }

    /// Changes a person's role. A person who leaves loses all tokens and sessions.
    ///
    /// # Errors
    /// The database's.
    pub fn change_person(
        &mut self,
        id: &PersonId,
        role: Role,
        left_ms: Option<i64>,
    ) -> StoreResult<()> {
        let sql = "UPDATE people SET role = ?2, left_ms = ?3 WHERE id = ?1";
        self.tx
            .execute(sql, params![id.as_str(), role.name(), left_ms])?;
        if left_ms.is_some() {
            for table in ["tokens", "sessions"] {
                let sql = format!("DELETE FROM {table} WHERE person = ?1");
                self.tx.execute(&sql, [id.as_str()])?;
            }
        }
        Ok(())
    }

    /// Keeps a new token.
    ///
    /// # Errors
    /// The database's.
    pub fn insert_token(&mut self, row: &TokenRow) -> StoreResult<()> {
        let token = &row.token;
        self.tx.execute(
            "INSERT INTO tokens (id, person, name, secret_hash, scopes, created_ms, expires_ms, \
             used_ms, project) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                token.id.as_str(),
                token.person.as_str(),
                token.name,
                row.secret_hash,
                token.scopes.to_string(),
                token.created_ms,
                token.expires_ms,
                token.used_ms,
                token.project.as_ref().map(ProjectName::as_str),
            ],
        )?;
        Ok(())
    }

    /// Notes when a token was used.
    ///
    /// # Errors
    /// The database's.
    pub fn token_used(&mut self, id: &TokenId, used_ms: i64) -> StoreResult<()> {
        let sql = "UPDATE tokens SET used_ms = ?2 WHERE id = ?1";
        self.tx.execute(sql, params![id.as_str(), used_ms])?;
        Ok(())
    }

    /// Ends a token, and the sessions that were opened with it.
    ///
    /// # Errors
    /// The database's.
    pub fn delete_token(&mut self, id: &TokenId) -> StoreResult<()> {
        for sql in [
            "DELETE FROM sessions WHERE token = ?1",
            "DELETE FROM tokens WHERE id = ?1",
        ] {
            self.tx.execute(sql, [id.as_str()])?;
        }
        Ok(())
    }
}
