//! A list of allocations, a page at a time.

use super::answer::{Answer, ask, refused};
use super::{Asker, inferred_badge, inferred_note};
use crate::format::{self, count};
use ::timeline::lanes::step_name;
use api::alive::{AllocationFilter, AllocationPage, AllocationRow};
use api::routes;
use api::view_state::Selection;
use leptos::prelude::*;
use presentation::questions::allocation_list::new_steps;
use presentation::questions::group_table::INFERRED;
use presentation::questions::words;
use trace::trace::BlockIdx;

/// Allocations of a page.
const PAGE: usize = 100;

/// The allocations that match a filter.
#[component]
pub fn AllocationList(
    asker: Asker,
    /// What to look for; `None`: nothing yet.
    filter: Signal<Option<AllocationFilter>>,
    /// What to say when nothing is found.
    nothing: &'static str,
    /// Is told what one of the run's steps is called.
    #[prop(optional)]
    step: Option<RwSignal<String>>,
    /// What to say under a page of them.
    #[prop(optional)]
    about: Option<Callback<Vec<AllocationRow>, Option<String>>>,
) -> impl IntoView {
    let offset = RwSignal::new(0_u64);
    Effect::new(move |_| {
        filter.track();
        offset.set(0);
    });
    let answer = ask::<AllocationPage>(move || {
        let filter = filter.get()?;
        let path = |s: &crate::timeline::drive::Source| {
            routes::allocations(&s.run, s.device, &filter, offset.get(), PAGE)
        };
        Some(asker.path(path))
    });
    let shown = Memo::new(move |_| answer.with(Answer::shown).map(|page| (*page).clone()));
    Effect::new(move |_| {
        if let (Some(step), Some(page)) = (step, shown.get()) {
            step.set(page.step);
        }
    });
    let content = move || {
        if let Answer::Failed(problem) = answer.get() {
            return refused(problem);
        }
        match shown.get() {
            None => view! { <div class="skeleton-row questions-skeleton"></div> }.into_any(),
            Some(page) if page.total.count == 0 => {
                view! { <p class="muted questions-empty">{nothing}</p> }.into_any()
            }
            Some(page) => {
                let about = about.and_then(|about| about.run(page.items.clone()));
                table(asker, page, offset, about)
            }
        }
    };
    let busy = move || answer.with(Answer::is_waiting).to_string();
    view! { <section class="allocations" aria-busy=busy>{content}</section> }
}

fn table(
    asker: Asker,
    page: AllocationPage,
    offset: RwSignal<u64>,
    about: Option<String>,
) -> AnyView {
    let n = page.items.len() as u64;
    let total = page.total;
    let first = page.offset + 1;
    let summary = format!(
        "{} in {} · {} – {}",
        total.bytes,
        format::plural(total.count, "allocation"),
        count(first.min(total.count)),
        count(page.offset + n),
    );
    // The next page is the one after that which is shown, also for whoever presses twice.
    let at = page.offset;
    // A button that cannot go further keeps the focus, so it is not `disabled`.
    let (back, on) = (at > 0, at + n < total.count);
    let steps = new_steps(&page.items);
    let is_any = page.items.iter().any(|row| row.forward.is_some());
    let note = inferred_note(is_any, INFERRED);
    let rows = page.items.into_iter().zip(steps);
    let word = page.step;
    let head = words::capital(&word);
    let rows = rows.map(|(row, new)| allocation(asker, row, new, &word));
    view! {
        <div class="allocations-head">
            <p class="alive-summary">{summary}</p>
            <div class="control">
                <button
                    class="button"
                    aria-disabled=(!back).to_string()
                    on:click=move |_| offset.set(at.saturating_sub(PAGE as u64))
                >
                    "Previous"
                </button>
                <button
                    class="button"
                    aria-disabled=(!on).to_string()
                    on:click=move |_| offset.set(if on { at + PAGE as u64 } else { at })
                >
                    "Next"
                </button>
            </div>
        </div>
        <div class="table-frame stacked">
            <table role="table">
                <thead role="rowgroup">
                    <tr role="row">
                        <th role="columnheader" scope="col">{head}</th>
                        <th role="columnheader" scope="col" class="num">"Size"</th>
                        <th role="columnheader" scope="col">"Allocated at"</th>
                        <th role="columnheader" scope="col" class="num">"Event"</th>
                        <th role="columnheader" scope="col" class="num">"Freed"</th>
                        <th role="columnheader" scope="col" class="num">"Outlived"</th>
                    </tr>
                </thead>
                <tbody role="rowgroup">{rows.collect_view()}</tbody>
            </table>
        </div>
        {note}
        {about.map(|text| view! { <p class="muted">{text}</p> })}
    }
    .into_any()
}

