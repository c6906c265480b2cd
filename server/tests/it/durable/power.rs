//! A power cut, simulated at the level of the file system's calls.
//!
//! `strace` writes down every system call of a server that changes files. The test replays these
//! calls up to some point. That gives the disk after a power cut: everything that was synced is
//! there; of the rest, nothing or a part is there. A server that starts on such a disk must have
//! everything that it had acknowledged before. Without `strace` the test prints that it was left
//! out.

use crate::durable::rig::{Chance, SNAPSHOTS, Server, count, wait_until};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CALLS: &str = "openat,write,pwrite64,writev,sendto,sendmsg,fsync,fdatasync,rename,renameat,\
                     renameat2,unlink,unlinkat,mkdir,mkdirat,lseek,ftruncate,link,linkat";

/// What is on the disk of the data that was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unsynced {
    Lost,
    /// Some of the writes, by chance and in any order; names are the latest.
    Some,
}

/// A change of a file that is not synced yet.
#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(at, data) => {
                bytes.resize(bytes.len().max(at + data.len()), 0);
                bytes[*at..at + data.len()].copy_from_slice(data);
            }
            Change::Truncate(length) => bytes.resize(*length, 0),
        }
    }
}

/// The bytes of a file on the disk, and its changes that are not synced yet.
#[derive(Clone, Debug, Default)]
struct File {
    synced: Vec<u8>,
    pending: Vec<Change>,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Folder,
    File(usize),
}

/// The file system below one folder.
#[derive(Clone, Default)]
struct Disk {
    files: Vec<File>,
    /// File names as programs see them, and as they are on the disk.
    names: BTreeMap<PathBuf, Entry>,
    synced_names: BTreeMap<PathBuf, Entry>,
    offsets: HashMap<(PathBuf, String), usize>,
}

impl Disk {
    fn file(&mut self, path: &Path) -> Option<&mut File> {
        match self.names.get(path) {
            Some(&Entry::File(at)) => self.files.get_mut(at),
            _ => None,
        }
    }

    fn sync(&mut self, path: &Path, writes: usize) {
        if let Some(file) = self.file(path) {
            for change in file.pending.drain(..writes.min(file.pending.len())) {
                change.apply(&mut file.synced);
            }
            return;
        }
        // The path is a folder: a sync writes the names in it.
        let below = |name: &PathBuf| name.parent() == Some(path);
        self.synced_names.retain(|name, _| !below(name));
        let names = self.names.iter().filter(|(name, _)| below(name));
        self.synced_names
            .extend(names.map(|(name, entry)| (name.clone(), *entry)));
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        if let Some(entry) = self.names.remove(from) {
            self.names.insert(to.to_owned(), entry);
        }
    }

    /// Writes the contents of the disk to `place`.
    fn materialize(&self, root: &Path, place: &Path, unsynced: Unsynced, chance: &mut Chance) {
        let names = match unsynced {
            Unsynced::Lost => &self.synced_names,
            Unsynced::Some => &self.names,
        };
        let mut folders = BTreeSet::from([root.to_owned()]);
        std::fs::create_dir_all(place).unwrap();
        for (name, entry) in names {
            // Parents come before their children. If a folder is lost, everything in it is lost.
            if !name.parent().is_some_and(|parent| folders.contains(parent)) {
                continue;
            }
            let target = place.join(name.strip_prefix(root).unwrap());
            match entry {
                Entry::Folder => {
                    std::fs::create_dir_all(target).unwrap();
                    folders.insert(name.clone());
                }
                // The readers' shared-memory file is left out, because a start makes it again.
                Entry::File(_) if name.to_string_lossy().ends_with("-shm") => {}
                Entry::File(at) => {
                    let file = &self.files[*at];
                    let mut bytes = file.synced.clone();
                    let lucky = |_: &&Change| unsynced == Unsynced::Some && chance.below(2) == 0;
                    let pending: Vec<&Change> = file.pending.iter().filter(lucky).collect();
                    pending.iter().for_each(|change| change.apply(&mut bytes));
                    std::fs::write(target, bytes).unwrap();
                }
            }
        }
    }
}

/// One call in the log; if it takes two lines, both are joined.
struct Call {
    name: String,
    args: String,
    result: i64,
    /// Number of changes to the file before a sync began.
    begun: usize,
}

