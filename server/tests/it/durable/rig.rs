//! The real binary on a data folder, and functions that look into that folder.

use crate::serving::{Serving, serve};
use serde_json::Value;
use std::io::Write;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Small real snapshots.
pub const SNAPSHOTS: [&[u8]; 3] = [
    include_bytes!("../../../../tests/fixtures/leak_hook_cache.pickle.zst"),
    include_bytes!("../../../../tests/fixtures/plain_lm.pickle.zst"),
    include_bytes!("../../../../tests/fixtures/streams.pickle.zst"),
];

/// A snapshot that nobody has sent before: it differs by the time in the head of the gzip file.
pub fn fresh(n: u64) -> Vec<u8> {
    static PACKED: OnceLock<Vec<u8>> = OnceLock::new();
    let packed = PACKED.get_or_init(|| {
        let plain = zstd::decode_all(SNAPSHOTS[0]).unwrap();
        let level = flate2::Compression::fast();
        let mut file = flate2::write::GzEncoder::new(Vec::new(), level);
        file.write_all(&plain).unwrap();
        file.finish().unwrap()
    });
    let mut packed = packed.clone();
    packed[4..8].copy_from_slice(&(n as u32).to_le_bytes());
    packed
}

const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the binary to its end.
pub fn tidemark(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_tidemark"))
        .args(args)
        .output();
    output.expect("the binary was built")
}

/// The output of a command on both streams.
pub fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// A server, and what is asked of it.
pub struct Server(Serving);

impl Deref for Server {
    type Target = Serving;

    fn deref(&self) -> &Serving {
        &self.0
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text:.200}"))
    }

    pub fn expect(self, status: u16) -> Answer {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text:.300}");
        self
    }
}

impl Server {
    pub fn start(data: &Path) -> Server {
        Server::with(data, &[]).unwrap_or_else(|log| panic!("it does not start: {log}"))
    }

    /// Starts a server. Returns it, or its output if it ended.
    pub fn with(data: &Path, args: &[&str]) -> Result<Server, String> {
        let mut command = serve(data);
        for [option, value] in [["--repack-level", "0"], ["--keep-free", "1MiB"]] {
            if !args.contains(&option) {
                command.args([option, value]);
            }
        }
        command.args(args);
        Server::run(command)
    }

    /// Starts a server with any command. Returns it, or its output if it ended.
    pub fn run(command: Command) -> Result<Server, String> {
        Serving::run(command).map(Server)
    }

    /// [`Server::run`] with a data folder as its last argument.
    pub fn run_with(mut command: Command, data: &Path) -> Server {
        command.arg(data);
        Server::run(command).unwrap_or_else(|log| panic!("{log}"))
    }

    /// Waits until the server has ended.
    pub fn wait(mut self) {
        self.0.child.wait().unwrap();
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.0.kill();
    }

    /// Asks the server to stop, and waits until it has stopped.
    pub fn stop(mut self) {
        self.0.stop();
    }

    /// `None` when the server died meanwhile.
    pub fn try_send(&self, method: &str, path: &str, body: Option<&[u8]>) -> Option<Answer> {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build()
            .new_agent();
        let url = format!("http://{}{path}", self.address);
        let request = ureq::http::Request::builder().method(method).uri(url);
        let request = request.header("content-type", "application/json");
        let mut response = match body {
            Some(body) => agent.run(request.body(body).unwrap()).ok()?,
            None => agent.run(request.body(()).unwrap()).ok()?,
        };
        let status = response.status().as_u16();
        let body = response.body_mut().read_to_vec().ok()?;
        Some(Answer { status, body })
    }

    pub fn send(&self, method: &str, path: &str, body: Option<&[u8]>) -> Answer {
        let answer = self.try_send(method, path, body);
        answer.unwrap_or_else(|| panic!("{method} {path}: no answer; {}", self.log()))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    pub fn put(&self, name: &str, file: &[u8]) -> Answer {
        self.send("PUT", &format!("/api/upload/{name}"), Some(file))
    }

    /// Uploads a snapshot; returns the run's id.
    pub fn upload(&self, name: &str, file: &[u8]) -> String {
        let answer = self.put(name, file);
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        answer.json()["run"]["id"].as_str().unwrap().to_owned()
    }

    /// Ids of the runs, sorted.
    pub fn runs(&self) -> Vec<String> {
        let runs = self.get("/api/runs").expect(200).json();
        let ids = runs.as_array().unwrap().iter();
        let mut ids: Vec<String> = ids
            .map(|run| run["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    }

    /// Makes a link to a run that anyone can open. Returns its secret and its id.
    pub fn share(&self, run: &str) -> (String, String) {
        let made = self.send("POST", "/api/shares", Some(new_share(run).as_bytes()));
        let made = made.expect(201).json();
        let url = made["url"].as_str().unwrap();
        let secret = url.rsplit('/').next().unwrap().to_owned();
        (secret, made["share"]["id"].as_str().unwrap().to_owned())
    }

    pub fn open_share(&self, secret: &str) -> Answer {
        let body = format!(r#"{{"token":"{secret}"}}"#);
        self.send("POST", "/api/shares/open", Some(body.as_bytes()))
    }
}

/// The body of a request that makes a link.
pub fn new_share(run: &str) -> String {
    format!(
        r#"{{"kind":"capability","target":{{"kind":"run","run":"{run}"}},"query":"v=1",
            "redaction":"none","note":"","created_by":"","expires_in_s":3600}}"#
    )
}

pub fn database(data: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(data.join("tidemark.db")).unwrap()
}

pub fn count(data: &Path, sql: &str) -> i64 {
    database(data).query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The blobs in a folder, sorted.
pub fn blobs_in(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = files_in(folder);
    found.retain(|path| path.file_name().unwrap().len() == 64);
    found
}

/// Every file in a folder, sorted.
pub fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files_in(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}

pub fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let place = to.join(entry.file_name());
        match entry.path() {
            path if path.is_dir() => copy_all(&path, &place),
            path => drop(std::fs::copy(path, place).unwrap()),
        }
    }
}

pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Random numbers, the same in each run of the tests.
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