fn allocation(asker: Asker, row: AllocationRow, new_step: bool, word: &str) -> AnyView {
    let block = row.block;
    let selected =
        asker.memo(move |state| state.selection == Some(Selection::Block(BlockIdx(block))));
    let step = match &row.step {
        Some(step) if new_step => step_name(step).to_owned(),
        None if new_step && row.alloc.is_none() => "before".to_owned(),
        _ => String::new(),
    };
    let name = row
        .forward
        .as_ref()
        .map_or(&row.label, |forward| &forward.label);
    let name = match row.alloc {
        Some(event) => format!("{}, {name}, event {}", row.size, count(u64::from(event.0))),
        None => format!("{}, {name}", row.size),
    };
    let event = |event: Option<trace::units::EventIdx>, none: &str| match event {
        Some(event) => count(u64::from(event.0)),
        None => none.to_owned(),
    };
    let label = match &row.forward {
        Some(forward) => view! {
            {format!("backward of {}", forward.label)}
            {inferred_badge(true)}
        }
        .into_any(),
        None => row.label.clone().into_any(),
    };
    let freed_else = if row.freed_before { "before" } else { "never" };
    let outlived = match row.age {
        0 => "–".to_owned(),
        1 => ["1 ", word].concat(),
        age => [&count(u64::from(age)), " ", &words::several(word)].concat(),
    };
    view! {
        <tr
            role="row"
            class="block"
            class:selected=selected
            class:new-step=new_step
            on:click=move |_| asker.select_block(block)
        >
            <td role="cell">{step}</td>
            <td role="cell" class="num" title=format::exact_bytes(row.size.get())>
                // The row handles the click.
                <button
                    class="link-button"
                    aria-pressed=move || selected.get().to_string()
                    aria-label=name
                >
                    {row.size.to_string()}
                </button>
            </td>
            <td role="cell" class="block-label">{label}</td>
            <td role="cell" class="num" data-label="allocated at">{event(row.alloc, "before")}</td>
            <td role="cell" class="num" data-label="freed">{event(row.freed, freed_else)}</td>
            <td role="cell" class="num" data-label="outlived">{outlived}</td>
        </tr>
    }
    .into_any()
}

/// The allocations just before and after another one.
#[component]
pub fn Beside(asker: Asker, block: BlockIdx) -> impl IntoView {
    let answer = ask::<AllocationPage>(move || {
        Some(asker.path(|s| routes::beside(&s.run, s.device, block)))
    });
    let rows = move || {
        let page = answer.with(Answer::shown)?;
        let row = |row: &AllocationRow| {
            let (other, own) = (row.block, row.block == block.0);
            let label = match &row.forward {
                Some(forward) => format!("backward of {} (inferred)", forward.label),
                None => row.label.clone(),
            };
            view! {
                <li class:own=own>
                    <button
                        class="link-button"
                        disabled=own
                        aria-label=format!("{}, {label}", row.size)
                        on:click=move |_| asker.select_block(other)
                    >
                        {row.size.to_string()}
                    </button>
                    <span>{label}</span>
                </li>
            }
        };
        let rows = page.items.iter().map(row).collect_view();
        Some(view! { <ol class="beside">{rows}</ol> })
    };
    view! {
        <details class="panel-beside">
            <summary>"Allocated beside it"</summary>
            {rows}
        </details>
    }
}
