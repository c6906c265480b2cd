//! What takes the disk, for admins: as an answer, and as a page.

use super::account::SignedIn;
use super::packed;
use super::shell::{date, page, problem};
use crate::app::App;
use crate::limits::work::off_runtime;
use crate::problems::Error;
use crate::store::StoreError;
use crate::usage::{Measured, glance, together};
use api::problem::Problem;
use api::projects::{ProjectName, in_project};
use api::routes;
use api::usage::{LargeRun, PersonUsage, ProjectUsage, StoredParts, Usage};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use maud::{Markup, html};
use std::sync::Arc;
use timeline::format::{count, percent, plural};

/// What takes the disk: each part of what is stored, each project, the largest runs and what holds
/// them, and what the rules for old runs would free. At most a minute old.
#[utoipa::path(get, path = "/api/usage", tag = "server",
    responses(
        (status = 200, description = "What takes the disk.", body = Usage),
        (status = 403, body = Problem),
    ))]
pub async fn usage(State(main): State<Arc<App>>, headers: HeaderMap) -> Response {
    packed::json(&headers, &measured(&main).await)
}

async fn measured(main: &Arc<App>) -> Usage {
    let (mut all, mut unknown) = (Vec::new(), Vec::new());
    for project in main.projects.names() {
        let found = match main.projects.app(main, &project) {
            Some(app) => {
                let keep = main.projects.settings(&project).keep;
                let measured = app.sizes.measured(&app.store, &project, keep).await;
                let failed = |error| cannot_say(&project, &error);
                measured.map_err(failed).ok()
            }
            None => closed(main, &project).await,
        };
        match found {
            Some(found) => all.push(found),
            None => unknown.push(project),
        }
    }
    together(&all, unknown)
}

/// A project that is not open: nobody uses its database, and its rule deletes nothing.
async fn closed(main: &App, project: &ProjectName) -> Option<Arc<Measured>> {
    let (data, now_ms) = (main.config.data.clone(), main.store.latest_ms());
    let name = project.clone();
    let looked = off_runtime(move || glance(&data, &name, None, now_ms)).await;
    match looked.ok()? {
        Ok(measured) => measured.map(Arc::new),
        Err(error) => {
            cannot_say(project, &error);
            None
        }
    }
}

fn cannot_say(project: &ProjectName, error: &StoreError) {
    tracing::debug!(%project, %error, "cannot say what a project takes");
}

/// The page with the same.
pub async fn usage_page(
    State(main): State<Arc<App>>,
    SignedIn(entry): SignedIn,
) -> Result<Response, Error> {
    if !entry.is_admin() {
        return Err(Error::NotAdmin);
    }
    let usage = measured(&main).await;
    let several = main.projects.are_several();
    let body = html! {
        p class="muted" {
            "As of " (date(usage.at_ms)) ", as stored. Files are in the blob store, everything "
            "else is in the database."
        }
        (parts(&usage.parts, &usage.unknown))
        h2 { @if several { "Projects" } @else { "Project" } }
        (projects(&usage.projects, &usage.unknown))
        @if !usage.unknown.is_empty() {
            (problem(&not_counted(&usage.unknown)))
        }
        @if usage.names_people() {
            h2 { "People" }
            (people(&usage.people))
        }
        h2 { "Largest runs" }
        (largest(&usage.largest, several))
    };
    Ok(page(&main, Some(&entry), "Disk", &body))
}

/// What is missing in each sum.
fn not_counted(unknown: &[ProjectName]) -> String {
    let names: Vec<&str> = unknown.iter().map(ProjectName::as_str).collect();
    format!(
        "not counted anywhere here: {}. A database of an older version is read once its project \
         is opened",
        names.join(", ")
    )
}