impl Call {
    /// The texts in quotes, decoded.
    fn texts(&self) -> Vec<Vec<u8>> {
        let quoted = self.args.split('"').skip(1).step_by(2);
        quoted.map(decoded).collect()
    }

    fn path_of_text(&self, nth: usize) -> PathBuf {
        let text = self.texts().get(nth).cloned().unwrap_or_default();
        PathBuf::from(String::from_utf8_lossy(&text).into_owned())
    }

    /// The first file descriptor, and its path.
    fn descriptor(&self) -> (String, PathBuf) {
        let number = self.args.split('<').next().unwrap_or_default().to_owned();
        (number, between(&self.args, '<', '>'))
    }

    fn number(&self, nth_from_end: usize) -> usize {
        let mut args = self.args.rsplit(", ");
        let arg = args.nth(nth_from_end).unwrap_or_default();
        arg.trim().parse().unwrap_or(0)
    }
}

fn between(text: &str, open: char, close: char) -> PathBuf {
    let rest = text.split_once(open).map_or("", |(_, rest)| rest);
    let inner = rest.split(close).next().unwrap_or_default();
    PathBuf::from(String::from_utf8_lossy(&decoded(inner)).into_owned())
}

fn decoded(text: &str) -> Vec<u8> {
    let hex = text.split("\\x").skip(1);
    hex.filter_map(|digits| u8::from_str_radix(digits.get(..2)?, 16).ok())
        .collect()
}

/// A replay of the log.
struct Replay<'l> {
    root: PathBuf,
    disk: Disk,
    /// Number of successful answers that the server has sent.
    answered: usize,
    /// By thread: the first half of a call whose line other calls interrupted.
    begun: HashMap<&'l str, (&'l str, usize)>,
}

impl<'l> Replay<'l> {
    fn take(&mut self, line: &'l str) {
        let Some((thread, rest)) = line.split_once(' ') else {
            return;
        };
        let rest = rest.trim_start();
        let (first, second, begun) = if let Some(first) = rest.strip_suffix(" <unfinished ...>") {
            let begun = self.pending_of(first);
            self.begun.insert(thread, (first, begun));
            return;
        } else if rest.starts_with("<... ") {
            let Some((first, begun)) = self.begun.remove(thread) else {
                return;
            };
            (
                first,
                rest.split_once("resumed>").map_or("", |(_, rest)| rest),
                begun,
            )
        } else {
            (rest, "", usize::MAX)
        };
        let whole = format!("{first}{second}");
        let Some((call, result)) = whole.rsplit_once(" = ") else {
            return;
        };
        let Some((name, args)) = call.split_once('(') else {
            return;
        };
        let digits = result.split(['<', ' ']).next().unwrap_or_default();
        let call = Call {
            name: name.to_owned(),
            args: args.trim_end().trim_end_matches(')').to_owned(),
            result: digits.parse().unwrap_or(-1),
            begun,
        };
        if call.result >= 0 {
            self.apply(&call);
        }
    }

    /// How many changes a sync that begins now will certainly include.
    fn pending_of(&mut self, first: &str) -> usize {
        let path = between(first, '<', '>');
        self.disk
            .file(&path)
            .map_or(usize::MAX, |file| file.pending.len())
    }

    fn apply(&mut self, call: &Call) {
        let is_ours = |path: &Path, root: &Path| path.starts_with(root) && path != root;
        let (number, path) = call.descriptor();
        let disk = &mut self.disk;
        match call.name.as_str() {
            "sendto" | "sendmsg" | "writev" => {
                let begins = call
                    .texts()
                    .first()
                    .is_some_and(|t| t.starts_with(b"HTTP/1.1 20"));
                self.answered += usize::from(begins);
            }
            "openat" => {
                let path = call.path_of_text(0);
                if is_ours(&path, &self.root) && !call.args.contains("O_DIRECTORY") {
                    disk.open(&path, call);
                }
            }
            "mkdir" | "mkdirat" => {
                let path = call.path_of_text(0);
                if is_ours(&path, &self.root) {
                    disk.names.insert(path, Entry::Folder);
                }
            }
            "rename" | "renameat" | "renameat2" => {
                disk.rename(&call.path_of_text(0), &call.path_of_text(1));
            }
            "link" | "linkat" => panic!("links are not simulated"),
            "unlink" | "unlinkat" => drop(disk.names.remove(&call.path_of_text(0))),
            "fsync" | "fdatasync" => disk.sync(&path, call.begun),
            "lseek" => {
                disk.offsets.insert((path, number), call.result as usize);
            }
            "ftruncate" => {
                let length = call.number(0);
                if let Some(file) = disk.file(&path) {
                    file.pending.push(Change::Truncate(length));
                }
            }
            "write" | "pwrite64" => disk.write(path, number, call),
            other => panic!("`{other}` is not simulated"),
        }
    }
}

