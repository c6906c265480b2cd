//! The team's own categories, as a page with a form: typed, tried on a run, and kept.

use super::super::App;
use super::super::account::SignedIn;
use super::super::extract::{Form, Query, run_id};
use super::super::here::Here;
use super::super::permits;
use super::super::shell::{page, problem};
use super::taken_of;
use crate::access::Entry;
use crate::own_categories;
use crate::problems::Error;
use crate::store::{RunRow, Slice, Which};
use api::categories::{Kept, TakenOfDevice};
use api::people::Scope;
use api::routes;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use trace::naming::LONGEST_FILE;

/// Runs that rules can be tried on: the newest.
const RUNS: u32 = 50;

/// An example for people who have no rules yet.
const EXAMPLE: &str = "attention   function=*attention*\noptimizer   module=torch.optim.*";

/// Which run to try the rules on.
#[derive(Deserialize)]
pub struct CategoriesQuery {
    #[serde(default)]
    run: String,
}

/// What the form says.
#[derive(Deserialize)]
pub struct CategoriesForm {
    rules: String,
    /// The run to try them on; empty for none.
    #[serde(default)]
    run: String,
    /// Which button was pressed.
    action: Action,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Action {
    Try,
    Keep,
}

/// What the page shows.
struct Shown<'a> {
    rules: &'a str,
    kept: Kept,
    run: &'a str,
    taken: Vec<TakenOfDevice>,
    refused: Option<String>,
}

/// The page.
pub async fn categories_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Query(query): Query<CategoriesQuery>,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Read)?;
    let own = own_categories::of(&app).await?;
    tried(&app, &entry, (&own.rules, own.kept), &query.run).await
}

/// Tries the rules of the form on a run, or keeps them.
pub async fn save_on_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Form(form): Form<CategoriesForm>,
) -> Result<Response, Error> {
    // Browsers send line breaks of forms as CR LF.
    let rules = form.rules.replace("\r\n", "\n");
    let kept = own_categories::of(&app).await?.kept;
    if form.action == Action::Try {
        permits::scope(&entry, Scope::Read)?;
        return tried(&app, &entry, (&rules, kept), &form.run).await;
    }
    permits::scope(&entry, Scope::Manage)?;
    let who = entry.name().to_owned();
    match own_categories::change(&app, rules.clone(), who).await {
        Ok(()) => Ok(Redirect::to(&routes::categories_page(&form.run)).into_response()),
        Err(error @ Error::BadRequest(_)) => {
            let shown = Shown {
                rules: &rules,
                kept,
                run: &form.run,
                taken: Vec::new(),
                refused: Some(error.problem().detail),
            };
            let mut page = draw(&app, &entry, shown).await?;
            *page.status_mut() = error.status();
            Ok(page)
        }
        Err(error) => Err(error),
    }
}

/// The page with what the rules take of a run.
async fn tried(
    app: &App,
    entry: &Entry,
    (rules, kept): (&str, Kept),
    run: &str,
) -> Result<Response, Error> {
    let mut shown = Shown {
        rules,
        kept,
        run,
        taken: Vec::new(),
        refused: None,
    };
    match own_categories::parse(rules) {
        Err(error) => shown.refused = Some(error.problem().detail),
        Ok(_) if run.is_empty() => {}
        Ok(parsed) => shown.taken = taken_of(app, run_id(run)?, parsed).await?,
    }
    draw(app, entry, shown).await
}

async fn draw(app: &App, entry: &Entry, shown: Shown<'_>) -> Result<Response, Error> {
    let newest = Slice {
        offset: 0,
        limit: RUNS,
    };
    let runs = app
        .store
        .read(move |reader| reader.runs(Which::Live, &[], newest))
        .await?;
    let body = html! {
        p {
            "A category says what memory is for. Tidemark infers its own; here the team adds "
            "names of its own, which then stand everywhere a category does: in pictures, "
            "questions, comparisons, cards and explanations. Links that leave names out show "
            "Tidemark's."
        }
        p { "A rule a line: a name, then conditions that must all hold." }
        ul {
            li { code { "function=" } ", " code { "file=" } ", " code { "module=" }
                " hold for one frame of the stack; " code { "*" } " stands for anything." }
            li { code { "shape=" } ", where the recording notes it; " code { "category=" }
                ", what Tidemark takes a block for; " code { "size>=" } " and " code { "size<=" }
                "." }
            li { "The first rule that holds takes a block. " code { "#" } " begins a comment." }
        }
        (form(entry, &shown, &runs))
        @for device in &shown.taken { (taken(device)) }
    };
    Ok(page(app, Some(entry), "Categories", &body))
}

fn form(entry: &Entry, shown: &Shown, runs: &[RunRow]) -> Markup {
    html! {
        form class="account-form rules-form" method="post"
            action=(routes::CATEGORIES_PAGE) {
            h2 { "Rules" }
            @if let Some(why) = &shown.refused { (problem(why)) }
            label for="rules" { "A rule a line" }
            textarea id="rules" class="input rules-text" name="rules" rows="10" wrap="off"
                spellcheck="false" maxlength=(LONGEST_FILE) placeholder=(EXAMPLE) {
                // A line break after the tag is not part of the text.
                "\n" (shown.rules)
            }
            label for="run" { "Try them on" }
            select id="run" class="input" name="run" {
                option value="" { "no run" }
                @for run in runs {
                    option value=(run.id.as_str()) selected[run.id.as_str() == shown.run] {
                        (run.name)
                    }
                }
            }
            div class="account-row" {
                button class="button" type="submit" name="action" value="try" { "Try" }
                @if shown.kept == Kept::Here && entry.may(Scope::Manage) {
                    button class="button primary" type="submit" name="action" value="keep" {
                        "Keep for everybody"
                    }
                }
            }
            @if shown.kept == Kept::File {
                p class="muted" {
                    "They come from the file that the server was started with ("
                    code { "--categories" } "), and are changed there."
                }
            }
        }
    }
}

fn taken(device: &TakenOfDevice) -> Markup {
    let share = |bytes: u64| bytes as f64 / device.allocated.0.max(1) as f64 * 100.0;
    html! {
        h2 { "Taken of device " (device.device) }
        @if device.rules.is_empty() {
            p { "There is no rule yet." }
        } @else {
            p class="muted" { "Bytes at the peak of " (device.allocated) " allocated." }
            div class="account-wide" tabindex="0" { table class="account-table" {
                thead { tr { th { "Line" } th { "Category" } th { "Blocks" }
                    th { "At the peak" } th { "Share" } } }
                tbody { @for rule in &device.rules { tr {
                    td { (rule.line) }
                    td { (rule.name.label()) }
                    td { (rule.blocks) }
                    td { (rule.bytes) }
                    td { (format!("{:.1} %", share(rule.bytes.0))) }
                } } }
            } }
        }
    }
}
