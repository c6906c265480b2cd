//! The recipes that users copy from this repository, against a real server: the Python capture with
//! a stand-in for torch, and the shell steps of the GitHub Actions example.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tests::TestServer;

/// A stand-in for torch without a GPU: it returns a recorded snapshot, and fails on request.
const FAKE_TORCH: &str = include_str!("../../recipes/tests/stand_ins/torch.py");

/// The smallest possible recording.
const PLAIN_SNAPSHOT: &str = r#"{"segments": [], "device_traces": [[
    {"action": "alloc", "addr": 1024, "size": 512, "stream": 0, "frames": []}]]}"#;

fn recipe(name: &str) -> PathBuf {
    tests::workspace_root().join("recipes").join(name)
}

pub fn fixture(name: &str) -> PathBuf {
    tests::workspace_root().join(format!("tests/fixtures/{name}.pickle.zst"))
}

/// A folder with the stand-in, the capture and a training script.
pub fn program(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("it can be written");
    };
    write("torch.py", FAKE_TORCH);
    write("train.py", script);
    std::fs::copy(
        recipe("tidemark_capture.py"),
        folder.path().join("tidemark_capture.py"),
    )
    .expect("the recipe is there");
    folder
}

fn python(folder: &Path, args: &[&str], snapshot: &Path) -> Output {
    command(folder, args, snapshot)
        .output()
        .expect("python3 runs")
}

/// Python with the stand-in and the capture, and with nothing set but the place of the spool.
pub fn command(folder: &Path, args: &[&str], snapshot: &Path) -> Command {
    let mut command = Command::new("python3");
    command
        .args(args)
        .current_dir(folder)
        .env("PYTHONPATH", folder)
        .env("FAKE_SNAPSHOT", snapshot)
        .env("TIDEMARK_SPOOL", folder.join("spool"))
        .env_remove("TIDEMARK_SERVER")
        .env_remove("TIDEMARK_TOKEN");
    command
}

/// The answer of the server.
fn answer(server: &TestServer, path: &str, token: Option<&str>) -> Value {
    let mut command = Command::new("curl");
    command.args(["--silent", "--fail", &server.url(path)]);
    if let Some(token) = token {
        command.args(["--header", &format!("Authorization: Bearer {token}")]);
    }
    let output = command.output().expect("curl runs");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn names_of(server: &TestServer) -> Vec<String> {
    names_in(&answer(server, "/api/runs", None))
}

fn names_in(runs: &Value) -> Vec<String> {
    let runs = runs.as_array().expect("a list");
    let mut names: Vec<String> = runs
        .iter()
        .map(|run| run["name"].as_str().expect("a name").to_owned())
        .collect();
    names.sort();
    names
}

/// Runs the capture's own tests: faults, the spool, ranks, callbacks, what a step costs.
#[test]
fn the_capture_passes_its_own_tests() {
    let output = Command::new("python3")
        .args(["-B", "-m", "unittest", "discover", "-s"])
        .arg(recipe("tests"))
        .output()
        .expect("python3 runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && log.contains("\nOK"), "{log}");
}

#[test]
fn a_capture_uploads_at_the_end_and_every_n_steps() {
    let server = TestServer::start();
    let script = format!(
        "import os\n\
         from tidemark_capture import Capture\n\
         with Capture('{}', name='llama', every=2) as capture:\n\
         \x20   for step in range(3):\n\
         \x20       capture.step()\n\
         \x20   os.environ['FAKE_SNAPSHOT'] = r'{}'\n\
         assert len(capture.links) == 2, capture.links\n",
        server.url(""),
        fixture("streams").display()
    );
    let folder = program(&script);
    let output = python(folder.path(), &["train.py"], &fixture("plain_lm"));
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(log.contains("/runs/run_"), "{log}");
    assert_eq!(names_of(&server), ["llama-step2.pickle", "llama.pickle"]);
}

#[test]
fn running_out_of_memory_is_captured_once_and_still_fails_the_script() {
    let server = TestServer::start();
    let folder = program("import torch\ntorch.run_out_of_memory()\n");
    let url = server.url("");
    let args = [
        "tidemark_capture.py",
        "--server",
        &url,
        "--compress",
        "train.py",
    ];
    // The fixtures are compressed already, so this file is unpacked and then compressed once.
    let plain = folder.path().join("plain.json");
    std::fs::write(&plain, PLAIN_SNAPSHOT).expect("it can be written");
    let output = python(folder.path(), &args, &plain);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && log.contains("CUDA out of memory"),
        "{log}"
    );
    assert_eq!(names_of(&server), ["train-oom.pickle.gz"]);
}

#[test]
fn an_upload_that_fails_never_fails_the_training() {
    let script = "from tidemark_capture import Capture\n\
                  with Capture('http://127.0.0.1:9', name='x'):\n\
                  \x20   pass\n\
                  print('trained')\n";
    let folder = program(script);
    let output = python(folder.path(), &["train.py"], &fixture("plain_lm"));
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "trained");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(
        log.contains("no snapshot was uploaded") && log.contains("curl -T"),
        "{log}"
    );
}

