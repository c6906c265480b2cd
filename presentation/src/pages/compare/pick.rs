//! Runs picked in the list, for a comparison or to be deleted.

use api::compare::RUNS;
use api::ids::RunId;
use api::runs::RunSummary;
use std::collections::BTreeSet;
use timeline::format::count;

/// Picks a run, or unpicks it.
pub fn toggle(picked: &mut Vec<RunId>, run: &RunId) {
    match picked.iter().position(|other| other == run) {
        Some(at) => drop(picked.remove(at)),
        None => picked.push(run.clone()),
    }
}

/// Picks these runs, too.
pub fn add(picked: &mut Vec<RunId>, runs: Vec<RunId>) {
    let there: BTreeSet<RunId> = picked.iter().cloned().collect();
    picked.extend(runs.into_iter().filter(|run| !there.contains(run)));
}

/// What is picked of the runs that are there: others were deleted elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picks {
    /// In the order in which they were picked.
    pub runs: Vec<RunId>,
    /// What the first is called.
    baseline: String,
}

impl Picks {
    /// Those of `picked` that are among `runs`.
    pub fn of(picked: &[RunId], runs: &[RunSummary]) -> Picks {
        let there: BTreeSet<&RunId> = runs.iter().map(|run| &run.id).collect();
        let picked = picked.iter().filter(|run| there.contains(run));
        let picked: Vec<RunId> = picked.cloned().collect();
        let first = picked.first();
        let first = first.and_then(|first| runs.iter().find(|run| run.id == *first));
        Picks {
            baseline: first.map(RunSummary::called).unwrap_or_default(),
            runs: picked,
        }
    }

    /// How many are picked, and what they are compared with.
    pub fn told(&self) -> String {
        let picked = count(self.runs.len() as u64);
        match self.runs.len() <= *RUNS.end() {
            true => format!("{picked} picked; baseline: {}", self.baseline),
            false => format!("{picked} picked"),
        }
    }

    /// Why they cannot be compared.
    pub fn hint(&self) -> Option<String> {
        match self.runs.len() {
            n if n < *RUNS.start() => Some("pick one more to compare".to_owned()),
            n if n > *RUNS.end() => Some(format!("at most {} are compared", RUNS.end())),
            _ => None,
        }
    }

    /// Whether all of `found` are picked.
    pub fn has_all(&self, found: &[&RunSummary]) -> bool {
        let picked: BTreeSet<&RunId> = self.runs.iter().collect();
        found.iter().all(|run| picked.contains(&run.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::runs::example::{rank_of, run};

    fn runs(n: usize) -> Vec<RunSummary> {
        (1..=n).map(|at| run(&format!("r{at}"), 1, 1)).collect()
    }

    fn ids(runs: &[RunSummary]) -> Vec<RunId> {
        runs.iter().map(|run| run.id.clone()).collect()
    }

    #[test]
    fn the_baseline_is_named_where_there_is_one() {
        let all = runs(9);
        let told = |n: usize| Picks::of(&ids(&all[..n]), &all).told();
        assert_eq!(told(1), "1 picked; baseline: r1");
        assert_eq!(told(8), "8 picked; baseline: r1");
        assert_eq!(told(9), "9 picked");
        let rank = [rank_of("pretrain", 7, "rank7.pickle")];
        let told = Picks::of(&ids(&rank), &rank).told();
        assert_eq!(told, "1 picked; baseline: pretrain, rank 7");
    }

    #[test]
    fn what_cannot_be_compared_says_why() {
        let all = runs(9);
        let hint = |n: usize| Picks::of(&ids(&all[..n]), &all).hint();
        assert_eq!(hint(1).as_deref(), Some("pick one more to compare"));
        assert_eq!((hint(2), hint(8)), (None, None));
        assert_eq!(hint(9).as_deref(), Some("at most 8 are compared"));
    }

    #[test]
    fn what_was_deleted_elsewhere_is_picked_no_longer() {
        let all = runs(4);
        let picks = Picks::of(&ids(&all), &all[1..]);
        assert_eq!(picks.runs, ids(&all[1..]));
        assert_eq!(picks.told(), "3 picked; baseline: r2");
        assert_eq!(Picks::of(&ids(&all), &[]), Picks::default());
    }

    #[test]
    fn all_are_picked_once_and_after_those_that_are_picked() {
        let all = runs(4);
        let found: Vec<&RunSummary> = all.iter().collect();
        let mut picked = Vec::new();
        toggle(&mut picked, &all[2].id);
        assert!(!Picks::of(&picked, &all).has_all(&found));
        add(&mut picked, ids(&all));
        let order = [2, 0, 1, 3].map(|at: usize| all[at].id.clone());
        assert_eq!(picked, order);
        assert!(Picks::of(&picked, &all).has_all(&found));
        toggle(&mut picked, &all[2].id);
        assert_eq!(picked, order[1..]);
    }
}
