//! Whether the run leaks, how fast, since when, and which code it is.

use super::Asker;
use super::allocation_list::AllocationList;
use super::answer::{Answer, ask, refused};
use super::band_table::BandTable;
use super::dimension_choice::DimensionChoice;
use super::group_table::GroupTable;
use super::growth_chart::GrowthChart;
use super::honesty::Honesty;
use crate::components::copy_button::CopyButton;
use crate::components::focus;
use crate::components::icon::{Icon, IconView};
use crate::components::prose::Prose;
use ::timeline::lanes::step_name;
use api::alive::{AllocationRow, Growth};
use api::frames::ForwardOp;
use api::leaks::{Leaks, Pattern, Verdict};
use api::routes;
use api::runs::DeviceSummary;
use leptos::prelude::*;
use presentation::questions::growth_chart::{ended, selected_band};
use presentation::questions::leaks_tab::{
    group_growth, growth_by, label_of, no_part, of_band, of_group,
};
use presentation::questions::{markdown, words};
use std::sync::Arc;
use trace::alive::Dimension;

/// The tab.
#[component]
pub fn LeaksTab(asker: Asker) -> impl IntoView {
    let leaks = ask::<Leaks>(move || Some(asker.path(|s| routes::leaks(&s.run, s.device))));
    let by = asker.memo(growth_by);
    let growth =
        ask::<Growth>(move || Some(asker.path(|s| routes::growth(&s.run, s.device, by.get()))));
    let verdict = move || match leaks.get() {
        Answer::Failed(problem) => refused(problem),
        Answer::There(leaks) => view! { <Headline asker=asker leaks=leaks/> }.into_any(),
        _ => view! { <div class="skeleton-row questions-skeleton"></div> }.into_any(),
    };
    let chart = move || match growth.get() {
        // The verdict above says why already.
        Answer::Failed(_) if leaks.with(|leaks| matches!(leaks, Answer::Failed(_))) => {
            ().into_any()
        }
        Answer::Failed(problem) => refused(problem),
        Answer::There(growth) => {
            let (growth, open) = ended_of(asker, growth);
            let note = open.map(|step| {
                let text = format!("Without {}: it did not end.", step_name(&step));
                view! { <p class="muted">{text}</p> }
            });
            view! { <GrowthChart asker=asker growth=growth/> {note} }.into_any()
        }
        _ => view! { <div class="skeleton-row growth-skeleton"></div> }.into_any(),
    };
    let groups = move || {
        if by.get() != Dimension::Site {
            // Not the bands of the earlier answer, which have keys of another kind.
            let growth = growth
                .with(Answer::shown)
                .filter(|growth| growth.by == by.get())?;
            let (growth, _) = ended_of(asker, growth);
            return Some(view! { <BandTable asker=asker growth=growth/> }.into_any());
        }
        let leaks = leaks.with(Answer::shown)?;
        let any = !leaks.groups.is_empty();
        any.then(|| view! { <GroupTable asker=asker leaks=leaks/> }.into_any())
    };
    // A single pass has no ends of steps.
    let stepped = asker.device.with_value(|device| device.steps > 1);
    let heading = move || match (stepped, leaks.with(Answer::shown)) {
        (false, _) => "Alive while it was recorded".to_owned(),
        (true, None) => "Alive at the end of each step".to_owned(),
        (true, Some(leaks)) => ["Alive at the end of each ", &leaks.step].concat(),
    };
    view! {
        {verdict}
        <div class="growth-head">
            <h3>{heading}</h3>
            <DimensionChoice asker=asker chosen=growth_by choose=group_growth/>
        </div>
        {chart}
        {groups}
        <Selected asker=asker leaks=leaks growth=growth/>
    }
}

/// What of an answer is about steps that ended.
fn ended_of(asker: Asker, growth: Arc<Growth>) -> (Arc<Growth>, Option<String>) {
    let device = |device: &DeviceSummary| ended(growth, device.events, &device.oom_events);
    asker.device.with_value(device)
}

