//! The forms about projects: their fields, what was typed into them, and why that was refused.

use super::super::shell::problem;
use super::words;
use crate::problems::Error;
use crate::projects;
use crate::who::access::Entry;
use api::people::Role;
use api::projects::{ChangeProject, Keep, NewProject, Project};
use api::query::encode;
use api::routes;
use axum::http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use timeline::format::plural;
use trace::units::Bytes;

/// What a form about a project says. Each form has some of these fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ProjectForm {
    what: String,
    name: String,
    everybody: Option<String>,
    quota: Option<String>,
    /// How many runs stay. A text, so that what is no number can be shown again.
    newest: String,
    per: String,
    /// For how many days pull requests keep runs; empty: for ever.
    pull_request_days: Option<String>,
}

/// A field that can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Name,
    Everybody,
    Quota,
    Newest,
    Per,
    Days,
}

/// Why a form was refused, and because of which field, if it was one.
#[derive(Debug)]
pub struct Refusal {
    field: Option<Field>,
    error: Error,
}

impl<E: Into<Error>> From<E> for Refusal {
    fn from(error: E) -> Refusal {
        Refusal {
            field: None,
            error: error.into(),
        }
    }
}

impl Field {
    /// The refusal because of this field.
    pub fn refuses(self, error: impl Into<Error>) -> Refusal {
        Refusal {
            field: Some(self),
            error: error.into(),
        }
    }
}

/// What stands in the forms of a page: what was typed, so that nobody types it again.
#[derive(Default)]
pub struct Typed {
    form: ProjectForm,
    refusal: Option<Refusal>,
}

impl Typed {
    /// A form that was refused.
    pub fn refused(form: ProjectForm, refusal: Refusal) -> Typed {
        Typed {
            form,
            refusal: Some(refusal),
        }
    }

    /// A form that is shown again.
    pub fn again(form: ProjectForm) -> Typed {
        Typed {
            form,
            refusal: None,
        }
    }

    /// The status of a page that shows it.
    pub fn status(&self) -> StatusCode {
        let refusal = self.refusal.as_ref();
        refusal.map_or(StatusCode::OK, |refusal| refusal.error.status())
    }

    /// Why it was refused, if no field is to blame.
    pub fn at_the_top(&self) -> Markup {
        self.alert(None)
    }

    /// Whether it was refused for this reason.
    pub fn is_refused_because(&self, why: &str) -> bool {
        let refusal = self.refusal.as_ref();
        refusal.is_some_and(|refusal| refusal.error.to_string().contains(why))
    }

    fn is_wrong(&self, field: Field) -> Option<&'static str> {
        let refusal = self.refusal.as_ref()?;
        (refusal.field == Some(field)).then_some("true")
    }

    /// Why this field was refused.
    fn alert(&self, field: Option<Field>) -> Markup {
        let refusal = self.refusal.as_ref();
        let why = refusal.filter(|refusal| refusal.field == field);
        html! { @if let Some(why) = why { (problem(&why.error.problem().detail)) } }
    }
}

/// What was typed is not understood.
pub fn bad(error: impl std::fmt::Display) -> Error {
    Error::BadRequest(error.to_string())
}

impl ProjectForm {
    /// The project to make.
    pub fn new_project(&self) -> Result<NewProject, Refusal> {
        let name = self.name.trim().parse();
        Ok(NewProject {
            name: name.map_err(|error| Field::Name.refuses(bad(error)))?,
            everybody: self.everybody()?.flatten(),
            quota: self.quota()?.flatten(),
        })
    }

    /// The change of a project.
    pub fn change(&self) -> Result<ChangeProject, Refusal> {
        let none = ChangeProject::default();
        Ok(match self.what.as_str() {
            "access" => ChangeProject {
                everybody: self.everybody()?,
                quota: self.quota()?,
                ..none
            },
            "keep" => ChangeProject {
                keep: Some(Some(self.keep()?)),
                ..none
            },
            "keep_all" => ChangeProject {
                keep: Some(None),
                ..none
            },
            what @ ("close" | "open") => ChangeProject {
                closed: Some(what == "close"),
                ..none
            },
            _ => return Err(bad("this form is not known").into()),
        })
    }

