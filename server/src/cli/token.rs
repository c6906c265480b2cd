//! `tidemark token`.

use super::CliError;
use crate::config::Token;
use std::io::Write;

/// How it is used.
pub const EXAMPLES: &str = "\
Examples:
  (umask 077; tidemark token > token)
  tidemark serve --listen 0.0.0.0:7878 --token-file token";

/// Prints a new access token.
///
/// # Errors
/// When stdout cannot be written.
pub fn token() -> Result<(), CliError> {
    let written = writeln!(std::io::stdout(), "{}", Token::random().secret());
    written.map_err(|error| CliError::Failed(format!("cannot print the token: {error}")))
}
