//! The questions of `docs/tables.md`, asked by DuckDB of a thousand runs.

use api::projects::HEADER;
use api::routes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tests::fleet::{self, BRANCHES, CONFIGS};
use tests::{TestServer, recording};

const RUNS: usize = 1000;

/// The first questions, which need no allocations.
const OF_RUNS: usize = 3;

/// Runs each query of the standard input, a JSON list, and prints the rows of each.
const PROGRAM: &str = "import duckdb, json, sys\n\
                       ask = lambda sql: [list(row) for row in duckdb.sql(sql).fetchall()]\n\
                       print(json.dumps([ask(sql) for sql in json.loads(sys.argv[1])]))\n";

/// The queries of the document, in its order.
fn queries() -> Vec<String> {
    let document = tests::workspace_root().join("docs/tables.md");
    let document = std::fs::read_to_string(document).expect("the document is there");
    let blocks = document.split("```sql\n").skip(1);
    let queries = blocks.map(|block| block.split("```").next().expect("a block ends"));
    queries.map(str::to_owned).collect()
}

/// What DuckDB answers in this folder.
fn asked(folder: &Path, queries: &[String]) -> Vec<Value> {
    let package = std::env::var_os("DUCKDB").expect("./check says where DuckDB is");
    let output = Command::new("python3")
        .args(["-c", PROGRAM, &json!(queries).to_string()])
        .current_dir(folder)
        .env("PYTHONPATH", package)
        .output()
        .expect("python3 runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Waits until every run was judged; how many leak.
fn judged(server: &TestServer) -> usize {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let url = server.url("/api/runs?limit=1000");
        let mut answer = ureq::get(url).call().expect("the list");
        let runs = answer.body_mut().with_config().limit(1 << 28).read_to_vec();
        let runs: Vec<Value> = serde_json::from_slice(&runs.expect("the list")).expect("JSON");
        let verdicts = runs
            .iter()
            .filter_map(|run| run["leaks"]["verdict"].as_str());
        let verdicts: Vec<&str> = verdicts.collect();
        if verdicts.len() == RUNS {
            return verdicts
                .iter()
                .filter(|verdict| **verdict == "leak")
                .count();
        }
        assert!(
            Instant::now() < until,
            "{} of {RUNS} were judged",
            verdicts.len()
        );
        thread::sleep(Duration::from_millis(200));
    }
}

/// `tidemark tables fleet`, in a folder; what it prints.
fn written(server: &TestServer, folder: &Path, more: &[&str]) -> String {
    let output = Command::new(tests::tidemark())
        .args(["tables", "fleet", "--server", &server.url("/")])
        .args(more)
        .current_dir(folder)
        .output()
        .expect("tidemark runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    String::from_utf8(output.stdout).expect("a text")
}

#[test]
#[ignore = "needs DuckDB, which ./check fetches"]
fn the_questions_of_the_document_have_the_right_answers() {
    let server = TestServer::start();
    fleet::fill(&server, RUNS);
    let leaking = judged(&server);
    assert_eq!(leaking, RUNS / recording::LEAKS_EVERY);
    let folder = tempfile::tempdir().expect("a folder");
    let told = written(&server, folder.path(), &[]);
    assert!(
        told.starts_with("1,000 runs, of which 100 leak, in fleet"),
        "{told}"
    );

    let queries = &queries()[..OF_RUNS];
    let answers = asked(folder.path(), queries);
    let [functions, configs, branches] = &answers[..] else {
        panic!("three questions: {queries:?}");
    };
    let per_step = recording::LEAKED_PER_STEP as f64;
    let expected = json!([["stash_for_later", "/srv/train.py", leaking, per_step]]);
    assert_eq!(*functions, expected);

    // What the recordings of a configuration and of a branch hold, by the rule that made them.
    let mut peaks: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut leaks: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for n in 0..RUNS {
        let labels = fleet::labels(n);
        peaks
            .entry(labels["config"].clone())
            .or_default()
            .push(recording::peak(n));
        let of_branch = leaks.entry(labels["branch"].clone()).or_default();
        of_branch[0] += 1;
        of_branch[1] += usize::from(recording::leaks(n));
    }
    assert_eq!((peaks.len(), leaks.len()), (CONFIGS, BRANCHES));
    let mut expected: Vec<Value> = Vec::new();
    for (config, peaks) in &mut peaks {
        peaks.sort_unstable();
        let (usual, highest) = (peaks[(peaks.len() - 1) / 2], peaks[peaks.len() - 1]);
        let lowest = peaks[0];
        let unused = recording::RESERVED - lowest;
        expected.push(json!([config, peaks.len(), usual, highest, unused]));
    }
    expected.sort_by_key(|row| (std::cmp::Reverse(row[3].as_u64()), row[0].to_string()));
    assert_eq!(*configs, json!(expected));
    let leaks = leaks.iter().filter(|(_, [_, leaking])| *leaking > 0);
    let rows = leaks.map(|(branch, [runs, leaking])| json!([branch, runs, leaking, 0]));
    let mut rows: Vec<Value> = rows.collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row[2].as_u64()), row[0].to_string()));
    assert_eq!(*branches, json!(rows));
}

#[test]
#[ignore = "needs DuckDB, which ./check fetches"]
fn allocations_are_joined_with_their_runs() {
    let server = TestServer::start();
    fleet::fill(&server, 3);
    let folder = tempfile::tempdir().expect("a folder");
    written(&server, folder.path(), &["--allocations"]);
    let answers = asked(folder.path(), &queries()[OF_RUNS..]);
    let told = answers[0].as_array().expect("rows").iter();
    let mut told: Vec<Value> = told.map(|row| json!([row[0], row[1]])).collect();
    let mut answer = ureq::get(server.url("/api/runs")).call().expect("the list");
    let runs = answer.body_mut().read_to_vec().expect("the list");
    let runs: Vec<Value> = serde_json::from_slice(&runs).expect("JSON");
    let of_run = |run: &Value| json!([run["name"], run["devices"][0]["blocks"]]);
    let mut expected: Vec<Value> = runs.iter().map(of_run).collect();
    for rows in [&mut told, &mut expected] {
        rows.sort_by_key(Value::to_string);
    }
    assert_eq!((told.len(), told), (3, expected));
}

