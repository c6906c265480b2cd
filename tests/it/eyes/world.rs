//! The servers behind the views. They are filled in the same way every time.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::TestServer;

/// Rows of the long list: more than fit on a screen.
const MANY: u32 = 26;

/// Ranks of the larger job: more than the page draws a picture for.
const JOB: u32 = 40;

/// How long a bench of a few small rows may take.
const BENCH_TIMEOUT: Duration = Duration::from_secs(240);

/// The token of the server that asks for a token.
pub const TOKEN: &str = "correct-horse-battery-staple-0001";

/// A server for each state of the store.
pub struct World {
    /// Without a single run.
    pub empty: TestServer,
    /// With the fixtures.
    pub few: TestServer,
    /// With a bench, whose rows finish in any order.
    pub bench: TestServer,
    /// With more runs than fit on a screen.
    pub many: TestServer,
    /// With two jobs: one of two real ranks, and one with more ranks than the page draws a picture
    /// for.
    pub ranks: TestServer,
    /// Paths of the pages of these jobs.
    pub jobs: [String; 2],
    /// Open only to people who know the token.
    pub closed: TestServer,
    /// Runs of `few`, by the fixture's name.
    pub runs: Vec<(&'static str, String)>,
    /// The run of a row of the bench, with many steps.
    pub long_run: String,
    /// Links of `few`: one that is open, one that leaves names out, one that was revoked.
    pub open_link: String,
    pub redacted_link: String,
    pub ended_link: String,
    _token: TempDir,
}

impl World {
    pub fn build() -> Self {
        let token = TempDir::with_prefix("tidemark-token-").expect("a temporary folder");
        let file = token.path().join("token");
        fs::write(&file, TOKEN).expect("the token is kept");
        let file = file.to_str().expect("a path in UTF-8");
        let (few, bench) = (TestServer::start(), TestServer::start());
        let started = start_bench(&bench);
        let fixtures = [
            "plain_lm",
            "oom",
            "streams",
            "off_v1_moe",
            "off_v3_moe",
            "leak_hook_cache",
            "plain/single_forward",
        ];
        let runs = fixtures
            .map(|name| (name, upload_fixture(&few, name)))
            .to_vec();
        let leak = &runs[3].1;
        let open_link = share(&few, leak, "v=5&tab=leaks", "none");
        // Text inside a painted picture cannot be replaced, and stand-ins are random, so this link
        // shows no bands.
        let redacted_link = share(&few, leak, "v=5&show=lines&tab=leaks", "redacted");
        let ended_link = share(&few, leak, "v=5&tab=leaks", "none");
        revoke_newest(&few, leak);
        let many = TestServer::start();
        for at in 0..MANY {
            let file = format!("train-{at:03}.json");
            upload(&many, &file, small_snapshot(at).to_string().as_bytes());
        }
        let ranks = TestServer::start();
        let pair = [0, 1].map(|rank| {
            let name = format!("tests/fixtures/ddp_rank{rank}.pickle.zst");
            read(&tests::workspace_root().join(name))
        });
        let jobs = [job(&ranks, "ddp", &pair), large_job(&ranks, JOB)];
        Self {
            empty: TestServer::start(),
            ranks,
            jobs,
            long_run: finished_run(&bench, &started),
            few,
            many,
            closed: TestServer::start_with(&["--token-file", file]),
            runs,
            bench,
            open_link,
            redacted_link,
            ended_link,
            _token: token,
        }
    }

