//! The labels of a run, as a page with forms.

use super::super::account::SignedIn;
use super::super::audited::Subject;
use super::super::extract::{Form, Path, run_id};
use super::super::here::Here;
use super::super::permits;
use super::super::shell::{page, problem};
use super::change_of;
use crate::app::App;
use crate::problems::Error;
use crate::store::StoredRun;
use crate::who::access::Entry;
use api::ids::RunId;
use api::labels::{ChangeLabels, Label};
use api::people::Scope;
use api::routes;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Labels of other runs that are offered while one types.
const OFFERED: u32 = 200;

/// What a form says.
#[derive(Deserialize)]
pub struct LabelForm {
    /// A label to put on, `key=value`.
    #[serde(default)]
    add: String,
    /// The key of one to take off.
    #[serde(default)]
    remove: String,
}

/// The page.
pub async fn labels_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Path(run): Path<String>,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Read)?;
    shown(&app, &entry, run_id(&run)?, None).await
}

/// Puts a label on, or takes one off.
pub async fn change_on_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Path(run): Path<String>,
    Form(form): Form<LabelForm>,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Upload)?;
    let id = run_id(&run)?;
    let changed = match asked(&form) {
        Ok(change) => change_of(&app, id.clone(), change).await,
        Err(error) => Err(error),
    };
    match changed {
        Ok(_) => {
            let to = Redirect::to(&routes::labels_page(&id));
            Ok((Subject::of(&id), to).into_response())
        }
        Err(error @ (Error::BadRequest(_) | Error::Store(_))) => {
            let why = error.problem().detail;
            let mut page = shown(&app, &entry, id, Some((&form.add, &why))).await?;
            error.mark(&mut page);
            Ok(page)
        }
        Err(error) => Err(error),
    }
}

fn asked(form: &LabelForm) -> Result<ChangeLabels, Error> {
    let (key, value) = if form.remove.is_empty() {
        let label: Label = form.add.parse().map_err(|error| bad(&error))?;
        (label.key, Some(label.value))
    } else {
        (form.remove.clone(), None)
    };
    Ok(ChangeLabels {
        labels: BTreeMap::from([(key, value)]),
    })
}

fn bad(why: &api::labels::NotALabel) -> Error {
    Error::BadRequest(why.to_string())
}

/// The page; `refused`: what was typed, and why that is no label.
async fn shown(
    app: &App,
    entry: &Entry,
    id: RunId,
    refused: Option<(&str, &str)>,
) -> Result<Response, Error> {
    let read = app.store.read(move |reader| {
        // A deleted run has no page.
        reader.run_ref(&id)?;
        Ok((reader.run(&id)?, reader.used_labels(OFFERED)?))
    });
    let (run, used) = read.await?;
    let body = html! {
        p {
            "Of the run " a href=(routes::run_page(&run.id)) { (run.name) } ". A label is "
            code { "key=value" } ": what the team says of a run, to find it again and to follow "
            "its numbers from commit to commit."
        }
        @if let Some(who) = &run.uploaded_by {
            p class="muted" { "Uploaded by " (who) "." }
        }
        (labelled(&run, entry))
        @if entry.may(Scope::Upload) { (form(&run, refused, &used)) }
    };
    Ok(page(app, Some(entry), "Labels", &body))
}

fn labelled(run: &StoredRun, entry: &Entry) -> Markup {
    html! {
        @if run.labels.is_empty() {
            p { "It has no labels yet." }
        } @else {
            div class="account-wide" tabindex="0" { table class="account-table" {
                thead { tr { th { "Label" } th { "Runs with it" } th { "Change" } } }
                tbody { @for (key, value) in &run.labels { tr {
                    td { code { (key) "=" (value) } }
                    td { (history(key, value)) }
                    td { @if entry.may(Scope::Upload) {
                        form method="post" action=(routes::labels_page(&run.id)) {
                            button class="link-button" type="submit" name="remove" value=(key)
                                aria-label={ "Take off " (key) "=" (value) } { "Take off" }
                        }
                    } }
                } } }
            } }
        }
    }
}

fn history(key: &str, value: &str) -> Markup {
    let label = Label::new(key, value).ok();
    html! {
        @if let Some(label) = label {
            a href=(routes::history_page(&[label])) { "History" }
        }
    }
}

fn form(run: &StoredRun, refused: Option<(&str, &str)>, used: &[(String, String)]) -> Markup {
    let (typed, why) = refused.unzip();
    html! {
        form class="account-form" method="post" action=(routes::labels_page(&run.id)) {
            h2 { "Add a label" }
            @if let Some(why) = why { (problem(why)) }
            label for="add" { "Label" }
            input id="add" class="input" name="add" required list="used" autocomplete="off"
                placeholder="config=qlora" value=[typed];
            datalist id="used" { @for (key, value) in used { option value={ (key) "=" (value) }; } }
            p class="muted" { "The value of a key that is there already is replaced." }
            button class="button primary" type="submit" { "Add" }
        }
    }
}
