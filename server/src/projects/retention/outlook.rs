//! What holds runs, and what a rule would delete, for those who look for room on the disk.

use super::{Thing, candidates, plan, things};
use crate::store::{Reader, StoreResult};
use api::ids::RunId;
use api::projects::{Keep, WhyKept};
use std::collections::{BTreeSet, HashMap};

/// What holds runs, and what a rule would delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// All for which a run stays, whatever its age; of a rank, also what holds others of its job.
    pub held: HashMap<RunId, BTreeSet<WhyKept>>,
    /// The runs that the rule would delete; none without a rule.
    pub going: Vec<RunId>,
}

/// What holds the runs of a project now, and what its rule would delete.
///
/// # Errors
/// The database's.
pub fn outlook(reader: &Reader, keep: Option<&Keep>, now_ms: i64) -> StoreResult<Outlook> {
    let usual = Keep {
        pull_request_days: Some(Keep::PULL_REQUEST_DAYS),
        ..Keep::default()
    };
    let (runs, holders) = candidates(reader, keep.unwrap_or(&usual), now_ms)?;
    let mut outlook = Outlook::default();
    for Thing { runs, .. } in things(&runs) {
        let holding = runs.iter().flat_map(|run| holders.holding(run));
        let holding: BTreeSet<WhyKept> = holding.collect();
        for run in runs.iter().filter(|_| !holding.is_empty()) {
            let held = outlook.held.entry(run.run.clone()).or_default();
            held.extend(&holding);
        }
    }
    if let Some(keep) = keep {
        let going = plan(&runs, &holders, keep).runs.into_iter();
        outlook.going = going.map(|going| going.run).collect();
    }
    Ok(outlook)
}
