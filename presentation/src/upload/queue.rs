//! The queue of uploads: whose turn it is, in which order they are shown, what is said of all.

use super::item::{self, Item, LocalId, LocalJob, State};
use ::timeline::format;
use api::ids::RunId;
use api::problem::ProblemCode;

/// The first one whose turn has not come.
pub fn next_waiting(items: &[Item]) -> Option<LocalId> {
    let waiting = items.iter().find(|item| item.state == State::Waiting);
    waiting.map(|item| item.id)
}

/// Whether the turn of a rank of this job has not come. It may be an archive: then only its files
/// tell what is a job with what.
pub fn waits_for_ranks(items: &[Item], job: LocalJob) -> bool {
    let mut ranks = items.iter().filter(|item| item.is_of(job));
    ranks.any(|item| item.state == State::Waiting)
}

/// The state of a job's ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobProgress {
    /// Which job.
    pub job: LocalJob,
    /// Ranks.
    pub ranks: usize,
    /// How many of them are finished.
    pub done: usize,
    /// Whether none is running or waiting.
    pub is_over: bool,
    /// Percent of all bytes that have arrived.
    pub percent: u8,
}

/// How a job stands; `None` without such a job.
pub fn progress_of(items: &[Item], job: LocalJob) -> Option<JobProgress> {
    let ranks = || items.iter().filter(|item| item.is_of(job));
    let done = || ranks().filter(|item| matches!(item.state, State::Done(..)));
    let part = |item: &Item| item.size * u64::from(item.percent().unwrap_or(0)) / 100;
    let total: u64 = ranks().map(|item| item.size).sum();
    (ranks().count() > 0).then(|| JobProgress {
        job,
        ranks: ranks().count(),
        done: done().count(),
        is_over: ranks().all(|item| item.state.is_final()),
        percent: format::percent(ranks().map(part).sum(), total.max(1)),
    })
}

/// How many finished uploads come before those that failed.
const DONE_FIRST: usize = 2;

/// A line of the list of uploads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// A job, all of its ranks together.
    Job(LocalJob),
    /// A file.
    File(LocalId),
}

/// Jobs come first. Then, in this order: failures, running uploads, waiting ones, finished ones. Of
/// a job's files, only failed and running ones have lines of their own. Failures are long, so the
/// files that were finished last stand above them: there is something to open.
pub fn display_order(items: &[Item]) -> Vec<Line> {
    let mut order = Vec::new();
    for (job, _) in items.iter().filter_map(|item| item.in_job) {
        if !order.contains(&Line::Job(job)) {
            order.push(Line::Job(job));
        }
    }
    let is_done = |item: &&Item| matches!(item.state, State::Done(..)) && item.in_job.is_none();
    let has_failed = |item: &Item| matches!(item.state, State::Failed(_));
    let above = items.iter().any(has_failed).then_some(DONE_FIRST);
    let newest = items.iter().rev().filter(is_done).take(above.unwrap_or(0));
    let newest: Vec<LocalId> = newest.map(|item| item.id).collect();
    order.extend(newest.iter().rev().map(|&id| Line::File(id)));
    for rank in 0..4 {
        let of_rank = |item: &&Item| match item.state {
            State::Failed(_) => rank == 0,
            State::Running(_) | State::Unpacking => rank == 1,
            State::Waiting => rank == 2 && item.in_job.is_none(),
            State::Cancelled | State::Done(..) => rank == 3 && item.in_job.is_none(),
        };
        let of_rank = items.iter().filter(of_rank);
        let others = of_rank.filter(|item| !newest.contains(&item.id));
        order.extend(others.map(|item| Line::File(item.id)));
    }
    order
}

/// The runs to compare when nothing is under way any more: those of two files or more, in the order
/// in which they were chosen. Empty if a comparison is not what comes next.
pub fn comparable(items: &[Item]) -> Vec<RunId> {
    let alone = items.iter().filter(|item| item.in_job.is_none());
    let mut runs: Vec<RunId> = Vec::new();
    for run in alone.filter_map(|item| item::done_run(&item.state)) {
        if !runs.contains(&run) {
            runs.push(run);
        }
    }
    let fits = api::compare::RUNS.contains(&runs.len());
    match fits && !is_busy(items) {
        true => runs,
        false => Vec::new(),
    }
}

/// Whether only the head of the list is shown from now on. `newest` is the newest file before and
/// now: of more files, one wants to see what becomes of them. With another page, one reads that.
pub fn folds(
    folded: bool,
    (known, newest): (Option<LocalId>, Option<LocalId>),
    is_other_page: bool,
) -> bool {
    match newest > known {
        true => false,
        false => folded || is_other_page,
    }
}

