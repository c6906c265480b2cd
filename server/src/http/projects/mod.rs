//! Projects: which there are, who may enter them, and how they are kept.

mod forms;
mod page;

pub use page::{
    change_on_page, create_on_page, enter, enter_at, plan_page, project_page, projects_page,
    refusal, script, set_member_on_page,
};

use super::audited::Subject;
use super::extract::{Json, Path, Query, person_id};
use super::packed;
use crate::app::App;
use crate::problems::Error;
use crate::projects::{self, ProjectError, retention};
use crate::system::clock::now_ms;
use crate::who::access::{Entry, Membership};
use api::people::{Role, Scope};
use api::problem::Problem;
use api::projects::{
    ChangeProject, Keep, Member, NewProject, Plan, Project, ProjectName, PullRequestDays, SetMember,
};
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;

/// A project that whoever asks may look after: one that they may enter; for an admin of the server,
/// any.
///
/// # Errors
/// [`ProjectError::Unknown`].
fn membership(main: &App, entry: &Entry, name: &str) -> Result<Membership, Error> {
    let unknown = || ProjectError::Unknown(name.to_owned());
    let project: ProjectName = name.parse().map_err(|_| unknown())?;
    let role = main.projects.role_once_open(entry, &project);
    let is_known = project.is_main() || main.projects.is_known(&project);
    let role = role.or((entry.is_admin() && is_known).then_some(Role::Admin));
    let role = role.ok_or_else(unknown)?;
    Ok(Membership { project, role })
}

/// The projects that whoever asks may enter. An admin of the server also sees closed ones.
#[utoipa::path(get, path = "/api/projects", tag = "projects",
    responses((status = 200, description = "The projects, the first one first.",
        body = Vec<Project>)))]
pub async fn list(
    State(main): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    Ok(packed::json(
        &headers,
        &main.projects.list(&main, &entry).await?,
    ))
}

/// Makes a project. Its maker and the other admins of the server may enter it; they add members.
#[utoipa::path(post, path = "/api/projects", tag = "projects", request_body = NewProject,
    responses(
        (status = 201, description = "The project.", body = Project),
        (status = 400, body = Problem), (status = 403, body = Problem),
        (status = 409, body = Problem), (status = 503, body = Problem),
        (status = 507, body = Problem),
    ))]
pub async fn create(
    State(main): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
    Json(new): Json<NewProject>,
) -> Result<Response, Error> {
    main.projects.create(&main, &new, now_ms()).await?;
    let shown = main.projects.shown(&main, &new.name, &entry, Role::Admin);
    let project = shown.await?;
    let subject = Subject::of(&project.name);
    Ok((StatusCode::CREATED, subject, axum::Json(project)).into_response())
}

/// Changes how a project is kept. An admin of the project says who may enter it and which runs
/// stay; only an admin of the server sets its quota, closes it, or opens it again.
#[utoipa::path(patch, path = "/api/projects/{project}", tag = "projects",
    params(("project" = String, Path)), request_body = ChangeProject,
    responses(
        (status = 200, description = "The project as it is now.", body = Project),
        (status = 400, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem), (status = 409, body = Problem),
    ))]
pub async fn change(
    State(main): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
    Path(project): Path<String>,
    Json(change): Json<ChangeProject>,
) -> Result<Response, Error> {
    let membership = changed(&main, &entry, &project, &change).await?;
    let project = main
        .projects
        .shown(&main, &membership.project, &entry, membership.role)
        .await?;
    Ok((Subject::of(told(&project)), axum::Json(project)).into_response())
}

async fn changed(
    main: &Arc<App>,
    entry: &Entry,
    project: &str,
    change: &ChangeProject,
) -> Result<Membership, Error> {
    let membership = membership(main, entry, project)?;
    projects::may_change(entry, &membership, change)?;
    let changed = main
        .projects
        .change(main, &membership.project, change, now_ms());
    match changed.await {
        // Why names folders of the server.
        Err(ProjectError::CannotOpen(_)) if !entry.is_admin() => {
            Err(ProjectError::Broken(membership.project).into())
        }
        Err(error) => Err(error.into()),
        Ok(()) => Ok(membership),
    }
}

/// `vision (closed)`, for the audit.
fn told(project: &Project) -> String {
    match project.closed_ms {
        None => project.name.to_string(),
        Some(_) => format!("{} (closed)", project.name),
    }
}

/// The members of a project, by name.
#[utoipa::path(get, path = "/api/projects/{project}/members", tag = "projects",
    params(("project" = String, Path)),
    responses(
        (status = 200, description = "The members. Others may have the role of everybody.",
            body = Vec<Member>),
        (status = 403, body = Problem), (status = 404, body = Problem),
    ))]
pub async fn members(
    State(main): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
    Path(project): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let membership = membership(&main, &entry, &project)?;
    may_look(&entry)?;
    Ok(packed::json(
        &headers,
        &main
            .projects
            .members(&main.gate.people, &membership.project),
    ))
}

