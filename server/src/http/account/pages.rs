//! The content of these pages.

use super::super::audited;
use super::super::credentials;
use super::super::extract::Query;
use super::super::page::PageQuery;
use super::super::people::{known_action, read_audit};
use super::super::shell::{self, date, page, problem};
use super::SignedIn;
use super::token_form::{TokenForm, token_form};
use crate::app::App;

use crate::problems::Error;
use crate::store::WhichEntries;
use crate::who::access::{Entry, Who};
use api::ids::{RunId, TokenId};
use api::people::{AuditEntry, PersonalToken, Scopes};
use api::projects::ProjectName;
use api::query::encode;
use api::routes;
use api::runs::{Access, Session};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;

/// Entries of the audit on a page.
const AUDIT_ROWS: usize = 100;

/// Where to go after signing in.
#[derive(Deserialize)]
pub struct SignInQuery {
    #[serde(default)]
    next: String,
}

/// The page to sign in.
pub async fn sign_in_page(
    State(app): State<Arc<App>>,
    Query(query): Query<SignInQuery>,
    headers: HeaderMap,
    client: super::super::extract::Client,
) -> Result<Response, Error> {
    let next = super::within(&query.next);
    let entry = credentials::entry(&app, &headers, client).await?;
    if entry.access != Access::TokenNeeded {
        return Ok(Redirect::to(next).into_response());
    }
    // A link on another site leads here without the cookie, which is only sent from this site's
    // pages. One more step from here sends it.
    let site = headers.get("sec-fetch-site");
    if site.is_some_and(|site| site == "cross-site") {
        let again = routes::sign_in_page(next);
        let refresh = html! { meta http-equiv="refresh" content={ "0; url=" (again) }; };
        return Ok(page(&app, None, "Sign in", &refresh));
    }
    Ok(sign_in_form(&app, next, None))
}

/// The form to sign in.
pub fn sign_in_form(app: &App, next: &str, why: Option<&str>) -> Response {
    let body = html! {
        @if let Some(why) = why { (problem(why)) }
        @if let Some(provider) = &app.oidc {
            div class="account-form" {
                a class="button primary" href={ (routes::OIDC_PAGE) "?next=" (encode(next)) } {
                    "Sign in with " (provider.host())
                }
                p class="muted" {
                    "Your name and address of mail come from there. This server never sees your "
                    "password."
                }
            }
            h2 { "Or with a token" }
        }
        form class="account-form" method="post" action=(routes::SIGN_IN_PAGE) {
            input type="hidden" name="next" value=(next);
            label for="token" { "Your token" }
            input id="token" class="input" type="password" name="token" required
                autocomplete="current-password" autofocus[app.oidc.is_none()];
            p class="muted" {
                "An admin of this server gives you one. This browser remembers the session, not "
                "the token; it ends after seven days, or when somebody ends it."
            }
            button class={ "button" @if app.oidc.is_none() { " primary" } } type="submit" {
                "Sign in"
            }
        }
    };
    page(app, None, "Sign in", &body)
}

/// The person's page, with their tokens and sessions.
pub async fn account(State(app): State<Arc<App>>, SignedIn(entry): SignedIn) -> Response {
    account_with(&app, &entry, None, None)
}

/// The same, with the token that was just made, or with what was typed and why it was refused.
pub fn account_with(
    app: &App,
    entry: &Entry,
    news: Option<&Markup>,
    refused: Option<(&TokenForm, &str)>,
) -> Response {
    let now = app.store.latest_ms();
    let sessions = app.gate.sessions(entry, now);
    // An admin sees the browsers of everybody, but the button is for their own.
    let is_mine = |session: &Session| match &entry.who {
        Who::Person(person) => session.person.as_deref() == Some(&person.name),
        _ => session.person.is_none(),
    };
    let mut others = sessions.iter().filter(|session| !session.current);
    let alone = !others.any(is_mine);
    let body = html! {
        @if let Some(news) = news { (news) }
        (who(entry, app.projects.reach(entry)))
        @if let Some(person) = entry.person() {
            h2 { "Tokens" }
            p class="muted" {
                "What programs send for you: " code { "TIDEMARK_TOKEN=… tidemark push FILE" }
                ", or " code { "Authorization: Bearer TOKEN" } "."
            }
            (tokens(&app.gate.tokens(entry, &person.id), entry.token.as_ref(), most(app, entry)))
            // A token that is good for nothing cannot be made.
            @if app.projects.reach(entry) != Scopes::NONE { (token_form(app, entry, refused)) }
        }
        @if entry.who != Who::Anybody {
            h2 { "Browsers that are signed in" }
            (session_rows(&sessions))
            (guesses(app.gate.tally().wrong))
            div class="account-row" {
                form method="post" action=(routes::END_OTHER_SESSIONS_PAGE) {
                    button class="button" type="submit" disabled[alone] {
                        "Sign out my other browsers"
                    }
                }
                form method="post" action=(routes::SIGN_OUT_PAGE) {
                    button class="button primary" type="submit" { "Sign out" }
                }
            }
        }
    };
    page(app, Some(entry), "Account", &body)
}

