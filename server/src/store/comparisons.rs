//! Comparisons that were recorded.

use super::rows::{Slice, corrupt};
use super::{Reader, StoreError, StoreResult, Writer};
use api::compare::{RUNS, RecordedComparison};
use api::ids::{ComparisonId, RunId};
use rusqlite::{Row, params};

/// The largest number of recorded comparisons.
const MOST_COMPARISONS: u32 = 20_000;

/// A pull request with recorded comparisons.
pub struct PullRow {
    /// Its URL.
    pub pr: String,
    /// Milliseconds since the epoch of the last push.
    pub last_ms: i64,
    /// How many pushes are recorded.
    pub pushes: u32,
}

impl Reader<'_> {
    /// Pull requests, the one with the latest push first.
    pub fn pulls(&self, Slice { offset, limit }: Slice) -> StoreResult<Vec<PullRow>> {
        let sql = "SELECT pr, max(created_ms), count(*) FROM comparisons WHERE pr IS NOT NULL \
                   GROUP BY pr ORDER BY max(created_ms) DESC, pr LIMIT ?1 OFFSET ?2";
        let mut statement = self.tx.prepare_cached(sql)?;
        let rows = statement.query_map([limit, offset], |row| {
            Ok(PullRow {
                pr: row.get(0)?,
                last_ms: row.get(1)?,
                pushes: row.get(2)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Recorded comparisons, newest first; only those of a pull request if one is named.
    pub fn comparisons(
        &self,
        pr: Option<&str>,
        Slice { offset, limit }: Slice,
    ) -> StoreResult<Vec<RecordedComparison>> {
        let sql = "SELECT id, name, pr, created_ms FROM comparisons \
                   WHERE ?1 IS NULL OR pr = ?1 ORDER BY created_ms DESC, id \
                   LIMIT ?2 OFFSET ?3";
        let mut statement = self.tx.prepare_cached(sql)?;
        let rows =
            statement.query_map(
                params![pr, limit, offset],
                |row| Ok(self.comparison_of(row)),
            )?;
        rows.map(|row| row?).collect()
    }

    /// Recorded comparisons of a damaged database: those that can be read, with all their runs.
    pub(super) fn readable_comparisons(&self) -> StoreResult<Vec<RecordedComparison>> {
        let sql = "SELECT id, name, pr, created_ms FROM comparisons";
        let mut statement = self.tx.prepare(sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Ok(Some(row)) = rows.next() {
            found.extend(self.comparison_of(row));
        }
        found.retain(|comparison| RUNS.contains(&comparison.runs.len()));
        Ok(found)
    }

    /// One recorded comparison.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn comparison(&self, id: &ComparisonId) -> StoreResult<RecordedComparison> {
        let sql = "SELECT id, name, pr, created_ms FROM comparisons WHERE id = ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let mut rows = statement.query([id.as_str()])?;
        match rows.next()? {
            Some(row) => self.comparison_of(row),
            None => Err(missing(id)),
        }
    }

    fn comparison_of(&self, row: &Row) -> StoreResult<RecordedComparison> {
        let id: String = row.get(0)?;
        let id: ComparisonId = id.parse().map_err(|_| corrupt("comparison id", &id))?;
        let sql = "SELECT run FROM comparison_runs WHERE comparison = ?1 ORDER BY position";
        let mut statement = self.tx.prepare_cached(sql)?;
        let runs = statement.query_map([id.as_str()], |row| row.get::<_, String>(0))?;
        let mut ids: Vec<RunId> = Vec::new();
        for run in runs {
            let run = run?;
            ids.push(run.parse().map_err(|_| corrupt("run id", &run))?);
        }
        Ok(RecordedComparison {
            id,
            name: row.get(1)?,
            runs: ids,
            pr: row.get(2)?,
            created_ms: row.get(3)?,
        })
    }
}

impl Writer<'_> {
    /// Records a comparison. One that is already recorded keeps its date, and gets the new name if
    /// it `renames`.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if there are too many.
    pub fn record_comparison(
        &mut self,
        comparison: &RecordedComparison,
        renames: bool,
    ) -> StoreResult<()> {
        let sql = "INSERT INTO comparisons (id, name, pr, created_ms) VALUES (?1, ?2, ?3, ?4) \
                   ON CONFLICT (id) DO UPDATE SET name = CASE WHEN ?5 THEN excluded.name \
                   ELSE comparisons.name END";
        self.tx.execute(
            sql,
            params![
                comparison.id.as_str(),
                comparison.name,
                comparison.pr,
                comparison.created_ms,
                renames
            ],
        )?;
        let count = "SELECT count(*) FROM comparisons";
        let count: u32 = self.tx.query_row(count, [], |row| row.get(0))?;
        if count > MOST_COMPARISONS {
            return Err(StoreError::Conflict(format!(
                "there are {MOST_COMPARISONS} recorded comparisons, the most that are kept: \
                 delete some first (DELETE /api/comparisons/ID)"
            )));
        }
        for (position, run) in comparison.runs.iter().enumerate() {
            self.tx.execute(
                "INSERT OR IGNORE INTO comparison_runs (comparison, position, run) \
                 VALUES (?1, ?2, ?3)",
                params![comparison.id.as_str(), position as u32, run.as_str()],
            )?;
        }
        Ok(())
    }

    /// Deletes a comparison; its runs stay.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub fn forget_comparison(&mut self, id: &ComparisonId) -> StoreResult<()> {
        let sql = "DELETE FROM comparisons WHERE id = ?1";
        match self.tx.execute(sql, [id.as_str()])? {
            0 => Err(missing(id)),
            _ => Ok(()),
        }
    }
}

fn missing(id: &ComparisonId) -> StoreError {
    StoreError::NotFound {
        what: "comparison",
        id: id.to_string(),
    }
}
