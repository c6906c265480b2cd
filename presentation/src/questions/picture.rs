//! The picture above the answers: what it shows, and what it is made to show.

use api::view_state::{Picture, Selection, ViewState};
use trace::tiles::GroupBy;
use trace::units::EventIdx;

/// Makes the picture show a stack's band.
pub fn show_stack(state: &mut ViewState, stack: Option<u32>) {
    let Some(stack) = stack else { return };
    state.picture = Picture::Mountain;
    state.group_by = GroupBy::Stack;
    state.selection = Some(Selection::Group(stack));
}

/// The moment in the middle of what the picture shows.
pub fn middle(state: &ViewState, last: EventIdx) -> EventIdx {
    let (from, to) = state.window.unwrap_or((0.0, f64::from(last.0)));
    let middle = ((from + to) / 2.0).round().max(0.0);
    EventIdx((middle as u32).min(last.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_lies_within_the_trace() {
        let view = |window| ViewState {
            window,
            ..ViewState::default()
        };
        assert_eq!(middle(&view(None), EventIdx(100)), EventIdx(50));
        assert_eq!(
            middle(&view(Some((90.0, 500.0))), EventIdx(100)),
            EventIdx(100)
        );
    }
}
