//! What a run's recording holds: which loop gives the steps, and what memory is for.

use ::timeline::colours::N_GROUP_COLOURS;
use ::timeline::format;
use api::bench::grows;
use api::contents::CategoryBytes;
use api::runs::RunDetail;
use api::view_state::{Picture, Selection, ViewState};
use trace::categories::{Category, Named};
use trace::steps::choices::{self, LoopChoice};
use trace::tiles::GroupBy;
use trace::units::Bytes;

/// Which loop gives the steps in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The view names one; whether it exists is not known yet.
    Waiting,
    /// The loop that Tidemark found.
    Found,
    /// Another loop.
    Other(LoopChoice),
    /// The view names a loop that the recording does not have.
    Unknown(String),
}

impl Cut {
    /// Which loop gives the steps in a view that names `key` (or its word), for a recording with
    /// these loops (`None`: not known yet).
    pub fn of(key: Option<&str>, levels: Option<&[LoopChoice]>) -> Cut {
        let Some(key) = key else { return Cut::Found };
        let Some(levels) = levels else {
            return Cut::Waiting;
        };
        match choices::called(levels, key) {
            None => Cut::Unknown(key.to_owned()),
            Some(level) if level.chosen => Cut::Found,
            Some(level) => Cut::Other(level.clone()),
        }
    }

    /// The key for requests to the server.
    pub fn key(&self) -> Option<String> {
        match self {
            Cut::Other(level) => Some(level.key.clone()),
            Cut::Waiting | Cut::Found | Cut::Unknown(_) => None,
        }
    }
}

/// If this run is only the beginning of a longer bench row, says so. The two grow differently, so
/// each number is shown with its steps.
pub fn beginning(run: &RunDetail) -> Option<String> {
    let row = run.bench_row.as_ref()?;
    let recorded = run.summary.steps;
    if row.steps <= recorded {
        return None;
    }
    let growth = match grows(row.growth_per_step as f64) {
        true => {
            let bytes = format::bytes(row.growth_per_step.unsigned_abs());
            format!("it grows {bytes} a step")
        }
        false => "it does not grow".to_owned(),
    };
    let all = row.steps;
    Some(format!(
        "The first {recorded} of the {all} steps of its bench row. Over all {all} {growth}."
    ))
}

/// Where a loop was found.
pub fn place(level: &LoopChoice) -> String {
    match level.place.as_str() {
        "" => "marked in the recording".to_owned(),
        place => format!("read from the loop at {place}"),
    }
}

/// Takes the steps from another loop. A selection among the old steps is dropped.
pub fn choose_level(state: &mut ViewState, key: Option<String>) {
    if state.steps == key {
        return;
    }
    state.steps = key;
    state.filter.site = None;
    state.filter.of = None;
    (state.filter.older, state.filter.younger) = (None, None);
    (state.filter.born, state.filter.until) = (None, None);
}

/// How much of the categories is inferred; empty if the recorder noted each block's category.
pub fn about(categories: &[CategoryBytes]) -> Option<String> {
    // That a block is from before the recording is seen, not inferred.
    let guessed = categories.iter().filter(|s| s.category != Category::Before);
    let guessed: u64 = guessed.map(|share| share.inferred.get()).sum();
    (guessed > 0).then(|| {
        format!(
            "What {} are for is not in the recording: it is inferred from when they were made \
             and given back, by which code, and in what size.",
            format::bytes(guessed)
        )
    })
}

/// What is smaller than this part of all is no part of the bar that anybody sees.
const SEEN: u64 = 1000;

/// The categories that are told one by one, and those that are told together until somebody asks:
/// next to gibibytes, two of a kibibyte each are noise.
pub fn told(categories: &[CategoryBytes]) -> (Vec<CategoryBytes>, Vec<CategoryBytes>) {
    let total: u64 = categories.iter().map(|share| share.bytes.get()).sum();
    let is_seen = |share: &CategoryBytes| share.bytes.get() >= total / SEEN;
    let (seen, small): (Vec<_>, Vec<_>) = categories.iter().copied().partition(is_seen);
    match small.len() {
        // One alone takes no more room than "1 other".
        1 => (categories.to_vec(), Vec::new()),
        _ => (seen, small),
    }
}

