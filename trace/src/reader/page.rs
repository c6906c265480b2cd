//! The page of PyTorch's viewer: HTML with the whole pickle in it, as base64 text.
//!
//! `torch.cuda._memory_viz` writes such pages (`trace_plot`, `segment_plot`, `profile_plot`). The
//! text is one JSON string after `"base64": `. Its letters are read while they arrive; the rest of
//! the page is not looked at.

use super::builder::Builder;
use super::values::Value;
use super::{Limits, ReadError, ReadErrorKind, pickle};
use crate::footprint::of_vec;

/// What stands before the text, as Python's `json.dumps` writes it.
const BEFORE: &[u8] = b"\"base64\": \"";
/// The text begins within so many bytes. In PyTorch's page, 240 bytes stand before it.
const HEAD: usize = 16 << 10;
/// PyTorch adds up to so many zero bytes behind the pickle, so that the text needs no `=`.
const PADDING: u64 = 3;

/// A page being read.
pub struct Page {
    limits: Limits,
    /// Offset in the file of its first byte.
    start: u64,
    /// Its bytes until the text begins.
    head: Vec<u8>,
    text: Option<Text>,
}

/// The text being read.
struct Text {
    machine: pickle::Machine,
    /// Offset in the file of its first letter.
    start: u64,
    /// The letters of a group of four that is not complete.
    group: u32,
    letters: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Letters,
    /// After the first `=`.
    Padded,
    /// After the quotation mark.
    Closed,
}

type Result<T> = std::result::Result<T, ReadError>;

impl Page {
    /// A page that starts at `offset`.
    pub fn new(offset: u64, limits: Limits) -> Page {
        Page {
            limits,
            start: offset,
            head: Vec::new(),
            text: None,
        }
    }

    /// Heap bytes that it uses, as the allocator counts them.
    pub fn memory_used(&self) -> usize {
        let text = self.text.as_ref();
        of_vec(&self.head) + text.map_or(0, |text| text.machine.memory_used())
    }

    /// Reads the next bytes, which lie at `offset`.
    pub fn push(&mut self, bytes: &[u8], offset: u64, builder: &mut Builder) -> Result<()> {
        if let Some(text) = &mut self.text {
            return text.push(bytes, offset, builder);
        }
        let more = bytes.len().min(HEAD - self.head.len());
        self.head.extend_from_slice(&bytes[..more]);
        let mut parts = self.head.windows(BEFORE.len());
        let Some(at) = parts.position(|bytes| bytes == BEFORE) else {
            return match self.head.len() < HEAD {
                true => Ok(()),
                false => Err(self.foreign()),
            };
        };
        let head = std::mem::take(&mut self.head);
        let letters = &head[at + BEFORE.len()..];
        let start = self.start + (head.len() - letters.len()) as u64;
        let text = self.text.insert(Text {
            machine: pickle::Machine::new(0, self.limits),
            start,
            group: 0,
            letters: 0,
            state: State::Letters,
        });
        text.push(letters, start, builder)?;
        text.push(&bytes[more..], offset + more as u64, builder)
    }

    /// The pickle's root, and how many bytes followed it. The file ends at `end`.
    pub fn finish(self, end: u64) -> Result<(Value, u64)> {
        let Some(text) = self.text else {
            return Err(self.foreign());
        };
        let (first, closed) = (text.start, text.state == State::Closed);
        let (root, _, trailing) = text.machine.finish().map_err(|error| ReadError {
            offset: if closed {
                letter(first, error.offset)
            } else {
                end
            },
            ..error
        })?;
        Ok((root, trailing.saturating_sub(PADDING)))
    }

    /// The error for a page without a snapshot.
    fn foreign(&self) -> ReadError {
        let has = |words: &str| {
            let mut parts = self.head.windows(words.len());
            parts.any(|bytes| bytes == words.as_bytes())
        };
        let known = FOREIGN.iter().find(|(words, _)| has(words));
        let told = known.map(|(_, told)| *told);
        ReadError {
            offset: self.start,
            kind: ReadErrorKind::NotASnapshot(
                told.unwrap_or("starts HTML or XML (an error page saved by mistake?)"),
            ),
        }
    }
}

/// Words of pages without a snapshot, and what such a page is.
const FOREIGN: [(&str, &str); 4] = [
    (
        "let alloc_data = ",
        "starts a page of an old PyTorch's viewer, which holds a picture and no snapshot",
    ),
    (
        "GPU Memory Timeline",
        "starts the picture that export_memory_timeline of torch.profiler writes, without \
         addresses and stacks",
    ),
    (
        "MemoryViz.js",
        "starts a page of PyTorch's viewer that holds no snapshot: drop the snapshot itself",
    ),
    (
        "<!DOCTYPE svg",
        "starts a picture (SVG), such as the flame graph of PyTorch's _memory_viz.py: drop the \
         snapshot itself",
    ),
];

impl Text {
    fn push(&mut self, letters: &[u8], offset: u64, builder: &mut Builder) -> Result<()> {
        let mut bytes = Vec::with_capacity(letters.len() / 4 * 3 + 3);
        let read = letters
            .iter()
            .zip(offset..)
            .try_for_each(|(&byte, offset)| {
                let read = self.read(byte, &mut bytes);
                read.map_err(|why| ReadError {
                    offset,
                    kind: ReadErrorKind::Malformed(why),
                })
            });
        // What stands before a bad letter is read first, however the file is cut into pieces.
        let first = self.start;
        let pushed = self.machine.push(&bytes, builder);
        pushed.map_err(|error| ReadError {
            offset: letter(first, error.offset),
            ..error
        })?;
        read
    }

    fn read(&mut self, byte: u8, bytes: &mut Vec<u8>) -> std::result::Result<(), &'static str> {
        let value = match (byte, self.state) {
            (_, State::Closed) => return Ok(()),
            (b'"', state) if state == State::Padded || self.letters == 0 => {
                self.state = State::Closed;
                return Ok(());
            }
            (b'=', State::Padded) => return Ok(()),
            (b'=', State::Letters) if self.letters >= 2 => {
                // Three letters are two bytes and two bits; two are one byte and four bits.
                let whole = self.group << (6 * (4 - self.letters));
                bytes.extend(&whole.to_be_bytes()[1..self.letters]);
                self.state = State::Padded;
                return Ok(());
            }
            (b'A'..=b'Z', State::Letters) => byte - b'A',
            (b'a'..=b'z', State::Letters) => byte - b'a' + 26,
            (b'0'..=b'9', State::Letters) => byte - b'0' + 52,
            (b'+', State::Letters) => 62,
            (b'/', State::Letters) => 63,
            _ => return Err("the base64 text in the page is not whole"),
        };
        self.group = self.group << 6 | u32::from(value);
        self.letters += 1;
        if self.letters == 4 {
            bytes.extend(&self.group.to_be_bytes()[1..]);
            (self.group, self.letters) = (0, 0);
        }
        Ok(())
    }
}

/// Offset in the file of the letter in which a byte of the pickle begins; the first letter is at
/// `start`.
fn letter(start: u64, byte: u64) -> u64 {
    start + byte / 3 * 4 + byte % 3
}
