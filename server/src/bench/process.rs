//! One row in a child process: started, listened to, watched, and ended when it takes too much.

use super::BenchSettings;
use super::child::{ChildSpec, Line};
use api::bench::{BenchResult, BenchStep, DeviceKind};
use std::collections::VecDeque;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Split};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use trace::units::Bytes;

/// The command of this program that runs a row; not for people.
pub const ROW_COMMAND: &str = "run-row";

/// How often the memory of the process is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How much of the end of stderr is kept: a panic or the allocator says there why.
const LAST_WORDS: usize = 4096;

/// How long they are waited for after the process has ended.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(1);

/// How a row's process ended, and the steps that it got done.
#[derive(Debug)]
pub struct Ended {
    /// Steps done, in order.
    pub steps: Vec<BenchStep>,
    /// How.
    pub how: How,
}

/// How a row's process ended.
#[derive(Debug)]
pub enum How {
    /// With a result, and with a recording if the specification asked for one.
    Done {
        /// The version that patches were applied to.
        base: String,
        /// The numbers.
        result: Box<BenchResult>,
    },
    /// Without a result.
    Failed(String),
    /// Because it was cancelled.
    Cancelled,
}

/// Why a process is ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Cancelled,
    Time(Duration),
    Memory(Bytes),
    /// What it says cannot be read.
    Unheard(io::ErrorKind),
}

/// Runs a row. `on_step` is called for each step; the process is ended when `cancel` fires.
pub async fn run(
    spec: &ChildSpec,
    settings: &BenchSettings,
    cancel: &CancellationToken,
    mut on_step: impl FnMut(&BenchStep),
) -> Ended {
    let mut steps = Vec::new();
    let mut watched = match Watched::start(spec, settings).await {
        Ok(watched) => watched,
        Err(error) => {
            let how = How::Failed(format!("its process cannot be started: {error}"));
            return Ended { steps, how };
        }
    };
    // It counts if the process then ends as it should.
    let mut last_word = None;
    let stop = loop {
        match watched.next(cancel).await {
            Heard::Line(Line::Step(step)) => {
                on_step(&step);
                steps.push(step);
            }
            Heard::Line(Line::Done { base, result }) => {
                last_word = Some(How::Done { base, result });
            }
            Heard::Line(Line::Refused { reason }) => last_word = Some(How::Failed(reason)),
            Heard::End => break watched.gone(cancel).await,
            Heard::Stop(stop) => break Some(stop),
        }
    };
    let how = watched.end(stop, last_word).await;
    Ended { steps, how }
}

enum Heard {
    Line(Line),
    End,
    Stop(Stop),
}

/// A process and what watches it.
struct Watched {
    child: Child,
    /// Stays open as long as the process should live.
    stdin: ChildStdin,
    /// Bytes, because a library may print what is no text.
    lines: Split<BufReader<ChildStdout>>,
    stderr: JoinHandle<String>,
    look: tokio::time::Interval,
    deadline: Instant,
    time: Duration,
    memory: Bytes,
}

