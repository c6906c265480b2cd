//! The growth chart: what is alive at the end of each step, by group.

use super::Asker;
use super::areas::{Areas, Rest, SIDE, Spot};
use super::band_colours::{Orders, colours};
use crate::format::{self, count};
use ::timeline::lanes::step_name;
use api::alive::{Growth, GrowthBand};
use api::view_state::ViewState;
use leptos::prelude::*;
use std::sync::Arc;
use wasm_bindgen::JsCast;
use web_sys::{Element, KeyboardEvent, MouseEvent};

/// The chart's moments up to the last step that ended, and the name of one that did not: it ran out
/// of memory, or the recording (of so many events) ended early in it. What is alive there is no end
/// of a step.
pub(super) fn ended(
    growth: Arc<Growth>,
    events: u32,
    failures: &[u32],
) -> (Arc<Growth>, Option<String>) {
    let n = growth.moments.len();
    let Some([before, last]) = growth.moments.last_chunk::<2>() else {
        return (growth, None);
    };
    let Some(step) = last.step.clone() else {
        return (growth, None);
    };
    let ends: Vec<u32> = growth.moments.iter().map(|moment| moment.event.0).collect();
    let mut lengths: Vec<u32> = ends.windows(2).map(|ends| ends[1] - ends[0]).collect();
    lengths.sort_unstable();
    let usual = lengths[lengths.len() / 2];
    let in_it = before.event.0 + 1..=last.event.0;
    let failed = failures.iter().any(|event| in_it.contains(event));
    let is_open = last.event.0 + 1 >= events;
    let is_short = (last.event.0 - before.event.0) * 2 < usual;
    let has_ended = !failed && (!is_open || !is_short);
    if has_ended {
        return (growth, None);
    }
    let mut ended = Arc::unwrap_or_clone(growth);
    ended.moments.truncate(n - 1);
    for band in &mut ended.bands {
        band.bytes.truncate(n - 1);
        band.counts.truncate(n - 1);
    }
    (Arc::new(ended), Some(step))
}

/// The text about a spot of the chart.
fn readout(growth: &Growth, areas: &Areas, spot: Spot) -> String {
    let moment = &growth.moments[spot.moment];
    let place = match &moment.step {
        Some(step) => format!("end of {}", step_name(step)),
        None => format!("event {}", count(u64::from(moment.event.0))),
    };
    let total: u64 = areas
        .order
        .iter()
        .map(|&b| growth.bands[b].bytes[spot.moment])
        .sum();
    let of = |band: &GrowthBand| {
        let bytes = band.bytes[spot.moment];
        let inferred = if band.inferred { " (inferred)" } else { "" };
        format!(
            "{}{inferred} · {} ({}) in {}",
            band.label,
            format::bytes(bytes),
            format::exact_bytes(bytes),
            format::plural(band.counts[spot.moment], "block"),
        )
    };
    let total = format!("total {}", format::bytes(total));
    match spot.band {
        Some(band) => format!("{place}: {} · {total}", of(&growth.bands[band])),
        None => format!("{place}: {total}"),
    }
}

/// The spot that an arrow key leads to.
fn moved(areas: &Areas, from: Option<Spot>, key: &str) -> Option<Spot> {
    let last = areas.n_moments().checked_sub(1)?;
    let top = areas.order.last().copied();
    let Some(spot) = from else {
        return ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]
            .contains(&key)
            .then_some(Spot {
                moment: last,
                band: top,
            });
    };
    let at = spot
        .band
        .and_then(|band| areas.order.iter().position(|&b| b == band));
    let band_at = |at: Option<usize>| at.and_then(|at| areas.order.get(at).copied()).or(spot.band);
    Some(match key {
        "ArrowLeft" => Spot {
            moment: spot.moment.saturating_sub(1),
            ..spot
        },
        "ArrowRight" => Spot {
            moment: (spot.moment + 1).min(last),
            ..spot
        },
        "ArrowUp" => Spot {
            band: band_at(at.map(|at| at + 1)).or(top),
            ..spot
        },
        "ArrowDown" => Spot {
            band: band_at(at.and_then(|at| at.checked_sub(1))).or(top),
            ..spot
        },
        _ => return None,
    })
}

const ABOUT: &str = "Memory alive at the end of each step, by group. Arrow keys walk, Enter \
                     selects.";

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
                {move || areas.with(level_labels)}
                <Plot asker=asker growth=growth areas=areas spot=spot/>
                {growth.with_value(|g| moment_labels(g))}
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
            role="img"
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
    asker.view.update(|state| {
        match state.growth_by {
            None => state.filter.site = Some(band.key.clone()),
            Some(by) => state.filter.of = Some(format!("{}:{}", by.name(), band.key)),
        }
        super::show_stack(state, band.stack);
    });
}

