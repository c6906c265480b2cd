//! The types of `leptos_config` that `leptos` names. Only an app that a server renders, or one that
//! `cargo-leptos` builds, has values of them; here nothing makes one.
#![forbid(unsafe_code)]

use std::sync::Arc;

/// Where a server finds the files of its app.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeptosOptions {
    /// The first part of the names of the app's files.
    pub output_name: Arc<str>,
    /// The folder of the site.
    pub site_root: Arc<str>,
    /// The folder of the app's files in the site.
    pub site_pkg_dir: Arc<str>,
    /// The file with the hashes that names of files contain.
    pub hash_file: Arc<str>,
    /// Whether names of files contain hashes.
    pub hash_files: bool,
    /// The port that says when to load the page again.
    pub reload_port: u32,
    /// The same as seen from outside.
    pub reload_external_port: Option<u32>,
    /// How that port is asked.
    pub reload_ws_protocol: ReloadWSProtocol,
}

/// How a page asks whether to load itself again.
#[derive(Clone, Debug)]
pub enum ReloadWSProtocol {
    /// Unencrypted.
    WS,
    /// Encrypted.
    WSS,
}