impl Watched {
    async fn start(spec: &ChildSpec, settings: &BenchSettings) -> io::Result<Watched> {
        let mut child = Command::new(settings.program()?)
            .arg(ROW_COMMAND)
            // The row needs no secrets.
            .env_remove("TIDEMARK_TOKEN")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let mut stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let mut line = serde_json::to_vec(spec)?;
        line.push(b'\n');
        // A process that dies at once closes the pipe; its exit tells more than this error.
        let _ = stdin.write_all(&line).await;
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Watched {
            child,
            stdin,
            lines: BufReader::new(stdout).split(b'\n'),
            stderr: tokio::spawn(last_words(stderr)),
            look,
            deadline: Instant::now() + settings.time,
            time: settings.time,
            memory: memory_limit(settings, spec.device),
        })
    }

    async fn next(&mut self, cancel: &CancellationToken) -> Heard {
        loop {
            tokio::select! {
                line = self.lines.next_segment() => return match line {
                    Ok(Some(line)) => match serde_json::from_slice(&line) {
                        Ok(line) => Heard::Line(line),
                        // A library printed something, which is not a message.
                        Err(_) => continue,
                    },
                    Ok(None) => Heard::End,
                    // It may still run, and nobody would watch it any more.
                    Err(error) => Heard::Stop(Stop::Unheard(error.kind())),
                },
                _ = self.look.tick() => {
                    if let Some(stop) = self.too_large() {
                        return Heard::Stop(stop);
                    }
                }
                () = sleep_until(self.deadline) => return Heard::Stop(Stop::Time(self.time)),
                () = cancel.cancelled() => return Heard::Stop(Stop::Cancelled),
            }
        }
    }

    /// Waits until the process is gone that says nothing any more. The limits hold until then.
    async fn gone(&mut self, cancel: &CancellationToken) -> Option<Stop> {
        loop {
            tokio::select! {
                _ = self.child.wait() => return None,
                _ = self.look.tick() => {
                    if let Some(stop) = self.too_large() {
                        return Some(stop);
                    }
                }
                () = sleep_until(self.deadline) => return Some(Stop::Time(self.time)),
                () = cancel.cancelled() => return Some(Stop::Cancelled),
            }
        }
    }

    fn too_large(&self) -> Option<Stop> {
        let over = self.resident().filter(|bytes| *bytes > self.memory);
        over.map(|_| Stop::Memory(self.memory))
    }

    /// Memory that the process really uses, if the system tells it.
    fn resident(&self) -> Option<Bytes> {
        let pid = self.child.id()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        resident_in(&status)
    }

    async fn end(mut self, stop: Option<Stop>, last_word: Option<How>) -> How {
        if stop.is_some() {
            // Fails only if the process has ended.
            let _ = self.child.start_kill();
        }
        let status = self.child.wait().await;
        drop(self.stdin);
        // A process that this one has started may hold its stderr open for as long as it likes.
        let words = timeout(LAST_WORDS_WITHIN, self.stderr).await;
        let words = words.map_or_else(|_| String::new(), Result::unwrap_or_default);
        match (stop, last_word, status) {
            (Some(Stop::Cancelled), _, _) => How::Cancelled,
            (Some(Stop::Time(limit)), _, _) => How::Failed(format!(
                "it took longer than {} s, the limit of this server (--row-seconds)",
                limit.as_secs_f64()
            )),
            (Some(Stop::Memory(limit)), _, _) => How::Failed(too_much_memory(limit)),
            (Some(Stop::Unheard(why)), _, _) => {
                How::Failed(format!("what its process says cannot be read: {why}"))
            }
            (None, _, Err(error)) => How::Failed(format!("its process was lost: {error}")),
            (None, Some(said), Ok(status)) if status.success() => said,
            (None, _, Ok(status)) => How::Failed(why_it_died(status, &words, self.memory)),
        }
    }
}

fn memory_limit(settings: &BenchSettings, device: DeviceKind) -> Bytes {
    let factor = match device {
        DeviceKind::Sim => 1,
        DeviceKind::Cuda => BenchSettings::CUDA_FACTOR,
    };
    Bytes(settings.memory.get().saturating_mul(factor))
}

/// `VmRSS:  1234 kB` of `/proc/PID/status`.
fn resident_in(status: &str) -> Option<Bytes> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes(kib << 10))
}

fn too_much_memory(limit: Bytes) -> String {
    format!("its process took more than {limit}, the limit of this server (--row-memory)")
}

/// Explains an end that nobody asked for.
fn why_it_died(status: ExitStatus, words: &str, memory: Bytes) -> String {
    const KILL: i32 = 9;
    const ABORT: i32 = 6;
    match (status.signal(), status.code()) {
        // Rust's allocator prints this and aborts.
        (Some(ABORT), _) if words.contains("memory allocation of") => too_much_memory(memory),
        (Some(KILL), _) => "its process was killed by the system (signal 9), most likely because \
                            the machine ran out of memory"
            .to_owned(),
        (Some(signal), _) => {
            let name = signal_name(signal);
            format!("its process crashed ({name}){}", quoted(words))
        }
        (None, Some(code)) => {
            format!("its process ended with status {code}{}", quoted(words))
        }
        (None, None) => "its process ended in an unknown way".to_owned(),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        4 => "illegal instruction",
        6 => "aborted",
        7 => "bus error",
        8 => "arithmetic error",
        11 => "segmentation fault",
        15 => "terminated",
        _ => return format!("signal {signal}"),
    };
    format!("{name}, signal {signal}")
}

