//! Compiles `web` to WebAssembly, and makes files from it that a browser can load.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use wasm_bindgen_cli_support::Bindgen;

use crate::Workshop;
use crate::error::Error;
use crate::fold::{BadModule, fold};
use crate::names::shorten;
use crate::positions::shorten_positions;
use crate::progress::Progress;
use crate::toolchain::Toolchain;

/// How the front end is compiled; the profiles are in the root `Cargo.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Small and quick to load: a release binary may contain only this one.
    Release,
    /// Quick to build, with names in stack traces.
    Dev,
}

impl Profile {
    /// The profile that `WEB_PROFILE` names; unset means [`Profile::Release`]: a front end that is
    /// slow without a reason is worse than a slow build.
    pub fn from_name(name: Option<&str>) -> Result<Self, Error> {
        match name {
            None | Some("" | "wasm") => Ok(Self::Release),
            Some("wasm-dev") => Ok(Self::Dev),
            Some(other) => Err(Error::UnknownProfile(other.to_owned())),
        }
    }

    /// Its name in `Cargo.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Release => "wasm",
            Self::Dev => "wasm-dev",
        }
    }
}

/// How the worker is compiled; the profiles are in the root `Cargo.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerProfile {
    /// It reads gigabytes, so it is fast.
    Fast,
    /// Like the front end, whose crates it shares then: quicker to build, for tests of small files.
    Small,
}

impl WorkerProfile {
    /// The profile that `WORKER_PROFILE` names; unset means [`WorkerProfile::Fast`].
    ///
    /// # Errors
    /// [`Error::UnknownWorkerProfile`].
    pub fn from_name(name: Option<&str>) -> Result<Self, Error> {
        match name {
            None | Some("" | "wasm-local") => Ok(Self::Fast),
            Some("wasm") => Ok(Self::Small),
            Some(other) => Err(Error::UnknownWorkerProfile(other.to_owned())),
        }
    }

    /// Its name in `Cargo.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "wasm-local",
            Self::Small => "wasm",
        }
    }
}

/// The crates that a command compiles which needs `wanted` in a profile. If the worker shares the
/// front end's profile, both are compiled with one command. Otherwise cargo would choose other
/// features for many crates that both need, and compile these twice.
pub(crate) fn together(
    worker: WorkerProfile,
    wanted: &'static str,
    profile: &str,
) -> Vec<&'static str> {
    match worker == WorkerProfile::Small && profile == worker.name() {
        true => vec!["-p", "web", "-p", "local"],
        false => vec!["-p", wanted],
    }
}

/// Compiles `web`; returns the path of the module.
pub fn wasm(
    workshop: &Workshop,
    toolchain: &Toolchain,
    profile: Profile,
    progress: &Progress,
) -> Result<PathBuf, Error> {
    let name = profile.name();
    progress.say(&format!(
        "compiling the front end, profile {name} (2 minutes when nothing is built yet)"
    ));
    let mut cargo = toolchain.cargo(workshop, "build");
    cargo.args(together(workshop.worker, "web", name));
    cargo.args(["--lib", "--profile", name]);
    progress.run("cargo build -p web", &mut cargo)?;
    Ok(workshop
        .dir
        .join("wasm32-unknown-unknown")
        .join(name)
        .join("web.wasm"))
}

/// Runs wasm-bindgen; returns the folder that holds `web.js`, `web_bg.wasm` and their snippets.
pub fn bindgen(
    workshop: &Workshop,
    wasm: &Path,
    profile: Profile,
    progress: &Progress,
) -> Result<PathBuf, Error> {
    progress.say("making the JavaScript glue");
    let dir = workshop.dir.join(format!("glue-{}", profile.name()));
    glue(wasm, &dir, profile)?;
    Ok(dir)
}

/// Runs wasm-bindgen for any module; that of a release is small, without names for stack traces.
///
/// It takes seconds, so it does not run again for the same module: a note beside the folder says
/// what the glue in it was made from.
pub(crate) fn glue(wasm: &Path, dir: &Path, profile: Profile) -> Result<(), Error> {
    let note = dir.with_extension("from");
    let module = fs::read(wasm).map_err(Error::io(wasm))?;
    let from = made_from(&module, profile);
    if dir.is_dir() && fs::read_to_string(&note).is_ok_and(|noted| noted == from) {
        return Ok(());
    }
    // Without its note, glue that is half written counts for nothing.
    let _ = fs::remove_file(&note);
    let _ = fs::remove_dir_all(dir);
    bindgen_into(dir, wasm, profile)?;
    fs::write(&note, from).map_err(Error::io(&note))
}

