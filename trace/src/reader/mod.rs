//! Reads the bytes of a snapshot into columns, in one pass, while the bytes arrive.
//!
//! This is a push parser: [`Reader::push`] takes the file in pieces of any size, [`Reader::finish`]
//! gives the [`Snapshot`]. It reads pickle protocols 2 to 5, JSON of the same dictionary, and the
//! pickle in a page of PyTorch's viewer. It cannot execute anything: opcodes that import or call
//! are refused with their byte offset, and no code for them exists. Every limit is stated in
//! [`Limits`].

mod assembly;
mod builder;
mod event_run;
mod generic;
mod growing;
mod interner;
mod json;
pub(crate) mod keys;
mod lists;
mod memo;
pub mod opcodes;
mod page;
mod pickle;
mod relatives;
mod rows;
mod values;

pub use assembly::MAX_SETTINGS;
pub use values::MAX_DEVICES;

use crate::snapshot::Snapshot;
use builder::Builder;
use std::fmt;

/// What a file may ask of the reader. A file that asks for more is refused, naming the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many batches may be open at once in a pickle, or arrays and objects inside each other in
    /// JSON. PyTorch needs 6.
    pub depth: usize,
    /// Objects that the pickle remembers for later reference.
    pub memo: usize,
    /// Bytes of one string.
    pub string: usize,
    /// Frames of one stack.
    pub stack_frames: usize,
    /// Events, all devices together (indexes are 28 bits).
    pub events: usize,
    /// Bytes of memory for everything that is kept. One piece of 64 KiB may need some memory on top
    /// of this.
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            depth: 256,
            memo: 1 << 28,
            string: 16 << 20,
            stack_frames: 1 << 16,
            events: (1 << 28) - 1,
            memory: 1 << 30,
        }
    }
}

