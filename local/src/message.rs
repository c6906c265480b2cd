//! What the page asks, and what it is told.

use crate::problems::{Refused, bad_request};
use api::problem::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The media type of documents.
pub const JSON: &str = "application/json";
/// The media type of pages of Markdown.
pub const MARKDOWN: &str = "text/markdown; charset=utf-8";
/// The media type of tiles.
pub const TILE: &str = "application/vnd.tidemark.tile";
/// The media type of problems.
const PROBLEM: &str = "application/problem+json";

/// A request of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The media types that the page takes, the preferred one first.
    pub accept: String,
    /// The body, if there is one.
    pub body: String,
    /// Scheme and host of the page, for links.
    pub origin: String,
    /// Scheme and host of the server that makes links for this tab, if the page knows one.
    pub server: Option<String>,
    /// Milliseconds since the epoch.
    pub now_ms: i64,
}

impl Request {
    /// The path without its query.
    pub fn place(&self) -> &str {
        self.path
            .split_once('?')
            .map_or(&self.path, |(path, _)| path)
    }

    /// The query.
    pub fn query(&self) -> &str {
        self.path.split_once('?').map_or("", |(_, query)| query)
    }

    /// The query's values.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn asked<T: DeserializeOwned>(&self) -> Result<T, Refused> {
        let read = serde_urlencoded::from_str(self.query());
        read.map_err(|error| bad_request(format!("Failed to deserialize query string: {error}")))
    }

    /// The document in the body.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn sent<T: DeserializeOwned>(&self) -> Result<T, Refused> {
        let read = serde_json::from_str(&self.body);
        read.map_err(|error| bad_request(error.to_string()))
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status that a server would send.
    pub status: u16,
    /// The media type.
    pub kind: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// A document.
    pub fn json(value: &impl Serialize) -> Response {
        Response::with(200, JSON, value)
    }

    /// The document of something new.
    pub fn created(value: &impl Serialize) -> Response {
        Response::with(201, JSON, value)
    }

    /// Nothing to say.
    pub fn empty() -> Response {
        Response {
            status: 204,
            kind: JSON,
            body: Vec::new(),
        }
    }

    /// Bytes of some kind.
    pub fn bytes(kind: &'static str, body: Vec<u8>) -> Response {
        Response {
            status: 200,
            kind,
            body,
        }
    }

    /// A refusal.
    pub fn problem(problem: &Problem) -> Response {
        Response::with(problem.status, PROBLEM, problem)
    }

    fn with(status: u16, kind: &'static str, value: &impl Serialize) -> Response {
        Response {
            status,
            kind,
            body: serde_json::to_vec(value).expect("answers are plain data"),
        }
    }
}
