//! The headline: one card for each run, then what differs besides memory.

use super::Focus;
use crate::format;
use leptos::prelude::*;
use std::sync::Arc;
use trace::compare::conditions::{Condition, ConditionKind};
use trace::compare::gate::{Outcome, Weight};
use trace::compare::headline::signed;
use trace::compare::{Change, Difference, Side};
use trace::trace::Series;
use trace::units::Bytes;

/// What differs between the baseline and the selected run besides memory.
#[component]
pub fn Conditions(focus: Focus) -> impl IntoView {
    move || {
        let conditions = focus.difference()?.conditions.clone();
        if conditions.is_empty() {
            return None;
        }
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
        });
        let rows = rows.collect_view();
        Some(view! {
            <section class="conditions" aria-label="What differs besides memory">
                <h2>{title}</h2>
                <ul>{rows}</ul>
            </section>
        })
    }
}

/// What the conditions that differ say of the two runs.
fn title(conditions: &[Condition]) -> &'static str {
    let any = |kind: ConditionKind| conditions.iter().any(|condition| condition.kind == kind);
    match () {
        () if any(ConditionKind::Work) => "The two runs did not do the same work",
        () if any(ConditionKind::OutOfMemory) => "One of the two runs ran out of memory",
        () => "The two runs were not made in the same way",
    }
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
            Outcome::Pass => ("badge good", "passes the gate"),
            Outcome::Regression => ("badge bad", "regression"),
            Outcome::CannotTell => ("badge caution", "cannot tell"),
        };
        let findings = against.gate.findings.iter();
        let serious = findings.filter(|finding| finding.weight <= Weight::Warn);
        let reasons: Vec<&str> = serious.map(|finding| finding.detail.as_str()).collect();
        let about = match reasons.is_empty() {
            true => against.gate.reason.clone(),
            false => reasons.join("; "),
        };
        view! { <span class=class title=about>{word}</span> }
    });
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
    let facts = facts(&difference).into_iter().map(|fact| {
        view! {
            <span class="card-fact" title=fact.exact>
                <span class="card-fact-name">{fact.name}</span>
                <span class="card-fact-value">{fact.value}</span>
                <span class="card-fact-change">{fact.change}</span>
            </span>
        }
    });
    let facts = facts.collect_view();
    view! {
        <span class=class>{difference.headline.clone()}</span>
        <span class="card-facts">{facts}</span>
    }
}

/// A number of a card.
#[derive(Debug, PartialEq)]
struct Fact {
    name: &'static str,
    value: String,
    change: String,
    exact: String,
}

fn facts(difference: &Difference) -> Vec<Fact> {
    let mut facts = Vec::new();
    for (name, series) in [
        ("peak allocated", Series::Allocated),
        ("peak reserved", Series::Reserved),
    ] {
        let delta = difference.series(series);
        facts.push(Fact {
            name,
            value: format!("{} → {}", delta.base.peak, delta.new.peak),
            change: change(delta.peak as f64),
            exact: format!(
                "{} → {}",
                format::exact_bytes(delta.base.peak.0),
                format::exact_bytes(delta.new.peak.0)
            ),
        });
    }
    let (base, new) = (&difference.base, &difference.new);
    if let (Some(before), Some(after)) = (base.growth, new.growth) {
        facts.push(Fact {
            name: "growth a step",
            value: format!("{} → {}", slope(before.slope), slope(after.slope)),
            change: change(after.slope - before.slope),
            exact: format!("{}; {}", growth_note(base), growth_note(new)),
        });
    }
    facts.push(Fact {
        name: "leaks",
        value: format!("{} → {}", base.leaks.told(), new.leaks.told()),
        change: String::new(),
        exact: format!("{}; {}", base.leaks.reason, new.leaks.reason),
    });
    facts
}

fn slope(slope: f64) -> String {
    match slope {
        s if s <= -0.5 => signed(s),
        s => Bytes(s.max(0.0).round() as u64).to_string(),
    }
}

fn growth_note(side: &Side) -> String {
    match side.growth {
        None => "too few steps".to_owned(),
        Some(growth) => {
            let error = growth.error.map_or_else(
                || "no error with so few steps".to_owned(),
                |error| format!("± {}", Bytes(error as u64)),
            );
            format!(
                "{} {error}, from step {}",
                slope(growth.slope),
                growth.from_step
            )
        }
    }
}

/// A change with its sign, or "same".
pub(super) fn change(bytes: f64) -> String {
    match bytes.abs() < 0.5 {
        true => "same".to_owned(),
        false => signed(bytes),
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
            view! { <option value=at.to_string() selected=selected>{text}</option> }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_signs_and_none_is_said() {
        assert_eq!(change(0.2), "same");
        assert_eq!(change(-1.5 * f64::from(1 << 30)), "−1.50 GiB");
        assert_eq!(change(2048.0), "+2.00 KiB");
        assert_eq!(slope(-2048.0), "−2.00 KiB");
        assert_eq!(slope(0.1), "0 B");
    }

    #[test]
    fn what_differs_is_said_in_a_sentence() {
        let of = |kind| Condition {
            kind,
            name: String::new(),
            base: String::new(),
            new: String::new(),
            meaning: String::new(),
        };
        let torch = of(ConditionKind::Torch);
        assert_eq!(
            title(std::slice::from_ref(&torch)),
            "The two runs were not made in the same way"
        );
        let work = [torch, of(ConditionKind::Work)];
        assert_eq!(title(&work), "The two runs did not do the same work");
    }
}