fn parts(parts: &StoredParts, unknown: &[ProjectName]) -> Markup {
    let all = parts.all();
    html! {
        div class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr {
                th { "Part" } th class="account-number" { "Bytes" }
                th class="account-number" { "Share" }
            } }
            tbody {
                @for (_, words, size) in parts.named() { tr {
                    td { (capital(words)) }
                    td class="account-number" data-label="Bytes" { (size) }
                    td class="account-number" data-label="Share" {
                        (percent(size.get(), all.get())) " %"
                    }
                } }
                tr {
                    td { strong { (all_but(unknown)) } }
                    td class="account-number" data-label="Bytes" { strong { (all) } }
                    td {}
                }
            }
        } }
    }
}

/// `All`, or `All but 2 projects`.
fn all_but(unknown: &[ProjectName]) -> String {
    match unknown {
        [] => "All".to_owned(),
        some => format!("All but {}", plural(some.len() as u64, "project")),
    }
}

/// With a capital letter, as the first cell of a row.
fn capital(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn projects(projects: &[ProjectUsage], unknown: &[ProjectName]) -> Markup {
    html! {
        div class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr {
                th { "Project" } th class="account-number" { "Runs" }
                th class="account-number" { "All" } th class="account-number" { "Files" }
                th class="account-number" { "Database" }
                th { "Deleted" } th { "The rule for old runs would free" }
            } }
            tbody { @for project in projects { tr {
                td { a href=(routes::project_page(project.project.as_str())) {
                    (project.project)
                } }
                td class="account-number" data-label="Runs" { (count(project.runs)) }
                td class="account-number" data-label="All" { (project.parts.all()) }
                td class="account-number" data-label="Files" { (project.parts.files) }
                td class="account-number" data-label="Database" {
                    (project.parts.all() - project.parts.files)
                }
                td data-label="Deleted" { (deleted(project)) }
                td data-label="The rule frees" { @match project.rule {
                    None => "no rule",
                    Some(rule) => { (rule.stored) " (" (plural(rule.runs, "run")) ")" },
                } }
            } }
            @for project in unknown { tr {
                td { a href=(routes::project_page(project.as_str())) { (project) } }
                td colspan="6" data-label="Not known" {
                    "Its database is of an older version, or cannot be read."
                }
            } } }
        } }
    }
}

fn people(people: &[PersonUsage]) -> Markup {
    html! {
        div class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr {
                th { "Uploaded by" } th class="account-number" { "Runs" }
                th class="account-number" { "Stored" }
            } }
            tbody { @for person in people { tr {
                td { (person.uploaded_by.as_deref().unwrap_or("not known")) }
                td class="account-number" data-label="Runs" { (count(person.runs)) }
                td class="account-number" data-label="Stored" { (person.stored) }
            } } }
        } }
    }
}

/// `1.20 MiB (2 runs), until 2026-11-30 20:31 UTC`.
fn deleted(project: &ProjectUsage) -> String {
    let deleted = project.deleted;
    match deleted.until_ms {
        None => "none".to_owned(),
        Some(until_ms) => format!(
            "{} ({}), until {}",
            deleted.stored,
            plural(deleted.runs, "run"),
            date(until_ms)
        ),
    }
}

fn largest(runs: &[LargeRun], several: bool) -> Markup {
    let address = |run: &LargeRun| {
        let address = routes::run_page(&run.run);
        match several {
            true => in_project(&address, &run.project),
            false => address,
        }
    };
    html! {
        @if runs.is_empty() { p { "There are no runs yet." } } @else {
            div class="account-wide stacked" tabindex="0" { table class="account-table" {
                thead { tr {
                    th { "Run" } th class="account-number" { "Stored" }
                    @if several { th { "Project" } }
                    th { "Uploaded" } th { "By" } th { "Kept by" }
                } }
                tbody { @for run in runs { tr {
                    td { a href=(address(run)) { (run.name) } }
                    td class="account-number" data-label="Stored" { (run.stored) }
                    @if several { td data-label="Project" { (run.project) } }
                    td data-label="Uploaded" { (date(run.created_ms)) }
                    td data-label="By" { (run.uploaded_by.as_deref().unwrap_or("not known")) }
                    td data-label="Kept by" { (run.held_in_words()) }
                } } }
            } }
        }
    }
}
