//! Links that were given to others. Secrets are stored only as hashes.

use super::rows::{Slice, corrupt, named};
use super::{Reader, StoreError, StoreResult, Writer};
use answers::texts::{OwnNames, Texts};
use api::ids::{RunId, ShareId};
use api::shares::{NewShare, Redaction, Share, ShareKind, ShareTarget};
use rusqlite::{OptionalExtension, Row, named_params, params};
use trace::redact::Key;

/// A link, with the hash that its secret is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRow {
    /// The link.
    pub share: Share,
    /// BLAKE3 of its secret, hexadecimal; `None` for team links.
    pub token_hash: Option<String>,
    /// The key that its stand-ins for names are made with; `None` if the link shows all names.
    pub names_key: Option<Key>,
}

impl ShareRow {
    /// Which texts the link shows, to a team that has these names.
    pub fn texts(&self, own: OwnNames) -> Texts {
        self.names_key.map_or(Texts::All(own), Texts::Redacted)
    }
}

/// Which link to look for.
#[derive(Clone, Copy, Debug)]
enum Wanted<'a> {
    Id(&'a ShareId),
    Hash(&'a str),
    OfRun(&'a RunId),
    All,
}

impl Reader<'_> {
    /// Links, newest first: those that open a run, or all. A link has expired if its end is before
    /// `now_ms`.
    pub fn shares(
        &self,
        run: Option<&RunId>,
        slice: Slice,
        now_ms: i64,
    ) -> StoreResult<Vec<Share>> {
        let wanted = run.map_or(Wanted::All, Wanted::OfRun);
        let rows = self.share_rows(wanted, slice, now_ms)?;
        Ok(rows.into_iter().map(|row| row.share).collect())
    }

    /// Every link, with the hash of its secret.
    ///
    /// # Errors
    /// The database's.
    pub fn all_shares(&self) -> StoreResult<Vec<ShareRow>> {
        self.share_rows(Wanted::All, Slice::ALL, 0)
    }

    /// A link by its short id.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn share(&self, id: &ShareId, now_ms: i64) -> StoreResult<ShareRow> {
        let found = self.share_rows(Wanted::Id(id), Slice::ALL, now_ms)?.pop();
        found.ok_or_else(|| no_share(id))
    }

    /// The link whose secret has this hash.
    pub fn share_by_hash(&self, hash: &str, now_ms: i64) -> StoreResult<Option<ShareRow>> {
        Ok(self
            .share_rows(Wanted::Hash(hash), Slice::ALL, now_ms)?
            .pop())
    }

    /// How many links that open now each name has made.
    ///
    /// # Errors
    /// The database's.
    pub fn open_shares_by_maker(&self, now_ms: i64) -> StoreResult<Vec<(String, u64)>> {
        let sql =
            format!("SELECT created_by, count(*) FROM shares WHERE {OPEN} GROUP BY created_by");
        let mut statement = self.tx.prepare_cached(&sql)?;
        let rows = statement.query_map(named_params! { ":now": now_ms }, |row| {
            Ok((row.get(0)?, row.get::<_, u32>(1)?.into()))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn share_rows(
        &self,
        wanted: Wanted,
        Slice { offset, limit }: Slice,
        now_ms: i64,
    ) -> StoreResult<Vec<ShareRow>> {
        let condition = match wanted {
            Wanted::Id(_) => "id = :key",
            Wanted::Hash(_) => "token_hash = :key",
            Wanted::OfRun(_) => {
                "EXISTS (SELECT 1 FROM share_runs WHERE share = shares.id AND run = :key)"
            }
            Wanted::All => ":key IS NULL",
        };
        let key = match wanted {
            Wanted::Id(id) => Some(id.as_str()),
            Wanted::Hash(hash) => Some(hash),
            Wanted::OfRun(run) => Some(run.as_str()),
            Wanted::All => None,
        };
        let sql = format!(
            "SELECT id, kind, token_hash, target, query, redaction, note, created_ms, created_by, \
             expires_ms, revoked_ms, revoked_by, last_opened_ms, names_key \
             FROM shares WHERE {condition} \
             ORDER BY created_ms DESC, id LIMIT :limit OFFSET :offset"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let named = named_params! { ":key": key, ":limit": limit, ":offset": offset };
        let mut rows = statement.query(named)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(self.share_of(row, now_ms)?);
        }
        Ok(found)
    }

    fn share_of(&self, row: &Row, now_ms: i64) -> StoreResult<ShareRow> {
        let text = |column: &str| row.get::<_, String>(column);
        let id: ShareId = text("id")?
            .parse()
            .map_err(|_| corrupt("link id", "no link id"))?;
        let (revoked_ms, expires_ms) = (row.get("revoked_ms")?, row.get("expires_ms")?);
        let runs = self.share_runs(&id)?;
        let share = Share {
            kind: named("kind of link", &text("kind")?, KINDS, kind_name)?,
            target: target_of(&text("target")?, runs)?,
            query: text("query")?,
            redaction: named("redaction", &text("redaction")?, REDACTIONS, redaction_name)?,
            note: text("note")?,
            created_ms: row.get("created_ms")?,
            created_by: text("created_by")?,
            expires_ms,
            revoked_ms,
            revoked_by: row.get("revoked_by")?,
            last_opened_ms: row.get("last_opened_ms")?,
            state: Share::state_at(revoked_ms, expires_ms, now_ms),
            id,
        };
        let token_hash = row.get("token_hash")?;
        let names_key: Option<[u8; 16]> = row.get("names_key")?;
        let names_key = names_key.map(Key::new);
        if names_key.is_none() && share.redaction == Redaction::Redacted {
            return Err(corrupt("link", "a redacted one without a key"));
        }
        Ok(ShareRow {
            share,
            token_hash,
            names_key,
        })
    }

    fn share_runs(&self, id: &ShareId) -> StoreResult<Vec<RunId>> {
        let sql = "SELECT run FROM share_runs WHERE share = ?1 ORDER BY position";
        let mut statement = self.tx.prepare_cached(sql)?;
        let rows = statement.query_map([id.as_str()], |row| row.get::<_, String>(0))?;
        let runs = rows.map(|run| {
            let run = run?;
            run.parse().map_err(|_| corrupt("run id of a link", &run))
        });
        runs.collect()
    }
}

/// What holds of a link that opens now.
const OPEN: &str = "revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > :now)";

impl Writer<'_> {
    /// Keeps a link that somebody makes.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when too many links open.
    pub fn make_share(&mut self, row: &ShareRow) -> StoreResult<()> {
        self.insert_share(row)?;
        let sql = format!("SELECT count(*) FROM shares WHERE {OPEN}");
        let now = named_params! { ":now": row.share.created_ms };
        let open: u32 = self.tx.query_row(&sql, now, |row| row.get(0))?;
        match open <= NewShare::MOST_OPEN {
            true => Ok(()),
            false => Err(StoreError::Conflict(format!(
                "{} links open already: revoke some that nobody needs",
                NewShare::MOST_OPEN
            ))),
        }
    }

    /// Keeps a link.
    ///
    /// # Errors
    /// The database's.
    pub fn insert_share(&mut self, row: &ShareRow) -> StoreResult<()> {
        let share = &row.share;
        let target = match share.target {
            ShareTarget::Run { .. } => "run",
            ShareTarget::Comparison { .. } => "comparison",
        };
        self.tx.execute(
            "INSERT INTO shares (id, kind, token_hash, target, query, redaction, note, created_ms, \
             created_by, expires_ms, names_key) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                share.id.as_str(),
                kind_name(share.kind),
                row.token_hash,
                target,
                share.query,
                redaction_name(share.redaction),
                share.note,
                share.created_ms,
                share.created_by,
                share.expires_ms,
                row.names_key.as_ref().map(Key::bytes),
            ],
        )?;
        let sql = "INSERT INTO share_runs (share, position, run) VALUES (?1, ?2, ?3)";
        let mut statement = self.tx.prepare_cached(sql)?;
        for (position, run) in share.target.runs().iter().enumerate() {
            statement.execute(params![share.id.as_str(), position as i64, run.as_str()])?;
        }
        Ok(())
    }

    /// Revokes a link. A link that was revoked before keeps its date.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn revoke_share(&mut self, id: &ShareId, by: &str, now_ms: i64) -> StoreResult<()> {
        let sql = "UPDATE shares SET revoked_by = CASE WHEN revoked_ms IS NULL THEN ?2 \
                   ELSE revoked_by END, revoked_ms = coalesce(revoked_ms, ?3) \
                   WHERE id = ?1 RETURNING 1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let found = statement.query_row(params![id.as_str(), by, now_ms], |_| Ok(()));
        found.optional()?.ok_or_else(|| no_share(id))
    }

    /// Revokes all links that this name has made; returns how many opened until now.
    ///
    /// # Errors
    /// The database's.
    pub fn revoke_shares_of(&mut self, maker: &str, by: &str, now_ms: i64) -> StoreResult<usize> {
        let sql = format!(
            "UPDATE shares SET revoked_by = :by, revoked_ms = :now \
             WHERE created_by = :maker AND {OPEN}"
        );
        let named = named_params! { ":maker": maker, ":by": by, ":now": now_ms };
        Ok(self.tx.execute(&sql, named)?)
    }

    /// Notes that a link was opened.
    ///
    /// # Errors
    /// The database's.
    pub fn opened_share(&mut self, id: &ShareId, now_ms: i64) -> StoreResult<()> {
        let sql = "UPDATE shares SET last_opened_ms = ?2 WHERE id = ?1";
        self.tx.execute(sql, params![id.as_str(), now_ms])?;
        Ok(())
    }
}

