//! The real binary: tests that need a real process.

use crate::serving::{Serving, serve};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const OOM: &[u8] = include_bytes!("../../../tests/fixtures/oom.pickle.zst");
const SNAPSHOT: &[u8] = include_bytes!("../../../tests/fixtures/off_v1_moe.pickle.zst");

fn tidemark(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_tidemark"))
        .args(args)
        .output();
    output.expect("the binary was built")
}

/// A server, and what is asked of it.
struct Server(Serving);

impl Deref for Server {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.0
    }
}

impl Server {
    fn start(data: &Path) -> Server {
        let mut command = serve(data);
        command.args(["--repack-level", "0"]);
        Server(Serving::run(command).expect("it starts"))
    }

    /// `kill -9`.
    fn kill(mut self) {
        self.0.kill();
    }

    fn begin_put(&self, length: usize) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "PUT /api/upload/a.pickle HTTP/1.1\r\nHost: {}\r\nContent-Length: {length}\r\n\r\n",
            self.address
        )
        .unwrap();
        stream
    }

    fn get(&self, path: &str) -> serde_json::Value {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let host = &self.address;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        serde_json::from_str(body).unwrap()
    }

    /// The HTTP status of the answer to this path with this token.
    fn status(&self, path: &str, token: &str) -> u16 {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let host = &self.address;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap();
        status.parse().unwrap()
    }

    fn runs(&self) -> usize {
        self.get("/api/runs").as_array().unwrap().len()
    }
}

fn database(data: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(data.join("tidemark.db")).unwrap()
}

fn count(data: &Path, sql: &str) -> i64 {
    database(data).query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Number of files in a folder of blobs, without the file that names the owner.
fn files_in(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name() != "owner")
        .map(|entry| {
            if entry.path().is_dir() {
                files_in(&entry.path())
            } else {
                1
            }
        })
        .sum()
}

/// What must hold after every start of a server: nothing is only half there.
fn assert_consistent(data: &Path) {
    let check: String = database(data)
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
    // A client that sends known bytes gets its answer before the reading thread has removed its
    // trace.
    let orphans = "SELECT count(*) FROM traces WHERE id NOT IN (SELECT trace FROM runs)";
    wait_until("every trace has its run", || count(data, orphans) == 0);
    let chunkless = "SELECT count(*) FROM runs WHERE trace NOT IN (SELECT trace FROM chunks)";
    assert_eq!(count(data, chunkless), 0);
    assert_eq!(
        files_in(&data.join("blobs")) as i64,
        count(data, "SELECT count(*) FROM blobs")
    );
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "waited in vain until {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn kill_9_while_bytes_arrive_leaves_a_clean_store_and_a_failed_upload() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = Server::start(data);
    let mut half = server.begin_put(SNAPSHOT.len());
    half.write_all(&SNAPSHOT[..SNAPSHOT.len() / 2]).unwrap();
    let under_way = "SELECT count(*) FROM uploads WHERE state = 'running'";
    wait_until("the upload is under way", || count(data, under_way) == 1);
    wait_until("some bytes are stored", || {
        files_in(&data.join("blobs")) == 1
    });
    server.kill();

    let server = Server::start(data);
    assert_consistent(data);
    assert_eq!(server.runs(), 0);
    let failed = "SELECT count(*) FROM uploads WHERE state = 'failed' \
                  AND json_extract(problem, '$.code') = 'interrupted'";
    assert_eq!(count(data, failed), 1);
    assert_eq!(files_in(&data.join("blobs")), 0);
}

#[test]
fn kill_9_at_any_moment_of_an_ingest_leaves_a_store_that_comes_back() {
    for delay_ms in [0, 5, 10, 20, 40, 80, 160] {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        let server = Server::start(data);
        let mut stream = server.begin_put(SNAPSHOT.len());
        stream.write_all(SNAPSHOT).unwrap();
        std::thread::sleep(Duration::from_millis(delay_ms));
        server.kill();

        let server = Server::start(data);
        let unfinished = "SELECT count(*) FROM uploads WHERE state IN ('announced', 'running')";
        wait_until("the rest is taken up again", || {
            count(data, unfinished) == 0
        });
        assert_consistent(data);
        let done = count(data, "SELECT count(*) FROM uploads WHERE state = 'done'");
        assert_eq!(server.runs() as i64, done, "after {delay_ms} ms");
        // Whatever happened to the first upload, the same bytes can be sent again.
        let mut again = server.begin_put(SNAPSHOT.len());
        again.write_all(SNAPSHOT).unwrap();
        let mut status = [0; 12];
        again.read_exact(&mut status).unwrap();
        assert!(
            status.starts_with(b"HTTP/1.1 20"),
            "{}",
            String::from_utf8_lossy(&status)
        );
        assert_eq!(server.runs(), 1);
        assert_consistent(data);
    }
}

