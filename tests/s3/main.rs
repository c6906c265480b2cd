//! `--blobs s3://…` against a real S3 server: what is stored there, and the messages when the
//! server or the bucket is missing.

mod bucket;

use bucket::Bucket;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

fn snapshot() -> Vec<u8> {
    let fixtures = tests::workspace_root().join("tests/fixtures");
    std::fs::read(fixtures.join("plain_lm.pickle.zst")).unwrap()
}

/// The same snapshot in 20 MiB, which S3 gets in three parts. A frame that decoders skip holds
/// random bytes, which cannot be compressed.
fn large_snapshot() -> Vec<u8> {
    const REST: u32 = 20 << 20;
    let mut file = snapshot();
    file.extend(0x184D_2A50_u32.to_le_bytes());
    file.extend(REST.to_le_bytes());
    let mut state = 88_172_645_463_325_252_u64;
    for _ in 0..REST / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.extend(state.to_le_bytes());
    }
    file
}

/// A bucket, and data folders of servers that store their files in it.
struct Site {
    bucket: Bucket,
    folder: TempDir,
}

/// A running server; killed when dropped.
struct Server {
    child: Child,
    url: String,
    log: Arc<Mutex<String>>,
}

impl Site {
    fn new() -> Site {
        Site {
            bucket: Bucket::start(),
            folder: TempDir::with_prefix("tidemark-test-").unwrap(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The binary with the right to use the bucket through this secret.
    fn tidemark(&self, secret: &str, args: &[&str]) -> Command {
        let mut command = Command::new(tests::tidemark());
        command
            .env("AWS_ENDPOINT", self.bucket.endpoint())
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", Bucket::KEY.0)
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .args(args);
        command
    }

    fn run(&self, args: &[&str]) -> (Output, String) {
        let output = self.tidemark(Bucket::KEY.1, args).output().unwrap();
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        (output, String::from_utf8_lossy(&text).into_owned())
    }

    /// Runs a command that must succeed; returns its output.
    fn passes(&self, args: &[&str]) -> String {
        let (output, text) = self.run(args);
        assert!(output.status.success(), "{args:?}: {text}");
        text
    }

    fn fails(&self, args: &[&str]) -> String {
        let (output, text) = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {text}");
        text
    }

    fn serve(&self, data: &str, blobs: &str) -> Server {
        let served = self.try_serve(Bucket::KEY.1, data, blobs);
        served.unwrap_or_else(|log| panic!("{log}"))
    }

    /// Starts a server. Returns it, or its output if it ended.
    fn try_serve(&self, secret: &str, data: &str, blobs: &str) -> Result<Server, String> {
        let data = self.at(data);
        let mut child = self
            .tidemark(
                secret,
                &["serve", "--listen", "127.0.0.1:0", "--repack-level", "0"],
            )
            .args(["--blobs", blobs, "--data"])
            .arg(data)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let mut line = String::new();
        while stderr.read_line(&mut line).unwrap() > 0 {
            if let Some(url) = line.trim().strip_prefix("listening on ") {
                let (url, said) = (url.to_owned(), Arc::clone(&log));
                std::thread::spawn(move || {
                    for line in stderr.lines().map_while(Result::ok) {
                        said.lock().unwrap().push_str(&format!("{line}\n"));
                    }
                });
                return Ok(Server { child, url, log });
            }
            log.lock().unwrap().push_str(&line);
            line.clear();
        }
        child.wait().unwrap();
        let said = log.lock().unwrap().clone();
        Err(said)
    }
}

impl Server {
    fn send(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build()
            .new_agent();
        let request = ureq::http::Request::builder().method(method);
        let request = request.uri(format!("{}{path}", self.url));
        let mut answer = agent.run(request.body(body).unwrap()).unwrap();
        let body = answer.body_mut().with_config().limit(1 << 30).read_to_vec();
        (answer.status().as_u16(), body.unwrap())
    }

    fn upload(&self, name: &str, file: &[u8]) -> String {
        let (status, body) = self.send("PUT", &format!("/api/upload/{name}"), file);
        let text = String::from_utf8_lossy(&body);
        assert!(matches!(status, 200 | 201), "{status}: {text:.500}");
        let answer: Value = serde_json::from_slice(&body).unwrap();
        answer["run"]["id"].as_str().unwrap().to_owned()
    }

    fn runs(&self) -> usize {
        let (_, body) = self.send("GET", "/api/runs", b"");
        let runs: Value = serde_json::from_slice(&body).unwrap();
        runs.as_array().unwrap().len()
    }

    /// The file of a run, which the server reads from the bucket.
    fn file_of(&self, run: &str) -> (u16, Vec<u8>) {
        self.send("GET", &format!("/api/runs/{run}/export?format=pickle"), b"")
    }

    fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ends the server as a power cut would; it may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn text_of(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn files_are_kept_in_a_bucket_read_from_it_and_removed() {
    let site = Site::new();
    let blobs = "s3://runs/team";
    let server = site.serve("data", blobs);
    let small = server.upload("small.pickle", &snapshot());
    let large = server.upload("large.pickle", &large_snapshot());
    let plain = zstd::decode_all(&snapshot()[..]).unwrap();
    let packed_here = server.upload("plain.pickle", &plain);
    let stored = || {
        let mut objects = site.bucket.objects("team");
        objects.retain(|path| path.file_name().unwrap().len() == 64);
        objects
    };
    assert_eq!(stored().len(), 3);
    for run in [&small, &large, &packed_here] {
        let (status, file) = server.file_of(run);
        assert_eq!((status, file == plain), (200, true), "{run}");
    }
    let (refused, _) = server.send("PUT", "/api/upload/none.pickle", b"no snapshot");
    assert_eq!(refused, 422);
    assert_eq!(site.bucket.objects("team/incoming"), Vec::<PathBuf>::new());

    // The server is killed and started again.
    drop(server);
    let server = site.serve("data", blobs);
    assert_eq!(server.runs(), 3);
    assert_eq!(server.file_of(&large).1, plain);
    let (status, _) = server.send("DELETE", &format!("/api/runs/{large}"), b"");
    assert_eq!(status, 200);
    drop(server);
    // As if the time to undo the deletion had passed.
    let database = rusqlite::Connection::open(site.at("data").join("tidemark.db")).unwrap();
    let purge = "UPDATE runs SET deleted_ms = 1 WHERE deleted_ms IS NOT NULL";
    database.execute_batch(purge).unwrap();
    drop(database);
    let server = site.serve("data", blobs);
    wait_until("its file has gone", || stored().len() == 2);
    assert_eq!(server.runs(), 2);
    drop(server);

    let data = site.at("data");
    let doctor = ["doctor", "--data", text_of(&data), "--blobs", blobs];
    let said = site.passes(&doctor);
    assert!(
        said.contains("2 read to their end, 0 of them bad"),
        "{said}"
    );
    let other = site.try_serve(Bucket::KEY.1, "other", blobs).map(drop);
    let other = other.unwrap_err();
    assert!(other.contains("belong to the database"), "{other}");
    std::fs::remove_file(&stored()[0]).unwrap();
    let said = site.fails(&doctor);
    assert!(said.contains("is missing"), "{said}");
}

#[test]
fn a_bucket_is_backed_up_into_a_folder_and_restored_into_a_bucket() {
    let site = Site::new();
    let server = site.serve("data", "s3://runs/team");
    let run = server.upload("a.pickle", &snapshot());
    let [data, kept, restored] = ["data", "kept", "restored"].map(|name| site.at(name));
    let from = ["--data", text_of(&data), "--blobs", "s3://runs/team"];
    let to = ["--data", text_of(&restored), "--blobs", "s3://runs/again"];
    let said = site.passes(&[&["backup", text_of(&kept)], &from[..]].concat());
    assert!(said.contains("1 copied now"), "{said}");
    site.passes(&[&["restore", text_of(&kept)], &to[..]].concat());
    let again = site.serve("restored", "s3://runs/again");
    assert_eq!(again.file_of(&run), server.file_of(&run));
    drop(again);
    site.passes(&[&["doctor"], &to[..]].concat());

    // A backup of the database only; its server then uses the bucket, where the files still are.
    let [kept, restored] = ["kept alone", "restored alone"].map(|name| site.at(name));
    let said = site.passes(&[&["backup", text_of(&kept), "--database-only"], &from[..]].concat());
    assert!(said.contains("they stay where they are"), "{said}");
    drop(server);
    let to = ["--data", text_of(&restored), "--blobs", "s3://runs/team"];
    let said = site.passes(&[&["restore", text_of(&kept)], &to[..]].concat());
    assert!(said.contains("s3://runs/team"), "{said}");
    let alone = site.serve("restored alone", "s3://runs/team");
    assert_eq!(alone.file_of(&run).0, 200);
}

#[test]
fn a_bucket_that_cannot_be_used_is_told_in_words_that_help() {
    let mut site = Site::new();
    let refused = |site: &Site, secret: &str, blobs: &str| {
        let refused = site.try_serve(secret, "fresh", blobs).map(drop);
        refused.unwrap_err()
    };
    let said = refused(&site, "another secret", "s3://runs/team");
    assert!(said.contains("AWS_SECRET_ACCESS_KEY"), "{said}");
    assert!(!said.contains("another secret"), "{said}");
    let server = site.serve("data", "s3://runs/team");
    let run = server.upload("a.pickle", &snapshot());
    // `doctor` lists the bucket, because this S3 server would create a missing bucket on upload.
    let data = site.at("data");
    let said = site.fails(&[
        "doctor",
        "--data",
        text_of(&data),
        "--blobs",
        "s3://none/team",
    ]);
    assert!(said.contains("no such bucket"), "{said}");
    site.bucket.stop();
    let began = Instant::now();
    let said = refused(&site, Bucket::KEY.1, "s3://runs/team");
    assert!(
        said.contains("cannot be reached") && said.contains("AWS_ENDPOINT"),
        "{said}"
    );
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    // A running server continues with its database, says so in its log, and recovers by itself.
    assert_eq!(server.runs(), 1);
    let (status, _) = server.send("PUT", "/api/upload/b.pickle", &large_snapshot());
    assert_eq!(status, 500);
    assert_eq!(server.file_of(&run).0, 500);
    wait_until("the log says why", || {
        server.log().contains("cannot be reached")
    });
    site.bucket.serve();
    server.upload("b.pickle", &large_snapshot());
    assert_eq!(server.file_of(&run).0, 200);
    assert_eq!(server.runs(), 2);
}