impl Disk {
    fn open(&mut self, path: &Path, call: &Call) {
        if self.names.get(path) == Some(&Entry::Folder) {
            return;
        }
        if !self.names.contains_key(path) {
            self.names
                .insert(path.to_owned(), Entry::File(self.files.len()));
            self.files.push(File::default());
        }
        if call.args.contains("O_TRUNC")
            && let Some(file) = self.file(path)
        {
            file.pending.push(Change::Truncate(0));
        }
        self.offsets
            .insert((path.to_owned(), call.result.to_string()), 0);
    }

    fn write(&mut self, path: PathBuf, number: String, call: &Call) {
        let written = call.result as usize;
        let mut data = call.texts().into_iter().next().unwrap_or_default();
        data.truncate(written);
        let at = match call.name.as_str() {
            "pwrite64" => call.number(0),
            _ => {
                let offset = self.offsets.entry((path.clone(), number)).or_default();
                *offset += written;
                *offset - written
            }
        };
        if let Some(file) = self.file(&path) {
            file.pending.push(Change::Write(at, data));
        }
    }
}

/// The changes that the test made, one for each request, in order.
#[derive(Clone, Debug)]
enum Done {
    Upload(String),
    Name(String, String),
    Share(String),
    Revoke(String),
    Delete(String),
}

/// Lets a server work under `strace`. Returns what was done; the log goes to `log`. `None` without
/// `strace`.
fn recorded(data: &Path, log: &Path) -> Option<Vec<Done>> {
    let has_strace = Command::new("strace")
        .arg("-V")
        .stdout(Stdio::null())
        .status();
    if !has_strace.is_ok_and(|status| status.success()) {
        println!("left out: there is no strace here");
        return None;
    }
    let trace = format!("trace={CALLS}");
    let mut command = Command::new("strace");
    command.args([
        "-f",
        "-y",
        "-xx",
        "-s",
        "100000000",
        "--seccomp-bpf",
        "-e",
        &trace,
        "-o",
    ]);
    command.arg(log).arg(env!("CARGO_BIN_EXE_tidemark"));
    command.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--repack-level",
        "3",
        "--data",
    ]);
    let server = Server::run_with(command, data);
    let mut done = Vec::new();
    let mut runs = Vec::new();
    for (n, file) in SNAPSHOTS.iter().enumerate() {
        // Some files are sent as they are, some unpacked, so that the server compresses them.
        let plain = zstd::decode_all(*file).unwrap();
        let file = if n == 1 { *file } else { &plain };
        runs.push(server.upload(&format!("{n}.pickle"), file));
        done.push(Done::Upload(runs[n].clone()));
        let name = format!("renamed {n}");
        let body = format!(r#"{{"name":"{name}"}}"#);
        let path = format!("/api/runs/{}", runs[n]);
        server
            .send("PATCH", &path, Some(body.as_bytes()))
            .expect(200);
        done.push(Done::Name(runs[n].clone(), name));
        let (secret, id) = server.share(&runs[n]);
        done.push(Done::Share(secret.clone()));
        if n != 2 {
            server
                .send("DELETE", &format!("/api/shares/{id}"), None)
                .expect(200);
            done.push(Done::Revoke(secret));
        }
    }
    server
        .send("DELETE", &format!("/api/runs/{}", runs[1]), None)
        .expect(200);
    done.push(Done::Delete(runs[1].clone()));
    // Waits until the files are compressed again: that renames a new file over an old one.
    wait_until("blobs are packed again", || {
        count(data, "SELECT count(*) FROM blobs WHERE level = 3") == 2
    });
    stop_traced(server);
    Some(done)
}

