//! What a run's recording holds: a pass or a loop, the steps, and what its peak consists of.

use crate::format;
use crate::url_state::UrlState;
use api::bench::grows;
use api::contents::{CategoryBytes, Contents};
use api::runs::RunDetail;
use api::view_state::{Picture, Selection, ViewState};
use leptos::prelude::*;
use presentation::questions::words;
use std::sync::Arc;
use timeline::colours::N_GROUP_COLOURS;
use trace::categories::{Category, Named};
use trace::steps::levels::Level;
use trace::steps::recording::Kind;
use trace::tiles::GroupBy;

/// Which loop gives the steps in a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The view names one; whether it exists is not known yet.
    Waiting,
    /// The loop that Tidemark found.
    Found,
    /// Another loop.
    Other(Level),
    /// The view names a loop that the recording does not have.
    Unknown(String),
}

impl Cut {
    /// Which loop gives the steps in a view that names `key`, for a recording with these loops
    /// (`None`: not known yet).
    pub fn of(key: Option<&str>, levels: Option<&[Level]>) -> Cut {
        let Some(key) = key else { return Cut::Found };
        let Some(levels) = levels else {
            return Cut::Waiting;
        };
        match levels.iter().find(|level| level.key == key) {
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

/// What the recording holds, below the head of the page.
#[component]
pub fn RecordingStrip(
    contents: Signal<Option<Arc<Contents>>>,
    /// Whether the contents are not known yet, but will be.
    awaited: Signal<bool>,
    cut: Memo<Cut>,
    view: UrlState<ViewState>,
    beginning: Option<String>,
) -> impl IntoView {
    let body = move || {
        let contents = contents.get()?;
        let beginning = beginning.clone();
        let unknown = move || match cut.get() {
            Cut::Unknown(key) => Some(view! {
                <p class="recording-note" role="status">
                    {format!("The link takes “{key}” for steps. This recording has no such loop.")}
                </p>
            }),
            _ => None,
        };
        Some(view! {
            {what(&contents, cut, view)}
            {beginning.map(|text| view! { <p class="muted">{text}</p> })}
            {unknown}
            {contents.peak.as_ref().map(|peak| {
                let categories = peak.categories.clone();
                view! { <Composition when="At the peak" categories=categories view=view/> }
            })}
        })
    };
    // Room for what will come, so that nothing below jumps then.
    let awaited = Memo::new(move |_| awaited.get());
    let skeleton = move || {
        let line = || view! { <div class="skeleton-row recording-skeleton"></div> };
        awaited.get().then(line)
    };
    view! {
        <section class="recording" aria-label="What was recorded">
            {skeleton}
            {body}
        </section>
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

/// A pass as a sentence; for a loop, the choice of what counts as a step.
fn what(contents: &Arc<Contents>, cut: Memo<Cut>, view: UrlState<ViewState>) -> AnyView {
    let sentence = (contents.recording.kind != Kind::Loop).then(|| {
        let sentence = words::sentence(&contents.recording.sentence);
        view! { <p class="recording-what">{sentence}</p> }
    });
    let chooser = (!contents.levels.is_empty()).then(|| {
        let levels = contents.levels.clone();
        view! { <StepsChooser levels=levels cut=cut view=view/> }
    });
    view! { {sentence} {chooser} }.into_any()
}

/// The loops; one of them gives the steps.
#[component]
fn StepsChooser(levels: Vec<Level>, cut: Memo<Cut>, view: UrlState<ViewState>) -> impl IntoView {
    let is_step = move |level: &Level| match cut.get() {
        Cut::Other(other) => other.key == level.key,
        Cut::Found | Cut::Waiting | Cut::Unknown(_) => level.chosen,
    };
    let buttons = levels.iter().cloned().map(|level| {
        let text = format!("{}: {}", level.label, format::count(u64::from(level.count)));
        let key = level.key.clone();
        let title = format!("Take these for steps: {}", place(&level));
        let named = (!level.chosen).then(|| level.key.clone());
        let pressed = Signal::derive(move || is_step(&level));
        let choose = move |_| view.update(|state| choose_level(state, named.clone()));
        view! {
            <button
                class="segment"
                class:pressed=pressed
                aria-pressed=move || pressed.get().to_string()
                data-level=key
                title=title
                on:click=choose
            >
                {text}
            </button>
        }
    });
    let buttons = buttons.collect_view();
    let is_any = {
        let levels = levels.clone();
        move || levels.iter().any(is_step)
    };
    let source = move || {
        let chosen = levels.iter().find(|level| is_step(level));
        chosen.map_or("none is taken for steps".to_owned(), place)
    };
    view! {
        <div class="recording-steps">
            <span id="recording-steps" class="muted">
                {move || if is_any() { "Steps" } else { "Loops in it" }}
            </span>
            <div
                class="control segmented recording-levels"
                role="group"
                aria-labelledby="recording-steps"
            >
                {buttons}
            </div>
            <span class="muted recording-source">{source}</span>
        </div>
    }
}

/// Where a loop was found.
fn place(level: &Level) -> String {
    match level.place.as_str() {
        "" => "marked in the recording".to_owned(),
        place => format!("read from the loop at {place}"),
    }
}

/// Takes the steps from another loop. A selection among the old steps is dropped.
fn choose_level(state: &mut ViewState, key: Option<String>) {
    if state.steps == key {
        return;
    }
    state.steps = key;
    state.filter.site = None;
    state.filter.of = None;
    state.filter.older = None;
}

/// What the memory of a moment is for, as a bar and in words. A click shows it in the mountain.
#[component]
pub fn Composition(
    /// Which moment.
    when: &'static str,
    categories: Vec<CategoryBytes>,
    view: UrlState<ViewState>,
) -> impl IntoView {
    let total: u64 = categories.iter().map(|share| share.bytes.get()).sum();
    if total == 0 {
        return ().into_any();
    }
    let parts = categories.iter().map(|share| {
        let width = format!("{:.2}%", share.bytes.get() as f64 / total as f64 * 100.0);
        let class = format!("recording-part {}", colour(share.category));
        view! { <span class=class style:width=width></span> }
    });
    let words = categories.iter().map(|&share| {
        let chip = format!("recording-chip {}", colour(share.category));
        let select = move |_| view.update(|state| show_category(state, share.category));
        view! {
            <li>
                <button class="recording-category" title="Show it in the picture" on:click=select>
                    <span class=chip aria-hidden="true"></span>
                    {share.category.label().to_owned()}
                    " "
                    <b>{share.bytes.to_string()}</b>
                </button>
            </li>
        }
    });
    let about = about(&categories);
    view! {
        <div class="recording-peak">
            <span class="muted">{when}</span>
            <div class="recording-bar" aria-hidden="true">{parts.collect_view()}</div>
            <ul class="recording-categories">{words.collect_view()}</ul>
            {about.map(|about| view! {
                <span class="badge" title=about>"inferred"</span>
            })}
        </div>
    }
    .into_any()
}

/// How much of the categories is inferred; empty if the recorder noted each block's category.
fn about(categories: &[CategoryBytes]) -> Option<String> {
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

/// The class of a category's colour, the same as in the mountain.
fn colour(category: Named) -> String {
    format!("cat-{}", category.key() as usize % N_GROUP_COLOURS)
}

/// Shows a category in the picture.
fn show_category(state: &mut ViewState, category: Named) {
    state.picture = Picture::Mountain;
    state.group_by = GroupBy::Category;
    state.selection = Some(Selection::Group(category.key()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::units::Bytes;

    fn level(key: &str, chosen: bool) -> Level {
        Level {
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
        let check = |key: Option<&str>, known: Option<&[Level]>, expected: Cut| {
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
        check(Some("x"), Some(&levels), Cut::Unknown("x".to_owned()));
        let other = Cut::of(Some("train.layers"), Some(&levels));
        assert_eq!(other.key().as_deref(), Some("train.layers"));
    }

    #[test]
    fn another_loop_lets_go_of_what_was_selected_among_steps() {
        let mut state = ViewState::default();
        state.filter.site = Some("z4096".to_owned());
        choose_level(&mut state, Some("train.layers".to_owned()));
        assert_eq!(state.to_string(), "v=5&steps=train.layers");
        choose_level(&mut state, None);
        assert_eq!(state, ViewState::default());
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
