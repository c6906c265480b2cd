//! Cards of runs and comparisons: pictures for chats and pull requests, and the Markdown around
//! them.

pub mod comparison;

pub use comparison::image_of_comparison;

use super::audience::Audience;
use super::compare;
use super::extract::{Addresses, Client, Origin, Path, Query, run_id};
use super::here::Here;
use super::packed::{Keep, Packed, not_modified};
use super::runs::{bench_row, kept};
use super::shares::{image_of, page_link};
use crate::app::App;
use crate::limits::answering::{ANSWER_TIME, while_awaited};
use crate::limits::asking::Asker;
use crate::limits::budget::Permit;
use crate::limits::processor_time::ProcessorTime;
use crate::problems::Error;
use crate::store::{StoreError, StoredRun};
use answers::cards::markdown::{self, Links, Names};
use answers::cards::{self, ComparisonCard, Head, Look, RunCard, Watches};
use answers::questions::JUDGING;
use answers::texts::Texts;
use api::bench::RowOfRun;
use api::compare_view::CompareState;
use api::ids::RunId;
use api::problem::Problem;
use api::routes;
use api::shares::{ShareState, ShareTarget, nameless};
use api::view_state::ViewState;
use axum::extract::{FromRequestParts, RawQuery, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use timeline::card::Theme;
use timeline::scene::Scene;
use trace::watch::Watch;

/// How a card looks. The other parameters are those of the page: the view that is drawn.
#[derive(Clone, Copy, Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CardQuery {
    /// Dark on light, or light on dark.
    #[serde(default)]
    #[param(inline)]
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

/// How much the Markdown says, and where it leads.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MarkdownQuery {
    /// `1`: numbers alone, without names and picture, for private projects.
    #[serde(default)]
    numbers_only: u8,
    /// The last part of a link's address: the block then leads there, and says no more than it.
    link: Option<String>,
}

/// The file format of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
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

    fn file(self, scene: &Scene) -> Vec<u8> {
        match self {
            Format::Svg => render::svg(scene),
            Format::Png => render::png(scene),
        }
    }
}

/// A request for a card of any kind.
pub(super) struct Asked {
    theme: Theme,
    /// The view to draw, in the form of the page's query.
    pub query: String,
    texts: Texts,
    asker: Asker,
    client: Client,
    headers: HeaderMap,
}

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Asked, Error> {
        let Query(CardQuery { theme }) = Query::from_request_parts(parts, state).await?;
        let Ok(audience) = Audience::from_request_parts(parts, state).await;
        Ok(Asked {
            theme: theme.theme(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            texts: audience.texts(),
            asker: audience.asker(),
            client: Client::of(&parts.extensions),
            headers: parts.headers.clone(),
        })
    }
}

/// The content and the view of a card, with what a bench knows of each run.
pub(super) enum Subject {
    Run(Box<(StoredRun, ViewState)>, Option<RowOfRun>),
    Comparison(Vec<StoredRun>, CompareState, Vec<Option<RowOfRun>>),
}

impl Subject {
    /// A run, as a query of its page shows it.
    pub async fn run(app: &App, run: RunId, query: &str, texts: Texts) -> Result<Subject, Error> {
        let view = view_of(query)?;
        let known = bench_row(app, run.clone(), texts).await?;
        let row = kept(app, run).await?;
        Ok(Subject::Run(Box::new((row, view)), known))
    }

    /// Runs, as a query of the compare page shows them to this reader.
    pub async fn comparison(
        app: &App,
        runs: Vec<RunId>,
        query: &str,
        asker: Asker,
        texts: Texts,
    ) -> Result<Subject, Error> {
        let (rows, view) = compare::seen(app, runs, query).await?;
        let rows = compare::known_to(asker, rows);
        let known = compare::bench_rows(app, &rows, texts).await?;
        Ok(Subject::Comparison(rows, view, known))
    }

    async fn file(
        self,
        app: &App,
        texts: Texts,
        theme: Theme,
        format: Format,
    ) -> Result<Vec<u8>, Error> {
        match self {
            Subject::Run(shown, known) => {
                let (row, view) = *shown;
                let look = Look { view, texts, theme };
                let draw = move |card: &RunCard| format.file(&card.scene());
                run_card(app, row, known, look, draw).await
            }
            Subject::Comparison(rows, view, _) => {
                let told = compare::comparison(app, rows.clone(), texts, Names::Told);
                let comparison = told.await?;
                let wanted = cards::curves_of(&comparison, &view);
                let curves = app.comparisons.curves(&rows, wanted).await?;
                let memory = app.pictures.traces.memory_for_card().await?;
                drawn(memory, move |_| {
                    let card = ComparisonCard::new(&comparison, &curves, &view, theme);
                    Ok(format.file(&card.scene()))
                })
                .await
            }
        }
    }

