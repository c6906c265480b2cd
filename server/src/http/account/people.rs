//! The page with everybody, for admins: who may do what, and a token for each to sign in with.

use super::super::audited::Subject;
use super::super::cookies;
use super::super::extract::{Client, Form, Path, Query, person_id};
use super::super::people as api_people;
use super::super::session;
use super::super::shell::{date, page, problem};
use super::SignedIn;
use super::pages::secret;
use super::sent::{AGAIN, Sent, good_once};
use crate::app::App;
use crate::problems::Error;
use crate::who::access::{Entry, Shown};
use crate::who::people::FIRST;
use crate::who::sessions::LIFE_S;
use api::ids::PersonId;
use api::people::{ChangePerson, CreatedToken, NewPerson, NewToken, Person, Role, Scope};
use api::routes;
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use timeline::format::count;

/// What a form led to, shown on the page.
enum News<'a> {
    /// A token that was just made: whose, and its secret.
    Made(&'a str, &'a str),
    /// A change was refused.
    Refused(&'a str),
    /// So many links of this person were revoked.
    Revoked(&'a str, u64),
    /// This person was not added.
    NotAdded(&'a NewPerson, &'a str),
}

/// All people, for admins.
pub async fn people(
    State(app): State<Arc<App>>,
    SignedIn(entry): SignedIn,
) -> Result<Response, Error> {
    admin(&entry)?;
    Ok(shown(&app, &entry, None).await)
}

fn admin(entry: &Entry) -> Result<(), Error> {
    match entry.is_admin() {
        true => Ok(()),
        false => Err(Error::NotAdmin),
    }
}

/// How many open links everybody has made, in all projects, by name.
async fn open_links(app: &Arc<App>) -> BTreeMap<String, u64> {
    let mut links = BTreeMap::new();
    for project in app.projects.all_open(app) {
        let now = project.store.latest_ms();
        let made = project
            .store
            .read(move |reader| reader.open_shares_by_maker(now));
        match made.await {
            Ok(made) => {
                for (maker, n) in made {
                    *links.entry(maker).or_default() += n;
                }
            }
            // The page is needed all the more when something is broken.
            Err(error) => tracing::warn!(%error, "cannot count the links of a project"),
        }
    }
    links
}

async fn shown(app: &Arc<App>, entry: &Entry, news: Option<&News<'_>>) -> Response {
    let people = app.gate.people.list();
    let links = open_links(app).await;
    let typed = match news {
        Some(News::NotAdded(typed, why)) => Some((*typed, *why)),
        _ => None,
    };
    let body = html! {
        @match news {
            Some(News::Made(whose, token)) => (secret(whose, token)),
            Some(News::Refused(why)) => (problem(why)),
            Some(News::Revoked(whose, n)) => p role="status" {
                "Revoked of " (whose) ": " (links_in_words(*n)) "."
            },
            Some(News::NotAdded(..)) | None => {}
        }
        @if people.is_empty() {
            p { "Nobody yet. The first person is an admin; from then on everybody signs in." }
        } @else {
            (rows(&people, &links))
        }
        (add_form(people.is_empty(), typed))
    };
    page(app, Some(entry), "People", &body)
}

fn add_form(is_first: bool, typed: Option<(&NewPerson, &str)>) -> Markup {
    let (typed, why) = typed.unzip();
    let chosen = typed.map_or(Role::Member, |typed| typed.role);
    html! {
        form class="account-form" method="post" action=(good_once(routes::PEOPLE_PAGE)) {
            h2 { "Add a person" }
            label for="name" { "Name" }
            @if let Some(why) = why { (problem(why)) }
            input id="name" class="input" name="name" required maxlength="64"
                value=[typed.map(|typed| &typed.name)] aria-invalid=[why.map(|_| "true")];
            label for="role" { "Role" }
            select id="role" class="input" name="role" {
                @if is_first { option value="admin" { "admin" } } @else { (roles(chosen)) }
            }
            p class="muted" {
                "An admin also says who else may. A member looks, sends, names, deletes and "
                "shares. A reader looks. A guest sees only projects that let them in. You get a "
                "token to hand over, with which they sign in."
            }
            button class="button primary" type="submit" { "Add" }
        }
    }
}

fn roles(chosen: Role) -> Markup {
    html! {
        @for role in Role::ALL { option value=(role) selected[role == chosen] { (role) } }
    }
}

fn rows(people: &[Person], links: &BTreeMap<String, u64>) -> Markup {
    html! {
        div class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr {
                th { "Name" } th { "Role" } th { "Since" } th { "Token" } th { "Access" }
            } }
            tbody { @for person in people { tr {
                td { (person.name) }
                td { form method="post" action=(routes::person_page(&person.id)) {
                    select class="input" name="role" aria-label={ "Role of " (person.name) } {
                        (roles(person.role))
                    }
                    button class="link-button" type="submit" { "Change" }
                } }
                td data-label="Since" { (date(person.created_ms)) }
                td { @if person.left_ms.is_none() {
                    form method="post" action=(good_once(&routes::person_token_page(&person.id))) {
                        button class="link-button" type="submit"
                            aria-label={ "New token for " (person.name) } { "New token" }
                    }
                } @else { "–" } }
                td { form method="post" action=(routes::person_page(&person.id)) {
                    (access(person, links.get(&person.name).copied().unwrap_or(0)))
                } }
            } } }
        } }
    }
}

