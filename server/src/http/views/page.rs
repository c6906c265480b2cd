//! Saved views, as a page with a form.

use super::super::account::SignedIn;
use super::super::audited::Subject;
use super::super::extract::{Form, Origin, Path, Query};
use super::super::here::Here;
use super::super::permits;
use super::super::shell::{date, page, problem};
use super::badge::has_badge;
use super::{forgotten, saved};
use crate::app::App;
use crate::problems::Error;
use crate::who::access::Entry;
use api::people::Scope;
use api::routes;
use api::views::{NAME_CHARS, NewView, PATH_BYTES, View};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

/// What stands in the form at first: the address of the page that somebody came from.
#[derive(Deserialize)]
pub struct ViewsQuery {
    #[serde(default)]
    path: String,
}

/// The page.
pub async fn views_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Query(ViewsQuery { path }): Query<ViewsQuery>,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Read)?;
    let name = String::new();
    shown(&app, &entry, &NewView { name, path }, None).await
}

/// Saves a view.
pub async fn save_on_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    origin: Origin,
    Form(new): Form<NewView>,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Upload)?;
    match saved(&app, &entry, &origin, new.clone()).await {
        Ok(view) => {
            let to = Redirect::to(routes::VIEWS_PAGE);
            Ok((Subject::of(view.name), to).into_response())
        }
        Err(error @ (Error::BadRequest(_) | Error::Store(_))) => {
            let why = error.problem().detail;
            let mut page = shown(&app, &entry, &new, Some(&why)).await?;
            error.mark(&mut page);
            Ok(page)
        }
        Err(error) => Err(error),
    }
}

/// Forgets a view.
pub async fn forget_on_page(
    Here(app): Here,
    SignedIn(entry): SignedIn,
    Path(view): Path<String>,
) -> Result<Response, Error> {
    permits::scope(&entry, Scope::Upload)?;
    forgotten(&app, &view).await?;
    let to = Redirect::to(routes::VIEWS_PAGE);
    Ok((Subject::of(view), to).into_response())
}

/// The page; `typed`: what stands in the form, with `refused`: why it cannot be saved.
async fn shown(
    app: &App,
    entry: &Entry,
    typed: &NewView,
    refused: Option<&str>,
) -> Result<Response, Error> {
    let views = app.store.read(|reader| reader.views()).await?;
    let body = html! {
        p class="muted" {
            "The address of a page holds everything that is on screen: labels, runs, moment, "
            "zoom. Here it gets a name, for everybody. A view of a history has a badge, to show "
            "elsewhere how its newest run stands."
        }
        @if views.is_empty() {
            p { "No view is saved yet." }
        } @else {
            (table(&views, entry))
        }
        @if entry.may(Scope::Upload) { (form(typed, refused)) }
    };
    Ok(page(app, Some(entry), "Views", &body))
}

fn table(views: &[View], entry: &Entry) -> Markup {
    html! {
        div class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr { th { "View" } th { "Badge" } th { "Saved" } th { "By" } th { "Change" } } }
            tbody { @for view in views { tr {
                td { a href=(view.path) { (view.name) } }
                td { @if has_badge(&view.path) { (badge_of(view)) } }
                td data-label="Saved" { (date(view.created_ms)) }
                td data-label="By" { (view.created_by) }
                td { @if entry.may(Scope::Upload) {
                    form method="post" action=(routes::forget_view_page(&view.id)) { (ask(view)) }
                } }
            } } }
        } }
    }
}

/// The button that forgets a view, after a question.
fn ask(view: &View) -> Markup {
    html! {
        details class="account-ask" {
            summary aria-label={ "Forget " (view.name) } { "Forget" }
            p {
                "It is gone for everybody."
                @if has_badge(&view.path) {
                    " Its badge ends for good wherever it is shown: a new view has another one."
                }
            }
            button class="button" type="submit" { "Forget " (view.name) }
        }
    }
}

/// The badge, which is also the link to copy.
fn badge_of(view: &View) -> Markup {
    let address = routes::view_badge(&view.id);
    let alt = format!("The badge of {}", view.name);
    html! { a href=(address) title="Its address works without signing in" {
        img src=(address) alt=(alt) height="20";
    } }
}

fn form(typed: &NewView, refused: Option<&str>) -> Markup {
    html! {
        form class="account-form" method="post" action=(routes::VIEWS_PAGE) {
            h2 { "Save a view" }
            @if let Some(why) = refused { (problem(why)) }
            label for="name" { "Name" }
            input id="name" class="input" name="name" required maxlength=(NAME_CHARS)
                autocomplete="off" placeholder="main, qlora: history" value=(typed.name);
            label for="path" { "Address" }
            input id="path" class="input" name="path" required maxlength=(PATH_BYTES)
                autocomplete="off" placeholder="/history?label=branch%3Dmain" value=(typed.path);
            p class="muted" { "A view with the same name is replaced." }
            button class="button primary" type="submit" { "Save" }
        }
    }
}
