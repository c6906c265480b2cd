//! Out of memory: when, what was requested, why it failed, who asked, and what was held.

use super::recording::Composition;
use crate::components::problem_note::ProblemNote;
use crate::questions::reveal;
use crate::url_state::UrlState;
use ::timeline::oom;
use api::leaks::Verdict;
use api::problem::Problem;
use api::runs::{DeviceSummary, RunDetail};
use api::timeline::{Marks, OomMark};
use api::view_state::{Tab, ViewState};
use leptos::prelude::*;
use presentation::pages::run::failures::{TOLD, facts, failed, headline, leaks_there, more};
use presentation::pages::run::head::choose_device;
use std::sync::Arc;
use trace::device::DeviceIdx;

/// What marks the picture of a device, by its ordinal, or why that is not known.
pub type MarksOf = RwSignal<Option<(DeviceIdx, Result<Arc<Marks>, Problem>)>>;

/// Failed allocations on this device; empty if there are none. What is known of the device stays
/// until more is known, and there is room for what is not known yet: nothing below jumps.
#[component]
pub fn Failures(
    marks: MarksOf,
    device: Memo<Option<DeviceSummary>>,
    view: UrlState<ViewState>,
) -> impl IntoView {
    let told = Memo::new(move |_| {
        let device = device.with(|device| device.as_ref().map(|d| (d.device, failed(d))));
        device.map(|(ordinal, failed)| {
            let marks = marks.get().filter(|(of, _)| *of == ordinal);
            (failed, marks.map(|(_, marks)| marks))
        })
    });
    move || {
        let (failed, marks) = told.get()?;
        let marks = match marks {
            Some(Ok(marks)) => marks,
            _ if failed == 0 => return None,
            Some(Err(problem)) => return Some(view! { <ProblemNote problem=problem/> }.into_any()),
            None => {
                let soon = view! { <div class="skeleton-row failures-skeleton"></div> };
                return Some(soon.into_any());
            }
        };
        let told = marks.ooms.iter().take(TOLD).enumerate();
        let told: Vec<_> = told.map(|one| failure(&marks, one, view)).collect();
        let more = more(&marks).map(|more| view! { <p class="muted">{more}</p> });
        (!told.is_empty()).then(|| {
            view! { <section class="failures" aria-label="Out of memory">{told} {more}</section> }
                .into_any()
        })
    }
}

/// Failed allocations on the other devices.
#[component]
pub fn FailuresElsewhere(
    run: Arc<RunDetail>,
    device: Memo<Option<DeviceSummary>>,
    view: UrlState<ViewState>,
) -> impl IntoView {
    move || {
        let shown = device.with(|device| device.as_ref().map(|device| device.device));
        let others = run.summary.devices.iter().filter(|other| {
            !other.oom_events.is_empty() && shown.is_some_and(|shown| shown != other.device)
        });
        let notes = others.map(|other| {
            let ordinal = other.device;
            let show = move |_| view.update(|state| choose_device(state, ordinal));
            view! {
                <p class="failures">
                    <strong>{format!("Device {ordinal} ran out of memory.")}</strong>
                    " "
                    <button class="link-button" on:click=show>
                        {format!("Show device {ordinal}")}
                    </button>
                </p>
            }
        });
        notes.collect_view()
    }
}

/// That another device leaks, or the host's pinned memory, while this one is shown.
#[component]
pub fn LeaksElsewhere(
    run: Arc<RunDetail>,
    device: Memo<Option<DeviceSummary>>,
    view: UrlState<ViewState>,
) -> impl IntoView {
    move || {
        let shown = device.with(|device| device.as_ref().map(|device| device.device))?;
        let leaks = run.summary.leaks.as_ref();
        let leaks = leaks.filter(|l| l.verdict == Verdict::Leak && l.device != shown)?;
        let other = leaks.device;
        let show = move |_| {
            view.update(|state| {
                choose_device(state, other);
                state.tab = Tab::Leaks;
            });
        };
        Some(view! {
            <p class="failures">
                <strong>{leaks_there(leaks)}</strong>
                " "
                <button class="link-button" on:click=show>"Show its leaks"</button>
            </p>
        })
    }
}

fn failure(marks: &Marks, (nth, oom): (usize, &OomMark), view: UrlState<ViewState>) -> AnyView {
    let event = oom.event;
    let open = move |tab| {
        view.update(|state| {
            state.tab = tab;
            state.at = Some(event);
            state.root = None;
        });
        reveal();
    };
    // Only the first one is explained: what came after it depends on what the program did then.
    let explained = (nth == 0).then(|| {
        let explain = move |_| open(Tab::WhatIf);
        view! { <button class="button" on:click=explain>"Why, and what would have helped"</button> }
    });
    let look = move |_| open(Tab::Alive);
    let facts = facts(oom).into_iter().map(|(name, value)| {
        view! { <div class="fact"><dt>{name}</dt><dd>{value}</dd></div> }
    });
    let asker = match oom::asker(oom) {
        Some(asker) => view! { <p>"Asked by " <code>{asker}</code></p> }.into_any(),
        None => view! { <p>"Who asked for it is not known: no stack was recorded."</p> }.into_any(),
    };
    view! {
        <article class="failure">
            <h2>{headline(marks, oom)}</h2>
            <p>{oom::reason(oom)}</p>
            {asker}
            <div class="failure-numbers">
                <dl class="failure-facts">{facts.collect_view()}</dl>
                <div class="failure-buttons">
                    {explained}
                    <button class="button" on:click=look>"What was alive then"</button>
                </div>
            </div>
            <Composition when="Held then" categories=oom.held.clone() view=view/>
        </article>
    }
    .into_any()
}
