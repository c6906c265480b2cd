//! Measures the budgets of the README's table and prints the table: `./bench`. Each figure is
//! measured in the same minute as its baseline.
//!
//! The large snapshot is `../shared/big/big.pickle.zst` if that exists, else a file named on the
//! command line. Nothing is asserted, because a busy machine must not fail a build.

mod page;
mod reading;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use table::Table;
use tests::{TestServer, shared_dir, target_dir};

fn main() -> ExitCode {
    let Some(big) = big_snapshot() else {
        eprintln!("usage: ./bench SNAPSHOT.pickle (there is no ../shared/big/big.pickle.zst)");
        return ExitCode::from(2);
    };
    let raw_bytes = std::fs::metadata(&big).map_or(0, |file| file.len());
    let mut table = Table::new(raw_bytes);
    let read = reading::measure(&big, &mut table);
    let runtime = tokio::runtime::Runtime::new().expect("the runtime starts");
    let mut server = TestServer::start();
    let run_url = page::upload(&server, &big, read, &mut table);
    page::settle(&server, &mut table);
    runtime.block_on(page::open(&mut server, &run_url, &mut table));
    runtime.block_on(page::move_about(&server, &run_url, &mut table));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let other = another(&big, folder.path());
    page::compare(&mut server, &run_url, &other, &mut table);
    print!("{table}");
    ExitCode::SUCCESS
}

/// A second recording as large: the same one, but for a letter in a file's name.
fn another(big: &Path, folder: &Path) -> PathBuf {
    let mut bytes = std::fs::read(big).expect("the snapshot can be read");
    let at = bytes.windows(3).position(|bytes| bytes == b".py");
    let at = at.expect("a snapshot names files of Python");
    bytes[at + 2] = b'x';
    let path = folder.join("other.pickle");
    std::fs::write(&path, bytes).expect("there is room for a copy");
    path
}

/// The large snapshot, unpacked once into the target folder.
fn big_snapshot() -> Option<PathBuf> {
    if let Some(path) = std::env::args_os().nth(1) {
        return Some(path.into());
    }
    let packed = shared_dir()?.join("big/big.pickle.zst");
    let unpacked = target_dir().join("bench/big.pickle");
    if !unpacked.is_file() {
        unpack(&packed, &unpacked);
    }
    Some(unpacked)
}

fn unpack(packed: &Path, unpacked: &Path) {
    let folder = unpacked.parent().expect("the path has a folder");
    std::fs::create_dir_all(folder).expect("the target folder is writable");
    let status = Command::new("zstd")
        .args(["-dqf", "-o"])
        .arg(unpacked)
        .arg(packed)
        .status();
    assert!(
        status.is_ok_and(|s| s.success()),
        "zstd unpacks {}",
        packed.display()
    );
}
