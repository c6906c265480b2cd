//! The few opcodes that a snapshot needs. Strings and stacks are written once, and later ones refer
//! to the first, as CPython's own pickler does.

use std::collections::HashMap;
use std::io::{self, Write};
use trace::reader::opcodes::{
    APPENDS, BININT, BININT1, BINUNICODE, EMPTY_DICT, EMPTY_LIST, LONG_BINGET, LONG_BINPUT, LONG1,
    MARK, NEWFALSE, NEWTRUE, PROTO, SETITEMS, STOP,
};

/// A pickle that is being written: values are written in order, containers are opened and closed.
pub(super) struct Pickle<W: Write> {
    out: W,
    strings: HashMap<String, u32>,
    stacks: HashMap<Vec<(String, String)>, u32>,
    next: u32,
}

impl<W: Write> Pickle<W> {
    pub fn new(mut out: W) -> io::Result<Pickle<W>> {
        out.write_all(&[PROTO, 2])?;
        Ok(Pickle {
            out,
            strings: HashMap::new(),
            stacks: HashMap::new(),
            next: 0,
        })
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&[STOP])?;
        self.out.flush()
    }

    fn memoize(&mut self) -> io::Result<u32> {
        let slot = self.next;
        self.next += 1;
        self.out.write_all(&[LONG_BINPUT])?;
        self.out.write_all(&slot.to_le_bytes())?;
        Ok(slot)
    }

    fn refer(&mut self, slot: u32) -> io::Result<()> {
        self.out.write_all(&[LONG_BINGET])?;
        self.out.write_all(&slot.to_le_bytes())
    }

    /// Opens a dictionary; `entries` decides whether a mark is needed.
    pub fn dict(&mut self, entries: usize) -> io::Result<()> {
        debug_assert!(entries > 0, "a snapshot has no empty dictionary");
        self.out.write_all(&[EMPTY_DICT, MARK])
    }

    pub fn end_dict(&mut self) -> io::Result<()> {
        self.out.write_all(&[SETITEMS])
    }

    /// Opens a list; an empty list is closed like any other.
    pub fn list(&mut self, _entries: usize) -> io::Result<()> {
        self.out.write_all(&[EMPTY_LIST, MARK])
    }

    pub fn end_list(&mut self) -> io::Result<()> {
        self.out.write_all(&[APPENDS])
    }

    pub fn key(&mut self, name: &str) -> io::Result<()> {
        self.text(name)
    }

    pub fn text(&mut self, text: &str) -> io::Result<()> {
        if let Some(&slot) = self.strings.get(text) {
            return self.refer(slot);
        }
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        self.out.write_all(&[BINUNICODE])?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(text.as_bytes())?;
        let slot = self.memoize()?;
        self.strings.insert(text.to_owned(), slot);
        Ok(())
    }

    pub fn integer(&mut self, value: u64) -> io::Result<()> {
        if let Ok(byte) = u8::try_from(value) {
            return self.out.write_all(&[BININT1, byte]);
        }
        if let Ok(short) = i32::try_from(value) {
            self.out.write_all(&[BININT])?;
            return self.out.write_all(&short.to_le_bytes());
        }
        // Two's complement, least significant byte first, with room for the sign.
        let bytes = value.to_le_bytes();
        let used = 8 - value.leading_zeros() as usize / 8;
        let signed = bytes[used - 1] & 0x80 != 0;
        let length = used + usize::from(signed);
        self.out.write_all(&[LONG1, length as u8])?;
        self.out.write_all(&bytes[..used])?;
        if signed {
            self.out.write_all(&[0])
        } else {
            Ok(())
        }
    }

    pub fn boolean(&mut self, value: bool) -> io::Result<()> {
        self.out
            .write_all(&[if value { NEWTRUE } else { NEWFALSE }])
    }

    /// A stack of (name, file) pairs, the innermost frame first.
    pub fn frames(&mut self, frames: &[(&str, &str)]) -> io::Result<()> {
        let owned = |&(name, file): &(&str, &str)| (name.to_owned(), file.to_owned());
        let key: Vec<(String, String)> = frames.iter().map(owned).collect();
        if let Some(&slot) = self.stacks.get(&key) {
            return self.refer(slot);
        }
        self.list(frames.len())?;
        for (name, file) in frames {
            self.dict(3)?;
            self.key("name")?;
            self.text(name)?;
            self.key("filename")?;
            self.text(file)?;
            self.key("line")?;
            self.integer(0)?;
            self.end_dict()?;
        }
        self.end_list()?;
        let slot = self.memoize()?;
        self.stacks.insert(key, slot);
        Ok(())
    }
}
