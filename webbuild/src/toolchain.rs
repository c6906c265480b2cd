//! Finds a Rust toolchain that can build for wasm32. It tries, in this order:
//!
//! 1. the active one, if it has the target;
//! 2. the active one after `rustup target add`, unless `RUSTUP_AUTO_INSTALL=0` forbids downloads;
//! 3. any one on `PATH` that has the sources of std and an lld, such as Debian's `rustc-web`: std
//!    is built once into a sysroot of our own;
//! 4. none: [`Error::NoToolchain`].

use std::collections::hash_map::DefaultHasher;
use std::env;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Workshop;
use crate::error::Error;
use crate::inner::scrubbed;
use crate::progress::Progress;

const TARGET: &str = "wasm32-unknown-unknown";

/// The oldest compiler that can build the workspace: its own `rust-version`.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// A toolchain that can build for wasm32.
pub enum Toolchain {
    /// The active toolchain has the target.
    Active,
    /// The programs in `bin`, with `sysroot` instead of an installed target.
    WithSysroot {
        /// Where `cargo` and `rustc` are.
        bin: PathBuf,
        /// Where the compiled std is.
        sysroot: PathBuf,
    },
}

impl Toolchain {
    /// Finds or makes one.
    pub fn find(workshop: &Workshop, progress: &Progress) -> Result<Self, Error> {
        let root = &workshop.workspace;
        if active_has_target(root) {
            return Ok(Self::Active);
        }
        if rustup_may_download() && rustup_adds_target(root, progress) {
            return Ok(Self::Active);
        }
        let bin = bins_that_can_build_std(root).into_iter().next();
        let bin = bin.ok_or(Error::NoToolchain)?;
        let sysroot = sysroot(&workshop.dir, &bin, progress)?;
        Ok(Self::WithSysroot { bin, sysroot })
    }

    /// `cargo SUBCOMMAND --target wasm32-unknown-unknown`, independent of any cargo around it.
    pub fn cargo(&self, workshop: &Workshop, subcommand: &str) -> Command {
        let mut command = match self {
            Self::Active => {
                let mut command = scrubbed("cargo");
                command.env(FLAGS, flags(None));
                command
            }
            Self::WithSysroot { bin, sysroot } => cargo_of(bin, sysroot, subcommand),
        };
        if env::var_os(LINTS).is_some_and(|value| value == "1") {
            command
                .env("RUSTC_WORKSPACE_WRAPPER", self.linter(workshop))
                .env("CLIPPY_ARGS", NO_WARNINGS);
        }
        command
            .arg(subcommand)
            .args(["--target", TARGET, "--target-dir"])
            .arg(&workshop.dir)
            .current_dir(&workshop.workspace);
        command
    }

    /// Clippy's driver: a compiler that also lints. It is beside the compiler, or on `PATH`.
    fn linter(&self, workshop: &Workshop) -> PathBuf {
        const DRIVER: &str = "clippy-driver";
        let bin = match self {
            Self::WithSysroot { bin, .. } => Some(bin.clone()),
            Self::Active => {
                let mut rustc = scrubbed("rustc");
                rustc
                    .current_dir(&workshop.workspace)
                    .args(["--print", "sysroot"]);
                answer(&mut rustc).map(|sysroot| Path::new(&sysroot).join("bin"))
            }
        };
        let beside = bin.map(|bin| bin.join(DRIVER));
        beside
            .filter(|driver| driver.is_file())
            .unwrap_or_else(|| DRIVER.into())
    }
}

/// `WEB_LINTS=1` lints our crates while they are compiled, so that `./check` compiles them once.
const LINTS: &str = "WEB_LINTS";

/// The form in which `cargo clippy -- -D warnings` passes its arguments to the driver.
const NO_WARNINGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// Cargo reads the compiler's flags first from here. Since a target is given, the flags apply only
/// to the front end, not to programs that run during the build.
const FLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";

/// The separator between two flags, so that a path may contain a space.
const BETWEEN: &str = "\x1f";

