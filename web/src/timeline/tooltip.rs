//! The tooltip: exact values of what is under the pointer.

use super::Handle;
use crate::client;
use crate::format;
use ::timeline::readout::{Line, Readout, extent_text};
use api::routes;
use api::timeline::Moment;
use leptos::html;
use leptos::leptos_dom::helpers::{TimeoutHandle, set_timeout_with_handle};
use leptos::prelude::*;
use presentation::timeline::tooltip::{moment_text, placed};
use std::time::Duration;
use trace::trace::Series;
use trace::units::EventIdx;

/// The pointer must rest this long before the server is asked what the event did.
const REST: Duration = Duration::from_millis(90);

/// The tooltip; it follows the pointer without covering what is under it.
#[component]
pub fn Tooltip(handle: Handle) -> impl IntoView {
    let moment = moment_at_pointer(handle);
    let content = move || {
        let readout = handle.outputs.readout.get()?;
        Some(body(handle, &readout, moment))
    };
    let room = NodeRef::<html::Div>::new();
    let place = move || {
        let readout = handle.outputs.readout.get()?;
        let stage = room
            .get_untracked()?
            .parent_element()?
            .get_bounding_client_rect();
        let screen = document().document_element()?;
        let screen = (screen.client_width().into(), screen.client_height().into());
        let stage = [stage.left(), stage.top(), stage.width()];
        Some(placed(readout.at, stage, screen))
    };
    let place = move || place().unwrap_or_else(|| "display: none".to_owned());
    view! {
        <div class="tooltip-room" node_ref=room prop:style=place aria-hidden="true">
            <div class="timeline-tooltip">{content}</div>
        </div>
    }
}

fn body(
    handle: Handle,
    readout: &Readout,
    moment: RwSignal<Option<Moment>>,
) -> impl IntoView + use<> {
    let title = readout
        .title
        .clone()
        .map(|title| view! { <p class="tooltip-title">{title}</p> });
    let lines = readout.lines.iter().map(row).collect_view();
    let event = readout.event;
    let did = move || {
        let moment = moment.get().filter(|m| Some(m.event) == event)?;
        Some(row(&Line {
            label: "action".to_owned(),
            value: moment_text(&moment),
        }))
    };
    let series = readout.extents.map(|extents| {
        Series::ALL
            .iter()
            .rev()
            .map(|&series| {
                view! {
                    <div class=format!("tooltip-row {}", series.name())>
                        <dt><span class="legend-line"></span>{series.name()}</dt>
                        <dd title=exact(extents[series as usize].1.get())>
                            {extent_text(extents[series as usize])}
                        </dd>
                    </div>
                }
            })
            .collect_view()
    });
    let pinned = readout.pinned.map(|pinned| {
        view! {
            <div class="tooltip-row pinned">
                <dt><span class="legend-line"></span>"pinned (host)"</dt>
                <dd title=exact(pinned.1.get())>{extent_text(pinned)}</dd>
            </div>
        }
    });
    let ranges = readout.event.is_none() && handle.outputs.extents.with_untracked(Option::is_some);
    let note = ranges.then(|| view! { <p class="muted">"lowest – highest in these events"</p> });
    view! {
        {title}
        <dl>{lines}{did}</dl>
        <dl class="tooltip-series">{pinned}{series}</dl>
        {note}
    }
}

fn exact(bytes: u64) -> String {
    format::exact_bytes(bytes)
}

fn row(line: &Line) -> impl IntoView + use<> {
    view! {
        <div class="tooltip-row">
            <dt>{line.label.clone()}</dt>
            <dd>{line.value.clone()}</dd>
        </div>
    }
}

/// What the event under a resting pointer did, once the server has answered.
fn moment_at_pointer(handle: Handle) -> RwSignal<Option<Moment>> {
    let moment = RwSignal::new(None::<Moment>);
    let event = Memo::new(move |_| {
        handle
            .outputs
            .readout
            .with(|r| r.as_ref().and_then(|r| r.event))
    });
    Effect::new(move |pending: Option<Option<TimeoutHandle>>| {
        if let Some(pending) = pending.flatten() {
            pending.clear();
        }
        let event = event.get()?;
        set_timeout_with_handle(move || ask(handle, event, moment), REST).ok()
    });
    moment
}

fn ask(handle: Handle, event: EventIdx, moment: RwSignal<Option<Moment>>) {
    let Some(path) = handle.with(|driver| {
        let source = driver.source();
        source.asks(routes::moment(&source.run, source.device, event))
    }) else {
        return;
    };
    leptos::task::spawn_local(async move {
        // Without an answer the tooltip is one line shorter.
        if let Ok(answer) = client::get::<Moment>(&path).await {
            let _ = moment.try_set(Some(answer));
        }
    });
}
