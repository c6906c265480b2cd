//! A folder that is pushed: its link, and what CI notices.

use super::{fixture, said, tidemark_in};
use crate::serving::{Serving, serve};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// A folder with these files; each is a copy of a fixture, or no snapshot.
fn folder_of(at: &Path, files: &[(&str, &str)]) {
    std::fs::create_dir_all(at).unwrap();
    for (name, source) in files {
        let file = at.join(name);
        match *source {
            "" => std::fs::write(file, "no snapshot").unwrap(),
            source => drop(std::fs::copy(fixture(source), file).unwrap()),
        }
    }
}

const RANKS: [(&str, &str); 2] = [
    ("rank0.pickle", "ddp_rank0.pickle.zst"),
    ("rank1.pickle", "ddp_rank1.pickle.zst"),
];

#[test]
fn a_folder_that_is_pushed_again_is_the_same_job() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"));
    let push = |what: &str| {
        let args = ["push", what, "--server", &server.url()];
        let (out, error, status) = said(&tidemark_in(folder.path(), &args));
        assert_eq!((status, error.as_str()), (0, ""), "{what}: {out}");
        out.trim().to_owned()
    };
    folder_of(&folder.path().join("night"), &RANKS);
    let first = push("night");
    assert!(first.contains("/jobs/job_"), "{first}");
    assert_eq!(push("night"), format!("{first} (known before)"));
    std::fs::rename(folder.path().join("night"), folder.path().join("moved")).unwrap();
    assert_eq!(push("moved"), format!("{first} (known before)"));
    // One rank more is another job, and the first link still leads to its ranks.
    let third = [("rank2.pickle", "plain_lm.pickle.zst")];
    folder_of(&folder.path().join("moved"), &third);
    let larger = push("moved");
    assert!(larger.contains("/jobs/job_") && larger != first, "{larger}");
    let api = first.replace("/jobs/", "/api/jobs/");
    let mut answer = ureq::get(&api).call().unwrap();
    let detail = answer.body_mut().read_to_vec().unwrap();
    let detail: Value = serde_json::from_slice(&detail).unwrap();
    assert_eq!(detail["job"]["n_ranks"], 2);
}

#[test]
fn what_a_folder_has_besides_ranks_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"));
    let check = |name: &str, others: &[(&str, &str)], expected: &str| {
        folder_of(&folder.path().join(name), &[&RANKS, others].concat());
        let args = ["push", name, "--server", &server.url()];
        let (out, error, status) = said(&tidemark_in(folder.path(), &args));
        assert_eq!(status, 0, "{error}");
        assert_eq!(out.lines().count(), 1, "{out}");
        assert!(error.starts_with(expected), "{error}");
    };
    check(
        "one",
        &[("lone.pickle", "plain_lm.pickle.zst")],
        "1 other file is not a rank of a job and was not sent",
    );
    check(
        "two",
        &[("lone.pickle", "plain_lm.pickle.zst"), ("notes.txt", "")],
        "2 other files are not ranks of a job and were not sent",
    );
}

#[test]
fn ci_notices_a_rank_that_is_refused_and_a_person_a_missing_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"));
    let push = |what: &str, more: &[&str]| {
        let url = server.url();
        let args = [&["push", what, "--server", &url], more].concat();
        said(&tidemark_in(folder.path(), &args))
    };
    let hole = [RANKS[0], ("rank3.pickle", "ddp_rank1.pickle.zst")];
    folder_of(&folder.path().join("hole"), &hole);
    let (out, error, status) = push("hole", &[]);
    assert_eq!(status, 0);
    assert!(out.contains("/jobs/job_"), "{out}");
    assert_eq!(error, "hole: Ranks 1 and 2 are missing.\n");

    let refused = [
        RANKS[0],
        ("rank1.pickle", ""),
        ("rank2.pickle", "plain_lm.pickle.zst"),
    ];
    folder_of(&folder.path().join("refused"), &refused);
    let (out, error, status) = push("refused", &[]);
    assert_eq!(status, 2, "{error}");
    assert!(out.contains("/jobs/job_"), "the others are sent: {out}");
    for told in ["Rank 1 is missing", "rank1.pickle", "not a memory snapshot"] {
        assert!(error.contains(told), "{told}: {error}");
    }
    let (out, _, status) = push("refused", &["--json"]);
    assert_eq!(status, 2);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["known"], true);
    assert_eq!(document["missing"], serde_json::json!([1]));
    assert_eq!(document["refused"].as_array().unwrap().len(), 1);

    folder_of(
        &folder.path().join("none"),
        &[("rank0.pickle", ""), ("rank1.pickle", "")],
    );
    let (out, error, status) = push("none", &[]);
    assert_eq!((status, out.as_str()), (2, ""), "{error}");
}

