//! Commands that are independent of an outer cargo. `server/build.rs` compiles this file too.

use std::env;
use std::ffi::OsStr;
use std::process::Command;

/// A command without the variables through which an outer cargo would influence an inner one: its
/// flags, its wrapper (clippy's), its job server, its target directory.
pub fn scrubbed(program: impl AsRef<OsStr>) -> Command {
    const KEPT: [&str; 5] = [
        "CARGO_HOME",
        "CARGO_NET_",
        "CARGO_HTTP_",
        "CARGO_REGISTR",
        "RUSTUP_",
    ];
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        let ours = name.starts_with("CARGO") || name.starts_with("RUST");
        if ours && !KEPT.iter().any(|kept| name.starts_with(kept)) {
            command.env_remove(&*name);
        }
    }
    // `cargo +name` may have set another toolchain, which may lack the target.
    command.env_remove("RUSTUP_TOOLCHAIN");
    command
}