    /// The rule for old runs.
    pub fn keep(&self) -> Result<Keep, Refusal> {
        let newest = self.newest.trim().parse().map_err(|_| {
            let why = "a number of runs is needed here, 1 or more";
            Field::Newest.refuses(bad(why))
        })?;
        let keep = Keep {
            newest,
            per: words(&self.per),
            pull_request_days: self.days()?,
        };
        projects::retention::check_kinds(&keep).map_err(|error| Field::Per.refuses(error))?;
        projects::retention::check(&keep).map_err(|error| Field::Newest.refuses(error))?;
        Ok(keep)
    }

    fn days(&self) -> Result<Option<u32>, Refusal> {
        let Some(text) = self.pull_request_days.as_deref() else {
            return Ok(Some(Keep::PULL_REQUEST_DAYS));
        };
        let days = match text.trim() {
            "" => Ok(None),
            text => text.parse::<u32>().map(Some),
        };
        let why = "a number of days is needed here, or nothing: for ever";
        days.map_err(|_| Field::Days.refuses(bad(why)))
    }

    /// The page of the project with this rule in its form.
    pub fn back(&self, project: &str) -> String {
        let (newest, per) = (encode(&self.newest), encode(&self.per));
        let page = routes::project_page(project);
        let days = self.pull_request_days.as_deref().map(encode);
        let days = days.map_or_else(String::new, |days| format!("&pull_request_days={days}"));
        format!("{page}?newest={newest}&per={per}{days}")
    }

    fn everybody(&self) -> Result<Option<Option<Role>>, Refusal> {
        let role = |text: &str| match text {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(bad),
        };
        let role = self.everybody.as_deref().map(role).transpose();
        role.map_err(|error| Field::Everybody.refuses(error))
    }

    fn quota(&self) -> Result<Option<Option<Bytes>>, Refusal> {
        let size = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(bad),
        };
        let quota = self.quota.as_deref().map(size).transpose();
        let quota = quota.map_err(|error| Field::Quota.refuses(error))?;
        projects::checked_quota(quota.flatten()).map_err(|error| Field::Quota.refuses(error))?;
        Ok(quota)
    }

    /// The role in the form, or the one that holds.
    fn chosen(&self, now: Option<Role>) -> String {
        let now = now.map_or("", Role::name);
        self.everybody.clone().unwrap_or_else(|| now.to_owned())
    }
}

/// The form for a new project.
pub fn new_form(typed: &Typed) -> Markup {
    html! {
        form class="account-form" method="post" action=(routes::PROJECTS_PAGE) {
            h2 { "Make a project" }
            label for="name" { "Name" }
            (typed.alert(Some(Field::Name)))
            input id="name" class="input" name="name" required maxlength="32"
                pattern="[a-z0-9]+(-[a-z0-9]+)*" placeholder="vision"
                title="small letters and digits, with single dashes between them"
                value=(typed.form.name) aria-invalid=[typed.is_wrong(Field::Name)];
            p class="muted" { "It stands in addresses and cannot be changed." }
            (everybody_choice(typed, None))
            (quota_field(typed, None, "20 GiB; empty: no limit"))
            button class="button primary" type="submit" { "Make it" }
        }
    }
}

fn everybody_choice(typed: &Typed, now: Option<Role>) -> Markup {
    let chosen = typed.form.chosen(now);
    html! {
        label for="everybody" { "Everybody on this server, but guests, is" }
        (typed.alert(Some(Field::Everybody)))
        select id="everybody" class="input" name="everybody" {
            option value="" selected[chosen.is_empty()] { "nothing in it: members only" }
            @for role in [Role::Reader, Role::Member] {
                option value=(role) selected[chosen == role.name()] { (role) }
            }
        }
    }
}

fn quota_field(typed: &Typed, now: Option<Bytes>, hint: &str) -> Markup {
    let now = now.map(|quota| quota.to_string());
    let value = typed.form.quota.clone().or(now);
    html! {
        label for="quota" { "The most that it may take on disk" }
        (typed.alert(Some(Field::Quota)))
        input id="quota" class="input" name="quota" placeholder=(hint) value=[value]
            aria-invalid=[typed.is_wrong(Field::Quota)];
    }
}