/// Flags of the compiler. Leptos keeps views behind one type, not one type for each: a tenth less
/// to load, and less to compile (its `erase_components`). Paths in the code of crates do not begin
/// with the folder of the person who built this: that is shorter, and private.
fn flags(sysroot: Option<&Path>) -> String {
    let mut flags = vec!["--cfg=erase_components".to_owned()];
    if let Some(sysroot) = sysroot {
        flags.push(format!("--sysroot={}", sysroot.display()));
    }
    for index in registry_indexes() {
        flags.push(format!("--remap-path-prefix={}=", index.display()));
    }
    flags.join(BETWEEN)
}

/// The folders into which cargo unpacks crates, one for each registry.
fn registry_indexes() -> Vec<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let sources = home.map(|home| home.join("registry").join("src"));
    let folders = sources.and_then(|folder| fs::read_dir(folder).ok());
    let entries = folders.into_iter().flatten().flatten();
    let mut indexes: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    indexes.sort();
    indexes
}

/// A subcommand is called by its path. `cargo clippy` would take another toolchain's driver from
/// `PATH`, whose metadata does not match the sysroot (E0514).
fn cargo_of(bin: &Path, sysroot: &Path, subcommand: &str) -> Command {
    let external = bin.join(format!("cargo-{subcommand}"));
    let mut command = if external.is_file() {
        scrubbed(external)
    } else {
        scrubbed(bin.join("cargo"))
    };
    command
        .env("PATH", path_led_by(bin))
        .env("CARGO", bin.join("cargo"))
        .env("RUSTC", bin.join("rustc"))
        .env(FLAGS, flags(Some(sysroot)));
    command
}

fn path_led_by(bin: &Path) -> std::ffi::OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(bin.to_owned()).chain(env::split_paths(&path));
    env::join_paths(folders).unwrap_or(path)
}

