//! Labels for pushed runs: those on the command line, and those from CI.

use super::CliError;
use super::output::tell;
use super::remote::Remote;
use api::ids::RunId;
use api::labels::{ChangeLabels, Label, Labels, MOST};
use api::routes;
use api::runs::RunSummary;
use clap::Args;

/// The key of a branch.
const BRANCH: &str = "branch";
/// The key of a commit.
const COMMIT: &str = "commit";

/// Options that label.
#[derive(Args, Default)]
pub struct LabelArgs {
    /// A label of each run, as often as you like; in CI, branch and commit are set automatically
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<Label>,
}

impl LabelArgs {
    /// All labels: those on the command line, and those from CI for which there is room beside
    /// them.
    pub fn all(&self, variable: impl Fn(&str) -> Option<String>) -> Labels {
        let named = self.labels.iter().cloned();
        let mut all: Labels = named.map(|label| (label.key, label.value)).collect();
        for Label { key, value } in of_ci(variable) {
            if all.len() < MOST {
                all.entry(key).or_insert(value);
            }
        }
        all
    }

    /// Refuses more labels than a run can have.
    ///
    /// # Errors
    /// [`CliError::Usage`].
    pub fn check(&self, variable: impl Fn(&str) -> Option<String>) -> Result<(), CliError> {
        let all = self.all(&variable);
        if all.len() > MOST {
            let n = all.len();
            let why = format!("a run has at most {MOST} labels, not {n}");
            return Err(CliError::Usage(why));
        }
        for label in of_ci(&variable) {
            if !all.contains_key(&label.key) {
                tell(&format!(
                    "the label {label} of CI is left out: a run has at most {MOST}"
                ));
            }
        }
        Ok(())
    }

