//! Shared links: make, list, revoke, open, and the page behind them.

use super::audience::{cookie, ended, for_good, make_room};
use super::audited::Subject;
use super::extract::{Client, Json, Origin, Path, Query, run_id};
use super::here::Here;
use super::page::PageQuery;
use super::preview::{self, Preview};
use super::question::Asker;
use super::runs::kept;
use super::{assets, credentials, packed};
use crate::app::App;
use crate::identity::{TOKEN_DIGITS, names_key, share_id, share_token};
use crate::pictures::Ask;
use crate::problems::Error;
use crate::store::{ShareRow, StoreError};
use crate::system::plain::is_plain;
use crate::who::access::{Entry, Secret};
use answers::redaction;
use api::ids::{RunId, ShareId};
use api::problem::Problem;
use api::routes;
use api::runs::Access;
use api::shares::{
    CreatedShare, NewShare, OpenShare, Redaction, RedactionPreview, Share, ShareKind, ShareState,
    ShareTarget, nameless, nameless_view,
};
use api::view_state::ViewState;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;

/// How long a browser remembers an opened link; opening it again starts this time again.
const REMEMBERED_S: i64 = 30 * 24 * 3600;

/// Which links to list.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Only those that open this run, alone or in a comparison.
    run: Option<String>,
}

/// Links, newest first, those that have ended too.
#[utoipa::path(get, path = "/api/shares", tag = "shares", params(ListQuery, PageQuery),
    responses((status = 200, description = "The links, newest first.", body = Vec<Share>)))]
pub async fn list(
    Here(app): Here,
    Query(query): Query<ListQuery>,
    Query(page): Query<PageQuery>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let run = query.run.as_deref().map(run_id).transpose()?;
    let now = app.store.latest_ms();
    let read = app
        .store
        .read(move |reader| reader.shares(run.as_ref(), page.slice(), now));
    let shares = read.await?;
    let expired = shares
        .iter()
        .filter(|share| share.state == ShareState::Expired);
    // What was said to have ended stays so.
    if let Some(ended_ms) = expired.filter_map(|share| share.expires_ms).max() {
        app.store.remember_soon(ended_ms);
    }
    Ok(packed::json(&headers, &shares))
}

/// Makes a link. Only this answer holds its address.
#[utoipa::path(post, path = "/api/shares", tag = "shares", request_body = NewShare,
    responses(
        (status = 201,
            description = "The link, with its secret. The secret is shown only here.",
            body = CreatedShare),
        (status = 400, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem),
    ))]
pub async fn create(
    Here(app): Here,
    Extension(entry): Extension<Entry>,
    origin: Origin,
    Json(mut new): Json<NewShare>,
) -> Result<Response, Error> {
    // A person who has signed in cannot use another name.
    if let Some(person) = entry.person() {
        new.created_by.clone_from(&person.name);
    }
    let (row, token) = checked(new, app.store.latest_ms())?;
    let share = row.share.clone();
    let write = app.store.write(move |writer| {
        for run in row.share.target.runs() {
            writer.reader().run_ref(run)?;
        }
        writer.make_share(&row)
    });
    write.await?;
    let slug = token.unwrap_or_else(|| slug_of(&share.id).to_owned());
    let url = page_link(&origin, &slug);
    let subject = Subject::of(&share.id);
    let body = axum::Json(CreatedShare { share, url });
    Ok((StatusCode::CREATED, subject, body).into_response())
}

