//! The `tidemark` binary.

use std::process::ExitCode;

/// The simulation makes and drops millions of small objects, which glibc's allocator spends a
/// quarter of its time on.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match server::cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidemark: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
