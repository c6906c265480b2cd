//! The headline: one card for each run, then what differs besides memory.

use super::Focus;
use crate::components::prose::Prose;
use api::bench::Fault;
use leptos::prelude::*;
use presentation::components::problem_note::sentence;
use presentation::pages::compare::cards::{facts, reasons, title};
use std::sync::Arc;
use trace::compare::gate::Outcome;
use trace::compare::{Change, Difference};
use trace::units::numbers::Numbers;

/// What differs between the baseline and the selected run besides memory.
#[component]
pub fn Conditions(focus: Focus) -> impl IntoView {
    move || {
        let conditions = focus.difference()?.conditions.clone();
        let title = title(&conditions);
        let rows = conditions.into_iter().map(|condition| {
            view! {
                <li>
                    <span class="condition-name">{condition.name}</span>
                    <code>{condition.base}</code>
                    <span aria-label="became">" → "</span>
                    <code>{condition.new}</code>
                    <span class="muted">{condition.meaning}</span>
                </li>
            }
            .into_any()
        });
        section("What differs besides memory", title, rows.collect())
    }
}

/// A list with a title; nothing if it is empty.
pub fn section(label: &'static str, title: &'static str, rows: Vec<AnyView>) -> Option<AnyView> {
    if rows.is_empty() {
        return None;
    }
    let list = view! {
        <section class="conditions" aria-label=label>
            <h2>{title}</h2>
            <ul>{rows}</ul>
        </section>
    };
    Some(list.into_any())
}

/// One card for each run after the baseline; the card of the selected run is pressed.
#[component]
pub fn Cards(focus: Focus) -> impl IntoView {
    let cards = (1..focus.comparison().runs.len())
        .map(|run| view! { <Card focus=focus run=run/> })
        .collect_view();
    view! {
        <section class="compare-cards" aria-label="Against the baseline">{cards}</section>
        <DevicePicker focus=focus/>
    }
}

#[component]
fn Card(focus: Focus, run: usize) -> impl IntoView {
    let pressed = move || focus.against.get() == run;
    let foremost = focus
        .with_against(run, |against| against.foremost)
        .flatten();
    let difference = move || {
        let foremost = foremost? as usize;
        let pair = if pressed() {
            focus.pair.get()
        } else {
            foremost
        };
        focus
            .difference_of(run, pair)
            .or_else(|| focus.difference_of(run, foremost))
    };
    let body = move || match difference() {
        None => {
            let text = "No device in both runs holds memory or events.";
            view! { <p class="muted">{text}</p> }.into_any()
        }
        Some(difference) => view! { <CardBody difference=difference/> }.into_any(),
    };
    let gate = focus.with_against(run, |against| {
        let (class, word) = match against.gate.outcome {
            Outcome::Pass => ("badge good", "passes the gate".to_owned()),
            Outcome::Regression => ("badge bad", Fault::or_regression(&against.gate)),
            Outcome::CannotTell => ("badge caution", "cannot tell".to_owned()),
        };
        view! { <span class=class title=against.gate.reason.clone()>{word}</span> }
    });
    let why = move || {
        let headline = difference().map(|difference| difference.headline.clone());
        focus.with_against(run, |against| {
            let reasons = reasons(&against.gate, &headline.unwrap_or_default()).into_iter();
            let reason =
                |text| view! { <span class="card-why"><Prose text=sentence(text)/></span> };
            reasons.map(reason).collect_view()
        })
    };
    view! {
        <button
            class="compare-card"
            class:pressed=pressed
            aria-pressed=move || pressed().to_string()
            on:click=move |_| focus.view.update(|state| {
                state.against = run as u32;
                state.selected = None;
            })
        >
            <span class="card-head">
                <span class=format!("run-swatch run-{run}") aria-hidden="true"></span>
                <span class="card-name" title=focus.name(run)>{focus.name(run)}</span>
                {gate}
            </span>
            {body}
            {why}
        </button>
    }
}

#[component]
fn CardBody(difference: Arc<Difference>) -> impl IntoView {
    let class = match difference.change {
        Change::None | Change::Moved | Change::NotComparable => "card-headline",
        Change::Better => "card-headline better",
        Change::Worse => "card-headline worse",
        Change::Mixed => "card-headline mixed",
    };
    let is_exact = Numbers::written() == Numbers::Exact;
    let facts = facts(&difference).into_iter().map(|fact| {
        // Sizes are exact already.
        let exact = (is_exact && fact.exact != fact.value)
            .then(|| view! { <span class="card-fact-exact">{fact.exact.clone()}</span> });
        view! {
            <span class="card-fact" title=fact.exact>
                <span class="card-fact-name">{fact.name}</span>
                <span class="card-fact-value">{fact.value}</span>
                <span class="card-fact-change">{fact.change}</span>
                {exact}
            </span>
        }
    });
    let facts = facts.collect_view();
    view! {
        <span class=class><Prose text=difference.headline.clone()/></span>
        <span class="card-facts">{facts}</span>
    }
}

#[component]
fn DevicePicker(focus: Focus) -> impl IntoView {
    move || {
        let pairs = focus.with_against(focus.against.get(), |against| {
            let devices = against.devices.iter();
            devices
                .map(|d| (d.base.device, d.new.device))
                .collect::<Vec<_>>()
        })?;
        if pairs.len() < 2 {
            return None;
        }
        let options = pairs.into_iter().enumerate().map(|(at, (old, new))| {
            let text = format!("device {old} → device {new}");
            let selected = move || focus.pair.get() == at;
            view! { <option value=at.to_string() prop:selected=selected>{text}</option> }
        });
        let options = options.collect_view();
        let choose = move |event: web_sys::Event| {
            let pair = event_target_value(&event).parse().ok();
            focus.view.update(|state| {
                state.pair = pair;
                state.window = None;
                state.selected = None;
            });
        };
        Some(view! {
            <select class="input" aria-label="Devices" on:change=choose>{options}</select>
        })
    }
}