/// The row of a new link, and its secret if it has one.
fn checked(new: NewShare, created_ms: i64) -> Result<(ShareRow, Option<String>), Error> {
    let bad = |why: &str| Err(Error::BadRequest(why.to_owned()));
    let (note, created_by) = (line(&new.note)?, line(&new.created_by)?);
    if new.query.len() > NewShare::MAX_QUERY || new.query.chars().any(char::is_control) {
        return bad("the view is not a query, or too long a one");
    }
    if new.expires_in_s == Some(0) {
        return bad("a link that ends at once opens nothing: give it 1 second at least");
    }
    if new.kind == ShareKind::Team && new.redaction == Redaction::Redacted {
        return bad("a team link shows everything; only a link without login can be redacted");
    }
    match &new.target {
        ShareTarget::Run { .. } => {
            ViewState::parse(&new.query).map_err(|error| Error::BadRequest(error.to_string()))?;
        }
        ShareTarget::Comparison { runs } if !(2..=NewShare::MAX_RUNS).contains(&runs.len()) => {
            return bad("a comparison has 2 to 8 runs");
        }
        ShareTarget::Comparison { .. } => {}
    }
    let share = Share {
        id: share_id(),
        kind: new.kind,
        target: new.target,
        query: new.query,
        redaction: new.redaction,
        note,
        created_ms,
        created_by,
        expires_ms: new.expires_in_s.map(|s| created_ms + i64::from(s) * 1000),
        revoked_ms: None,
        revoked_by: None,
        last_opened_ms: None,
        state: ShareState::Active,
    };
    let token = (share.kind == ShareKind::Capability).then(share_token);
    let row = ShareRow {
        token_hash: token.as_deref().map(hash_of),
        names_key: (share.redaction == Redaction::Redacted).then(names_key),
        share,
    };
    Ok((row, token))
}

/// Who revokes a link.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RevokeQuery {
    /// The name that the link shows.
    #[serde(default)]
    by: String,
}

/// Revokes a link: at once, for everybody. Its row stays, to say so.
#[utoipa::path(delete, path = "/api/shares/{share}", tag = "shares",
    params(("share" = String, Path), RevokeQuery),
    responses(
        (status = 200, description = "The link, which does not open any more.", body = Share),
        (status = 404, body = Problem),
    ))]
pub async fn revoke(
    Here(app): Here,
    Extension(entry): Extension<Entry>,
    Path(share): Path<String>,
    Query(query): Query<RevokeQuery>,
) -> Result<axum::Json<Share>, Error> {
    let unknown = || Error::NotFound(format!("link {share}"));
    let id: ShareId = share.parse().map_err(|_| unknown())?;
    let (typed, now) = (line(&query.by)?, app.store.latest_ms());
    let by = entry.person().map_or(typed, |person| person.name.clone());
    let write = app.store.write(move |writer| {
        writer.revoke_share(&id, &by, now)?;
        writer.reader().share(&id, now)
    });
    Ok(axum::Json(write.await?.share))
}

/// Exchanges the last part of a link's address for a session that opens what the link opens.
#[utoipa::path(post, path = "/api/shares/open", tag = "shares", request_body = OpenShare,
    responses(
        (status = 200, description = "What the link opens; the cookie is set.", body = Share),
        (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 410, body = Problem),
    ))]
pub async fn open(
    State(main): State<Arc<App>>,
    client: Client,
    headers: HeaderMap,
    Json(request): Json<OpenShare>,
) -> Result<Response, Error> {
    let unknown =
        || Error::NotFound("such link: check that its address was copied to the end".to_owned());
    let found = find_for(&main, client, &request.token).await?;
    let (app, row) = found.ok_or_else(unknown)?;
    let share = row.share;
    if share.kind == ShareKind::Team {
        let entry = credentials::entry(&main, &headers, client).await?;
        if entry.access == Access::TokenNeeded {
            return Err(Error::TokenNeeded);
        }
        if main.projects.role(&entry, &app.project).is_none() {
            return Err(unknown());
        }
    }
    if share.state != ShareState::Active {
        for_good(&app, &share).await;
        return Err(Error::Gone(ended(
            &share,
            run_name(&app, &share).await.as_deref(),
        )));
    }
    let (id, now) = (share.id.clone(), app.store.latest_ms());
    let note = app.store.write(move |writer| writer.opened_share(&id, now));
    match note.await {
        // A full disk must not keep anyone from reading.
        Err(error) if error.refuses_writes() => {
            tracing::debug!(%error, "cannot note that a link was opened");
        }
        noted => noted?,
    }
    let left = share
        .expires_ms
        .map_or(REMEMBERED_S, |end| (end - now) / 1000 + 1);
    let share = for_its_reader(share);
    let mut response = packed::json(&headers, &share);
    if share.kind == ShareKind::Capability {
        let seconds = left.min(REMEMBERED_S);
        let cookie = cookie(&share.id, &request.token, seconds, client.scheme);
        let forgotten = make_room(&headers, &share.id, client.scheme);
        for cookie in std::iter::once(cookie).chain(forgotten) {
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().append(header::SET_COOKIE, cookie);
            }
        }
    }
    Ok(response)
}

