//! The options of `tidemark serve` about a provider that signs people in.

use super::CliError;
use crate::who::oidc::{Rule, Secret, Settings};
use api::people::Role;
use clap::Args;
use std::path::{Path, PathBuf};

/// Which provider, and whom to let in.
#[derive(Args)]
pub struct OidcArgs {
    /// Let a provider of OpenID Connect sign people in: its address, such as
    /// https://login.example.com; builds with `--features oidc`
    #[arg(long, value_name = "URL", requires_all = ["oidc_client", "oidc_allow"])]
    oidc_issuer: Option<String>,
    /// What the provider calls this server (client id)
    #[arg(long, value_name = "ID", requires = "oidc_issuer")]
    oidc_client: Option<String>,
    /// The password that goes with it (client secret); prefer the variable or the file
    #[arg(
        long,
        value_name = "SECRET",
        env = "TIDEMARK_OIDC_SECRET",
        hide_env_values = true,
        conflicts_with = "oidc_secret_file"
    )]
    oidc_secret: Option<String>,
    /// File that holds it
    #[arg(long, value_name = "FILE")]
    oidc_secret_file: Option<PathBuf>,
    /// Who may come in (repeatable, one must hold): email=*@example.com, any CLAIM=VALUE of the
    /// provider, or `any` for everybody whom it signs in
    #[arg(long, value_name = "RULE", requires = "oidc_issuer")]
    oidc_allow: Vec<Rule>,
}

impl OidcArgs {
    /// The settings, if there is a provider.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn settings(&self, newcomers: Role) -> Result<Option<Settings>, CliError> {
        let (Some(issuer), Some(client)) = (&self.oidc_issuer, &self.oidc_client) else {
            return Ok(None);
        };
        let secret = match (&self.oidc_secret, &self.oidc_secret_file) {
            (Some(text), _) => Some(text.clone()),
            (None, Some(path)) => Some(read_secret(path)?),
            (None, None) => None,
        };
        Ok(Some(Settings {
            issuer: issuer.clone(),
            client: client.clone(),
            secret: secret.map(|text| Secret(text.trim().to_owned())),
            allow: self.oidc_allow.clone(),
            newcomers,
        }))
    }
}

/// The content of a file that holds a secret.
///
/// # Errors
/// When it cannot be read.
pub fn read_secret(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(|error| CliError::BadInput {
        path: path.to_owned(),
        why: format!("cannot read the secret: {error}"),
    })
}
