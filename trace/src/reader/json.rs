//! Reads the same dictionary as JSON (tuples are arrays). The text comes in pieces and drives the
//! same builder.

use super::builder::Builder;
use super::relatives;
use super::values::{NO_MEMO, Value};
use super::{Limits, ReadError, ReadErrorKind};
use crate::footprint::of_vec;

/// What Python prints is no JSON.
const PRINTED: &str = "is a single quote, as in what Python prints of a dictionary, which is no \
                       JSON: write it with pickle.dump() or json.dump()";

/// Text that begins with a bracket, such as a log: `[2026-11-29 10:00:00] …`.
const TEXT: &str = "goes on as text and not as JSON, such as a log";

type Result<T> = std::result::Result<T, ReadErrorKind>;

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    Done,
}

/// The scalar being collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    None,
    /// A string; `escaped`: the last byte was an unpaired backslash.
    String {
        escaped: bool,
    },
    /// A number, `true`, `false` or `null`.
    Word,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

/// A JSON document being read.
pub struct Parser {
    limits: Limits,
    stack: Vec<Value>,
    /// Open containers: their type, and the position of their value on the stack.
    open: Vec<(Container, usize)>,
    expect: Expect,
    token: Token,
    text: Vec<u8>,
    /// Offset in the file of the scalar being collected.
    token_at: u64,
    /// Offset in the file of the next byte.
    offset: u64,
    trailing: u64,
}

/// How many items of an array wait on the stack before they are appended to it.
const BATCH: usize = 1000;

impl Parser {
    /// A parser for a document that starts at `offset`.
    pub fn new(offset: u64, limits: Limits) -> Parser {
        Parser {
            limits,
            stack: Vec::new(),
            open: Vec::new(),
            expect: Expect::Value,
            token: Token::None,
            text: Vec::new(),
            token_at: offset,
            offset,
            trailing: 0,
        }
    }

    /// Heap bytes that it uses, as the allocator counts them.
    pub fn memory_used(&self) -> usize {
        of_vec(&self.stack) + of_vec(&self.open) + of_vec(&self.text)
    }

    /// Parses the next bytes.
    pub fn push(
        &mut self,
        bytes: &[u8],
        builder: &mut Builder,
    ) -> std::result::Result<(), ReadError> {
        let mut at = 0;
        while at < bytes.len() {
            if self.token == Token::None {
                self.token_at = self.offset;
            }
            // A scalar may have begun in an earlier piece, so an error names the scalar's first
            // byte.
            let consumed = self.step(&bytes[at..], builder).map_err(|kind| ReadError {
                offset: self.token_at,
                kind,
            })?;
            at += consumed;
            self.offset += consumed as u64;
        }
        Ok(())
    }

    /// Consumes part of a token, or one punctuation byte.
    fn step(&mut self, bytes: &[u8], builder: &mut Builder) -> Result<usize> {
        match self.token {
            Token::String { escaped } => self.string(bytes, escaped, builder),
            Token::Word => self.word(bytes, builder),
            Token::None => {
                self.punctuation(bytes[0], builder)?;
                Ok(1)
            }
        }
    }

