//! `tidemark serve`.

use super::CliError;
use crate::app::App;
use crate::bench::BenchSettings;
use crate::config::{Config, Token};
use crate::http::{Listening, serve as serve_http};
use clap::Args;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trace::units::Bytes;
use tracing_subscriber::EnvFilter;

const EXAMPLES: &str = "\
Examples:
  tidemark serve
  tidemark serve --listen 127.0.0.1:9000 --data /srv/tidemark
  TIDEMARK_TOKEN=$(openssl rand -hex 16) tidemark serve --listen 0.0.0.0:7878

Without a token the server answers on loopback only. Logs go to stderr; TIDEMARK_LOG=debug shows
every request.";

/// Options of `tidemark serve`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Address to listen on; any but loopback needs a token
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7878")]
    pub listen: SocketAddr,
    /// Folder of the database and the uploaded files; made when it is not there
    #[arg(long, value_name = "DIR", default_value = "tidemark-data")]
    data: PathBuf,
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
    /// File that holds the access token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Largest upload accepted
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = size)]
    upload_limit: Bytes,
    /// Refuse uploads that would leave less free on the disk
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    keep_free: Bytes,
    /// Memory for decoded traces
    #[arg(long, value_name = "SIZE", default_value = "384MiB", value_parser = size)]
    cache: Bytes,
    /// zstd level at which uploaded files are packed again when the server is idle; 0: they are not
    #[arg(long, value_name = "LEVEL", default_value_t = 9,
          value_parser = clap::value_parser!(i32).range(0..=22))]
    repack_level: i32,
    /// Seconds that a row of a bench may take
    #[arg(long, value_name = "SECONDS", default_value_t = 600,
          value_parser = clap::value_parser!(u64).range(1..))]
    row_seconds: u64,
    /// Memory that the process of a row may take; on a GPU sixteen times as much
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size)]
    row_memory: Bytes,
}

/// Serves until it is told to stop.
///
/// # Errors
/// Why the server cannot start.
pub fn serve(args: ServeArgs) -> Result<(), CliError> {
    let config = args.config()?;
    config
        .check()
        .map_err(|error| CliError::Usage(error.to_string()))?;
    start_logging();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| failed("start threads", &error))?;
    runtime.block_on(async {
        let app = App::open(config).await?;
        let address = app.config.listen;
        let listening = Listening::on(address).await;
        let listening =
            listening.map_err(|error| failed(&format!("listen on {address}"), &error))?;
        let stopping = app.stopping.clone();
        let signals = signals().map_err(|error| failed("listen for signals", &error))?;
        tokio::spawn(async move {
            signals.await;
            stopping.cancel();
        });
        announce(listening.address);
        serve_http(listening, app).await;
        Ok(())
    })
}

impl ServeArgs {
    fn config(&self) -> Result<Config, CliError> {
        let token = match (&self.token, &self.token_file) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(path)) => Some(read_token(path)?),
            (None, None) => None,
        };
        let token = token.map(|text| Token::new(&text)).transpose();
        Ok(Config {
            listen: self.listen,
            data: self.data.clone(),
            blobs: self.blobs.clone(),
            token: token.map_err(|error| CliError::Usage(error.to_string()))?,
            upload_limit: self.upload_limit,
            keep_free: self.keep_free,
            cache: self.cache,
            repack_level: Some(self.repack_level).filter(|&level| level > 0),
            bench: BenchSettings {
                time: Duration::from_secs(self.row_seconds),
                memory: self.row_memory,
                ..BenchSettings::default()
            },
        })
    }
}

fn read_token(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(|error| CliError::BadInput {
        path: path.to_owned(),
        why: format!("cannot read the token: {error}"),
    })
}

/// The one line that programs wait for.
fn announce(address: SocketAddr) {
    use std::io::Write;
    // Nobody may be reading.
    let _ = writeln!(std::io::stderr(), "listening on http://{address}");
}

fn start_logging() {
    let filter = EnvFilter::try_from_env("TIDEMARK_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}

/// Ends at the first signal that asks the server to stop.
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

/// `8GiB`, `500MB`, `123`: binary and decimal prefixes as they are written.
fn size(text: &str) -> Result<Bytes, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let factor = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err("use a unit such as MiB, GiB or GB".to_owned()),
    };
    let number: u64 = digits
        .trim()
        .parse()
        .map_err(|_| "not a whole number".to_owned())?;
    let bytes = number
        .checked_mul(factor)
        .filter(|&bytes| i64::try_from(bytes).is_ok());
    bytes.map(Bytes).ok_or_else(|| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_written() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(size(text).ok().map(Bytes::get), expected, "{text}");
        };
        check("8GiB", Some(8 << 30));
        check("8 GB", Some(8_000_000_000));
        check("512", Some(512));
        check("8G", None);
        check("-1", None);
        check("99999999TiB", None);
    }
}
