//! The frontier: peak memory against step time of every offloader. It is a chart with the two
//! limits, and a list with the numbers.

use api::bench::{Frontier, FrontierKind, FrontierPoint};
use leptos::prelude::*;
use presentation::pages::bench::figures::{level, seconds};
use presentation::pages::bench::plot::{Mark, Place, Plot};

/// The chart and the list; nothing without points.
pub fn picture(frontier: &Frontier) -> Option<AnyView> {
    let plot = Plot::of(frontier)?;
    let marks = plot.marks(frontier);
    let numbered = || (1..).zip(&marks);
    let dots = numbered().map(|(number, mark)| dot(number, mark, frontier));
    let dots = dots.collect_view();
    let entries = numbered().map(|(number, mark)| entry(number, mark, frontier));
    let entries = entries.collect_view();
    let compute = plot.place(frontier.limits.compute_seconds, 0.0).x;
    let [from, to] = plot.copies(&frontier.limits);
    let limits = format!(
        "M{compute:.2} 0V100M{:.2} {:.2}L{:.2} {:.2}",
        from.x,
        100.0 - from.y,
        to.x,
        100.0 - to.y
    );
    let sizes = plot.sizes().into_iter().map(|(size, y)| {
        view! { <span class="frontier-size" style:bottom=percent(y)>{size}</span> }
    });
    let sizes = sizes.collect_view();
    let times = plot.times().into_iter().map(|(time, x)| {
        view! { <span class="frontier-time" style:left=percent(x)>{time}</span> }
    });
    let times = times.collect_view();
    let middle = Place {
        x: (from.x + to.x) / 2.0,
        y: (from.y + to.y) / 2.0,
    };
    Some(
        view! {
            <section class="frontier" aria-label="What memory costs in time">
                <header class="offloaders-head">
                    <h2>"What memory costs in time"</h2>
                    <p class="muted">
                        "The lower an offloader stands, the less memory it needs at its peak; the \
                         further left, the faster is a step. No step is shorter than what it \
                         computes (“compute”). With copies one way after the other none comes \
                         below “copies”; one that copies both ways at once, or computes \
                         activations again, can. Upright bars are the engine on a card."
                    </p>
                    <p class="muted">{origin(frontier)}</p>
                </header>
                <div class="frontier-plot" role="group" aria-label="Peak against step time">
                    <svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">
                        <path d=limits></path>
                        <path class="on-card" d=plot.bars(frontier)></path>
                    </svg>
                    <span class="frontier-limit" style:left=percent(compute) style:bottom="0">
                        "compute"
                    </span>
                    <span
                        class="frontier-limit"
                        style:left=percent(middle.x)
                        style:bottom=percent(middle.y)
                    >
                        "copies"
                    </span>
                    {sizes} {times} {dots}
                </div>
                <ol class="frontier-list">{entries}</ol>
            </section>
        }
        .into_any(),
    )
}

/// What ran, and where the numbers come from.
fn origin(frontier: &Frontier) -> String {
    let card = &frontier.card;
    format!(
        "Each step is {}. Computed ({}, {}: {}). Bars: {}, matrix products by {} ({}, {}: {}).",
        frontier.workload,
        frontier.file,
        frontier.date,
        frontier.command,
        card.machine,
        card.compute,
        card.file,
        card.date,
        card.command,
    )
}

fn percent(of: f64) -> String {
    format!("{of:.2}%")
}

fn class(kind: FrontierKind) -> &'static str {
    match kind {
        FrontierKind::Stays => "frontier-dot stays",
        FrontierKind::Recompute => "frontier-dot recomputes",
        FrontierKind::Trl => "frontier-dot trl",
        FrontierKind::Other => "frontier-dot other",
        FrontierKind::Fraction => "frontier-dot fraction",
    }
}

fn first_class(mark: &Mark<'_>) -> &'static str {
    let first = mark.points.first();
    first.map_or("frontier-dot", |point| class(point.kind))
}

/// A mark in the plot; its title names all its points.
fn dot(number: usize, mark: &Mark<'_>, frontier: &Frontier) -> AnyView {
    let lines = mark.points.iter();
    let told: Vec<String> = lines.map(|point| told(point, frontier)).collect();
    let told = told.join("\n");
    view! {
        <span
            class=first_class(mark)
            style=("--x", percent(mark.place.x))
            style:left=percent(mark.place.x)
            style:bottom=percent(mark.place.y)
            tabindex="0"
            role="img"
            title=told.clone()
            aria-label=told
        >
            {number}
        </span>
    }
    .into_any()
}

/// A list entry for every mark.
fn entry(number: usize, mark: &Mark<'_>, frontier: &Frontier) -> AnyView {
    let lines = mark.points.iter();
    let lines = lines.map(|point| view! { <span>{told(point, frontier)}</span> });
    let lines = lines.collect_view();
    view! {
        <li>
            <span class=first_class(mark) aria-hidden="true">{number}</span>
            <div>{lines}</div>
        </li>
    }
    .into_any()
}

/// A point in words.
fn told(point: &FrontierPoint, frontier: &Frontier) -> String {
    let mut told = format!(
        "{}: {}, {}",
        point.label,
        level(point.peak_allocated),
        seconds(point.step_seconds)
    );
    if point.peak_active > point.peak_allocated {
        told += &format!(", {} with what copies still read", level(point.peak_active));
    }
    if let Some(measured) = point.measured {
        let (peak, step) = (measured.peak_allocated, measured.step_seconds);
        told += &format!("; measured: {}, {}", level(peak), seconds(step));
    }
    if point.corrupted_tensors > 0 {
        told += "; restored bytes may be wrong";
    }
    if let Some(card) = frontier.on_card(&point.label) {
        told += &format!("; engine on the card: {}", seconds(card.step_seconds));
    }
    told
}
