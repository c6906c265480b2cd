//! Builds the front end without the server: for work on the front end, and for the checks.
//!
//! `cargo run -p webbuild -- build [wasm|wasm-dev]` builds it and prints what a visit transfers;
//! `cargo run -p webbuild -- embed OUT TARGET [profile]` builds it into cargo's folder TARGET, and
//! writes the table of its files to OUT, where `server/build.rs` wants it; `cargo run -p webbuild
//! -- watch DIR` writes it to a folder, again after each change; `cargo run -p webbuild -- page
//! DIR [TARGET [SERVER]]` writes the page that needs no server; `cargo run -p webbuild -- clippy
//! CRATE…` lints crates as they are compiled for the browser.

use std::env;
use std::path::Path;
use std::process::ExitCode;

use webbuild::page::ShareServer;
use webbuild::progress::Progress;
use webbuild::toolchain::Toolchain;
use webbuild::{Error, Profile, WorkerProfile, Workshop, embed, target_dir};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["build"] => build(None),
        ["build", profile] => build(Some(profile)),
        ["embed", out, target] => embed(Path::new(out), Path::new(target), None),
        ["embed", out, target, profile] => embed(Path::new(out), Path::new(target), Some(profile)),
        ["page", folder, ref rest @ ..] if rest.len() <= 2 => page(Path::new(folder), rest),
        ["watch", folder] => watch(Path::new(folder)),
        ["clippy", ref crates @ ..] if !crates.is_empty() => clippy(crates),
        _ => {
            eprintln!(
                "usage: webbuild build [wasm|wasm-dev], embed OUT TARGET [PROFILE], watch DIR, \
                 page DIR [TARGET [SERVER]] or clippy CRATE…"
            );
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("webbuild: {error}");
            ExitCode::FAILURE
        }
    }
}

fn workshop() -> Result<Workshop, Error> {
    let program = env::current_exe().map_err(Error::io(Path::new("this program")))?;
    workshop_in(&target_dir(&program))
}

/// The workshop under cargo's folder.
fn workshop_in(target: &Path) -> Result<Workshop, Error> {
    let worker = WorkerProfile::from_name(env::var("WORKER_PROFILE").ok().as_deref())?;
    Workshop::new(target, worker)
}

fn build(profile: Option<&str>) -> Result<ExitCode, Error> {
    let site = workshop()?.build(Profile::from_name(profile)?)?;
    for file in &site.files {
        let (raw, sent) = (file.bytes.len(), file.transfer_bytes());
        println!("{raw:>9} B  {sent:>9} B brotli  {}", file.path);
    }
    println!("{:>34} B in all", site.transfer_bytes());
    Ok(ExitCode::SUCCESS)
}

/// Its output is for cargo, which watches the files named in it.
fn embed(out: &Path, target: &Path, profile: Option<&str>) -> Result<ExitCode, Error> {
    let profile = Profile::from_name(profile)?;
    let workshop = workshop_in(target)?;
    for input in workshop.inputs() {
        println!("cargo:rerun-if-changed={}", input.display());
    }
    let site = workshop.build(profile)?;
    embed::write(out, &site, profile)?;
    Ok(ExitCode::SUCCESS)
}

/// The rest is cargo's folder, and the server that *Share* sends files to.
fn page(folder: &Path, rest: &[&str]) -> Result<ExitCode, Error> {
    let target = rest.first().map(Path::new);
    let server = rest.get(1).map(|text| ShareServer::new(text)).transpose()?;
    let workshop = target.map_or_else(workshop, workshop_in)?;
    let site = webbuild::page::build(&workshop, folder, server.as_ref())?;
    let bytes: usize = site.files.iter().map(|file| file.bytes.len()).sum();
    println!("{bytes} B in {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

fn watch(folder: &Path) -> Result<ExitCode, Error> {
    webbuild::watch::watch(&workshop()?, folder)?;
    Ok(ExitCode::SUCCESS)
}

/// Clippy's output is for the person who asked, so it goes to the terminal, not to the log.
fn clippy(crates: &[&str]) -> Result<ExitCode, Error> {
    let workshop = workshop()?;
    let toolchain = {
        let _lock = workshop.lock()?;
        Toolchain::find(&workshop, &Progress::start(&workshop.dir)?)?
    };
    let mut command = toolchain.cargo(&workshop, "clippy");
    for name in crates {
        command.args(["-p", name]);
    }
    let status = command.args(["--", "-D", "warnings"]).status();
    let status = status.map_err(|source| Error::Start {
        program: "cargo clippy".to_owned(),
        source,
    })?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
