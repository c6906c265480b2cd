//! Does it leak, how fast, since when, and which code is it?

use super::allocation_list::AllocationList;
use super::answer::{Answer, ask};
use super::group_table::GroupTable;
use super::growth_chart::GrowthChart;
use super::honesty::Honesty;
use super::{Asker, words};
use crate::components::icon::{Icon, IconView};
use crate::components::problem_note::ProblemNote;
use api::alive::{AllocationFilter, Growth};
use api::inspect::Verdict;
use api::leaks::{ForwardOp, LeakGroup, Leaks, Pattern};
use api::routes;
use leptos::prelude::*;
use std::sync::Arc;
use trace::alive::Dimension;
use trace::units::EventIdx;

/// The tab.
#[component]
pub fn LeaksTab(asker: Asker) -> impl IntoView {
    let leaks = ask::<Leaks>(move || Some(asker.path(|s| routes::leaks(&s.run, s.device))));
    let growth = ask::<Growth>(move || {
        Some(asker.path(|s| routes::growth(&s.run, s.device, Dimension::Site)))
    });
    let verdict = move || match leaks.get() {
        Answer::Failed(problem) => view! { <ProblemNote problem=problem/> }.into_any(),
        Answer::There(leaks) => view! { <Headline asker=asker leaks=leaks/> }.into_any(),
        _ => view! { <div class="skeleton-row questions-skeleton"></div> }.into_any(),
    };
    let chart = move || match growth.get() {
        Answer::Failed(problem) => view! { <ProblemNote problem=problem/> }.into_any(),
        Answer::There(growth) => view! { <GrowthChart asker=asker growth=growth/> }.into_any(),
        _ => view! { <div class="skeleton-row growth-skeleton"></div> }.into_any(),
    };
    let groups = move || {
        let leaks = leaks.with(Answer::shown)?;
        (!leaks.groups.is_empty()).then(|| view! { <GroupTable asker=asker leaks=leaks/> })
    };
    view! {
        {verdict}
        {chart}
        {groups}
        <Selected asker=asker leaks=leaks growth=growth/>
    }
}

/// The verdict, its reason, and what limits it.
#[component]
fn Headline(asker: Asker, leaks: Arc<Leaks>) -> impl IntoView {
    let icon = match leaks.verdict {
        Verdict::Clean => Icon::Done,
        Verdict::Leak | Verdict::CannotTell => Icon::Warning,
    };
    let class = format!(
        "verdict {}",
        words::verdict_word(leaks.verdict).replace(' ', "-")
    );
    let caveats = leaks.caveats.iter().map(|caveat| {
        view! { <li>{words::sentence(caveat)}</li> }
    });
    let caveats = caveats.collect_view();
    view! {
        <header class=class>
            <IconView icon=icon/>
            <div class="verdict-text">
                <h2>{words::headline(&leaks)}</h2>
                <p>{words::sentence(&leaks.reason)}</p>
                <ul class="verdict-caveats muted">{caveats}</ul>
            </div>
            <Honesty asker=asker/>
        </header>
    }
}

/// Which allocations of a group to list: those that are still alive at the end of the last step,
/// or, where a group grows within steps, all.
fn of_group(site: &str, group: Option<&LeakGroup>, last: Option<EventIdx>) -> AllocationFilter {
    let across = group.is_some_and(|group| group.pattern != Pattern::WithinStep);
    AllocationFilter {
        site: Some(site.to_owned()),
        alive: last.filter(|_| across).map(|event| event.0),
        ..AllocationFilter::default()
    }
}

/// The allocations of the selected group, step by step.
#[component]
fn Selected(
    asker: Asker,
    leaks: RwSignal<Answer<Leaks>>,
    growth: RwSignal<Answer<Growth>>,
) -> impl IntoView {
    let site = asker.memo(|state| state.filter.site.clone());
    let group = move || {
        let site = site.get()?;
        let leaks = leaks.with(Answer::shown)?;
        leaks
            .groups
            .iter()
            .find(|group| group.site == site)
            .cloned()
    };
    let filter = Signal::derive(move || {
        let site = site.get()?;
        // Both are needed to say what to look for.
        leaks.with(Answer::shown)?;
        let growth = growth.with(Answer::shown)?;
        let last = growth.moments.last().map(|moment| moment.event);
        Some(of_group(&site, group().as_ref(), last))
    });
    let title = move || {
        let site = site.get()?;
        let band = growth.with(Answer::shown).and_then(|growth| {
            let band = growth.bands.iter().find(|band| band.key == site)?;
            Some(band.label.clone())
        });
        let (name, what) = match group() {
            Some(group) if group.pattern != Pattern::WithinStep => {
                (words::group_name(&group), "what it keeps, step by step")
            }
            Some(group) => (words::group_name(&group), "its allocations, step by step"),
            None => (
                band.unwrap_or_else(|| site.clone()),
                "its allocations, step by step",
            ),
        };
        Some(format!("{name}: {what}"))
    };
    let close = move |_| {
        asker.view.update(|state| {
            state.filter.site = None;
            state.selection = None;
        });
    };
    let forward = move || group()?.forward.as_ref().map(backward);
    view! {
        <Show when=move || site.with(Option::is_some)>
            <div class="selected-group">
                <h3>{title}</h3>
                <button class="button" on:click=close>"Let go of the group"</button>
            </div>
            {forward}
            <AllocationList
                asker=asker
                filter=filter
                nothing="Nothing of this group is alive at the end of the last step."
            />
        </Show>
    }
}

/// What is said of a group that a backward pass made.
fn backward(forward: &ForwardOp) -> AnyView {
    let text = format!(
        "Made by a backward pass, without a Python stack. Inferred from {}: it belongs to {}.",
        forward.evidence.replace('_', " "),
        forward.label,
    );
    view! { <p class="muted">{text}</p> }.into_any()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_that_is_no_leak_lists_all_of_its_allocations() {
        let filter = of_group("s1", None, Some(EventIdx(9)));
        assert_eq!((filter.site.as_deref(), filter.alive), (Some("s1"), None));
    }
}
