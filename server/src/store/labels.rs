//! Labels of runs.

use super::runs::Selected;
use super::{Reader, StoreError, StoreResult, Writer};
use api::ids::{JobId, RunId};
use api::labels::{self, ChangeLabels, Labels};
use rusqlite::{named_params, params};
use std::collections::{BTreeSet, HashMap};

impl Reader<'_> {
    /// Labels of the runs that meet a condition.
    pub(super) fn labels_where(
        &self,
        selected: Selected<'_>,
    ) -> StoreResult<HashMap<String, Labels>> {
        let Selected { condition, .. } = selected;
        let sql = format!(
            "SELECT run, key, value FROM labels \
             WHERE run IN (SELECT id FROM runs WHERE {condition})"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": selected.wanted })?;
        let mut found: HashMap<String, Labels> = HashMap::new();
        while let Some(row) = rows.next()? {
            let labels = found.entry(row.get("run")?).or_default();
            labels.insert(row.get("key")?, row.get("value")?);
        }
        Ok(found)
    }

    /// The labels that most runs have, to choose from. A commit is of one run only, so it is not
    /// among them.
    pub fn used_labels(&self, most: u32) -> StoreResult<Vec<(String, String)>> {
        let sql = "SELECT key, value FROM labels WHERE key <> 'commit' \
                   GROUP BY key, value ORDER BY count(*) DESC, key, value LIMIT ?1";
        let mut statement = self.tx.prepare_cached(sql)?;
        let rows = statement.query_map([most], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Labels of a run, none where it is not there.
    pub fn labels(&self, run: &RunId) -> StoreResult<Labels> {
        let found = self.labels_where(Selected::one(run))?;
        Ok(found.into_values().next().unwrap_or_default())
    }
}

impl Writer<'_> {
    /// Changes labels of a run that is not deleted.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Deleted`]; [`StoreError::Conflict`] if the run would
    /// get too many labels.
    pub fn change_labels(&mut self, run: &RunId, change: &ChangeLabels) -> StoreResult<()> {
        self.reader().run_ref(run)?;
        for (key, value) in &change.labels {
            match value {
                Some(value) => self.tx.execute(
                    "INSERT OR REPLACE INTO labels (run, key, value) VALUES (?1, ?2, ?3)",
                    params![run.as_str(), key, value],
                )?,
                None => self.tx.execute(
                    "DELETE FROM labels WHERE run = ?1 AND key = ?2",
                    params![run.as_str(), key],
                )?,
            };
        }
        match self.reader().labels(run)?.len() {
            n if n <= labels::MOST => Ok(()),
            n => Err(StoreError::Conflict(format!(
                "a run has {} labels at most; this would make {n}",
                labels::MOST
            ))),
        }
    }

    /// Changes labels of all ranks of a job whose runs are not deleted.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if there is no rank, or a run would get too many labels.
    pub fn change_labels_of_job(&mut self, job: &JobId, change: &ChangeLabels) -> StoreResult<()> {
        let ranks = self.reader().ranks_of(job, 0)?.into_iter();
        // A run may be several ranks.
        let runs: BTreeSet<RunId> = ranks.map(|rank| rank.run).collect();
        if runs.is_empty() {
            let why = "a job has the labels of its ranks, and this one has no rank";
            return Err(StoreError::Conflict(why.to_owned()));
        }
        runs.iter()
            .try_for_each(|run| self.change_labels(run, change))
    }
}
