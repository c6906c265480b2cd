//! Extractors whose refusals are problems too.

use crate::app::App;
use crate::limits::clients::ClientAddress;
use crate::problems::Error;
use crate::who::access::Entry;
use crate::who::host_names::Scheme;
use answers::questions::asked;
use api::ids::{
    BenchId, BenchRowId, ComparisonId, JobId, PersonId, RunId, SessionId, TokenId, UploadId,
};
use api::labels::{self, Label};
use api::projects::{ProjectName, in_project};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::Extensions;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use trace::alive::Dimension;
use trace::tiles::{GroupBy, TileId};

/// A JSON body, which must arrive completely within [`ClientLimits::body_within`].
///
/// [`ClientLimits::body_within`]: crate::limits::clients::ClientLimits::body_within
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Json<T>, Error> {
        let reading = axum::Json::from_request(request, app);
        let axum::Json(value) = in_time(app, reading).await??;
        Ok(Json(value))
    }
}

/// What reading a body gives, if it has arrived in time.
async fn in_time<T>(app: &App, reading: impl Future<Output = T>) -> Result<T, Error> {
    let within = app.config.clients.body_within;
    let read = tokio::time::timeout(within, reading).await;
    read.map_err(|_| Error::SlowBody(within))
}

/// Parts of the path.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Error))]
pub struct Path<T>(pub T);

/// The query.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Error))]
pub struct Query<T>(pub T);

/// The fields of a form, which must arrive in the same time as a JSON body.
pub struct Form<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Form<T> {
    type Rejection = Error;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Form<T>, Error> {
        let reading = axum::Form::from_request(request, app);
        let axum::Form(value) = in_time(app, reading).await??;
        Ok(Form(value))
    }
}

/// `Host` of the request, as the client wrote it.
pub struct Host(pub String);

/// Scheme and host under which the client reached the server, for links.
pub struct Origin(String);

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromRequestParts<Arc<App>> for Origin {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Origin, Error> {
        if let Some(url) = &app.config.public_url {
            return Ok(Origin(url.to_string()));
        }
        // The guard only lets requests through that use a name of this server.
        let Host(host) = Host::from_request_parts(parts, app).await?;
        let scheme = Client::of(&parts.extensions).scheme.name();
        Ok(Origin(format!("{scheme}://{host}")))
    }
}

/// Absolute addresses on this server, for links. Where it has several projects, they lead into the
/// one that the request is about: another one may have the same run.
pub struct Addresses {
    origin: Origin,
    project: Option<ProjectName>,
}

impl Addresses {
    /// The absolute address of a page or of a picture in the project.
    pub fn of(&self, path: &str) -> String {
        let Addresses { origin, project } = self;
        match project {
            Some(project) => format!("{origin}{}", in_project(path, project)),
            None => format!("{origin}{path}"),
        }
    }

    /// The beginning of all of them.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl FromRequestParts<Arc<App>> for Addresses {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Addresses, Error> {
        let origin = Origin::from_request_parts(parts, app).await?;
        // Whoever only has a link is not told what the project is called.
        let entry = parts.extensions.get::<Entry>();
        let membership = entry.and_then(|entry| entry.membership.as_ref());
        let project = membership.map(|membership| membership.project.clone());
        Ok(Addresses { origin, project })
    }
}

/// The client of a request, and its connection.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The client.
    pub address: ClientAddress,
    /// The scheme, as far as a trusted proxy or the server's public address show it.
    pub scheme: Scheme,
    /// The address of this server to which the client connected.
    pub local: Option<IpAddr>,
    /// Whether a trusted proxy sent it.
    pub by_proxy: bool,
}

impl Client {
    /// The client of a request with these extensions; the guard sets it.
    pub fn of(extensions: &Extensions) -> Client {
        extensions.get().copied().unwrap_or(Client {
            address: ClientAddress::UNKNOWN,
            scheme: Scheme::Http,
            local: None,
            by_proxy: false,
        })
    }
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Client, Infallible> {
        Ok(Client::of(&parts.extensions))
    }
}

