//! How long the lists in answers can be; stated in the API's document as `maxItems`.
//!
//! Lists that grow with use come in pages ([`super::page`]). Every other list has a bound, whatever
//! was uploaded. A test fails for a list that has neither.

use crate::bench::catalog::{MOST_ROWS, MOST_STEPS};
use crate::pictures::details::MAX_FRAMES;
use crate::projects::retention::MOST_PLANNED;
use crate::projects::{MOST_KINDS, MOST_PROJECTS};
use crate::who::people::{MOST_PEOPLE, MOST_TOKENS};
use crate::who::sessions;
use answers::explain::MOST_LISTED;
use answers::questions::MAX_LEAKS;
use answers::questions::what_if::COLUMNS;
use api::alive::{MAX_GROUPS, MAX_PAGE};
use api::bench::{BenchRow, Fault, TensorChanges};
use api::compare::{Against, CurvesWanted};
use api::contents::Contents;
use api::explain::UnlikeOthers;
use api::history::MOST_RUNS;
use api::jobs::{JobDetail, JobNotes, RunOfJob};
use api::live::{MOST_POINTS, MOST_RUNS as LIVE_RUNS, MOST_STEPS as REPORTED_STEPS, MOST_WARNINGS};
use api::memory_map::{MAX_BLOCKS, MAX_SEGMENTS};
use api::people::Scope;
use api::shares::NewShare;
use api::timeline::Marks;
use api::usage::{LargeRun, Usage};
use api::views::MOST as MOST_VIEWS;
use serde_json::Value;
use trace::alive::{MAX_MOMENTS, MAX_NODES};
use trace::compare::sites::MAX_ROWS;
use trace::compare::{kept_frames, profile::MAX_LEAKING};
use trace::layout::MOST_MOMENTS;
use trace::leaks::MAX_EVIDENCE;
use trace::naming::MOST_RULES;
use trace::oom::MAX_FAILURES;
use trace::ranks::curves::PARTS as RANK_PARTS;
use trace::ranks::leaking_place::MAX_PLACES;
use trace::ranks::sites::MAX_NAMED;
use trace::ranks::{MAX_GROUPS as RANK_GROUPS, MAX_RANKS, odd};
use trace::reader::{MAX_DEVICES, MAX_SETTINGS};
use trace::steps::MAX_STEPS;
use trace::steps::choices::MOST_CHOICES;
use utoipa::openapi::OpenApi;

/// Devices of a run.
const DEVICES: usize = MAX_DEVICES as usize;
/// Things that are known when the program is built: configurations, patches, releases, samples.
const BUILT_IN: usize = 1024;
/// The number of scopes that a token can have.
const SCOPES: usize = Scope::ALL.len();
/// Rows of a bench.
const ROWS: usize = MOST_ROWS as usize;
/// Categories of memory: Tidemark's, and at most one of the team's own for each rule.
const CATEGORIES: usize = trace::categories::Category::ALL.len() + MOST_RULES;
/// Findings about the data: some for each device, some for the file.
const FINDINGS: usize = 32 * (DEVICES + 1);
/// What can go wrong in a bench row.
const FAULTS: usize = Fault::ALL.len();
const PARTS: usize = CurvesWanted::MAX_PARTS as usize;
const RUNS: usize = NewShare::MAX_RUNS;
const RANKS: usize = MAX_RANKS as usize;