/// The output of `command`, trimmed; `None` if it fails or does not exist.
fn answer(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn active_has_target(root: &Path) -> bool {
    let mut rustc = scrubbed("rustc");
    rustc
        .current_dir(root)
        .args(["--print", "target-libdir", "--target", TARGET]);
    answer(&mut rustc).is_some_and(|libdir| holds_core(Path::new(&libdir)))
}

fn holds_core(libdir: &Path) -> bool {
    let names = fs::read_dir(libdir).into_iter().flatten().flatten();
    names
        .map(|entry| entry.file_name())
        .any(|name| name.to_string_lossy().starts_with("libcore-"))
}

fn rustup_may_download() -> bool {
    env::var_os("RUSTUP_AUTO_INSTALL").is_none_or(|value| value != "0")
}

fn rustup_adds_target(root: &Path, progress: &Progress) -> bool {
    let mut rustup = scrubbed("rustup");
    rustup.current_dir(root).args(["target", "add", TARGET]);
    progress.say(&format!("rustup target add {TARGET}"));
    progress.run("rustup target add", &mut rustup).is_ok() && active_has_target(root)
}

/// Folders whose `rustc` and `cargo` can build std for wasm32: that of the active toolchain, then
/// those on `PATH`. Rustup's proxies are not toolchains and are skipped.
fn bins_that_can_build_std(root: &Path) -> Vec<PathBuf> {
    let active = answer(
        scrubbed("rustc")
            .current_dir(root)
            .args(["--print", "sysroot"]),
    );
    let active = active.map(|sysroot| Path::new(&sysroot).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut bins: Vec<PathBuf> = Vec::new();
    for bin in active.into_iter().chain(env::split_paths(&path)) {
        if !bins.contains(&bin) && !bin.join("rustup").exists() && can_build_std(&bin) {
            bins.push(bin);
        }
    }
    bins
}

fn can_build_std(bin: &Path) -> bool {
    let rustc = bin.join("rustc");
    if !rustc.is_file() || !bin.join("cargo").is_file() {
        return false;
    }
    let Some(sysroot) = answer(scrubbed(&rustc).args(["--print", "sysroot"])) else {
        return false;
    };
    let Some(about) = answer(scrubbed(&rustc).arg("-vV")) else {
        return false;
    };
    let field = |name: &str| about.lines().find_map(|line| line.strip_prefix(name));
    let rustlib = Path::new(&sysroot).join("lib/rustlib");
    let host = field("host: ").unwrap_or_default();
    let own_lld = rustlib.join(host).join("bin/rust-lld");
    let recent = field("release: ").is_some_and(|release| at_least(release, OLDEST));
    // `exists` follows links: Debian's rust-lld is a broken link until the lld package is
    // installed.
    recent
        && rustlib.join("src/rust/library/std/Cargo.toml").exists()
        && (own_lld.exists() || on_path("rust-lld"))
}

fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// Whether `version` ("1.96.0", "1.97.0-nightly") is `oldest` ("1.95") or newer.
fn at_least(version: &str, oldest: &str) -> bool {
    let parts = |text: &str| -> Vec<u32> {
        let numbers = text.split(['.', '-']).map(str::parse::<u32>);
        numbers.map_while(Result::ok).collect()
    };
    parts(version) >= parts(oldest)
}

/// A sysroot with std for wasm32, built by the toolchain in `bin` unless it exists already. Its
/// name contains the compiler's identity, because Debian may update the compiler, and how it is
/// built.
fn sysroot(dir: &Path, bin: &Path, progress: &Progress) -> Result<PathBuf, Error> {
    let about = answer(scrubbed(bin.join("rustc")).arg("-vV")).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    (&about, EMPTY_CRATE, STD_FEATURES).hash(&mut hasher);
    let sysroot = dir.join(format!("wasm-sysroot-{:016x}", hasher.finish()));
    if sysroot.exists() {
        return Ok(sysroot);
    }
    let name = about.lines().next().unwrap_or("rustc");
    progress.say(&format!(
        "building std for wasm32 with {name} (once, about 40 s)"
    ));
    let work = dir.join("std");
    build_std(&work, bin, progress)?;
    let half = dir.join("wasm-sysroot-unfinished");
    collect_rlibs(&work, &half)?;
    fs::rename(&half, &sysroot).map_err(Error::io(&sysroot))?;
    fs::remove_dir_all(&work).map_err(Error::io(&work))?;
    Ok(sysroot)
}

/// The empty crate for which cargo builds std. Like the front end, std is compiled for size;
/// `proc_macro` is not used.
const EMPTY_CRATE: &str = r#"
[package]
name = "nothing"
version = "0.0.0"
edition = "2024"
[lib]
path = "lib.rs"
[workspace]
[profile.release]
opt-level = "z"
[profile.release.package.proc_macro]
opt-level = 0
"#;

/// The features of std: its shorter algorithms, and no backtraces, which a browser makes itself.
const STD_FEATURES: &str = "-Zbuild-std-features=optimize_for_size";

/// Lets cargo build std for an empty crate. It has no `proc_macro`, which nothing in the page uses
/// (`web/stand_ins/README.md`).
fn build_std(work: &Path, bin: &Path, progress: &Progress) -> Result<(), Error> {
    fs::create_dir_all(work).map_err(Error::io(work))?;
    for (name, text) in [("Cargo.toml", EMPTY_CRATE), ("lib.rs", "#![no_std]\n")] {
        let path = work.join(name);
        fs::write(&path, text).map_err(Error::io(&path))?;
    }
    let mut cargo = scrubbed(bin.join("cargo"));
    cargo
        .current_dir(work)
        .env("PATH", path_led_by(bin))
        .env("RUSTC", bin.join("rustc"))
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["build", "--release", "--target", TARGET])
        .args(["-Zbuild-std=std,panic_abort", STD_FEATURES])
        .args(["--target-dir", "target"]);
    progress.run("cargo build -Zbuild-std", &mut cargo)
}

fn collect_rlibs(work: &Path, half: &Path) -> Result<(), Error> {
    let deps = work.join("target").join(TARGET).join("release/deps");
    let lib = half.join("lib/rustlib").join(TARGET).join("lib");
    let _ = fs::remove_dir_all(half);
    fs::create_dir_all(&lib).map_err(Error::io(&lib))?;
    for entry in fs::read_dir(&deps).map_err(Error::io(&deps))? {
        let path = entry.map_err(Error::io(&deps))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".rlib") && !name.starts_with("libnothing-") {
            let to = lib.join(&*name);
            fs::rename(&path, &to).map_err(Error::io(&to))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(at_least("1.96.0", "1.95"));
        assert!(at_least("1.95.0", "1.95"));
        assert!(at_least("1.100.0-nightly", "1.95"));
        assert!(!at_least("1.85.0", "1.95"));
        assert!(!at_least("unknown", "1.95"));
    }
}
