//! Which crate may use which: compares the table of ARCHITECTURE.md with each `Cargo.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use tests::workspace_root;

/// A row of the table: the crate, and the crates that it may use.
struct Row {
    name: String,
    folder: String,
    may_use: BTreeSet<String>,
}

/// The rows under the head `| crate | what it is | may use |`.
fn rows(architecture: &str) -> Vec<Row> {
    let table = architecture
        .lines()
        .skip_while(|line| !line.starts_with("| crate |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut rows: Vec<Row> = Vec::new();
    for line in table {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, uses] = cells[..] else {
            panic!("three columns: {line}");
        };
        let mut words = quoted(name);
        let (name, folder) = (words.remove(0), words.pop());
        let may_use = match uses {
            "all above" | "all" => rows.iter().map(|row| row.name.clone()).collect(),
            other => quoted(other).into_iter().collect(),
        };
        let folder = folder.unwrap_or_else(|| name.clone());
        rows.push(Row {
            name,
            folder,
            may_use,
        });
    }
    rows
}

fn quoted(cell: &str) -> Vec<String> {
    let words = cell.split('`').skip(1).step_by(2);
    words.map(str::to_owned).collect()
}

/// The crates in the dependency sections of a manifest.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            // Dependencies of tests only are not part of the product.
            inside = line.ends_with("dependencies]") && !line.contains("dev-");
        } else if inside {
            found.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    found
}

#[test]
fn crates_use_what_the_map_says() {
    let read = |path: &str| fs::read_to_string(workspace_root().join(path)).expect("it is there");
    let rows = rows(&read("ARCHITECTURE.md"));
    let members: BTreeMap<&str, &Row> = rows.iter().map(|row| (row.folder.as_str(), row)).collect();
    let workspace = read("Cargo.toml");
    let listed = workspace
        .lines()
        .find(|line| line.starts_with("members"))
        .expect("members");
    let listed: Vec<&str> = listed.split('"').skip(1).step_by(2).collect();
    assert_eq!(
        listed.iter().copied().collect::<BTreeSet<_>>(),
        members.keys().copied().collect(),
        "the table has every crate"
    );
    for row in &rows {
        let manifest = read(&format!("{}/Cargo.toml", row.folder));
        let ours: BTreeSet<String> = dependencies(&manifest)
            .into_iter()
            .filter(|name| rows.iter().any(|row| row.name == *name))
            .collect();
        let more: Vec<_> = ours.difference(&row.may_use).collect();
        assert!(more.is_empty(), "{} uses {more:?} too", row.name);
    }
}

#[test]
fn a_dependency_is_seen_however_it_is_written() {
    let check = |manifest: &str, expected: &[&str]| {
        let found = dependencies(manifest);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{manifest}");
    };
    check("[dependencies]\ntrace.workspace = true", &["trace"]);
    check("[dependencies]\ntrace = { workspace = true }", &["trace"]);
    check("[build-dependencies]\ntrace = \"1\"", &["trace"]);
    check(
        "[dev-dependencies]\ntrace = \"1\"\n[lib]\nname = \"x\"",
        &[],
    );
    check(
        "[target.'cfg(unix)'.dependencies]\ntrace = \"1\"",
        &["trace"],
    );
}
