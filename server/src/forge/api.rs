//! The requests: the same six for both forges, under different names.

use super::place::Forge;
use super::{ForgeError, PullRequest, Status, Verdict, Writer};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::time::Duration;
use trace::clip::clipped;
use ureq::http::{Method, Request};
use ureq::{Agent, Body};

/// Comments on a page.
pub const PAGE: usize = 100;
/// Bytes of an answer: a hundred of the longest comments.
const LARGEST: u64 = 16 << 20;
/// Longest status, bytes: GitHub takes 140 characters, GitLab 255.
const LONGEST_STATUS: usize = 140;
/// The name of our statuses.
const CONTEXT: &str = "tidemark";

/// An existing comment.
pub struct Comment {
    /// The forge's number.
    pub id: u64,
    /// As it was written.
    pub body: String,
    /// The number of its author.
    pub author: Option<u64>,
    /// Whether a program is the author, which no person can be.
    pub is_by_program: bool,
}

/// A pull request, and the right to write there.
pub struct Api<'a> {
    agent: Agent,
    place: &'a PullRequest,
    token: &'a str,
}

impl<'a> Api<'a> {
    pub fn new(place: &'a PullRequest, token: &'a str) -> Api<'a> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // Redirects are not followed, so that the token goes only where it was meant to go.
            .max_redirects(0)
            .timeout_global(Some(Duration::from_secs(30)))
            .user_agent(concat!("tidemark/", env!("CARGO_PKG_VERSION")));
        Api {
            agent: config.build().new_agent(),
            place,
            token,
        }
    }

    /// Who writes with this token.
    pub fn writer(&self) -> Result<Writer, ForgeError> {
        match self.ask("its own user", Method::GET, "/user", None) {
            Ok(user) => Ok(user["id"].as_u64().map_or(Writer::Unknown, Writer::User)),
            // The token of an action, or one that may do little else than write comments.
            Err(ForgeError::Refused {
                status: 403 | 404, ..
            }) => Ok(match self.place.forge {
                Forge::GitHub => Writer::Program,
                Forge::GitLab => Writer::Unknown,
            }),
            Err(error) => Err(error),
        }
    }

    /// A page of comments, the oldest first; pages count from 1.
    pub fn comments(&self, page: u32) -> Result<Vec<Comment>, ForgeError> {
        let more = match self.place.forge {
            Forge::GitHub => "",
            Forge::GitLab => "&sort=asc&order_by=created_at",
        };
        let path = format!("{}?per_page={PAGE}&page={page}{more}", self.thread());
        let answer = self.ask("the comments", Method::GET, &path, None)?;
        let list = answer
            .as_array()
            .ok_or_else(|| self.strange("the comments", "a list"))?;
        let comment = |value: &Value| {
            let body = value["body"].as_str().unwrap_or_default().to_owned();
            let author = match self.place.forge {
                Forge::GitHub => &value["user"],
                Forge::GitLab => &value["author"],
            };
            let id = value["id"].as_u64();
            let id = id.ok_or_else(|| self.strange("a comment", "an id"))?;
            Ok(Comment {
                id,
                body,
                author: author["id"].as_u64(),
                is_by_program: author["type"] == "Bot",
            })
        };
        list.iter().map(comment).collect()
    }

    /// Writes a comment; returns its number.
    pub fn create(&self, body: &str) -> Result<u64, ForgeError> {
        let what = "a new comment";
        let body = json!({ "body": body });
        let answer = self.ask(what, Method::POST, &self.thread(), Some(&body))?;
        answer["id"]
            .as_u64()
            .ok_or_else(|| self.strange(what, "an id"))
    }

    /// Replaces the text of a comment.
    pub fn update(&self, id: u64, body: &str) -> Result<(), ForgeError> {
        let method = match self.place.forge {
            Forge::GitHub => Method::PATCH,
            Forge::GitLab => Method::PUT,
        };
        let body = json!({ "body": body });
        let done = self.ask("a changed comment", method, &self.one(id), Some(&body));
        done.map(|_| ())
    }

    /// Deletes a comment.
    pub fn delete(&self, id: u64) -> Result<(), ForgeError> {
        let done = self.ask("a deletion", Method::DELETE, &self.one(id), None);
        done.map(|_| ())
    }

    /// The last commit of the pull request.
    pub fn head(&self) -> Result<String, ForgeError> {
        let number = self.place.number;
        let what = "the pull request";
        let (path, place) = match self.place.forge {
            Forge::GitHub => (format!("{}/pulls/{number}", self.repository()), "/head/sha"),
            Forge::GitLab => (
                format!("{}/merge_requests/{number}", self.repository()),
                "/sha",
            ),
        };
        let answer = self.ask(what, Method::GET, &path, None)?;
        let commit = answer.pointer(place).and_then(Value::as_str);
        let is_hash = |hash: &&str| {
            (7..=64).contains(&hash.len()) && hash.bytes().all(|b| b.is_ascii_hexdigit())
        };
        let commit = commit.filter(is_hash).map(str::to_owned);
        commit.ok_or_else(|| self.strange(what, "its last commit"))
    }

    /// Sets the status of a commit.
    pub fn set_status(&self, commit: &str, status: &Status) -> Result<(), ForgeError> {
        let (state, name) = match (self.place.forge, status.verdict) {
            (_, Verdict::Pass) => ("success", ""),
            (Forge::GitHub, Verdict::Regression) => ("failure", ""),
            (Forge::GitHub, Verdict::CannotTell) => ("error", "cannot tell: "),
            (Forge::GitLab, Verdict::Regression) => ("failed", ""),
            // GitLab has no third status that ends a check.
            (Forge::GitLab, Verdict::CannotTell) => ("failed", "cannot tell: "),
        };
        let label = match self.place.forge {
            Forge::GitHub => "context",
            Forge::GitLab => "name",
        };
        let reason = format!("{name}{}", status.reason);
        let mut body = json!({
            "state": state, label: CONTEXT, "description": clipped(&reason, LONGEST_STATUS),
        });
        if let Some(link) = &status.link {
            body["target_url"] = json!(link);
        }
        let path = format!("{}/statuses/{commit}", self.repository());
        let set = self.ask("a commit status", Method::POST, &path, Some(&body));
        set.map(|_| ())
    }

    fn repository(&self) -> String {
        let name = &self.place.repository;
        match self.place.forge {
            Forge::GitHub => format!("/repos/{name}"),
            Forge::GitLab => {
                let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
                format!("/projects/{name}")
            }
        }
    }

    /// The address at which comments are listed and made.
    fn thread(&self) -> String {
        let (repository, number) = (self.repository(), self.place.number);
        match self.place.forge {
            Forge::GitHub => format!("{repository}/issues/{number}/comments"),
            Forge::GitLab => format!("{repository}/merge_requests/{number}/notes"),
        }
    }

    fn one(&self, id: u64) -> String {
        match self.place.forge {
            Forge::GitHub => format!("{}/issues/comments/{id}", self.repository()),
            Forge::GitLab => format!("{}/{id}", self.thread()),
        }
    }

    fn strange(&self, what: &'static str, missing: &'static str) -> ForgeError {
        ForgeError::Strange {
            host: self.place.host().to_owned(),
            name: match self.place.forge {
                Forge::GitHub => "GitHub",
                Forge::GitLab => "GitLab",
            },
            what,
            missing,
        }
    }

    fn ask(
        &self,
        what: &'static str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, ForgeError> {
        let host = || self.place.host().to_owned();
        let unreachable = |why: String| ForgeError::Unreachable { host: host(), why };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.place.api))
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", "application/json")
            .header("content-type", "application/json");
        let text = body.map_or_else(String::new, ToString::to_string);
        let request = request
            .body(text)
            .map_err(|error| unreachable(error.to_string()))?;
        let mut answer = self
            .agent
            .run(request)
            .map_err(|error| unreachable(error.to_string()))?;
        let status = answer.status().as_u16();
        if !answer.status().is_success() {
            return Err(ForgeError::Refused {
                host: host(),
                status,
                what,
                hint: hint(status),
            });
        }
        read(answer.body_mut()).map_err(unreachable)
    }
}

/// An answer; `null` if it is empty, as after a deletion.
fn read(body: &mut Body) -> Result<Value, String> {
    let text = body.with_config().limit(LARGEST).read_to_string();
    let text = text.map_err(|error| error.to_string())?;
    match text.is_empty() {
        true => Ok(Value::Null),
        false => serde_json::from_str(&text).map_err(|_| "its answer is no JSON".to_owned()),
    }
}

/// What to do about an answer.
fn hint(status: u16) -> &'static str {
    match status {
        401 => "; the token is wrong or has expired",
        403 => "; the token may not write comments and statuses there",
        404 => "; there is no such pull request, or the token may not see it",
        429 => "; too many requests, try again later",
        _ => "",
    }
}