/// Files that were not taken because the session had ended. They are sent again after signing in.
pub fn not_let_in(items: &[Item]) -> Vec<LocalId> {
    let is_it = |item: &&Item| match &item.state {
        State::Failed(problem) => problem.code == ProblemCode::Unauthorized,
        _ => false,
    };
    items.iter().filter(is_it).map(|item| item.id).collect()
}

/// Files that did not arrive because the server did not answer. They are sent again once it does.
pub fn not_answered(items: &[Item]) -> Vec<LocalId> {
    let waiting = items.iter().filter(|item| item.waits_for_server());
    waiting.map(|item| item.id).collect()
}

/// Whether leaving the page would lose files that were chosen.
pub fn would_be_lost(items: &[Item]) -> bool {
    is_busy(items) || !not_let_in(items).is_empty() || !not_answered(items).is_empty()
}

/// Whether files are under way.
pub fn is_busy(items: &[Item]) -> bool {
    items.iter().any(|item| !item.state.is_final())
}

/// One sentence about all uploads, for the head of the list and for screen readers.
pub fn headline(items: &[Item]) -> String {
    let failed = items
        .iter()
        .filter(|i| matches!(i.state, State::Failed(_)))
        .count();
    let done = items
        .iter()
        .filter(|i| matches!(i.state, State::Done(..)))
        .count();
    let open = items.iter().filter(|i| !i.state.is_final()).count();
    if open == 0 && items.iter().any(Item::waits_for_server) {
        return "Waiting for the server".to_owned();
    }
    match (open, failed) {
        (0, 0) if done == 0 => "Cancelled".to_owned(),
        (0, 0) => format::plural(done as u64, "file") + " done",
        (0, 1) if items.len() == 1 => "The file failed".to_owned(),
        (0, _) => format!(
            "{failed} of {} failed",
            format::plural(items.len() as u64, "file")
        ),
        (1, _) if items.len() == 1 => "Reading".to_owned(),
        _ => format!("Reading {} of {}", (items.len() - open + 1), items.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::tests::{done, failed, item};
    use super::super::item::{Change, Novelty};
    use super::*;
    use crate::response::unreachable;
    use ::timeline::format::UnixMillis;
    use api::problem::Problem;
    use trace::ranks::Rank;

    #[test]
    fn a_cancelled_file_is_not_sent() {
        let mut items = vec![
            item(),
            Item {
                id: LocalId(1),
                ..item()
            },
        ];
        assert_eq!(next_waiting(&items), Some(LocalId(0)));
        items[0].on(Change::Cancelled);
        assert_eq!(next_waiting(&items), Some(LocalId(1)));
        assert!(is_busy(&items));
        items[1].on(done());
        assert_eq!(next_waiting(&items), None);
        assert!(!is_busy(&items));
    }

    #[test]
    fn the_list_folds_where_one_reads_and_unfolds_for_more_files() {
        let check = |folded, newest: (Option<u32>, Option<u32>), other_page, expected| {
            let newest = (newest.0.map(LocalId), newest.1.map(LocalId));
            let found = folds(folded, newest, other_page);
            assert_eq!(found, expected, "{folded} {newest:?} {other_page}");
        };
        check(false, (Some(1), Some(1)), false, false);
        check(false, (Some(1), Some(1)), true, true);
        check(true, (Some(1), Some(1)), false, true);
        check(true, (Some(1), Some(2)), false, false);
        // Dropped on a link: both at once.
        check(false, (None, Some(0)), true, false);
        // The files of an archive stand in its place, and a list that was emptied is no news.
        check(true, (Some(3), None), false, true);
    }

    #[test]
    fn failures_come_before_the_rest_but_there_is_something_to_open() {
        let mut items: Vec<Item> = (0..5)
            .map(|n| Item {
                id: LocalId(n),
                ..item()
            })
            .collect();
        items[0].on(done());
        items[2].on(Change::Started(UnixMillis(0)));
        items[4].on(failed());
        assert_eq!(
            display_order(&items),
            [0, 4, 2, 1, 3].map(LocalId).map(Line::File)
        );
        items[1].on(done());
        items[3].on(done());
        assert_eq!(
            display_order(&items),
            [1, 3, 4, 2, 0].map(LocalId).map(Line::File),
            "only the newest"
        );
        items.remove(4);
        assert_eq!(
            display_order(&items),
            [2, 0, 1, 3].map(LocalId).map(Line::File),
            "nothing failed"
        );
    }

    #[test]
    fn a_job_has_one_progress_and_lines_for_what_needs_attention() {
        let job = LocalJob(0);
        let mut items: Vec<Item> = (0..4)
            .map(|n| Item {
                id: LocalId(n),
                size: 100,
                in_job: Some((job, Rank(n))),
                ..item()
            })
            .collect();
        let told = |items: &[Item]| progress_of(items, job).unwrap();
        assert_eq!((told(&items).percent, told(&items).is_over), (0, false));
        assert_eq!(display_order(&items), [Line::Job(job)]);
        items[0].on(done());
        items[1].on(Change::Started(UnixMillis(0)));
        items[2].on(failed());
        assert_eq!((told(&items).done, told(&items).percent), (1, 25));
        let [failed, running] = [2, 1].map(LocalId).map(Line::File);
        assert_eq!(display_order(&items), [Line::Job(job), failed, running]);
        items[1].on(done());
        items[3].on(Change::Cancelled);
        assert_eq!((told(&items).done, told(&items).is_over), (2, true));
        assert_eq!(progress_of(&items, LocalJob(1)), None);
    }

    #[test]
    fn files_that_are_done_can_be_compared() {
        let finished = |run: &str| Change::Finished(run.parse().unwrap(), Novelty::New);
        let mut items = vec![item(), item(), item()];
        items[0].on(finished("run_a"));
        assert_eq!(comparable(&items), [], "two are under way");
        items[1].on(failed());
        items[2].on(finished("run_a"));
        assert_eq!(comparable(&items), [], "twice the same bytes");
        items[2] = item();
        items[2].on(finished("run_b"));
        let runs: Vec<RunId> = ["run_a", "run_b"].map(|run| run.parse().unwrap()).into();
        assert_eq!(comparable(&items), runs);
        items[0].in_job = Some((LocalJob(0), Rank(0)));
        assert_eq!(comparable(&items), [], "ranks are compared as a job");
    }

    #[test]
    fn files_wait_for_whoever_signs_in_again() {
        let mut items = vec![item(), item()];
        items[0].on(failed());
        items[1].on(done());
        assert_eq!((not_let_in(&items), would_be_lost(&items)), (vec![], false));
        items[0].on(Change::Retried);
        items[0].on(Change::Failed(Problem {
            code: ProblemCode::Unauthorized,
            status: 401,
            title: String::new(),
            detail: String::new(),
            offset: None,
        }));
        let waiting = vec![items[0].id];
        assert_eq!((not_let_in(&items), would_be_lost(&items)), (waiting, true));
        assert!(!is_busy(&items));
    }

    #[test]
    fn files_wait_for_a_server_that_is_gone_but_not_for_one_that_they_end() {
        let mut items = vec![item(), item()];
        items[0].on(failed());
        items[1].on(Change::Failed(unreachable()));
        let waiting = vec![items[1].id];
        assert_eq!(not_answered(&items), waiting);
        assert!(would_be_lost(&items));
        assert_eq!(headline(&items), "Waiting for the server");
        let told = items[1].why().unwrap();
        assert_eq!(told, "It is sent again as soon as the server answers.");
        items
            .iter_mut()
            .for_each(|item| item.on(Change::ServerBack));
        assert_eq!(items[1].state, State::Waiting);
        assert!(matches!(items[0].state, State::Failed(_)), "it would again");
        items[1].on(Change::Failed(unreachable()));
        assert_eq!(
            (not_answered(&items), would_be_lost(&items)),
            (vec![], false)
        );
        assert_eq!(headline(&items), "2 of 2 files failed");
        items[1].on(Change::Retried);
        items[1].on(Change::Failed(unreachable()));
        assert_eq!(not_answered(&items), waiting, "somebody wants it");
    }

    #[test]
    fn archives_of_ranks_wait_for_each_other() {
        let job = LocalJob(0);
        let rank = |n| Item {
            id: LocalId(n),
            in_job: Some((job, Rank(n))),
            ..item()
        };
        let mut items = vec![rank(0), item(), rank(1)];
        items[0].on(Change::Unpacking);
        assert!(waits_for_ranks(&items, job));
        items[2].on(Change::Unpacking);
        assert!(!waits_for_ranks(&items, job), "other files do not matter");
        items[2].on(failed());
        assert!(!waits_for_ranks(&items, job));
        items[2].on(Change::Retried);
        assert!(waits_for_ranks(&items, job));
    }

    #[test]
    fn the_headline_counts() {
        let mut items = vec![item()];
        assert_eq!(headline(&items), "Reading");
        items.push(Item {
            id: LocalId(1),
            ..item()
        });
        items[0].on(done());
        assert_eq!(headline(&items), "Reading 2 of 2");
        items[1].on(failed());
        assert_eq!(headline(&items), "1 of 2 files failed");
        items[1].on(Change::Retried);
        items[1].on(done());
        assert_eq!(headline(&items), "2 files done");
        let mut cancelled = item();
        cancelled.on(Change::Cancelled);
        assert_eq!(headline(&[cancelled]), "Cancelled");
    }
}
