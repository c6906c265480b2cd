//! A file that is being opened: its bytes are hashed, unpacked and read as they come.

use crate::problems::{Refused, bad_snapshot, too_much_memory};
use crate::unpack::Unpack;
use answers::decoded::Decoded;
use answers::identity::run_id;
use api::ids::RunId;
use trace::reader::{Limits, ReadError, ReadErrorKind, Reader};
use trace::snapshot::Snapshot;
use trace::trace::Trace;
use trace::units::Bytes;
use trace::watch::Watch;

/// Memory for all recordings together, and for reading one more. A browser gives a tab 4 GiB at
/// most, and the page needs some of it.
pub const MEMORY: Bytes = Bytes::mib(1400);

/// The mark in the head of a tar entry, and its position.
const TAR: (&[u8], usize) = (b"ustar", 257);

/// A file that is being opened.
pub struct Opening {
    hasher: blake3::Hasher,
    unpack: Unpack,
    reader: Reader,
    /// Bytes of the file so far.
    pub received: u64,
    /// What may be used.
    memory: usize,
}

/// A file that was read.
pub struct Opened {
    /// Its run: equal bytes have equal ids, here and on a server.
    pub run: RunId,
    /// BLAKE3 of the file, hexadecimal.
    pub hash: String,
    /// Its size.
    pub file_bytes: Bytes,
    /// Its trace.
    pub trace: Trace,
}

impl Opening {
    /// Begins a file, beside recordings that take so much memory.
    pub fn beside(held: Bytes) -> Opening {
        let memory = usize::try_from(MEMORY.saturating_sub(held).get()).unwrap_or(usize::MAX);
        let limits = Limits {
            memory,
            ..Limits::default()
        };
        Opening {
            hasher: blake3::Hasher::new(),
            unpack: Unpack::new(),
            reader: Reader::new(limits),
            received: 0,
            memory,
        }
    }

    /// Events read so far.
    pub fn events(&self) -> u64 {
        self.reader.events_read()
    }

    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// When it is no snapshot, or takes too much memory.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.hasher.update(bytes);
        self.received += bytes.len() as u64;
        let reader = &mut self.reader;
        self.unpack.push(bytes, &mut |bytes| read(reader, bytes))
    }

    /// Ends the file: matches allocations with frees, runs the allocator, finds steps.
    ///
    /// # Errors
    /// As [`Opening::push`].
    pub fn finish(self) -> Result<Opened, Refused> {
        let Opening {
            hasher,
            unpack,
            mut reader,
            received,
            memory,
        } = self;
        unpack.finish(&mut |bytes| read(&mut reader, bytes))?;
        let snapshot: Snapshot = reader.finish().map_err(|error| refused(&error))?;
        let fits = |bytes: usize| bytes <= memory;
        let trace = trace::replay::run_watched(snapshot, Watch::new(&fits));
        let trace = trace.map_err(|_| too_much_memory())?;
        let weight = Decoded::weight_of(&trace) + Decoded::answering_takes(&trace);
        if weight > Bytes(memory as u64) {
            return Err(too_much_memory());
        }
        let hash = hasher.finalize();
        Ok(Opened {
            run: run_id(hash.as_bytes()),
            hash: hash.to_hex().to_string(),
            file_bytes: Bytes(received),
            trace,
        })
    }
}

fn read(reader: &mut Reader, bytes: &[u8]) -> Result<(), Refused> {
    reader.push(bytes).map_err(|error| match error.kind {
        ReadErrorKind::NotASnapshot(_) if is_tar(bytes) => bad_snapshot(
            "this is a tar archive, not a snapshot: unpack it, and drop the folder on the page",
            Some(0),
        ),
        _ => refused(&error),
    })
}

fn is_tar(head: &[u8]) -> bool {
    let (mark, at) = TAR;
    head.get(at..at + mark.len()) == Some(mark)
}

fn refused(error: &ReadError) -> Refused {
    match error.kind {
        ReadErrorKind::Limit("memory in bytes", _) => too_much_memory(),
        _ => bad_snapshot(&error.to_string(), Some(error.offset)),
    }
}