/// Whether a token may look at something. Which project that is in, [`membership`] checks.
pub(super) fn may_look(entry: &Entry) -> Result<(), Error> {
    match entry.limit.has(Scope::Read) {
        true => Ok(()),
        false => Err(Error::Scope {
            needed: Scope::Read,
            has: entry.limit,
        }),
    }
}

/// Says what a person may do in a project.
#[utoipa::path(put, path = "/api/projects/{project}/members/{person}", tag = "projects",
    params(("project" = String, Path), ("person" = String, Path)), request_body = SetMember,
    responses(
        (status = 204, description = "The person has this role in the project."),
        (status = 400, body = Problem), (status = 403, body = Problem),
        (status = 404, body = Problem),
    ))]
pub async fn set_member(
    State(main): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
    Path((project, person)): Path<(String, String)>,
    Json(set): Json<SetMember>,
) -> Result<Response, Error> {
    let subject = set_role(&main, &entry, &project, &person, Some(set.role)).await?;
    Ok((StatusCode::NO_CONTENT, Extension(subject)).into_response())
}

/// Takes a person out of a project. What everybody may do there, they may still do.
#[utoipa::path(delete, path = "/api/projects/{project}/members/{person}", tag = "projects",
    params(("project" = String, Path), ("person" = String, Path)),
    responses(
        (status = 204, description = "The person is no member any more."),
        (status = 403, body = Problem), (status = 404, body = Problem),
    ))]
pub async fn remove_member(
    State(main): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
    Path((project, person)): Path<(String, String)>,
) -> Result<Response, Error> {
    let subject = set_role(&main, &entry, &project, &person, None).await?;
    Ok((StatusCode::NO_CONTENT, Extension(subject)).into_response())
}

async fn set_role(
    main: &App,
    entry: &Entry,
    project: &str,
    person: &str,
    role: Option<Role>,
) -> Result<Subject, Error> {
    let membership = membership(main, entry, project)?;
    projects::admin(entry, &membership)?;
    let id = person_id(person)?;
    main.projects
        .set_member(
            &main.store,
            &main.gate.people,
            &membership.project,
            &id,
            role,
        )
        .await?;
    let known = main.gate.people.active(&id);
    let who = known.map_or_else(|| id.to_string(), |person| person.name);
    let role = role.map_or("no member", Role::name);
    Ok(Subject(format!("{who} ({role}) in {}", membership.project)))
}

/// Which runs would stay.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PlanQuery {
    /// How many of each kind, the newest.
    newest: u32,
    /// Labels that tell kinds apart, with commas between them.
    #[serde(default)]
    per: String,
    /// For how many days each comparison of a pull request keeps its runs: a number, or `forever`.
    /// Unless given, as the rule of the project says; 30 without a rule.
    #[param(value_type = Option<String>)]
    pull_request_days: Option<PullRequestDays>,
}

impl PlanQuery {
    /// The rule to look ahead with, in a project with this rule.
    fn keep(&self, rule: Option<&Keep>) -> Keep {
        let usual = Some(Keep::PULL_REQUEST_DAYS);
        let days = match self.pull_request_days {
            Some(PullRequestDays(days)) => days,
            None => rule.map_or(usual, |rule| rule.pull_request_days),
        };
        Keep {
            newest: self.newest,
            per: words(&self.per),
            pull_request_days: days,
        }
    }
}

/// Words with commas between them.
fn words(text: &str) -> Vec<String> {
    let words = text.split(',').map(str::trim);
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Which runs of a project would be deleted under this rule, and why the others stay. Nothing
/// changes.
#[utoipa::path(get, path = "/api/projects/{project}/plan", tag = "projects",
    params(("project" = String, Path), PlanQuery),
    responses(
        (status = 200, description = "What would happen.", body = Plan),
        (status = 400, body = Problem), (status = 404, body = Problem),
    ))]
pub async fn plan(
    State(main): State<Arc<App>>,
    Extension(entry): Extension<Entry>,
    Path(project): Path<String>,
    Query(query): Query<PlanQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let of = membership(&main, &entry, &project)?.project;
    let keep = query.keep(main.projects.settings(&of).keep.as_ref());
    let plan = planned(&main, &entry, &project, keep).await?;
    Ok(packed::json(&headers, &plan))
}

async fn planned(main: &Arc<App>, entry: &Entry, project: &str, keep: Keep) -> Result<Plan, Error> {
    let membership = membership(main, entry, project)?;
    let unknown = || ProjectError::Unknown(project.to_owned());
    let app = main
        .projects
        .app(main, &membership.project)
        .ok_or_else(|| main.projects.refusal(entry, project))?;
    // Who may not look at its runs learns no names.
    if !membership
        .role
        .scopes()
        .both(entry.limit)
        .has(api::people::Scope::Read)
    {
        return Err(unknown().into());
    }
    retention::check_kinds(&keep)?;
    Ok(retention::look_ahead(&app.store, keep).await?)
}