/// The buttons that end somebody's access, after a question, and that let them in again.
fn access(person: &Person, links: u64) -> Markup {
    let shares = person.left_ms.is_none() && person.role.scopes().has(Scope::Manage);
    html! {
        @match person.left_ms {
            None => details class="account-ask" {
                summary aria-label={ "End access of " (person.name) } { "End access" }
                p {
                    "All tokens and browsers of " (person.name) " are shut out at once. Let in "
                    "again, they need a new token."
                    @if links > 0 {
                        " What they have shared stays open (" (links_in_words(links)) "): "
                        "afterwards you can revoke it here."
                    }
                }
                button class="button" type="submit" name="left" value="true" {
                    "End access of " (person.name)
                }
            },
            Some(at) => {
                "ended " (date(at)) " "
                button class="link-button" type="submit" name="left" value="false"
                    aria-label={ "Let " (person.name) " in again" } { "Let in again" }
            }
        }
        @if links > 0 && !shares {
            p {
                (links_in_words(links)) " that they made: open. "
                button class="link-button" type="submit" name="links" value="revoke"
                    aria-label={ "Revoke all links that " (person.name) " made" } { "Revoke all" }
            }
        }
    }
}

fn links_in_words(n: u64) -> String {
    match n {
        1 => "1 link".to_owned(),
        n => format!("{} links", count(n)),
    }
}

/// Adds a person and shows the first token, once.
pub async fn add_person(
    State(app): State<Arc<App>>,
    client: Client,
    headers: HeaderMap,
    SignedIn(entry): SignedIn,
    Query(sent): Query<Sent>,
    Form(new): Form<NewPerson>,
) -> Result<Response, Error> {
    admin(&entry)?;
    if sent.is_again(&app) {
        return Ok(shown(&app, &entry, Some(&News::NotAdded(&new, AGAIN))).await);
    }
    let was_open = app.gate.is_open();
    let added = match api_people::add_by(&app, &entry, &new).await {
        Ok(added) => added,
        // Somebody else was first, and the page is not for everybody any more.
        Err(error) if was_open && !app.gate.is_open() => return Err(error),
        Err(error) => {
            sent.give_back(&app);
            let why = error.problem().detail;
            let page = shown(&app, &entry, Some(&News::NotAdded(&new, &why))).await;
            return Ok(super::refused(&error, page));
        }
    };
    let whose = format!("The token with which {} signs in.", added.person.name);
    let news = News::Made(&whose, &added.token.secret);
    let told = Extension(Subject(api_people::told(&added.person)));
    if !was_open {
        return Ok((told, shown(&app, &entry, Some(&news)).await).into_response());
    }
    // From now on everybody signs in. The person who added the first person gets a session for
    // them.
    let showed = Shown {
        token: Some(&added.token.secret),
        ..Shown::default()
    };
    let entry = app
        .gate
        .check(showed, client.address, app.store.latest_ms())?;
    let session = session::start(&app, &entry, &headers, client).await?;
    let cookie = cookies::of_session(&session, LIFE_S, client.scheme);
    let page = shown(&app, &entry, Some(&news)).await;
    Ok((told, cookie, page).into_response())
}

