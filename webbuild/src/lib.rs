//! Builds the front end as files that a server can embed.
//!
//! `web` is compiled for wasm32, given its JavaScript glue, put beside `web/index.html`,
//! `web/boot.js`, `web/static` and the joined `web/style/*.css`, and compressed. In reading order:
//!
//! * [`toolchain`] finds a compiler that can build for wasm32, or makes one from installed parts;
//! * [`compile`] runs it and `wasm-bindgen`, `fold` makes one of equal functions, `alike` puts them
//!   in order, and `names` gives short names to what the module imports;
//! * [`site`] turns the result into named, hashed, compressed files;
//! * [`embed`] writes those files and the Rust table that `server/main.rs` includes;
//! * [`watch`] writes them to a folder, again after each change;
//! * [`page`] writes the page that needs no server, with the worker that answers it;
//! * [`progress`] shows what every slow part is doing.
//!
//! This crate installs only rustup's wasm32 target, and only if rustup may download. `setup.sh`
//! installs packages.

mod alike;
pub mod compile;
pub mod embed;
pub mod error;
mod fold;
mod inner;
mod names;
pub mod page;
mod positions;
pub mod progress;
pub mod site;
pub mod toolchain;
pub mod watch;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub use compile::{Profile, WorkerProfile};
pub use error::Error;
use progress::Progress;
use site::{Packing, Site};
use toolchain::Toolchain;

/// The folders of the sources and of the work.
pub struct Workshop {
    /// The workspace root.
    pub workspace: PathBuf,
    /// A target directory of our own (`target/web`): sharing cargo's would deadlock on its lock.
    pub dir: PathBuf,
    /// How the worker of the page without a server is compiled.
    pub worker: WorkerProfile,
}

impl Workshop {
    /// The workshop of this workspace, under `target_dir`.
    pub fn new(target_dir: &Path, worker: WorkerProfile) -> Result<Self, Error> {
        let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let workspace = manifest_dir
            .parent()
            .ok_or_else(|| Error::NoWorkspace(manifest_dir.to_owned()))?;
        let dir = target_dir.join("web");
        fs::create_dir_all(&dir).map_err(Error::io(&dir))?;
        Ok(Self {
            workspace: workspace.to_owned(),
            dir,
            worker,
        })
    }

    /// All inputs of the front end, for `rerun-if-changed`.
    pub fn inputs(&self) -> Vec<PathBuf> {
        const INPUTS: [&str; 17] = [
            "web/src",
            "web/style",
            "web/stand_ins",
            "web/static",
            "web/index.html",
            "web/boot.js",
            "web/Cargo.toml",
            "api/src",
            "api/Cargo.toml",
            "presentation/src",
            "presentation/Cargo.toml",
            "timeline/src",
            "timeline/Cargo.toml",
            "trace/src",
            "trace/Cargo.toml",
            "Cargo.toml",
            "Cargo.lock",
        ];
        let inputs = INPUTS.iter().map(|input| self.workspace.join(input));
        // For cargo, a path that does not exist always counts as changed.
        inputs.filter(|input| input.exists()).collect()
    }

    /// Builds the front end.
    pub fn build(&self, profile: Profile) -> Result<Site, Error> {
        let _lock = self.lock()?;
        let progress = Progress::start(&self.dir)?;
        let toolchain = Toolchain::find(self, &progress)?;
        let wasm = compile::wasm(self, &toolchain, profile, &progress)?;
        let glue = compile::bindgen(self, &wasm, profile, &progress)?;
        let packing = Packing::of(profile, &self.dir);
        let site = Site::assemble(&self.workspace.join("web"), &glue, &packing, &progress)?;
        progress.say(&format!("front end ready ({})", progress.elapsed()));
        Ok(site)
    }

    /// Two cargos may build the front end at once (an editor's and a person's): the second waits,
    /// then finds nothing left to do.
    pub fn lock(&self) -> Result<File, Error> {
        let path = self.dir.join(".lock");
        let file = File::create(&path).map_err(Error::io(&path))?;
        file.lock().map_err(Error::io(&path))?;
        Ok(file)
    }
}

/// The target directory that holds `place`: a build script's `OUT_DIR`, or a program.
///
/// Cargo does not say which directory it is, but marks it with a `CACHEDIR.TAG` when it creates it.
/// If the directory existed before, there is no mark. Then the folder where cargo put its results
/// is used: any folder of its own is good enough.
pub fn target_dir(place: &Path) -> PathBuf {
    let marked = place
        .ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").is_file());
    let folder = || place.ancestors().find(|ancestor| !ancestor.is_file());
    marked.or_else(folder).unwrap_or(place).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_dir_is_the_marked_ancestor() {
        let root = std::env::temp_dir().join(format!("webbuild-{}", std::process::id()));
        let out = root.join("wasm32/debug/build/server-0/out");
        fs::create_dir_all(&out).unwrap();
        let program = root.join("wasm32/debug/webbuild");
        fs::write(&program, "").unwrap();
        assert_eq!(target_dir(&out), out, "no mark: the place itself");
        assert_eq!(
            target_dir(&program),
            root.join("wasm32/debug"),
            "a program is not a folder"
        );
        fs::write(root.join("CACHEDIR.TAG"), "").unwrap();
        assert_eq!(target_dir(&out), root);
        fs::remove_dir_all(&root).unwrap();
    }
}
