//! Projects, as pages: choose one, make one, look after one.

use super::super::account::SignedIn;
use super::super::addresses;
use super::super::audited::Subject;
use super::super::cookies;
use super::super::extract::{Client, Form, Path, Query};
use super::super::shell::{date, page, problem, scripted};
use super::forms::{
    self, Field, ProjectForm, Refusal, Typed, close_form, days_typed, keep_form, new_form, rule,
    settings_form,
};
use super::{changed, may_look, membership, planned, set_role, told};
use crate::app::App;
use crate::problems::Error;
use crate::projects::retention;
use crate::projects::{self, ProjectError};
use crate::system::clock::now_ms;
use crate::who::access::{Entry, Membership};
use api::ids::PersonId;
use api::people::Role;
use api::projects::{Member, Plan, Project};
use api::routes;
use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use timeline::format::plural;

/// Runs of a plan that are listed by name.
const LISTED: usize = 100;

/// The script of a page of one project.
pub async fn script() -> Response {
    scripted(include_str!("project.js"))
}

/// Shows a project from now on: its list of runs.
pub async fn enter(
    State(main): State<Arc<App>>,
    client: Client,
    SignedIn(entry): SignedIn,
    Path(project): Path<String>,
) -> Response {
    entered(&main, &entry, client, &project, "/".to_owned())
}

