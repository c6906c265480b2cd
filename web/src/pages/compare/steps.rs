//! The single steps, in the baseline and in the selected run.

use super::Focus;
use super::curves::CurvesSource;
use crate::format;
use leptos::prelude::*;
use presentation::pages::compare::cards::change;
use presentation::pages::compare::picture::place_of;
use presentation::pages::compare::steps::tidy;
use trace::compare::curves::Align;
use trace::compare::{StepDelta, StepSide};
use trace::units::Bytes;

/// The largest number of listed steps: a run of a million steps must not fill the page's memory.
const MOST: usize = 2000;

/// The table. A click on a step shows it in the picture.
#[component]
pub fn StepTable(focus: Focus, source: CurvesSource) -> impl IntoView {
    let content = move || {
        let steps = focus.difference()?.steps.clone();
        if steps.is_empty() {
            let text = "Neither run has steps.";
            return Some(view! { <p class="muted">{text}</p> }.into_any());
        }
        let more = steps.len().saturating_sub(MOST);
        let rows = steps
            .into_iter()
            .take(MOST)
            .map(|step| row(focus, source, step))
            .collect_view();
        let more = (more > 0).then(|| {
            let text = format!("and {} more", format::plural(more as u64, "step"));
            view! { <p class="muted">{text}</p> }
        });
        Some(
            view! {
                <div class="table-scroll" tabindex="0" role="region" aria-label="Steps">
                    <table class="steps-table">
                        <thead>
                            <tr>
                                <th scope="col">"Step"</th>
                                <th scope="col" class="num">"Peak"</th>
                                <th scope="col" class="num">"Change"</th>
                                <th scope="col" class="num">"End"</th>
                                <th scope="col" class="num">"Change"</th>
                            </tr>
                        </thead>
                        <tbody>{rows}</tbody>
                    </table>
                </div>
                {more}
            }
            .into_any(),
        )
    };
    view! {
        <section aria-labelledby="steps-title">
            <h2 id="steps-title">"Step by step"</h2>
            <p class="muted">"Allocated; baseline → the run looked at"</p>
            {content}
        </section>
    }
}

fn row(focus: Focus, source: CurvesSource, step: StepDelta) -> impl IntoView + use<> {
    let index = step.index;
    let show = move |_| {
        let Some(difference) = focus.difference_untracked() else {
            return;
        };
        let curves = source.whole.curves.get_untracked();
        let from = place_of(index, &difference.steps, curves.as_deref());
        focus.view.update(|state| {
            state.align = Align::Step;
            state.window = Some((from, from + 1.0));
        });
    };
    let (base, new) = (step.base, step.new);
    let named = base.as_ref().or(new.as_ref());
    let name = named.map_or_else(|| index.to_string(), |side| tidy(&side.name, index));
    // A step without its beginning tells no change of its peak.
    let is_cut = [&base, &new].into_iter().flatten().any(|side| side.is_cut);
    let peak = Level {
        told: StepSide::told_peak,
        exact: |side| side.peak,
        is_bound: is_cut,
    };
    let end = Level {
        told: |side| side.end.to_string(),
        exact: |side| side.end,
        is_bound: false,
    };
    let cells = [peak, end].map(|level| cells(&base, &new, level));
    view! {
        <tr>
            <th scope="row">
                <button class="link-button" title="Show it in the picture" on:click=show>
                    {name}
                </button>
            </th>
            {cells}
        </tr>
    }
}

/// What a cell tells of a step.
#[derive(Clone, Copy)]
struct Level {
    told: fn(&StepSide) -> String,
    exact: fn(&StepSide) -> Bytes,
    /// Whether one of the sides is only a bound.
    is_bound: bool,
}

fn cells(base: &Option<StepSide>, new: &Option<StepSide>, level: Level) -> impl IntoView + use<> {
    let text = |side: &Option<StepSide>| {
        side.as_ref()
            .map_or_else(|| "–".to_owned(), |side| (level.told)(side))
    };
    let exact = |side: &Option<StepSide>| {
        side.as_ref().map_or_else(
            || "–".to_owned(),
            |side| format::exact_bytes((level.exact)(side).0),
        )
    };
    let delta = match (base, new) {
        (Some(_), Some(_)) if level.is_bound => "not known".to_owned(),
        (Some(base), Some(new)) => {
            change((level.exact)(new).0 as f64 - (level.exact)(base).0 as f64)
        }
        _ => String::new(),
    };
    let title = format!("{} → {}", exact(base), exact(new));
    view! {
        <td class="num" title=title>{format!("{} → {}", text(base), text(new))}</td>
        <td class="num change">{delta}</td>
    }
}