/// What is told together, in words.
pub fn together(small: &[CategoryBytes]) -> Option<String> {
    let bytes: Bytes = small.iter().map(|share| share.bytes).sum();
    (!small.is_empty()).then(|| format!("{} others {bytes}", small.len()))
}

/// The class of a category's colour, the same as in the mountain.
pub fn colour(category: Named) -> String {
    format!("cat-{}", category.key() as usize % N_GROUP_COLOURS)
}

/// Shows a category in the picture.
pub fn show_category(state: &mut ViewState, category: Named) {
    state.picture = Picture::Mountain;
    state.group_by = GroupBy::Category;
    state.selection = Some(Selection::Group(category.key()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(key: &str, chosen: bool) -> LoopChoice {
        LoopChoice {
            key: key.to_owned(),
            label: "steps".to_owned(),
            place: "train.py:54 in train".to_owned(),
            count: 6,
            share: 0.9,
            chosen,
        }
    }

    #[test]
    fn a_view_takes_a_loop_that_is_there() {
        let levels = [level("train.train", true), level("train.layers", false)];
        let check = |key: Option<&str>, known: Option<&[LoopChoice]>, expected: Cut| {
            assert_eq!(Cut::of(key, known), expected, "{key:?}");
        };
        check(None, None, Cut::Found);
        check(Some("train.layers"), None, Cut::Waiting);
        check(Some("train.train"), Some(&levels), Cut::Found);
        check(
            Some("train.layers"),
            Some(&levels),
            Cut::Other(levels[1].clone()),
        );
        let epochs = LoopChoice {
            label: "epochs".to_owned(),
            ..level("train.main", false)
        };
        let named = [levels[0].clone(), epochs.clone()];
        check(Some("epochs"), Some(&named), Cut::Other(epochs));
        check(Some("x"), Some(&levels), Cut::Unknown("x".to_owned()));
        let other = Cut::of(Some("train.layers"), Some(&levels));
        assert_eq!(other.key().as_deref(), Some("train.layers"));
    }

    #[test]
    fn another_loop_lets_go_of_what_was_selected_among_steps() {
        let mut state = ViewState::default();
        state.filter.site = Some("z4096".to_owned());
        (state.filter.younger, state.filter.born) = (Some(3), Some(4));
        choose_level(&mut state, Some("train.layers".to_owned()));
        assert_eq!(state.to_string(), "v=5&steps=train.layers");
        choose_level(&mut state, None);
        assert_eq!(state, ViewState::default());
    }

    #[test]
    fn what_nobody_sees_is_told_together() {
        let share = |category: Category, bytes| CategoryBytes {
            category: category.into(),
            bytes: Bytes(bytes),
            inferred: Bytes(0),
        };
        let large = share(Category::Activation, 1 << 30);
        let small = [share(Category::Input, 8192), share(Category::Before, 1024)];
        let (seen, rest) = told(&[large, small[0], small[1]]);
        assert_eq!((seen, &rest[..]), (vec![large], &small[..]));
        assert_eq!(together(&rest).as_deref(), Some("2 others 9.00 KiB"));
        assert_eq!(told(&[large, small[0]]), (vec![large, small[0]], vec![]));
        let even = [small[0], share(Category::Gradient, 8192)];
        assert_eq!(told(&even), (even.to_vec(), vec![]));
        assert_eq!((told(&[]), together(&[])), ((vec![], vec![]), None));
    }

    #[test]
    fn only_what_is_inferred_is_said_to_be() {
        let share = |category: Category, inferred| CategoryBytes {
            category: category.into(),
            bytes: Bytes(2048),
            inferred: Bytes(inferred),
        };
        assert_eq!(about(&[share(Category::Parameter, 0)]), None);
        assert_eq!(about(&[share(Category::Before, 2048)]), None);
        let guessed = about(&[share(Category::Activation, 2048)]);
        assert!(guessed.is_some_and(|text| text.starts_with("What 2.00 KiB are for")));
    }
}
