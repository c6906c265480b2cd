//! Finds out whether there is a card. It asks in a child process, because a server holds no CUDA
//! context.

use super::BenchSettings;
use engine::device::cuda;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// The command of this program that looks for a card; not for people.
pub const PROBE_COMMAND: &str = "probe-card";

/// A driver that takes longer counts as missing.
const PATIENCE: Duration = Duration::from_secs(30);

/// The child's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// The card, in a few words.
    Card(String),
    /// Why there is none, as a sentence.
    None(String),
}

/// What the card is, or why there is none.
pub async fn find_card(settings: &BenchSettings) -> Result<String, String> {
    match tokio::time::timeout(PATIENCE, ask(settings)).await {
        Ok(Ok(Said::Card(card))) => Ok(card),
        Ok(Ok(Said::None(why))) => Err(why),
        Ok(Err(error)) => Err(format!("looking for a card failed: {error}")),
        Err(_) => Err("the driver does not answer".to_owned()),
    }
}

async fn ask(settings: &BenchSettings) -> io::Result<Said> {
    let output = Command::new(settings.program()?)
        .arg(PROBE_COMMAND)
        .env_remove("TIDEMARK_TOKEN")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = output.await?;
    let text = String::from_utf8_lossy(&output.stdout);
    let said = text
        .lines()
        .find_map(|line| serde_json::from_str(line).ok());
    said.ok_or_else(|| io::Error::other(format!("the look ended with {}", output.status)))
}

/// Looks for a card and writes the result to stdout. This runs in the child.
///
/// # Errors
/// When stdout cannot be written.
pub fn probe_card() -> io::Result<()> {
    let said = match cuda::probe() {
        Ok(card) => Said::Card(format!("{}, CUDA {}", card.name, card.cuda)),
        Err(why) => Said::None(why.to_string()),
    };
    let mut line = serde_json::to_string(&said)?;
    line.push('\n');
    io::stdout().lock().write_all(line.as_bytes())
}
