//! The `tidemark` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    match server::cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidemark: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