/// What redaction would change in a run, with examples.
#[utoipa::path(get, path = "/api/runs/{run}/redaction", tag = "shares",
    params(("run" = String, Path)),
    responses(
        (status = 200,
            description = "Which names a redacted link would show, and which it would replace.",
            body = RedactionPreview),
        (status = 404, body = Problem),
        (status = 429, body = Problem), (status = 503, body = Problem),
    ))]
pub async fn preview(
    Here(app): Here,
    Path(run): Path<String>,
    asker: Asker,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let id = run_id(&run)?;
    let row = kept(&app, id.clone()).await?;
    let turn = asker.turn(&app).await?;
    let decoded = app.pictures.traces.get(row.trace).await?;
    // Each link gets its own stand-ins: these are only an example.
    let memory = app
        .pictures
        .traces
        .memory_to_ask(&decoded, Ask::Known)
        .await?;
    let work = move || {
        let _held = (turn, memory);
        redaction::preview(&decoded.trace, &id, row.name, names_key())
    };
    let preview = crate::limits::work::answer(work)
        .await
        .map_err(|_| Error::Store(StoreError::Interrupted))?;
    Ok(packed::json(&headers, &preview))
}

/// The link and its project, if the holder of its address may know what it opens. Clients without
/// the server's token learn nothing about a team link.
///
/// # Errors
/// [`Error::NotFound`] if there is none that the client may read.
pub async fn readable_by_anyone(
    main: &Arc<App>,
    client: Client,
    token: &str,
) -> Result<(Arc<App>, ShareRow), Error> {
    let found = find_for(main, client, token).await?;
    let open = main.gate.is_open();
    let readable = found.filter(|(_, row)| open || row.share.kind == ShareKind::Capability);
    readable.ok_or_else(|| Error::NotFound("such link".to_owned()))
}

/// A link as its readers see it. In a redacted link, the searched text is a name, and the selection
/// may be a hash of one; links from older versions have both.
pub fn for_its_reader(mut share: Share) -> Share {
    if share.redaction == Redaction::Redacted {
        share.query = nameless_view(&share.target, &share.query);
    }
    share
}

/// The absolute address of a link.
pub fn page_link(origin: &Origin, slug: &str) -> String {
    format!("{origin}{}", routes::share_page(slug))
}

/// The absolute address of a link's card.
pub fn image_of(origin: &Origin, slug: &str) -> String {
    format!("{origin}{}", routes::share_card(slug))
}

/// The page of a link: the front end, with the data for the link's preview in a chat.
pub async fn page(
    State(main): State<Arc<App>>,
    client: Client,
    Path(token): Path<String>,
    origin: Origin,
    headers: HeaderMap,
) -> Result<Response, Error> {
    if is_part_of_another_site(&headers) {
        return Ok(assets::index(&main.config.site, &headers, None));
    }
    match readable_by_anyone(&main, client, &token).await {
        Ok((app, row)) => {
            let image = image_of(&origin, &token);
            let preview = preview_of(&app, &row.share, image).await;
            Ok(assets::page(&main.config.site, &preview.tags(), None))
        }
        Err(Error::NotFound(_)) => Ok(assets::index(&main.config.site, &headers, None)),
        Err(error) => Err(error),
    }
}

