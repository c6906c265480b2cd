//! Projects: recordings that belong together, with people of their own.
//!
//! A server begins with one project, [`ProjectName::MAIN`]. What is in one project cannot be seen
//! from another one.

use crate::ids::PersonId;
use crate::people::Role;
pub use crate::project_name::{BadProjectName, ProjectName};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use trace::units::Bytes;

/// The header with which a request names its project. Without it, the server finds the project by
/// what the address names, or takes the one that the browser showed last.
pub const HEADER: &str = "tidemark-project";

/// The same in a query, for requests that cannot send headers.
pub const PARAMETER: &str = "project";

/// The cookie with the project that the browser showed last.
pub const COOKIE: &str = "tidemark_project";

/// An address with the project in its query, unless it names one already.
pub fn in_project(address: &str, project: &ProjectName) -> String {
    in_project_between(address, project, "&")
}

/// The same with this text between the pairs of the query: in HTML, `&` is `&amp;`.
pub fn in_project_between(address: &str, project: &ProjectName, and: &str) -> String {
    let (before, fragment) = address.split_at(address.find('#').unwrap_or(address.len()));
    let query = before.split_once('?').map(|(_, query)| query);
    match query {
        Some(query) if value_of(query, and).is_some() => address.to_owned(),
        Some(_) => format!("{before}{and}{PARAMETER}={project}{fragment}"),
        None => format!("{before}?{PARAMETER}={project}{fragment}"),
    }
}

/// The project that an address names in its query.
pub fn named_by(address: &str) -> Option<ProjectName> {
    let before = address.split('#').next()?;
    let (_, query) = before.split_once('?')?;
    value_of(query, "&")?.parse().ok()
}

fn value_of<'a>(query: &'a str, and: &str) -> Option<&'a str> {
    let mut pairs = query.split(and);
    let pair = pairs.find(|pair| pair.split('=').next() == Some(PARAMETER))?;
    Some(pair.split_once('=').map_or("", |(_, value)| value))
}

/// A project, as somebody sees it who may enter it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Project {
    /// Its name.
    pub name: ProjectName,
    /// What whoever asks may do in it.
    pub role: Role,
    /// When it was made; 0 for the first one.
    pub created_ms: i64,
    /// When it was closed. Nobody enters a closed project.
    pub closed_ms: Option<i64>,
    /// How it is kept.
    pub settings: ProjectSettings,
    /// Runs that are listed.
    pub runs: u64,
    /// Its stored files and its database, on disk.
    pub used: Bytes,
    /// Why it cannot be opened, although it is not closed. Nobody enters it, and what it holds is
    /// not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// How a project is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProjectSettings {
    /// What everybody may do in it who is not a guest of the server, unless they are members with
    /// another role; nothing, unless given.
    pub everybody: Option<Role>,
    /// The most that it may take on disk.
    pub quota: Option<Bytes>,
    /// Which runs stay; all, unless given.
    pub keep: Option<Keep>,
}

/// Which runs stay when others are deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// How many of each kind, the newest.
    pub newest: u32,
    /// Runs with different values of these labels are of different kinds. A job counts in the kinds
    /// of all its ranks; it stays if one of them keeps it.
    #[serde(default)]
    pub per: Vec<String>,
    /// For how many days each comparison of a pull request keeps its runs; `null`: for ever. The
    /// newest comparison of a pull request keeps them anyway. Unless given, 30.
    #[serde(default = "usual_days")]
    pub pull_request_days: Option<u32>,
}

impl Keep {
    /// For how many days a comparison of a pull request keeps its runs, unless a rule says so.
    pub const PULL_REQUEST_DAYS: u32 = 30;
}

const fn usual_days() -> Option<u32> {
    Some(Keep::PULL_REQUEST_DAYS)
}

/// For how many days a comparison of a pull request keeps its runs, as a query and a command line
/// say it: a number or `forever`, which a rule writes as `null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PullRequestDays(pub Option<u32>);

/// A text that says no number of days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a whole number of days, or `forever`")]
pub struct BadDays;

impl PullRequestDays {
    const FOREVER: &'static str = "forever";
}

impl fmt::Display for PullRequestDays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str(PullRequestDays::FOREVER),
            Some(days) => write!(f, "{days}"),
        }
    }
}

impl FromStr for PullRequestDays {
    type Err = BadDays;
    fn from_str(text: &str) -> Result<PullRequestDays, BadDays> {
        match text {
            PullRequestDays::FOREVER | "null" => Ok(PullRequestDays(None)),
            days => {
                let days = days.parse().map_err(|_| BadDays)?;
                Ok(PullRequestDays(Some(days)))
            }
        }
    }
}

impl TryFrom<String> for PullRequestDays {
    type Error = BadDays;
    fn try_from(text: String) -> Result<PullRequestDays, BadDays> {
        text.parse()
    }
}

/// A project to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewProject {
    /// Its name, which no other project has.
    pub name: ProjectName,
    /// What everybody may do in it; nothing, unless given.
    #[serde(default)]
    pub everybody: Option<Role>,
    /// The most that it may take on disk.
    #[serde(default)]
    pub quota: Option<Bytes>,
}