/// Properties of schemas that are lists, and their largest lengths. For a schema that is a list
/// itself, the property is empty.
const OF_SCHEMAS: &[(&str, &[(&str, usize)])] = &[
    ("Against", &[("beside", DEVICES + 1), ("devices", DEVICES)]),
    ("Alive", &[("groups", MAX_GROUPS), ("tree", MAX_NODES)]),
    ("AllocationPage", &[("items", MAX_PAGE)]),
    ("AnnotationMark", &[("events", 2)]),
    ("Bench", &[("rows", ROWS)]),
    (
        "BenchCatalog",
        &[
            ("configs", BUILT_IN),
            ("devices", BUILT_IN),
            ("patches", BUILT_IN),
        ],
    ),
    ("BenchChoice", &[("patches", BUILT_IN)]),
    (
        "BenchConfig",
        &[
            ("applicable", BUILT_IN),
            ("chain", BUILT_IN),
            ("combination", BUILT_IN),
            ("inputs", BUILT_IN),
            ("published_only", BUILT_IN),
        ],
    ),
    (
        "BenchRow",
        &[("patches", BUILT_IN), ("spark", BenchRow::SPARK_POINTS)],
    ),
    ("BenchSummary", &[("configs", BUILT_IN)]),
    (
        "BlockDetail",
        &[
            ("alloc_stack", MAX_FRAMES),
            ("free_stack", MAX_FRAMES),
            ("notes", 8),
        ],
    ),
    ("Comparison", &[("against", RUNS), ("runs", RUNS)]),
    (
        "Contents",
        &[("levels", MOST_CHOICES), ("phases", Contents::MAX_PHASES)],
    ),
    (
        "Curve",
        &[("events", PARTS + 1), ("parts", PARTS), ("steps", PARTS)],
    ),
    ("Curves", &[("begins", RUNS), ("runs", RUNS)]),
    (
        "DeviceSummary",
        &[("oom_events", MAX_FAILURES), ("series", 4)],
    ),
    (
        "Difference",
        &[
            ("conditions", 1024),
            ("phases", 8),
            ("series", 4),
            ("sites", MAX_ROWS),
            ("steps", Against::MAX_STEPS),
        ],
    ),
    ("DeviceExplained", &[("to_try", MOST_LISTED)]),
    (
        "ExplainedFailure",
        &[("remedies", MOST_LISTED), ("settings_perhaps", MOST_LISTED)],
    ),
    (
        "ExplainedLeaks",
        &[("caveats", FINDINGS), ("groups", MOST_LISTED)],
    ),
    (
        "ExplainedMoment",
        &[("categories", CATEGORIES), ("places", MOST_LISTED)],
    ),
    (
        "Explanation",
        &[("notes", FINDINGS), ("other_devices", DEVICES)],
    ),
    ("Frontier", &[("points", BUILT_IN)]),
    ("FrontierCard", &[("points", BUILT_IN)]),
    ("Growth", &[("bands", 12), ("moments", MAX_MOMENTS)]),
    (
        "GrowthBand",
        &[("bytes", MAX_MOMENTS), ("counts", MAX_MOMENTS)],
    ),
    (
        "History",
        &[("changes", 4 * MOST_RUNS), ("runs", MOST_RUNS)],
    ),
    ("Held", &[("categories", CATEGORIES)]),
    (
        "JobDetail",
        &[
            ("curves", JobDetail::MAX_CURVES),
            ("missing", RANKS),
            ("ranks", RANKS),
            ("sentences", JobDetail::MAX_SENTENCES),
        ],
    ),
    ("Heard", &[("warnings", MOST_WARNINGS)]),
    ("HistoryRun", &[("faults", FAULTS), ("quality", FINDINGS)]),
    ("LiveCurve", &[("steps", MOST_POINTS)]),
    ("LiveRun", &[("warnings", MOST_WARNINGS)]),
    ("LiveRuns", &[("runs", LIVE_RUNS)]),
    ("LeakExplained", &[("stack", MOST_LISTED)]),
    ("LeakGroup", &[("evidence", MAX_EVIDENCE)]),
    ("ComparedLeaks", &[("places", MAX_LEAKING)]),
    ("Leaks", &[("caveats", FINDINGS), ("groups", MAX_LEAKS)]),
    ("JobNotes", &[("failed_apart", JobNotes::MOST)]),
    ("Keep", &[("per", MOST_KINDS)]),
    ("Levels", &[("", 4)]),
    (
        "Marks",
        &[
            ("annotations", Marks::MAX_ANNOTATIONS),
            ("ooms", Marks::MAX_OOMS),
            ("stays", Marks::MAX_STAYS),
            ("steps", MAX_STEPS),
        ],
    ),
    ("Me", &[("scopes", SCOPES)]),
    ("NewToken", &[("scopes", SCOPES)]),
    (
        "OffloaderGrid",
        &[
            ("cells", BUILT_IN),
            ("configs", BUILT_IN),
            ("offloaders", BUILT_IN),
        ],
    ),
    ("MemoryMap", &[("pools", MAX_SEGMENTS)]),
    ("OomMark", &[("held", CATEGORIES)]),
    ("OwnCategories", &[("names", MOST_RULES)]),
    ("Part", &[("groups", MAX_GROUPS)]),
    ("PersonalToken", &[("scopes", SCOPES)]),
    ("Plan", &[("absent", MOST_KINDS), ("runs", MOST_PLANNED)]),
    ("PhaseMark", &[("events", 2)]),
    ("PoolMap", &[("segments", MAX_SEGMENTS)]),
    (
        "RankBand",
        &[("medians", RANK_GROUPS), ("parts", RANK_PARTS)],
    ),
    ("RankGroupMedian", &[("parts", RANK_PARTS)]),
    ("RankCurve", &[("parts", RANK_PARTS)]),
    ("RankRow", &[("leaks", MAX_PLACES), ("odd", odd::KINDS)]),
    ("Reports", &[("steps", REPORTED_STEPS)]),
    ("RecordComparison", &[("runs", RUNS)]),
    ("RecordedComparison", &[("runs", RUNS)]),
    (
        "ReplayedCurve",
        &[
            ("allocated", COLUMNS as usize),
            ("reserved", COLUMNS as usize),
        ],
    ),
    ("Room", &[("pins", MOST_LISTED), ("pools", MOST_LISTED)]),
    (
        "RoomOverTime",
        &[
            ("cached", MOST_MOMENTS),
            ("events", MOST_MOMENTS),
            ("kept", MOST_MOMENTS),
            ("largest_gap", MOST_MOMENTS),
            ("reserved", MOST_MOMENTS),
            ("segments", MOST_MOMENTS),
            ("split", MOST_MOMENTS),
            ("used", MOST_MOMENTS),
            ("waiting", MOST_MOMENTS),
        ],
    ),
    ("RedactionPreview", &[("examples", 32)]),
    (
        "RunDetail",
        &[("quality_notes", FINDINGS), ("settings", MAX_SETTINGS)],
    ),
    ("RunOfJob", &[("older", RunOfJob::MOST_OLDER)]),
    (
        "RunSummary",
        &[
            ("devices", DEVICES),
            ("faults", FAULTS),
            ("quality", FINDINGS),
        ],
    ),
    (
        "SegmentMap",
        &[
            ("blocks", MAX_BLOCKS),
            ("offsets", MAX_BLOCKS),
            ("pending", MAX_BLOCKS),
            ("sizes", MAX_BLOCKS),
        ],
    ),
    ("Sessions", &[("sessions", sessions::MOST)]),
    ("ShareTarget", &[("runs", RUNS)]),
    ("Side", &[("at_peak", CATEGORIES), ("inferred", CATEGORIES)]),
    ("SiteSide", &[("frames", kept_frames::MAX)]),
    (
        "SiteAcross",
        &[
            ("at_end", 3),
            ("at_peak", 3),
            ("farthest", MAX_NAMED),
            ("most", 3),
        ],
    ),
    ("StartBench", &[("rows", ROWS)]),
    ("Step", &[("events", 2)]),
    ("TakenOfDevice", &[("rules", MOST_RULES)]),
    ("TakenOfRun", &[("devices", DEVICES)]),
    ("TensorChange", &[("shape", 64)]),
    ("TensorChanges", &[("changes", TensorChanges::MOST)]),
    ("TensorDetail", &[("shape", 64)]),
    ("LargeRun", &[("held", LargeRun::MOST_HELD)]),
    ("UnlikeOthers", &[("steps", UnlikeOthers::MAX_STEPS)]),
    (
        "Usage",
        &[
            ("largest", Usage::MOST_LARGEST),
            ("people", Usage::MOST_PEOPLE),
            ("projects", MOST_PROJECTS),
            ("unknown", MOST_PROJECTS),
        ],
    ),
    ("Views", &[("views", MOST_VIEWS)]),
    ("Verdicts", &[("findings", Against::MAX_FINDINGS)]),
];

