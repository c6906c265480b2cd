//! What the controls over a run's picture change.

use super::recording::about;
use api::contents::Contents;
use api::runs::RunSource;
use api::view_state::{Axis, Picture, Selection, ViewState};
use trace::tiles::GroupBy;

/// Where it is from what blocks are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CategoriesFrom {
    /// The recorder noted it.
    Recording,
    /// From what happened to them.
    Inference,
}

impl CategoriesFrom {
    /// As the peak shows it. Until that is known, a bench is taken to have noted all.
    pub fn of(source: RunSource, contents: Option<&Contents>) -> CategoriesFrom {
        let peak = contents.and_then(|contents| contents.peak.as_ref());
        let is_inferred = match peak {
            Some(peak) => about(&peak.categories).is_some(),
            None => source != RunSource::Engine,
        };
        match is_inferred {
            true => CategoriesFrom::Inference,
            false => CategoriesFrom::Recording,
        }
    }
}

/// What a band stands for, in the words of the menu.
pub const fn group_name(group: GroupBy, categories: CategoriesFrom) -> &'static str {
    match group {
        GroupBy::Stack => "stack",
        GroupBy::File => "file",
        GroupBy::Stream => "stream",
        GroupBy::Pool => "pool",
        GroupBy::Category => match categories {
            CategoriesFrom::Recording => "category",
            CategoriesFrom::Inference => "category (inferred)",
        },
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
    use api::contents::{CategoryBytes, Held};
    use trace::categories::Category;
    use trace::steps::recording::{Kind, Recording};
    use trace::units::Bytes;

    /// What a peak of weights holds, if its recorder noted this or did not.
    fn contents(inferred: u64) -> Contents {
        let weights = CategoryBytes {
            category: Category::Parameter.into(),
            bytes: Bytes(2048),
            inferred: Bytes(inferred),
        };
        Contents {
            recording: Recording {
                kind: Kind::Loop,
                sentence: String::new(),
            },
            levels: Vec::new(),
            phases: Vec::new(),
            peak: Some(Held {
                event: None,
                categories: vec![weights],
            }),
        }
    }

    #[test]
    fn what_a_bench_recorded_is_not_called_inferred() {
        let check = |source, contents: Option<Contents>, expected: &str| {
            let from = CategoriesFrom::of(source, contents.as_ref());
            assert_eq!(group_name(GroupBy::Category, from), expected, "{source:?}");
        };
        check(RunSource::Engine, Some(contents(0)), "category");
        check(RunSource::Engine, None, "category");
        check(RunSource::Upload, Some(contents(0)), "category");
        check(RunSource::Upload, None, "category (inferred)");
        check(
            RunSource::Sample,
            Some(contents(2048)),
            "category (inferred)",
        );
    }

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
