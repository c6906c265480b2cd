//! `tidemark serve`.

use super::CliError;
use super::alert;
use super::categories::OwnArgs;
use super::number::{at_least, from_to};
use super::oidc::{OidcArgs, read_secret};
use crate::app::{App, FIRST_REQUESTS};
use crate::bench::BenchSettings;
use crate::config::{Config, UserHeader};
use crate::http::{Listening, serve as serve_http};
use crate::ingest::Sender;
use crate::limits::clients::numbers::Share;
use crate::limits::clients::{ClientLimits, Pace, Proxies};
use crate::limits::machine;
use crate::page_files::{FrontEnd, Site};
use crate::samples::{self, BundledSample};
use crate::system::private;
use crate::who::host_names::{self, PublicUrl, WebOrigin};
use crate::who::server_token::Token;
use api::people::{NewPerson, Role};
use api::projects::in_project;
use api::routes;
use axum::http::HeaderName;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use trace::units::Bytes;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

/// When the server ends, running work has this long, after the time for requests.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// The log target that no filter hides.
const ANNOUNCED: &str = "tidemark";

const EXAMPLES: &str = "\
Examples:
  tidemark serve
  tidemark serve --sample
  tidemark serve --listen 127.0.0.1:9000 --data /srv/tidemark
  tidemark token > token; tidemark serve --listen 0.0.0.0:7878 --token-file token
  tidemark serve --token-file token --public-url https://tidemark.example \\
                 --trusted-proxy 127.0.0.1

On loopback nobody has to sign in while there are no people and no access token. Anywhere else
everybody has to: without an access token, the first start prints the token of an admin, who adds
the others (`tidemark people`, or the page /people).

Logs go to stderr; TIDEMARK_LOG=debug shows every request. Lines of one request carry its id, which
the answer has as X-Request-Id.";

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// A JSON object a line.
    Json,
}

/// Options of `tidemark serve`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Address to listen on. On any address but loopback, everybody must sign in
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7878")]
    pub listen: SocketAddr,
    /// Folder of the database and the uploaded files; made when it is not there
    #[arg(long, value_name = "DIR", default_value = "tidemark-data")]
    data: PathBuf,
    /// Open a bundled recording and print the address of its page
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = samples::SHOWN_FIRST,
          value_parser = PossibleValuesParser::new(samples::ALL.iter().map(|sample| sample.name)))]
    sample: Option<String>,
    /// Serve the page from this folder, which `webbuild watch` writes: for work on the page
    #[arg(long, value_name = "DIR")]
    front_end: Option<PathBuf>,
    /// Where uploaded files are kept [default: DIR/blobs]; s3://BUCKET/PREFIX in builds with S3
    #[arg(long, value_name = "WHERE")]
    blobs: Option<String>,
    /// Access token that clients must send; prefer the variable or the file, since other users of
    /// this machine can read command lines
    #[arg(
        long,
        env = "TIDEMARK_TOKEN",
        hide_env_values = true,
        conflicts_with = "token_file"
    )]
    token: Option<String>,
    /// File that holds the access token; `tidemark token` makes one
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Address under which people reach the server, for links; https:// also keeps cookies inside
    /// TLS, which a proxy in front of the server ends
    #[arg(long, value_name = "URL")]
    public_url: Option<PublicUrl>,
    /// Origin of a page without a server (repeatable), such as https://pages.example, whose
    /// visitors may send recordings here and share them, with a token of theirs
    #[arg(long, value_name = "ORIGIN")]
    allow_page: Vec<WebOrigin>,
    /// Proxy (address or network, repeatable) whose headers about the client and TLS are believed
    #[arg(long, value_name = "ADDR")]
    trusted_proxy: Vec<String>,
    /// Header in which such a proxy names the person who asks, such as X-Forwarded-User; a
    /// person named for the first time is added
    #[arg(long, value_name = "HEADER")]
    user_header: Option<HeaderName>,
    /// Role of a person whom the header or the provider names for the first time; the very first
    /// person is an admin
    #[arg(long, value_name = "ROLE", default_value = "member")]
    newcomers: Role,
    #[command(flatten)]
    oidc: OidcArgs,
    /// Connections open at a time, at least 16
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = from_to(16, u32::MAX))]
    connections: u32,
    /// Connections of one address; those of this machine are not limited beyond the above
    #[arg(long, value_name = "N", default_value_t = 128,
          value_parser = from_to(1, u32::MAX))]
    connections_per_address: u32,
    /// Slowest allowed upload or download, bytes per second over 30 seconds; 0: however slow
    #[arg(long, value_name = "SIZE", default_value = "16KiB")]
    min_rate: Bytes,
    /// Largest upload accepted
    #[arg(long, value_name = "SIZE", default_value = "8GiB",
          value_parser = at_least(Bytes::kib(1)))]
    upload_limit: Bytes,
    /// Refuse uploads that would leave less free on the disk
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    keep_free: Bytes,
    /// Memory for everything that grows with uploads and questions; the process needs 100 MiB more
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: Bytes,
    /// Memory for decoded traces that are not in use; part of --memory
    #[arg(long, value_name = "SIZE", default_value = "320MiB")]
    cache: Bytes,
    /// zstd level at which uploaded files are packed again when the server is idle; 0 switches this
    /// off
    #[arg(long, value_name = "LEVEL", default_value_t = 9,
          value_parser = from_to(0_i32, 22))]
    repack_level: i32,
    /// How the log is written, on stderr: for people, or a JSON object a line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Seconds that a row of a bench may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600,
          value_parser = from_to(1, u64::from(u32::MAX)))]
    row_seconds: u64,
    /// Memory that the process of a row may take; on a GPU sixteen times as much
    #[arg(long, value_name = "SIZE", default_value = "4GiB",
          value_parser = at_least(Bytes::mib(64)))]
    row_memory: Bytes,
    /// Tell a chat when memory of a training that reports live grows, or nears its limit: post a
    /// JSON message to this address, such as a webhook of Slack or Mattermost; prefer the variable
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEMARK_ALERT",
        hide_env_values = true
    )]
    alert: Option<String>,
    #[command(flatten)]
    own: OwnArgs,
}

