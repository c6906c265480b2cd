//! Old runs go, on request: `tidemark prune` against a real server.

use crate::recipes::fixture;
use serde_json::{Value, json};
use std::process::Command;
use tests::TestServer;

fn tidemark(server: &TestServer, args: &[&str]) -> String {
    let output = Command::new(tests::tidemark())
        .args(args)
        .args(["--server", &server.url("/")])
        .output()
        .expect("tidemark runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    String::from_utf8(output.stdout).expect("a text")
}

#[test]
fn old_runs_go_when_somebody_says_so_and_pinned_ones_stay() {
    let server = TestServer::start();
    for (name, labels) in [
        ("plain_lm", &["--label", "pinned=yes"][..]),
        ("streams", &[]),
        ("oom", &[]),
    ] {
        let file = fixture(name).display().to_string();
        tidemark(&server, &[&["push", &file], labels].concat());
    }
    let prune = |args: &[&str]| {
        let args = [&["prune", "--json"], args].concat();
        serde_json::from_str::<Value>(&tidemark(&server, &args)).expect("JSON")
    };
    let kept = json!({ "newest": 1, "pinned": 1 });
    for args in [&["--keep", "1"][..], &["--keep", "1", "--delete"]] {
        let plan = prune(args);
        assert_eq!(plan["runs"][0]["name"], "streams.pickle.zst", "{plan}");
        assert_eq!(plan["runs"].as_array().map(Vec::len), Some(1));
        assert_eq!(plan["kept"], kept);
    }
    assert_eq!(prune(&["--keep", "1", "--delete"])["runs"], json!([]));
    let said = tidemark(&server, &["prune", "--keep", "1"]);
    assert!(
        said.starts_with("nothing would be deleted\n1 run kept: among the newest\n"),
        "{said}"
    );
}

#[test]
fn a_run_that_is_pinned_later_stays() {
    let server = TestServer::start();
    let file = fixture("streams").display().to_string();
    tidemark(&server, &["push", &file]);
    let plan = || {
        let plan = tidemark(&server, &["prune", "--json", "--keep", "0"]);
        serde_json::from_str::<Value>(&plan).expect("JSON")
    };
    let run = plan()["runs"][0]["run"].clone();
    let run = run.as_str().expect("an id");
    let said = tidemark(&server, &["label", run, "pinned=yes", "team=vision"]);
    let named = "streams.pickle.zst:";
    let both = said.starts_with(named) && said.ends_with(" pinned=yes team=vision\n");
    assert!(both, "{said}");
    assert_eq!(plan()["kept"], json!({ "pinned": 1 }));
    let said = tidemark(&server, &["label", run, "--remove", "pinned"]);
    let one = said.ends_with(" team=vision\n") && !said.contains("pinned");
    assert!(one, "{said}");
    assert_eq!(plan()["kept"], json!({}));
}

#[test]
fn a_pull_request_keeps_what_it_shows_last_and_what_it_showed_lately() {
    let server = TestServer::start();
    for (base, new) in [("plain_lm", "streams"), ("streams", "oom")] {
        let files = [base, new].map(|name| fixture(name).display().to_string());
        // The exit status is that of the verdict.
        Command::new(tests::tidemark())
            .args(["push", "--server", &server.url("/")])
            .args(["--pr", "https://github.com/me/repo/pull/7"])
            .args(&files)
            .output()
            .expect("tidemark runs");
    }
    let prune = |args: &[&str]| {
        let args = [&["prune", "--json", "--keep", "0"], args].concat();
        serde_json::from_str::<Value>(&tidemark(&server, &args)).expect("JSON")
    };
    let plan = prune(&[]);
    assert_eq!(plan["kept"], json!({ "pull_request": 3 }), "{plan}");
    let plan = prune(&["--pr-days", "0"]);
    assert_eq!(plan["kept"], json!({ "pull_request": 2 }), "{plan}");
    assert_eq!(plan["runs"][0]["name"], "plain_lm.pickle.zst", "{plan}");
}