/// A program that ends at once; its capture is configured by environment variables.
const SET_FROM_OUTSIDE: &str = "from tidemark_capture import Capture\n\
                                with Capture() as capture:\n\
                                \x20   capture.step()\n";

/// Runs two ranks of a program that end at the same time and send what they recorded.
pub fn train_on_two_ranks(server: &TestServer, name: &str, token: Option<&str>) {
    let folder = program(SET_FROM_OUTSIDE);
    let ranks = ["0", "1"].map(|rank| {
        let snapshot = fixture(&format!("ddp_rank{rank}"));
        let mut command = command(folder.path(), &["train.py"], &snapshot);
        // The variables that torchrun sets on one host.
        command
            .envs([("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2")])
            .envs([("RANK", rank), ("LOCAL_RANK", rank)])
            .env("TORCHELASTIC_RUN_ID", "none")
            .env("TIDEMARK_SERVER", server.url(""))
            .env("TIDEMARK_NAME", name);
        if let Some(token) = token {
            command.env("TIDEMARK_TOKEN", token);
        }
        command.spawn().expect("python3 runs")
    });
    for mut rank in ranks {
        assert!(rank.wait().expect("it ends").success());
    }
}

#[test]
fn two_ranks_at_once_are_one_job() {
    let server = TestServer::start();
    train_on_two_ranks(&server, "ddp", None);
    assert_eq!(names_of(&server), ["ddp-rank0.pickle", "ddp-rank1.pickle"]);
    let jobs = answer(&server, "/api/jobs", None);
    assert_eq!(jobs.as_array().map(Vec::len), Some(1), "{jobs}");
    assert_eq!(
        (&jobs[0]["name"], &jobs[0]["n_ranks"]),
        (&json!("ddp"), &json!(2))
    );
}

#[test]
fn what_the_server_refuses_waits_and_is_sent_later() {
    let folder = program(SET_FROM_OUTSIDE);
    let token = "tm_0123456789abcdefghijklmnop";
    let file = folder.path().join("token");
    std::fs::write(&file, token).expect("it can be written");
    let server = TestServer::start_with(&["--token-file", file.to_str().expect("text")]);
    let snapshot = fixture("plain_lm");
    let with_server = |args: &[&str], token: Option<&str>| {
        let mut command = command(folder.path(), args, &snapshot);
        command.env("TIDEMARK_SERVER", server.url(""));
        command.envs(token.map(|token| ("TIDEMARK_TOKEN", token)));
        command.output().expect("python3 runs")
    };
    let trained = with_server(&["train.py"], None);
    let log = String::from_utf8_lossy(&trained.stderr);
    assert!(
        trained.status.success() && log.contains("later: python -m"),
        "{log}"
    );
    let runs = || names_in(&answer(&server, "/api/runs", Some(token)));
    assert_eq!(runs(), [""; 0]);

    let send = ["-m", "tidemark_capture", "spool", "--send"];
    assert!(!with_server(&send, None).status.success());
    let sent = with_server(&send, Some(token));
    let link = String::from_utf8_lossy(&sent.stdout);
    assert!(
        sent.status.success() && link.contains("/runs/run_"),
        "{sent:?}"
    );
    assert_eq!(runs(), ["snapshot.pickle"]);
    let left = with_server(&send[..3], None);
    assert_eq!(left.stdout, b"", "{left:?}");
}

#[test]
fn what_is_too_large_for_the_server_is_refused_before_it_is_sent() {
    let server = TestServer::start_with(&["--upload-limit", "1KiB"]);
    let folder = program(SET_FROM_OUTSIDE);
    let mut command = command(folder.path(), &["train.py"], &fixture("plain_lm"));
    command.env("TIDEMARK_SERVER", server.url(""));
    let output = command.output().expect("python3 runs");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(
        log.contains("no snapshot was uploaded: ") && log.contains("1.00 KiB"),
        "{log}"
    );
    assert_eq!(names_of(&server), [""; 0]);
}