/// The line of stderr that says why: the message of a panic, otherwise the last line.
fn quoted(words: &str) -> String {
    let lines: Vec<&str> = words.lines().map(str::trim).collect();
    let panic = lines.iter().position(|line| line.contains("panicked at"));
    let line = match panic {
        Some(at) => lines.get(at + 1),
        None => lines.iter().rev().find(|line| !line.is_empty()),
    };
    line.map_or(String::new(), |line| format!(": {line}"))
}

async fn last_words(mut stderr: ChildStderr) -> String {
    let mut kept: VecDeque<u8> = VecDeque::with_capacity(2 * LAST_WORDS);
    let mut piece = [0; 1024];
    while let Ok(length @ 1..) = stderr.read(&mut piece).await {
        kept.extend(&piece[..length]);
        let too_many = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..too_many);
    }
    String::from_utf8_lossy(kept.make_contiguous()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Runs a shell script in place of a row. It may take half a second.
    async fn scripted(script: &str) -> How {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("row");
        // A shell writes it: a file that this process has open for writing cannot be run, and a
        // child that another test starts just then would hold it open.
        let write = "printf '#!/bin/sh\nread spec\n%s\n' \"$1\" >\"$0\"; chmod +x \"$0\"";
        let mut shell = std::process::Command::new("sh");
        let written = shell.args(["-c", write]).arg(&program).arg(script).status();
        assert!(written.unwrap().success());
        let settings = BenchSettings {
            program: Some(program),
            time: Duration::from_millis(500),
            ..BenchSettings::default()
        };
        let spec = serde_json::from_value(json!({
            "config": "any", "patches": [], "steps": 1, "device": "sim", "capacity": null,
            "recorded_steps": 1, "recording": "r", "tensors": "t", "memory": 1 << 30,
        }));
        let cancel = CancellationToken::new();
        run(&spec.unwrap(), &settings, &cancel, |_| {}).await.how
    }

    #[tokio::test]
    async fn a_line_that_is_no_text_is_skipped_and_the_limits_stay() {
        let check = async |script: &str, expected: &str| match scripted(script).await {
            How::Failed(why) => assert!(why.contains(expected), "{script}: {why}"),
            other => panic!("{script}: {other:?}"),
        };
        let refused = r#"printf '\377\n{"said":"refused","reason":"no such patch"}\n'"#;
        check(refused, "no such patch").await;
        check(r"printf '\377\n'; exec sleep 20", "took longer than 0.5 s").await;
    }

    #[tokio::test]
    async fn the_limit_of_time_holds_after_the_last_word() {
        for script in ["exec >&-; exec sleep 20", "exec >&-; sleep 20"] {
            let begun = Instant::now();
            match scripted(script).await {
                How::Failed(why) => assert!(why.contains("took longer than 0.5 s"), "{why}"),
                other => panic!("{script}: {other:?}"),
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "{script}");
        }
    }

    #[test]
    fn resident_memory_is_read_in_kibibytes() {
        let status = "Name:\ttidemark\nVmPeak:\t  99 kB\nVmRSS:\t    2048 kB\nThreads:\t2\n";
        assert_eq!(resident_in(status), Some(Bytes::mib(2)));
        assert_eq!(resident_in("Name:\tzombie\n"), None);
    }

    #[test]
    fn an_end_is_told_in_words() {
        let check = |raw: i32, words: &str, expected: &str| {
            let said = why_it_died(ExitStatus::from_raw(raw), words, Bytes::gib(1));
            assert!(said.contains(expected), "{said}");
        };
        check(9, "", "ran out of memory");
        check(6, "memory allocation of 16 bytes failed", "--row-memory");
        check(11, "", "segmentation fault, signal 11");
        check(
            101 << 8,
            "\nthread 'main' (7) panicked at src/x.rs:1:2:\nno block there\nnote: run with",
            "status 101: no block there",
        );
        check(1 << 8, "tidemark: out of cheese\n\n", "out of cheese");
        check(6, "", "aborted, signal 6");
    }
}
