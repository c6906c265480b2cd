//! Finds the pull request from its address, and the API of its forge.

use crate::who::host_names::Authority;

/// Which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forge {
    /// GitHub, or GitHub Enterprise.
    GitHub,
    /// GitLab, on any host.
    GitLab,
}

/// A pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// Whose protocol its forge speaks.
    pub forge: Forge,
    /// The beginning of the API's addresses, without a slash at the end.
    pub api: String,
    /// `owner/name`; at GitLab with all groups.
    pub repository: String,
    /// Its number in the repository.
    pub number: u64,
}

/// Why an address is not that of a pull request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPlace {
    /// It has another form.
    #[error(
        "{0} is not the address of a pull request: expected https://github.com/OWNER/NAME/pull/7 \
         or https://gitlab.com/GROUP/NAME/-/merge_requests/7"
    )]
    Shape(String),
    /// The connection is not encrypted: others could read the token.
    #[error("{0} is not https: the token would be sent in the clear")]
    Clear(String),
}

impl PullRequest {
    /// The pull request at an address. `api` gives the forge's API if it is in another place.
    ///
    /// # Errors
    /// [`BadPlace`].
    pub fn at(address: &str, api: Option<&str>) -> Result<PullRequest, BadPlace> {
        let shape = || BadPlace::Shape(address.to_owned());
        let (scheme, rest) = address.split_once("://").ok_or_else(shape)?;
        let rest = rest.split(['?', '#']).next().unwrap_or(rest);
        let (host, path) = rest.split_once('/').ok_or_else(shape)?;
        Authority::parse(host).ok_or_else(shape)?;
        let (forge, repository, tail) = match path.split_once("/-/merge_requests/") {
            Some((repository, tail)) => (Forge::GitLab, repository, tail),
            None => {
                let (repository, tail) = path.split_once("/pull/").ok_or_else(shape)?;
                (Forge::GitHub, repository, tail)
            }
        };
        // The tabs of a pull request have addresses of their own.
        let number = tail.split('/').next().and_then(|n| n.parse().ok());
        let number = number.ok_or_else(shape)?;
        let parts: Vec<&str> = repository.split('/').collect();
        let plain = |part: &&str| {
            let is_plain = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
            !part.is_empty() && !part.starts_with("..") && part.chars().all(is_plain)
        };
        let depth_fits = match forge {
            Forge::GitHub => parts.len() == 2,
            Forge::GitLab => parts.len() >= 2,
        };
        if !depth_fits || !parts.iter().all(plain) {
            return Err(shape());
        }
        let api = match api {
            Some(api) => api.trim_end_matches('/').to_owned(),
            None => default_api(forge, scheme, host),
        };
        if !is_private(&api) {
            return Err(BadPlace::Clear(api));
        }
        Ok(PullRequest {
            forge,
            api,
            repository: repository.to_owned(),
            number,
        })
    }

    /// The variable in which its forge's own CI has a token.
    pub fn token_variable(&self) -> &'static str {
        match self.forge {
            Forge::GitHub => "GITHUB_TOKEN",
            Forge::GitLab => "GITLAB_TOKEN",
        }
    }

    /// The host that receives the requests.
    pub fn host(&self) -> &str {
        let rest = self.api.split_once("://").map_or("", |(_, rest)| rest);
        rest.split('/').next().unwrap_or(rest)
    }
}

fn default_api(forge: Forge, scheme: &str, host: &str) -> String {
    match (forge, host) {
        (Forge::GitHub, "github.com" | "www.github.com") => "https://api.github.com".to_owned(),
        (Forge::GitHub, _) => format!("{scheme}://{host}/api/v3"),
        (Forge::GitLab, _) => format!("{scheme}://{host}/api/v4"),
    }
}

/// Whether nobody on the way can read the requests.
fn is_private(api: &str) -> bool {
    match api.split_once("://") {
        Some(("https", _)) => true,
        Some(("http", rest)) => {
            let host = rest.split('/').next().and_then(Authority::parse);
            host.is_some_and(|host| host.is_loopback())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_requests_are_known_by_their_addresses() {
        let check = |address: &str, api: Option<&str>, expected: (Forge, &str, &str, u64)| {
            let found = PullRequest::at(address, api).expect(address);
            let (forge, api, repository, number) = expected;
            let expected = PullRequest {
                forge,
                api: api.to_owned(),
                repository: repository.to_owned(),
                number,
            };
            assert_eq!(found, expected, "{address}");
        };
        let github = |n| (Forge::GitHub, "https://api.github.com", "a/b.c", n);
        check("https://github.com/a/b.c/pull/7", None, github(7));
        check("https://github.com/a/b.c/pull/7/files#x", None, github(7));
        check(
            "https://git.example/a/b/pull/1",
            None,
            (Forge::GitHub, "https://git.example/api/v3", "a/b", 1),
        );
        check(
            "https://gitlab.com/g/h/p/-/merge_requests/12/diffs?x=1",
            None,
            (Forge::GitLab, "https://gitlab.com/api/v4", "g/h/p", 12),
        );
        check(
            "https://github.com/a/b/pull/7",
            Some("http://127.0.0.1:5/"),
            (Forge::GitHub, "http://127.0.0.1:5", "a/b", 7),
        );
    }

    #[test]
    fn nothing_else_is_taken_for_one() {
        for bad in [
            "",
            "7",
            "github.com/a/b/pull/7",
            "https://github.com/a/b/issues/7",
            "https://github.com/a/pull/7",
            "https://github.com/a/b/c/pull/7",
            "https://github.com/../b/pull/7",
            "https://github.com/a/b%2f/pull/7",
            "https://github.com/a/b/pull/x",
            "https://me@github.com/a/b/pull/7",
            "https://gitlab.com/p/-/merge_requests/1",
        ] {
            let found = PullRequest::at(bad, None);
            assert!(matches!(found, Err(BadPlace::Shape(_))), "{bad}: {found:?}");
        }
        for clear in [
            "http://git.example/a/b/pull/7",
            "ftp://git.example/a/b/pull/7",
        ] {
            let found = PullRequest::at(clear, None);
            assert!(
                matches!(found, Err(BadPlace::Clear(_))),
                "{clear}: {found:?}"
            );
        }
    }
}