/// Shows a project from now on: this page of it.
pub async fn enter_at(
    State(main): State<Arc<App>>,
    client: Client,
    SignedIn(entry): SignedIn,
    Path((project, rest)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    let to = format!("/{}{query}", rest.trim_start_matches('/'));
    entered(&main, &entry, client, &project, to)
}

fn entered(main: &App, entry: &Entry, client: Client, project: &str, to: String) -> Response {
    match membership(main, entry, project) {
        Ok(Membership { project, .. }) if main.projects.role(entry, &project).is_some() => {
            let cookie = cookies::of_project(&project, client.scheme);
            let to = super::super::account::within(&to).to_owned();
            // The cookie is of the browser, and another tab may enter another project meanwhile.
            let to = match main.projects.are_several() {
                true => addresses::in_project(&to, &project),
                false => to,
            };
            ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response()
        }
        Ok(_) => Redirect::to(&routes::project_page(project)).into_response(),
        Err(error) => refusal(main, &error),
    }
}

/// Says that a project cannot be entered, and leads to those that can.
pub fn refusal(main: &App, error: &Error) -> Response {
    let body = html! {
        (problem(&error.problem().detail))
        p { a href=(routes::PROJECTS_PAGE) { "Your projects" } }
    };
    let title = match error {
        Error::Project(ProjectError::Broken(_)) => "The project cannot be opened",
        _ => "No such project",
    };
    let mut page = page(main, None, title, &body);
    error.mark(&mut page);
    page
}

/// The list.
pub async fn projects_page(
    State(main): State<Arc<App>>,
    SignedIn(entry): SignedIn,
) -> Result<Response, Error> {
    projects_with(&main, &entry, &Typed::default()).await
}

async fn projects_with(main: &Arc<App>, entry: &Entry, typed: &Typed) -> Result<Response, Error> {
    let projects = main.projects.list(main, entry).await?;
    let body = html! {
        (typed.at_the_top())
        p class="muted" {
            "A project has its own runs, benches, links, categories and members. What is in one "
            "cannot be seen from another."
        }
        @if projects.is_empty() {
            p { "You are in no project yet. Ask an admin of this server, or of a project, to add "
                "you." }
        } @else {
            (table(&projects))
        }
        @if entry.is_admin() {
            p { a href=(routes::USAGE_PAGE) { "What takes the disk" } }
            (new_form(typed))
        }
    };
    let page = page(main, Some(entry), "Projects", &body);
    Ok((typed.status(), page).into_response())
}

fn table(projects: &[Project]) -> Markup {
    html! {
        div class="account-wide stacked" tabindex="0" { table class="account-table" {
            thead { tr {
                th { "Project" } th { span class="visually-hidden" { "What you can do" } }
                th { "You are" } th { "Runs" } th { "On disk" } th { "Since" }
            } }
            tbody { @for project in projects { tr {
                td { a href=(routes::project_page(project.name.as_str())) { (project.name) } }
                td { @match (project.closed_ms, &project.trouble) {
                    (Some(at), _) => { "closed " (date(at)) }
                    (None, Some(_)) => "cannot be opened",
                    (None, None) => a class="button" href=(routes::enter_project(&project.name))
                        aria-label={ "Open the project " (project.name) } { "Open" },
                } }
                td data-label="You are" { (project.role) }
                @let is_known = project.trouble.is_none();
                td data-label="Runs" { @if is_known { (project.runs) } @else { "not known" } }
                td data-label="On disk" { @if is_known { (disk(project)) } @else { "not known" } }
                td data-label="Since" {
                    @if project.created_ms > 0 { (date(project.created_ms)) }
                    @else { "the beginning" }
                }
            } } }
        } }
    }
}

fn disk(project: &Project) -> String {
    match project.settings.quota {
        None => project.used.to_string(),
        Some(quota) => format!("{} of {quota}", project.used),
    }
}

/// Makes a project.
pub async fn create_on_page(
    State(main): State<Arc<App>>,
    SignedIn(entry): SignedIn,
    Form(form): Form<ProjectForm>,
) -> Result<Response, Error> {
    if !entry.is_admin() {
        return Err(Error::NotAdmin);
    }
    let made = async {
        let new = form.new_project()?;
        match main.projects.create(&main, &new, now_ms()).await {
            Err(error @ ProjectError::Exists(_)) => return Err(Field::Name.refuses(error)),
            made => made?,
        }
        Ok(new.name)
    };
    match made.await {
        Ok(name) => {
            let to = Redirect::to(&routes::project_page(name.as_str()));
            Ok((Subject::of(&name), to).into_response())
        }
        Err(refusal) => projects_with(&main, &entry, &Typed::refused(form, refusal)).await,
    }
}

/// One project.
pub async fn project_page(
    State(main): State<Arc<App>>,
    SignedIn(entry): SignedIn,
    Path(project): Path<String>,
    Query(form): Query<ProjectForm>,
) -> Result<Response, Error> {
    project_with(&main, &entry, &project, &Typed::again(form)).await
}

async fn project_with(
    main: &Arc<App>,
    entry: &Entry,
    project: &str,
    typed: &Typed,
) -> Result<Response, Error> {
    let membership = match membership(main, entry, project) {
        Ok(membership) => membership,
        Err(error) => return Ok(refusal(main, &error)),
    };
    may_look(entry)?;
    let shown = main
        .projects
        .shown(main, &membership.project, entry, membership.role)
        .await?;
    let manages = projects::admin(entry, &membership).is_ok();
    let trouble = shown.trouble.as_deref();
    let still_shut = trouble.is_some_and(|why| typed.is_refused_because(why));
    let body = html! {
        @if !still_shut { (typed.at_the_top()) }
        p {
            "You are " strong { (membership.role) } " in it. "
            @if trouble.is_none() {
                (plural(shown.runs, "run")) ", " (disk(&shown)) " on disk."
            }
        }
        @match (shown.closed_ms, trouble) {
            (Some(at), _) => p {
                "It was closed " (date(at)) ": nobody enters it. Its data are kept."
            },
            (None, Some(why)) => (shut(why, entry, &shown, still_shut)),
            (None, None) => p { a class="button primary" href=(routes::enter_project(&shown.name)) {
                "Open its runs" } },
        }
        @if !shown.name.is_main() {
            h2 { "Members" }
            (members(main, entry, &shown, manages))
        }
        @if manages {
            h2 { "How it is kept" }
            (settings_form(entry, &shown, typed))
            // What would be deleted cannot be told while it cannot be opened.
            @if trouble.is_none() { (keep_form(&shown, typed)) }
        }
        @if entry.is_admin() && !shown.name.is_main() { (close_form(&shown)) }
    };
    let title = format!("Project {}", shown.name);
    let page = page(main, Some(&inside(main, entry, membership)), &title, &body);
    Ok((typed.status(), page).into_response())
}

/// Why nobody enters a project that is not closed, and how it is opened once that is mended.
fn shut(why: &str, entry: &Entry, project: &Project, still: bool) -> Markup {
    let still = if still { "still " } else { "" };
    html! {
        @if !entry.is_admin() { (problem(why)) } @else {
            (problem(&format!("It {still}cannot be opened: {why}")))
            form method="post" action=(routes::project_page(project.name.as_str())) {
                input type="hidden" name="what" value="open";
                button class="button" type="submit" { "Try again" }
            }
        }
    }
}

/// Who asks, as on a page of this project: the page that looks after it says that one above.
fn inside(main: &App, entry: &Entry, membership: Membership) -> Entry {
    let may_enter = main.projects.role(entry, &membership.project).is_some();
    match main.projects.are_several() && may_enter {
        true => entry.clone().at(membership),
        false => entry.clone().outside(),
    }
}

fn members(main: &App, entry: &Entry, project: &Project, manages: bool) -> Markup {
    let members = main.projects.members(&main.gate.people, &project.name);
    let is_member = |id: &PersonId| members.iter().any(|member: &Member| member.person == *id);
    let people = main.gate.people.list().into_iter();
    let others = people.filter(|person| person.left_ms.is_none() && !is_member(&person.id));
    // Only who adds members learns who else there is. Admins of the server are in every project.
    let others: Vec<_> = others
        .filter(|person| manages && person.role != Role::Admin)
        .collect();
    let action = routes::project_members_page(&project.name);
    html! {
        p class="muted" {
            @match project.settings.everybody {
                None => "Only members enter it, and the admins of this server.",
                Some(role) => { "Everybody on this server, but guests, is " (role)
                    " in it; members have the role that stands here." }
            }
        }
        @if !members.is_empty() {
            div class="account-wide" tabindex="0" { table class="account-table" {
                thead { tr { th { "Name" } th { "Role" } } }
                tbody { @for member in &members { tr {
                    td { (member.name) }
                    td { @if manages { form method="post" action=(action) {
                        input type="hidden" name="person" value=(member.person);
                        select class="input" name="role" aria-label={ "Role of " (member.name) } {
                            @for role in Role::IN_PROJECT {
                                option value=(role) selected[role == member.role] { (role) }
                            }
                            option value="" { "take out" }
                        }
                        button class="link-button" type="submit" { "Change" }
                    } } @else { (member.role) } }
                } } }
            } }
        }
        @if !others.is_empty() {
            form class="account-row" method="post" action=(action) {
                select class="input" name="person" aria-label="Person to add" {
                    @for person in &others { option value=(person.id) { (person.name) } }
                }
                select class="input" name="role" aria-label="Role in the project" {
                    @for role in Role::IN_PROJECT {
                        option value=(role) selected[role == Role::Member] { (role) }
                    }
                }
                button class="button" type="submit" { "Add" }
            }
        } @else if manages && entry.is_admin() && members.is_empty() {
            p {
                "There is nobody else on this server yet: "
                a href=(routes::PEOPLE_PAGE) { "add them" } " first."
            }
        }
    }
}

/// Changes how a project is kept.
pub async fn change_on_page(
    State(main): State<Arc<App>>,
    SignedIn(entry): SignedIn,
    Path(project): Path<String>,
    Form(form): Form<ProjectForm>,
) -> Result<Response, Error> {
    let done = async {
        let membership = changed(&main, &entry, &project, &form.change()?).await?;
        let projects = &main.projects;
        let now = projects
            .shown(&main, &membership.project, &entry, membership.role)
            .await?;
        Ok(Subject(told(&now)))
    };
    let done = done.await;
    after(&main, &entry, &project, form, done).await
}

/// Shows the page of a project again: as it is now, or what was typed and why nothing was changed.
async fn after(
    main: &Arc<App>,
    entry: &Entry,
    project: &str,
    form: ProjectForm,
    done: Result<Subject, Refusal>,
) -> Result<Response, Error> {
    match done {
        Ok(subject) => {
            let to = Redirect::to(&routes::project_page(project));
            Ok((Extension(subject), to).into_response())
        }
        Err(refusal) => project_with(main, entry, project, &Typed::refused(form, refusal)).await,
    }
}

/// Who, and what they may do.
#[derive(Deserialize)]
pub struct MemberForm {
    person: String,
    #[serde(default)]
    role: String,
}

/// Adds a member, changes their role, or takes them out.
pub async fn set_member_on_page(
    State(main): State<Arc<App>>,
    SignedIn(entry): SignedIn,
    Path(project): Path<String>,
    Form(form): Form<MemberForm>,
) -> Result<Response, Error> {
    let done = async {
        let role = match form.role.as_str() {
            "" => None,
            role => Some(role.parse().map_err(forms::bad)?),
        };
        Ok(set_role(&main, &entry, &project, &form.person, role).await?)
    };
    let done = done.await;
    after(&main, &entry, &project, ProjectForm::default(), done).await
}

/// What would be deleted, before anything is.
pub async fn plan_page(
    State(main): State<Arc<App>>,
    SignedIn(entry): SignedIn,
    Path(project): Path<String>,
    Query(form): Query<ProjectForm>,
) -> Result<Response, Error> {
    let membership = membership(&main, &entry, &project)?;
    projects::admin(&entry, &membership)?;
    let keep = match form.keep() {
        Ok(keep) => keep,
        Err(refusal) => {
            return project_with(&main, &entry, &project, &Typed::refused(form, refusal)).await;
        }
    };
    let plan = planned(&main, &entry, &project, keep.clone()).await?;
    let body = html! {
        p { "The rule: keep " (rule(&keep)) ". Nothing is deleted yet." }
        (plan_told(&plan))
        form class="account-row" method="post" action=(routes::project_page(&project)) {
            input type="hidden" name="what" value="keep";
            input type="hidden" name="newest" value=(keep.newest);
            input type="hidden" name="per" value=(keep.per.join(","));
            input type="hidden" name="pull_request_days" value=(days_typed(&keep));
            button class="button primary" type="submit" { "Delete such runs each hour" }
            a class="button" href=(form.back(&project)) { "Back" }
        }
    };
    let title = format!("Old runs of {}", membership.project);
    Ok(page(
        &main,
        Some(&inside(&main, &entry, membership)),
        &title,
        &body,
    ))
}

fn plan_told(plan: &Plan) -> Markup {
    let going = retention::going_in_words(plan);
    html! {
        @for key in &plan.absent {
            p class="bad-text" role="alert" {
                "No run has the label " code { (key) } ": it tells no runs apart. Is it misspelt?"
            }
        }
        ul { @for (why, runs) in retention::kept_in_words(plan) {
            li { (runs) " kept: " (why.words()) }
        } }
        @if plan.runs.is_empty() {
            p { "No run would be deleted now." }
        } @else {
            p { (going) " would be deleted (" (plan.bytes) " as uploaded):" }
            div class="account-wide" tabindex="0" { table class="account-table" {
                thead { tr { th { "Run" } th { "Size" } } }
                tbody { @for going in plan.runs.iter().take(LISTED) { tr {
                    td { a href=(routes::run_page(&going.run)) { (going.name) } }
                    td { (going.file_bytes) }
                } } }
            } }
            @if plan.going > LISTED {
                p { "and " (plan.going - LISTED) " more" }
            }
        }
    }
}
