//! The table of what accumulates.

use super::{Asker, inferred_badge, inferred_note};
use api::leaks::{LeakGroup, Leaks};
use leptos::prelude::*;
use presentation::questions::group_table::{
    COLUMNS, Column, INFERRED, alive, aria, head, is_inferred, sorted,
};
use presentation::questions::words;
use std::sync::Arc;

/// The table; a click on a row selects the group.
#[component]
pub fn GroupTable(asker: Asker, leaks: Arc<Leaks>) -> impl IntoView {
    let order = RwSignal::new((Column::Rate, false));
    let heads = COLUMNS.map(|(column, begins)| {
        let title = head((column, begins), &leaks.step);
        let sort = move || {
            order.with(|&(by, reversed)| match by == column {
                true => aria(by, reversed),
                false => "none",
            })
        };
        let choose = move |_| {
            order.update(|(by, reversed)| {
                (*by, *reversed) = (column, *by == column && !*reversed);
            });
        };
        view! {
            <th role="columnheader" scope="col" aria-sort=sort class:num=column != Column::Group>
                <button class="sort" on:click=choose>{title}</button>
            </th>
        }
    });
    let note = inferred_note(leaks.groups.iter().any(is_inferred), INFERRED);
    let rows = {
        let leaks = Arc::clone(&leaks);
        move || {
            let (by, reversed) = order.get();
            let order = sorted(&leaks.groups, by, reversed);
            let rows = order
                .into_iter()
                .map(|at| row(asker, &leaks.groups[at], &leaks.step));
            rows.collect_view()
        }
    };
    view! {
        <div class="table-frame stacked">
            <table role="table">
                <thead role="rowgroup"><tr role="row">{heads}</tr></thead>
                <tbody role="rowgroup">{rows}</tbody>
            </table>
        </div>
        {note}
    }
}

fn row(asker: Asker, group: &LeakGroup, step: &str) -> AnyView {
    let (site, stack) = (group.site.clone(), group.stack);
    let selected = {
        let site = site.clone();
        asker.memo(move |state| state.filter.site.as_ref() == Some(&site))
    };
    let choose = move || {
        asker
            .view
            .update(|state| state.filter.site = Some(site.clone()));
        asker.select_stack(stack);
    };
    let inferred = inferred_badge(is_inferred(group));
    let confidence = format!("{:.0} %", group.confidence * 100.0);
    let steps = format!("{} – {}", group.first_number, group.last_number);
    let [exact, blocks] = alive(group, step);
    let a = words::a(step);
    // Several groups may have the same name.
    let (name, place) = (words::group_name(group), words::whereabouts(group, step));
    view! {
        <tr role="row" class="group" class:selected=selected on:click=move |_| choose()>
            <th role="rowheader" scope="row">
                // The row handles the click.
                <button
                    class="link-button group-name"
                    aria-pressed=move || selected.get().to_string()
                    aria-label=[&name, ", ", &place].concat()
                >
                    {name.clone()}
                </button>
                {inferred}
                <span class="muted group-place">{place}</span>
            </th>
            <td role="cell" class="num" data-label=a.clone()>
                {words::rate(group.bytes_per_step, group.slope_error)}
            </td>
            <td role="cell" class="num" data-label=["blocks ", &a].concat()>
                {words::amount(group.count_per_step)}
            </td>
            <td
                role="cell"
                class="num"
                data-label=["alive, end of last ", step].concat()
                title=exact
            >
                {group.live_bytes.to_string()}
                <small class="muted">{blocks}</small>
            </td>
            <td role="cell" class="num" data-label=words::several(step)>{steps}</td>
            <td role="cell" class="num" data-label="confidence">{confidence}</td>
        </tr>
    }
    .into_any()
}
