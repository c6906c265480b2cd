//! What makes processes one training.

use super::super::rows::corrupt;
use super::super::{Reader, StoreResult, Writer};
use crate::live::trainings::{HEARD_MS, State};
use api::ids::LiveId;
use api::live::{LiveOutcome, LiveRun};
use rusqlite::params;

/// All processes of the training of `?1`.
pub(super) const RANKS: &str = "(id = ?1 OR job = (SELECT job FROM live WHERE id = ?1))";
/// What all processes of a training have in common. The key of one cannot be the id of another.
pub(super) const TRAINING: &str = "coalesce('job ' || job, id)";

const OUTCOMES: [(LiveOutcome, &str); 3] = [
    (LiveOutcome::Done, "done"),
    (LiveOutcome::Failed, "failed"),
    (LiveOutcome::OutOfMemory, "out_of_memory"),
];

/// The outcome of this name.
pub(super) fn outcome_of(name: Option<&str>) -> Option<LiveOutcome> {
    let mut known = OUTCOMES.into_iter();
    let found = known.find(|(_, known)| Some(*known) == name);
    found.map(|(outcome, _)| outcome)
}

/// The name of an outcome.
pub(super) fn outcome_name(outcome: LiveOutcome) -> Option<&'static str> {
    let mut known = OUTCOMES.into_iter();
    let found = known.find(|(known, _)| *known == outcome);
    found.map(|(_, name)| name)
}

impl Reader<'_> {
    /// How all processes stand, in the order of ranks. With a text, given in small letters, those
    /// of the trainings in whose name or labels (`key=value`) it is.
    pub fn live_states(&self, search: &str) -> StoreResult<Vec<State>> {
        // As they are stored, a label is `"key":"value"`.
        let sql = format!(
            "SELECT id, {TRAINING} AS training, outcome, created_ms, seen_ms FROM live \
             WHERE ?1 = '' OR {TRAINING} IN (SELECT {TRAINING} FROM live WHERE \
             instr(lower(name || ' ' || replace(labels, '\":\"', '=')), ?1) > 0) \
             ORDER BY rank, id"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query([search])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let id: String = row.get("id")?;
            let outcome: Option<String> = row.get("outcome")?;
            found.push(State {
                id: id.parse().map_err(|_| corrupt("a live id", &id))?,
                training: row.get("training")?,
                outcome: outcome_of(outcome.as_deref()),
                created_ms: row.get("created_ms")?,
                seen_ms: row.get("seen_ms")?,
            });
        }
        Ok(found)
    }

    /// Whether another process of its training runs, as far as anybody has heard.
    pub fn others_run(&self, id: &LiveId, now_ms: i64) -> StoreResult<bool> {
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM live WHERE {RANKS} AND id <> ?1 \
             AND outcome IS NULL AND seen_ms > ?2)"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let heard = params![id.as_str(), now_ms - HEARD_MS];
        Ok(statement.query_row(heard, |row| row.get(0))?)
    }

    /// How many processes its training has.
    pub fn count_live_ranks(&self, id: &LiveId) -> StoreResult<u32> {
        let sql = format!("SELECT count(*) FROM live WHERE {RANKS}");
        let mut statement = self.tx.prepare_cached(&sql)?;
        Ok(statement.query_row([id.as_str()], |row| row.get(0))?)
    }
}

impl Writer<'_> {
    /// Deletes a training: all its processes, and what they reported. Returns the one that was
    /// named.
    ///
    /// # Errors
    /// [`super::super::StoreError::NotFound`].
    pub fn delete_live(&mut self, id: &LiveId) -> StoreResult<LiveRun> {
        let run = self.reader().live(id)?;
        let sql = "DELETE FROM live WHERE id = ?1 OR job = ?2";
        self.tx.execute(sql, params![id.as_str(), run.job])?;
        Ok(run)
    }
}
