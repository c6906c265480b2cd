//! The card of a comparison: as a picture, and as Markdown for a pull request.

use super::super::compare::{RunsQuery, comparison, known_to, seen};
use super::super::extract::{Addresses, Query, compared_runs};
use super::super::here::Here;
use super::super::question::Asker;
use super::{Asked, CardQuery, Format, Subject, of_link, respond, text_response};
use crate::app::App;
use crate::limits::asking::Asker as Asks;
use crate::problems::Error;
use answers::cards::markdown::{self, Links, Names};
use api::compare_view::CompareState;
use api::problem::Problem;
use api::routes;
use axum::extract::RawQuery;
use axum::response::Response;
use serde::Deserialize;

/// How much the Markdown says, and where it leads.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MarkdownQuery {
    /// 2 to 8 run ids, separated by commas; the first is the baseline.
    runs: String,
    /// `1`: numbers alone, without names, places and picture, for private projects.
    #[serde(default)]
    numbers_only: u8,
    /// The last part of a link's address: the block then leads there, and says no more than it.
    link: Option<String>,
}

/// A comparison as Markdown, for a pull request.
#[utoipa::path(get, path = "/api/compare/card.md", tag = "compare", params(MarkdownQuery),
    responses(
        (status = 200,
            description = "The block for a pull request.",
            content_type = "text/markdown"),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn md(
    Here(app): Here,
    Query(query): Query<MarkdownQuery>,
    RawQuery(raw): RawQuery,
    addresses: Addresses,
    asker: Asker,
) -> Result<Response, Error> {
    let runs = compared_runs(&query.runs)?;
    let (rows, view) = seen(&app, runs, &raw.unwrap_or_default()).await?;
    let link = query.link.as_deref();
    let (links, texts) = of_link(&app, addresses.origin(), link, &asker.audience).await?;
    // A block that leads to a link says what the link shows.
    let rows = match links.is_some() {
        true => known_to(Asks::Link, rows),
        false => known_to(asker.audience.asker(), rows),
    };
    let names = Names::asked(query.numbers_only);
    let _turn = asker.turn(&app).await?;
    let comparison = comparison(&app, rows, names.texts(texts), names).await?;
    let text = match names {
        Names::Told => {
            let here = || Links {
                page: addresses.of(&format!("{}?{view}", routes::COMPARE_PAGE)),
                image: Some(image_of_comparison(&addresses, &view)),
            };
            markdown::comparison(&comparison, Some(&links.unwrap_or_else(here)))
        }
        Names::Withheld => {
            // A view may contain the searched text, and that may be a name.
            let here = || Links {
                page: addresses.of(&routes::compare_page(&view.runs)),
                image: None,
            };
            markdown::numbers_only(&comparison, Some(&links.unwrap_or_else(here)))
        }
    };
    Ok(text_response(text))
}

/// The card of a comparison as SVG.
#[utoipa::path(get, path = "/api/compare/card.svg", tag = "compare",
    params(RunsQuery, CardQuery),
    responses(
        (status = 200, description = "The card as SVG.", content_type = "image/svg+xml"),
        (status = 400, body = Problem), (status = 404, body = Problem),
    ))]
pub async fn svg(
    Here(app): Here,
    Query(query): Query<RunsQuery>,
    asked: Asked,
) -> Result<Response, Error> {
    card(&app, &query, asked, Format::Svg).await
}

/// The card of a comparison as PNG.
#[utoipa::path(get, path = "/api/compare/card.png", tag = "compare",
    params(RunsQuery, CardQuery),
    responses(
        (status = 200, description = "The card as PNG.", content_type = "image/png"),
        (status = 400, body = Problem), (status = 404, body = Problem),
    ))]
pub async fn png(
    Here(app): Here,
    Query(query): Query<RunsQuery>,
    asked: Asked,
) -> Result<Response, Error> {
    card(&app, &query, asked, Format::Png).await
}

async fn card(
    app: &App,
    query: &RunsQuery,
    asked: Asked,
    format: Format,
) -> Result<Response, Error> {
    let runs = compared_runs(&query.runs)?;
    let Asked { asker, texts, .. } = asked;
    let subject = Subject::comparison(app, runs, &asked.query, asker, texts).await?;
    respond(app, subject, asked, format).await
}

/// The absolute address of the card of a comparison.
pub fn image_of_comparison(addresses: &Addresses, view: &CompareState) -> String {
    addresses.of(&routes::compare_card(&view.to_string(), "png"))
}
