//! The table of runs: which part of a long list it shows, and where keys lead.

use super::list_state::ListState;
use ::timeline::format::{count, plural};
use api::ids::RunId;
use api::runs::RunSummary;
use trace::units::Bytes;

/// Most rows at a time. Each is some 25 elements, and a letter in the filter may change them all:
/// of all the runs of a large store, a browser takes seconds for each key.
pub const ROWS: usize = 50;

/// What the table shows of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The runs in its rows, in order.
    pub rows: Vec<RunId>,
    /// How many that the filter finds come before them.
    pub skipped: usize,
    /// How many the filter finds.
    pub found: usize,
    /// How many there are.
    pub all: usize,
    /// The largest peak that the filter finds.
    pub largest: Bytes,
    /// Whether some that the filter finds have labels.
    pub are_labelled: bool,
    /// Whether some that the filter finds are of a job.
    pub are_of_jobs: bool,
}

/// Where an arrow key leads from a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// To a row of this part.
    Row(u32),
    /// To a row of the part that begins after so many runs.
    Part(usize, u32),
}

impl Part {
    /// What is shown of these runs. A part that has become empty gives way to the last one.
    pub fn of(runs: &[RunSummary], state: &ListState) -> Part {
        let found = state.arrange(runs);
        let last = found.len().saturating_sub(1) / ROWS * ROWS;
        let skipped = state.skipped.min(last);
        let rows = found.iter().skip(skipped).take(ROWS);
        Part {
            rows: rows.map(|run| run.id.clone()).collect(),
            skipped,
            found: found.len(),
            all: runs.len(),
            largest: found
                .iter()
                .map(|run| run.peak_allocated)
                .max()
                .unwrap_or_default(),
            are_labelled: found.iter().any(|run| !run.labels.is_empty()),
            are_of_jobs: found.iter().any(|run| run.job.is_some()),
        }
    }

    /// Where the part begins that shows a run: the part that is shown now, if it does.
    pub fn with_run(runs: &[RunSummary], state: &ListState, id: &RunId) -> Option<usize> {
        let at = state.arrange(runs).iter().position(|run| run.id == *id)?;
        let shown = state.skipped..state.skipped + ROWS;
        Some(match shown.contains(&at) {
            true => state.skipped,
            false => at / ROWS * ROWS,
        })
    }

    /// Where the next part begins, if there is one.
    pub fn next(&self) -> Option<usize> {
        let next = self.skipped + self.rows.len();
        (next < self.found).then_some(next)
    }

    /// Where the part before it begins, if there is one.
    pub fn previous(&self) -> Option<usize> {
        (self.skipped > 0).then(|| self.skipped.saturating_sub(ROWS))
    }

    /// `51 to 100 of 10,000`, if it is not all.
    pub fn told(&self) -> Option<String> {
        let (from, to) = (self.skipped + 1, self.skipped + self.rows.len());
        let told = || format!("{} to {} of {}", text(from), text(to), text(self.found));
        (self.rows.len() < self.found).then(told)
    }

    /// `3 of 26 runs`. Until the whole list is read, there may be more.
    pub fn counted(&self, is_whole: bool) -> String {
        let all = plural(self.all as u64, "run");
        let more = if is_whole { "" } else { " so far" };
        match self.found == self.all {
            true => format!("{all}{more}"),
            false => format!("{} of {all}{more}", text(self.found)),
        }
    }

    /// The row after the n-th one; without one, the first.
    pub fn down(&self, row: Option<u32>) -> Move {
        let to = row.map_or(0, |row| row + 1);
        match self.next() {
            Some(next) if to as usize >= self.rows.len() => Move::Part(next, 0),
            _ => Move::Row(to),
        }
    }

    /// The row before the n-th one.
    pub fn up(&self, row: Option<u32>) -> Move {
        match (row.unwrap_or_default(), self.previous()) {
            (0, Some(previous)) => Move::Part(previous, u32::MAX),
            (row, _) => Move::Row(row.saturating_sub(1)),
        }
    }
}

fn text(n: usize) -> String {
    count(n as u64)
}