/// Serves until it is told to stop.
///
/// # Errors
/// Why the server cannot start.
pub fn serve(args: ServeArgs, front_end: FrontEnd) -> Result<(), CliError> {
    let config = args.config(front_end)?;
    let sample = args.sample.as_deref().and_then(samples::find);
    config
        .check()
        .map_err(|error| CliError::Usage(error.to_string()))?;
    machine::check(config.memory).map_err(|error| CliError::Usage(error.to_string()))?;
    machine::prepare_allocator();
    let format = args.log_format;
    start_logging(format);
    private::make_everything_private();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| failed("start threads", &error))?;
    let served = runtime.block_on(async {
        survive_limit_of_files().map_err(|error| failed("listen for signals", &error))?;
        // Before a data folder is made, and before anything works in it. Who connects now is
        // answered once the data is open.
        let address = config.listen;
        let listening = Listening::on(address).await;
        let listening =
            listening.map_err(|error| failed(&format!("listen on {address}"), &error))?;
        let app = App::open(config).await?;
        let stopping = app.stopping.clone();
        let signals = signals().map_err(|error| failed("listen for signals", &error))?;
        tokio::spawn(async move {
            signals.await;
            stopping.cancel();
        });
        first_admin(&app, listening.address).await?;
        announce(
            format,
            &format!("listening on http://{}", listening.address),
        );
        if let Some(sample) = sample {
            tokio::spawn(show(Arc::clone(&app), sample, format, listening.address));
        }
        for notice in &app.notices {
            tracing::warn!("{notice}");
        }
        let uploads = app.uploads.clone();
        tokio::spawn(async move {
            tokio::time::sleep(FIRST_REQUESTS).await;
            uploads.report_unknown_blobs().await;
        });
        let store = app.store.clone();
        serve_http(listening, app).await;
        // A clock that is set back before the next start opens nothing again.
        if let Err(error) = store.remember_time(store.latest_ms()).await {
            tracing::debug!(%error, "cannot remember how late it is");
        }
        Ok(())
    });
    // This closes the database, which takes a moment. Work that takes longer, such as reading a
    // large file, ends as in a power cut and continues at the next start.
    runtime.shutdown_timeout(CLOSE_WITHIN);
    served
}

impl ServeArgs {
    fn clients(&self) -> ClientLimits {
        let limits = ClientLimits::default();
        ClientLimits {
            connections: Share {
                each: self.connections_per_address as usize,
                all: self.connections as usize,
            },
            pace: Pace {
                rate: self.min_rate,
                ..limits.pace
            },
            ..limits
        }
    }

    fn config(&self, front_end: FrontEnd) -> Result<Config, CliError> {
        let token = match (&self.token, &self.token_file) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(path)) => Some(read_secret(path)?),
            (None, None) => None,
        };
        let token = token.map(|text| Token::new(&text)).transpose();
        Ok(Config {
            listen: self.listen,
            data: self.data.clone(),
            blobs: self.blobs.clone(),
            token: token.map_err(usage)?,
            public_url: self.public_url.clone(),
            pages: self.allow_page.clone(),
            proxies: Proxies::parse(self.trusted_proxy.iter().map(String::as_str))
                .map_err(usage)?,
            user_header: self.user_header.clone().map(|name| UserHeader {
                name,
                newcomers: self.newcomers,
            }),
            oidc: self.oidc.settings(self.newcomers)?,
            clients: self.clients(),
            site: match &self.front_end {
                None => Site::Embedded(front_end),
                Some(folder) => Site::Folder(folder.clone()),
            },
            upload_limit: self.upload_limit,
            keep_free: self.keep_free,
            memory: self.memory,
            cache: self.cache,
            repack_level: Some(self.repack_level).filter(|&level| level > 0),
            categories: self.own.file()?,
            alert: alert::webhook(self.alert.as_deref())?,
            bench: BenchSettings {
                time: Duration::from_secs(self.row_seconds),
                memory: self.row_memory,
                ..BenchSettings::default()
            },
        })
    }
}

