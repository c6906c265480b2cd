//! Views that somebody saved for the team.

use super::rows::corrupt;
use super::{Reader, StoreError, StoreResult, Writer};
use api::ids::ViewId;
use api::views::{MOST, View};
use rusqlite::{Row, params};

impl Reader<'_> {
    /// Saved views, by name.
    pub fn views(&self) -> StoreResult<Vec<View>> {
        let sql = "SELECT * FROM views ORDER BY name COLLATE NOCASE, id LIMIT ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([MOST as i64])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(view_of(row)?);
        }
        Ok(found)
    }

    /// A saved view, if there is one.
    pub fn view(&self, id: &ViewId) -> StoreResult<Option<View>> {
        let sql = "SELECT * FROM views WHERE id = ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([id.as_str()])?;
        rows.next()?.map(view_of).transpose()
    }
}

fn view_of(row: &Row) -> StoreResult<View> {
    let id: String = row.get("id")?;
    Ok(View {
        id: id.parse().map_err(|_| corrupt("a view's id", &id))?,
        name: row.get("name")?,
        path: row.get("path")?,
        created_ms: row.get("created_ms")?,
        created_by: row.get("created_by")?,
    })
}

impl Writer<'_> {
    /// Saves a view. One with the same name is replaced and keeps its id, which stands in addresses
    /// of its badge; that id is returned.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when there are too many.
    pub fn put_view(&mut self, view: &View) -> StoreResult<ViewId> {
        let id: String = self.tx.query_row(
            "INSERT INTO views (id, name, path, created_ms, created_by) \
             VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT (name) DO UPDATE SET name = ?2, path = ?3, created_ms = ?4, \
             created_by = ?5 RETURNING id",
            params![
                view.id.as_str(),
                view.name,
                view.path,
                view.created_ms,
                view.created_by
            ],
            |row| row.get(0),
        )?;
        let sql = "SELECT count(*) FROM views";
        let count: u32 = self.tx.query_row(sql, [], |row| row.get(0))?;
        match count as usize <= MOST {
            true => id.parse().map_err(|_| corrupt("a view's id", &id)),
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