/// Whether a page of another site asks, for a part of itself: an image, say. A browser does that
/// without its user's doing, so it would be the user's address that guesses.
pub fn is_part_of_another_site(headers: &HeaderMap) -> bool {
    let is = |name: &str, wanted: &[&str]| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| wanted.contains(&value))
    };
    is("sec-fetch-site", &["cross-site", "same-site"]) && !is("sec-fetch-dest", &["document"])
}

/// The preview of a link in a chat.
async fn preview_of(app: &App, share: &Share, image: String) -> Preview {
    match share.state {
        ShareState::Active => {
            let name = run_name(app, share).await;
            Preview {
                title: name.unwrap_or_else(|| "A GPU memory trace".to_owned()),
                description: about(share),
                image: Some(image),
            }
        }
        ShareState::Expired | ShareState::Revoked => Preview {
            title: "This link does not open any more".to_owned(),
            description: ended(share, None),
            image: None,
        },
    }
}

fn about(share: &Share) -> String {
    let what = match &share.target {
        ShareTarget::Run { .. } => preview::ABOUT_RUN.to_owned(),
        ShareTarget::Comparison { runs } => preview::about_comparison(runs),
    };
    match share.note.as_str() {
        "" => what,
        note => format!("{note} · {what}"),
    }
}

/// The name of what the link opens, for its readers; `None` if the run is gone.
async fn run_name(app: &App, share: &Share) -> Option<String> {
    let first: RunId = share.target.runs().first()?.clone();
    if share.redaction == Redaction::Redacted {
        return Some(nameless(&first));
    }
    let row = kept(app, first).await.ok()?;
    match &share.target {
        ShareTarget::Run { .. } => Some(row.name),
        ShareTarget::Comparison { runs } => {
            Some(format!("{} against {} more", row.name, runs.len() - 1))
        }
    }
}

/// [`find`] in all projects, for a client that may be guessing secrets.
async fn find_for(
    main: &Arc<App>,
    client: Client,
    slug: &str,
) -> Result<Option<(Arc<App>, ShareRow)>, Error> {
    main.gate.may_guess(client.address, Secret::Link)?;
    let mut found = None;
    for app in main.projects.all_open(main) {
        if let Some(row) = find(&app, slug).await? {
            found = Some((app, row));
            break;
        }
    }
    main.gate
        .guessed(client.address, Secret::Link, found.is_some());
    Ok(found)
}

/// The link for the last part of an address: found by its secret, or a team link by its short id.
pub(super) async fn find(app: &App, slug: &str) -> Result<Option<ShareRow>, Error> {
    let now = app.store.latest_ms();
    let hash = hash_of(slug);
    if slug.len() == TOKEN_DIGITS {
        let read = app
            .store
            .read(move |reader| reader.share_by_hash(&hash, now));
        return Ok(read.await?);
    }
    let Ok(id) = format!("{}{slug}", ShareId::PREFIX).parse::<ShareId>() else {
        return Ok(None);
    };
    match app.store.read(move |reader| reader.share(&id, now)).await {
        // The short id of a capability link is not secret, so it must not open anything.
        Ok(row) => Ok((row.share.kind == ShareKind::Team).then_some(row)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn slug_of(id: &ShareId) -> &str {
    id.as_str().trim_start_matches(ShareId::PREFIX)
}

/// The stored form of a secret. A secret has 128 random bits, so it cannot be guessed from this
/// hash.
fn hash_of(token: &str) -> String {
    blake3::hash(token.as_bytes()).to_hex().to_string()
}

/// A typed line: trimmed, not too long, without control characters.
fn line(text: &str) -> Result<String, Error> {
    let text = text.trim();
    let fits = text.chars().count() <= NewShare::MAX_TEXT && text.chars().all(is_plain);
    let wrong = || {
        Error::BadRequest(
            "a note or a name has at most 200 characters, none of which \
                                      hides or turns others"
                .to_owned(),
        )
    };
    fits.then(|| text.to_owned()).ok_or_else(wrong)
}
