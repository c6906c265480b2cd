//! Pull requests at GitHub, and merge requests at GitLab: one comment that is kept up to date, and
//! the status of the commit.
//!
//! ```text
//! place     which pull request: from its address
//! api       what the two call the same things
//! ```
//!
//! Sources: GitHub REST API, "Issue comments", "Commit statuses", "Pulls"
//! (docs.github.com/en/rest); GitLab REST API, "Notes", "Commits", "Merge requests"
//! (docs.gitlab.com/api).

mod api;
mod place;

pub use place::PullRequest;

use self::api::Api;
use trace::clip::clipped;

/// Begins the comment that is ours.
const MARK: &str = "<!-- tidemark -->";
/// Bytes of a comment: GitHub takes 65,536 characters.
const LONGEST: usize = 60_000;
/// Pages of a hundred comments that are looked through for ours.
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
    /// Green, or not.
    pub verdict: Verdict,
    /// Why, in one line.
    pub reason: String,
    /// What is opened by a click on it.
    pub link: Option<String>,
}

/// Why nothing was posted.
#[derive(Debug, thiserror::Error)]
pub enum ForgeError {
    /// The forge cannot be reached.
    #[error("cannot reach {host}: {why}")]
    Unreachable {
        /// Where it was looked for.
        host: String,
        /// What the network says.
        why: String,
    },
    /// It says no.
    #[error("{host} answered {status} to {what}{hint}")]
    Refused {
        /// Which forge.
        host: String,
        /// Its answer.
        status: u16,
        /// What was asked for.
        what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// It answers something else than the protocol has.
    #[error("{host} does not answer like {name}: {what} came back without {missing}")]
    Strange {
        /// Where.
        host: String,
        /// What it should be.
        name: &'static str,
        /// What was asked for.
        what: &'static str,
        /// What is not in it.
        missing: &'static str,
    },
}

/// Whether the comment is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It was not there before.
    New,
    /// It was there, and says the new thing now.
    Updated,
}

/// Posts the comment, or updates the one that is there, so that a pull request has one.
///
/// # Errors
/// What the forge says, and what to do.
pub fn comment(place: &PullRequest, token: &str, text: &str) -> Result<Posted, ForgeError> {
    let api = Api::new(place, token);
    let body = format!("{MARK}\n{}", clipped(text, LONGEST));
    if update_first(&api, &body)?.is_some() {
        return Ok(Posted::Updated);
    }
    let ours = api.create(&body)?;
    // Another job of the same push may have done so at the same time: the older one stays.
    match update_first(&api, &body)? {
        Some(oldest) if oldest != ours => {
            api.delete(ours)?;
            Ok(Posted::Updated)
        }
        _ => Ok(Posted::New),
    }
}

/// Updates the first comment with our mark that this token may write; its number.
fn update_first(api: &Api<'_>, body: &str) -> Result<Option<u64>, ForgeError> {
    for page in 1..=MOST_PAGES {
        let comments = api.comments(page)?;
        for comment in comments.iter().filter(|one| one.body.starts_with(MARK)) {
            match api.update(comment.id, body) {
                Ok(()) => return Ok(Some(comment.id)),
                // Somebody else's, who copied the mark.
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