/// The shell steps of a workflow, by name: the `run: |` blocks, as GitHub would read them.
fn shell_steps(workflow: &str) -> Vec<(String, String)> {
    let mut steps = Vec::new();
    let mut name = String::new();
    let mut lines = workflow.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(found) = line.trim().strip_prefix("- name: ") {
            found.clone_into(&mut name);
        }
        if line.trim() != "run: |" {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let mut script = String::new();
        while let Some(next) = lines
            .next_if(|next| next.trim().is_empty() || next.len() - next.trim_start().len() > indent)
        {
            script.push_str(next.trim());
            script.push('\n');
        }
        steps.push((name.clone(), script));
    }
    steps
}

/// Does what a runner does with a workflow's shell steps. Returns the exit status of each step, and
/// the job summary.
fn run_workflow(server: &TestServer, base: &str, new: &str) -> (Vec<(String, i32)>, String) {
    let workflow = std::fs::read_to_string(recipe("github-actions.yml")).expect("the recipe");
    let folder = tempfile::tempdir().expect("a folder");
    let at = |path: &str| folder.path().join(path);
    for (checkout, snapshot) in [("base", base), ("new", new)] {
        std::fs::create_dir_all(at(checkout).join(".github")).expect("a folder");
        let script = format!(
            "import os, sys\n\
             assert sys.argv[1:] == ['--steps', '12'], sys.argv\n\
             os.environ['FAKE_SNAPSHOT'] = r'{}'\n",
            fixture(snapshot).display()
        );
        std::fs::write(at(checkout).join("train.py"), script).expect("it can be written");
    }
    let capture = at("new/.github/tidemark_capture.py");
    std::fs::copy(recipe("tidemark_capture.py"), capture).expect("the recipe is there");
    std::fs::create_dir(at("packages")).expect("a folder");
    std::fs::write(at("packages/torch.py"), FAKE_TORCH).expect("it can be written");
    std::fs::create_dir(at("bin")).expect("a folder");
    // A link, because the binary under test may have any name.
    std::os::unix::fs::symlink(tests::tidemark(), at("bin/tidemark")).expect("a link");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", at("bin").display());
    let steps = shell_steps(&workflow).into_iter().map(|(name, script)| {
        // GitHub starts `shell: bash` in this way.
        let output = Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env("PYTHONPATH", at("packages"))
            .env("GITHUB_STEP_SUMMARY", at("summary.md"))
            .env("TIDEMARK_SERVER", server.url(""))
            .env("PR_URL", "https://github.com/me/repo/pull/7")
            // An unreachable forge does not change the verdict.
            .env("GITHUB_TOKEN", "no-token")
            .env("GITHUB_SERVER_URL", "https://github.com")
            .env("GITHUB_API_URL", "http://127.0.0.1:9")
            .output()
            .expect("bash runs");
        let code = output.status.code().expect("it was not killed");
        eprintln!(
            "{name}: {code}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        (name, code)
    });
    let codes = steps.collect();
    let summary = std::fs::read_to_string(at("summary.md")).expect("a summary was written");
    (codes, summary)
}

#[test]
fn the_workflow_fails_a_leak_and_links_the_comparison() {
    let server = TestServer::start();
    let (codes, summary) = run_workflow(&server, "off_v3_moe", "off_v1_moe");
    let expected = [
        ("Remove the snapshots of earlier jobs", 0),
        ("Record the base", 0),
        ("Record the pull request", 0),
        ("Gate", 1),
        ("Link the comparison", 0),
    ];
    assert_eq!(codes, expected.map(|(name, code)| (name.to_owned(), code)));
    assert!(summary.contains("❌ Regression"), "{summary}");
    let link = format!("{}/compare?v=1&runs=run_", server.url(""));
    assert!(summary.contains(&link), "{summary}");
    let recorded = answer(&server, "/api/comparisons", None);
    assert_eq!(recorded[0]["pr"], "https://github.com/me/repo/pull/7");
}

#[test]
fn the_workflow_passes_a_fix() {
    let server = TestServer::start();
    let (codes, summary) = run_workflow(&server, "off_v1_moe", "off_v3_moe");
    assert!(codes.iter().all(|(_, code)| *code == 0), "{codes:?}");
    assert!(summary.contains("✅ Pass"), "{summary}");
}
