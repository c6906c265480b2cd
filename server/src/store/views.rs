//! Views that somebody saved for the team.

use super::rows::corrupt;
use super::{Reader, StoreError, StoreResult, Writer};
use api::ids::ViewId;
use api::views::{MOST, View};
use rusqlite::params;

impl Reader<'_> {
    /// Saved views, by name.
    pub fn views(&self) -> StoreResult<Vec<View>> {
        let sql = "SELECT id, name, path, created_ms, created_by FROM views \
                   ORDER BY name COLLATE NOCASE, id LIMIT ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([MOST as i64])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let id: String = row.get("id")?;
            found.push(View {
                id: id.parse().map_err(|_| corrupt("a view's id", &id))?,
                name: row.get("name")?,
                path: row.get("path")?,
                created_ms: row.get("created_ms")?,
                created_by: row.get("created_by")?,
            });
        }
        Ok(found)
    }
}

impl Writer<'_> {
    /// Saves a view; one with the same name is replaced.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when there are too many.
    pub fn put_view(&mut self, view: &View) -> StoreResult<()> {
        self.tx.execute(
            "INSERT OR REPLACE INTO views (id, name, path, created_ms, created_by) \
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                view.id.as_str(),
                view.name,
                view.path,
                view.created_ms,
                view.created_by
            ],
        )?;
        let sql = "SELECT count(*) FROM views";
        let count: u32 = self.tx.query_row(sql, [], |row| row.get(0))?;
        match count as usize <= MOST {
            true => Ok(()),
            false => Err(StoreError::Conflict(format!(
                "there are {MOST} views already"
            ))),
        }
    }

    /// Forgets a view.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn forget_view(&mut self, id: &ViewId) -> StoreResult<()> {
        let sql = "DELETE FROM views WHERE id = ?1";
        match self.tx.execute(sql, [id.as_str()])? {
            0 => Err(StoreError::NotFound {
                what: "view",
                id: id.as_str().to_owned(),
            }),
            _ => Ok(()),
        }
    }
}
