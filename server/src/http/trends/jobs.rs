//! Jobs: the programs of several ranks, and whether one of the ranks stands out.

use super::super::account::SignedIn;
use super::super::extract::Query;
use super::super::here::Here;
use super::super::permits;
use super::super::shell::{date, page};
use super::{on_page, pages, shown};
use crate::problems::Error;
use crate::store::JobRow;
use api::people::Scope;
use api::routes;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use trace::units::Bytes;

/// Which jobs.
#[derive(Deserialize)]
pub struct JobsQuery {
    /// Newer jobs than those of this page.
    #[serde(default)]
    offset: u32,
}

/// The list of jobs.
pub async fn jobs(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Query(JobsQuery { offset }): Query<JobsQuery>,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Read)?;
    let slice = on_page(offset);
    let read = app.store.read(move |reader| reader.job_rows(slice));
    let (rows, more) = shown(read.await?);
    let body = html! {
        p class="muted" {
            "A job is one program on several devices: the recordings of all of its ranks, "
            "compared with one another."
        }
        @if rows.is_empty() && offset == 0 {
            p {
                "No job yet. Drop a folder with one recording for each rank on the "
                a href=(routes::RUNS_PAGE) { "list of runs" } ", or push one: "
                code { "tidemark push FOLDER" }
            }
        } @else if rows.is_empty() {
            p { "There are no older jobs." }
        } @else {
            (table(&rows))
        }
        (pages(&format!("{}?", routes::JOBS_PAGE), offset, more))
    };
    Ok(page(&app, Some(&entry), "Jobs", &body))
}

fn table(rows: &[JobRow]) -> Markup {
    html! {
        div class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr { th { "Job" } th { "Made" } th { "Ranks" } th { "Highest peak" }
                th { "Lowest peak" } th { "Apart by" } th { "Wrong with it" } } }
            tbody { @for row in rows { tr {
                td { a href=(routes::job_page(&row.job.id)) { (row.job.name) } }
                td data-label="Made" { (date(row.job.created_ms)) }
                td data-label="Ranks" { (row.job.n_ranks) }
                @match row.peaks {
                    None => td colspan="3" { "no rank yet" },
                    Some((lowest, highest)) => {
                        td data-label="Highest peak" { (highest) }
                        td data-label="Lowest peak" { (lowest) }
                        td data-label="Apart by" { (apart(lowest, highest)) }
                    }
                }
                td data-label="Wrong with it" { (wrong(row)) }
            } } }
        } }
    }
}

/// How far the ranks lie apart.
fn apart(lowest: Bytes, highest: Bytes) -> String {
    match highest.0 - lowest.0 {
        0 => "equal".to_owned(),
        apart => Bytes(apart).to_string(),
    }
}

fn wrong(row: &JobRow) -> Markup {
    let of_all = |n: u32| match row.job.n_ranks {
        all if n == all => "every rank".to_owned(),
        all => format!("{n} of {all} ranks"),
    };
    html! {
        @if row.leaking > 0 {
            span class="badge bad" { "leak: " (of_all(row.leaking)) } " "
        }
        @if row.out_of_memory > 0 {
            span class="badge bad" { "out of memory: " (of_all(row.out_of_memory)) }
        }
        @if row.not_whole > 0 {
            " " span class="badge caution" title="Their numbers are those of what was recorded." {
                "not all recorded: " (of_all(row.not_whole))
            }
        }
        @if row.leaking + row.out_of_memory + row.not_whole == 0 { "–" }
    }
}
