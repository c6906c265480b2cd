//! `--comment`: posts the result of a command to its pull request.

use super::CliError;
use super::output::tell;
use crate::forge::{self, ForgeError, Posted, PullRequest, Status, Verdict};
use api::compare::{PULL_REQUEST_RULE, pull_request};
use clap::Args;
use trace::compare::gate::{Outcome, Verdicts};

/// Where to post, and with which right.
#[derive(Args)]
pub struct CommentArgs {
    /// The pull request at GitHub, or merge request at GitLab, that the comparison is for
    #[arg(long, value_name = "URL")]
    pub pr: Option<String>,
    /// Write the result as a comment on it (one, updated each time) and as its commit's status;
    /// the token comes from TIDEMARK_PR_TOKEN, GITHUB_TOKEN or GITLAB_TOKEN
    #[arg(long, requires = "pr")]
    comment: bool,
    /// Address of the forge's API; default: from CI or from the pull request's address
    #[arg(long, value_name = "URL", requires = "comment")]
    pr_api: Option<String>,
}

/// A pull request to write to.
pub struct Thread {
    place: PullRequest,
    token: String,
}

impl CommentArgs {
    /// The pull request, if something must be posted there. This is checked before any work is
    /// done.
    ///
    /// # Errors
    /// [`CliError::Usage`] if the address is not valid, or there is no token.
    pub fn thread(&self) -> Result<Option<Thread>, CliError> {
        let pr = self.pr.as_deref();
        if pr.is_some_and(|pr| pull_request(pr).is_none()) {
            return Err(CliError::Usage(format!("--pr: {PULL_REQUEST_RULE}")));
        }
        let Some(address) = self.pr.as_ref().filter(|_| self.comment) else {
            return Ok(None);
        };
        let api = self.pr_api.clone().or_else(|| api_of_ci(address));
        let place = PullRequest::at(address, api.as_deref());
        let place = place.map_err(|error| CliError::Usage(format!("--pr: {error}")))?;
        let names = ["TIDEMARK_PR_TOKEN", place.token_variable()];
        let mut tokens = names.iter().filter_map(|name| std::env::var(name).ok());
        let token = tokens.find(|token| !token.is_empty()).ok_or_else(|| {
            CliError::Usage(format!(
                "--comment needs a token that may write comments and statuses: set {}",
                names.join(" or ")
            ))
        })?;
        Ok(Some(Thread { place, token }))
    }
}

/// The API address that CI gives for its own forge, if the pull request is there.
fn api_of_ci(address: &str) -> Option<String> {
    let forges = [
        ("GITHUB_SERVER_URL", "GITHUB_API_URL"),
        ("CI_SERVER_URL", "CI_API_V4_URL"),
    ];
    let here = forges.into_iter().find(|(server, _)| {
        let server = std::env::var(server).unwrap_or_default();
        let rest = address.strip_prefix(server.trim_end_matches('/'));
        !server.is_empty() && rest.is_some_and(|rest| rest.starts_with('/'))
    });
    std::env::var(here?.1).ok()
}

impl Thread {
    /// Writes the comment and sets the status. If the forge cannot be reached or refuses, that is
    /// printed, but changes no verdict: the command's exit status is about memory.
    pub fn post(&self, text: &str, status: &Status) {
        match self.try_post(text, status) {
            Ok(Posted::New) => tell("commented on the pull request"),
            Ok(Posted::Updated) => tell("updated the comment on the pull request"),
            Err(error) => tell(&format!("cannot write to the pull request: {error}")),
        }
    }

    fn try_post(&self, text: &str, status: &Status) -> Result<Posted, ForgeError> {
        let posted = forge::comment(&self.place, &self.token, text)?;
        forge::status(&self.place, &self.token, status)?;
        Ok(posted)
    }
}

/// The worst of several verdicts: one regression is enough.
pub fn status<'v>(verdicts: impl Iterator<Item = &'v Verdicts>, link: Option<String>) -> Status {
    let severity = |verdicts: &&Verdicts| match verdicts.outcome {
        Outcome::Pass => 0,
        Outcome::CannotTell => 1,
        Outcome::Regression => 2,
    };
    let worst = verdicts.max_by_key(severity);
    Status {
        verdict: match worst.map(|worst| worst.outcome) {
            Some(Outcome::Pass) => Verdict::Pass,
            Some(Outcome::Regression) => Verdict::Regression,
            Some(Outcome::CannotTell) | None => Verdict::CannotTell,
        },
        reason: worst.map_or_else(String::new, |worst| worst.reason.clone()),
        link,
    }
}