fn usage(error: impl std::fmt::Display) -> CliError {
    CliError::Usage(error.to_string())
}

/// Prints a line that must always appear, whatever the log's filter, for example the line that
/// programs wait for.
fn announce(format: LogFormat, line: &str) {
    match format {
        // Fails only if nobody reads stderr any more.
        LogFormat::Text => drop(writeln!(std::io::stderr(), "{line}")),
        LogFormat::Json => tracing::info!(target: ANNOUNCED, "{line}"),
    }
}

/// On a server that others can reach, everybody must sign in. If there are no people yet, this adds
/// an admin and prints the admin's token, once.
async fn first_admin(app: &App, address: SocketAddr) -> Result<(), CliError> {
    if !app.config.needs_admin() || !app.gate.people.is_empty() {
        return Ok(());
    }
    let new = NewPerson {
        name: "admin".to_owned(),
        role: Role::Admin,
    };
    let added = app.gate.people.add(&new, app.store.latest_ms()).await;
    let added = added.map_err(|error| CliError::Failed(format!("cannot add an admin: {error}")))?;
    let public = app.config.public_url.as_ref();
    let origin = public.map_or_else(|| reached_at(address), ToString::to_string);
    let said = writeln!(
        std::io::stdout(),
        "Others can reach {address}, so everybody has to sign in. You are `admin`; this token is \
         shown only once:\n\n    {}\n\nSign in at {origin}{} and add people at {origin}{}. If it \
         is lost, stop the server and run `tidemark people token admin --data {}`.",
        added.token.secret,
        routes::SIGN_IN_PAGE,
        routes::PEOPLE_PAGE,
        app.config.data.display(),
    );
    said.map_err(|error| failed("print the admin's token", &error))
}

/// The address under which others reach a server that listens there. One that listens on every
/// address of this machine is reached by the machine's name.
fn reached_at(address: SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!("http://{}:{}", host_names::hostname(), address.port()),
        false => format!("http://{address}"),
    }
}

/// Makes a run from a sample and prints the address of its page.
async fn show(
    app: Arc<App>,
    sample: &'static BundledSample,
    format: LogFormat,
    address: SocketAddr,
) {
    let line = match sample.open(&app.uploads, Sender::Server).await {
        Ok(arrived) => {
            let public = app.config.public_url.as_ref();
            let origin = public.map_or(format!("http://{address}"), ToString::to_string);
            let page = routes::run_page(&arrived.run);
            let page = match app.projects.are_several() {
                true => in_project(&page, &app.project),
                false => page,
            };
            format!("sample: {origin}{page}")
        }
        Err(error) => format!("the sample cannot be opened: {error}"),
    };
    announce(format, &line);
}

pub(super) fn start_logging(format: LogFormat) {
    let said = std::env::var("TIDEMARK_LOG").unwrap_or_default();
    let filter = said.parse::<Targets>();
    let chosen = filter.as_ref().ok().filter(|_| !said.is_empty()).cloned();
    let chosen = chosen.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    let lines = tracing_subscriber::fmt::layer()
        // An error only means that nobody reads the log any more; requests go on.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .boxed(),
    };
    let chosen = chosen.with_target(ANNOUNCED, LevelFilter::INFO);
    // The protocol's library logs whole requests, and an argument may be a link.
    let chosen = chosen.with_target("rmcp", LevelFilter::OFF);
    let lines = lines.with_filter(chosen);
    tracing_subscriber::registry().with(lines).init();
    if let Err(error) = filter {
        tracing::warn!("TIDEMARK_LOG is not understood ({error}): only warnings are logged");
    }
}

/// Under a limit on the size of files (`ulimit -f`), a write that goes beyond it fails like one to
/// a full disk. Without a handler the system would end the server.
fn survive_limit_of_files() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let too_large = rustix::process::Signal::XFSZ.as_raw();
    signal(SignalKind::from_raw(too_large)).map(drop)
}

/// Completes at the first signal that asks the server to stop.
fn signals() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn failed(what: &str, error: &std::io::Error) -> CliError {
    CliError::Failed(format!("cannot {what}: {error}"))
}
