//! How a run of a dashboard can be called: by its id, its link, its name, or its labels.

use api::ids::RunId;
use api::labels::{Label, listed};
use api::runs::RunSummary;
use timeline::format::{UnixMillis, date_time};

/// How many runs are named where several have the name or the labels.
const TOLD: usize = 5;

/// What a text means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// This run.
    Id(RunId),
    /// The run with all of these labels.
    Labels(Vec<Label>),
    /// The run with this name.
    Name(String),
}

impl Reference {
    /// Reads an id, the address of a run's page, `branch=main,config=a`, or a name.
    pub fn read(text: &str) -> Reference {
        let text = text.trim();
        if let Ok(id) = text.parse() {
            return Reference::Id(id);
        }
        if let Some(id) = linked(text) {
            return Reference::Id(id);
        }
        match listed(text) {
            Some(labels) => Reference::Labels(labels),
            None => Reference::Name(text.to_owned()),
        }
    }

    /// The labels that a run must have.
    pub fn labels(&self) -> &[Label] {
        match self {
            Reference::Labels(labels) => labels,
            Reference::Id(_) | Reference::Name(_) => &[],
        }
    }

    /// Whether this run with these labels is meant. A rank is also meant by what it is called.
    pub fn means(&self, run: &RunSummary) -> bool {
        match self {
            Reference::Id(_) => false,
            Reference::Labels(_) => true,
            Reference::Name(wanted) => run.name == *wanted || run.called() == *wanted,
        }
    }
}

/// The run of an address: of its page, of a picture of it, of an answer about it.
fn linked(text: &str) -> Option<RunId> {
    let is_address = text.starts_with("https://") || text.starts_with("http://");
    let (_, rest) = text.split_once("/runs/").filter(|_| is_address)?;
    let end = rest.find(['/', '?', '#', '.']).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Why a text means no run, and what to ask instead.
fn no_run(text: &str) -> String {
    let is_address = text.starts_with("https://") || text.starts_with("http://");
    let path = text
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once('/'));
    let page = path.filter(|_| is_address).map(|(_, path)| path);
    let page = page.and_then(|path| path.split(['/', '?', '#']).next());
    match page {
        Some("jobs") => format!(
            "{text} is a job, which has a run for each rank: `runs` lists them, each with its job."
        ),
        Some("compare") => format!(
            "{text} is a comparison: ask `compare` about the ids behind `runs=`, the first of them \
             as `base`."
        ),
        Some("s") => format!(
            "{text} is a link for readers: open it in a browser, and ask by the id of the run that \
             it shows."
        ),
        _ => format!(
            "{text} is not the id, link, name or labels (branch=main,config=a) of a run that is \
             here: `runs` lists them."
        ),
    }
}

/// The only run that a text can mean, of those found, newest first.
///
/// # Errors
/// Why there is none, and what to do: an answer about the wrong one of several would not show it.
pub fn only_one<'f>(text: &str, found: &'f [RunSummary]) -> Result<&'f RunSummary, String> {
    match found {
        [] => Err(no_run(text)),
        [one] => Ok(one),
        several => {
            let told = several.iter().take(TOLD).map(|run| {
                let sent = date_time(UnixMillis(run.created_ms));
                format!("{} ({}, {sent})", run.id, run.called())
            });
            let told: Vec<String> = told.collect();
            let more = match several.len() > TOLD {
                true => ", and older ones",
                false => "",
            };
            Err(format!(
                "{text} can mean several runs: ask by the id of one, the newest first: {}{more}.",
                told.join(", ")
            ))
        }
    }
}

/// Enough to know that there are several, and to name some.
pub const ENOUGH: usize = TOLD + 1;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_names_something_else_hears_what_to_ask() {
        let check = |text: &str, expected: &str| {
            let why = only_one(text, &[]).unwrap_err();
            assert!(why.starts_with(&[text, expected].concat()), "{why}");
        };
        check("https://a.example/jobs/job_0123456789abcdef", " is a job");
        let pair = "http://a.example/compare?runs=run_0123456789abcdef,run_0123456789abcdeg";
        check(pair, " is a comparison");
        check("https://a.example/s/abc#x", " is a link for readers");
        check("jobs", " is not the id");
        check("https://a.example/history", " is not the id");
    }

    #[test]
    fn a_rank_is_meant_by_its_file_and_by_its_job() {
        let rank = json!({
            "id": "run_0123456789abcdef", "name": "rank0.pickle", "source": "upload",
            "created_ms": 0, "file_bytes": 1, "content_hash": "", "devices": [], "steps": 0,
            "peak_allocated": 1, "quality": [],
            "job": { "job": "job_0123456789abcdef", "name": "old", "rank": 0 },
        });
        let rank: RunSummary = serde_json::from_value(rank).unwrap();
        let is_meant = |text: &str| Reference::read(text).means(&rank);
        assert!(is_meant("rank0.pickle") && is_meant("old, rank 0"));
        assert!(!is_meant("new, rank 0"));
    }

    #[test]
    fn a_text_is_an_id_a_link_labels_or_a_name() {
        let id = || Reference::Id("run_0123456789abcdef".parse().unwrap());
        let check = |text: &str, expected: Reference| {
            assert_eq!(Reference::read(text), expected, "{text}");
        };
        check("run_0123456789abcdef", id());
        for link in [
            "http://box:7878/runs/run_0123456789abcdef",
            "https://a.example/runs/run_0123456789abcdef?v=7&tab=leaks#x",
            "https://a.example/api/runs/run_0123456789abcdef/explain",
            "https://a.example/runs/run_0123456789abcdef.png",
        ] {
            check(link, id());
        }
        let labels = ["branch=main", "config=a"].map(|label| label.parse().unwrap());
        check("branch=main", Reference::Labels(labels[..1].to_vec()));
        check("branch=main,config=a", Reference::Labels(labels.to_vec()));
        for name in [
            "snapshot.pickle",
            "a=b and more, really",
            "/runs/run_0123456789abcdef",
            "https://a.example/jobs/job_0123456789abcdef",
        ] {
            check(name, Reference::Name(name.to_owned()));
        }
    }
}
