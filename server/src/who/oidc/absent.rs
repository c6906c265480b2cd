//! Stands for the provider in a program that was built without the feature `oidc`.

use super::{Attempt, Identity, OidcError, Settings};
use std::convert::Infallible;

/// Cannot be made.
pub struct Provider(Infallible);

impl Provider {
    /// Says that this program cannot do it.
    ///
    /// # Errors
    /// Always: what to do.
    pub fn new(_: Settings) -> Result<Provider, String> {
        Err(
            "this tidemark was built without OpenID Connect; build it with `cargo install --path \
             server --features oidc`"
                .to_owned(),
        )
    }

    /// See the other one.
    pub fn host(&self) -> &str {
        match self.0 {}
    }

    /// See the other one.
    ///
    /// # Errors
    /// None.
    pub async fn begin(&self, _: String) -> Result<(String, Attempt), OidcError> {
        match self.0 {}
    }

    /// See the other one.
    ///
    /// # Errors
    /// None.
    pub async fn finish(&self, _: String, _: Attempt, _: String) -> Result<Identity, OidcError> {
        match self.0 {}
    }

    /// See the other one.
    pub fn newcomers(&self) -> api::people::Role {
        match self.0 {}
    }
}
