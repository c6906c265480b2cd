//! Out of memory: when, what was requested, why it failed, who asked, and what was held.

use super::recording::Composition;
use crate::components::problem_note::ProblemNote;
use crate::questions::answer::{Answer, ask};
use crate::questions::reveal;
use crate::url_state::UrlState;
use ::timeline::oom;
use api::leaks::{Leaks, Verdict};
use api::problem::Problem;
use api::routes;
use api::runs::{DeviceSummary, RunDetail, RunSummary};
use api::timeline::{Marks, OomMark};
use api::view_state::{Tab, ViewState, When};
use leptos::prelude::*;
use presentation::pages::run::failures::{TOLD, facts, failed, headline, leaks_there, more};
use presentation::pages::run::head::choose_device;
use std::sync::Arc;
use trace::device::DeviceIdx;
use trace::units::Bytes;

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

/// That other devices leak, or the host's pinned memory, while this one is shown. The run names one
/// that leaks, if any does; of the others, their own answers tell.
#[component]
pub fn LeaksElsewhere(
    run: Arc<RunDetail>,
    device: Memo<Option<DeviceSummary>>,
    view: UrlState<ViewState>,
) -> impl IntoView {
    let shown = Memo::new(move |_| device.with(|device| device.as_ref().map(|d| d.device)));
    let RunSummary {
        id, devices, leaks, ..
    } = &run.summary;
    let named = leaks.as_ref().filter(|l| l.verdict == Verdict::Leak);
    let named = named.map(|l| (l.device, leaks_there(l.device, l.bytes_per_step, &l.step)));
    let others = devices.iter().chain(&run.summary.pinned);
    let others = others.map(|other| other.device);
    let others = others.filter(|other| named.as_ref().is_some_and(|(named, _)| named != other));
    let asked = |other: DeviceIdx| {
        let id = id.clone();
        let is_elsewhere = move |shown: &DeviceIdx| *shown != other;
        let path = move || {
            let shown = shown.get().filter(is_elsewhere);
            shown.map(|_| routes::leaks(&id, other))
        };
        (other, ask::<Leaks>(path))
    };
    let asked: Vec<_> = others.map(asked).collect();
    move || {
        let shown = shown.get()?;
        let named = named.clone().filter(|(device, _)| *device != shown);
        let others = asked.iter().filter_map(|(other, answer)| {
            let leaks = answer.with(Answer::shown)?;
            let bytes = Bytes(leaks.bytes_per_step.round() as u64);
            let is_leak = leaks.verdict == Verdict::Leak;
            is_leak.then(|| (*other, leaks_there(*other, bytes, &leaks.step)))
        });
        let notes = named.into_iter().chain(others);
        Some(notes.map(|note| leak_note(note, view)).collect_view())
    }
}

/// That a device leaks, and the way there.
fn leak_note((device, told): (DeviceIdx, String), view: UrlState<ViewState>) -> AnyView {
    let show = move |_| {
        view.update(|state| {
            choose_device(state, device);
            state.tab = Tab::Leaks;
        });
    };
    view! {
        <p class="failures">
            <strong>{told}</strong>
            " "
            <button class="link-button" on:click=show>"Show its leaks"</button>
        </p>
    }
    .into_any()
}

fn failure(marks: &Marks, (nth, oom): (usize, &OomMark), view: UrlState<ViewState>) -> AnyView {
    let event = oom.event;
    let open = move |tab| {
        view.update(|state| {
            state.tab = tab;
            state.at = Some(When::After(event));
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