#[test]
fn a_named_file_that_is_refused_hides_nothing_of_what_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"));
    let push = |what: &[&str]| {
        let url = server.url();
        let args = [&["push", "--json", "--server", &url], what].concat();
        let (out, error, status) = said(&tidemark_in(folder.path(), &args));
        assert_eq!(status, 2, "{what:?}: {error}");
        assert!(error.contains("broken.pickle"), "{what:?}: {error}");
        let document: Value = serde_json::from_str(&out).unwrap();
        (document, error)
    };
    let files = [
        ("first.pickle", "plain_lm.pickle.zst"),
        ("broken.pickle", ""),
        ("last.pickle", "ddp_rank0.pickle.zst"),
    ];
    folder_of(folder.path(), &files);
    let ranks = [RANKS[0], RANKS[1], ("rank2.pickle", "")];
    folder_of(&folder.path().join("ranks"), &ranks);

    let named = ["first.pickle", "broken.pickle", "last.pickle"];
    for more in [&[][..], &["--compare"]] {
        let (sent, _) = push(&[&named, more].concat());
        let sent: Vec<&Value> = sent.as_array().unwrap().iter().collect();
        let names: Vec<&Value> = sent.iter().map(|one| &one["run"]["name"]).collect();
        assert_eq!(names, ["first.pickle", "last.pickle"]);
    }
    let (sent, error) = push(&["ranks", "broken.pickle"]);
    assert_eq!(sent[0][0]["job"]["n_ranks"], 2, "{sent}");
    // The job knows of the rank that it was not sent.
    assert_eq!(sent[0][0]["missing"], serde_json::json!([2]), "{sent}");
    assert!(error.contains("Rank 2 is missing."), "{error}");
    assert_eq!(sent[1], serde_json::json!([]));
    assert!(error.contains("rank2.pickle"), "{error}");
}

/// Each time, though the server does not read what is sent then.
/// With `--json`, CI sees only the exit status.
#[test]
fn a_folder_of_which_nothing_is_sent_is_an_error_in_either_form() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"));
    let files = [
        ("snapshot.pickle", "plain_lm.pickle.zst"),
        ("notes.txt", ""),
    ];
    folder_of(&folder.path().join("solo"), &files);
    for json in [&["--json"][..], &[]] {
        let url = server.url();
        let args = [&["push", "solo", "--server", &url], json].concat();
        let (out, error, status) = said(&tidemark_in(folder.path(), &args));
        assert_eq!((status, out.as_str()), (2, ""), "{json:?}: {error}");
        assert!(error.contains("ranks of one job"), "{error}");
    }
}

/// Nobody knows how much a pipe holds before it ends.
#[test]
fn what_comes_from_a_pipe_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidemark"))
        .args(["push", "-", "--json", "--server", &server.url()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let file = std::fs::read(fixture("plain_lm.pickle.zst")).unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&file).unwrap();
    drop(pipe);
    let answer = child.wait_with_output().unwrap();
    assert!(answer.status.success());
    let document: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(document["run"]["name"], "stdin");
    assert_eq!(document["run"]["file_bytes"], file.len());
    let twice = ["push", "-", "-", "--server", &server.url()];
    let (_, error, status) = said(&tidemark_in(folder.path(), &twice));
    assert_eq!(status, 2);
    assert!(error.contains("only once"), "{error}");
}

