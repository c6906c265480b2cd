//! The runs of a history: of each job, the one rank that stands for it.

use super::runs::{LABELLED, Selected, StoredRun};
use super::{Reader, StoreResult};
use api::labels::Label;
use rusqlite::named_params;
use std::collections::{BTreeSet, HashSet};
use trace::device::DeviceIdx;

/// Of the jobs that a run is a rank of, the newest: the run counts in this one.
const JOB: &str = "(SELECT j.job FROM job_ranks j JOIN jobs ON jobs.id = j.job \
                   WHERE j.run = runs.id AND jobs.same_as IS NULL \
                   ORDER BY jobs.created_ms DESC, jobs.id DESC LIMIT 1)";

impl Reader<'_> {
    /// The newest runs with all of these labels, newest first, at most `most`. A job counts as one
    /// run, however many ranks it has: the one of them with the highest peak stands for it, among
    /// equal ones the lowest rank.
    pub fn history(&self, labels: &[Label], most: usize) -> StoreResult<Vec<StoredRun>> {
        let wanted: BTreeSet<_> = labels.iter().map(|l| (&l.key, &l.value)).collect();
        let wanted = serde_json::to_string(&((), &wanted)).expect("texts are plain data");
        let labelled = match labels.is_empty() {
            true => ":wanted = :wanted",
            false => LABELLED,
        };
        let sql = format!(
            "SELECT id, {JOB} AS in_job FROM runs WHERE deleted_ms IS NULL AND {labelled} \
             ORDER BY created_ms DESC, id"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": wanted })?;
        let (mut shown, mut jobs): (Vec<String>, HashSet<String>) = Default::default();
        while let Some(row) = rows.next()?
            && shown.len() < most
        {
            match row.get::<_, Option<String>>("in_job")? {
                None => shown.push(row.get("id")?),
                Some(job) if jobs.contains(&job) => {}
                Some(job) => {
                    let rank = self.highest_rank(&job, labelled, &wanted)?;
                    shown.extend(rank.filter(|rank| !shown.contains(rank)));
                    jobs.insert(job);
                }
            }
        }
        let shown = serde_json::to_string(&shown).expect("texts are plain data");
        self.runs_where(Selected {
            condition: "id IN (SELECT value FROM json_each(:wanted))",
            wanted: Some(&shown),
        })
    }

    /// The rank that stands for a job in a history, also if the same recording is a rank of a newer
    /// job: what is pushed later changes no number of a job.
    fn highest_rank(&self, job: &str, labelled: &str, wanted: &str) -> StoreResult<Option<String>> {
        let pinned = DeviceIdx::PINNED;
        let sql = format!(
            "SELECT id, rank, (SELECT max(peak_bytes) FROM series WHERE series.run = id \
                 AND series = 'allocated' AND device <> {pinned}) AS peak \
             FROM job_ranks JOIN runs ON runs.id = job_ranks.run WHERE job_ranks.job = :job \
             AND deleted_ms IS NULL AND {labelled} \
             ORDER BY peak DESC, rank LIMIT 1"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": wanted, ":job": job })?;
        Ok(match rows.next()? {
            Some(row) => Some(row.get("id")?),
            None => None,
        })
    }
}