/// The verdict, its reason, and its limits.
#[component]
fn Headline(asker: Asker, leaks: Arc<Leaks>) -> impl IntoView {
    let run = asker.run.get_value();
    let leaks = Arc::new(Arc::unwrap_or_clone(leaks).beside(run.bench_row.as_ref()));
    let is_pass = leaks.verdict == Verdict::CannotTell && leaks.recording.is_pass();
    let icon = match leaks.verdict {
        Verdict::Clean => Icon::Done,
        Verdict::CannotTell if is_pass => Icon::Note,
        Verdict::Leak | Verdict::CannotTell => Icon::Warning,
    };
    let class = match is_pass {
        true => "verdict".to_owned(),
        false => {
            let word = words::verdict_word(leaks.verdict).replace(' ', "-");
            format!("verdict {word}")
        }
    };
    let caveats = leaks.caveats.iter().chain(&leaks.reserved_growth);
    let caveats = caveats.map(|caveat| {
        view! { <li><Prose text=words::sentence(caveat)/></li> }
    });
    let caveats = caveats.collect_view();
    let words = {
        let leaks = Arc::clone(&leaks);
        Signal::derive(move || markdown::leaks(&asker.run_name(), &leaks))
    };
    view! {
        <header class=class>
            <IconView icon=icon/>
            <div>
                <h2>{words::headline(&leaks)}</h2>
                <p><Prose text=words::sentence(&leaks.reason)/></p>
                <ul class="verdict-caveats muted">{caveats}</ul>
                <CopyButton text=words what="the verdict" label="Copy as Markdown"/>
            </div>
            <Honesty asker=asker/>
        </header>
    }
}

/// The allocations of the selected group, step by step.
#[component]
fn Selected(
    asker: Asker,
    leaks: RwSignal<Answer<Leaks>>,
    growth: RwSignal<Answer<Growth>>,
) -> impl IntoView {
    let chosen = asker.memo(|state| (state.filter.site.clone(), state.filter.of.clone()));
    let group = move || {
        let site = chosen.get().0?;
        let leaks = leaks.with(Answer::shown)?;
        let mut groups = leaks.groups.iter();
        groups.find(|group| group.site == site).cloned()
    };
    let filter = Signal::derive(move || {
        // Both answers are needed to know what to search.
        leaks.with(Answer::shown)?;
        let growth = growth.with(Answer::shown)?;
        let last = growth.moments.last().map(|moment| moment.event);
        match chosen.get() {
            (Some(site), _) => Some(of_group(&site, group().as_ref(), last)),
            (None, of) => Some(of_band(of?, &growth)),
        }
    });
    let title = move || {
        if let Some(group) = group() {
            let what = match group.pattern {
                Pattern::WithinStep => "its allocations, step by step",
                _ => "what it keeps, step by step",
            };
            return Some(format!("{}: {what}", words::full_name(&group)));
        }
        let (site, of) = chosen.get();
        let what = match site {
            Some(_) => "its allocations, step by step".to_owned(),
            None => {
                let leaks = leaks.with(Answer::shown)?;
                ["what outlives ", &words::a(&leaks.step)].concat()
            }
        };
        let key = site.or(of)?;
        let band = growth.with(Answer::shown).and_then(|growth| {
            let state = asker.view.state();
            state.with(|state| label_of(selected_band(state)?, &growth))
        });
        Some(format!("{}: {what}", band.unwrap_or(key)))
    };
    let about = Callback::new(move |rows: Vec<AllocationRow>| {
        let leaks = leaks.with(Answer::shown)?;
        no_part(&leaks.groups, &filter.get()?, &rows)
    });
    let forward = move || group()?.forward.as_ref().map(backward);
    view! {
        <Show when=move || chosen.with(|(site, of)| site.is_some() || of.is_some())>
            <div class="selected-group">
                <h3>{title}</h3>
                <button class="button" on:click=move |_| let_go(asker)>
                    "Let go of the group"
                </button>
            </div>
            {forward}
            <AllocationList
                asker=asker
                filter=filter
                nothing="Nothing of this group is alive at the end of the last step."
                about=about
            />
        </Show>
    }
}

/// The button for this goes away: the group in the table gets the focus.
fn let_go(asker: Asker) {
    focus::give(".group-name");
    focus::give(".group-name[aria-pressed=true]");
    asker.view.update(|state| {
        state.filter.site = None;
        state.filter.of = None;
        state.selection = None;
    });
}

/// The text about a group that a backward pass made.
fn backward(forward: &ForwardOp) -> AnyView {
    let text = format!(
        "Made by a backward pass, without a Python stack. Inferred from {}: it belongs to {}.",
        forward.evidence.replace('_', " "),
        forward.label,
    );
    view! { <p class="muted">{text}</p> }.into_any()
}