/// Answers that are lists themselves.
const OF_ANSWERS: &[(&str, usize)] = &[
    ("/api/bench/rows/{row}/steps", MOST_STEPS as usize),
    ("/api/people", MOST_PEOPLE),
    ("/api/projects", MOST_PROJECTS),
    ("/api/projects/{project}/members", MOST_PEOPLE),
    ("/api/samples", BUILT_IN),
    ("/api/tokens", MOST_TOKENS),
];

/// The document with all bounds.
pub fn stated(document: &OpenApi) -> Value {
    let mut document = serde_json::to_value(document).expect("the document is plain data");
    for (schema, lists) in OF_SCHEMAS {
        let schema = &mut document["components"]["schemas"][schema];
        for (property, most) in *lists {
            state(schema, property, *most);
        }
    }
    for (path, most) in OF_ANSWERS {
        let answer = &mut document["paths"][path]["get"]["responses"]["200"];
        bound(&mut answer["content"]["application/json"]["schema"], *most);
    }
    document
}

/// States the bound of a property, also in a schema with several forms.
fn state(schema: &mut Value, property: &str, most: usize) {
    if property.is_empty() {
        bound(schema, most);
    } else if let Some(properties) = schema.get_mut("properties")
        && let Some(list) = properties.get_mut(property)
    {
        bound(list, most);
    }
    for shapes in ["allOf", "anyOf", "oneOf"] {
        if let Some(shapes) = schema.get_mut(shapes).and_then(Value::as_array_mut) {
            shapes.iter_mut().for_each(|s| state(s, property, most));
        }
    }
}

