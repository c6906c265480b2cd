//! What a run's recording holds: a pass or a loop, the steps, and what its peak consists of.

use crate::format;
use crate::url_state::UrlState;
use api::contents::{CategoryBytes, Contents};
use api::view_state::ViewState;
use leptos::prelude::*;
use presentation::pages::run::recording::{
    Cut, about, choose_level, colour, place, show_category, together, told,
};
use presentation::questions::words;
use std::sync::Arc;
use trace::steps::choices::LoopChoice;
use trace::steps::recording::Kind;

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
                let when = match contents.recording.kind {
                    Kind::StateOnly => "In the state",
                    _ => "At the peak",
                };
                view! { <Composition when=when categories=categories view=view/> }
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
fn StepsChooser(
    levels: Vec<LoopChoice>,
    cut: Memo<Cut>,
    view: UrlState<ViewState>,
) -> impl IntoView {
    let is_step = move |level: &LoopChoice| match cut.get() {
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
    let word = move |share: CategoryBytes| {
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
    };
    let (seen, small) = told(&categories);
    let is_open = RwSignal::new(false);
    let rest = together(&small).map(|text| {
        let more = move || {
            is_open
                .get()
                .then(|| small.iter().copied().map(word).collect_view())
        };
        view! {
            {more}
            <li>
                <button
                    class="recording-category"
                    aria-expanded=move || is_open.get().to_string()
                    on:click=move |_| is_open.update(|open| *open = !*open)
                >
                    {move || if is_open.get() { "fewer".to_owned() } else { text.clone() }}
                </button>
            </li>
        }
    });
    let about = about(&categories);
    view! {
        <div class="recording-peak">
            <span class="muted">{when}</span>
            <div class="recording-bar" aria-hidden="true">{parts.collect_view()}</div>
            <ul class="recording-categories">
                {seen.into_iter().map(word).collect_view()}
                {rest}
            </ul>
            {about.map(|about| view! {
                <details class="note">
                    <summary class="badge">"inferred"</summary>
                    <p>{about}</p>
                </details>
            })}
        </div>
    }
    .into_any()
}