    /// Ids, names, the view, and what a bench knows; ids stand for the content. A name that the
    /// reader may not see is left out: from a hash of it, the name could be guessed.
    fn named(&self, texts: Texts) -> String {
        let named = |row: &StoredRun, name: String| match texts {
            Texts::All(_) => format!("{} {name:?} ", row.id),
            Texts::Redacted(_) => format!("{} {:?} ", row.id, nameless(&row.id)),
        };
        let told = |known: &[Option<RowOfRun>]| match known.iter().any(Option::is_some) {
            true => format!(" {known:?}"),
            false => String::new(),
        };
        match self {
            Subject::Run(shown, known) => {
                let (row, view) = &**shown;
                let known = told(std::slice::from_ref(known));
                format!("{}{view}{known}", named(row, row.name.clone()))
            }
            Subject::Comparison(rows, view, known) => {
                let names = rows.iter().map(|row| named(row, row.called()));
                let names: String = names.collect();
                format!("compare {names}{view}{}", told(known))
            }
        }
    }
}

fn view_of(query: &str) -> Result<ViewState, Error> {
    let parsed = ViewState::parse(query);
    let (view, _) = parsed.map_err(|error| Error::BadRequest(error.to_string()))?;
    Ok(view)
}

/// The card as SVG.
#[utoipa::path(get, path = "/api/runs/{run}/card.svg", tag = "runs",
    params(("run" = String, Path), CardQuery),
    responses(
        (status = 200, description = "The card as SVG.", content_type = "image/svg+xml"),
        (status = 404, body = Problem),
    ))]
pub async fn svg(
    Here(app): Here,
    Path(run): Path<String>,
    asked: Asked,
) -> Result<Response, Error> {
    let subject = Subject::run(&app, run_id(&run)?, &asked.query, asked.texts).await?;
    respond(&app, subject, asked, Format::Svg).await
}

/// The card as PNG.
#[utoipa::path(get, path = "/api/runs/{run}/card.png", tag = "runs",
    params(("run" = String, Path), CardQuery),
    responses(
        (status = 200, description = "The card as PNG.", content_type = "image/png"),
        (status = 404, body = Problem),
    ))]
pub async fn png(
    Here(app): Here,
    Path(run): Path<String>,
    asked: Asked,
) -> Result<Response, Error> {
    let subject = Subject::run(&app, run_id(&run)?, &asked.query, asked.texts).await?;
    respond(&app, subject, asked, Format::Png).await
}

/// The card as Markdown, for a pull request.
#[utoipa::path(get, path = "/api/runs/{run}/card.md", tag = "runs",
    params(("run" = String, Path), MarkdownQuery),
    responses(
        (status = 200,
            description = "The block for a pull request.",
            content_type = "text/markdown"),
        (status = 404, body = Problem),
    ))]
pub async fn md(
    Here(app): Here,
    Path(run): Path<String>,
    Query(query): Query<MarkdownQuery>,
    RawQuery(raw): RawQuery,
    addresses: Addresses,
    client: Client,
    audience: Audience,
) -> Result<Response, Error> {
    let view = view_of(&raw.unwrap_or_default())?;
    let id = run_id(&run)?;
    let (links, texts) =
        of_link(&app, addresses.origin(), query.link.as_deref(), &audience).await?;
    let links = links.unwrap_or_else(|| {
        let query = match view == ViewState::default() {
            true => String::new(),
            false => format!("?{view}"),
        };
        Links {
            page: addresses.of(&format!("{}{query}", routes::run_page(&id))),
            image: Some(addresses.of(&format!("{}{query}", routes::card(&id, "png")))),
        }
    });
    let names = Names::asked(query.numbers_only);
    let known = bench_row(&app, id.clone(), texts).await?;
    let known = known.map(|row| match names {
        Names::Told => row,
        Names::Withheld => row.nameless(),
    });
    let row = kept(&app, id).await?;
    let look = Look {
        view,
        texts: names.texts(texts),
        theme: Theme::Light,
    };
    let text = run_card(&app, row, known, look, move |card| {
        markdown::run(card, Some(&links), names)
    });
    let shelf = app.cards.of(audience.asker());
    Ok(text_response(shelf.draw(client.address, text).await?))
}

/// Where a block leads, given the last part of a link's address, and its texts. Above a redacted
/// link it says what the link shows, whoever asks: otherwise it would tell the names that the link
/// hides.
pub(super) async fn of_link(
    app: &App,
    origin: &Origin,
    slug: Option<&str>,
    audience: &Audience,
) -> Result<(Option<Links>, Texts), Error> {
    let is_slug = |slug: &&str| slug.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let Some(slug) = slug.filter(is_slug) else {
        return Ok((None, audience.texts()));
    };
    let texts = match audience.texts() {
        Texts::All(own) => {
            let row = super::shares::find(app, slug).await?;
            row.map_or(Texts::All(own), |row| row.texts(own))
        }
        redacted => redacted,
    };
    let links = Links {
        page: page_link(origin, slug),
        image: Some(image_of(origin, slug)),
    };
    Ok((Some(links), texts))
}

