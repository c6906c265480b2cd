//! The table of what accumulates.

use super::Asker;
use crate::format;
use api::leaks::{LeakGroup, Leaks};
use leptos::prelude::*;
use presentation::questions::words;
use std::cmp::Ordering;
use std::sync::Arc;
use timeline::order;

/// A column to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Group,
    Rate,
    Count,
    Live,
    Since,
    Confidence,
}

const COLUMNS: [(Column, &str); 6] = [
    (Column::Group, "Group"),
    (Column::Rate, "Bytes a step"),
    (Column::Count, "Blocks a step"),
    (Column::Live, "Alive"),
    (Column::Since, "Steps"),
    (Column::Confidence, "Confidence"),
];

/// The groups' positions in the order of a column; numbers from the largest down.
fn sorted(groups: &[LeakGroup], by: Column, reversed: bool) -> Vec<usize> {
    let compare = |a: usize, b: usize| -> Ordering {
        let (a, b) = (&groups[a], &groups[b]);
        match by {
            Column::Group => words::group_name(a).cmp(&words::group_name(b)),
            Column::Rate => b.bytes_per_step.total_cmp(&a.bytes_per_step),
            Column::Count => b.count_per_step.total_cmp(&a.count_per_step),
            Column::Live => b.live_bytes.cmp(&a.live_bytes),
            Column::Since => a.first_step.cmp(&b.first_step),
            Column::Confidence => b.confidence.total_cmp(&a.confidence),
        }
    };
    order::order_of(groups.len(), &mut |a, b| match reversed {
        true => compare(b, a),
        false => compare(a, b),
    })
}

/// The table; a click on a row selects the group.
#[component]
pub fn GroupTable(asker: Asker, leaks: Arc<Leaks>) -> impl IntoView {
    let order = RwSignal::new((Column::Rate, false));
    let heads = COLUMNS.map(|(column, title)| {
        let sort = move || {
            order.with(|&(by, reversed)| match (by == column, reversed) {
                (false, _) => "none",
                (true, false) => "descending",
                (true, true) => "ascending",
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
    let rows = {
        let leaks = Arc::clone(&leaks);
        move || {
            let (by, reversed) = order.get();
            let order = sorted(&leaks.groups, by, reversed);
            let rows = order.into_iter().map(|at| row(asker, &leaks.groups[at]));
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
    }
}

fn row(asker: Asker, group: &LeakGroup) -> AnyView {
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
    let place = group.frame.as_ref().map(|frame| match frame.line {
        0 => frame.filename.clone(),
        line => format!("{}:{line}", short(&frame.filename)),
    });
    let pattern = words::pattern(group);
    let place = match place {
        Some(place) => format!("{place} · {pattern}"),
        None => pattern,
    };
    let inferred =
        is_inferred(group).then(|| view! { <span class="badge" title=INFERRED>"inferred"</span> });
    let confidence = format!("{:.0} %", group.confidence * 100.0);
    let steps = format!("{} – {}", group.first_step, group.last_step);
    let exact = format::exact_bytes(group.live_bytes.get());
    view! {
        <tr role="row" class="group" class:selected=selected on:click=move |_| choose()>
            <th role="rowheader" scope="row">
                // The row handles the click.
                <button
                    class="link-button group-name"
                    aria-pressed=move || selected.get().to_string()
                >
                    {words::group_name(group)}
                </button>
                {inferred}
                <span class="muted group-place">{place}</span>
            </th>
            <td role="cell" class="num" data-label="a step">
                {words::rate(group.bytes_per_step, group.slope_error)}
            </td>
            <td role="cell" class="num" data-label="blocks a step">
                {words::amount(group.count_per_step)}
            </td>
            <td role="cell" class="num" data-label="alive" title=exact>
                {group.live_bytes.to_string()}
                <small class="muted">{format!(" in {}", format::count(group.live_count))}</small>
            </td>
            <td role="cell" class="num" data-label="steps">{steps}</td>
            <td role="cell" class="num" data-label="confidence">{confidence}</td>
        </tr>
    }
    .into_any()
}

/// Whether the name of a group was inferred rather than recorded.
fn is_inferred(group: &LeakGroup) -> bool {
    let recorded = group.frame.is_some() || group.alloc_frame.is_some();
    group.frame_inferred || (!recorded && group.forward.is_some())
}

const INFERRED: &str = "These allocations have no Python stack: the name is inferred from size, \
                        order and what was allocated beside them.";

/// The last part of a path, which distinguishes files.
fn short(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    match slashes.nth(1) {
        Some(at) => &path[at + 1..],
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::leaks::Pattern;
    use trace::units::Bytes;

    fn group(bytes_per_step: f64, first_step: u32) -> LeakGroup {
        LeakGroup {
            site: format!("z{first_step}"),
            stack: None,
            frame: None,
            frame_inferred: false,
            alloc_frame: None,
            forward: None,
            pattern: Pattern::EveryStep,
            every: None,
            scope: None,
            count_per_step: 1.0,
            bytes_per_step,
            slope_error: 0.0,
            confidence: 0.5,
            first_step,
            last_step: 9,
            live_count: 1,
            live_bytes: Bytes(1),
            evidence: vec![],
        }
    }

    #[test]
    fn the_fastest_comes_first_and_equals_keep_their_order() {
        let groups = [group(1.0, 5), group(7.0, 3), group(1.0, 4)];
        assert_eq!(sorted(&groups, Column::Rate, false), [1, 0, 2]);
        assert_eq!(sorted(&groups, Column::Rate, true), [0, 2, 1]);
        assert_eq!(sorted(&groups, Column::Since, false), [1, 2, 0]);
        assert_eq!(short("/srv/a/b/c.py"), "b/c.py");
    }
}
