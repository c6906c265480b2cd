//! What can go wrong while building the front end, each as a sentence that says what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no front end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The crate is outside of a workspace.
    #[error("{} is not inside a workspace", .0.display())]
    NoWorkspace(PathBuf),

    /// A file that cannot be read or written.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },

    /// No compiler for the browser.
    #[error(
        "no Rust compiler here can build for wasm32-unknown-unknown: run `rustup target add \
         wasm32-unknown-unknown`, or on Debian `apt-get install --no-install-recommends \
         rustc-web cargo-web rust-web-src rust-web-llvm` and the lld package that rust-lld links \
         to (./run does whichever fits), or set SKIP_WEB=1 to build without the front end"
    )]
    NoToolchain,

    /// A program that does not start.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },

    /// A command that failed.
    #[error("`{what}` failed; the end of {}:\n{tail}", .log.display())]
    Failed {
        /// The command.
        what: String,
        /// All that it printed.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },

    /// No JavaScript glue.
    #[error("wasm-bindgen: {0}")]
    Bindgen(String),

    /// A module that cannot be made smaller.
    #[error("wasm-bindgen made a module that cannot be read: {0}")]
    BadModule(String),

    /// A profile that does not exist.
    #[error("WEB_PROFILE={0}: expected `wasm` or `wasm-dev`")]
    UnknownProfile(String),

    /// A profile of the worker that does not exist.
    #[error("WORKER_PROFILE={0}: expected `wasm-local` or `wasm`")]
    UnknownWorkerProfile(String),

    /// An address that is no server for *Share*.
    #[error(
        "--server: `{0}` is not https://NAME, http://localhost or http://127.0.0.1 (with a port, \
         without a path); elsewhere a token would cross the network unencrypted"
    )]
    NoServer(String),
}

impl Error {
    /// For `map_err`: adds the path to an IO error.
    pub fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
