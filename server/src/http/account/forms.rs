//! The actions of the forms on these pages. Requests from pages of other sites do not get here
//! (`guard::check_origin`).

use super::super::audited::{self, Subject};
use super::super::cookies;
use super::super::extract::{Client, Form, Path, Query, session_id};
use super::super::people as api_people;
use super::super::permits;
use super::super::session;
use super::pages::{account_with, secret, sign_in_form};
use super::sent::{AGAIN, Sent};
use super::token_form::TokenForm;
use super::{SignedIn, refused, within};
use crate::app::App;
use crate::problems::Error;
use crate::who::access::Shown;
use crate::who::sessions::LIFE_S;
use api::routes;
use api::runs::Access;
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use std::sync::Arc;

/// The fields to sign in.
#[derive(Deserialize)]
pub struct SignInForm {
    token: String,
    #[serde(default)]
    next: String,
}

/// Signs in, and goes on to the page that the person wanted.
pub async fn sign_in(
    State(app): State<Arc<App>>,
    client: Client,
    headers: HeaderMap,
    Form(form): Form<SignInForm>,
) -> Result<Response, Error> {
    let next = within(&form.next);
    let shown = Shown {
        token: Some(form.token.trim()),
        ..Shown::default()
    };
    let entry = match app.gate.check(shown, client.address, app.store.latest_ms()) {
        Ok(entry) => entry,
        Err(later) => return Ok(sign_in_again(&app, next, &later.to_string(), &later.into())),
    };
    if entry.access == Access::TokenNeeded {
        let why =
            "This is not a token of this server, or it has ended. Check for missing characters.";
        return Ok(sign_in_again(&app, next, why, &Error::WrongToken));
    }
    let secret = session::start(&app, &entry, &headers, client).await?;
    let cookie = cookies::of_session(&secret, LIFE_S, client.scheme);
    let who = Extension(audited::SignedIn(entry));
    Ok((who, cookie, Redirect::to(next)).into_response())
}

/// The form once more, and why.
fn sign_in_again(app: &App, next: &str, why: &str, error: &Error) -> Response {
    refused(error, sign_in_form(app, next, Some(why)))
}

/// Signs out.
pub async fn sign_out(
    State(app): State<Arc<App>>,
    client: Client,
    headers: HeaderMap,
) -> Result<Response, Error> {
    session::end_shown(&app, &headers).await?;
    let cookie = cookies::of_session("", 0, client.scheme);
    Ok((cookie, Redirect::to(routes::SIGN_IN_PAGE)).into_response())
}

/// Signs another browser out.
pub async fn end_session(
    State(app): State<Arc<App>>,
    SignedIn(entry): SignedIn,
    Path(session): Path<String>,
) -> Result<Redirect, Error> {
    let id = session_id(&session)?;
    if entry.session.as_ref() != Some(&id) {
        permits::tokens(&entry)?;
    }
    app.gate.end_session(&entry, &id).await?;
    Ok(Redirect::to(routes::ACCOUNT_PAGE))
}

/// Signs out all other browsers of the person.
pub async fn end_other_sessions(
    State(app): State<Arc<App>>,
    SignedIn(entry): SignedIn,
) -> Result<Redirect, Error> {
    permits::tokens(&entry)?;
    app.gate.end_other_sessions(&entry).await?;
    Ok(Redirect::to(routes::ACCOUNT_PAGE))
}

/// Makes a token and shows it, once.
pub async fn make_token(
    State(app): State<Arc<App>>,
    SignedIn(entry): SignedIn,
    Query(sent): Query<Sent>,
    Form(form): Form<TokenForm>,
) -> Result<Response, Error> {
    if sent.is_again(&app) {
        return Ok(account_with(&app, &entry, None, Some((&form, AGAIN))));
    }
    let made = match form.asked() {
        Ok(asked) => api_people::make(&app, &entry, &asked).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(made) => {
            let whose = format!("The token for “{}”.", made.token.name);
            let page = account_with(&app, &entry, Some(&secret(&whose, &made.secret)), None);
            let told = Subject(format!("{} ({})", made.token.name, made.token.scopes));
            Ok((Extension(told), page).into_response())
        }
        Err(error) => {
            sent.give_back(&app);
            let why = error.problem().detail;
            let page = account_with(&app, &entry, None, Some((&form, &why)));
            Ok(refused(&error, page))
        }
    }
}

/// Ends a token.
pub async fn end_token(
    State(app): State<Arc<App>>,
    SignedIn(entry): SignedIn,
    Path(token): Path<String>,
) -> Result<Redirect, Error> {
    api_people::end(&app, &entry, &token).await?;
    Ok(Redirect::to(routes::ACCOUNT_PAGE))
}
