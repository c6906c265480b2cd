//! Reads a snapshot from a file or from the standard input, and replays it.

use super::progress::Shown;
use super::{CliError, files};
use crate::ingest::parse;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use trace::naming::Rules;
use trace::snapshot::Snapshot;
use trace::steps::choices;
use trace::trace::Trace;

/// Bytes read from the file at once.
const PIECE: usize = 1 << 20;

/// Pieces that may wait between the reading thread and the parsing one.
const PIECES: usize = 4;

/// Reads a file. If a level is named, the iterations of that loop become its steps. Blocks are
/// called by these rules.
pub(super) fn trace_of(path: &Path, level: Option<&str>, rules: &Rules) -> Result<Trace, CliError> {
    let bad = |why: String| CliError::BadInput {
        path: path.to_owned(),
        why,
    };
    let mut trace = trace::replay::run(read(path).map_err(bad)?);
    trace.stacks.own = (!rules.is_empty()).then(|| Arc::new(rules.clone()));
    if let Some(level) = level {
        choices::recut_all(&mut trace, level).map_err(|why| bad(why.to_string()))?;
    }
    Ok(trace)
}

/// Does the work about one file of several: if it panics, the others are still looked at.
///
/// # Errors
/// [`CliError::Panicked`], and what the work says.
pub(super) fn apart<T>(
    path: &Path,
    work: impl FnOnce() -> Result<T, CliError>,
) -> Result<T, CliError> {
    // What the work was about goes with it, so nothing half done is seen.
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(CliError::Panicked(path.to_owned())))
}

/// Reads a snapshot from a file, or from the standard input.
pub(super) fn read(path: &Path) -> Result<Snapshot, String> {
    read_from(match path.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(shown(path)?),
    })
}

/// A file whose reading is shown on stderr when it takes longer.
pub(super) fn shown(path: &Path) -> Result<Shown, String> {
    let file = files::open(path)?;
    let size = files::size_of(&file).unwrap_or_default();
    Ok(Shown::new(file, size, ""))
}

/// Reads and parses at the same time; the two are a few megabytes apart.
pub(super) fn read_from(mut file: Box<dyn Read + Send + '_>) -> Result<Snapshot, String> {
    std::thread::scope(|scope| {
        let (to_parser, pieces) = sync_channel(PIECES);
        let (to_reader, emptied) = sync_channel(PIECES + 2);
        let reading = scope.spawn(move || read_pieces(&mut *file, &to_parser, &emptied));
        let parsed = parse(recycled(&pieces, &to_reader), &AtomicU64::new(0));
        // This wakes the reader if the parser has stopped early.
        drop(pieces);
        let read = reading
            .join()
            .map_err(|_| "the reading thread panicked".to_owned())?;
        read.map_err(|error| format!("cannot read it: {error}"))?;
        parsed.map_err(|error| error.to_string())
    })
}

/// Fills buffers until the file ends or the parser stops.
fn read_pieces(
    file: &mut dyn Read,
    to_parser: &SyncSender<Vec<u8>>,
    emptied: &Receiver<Vec<u8>>,
) -> std::io::Result<()> {
    loop {
        let mut piece = emptied.try_recv().unwrap_or_default();
        piece.resize(PIECE, 0);
        let filled = match file.read(&mut piece) {
            Ok(filled) => filled,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        piece.truncate(filled);
        if filled == 0 || to_parser.send(piece).is_err() {
            return Ok(());
        }
    }
}

/// Pieces to parse. When the next one is requested, the last one goes back to be filled again.
fn recycled<'c>(
    pieces: &'c Receiver<Vec<u8>>,
    to_reader: &'c SyncSender<Vec<u8>>,
) -> impl Iterator<Item = Piece<'c>> {
    pieces.iter().map(|bytes| Piece { bytes, to_reader })
}

struct Piece<'c> {
    bytes: Vec<u8>,
    to_reader: &'c SyncSender<Vec<u8>>,
}

impl AsRef<[u8]> for Piece<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece<'_> {
    fn drop(&mut self) {
        // The reader may already be finished.
        let _ = self.to_reader.try_send(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_about_one_file_does_not_end_the_others() {
        let read = |name: &'static str| {
            apart(Path::new(name), || match name {
                "b.pickle" => panic!("a fault of ours"),
                other => Ok(other.len()),
            })
        };
        let found = ["a.pickle", "b.pickle", "cc.pickle"].map(read);
        let [Ok(8), Err(failed), Ok(9)] = &found else {
            panic!("{found:?}");
        };
        assert!(failed.to_string().starts_with("b.pickle: "), "{failed}");
        assert_ne!(failed.exit_code(), 0);
    }
}
