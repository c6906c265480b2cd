//! A `tidemark serve` for one test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::places;

/// The text that the server prints to stderr before its address.
const LISTENING: &str = "listening on ";

/// The address of a port that the system chooses.
const ANY_PORT: &str = "127.0.0.1:0";

/// Long enough for a machine that is compiling something else on all its cores.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server; killed when dropped, and its data removed.
pub struct TestServer {
    child: Child,
    data: TempDir,
    args: Vec<String>,
    url: String,
    log: Arc<Mutex<String>>,
}

impl TestServer {
    /// Starts a server with an empty store.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further arguments for `tidemark serve`.
    pub fn start_with(args: &[&str]) -> Self {
        let data = TempDir::with_prefix("tidemark-test-").expect("a temporary folder");
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let log = Arc::default();
        let (child, url) = spawn(ANY_PORT, data.path(), &args, &log);
        Self {
            child,
            data,
            args,
            url,
            log,
        }
    }

    /// The address of `path`, which starts with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Sends it a file over loopback; returns the address of the run's page.
    ///
    /// # Panics
    /// If it is not taken.
    pub fn push(&self, file: &Path) -> String {
        let output = Command::new(places::tidemark())
            .args(["push", "--json", "--server", &self.url("/")])
            .arg(file)
            .output()
            .expect("tidemark push runs");
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{why}");
        let printed: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("push prints JSON");
        let url = printed["url"].as_str();
        url.expect("push prints the run's address").to_owned()
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder with the store and the uploads.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Everything the server wrote to stderr so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("no reader panics").clone()
    }

    /// Kills the server at any moment, as `kill -9` or a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().expect("the server is our child");
        self.child.wait().expect("the server is our child");
    }

    /// Kills the server and starts it on the same data, on another port.
    pub fn restart(&mut self) {
        self.kill();
        self.start_at(ANY_PORT);
    }

    /// Starts the killed server on the same data, where it was: open pages find it again.
    pub fn start_again(&mut self) {
        let address = self.url.trim_start_matches("http://").to_owned();
        self.start_at(&address);
    }

    fn start_at(&mut self, address: &str) {
        let (child, url) = spawn(address, self.data.path(), &self.args, &self.log);
        self.child = child;
        self.url = url;
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // Both fail only if the server has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- the server's log ---\n{}", self.log());
        }
    }
}

fn spawn(address: &str, data: &Path, args: &[String], log: &Arc<Mutex<String>>) -> (Child, String) {
    let mut child = Command::new(places::tidemark())
        .args(["serve", "--listen", address, "--data"])
        .arg(data)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tidemark starts");
    let stderr = child.stderr.take().expect("stderr is piped");
    let (announce, announced) = mpsc::channel();
    let lines = Arc::clone(log);
    // Reads to the end, because a full pipe would stop the server.
    thread::spawn(move || read_log(stderr, &lines, &announce));
    match announced.recv_timeout(START_TIMEOUT) {
        Ok(url) => (child, url),
        Err(_) => {
            let _ = child.kill();
            let _ = child.wait();
            let log = log.lock().expect("no reader panics");
            panic!("tidemark did not say where it listens; its log:\n{log}");
        }
    }
}

fn read_log(stderr: ChildStderr, log: &Mutex<String>, announce: &Sender<String>) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        if let Some((_, url)) = line.split_once(LISTENING) {
            let url = url.split_whitespace().next().unwrap_or_default();
            // The second time, nobody waits for the address any more.
            let _ = announce.send(url.trim_end_matches('/').to_owned());
        }
        let mut log = log.lock().expect("no reader panics");
        log.push_str(&line);
        log.push('\n');
    }
}
