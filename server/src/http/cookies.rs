//! Cookies: how a request's are read, and how those of sessions and projects are written. A link's
//! cookie is described where links are (`audience`), the one of a sign-in at a provider in
//! `account`.

use crate::who::access::COOKIE as OF_SESSION;
use crate::who::host_names::Scheme;
use api::projects::{COOKIE as OF_PROJECT, ProjectName};
use axum::http::{HeaderMap, HeaderName, header};

/// How long a browser remembers the project that it showed last.
const REMEMBERED_S: i64 = 365 * 24 * 3600;

/// Names and values of the cookies.
pub fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let cookies = headers.get_all(header::COOKIE).iter();
    cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
}

/// The cookie of a session, for so many seconds.
pub fn of_session(value: &str, seconds: i64, scheme: Scheme) -> [(HeaderName, String); 1] {
    let secure = secure(scheme);
    let cookie = format!(
        "{OF_SESSION}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"
    );
    [(header::SET_COOKIE, cookie)]
}

/// The cookie that remembers a project.
pub fn of_project(project: &ProjectName, scheme: Scheme) -> String {
    let secure = secure(scheme);
    format!(
        "{OF_PROJECT}={project}; Path=/; HttpOnly; SameSite=Lax; Max-Age={REMEMBERED_S}{secure}"
    )
}

/// The attribute that keeps a cookie from HTTPS away from plain HTTP.
pub const fn secure(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Https => "; Secure",
        Scheme::Http => "",
    }
}