/// The key of the band that is selected.
pub(super) fn selected_band(state: &ViewState) -> Option<&str> {
    let Some(by) = state.growth_by else {
        return state.filter.site.as_deref();
    };
    let (of, key) = state.filter.of.as_deref()?.split_once(':')?;
    (of == by.name()).then_some(key)
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

fn level_labels(areas: &Areas) -> AnyView {
    let labels = areas.ticks().into_iter().map(|level| {
        let top = format!("{}%", areas.y(level) / SIDE * 100.0);
        view! { <span class="growth-level" style:top=top>{format::bytes(level)}</span> }
    });
    view! { <div aria-hidden="true">{labels.collect_view()}</div> }.into_any()
}

/// The first and the last moment, and some between.
fn moment_labels(growth: &Growth) -> AnyView {
    const LABELS: usize = 6;
    let n = growth.moments.len();
    let every = n.div_ceil(LABELS).max(1);
    let labels = (0..n).step_by(every).map(|at| {
        let left = format!("{}%", at as f64 / n.saturating_sub(1).max(1) as f64 * 100.0);
        let text = match &growth.moments[at].step {
            Some(_) => at.to_string(),
            None => count(u64::from(growth.moments[at].event.0)),
        };
        view! { <span class="growth-moment" style:left=left>{text}</span> }
    });
    view! { <div class="growth-moments" aria-hidden="true">{labels.collect_view()}</div> }
        .into_any()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::areas::tests::growth;
    use trace::alive::Dimension;
    use trace::units::EventIdx;

    #[test]
    fn arrows_walk_over_moments_and_bands() {
        let growth = growth(&[("a", &[1, 2]), ("b", &[3, 4]), ("", &[5, 6])]);
        let areas = Areas::new(&growth, Rest::Shown);
        let walk = |keys: &[&str]| {
            let spot = keys.iter().fold(None, |spot, key| moved(&areas, spot, key));
            spot.map(|s| (s.moment, s.band))
        };
        assert_eq!(
            walk(&["ArrowLeft"]),
            Some((1, Some(0))),
            "it begins at the end, on top"
        );
        assert_eq!(walk(&["ArrowLeft", "ArrowLeft"]), Some((0, Some(0))));
        assert_eq!(walk(&["ArrowDown", "ArrowDown"]), Some((1, Some(1))));
        assert_eq!(
            walk(&["ArrowDown", "ArrowUp"]),
            Some((1, Some(0))),
            "there is nothing above"
        );
        assert_eq!(walk(&["x"]), None);
    }

    #[test]
    fn a_step_that_did_not_end_is_no_end_of_a_step() {
        let check = |ends: &[u32], oom: &[u32], events: u32, expected: usize| {
            let bytes = vec![1; ends.len()];
            let mut growth = growth(&[("a", &bytes)]);
            for (moment, &end) in growth.moments.iter_mut().zip(ends) {
                moment.event = EventIdx(end);
            }
            let (shown, left_out) = ended(Arc::new(growth), events, oom);
            assert_eq!(shown.moments.len(), expected, "{ends:?}");
            assert_eq!(shown.bands[0].bytes.len(), expected);
            assert_eq!(left_out.is_some(), expected < ends.len());
        };
        check(&[99, 199, 299], &[], 300, 3);
        check(&[99, 199, 299], &[250], 300, 2);
        check(&[99, 199, 299], &[150], 300, 3);
        check(&[99, 199, 219], &[], 220, 2);
        check(&[99, 199, 219], &[], 900, 3);
        check(&[99], &[50], 100, 1);
    }

    #[test]
    fn a_spot_is_read_out_exactly() {
        let growth = growth(&[("a", &[1, 2048]), ("", &[5, 6])]);
        let areas = Areas::new(&growth, Rest::Shown);
        let spot = Spot {
            moment: 1,
            band: Some(0),
        };
        assert_eq!(
            readout(&growth, &areas, spot),
            "end of step 1: group a · 2.00 KiB (2,048 B) in 1 block · total 2.01 KiB"
        );
    }

    #[test]
    fn a_band_is_selected_in_its_own_dimension() {
        let mut state = ViewState::default();
        state.filter.site = Some("z4096".to_owned());
        state.filter.of = Some("module:backward:a.b".to_owned());
        assert_eq!(selected_band(&state), Some("z4096"));
        state.growth_by = Some(Dimension::Module);
        assert_eq!(selected_band(&state), Some("backward:a.b"));
        state.growth_by = Some(Dimension::Stream);
        assert_eq!(selected_band(&state), None);
    }
}
