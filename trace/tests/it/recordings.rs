//! Recordings of real programs, and what is known of them.

use serde_json::Value;
use std::path::{Path, PathBuf};
use trace::reader::{Limits, read};
use trace::snapshot::Snapshot;
use trace::trace::Trace;

/// The recordings in the repository.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures")
}

/// The folder next to the repository, for tests that are ignored without it.
pub fn shared() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = here.ancestors().map(|folder| folder.join("shared"));
    let found = folders.find(|folder| folder.join("plain").is_dir());
    found.expect("../shared with its folder `plain`")
}

/// A snapshot that is packed with zstd.
pub fn snapshot(path: &Path) -> Snapshot {
    let name = path.display();
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let bytes = zstd::decode_all(file).unwrap_or_else(|error| panic!("{name}: {error}"));
    read(&bytes, Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The trace of such a snapshot.
pub fn replayed(path: &Path) -> Trace {
    trace::replay::run(snapshot(path))
}

/// What is written about recordings.
pub fn json(path: &Path) -> Value {
    let name = path.display();
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What is known of `NAME.pickle.zst`, from `NAME.truth.json` beside it.
pub fn truth(recording: &Path) -> Value {
    let path = recording.to_string_lossy();
    json(Path::new(&path.replace(".pickle.zst", ".truth.json")))
}
