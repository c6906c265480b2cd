//! Has `webbuild` make the front end, and the table of its files that `main.rs` includes.
//! `SKIP_WEB=1` leaves it out; `WEB_PROFILE=wasm-dev` builds it quickly, for debug builds only.
//!
//! `webbuild` is a program here, not a library: what `./run` and `./check` have built of it is
//! used, and cargo, which takes build scripts with many dependencies last, need not wait for it.

#[path = "../webbuild/src/inner.rs"]
mod inner;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

/// Where this depends on the environment, so that cargo asks again when it changes.
const VARIABLES: [&str; 2] = ["SKIP_WEB", "WEB_PROFILE"];

/// The table of a program without a front end.
const NOTHING: &str = "static ASSETS: &[Asset] = &[];\n\
                       #[cfg(test)] const BUILT_WITH: Option<&str> = None;\n";

fn main() {
    if let Err(error) = build() {
        eprintln!("\ncannot build the front end: {error}\n");
        process::exit(1);
    }
}

fn build() -> Result<(), String> {
    for variable in VARIABLES {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    for tool in ["build.rs", "../webbuild/src", "../webbuild/Cargo.toml"] {
        println!("cargo:rerun-if-changed={tool}");
    }
    let out_dir = PathBuf::from(given_by_cargo("OUT_DIR"));
    if env::var_os("SKIP_WEB").is_some_and(|value| value == "1") {
        let table = out_dir.join("assets.rs");
        return fs::write(&table, NOTHING).map_err(|error| format!("{}: {error}", table.display()));
    }
    let profile = env::var("WEB_PROFILE").unwrap_or_default();
    if profile == "wasm-dev" && given_by_cargo("PROFILE") == "release" {
        return Err(
            "WEB_PROFILE=wasm-dev is for debug builds of the server: a release binary must \
                    not carry a front end that is slow without need"
                .to_owned(),
        );
    }
    let target = target_dir(&out_dir);
    let mut webbuild = inner::scrubbed(given_by_cargo("CARGO"));
    webbuild
        .args(["run", "-q", "-p", "webbuild", "--target-dir"])
        .arg(target.join("webbuild"))
        .args(["--", "embed"])
        .arg(&out_dir)
        .arg(&target)
        .arg(profile)
        .current_dir(workspace());
    run(webbuild)
}

/// Its output is for cargo: what to watch for changes, and what went wrong.
fn run(mut command: Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("webbuild: {status}")),
        Err(error) => Err(format!("cannot start cargo: {error}")),
    }
}

fn workspace() -> PathBuf {
    Path::new(&given_by_cargo("CARGO_MANIFEST_DIR")).join("..")
}

/// Cargo's target directory, which it marks; where it does not, a folder of this build's own.
fn target_dir(out_dir: &Path) -> PathBuf {
    let mut folders = out_dir.ancestors();
    let marked = folders.find(|folder| folder.join("CACHEDIR.TAG").is_file());
    marked.unwrap_or(out_dir).to_owned()
}

fn given_by_cargo(variable: &str) -> String {
    env::var(variable).expect("cargo sets this for build scripts")
}
