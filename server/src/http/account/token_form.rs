//! The form to make a token: its fields, and how it looks.

use super::super::shell::problem;
use super::sent::good_once;
use crate::app::App;
use crate::problems::Error;
use crate::who::access::Entry;
use api::people::{NewToken, Scope};
use api::routes;
use maud::{Markup, html};
use serde::Deserialize;

/// The fields to make a token.
#[derive(Deserialize)]
pub struct TokenForm {
    pub name: String,
    read: Option<String>,
    upload: Option<String>,
    manage: Option<String>,
    /// The only project that it opens; empty: all.
    #[serde(default)]
    pub project: String,
    /// A number of days; empty means that it never ends.
    #[serde(default)]
    pub days: String,
}

impl TokenForm {
    /// Whether a scope is ticked.
    pub fn has(&self, scope: Scope) -> bool {
        let tick = match scope {
            Scope::Read => &self.read,
            Scope::Upload => &self.upload,
            Scope::Manage => &self.manage,
        };
        tick.is_some()
    }

    /// What it asks for.
    ///
    /// # Errors
    /// When a field is no number of days, or names no project.
    pub fn asked(&self) -> Result<NewToken, Error> {
        let scopes = Scope::ALL.into_iter().filter(|scope| self.has(*scope));
        let scopes = scopes.collect();
        let days: Option<u32> = match self.days.as_str() {
            "" => None,
            days => Some(days.parse().map_err(|_| bad("days is a number"))?),
        };
        Ok(NewToken {
            name: self.name.clone(),
            scopes,
            expires_in_s: days.map(|days| days.saturating_mul(24 * 3600)),
            person: None,
            project: match self.project.as_str() {
                "" => None,
                name => Some(name.parse().map_err(|_| bad("there is no such project"))?),
            },
        })
    }
}

fn bad(why: &str) -> Error {
    Error::BadRequest(why.to_owned())
}

/// The ends that are offered for a token: days, and in words.
const ENDS: [(&str, &str); 4] = [
    ("30", "30 days"),
    ("90", "90 days"),
    ("365", "a year"),
    ("", "never"),
];

/// The form; after a refusal with what was typed, and why.
pub fn token_form(app: &App, entry: &Entry, refused: Option<(&TokenForm, &str)>) -> Markup {
    let (typed, why) = refused.unzip();
    let why = |of_scopes: bool| {
        let no_scope = typed.is_some_and(|typed| !Scope::ALL.iter().any(|s| typed.has(*s)));
        why.filter(|_| no_scope == of_scopes)
    };
    let is_ticked = |scope| typed.map_or(scope != Scope::Manage, |typed| typed.has(scope));
    let days = typed.map_or("90", |typed| &typed.days);
    let reach = app.projects.reach(entry);
    let offered = Scope::ALL.into_iter().filter(|scope| reach.has(*scope));
    let places = app.projects.visible(entry);
    html! {
        form class="account-form" method="post" action=(good_once(routes::TOKENS_PAGE)) {
            h2 { "Make a token" }
            @if let Some(why) = why(false) { (problem(why)) }
            label for="name" { "What is it for?" }
            input id="name" class="input" name="name" required maxlength="64"
                placeholder="CI of the trainer" value=[typed.map(|typed| &typed.name)];
            fieldset {
                legend { "It may" }
                @if let Some(why) = why(true) { (problem(why)) }
                @for scope in offered {
                    label { input type="checkbox" name=(scope) value="1"
                        checked[is_ticked(scope)]; span { (about(scope)) } }
                }
            }
            @if app.projects.are_several() {
                label for="project" { "It opens" }
                select id="project" class="input" name="project" {
                    @if entry.bound.is_none() { option value="" { "all projects that you enter" } }
                    @for place in &places {
                        option value=(place.project)
                            selected[typed.is_some_and(|t| t.project == place.project.as_str())]
                            { "only " (place.project) }
                    }
                }
            }
            label for="days" { "It ends after" }
            select id="days" class="input" name="days" {
                @for (value, name) in ENDS {
                    option value=(value) selected[value == days] { (name) }
                }
            }
            button class="button primary" type="submit" { "Make it" }
        }
    }
}

/// What a scope allows, in words.
fn about(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "read: look at runs and ask questions",
        Scope::Upload => "upload: send recordings and label them",
        Scope::Manage => "manage: name, delete and share runs, start benches",
    }
}
