//! The pages of runs and comparisons, with what a chat shows of a link to them.

use super::assets::{self, Showing};
use super::cards::image_of_comparison;
use super::compare::seen;
use super::early;
use super::extract::{Addresses, Client, Path, run_id};
use super::here::Here;
use super::permits;
use super::preview::{ABOUT_RUN, Preview, about_comparison};
use super::runs::{kept, summary};
use crate::app::App;
use crate::problems::Error;
use crate::store::StoredRun;
use crate::who::access::Entry;
use api::compare_view::CompareState;
use api::people::Scope;
use api::routes;
use axum::extract::{FromRequestParts, RawQuery};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::{Redirect, Response};

/// What a page depends on besides its address.
pub struct Asking {
    headers: HeaderMap,
    showing: Option<Showing>,
    may_read: bool,
}

impl<S: Sync> FromRequestParts<S> for Asking {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asking, Error> {
        let client = Client::of(&parts.extensions);
        let entry = parts.extensions.get::<Entry>();
        entry.map_or(Ok(()), permits::in_a_project)?;
        Ok(Asking {
            headers: parts.headers.clone(),
            showing: entry.and_then(|entry| Showing::to(entry, client)),
            may_read: entry.is_some_and(|entry| entry.may(Scope::Read)),
        })
    }
}

impl Asking {
    /// The page with this in its head; without it the page as it is, which explains that itself.
    fn page(self, app: &App, head: Option<String>) -> Response {
        let site = &app.config.site;
        match head {
            None => assets::index(site, &self.headers, self.showing),
            Some(head) => assets::page(site, &head, self.showing),
        }
    }
}

/// The list of runs is the first page. People type this address, because that of each run begins
/// so.
pub async fn runs(RawQuery(raw): RawQuery) -> Redirect {
    let list = routes::RUNS_PAGE;
    match raw {
        Some(query) => Redirect::temporary(&format!("{list}?{query}")),
        None => Redirect::temporary(list),
    }
}

/// The page of a run. If everybody may look, it has a preview.
pub async fn run(
    Here(app): Here,
    Path(run): Path<String>,
    RawQuery(raw): RawQuery,
    addresses: Addresses,
    asking: Asking,
) -> Response {
    let found = match (asking.may_read, run_id(&run)) {
        (true, Ok(id)) => kept(&app, id).await.ok(),
        _ => None,
    };
    let Some(row) = found else {
        return asking.page(&app, None);
    };
    let run = summary(row);
    let mut head = String::new();
    if app.gate.is_open() {
        let query = raw
            .as_ref()
            .map_or_else(String::new, |raw| format!("?{raw}"));
        let preview = Preview {
            image: Some(addresses.of(&format!("{}{query}", routes::card(&run.id, "png")))),
            title: run.name.clone(),
            description: ABOUT_RUN.to_owned(),
        };
        head.push_str(&preview.tags());
    }
    // A view may show something else first, and in a project requests have other addresses.
    if raw.is_none() && asking.showing.is_none() {
        head.push_str(&early::of_run(&run));
    }
    asking.page(&app, Some(head))
}

/// The page of a comparison. If everybody may look, it has a preview.
pub async fn compare(
    Here(app): Here,
    RawQuery(raw): RawQuery,
    addresses: Addresses,
    asking: Asking,
) -> Response {
    let preview = async || {
        let query = raw.as_deref().unwrap_or_default();
        let runs = CompareState::parse(query).map_or_else(|_| Vec::new(), |(view, _)| view.runs);
        if runs.len() < 2 {
            return Err(Error::NotFound("comparison".to_owned()));
        }
        let (rows, view) = seen(&app, runs, query).await?;
        let names: Vec<String> = rows.iter().map(StoredRun::called).collect();
        Ok(Preview {
            title: names.join(" → "),
            description: about_comparison(&view.runs),
            image: Some(image_of_comparison(&addresses, &view)),
        })
    };
    let found = match app.gate.is_open() {
        true => preview().await.ok(),
        false => None,
    };
    asking.page(&app, found.map(|preview| preview.tags()))
}
