//! What the controls over a run's picture change.

use api::view_state::{Axis, Picture, Selection, ViewState};
use trace::tiles::GroupBy;

/// What a band stands for, in the words of the menu.
pub const fn group_name(group: GroupBy) -> &'static str {
    match group {
        GroupBy::Stack => "stack",
        GroupBy::File => "file",
        GroupBy::Stream => "stream",
        GroupBy::Pool => "pool",
        GroupBy::Category => "category (inferred)",
        GroupBy::None => "nothing",
    }
}

/// Draws bands or lines. Levels that show a band may lie where no line is, so all are shown.
pub fn draw(state: &mut ViewState, picture: Picture) {
    if state.picture != picture {
        (state.picture, state.levels) = (picture, None);
    }
}

/// Bands instead of lines, or the other way round.
pub const fn other_picture(picture: Picture) -> Picture {
    match picture {
        Picture::Mountain => Picture::Lines,
        Picture::Lines => Picture::Mountain,
    }
}

/// Time instead of events, or the other way round.
pub const fn other_axis(axis: Axis) -> Axis {
    match axis {
        Axis::Event => Axis::Time,
        Axis::Time => Axis::Event,
    }
}

/// What bands stand for after this.
pub fn next_group(group: GroupBy) -> GroupBy {
    let at = GroupBy::ALL.iter().position(|&g| g == group).unwrap_or(0);
    GroupBy::ALL[(at + 1) % GroupBy::ALL.len()]
}

/// Changes the grouping. A group's key then means something else, so the selection is dropped.
pub fn regroup(state: &mut ViewState, group_by: GroupBy) {
    state.group_by = group_by;
    if matches!(state.selection, Some(Selection::Group(_))) {
        state.selection = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_a_picture() {
        let levels = Some((1.0, 2.0));
        let mut state = ViewState {
            levels,
            ..ViewState::default()
        };
        draw(&mut state, Picture::Mountain);
        assert_eq!(state.levels, levels);
        draw(&mut state, Picture::Lines);
        assert_eq!((state.picture, state.levels), (Picture::Lines, None));
    }

    #[test]
    fn grouping_goes_round() {
        let mut group = GroupBy::Stack;
        for _ in GroupBy::ALL {
            group = next_group(group);
        }
        assert_eq!(group, GroupBy::Stack);
    }
}