/// Markdown as an answer.
pub(super) fn text_response(text: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/markdown; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, text).into_response()
}

/// The card of a link, for programs that show previews of links. The secret is in the address.
pub async fn of_share(
    State(main): State<Arc<App>>,
    client: Client,
    Path((token, file)): Path<(String, String)>,
    Query(query): Query<CardQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let format = match file.as_str() {
        "card.svg" => Format::Svg,
        "card.png" => Format::Png,
        _ => return Err(Error::NoRoute(routes::share_page(&token))),
    };
    if super::shares::is_part_of_another_site(&headers) {
        return Err(Error::NotFound("such link".to_owned()));
    }
    let (app, row) = super::shares::readable_by_anyone(&main, client, &token).await?;
    let (texts, share) = (
        row.texts(app.pictures.traces.own_names()),
        super::shares::for_its_reader(row.share),
    );
    if share.state != ShareState::Active {
        return Err(Error::Gone(super::audience::ended(&share, None)));
    }
    let subject = match share.target {
        ShareTarget::Run { run } => Subject::run(&app, run, &share.query, texts).await,
        ShareTarget::Comparison { runs } => {
            Subject::comparison(&app, runs, &share.query, Asker::Link, texts).await
        }
    };
    let subject = subject.map_err(Error::for_link)?;
    let asked = Asked {
        theme: query.theme.theme(),
        query: share.query,
        texts,
        asker: Asker::Link,
        client,
        headers,
    };
    respond(&app, subject, asked, format).await
}

/// Sends the card, unless the client has it already.
pub(super) async fn respond(
    app: &App,
    subject: Subject,
    asked: Asked,
    format: Format,
) -> Result<Response, Error> {
    let etag = etag(&subject, &asked, format);
    if let Some(response) = not_modified(&asked.headers, &etag, Keep::Ask) {
        return Ok(response);
    }
    let draw = async {
        let file = subject.file(app, asked.texts, asked.theme, format).await?;
        let packed = zstd::bulk::compress(&file, 1).map_err(StoreError::Packing)?;
        Ok::<_, Error>(packed)
    };
    let shelf = app.cards.of(asked.asker);
    let card = shelf.get(&etag, asked.client.address, draw).await?;
    let packed = Packed {
        zstd: card.to_vec(),
        media_type: format.media_type(),
        etag,
        keep: Keep::Ask,
    };
    Ok(packed.respond(&asked.headers))
}

/// Makes something of the card of a run, of which a bench may know more.
async fn run_card<T: Send + 'static>(
    app: &App,
    row: StoredRun,
    known: Option<RowOfRun>,
    look: Look,
    finish: impl FnOnce(&RunCard) -> T + Send + 'static,
) -> Result<T, Error> {
    let traces = &app.pictures.traces;
    let decoded = traces.get_for(row.trace, look.texts).await?;
    let memory = traces.memory_to_draw(&decoded).await?;
    drawn(memory, move |watch| {
        let head = Head {
            id: &row.id,
            name: &row.name,
            written_by: (row.source)
                .written_by(&decoded.trace.format.settings, row.torch_guess.as_deref()),
            devices: &row.devices,
        };
        let time = ProcessorTime::from_now();
        let judging = |_| time.used() <= JUDGING && watch.look(0).is_ok();
        let watches = Watches {
            judging: Watch::new(&judging),
            drawing: watch,
        };
        let card = RunCard::new(&head, &decoded, &look, watches)?;
        Ok(finish(&match &known {
            Some(known) => card.of_row(known),
            None => card,
        }))
    })
    .await
}

/// Draws within the memory of a permit, and the time of an answer beside that of a verdict: a card
/// whose verdict took too long is drawn without it.
async fn drawn<T: Send + 'static>(
    memory: Permit,
    draw: impl FnOnce(Watch<'_>) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    while_awaited(memory, JUDGING + ANSWER_TIME, draw).await
}

/// Identifies everything that goes into a card: the content, the names, the view, and the version
/// of its looks.
fn etag(subject: &Subject, asked: &Asked, format: Format) -> String {
    let parts = format!(
        "{} {:?} {:?} {format:?} v{}",
        subject.named(asked.texts),
        asked.texts.tag(),
        asked.theme,
        cards::VERSION
    );
    format!("W/\"{}\"", &blake3::hash(parts.as_bytes()).to_hex()[..32])
}
