//! Takes pieces of a file and returns a snapshot: unpacks and reads on the caller's thread.

use super::allowance::Allowance;
use super::decompress::Decompressor;
use super::error::IngestError;
use super::upload::Upload;
use crate::blobs::Blobs;
use crate::system::compression::is_tar;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::runtime::Handle;
use trace::reader::{Limits, ReadErrorKind, Reader};
use trace::snapshot::Snapshot;

/// Bytes between two checks of what the upload uses: less than a hundredth of a second.
const PIECE: usize = 64 << 10;

/// Unpacks and reads a file that arrives in pieces.
pub struct Parser {
    unpack: Decompressor,
    reader: Reading,
}

/// Reads, within the limits of the upload.
struct Reading {
    reader: Reader,
    /// Bytes that unpacking holds.
    unpacking: Arc<AtomicUsize>,
    /// `None` for the user's own file, in a process of its own.
    allowance: Option<Allowance>,
}

impl Default for Parser {
    fn default() -> Parser {
        let limits = Limits {
            memory: 4 << 30,
            ..Limits::default()
        };
        Parser::new(Decompressor::default(), limits, None)
    }
}

impl Parser {
    /// A parser for a stranger's upload, which must stay within its allowance.
    pub fn of_upload(allowance: Allowance) -> Parser {
        let unpack = Decompressor::of_upload();
        Parser::new(unpack, allowance.limits(), Some(allowance))
    }

    /// The same for a file that was accepted before.
    pub fn of_blob(allowance: Allowance) -> Parser {
        Parser::new(Decompressor::default(), allowance.limits(), Some(allowance))
    }

    fn new(unpack: Decompressor, limits: Limits, allowance: Option<Allowance>) -> Parser {
        Parser {
            reader: Reading {
                reader: Reader::new(limits),
                unpacking: unpack.held(),
                allowance,
            },
            unpack,
        }
    }

    /// Takes a piece of the file, and updates `events` to show progress.
    ///
    /// # Errors
    /// [`IngestError::BadSnapshot`], with the reason and the place; or why the upload must end.
    pub fn push(&mut self, piece: &[u8], events: &AtomicU64) -> Result<(), IngestError> {
        let Parser { unpack, reader } = self;
        if let Some(allowance) = &mut reader.allowance {
            allowance.receive(piece.len());
        }
        unpack.push(piece, &mut |bytes| reader.push(bytes))?;
        events.store(reader.reader.events_read(), Ordering::Relaxed);
        Ok(())
    }

    /// Ends the file. The rest of the allowance holds the snapshot's memory.
    ///
    /// # Errors
    /// As [`Parser::push`].
    pub fn finish(mut self) -> Result<(Snapshot, Option<Allowance>), IngestError> {
        let Parser { unpack, reader } = &mut self;
        unpack.finish(&mut |bytes| reader.push(bytes))?;
        let Reading {
            reader,
            mut allowance,
            ..
        } = self.reader;
        // The memory for unpacking is no longer needed.
        drop(self.unpack);
        if let Some(allowance) = &mut allowance {
            allowance.go_on(reader.memory_to_finish())?;
        }
        let snapshot = reader.finish()?;
        if let Some(allowance) = &mut allowance {
            allowance.go_on(snapshot.heap_bytes())?;
        }
        Ok((snapshot, allowance))
    }
}

impl Reading {
    fn push(&mut self, bytes: &[u8]) -> Result<(), IngestError> {
        for piece in bytes.chunks(PIECE) {
            let pushed = self.reader.push(piece);
            if let Err(error) = &pushed
                && matches!(error.kind, ReadErrorKind::NotASnapshot(_))
                && is_tar(piece)
            {
                return Err(tar());
            }
            let Some(allowance) = &mut self.allowance else {
                pushed?;
                continue;
            };
            if let Err(error) = pushed {
                return Err(match error.kind {
                    ReadErrorKind::Limit("memory in bytes", _) => allowance.too_much(),
                    _ => error.into(),
                });
            }
            let unpacking = self.unpacking.load(Ordering::Relaxed);
            allowance.go_on_unpacking(self.reader.memory_soon(), unpacking)?;
        }
        Ok(())
    }
}

/// The page unpacks archives, but not every browser knows every way to pack one.
fn tar() -> IngestError {
    let detail = "this is a tar archive, not a snapshot: `tidemark push FILE` sends the files in \
                  it; or unpack it, and drop the folder on the page";
    IngestError::BadSnapshot {
        detail: detail.to_owned(),
        offset: Some(0),
    }
}

/// Reads the pieces of a file to its end, and updates `events` to show progress.
///
/// # Errors
/// [`IngestError::BadSnapshot`], with the reason and the place.
pub fn parse<P: AsRef<[u8]>>(
    pieces: impl Iterator<Item = P>,
    events: &AtomicU64,
) -> Result<Snapshot, IngestError> {
    let (snapshot, _) = parse_with(Parser::default(), pieces, events)?;
    Ok(snapshot)
}

/// What a file holds, and the memory that this may take.
pub struct Read {
    pub snapshot: Snapshot,
    pub allowance: Allowance,
}

impl Read {
    fn new((snapshot, allowance): (Snapshot, Option<Allowance>)) -> Read {
        Read {
            snapshot,
            allowance: allowance.expect("it was given one"),
        }
    }
}

/// [`parse`], within the limits of an upload.
///
/// # Errors
/// As [`Parser::push`].
pub fn parse_within<P: AsRef<[u8]>>(
    mut allowance: Allowance,
    pieces: impl Iterator<Item = P>,
    events: &AtomicU64,
) -> Result<Read, IngestError> {
    allowance.begin_stage();
    parse_with(Parser::of_upload(allowance), pieces, events).map(Read::new)
}

fn parse_with<P: AsRef<[u8]>>(
    mut parser: Parser,
    pieces: impl Iterator<Item = P>,
    events: &AtomicU64,
) -> Result<(Snapshot, Option<Allowance>), IngestError> {
    for piece in pieces {
        parser.push(piece.as_ref(), events)?;
    }
    parser.finish()
}

/// Reads a snapshot from its blob, on a blocking thread.
pub fn parse_blob(
    blobs: &Blobs,
    runtime: &Handle,
    hash: &str,
    upload: &Arc<Upload>,
    mut allowance: Allowance,
) -> Result<Read, IngestError> {
    allowance.begin_stage();
    let mut parser = Parser::of_blob(allowance);
    blobs.read(runtime, hash, |piece| {
        if upload.cancel.is_cancelled() {
            return Err(IngestError::Cancelled);
        }
        parser.push(piece, &upload.progress.events)
    })?;
    parser.finish().map(Read::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(file: &[u8]) -> (String, Option<u64>) {
        match parse(file.chunks(3), &AtomicU64::new(0)).map(drop) {
            Err(IngestError::BadSnapshot { detail, offset }) => (detail, offset),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_refusal_says_which_and_where() {
        let (empty, _) = refusal(b"");
        assert!(empty.contains("the file is empty"), "{empty}");
        let (text, offset) = refusal(b"just some text");
        assert!(text.contains("not a memory snapshot"), "{text}");
        assert_eq!(offset, Some(0));
        let (code, offset) = refusal(b"\x80\x04cos\nsystem\n.");
        assert!(code.contains("would run code"), "{code}");
        assert_eq!(offset, Some(2));
        let (cut, _) = refusal(&zstd::encode_all(&b"\x80\x04}"[..], 1).unwrap()[..9]);
        assert!(cut.contains("truncated"), "{cut}");
    }
}
