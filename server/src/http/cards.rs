//! Cards of a run: pictures for chats and pull requests, and the Markdown around them.

use super::App;
use super::audience::Audience;
use super::error::Error;
use super::extract::{Origin, Path, Query, run_id};
use super::packed::{Keep, Packed, not_modified};
use super::shares::{image_of, page_link};
use crate::cards::{self, Links, Names, RunCard, markdown};
use crate::store::{RunRow, StoreError};
use api::ids::RunId;
use api::problem::Problem;
use api::routes;
use api::shares::{Redaction, ShareState, ShareTarget};
use api::view_state::ViewState;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use timeline::card::Theme;

/// How a card looks. The other parameters are those of the page: the view that is drawn.
#[derive(Clone, Copy, Debug, Default, Deserialize, utoipa::IntoParams)]
pub struct CardQuery {
    /// Dark on light, or light on dark.
    #[serde(default)]
    theme: ThemeName,
}

/// The name of a theme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThemeName {
    /// Dark on light.
    #[default]
    Light,
    /// Light on dark.
    Dark,
}

impl ThemeName {
    const fn theme(self) -> Theme {
        match self {
            ThemeName::Light => Theme::Light,
            ThemeName::Dark => Theme::Dark,
        }
    }
}

/// How much the Markdown tells, and where it leads.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
pub struct MarkdownQuery {
    /// `1`: numbers alone, without names and picture, for private projects.
    #[serde(default)]
    numbers_only: u8,
    /// The last part of a link's address: the block then leads there.
    link: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Svg,
    Png,
}

impl Format {
    const fn media_type(self) -> &'static str {
        match self {
            Format::Svg => "image/svg+xml",
            Format::Png => "image/png",
        }
    }
}

/// What is to be drawn, and for whom.
struct Wanted {
    run: RunId,
    view: ViewState,
    redaction: Redaction,
    theme: Theme,
    format: Format,
}

/// The card as SVG.
#[utoipa::path(get, path = "/api/runs/{run}/card.svg", tag = "runs",
    params(("run" = String, Path), CardQuery),
    responses((status = 200, content_type = "image/svg+xml"), (status = 404, body = Problem)))]
pub async fn svg(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    Query(query): Query<CardQuery>,
    RawQuery(raw): RawQuery,
    audience: Audience,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let wanted = wanted(&run, query, raw, &audience, Format::Svg)?;
    respond(&app, wanted, &headers).await
}

/// The card as PNG.
#[utoipa::path(get, path = "/api/runs/{run}/card.png", tag = "runs",
    params(("run" = String, Path), CardQuery),
    responses((status = 200, content_type = "image/png"), (status = 404, body = Problem)))]
pub async fn png(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    Query(query): Query<CardQuery>,
    RawQuery(raw): RawQuery,
    audience: Audience,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let wanted = wanted(&run, query, raw, &audience, Format::Png)?;
    respond(&app, wanted, &headers).await
}

fn wanted(
    run: &str,
    query: CardQuery,
    raw: Option<String>,
    audience: &Audience,
    format: Format,
) -> Result<Wanted, Error> {
    Ok(Wanted {
        run: run_id(run)?,
        view: view_of(&raw.unwrap_or_default())?,
        redaction: audience.redaction(),
        theme: query.theme.theme(),
        format,
    })
}

fn view_of(query: &str) -> Result<ViewState, Error> {
    let parsed = ViewState::parse(query);
    let (view, _) = parsed.map_err(|error| Error::BadRequest(error.to_string()))?;
    Ok(view)
}

/// The card as Markdown, for a pull request.
#[utoipa::path(get, path = "/api/runs/{run}/card.md", tag = "runs",
    params(("run" = String, Path), MarkdownQuery),
    responses((status = 200, content_type = "text/markdown"), (status = 404, body = Problem)))]