/// The fields to change a person.
#[derive(Deserialize)]
pub struct PersonForm {
    role: Option<Role>,
    left: Option<bool>,
    links: Option<Links>,
}

/// What is done about the links that a person has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Links {
    /// None of them opens any more.
    Revoke,
}

/// Changes what a person may do. Who is let in again gets a token, because their old ones are gone.
pub async fn change_person(
    State(app): State<Arc<App>>,
    SignedIn(entry): SignedIn,
    Path(person): Path<String>,
    Form(form): Form<PersonForm>,
) -> Result<Response, Error> {
    admin(&entry)?;
    if form.links == Some(Links::Revoke) {
        return revoke_links(&app, &entry, person_id(&person)?).await;
    }
    let change = ChangePerson {
        role: form.role,
        left: form.left,
    };
    let id = person_id(&person)?;
    let changed = app
        .gate
        .change_person(&id, &change, app.store.latest_ms())
        .await;
    let person = match changed {
        Ok(person) => person,
        Err(error) => return Ok(refused(&app, &entry, &error.into()).await),
    };
    let told = Extension(Subject(api_people::told(&person)));
    if form.left != Some(false) {
        return Ok((told, Redirect::to(routes::PEOPLE_PAGE)).into_response());
    }
    match token_for(&app, &entry, id).await {
        Ok(made) => {
            let whose = format!(
                "{} is let in again, and signs in with this token.",
                person.name
            );
            let page = shown(&app, &entry, Some(&News::Made(&whose, &made.secret))).await;
            Ok((told, page).into_response())
        }
        Err(error) => Ok(refused(&app, &entry, &error).await),
    }
}

/// Revokes what a person has shared, in all projects.
async fn revoke_links(app: &Arc<App>, entry: &Entry, id: PersonId) -> Result<Response, Error> {
    let people = app.gate.people.list();
    let person = people.into_iter().find(|person| person.id == id);
    let person = person.ok_or_else(|| Error::NotFound(format!("person {id}")))?;
    let mut revoked = 0;
    for project in app.projects.all_open(app) {
        let (maker, by, now) = (
            person.name.clone(),
            entry.name().to_owned(),
            project.store.latest_ms(),
        );
        let write = project
            .store
            .write(move |writer| writer.revoke_shares_of(&maker, &by, now));
        revoked += write.await? as u64;
    }
    let told = Subject(format!(
        "{}: {} revoked",
        person.name,
        links_in_words(revoked)
    ));
    let page = shown(app, entry, Some(&News::Revoked(&person.name, revoked))).await;
    Ok((Extension(told), page).into_response())
}

/// Makes a token with which somebody signs in, and shows it, once.
pub async fn new_token(
    State(app): State<Arc<App>>,
    SignedIn(entry): SignedIn,
    Query(sent): Query<Sent>,
    Path(person): Path<String>,
) -> Result<Response, Error> {
    admin(&entry)?;
    if sent.is_again(&app) {
        return Ok(shown(&app, &entry, Some(&News::Refused(AGAIN))).await);
    }
    let id = person_id(&person)?;
    let name = app.gate.people.active(&id).map(|person| person.name);
    match token_for(&app, &entry, id).await {
        Ok(made) => {
            let name = name.unwrap_or_default();
            let whose =
                format!("A new token with which {name} signs in. Their other tokens stay valid.");
            let page = shown(&app, &entry, Some(&News::Made(&whose, &made.secret))).await;
            let told = Subject(format!(
                "{} of {name} ({})",
                made.token.name, made.token.scopes
            ));
            Ok((Extension(told), page).into_response())
        }
        Err(error) => {
            sent.give_back(&app);
            Ok(refused(&app, &entry, &error).await)
        }
    }
}

/// A token for everything that the person may do, as far as whoever makes it may make one.
async fn token_for(app: &App, entry: &Entry, person: PersonId) -> Result<CreatedToken, Error> {
    let new = NewToken {
        name: FIRST.to_owned(),
        scopes: app.projects.reach(entry),
        expires_in_s: None,
        person: Some(person),
        project: None,
    };
    api_people::make(app, entry, &new).await
}

/// The page with what was refused.
async fn refused(app: &Arc<App>, entry: &Entry, error: &Error) -> Response {
    let why = error.problem().detail;
    super::refused(error, shown(app, entry, Some(&News::Refused(&why))).await)
}
