//! The memo of a pickle: four bytes for each object.

use super::values::{NO_MEMO, Value};
use crate::stacks::{FrameIdx, StackIdx, StrIdx};

/// What a memo entry stands for, in four bytes: a tag, and the index of what the object became.
/// Only objects that PyTorch's pickles refer to again keep their meaning. An object that became a
/// row is [`Memo::SPENT`], and a reference to it is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memo(u32);

const TAG_SHIFT: u32 = 28;
const INDEX: u32 = (1 << TAG_SHIFT) - 1;
const STR: u32 = 1;
const FRAME: u32 = 2;
const STACK: u32 = 3;
const PAIR: u32 = 4;
const DICT: u32 = 5;
const LIST: u32 = 6;
const EMPTY_LIST: u32 = 7;
const GROWING: u32 = 8;

impl Memo {
    /// An object that may not be referred to.
    pub const SPENT: Memo = Memo(0);
    /// An empty list, or one that is still empty.
    pub const EMPTY_LIST: Memo = Memo(EMPTY_LIST << TAG_SHIFT);

    #[inline]
    pub fn of(value: Value) -> Memo {
        let (tag, index) = match value {
            Value::Str(s) => (STR, s.0),
            Value::Frame(frame) => (FRAME, frame.0),
            Value::Stack(stack, _) => (STACK, stack.0),
            Value::Growing(list, _) => (GROWING, list),
            Value::Pair(pair) => (PAIR, pair),
            Value::Dict(dict) => (DICT, dict),
            Value::List(list) => (LIST, list),
            Value::OpenList(_) => return Memo::EMPTY_LIST,
            _ => return Memo::SPENT,
        };
        // An index of more than 28 bits cannot occur within the memory limit. If it did, the object
        // is forgotten.
        if index <= INDEX {
            Memo(tag << TAG_SHIFT | index)
        } else {
            Memo::SPENT
        }
    }

    #[inline]
    pub fn value(self) -> Option<Value> {
        let index = self.0 & INDEX;
        Some(match self.0 >> TAG_SHIFT {
            STR => Value::Str(StrIdx(index)),
            FRAME => Value::Frame(FrameIdx(index)),
            STACK => Value::Stack(StackIdx(index), NO_MEMO),
            GROWING => Value::Growing(index, NO_MEMO),
            PAIR => Value::Pair(index),
            DICT => Value::Dict(index),
            LIST => Value::List(index),
            EMPTY_LIST => Value::OpenList(NO_MEMO),
            _ => return None,
        })
    }

    /// The string that the entry stands for, if it is a string.
    #[inline]
    pub fn str(self) -> Option<StrIdx> {
        (self.0 >> TAG_SHIFT == STR).then_some(StrIdx(self.0 & INDEX))
    }

    /// The stack that the entry stands for, if it is one. An empty list is none.
    #[inline]
    pub fn stack(self) -> Option<StackIdx> {
        (self.0 >> TAG_SHIFT == STACK).then_some(StackIdx(self.0 & INDEX))
    }

    /// The frame that the entry stands for, if it is a frame.
    #[inline]
    pub fn frame(self) -> Option<FrameIdx> {
        (self.0 >> TAG_SHIFT == FRAME).then_some(FrameIdx(self.0 & INDEX))
    }
}
