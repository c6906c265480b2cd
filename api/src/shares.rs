//! Links that people pass on: what they open, for whom, and for how long.
//!
//! A *team link* is a short name for a view; opening it needs the access token, like any page. A
//! *capability link* carries a secret instead: anyone who has it may look at exactly one
//! run or comparison, and at nothing else, until it expires or is revoked.

use crate::compare_view::CompareState;
use crate::ids::{RunId, ShareId};
use crate::lacks::Lacks;
use crate::routes;
use crate::view_state::ViewState;
use serde::{Deserialize, Serialize};

/// What opens the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ShareKind {
    /// The server's access token, if it has one.
    Team,
    /// The link itself.
    Capability,
}

/// How much of the texts in the data the link shows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Redaction {
    /// Everything.
    #[default]
    None,
    /// What is known to be harmless; everything else has a stand-in (`trace::redact`).
    Redacted,
}

/// What the link opens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", try_from = "ReadTarget")]
pub enum ShareTarget {
    /// The page of a run.
    Run {
        /// The run.
        run: RunId,
    },
    /// The comparison of some runs.
    Comparison {
        /// The runs, baseline first.
        runs: Vec<RunId>,
    },
}

/// It as it is read; `crate::lacks` says why.
#[derive(Deserialize)]
struct ReadTarget {
    kind: TargetTag,
    run: Option<RunId>,
    runs: Option<Vec<RunId>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum TargetTag {
    Run,
    Comparison,
}

impl TryFrom<ReadTarget> for ShareTarget {
    type Error = Lacks;

    fn try_from(read: ReadTarget) -> Result<ShareTarget, Lacks> {
        Ok(match read.kind {
            TargetTag::Run => ShareTarget::Run {
                run: read.run.ok_or(Lacks("run"))?,
            },
            TargetTag::Comparison => ShareTarget::Comparison {
                runs: read.runs.ok_or(Lacks("runs"))?,
            },
        })
    }
}

impl ShareTarget {
    /// The runs that may be looked at.
    pub fn runs(&self) -> &[RunId] {
        match self {
            ShareTarget::Run { run } => std::slice::from_ref(run),
            ShareTarget::Comparison { runs } => runs,
        }
    }
}

/// Whether the link still opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ShareState {
    /// It does.
    Active,
    /// Its time is over.
    Expired,
    /// Someone revoked it.
    Revoked,
}

/// A link, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Share {
    /// Its short id; of a team link, also its address.
    pub id: ShareId,
    /// What opens it.
    pub kind: ShareKind,
    /// What it opens.
    pub target: ShareTarget,
    /// The view state, as the version that wrote it wrote it.
    pub query: String,
    /// How much it shows.
    pub redaction: Redaction,
    /// What it is for, in the words of its maker.
    pub note: String,
    /// When it was made, milliseconds since the epoch.
    pub created_ms: i64,
    /// Who made it: the name typed then; may be empty.
    pub created_by: String,
    /// When it ends, milliseconds since the epoch; `None`: never.
    pub expires_ms: Option<i64>,
    /// When it was revoked, milliseconds since the epoch.
    pub revoked_ms: Option<i64>,
    /// Who revoked it: the name typed then; may be empty.
    pub revoked_by: Option<String>,
    /// When it was last opened, milliseconds since the epoch.
    pub last_opened_ms: Option<i64>,
    /// Whether it opens now.
    pub state: ShareState,
}

impl Share {
    /// The state at a moment.
    pub fn state_at(revoked_ms: Option<i64>, expires_ms: Option<i64>, now_ms: i64) -> ShareState {
        match (revoked_ms, expires_ms) {
            (Some(_), _) => ShareState::Revoked,
            (None, Some(expires)) if expires <= now_ms => ShareState::Expired,
            (None, _) => ShareState::Active,
        }
    }
}

/// `POST` to make a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewShare {
    /// What opens it.
    pub kind: ShareKind,
    /// What it opens.
    pub target: ShareTarget,
    /// The view state: the query of the page.
    #[serde(default)]
    pub query: String,
    /// How much it shows; capability links only.
    #[serde(default)]
    pub redaction: Redaction,
    /// What it is for, at most [`NewShare::MAX_TEXT`] characters.
    #[serde(default)]
    pub note: String,
    /// Who makes it, at most [`NewShare::MAX_TEXT`] characters; shown to anyone who opens it.
    #[serde(default)]
    pub created_by: String,
    /// Seconds until it ends; `None`: never.
    #[serde(default)]
    pub expires_in_s: Option<u32>,
}