/// The form that says who enters a project, and how much it may take.
pub fn settings_form(entry: &Entry, project: &Project, typed: &Typed) -> Markup {
    html! {
        form class="account-form" method="post"
            action=(routes::project_page(project.name.as_str())) {
            input type="hidden" name="what" value="access";
            @if !project.name.is_main() {
                (everybody_choice(typed, project.settings.everybody))
            }
            @if entry.is_admin() {
                (quota_field(typed, project.settings.quota, "empty: no limit"))
            }
            @if entry.is_admin() || !project.name.is_main() {
                button class="button" type="submit" { "Save" }
            }
        }
    }
}

/// The form with the rule for old runs.
pub fn keep_form(project: &Project, typed: &Typed) -> Markup {
    let keep = project.settings.keep.as_ref();
    let form = &typed.form;
    let (newest, per) = match form.newest.as_str() {
        "" => (
            keep.map(|keep| keep.newest.to_string()),
            keep.map(|keep| keep.per.join(", ")),
        ),
        newest => (Some(newest.to_owned()), Some(form.per.clone())),
    };
    let days = match (&form.pull_request_days, keep) {
        (Some(text), _) => text.clone(),
        (None, Some(keep)) => days_typed(keep),
        (None, None) => Keep::PULL_REQUEST_DAYS.to_string(),
    };
    html! {
        form class="account-form" method="get" action=(routes::project_plan_page(&project.name)) {
            h2 { "Delete old runs" }
            p { @match keep {
                None => "All runs stay.",
                Some(keep) => { "Each hour, runs are deleted that are not among those to keep: "
                    (rule(keep)) "." }
            } }
            label for="newest" { "Keep so many of each kind, the newest" }
            (typed.alert(Some(Field::Newest)))
            input id="newest" class="input" name="newest" type="number" min="1" required
                value=[newest] aria-invalid=[typed.is_wrong(Field::Newest)];
            label for="per" { "Kinds differ by these labels" }
            (typed.alert(Some(Field::Per)))
            input id="per" class="input" name="per" placeholder="branch, config" value=[per]
                aria-invalid=[typed.is_wrong(Field::Per)];
            label for="days" { "Keep what a pull request showed for so many days" }
            (typed.alert(Some(Field::Days)))
            input id="days" class="input" name="pull_request_days" type="number" min="0"
                placeholder="empty: for ever" value=(days)
                aria-invalid=[typed.is_wrong(Field::Days)];
            p class="muted" {
                "Runs with the label " code { "pinned" } ", of benches, opened by a link, or in "
                "the newest comparison of a pull request stay."
            }
            button class="button" type="submit" { "Show what would be deleted" }
        }
        @if keep.is_some() {
            form method="post" action=(routes::project_page(project.name.as_str())) {
                input type="hidden" name="what" value="keep_all";
                button class="button" type="submit" { "Keep all runs" }
            }
        }
    }
}

/// For how many days pull requests keep runs, as somebody would type it.
pub fn days_typed(keep: &Keep) -> String {
    let days = keep.pull_request_days;
    days.map_or_else(String::new, |days| days.to_string())
}

/// The rule in words.
pub fn rule(keep: &Keep) -> String {
    let newest = match keep.newest {
        1 => "the newest run".to_owned(),
        n => format!("the newest {n} runs"),
    };
    let newest = match keep.per.as_slice() {
        [] => newest,
        per => format!("{newest} of each {}", per.join(" and ")),
    };
    match keep.pull_request_days {
        None => format!("{newest}, and all that pull requests showed"),
        Some(0) => format!("{newest}, and what pull requests show now"),
        Some(days) => {
            let days = plural(u64::from(days), "day");
            format!("{newest}, and what pull requests show now or showed in the last {days}")
        }
    }
}

/// The form that closes a project, or opens it again.
pub fn close_form(project: &Project) -> Markup {
    let closed = project.closed_ms.is_some();
    html! {
        form class="account-form" method="post"
            action=(routes::project_page(project.name.as_str())) {
            input type="hidden" name="what" value=(if closed { "open" } else { "close" });
            @if !closed {
                p class="muted" {
                    "Nobody enters a closed project, and its links open nothing. Nothing is "
                    "deleted: it can be opened again."
                }
            }
            button class="button" type="submit" {
                @if closed { "Open it again" } @else { "Close the project" }
            }
        }
    }
}
