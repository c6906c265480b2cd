//! Pull requests at GitHub, and merge requests at GitLab: one comment that is kept up to date, and
//! the status of the commit.
//!
//! ```text
//! place     which pull request: from its address
//! api       the requests, which the two forges name differently
//! ```
//!
//! Sources: GitHub REST API, "Issue comments", "Commit statuses", "Pulls"
//! (docs.github.com/en/rest); GitLab REST API, "Notes", "Commits", "Merge requests"
//! (docs.gitlab.com/api).

mod api;
mod place;

pub use place::PullRequest;

use self::api::{Api, Comment};
use trace::clip::clipped;

/// The first line of our comment.
const MARK: &str = "<!-- tidemark -->";
/// Bytes of a comment: GitHub takes 65,536 characters.
const LONGEST: usize = 60_000;
/// How many pages of a hundred comments are searched for ours.
const MOST_PAGES: u32 = 50;

/// What a commit's status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may be merged.
    Pass,
    /// It should not be.
    Regression,
    /// The data do not say.
    CannotTell,
}

/// The status of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The result.
    pub verdict: Verdict,
    /// Why, in one line.
    pub reason: String,
    /// The page that a click on it opens.
    pub link: Option<String>,
}

/// Why nothing was posted.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// The forge cannot be reached.
    #[error("cannot reach {host}: {why}")]
    Unreachable {
        /// The host that was tried.
        host: String,
        /// What the network says.
        why: String,
    },
    /// It refuses.
    #[error("{host} answered {status} to {what}{hint}")]
    Refused {
        /// Which forge.
        host: String,
        /// Its answer.
        status: u16,
        /// The request that was made.
        what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// Its answer does not match the protocol.
    #[error("{host} does not answer like {name}: {what} came back without {missing}")]
    Strange {
        /// Where.
        host: String,
        /// Which forge it should be.
        name: &'static str,
        /// The request that was made.
        what: &'static str,
        /// What is missing in the answer.
        missing: &'static str,
    },
}

/// Whether the comment is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It was not there before.
    New,
    /// It existed, and has the new text now.
    Updated,
}

/// Posts the comment. If there is one already, updates it, so that a pull request has only one.
///
/// # Errors
/// What the forge says, and what to do.
pub fn comment(place: &PullRequest, token: &str, text: &str) -> Result<Posted, ForgeError> {
    let api = Api::new(place, token);
    let body = format!("{MARK}\n{}", clipped(text, LONGEST));
    let writer = api.writer()?;
    if update_first(&api, writer, &body)?.is_some() {
        return Ok(Posted::Updated);
    }
    let ours = api.create(&body)?;
    // Another job of the same push may have posted at the same time: the older comment stays.
    match update_first(&api, writer, &body)? {
        Some(oldest) if oldest != ours => {
            api.delete(ours)?;
            Ok(Posted::Updated)
        }
        _ => Ok(Posted::New),
    }
}

/// Who writes with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// The user with this number.
    User(u64),
    /// A program, as the token that GitHub gives to an action: it has no user.
    Program,
    /// The forge does not say.
    Unknown,
}

impl Writer {
    /// Whether it has written a comment. The mark alone says little: with the right to write to a
    /// repository, GitHub lets a token change what others wrote, and they could change it back.
    fn wrote(self, comment: &Comment) -> bool {
        match self {
            Writer::User(user) => comment.author == Some(user),
            Writer::Program => comment.is_by_program,
            Writer::Unknown => true,
        }
    }
}

/// Updates the first comment that has our mark and that this token has written; returns its number.
fn update_first(api: &Api<'_>, writer: Writer, body: &str) -> Result<Option<u64>, ForgeError> {
    let is_ours = |one: &&Comment| one.body.starts_with(MARK) && writer.wrote(one);
    for page in 1..=MOST_PAGES {
        let comments = api.comments(page)?;
        for comment in comments.iter().filter(is_ours) {
            match api.update(comment.id, body) {
                Ok(()) => return Ok(Some(comment.id)),
                // It belongs to somebody else, who copied the mark.
                Err(ForgeError::Refused {
                    status: 403 | 404, ..
                }) => {}
                Err(error) => return Err(error),
            }
        }
        if comments.len() < api::PAGE {
            break;
        }
    }
    Ok(None)
}

/// Sets the status of the pull request's last commit.
///
/// # Errors
/// What the forge says, and what to do.
pub fn status(place: &PullRequest, token: &str, status: &Status) -> Result<(), ForgeError> {
    let api = Api::new(place, token);
    let commit = api.head()?;
    api.set_status(&commit, status)
}
