//! Which runs are compared: their order, and what is picked next.

use crate::letters::{lower, several};
use ::timeline::format::{count, doing};
use api::compare::RUNS;
use api::compare_view::CompareState;
use api::ids::RunId;
use api::leaks::LeakSummary;
use api::runs::RunSummary;

/// Changes the runs of a view. Window, row and device are reset, because they belonged to the old
/// runs.
pub fn with_runs(state: &CompareState, change: impl FnOnce(&mut Vec<RunId>)) -> CompareState {
    let mut runs = state.runs.clone();
    change(&mut runs);
    runs.truncate(*RUNS.end());
    CompareState {
        runs,
        pair: None,
        against: 1,
        window: None,
        selected: None,
        ..state.clone()
    }
}

/// Moves a run one place towards the front or the back.
pub fn moved(runs: &mut [RunId], at: usize, back: bool) {
    let other = if back { at + 1 } else { at.wrapping_sub(1) };
    if at < runs.len() && other < runs.len() {
        runs.swap(at, other);
    }
}

/// A longer list of runs to pick from gets a field that filters it.
pub const FILTERED_FROM: usize = 12;

/// So many runs are offered at a time. A part of its name finds any other.
pub const OFFERED: usize = 50;

/// Runs to pick from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The newest whose names have the words that are looked for.
    pub runs: Vec<RunSummary>,
    /// How many have them.
    pub found: usize,
    /// How many there are.
    pub all: usize,
}

impl Offer {
    /// Of the runs that are not chosen yet, those whose names have the words of a text.
    pub fn of(runs: &[RunSummary], chosen: &[RunId], text: &str) -> Offer {
        let words = lower(text);
        let others = || runs.iter().filter(|run| !chosen.contains(&run.id));
        let is_sought = |run: &&RunSummary| {
            // A rank is also found by the name of its file.
            let name = lower(&[&run.called(), " ", &run.name].concat());
            words.split_whitespace().all(|word| name.contains(word))
        };
        let found = others().filter(is_sought);
        Offer {
            runs: found.clone().take(OFFERED).cloned().collect(),
            found: found.count(),
            all: others().count(),
        }
    }

    /// That others are found too, if so.
    pub fn more(&self) -> Option<String> {
        let more = || format!("the newest {OFFERED} of {}", count(self.found as u64));
        (self.runs.len() < self.found).then(more)
    }
}

/// What is said of a run that can be picked: its peak, and how long it is where that is known.
pub fn facts(peak: &str, steps: u32, leaks: Option<&LeakSummary>) -> String {
    let holds = match (leaks.and_then(|leaks| leaks.recording.word()), steps) {
        (Some(pass), _) => pass.to_owned(),
        (None, 0) => return format!("peak {peak}"),
        (None, steps) => {
            let step = leaks.map_or("step", |leaks| &leaks.step);
            doing(u64::from(steps), step, &several(step))
        }
    };
    format!("peak {peak} · {holds}")
}

/// What to do next, if so many runs are chosen and so many others are there.
pub const fn next_pick(chosen: usize, others: usize) -> &'static str {
    match (chosen, others) {
        (0, 0) => {
            "There are no runs yet: it takes a snapshot from before the patch and one from after \
             it."
        }
        (0, _) => "Pick the baseline, then what to hold against it.",
        (_, 0) => "This is the only run: it takes another snapshot to hold against it.",
        _ => "Pick what to hold against the baseline.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::runs::example::{rank_of, run};
    use api::leaks::Verdict;
    use trace::device::DeviceIdx;
    use trace::steps::recording::Kind;
    use trace::units::Bytes;

    fn ids(names: &[&str]) -> Vec<RunId> {
        names
            .iter()
            .map(|name| format!("run_{name}").parse().unwrap())
            .collect()
    }

    #[test]
    fn of_many_runs_a_few_are_offered_and_any_is_found_by_its_name() {
        let runs: Vec<RunSummary> = (0..1_000)
            .map(|at| run(&format!("Train-{at:04}"), 1, -at))
            .collect();
        let chosen = [runs[0].id.clone()];
        let offered = Offer::of(&runs, &chosen, "");
        assert_eq!((offered.runs.len(), offered.all), (OFFERED, 999));
        assert_eq!(offered.runs[0].name, "Train-0001", "the newest");
        assert_eq!(offered.more().unwrap(), "the newest 50 of 999");
        let sought = Offer::of(&runs, &chosen, "777 tr");
        assert_eq!(
            (sought.runs[0].name.as_str(), sought.found),
            ("Train-0777", 1)
        );
        assert_eq!((sought.more(), sought.all), (None, 999));
        assert_eq!(Offer::of(&runs, &chosen, "0000").found, 0, "it is chosen");
    }

    #[test]
    fn a_rank_is_offered_by_its_job_and_by_its_file() {
        let runs = [rank_of("Pretrain-3", 7, "snapshot.pickle"), run("x", 1, 1)];
        for text in ["pretrain-3, rank 7", "snapshot"] {
            assert_eq!(Offer::of(&runs, &[], text).runs, runs[..1], "{text}");
        }
    }

    #[test]
    fn a_run_to_pick_says_how_long_it_is_where_that_is_known() {
        let leaks = |recording, step: &str| LeakSummary {
            device: DeviceIdx(0),
            recording,
            verdict: Verdict::Clean,
            reason: String::new(),
            bytes_per_step: Bytes::ZERO,
            step: step.to_owned(),
        };
        let told =
            |steps, recording, step: &str| facts("2.00 GiB", steps, Some(&leaks(recording, step)));
        assert_eq!(
            told(12, Kind::Loop, "request"),
            "peak 2.00 GiB · 12 requests"
        );
        assert_eq!(told(1, Kind::Loop, "step"), "peak 2.00 GiB · 1 step");
        assert_eq!(told(0, Kind::Unknown, "step"), "peak 2.00 GiB");
        let whole = told(1, Kind::WholeStep, "step");
        assert_eq!(whole, "peak 2.00 GiB · one whole step");
        assert_eq!(facts("2.00 GiB", 3, None), "peak 2.00 GiB · 3 steps");
    }

    #[test]
    fn only_without_runs_there_are_none() {
        let check = |chosen, others, begin: &str| {
            let next = next_pick(chosen, others);
            assert!(next.starts_with(begin), "{next}");
        };
        check(0, 0, "There are no runs yet");
        check(0, 3, "Pick the baseline");
        check(1, 0, "This is the only run");
        check(1, 2, "Pick what to hold");
    }

    #[test]
    fn changing_the_runs_lets_go_of_what_was_looked_at() {
        let state = CompareState {
            runs: ids(&["a", "b", "c"]),
            against: 2,
            window: Some((1.0, 2.0)),
            selected: Some("s1".to_owned()),
            search: "kept".to_owned(),
            ..CompareState::default()
        };
        let changed = with_runs(&state, |runs| runs[..=2].rotate_right(1));
        assert_eq!(changed.runs, ids(&["c", "a", "b"]));
        assert_eq!(
            (changed.against, changed.window, changed.selected),
            (1, None, None)
        );
        assert_eq!(changed.search, "kept");
    }

    #[test]
    fn runs_move_one_place_and_never_out_of_the_list() {
        let mut runs = ids(&["a", "b", "c"]);
        moved(&mut runs, 1, true);
        assert_eq!(runs, ids(&["a", "c", "b"]));
        moved(&mut runs, 2, true);
        moved(&mut runs, 0, false);
        assert_eq!(runs, ids(&["a", "c", "b"]));
    }
}
