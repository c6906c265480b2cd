//! `tidemark token`.

use super::CliError;
use super::output::json;
use crate::who::server_token::Token;
use clap::Args;
use serde::Serialize;
use std::io::Write;

const EXAMPLES: &str = "\
Examples:
  (umask 077; tidemark token > token)
  tidemark serve --listen 0.0.0.0:7878 --token-file token";

/// Options of `tidemark token`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct TokenArgs {
    /// Print one JSON document: {"token"}
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Made<'a> {
    token: &'a str,
}

/// Prints a new access token.
///
/// # Errors
/// When stdout cannot be written.
pub fn token(args: &TokenArgs) -> Result<(), CliError> {
    let token = Token::random();
    let token = token.secret();
    let text = match args.json {
        true => json(&Made { token }),
        false => format!("{token}\n"),
    };
    let written = write!(std::io::stdout(), "{text}");
    written.map_err(|error| CliError::Failed(format!("cannot print the token: {error}")))
}