impl NewShare {
    /// Characters of a note or a name.
    pub const MAX_TEXT: usize = 200;
    /// Bytes of a view state.
    pub const MAX_QUERY: usize = 4096;
    /// Links of a project that open at the same time.
    pub const MOST_OPEN: u32 = 10_000;
    /// Runs of a comparison.
    pub const MAX_RUNS: usize = 8;
}

/// Answer to [`NewShare`]: the only time that the secret is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedShare {
    /// The link.
    pub share: Share,
    /// Its address, absolute.
    pub url: String,
}

/// `POST` by the page at `/s/…`: exchanges what is in its address for a session of that link.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenShare {
    /// The last part of the address: the secret, or the short id of a team link.
    pub token: String,
}

/// Texts before and after redaction, for the preview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RedactionPreview {
    /// Examples, the different kinds of text mixed.
    pub examples: Vec<RedactedText>,
    /// Distinct texts that change.
    pub changed: u32,
}

/// One text before and after redaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RedactedText {
    /// What it is: `name`, `file`, `function`, `scope`, `step`, `metadata`, `setting`, `finding`.
    pub what: String,
    /// As it is in the data.
    pub before: String,
    /// As a link shows it; the stand-ins of each link are its own.
    pub after: String,
}

/// The name of a run if its real name is redacted.
pub fn nameless(run: &RunId) -> String {
    let digits = run.as_str().trim_start_matches(RunId::PREFIX);
    format!("Run {}", digits.get(..6).unwrap_or(digits))
}

/// A view for people who may not see names: the searched text and keys that are made of names are
/// left out. The rest opens as before.
pub fn nameless_view(target: &ShareTarget, query: &str) -> String {
    match target {
        ShareTarget::Run { .. } => match ViewState::parse(query) {
            Ok((view, _)) => view.without_names().to_string(),
            Err(_) => String::new(),
        },
        ShareTarget::Comparison { runs } => {
            let parsed = CompareState::parse(query).unwrap_or_default();
            let runs = runs.clone();
            CompareState { runs, ..parsed.0 }
                .without_names()
                .to_string()
        }
    }
}

/// The page behind a link, for people who need no link.
pub fn page_of(target: &ShareTarget, query: &str) -> String {
    let path = match target {
        ShareTarget::Run { run } => routes::run_page(run),
        ShareTarget::Comparison { .. } => routes::COMPARE_PAGE.to_owned(),
    };
    match query {
        "" => path,
        query => format!("{path}?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revoked_is_said_before_expired() {
        let check = |revoked, expires, state| {
            assert_eq!(Share::state_at(revoked, expires, 100), state);
        };
        check(None, None, ShareState::Active);
        check(None, Some(101), ShareState::Active);
        check(None, Some(100), ShareState::Expired);
        check(Some(1), Some(50), ShareState::Revoked);
    }

    #[test]
    fn a_view_without_names_opens_what_it_did() {
        let target = ShareTarget::Run {
            run: "run_a".parse().unwrap(),
        };
        let check = |query: &str, expected: &str| {
            assert_eq!(nameless_view(&target, query), expected, "{query}");
        };
        check(
            "v=3&dev=1&from=2&to=9&sel=b7&tab=allocations&at=5&q=alice&site=s0123456789abcdef\
             &of=module:alice&pool=alice&min=4096&root=00ff00ff00ff00ff&alice=1",
            "v=5&dev=1&from=2&to=9&sel=b7&tab=allocations&at=5&min=4096",
        );
        check(
            "v=3&site=z4096&of=pool:small-0-1&pool=0-1",
            "v=5&site=z4096&of=pool%3Asmall-0-1&pool=0-1",
        );
        check("v=3&of=stream:alice", "v=5");
        check("v=4&steps=alice.main", "v=5");
        check("v=5&limit=9&gone=s0123456789abcdef", "v=5&limit=9");
        check("v=99&q=alice", "");
        let runs = ["run_a", "run_b"].map(|run| run.parse().unwrap()).to_vec();
        let comparison = ShareTarget::Comparison { runs };
        assert_eq!(
            nameless_view(
                &comparison,
                "v=1&runs=run_c,run_d&align=time&q=alice&sel=s01"
            ),
            "v=1&runs=run_a,run_b&align=time"
        );
    }

    #[test]
    fn a_run_without_a_name_is_called_by_its_id() {
        let run: RunId = "run_7DJu1SYFpHHXAclY".parse().unwrap();
        assert_eq!(nameless(&run), "Run 7DJu1S");
    }
}
