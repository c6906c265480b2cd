//! The same allocation site in all ranks: what each holds, and which rank differs.

use super::cells;
use crate::client;
use crate::components::problem_note::ProblemNote;
use api::jobs::JobDetail;
use api::problem::Problem;
use api::routes;
use leptos::prelude::*;
use presentation::components::sites::Compared;
use presentation::letters::capital;
use presentation::pages::job::sites::differs_most;
use std::sync::Arc;
use trace::code::file_name;
use trace::ranks::sites::SiteAcross;

const HEADS: [&str; 5] = ["Allocated in", "#Least", "#Median", "#Most", "Differs most"];
/// Rows of a page.
const PAGE: usize = 50;

/// The table.
#[component]
pub fn Sites(job: Arc<JobDetail>) -> impl IntoView {
    let rows = RwSignal::new(Vec::<SiteAcross>::new());
    let problem = RwSignal::new(None::<Problem>);
    let asking = RwSignal::new(false);
    let id = job.job.id.clone();
    let load = Callback::new(move |()| {
        // A second press would bring the same rows again.
        if asking.get_untracked() {
            return;
        }
        asking.set(true);
        problem.set(None);
        let route = routes::job_sites(&id, rows.with_untracked(Vec::len), PAGE);
        leptos::task::spawn_local(async move {
            match client::get::<Vec<SiteAcross>>(&route).await {
                Ok(more) => drop(rows.try_update(|rows| rows.extend(more))),
                Err(refused) => drop(problem.try_set(Some(refused))),
            }
            let _ = asking.try_set(false);
        });
    });
    let differ = job.sites_differ as usize;
    let compared = Compared {
        listed: u64::from(job.sites_differ),
        left_out: u64::from(job.sites_left_out),
        same: u64::from(job.sites_same),
    };
    let about = match &job.none_differs {
        Some(told) => capital(told),
        None => compared.in_words(" between ranks") + &unclear(job.sites_unclear),
    } + ".";
    let when = match job.moments_differ {
        true => {
            "The ranks peak at different moments: what is compared is the most that a site holds, \
             or what it holds at the end where ranks differ more there."
        }
        false => "Live at each rank's peak, or at its end where ranks differ more there.",
    };
    if differ > 0 {
        load.run(());
    }
    let ranks = job.ranks.len();
    let table = move || rows.with(|rows| (!rows.is_empty()).then(|| table(rows, ranks)));
    let more = move || {
        let left = differ.saturating_sub(rows.with(Vec::len));
        let text = format!("Show {} more", left.min(PAGE));
        (left > 0 && left < differ).then(|| cells::more(text, move || load.run(())))
    };
    let failed = move || {
        problem
            .get()
            .map(|problem| view! { <ProblemNote problem=problem retry=load/> })
    };
    view! {
        <section aria-labelledby="job-sites-title">
            <h2 id="job-sites-title">"The same site across ranks"</h2>
            <p class="muted">
                {about} " " {when}
            </p>
            {table}
            {failed}
            {more}
        </section>
    }
}

/// Sites of which nobody can tell, because the recording of a rank begins later.
fn unclear(sites: u32) -> String {
    match sites {
        0 => String::new(),
        n => format!("; of {n} more it cannot be told"),
    }
}

fn table(rows: &[SiteAcross], ranks: usize) -> AnyView {
    let rows = rows.iter().map(|site| row(site, ranks));
    cells::table("Table of sites", &HEADS, rows.collect())
}

fn row(site: &SiteAcross, ranks: usize) -> AnyView {
    let [least, median, most] = site.shown();
    let place = site.place.as_ref();
    let name = place.map_or_else(|| site.without_stack(), |place| place.name.clone());
    let file = place.map(|place| {
        let file = file_name(&place.filename);
        match place.line {
            0 => file.to_owned(),
            line => format!("{file}:{line}"),
        }
    });
    // What only some ranks hold, they come to by another way.
    let caller = site
        .caller
        .as_ref()
        .filter(|_| site.ranks as usize != ranks);
    let caller = caller.map(|by| format!(", called by {}", by.told()));
    let head = view! { {name} " " <span class="muted">{file} {caller}</span> }.into_any();
    cells::row(
        head,
        vec![
            cells::size("Least", least),
            cells::size("Median", median),
            cells::size("Most", most),
            cells::words(differs_most(site, ranks)),
        ],
    )
}
