//! All trainings as a page, each one row: what stands in it is read anew every few seconds.

use super::super::account::SignedIn;
use super::super::extract::{Origin, Query};
use super::super::here::Here;
use super::super::permits;
use super::super::shell::{command, page};
use super::list::trainings;
use super::page::{LIVE_SCRIPT, away, memory, memory_heads, on_page, pages, state};
use crate::problems::Error;
use crate::who::access::Entry;
use api::live::{LiveProcesses, LiveRun, LiveRuns};
use api::people::Scope;
use api::projects::ProjectName;
use api::query::encode;
use api::recipes::{live_line, live_lines};
use api::routes;
use api::runs::Access;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

/// With fewer trainings nobody needs to search.
const SEARCHED: u32 = 10;

/// Which trainings.
#[derive(Deserialize)]
pub struct ListQuery {
    /// Those in whose name or labels this is.
    #[serde(default)]
    q: String,
    /// Those before this page.
    #[serde(default)]
    offset: u32,
}

/// The list.
pub async fn live_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Query(ListQuery { q, offset }): Query<ListQuery>,
    origin: Origin,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Read)?;
    let runs = trainings(&app, &q, on_page(offset)).await?;
    let list = match q.is_empty() {
        true => format!("{}?", routes::LIVE_PAGE),
        false => format!("{}?q={}&", routes::LIVE_PAGE, encode(&q)),
    };
    let body = html! {
        p class="muted" {
            "Trainings that report their memory after each step, while they run. Counters are "
            "shown; a snapshot of the next steps can be asked for. Of each, the process stands "
            "here that needs you most."
        }
        @if !q.is_empty() || runs.total > SEARCHED { (search(&entry, &q)) }
        (away())
        @if runs.total == 0 && q.is_empty() {
            (first_steps(&entry, &origin.to_string()))
        } @else {
            div class="live-now" data-live="" {
                @if runs.total == 0 { p { "No training has this in its name or its labels." } }
                (pages(&runs, &list, offset))
                @if !runs.runs.is_empty() { (table(&runs)) }
            }
        }
        script src=(LIVE_SCRIPT) {}
    };
    Ok(page(&app, Some(&entry), "Live", &body))
}

fn search(entry: &Entry, q: &str) -> Markup {
    let project = entry.membership.as_ref();
    let project = project.map(|membership| membership.project.to_string());
    html! {
        form class="account-row" method="get" action=(routes::LIVE_PAGE) {
            // A form that asks leaves out the query of its address.
            @if let Some(project) = project { input type="hidden" name="project" value=(project); }
            label for="q" { "Name or label" }
            input id="q" class="input" name="q" value=(q) autocomplete="off";
            button class="button" type="submit" { "Search" }
        }
    }
}

fn table(LiveRuns { runs, .. }: &LiveRuns) -> Markup {
    html! {
        div class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr { th { "Training" } th { "Processes" } (memory_heads()) } }
            tbody { @for run in runs {
                @let of = run.training.unwrap_or_default();
                tr {
                    td { a href=(routes::live_page(&run.id)) { (run.name) } }
                    td data-label="Processes" { (processes(of)) }
                    (memory(run))
                    td data-label="State" { (state(run)) (whose(run, of)) }
                }
            } }
        } }
    }
}

/// How many of them run, and how many do not stand well.
fn processes(of: LiveProcesses) -> String {
    let LiveProcesses {
        all,
        running,
        silent,
        failed,
        warned,
    } = of;
    let mut said = match running {
        0 => all.to_string(),
        running => format!("{running} of {all} run"),
    };
    for (n, what) in [
        (failed, "failed"),
        (silent, "silent"),
        (warned, "to look at"),
    ] {
        if n > 0 && all > 1 {
            said += &format!(", {n} {what}");
        }
    }
    said
}

/// Which of several processes it is.
fn whose(run: &LiveRun, of: LiveProcesses) -> Markup {
    html! {
        @if let Some(rank) = run.rank.filter(|_| of.all > 1) {
            " " span class="muted" { "rank " (rank) }
        }
    }
}

/// How a training is made to report, where none has yet.
fn first_steps(entry: &Entry, origin: &str) -> Markup {
    let project = entry.membership.as_ref();
    let project = project.map(|membership| membership.project.to_string());
    html! {
        p { "None yet. In the training:" }
        (command(&live_lines(origin)))
        p { "Or around a script:" }
        (command(&live_line(origin)))
        p {
            "Both need the package in the folder " code { "recipes" } " of Tidemark ("
            code { "pip install ./recipes" } "), or its file " code { "tidemark_capture.py" }
            " beside the script."
            @if entry.access == Access::Granted {
                " They take a token from " code { "TIDEMARK_TOKEN" } "; "
                a href=(routes::ACCOUNT_PAGE) { "your account" } " makes one."
            }
            @if let Some(project) = project.filter(|name| name != ProjectName::MAIN) {
                " They report to this project where " code { "TIDEMARK_PROJECT=" (project) }
                " is set."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_how_many_of_its_processes_run() {
        let check = |[all, running, silent, failed, warned]: [u32; 5], expected: &str| {
            let of = LiveProcesses {
                all,
                running,
                silent,
                failed,
                warned,
            };
            assert_eq!(processes(of), expected);
        };
        check([1, 1, 0, 0, 1], "1 of 1 run");
        check([1, 0, 0, 1, 0], "1");
        check([300, 300, 0, 0, 7], "300 of 300 run, 7 to look at");
        check([300, 297, 1, 2, 0], "297 of 300 run, 2 failed, 1 silent");
        check([8, 0, 0, 8, 0], "8, 8 failed");
    }
}