pub async fn md(
    State(app): State<Arc<App>>,
    Path(run): Path<String>,
    Query(query): Query<MarkdownQuery>,
    RawQuery(raw): RawQuery,
    origin: Origin,
    audience: Audience,
) -> Result<Response, Error> {
    let view = view_of(&raw.unwrap_or_default())?;
    let id = run_id(&run)?;
    let is_slug = |slug: &&String| slug.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let links = match query.link.as_ref().filter(is_slug) {
        Some(slug) => Links {
            page: page_link(&origin, slug),
            image: image_of(&origin, slug),
        },
        None => {
            let query = match view == ViewState::default() {
                true => String::new(),
                false => format!("?{view}"),
            };
            Links {
                page: format!("{origin}{}{query}", routes::run_page(&id)),
                image: format!("{origin}{}{query}", routes::card(&id, "png")),
            }
        }
    };
    let names = match query.numbers_only {
        0 => Names::Told,
        _ => Names::Withheld,
    };
    let row = live(&app, id).await?;
    let wanted = Wanted {
        run: row.id.clone(),
        view,
        redaction: audience.redaction(),
        theme: Theme::Light,
        format: Format::Svg,
    };
    let text = drawn(&app, row, wanted, move |card| {
        markdown(card, &links, names).into_bytes()
    });
    let headers = [
        (header::CONTENT_TYPE, "text/markdown; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, text.await?).into_response())
}

/// The card of a link, for whoever unfolds it: the secret is in the address.
pub async fn of_share(
    State(app): State<Arc<App>>,
    Path((token, file)): Path<(String, String)>,
    Query(query): Query<CardQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let format = match file.as_str() {
        "card.svg" => Format::Svg,
        "card.png" => Format::Png,
        _ => return Err(Error::NoRoute(routes::share_page(&token))),
    };
    let share = super::shares::readable_by_anyone(&app, &token).await?;
    if share.state != ShareState::Active {
        return Err(Error::Gone(super::audience::ended(&share, None)));
    }
    let ShareTarget::Run { run } = share.target else {
        return Err(Error::NotFound("card of a comparison".to_owned()));
    };
    let wanted = Wanted {
        run,
        view: view_of(&share.query)?,
        redaction: share.redaction,
        theme: query.theme.theme(),
        format,
    };
    respond(&app, wanted, &headers).await
}

async fn respond(app: &App, wanted: Wanted, headers: &HeaderMap) -> Result<Response, Error> {
    let row = live(app, wanted.run.clone()).await?;
    let etag = etag(&row, &wanted);
    if let Some(response) = not_modified(headers, &etag, Keep::Ask) {
        return Ok(response);
    }
    let format = wanted.format;
    let file = drawn(app, row, wanted, move |card| match format {
        Format::Svg => cards::svg(&card.scene()),
        Format::Png => cards::png(&card.scene()),
    });
    let zstd = zstd::bulk::compress(&file.await?, 1).map_err(StoreError::Packing)?;
    let packed = Packed {
        zstd,
        media_type: format.media_type(),
        etag,
        keep: Keep::Ask,
    };
    Ok(packed.respond(headers))
}

/// A run that is not deleted.
async fn live(app: &App, run: RunId) -> Result<RunRow, Error> {
    let read = app.store.read(move |reader| {
        reader.run_ref(&run)?;
        reader.run(&run)
    });
    Ok(read.await?)
}

async fn drawn<F>(app: &App, row: RunRow, wanted: Wanted, finish: F) -> Result<Vec<u8>, Error>
where
    F: FnOnce(&RunCard) -> Vec<u8> + Send + 'static,
{
    let traces = &app.pictures.traces;
    let decoded = traces.get_for(row.trace, wanted.redaction).await?;
    let work = move || {
        let Wanted {
            view,
            redaction,
            theme,
            ..
        } = wanted;
        let card = RunCard::new(&row, &decoded, &view, redaction, theme)?;
        Ok::<_, StoreError>(finish(&card))
    };
    let drawing = tokio::task::spawn_blocking(work);
    Ok(drawing.await.map_err(|_| StoreError::Interrupted)??)
}

/// Names everything that a card is made of: the content, the name, the view, and the version of
/// its looks.
fn etag(row: &RunRow, wanted: &Wanted) -> String {
    let parts = format!(
        "{} {:?} {} {:?} {:?} {:?} v{}",
        row.id,
        row.name,
        wanted.view,
        wanted.redaction,
        wanted.theme,
        wanted.format,
        cards::VERSION
    );
    format!("W/\"{}\"", &blake3::hash(parts.as_bytes()).to_hex()[..32])
}
