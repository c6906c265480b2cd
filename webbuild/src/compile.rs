//! Compiles `web` to WebAssembly, and makes files from it that a browser can load.

use std::fs;
use std::path::{Path, PathBuf};

use wasm_bindgen_cli_support::Bindgen;

use crate::Workshop;
use crate::error::Error;
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
    cargo.args(["-p", "web", "--lib", "--profile", name]);
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
    glue(wasm, &dir, profile == Profile::Release)?;
    Ok(dir)
}

/// Runs wasm-bindgen for any module; a short one has no names for stack traces.
pub(crate) fn glue(wasm: &Path, dir: &Path, short: bool) -> Result<(), Error> {
    let _ = fs::remove_dir_all(dir);
    let error = |error| Error::Bindgen(format!("{error:#}"));
    Bindgen::new()
        .input_path(wasm)
        .web(true)
        .map_err(error)?
        .typescript(false)
        .remove_name_section(short)
        .remove_producers_section(true)
        .generate(dir)
        .map_err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_names() {
        assert_eq!(Profile::from_name(None).unwrap(), Profile::Release);
        assert_eq!(Profile::from_name(Some("")).unwrap(), Profile::Release);
        let dev = Profile::from_name(Some("wasm-dev")).unwrap();
        assert_eq!(dev.name(), "wasm-dev");
        assert!(Profile::from_name(Some("release")).is_err());
    }
}
