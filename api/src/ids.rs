//! Public ids: opaque strings with a prefix that shows their kind.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Text that is not an id of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not {kind}: expected `{prefix}` and letters or digits")]
pub struct BadId {
    kind: &'static str,
    prefix: &'static str,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(
            Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(try_from = "String", into = "String")]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String))]
        pub struct $name(String);

        impl $name {
            /// Its prefix.
            pub const PREFIX: &'static str = $prefix;

            /// The text, with its prefix.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<$name, BadId> {
                let bad = BadId { kind: $kind, prefix: $prefix };
                let rest = text.strip_prefix($prefix).ok_or(bad.clone())?;
                let fits = (1..=64).contains(&rest.len())
                    && rest.bytes().all(|b| b.is_ascii_alphanumeric());
                if fits { Ok($name(text.to_owned())) } else { Err(bad) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;
            fn try_from(text: String) -> Result<$name, BadId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

id!(
    /// A run: one upload or one engine run, with everything derived from it.
    RunId, "run_", "a run id"
);
id!(
    /// An upload in progress, or finished.
    UploadId, "upl_", "an upload id"
);
id!(
    /// A link that was handed on. It names the link and opens nothing by itself.
    ShareId, "shr_", "a link id"
);
id!(
    /// A bench: rows that were asked for together.
    BenchId, "ben_", "a bench id"
);
id!(
    /// A job: the runs of all ranks of one program.
    JobId, "job_", "a job id"
);
id!(
    /// One row of a bench.
    BenchRowId, "row_", "a bench row id"
);
id!(
    /// A browser that is signed in. It names the session and opens nothing by itself.
    SessionId, "ses_", "a session id"
);
id!(
    /// A person who may sign in.
    PersonId, "per_", "a person's id"
);
id!(
    /// A token of a person. It names the token and opens nothing by itself.
    TokenId, "tok_", "a token's id"
);
id!(
    /// A saved view.
    ViewId, "view_", "a view's id"
);
id!(
    /// A training that reports while it runs.
    LiveId, "live_", "a live run's id"
);
id!(
    /// A comparison that was recorded.
    ComparisonId, "cmp_", "a comparison id"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_prefixed_alphanumerics_are_ids() {
        let check = |text: &str, ok: bool| assert_eq!(text.parse::<RunId>().is_ok(), ok, "{text}");
        check("run_7Kq", true);
        check("run_", false);
        check("upl_7Kq", false);
        check("run_../etc", false);
    }
}