/// The run that an arrow leads to where nothing has the focus: the first, or the last.
pub fn first_run(key: &str, is_nowhere: bool) -> Option<u32> {
    match key {
        "ArrowDown" if is_nowhere => Some(0),
        "ArrowUp" if is_nowhere => Some(u32::MAX),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::run;
    use super::super::list_state::Column;
    use super::*;

    fn runs(n: i64) -> Vec<RunSummary> {
        let runs = 1..=n;
        runs.map(|at| run(&format!("r{at}"), at.unsigned_abs(), at))
            .collect()
    }

    fn part(runs: &[RunSummary], skipped: usize) -> Part {
        let state = ListState {
            skipped,
            ..ListState::default()
        };
        Part::of(runs, &state)
    }

    #[test]
    fn a_list_of_any_length_has_a_bounded_number_of_rows() {
        let many = runs(10_000);
        let first = part(&many, 0);
        assert_eq!(first.rows.len(), ROWS);
        assert_eq!(first.rows[0].as_str(), "run_r10000", "the newest");
        assert_eq!((first.found, first.largest), (10_000, Bytes(10_000)));
        assert_eq!((first.previous(), first.next()), (None, Some(ROWS)));
        assert_eq!(first.told().as_deref(), Some("1 to 50 of 10,000"));
        let last = part(&many, 9_950);
        assert_eq!(last.rows.last().map(RunId::as_str), Some("run_r1"));
        assert_eq!((last.previous(), last.next()), (Some(9_900), None));
    }

    #[test]
    fn parts_follow_each_other_without_a_gap() {
        let many = runs(120);
        let mut at = Some(0);
        let mut seen = Vec::new();
        while let Some(skipped) = at {
            let part = part(&many, skipped);
            seen.extend(part.rows.clone());
            at = part.next();
        }
        let newest_first: Vec<RunId> = many.iter().rev().map(|run| run.id.clone()).collect();
        assert_eq!(seen, newest_first);
    }

    #[test]
    fn a_short_list_is_shown_whole() {
        let few = part(&runs(50), 0);
        assert_eq!((few.rows.len(), few.told()), (50, None));
        assert_eq!((few.previous(), few.next()), (None, None));
        assert_eq!(part(&[], 100), Part::default());
    }

    #[test]
    fn a_part_that_has_become_empty_gives_way_to_the_last_one() {
        let left = runs(130);
        assert_eq!(part(&left, 9_900).skipped, 100);
        assert_eq!(part(&left[..50], 100).skipped, 0);
    }

    #[test]
    fn the_filter_finds_runs_of_all_parts_and_its_bars_are_as_long_everywhere() {
        let mut state = ListState {
            skipped: 200,
            ..ListState::default()
        };
        state.filter_by("r77".to_owned());
        let found = Part::of(&runs(1_000), &state);
        assert_eq!((found.found, found.all, found.skipped), (11, 1_000, 0));
        assert_eq!(found.largest, Bytes(779));
        assert_eq!(found.counted(true), "11 of 1,000 runs");
        let by_peak = ListState::default().clicked(Column::Peak);
        assert_eq!(
            Part::of(&runs(300), &by_peak).rows[0].as_str(),
            "run_r300",
            "all are sorted, not only those that are shown"
        );
    }

    #[test]
    fn a_count_says_that_more_may_come() {
        let first_page = part(&runs(1_000), 0);
        assert_eq!(first_page.counted(false), "1,000 runs so far");
        assert_eq!(first_page.counted(true), "1,000 runs");
        assert_eq!(part(&runs(1), 0).counted(true), "1 run");
    }

    #[test]
    fn arrows_go_on_in_the_part_before_and_after() {
        let many = runs(120);
        let (first, middle, last) = (part(&many, 0), part(&many, 50), part(&many, 100));
        assert_eq!(first.down(None), Move::Row(0));
        assert_eq!(first.down(Some(7)), Move::Row(8));
        assert_eq!(first.down(Some(49)), Move::Part(50, 0));
        assert_eq!(first.up(Some(0)), Move::Row(0));
        assert_eq!(middle.up(Some(1)), Move::Row(0));
        assert_eq!(middle.up(Some(0)), Move::Part(0, u32::MAX));
        assert_eq!(last.down(Some(19)), Move::Row(20), "the last stays");
    }

    #[test]
    fn arrows_lead_into_the_list_only_from_nowhere() {
        assert_eq!(first_run("ArrowDown", true), Some(0));
        assert_eq!(first_run("ArrowUp", true), Some(u32::MAX));
        assert_eq!(first_run("ArrowDown", false), None);
        assert_eq!(first_run("x", true), None);
    }
}
