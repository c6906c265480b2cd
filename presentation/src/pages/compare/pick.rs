//! Runs picked in the list for a comparison.

use api::compare::RUNS;
use api::ids::RunId;

/// Whether a run can be picked or unpicked: it is picked already, or there is room for it.
pub fn is_free(picked: &[RunId], run: &RunId) -> bool {
    picked.len() < *RUNS.end() || picked.contains(run)
}

/// Picks a run, or unpicks it. Nothing is dropped to make room: a tick that goes away by itself is
/// easily missed.
pub fn toggle(picked: &mut Vec<RunId>, run: &RunId) {
    match picked.iter().position(|other| other == run) {
        Some(at) => drop(picked.remove(at)),
        None if is_free(picked, run) => picked.push(run.clone()),
        None => {}
    }
}

/// What is picked, and what it is compared with; `first` is the name of the run picked first.
pub fn told(picked: usize, first: Option<&str>) -> String {
    let most = match picked == *RUNS.end() {
        true => ", the most",
        false => "",
    };
    match first {
        Some(first) => format!("{picked} picked{most}; baseline: {first}"),
        None => format!("{picked} picked{most}; the first is the baseline"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_is_named() {
        assert_eq!(told(1, Some("a.pickle")), "1 picked; baseline: a.pickle");
        assert_eq!(
            told(8, None),
            "8 picked, the most; the first is the baseline"
        );
    }

    #[test]
    fn a_ninth_run_is_not_picked() {
        let id = |n: usize| format!("run_{n}").parse::<RunId>().unwrap();
        let mut picked = Vec::new();
        for n in 0..9 {
            toggle(&mut picked, &id(n));
        }
        assert_eq!((picked.len(), &picked[0]), (8, &id(0)));
        assert!(is_free(&picked, &id(4)), "it can be unpicked");
        assert!(!is_free(&picked, &id(8)));
        toggle(&mut picked, &id(4));
        toggle(&mut picked, &id(8));
        assert_eq!(picked.last(), Some(&id(8)));
    }
}
