//! Labels of a run, as lists and heads show them.

use api::runs::RunSummary;

/// The labels of a run in one line. Of a branch and a commit the value says enough.
pub fn label_line(run: &RunSummary) -> String {
    let labels = run.labels.iter().map(|(key, value)| match key.as_str() {
        "branch" => value.clone(),
        "commit" => value.chars().take(8).collect(),
        _ => format!("{key}={value}"),
    });
    labels.collect::<Vec<_>>().join(" · ")
}
