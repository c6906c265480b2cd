//! Paths, found from the location of the test program.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace root.
pub fn workspace_root() -> &'static Path {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest_dir.parent();
    root.expect("the tests crate lies in the workspace root")
}

/// The folder with large recorded snapshots, which is not part of the repository; `None` if it is
/// missing.
pub fn shared_dir() -> Option<PathBuf> {
    let dir = workspace_root().join("../shared");
    dir.is_dir().then_some(dir)
}

/// The same folder, for tests that are ignored unless it is there (`./check` looks for it).
///
/// # Panics
/// If the folder is missing.
pub fn recordings() -> PathBuf {
    shared_dir().expect("this test reads recordings in ../shared")
}

/// Cargo's target directory.
pub fn target_dir() -> PathBuf {
    let program = env::current_exe().expect("a running program has a path");
    let marked = program
        .ancestors()
        .find(|dir| dir.join("CACHEDIR.TAG").is_file());
    marked.unwrap_or(workspace_root()).to_owned()
}

/// The folder in which [`crate::Browser::screenshot`] saves its pictures.
pub fn screenshots_dir() -> PathBuf {
    target_dir().join("screenshots")
}

/// The only fonts that browsers under test know, so that a page looks the same on every machine.
pub(crate) fn fonts_conf() -> PathBuf {
    workspace_root().join("tests/fonts/fonts.conf")
}

/// The `tidemark` binary: `TIDEMARK_BIN`, or the one built into the same folder as these tests.
pub fn tidemark() -> PathBuf {
    if let Some(path) = env::var_os("TIDEMARK_BIN") {
        return path.into();
    }
    let program = env::current_exe().expect("a running program has a path");
    // .../debug/deps/it-0123 -> .../debug/tidemark
    let profile_dir = program.parent().and_then(Path::parent);
    let path = profile_dir
        .map(|dir| dir.join("tidemark"))
        .unwrap_or_default();
    assert!(
        path.is_file(),
        "{} is not there: run `cargo build -p server` first, as ./check does",
        path.display()
    );
    path
}

/// The page that needs no server, built into a folder: takes minutes if nothing of it is built.
pub fn local_page() -> PathBuf {
    let folder = target_dir().join("page");
    build_page(&folder, None);
    folder
}

/// The same in a folder of its own, for a page whose Share sends files to a server.
pub fn local_page_with(folder: &Path, server: &str) {
    build_page(folder, Some(server));
}

fn build_page(folder: &Path, server: Option<&str>) {
    let webbuild = tidemark().with_file_name("webbuild");
    let mut build = Command::new(webbuild);
    build.arg("page").arg(folder).arg(target_dir()).args(server);
    let output = build.output().expect("webbuild is built beside the tests");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
}

/// The first of `names` on `PATH`, unless `variable` names a program.
pub(crate) fn program(variable: &str, names: &[&str]) -> PathBuf {
    if let Some(path) = env::var_os(variable) {
        return path.into();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let candidates = names
        .iter()
        .flat_map(|name| env::split_paths(&path).map(move |dir| dir.join(name)));
    let found = candidates.into_iter().find(|file| file.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "no {} on PATH: ./check installs it, or set {variable}",
            names[0]
        )
    })
}
