//! Writes progress to a file, which `./run` and `./check` show while they wait.
//!
//! It does not use `cargo:warning`, because cargo repeats such lines in every later build that has
//! nothing to do.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::Error;

/// How many lines of a failed command's output are repeated in the error.
const TAIL_LINES: usize = 40;

/// A duration, for people.
pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// One build's log.
pub struct Progress {
    path: PathBuf,
    started: Instant,
}

impl Progress {
    /// Starts `dir/progress.log` anew.
    pub fn start(dir: &Path) -> Result<Self, Error> {
        let path = dir.join("progress.log");
        File::create(&path).map_err(Error::io(&path))?;
        let started = Instant::now();
        Ok(Self { path, started })
    }

    /// Writes what happens next. If the log cannot be written, the build goes on.
    pub fn say(&self, line: &str) {
        if let Ok(mut file) = File::options().append(true).open(&self.path) {
            let _ = writeln!(file, "web: {line}");
        }
    }

    /// Time since the build began, for people.
    pub fn elapsed(&self) -> String {
        seconds(self.started.elapsed())
    }

    /// Runs `command` with its output in the log. If it fails, the last lines become the error.
    pub fn run(&self, what: &str, command: &mut Command) -> Result<(), Error> {
        let open = || File::options().append(true).open(&self.path);
        let out = open().map_err(Error::io(&self.path))?;
        let err = open().map_err(Error::io(&self.path))?;
        let status = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .status()
            .map_err(|source| Error::Start {
                program: command.get_program().to_string_lossy().into_owned(),
                source,
            })?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Failed {
            what: what.to_owned(),
            log: self.path.clone(),
            tail: self.tail(),
        })
    }

    fn tail(&self) -> String {
        let log = fs::read_to_string(&self.path).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}