/// A list and its inner lists, which are not longer than that.
fn bound(list: &mut Value, most: usize) {
    if is_list(list) && list.get("maxItems").is_none() {
        list["maxItems"] = most.into();
        if let Some(items) = list.get_mut("items") {
            bound(items, most);
        }
    }
}

/// Whether a schema is that of a list. A schema that describes each entry separately does not
/// count.
fn is_list(schema: &Value) -> bool {
    let is = |kind: &Value| kind == "array";
    let kind = &schema["type"];
    let listed = schema.get("prefixItems").is_some();
    !listed && (is(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(is)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lists inside a schema that have no bound.
    fn unbounded(schema: &Value, at: &str, found: &mut Vec<String>) {
        if is_list(schema) && schema.get("maxItems").is_none() {
            found.push(at.to_owned());
        }
        match schema {
            Value::Object(members) => members
                .iter()
                .for_each(|(name, value)| unbounded(value, &format!("{at}/{name}"), found)),
            Value::Array(items) => items.iter().for_each(|value| unbounded(value, at, found)),
            _ => {}
        }
    }

    #[test]
    fn nothing_is_listed_without_a_bound() {
        let (_, document) = super::super::api().split_for_parts();
        let document = stated(&document);
        let mut found = Vec::new();
        unbounded(&document["components"]["schemas"], "", &mut found);
        let paths = document["paths"].as_object().unwrap();
        for (path, operations) in paths {
            for (method, operation) in operations.as_object().unwrap() {
                let names = operation["parameters"].as_array().into_iter().flatten();
                let names: Vec<&str> = names.filter_map(|p| p["name"].as_str()).collect();
                let in_pages = ["offset", "limit"].iter().all(|name| names.contains(name));
                if !in_pages {
                    let at = format!("{method} {path}");
                    unbounded(&operation["responses"], &at, &mut found);
                }
            }
        }
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn every_bound_is_of_something() {
        let (_, document) = super::super::api().split_for_parts();
        let document = stated(&document);
        for (schema, lists) in OF_SCHEMAS {
            let schema = &document["components"]["schemas"][schema];
            for (property, most) in *lists {
                let text = schema.to_string();
                let stated = format!("\"maxItems\":{most}");
                assert!(text.contains(&stated), "{property}: {text}");
            }
        }
    }
}
