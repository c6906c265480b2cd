//! The team's own categories, as a page with a form: typed, tried on a run, and kept.

use super::super::account::SignedIn;
use super::super::extract::{Form, Query, run_id};
use super::super::here::Here;
use super::super::permits;
use super::super::question::Asker;
use super::super::shell::{page, problem};
use super::taken_of;
use crate::app::App;
use crate::own_categories;
use crate::problems::Error;
use crate::store::{Slice, StoredRun, Which};
use crate::who::access::Entry;
use api::categories::{Kept, OwnCategories, TakenOfDevice};
use api::people::Scope;
use api::routes;
use axum::http::StatusCode;
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
    own: &'a OwnCategories,
    run: &'a str,
    taken: Vec<TakenOfDevice>,
    refused: Option<(Field, Error)>,
}

/// A field that can be wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Rules,
    Run,
}

impl Shown<'_> {
    /// Why this field was refused.
    fn refused(&self, field: Field) -> Option<String> {
        let refused = self.refused.as_ref().filter(|(at, _)| *at == field);
        refused.map(|(_, error)| error.problem().detail)
    }
}

/// The page.
pub async fn categories_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Query(query): Query<CategoriesQuery>,
    asker: Asker,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Read)?;
    let own = own_categories::of(&app).await?;
    let mut shown = Shown {
        rules: &own.rules,
        own: &own,
        run: &query.run,
        taken: Vec::new(),
        refused: None,
    };
    match own_categories::parse(&own.rules) {
        Err(error) => shown.refused = Some((Field::Rules, error)),
        Ok(_) if query.run.is_empty() => {}
        Ok(rules) => {
            shown.taken = taken_of(&app, run_id(&query.run)?, rules, &asker).await?;
        }
    }
    draw(&app, &entry, shown).await
}

/// Tries the rules of the form on a run, or keeps them.
pub async fn save_on_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    asker: Asker,
    Form(form): Form<CategoriesForm>,
) -> Result<Response, Error> {
    // Browsers send line breaks of forms as CR LF.
    let rules = form.rules.replace("\r\n", "\n");
    let own = own_categories::of(&app).await?;
    let done = match form.action {
        Action::Try => tried(&app, &entry, &asker, &rules, &form.run).await,
        Action::Keep => match kept(&app, &entry, &rules).await {
            Ok(()) => return Ok(Redirect::to(&routes::categories_page(&form.run)).into_response()),
            Err(error) => Err((Field::Rules, error)),
        },
    };
    let (taken, refused) = match done {
        Ok(taken) => (taken, None),
        Err(refused) => (Vec::new(), Some(refused)),
    };
    let shown = Shown {
        rules: &rules,
        own: &own,
        run: &form.run,
        taken,
        refused,
    };
    draw(&app, &entry, shown).await
}

async fn kept(app: &App, entry: &Entry, rules: &str) -> Result<(), Error> {
    permits::scope(entry, Scope::Manage)?;
    own_categories::change(app, rules.to_owned(), entry.name().to_owned()).await
}

/// What rules take of a run. Each refusal names its field: the page shows what was typed again.
async fn tried(
    app: &App,
    entry: &Entry,
    asker: &Asker,
    rules: &str,
    run: &str,
) -> Result<Vec<TakenOfDevice>, (Field, Error)> {
    let of_rules = |error| (Field::Rules, error);
    let of_run = |error| (Field::Run, error);
    permits::scope(entry, Scope::Read).map_err(of_rules)?;
    let rules = own_categories::parse(rules).map_err(of_rules)?;
    if run.is_empty() {
        let why = "choose a run that the rules are tried on".to_owned();
        return Err(of_run(Error::BadRequest(why)));
    }
    let id = run_id(run).map_err(of_run)?;
    let taken = taken_of(app, id, rules, asker).await;
    taken.map_err(of_run)
}

/// The runs to choose from: the newest, and the one that is chosen.
async fn offered(app: &App, chosen: &str) -> Result<Vec<StoredRun>, Error> {
    let newest = Slice {
        offset: 0,
        limit: RUNS,
    };
    let chosen = run_id(chosen).ok();
    let read = app.store.read(move |reader| {
        let mut runs = reader.runs(Which::Live, &[], newest)?;
        let older = chosen.filter(|id| runs.iter().all(|run| run.id != *id));
        // A run that is not there any more is not offered.
        let still_there = |id| {
            reader.run_ref(&id).ok()?;
            reader.run(&id).ok()
        };
        runs.extend(older.and_then(still_there));
        Ok(runs)
    });
    Ok(read.await?)
}

async fn draw(app: &App, entry: &Entry, shown: Shown<'_>) -> Result<Response, Error> {
    let runs = offered(app, shown.run).await?;
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
        (form(app, entry, &shown, &runs))
        @for device in &shown.taken { (taken(device)) }
    };
    let status = shown.refused.map(|(_, error)| error.status());
    let page = page(app, Some(entry), "Categories", &body);
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
}

fn form(app: &App, entry: &Entry, shown: &Shown, runs: &[StoredRun]) -> Markup {
    let [bad_rules, bad_run] = [Field::Rules, Field::Run].map(|field| shown.refused(field));
    // The next person in this browser is not shown what this one typed.
    let draft = format!("rules of {} in {}", entry.name(), app.project);
    html! {
        form class="account-form rules-form" method="post"
            action=(routes::CATEGORIES_PAGE) {
            h2 { "Rules" }
            label for="rules" { "A rule a line" }
            @if let Some(why) = &bad_rules { (problem(why)) }
            p class="muted" role="status" data-drafted="" hidden {
                "This was typed here and is not kept yet. "
                button class="link-button" type="button" { "Show the rules that hold" }
            }
            textarea id="rules" class="input rules-text" name="rules" rows="10" wrap="off"
                spellcheck="false" maxlength=(LONGEST_FILE) placeholder=(EXAMPLE)
                data-draft=(draft) data-kept=(shown.own.rules)
                aria-invalid=[bad_rules.as_ref().map(|_| "true")] {
                // A line break after the tag is not part of the text.
                "\n" (shown.rules)
            }
            label for="run" { "Try them on" }
            @if let Some(why) = &bad_run { (problem(why)) }
            select id="run" class="input" name="run"
                aria-invalid=[bad_run.as_ref().map(|_| "true")] {
                option value="" { "no run" }
                @for run in runs {
                    option value=(run.id.as_str()) selected[run.id.as_str() == shown.run] {
                        (run.name)
                    }
                }
            }
            div class="account-row" {
                button class="button" type="submit" name="action" value="try" { "Try" }
                @if shown.own.kept == Kept::Here && entry.may(Scope::Manage) {
                    button class="button primary" type="submit" name="action" value="keep" {
                        "Keep for everybody"
                    }
                }
            }
            @if shown.own.kept == Kept::File {
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
            div class="account-wide stacked" tabindex="0" { table class="account-table" {
                thead { tr { th { "Line" } th { "Category" } th { "Blocks" }
                    th { "At the peak" } th { "Share" } } }
                tbody { @for rule in &device.rules { tr {
                    td data-label="Line" { (rule.line) }
                    td { (rule.name.label()) }
                    td data-label="Blocks" { (rule.blocks) }
                    td data-label="At the peak" { (rule.bytes) }
                    td data-label="Share" { (format!("{:.1} %", share(rule.bytes.0))) }
                } } }
            } }
        }
    }
}