/// What changes about a project. What is not given stays; `null` removes a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ChangeProject {
    /// What everybody may do in it.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Role>))]
    pub everybody: Option<Option<Role>>,
    /// The most that it may take on disk. Only an admin of the server changes that.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u64>))]
    pub quota: Option<Option<Bytes>>,
    /// Which runs stay; the others are deleted within the hour, and again each hour.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Keep>))]
    pub keep: Option<Option<Keep>>,
    /// `true` closes it for everybody, `false` opens it again. Only an admin of the server does
    /// that. Nothing is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed: Option<bool>,
}

/// Tells a field that is `null` from one that is missing.
fn given<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: serde::Deserializer<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

/// A person in a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Member {
    /// Who.
    pub person: PersonId,
    /// What the others call them.
    pub name: String,
    /// What they may do in it.
    pub role: Role,
}

/// What a person may do in a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetMember {
    /// An admin also says who else may; not `guest`.
    pub role: Role,
}

/// What happens to the runs of a project when the others are deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Plan {
    /// Whether the runs were deleted.
    pub deleted: bool,
    /// Those that go; an answer lists the first 1000.
    pub runs: Vec<Going>,
    /// How many go.
    pub going: usize,
    /// Their size, as uploaded.
    pub bytes: Bytes,
    /// Jobs among those that go.
    #[serde(default)]
    pub going_jobs: JobsAmong,
    /// How many runs stay, by reason.
    pub kept: std::collections::BTreeMap<WhyKept, usize>,
    /// Jobs among those that stay; reasons for which none does are left out.
    #[serde(default)]
    pub kept_jobs: std::collections::BTreeMap<WhyKept, JobsAmong>,
    /// Labels of the rule that no run has: they tell nothing apart.
    #[serde(default)]
    pub absent: Vec<String>,
}

/// Jobs among runs. A rule counts all ranks of a job as one: they stay or go together, but that a
/// rank stays as long as another job that has it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobsAmong {
    /// How many jobs.
    pub jobs: usize,
    /// How many of the runs are their ranks.
    pub ranks: usize,
}

impl JobsAmong {
    /// Counts one more job.
    pub const fn add(&mut self, ranks: usize) {
        self.jobs += 1;
        self.ranks += ranks;
    }
}

/// A run that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Going {
    /// Which.
    pub run: crate::ids::RunId,
    /// Its name; of a rank, its job and its rank.
    pub name: String,
    /// Size as uploaded.
    pub file_bytes: Bytes,
}

/// Why a run stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WhyKept {
    /// It is among the newest of its kind.
    Newest,
    /// It has the label `pinned`.
    Pinned,
    /// A link that has not ended opens it.
    Link,
    /// The newest comparison of a pull request shows it, or one that is young enough.
    PullRequest,
    /// A bench made it.
    Bench,
}

impl WhyKept {
    /// What stands after "kept: ".
    pub const fn words(self) -> &'static str {
        match self {
            WhyKept::Newest => "among the newest",
            WhyKept::Pinned => "pinned",
            WhyKept::Link => "opened by a link",
            WhyKept::PullRequest => "shown in a pull request",
            WhyKept::Bench => "made by a bench",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_null_is_removed_and_one_that_is_missing_stays() {
        let check = |json: &str, expected: ChangeProject| {
            let read: ChangeProject = serde_json::from_str(json).unwrap();
            assert_eq!(read, expected, "{json}");
            let again = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<ChangeProject>(&again).unwrap(), read);
        };
        check("{}", ChangeProject::default());
        let removed = ChangeProject {
            quota: Some(None),
            ..ChangeProject::default()
        };
        check("{\"quota\": null}", removed);
        let keep = Keep {
            newest: 5,
            per: vec!["branch".to_owned()],
            pull_request_days: Some(Keep::PULL_REQUEST_DAYS),
        };
        let set = |keep: &Keep| ChangeProject {
            keep: Some(Some(keep.clone())),
            ..ChangeProject::default()
        };
        // A rule that names no days has the usual ones; one that says `null` holds for ever.
        let rule = "{\"keep\": {\"newest\": 5, \"per\": [\"branch\"]}}";
        check(rule, set(&keep));
        let days = |days: Option<u32>| {
            set(&Keep {
                pull_request_days: days,
                ..keep.clone()
            })
        };
        let named = |days: &str| rule.replace("5,", &format!("5, \"pull_request_days\": {days},"));
        check(&named("7"), days(Some(7)));
        check(&named("null"), days(None));
    }

    #[test]
    fn days_of_pull_requests_are_a_number_or_forever() {
        let check = |text: &str, days: Option<u32>| {
            let read: PullRequestDays = text.parse().unwrap();
            assert_eq!(read, PullRequestDays(days), "{text}");
            let again = read.to_string().parse::<PullRequestDays>();
            assert_eq!(again, Ok(read), "{text}");
        };
        check("0", Some(0));
        check("30", Some(30));
        // Who could not say it otherwise said it so.
        check("4294967295", Some(u32::MAX));
        check("forever", None);
        check("null", None);
        for wrong in ["", "-1", "a week", "4294967296"] {
            assert_eq!(wrong.parse::<PullRequestDays>(), Err(BadDays), "{wrong}");
        }
    }
}