    /// The run of a fixture.
    pub fn run(&self, name: &str) -> &str {
        let found = self.runs.iter().find(|run| run.0 == name);
        &found.expect("it was uploaded").1
    }
}

pub fn upload_fixture(server: &TestServer, name: &str) -> String {
    let file = format!("{name}.pickle.zst");
    let path = tests::workspace_root().join("tests/fixtures").join(&file);
    let (_, file) = file.rsplit_once('/').unwrap_or(("", &file));
    upload(server, file, &read(&path))
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Uploads a snapshot; returns its run's id.
fn upload(server: &TestServer, file: &str, bytes: &[u8]) -> String {
    let url = server.url(&api::routes::upload_named(file));
    let answer = ureq::put(&url).send(bytes);
    text(&json_of(answer), &["run", "id"])
}

/// A job of many small ranks, of which rank 7 is odd; the path of its page.
pub fn large_job(server: &TestServer, n: u32) -> String {
    let ranks = (0..n).map(|rank| {
        // The same except for the path of the program, so that each becomes its own run.
        let text = small_snapshot(if rank == 7 { 20 } else { 40 }).to_string();
        let path = format!("/srv/{rank}/train.py");
        text.replace("train.py", &path).into_bytes()
    });
    job(server, "pretrain", &ranks.collect::<Vec<_>>())
}

/// Uploads the ranks of a job; returns the path of its page once all ranks are read.
fn job(server: &TestServer, name: &str, ranks: &[Vec<u8>]) -> String {
    let made = post(server, api::routes::JOBS, &json!({ "name": name }));
    let id = text(&made, &["id"]);
    for (rank, bytes) in ranks.iter().enumerate() {
        let path = format!("/api/upload/rank{rank}.pickle?job={id}");
        json_of(ureq::put(server.url(&path)).send(&bytes[..]));
    }
    let began = Instant::now();
    while get(server, &format!("/api/jobs/{id}"))["waiting"] != 0 {
        assert!(
            began.elapsed() < BENCH_TIMEOUT,
            "the ranks are not looked at"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    format!("/jobs/{id}")
}

fn post(server: &TestServer, path: &str, body: &Value) -> Value {
    let request = ureq::post(server.url(path)).header("content-type", "application/json");
    json_of(request.send(body.to_string().as_bytes()))
}

fn get(server: &TestServer, path: &str) -> Value {
    json_of(ureq::get(server.url(path)).call())
}

fn json_of(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Value {
    let mut answer = answer.expect("the server agrees");
    let body = answer.body_mut().read_to_string().expect("a body");
    serde_json::from_str(&body).expect("JSON")
}

fn text(document: &Value, path: &[&str]) -> String {
    let found = path.iter().fold(document, |at, key| &at[*key]);
    let found = found.as_str();
    found
        .unwrap_or_else(|| panic!("no {path:?} in {document}"))
        .to_owned()
}

/// Makes a capability link to a run with something selected; returns its address.
fn share(server: &TestServer, run: &str, query: &str, redaction: &str) -> String {
    let link = json!({
        "kind": "capability",
        "target": { "kind": "run", "run": run },
        "query": query,
        "redaction": redaction,
        "note": "for the review",
        "created_by": "Kim",
        "expires_in_s": 30 * 24 * 3600,
    });
    text(&post(server, api::routes::SHARES, &link), &["url"])
}

fn revoke_newest(server: &TestServer, run: &str) {
    let links = get(server, &format!("{}?run={run}", api::routes::SHARES));
    let newest = links
        .as_array()
        .and_then(|links| links.first())
        .expect("links");
    let path = format!("{}/{}?by=Kim", api::routes::SHARES, text(newest, &["id"]));
    ureq::delete(server.url(&path))
        .call()
        .expect("the link is taken back");
}

/// Starts a bench of two configurations with their baselines, one of them long; returns the bench's
/// id.
fn start_bench(server: &TestServer) -> String {
    let row = |config: &str, patches: &[&str]| json!({ "config": config, "patches": patches });
    let bench = json!({
        "rows": [row("dedupe-reuse", &["release-dedupe-key"]), row("vl-qwen3.5-9b", &[])],
        "device": "sim",
        "steps": 24,
        "recorded_steps": 24,
    });
    text(&post(server, api::routes::BENCHES, &bench), &["id"])
}

/// Waits for the bench; returns the run of its longest row.
fn finished_run(server: &TestServer, bench: &str) -> String {
    let started = Instant::now();
    loop {
        let bench = get(server, &format!("{}/{bench}", api::routes::BENCHES));
        let rows = bench["rows"].as_array().expect("rows");
        let done = rows
            .iter()
            .all(|row| row["state"]["state"] == "done" && row["run"].is_string());
        if done {
            let long = rows.iter().find(|row| row["config"] == "vl-qwen3.5-9b");
            return text(long.expect("it was asked for"), &["run"]);
        }
        assert!(started.elapsed() < BENCH_TIMEOUT, "the bench: {bench}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A few steps of a small program; another `at` gives another program.
fn small_snapshot(at: u32) -> Value {
    let frame = json!({ "filename": "train.py", "line": 20 + at, "name": "step" });
    let event = |action: &str, block: u32, time: u32| {
        json!({
            "action": action,
            "addr": 0x7f00_0000_0000_u64 + u64::from(block) * 0x20_0000,
            "size": (1 + (at * 7 + block) % 12) * 0x10_0000,
            "stream": 0,
            "time_us": 1_000_000 + time,
            "frames": [frame],
        })
    };
    let steps = 2 + at % 5;
    let events = (0..steps).flat_map(|step| {
        let alloc = (0..4).map(move |block| ("alloc", block, step * 100 + block));
        let frees = (0..4)
            .rev()
            .map(move |block| ("free", block, step * 100 + 50 - block));
        alloc.chain(frees).collect::<Vec<_>>()
    });
    let mut trace = Vec::new();
    for (action, block, time) in events {
        match action {
            "alloc" => trace.push(event("alloc", block, time)),
            _ => {
                trace.push(event("free_requested", block, time));
                trace.push(event("free_completed", block, time));
            }
        }
    }
    json!({ "segments": [], "device_traces": [trace] })
}
