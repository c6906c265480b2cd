//! Trainings as lists show them: all processes of one are one row.

use api::ids::LiveId;
use api::live::{LiveOutcome, LiveProcesses};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

/// In lists, who was not heard of for so long stands with those that have ended. Longer than most
/// steps take: rows do not change places while somebody reads.
pub const HEARD_MS: i64 = 10 * 60_000;
/// A process that runs and has not reported for this long is called silent.
pub const SILENT_MS: i64 = 60_000;

/// A process, as far as a list needs it to know how its training stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Which.
    pub id: LiveId,
    /// What all processes of its training share.
    pub training: String,
    /// How it ended.
    pub outcome: Option<LiveOutcome>,
    /// When it began.
    pub created_ms: i64,
    /// When it was last heard of.
    pub seen_ms: i64,
}

impl State {
    /// Whether it runs, as far as anybody can tell.
    pub fn is_heard(&self, now_ms: i64) -> bool {
        self.outcome.is_none() && self.seen_ms > now_ms - HEARD_MS
    }

    fn is_failed(&self) -> bool {
        matches!(
            self.outcome,
            Some(LiveOutcome::Failed | LiveOutcome::OutOfMemory)
        )
    }

    /// How much it needs somebody, the most first.
    fn place(&self, is_warned: bool, now_ms: i64) -> u8 {
        match self.outcome {
            Some(LiveOutcome::Failed | LiveOutcome::OutOfMemory) => 0,
            None if now_ms - self.seen_ms > SILENT_MS => 1,
            None if is_warned => 2,
            None => 3,
            Some(LiveOutcome::Done) => 4,
        }
    }
}

/// A training, with all its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Training {
    /// The process that needs somebody most: it stands for the training.
    pub worst: LiveId,
    /// How its processes stand.
    pub processes: LiveProcesses,
    /// The place of `worst`.
    place: u8,
    created_ms: i64,
    seen_ms: i64,
}

impl Training {
    fn new(first: &State) -> Training {
        Training {
            worst: first.id.clone(),
            processes: LiveProcesses::default(),
            place: u8::MAX,
            created_ms: first.created_ms,
            seen_ms: first.seen_ms,
        }
    }

    fn add(&mut self, state: &State, is_warned: bool, now_ms: i64) {
        let of = &mut self.processes;
        of.all += 1;
        of.running += u32::from(state.is_heard(now_ms));
        of.silent += u32::from(state.outcome.is_none() && !state.is_heard(now_ms));
        of.failed += u32::from(state.is_failed());
        of.warned += u32::from(is_warned);
        self.created_ms = self.created_ms.min(state.created_ms);
        self.seen_ms = self.seen_ms.max(state.seen_ms);
        let place = state.place(is_warned, now_ms);
        if place < self.place {
            self.place = place;
            self.worst = state.id.clone();
        }
    }

    /// Those that run come first, and of these the ones that need somebody.
    fn order(&self) -> (bool, bool, Reverse<i64>) {
        let of = &self.processes;
        let runs = of.running > 0;
        let needs_somebody = runs && of.warned + of.failed > 0;
        // Where one stands does not change with each report.
        let at_ms = if runs { self.created_ms } else { self.seen_ms };
        (!needs_somebody, !runs, Reverse(at_ms))
    }
}

/// Trainings: those that run and need somebody, then the others that run, each the newest first;
/// then those that have ended or fell silent, the one heard of last first. `states` are in the
/// order of ranks.
pub fn folded(states: &[State], warned: &HashSet<LiveId>, now_ms: i64) -> Vec<Training> {
    let mut found: BTreeMap<&str, Training> = BTreeMap::new();
    for state in states {
        let training = found.entry(&state.training);
        let training = training.or_insert_with(|| Training::new(state));
        training.add(state, warned.contains(&state.id), now_ms);
    }
    let mut all: Vec<Training> = found.into_values().collect();
    all.sort_by_key(Training::order);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 100 * 60_000;

    fn state(id: &str, training: &str, outcome: Option<LiveOutcome>, seen_ms: i64) -> State {
        State {
            id: format!("live_{id}").parse().unwrap(),
            training: training.to_owned(),
            outcome,
            created_ms: seen_ms - 60_000,
            seen_ms,
        }
    }

    fn check(states: &[State], warned: &[&str], expected: &[(&str, [u32; 5])]) {
        let ids = warned.iter().map(|id| format!("live_{id}").parse());
        let warned: HashSet<LiveId> = ids.map(Result::unwrap).collect();
        let found = folded(states, &warned, NOW);
        let found: Vec<(&str, [u32; 5])> = found
            .iter()
            .map(|one| {
                let of = one.processes;
                let counts = [of.all, of.running, of.silent, of.failed, of.warned];
                (&one.worst.as_str()["live_".len()..], counts)
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_ranks_of_a_training_are_one_row_in_its_worst_state() {
        let (failed, done) = (Some(LiveOutcome::Failed), Some(LiveOutcome::Done));
        let mut states = vec![
            state("a", "j", None, NOW),
            state("b", "j", None, NOW),
            state("c", "j", None, NOW - SILENT_MS - 1),
            state("d", "j", done, NOW),
        ];
        check(&states, &["b"], &[("c", [4, 3, 0, 0, 1])]);
        check(&states[..2], &["b"], &[("b", [2, 2, 0, 0, 1])]);
        check(&states[..2], &[], &[("a", [2, 2, 0, 0, 0])]);
        states.push(state("e", "j", failed, 0));
        states.push(state("f", "j", None, NOW - HEARD_MS));
        check(&states, &[], &[("e", [6, 3, 1, 1, 0])]);
    }

    #[test]
    fn who_needs_somebody_comes_first_and_who_has_ended_last() {
        let failed = Some(LiveOutcome::OutOfMemory);
        let states = [
            state("old", "1", None, NOW - 4),
            state("new", "2", None, NOW - 1),
            state("grows", "3", None, NOW - 5),
            state("gone", "4", failed, NOW - 9),
            state("lost", "5", None, NOW - HEARD_MS),
            state("half", "6", None, NOW - 7),
            state("dead", "6", failed, NOW - 8),
        ];
        let expected = [
            ("grows", [1, 1, 0, 0, 1]),
            ("dead", [2, 1, 0, 1, 0]),
            ("new", [1, 1, 0, 0, 0]),
            ("old", [1, 1, 0, 0, 0]),
            ("gone", [1, 0, 0, 1, 0]),
            ("lost", [1, 0, 1, 0, 0]),
        ];
        check(&states, &["grows"], &expected);
    }
}
