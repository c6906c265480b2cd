//! The opcodes of a pickle that Tidemark reads or writes, by their names in CPython's
//! `Lib/pickletools.py`, which says what each one does. There is none that calls code:
//! [`STACK_GLOBAL`] is known only for the sentence that refuses it.

/// Begins a list of items.
pub const MARK: u8 = b'(';
/// The end; what lies on top is the object.
pub const STOP: u8 = b'.';
/// Drops the top.
pub const POP: u8 = b'0';
/// Drops all items since the mark.
pub const POP_MARK: u8 = b'1';
/// Doubles the top.
pub const DUP: u8 = b'2';
/// A number of 8 bytes, big-endian.
pub const BINFLOAT: u8 = b'G';
/// A signed number of 4 bytes.
pub const BININT: u8 = b'J';
/// A number of 1 byte.
pub const BININT1: u8 = b'K';
/// A number of 2 bytes.
pub const BININT2: u8 = b'M';
/// `None`.
pub const NONE: u8 = b'N';
/// A text with a length of 4 bytes.
pub const BINUNICODE: u8 = b'X';
/// A new list.
pub const EMPTY_LIST: u8 = b']';
/// Appends the top to a list.
pub const APPEND: u8 = b'a';
/// A dictionary of all items since the mark.
pub const DICT: u8 = b'd';
/// Appends all items since the mark to a list.
pub const APPENDS: u8 = b'e';
/// An object that was remembered; index of 1 byte.
pub const BINGET: u8 = b'h';
/// An object that was remembered; index of 4 bytes.
pub const LONG_BINGET: u8 = b'j';
/// A list of all items since the mark.
pub const LIST: u8 = b'l';
/// Remembers the top; index of 1 byte.
pub const BINPUT: u8 = b'q';
/// Remembers the top; index of 4 bytes.
pub const LONG_BINPUT: u8 = b'r';
/// Adds a key and a value to a dictionary.
pub const SETITEM: u8 = b's';
/// A tuple of all items since the mark.
pub const TUPLE: u8 = b't';
/// Adds all keys and values since the mark to a dictionary.
pub const SETITEMS: u8 = b'u';
/// A new dictionary.
pub const EMPTY_DICT: u8 = b'}';
/// An empty tuple.
pub const EMPTY_TUPLE: u8 = b')';
/// The version of the protocol, in 1 byte.
pub const PROTO: u8 = 0x80;
/// A tuple of the top.
pub const TUPLE1: u8 = 0x85;
/// A tuple of the two on top.
pub const TUPLE2: u8 = 0x86;
/// A tuple of the three on top.
pub const TUPLE3: u8 = 0x87;
/// `True`.
pub const NEWTRUE: u8 = 0x88;
/// `False`.
pub const NEWFALSE: u8 = 0x89;
/// A number with a length of 1 byte.
pub const LONG1: u8 = 0x8a;
/// A number with a length of 4 bytes.
pub const LONG4: u8 = 0x8b;
/// A text with a length of 1 byte.
pub const SHORT_BINUNICODE: u8 = 0x8c;
/// A text with a length of 8 bytes.
pub const BINUNICODE8: u8 = 0x8d;
/// A class or function by its name: refused.
pub const STACK_GLOBAL: u8 = 0x93;
/// Remembers the top under the next index.
pub const MEMOIZE: u8 = 0x94;
/// How many bytes follow that belong together.
pub const FRAME: u8 = 0x95;
