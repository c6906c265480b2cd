//! The `tidemark` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    match server::cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // It may tell what a stranger's file or another server says.
            eprintln!("tidemark: {}", server::plain::marked(&error.to_string()));
            ExitCode::from(error.exit_code())
        }
    }
}
