//! The bands of the growth chart as a table.

use super::growth_chart::select;
use super::{Asker, INFERRED, inferred_badge, inferred_note};
use crate::format;
use api::alive::Growth;
use leptos::prelude::*;
use presentation::questions::band_colours::colours;
use presentation::questions::band_table::change;
use presentation::questions::growth_chart::selected_band;
use std::sync::Arc;

/// The table, also the chart's legend; a click on a row selects the group.
#[component]
pub fn BandTable(asker: Asker, growth: Arc<Growth>) -> impl IntoView {
    let rows: Vec<AnyView> = (0..growth.bands.len())
        .map(|at| row(asker, &growth, at))
        .collect();
    let note = inferred_note(growth.bands.iter().any(|band| band.inferred), INFERRED);
    view! {
        <div class="table-frame">
            <table class="bands">
                <thead>
                    <tr>
                        <th scope="col">"Group"</th>
                        <th scope="col" class="num" title="Since the end of the first step">
                            "Change"
                        </th>
                        <th scope="col" class="num" title="At the last of these ends">
                            "Alive"
                        </th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
        {note}
    }
}

fn row(asker: Asker, growth: &Growth, at: usize) -> AnyView {
    let band = growth.bands[at].clone();
    let key = band.key.clone();
    let selected = asker.memo(move |state| selected_band(state).is_some_and(|band| band == key));
    let shown = growth.clone();
    let swatch = move || {
        let colours = asker.orders.with(|orders| colours(&shown, orders));
        colours[at].clone()
    };
    let name = match band.key.is_empty() {
        true => band.label.clone().into_any(),
        // The row handles the click.
        false => view! {
            <button class="link-button" aria-pressed=move || selected.get().to_string()>
                {band.label.clone()}
            </button>
        }
        .into_any(),
    };
    let inferred = inferred_badge(band.inferred);
    let last = |of: &[u64]| of.last().copied().unwrap_or(0);
    let (bytes, count) = (last(&band.bytes), last(&band.counts));
    let change = change(&band);
    view! {
        <tr class="group" class:selected=selected on:click=move |_| select(asker, &band)>
            <th scope="row">
                <span class="band-swatch" style:background=swatch></span>
                {name} {inferred}
            </th>
            <td class="num">{change}</td>
            <td class="num" title=format::exact_bytes(bytes)>
                {format::bytes(bytes)}
                <small class="muted">{format!(" in {}", format::count(count))}</small>
            </td>
        </tr>
    }
    .into_any()
}
