//! Tapes: recordings of the real offloader, and the replay that checks this offloader against them.
//!
//! Each line of a tape is a call with its arguments, its result and the size of every container
//! after it. [`replay`] makes the same calls to [`crate::offload`] and counts every value that
//! differs: the decision of a pack, the origin of a restore, the sizes.

mod ahead;
mod driver;
mod line;
mod passes;
mod report;
mod reuse;
mod runtime;
mod tensor;
mod version;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::deviation::Deviation;
pub use line::{After, InitLine, Line, PackLine, UnpackLine};
pub use report::{Mismatch, ReplayReport, Replayed};
pub use version::{TapeVersion, UnknownVersion};

/// Why a tape could not be replayed at all.
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    /// The file cannot be read or decompressed.
    #[error("cannot read the tape: {0}")]
    Io(#[from] std::io::Error),
    /// A line is not what a recorder writes.
    #[error("line {line} of the tape: {reason}")]
    Malformed {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The tape does not begin with `init`, or `init` comes twice.
    #[error("line {line} of the tape: expected exactly one init, before all calls")]
    MisplacedInit {
        /// Its number, from 1.
        line: usize,
    },
    /// The constructor refuses the recorded arguments.
    #[error("the recorded configuration is refused: {0}")]
    Refused(String),
}

/// Reads a tape of JSON lines.
///
/// # Errors
/// [`TapeError::Io`] and [`TapeError::Malformed`].
pub fn read(reader: impl Read) -> Result<Vec<Line>, TapeError> {
    let mut lines = Vec::new();
    for (index, text) in BufReader::new(reader).lines().enumerate() {
        let text = text?;
        // Some programs begin a text file with a mark of its encoding.
        let text = text.trim_start_matches('\u{feff}').trim();
        // An empty line keeps its number.
        if text.is_empty() {
            lines.push(Line::Unknown);
            continue;
        }
        let parsed = serde_json::from_str(text).map_err(|error| TapeError::Malformed {
            line: index + 1,
            reason: in_its_line(&error),
        })?;
        lines.push(parsed);
    }
    Ok(lines)
}

/// What is wrong with a line. Its text alone was parsed, so the parser calls each one line 1.
fn in_its_line(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match said.strip_suffix(&place) {
        Some(what) => format!("{what} at column {}", error.column()),
        None => said,
    }
}

/// Replays the tape from `reader` (JSON lines) against one version of the offloader.
///
/// # Errors
/// The tape cannot be read. If a tape disagrees, this is in the report and not an error.
pub fn replay(reader: impl Read, version: TapeVersion) -> Result<ReplayReport, TapeError> {
    driver::drive(&read(reader)?, &version, None, u64::MAX)
}

/// [`replay`] with one rule broken on purpose: it must find mismatches.
///
/// # Errors
/// As for [`replay`].
pub fn replay_deviating(
    reader: impl Read,
    version: TapeVersion,
    deviation: Deviation,
) -> Result<ReplayReport, TapeError> {
    driver::drive(&read(reader)?, &version, Some(deviation), u64::MAX)
}

/// Replays a tape file, `.zst` or plain; its content says which.
///
/// The version is the given one; else the one in the file's name, as in `trl-1.5_dense.jsonl.zst`;
/// else the one that agrees best, and all that agree as well. A tape does not say which code it
/// recorded, and what differs between two versions may not happen in it.
///
/// # Errors
/// As for [`replay`].
pub fn replay_file(path: &Path, version: Option<TapeVersion>) -> Result<Replayed, TapeError> {
    const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let bytes = std::fs::read(path)?;
    let lines = if bytes.starts_with(&ZSTD_MAGIC) {
        read(zstd::Decoder::new(bytes.as_slice())?)?
    } else {
        read(bytes.as_slice())?
    };
    let named = || {
        path.file_name()
            .and_then(|name| TapeVersion::from_name(&name.to_string_lossy()))
    };
    match version.or_else(named) {
        Some(version) => Ok(Replayed {
            report: driver::drive(&lines, &version, None, u64::MAX)?,
            version,
            equally_good: Vec::new(),
        }),
        None => best_agreement(&lines),
    }
}

/// Replays against every version. One that is worse than the best so far is not replayed to its
/// end.
fn best_agreement(lines: &[Line]) -> Result<Replayed, TapeError> {
    let mut best: Option<Replayed> = None;
    for version in TapeVersion::candidates() {
        let known = best
            .as_ref()
            .map_or(u64::MAX, |best| best.report.mismatches);
        let report = driver::drive(lines, &version, None, known)?;
        match &mut best {
            Some(_) if report.mismatches > known => {}
            Some(best) if report.mismatches == known => best.equally_good.push(version),
            _ => {
                let equally_good = Vec::new();
                best = Some(Replayed {
                    version,
                    equally_good,
                    report,
                });
            }
        }
    }
    Ok(best.expect("there are candidates"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_line_has_one_number() {
        let check = |tape: &str, expected: &str| {
            assert_eq!(read(tape.as_bytes()).unwrap_err().to_string(), expected);
        };
        let cut = "EOF while parsing a string at column";
        check(
            "\n\n{\"op\": \"pa",
            &format!("line 3 of the tape: {cut} 10"),
        );
        check("{\"op\": \"pa", &format!("line 1 of the tape: {cut} 10"));
    }
}