#[test]
fn whoever_may_not_send_hears_why_whatever_the_size_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = serve(&folder.path().join("data"));
    command.args(["--token", "0123456789abcdef0123456789abcdef"]);
    let server = Serving::run(command).unwrap_or_else(|log| panic!("it does not start: {log}"));
    std::fs::write(folder.path().join("large.pickle"), vec![0x80; 8 << 20]).unwrap();
    for _ in 0..8 {
        let args = ["push", "large.pickle", "--server", &server.url()];
        let (_, error, status) = said(&tidemark_in(folder.path(), &args));
        assert_eq!(status, 1);
        assert!(error.contains("needs an access token"), "{error}");
    }
}

/// A run that is on the server though the command failed would be sent again.
#[test]
fn what_is_refused_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"));
    folder_of(folder.path(), &RANKS);
    folder_of(&folder.path().join("night"), &RANKS);
    let runs = || {
        let mut answer = ureq::get(format!("{}/api/runs", server.url()))
            .call()
            .unwrap();
        let runs = answer.body_mut().read_to_vec().unwrap();
        let runs: Vec<Value> = serde_json::from_slice(&runs).unwrap();
        runs.len()
    };
    let check = |args: &[&str], why: &str| {
        let url = server.url();
        let args = [&["push", "--server", &url], args].concat();
        let (out, error, status) = said(&tidemark_in(folder.path(), &args));
        assert_eq!((status, out.as_str()), (2, ""), "{args:?}: {error}");
        assert!(error.contains(why), "{args:?}: {error}");
        assert_eq!(runs(), 0, "{args:?}");
    };
    let two = ["rank0.pickle", "rank1.pickle"];
    let pr = |address| [&two[..], &["--pr", address]].concat();
    check(&pr("nonsense"), "--pr: a pull request is");
    check(&pr("javascript:alert(1)"), "--pr: a pull request is");
    check(&["rank0.pickle", "night", "--pr", "x"], "--pr: ");
    check(&["rank0.pickle", "rank7.pickle"], "cannot open it");
    let missing = ["rank0.pickle", "gone.pickle", "--compare"];
    check(&missing, "cannot open it");
    check(&["night", "gone.pickle"], "cannot open it");
    let labels: Vec<String> = (0..33).map(|at| format!("--label=k{at}=v")).collect();
    let labels = labels.iter().map(String::as_str);
    let labels: Vec<&str> = std::iter::once("night").chain(labels).collect();
    check(&labels, "at most 32 labels, not 33");
}

/// Also where nobody has named the project: a token may be of one.
#[test]
fn a_link_leads_into_the_project_where_there_are_several() {
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(&folder.path().join("data"));
    let new = ureq::post(format!("{}/api/projects", server.url()))
        .header("content-type", "application/json")
        .send(r#"{"name":"vision"}"#);
    assert_eq!(new.unwrap().status().as_u16(), 201);
    let place = folder.path().join("night");
    folder_of(&place, &RANKS);
    let (url, file) = (server.url(), fixture("plain_lm.pickle.zst"));
    let check = |args: &[&str], page: &str, end: &str| {
        let args = [args, &["--server", &url]].concat();
        let (out, error, status) = said(&tidemark_in(folder.path(), &args));
        assert_eq!(status, 0, "{error}");
        assert!(out.contains(page), "{out}");
        assert!(out.contains(end), "{out}");
    };
    let (main, vision) = ("?project=main", "?project=vision");
    check(&["push", &file], "/runs/run_", main);
    check(
        &["push", &file, "--project", "vision"],
        "/runs/run_",
        vision,
    );
    check(&["push", "night"], "/jobs/job_", main);
    let [one, two] = ["night/rank0.pickle", "night/rank1.pickle"];
    let compared = ["push", "--compare", one, two, "--project", "vision"];
    check(&compared, "/compare?v=1&runs=run_", "&project=vision");
}
