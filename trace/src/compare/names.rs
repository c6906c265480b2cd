//! The names of a profile: each is kept once, and none is longer than an answer may show it.
//!
//! A file of a few kilobytes can have very many stacks that share names of some kilobytes. With
//! copies of them, a profile would take gigabytes.

use super::place::Place;
use crate::clip::{LONGEST_SHOWN, clipped};
use crate::footprint::of_map;
use crate::stacks::{Frame, FxHashMap, Stacks, StrIdx, Strings};
use std::collections::HashMap;

/// Bytes of names that one comparison may have in full, those of all its rows together.
const MOST_TEXT: usize = 16 << 20;
/// The longest name in the rows after that.
const SHORT: usize = 64;

/// Names, each once. Frames point into them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Strings);

impl Names {
    /// The file of a frame, as recorded.
    pub fn filename(&self, frame: Frame) -> &str {
        self.0.get(frame.filename)
    }

    /// A frame as text.
    pub fn place(&self, frame: Frame) -> Place {
        Place {
            name: self.0.get(frame.name).to_owned(),
            filename: self.0.get(frame.filename).to_owned(),
            line: frame.line,
        }
    }

    /// Heap bytes that they use.
    pub fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

/// Collects the names of a profile.
pub(super) struct Namer<'a> {
    stacks: &'a Stacks,
    names: Names,
    known: FxHashMap<StrIdx, StrIdx>,
    by_text: HashMap<String, StrIdx>,
    /// Bytes of the texts in it.
    text: usize,
}

impl<'a> Namer<'a> {
    pub fn new(stacks: &'a Stacks) -> Namer<'a> {
        Namer {
            stacks,
            names: Names::default(),
            known: FxHashMap::default(),
            by_text: HashMap::new(),
            text: 0,
        }
    }

    pub fn stacks(&self) -> &'a Stacks {
        self.stacks
    }

    /// A frame of the trace, with its names among these.
    pub fn frame(&mut self, frame: Frame) -> Frame {
        Frame {
            name: self.string(frame.name),
            filename: self.string(frame.filename),
            line: frame.line,
        }
    }

    fn string(&mut self, text: StrIdx) -> StrIdx {
        if let Some(&known) = self.known.get(&text) {
            return known;
        }
        let stacks = self.stacks;
        let named = self.names.0.push(&clipped(stacks.str(text), LONGEST_SHOWN));
        self.known.insert(text, named);
        named
    }

    /// A name that is no string of the trace, as a part of one.
    pub fn text(&mut self, text: &str) -> StrIdx {
        let text = clipped(text, LONGEST_SHOWN);
        if let Some(&known) = self.by_text.get(&*text) {
            return known;
        }
        let named = self.names.0.push(&text);
        self.text += text.len();
        self.by_text.insert(text.into_owned(), named);
        named
    }

    /// Heap bytes that it uses.
    pub fn heap_bytes(&self) -> usize {
        self.names.heap_bytes() + of_map(&self.known) + of_map(&self.by_text) + self.text
    }

    pub fn finish(self) -> Names {
        self.names
    }
}

/// How much text a comparison may still have in full. The rows come with the largest difference
/// first, so what is cut are names of the least ones.
pub(super) struct Room(usize);

impl Room {
    pub fn new() -> Room {
        Room(MOST_TEXT)
    }

    /// A frame as text, as long as there is room.
    pub fn place(&mut self, names: &Names, frame: Frame) -> Place {
        let place = names.place(frame);
        let length = place.name.len() + place.filename.len();
        match self.0.checked_sub(length) {
            Some(left) => {
                self.0 = left;
                place
            }
            None => Place {
                name: clipped(&place.name, SHORT).into_owned(),
                filename: clipped(&place.filename, SHORT).into_owned(),
                ..place
            },
        }
    }

    /// The frames of a stack; none when there is no room for them.
    pub fn places(&mut self, names: &Names, frames: &[Frame]) -> Vec<Place> {
        let length = |frame: &Frame| {
            let [name, file] = [frame.name, frame.filename].map(|text| names.0.get(text).len());
            name + file
        };
        let all: usize = frames.iter().map(length).sum();
        match self.0.checked_sub(all) {
            Some(left) => {
                self.0 = left;
                frames.iter().map(|&frame| names.place(frame)).collect()
            }
            None => Vec::new(),
        }
    }
}