#[test]
fn a_sample_is_a_run_at_the_address_that_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = serve(folder.path());
    command.arg("--sample");
    let server = Server(Serving::run(command).expect("it starts"));
    let told = |log: String| {
        let mut lines = log.lines();
        lines.find_map(|line| Some(line.strip_prefix("sample: ")?.to_owned()))
    };
    wait_until("the address is printed", || told(server.log()).is_some());
    let sample = told(server.log()).expect("it was there");
    let run = sample.strip_prefix(&format!("{}/runs/", server.url()));
    let run = server.get(&format!("/api/runs/{}", run.expect("a run's page")));
    assert_eq!(run["source"], "sample");
    let output = tidemark(&["serve", "--sample", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("off_v1_moe"), "{text}");
}

/// Starts a server that others can reach. Returns it and its stdout up to the line that it listens.
fn exposed(data: &Path) -> (Server, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
    command
        .args(["serve", "--listen", "0.0.0.0:0", "--data"])
        .arg(data)
        .stdout(Stdio::piped());
    let mut server = Server(Serving::run(command).expect("it starts"));
    let mut stdout = server.0.child.stdout.take().expect("it is piped");
    let port = server.address.rsplit(':').next().unwrap();
    server.0.address = format!("127.0.0.1:{port}");
    let refused = server.status("/api/runs", "");
    assert_eq!(refused, 401);
    server.0.kill();
    let mut said = String::new();
    stdout.read_to_string(&mut said).unwrap();
    (server, said)
}

#[test]
fn at_other_addresses_everybody_signs_in_and_the_first_token_is_printed_once() {
    let folder = tempfile::tempdir().unwrap();
    let (server, said) = exposed(folder.path());
    server.kill();
    let token = said
        .split_whitespace()
        .find(|word| word.starts_with("tidemark_"));
    let token = token.unwrap_or_else(|| panic!("{said}")).to_owned();
    let (server, said) = exposed(folder.path());
    assert_eq!(said, "", "it is not printed again");
    server.kill();
    // Now that there are people, loopback asks for a token, too. A lost token is replaced while no
    // server runs.
    let data = folder.path().to_str().unwrap();
    let made = tidemark(&["people", "token", "admin", "--data", data]);
    let other = String::from_utf8(made.stdout).unwrap();
    let list = tidemark(&["people", "list", "--data", data]);
    assert!(String::from_utf8(list.stdout).unwrap().contains("admin"));
    let server = Server::start(folder.path());
    let asked = [("", 401), (token.as_str(), 200), (other.trim(), 200)];
    for (token, status) in asked {
        assert_eq!(server.status("/api/runs", token), status);
    }
    let busy = tidemark(&["people", "list", "--data", data]);
    assert!(
        String::from_utf8(busy.stderr)
            .unwrap()
            .contains("a server uses the data folder")
    );
}

#[test]
fn nobody_but_a_proxy_is_believed_about_who_asks() {
    let output = tidemark(&["serve", "--user-header", "X-Forwarded-User"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("--trusted-proxy"), "{text}");
}

#[test]
fn inspect_prints_one_document_and_nothing_else() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures");
    let one = format!("{fixtures}/plain_lm.pickle.zst");
    let other = format!("{fixtures}/streams.pickle.zst");
    let output = tidemark(&["inspect", "--json", &one]);
    assert!(output.status.success() && output.stderr.is_empty());
    let inspected: api::inspect::Inspection = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(inspected.file, one);
    assert_eq!(inspected.steps.items.len(), 6);
    let output = tidemark(&["inspect", "--json", &one, &other]);
    let both: Vec<api::inspect::Inspection> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(both[0], inspected);
    assert_eq!(both[1].file, other);
    let output = tidemark(&["inspect", &one]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("reserved") && text.contains("## step 5 ##"),
        "{text}"
    );
}

