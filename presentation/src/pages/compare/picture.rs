//! All runs over one axis, and below it the difference of two.

use ::timeline::format;
use api::compare::Curves;
use api::compare_view::CompareState;
use std::cmp::Ordering;
use trace::compare::StepDelta;
use trace::compare::curves::Align;

/// Another axis has other units, so the window is reset.
pub fn aligned(state: &CompareState, align: Align) -> CompareState {
    CompareState {
        align,
        window: None,
        ..state.clone()
    }
}

/// A difference in bytes, with its sign.
pub fn exact_difference(delta: i64) -> String {
    let sign = if delta < 0 { "−" } else { "+" };
    format!("{sign}{}", format::exact_bytes(delta.unsigned_abs()))
}

/// Which runs do not begin where the baseline does, and where they are drawn because of that.
pub fn shifted(curves: &Curves, name: impl Fn(usize) -> String) -> Vec<String> {
    let Some((&base, others)) = curves.begins.split_first() else {
        return Vec::new();
    };
    let told = |(at, &begins): (usize, &u32)| {
        let way = match begins.cmp(&base) {
            Ordering::Less => "before",
            Ordering::Equal => return None,
            Ordering::Greater => "after",
        };
        let (run, baseline) = (name(at), name(0));
        let steps = format::plural(u64::from(begins.abs_diff(base)), "step");
        Some(format!(
            "{run} begins {steps} {way} {baseline} and is drawn there."
        ))
    };
    (1..).zip(others).filter_map(told).collect()
}

/// Where a row of the table of steps lies on the axis. The table counts from where the earlier of
/// its two runs begins, the axis from where the earliest of all does.
pub fn place_of(index: u32, steps: &[StepDelta], curves: Option<&Curves>) -> f64 {
    let base = steps.iter().find(|step| step.base.is_some());
    let begins = curves.and_then(|curves| curves.begins.first());
    match base.zip(begins) {
        Some((first, &begins)) => f64::from(index) - f64::from(first.index) + f64::from(begins),
        None => f64::from(index),
    }
}

/// The two runs of a small picture.
pub fn pair_of(curves: &Curves, run: usize) -> [usize; 2] {
    [0, run.min(curves.runs.len().saturating_sub(1))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::compare::StepSide;
    use trace::units::{Bytes, EventIdx};

    #[test]
    fn another_axis_shows_all_of_itself() {
        let state = CompareState {
            window: Some((1.0, 2.0)),
            search: "kept".to_owned(),
            ..CompareState::default()
        };
        let changed = aligned(&state, Align::Time);
        assert_eq!((changed.align, changed.window), (Align::Time, None));
        assert_eq!(changed.search, "kept");
    }

    fn beginning(begins: &[u32]) -> Curves {
        Curves {
            whole: (0.0, 9.0),
            window: (0.0, 9.0),
            begins: begins.to_vec(),
            runs: Vec::new(),
        }
    }

    #[test]
    fn runs_that_begin_elsewhere_are_told() {
        let check = |begins: &[u32], expected: &[&str]| {
            let told = shifted(&beginning(begins), |run| format!("r{run}"));
            assert_eq!(told, expected, "{begins:?}");
        };
        check(&[], &[]);
        check(&[3, 3], &[]);
        check(&[0, 4], &["r1 begins 4 steps after r0 and is drawn there."]);
        let before = "r2 begins 1 step before r0 and is drawn there.";
        check(&[1, 1, 0], &[before]);
    }

    #[test]
    fn a_row_of_steps_is_shown_where_it_is_drawn() {
        let side = StepSide {
            name: String::new(),
            first_event: EventIdx(0),
            end_event: EventIdx(0),
            peak: Bytes::ZERO,
            end: Bytes::ZERO,
            reserved_end: Bytes::ZERO,
            work: Bytes::ZERO,
            allocs: 0,
            is_cut: false,
        };
        let step = |index: u32, in_base: bool| StepDelta {
            index,
            base: in_base.then(|| side.clone()),
            new: Some(side.clone()),
        };
        let check = |steps: &[StepDelta], begins: &[u32], expected: f64| {
            let curves = beginning(begins);
            assert_eq!(place_of(3, steps, Some(&curves)), expected, "{begins:?}");
        };
        let together = [step(0, true), step(1, true)];
        check(&together, &[0, 0], 3.0);
        // Another run begins four steps before these two.
        check(&together, &[4, 4, 0], 7.0);
        let later = [step(0, false), step(1, false), step(2, true)];
        check(&later, &[2, 0], 3.0);
        check(&later, &[4, 2, 0], 5.0);
        assert_eq!(place_of(3, &later, None), 3.0);
    }

    #[test]
    fn differences_are_exact_on_hover() {
        assert_eq!(exact_difference(-1024), "−1,024 B");
        assert_eq!(exact_difference(5), "+5 B");
    }
}