impl<S: Sync> FromRequestParts<S> for Host {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Host, Error> {
        let bad = |why: &str| Err(Error::BadRequest(why.to_owned()));
        let headers = parts.headers.get_all(axum::http::header::HOST).iter();
        let headers = headers.map(|value| value.to_str().unwrap_or_default());
        let mut named = headers.chain(parts.uri.authority().map(|a| a.as_str()));
        let Some(host) = named.next() else {
            return bad("the request names no host");
        };
        // With two different hosts, a proxy in between may believe another one than this server.
        if named.any(|other| !other.eq_ignore_ascii_case(host)) {
            return bad("the request names several hosts");
        }
        Ok(Host(host.to_owned()))
    }
}

/// An id in a path; an invalid one counts as that of something that does not exist.
fn id<I: FromStr>(text: &str, what: &str) -> Result<I, Error> {
    let missing = |_| Error::NotFound(format!("{what} {text}"));
    text.parse().map_err(missing)
}

/// A run id in a path.
pub fn run_id(text: &str) -> Result<RunId, Error> {
    id(text, "run")
}

/// An upload id in a path.
pub fn upload_id(text: &str) -> Result<UploadId, Error> {
    id(text, "upload")
}

/// A bench id in a path.
pub fn bench_id(text: &str) -> Result<BenchId, Error> {
    id(text, "bench")
}

/// The id of a bench's row in a path.
pub fn bench_row_id(text: &str) -> Result<BenchRowId, Error> {
    id(text, "bench row")
}

/// A session id in a path.
pub fn session_id(text: &str) -> Result<SessionId, Error> {
    id(text, "session")
}

/// A person's id in a path.
pub fn person_id(text: &str) -> Result<PersonId, Error> {
    id(text, "person")
}

/// A token's id in a path.
pub fn token_id(text: &str) -> Result<TokenId, Error> {
    id(text, "token")
}

/// A job id in a path.
pub fn job_id(text: &str) -> Result<JobId, Error> {
    id(text, "job")
}

/// A comparison id in a path.
pub fn comparison_id(text: &str) -> Result<ComparisonId, Error> {
    id(text, "comparison")
}

/// The runs of a comparison: 2 to 8 ids, separated by commas, the baseline first.
pub fn compared_runs(text: &str) -> Result<Vec<RunId>, Error> {
    let ids: Result<Vec<RunId>, Error> = text.split(',').map(run_id).collect();
    Ok(asked::compared(ids?)?)
}

/// A tile id in a path.
pub fn tile_id(level: u8, index: u32) -> Result<TileId, Error> {
    match level <= trace::tiles::MAX_LEVEL {
        true => Ok(TileId { level, index }),
        false => Err(Error::NotFound(format!("tile level {level}"))),
    }
}

/// A grouping in a query.
pub fn dimension(text: &str) -> Result<Dimension, Error> {
    Dimension::from_str(text).map_err(|error| Error::BadRequest(error.to_string()))
}

/// A grouping in a path.
pub fn group_by(text: &str) -> Result<GroupBy, Error> {
    GroupBy::from_str(text).map_err(|error| Error::BadRequest(error.to_string()))
}

/// The labels in a query, `label=key=value`, which may be repeated.
///
/// # Errors
/// When one is not valid, and when there are too many.
pub fn labels_of(query: &[(String, String)]) -> Result<Vec<Label>, Error> {
    let named = query.iter().filter(|(name, _)| name == labels::PARAMETER);
    let labels = named.map(|(_, text)| {
        let label: Result<Label, _> = text.parse();
        label.map_err(|error| Error::BadRequest(format!("label={text}: {error}")))
    });
    let labels: Vec<Label> = labels.collect::<Result<_, _>>()?;
    match labels.len() <= labels::MOST {
        true => Ok(labels),
        false => Err(Error::BadRequest(format!(
            "{} labels at most",
            labels::MOST
        ))),
    }
}
