//! All runs over one axis, and below it the difference of two.

use ::timeline::format;
use api::compare::Curves;
use api::compare_view::CompareState;
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

/// The two runs of a small picture.
pub fn pair_of(curves: &Curves, run: usize) -> [usize; 2] {
    [0, run.min(curves.runs.len().saturating_sub(1))]
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn differences_are_exact_on_hover() {
        assert_eq!(exact_difference(-1024), "−1,024 B");
        assert_eq!(exact_difference(5), "+5 B");
    }
}
