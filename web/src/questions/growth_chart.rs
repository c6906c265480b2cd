//! The growth chart: what is alive at the end of each step, by group.

use super::Asker;
use api::alive::{Growth, GrowthBand};
use leptos::prelude::*;
use presentation::questions::areas::{self, Areas, Rest, SIDE, Spot};
use presentation::questions::band_colours::{Orders, colours};
use presentation::questions::growth_chart::{
    band_name, moment_labels, moved, readout, select_band, selected_band,
};
use std::sync::Arc;
use wasm_bindgen::JsCast;
use web_sys::{Element, KeyboardEvent, MouseEvent};

const ABOUT: &str = "Memory that stays, by group. Arrow keys walk, Enter selects.";

/// The chart. Click or Enter selects a group.
#[component]
pub fn GrowthChart(asker: Asker, growth: Arc<Growth>) -> impl IntoView {
    let rest = RwSignal::new(Rest::at_first(&growth));
    let spot = RwSignal::new(None::<Spot>);
    let areas = {
        let growth = Arc::clone(&growth);
        Memo::new(move |_| Areas::new(&growth, rest.get()))
    };
    let growth = StoredValue::new(growth);
    let show_rest = move |event| {
        spot.set(None);
        rest.set(match event_target_checked(&event) {
            true => Rest::Shown,
            false => Rest::Hidden,
        });
    };
    let words = move || match spot.get() {
        Some(spot) => growth.with_value(|g| areas.with(|a| readout(g, a, spot))),
        None => "Point at a band for its exact values; click it for its allocations.".to_owned(),
    };
    view! {
        <figure class="growth">
            <div class="growth-frame">
                {move || level_labels(areas.with(|areas| areas.high))}
                <Plot asker=asker growth=growth areas=areas spot=spot/>
                {move || growth.with_value(|g| areas.with(|a| names(g, a)))}
                {growth.with_value(|g| below(g))}
            </div>
            <figcaption class="growth-head">
                <p id="growth-readout" class="growth-readout" aria-live="polite">{words}</p>
                <label class="control">
                    <input
                        type="checkbox"
                        prop:checked=move || rest.get() == Rest::Shown
                        on:change=show_rest
                    />
                    "with all other groups"
                </label>
            </figcaption>
        </figure>
    }
}

/// The bands themselves.
#[component]
fn Plot(
    asker: Asker,
    growth: StoredValue<Arc<Growth>>,
    areas: Memo<Areas>,
    spot: RwSignal<Option<Spot>>,
) -> impl IntoView {
    let selected = asker.memo(|state| selected_band(state).map(str::to_owned));
    let choose = move |spot: Option<Spot>| {
        let band = spot.and_then(|spot| spot.band);
        let band = band.map(|band| growth.with_value(|g| g.bands[band].clone()));
        if let Some(band) = band {
            select(asker, &band);
        }
    };
    let point = move |event: &MouseEvent| {
        let (x, y) = fractions(event)?;
        areas.with_untracked(|areas| areas.spot(x, y))
    };
    let keys = move |event: KeyboardEvent| {
        if event.key() == "Enter" {
            return choose(spot.get_untracked());
        }
        let next = areas.with_untracked(|a| moved(a, spot.get_untracked(), &event.key()));
        if next.is_some() {
            event.prevent_default();
            event.stop_propagation();
            spot.set(next);
        }
    };
    view! {
        <svg
            class="growth-plot"
            viewBox="0 0 1000 1000"
            preserveAspectRatio="none"
            role="application"
            tabindex="0"
            aria-label=ABOUT
            aria-describedby="growth-readout"
            on:mousemove=move |event| spot.set(point(&event))
            on:mouseleave=move |_| spot.set(None)
            on:click=move |event| choose(point(&event))
            on:keydown=keys
        >
            {move || growth.with_value(|g| {
                areas.with(|a| bands(g, a, asker.orders, selected, spot))
            })}
            {move || cursor(&areas.get(), spot.get())}
        </svg>
    }
}

/// The position of a pointer over an element, from its left and from its top.
pub(super) fn fractions(event: &MouseEvent) -> Option<(f64, f64)> {
    let element = event.current_target()?.dyn_into::<Element>().ok()?;
    let rect = element.get_bounding_client_rect();
    let x = (f64::from(event.client_x()) - rect.left()) / rect.width().max(1.0);
    let y = (f64::from(event.client_y()) - rect.top()) / rect.height().max(1.0);
    Some((x, y))
}

/// Selects a band's group. The band of all other groups cannot be selected.
pub(super) fn select(asker: Asker, band: &GrowthBand) {
    if band.key.is_empty() {
        return;
    }
    asker.view.update(|state| select_band(state, band));
}

fn bands(
    growth: &Growth,
    areas: &Areas,
    orders: Memo<Orders>,
    selected: Memo<Option<String>>,
    spot: RwSignal<Option<Spot>>,
) -> AnyView {
    let colours = orders.with(|orders| colours(growth, orders));
    let paths = areas.order.iter().enumerate().map(|(position, &band)| {
        let key = growth.bands[band].key.clone();
        let dimmed = move || selected.with(|s| s.as_ref().is_some_and(|s| *s != key));
        let pointed = move || spot.get().is_some_and(|spot| spot.band == Some(band));
        view! {
            <path
                class="band"
                style:fill=colours[band].clone()
                class:dimmed=dimmed
                class:pointed=pointed
                data-band=band.to_string()
                d=areas.path(position)
            ></path>
        }
    });
    paths.collect_view().into_any()
}

fn cursor(areas: &Areas, spot: Option<Spot>) -> Option<AnyView> {
    let spot = spot.filter(|spot| spot.moment < areas.n_moments())?;
    let x = areas.x(spot.moment);
    let x = x.to_string();
    let line = view! {
        <line class="growth-cursor" x1=x.clone() x2=x y1="0" y2="1000"></line>
    };
    Some(line.into_any())
}

/// The labels of an axis of levels from 0 to its upper edge.
pub(super) fn level_labels(high: u64) -> AnyView {
    let labels = areas::level_labels(high).into_iter().map(|(top, label)| {
        view! { <span class="growth-level" style:top=format!("{top}%")>{label}</span> }
    });
    view! { <div aria-hidden="true">{labels.collect_view()}</div> }.into_any()
}

fn names(growth: &Growth, areas: &Areas) -> AnyView {
    let names = areas.names().into_iter().map(|(band, y)| {
        let top = format!("{}%", y / SIDE * 100.0);
        view! { <span class="growth-name" style:top=top>{band_name(&growth.bands[band])}</span> }
    });
    view! { <div aria-hidden="true">{names.collect_view()}</div> }.into_any()
}

fn below(growth: &Growth) -> AnyView {
    let labels = moment_labels(growth);
    // None touches the one beside it, however long it is.
    let room = format!("min({}%, 6rem)", 100 / labels.len().max(1));
    let labels = labels.into_iter().map(|(left, text)| {
        let left = format!("{left}%");
        view! {
            <span class="growth-moment" style:left=left style:max-width=room.clone()>{text}</span>
        }
    });
    view! { <div class="growth-moments" aria-hidden="true">{labels.collect_view()}</div> }
        .into_any()
}
