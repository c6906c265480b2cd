//! What is said while several runs are deleted, and after.

use ::timeline::format::{count, plural};
use api::runs::RunSummary;

/// Most runs that are named; the others are counted.
const NAMED: usize = 2;

/// How far a deletion of several runs has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How many were answered.
    pub done: usize,
    /// How many there are.
    pub of: usize,
}

impl Progress {
    /// `Deleting 13 of 300 runs`: the one that is under way.
    pub fn told(self) -> String {
        let at = count((self.done + 1).min(self.of) as u64);
        format!("Deleting {at} of {}", plural(self.of as u64, "run"))
    }
}

/// That these runs are deleted. None are, if somebody else had deleted each of them.
pub fn deleted(runs: &[RunSummary]) -> String {
    match runs {
        [] => "They were deleted already".to_owned(),
        [only] => format!("Deleted “{}”", only.called()),
        several => format!("Deleted {}", plural(several.len() as u64, "run")),
    }
}

/// Which runs are not deleted: a sentence's beginning, before the reason.
pub fn not_deleted(runs: &[RunSummary]) -> String {
    if let [only] = runs {
        return format!("“{}” is not deleted", only.called());
    }
    let named = runs.iter().take(NAMED);
    let mut named: Vec<String> = named.map(|run| format!("“{}”", run.called())).collect();
    if let Some(more) = runs.len().checked_sub(NAMED).filter(|more| *more > 0) {
        named.push(format!("{} more", count(more as u64)));
    }
    let which = match named.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => [&others.join(", "), " and ", last].concat(),
        None => String::new(),
    };
    let runs = plural(runs.len() as u64, "run");
    format!("{runs} are not deleted ({which})")
}

/// How many of several runs are not restored: a sentence's beginning, before the reason.
pub fn not_restored(failed: usize, of: usize) -> String {
    match of {
        1 => "Not restored".to_owned(),
        _ => {
            let all = plural(of as u64, "run");
            format!("{} of {all} are not restored", count(failed as u64))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::run;
    use super::*;

    fn runs(n: usize) -> Vec<RunSummary> {
        (1..=n).map(|at| run(&format!("r{at}"), 1, 1)).collect()
    }

    #[test]
    fn what_is_deleted_is_counted_or_named() {
        assert_eq!(deleted(&runs(0)), "They were deleted already");
        assert_eq!(deleted(&runs(1)), "Deleted “r1”");
        assert_eq!(deleted(&runs(1200)), "Deleted 1,200 runs");
    }

    #[test]
    fn what_is_not_deleted_is_named() {
        let check = |n, expected: &str| assert_eq!(not_deleted(&runs(n)), expected);
        check(1, "“r1” is not deleted");
        check(2, "2 runs are not deleted (“r1” and “r2”)");
        check(3, "3 runs are not deleted (“r1”, “r2” and 1 more)");
        check(300, "300 runs are not deleted (“r1”, “r2” and 298 more)");
    }

    #[test]
    fn the_run_that_is_under_way_is_counted() {
        let told = |done, of| Progress { done, of }.told();
        assert_eq!(told(0, 300), "Deleting 1 of 300 runs");
        assert_eq!(told(299, 300), "Deleting 300 of 300 runs");
        assert_eq!(told(300, 300), "Deleting 300 of 300 runs");
    }

    #[test]
    fn what_does_not_come_back_is_counted() {
        assert_eq!(not_restored(1, 1), "Not restored");
        assert_eq!(not_restored(3, 12), "3 of 12 runs are not restored");
    }
}
