//! Lets `webbuild` make the front end, and the table of its files that `main.rs` includes.
//! `SKIP_WEB=1` leaves the front end out; `WEB_PROFILE=wasm-dev` builds it quickly, for debug
//! builds only.
//!
//! `webbuild` runs as a program here and is not linked as a library. So a `webbuild` that `./run`
//! or `./check` built before is used again. And cargo, which builds scripts with many dependencies
//! last, need not wait for it. `WEBBUILD` names one that is built already, as in `./check`.

#[path = "../webbuild/src/inner.rs"]
mod inner;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

/// The environment variables that this build depends on; cargo runs it again when they change.
const VARIABLES: [&str; 2] = ["SKIP_WEB", "WEB_PROFILE"];

/// The table for a program without a front end.
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
    let mut webbuild = webbuild(&target);
    webbuild
        .arg("embed")
        .arg(&out_dir)
        .arg(&target)
        .arg(profile)
        .current_dir(workspace());
    run(webbuild)
}

/// The front end's builder, without arguments.
fn webbuild(target: &Path) -> Command {
    if let Some(built) = env::var_os("WEBBUILD") {
        return inner::scrubbed(built);
    }
    let mut cargo = inner::scrubbed(given_by_cargo("CARGO"));
    cargo
        .args(["run", "-q", "-p", "webbuild", "--target-dir"])
        .arg(target.join("webbuild"))
        .arg("--");
    cargo
}

/// The command's output is for cargo: which files to watch, and what went wrong.
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

/// Cargo's target directory, recognised by cargo's mark; without a mark, a folder of this build.
fn target_dir(out_dir: &Path) -> PathBuf {
    let mut folders = out_dir.ancestors();
    let marked = folders.find(|folder| folder.join("CACHEDIR.TAG").is_file());
    marked.unwrap_or(out_dir).to_owned()
}

fn given_by_cargo(variable: &str) -> String {
    env::var(variable).expect("cargo sets this for build scripts")
}