const KINDS: [ShareKind; 2] = [ShareKind::Team, ShareKind::Capability];

fn kind_name(kind: ShareKind) -> &'static str {
    match kind {
        ShareKind::Team => "team",
        ShareKind::Capability => "capability",
    }
}

const REDACTIONS: [Redaction; 2] = [Redaction::None, Redaction::Redacted];

fn redaction_name(redaction: Redaction) -> &'static str {
    match redaction {
        Redaction::None => "none",
        Redaction::Redacted => "redacted",
    }
}

fn target_of(name: &str, mut runs: Vec<RunId>) -> StoreResult<ShareTarget> {
    match (name, runs.len()) {
        ("run", 1) => Ok(ShareTarget::Run {
            run: runs.remove(0),
        }),
        ("comparison", 2..) => Ok(ShareTarget::Comparison { runs }),
        _ => Err(corrupt("target of a link", name)),
    }
}

fn no_share(id: &ShareId) -> StoreError {
    StoreError::NotFound {
        what: "link",
        id: id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use api::shares::ShareState;

    #[test]
    fn only_so_many_links_open() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("t.db")).unwrap();
        let most = NewShare::MOST_OPEN;
        // Those that have ended do not count.
        let fill = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {most}) \
             INSERT INTO shares (id, kind, target, query, redaction, note, created_ms, created_by, \
             expires_ms) SELECT printf('shr_%010d', i), 'team', 'run', '', 'none', '', 0, 'ada', \
             CASE i WHEN 1 THEN 5 END FROM n"
        );
        store
            .write_derived_now(|writer| Ok(writer.tx.execute(&fill, [])?))
            .unwrap();
        let make = |id: &str| {
            let share = Share {
                id: id.parse().unwrap(),
                kind: ShareKind::Team,
                target: ShareTarget::Comparison { runs: Vec::new() },
                query: String::new(),
                redaction: Redaction::None,
                note: String::new(),
                created_ms: 10,
                created_by: "bo".to_owned(),
                expires_ms: None,
                revoked_ms: None,
                revoked_by: None,
                last_opened_ms: None,
                state: ShareState::Active,
            };
            let row = ShareRow {
                share,
                token_hash: None,
                names_key: None,
            };
            store.write_derived_now(|writer| writer.make_share(&row))
        };
        make("shr_aaaaaaaaaa").unwrap();
        let refused = make("shr_bbbbbbbbbb").unwrap_err();
        let expected = "10000 links open already: revoke some that nobody needs";
        assert_eq!(refused.to_string(), expected);
        let revoke = |writer: &mut Writer| writer.revoke_shares_of("bo", "ada", 11);
        assert_eq!(store.write_derived_now(revoke).unwrap(), 1);
        make("shr_bbbbbbbbbb").unwrap();
    }
}
