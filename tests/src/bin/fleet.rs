//! Measures a store with thousands of runs: `./bench fleet`. `FLEET_RUNS` is their number, 10,000
//! unless given.
//!
//! Each run is a small recording that is uploaded like any other, with the labels that a CI would
//! set. Printed are the times of what a team does with a full store; each is the slowest of
//! several. Nothing is asserted: a busy machine must not fail a build.

use api::labels::Label;
use api::routes;
use std::time::{Duration, Instant};
use tests::TestServer;
use tests::fleet::{self, SENDERS};

/// What is promised for each.
const BUDGET: Duration = Duration::from_millis(300);
/// How often each is asked.
const ROUNDS: usize = 5;

fn main() {
    let runs = std::env::var("FLEET_RUNS").ok();
    let runs = runs.map_or(10_000, |n| n.parse().expect("FLEET_RUNS is a number"));
    let mut server = TestServer::start();
    let began = Instant::now();
    fleet::fill(&server, runs);
    let each = began.elapsed().as_secs_f64() * 1e3 / runs as f64;
    println!("{runs} runs uploaded and labelled, {each:.1} ms each by {SENDERS} clients");
    println!("| what | budget | slowest of {ROUNDS} | answer |\n|---|---|---|---|");

    let label = |key: &str, value: &str| Label::new(key, value).expect("a label");
    let branch = [label("branch", "branch-7")];
    let both = [label("branch", "branch-7"), label("config", "config-2")];
    let commit = [label("commit", &fleet::labels(runs / 2)["commit"])];
    let asked = [
        ("the list, its first page", routes::RUNS.to_owned()),
        (
            "the list, its last page",
            format!("{}?offset={}", routes::RUNS, runs.saturating_sub(1000)),
        ),
        ("runs of one branch", routes::runs_with(&branch)),
        (
            "runs of one branch and configuration",
            routes::runs_with(&both),
        ),
        ("the run of one commit", routes::runs_with(&commit)),
        (
            "history of one branch and configuration",
            routes::history(&both),
        ),
        ("the page of that history", routes::history_page(&both)),
        ("history of one branch", routes::history(&branch)),
        ("the page of jobs", routes::JOBS_PAGE.to_owned()),
    ];
    for (what, path) in &asked {
        let times = (0..ROUNDS).map(|_| timed(&server, path));
        let (slowest, bytes) = times.max().expect("several rounds");
        row(what, slowest, &format!("{bytes} bytes"));
    }
    let starts = (0..ROUNDS).map(|_| {
        let began = Instant::now();
        server.restart();
        let (_, bytes) = timed(&server, routes::RUNS);
        (began.elapsed(), bytes)
    });
    let (slowest, _) = starts.max().expect("several rounds");
    row(
        "start, until the list was answered",
        slowest,
        "after a kill",
    );
}

fn row(what: &str, took: Duration, answer: &str) {
    let (ms, most) = (took.as_secs_f64() * 1e3, BUDGET.as_millis());
    println!("| {what} | ≤ {most} ms | {ms:.0} ms | {answer} |");
}

fn timed(server: &TestServer, path: &str) -> (Duration, usize) {
    let began = Instant::now();
    let mut answer = ureq::get(server.url(path)).call().expect("an answer");
    let body = answer.body_mut().with_config().limit(1 << 30).read_to_vec();
    (began.elapsed(), body.expect("a whole answer").len())
}
