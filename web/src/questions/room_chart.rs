//! Reserved memory over the recording, and how the unused part was distributed.

use super::Asker;
use super::answer::{Answer, follow};
use super::growth_chart::{fractions, level_labels};
use crate::format::count;
use api::memory_map::RoomOverTime;
use api::routes;
use leptos::prelude::*;
use presentation::questions::room::{Part, Room};
use trace::units::EventIdx;
use web_sys::{KeyboardEvent, MouseEvent};

const POINT: &str = "Each point stands for a part of the recording: it shows the moment when most \
                     was reserved and not in use. Click to see where memory lay then.";

/// The picture, with a line at the event of the map.
#[component]
pub fn RoomChart(asker: Asker, at: Memo<EventIdx>) -> impl IntoView {
    let rooms =
        follow::<RoomOverTime>(move || asker.path(|s| routes::room_over_time(&s.run, s.device)));
    let last = asker.last_event();
    move || {
        let room = rooms
            .with(Answer::shown)
            .and_then(|rooms| Room::of(rooms, last))?;
        Some(chart(asker, at, room))
    }
}

fn chart(asker: Asker, at: Memo<EventIdx>, room: Room) -> AnyView {
    let labels = level_labels(room.high);
    let (paths, waits) = (paths(&room), room.waits());
    let room = StoredValue::new(room);
    let pointed = RwSignal::new(None::<usize>);
    let moment = move |event: &MouseEvent| {
        let (x, _) = fractions(event)?;
        Some(room.with_value(|room| room.moment(x)))
    };
    let words = move || match pointed.get() {
        None => POINT.to_owned(),
        Some(moment) => room.with_value(|room| {
            let event = count(u64::from(room.event(moment).0));
            format!("After event {event}: {}", room.words(moment))
        }),
    };
    let choose = move |event: MouseEvent| {
        if let Some(moment) = moment(&event) {
            let event = room.with_value(|room| room.event(moment));
            asker.go_to(event);
        }
    };
    let event_at = move |pointed: Option<usize>| match pointed {
        Some(moment) => room.with_value(|room| room.event(moment)),
        None => at.get(),
    };
    let keys = move |event: KeyboardEvent| {
        let from = untrack(|| event_at(pointed.get()));
        if event.key() == "Enter" {
            return asker.go_to(from);
        }
        let next = room.with_value(|room| room.moved(from, &event.key()));
        if next.is_some() {
            event.prevent_default();
            event.stop_propagation();
            pointed.set(next);
        }
    };
    let x = move |event| room.with_value(|room| room.x(event));
    let cursor = move || x(event_at(pointed.get()));
    view! {
        <figure class="growth">
            <div class="growth-frame">
                {labels}
                <svg
                    class="growth-plot"
                    viewBox="0 0 1000 1000"
                    preserveAspectRatio="none"
                    role="application"
                    tabindex="0"
                    aria-label="Reserved memory over the recording: in use, free between blocks, \
                                free in whole segments. Arrow keys walk, Enter selects."
                    on:keydown=keys
                    on:mousemove=move |event| pointed.set(moment(&event))
                    on:mouseleave=move |_| pointed.set(None)
                    on:click=choose
                >
                    {paths}
                    <line class="growth-cursor" x1=cursor x2=cursor y1="0" y2="1000"></line>
                </svg>
            </div>
            <figcaption class="growth-head">
                <p class="growth-readout" aria-live="polite">{words}</p>
                {legend(waits)}
            </figcaption>
        </figure>
    }
    .into_any()
}

fn paths(room: &Room) -> AnyView {
    view! {
        <path class="map-used" d=room.path(Part::Used)></path>
        <path class="map-pending" d=room.path(Part::Waiting)></path>
        <path class="map-split" d=room.path(Part::Split)></path>
        <path class="map-cached" d=room.path(Part::Cached)></path>
        <path class="room-gap" d=room.largest_gap()></path>
    }
    .into_any()
}

fn legend(waits: bool) -> AnyView {
    let pending = waits.then(|| {
        view! { <li class="pending">"given back, another stream still uses it"</li> }
    });
    view! {
        <ul class="level-legend map-legend">
            <li class="used">"in use"</li>
            {pending}
            <li class="split">"free, between blocks"</li>
            <li class="cached">"free segments"</li>
            <li class="gap">"largest gap"</li>
        </ul>
    }
    .into_any()
}