/// The most that tokens of somebody are good for. What one was made for may be more: the role of
/// its owner was lowered since.
fn most(app: &App, entry: &Entry) -> Scopes {
    match &entry.bound {
        // Then it is not told what they may do in other projects.
        Some(_) => Scopes::ALL,
        None => {
            let places = app.projects.visible(entry).into_iter();
            places
                .flat_map(|place| place.role.scopes().iter())
                .collect()
        }
    }
}

/// Who has signed in. `reach` is all that they may do in any project.
fn who(entry: &Entry, reach: Scopes) -> Markup {
    html! {
        p {
            @match &entry.who {
                Who::Person(person) => {
                    "You are " strong { (person.name) } ", " (person.role) ". "
                    @if reach == Scopes::NONE {
                        "You may do nothing until somebody adds you to a project."
                    } @else if entry.scopes == Scopes::NONE {
                        "In the projects that let you in, this browser may: " (reach) "."
                    } @else {
                        "This browser may: " (entry.scopes) "."
                    }
                }
                Who::Operator => {
                    "You came with the token that the server was started with, which may do "
                    "everything. Add people, so that each has their own: what is done has a name "
                    "then."
                }
                _ => {
                    "Nobody has to sign in: this server answers to this machine only. Once the "
                    "first person is added (under People), everybody has to."
                }
            }
        }
    }
}

fn guesses(wrong: u64) -> Markup {
    html! {
        @if wrong > 0 {
            p class="muted" {
                @match wrong {
                    1 => "1 wrong token or link",
                    wrong => { (timeline::format::count(wrong)) " wrong tokens or links" },
                }
                " since the server was started."
            }
        }
    }
}

fn tokens(tokens: &[PersonalToken], shown: Option<&TokenId>, most: Scopes) -> Markup {
    let scopes = |token: &PersonalToken| match token.scopes.both(most) {
        Scopes::NONE => "nothing now".to_owned(),
        some => some.to_string(),
    };
    html! {
        div class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr {
                th { "Token" } th { "May" } th { "Made" } th { "Ends" } th { "Last used" }
                (unnamed())
            } }
            tbody { @for token in tokens { tr {
                td { (token.name) }
                td data-label="May" {
                    (scopes(token))
                    @if let Some(project) = &token.project { " in " (project) }
                }
                td data-label="Made" { (date(token.created_ms)) }
                td data-label="Ends" { (token.expires_ms.map_or("never".to_owned(), date)) }
                td data-label="Last used" { (token.used_ms.map_or("never".to_owned(), date)) }
                td { form method="post" action=(routes::end_token_page(&token.id)) {
                    (end(token, shown == Some(&token.id)))
                } }
            } } }
        } }
    }
}

/// The button that ends a token; a question before it, if whoever asks is signed in with it.
fn end(token: &PersonalToken, is_shown: bool) -> Markup {
    let name = format!("End the token {}", token.name);
    html! {
        @if is_shown { details class="account-ask" {
            summary aria-label=(name) { "End" }
            p { "You are signed in with this token. This browser is signed out, too." }
            button class="button" type="submit" { (name) }
        } }
        @else { button class="link-button" type="submit" aria-label=(name) { "End" } }
    }
}

/// The empty head of a column of buttons.
fn unnamed() -> Markup {
    html! { th { span class="visually-hidden" { "What you can do" } } }
}

/// A token that was just made. Its secret is shown only here.
pub fn secret(whose: &str, secret: &str) -> Markup {
    html! {
        div class="note account-secret" role="status" {
            p { (whose) " Copy it now: it is shown only once." }
            input class="input" readonly value=(secret) aria-label="The new token";
        }
    }
}

fn session_rows(sessions: &[Session]) -> Markup {
    html! {
        div id="sessions" class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr {
                th { "Browser" } th { "Who" } th { "From" } th { "Last used" } th { "Ends" }
                (unnamed())
            } }
            tbody { @for session in sessions { tr {
                td title=(session.agent) { (shell::browser(&session.agent)) }
                td { (session.person.as_deref().unwrap_or("the server's token")) }
                td data-label="From" { (session.address) }
                td data-label="Last used" { (date(session.seen_ms)) }
                td data-label="Ends" { (date(session.expires_ms)) }
                td {
                    @if session.current { span class="badge" { "this browser" } }
                    @else { form method="post" action=(routes::end_session_page(&session.id)) {
                        button class="link-button" type="submit" { "Sign out" }
                    } }
                }
            } } }
        } }
    }
}

/// Which part of the audit.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct AuditQuery {
    who: String,
    action: String,
    about: String,
    /// The project whose entries are shown; `project` says which one the tab is in.
    #[serde(rename = "in")]
    of_project: String,
    offset: u32,
}

