//! The what-if chart: computed *reserved* beside the recording.

use super::growth_chart::{fractions, level_labels};
use crate::format::count;
use api::what_if::{Reaches, WhatIfDrawn};
use leptos::prelude::*;
use presentation::questions::levels::Levels;
use presentation::questions::what_if_chart::readout;
use std::sync::Arc;
use web_sys::{KeyboardEvent, MouseEvent};

const POINT: &str = "Point at the curves for their values.";

/// The chart.
#[component]
pub fn WhatIfChart(drawn: Arc<WhatIfDrawn>, n_events: u64) -> impl IntoView {
    let levels = Levels::of(&drawn, n_events)?;
    let about = drawn.answer.at_recorded_limit.as_ref();
    let about = about.unwrap_or(&drawn.answer.what_if);
    let end_class = match about.reaches {
        Reaches::Failure => "level-end failure",
        Reaches::End | Reaches::RecordedFailure => "level-end",
    };
    let column = RwSignal::new(None::<usize>);
    let levels = StoredValue::new(levels);
    let point = move |event: MouseEvent| {
        let x = fractions(&event).map(|(x, _)| x);
        column.set(x.and_then(|x| levels.with_value(|l| l.column(x))));
    };
    let keys = move |event: KeyboardEvent| {
        let next = levels.with_value(|l| l.moved(column.get_untracked(), &event.key()));
        if next.is_some() {
            event.prevent_default();
            event.stop_propagation();
            column.set(next);
        }
    };
    let words = move || match column.get() {
        Some(column) => levels.with_value(|l| readout(l, column)),
        None => POINT.to_owned(),
    };
    let cursor = move || {
        let x = levels.with_value(|l| column.get().map(|column| l.place(column).x))?;
        Some(view! { <line class="growth-cursor" x1=x x2=x y1="0" y2="1000"></line> })
    };
    let curves = levels.with_value(|levels| curves(levels, end_class));
    Some(view! {
        <figure class="growth">
            <div class="growth-frame">
                {level_labels(levels.with_value(|levels| levels.high))}
                <svg
                    class="growth-plot"
                    viewBox="0 0 1000 1000"
                    preserveAspectRatio="none"
                    role="application"
                    tabindex="0"
                    aria-label="Reserved memory as recorded, and as it would be. Arrow keys walk."
                    on:keydown=keys
                    on:mousemove=point
                    on:mouseleave=move |_| column.set(None)
                >
                    {curves}
                    {cursor}
                </svg>
                <div class="growth-moments level-events" aria-hidden="true">
                    <span>"event 0"</span>
                    <span>{count(levels.with_value(Levels::last_event))}</span>
                </div>
            </div>
            <figcaption class="growth-head">
                <p class="growth-readout" aria-live="polite">{words}</p>
                <ul class="level-legend">
                    <li>"reserved, what if"</li>
                    {levels.with_value(|l| l.band().map(|_| key("band-key", "its uncertainty")))}
                    <li class="reserved-key">"reserved, recorded"</li>
                    <li class="allocated-key">"allocated, recorded"</li>
                    {levels.with_value(|l| l.limit.map(|_| key("limit-key", "limit")))}
                </ul>
            </figcaption>
        </figure>
    })
}

/// A part of the chart that is not always there.
fn key(class: &'static str, name: &'static str) -> AnyView {
    view! { <li class=class>{name}</li> }.into_any()
}

fn curves(levels: &Levels, end_class: &'static str) -> AnyView {
    let limit = levels.limit.map(|limit| levels.y(limit.get() as f64));
    let limit = limit.map(|y| {
        view! { <line class="level-limit" x1="0" x2="1000" y1=y y2=y></line> }
    });
    let end = levels.end();
    let end = end.map(|x| view! { <line class=end_class x1=x x2=x y1="0" y2="1000"></line> });
    let band = levels.band();
    let band = band.map(|path| view! { <path class="level-band" d=path></path> });
    view! {
        {band}
        <path class="level allocated" d=levels.allocated()></path>
        <path class="level reserved" d=levels.recorded()></path>
        <path class="level what-if" d=levels.computed()></path>
        {limit}
        {end}
    }
    .into_any()
}
