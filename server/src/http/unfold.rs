//! The preview of a link in a chat: OpenGraph and Twitter tags in the head of the page.

use super::App;
use super::assets::{self, Showing};
use super::cards::{image_of_comparison, live};
use super::compare::seen;
use super::extract::{Client, Origin, Path, run_id};
use super::here::Here;
use crate::access::Entry;
use crate::problems::Error;
use crate::site::Site;
use api::compare_view::CompareState;
use api::ids::RunId;
use api::routes;
use axum::extract::{FromRequestParts, RawQuery};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use std::convert::Infallible;

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
    /// The front end's page with these tags.
    pub fn page(&self, site: &Site, showing: Option<Showing>) -> Response {
        let index = site.index();
        let page = String::from_utf8_lossy(&index.bytes);
        let page = page.replacen("</head>", &format!("{}</head>", self.tags()), 1);
        if let Some(showing) = showing {
            return showing.page(&page);
        }
        let headers = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CACHE_CONTROL, "private, no-cache"),
        ];
        (headers, page).into_response()
    }

    fn tags(&self) -> String {
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
}

impl<S: Sync> FromRequestParts<S> for Asking {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asking, Infallible> {
        let client = Client::of(&parts.extensions);
        let entry = parts.extensions.get::<Entry>();
        Ok(Asking {
            headers: parts.headers.clone(),
            showing: entry.and_then(|entry| Showing::to(entry, client)),
        })
    }
}

/// The page of a run.
pub async fn run(
    Here(app): Here,
    Path(run): Path<String>,
    RawQuery(raw): RawQuery,
    origin: Origin,
    asking: Asking,
) -> Response {
    let preview = async || {
        let row = live(&app, run_id(&run)?).await?;
        let query = raw.map_or_else(String::new, |raw| format!("?{raw}"));
        Ok(Preview {
            image: Some(format!("{origin}{}{query}", routes::card(&row.id, "png"))),
            title: row.name,
            description: ABOUT_RUN.to_owned(),
        })
    };
    unfolding(&app, asking, preview).await
}

/// The page of a comparison.
pub async fn compare(
    Here(app): Here,
    RawQuery(raw): RawQuery,
    origin: Origin,
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
            image: Some(image_of_comparison(&origin, &view)),
        })
    };
    unfolding(&app, asking, preview).await
}

/// The page with its preview, if everybody may look and there is something to show. Otherwise the
/// page without a preview: it will explain that itself.
async fn unfolding(
    app: &App,
    Asking { headers, showing }: Asking,
    preview: impl AsyncFnOnce() -> Result<Preview, Error>,
) -> Response {
    let found = match app.gate.is_open() {
        true => preview().await.ok(),
        false => None,
    };
    let site = &app.config.site;
    match found {
        None => assets::index(site, &headers, showing),
        Some(preview) => preview.page(site, showing),
    }
}
