//! Small multiples: the baseline with each run, all with the same vertical scale.

use super::Focus;
use super::curves::CurvesSource;
use crate::timeline::picture::{UNMEASURED, paint_when_changed};
use ::timeline::colours::Palette;
use ::timeline::overlay::{self, Detail, Overlay};
use api::compare::Curves;
use leptos::html;
use leptos::prelude::*;
use presentation::pages::compare::picture::pair_of;

/// One small picture for each run after the baseline, when there are several.
#[component]
pub fn Multiples(focus: Focus, source: CurvesSource) -> impl IntoView {
    let n = focus.comparison().runs.len();
    if n < 3 {
        return ().into_any();
    }
    let high = Memo::new(move |_| {
        let curves = source.whole.curves.get()?;
        let runs: Vec<usize> = (0..curves.runs.len()).collect();
        Some(small(focus, &curves, &runs, 1, None).highest())
    });
    let pictures = (1..n).map(|run| {
        view! { <Multiple focus=focus source=source run=run high=high/> }
    });
    let pictures = pictures.collect_view();
    view! {
        <section class="multiples" aria-label="Baseline against each run">{pictures}</section>
    }
    .into_any()
}

fn small<'a>(
    focus: Focus,
    curves: &'a Curves,
    runs: &'a [usize],
    against: usize,
    high: Option<u64>,
) -> Overlay<'a> {
    Overlay {
        curves,
        window: curves.whole,
        align: focus.view.state().with(|state| state.align),
        runs,
        against,
        band: None,
        filled: true,
        detail: Detail::Small,
        high,
    }
}

#[component]
fn Multiple(
    focus: Focus,
    source: CurvesSource,
    run: usize,
    high: Memo<Option<u64>>,
) -> impl IntoView {
    let element = NodeRef::<html::Canvas>::new();
    let holder = NodeRef::<html::Div>::new();
    let scene = move |size, palette: &Palette| {
        let (high, curves) = (high.get(), source.whole.curves.get()?);
        let runs = pair_of(&curves, run);
        let overlay = small(focus, &curves, &runs, run, high);
        Some(overlay::scene(&overlay, size, palette))
    };
    let size = RwSignal::new(UNMEASURED);
    paint_when_changed((element, holder), size, Box::new(scene));
    let pressed = move || focus.against.get() == run;
    let headline = focus.with_against(run, |against| {
        against
            .difference()
            .map(|difference| difference.headline.clone())
    });
    let headline = headline.flatten();
    view! {
        <button
            class="multiple"
            class:pressed=pressed
            aria-pressed=move || pressed().to_string()
            title=headline
            on:click=move |_| focus.view.update(|state| {
                state.against = run as u32;
                state.selected = None;
            })
        >
            <span class="multiple-name">
                <span class=format!("run-swatch run-{run}") aria-hidden="true"></span>
                <span>{focus.name(run)}</span>
            </span>
            <div class="multiple-picture" node_ref=holder>
                <canvas node_ref=element aria-hidden="true"></canvas>
            </div>
        </button>
    }
}
