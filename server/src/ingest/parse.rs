//! Pieces of a file in, a snapshot out: unpacking and reading, on the caller's thread.

use super::decompress::Decompressor;
use super::error::IngestError;
use std::sync::atomic::{AtomicU64, Ordering};
use trace::reader::{Limits, Reader};
use trace::snapshot::Snapshot;

/// Unpacks and reads a file that comes in pieces.
pub struct Parser {
    unpack: Decompressor,
    reader: Reader,
}

impl Default for Parser {
    fn default() -> Parser {
        Parser {
            unpack: Decompressor::default(),
            reader: Reader::new(Limits::default()),
        }
    }
}

impl Parser {
    /// Takes a piece of the file; `events` follows along, for progress.
    ///
    /// # Errors
    /// [`IngestError::BadSnapshot`], which says why and where.
    pub fn push(&mut self, piece: &[u8], events: &AtomicU64) -> Result<(), IngestError> {
        let Parser { unpack, reader } = self;
        unpack.push(piece, &mut |bytes| {
            Ok::<(), IngestError>(reader.push(bytes)?)
        })?;
        events.store(reader.events_read(), Ordering::Relaxed);
        Ok(())
    }

    /// The file has ended.
    ///
    /// # Errors
    /// [`IngestError::BadSnapshot`], which says why and where.
    pub fn finish(mut self) -> Result<Snapshot, IngestError> {
        let Parser { unpack, reader } = &mut self;
        unpack.finish(&mut |bytes| Ok::<(), IngestError>(reader.push(bytes)?))?;
        Ok(self.reader.finish()?)
    }
}

/// Reads the pieces of a file to its end; `events` follows along, for progress.
///
/// # Errors
/// [`IngestError::BadSnapshot`], which says why and where.
pub fn parse<P: AsRef<[u8]>>(
    pieces: impl Iterator<Item = P>,
    events: &AtomicU64,
) -> Result<Snapshot, IngestError> {
    let mut parser = Parser::default();
    for piece in pieces {
        parser.push(piece.as_ref(), events)?;
    }
    parser.finish()
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
