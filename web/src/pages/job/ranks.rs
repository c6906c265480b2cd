//! The table of ranks, and a choice of two to compare.

use super::cells;
use crate::context::expect_context;
use crate::format;
use crate::pages::runs_store::RunsStore;
use crate::url_state::UrlState;
use api::jobs::{JobDetail, JobRank};
use api::routes;
use leptos::prelude::*;
use leptos_router::components::A;
use presentation::components::badge::cautions;
use presentation::pages::job::curves::{by_oddness, oddest_first, rank_of, why};
use presentation::pages::job::job_state::JobState;
use std::sync::Arc;
use trace::compare::words::signed;
use trace::leaks::Verdict;
use trace::ranks::Rank;
use trace::ranks::odd::rate;
use trace::units::Bytes;

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
pub fn Ranks(job: Arc<JobDetail>, view: UrlState<JobState>) -> impl IntoView {
    let all = move || view.state().with(|state| state.all);
    let store: RunsStore = expect_context();
    let n = job.ranks.len();
    let listed = Arc::clone(&job);
    let table = move || {
        let ranks = match n > FIRST {
            true => oddest_first(&listed),
            false => listed.ranks.iter().collect(),
        };
        let most = if all() { n } else { FIRST };
        let rows = ranks.into_iter().take(most);
        let rows = rows.map(|rank| row(rank, store)).collect();
        cells::table("Table of ranks", &HEADS, rows)
    };
    let more = move || {
        let text = format!("Show all {n} ranks");
        (n > FIRST && !all())
            .then(|| cells::more(text, move || view.update(|state| state.all = true)))
    };
    view! {
        <section aria-labelledby="job-ranks-title">
            <div class="job-section-head">
                <h2 id="job-ranks-title">"Ranks"</h2>
                <Pair job=job view=view/>
            </div>
            {table}
            {more}
        </section>
    }
}

fn row(rank: &JobRank, store: RunsStore) -> AnyView {
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
    // The list of runs says which recordings are not whole.
    let run = rank.run.clone();
    let marks = move || {
        let badges = store.run(&run).map_or_else(Vec::new, |run| cautions(&run));
        let labels: Vec<String> = badges.into_iter().map(|badge| badge.label).collect();
        labels.join(", ")
    };
    let head = view! { <A href=page>{name}</A> " " <span class="muted">{marks}</span> }.into_any();
    let peak = |label: &'static str, bytes: Bytes| {
        cells::number(label, row.told(bytes), Some(format::exact_bytes(bytes.0)))
    };
    let steps = match row.steps {
        0 => "–".to_owned(),
        steps => format::count(u64::from(steps)),
    };
    cells::row(
        head,
        vec![
            peak("Peak", row.peak_allocated),
            peak("Reserved", row.peak_reserved),
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
fn Pair(job: Arc<JobDetail>, view: UrlState<JobState>) -> impl IntoView {
    if job.ranks.len() < 2 {
        return ().into_any();
    }
    let odd = StoredValue::new(by_oddness(&job));
    let state = view.state();
    let pair = Memo::new(move |_| state.with(|state| odd.with_value(|odd| state.compared(odd))));
    let listed = Arc::clone(&job);
    let link = move || {
        let run = |rank| rank_of(&listed, rank).map(|rank| rank.run.clone());
        let runs: Vec<_> = pair.get().into_iter().filter_map(run).collect();
        routes::compare_page(&runs)
    };
    let select = |name: &'static str, side: usize| {
        let options = job.ranks.iter().map(|one| {
            let rank = one.row.rank;
            let selected = move || pair.get()[side] == rank;
            let text = format!("rank {rank}");
            view! { <option value=rank.to_string() prop:selected=selected>{text}</option> }
        });
        let options = options.collect_view();
        let change = move |event| {
            if let Ok(rank) = event_target_value(&event).parse() {
                let choose =
                    |state: &JobState| odd.with_value(|odd| state.chosen(odd, side, Rank(rank)));
                view.set(state.with_untracked(choose));
            }
        };
        view! {
            <select class="input" aria-label=name on:change=change>{options}</select>
        }
    };
    view! {
        <div class="job-pair">
            {select("Baseline", 0)} <span class="muted">"→"</span> {select("Compared rank", 1)}
            <A href=link attr:class="button">"Compare"</A>
        </div>
    }
    .into_any()
}
