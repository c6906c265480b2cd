//! Out of memory: when, what was requested, why it failed, who asked, and what was held.

use super::recording::Composition;
use crate::format::count;
use crate::questions::reveal;
use crate::url_state::UrlState;
use ::timeline::oom;
use api::leaks::{LeakSummary, Verdict};
use api::runs::{DeviceSummary, RunDetail};
use api::timeline::{Marks, OomMark};
use api::view_state::{Tab, ViewState};
use leptos::prelude::*;
use presentation::questions::words;
use std::sync::Arc;
use trace::leaks;
use trace::trace::device_name;

/// How many failed allocations are listed one by one.
const TOLD: usize = 2;

/// What marks the picture of a device, by its ordinal.
pub type MarksOf = RwSignal<Option<(u32, Arc<Marks>)>>;

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
        let Some(marks) = marks else {
            return (failed > 0)
                .then(|| view! { <div class="skeleton-row failures-skeleton"></div> }.into_any());
        };
        let told = marks.ooms.iter().take(TOLD);
        let told: Vec<_> = told.map(|oom| failure(&marks, oom, view)).collect();
        let more = more(&marks).map(|more| view! { <p class="muted">{more}</p> });
        (!told.is_empty()).then(|| {
            view! { <section class="failures" aria-label="Out of memory">{told} {more}</section> }
                .into_any()
        })
    }
}

/// How many failed allocations are told.
fn failed(device: &DeviceSummary) -> usize {
    device.oom_events.len().min(TOLD)
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
            let show = move |_| view.update(|state| super::head::choose_device(state, ordinal));
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
                super::head::choose_device(state, other);
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

fn leaks_there(found: &LeakSummary) -> String {
    let place = words::capital(&device_name(found.device));
    format!("{place} {}.", leaks::in_words(found.bytes_per_step))
}

fn failure(marks: &Marks, oom: &OomMark, view: UrlState<ViewState>) -> AnyView {
    let event = oom.event;
    let look = move |_| {
        view.update(|state| {
            state.tab = Tab::Alive;
            state.at = Some(event);
            state.root = None;
        });
        reveal();
    };
    let facts = facts(oom).into_iter().map(|(name, value)| {
        view! { <div class="fact"><dt>{name}</dt><dd>{value}</dd></div> }
    });
    let asker = match oom::asker(oom) {
        Some(asker) => view! { <p>"Asked by " <code>{asker}</code></p> }.into_any(),
        None => view! { <p>"No stack was recorded of who asked."</p> }.into_any(),
    };
    view! {
        <article class="failure">
            <h2>{headline(marks, oom)}</h2>
            <p>{oom::reason(oom)}</p>
            {asker}
            <div class="failure-numbers">
                <dl class="failure-facts">{facts.collect_view()}</dl>
                <button class="button" on:click=look>"What was alive then"</button>
            </div>
            <Composition when="Held then" categories=oom.held.clone() view=view/>
        </article>
    }
    .into_any()
}

fn headline(marks: &Marks, oom: &OomMark) -> String {
    let place = oom::place(marks, oom);
    words::capital(format!("out of memory {place}").trim_end())
}

fn facts(oom: &OomMark) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("asked for", oom.size.to_string()),
        ("free on the device", oom.device_free.to_string()),
    ];
    facts.extend(oom.limit.map(|limit| ("limit, at most", limit.to_string())));
    facts.extend([
        ("allocated then", oom.allocated.to_string()),
        ("reserved then", oom.reserved.to_string()),
        ("event", count(u64::from(oom.event.0))),
    ]);
    facts
}

/// How many there are besides those listed.
fn more(marks: &Marks) -> Option<String> {
    let sent = marks.ooms.len().saturating_sub(TOLD) as u64;
    match sent + marks.ooms_left_out {
        0 => None,
        1 => Some("And 1 time more.".to_owned()),
        more => Some(format!("And {} times more.", count(more))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::phases::Phase;
    use trace::span::Span;
    use trace::trace::Step;
    use trace::units::{Bytes, EventIdx};

    fn marks() -> Marks {
        let oom = |event: u32| OomMark {
            event: EventIdx(event),
            size: Bytes(2048),
            device_free: Bytes(1024),
            step: None,
            phase: Phase::Backward,
            limit: (event == 4).then_some(Bytes(8192)),
            allocated: Bytes(4096),
            reserved: Bytes(6144),
            operation: None,
            frame: None,
            held: Vec::new(),
        };
        Marks {
            steps: vec![Step {
                index: 0,
                name: "## step 0 ##".to_owned(),
                events: Span::new(EventIdx(0), EventIdx(10)),
            }],
            annotations: vec![],
            annotations_left_out: 0,
            ooms: [4, 1200, 1300].map(oom).into(),
            ooms_left_out: 1000,
            capacity: Some(Bytes(4096)),
            stays: vec![],
            stays_left_out: 0,
        }
    }

    #[test]
    fn a_failure_says_where_and_what() {
        let marks = marks();
        let heads = marks.ooms.iter().take(2).map(|oom| headline(&marks, oom));
        assert_eq!(
            heads.collect::<Vec<_>>(),
            [
                "Out of memory in step 0, in the backward pass",
                "Out of memory after step 0, in the backward pass"
            ]
        );
        let names = |oom| facts(oom).into_iter().map(|(name, _)| name);
        assert!(names(&marks.ooms[0]).any(|name| name == "limit, at most"));
        assert!(!names(&marks.ooms[1]).any(|name| name == "limit, at most"));
        assert_eq!(more(&marks).as_deref(), Some("And 1,001 times more."));
    }

    #[test]
    fn nothing_more_is_nothing() {
        let mut marks = marks();
        marks.ooms_left_out = 0;
        assert_eq!(more(&marks).as_deref(), Some("And 1 time more."));
        marks.ooms.truncate(2);
        assert_eq!(more(&marks), None);
    }
}