    fn string(&mut self, bytes: &[u8], mut escaped: bool, b: &mut Builder) -> Result<usize> {
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    self.collect(&bytes[..at])?;
                    self.token = Token::None;
                    let text = std::mem::take(&mut self.text);
                    let value = b.string(&unescaped(&text)?)?;
                    self.text = text;
                    self.text.clear();
                    self.value(value, b)?;
                    return Ok(at + 1);
                }
                _ => {}
            }
        }
        self.collect(bytes)?;
        self.token = Token::String { escaped };
        Ok(bytes.len())
    }

    fn word(&mut self, bytes: &[u8], builder: &mut Builder) -> Result<usize> {
        let in_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
        let n = bytes.iter().take_while(|b| in_word(b)).count();
        self.collect(&bytes[..n])?;
        if n < bytes.len() {
            self.end_word(builder)?;
        }
        Ok(n)
    }

    fn end_word(&mut self, builder: &mut Builder) -> Result<()> {
        self.token = Token::None;
        let bad = match self.is_begun() {
            true => ReadErrorKind::NotASnapshot(TEXT),
            false => ReadErrorKind::Malformed("a word that is not a JSON value"),
        };
        let text = std::str::from_utf8(&self.text).map_err(|_| bad.clone())?;
        let value = match text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::None,
            _ => {
                let float = || text.parse::<f64>().ok().filter(|x| x.is_finite());
                match (text.parse::<i64>(), text.parse::<u64>(), float()) {
                    (Ok(n), _, _) => Value::Int(n),
                    (_, Ok(n), _) => Value::Big(n),
                    (_, _, Some(x)) => Value::Float(x),
                    _ => return Err(bad),
                }
            }
        };
        self.text.clear();
        self.value(value, builder)
    }

    fn collect(&mut self, bytes: &[u8]) -> Result<()> {
        if self.text.len() + bytes.len() > self.limits.string {
            return Err(ReadErrorKind::Limit(
                "length of a string",
                self.limits.string as u64,
            ));
        }
        self.text.extend_from_slice(bytes);
        Ok(())
    }

    fn punctuation(&mut self, byte: u8, builder: &mut Builder) -> Result<()> {
        use Expect::{Colon, CommaOrEnd, Done, Key, KeyOrEnd, Value as AValue, ValueOrEnd};
        match (self.expect, byte) {
            (_, b' ' | b'\t' | b'\r' | b'\n') => {}
            (Done, _) => self.trailing += 1,
            (AValue | ValueOrEnd, b'{') => {
                self.begin(Container::Object, Value::OpenDict(NO_MEMO))?;
                self.expect = KeyOrEnd;
            }
            (AValue | ValueOrEnd, b'[') => {
                self.begin(Container::Array, Value::OpenList(NO_MEMO))?;
                self.expect = ValueOrEnd;
            }
            (AValue | ValueOrEnd | Key | KeyOrEnd, b'"') => {
                self.token = Token::String { escaped: false };
            }
            (AValue | ValueOrEnd, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                self.token = Token::Word;
                self.text.push(byte);
            }
            (Colon, b':') => self.expect = AValue,
            (CommaOrEnd, b',') => {
                self.flush(BATCH, builder)?;
                let in_object = matches!(self.open.last(), Some((Container::Object, _)));
                self.expect = if in_object { Key } else { AValue };
            }
            (CommaOrEnd | KeyOrEnd | ValueOrEnd, b'}' | b']') => self.end(byte, builder)?,
            (_, b'\'') => return Err(ReadErrorKind::NotASnapshot(PRINTED)),
            _ if self.is_begun() => return Err(ReadErrorKind::NotASnapshot(TEXT)),
            _ => {
                return Err(ReadErrorKind::Malformed(
                    "this byte cannot stand here in JSON",
                ));
            }
        }
        Ok(())
    }

    /// Whether nothing but the bracket of a list was read.
    fn is_begun(&self) -> bool {
        matches!(self.open[..], [(Container::Array, _)]) && self.stack.len() == 1
    }

    fn begin(&mut self, container: Container, empty: Value) -> Result<()> {
        if self.open.len() >= self.limits.depth {
            return Err(ReadErrorKind::Limit(
                "nesting depth",
                self.limits.depth as u64,
            ));
        }
        self.open.push((container, self.stack.len()));
        self.stack.push(empty);
        Ok(())
    }

    fn end(&mut self, byte: u8, builder: &mut Builder) -> Result<()> {
        let wrong = ReadErrorKind::Malformed("a bracket closes something else");
        let &(container, at) = self.open.last().ok_or(wrong.clone())?;
        let value = match (container, byte) {
            (Container::Object, b'}') if self.stack.len() == at + 1 => self.stack[at],
            (Container::Object, b'}') => {
                builder.set_items(self.stack[at], &self.stack[at + 1..])?
            }
            (Container::Array, b']') => {
                self.flush(1, builder)?;
                self.stack[at]
            }
            _ => return Err(wrong),
        };
        self.open.pop();
        self.stack.truncate(at);
        self.value(value, builder)
    }

    /// Appends the waiting items to the innermost array once there are at least `enough`.
    fn flush(&mut self, enough: usize, builder: &mut Builder) -> Result<()> {
        if let Some(&(Container::Array, at)) = self.open.last()
            && self.stack.len() - at > enough
        {
            self.stack[at] = builder.append(self.stack[at], &self.stack[at + 1..])?;
            self.stack.truncate(at + 1);
        }
        Ok(())
    }

    /// Called when a complete value (or key) has been read.
    fn value(&mut self, value: Value, builder: &mut Builder) -> Result<()> {
        self.stack.push(value);
        // A trace of a profiler has gigabytes, so its first words must be enough.
        if let (Value::Str(key), 1, Expect::Key | Expect::KeyOrEnd) =
            (value, self.open.len(), self.expect)
            && let Some(told) = relatives::of_key(builder.interner.stacks.str(key))
        {
            return Err(ReadErrorKind::Shape(told));
        }
        self.expect = match (self.expect, self.open.last()) {
            (Expect::Key | Expect::KeyOrEnd, Some((Container::Object, at)))
                if (self.stack.len() - at).is_multiple_of(2) =>
            {
                Expect::Colon
            }
            (_, None) => Expect::Done,
            _ => Expect::CommaOrEnd,
        };
        Ok(())
    }

    /// The document's root, the protocol (none for JSON), and how many bytes followed it.
    ///
    /// # Errors
    /// When the document is not complete.
    pub fn finish(self) -> std::result::Result<(Value, Option<u8>, u64), ReadError> {
        match (self.expect, self.stack.last()) {
            (Expect::Done, Some(&root)) => Ok((root, None, self.trailing)),
            _ => Err(ReadError {
                offset: self.offset,
                kind: ReadErrorKind::Truncated,
            }),
        }
    }
}