#[test]
fn bad_input_is_a_sentence_with_path_and_offset_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, bytes: &[u8], says: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let output = tidemark(&["inspect", "--json", path.to_str().unwrap()]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(output.stdout.is_empty());
        assert!(text.contains(name) && text.contains(says), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    };
    check("empty.pickle", b"", "empty");
    check("code.pickle", b"\x80\x04cos\nsystem\n.", "byte 2");
    check("cut.pickle.zst", &SNAPSHOT[..1000], "byte 1000");
    let output = tidemark(&["inspect", "/does/not/exist"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_standard_input_is_read_once() {
    for command in [&["inspect", "-", "-"][..], &["compare", "-", "-"]] {
        let output = tidemark(command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("can be read only once"), "{said}");
    }
}

#[test]
fn ranks_says_which_is_odd_and_where() {
    let fixture = |name: &str| format!("{}/../tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let (zero, one) = (
        fixture("ddp_rank0.pickle.zst"),
        fixture("ddp_rank1.pickle.zst"),
    );
    let output = tidemark(&["ranks", &zero, &one]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("ddp"));
    let verdict = lines.next().unwrap_or_default();
    assert!(
        verdict.contains("Rank 1 leaks 62.5 MiB a step in keep_on_rank1"),
        "{text}"
    );
    assert!(
        text.contains("62.5 MiB a step; the other rank does not"),
        "{text}"
    );
    // One file is not a job; and the path of a file that is not a snapshot is named.
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().display().to_string();
    for (path, says) in [
        (zero.as_str(), "ddp_rank0.pickle.zst is the only file"),
        ("/does/not/exist", "/does/not/exist: cannot open it"),
        (empty.as_str(), "there is no file in it"),
    ] {
        let refused = tidemark(&["ranks", path]);
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(said.contains(says), "{said}");
    }
    for rank in 0..2 {
        let file = folder.path().join(format!("rank{rank}.pickle"));
        std::fs::write(file, b"no pickle").unwrap();
    }
    let bad = tidemark(&["ranks", &folder.path().display().to_string()]);
    assert_eq!(bad.status.code(), Some(2));
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(said.contains("rank0.pickle"), "{said}");
}

#[test]
fn what_if_answers_in_numbers_and_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("oom.pickle.zst");
    std::fs::write(&file, OOM).unwrap();
    let file = file.to_str().unwrap();
    let json = |args: &[&str]| -> serde_json::Value {
        let output = tidemark(&[&["what-if", file, "--json"], args].concat());
        assert!(output.status.success(), "{args:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let own = json(&[]);
    assert_eq!(
        own["calibration"]["allocs"],
        own["calibration"]["predicted"]
    );
    assert_eq!(own["calibration"]["peak_reserved_error"], 0.0);
    for what in ["peak_allocated", "peak_reserved", "oom_step", "oom_place"] {
        assert_eq!(own["recorded"][what], own["what_if"][what], "{what}");
    }
    assert_eq!(own["recorded"]["oom_step"], 21);
    assert_eq!(own["recorded"]["oom_place"], "in step 21");
    let less = json(&["--limit", "1500MiB", "--alloc-conf", ""]);
    assert_eq!(less["what_if"]["oom_step"], 0);
    assert_eq!(less["what_if"]["reaches"], "failure");
    let more = json(&["--limit", "3GiB"]);
    assert!(more["what_if"]["oom_step"].is_null());
    assert_eq!(more["what_if"]["reaches"], "recorded_failure");
    let text = tidemark(&["what-if", file, "--alloc-conf", "expandable_segments:True"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains(" it would get past step 21, in which "),
        "{text}"
    );
    assert!(text.contains("all 23,757 recorded addresses"), "{text}");
    let without = json(&["--without", "modeling_qwen3.py:322"]);
    assert!(without["otherwise"]["gone"].as_u64().unwrap() > 100);
    assert!(without["what_if"]["oom_step"].is_null());
    let nowhere = tidemark(&["what-if", file, "--without", "no_such_place"]);
    assert_eq!(nowhere.status.code(), Some(2));
    let why = String::from_utf8(nowhere.stderr).unwrap();
    assert!(why.contains("asked for at no_such_place"), "{why}");
    let wrong = tidemark(&["what-if", file, "--alloc-conf", "max_split_size_mb:3"]);
    assert_eq!(wrong.status.code(), Some(2));
    let why = String::from_utf8(wrong.stderr).unwrap();
    assert!(
        why.contains("max_split_size_mb is `3`, but must be"),
        "{why}"
    );
    assert!(why.contains("20 or more"), "{why}");
}

#[test]
fn push_uploads_and_prints_the_link() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let file = folder.path().join("run 7 ü.pickle.zst");
    std::fs::write(&file, SNAPSHOT).unwrap();
    let url = format!("http://{}/", server.address);
    let push = |file: &Path| tidemark(&["push", file.to_str().unwrap(), "--server", &url]);
    let output = push(&file);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let run = server.get("/api/runs")[0].clone();
    assert_eq!(run["name"], "run 7 ü.pickle.zst");
    assert_eq!(
        text.trim(),
        format!("{url}runs/{}", run["id"].as_str().unwrap())
    );
    let again = String::from_utf8(push(&file).stdout).unwrap();
    assert!(again.contains("(known before)"), "{again}");

    let bad = folder.path().join("bad.pickle");
    std::fs::write(&bad, b"no snapshot").unwrap();
    let refused = push(&bad);
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(
        text.contains("bad.pickle") && text.contains("not a memory snapshot"),
        "{text}"
    );
}

/// The output of `push --json` with these variables set and no other variables of a CI.
fn push_in_ci(
    file: &Path,
    url: &str,
    variables: &[(&str, &str)],
    more: &[&str],
) -> std::process::Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tidemark"));
    command.args(["push", file.to_str().unwrap(), "--server", url, "--json"]);
    for name in [
        "GITHUB_ACTIONS",
        "GITHUB_HEAD_REF",
        "GITHUB_BASE_REF",
        "GITLAB_CI",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",
    ] {
        command.env_remove(name);
    }
    let output = command.args(more).envs(variables.iter().copied()).output();
    output.unwrap()
}

/// CI names the branch and the commit. The baseline is the newest run with the same label on the
/// branch that the change is to be merged into.
#[test]
fn push_labels_runs_and_finds_the_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let url = format!("http://{}/", server.address);
    let push = |at: u8, variables: &[(&str, &str)], more: &[&str]| {
        let file = folder.path().join(format!("{at}.pickle"));
        let mut bytes = zstd::decode_all(SNAPSHOT).unwrap();
        bytes.push(at);
        std::fs::write(&file, bytes).unwrap();
        push_in_ci(&file, &url, variables, more)
    };
    let main = [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_REF_NAME", "main"),
        ("GITHUB_SHA", "1f2e"),
    ];
    for (at, config) in [(0, "config=a"), (1, "config=b")] {
        let pushed = push(at, &main, &["--label", config]);
        assert!(pushed.status.success(), "{pushed:?}");
        let pushed: serde_json::Value = serde_json::from_slice(&pushed.stdout).unwrap();
        assert_eq!(pushed["run"]["labels"]["branch"], "main");
        assert_eq!(pushed["run"]["labels"]["commit"], "1f2e");
    }
    let change = [
        ("GITHUB_ACTIONS", "true"),
        ("GITHUB_HEAD_REF", "fix"),
        ("GITHUB_BASE_REF", "main"),
        ("GITHUB_REF_NAME", "7/merge"),
        ("GITHUB_SHA", "9a"),
    ];
    let label = ["--label", "config=a", "--base", "auto"];
    let compared = |more: &[&str]| {
        let compared = push(2, &change, more);
        assert!(compared.status.success(), "{compared:?}");
        let compared: serde_json::Value = serde_json::from_slice(&compared.stdout).unwrap();
        let runs = &compared["comparison"]["runs"];
        assert_eq!(runs[0]["name"], "0.pickle", "{more:?}");
        assert_eq!(runs[1]["name"], "2.pickle", "{more:?}");
        compared["uploads"][0]["run"]["labels"]["branch"].clone()
    };
    assert_eq!(compared(&label), "fix");
    // The second try has the same baseline, also where the first has sent the file already.
    assert_eq!(compared(&["--base", "config=a"]), "fix");

    let history = |labels: &[&str]| {
        let labels = labels.iter().flat_map(|label| ["--label", label]);
        let mut all = vec!["history", "--server", &url];
        all.extend(labels);
        let told = tidemark(&all);
        assert!(told.status.success(), "{told:?}");
        String::from_utf8(told.stdout).unwrap()
    };
    let told = history(&["branch=main"]);
    assert_eq!(told.matches("1f2e ").count(), 2, "{told}");
    assert!(told.ends_with("nothing changed for good\n"), "{told}");
    assert!(history(&["branch=other"]).starts_with("no run has these labels"));

    let check = |base: &str, why: &str| {
        let refused = push(2, &[], &["--base", base]);
        assert_eq!(refused.status.code(), Some(2), "{base}");
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(text.contains(why), "{text}");
    };
    check("branch=other", "no run with the labels branch=other");
    check("auto", "nothing says which branch");
    check("nobody", "no run with the id or name nobody");
    check("2.pickle", "no other run with the id or name 2.pickle");
    check("branch=fix", "no other run with the labels branch=fix");
}

fn post(server: &Server, path: &str, body: &str) -> serde_json::Value {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    let (host, length) = (&server.address, body.len());
    let head = format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    let kind = "Content-Type: application/json";
    write!(
        stream,
        "{head}{kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
    serde_json::from_str(body).unwrap()
}

/// Child processes of this one, without zombies.
fn children_of(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(child) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        if fields.len() > 1 && fields[0] != "Z" && fields[1] == pid.to_string() {
            found.push(child);
        }
    }
    found
}

#[test]
fn kill_9_ends_the_row_too_and_the_next_server_resumes_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = Server::start(data);
    let long = r#"{"config": "vl-qwen3.5-9b", "patches": []}"#;
    let short = r#"{"config": "dedupe-reuse", "patches": []}"#;
    let request = |row: &str, steps: u32| {
        format!(r#"{{"rows": [{row}], "device": "sim", "steps": {steps}}}"#)
    };
    let first = post(&server, "/api/bench", &request(long, 10_000));
    post(&server, "/api/bench", &request(short, 5));
    let running = "SELECT count(*) FROM bench_rows WHERE state = 'running'";
    wait_until("the long row is under way", || count(data, running) == 1);
    wait_until("its process is there", || {
        !children_of(server.child.id()).is_empty()
    });
    let row = children_of(server.child.id())[0];
    server.kill();
    wait_until("the row has ended with its server", || {
        !Path::new(&format!("/proc/{row}")).exists()
    });
    assert_eq!(count(data, running), 1, "the dead server holds it still");

    let server = Server::start(data);
    let twice = "SELECT count(*) FROM bench_rows WHERE state = 'running' AND claims = 2";
    wait_until("the row runs again", || count(data, twice) == 1);
    let id = first["id"].as_str().unwrap();
    post(&server, &format!("/api/bench/{id}/cancel"), "");
    let done = "SELECT count(*) FROM bench_rows WHERE state = 'done' AND peak_allocated > 0";
    wait_until("the short row has run", || count(data, done) == 1);
    let cancelled = "SELECT count(*) FROM bench_rows WHERE state = 'cancelled'";
    assert_eq!(count(data, cancelled), 1);
    assert_consistent(data);
}

/// The events of each device and the bytes of the segments in a snapshot, as CPython's own
/// unpickler reads them. `None` without python3.
fn cpython(pickle: &Path) -> Option<serde_json::Value> {
    let script = "import json, pickle, sys\n\
                  s = pickle.load(open(sys.argv[1], 'rb'))\n\
                  print(json.dumps([[len(t) for t in s['device_traces']], \
                  sum(g['total_size'] for g in s['segments'])]))";
    let mut python = Command::new("python3");
    let output = python.args(["-c", script]).arg(pickle).output().ok()?;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn an_export_of_an_engine_run_opens_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let server = Server::start(data);
    let request = r#"{"rows": [{"config": "dedupe-reuse", "patches": []}], "device": "sim",
                      "steps": 6, "recorded_steps": 2}"#;
    post(&server, "/api/bench", request);
    let done = "SELECT count(*) FROM bench_rows WHERE state = 'done'";
    wait_until("the row has run", || count(data, done) == 1);
    let run = server.get("/api/runs")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let url = format!("http://{}", server.address);
    let export = |format: &str, from: &[&str]| {
        let path = data.join(format!("out.{format}"));
        let file = path.to_str().unwrap();
        let args = ["export", &run, "--format", format, "-o", file];
        let output = tidemark(&[&args[..], from].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{format}: {error}");
        std::fs::read(&path).unwrap()
    };
    let folder = data.to_str().unwrap();
    for format in ["pickle", "parquet", "perfetto"] {
        let (asked, read) = (
            export(format, &["--server", &url]),
            export(format, &["--data", folder]),
        );
        assert_eq!(asked, read, "{format}: with and without a server");
        assert!(asked.len() > 1000, "{format}");
    }
    let pickle = data.join("out.pickle");
    let summary = tidemark(&["inspect", "--json", pickle.to_str().unwrap()]);
    let summary: serde_json::Value = serde_json::from_slice(&summary.stdout).unwrap();
    assert_eq!(summary["steps"]["items"].as_array().unwrap().len(), 2);
    if let Some(seen) = cpython(&pickle) {
        assert_eq!(seen[0][0], summary["devices"][0]["events"]);
        assert_eq!(seen[1], summary["devices"][0]["reserved"]["end"]);
    }
    let trace = std::fs::read(data.join("out.perfetto")).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let slice = events.iter().find(|event| event["ph"] == "b").unwrap();
    assert!(slice["args"]["tensor"]["role"].is_string(), "{slice}");
    assert!(data.join("out.parquet").metadata().unwrap().len() > 0);
    let missing = tidemark(&["export", "nothing", "--format", "pickle"]);
    assert_eq!(missing.status.code(), Some(2));
}
