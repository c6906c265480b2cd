//! Who will read an answer: the team, or somebody with a link.
//!
//! A request names its link with `?share=` ([`api::routes::SHARE_PARAMETER`]). A client that may
//! see everything then sees what the link shows, and no more. Other clients show with a cookie that
//! the link was opened in this browser. If they send no parameter, any of their links is enough
//! that opens the requested data.

use super::cookies::{cookies, secure};
use super::extract::Client;
use crate::app::App;
use crate::limits::asking::Asker;
use crate::limits::clients::ClientAddress;
use crate::problems::Error;
use crate::store::{ShareRow, StoreError};
use crate::who::access::Secret;
use crate::who::host_names::Scheme;
use answers::texts::{OwnNames, Texts};
use api::ids::{RunId, ShareId};
use api::routes::SHARE_PARAMETER;
use api::runs::Access;
use api::shares::{Share, ShareKind, ShareState, ShareTarget, nameless};
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use std::convert::Infallible;
use std::sync::Arc;
use timeline::format::{UnixMillis, date_time};

/// The name of a link's cookie: this, followed by the link's short id.
const COOKIE: &str = "tidemark_share_";

/// How many links one browser keeps, and how many are checked, at most.
const MOST_LINKS: usize = 32;

/// Who will read the answer.
#[derive(Clone, Debug, Default)]
pub struct Audience {
    link: Option<Arc<ShareRow>>,
    /// What the team calls blocks.
    own: OwnNames,
}

impl Audience {
    /// Which texts the reader may see.
    pub fn texts(&self) -> Texts {
        let link = self.link.as_ref();
        link.map_or(Texts::All(self.own), |row| row.texts(self.own))
    }

    /// Whether the reader has only a link, or sees what a link shows.
    pub fn is_of_link(&self) -> bool {
        self.link.is_some()
    }

    /// In whose turns the reader's questions are answered.
    pub fn asker(&self) -> Asker {
        match self.is_of_link() {
            true => Asker::Link,
            false => Asker::Team,
        }
    }

