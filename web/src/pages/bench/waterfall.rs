//! The root-cause chain of a configuration, drawn as a waterfall.

use super::behind::behind;
use api::bench::{Bench, BenchCatalog, BenchConfig, BenchRow};
use leptos::prelude::*;
use presentation::pages::bench::bench_state::set_label;
use presentation::pages::bench::chain::{Bar, Chain, Link, Measure, chain};
use presentation::pages::bench::figures::{growth, level};
use trace::units::Bytes;

/// The chain of a configuration; empty without a baseline or without a patch of the chain.
pub fn chain_of(bench: &Bench, catalog: &BenchCatalog, config: &str) -> Option<Chain> {
    let about = catalog.configs.iter().find(|c| c.id == config)?;
    let rows = bench.rows.iter().filter(|row| row.config == config);
    chain(&rows.collect::<Vec<&BenchRow>>(), &about.chain)
}

/// The waterfall.
pub fn waterfall(chain: &Chain, catalog: &BenchCatalog, config: &str) -> Option<AnyView> {
    let about = catalog.configs.iter().find(|c| c.id == config)?;
    let first = line(
        "whole",
        "baseline".to_owned(),
        chain.total(chain.start),
        value(chain.measure, chain.start),
        None,
    );
    let mut before: &[String] = &[];
    let mut links = Vec::with_capacity(chain.links.len());
    for link in &chain.links {
        links.push(link_line(chain, link, before, catalog));
        before = &link.patches;
    }
    let rest = line(
        "rest",
        "left".to_owned(),
        chain.total(chain.rest()),
        value(chain.measure, chain.rest()),
        None,
    );
    let missing = missing(chain, about, catalog);
    let steps = chain
        .steps
        .map(|(from, to)| format!(" over {from} to {to} steps"));
    let steps = steps.unwrap_or_default();
    Some(
        view! {
            <figure class="waterfall">
                <figcaption>
                    <h3>"Root-cause chain"</h3>
                    <span class="muted">
                        {format!("{}, computed{steps}; each patch on top of those before it",
                                 chain.measure.name())}
                    </span>
                </figcaption>
                <ol>{first} {links} {rest}</ol>
                {missing}
            </figure>
        }
        .into_any(),
    )
}

fn missing(chain: &Chain, about: &BenchConfig, catalog: &BenchCatalog) -> Option<AnyView> {
    let last = chain.missing.last()?;
    let text = format!(
        "{} of {} links have run long enough; the last one is {}.",
        chain.links.len(),
        about.chain.len(),
        set_label(catalog, last)
    );
    Some(view! { <p class="muted">{text}</p> }.into_any())
}

fn link_line(chain: &Chain, link: &Link, before: &[String], catalog: &BenchCatalog) -> AnyView {
    let added: Vec<String> = link
        .patches
        .iter()
        .filter(|id| !before.contains(id))
        .cloned()
        .collect();
    let change = link.after - link.before;
    let share = change.abs() / chain.start.max(1.0) * 100.0;
    let (kind, text) = match change {
        c if c.abs() < 500.0 => ("none", "changes nothing".to_owned()),
        c if c < 0.0 => (
            "removed",
            format!("{} ({share:.0} %)", signed(chain.measure, c)),
        ),
        c => (
            "added",
            format!("{} ({share:.0} %)", signed(chain.measure, c)),
        ),
    };
    let label = format!("+ {}", set_label(catalog, &added));
    let behind = link.recorded.clone().map(behind);
    line(kind, label, chain.bar(link), text, behind)
}

fn line(
    kind: &'static str,
    label: String,
    bar: Bar,
    value: String,
    behind: Option<AnyView>,
) -> AnyView {
    view! {
        <li class="waterfall-line">
            <span>{label}</span>
            <svg
                class="waterfall-bar"
                viewBox="0 0 100 10"
                preserveAspectRatio="none"
                aria-hidden="true"
            >
                <rect
                    class=kind
                    x=format!("{:.2}", bar.x)
                    y="0"
                    width=format!("{:.2}", bar.width)
                    height="10"
                ></rect>
            </svg>
            <span class="num">{value}</span>
            {behind}
        </li>
    }
    .into_any()
}

fn value(measure: Measure, bytes: f64) -> String {
    match measure {
        Measure::Growth => growth(bytes),
        Measure::End | Measure::Peak => level(Bytes(bytes as u64)),
    }
}

fn signed(measure: Measure, bytes: f64) -> String {
    let sign = if bytes < 0.0 { "−" } else { "+" };
    match measure {
        Measure::Growth => growth(bytes),
        Measure::End | Measure::Peak => format!("{sign}{}", level(Bytes(bytes.abs() as u64))),
    }
}
