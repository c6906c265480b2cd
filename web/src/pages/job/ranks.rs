//! The table of ranks, and a choice of two to compare.

use super::cells;
use crate::format;
use api::jobs::{JobDetail, JobRank};
use api::routes;
use leptos::prelude::*;
use leptos_router::components::A;
use presentation::pages::job::curves::{oddest_first, why};
use std::sync::Arc;
use trace::compare::headline::signed;
use trace::leaks::Verdict;
use trace::ranks::odd::rate;

/// How many rows are shown at first.
const FIRST: usize = 32;

const HEADS: [&str; 8] = [
    "Rank",
    "#Peak allocated",
    "#Peak reserved",
    "#End",
    "#Growth a step",
    "#Steps",
    "#Leaks",
    "What is odd",
];

/// The table: by rank if all are shown, otherwise the oddest first.
#[component]
pub fn Ranks(job: Arc<JobDetail>) -> impl IntoView {
    let all = RwSignal::new(false);
    let n = job.ranks.len();
    let listed = Arc::clone(&job);
    let table = move || {
        let ranks = match n > FIRST {
            true => oddest_first(&listed),
            false => listed.ranks.iter().collect(),
        };
        let most = if all.get() { n } else { FIRST };
        let rows = ranks.into_iter().take(most).map(row).collect();
        cells::table("Table of ranks", &HEADS, rows)
    };
    let more = move || {
        let text = format!("Show all {n} ranks");
        (n > FIRST && !all.get()).then(|| cells::more(text, move || all.set(true)))
    };
    view! {
        <section aria-labelledby="job-ranks-title">
            <div class="job-section-head">
                <h2 id="job-ranks-title">"Ranks"</h2>
                <Pair job=job/>
            </div>
            {table}
            {more}
        </section>
    }
}

fn row(rank: &JobRank) -> AnyView {
    let row = &rank.row;
    let growth = match row.growth {
        None => "–".to_owned(),
        Some(slope) if slope.abs() < 0.5 => "0".to_owned(),
        Some(slope) => signed(slope),
    };
    let leaks = match row.verdict {
        Verdict::Leak => format!("{} a step", rate(row)),
        Verdict::Clean => "no".to_owned(),
        Verdict::CannotTell => "cannot tell".to_owned(),
    };
    let (page, name) = (routes::run_page(&rank.run), format!("Rank {}", row.rank));
    let head = view! { <A href=page>{name}</A> }.into_any();
    let steps = format::count(u64::from(row.steps));
    cells::row(
        head,
        vec![
            cells::size("Peak", row.peak_allocated),
            cells::size("Reserved", row.peak_reserved),
            cells::size("End", row.end),
            cells::number("Growth a step", growth, None),
            cells::number("Steps", steps, None),
            cells::number("Leaks", leaks, Some(row.reason.clone())),
            cells::words(why(rank)),
        ],
    )
}

/// Opens the comparison of two ranks: by default the least odd with the oddest.
#[component]
fn Pair(job: Arc<JobDetail>) -> impl IntoView {
    if job.ranks.len() < 2 {
        return ().into_any();
    }
    let at = |position: usize| {
        let mut ranks = job.ranks.iter();
        ranks.position(|rank| rank.row.by_oddness as usize == position)
    };
    let (oddest, least) = (at(0).unwrap_or(0), at(job.ranks.len() - 1).unwrap_or(0));
    let (base, new) = (RwSignal::new(least), RwSignal::new(oddest));
    let listed = Arc::clone(&job);
    let link = move || {
        let run = |at: usize| listed.ranks.get(at).map(|rank| rank.run.clone());
        let runs: Vec<_> = [base.get(), new.get()]
            .into_iter()
            .filter_map(run)
            .collect();
        routes::compare_page(&runs)
    };
    let select = |name: &'static str, chosen: RwSignal<usize>| {
        let options = job.ranks.iter().enumerate().map(|(at, rank)| {
            let selected = chosen.get_untracked() == at;
            view! {
                <option value=at.to_string() selected=selected>
                    {format!("rank {}", rank.row.rank)}
                </option>
            }
        });
        let options = options.collect_view();
        let change = move |event| {
            if let Ok(at) = event_target_value(&event).parse() {
                chosen.set(at);
            }
        };
        view! {
            <select class="input" aria-label=name on:change=change>{options}</select>
        }
    };
    view! {
        <div class="job-pair">
            {select("Baseline", base)} <span class="muted">"→"</span> {select("Compared rank", new)}
            <A href=link attr:class="button">"Compare"</A>
        </div>
    }
    .into_any()
}
