//! Categories of real programs in bytes, compared with what the process itself knew of each block.
//!
//! `cargo nextest run -p trace --test it --no-capture -E 'test(/^categories/)'` prints the figure
//! of each file. The files next to the repository (`../shared/categories`) have a test that is
//! ignored without them.

use crate::recordings::{fixtures, replayed, shared, truth};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace::categories::{Categories, Category, alive};
use trace::units::EventIdx;

/// Share of the bytes that must be right if the recording began before the model was built.
const EARLY: f64 = 0.95;

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_ours = |path: &PathBuf| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let named = name.contains("_early_") || name.contains("_late_");
        named && name.ends_with(".pickle.zst")
    };
    let mut files: Vec<PathBuf> = paths.filter(is_ours).collect();
    files.sort();
    files
}

/// Bytes by the category that the process knew (`-`: none) and the category that was found.
fn table(file: &Path, truth: &Value) -> BTreeMap<(String, Category), u64> {
    let trace = replayed(file);
    let device = &trace.devices[0];
    let categories = Categories::of(device, &trace.stacks);
    let mut table = BTreeMap::new();
    for block in alive(device, Some(EventIdx(device.events.len() - 1))) {
        let address = device.blocks.addr[block.index()].to_string();
        let known = truth["categories"][&address].as_str().unwrap_or("-");
        let found = categories.found(block);
        let bytes = table.entry((known.to_owned(), found)).or_default();
        *bytes += device.blocks.kind(block).size.0;
    }
    table
}

#[test]
fn bytes_of_the_fixtures_are_in_the_category_that_the_process_knew() {
    check(&files(&fixtures().join("categories")), 3);
}

#[test]
#[ignore = "needs ../shared"]
fn bytes_of_the_recordings_are_in_the_category_that_the_process_knew() {
    check(&files(&shared().join("categories")), 12);
}

fn check(files: &[PathBuf], fewest: usize) {
    assert!(files.len() >= fewest, "{} files", files.len());
    for file in files {
        let truth = truth(file);
        let early = truth["recording"] == "early";
        let (mut right, mut all) = (0, 0);
        for ((known, found), bytes) in table(file, &truth) {
            let is_right = match known.as_str() {
                // Blocks without a known category: workspaces, logits, losses.
                "-" => [Category::Temporary, Category::Unknown, Category::Before].contains(&found),
                known => found.name() == known || (!early && found == Category::Before),
            };
            all += bytes;
            right += if is_right { bytes } else { 0 };
        }
        let share = right as f64 / all as f64;
        let name = file.file_name().expect("a file").display();
        println!("{name}: {:.2} % of {all} bytes are right", share * 100.0);
        assert!(share >= EARLY, "{name}: {share}");
    }
}
