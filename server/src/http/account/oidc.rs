//! The two addresses that a browser visits when a provider of OpenID Connect signs somebody in.

use super::super::audited;
use super::super::cookies::{self, cookies, secure};
use super::super::extract::{Client, Origin, Query};
use super::super::session;
use super::super::shell::page;
use super::pages::sign_in_form;
use super::{refused, within};
use crate::app::App;
use crate::problems::Error;
use crate::system::plain::plain;
use crate::who::access::Secret;
use crate::who::host_names::Scheme;
use crate::who::oidc::{Attempt, OidcError, Provider};
use crate::who::sessions::LIFE_S;
use api::query::encode;
use api::routes;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use maud::html;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use std::sync::Arc;

/// The cookie of a sign-in that has begun. It is also sent when the provider sends the browser
/// back (`SameSite=Lax`), unlike the cookie of a session.
const COOKIE: &str = "tidemark_sign_in";

/// How long somebody may take at the provider, seconds.
const WITHIN_S: i64 = 15 * 60;

/// A longer address to go on to does not fit into a cookie.
const LONGEST_NEXT: usize = 2048;

/// Where to go after signing in.
#[derive(Deserialize)]
pub struct BeginQuery {
    #[serde(default)]
    next: String,
}

/// Sends the browser to the provider.
pub async fn begin_oidc(
    State(app): State<Arc<App>>,
    client: Client,
    origin: Origin,
    Query(query): Query<BeginQuery>,
) -> Result<Response, Error> {
    let provider = provider(&app)?;
    let next = Some(within(&query.next)).filter(|next| encode(next).len() <= LONGEST_NEXT);
    let next = next.unwrap_or("/");
    let (to, attempt) = match provider.begin(callback(&origin)).await {
        Ok(begun) => begun,
        Err(error) => return Ok(again(&app, next, error, client.scheme)),
    };
    let kept = format!("{}|{}", attempt.cookie(), encode(next));
    let cookie = [cookie(&kept, WITHIN_S, client.scheme)];
    Ok((AppendHeaders(cookie), Redirect::to(&to)).into_response())
}

/// What the provider sends back with the browser.
#[derive(Deserialize)]
pub struct FinishQuery {
    #[serde(default)]
    state: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

/// Signs in whoever the provider names, and goes on to the page that the person wanted.
pub async fn finish_oidc(
    State(app): State<Arc<App>>,
    client: Client,
    origin: Origin,
    headers: HeaderMap,
    Query(query): Query<FinishQuery>,
) -> Result<Response, Error> {
    let provider = provider(&app)?;
    let kept = cookies(&headers).find(|(name, _)| *name == COOKIE);
    let (attempt, next) = kept.and_then(|(_, value)| begun(value)).unzip();
    let next = next.unwrap_or_default();
    let next = within(&next);
    let sorry = |error: OidcError| Ok(again(&app, next, error, client.scheme));
    let host = provider.host().to_owned();
    let not_signed_in = |why: String| OidcError::NotSignedIn { host, why };
    // Otherwise a page of somebody else could sign a person in as somebody else.
    let Some(attempt) = attempt.filter(|attempt| attempt.state == query.state) else {
        let why = "this browser did not begin this sign-in, or began it too long ago";
        return sorry(not_signed_in(why.to_owned()));
    };
    if query.code.is_empty() {
        let why = match query.error_description.is_empty() {
            true => &query.error,
            false => &query.error_description,
        };
        let why: String = plain(why).chars().take(200).collect();
        return sorry(not_signed_in(why));
    }
    app.gate.may_guess(client.address, Secret::Token)?;
    let asked = provider.finish(callback(&origin), attempt, query.code);
    let identity = match asked.await {
        Ok(identity) => identity,
        Err(error) => {
            // Only the provider can tell what a code is worth.
            if matches!(error, OidcError::NotSignedIn { .. }) {
                app.gate.guessed(client.address, Secret::Token, false);
            }
            return sorry(error);
        }
    };
    let people = &app.gate.people;
    let person = people.identified(&identity, provider.newcomers(), app.store.latest_ms());
    let entry = app.gate.signed_in(person.await?);
    let secret = session::start(&app, &entry, &headers, client).await?;
    let [session] = cookies::of_session(&secret, LIFE_S, client.scheme);
    let cookies = AppendHeaders([session, cookie("", 0, client.scheme)]);
    let who = Extension(audited::SignedIn(entry));
    // A browser does not send the cookie of the session while it follows the provider's redirect.
    // From a page of this server it does.
    let refresh = html! { meta http-equiv="refresh" content={ "0; url=" (next) }; };
    Ok((who, cookies, page(&app, None, "Sign in", &refresh)).into_response())
}

fn provider(app: &App) -> Result<&Provider, Error> {
    let none = || Error::NoRoute(routes::OIDC_PAGE.to_owned());
    app.oidc.as_ref().ok_or_else(none)
}

/// Where the provider sends the browser; it must know this address.
fn callback(origin: &Origin) -> String {
    format!("{origin}{}", routes::OIDC_CALLBACK)
}

/// The value of the cookie: what was begun, and where to go on to.
fn begun(value: &str) -> Option<(Attempt, String)> {
    let (attempt, next) = value.split_once('|')?;
    let next = percent_decode_str(next).decode_utf8().ok()?;
    Some((Attempt::parse(attempt)?, next.into_owned()))
}

fn cookie(value: &str, seconds: i64, scheme: Scheme) -> (HeaderName, String) {
    let (path, secure) = (routes::OIDC_PAGE, secure(scheme));
    let cookie =
        format!("{COOKIE}={value}; Path={path}; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    (header::SET_COOKIE, cookie)
}

/// The page to sign in, with what went wrong. The attempt is over.
fn again(app: &App, next: &str, error: OidcError, scheme: Scheme) -> Response {
    let error = Error::from(error);
    let page = sign_in_form(app, next, Some(&error.problem().detail));
    let page = refused(&error, page);
    (AppendHeaders([cookie("", 0, scheme)]), page).into_response()
}
