//! The preview of a link in a chat: OpenGraph and Twitter tags in the head of the page.

use super::App;
use super::assets::{self, Showing};
use super::cards::{image_of_comparison, live};
use super::compare::seen;
use super::early;
use super::extract::{Addresses, Client, Path, run_id};
use super::here::Here;
use super::permits;
use super::runs::summary;
use crate::access::Entry;
use crate::problems::Error;
use api::compare_view::CompareState;
use api::ids::RunId;
use api::people::Scope;
use api::routes;
use axum::extract::{FromRequestParts, RawQuery};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;

/// What a run's page shows.
pub const ABOUT_RUN: &str = "Where GPU memory stood at every moment of this run";

/// What a comparison's page shows.
pub fn about_comparison(runs: &[RunId]) -> String {
    format!("What changed in GPU memory between {} runs", runs.len())
}

/// The preview of a page in a chat.
pub struct Preview {
    /// What it is called.
    pub title: String,
    /// What the page shows.
    pub description: String,
    /// The card, absolute.
    pub image: Option<String>,
}

impl Preview {
    /// Its tags, for the head of the page.
    pub fn tags(&self) -> String {
        let (title, description) = (self.title.as_str(), self.description.as_str());
        let mut tags = vec![
            ("property", "og:type", "website"),
            ("property", "og:site_name", "Tidemark"),
            ("property", "og:title", title),
            ("property", "og:description", description),
            ("name", "description", description),
            ("name", "twitter:title", title),
            ("name", "twitter:description", description),
        ];
        if let Some(image) = &self.image {
            tags.extend([
                ("property", "og:image", image.as_str()),
                ("property", "og:image:type", "image/png"),
                ("property", "og:image:width", "1200"),
                ("property", "og:image:height", "630"),
                ("property", "og:image:alt", "Memory over time"),
                ("name", "twitter:card", "summary_large_image"),
                ("name", "twitter:image", image),
            ]);
        }
        let tags = tags.into_iter();
        tags.map(|(kind, name, content)| meta(kind, name, content))
            .collect()
    }
}

fn meta(kind: &str, name: &str, content: &str) -> String {
    format!(
        "<meta {kind}=\"{name}\" content=\"{}\">\n",
        escaped(content)
    )
}

/// A text, escaped for a quoted attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

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

/// The page of a run. If everybody may look, it has a preview.
pub async fn run(
    Here(app): Here,
    Path(run): Path<String>,
    RawQuery(raw): RawQuery,
    addresses: Addresses,
    asking: Asking,
) -> Response {
    let found = match (asking.may_read, run_id(&run)) {
        (true, Ok(id)) => live(&app, id).await.ok(),
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
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
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