/// Changes with the module, and with how the glue is made.
fn made_from(module: &[u8], profile: Profile) -> String {
    let mut hasher = DefaultHasher::new();
    let how = [
        include_str!("alike.rs"),
        include_str!("compile.rs"),
        include_str!("fold.rs"),
        include_str!("names.rs"),
        include_str!("positions.rs"),
    ];
    (module, profile.name(), how).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn bindgen_into(dir: &Path, wasm: &Path, profile: Profile) -> Result<(), Error> {
    let error = |error| Error::Bindgen(format!("{error:#}"));
    Bindgen::new()
        .input_path(wasm)
        .web(true)
        .map_err(error)?
        .typescript(false)
        .remove_name_section(profile == Profile::Release)
        .remove_producers_section(true)
        .generate(dir)
        .map_err(error)?;
    match profile {
        Profile::Release => shorten_in(dir),
        Profile::Dev => Ok(()),
    }
}

/// Makes the module in a folder of glue smaller, and its script. It then has other numbers for its
/// functions, so names for stack traces would be wrong.
fn shorten_in(dir: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(dir).map_err(Error::io(dir))? {
        let path = entry.map_err(Error::io(dir))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.and_then(|name| name.strip_suffix("_bg.wasm")) else {
            continue;
        };
        let bad = |error: BadModule| Error::BadModule(error.to_string());
        let script_path = dir.join(format!("{name}.js"));
        let script = fs::read_to_string(&script_path).map_err(Error::io(&script_path))?;
        let module = fs::read(&path).map_err(Error::io(&path))?;
        let mut folded = fold(&module).map_err(bad)?;
        shorten_positions(&mut folded).map_err(bad)?;
        let (short, script) = shorten(&folded, &script).map_err(bad)?;
        fs::write(&path, short).map_err(Error::io(&path))?;
        fs::write(&script_path, script).map_err(Error::io(&script_path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glue_is_made_again_only_for_another_module() {
        let work = std::env::temp_dir().join(format!("webbuild-glue-{}", std::process::id()));
        fs::create_dir_all(&work).unwrap();
        let (wasm, dir) = (work.join("page.wasm"), work.join("glue"));
        let script = dir.join("page.js");
        // Two modules with nothing in them but a section that has a name.
        let module = |name: u8| [&b"\0asm\x01\0\0\0\0\x02\x01"[..], &[name]].concat();
        let (short, long) = (Profile::Release, Profile::Dev);
        let made = |name: u8, profile: Profile| {
            fs::write(&wasm, module(name)).unwrap();
            glue(&wasm, &dir, profile).unwrap();
            !fs::read_to_string(&script).unwrap().contains("untouched")
        };
        let touch = || fs::write(&script, "untouched").unwrap();
        assert!(made(b'a', short));
        touch();
        assert!(!made(b'a', short), "the same module");
        assert!(made(b'b', short), "another module");
        touch();
        assert!(made(b'b', long), "another profile");
        touch();
        fs::remove_file(dir.with_extension("from")).unwrap();
        assert!(made(b'b', long), "a build that was broken off");
        fs::remove_dir_all(&dir).unwrap();
        assert!(made(b'b', long), "glue that somebody removed");
        fs::remove_dir_all(&work).unwrap();
    }

    #[test]
    fn crates_of_one_profile_are_compiled_together() {
        let both = vec!["-p", "web", "-p", "local"];
        for crate_name in ["web", "local"] {
            assert_eq!(together(WorkerProfile::Small, crate_name, "wasm"), both);
        }
        assert_eq!(together(WorkerProfile::Fast, "web", "wasm"), ["-p", "web"]);
        assert_eq!(
            together(WorkerProfile::Small, "web", "wasm-dev"),
            ["-p", "web"]
        );
        assert_eq!(
            together(WorkerProfile::Fast, "local", "wasm-local"),
            ["-p", "local"]
        );
    }
}
