//! Pull requests: every push is a row, with its verdict against the baseline.

use super::super::account::SignedIn;
use super::super::compare;
use super::super::extract::Query;
use super::super::here::Here;
use super::super::permits;
use super::super::runs::summary;
use super::super::shell::{date, page, with_code};
use super::chart::{Dot, Part, chart};
use super::{known, leaks, marks, on_page, pages, shown};
use crate::app::App;
use crate::history;
use crate::problems::Error;
use crate::store::{PullRow, StoreError};
use answers::cards::markdown::Names;
use api::bench::Fault;
use api::compare::RecordedComparison;
use api::history::{HistoryRun, Measure};
use api::people::Scope;
use api::quality::cautions;
use api::routes;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use trace::compare::gate::{Outcome, Verdicts};
use trace::units::Bytes;

/// Which pull request, and which page.
#[derive(Deserialize)]
pub struct PullQuery {
    #[serde(default)]
    pr: String,
    /// Newer pull requests, or pushes, than those of this page.
    #[serde(default)]
    offset: u32,
}

/// One push.
struct Push {
    recorded: RecordedComparison,
    /// The newest run compared with the baseline; `None` if one of them was deleted.
    judged: Option<Judged>,
}

struct Judged {
    base: HistoryRun,
    new: HistoryRun,
    outcome: Outcome,
    /// What the answer is called.
    word: String,
    reason: String,
}

/// The page of a pull request, or the list of them.
pub async fn pull_requests(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Query(query): Query<PullQuery>,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Read)?;
    let PullQuery { pr, offset } = query;
    let slice = on_page(offset);
    let body = if pr.is_empty() {
        let read = app.store.read(move |reader| reader.pulls(slice));
        let (pulls, more) = shown(read.await?);
        html! {
            (list(&pulls, offset))
            (pages(&format!("{}?", routes::PULLS_PAGE), offset, more))
        }
    } else {
        let asked = pr.clone();
        let read = app
            .store
            .read(move |reader| reader.comparisons(Some(&asked), slice));
        let (recorded, more) = shown(read.await?);
        let mut pushes = Vec::new();
        for recorded in recorded.into_iter().rev() {
            pushes.push(push(&app, recorded).await?);
        }
        html! {
            (of_pull(&pr, &pushes, offset))
            (pages(&format!("{}&", routes::pull_page(&pr)), offset, more))
        }
    };
    Ok(page(&app, Some(&entry), "Pull requests", &body))
}

async fn push(app: &App, recorded: RecordedComparison) -> Result<Push, Error> {
    let rows = match compare::rows(app, recorded.runs.clone()).await {
        Ok(rows) => rows,
        // A deleted run can still be named by its date.
        Err(Error::Store(StoreError::NotFound { .. } | StoreError::Deleted { .. })) => {
            let judged = None;
            return Ok(Push { recorded, judged });
        }
        Err(error) => return Err(error),
    };
    let texts = app.pictures.traces.all_texts();
    let against = compare::judged(app, &rows, texts, Names::Told).await?;
    let runs = rows.into_iter().map(summary);
    let mut told: Vec<HistoryRun> = runs.filter_map(history::run).collect();
    let judged = match (against.last(), told.len() >= 2) {
        (Some(against), true) => Some(Judged {
            base: told.swap_remove(0),
            new: told.swap_remove(0),
            outcome: against.gate.outcome,
            word: word(&against.gate),
            reason: against.gate.reason.clone(),
        }),
        _ => None,
    };
    Ok(Push { recorded, judged })
}

fn list(pulls: &[PullRow], offset: u32) -> Markup {
    html! {
        @if pulls.is_empty() && offset == 0 {
            p { "No pull request yet. " code { "tidemark push FILE --base auto --pr URL" }
                " compares a run with the newest of the target branch, and records it here." }
        } @else if pulls.is_empty() {
            p { "There are no older pull requests." }
        } @else {
            div class="account-wide stacked" tabindex="0" { table class="account-table" {
                thead { tr { th { "Pull request" } th { "Last push" } th { "Pushes" } } }
                tbody { @for pull in pulls { tr {
                    td { a href=(routes::pull_page(&pull.pr)) { (short(&pull.pr)) } }
                    td data-label="Last push" { (date(pull.last_ms)) }
                    td data-label="Pushes" { (pull.pushes) }
                } } }
            } }
        }
    }
}

/// `owner/project #12` for the address of a pull or merge request, if it has that form.
fn short(pr: &str) -> String {
    let path = pr.split_once("://").map_or(pr, |(_, rest)| rest);
    let parts: Vec<&str> = path.split('/').filter(|part| *part != "-").collect();
    match parts[..] {
        [
            _,
            ref project @ ..,
            "pull" | "pulls" | "merge_requests",
            number,
        ] if !project.is_empty() => {
            format!("{} #{number}", project.join("/"))
        }
        _ => pr.to_owned(),
    }
}

