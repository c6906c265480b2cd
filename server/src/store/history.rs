//! The runs of a history: of each job, the one rank that stands for it.

use super::rows::corrupt;
use super::runs::{LABELLED, Selected, StoredRun};
use super::{Reader, StoreResult};
use api::ids::RunId;
use api::labels::Label;
use rusqlite::named_params;
use std::collections::{BTreeSet, HashSet};
use trace::device::DeviceIdx;

/// Of the jobs that a run is a rank of, the newest: the run counts in this one.
const JOB: &str = "(SELECT j.job FROM job_ranks j JOIN jobs ON jobs.id = j.job \
                   WHERE j.run = runs.id AND jobs.same_as IS NULL AND jobs.deleted_ms IS NULL \
                   ORDER BY jobs.created_ms DESC, jobs.id DESC LIMIT 1)";

/// Two parts of a history have so many runs in common: a change at their border has runs on both
/// sides in one of them.
const SHARED: usize = 10;

/// A part of a history.
#[derive(Clone, Debug)]
pub struct HistoryPart {
    /// Its runs, newest first. A job is one of them.
    pub runs: Vec<StoredRun>,
    /// The run before which the next older part is, if there are older runs.
    pub older: Option<RunId>,
}

/// Which runs are looked for: a condition, and the text that it compares with.
struct Sought {
    condition: &'static str,
    wanted: String,
}

impl Sought {
    fn labelled(labels: &[Label]) -> Sought {
        let wanted: BTreeSet<_> = labels.iter().map(|l| (&l.key, &l.value)).collect();
        Sought {
            wanted: serde_json::to_string(&((), &wanted)).expect("texts are plain data"),
            condition: match labels.is_empty() {
                true => ":wanted = :wanted",
                false => LABELLED,
            },
        }
    }
}

impl Reader<'_> {
    /// The newest runs with all of these labels, newest first, at most `most`; of those that are
    /// older than `before`, if it is given. A job of which a rank has the labels counts as one run,
    /// however many ranks it has: the one of them with the highest peak stands for it, among equal
    /// ones the lowest rank.
    ///
    /// # Errors
    /// [`StoreError::NotFound`](super::StoreError::NotFound), if there is no run `before`.
    pub fn history(
        &self,
        labels: &[Label],
        before: Option<&RunId>,
        most: usize,
    ) -> StoreResult<HistoryPart> {
        let before = before.map(|run| self.run(run)).transpose()?;
        // Runs are listed in this order, a job at the place of its newest run.
        let is_older = |created_ms: i64, id: &str| match &before {
            None => true,
            Some(run) if created_ms == run.created_ms => id > run.id.as_str(),
            Some(run) => created_ms < run.created_ms,
        };
        let Sought { condition, wanted } = Sought::labelled(labels);
        let sql = format!(
            "SELECT id, created_ms, {JOB} AS in_job FROM runs \
             WHERE deleted_ms IS NULL AND {condition} ORDER BY created_ms DESC, id"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": wanted })?;
        // The runs that are shown; for each, the one at whose place it is; and the jobs so far.
        let (mut shown, mut places): (Vec<String>, Vec<String>) = Default::default();
        let mut jobs: HashSet<String> = HashSet::new();
        let mut older = None;
        while let Some(row) = rows.next()? {
            let (id, job): (String, Option<String>) = (row.get("id")?, row.get("in_job")?);
            let is_seen = (job.as_ref()).is_some_and(|job| !jobs.insert(job.clone()));
            if is_seen || !is_older(row.get("created_ms")?, &id) {
                continue;
            }
            if shown.len() == most {
                let shared = SHARED.min(places.len() / 2);
                older = places.into_iter().rev().nth(shared);
                break;
            }
            let run = match job {
                None => Some(id.clone()),
                Some(job) => self.highest_rank(&job)?,
            };
            if let Some(run) = run.filter(|run| !shown.contains(run)) {
                shown.push(run);
                places.push(id);
            }
        }
        let shown = serde_json::to_string(&shown).expect("texts are plain data");
        Ok(HistoryPart {
            runs: self.runs_where(Selected {
                condition: "id IN (SELECT value FROM json_each(:wanted))",
                wanted: Some(&shown),
            })?,
            older: older.map(|id| run_id(&id)).transpose()?,
        })
    }

    /// How many runs a history has in all; a job counts as one.
    pub fn history_length(&self, labels: &[Label]) -> StoreResult<u32> {
        let Sought { condition, wanted } = Sought::labelled(labels);
        let sql = format!(
            "SELECT count(DISTINCT coalesce({JOB}, id)) FROM runs \
             WHERE deleted_ms IS NULL AND {condition}"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        Ok(statement.query_row(named_params! { ":wanted": wanted }, |row| row.get(0))?)
    }

    /// The labels of all runs of a history, and how many runs have each. A job has those of its
    /// ranks, and counts as one.
    pub fn history_labels(&self, labels: &[Label]) -> StoreResult<Vec<(Label, u32)>> {
        let Sought { condition, wanted } = Sought::labelled(labels);
        let sql = format!(
            "WITH moments AS MATERIALIZED (SELECT id AS run, coalesce({JOB}, id) AS moment \
                 FROM runs WHERE deleted_ms IS NULL AND {condition}) \
             SELECT labels.key AS key, labels.value AS value, \
             count(DISTINCT moments.moment) AS n \
             FROM moments JOIN labels ON labels.run = moments.run \
             GROUP BY labels.key, labels.value ORDER BY n DESC, labels.key, labels.value"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":wanted": wanted })?;
        let mut counted = Vec::new();
        while let Some(row) = rows.next()? {
            let (key, value): (String, String) = (row.get("key")?, row.get("value")?);
            if let Ok(label) = Label::new(&key, &value) {
                counted.push((label, row.get("n")?));
            }
        }
        Ok(counted)
    }

    /// The rank that stands for a job in a history, whichever rank has the labels that were asked
    /// for, and also if the same recording is a rank of a newer job: what is pushed later changes
    /// no number of a job.
    fn highest_rank(&self, job: &str) -> StoreResult<Option<String>> {
        let pinned = DeviceIdx::PINNED;
        let sql = format!(
            "SELECT id, rank, (SELECT max(peak_bytes) FROM series WHERE series.run = id \
                 AND series = 'allocated' AND device <> {pinned}) AS peak \
             FROM job_ranks JOIN runs ON runs.id = job_ranks.run WHERE job_ranks.job = :job \
             AND deleted_ms IS NULL ORDER BY peak DESC, rank LIMIT 1"
        );
        let mut statement = self.tx.prepare_cached(&sql)?;
        let mut rows = statement.query(named_params! { ":job": job })?;
        Ok(match rows.next()? {
            Some(row) => Some(row.get("id")?),
            None => None,
        })
    }
}

fn run_id(id: &str) -> StoreResult<RunId> {
    id.parse().map_err(|_| corrupt("run id", id))
}
