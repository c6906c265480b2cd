//! `tidemark push`: upload files and print their links.

use super::CliError;
use api::problem::Problem;
use api::routes;
use api::runs::FinishedUpload;
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trace::units::Bytes;
use ureq::{Agent, Body, SendBody};

const EXAMPLES: &str = "\
Examples:
  tidemark push snapshot.pickle
  tidemark push before.pickle after.pickle --server https://tidemark.example.com
  TIDEMARK_TOKEN=… tidemark push snapshot.pickle.zst --server http://gpu-box:7878 --json";

/// How often the progress line is written.
const TICK: Duration = Duration::from_millis(100);

/// Options of `tidemark push`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PushArgs {
    /// Snapshots
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The dashboard
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEMARK_SERVER",
        default_value = "http://127.0.0.1:7878"
    )]
    server: String,
    /// Its access token; prefer the variable, since others can read command lines
    #[arg(long, env = "TIDEMARK_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Print the server's answers as one JSON document, an array when there are several files
    #[arg(long)]
    json: bool,
}

/// Uploads the files one after the other and prints a link for each.
///
/// # Errors
/// For the first file that cannot be read or is refused.
pub fn push(args: &PushArgs) -> Result<(), CliError> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(10)))
        .user_agent(concat!("tidemark/", env!("CARGO_PKG_VERSION")));
    let agent = config.build().new_agent();
    let mut answers = Vec::new();
    for path in &args.files {
        let answer = push_file(&agent, args, path)?;
        if !args.json {
            let known = if answer.known { " (known before)" } else { "" };
            // As this side reaches the server, which may know itself by another name.
            let (server, page) = (server_url(args), routes::run_page(&answer.run.id));
            print(&format!("{server}{page}{known}\n"))?;
        }
        answers.push(answer);
    }
    match (args.json, &answers[..]) {
        (false, _) => Ok(()),
        (true, [one]) => print(&json(one)),
        (true, several) => print(&json(&several)),
    }
}

fn push_file(agent: &Agent, args: &PushArgs, path: &Path) -> Result<FinishedUpload, CliError> {
    let bad = |why: String| CliError::BadInput {
        path: path.to_owned(),
        why,
    };
    let file = File::open(path).map_err(|error| bad(format!("cannot open it: {error}")))?;
    let size = file
        .metadata()
        .map_err(|error| bad(format!("cannot read it: {error}")))?
        .len();
    let name = path
        .file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy();
    let server = server_url(args);
    let name = utf8_percent_encode(&name, NON_ALPHANUMERIC).to_string();
    let mut request = agent
        .put(format!("{server}{}", routes::upload_named(&name)))
        .header("content-type", "application/octet-stream")
        .header("content-length", size.to_string());
    if let Some(token) = &args.token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let mut body = Shown::new(file, size);
    let answer = request.send(SendBody::from_reader(&mut body));
    body.clear();
    let mut answer = answer.map_err(|error| unreachable_server(server, &error))?;
    match answer.status().is_success() {
        true => read_json(answer.body_mut()),
        false => Err(refused(&answer.status(), answer.body_mut(), bad)),
    }
}

fn server_url(args: &PushArgs) -> &str {
    args.server.trim_end_matches('/')
}

fn refused(
    status: &ureq::http::StatusCode,
    body: &mut Body,
    bad: impl Fn(String) -> CliError,
) -> CliError {
    use api::problem::ProblemCode::{BadSnapshot, TooLarge};
    match read_json::<Problem>(body) {
        Ok(problem) if matches!(problem.code, BadSnapshot | TooLarge) => bad(problem.detail),
        Ok(problem) => CliError::Failed(format!("{}: {}", problem.title, problem.detail)),
        Err(_) => CliError::Failed(format!("the server answered {status} without a reason")),
    }
}

fn read_json<T: serde::de::DeserializeOwned>(body: &mut Body) -> Result<T, CliError> {
    let text = body.read_to_string();
    let text =
        text.map_err(|error| CliError::Failed(format!("cannot read the answer: {error}")))?;
    serde_json::from_str(&text).map_err(|_| {
        CliError::Failed("this does not answer like a Tidemark server; check --server".to_owned())
    })
}

fn unreachable_server(server: &str, error: &ureq::Error) -> CliError {
    CliError::Failed(format!("cannot upload to {server}: {error}"))
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("answers are plain data") + "\n"
}

fn print(text: &str) -> Result<(), CliError> {
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| CliError::Failed(format!("cannot write the answer: {error}")))
}

/// A file that shows on stderr how much of it was read, when a person is looking.
struct Shown {
    file: File,
    size: u64,
    read: u64,
    began: Instant,
    shown: Option<Instant>,
    terminal: bool,
}

impl Shown {
    fn new(file: File, size: u64) -> Shown {
        let terminal = std::io::stderr().is_terminal();
        Shown {
            file,
            size,
            read: 0,
            began: Instant::now(),
            shown: None,
            terminal,
        }
    }

    fn show(&mut self) {
        if !self.terminal || self.shown.is_some_and(|at| at.elapsed() < TICK) {
            return;
        }
        self.shown = Some(Instant::now());
        let line = progress_line(self.read, self.size, self.began.elapsed());
        // A progress line is worth no failure.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }

    fn clear(&self) {
        if self.shown.is_some() {
            // A progress line is worth no failure.
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Read for Shown {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read += read as u64;
        self.show();
        Ok(read)
    }
}

fn progress_line(read: u64, size: u64, elapsed: Duration) -> String {
    const WIDTH: usize = 30;
    let share = if size == 0 {
        1.0
    } else {
        (read as f64 / size as f64).min(1.0)
    };
    let filled = (share * WIDTH as f64) as usize;
    let rate = Bytes((read as f64 / elapsed.as_secs_f64().max(0.001)) as u64);
    let last = if read >= size {
        ", the server is storing it"
    } else {
        ""
    };
    format!(
        "[{}{}] {:3.0} % of {}, {rate}/s{last}",
        "█".repeat(filled),
        "·".repeat(WIDTH - filled),
        share * 100.0,
        Bytes(size)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_share_size_and_rate() {
        let line = progress_line(512 << 20, 1 << 30, Duration::from_secs(2));
        assert!(line.contains(" 50 % of 1.00 GiB, 256 MiB/s"), "{line}");
        let line = progress_line(1 << 30, 1 << 30, Duration::from_secs(2));
        assert!(line.contains("the server is storing it"), "{line}");
    }
}