#[test]
fn a_file_has_the_same_table_without_a_server() {
    let server = TestServer::start();
    send_to(&server, "main", 0);
    let folder = tempfile::tempdir().expect("a folder");
    written(&server, folder.path(), &["--allocations"]);
    let run = allocations(folder.path()).pop().expect("a run");
    let file = folder.path().join("recording-0.json");
    std::fs::write(&file, recording::of(0)).expect("a file");
    let output = Command::new(tests::tidemark())
        .args([
            "export",
            "recording-0.json",
            "--format",
            "parquet",
            "-o",
            "a.parquet",
        ])
        .current_dir(folder.path())
        .output()
        .expect("tidemark runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    let read = |path: &Path| std::fs::read(path).expect("a file");
    assert!(
        read(&folder.path().join("a.parquet")) == read(&run),
        "another table"
    );
}

/// The files of allocations in a folder.
fn allocations(folder: &Path) -> Vec<PathBuf> {
    let mut waiting = vec![folder.join("fleet/allocations")];
    let mut files = Vec::new();
    while let Some(path) = waiting.pop() {
        match path.is_dir() {
            true => {
                let entries = std::fs::read_dir(&path).expect("a folder");
                waiting.extend(entries.map(|entry| entry.expect("an entry").path()));
            }
            false => files.push(path),
        }
    }
    files
}

#[test]
fn tables_are_replaced_and_allocations_kept() {
    let server = TestServer::start();
    fleet::fill(&server, 3);
    let folder = tempfile::tempdir().expect("a folder");
    let told = written(&server, folder.path(), &["--allocations"]);
    assert!(
        told.contains("those of 3 runs are new, 0 files were removed"),
        "{told}"
    );
    // One that was written with other columns is fetched again.
    let old = allocations(folder.path()).pop().expect("a file");
    std::fs::write(&old, "of another version").expect("a file");
    let told = written(&server, folder.path(), &["--allocations"]);
    assert!(told.contains("those of 1 run are new"), "{told}");
    // What a command that was stopped left is taken away, and so is what is of no run any more.
    let stale = folder.path().join("fleet/runs.unfinished/project=old");
    std::fs::create_dir_all(&stale).expect("a folder");
    let gone = folder.path().join("fleet/allocations/run_gone.parquet");
    std::fs::write(&gone, "").expect("a file");
    let told = written(
        &server,
        folder.path(),
        &["--allocations", "--label", "branch=branch-1"],
    );
    assert!(
        told.contains("those of 0 runs are new, 3 files were removed"),
        "{told}"
    );
    assert!(!stale.exists() && !gone.exists());
    let days = std::fs::read_dir(folder.path().join("fleet/runs/project=none")).expect("runs");
    assert_eq!(days.count(), 1);

    let output = Command::new(tests::tidemark())
        .args(["tables", ".", "--server", &server.url("/")])
        .current_dir(tests::workspace_root())
        .output()
        .expect("tidemark runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(
        log.contains("holds other files") && !output.status.success(),
        "{log}"
    );
}

/// Sends recording `n` to a project of the server.
fn send_to(server: &TestServer, project: &str, n: usize) {
    let to = server.url(&routes::upload_named(&format!("recording-{n}.json")));
    let sent = ureq::put(to)
        .header(HEADER, project)
        .send(recording::of(n).as_slice());
    assert!(sent.expect("it is kept").status().is_success());
}

/// The runs of each project in a folder, by its name: the files of their allocations.
fn by_project(folder: &Path) -> Vec<(String, usize)> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
        paths.sort();
        paths
    };
    let projects = inside(&folder.join("fleet/allocations")).into_iter();
    let counted = projects.map(|project| {
        let name = project.file_name().expect("a name").to_string_lossy();
        let runs = inside(&project).iter().map(|day| inside(day).len()).sum();
        (name.into_owned(), runs)
    });
    counted.collect()
}

#[test]
fn runs_are_written_by_the_projects_of_the_server() {
    let server = TestServer::start();
    let made = ureq::post(server.url("/api/projects"))
        .header("content-type", "application/json")
        .send(json!({ "name": "vision" }).to_string());
    assert_eq!(made.expect("the project is made").status(), 201);
    // The same recording is in both, and counts in both.
    [("main", 0), ("main", 1), ("vision", 1), ("vision", 2)]
        .iter()
        .for_each(|&(project, n)| send_to(&server, project, n));
    let folder = tempfile::tempdir().expect("a folder");
    let told = written(&server, folder.path(), &["--allocations"]);
    assert!(told.starts_with("4 runs, "), "{told}");
    let expected = [("project=none", 2), ("project=vision", 2)];
    let expected = expected.map(|(name, runs)| (name.to_owned(), runs));
    assert_eq!(by_project(folder.path()), expected);
    let runs = folder.path().join("fleet/runs");
    assert!(runs.join("project=vision").is_dir() && runs.join("project=none").is_dir());

    // Of one project only.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let more = ["--allocations", "--project", "vision"];
    let told = written(&server, elsewhere.path(), &more);
    assert!(told.starts_with("2 runs, "), "{told}");
    assert_eq!(by_project(elsewhere.path()), expected[1..]);
}