/// Asks the server itself to stop. Stopping `strace` would leave the server running.
fn stop_traced(server: Server) {
    let children = format!("/proc/{0}/task/{0}/children", server.child.id());
    let pid = std::fs::read_to_string(children).unwrap();
    let asked = Command::new("kill").args(["-TERM", pid.trim()]).status();
    assert!(asked.unwrap().success());
    server.wait();
}

/// Asserts that a disk has everything that was acknowledged.
fn assert_has(place: &Path, done: &[Done], acknowledged: usize, what: &str) {
    let server = Server::with(place, &[]).unwrap_or_else(|log| panic!("{what}: {log}"));
    let unfinished = "SELECT count(*) FROM uploads WHERE state IN ('announced', 'running')";
    wait_until("uploads are taken up again", || {
        count(place, unfinished) == 0
    });
    let listed = server.get("/api/runs").expect(200).json();
    let name_of = |run: &str| {
        let mut runs = listed.as_array().unwrap().iter();
        let found = runs.find(|one| one["id"] == run);
        found.map(|run| run["name"].as_str().unwrap().to_owned())
    };
    // The request after the last acknowledged one may have taken effect or not.
    let next = done.get(acknowledged);
    let deleted = |run: &String| {
        let mut all = done[..acknowledged].iter().chain(next);
        all.any(|done| matches!(done, Done::Delete(other) if other == run))
    };
    for one in &done[..acknowledged] {
        match one {
            Done::Upload(run) => {
                assert!(
                    deleted(run) || name_of(run).is_some(),
                    "{what}: {run} is lost"
                );
                if name_of(run).is_some() {
                    server
                        .get(&format!("/api/runs/{run}/devices/0/mountain/stack/1/0"))
                        .expect(200);
                    server
                        .get(&format!("/api/runs/{run}/export?format=pickle"))
                        .expect(200);
                }
            }
            Done::Name(run, name) => {
                assert!(
                    deleted(run) || name_of(run).as_ref() == Some(name),
                    "{what}: {run}"
                );
            }
            Done::Share(secret) => {
                let status = server.open_share(secret).status;
                assert!(
                    matches!(status, 200 | 410),
                    "{what}: a link answers {status}"
                );
            }
            Done::Revoke(secret) => {
                assert_eq!(
                    server.open_share(secret).status,
                    410,
                    "{what}: a revoked link lives"
                );
            }
            Done::Delete(run) => assert_eq!(name_of(run), None, "{what}: {run} is back"),
        }
    }
}

#[test]
fn what_was_acknowledged_survives_a_power_cut() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("data");
    std::fs::create_dir(&root).unwrap();
    let log = folder.path().join("calls.log");
    let Some(done) = recorded(&root, &log) else {
        return;
    };
    let log = std::fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    let mut chance = Chance(0x706f_7765);
    let cuts: u64 = std::env::var("FAULT_ROUNDS").map_or(4, |rounds| rounds.parse().unwrap());
    let at_random: BTreeSet<usize> = (0..cuts)
        .map(|_| chance.below(lines.len() as u64) as usize)
        .collect();
    let mut replay = Replay {
        root: root.clone(),
        disk: Disk::default(),
        answered: 0,
        begun: HashMap::new(),
    };
    let mut images = 0;
    for (at, line) in lines.iter().enumerate() {
        let before = replay.answered;
        replay.take(line);
        let is_answer = replay.answered > before;
        let is_cut = is_answer && replay.answered % 3 == 1 || at_random.contains(&at);
        if !is_cut || replay.answered > done.len() {
            continue;
        }
        for unsynced in [Unsynced::Lost, Unsynced::Some] {
            let place = folder.path().join(format!("{at}-{unsynced:?}"));
            replay
                .disk
                .materialize(&root, &place, unsynced, &mut chance);
            let what = format!("line {at} of {}, {unsynced:?}", lines.len());
            assert_has(&place, &done, replay.answered, &what);
            std::fs::remove_dir_all(&place).unwrap();
            images += 1;
        }
    }
    assert_eq!(replay.answered, done.len(), "the log tells of every answer");
    println!("{images} disks after a power cut, {} calls", lines.len());
}