/// The text between the quotes of a JSON string.
fn unescaped(raw: &[u8]) -> Result<String> {
    let bad = || ReadErrorKind::Malformed("a string with a bad escape");
    let text = String::from_utf8_lossy(raw);
    if !text.contains('\\') {
        return Ok(text.into_owned());
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next().ok_or_else(bad)? {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            c @ ('"' | '\\' | '/') => out.push(c),
            'u' => {
                let unit = hex4(&mut chars).ok_or_else(bad)?;
                let mut rest = chars.clone();
                let low = (rest.next() == Some('\\') && rest.next() == Some('u'))
                    .then(|| hex4(&mut rest))
                    .flatten();
                // Half of a surrogate pair without the other half becomes a replacement character.
                match (char::from_u32(unit), low) {
                    (Some(c), _) => out.push(c),
                    (None, Some(low @ 0xdc00..=0xdfff)) if unit < 0xdc00 => {
                        let code = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                        chars = rest;
                    }
                    (None, _) => out.push(char::REPLACEMENT_CHARACTER),
                }
            }
            _ => return Err(bad()),
        }
    }
    Ok(out)
}

fn hex4(chars: &mut std::str::Chars<'_>) -> Option<u32> {
    (0..4).try_fold(0, |unit, _| Some(unit * 16 + chars.next()?.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_characters() {
        let check = |raw: &str, expected: &str| {
            assert_eq!(unescaped(raw.as_bytes()).unwrap(), expected);
        };
        check("plain", "plain");
        check(r"a\n\u0041\\", "a\nA\\");
        check(r"\ud83d\ude00", "😀");
        check(r"\ud83dx", "\u{fffd}x");
        assert!(unescaped(br"\x").is_err());
    }
}