fn of_pull(pr: &str, pushes: &[Push], offset: u32) -> Markup {
    let dots: Vec<Dot> = pushes
        .iter()
        .filter_map(|push| {
            let judged = push.judged.as_ref()?;
            Some(Dot {
                name: judged.new.called(),
                href: routes::run_page(&judged.new.run),
                value: known(&judged.new, Measure::Peak),
                bad: judged.outcome == Outcome::Regression,
            })
        })
        .collect();
    let part = match offset {
        0 => Part::Newest,
        _ => Part::Older,
    };
    html! {
        p {
            // Others wrote this address: only one that certainly leads to a page becomes a link.
            @if pr.starts_with("https://") || pr.starts_with("http://") {
                a href=(pr) rel="noreferrer" { (short(pr)) }
            } @else { (short(pr)) }
            " · " a href=(routes::PULLS_PAGE) { "all pull requests" }
        }
        @if pushes.is_empty() && offset > 0 {
            p { "There are no older pushes." }
        } @else if pushes.is_empty() {
            p { "Nothing was pushed for it: " code { "tidemark push FILE --base auto --pr " (pr) } }
        } @else {
            @if dots.len() > 1 { (chart("peak of each push", &dots, part, &[])) }
            (rows(pushes))
        }
    }
}

/// On a phone each push is a block of lines: the reason of its verdict is in sight there, too.
fn rows(pushes: &[Push]) -> Markup {
    let row = |Push { recorded, judged }: &Push| {
        html! { tr {
            th scope="row" { a href=(routes::compare_page(&recorded.runs)) {
                (judged.as_ref().map_or(recorded.name.clone(), |judged| judged.new.called()))
            } }
            td { (date(recorded.created_ms)) }
            @match judged {
                None => td colspan="5" { "a run of it was deleted" },
                Some(judged) => {
                    td { span class=(badge(judged.outcome)) { (judged.word) } }
                    td class="account-wraps" data-label="Peak" {
                        (judged.new.peak()) " " (delta(judged.base.peak, judged.new.peak))
                        (marks(&judged.new))
                        @if !cautions(&judged.base.quality).is_empty() {
                            span class="muted" { " baseline:" } (marks(&judged.base))
                        }
                    }
                    td data-label="Leak a step" { (grown(judged)) }
                    td data-label="Leaks" { (leaks(judged.new.verdict)) }
                    td class="account-why" { (with_code(&judged.reason)) }
                }
            }
        } }
    };
    html! {
        div class="table-frame stacked" tabindex="0" role="region" aria-label="Pushes" {
            table class="account-table" {
                thead { tr { th { "Push" } th { "When" } th { "Verdict" } th { "Peak" }
                    th { "Leak a step" } th { "Leaks" } th { "Why" } } }
                tbody { @for push in pushes.iter().rev() { (row(push)) } }
            }
        }
    }
}

fn grown(judged: &Judged) -> Markup {
    html! {
        @match (judged.base.growth, judged.new.growth) {
            (Some(base), Some(new)) => { (new) " " (delta(base, new)) }
            (None, Some(new)) => (new),
            (_, None) => "–",
        }
    }
}

/// The difference to the baseline.
fn delta(base: Bytes, new: Bytes) -> Markup {
    let text = match new.0.cmp(&base.0) {
        std::cmp::Ordering::Equal => "±0".to_owned(),
        std::cmp::Ordering::Greater => format!("+{}", Bytes(new.0 - base.0)),
        std::cmp::Ordering::Less => format!("−{}", Bytes(base.0 - new.0)),
    };
    html! { span class="muted" { (text) } }
}

/// The answer of the gate in a word or two: of a run of a bench, what went wrong in it.
fn word(gate: &Verdicts) -> String {
    match gate.outcome {
        Outcome::Pass => "pass".to_owned(),
        Outcome::Regression => Fault::or_regression(gate),
        Outcome::CannotTell => "cannot tell".to_owned(),
    }
}

fn badge(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "badge good",
        Outcome::Regression => "badge bad",
        Outcome::CannotTell => "badge",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::compare::gate::{Finding, Weight};

    #[test]
    fn a_run_that_crashed_is_not_called_a_regression() {
        let told = |outcome, code: &str| {
            let finding = Finding {
                weight: Weight::Fail,
                code: code.to_owned(),
                detail: String::new(),
            };
            word(&Verdicts {
                outcome,
                reason: String::new(),
                findings: vec![finding],
            })
        };
        assert_eq!(told(Outcome::Regression, "bench_crash"), "crashed");
        assert_eq!(told(Outcome::Regression, "peak"), "regression");
        assert_eq!(told(Outcome::CannotTell, "differs"), "cannot tell");
    }

    #[test]
    fn a_pull_request_is_called_by_project_and_number() {
        let check = |pr: &str, expected: &str| assert_eq!(short(pr), expected);
        check("https://github.com/o/r/pull/12", "o/r #12");
        check(
            "https://gitlab.example/g/s/p/-/merge_requests/7",
            "g/s/p #7",
        );
        check("https://example.org/x", "https://example.org/x");
        check("javascript:alert(1)", "javascript:alert(1)");
    }
}