/// Why a file cannot be read, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Byte offset in the (decompressed) file.
    pub offset: u64,
    /// Why.
    pub kind: ReadErrorKind,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadErrorKind {
    /// No bytes at all, or only white space.
    Empty,
    /// Neither pickle nor JSON; what the file seems to be instead.
    NotASnapshot(&'static str),
    /// The file ends before the document does.
    Truncated,
    /// A pickle opcode that would import or call code.
    Code(&'static str),
    /// A byte that is not a known opcode.
    UnknownOpcode(u8),
    /// A pickle protocol this reader does not know.
    Protocol(u8),
    /// A limit: its name and value.
    Limit(&'static str, u64),
    /// The bytes break the rules of pickle or JSON.
    Malformed(&'static str),
    /// Well-formed, but not shaped like a snapshot.
    Shape(&'static str),
    /// The same, with names from the file.
    Foreign(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.offset;
        match &self.kind {
            ReadErrorKind::Empty => f.write_str(
                "the file is empty; PyTorch leaves a file of 0 bytes when writing the snapshot \
                 crashed, so dump it again",
            ),
            ReadErrorKind::NotASnapshot(what) => write!(
                f,
                "not a memory snapshot: byte {at} {what}; expected the pickle that \
                 torch.cuda.memory._dump_snapshot writes, or the same as JSON, or the page of \
                 PyTorch's viewer"
            ),
            ReadErrorKind::Truncated => write!(
                f,
                "the file ends at byte {at} in the middle of the snapshot; it was cut off while \
                 being written or copied, so copy or dump it again"
            ),
            ReadErrorKind::Code(name) => write!(
                f,
                "refused: opcode {name} at byte {at} would run code; a genuine memory snapshot \
                 holds none, so do not open this file with pickle.load either"
            ),
            ReadErrorKind::UnknownOpcode(op) => {
                write!(
                    f,
                    "byte {at} ({op:#04x}) is not a pickle opcode; the file is damaged"
                )
            }
            ReadErrorKind::Protocol(version) => write!(
                f,
                "pickle protocol {version} at byte {at} is not known here (2 to 5 are); dump it \
                 with protocol=4"
            ),
            ReadErrorKind::Limit(MEMORY, value) => write!(
                f,
                "refused at byte {at}: the memory for reading one file is limited to {value} \
                 bytes, and this file needs more"
            ),
            ReadErrorKind::Limit(name, value) => {
                let what = name.split(" of ").next();
                let are = match what.is_some_and(|what| what.ends_with('s')) {
                    true => "are",
                    false => "is",
                };
                write!(
                    f,
                    "refused at byte {at}: {name} {are} limited to {value}, more than PyTorch \
                     ever writes"
                )
            }
            ReadErrorKind::Malformed(what) => {
                write!(f, "the file is damaged at byte {at}: {what}")
            }
            ReadErrorKind::Shape(what) => {
                write!(f, "not a memory snapshot: {what} (at byte {at})")
            }
            ReadErrorKind::Foreign(what) => {
                write!(f, "not a memory snapshot: {what} (at byte {at})")
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// The limit that is ours: it says nothing of what PyTorch writes.
const MEMORY: &str = "memory in bytes";

enum Format {
    /// Nothing but white space yet, or the first bytes of a foreign file.
    Unknown(Vec<u8>),
    Pickle(pickle::Machine),
    Json(json::Parser),
    Page(page::Page),
}

/// The push parser.
pub struct Reader {
    format: Format,
    builder: Builder,
    limits: Limits,
    /// Bytes of all pieces before the current one.
    offset: u64,
}

/// Bytes that are parsed between two checks of the memory in use.
const PIECE: usize = 1 << 16;

impl Reader {
    /// A reader that has seen nothing.
    pub fn new(limits: Limits) -> Reader {
        Reader {
            format: Format::Unknown(Vec::new()),
            builder: Builder::new(limits),
            limits,
            offset: 0,
        }
    }

    /// Parses the next bytes of the file.
    ///
    /// # Errors
    /// When the file cannot be read further; nothing more may be pushed then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        for piece in bytes.chunks(PIECE) {
            let parser = self.parser_memory();
            self.builder.look_at_memory(parser);
            self.push_piece(piece)?;
            self.offset += piece.len() as u64;
            let used = self.memory_used();
            if used > self.limits.memory {
                return Err(ReadError {
                    offset: self.offset,
                    kind: ReadErrorKind::Limit(MEMORY, self.limits.memory as u64),
                });
            }
        }
        Ok(())
    }

    fn push_piece(&mut self, piece: &[u8]) -> Result<(), ReadError> {
        let mut at = 0;
        while let Format::Unknown(start) = &mut self.format {
            let Some(&byte) = piece.get(at) else {
                return Ok(());
            };
            let offset = self.offset + at as u64;
            match byte {
                _ if start.is_empty() && byte.is_ascii_whitespace() => at += 1,
                0x80 if start.is_empty() => {
                    self.format = Format::Pickle(pickle::Machine::new(offset, self.limits));
                }
                b'{' | b'[' if start.is_empty() => {
                    self.format = Format::Json(json::Parser::new(offset, self.limits));
                }
                b'<' if start.is_empty() => {
                    self.format = Format::Page(page::Page::new(offset, self.limits));
                }
                _ => {
                    start.push(byte);
                    at += 1;
                    if start[..] == BYTE_ORDER_MARK {
                        start.clear();
                    } else if start.len() == MAGIC_LEN {
                        return Err(foreign(start, offset + 1));
                    }
                }
            }
        }
        let (piece, offset) = (&piece[at..], self.offset + at as u64);
        match &mut self.format {
            Format::Pickle(machine) => machine.push(piece, &mut self.builder),
            Format::Json(parser) => parser.push(piece, &mut self.builder),
            Format::Page(page) => page.push(piece, offset, &mut self.builder),
            Format::Unknown(_) => Ok(()),
        }
    }

    /// Events read so far, for progress.
    pub fn events_read(&self) -> u64 {
        self.builder.events_read() as u64
    }

    /// Heap bytes that it uses, as the allocator counts them.
    pub fn memory_used(&self) -> usize {
        self.parser_memory() + self.builder.memory_used()
    }

    /// Heap bytes, plus what nearly full tables will request at their next move.
    pub fn memory_soon(&self) -> usize {
        self.memory_used() + self.builder.moves_soon()
    }

    /// The most bytes that [`Reader::finish`] holds: with several devices, it splits columns.
    pub fn memory_to_finish(&self) -> usize {
        self.memory_used() + self.builder.events.heap_bytes()
    }

    fn parser_memory(&self) -> usize {
        match &self.format {
            Format::Pickle(machine) => machine.memory_used(),
            Format::Json(parser) => parser.memory_used(),
            Format::Page(page) => page.memory_used(),
            Format::Unknown(_) => 0,
        }
    }

    /// The snapshot, once all bytes were pushed.
    ///
    /// # Errors
    /// When the file ended early or is not a snapshot.
    pub fn finish(self) -> Result<Snapshot, ReadError> {
        let (root, protocol, trailing) = match self.format {
            Format::Pickle(machine) => machine.finish()?,
            Format::Json(parser) => parser.finish()?,
            // The file itself is no pickle, and cannot be handed out as one.
            Format::Page(page) => {
                let (root, trailing) = page.finish(self.offset)?;
                (root, None, trailing)
            }
            Format::Unknown(start) if start.is_empty() => {
                return Err(ReadError {
                    offset: self.offset,
                    kind: ReadErrorKind::Empty,
                });
            }
            Format::Unknown(start) => return Err(foreign(&start, self.offset)),
        };
        let mut snapshot = self.builder.finish(root).map_err(|kind| ReadError {
            offset: self.offset,
            kind,
        })?;
        snapshot.pickle_protocol = protocol;
        snapshot.trailing_bytes = trailing;
        Ok(snapshot)
    }
}

/// Reads a whole snapshot from memory.
///
/// # Errors
/// As [`Reader::push`] and [`Reader::finish`].
pub fn read(bytes: &[u8], limits: Limits) -> Result<Snapshot, ReadError> {
    let mut reader = Reader::new(limits);
    reader.push(bytes)?;
    reader.finish()
}

/// What some editors put before a text in UTF-8.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// How many bytes at the start are used to recognise foreign files.
const MAGIC_LEN: usize = 4;

/// The error for a file that begins with `start`, which ends at offset `end`.
fn foreign(start: &[u8], end: u64) -> ReadError {
    ReadError {
        offset: end - start.len() as u64,
        kind: ReadErrorKind::NotASnapshot(looks_like(start)),
    }
}

/// Names some kinds of files that people drop here by mistake.
fn looks_like(start: &[u8]) -> &'static str {
    match start {
        [b'P', b'K', ..] => {
            "starts a zip archive: unpack it if it holds snapshots (`tidemark push` and \
             `tidemark ranks` take it as it is); torch.save writes one, too: write the snapshot \
             with torch.cuda.memory._dump_snapshot() or pickle.dump()"
        }
        [0x1f, 0x8b, ..] => {
            "starts gzip data once more: the file was packed twice, so unpack it once"
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            "starts zstd data once more: the file was packed twice, so unpack it once"
        }
        [0xfd, b'7', b'z', b'X', ..] => "starts xz data, which is not read here: unpack it (unxz)",
        [b'B', b'Z', b'h', ..] => "starts bzip2 data, which is not read here: unpack it (bunzip2)",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "starts text in UTF-16: save it as UTF-8",
        [0x89, b'H', b'D', b'F', ..] => "starts an HDF5 file",
        [b'(' | b'}' | b']', ..] => {
            "may start a pickle of protocol 0 or 1, which no torch writes: dump it with protocol=4"
        }
        b"SQLi" => {
            "starts a database of SQLite: tools such as memsnapdump write one from a snapshot; \
             take the pickle that it was made of"
        }
        b"vers" => {
            "starts like a pointer of Git LFS, which stands for the file: fetch the file (git lfs \
             pull)"
        }
        _ => "starts neither a pickle nor JSON",
    }
}

#[cfg(test)]
mod tests;