    /// An entity tag; it differs if texts are left out.
    pub fn tagged(&self, etag: String) -> String {
        match self.texts().tag() {
            None => etag,
            Some(tag) => etag.replacen("W/\"", &format!("W/\"{tag}-"), 1),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Audience {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Audience, Infallible> {
        // The guard sets this for every route of the API that reads data.
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// A request, and what the client shows.
#[derive(Clone)]
pub struct Asking {
    method: Method,
    path: String,
    query: String,
    /// Links opened in this browser: short id and secret.
    held: Vec<(ShareId, String)>,
    who: ClientAddress,
}

impl Asking {
    /// Reads this from a request.
    pub fn of(request: &Request) -> Asking {
        Asking {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            held: held(request.headers()),
            who: Client::of(request.extensions()).address,
        }
    }

    /// The link that the request names.
    pub fn named(&self) -> Option<&str> {
        let pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        let mut named = pairs.filter(|(name, _)| *name == SHARE_PARAMETER);
        named.next().map(|(_, id)| id)
    }

    /// Ids of the links that it names or holds.
    pub fn links(&self) -> Vec<String> {
        let named = self.named().map(str::to_owned).into_iter();
        named
            .chain(self.held.iter().map(|(id, _)| id.to_string()))
            .collect()
    }

    /// Whether the client knows the link's secret.
    ///
    /// # Errors
    /// When it shows a wrong secret, which counts as a guess, and has guessed too often.
    fn knows(&self, app: &App, row: &ShareRow) -> Result<bool, Error> {
        let secret = self.held.iter().find(|(id, _)| *id == row.share.id);
        let Some((_, secret)) = secret else {
            return Ok(false);
        };
        let right = opens(row, secret);
        if !right {
            app.gate.may_guess(self.who, Secret::Link)?;
            app.gate.guessed(self.who, Secret::Link, false);
        }
        Ok(right)
    }
}

/// The links of this browser. It sends the oldest first, and only the newest count.
fn held(headers: &HeaderMap) -> Vec<(ShareId, String)> {
    let mut links = all_held(headers);
    links.drain(..links.len().saturating_sub(MOST_LINKS));
    links
}

fn all_held(headers: &HeaderMap) -> Vec<(ShareId, String)> {
    let links = cookies(headers).filter_map(|(name, secret)| {
        let id = format!("{}{}", ShareId::PREFIX, name.strip_prefix(COOKIE)?);
        Some((id.parse().ok()?, secret.to_owned()))
    });
    links.collect()
}

/// Cookies that forget the oldest links of a browser, where it has too many to open another one.
pub fn make_room(headers: &HeaderMap, opened: &ShareId, scheme: Scheme) -> Vec<String> {
    let mut others = all_held(headers);
    others.retain(|(id, _)| id != opened);
    let too_many = (others.len() + 1).saturating_sub(MOST_LINKS);
    let oldest = others.iter().take(too_many);
    oldest.map(|(id, _)| cookie(id, "", 0, scheme)).collect()
}

/// Whether this is the link's secret.
fn opens(row: &ShareRow, secret: &str) -> bool {
    let expected = row.token_hash.as_deref();
    let expected = expected.and_then(|hash| blake3::Hash::from_hex(hash).ok());
    expected.is_some_and(|expected| blake3::hash(secret.as_bytes()) == expected)
}

/// The cookie that remembers a link for so many seconds.
pub fn cookie(share: &ShareId, secret: &str, seconds: i64, scheme: Scheme) -> String {
    let id = share.as_str().trim_start_matches(ShareId::PREFIX);
    let secure = secure(scheme);
    format!(
        "{COOKIE}{id}={secret}; Path=/api/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}"
    )
}

/// Finds who will read the answer to this request.
///
/// # Errors
/// When a token is needed, or the link has ended or does not open what is asked for.
pub async fn of(app: &App, asking: Asking, access: Access) -> Result<Audience, Error> {
    let needs_link = access == Access::TokenNeeded;
    let own = app.pictures.traces.own_names();
    if let Some(id) = asking.named() {
        let unknown = || Error::NotFound(format!("link {id}"));
        let id: ShareId = id.parse().map_err(|_| unknown())?;
        let now = app.store.latest_ms();
        let row = app.store.read(move |reader| reader.share(&id, now)).await?;
        for_good(app, &row.share).await;
        return match needs_link && !asking.knows(app, &row)? {
            true => Err(Error::TokenNeeded),
            false => admit(row, &asking, own),
        };
    }
    if !needs_link {
        return Ok(Audience { link: None, own });
    }
    // A link that the browser has by chance, which has ended or is about something else, must not
    // keep a person from typing the token.
    let rows = held_rows(app, &asking).await?.into_iter();
    let mut admitted = rows.filter_map(|row| admit(row, &asking, own).ok());
    admitted.next().ok_or(Error::TokenNeeded)
}

/// Whether a project has a link that this request would come in with, or one that it names and that
/// has ended: then that project says so.
pub async fn would_admit(app: &App, asking: Asking) -> bool {
    let is_named = asking.named().is_some();
    match of(app, asking, Access::TokenNeeded).await {
        Ok(_) => true,
        Err(Error::NotFound(_) | Error::Store(_)) => false,
        Err(_) => is_named,
    }
}

/// Makes sure that an expired link stays expired, even if the clock is set back.
pub async fn for_good(app: &App, share: &Share) {
    let Some(expired_ms) = share
        .expires_ms
        .filter(|_| share.state == ShareState::Expired)
    else {
        return;
    };
    if let Err(error) = app.store.remember_time(expired_ms).await {
        tracing::warn!(%error, "cannot remember how late it is");
    }
}

/// The links of this browser; those that show less come first.
async fn held_rows(app: &App, asking: &Asking) -> Result<Vec<ShareRow>, Error> {
    let ids: Vec<ShareId> = asking.held.iter().map(|(id, _)| id.clone()).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let now = app.store.latest_ms();
    let read = app.store.read(move |reader| {
        let rows = ids.iter().map(|id| reader.share(id, now));
        let there = rows.filter(|row| !matches!(row, Err(StoreError::NotFound { .. })));
        there.collect::<Result<Vec<_>, _>>()
    });
    let mut rows = Vec::new();
    for row in read.await? {
        if asking.knows(app, &row)? {
            rows.push(row);
        }
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.share.redaction));
    Ok(rows)
}

fn admit(row: ShareRow, asking: &Asking, own: OwnNames) -> Result<Audience, Error> {
    let share = &row.share;
    if share.state != ShareState::Active {
        return Err(Error::Gone(ended(share, None)));
    }
    if !matches!(asking.method, Method::GET | Method::HEAD) {
        return Err(Error::OutOfScope("a link only reads"));
    }
    if !is_within(&asking.path, &asking.query, share.target.runs()) {
        return Err(Error::OutOfScope(
            "the link opens the runs that it was made for and nothing else",
        ));
    }
    let link = Some(Arc::new(row));
    Ok(Audience { link, own })
}

/// Whether an address is about these runs only. Addresses that are not listed here are closed.
/// Whoever adds a route decides that here, and makes sure that its answer follows
/// [`Audience::texts`].
pub(super) fn is_within(path: &str, query: &str, runs: &[RunId]) -> bool {
    let is_one = |run: &str| runs.iter().any(|one| one.as_str() == run);
    let parts: Vec<&str> = path.split('/').skip(2).collect();
    match parts[..] {
        ["runs", run] | ["runs", run, "card.svg" | "card.png" | "card.md" | "explain"] => {
            is_one(run)
        }
        ["runs", run, "devices", _, what, ..] => {
            let open = [
                "series",
                "mountain",
                "marks",
                "contents",
                "blocks",
                "events",
                "leaks",
                "growth",
                "alive",
                "changes",
                "allocations",
                "memory-map",
                "room-over-time",
                "what-if",
            ];
            is_one(run) && open.contains(&what)
        }
        ["compare"] | ["compare", "curves" | "card.svg" | "card.png" | "card.md"] => {
            // The reader of the query refuses repeated parameters. Here, each of them must fit.
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let mut asked = pairs.filter(|(name, _)| *name == "runs").peekable();
            asked.peek().is_some() && asked.all(|(_, ids)| ids.split(',').all(is_one))
        }
        _ => false,
    }
}

/// Who ended a link, when, and what it opened. The run's name appears only for readers who may see
/// it.
pub fn ended(share: &Share, name: Option<&str>) -> String {
    let by = |who: &str| match who {
        "" => String::new(),
        who => format!(" by {who}"),
    };
    let when = |ms: i64| date_time(UnixMillis(ms));
    let what = match (&share.target, name) {
        (ShareTarget::Run { .. }, Some(name)) => format!("the run “{name}”"),
        (ShareTarget::Run { run }, None) => nameless(run),
        (ShareTarget::Comparison { runs }, _) => format!("a comparison of {} runs", runs.len()),
    };
    let end = match (share.state, share.revoked_ms, share.expires_ms) {
        (ShareState::Revoked, Some(ms), _) => {
            let who = share.revoked_by.as_deref().unwrap_or_default();
            format!("It was revoked on {}{}.", when(ms), by(who))
        }
        (_, _, Some(ms)) => format!("It expired on {}.", when(ms)),
        _ => "It has ended.".to_owned(),
    };
    let note = match share.note.as_str() {
        "" => String::new(),
        note => format!(" Its note says “{note}”."),
    };
    let kind = match share.kind {
        ShareKind::Team => "team link",
        ShareKind::Capability => "link",
    };
    let (made, maker) = (when(share.created_ms), by(&share.created_by));
    let ask = match share.created_by.as_str() {
        "" => "the person who sent it to you".to_owned(),
        who => who.to_owned(),
    };
    format!(
        "{end} The {kind} was made on {made}{maker} and opened {what}.{note} Ask {ask} for a new \
         one."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_opens_its_runs_and_nothing_else() {
        let runs: Vec<RunId> = vec!["run_a".parse().unwrap(), "run_b".parse().unwrap()];
        let check = |address: &str, open: bool| {
            let (path, query) = address.split_once('?').unwrap_or((address, ""));
            assert_eq!(is_within(path, query, &runs), open, "{address}");
        };
        check("/api/compare?runs=run_a,run_b", true);
        check("/api/compare/curves?runs=run_b,run_a&align=step", true);
        check("/api/compare/card.md?runs=run_a,run_b", true);
        check("/api/compare/card.svg?runs=run_a,run_b&theme=dark", true);
        check("/api/compare/card.png?runs=run_a,run_c", false);
        check("/api/compare?runs=run_a,run_c", false);
        check("/api/compare?runs=run_a,run_b&runs=run_a,run_c", false);
        check("/api/compare?runs=", false);
        check("/api/compare", false);
        check("/api/comparisons", false);
        check("/api/runs/run_a", true);
        check("/api/runs/run_b/devices/0/marks", true);
        check("/api/runs/run_a/devices/0/mountain/stack/3/1", true);
        check("/api/runs/run_a/devices/0/series/3/1", true);
        check("/api/runs/run_a/devices/0/blocks/7", true);
        check("/api/runs/run_a/devices/0/events/7", true);
        check("/api/runs/run_a/devices/0/blocks/7/beside", true);
        check("/api/runs/run_a/devices/0/leaks?v=1", true);
        check("/api/runs/run_a/devices/0/alive?at=3", true);
        check("/api/runs/run_c/devices/0/allocations?q=x", false);
        check("/api/runs/run_a/explain?device=0", true);
        check("/api/runs/run_c/explain", false);
        check("/api/runs/run_a/card.png", true);
        check("/api/runs/run_c/card.png", false);
        check("/api/runs/run_c", false);
        check("/api/runs/run_c/devices/0/marks", false);
        check("/api/runs", false);
        check("/api/runs/", false);
        check("/api/runs/run_a/", false);
        check("/api/runs/run_a/restore", false);
        check("/api/runs/run_a/labels", false);
        check("/api/runs/run_a/redaction", false);
        check("/api/runs/run_a/devices", false);
        check("/api/runs/run_a/export", false);
        check("/api/history?label=branch=main", false);
        check("/api/jobs", false);
        check("/api/jobs/job_a", false);
        check("/api/jobs/job_a/sites", false);
        check("/api/jobs/job_a/labels", false);
        check("/api/jobs/job_a/curves/0", false);
        check("/api/shares", false);
        check("/api/events", false);
        check("/api/openapi.json", false);
        check("/api/uploads/upl_a", false);
    }
}
