//! Commands as a person gives them: what they say, where, and what they leave behind.

mod answers;
mod documents;
mod files;
mod people;
mod push;
mod serve;
mod variables;

use std::path::Path;
use std::process::{Command, Output};

/// A command in a folder.
fn tidemark_in(folder: &Path, args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_tidemark"))
        .current_dir(folder)
        .args(args)
        .output();
    output.expect("the binary was built")
}

/// What a command said on the standard output and on stderr, and its exit status.
fn said(output: &Output) -> (String, String, i32) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("texts are UTF-8");
    let status = output.status.code().expect("it ended by itself");
    (text(&output.stdout), text(&output.stderr), status)
}

/// The path of a fixture.
fn fixture(name: &str) -> String {
    format!("{}/../tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}
