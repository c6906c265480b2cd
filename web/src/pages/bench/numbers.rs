//! The kinds of numbers, each with a form and a word of its own, and the evidence for each.

use api::bench::Evidence;
use leptos::prelude::*;
use presentation::pages::bench::numbers::{class_of, facts, losses};

/// One number of a kind; a size to compare also has a bar.
pub fn number(kind: &'static str, text: String, title: String, share: Option<f64>) -> AnyView {
    view! {
        <span class=format!("kind {kind}") title=title>
            {bar(share)}
            <span class="kind-value">{text}</span>
            <span class="kind-name">{kind}</span>
        </span>
    }
    .into_any()
}

fn bar(share: Option<f64>) -> Option<AnyView> {
    let width = format!("{:.1}%", share? * 100.0);
    Some(
        view! {
            <span class="kind-track" aria-hidden="true">
                <span class="kind-fill" style:width=width></span>
            </span>
        }
        .into_any(),
    )
}

/// A number of another run, in a place where its evidence can already be opened.
pub fn told(known: &Evidence, text: String) -> AnyView {
    view! {
        <span class=format!("kind {}", class_of(known.kind)) title=known.source.clone()>
            <span class="kind-value">{text}</span>
            <span class="kind-name">{known.kind.word()}</span>
        </span>
    }
    .into_any()
}

/// A number of another run that opens its evidence.
pub fn evidence(known: &Evidence, text: String, share: Option<f64>) -> AnyView {
    let facts = facts(known).into_iter();
    let facts = facts.map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> });
    view! {
        <details class=format!("kind evidence {}", class_of(known.kind))>
            <summary>
                {bar(share)}
                <span class="kind-value">{text}</span>
                <span class="kind-name">{known.kind.word()}</span>
            </summary>
            <dl class="evidence-card">{facts.collect_view()}</dl>
        </details>
        {loss(known)}
    }
    .into_any()
}

/// The real run's loss, beside its memory: only the loss shows that data were damaged.
fn loss(known: &Evidence) -> Option<AnyView> {
    let (text, is_damaged) = losses(known)?;
    let class = match is_damaged {
        true => "kind-loss bad-text",
        false => "kind-loss muted",
    };
    Some(view! { <span class=class>{text}</span> }.into_any())
}
