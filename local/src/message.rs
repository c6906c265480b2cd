//! What the page asks, and what it is told.

use crate::problems::{Refused, bad_request, unfit_document};
use answers::malformed::{in_words, not_json};
use api::problem::Problem;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use std::str::FromStr;

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
        let Placed(value) = read.map_err(|error| bad_request(in_words(&error.to_string())))?;
        value.map_err(|why| bad_request(in_words(&why)))
    }

    /// The document in the body.
    ///
    /// # Errors
    /// When it is malformed.
    pub fn sent<T: DeserializeOwned>(&self) -> Result<T, Refused> {
        let mut body = serde_json::Deserializer::from_str(&self.body);
        let value = serde_path_to_error::deserialize(&mut body);
        let value = value.map_err(|error| match error.inner().is_data() {
            true => unfit_document(in_words(&error.to_string())),
            false => bad_request(not_json(&error.to_string())),
        })?;
        let ended = body.end();
        ended.map_err(|error| bad_request(not_json(&error.to_string())))?;
        Ok(value)
    }
}

/// A number in a path; `name` is what the server calls that part.
///
/// # Errors
/// When it is none, in the words of the server.
pub fn in_path<T: FromStr>(text: &str, name: &str) -> Result<T, Refused> {
    // Of numbers of each size the same is said.
    let said = format!("Invalid URL: Cannot parse `{name}` with value `{text}` to a `u32`");
    text.parse().map_err(|_| bad_request(in_words(&said)))
}

/// A value, or which of its fields cannot be read and why, as the server says it.
struct Placed<T>(Result<T, String>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Placed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Placed<T>, D::Error> {
        let value = serde_path_to_error::deserialize(from);
        Ok(Placed(value.map_err(|error| error.to_string())))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only whether they can be read matters")]
    struct Fields {
        limit: Option<NonZeroUsize>,
        name: String,
    }

    fn refusal<T: std::fmt::Debug>(read: Result<T, Refused>) -> (u16, String) {
        let problem = read.expect_err("it is malformed");
        (problem.status, problem.detail)
    }

    #[test]
    fn a_malformed_query_names_the_field() {
        let check = |query: &str, expected: &str| {
            let request = Request {
                path: format!("/api/runs?{query}"),
                ..Request::default()
            };
            let said = refusal(request.asked::<Fields>());
            assert_eq!(said, (400, expected.to_owned()), "{query}");
        };
        check(
            "limit=x&name=a",
            "`limit` must be a whole number, 0 or more",
        );
        check(
            "name=a&limit=0",
            "`limit` cannot be integer `0`; it must be a whole number above 0",
        );
        check("limit=1", "there must be a field `name`");
        check("name=a&name=b", "there are two fields `name`");
    }

    #[test]
    fn a_path_says_which_of_its_numbers_cannot_be_read() {
        let refused = refusal(in_path::<u8>("300", "level"));
        let said = "the address: cannot read `level` with value `300` as a whole number";
        assert_eq!(refused, (400, said.to_owned()));
        assert_eq!(in_path::<u32>("300", "block"), Ok(300));
    }

    #[test]
    fn a_malformed_document_is_told_from_one_of_another_form() {
        let check = |body: &str, status: u16, begins: &str| {
            let request = Request {
                body: body.to_owned(),
                ..Request::default()
            };
            let (found, said) = refusal(request.sent::<Fields>());
            assert!(
                found == status && said.starts_with(begins),
                "{body}: {said}"
            );
        };
        check("{", 400, "the body is not JSON: ");
        check(r#"{"name": "a"} x"#, 400, "the body is not JSON: ");
        check(r#"{"limit": 1}"#, 422, "there must be a field `name`");
        check(
            r#"{"name": 1}"#,
            422,
            "`name` cannot be integer `1`; it must be a string",
        );
    }
}