impl AuditQuery {
    /// The entries that are asked for. An empty field asks for all.
    fn which(&self) -> Result<WhichEntries, Error> {
        let typed = |text: &str| {
            let text = text.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let project = typed(&self.of_project).map(|name| name.parse::<ProjectName>());
        let project = project.transpose();
        Ok(WhichEntries {
            who: typed(&self.who),
            action: typed(&self.action).map(known_action).transpose()?,
            about: typed(&self.about),
            ids: Vec::new(),
            project: project.map_err(|error| Error::BadRequest(format!("project: {error}")))?,
        })
    }

    /// The page with older ones.
    fn older(&self) -> String {
        let offset = self.offset + AUDIT_ROWS as u32;
        let fields = [
            ("who", &self.who),
            ("action", &self.action),
            ("about", &self.about),
            ("in", &self.of_project),
        ];
        let typed = fields.into_iter().filter(|(_, text)| !text.is_empty());
        let typed = typed.map(|(name, text)| format!("&{name}={}", encode(text)));
        let typed: String = typed.collect();
        format!("{}?offset={offset}{typed}", routes::AUDIT_PAGE)
    }
}

/// The audit.
pub async fn audit(
    State(app): State<Arc<App>>,
    SignedIn(entry): SignedIn,
    Query(query): Query<AuditQuery>,
) -> Result<Response, Error> {
    if !entry.is_admin() {
        return Err(Error::NotAdmin);
    }
    let slice = PageQuery::new(query.offset, AUDIT_ROWS).slice();
    let which = query.which()?;
    let is_all = which == WhichEntries::default();
    let entries = read_audit(&app, which, slice).await?;
    let body = html! {
        (audit_form(&query, &app.projects.names()))
        @if entries.is_empty() {
            p { @if is_all { "Nothing was done yet." } @else { "Nothing like that was done." } }
        } @else {
            (audit_rows(&entries))
        }
        @if entries.len() == AUDIT_ROWS {
            p { a href=(query.older()) { "Older" } }
        }
    };
    Ok(page(&app, Some(&entry), "Audit", &body))
}

/// The fields that say which entries are shown.
fn audit_form(query: &AuditQuery, projects: &[ProjectName]) -> Markup {
    html! {
        form class="account-row" method="get" action=(routes::AUDIT_PAGE) {
            label for="who" { "Only what was done by" }
            input id="who" class="input" name="who" value=(query.who);
            label for="action" { "What" }
            select id="action" class="input" name="action" {
                option value="" { "everything" }
                @for action in audited::actions() {
                    option value=(action) selected[action == query.action] {
                        (action.replace('_', " "))
                    }
                }
            }
            label for="about" { "Name or id" }
            input id="about" class="input" name="about" value=(query.about);
            @if projects.len() > 1 {
                label for="in" { "Project" }
                select id="in" class="input" name="in" {
                    option value="" { "all" }
                    @for project in projects {
                        option value=(project) selected[project.as_str() == query.of_project] {
                            (project)
                        }
                    }
                }
            }
            button class="button" type="submit" { "Show" }
        }
    }
}

fn audit_rows(entries: &[AuditEntry]) -> Markup {
    let several = entries.iter().any(|entry| entry.project.is_some());
    html! {
        div class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr {
                th { "When" } th { "Who" } th { "From" } th { "What" } th { "Of what" }
                @if several { th { "Project" } }
            } }
            tbody { @for entry in entries { tr {
                td { (date(entry.at_ms)) }
                td { (entry.who) }
                td data-label="From" { (entry.address) }
                td { (entry.action.replace('_', " ")) }
                td { @match run_in(&entry.subject) {
                    Some(run) => a href=(routes::run_page(&run)) { (entry.subject) },
                    None => (entry.subject),
                } }
                @if several { td { @if let Some(project) = &entry.project { (project) } } }
            } } }
        } }
    }
}

/// The run that an entry is about: its object is an id, or a name with the id behind it.
fn run_in(subject: &str) -> Option<RunId> {
    let behind = subject.strip_suffix(')');
    let behind = behind.and_then(|text| text.rsplit_once('('));
    behind.map_or(subject, |(_, id)| id).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_leads_to_its_run() {
        let check = |subject: &str, expected: Option<&str>| {
            let run = run_in(subject).map(|run| run.to_string());
            assert_eq!(run.as_deref(), expected, "{subject}");
        };
        check("run_Ab1", Some("run_Ab1"));
        check("exp299 (run_Ab1)", Some("run_Ab1"));
        check("run_7.pickle (run_Ab1)", Some("run_Ab1"));
        check("run_7.pickle", None);
        check("wide (job_Ab1) with its 2 runs", None);
        check("", None);
    }

    #[test]
    fn wrong_tokens_and_links_are_counted_in_plain_english() {
        let check = |wrong, expected: &str| {
            let text = guesses(wrong).into_string();
            assert!(text.contains(expected), "{text}");
        };
        assert_eq!(guesses(0).into_string(), "");
        check(1, ">1 wrong token or link since");
        check(1200, ">1,200 wrong tokens or links since");
    }
}