    /// The labels that a run must have to be a baseline: the target branch of the change, and the
    /// labels on the command line except branch and commit.
    ///
    /// # Errors
    /// When nothing says which branch that is.
    pub fn of_baseline(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<Label>, CliError> {
        let target = ["GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME"]
            .into_iter()
            .find_map(|name| variable(name).filter(|value| !value.is_empty()));
        let target = target.and_then(|branch| Label::new(BRANCH, &branch).ok());
        let Some(target) = target else {
            let why = "--base auto: nothing says which branch this change goes to (GITHUB_BASE_REF \
                       or CI_MERGE_REQUEST_TARGET_BRANCH_NAME); name it: --base branch=main";
            return Err(CliError::Usage(why.to_owned()));
        };
        let named = self.labels.iter();
        let kept = named.filter(|label| label.key != BRANCH && label.key != COMMIT);
        Ok(std::iter::once(target).chain(kept.cloned()).collect())
    }
}

/// Branch and commit from the variables of GitHub's and GitLab's jobs. For a pull request, the
/// branch is its source branch.
fn of_ci(variable: impl Fn(&str) -> Option<String>) -> Vec<Label> {
    let is_set = |name: &str| variable(name).is_some_and(|value| value == "true");
    let (branches, commit): (&[&str], _) = if is_set("GITHUB_ACTIONS") {
        (&["GITHUB_HEAD_REF", "GITHUB_REF_NAME"], "GITHUB_SHA")
    } else if is_set("GITLAB_CI") {
        let branches = &["CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME"];
        (branches, "CI_COMMIT_SHA")
    } else {
        return Vec::new();
    };
    let first = |names: &[&str]| {
        let mut values = names.iter().filter_map(|name| variable(name));
        values.find(|value| !value.is_empty())
    };
    let found = [(BRANCH, first(branches)), (COMMIT, first(&[commit]))];
    // A value from CI that is not allowed as a label is left out, because no person asked for it.
    let labels = found
        .into_iter()
        .filter_map(|(key, value)| Label::new(key, &value?).ok());
    labels.collect()
}

/// A variable of this process's environment.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Puts labels on a run of a dashboard.
///
/// # Errors
/// When the server cannot be reached, or refuses.
pub fn put(
    remote: &Remote<'_>,
    run: &RunId,
    labels: &Labels,
) -> Result<Option<RunSummary>, CliError> {
    if labels.is_empty() {
        return Ok(None);
    }
    let change = |(key, value): (&String, &String)| (key.clone(), Some(value.clone()));
    let change = ChangeLabels {
        labels: labels.iter().map(change).collect(),
    };
    remote.patch(&routes::run_labels(run), &change).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(labels: &[&str]) -> LabelArgs {
        LabelArgs {
            labels: labels.iter().map(|label| label.parse().unwrap()).collect(),
        }
    }

    fn variables(set: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> + Copy {
        move |name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        }
    }

    const NOBODY: &[(&str, &str)] = &[("GITHUB_SHA", "1f2e")];
    const PULL_REQUEST: &[(&str, &str)] = &[
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_HEAD_REF", "fix/leak"),
        ("GITHUB_REF_NAME", "7/merge"),
        ("GITHUB_BASE_REF", "main"),
        ("GITHUB_SHA", "1f2e"),
    ];
    const PUSH: &[(&str, &str)] = &[
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_HEAD_REF", ""),
        ("GITHUB_REF_NAME", "main"),
        ("GITHUB_BASE_REF", ""),
        ("GITHUB_SHA", "1f2e"),
    ];
    const MERGE_REQUEST: &[(&str, &str)] = &[
        ("GITLAB_CI", "true"),
        ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "fix"),
        ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "trunk"),
        ("CI_COMMIT_REF_NAME", "fix"),
        ("CI_COMMIT_SHA", "9a"),
    ];

    #[test]
    fn ci_labels_branch_and_commit_and_what_is_named_decides() {
        let check = |named: &[&str], set, expected: &[&str]| {
            let all = args(named).all(variables(set));
            let all: Vec<String> = all.iter().map(|(k, v)| format!("{k}={v}")).collect();
            assert_eq!(all, expected, "{named:?}");
        };
        check(&[], NOBODY, &[]);
        check(&["config=a"], NOBODY, &["config=a"]);
        check(&[], PULL_REQUEST, &["branch=fix/leak", "commit=1f2e"]);
        check(&[], PUSH, &["branch=main", "commit=1f2e"]);
        check(&[], MERGE_REQUEST, &["branch=fix", "commit=9a"]);
        check(&["commit=ab"], PUSH, &["branch=main", "commit=ab"]);
    }

    #[test]
    fn what_ci_says_takes_no_room_from_what_is_named() {
        let check = |n: usize, refused: bool| {
            let named: Vec<String> = (0..n).map(|n| format!("k{n}=v")).collect();
            let named = args(&named.iter().map(String::as_str).collect::<Vec<_>>());
            let ci = variables(PUSH);
            assert_eq!(named.check(ci).is_err(), refused, "{n}");
            assert_eq!(named.all(ci).len(), (n + 2).min(MOST.max(n)), "{n}");
        };
        check(MOST - 2, false);
        check(MOST - 1, false);
        check(MOST, false);
        check(MOST + 1, true);
    }

    #[test]
    fn the_baseline_is_of_the_branch_that_the_change_goes_to() {
        let named = args(&["config=a", "branch=mine", "commit=ab"]);
        let check = |set, expected: Option<&[&str]>| {
            let found = named.of_baseline(variables(set)).ok();
            let texts = |labels: Vec<Label>| labels.iter().map(Label::to_string).collect();
            let found: Option<Vec<String>> = found.map(texts);
            let expected: Option<Vec<String>> =
                expected.map(|labels| labels.iter().map(|&l| l.to_owned()).collect());
            assert_eq!(found, expected);
        };
        check(PULL_REQUEST, Some(&["branch=main", "config=a"]));
        check(MERGE_REQUEST, Some(&["branch=trunk", "config=a"]));
        check(PUSH, None);
        check(NOBODY, None);
    }
}
