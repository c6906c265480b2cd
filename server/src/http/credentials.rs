//! What a client shows to say who it is: a token, the cookie of a session, or the name that a
//! trusted proxy gives it.

use super::cookies::cookies;
use super::extract::Client;
use crate::app::App;
use crate::problems::Error;
use crate::who::access::{COOKIE, Entry, Shown};
use axum::http::{HeaderMap, HeaderName, header};

/// What the sender of these headers may do. A person whom a trusted proxy names for the first time
/// is added.
///
/// # Errors
/// When it showed wrong tokens too often, and when the name from the proxy is not allowed.
pub async fn entry(app: &App, headers: &HeaderMap, client: Client) -> Result<Entry, Error> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let token = text(header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(token.trim())
    });
    let session = cookies(headers).find(|(name, _)| *name == COOKIE);
    let shown = Shown {
        token,
        session: session.map(|(_, value)| value),
        named: named(app, headers, client),
    };
    if let Some(name) = shown.named {
        app.gate.welcome(name, app.store.latest_ms()).await?;
    }
    Ok(app
        .gate
        .check(shown, client.address, app.store.latest_ms())?)
}

/// The name that a trusted proxy gives to the person who asks. Nobody else is believed.
fn named<'a>(app: &App, headers: &'a HeaderMap, client: Client) -> Option<&'a str> {
    let header = app
        .config
        .user_header
        .as_ref()
        .filter(|_| client.by_proxy)?;
    let mut values = headers.get_all(&header.name).iter();
    // If there are two, one of them may be written by the client.
    let only = values.next().filter(|_| values.next().is_none())?;
    let name = std::str::from_utf8(only.as_bytes()).ok()?.trim();
    Some(name).filter(|name| !name.is_empty())
}
