//! Reads the words, numbers and texts that JSON is made of. Nothing here is generic.

use super::Misread;
use api::decimal::decimal;
use std::borrow::Cow;

/// How deep lists and objects may lie in one another.
const DEEPEST: u8 = 128;

/// A number as it is written.
pub(super) enum Number {
    Natural(u64),
    Negative(i64),
    Float(f64),
}

/// A text, and how far it is read.
pub(super) struct Reader<'de> {
    json: &'de str,
    at: usize,
    /// Whether a list or an object was just opened: no comma stands before its first part.
    begins: bool,
    depth: u8,
}

impl<'de> Reader<'de> {
    pub(super) fn new(json: &'de str) -> Self {
        Self {
            json,
            at: 0,
            begins: false,
            depth: 0,
        }
    }

    /// Nothing but space may follow.
    pub(super) fn end(&mut self) -> Result<(), Misread> {
        match self.peek() {
            _ if self.at == self.json.len() => Ok(()),
            _ => Err(self.wants("the end")),
        }
    }

    /// The byte that is read next; 0 at the end.
    fn byte(&self) -> u8 {
        self.json.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// The first byte that is no space, without reading it.
    pub(super) fn peek(&mut self) -> u8 {
        while matches!(self.byte(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
        self.byte()
    }

    #[cold]
    fn wants(&self, what: &str) -> Misread {
        Misread::new(format!("{what} was expected at byte {}", self.at))
    }

    /// Reads this byte, if it is next.
    pub(super) fn eats(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == byte;
        self.at += usize::from(is_next);
        is_next
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<(), Misread> {
        if self.eats(byte) {
            return Ok(());
        }
        Err(self.wants(char::from(byte).encode_utf8(&mut [0; 4])))
    }

    /// Begins a list or an object.
    pub(super) fn open(&mut self, byte: u8) -> Result<(), Misread> {
        self.expect(byte)?;
        self.begins = true;
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.wants("less depth"));
        }
        Ok(())
    }

    pub(super) fn close(&mut self, byte: u8) -> Result<(), Misread> {
        self.expect(byte)?;
        self.begins = false;
        self.depth -= 1;
        Ok(())
    }

    /// Whether another part comes before the end of a list or an object.
    pub(super) fn part(&mut self, end: u8) -> Result<bool, Misread> {
        if self.peek() == end {
            return Ok(false);
        }
        if !self.begins {
            self.expect(b',')?;
        }
        self.begins = false;
        Ok(true)
    }

    /// Whether another entry comes: its key is next.
    pub(super) fn entry(&mut self) -> Result<bool, Misread> {
        if !self.part(b'}')? {
            return Ok(false);
        }
        match self.peek() {
            b'"' => Ok(true),
            _ => Err(self.wants("a key")),
        }
    }

    /// Reads this word, if it is next.
    pub(super) fn word(&mut self, word: &str) -> bool {
        self.peek();
        let is_next = self.json.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    pub(super) fn null(&mut self) -> Result<(), Misread> {
        if self.word("null") {
            return Ok(());
        }
        Err(self.wants("null"))
    }

    pub(super) fn bool(&mut self) -> Result<bool, Misread> {
        let yes = self.word("true");
        if yes || self.word("false") {
            return Ok(yes);
        }
        Err(self.wants("true or false"))
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<&'de str, Misread> {
        let from = self.at;
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
        match &self.json[from..self.at] {
            "" => Err(self.wants("a digit")),
            digits => Ok(digits),
        }
    }

    pub(super) fn number(&mut self) -> Result<Number, Misread> {
        self.peek();
        let from = self.at;
        let is_negative = self.eats(b'-');
        let whole = self.digits()?;
        let is_float = self.pass_fraction()? | self.pass_exponent()?;
        if let Ok(natural) = whole.parse::<u64>()
            && !is_float
        {
            if !is_negative {
                return Ok(Number::Natural(natural));
            }
            if let Some(negative) = 0_i64.checked_sub_unsigned(natural)
                && natural > 0
            {
                return Ok(Number::Negative(negative));
            }
        }
        match decimal(&self.json[from..self.at]) {
            Some(float) => Ok(Number::Float(float)),
            None => Err(self.wants("a smaller number")),
        }
    }

    /// Passes over the part after the point, and says whether there is one.
    fn pass_fraction(&mut self) -> Result<bool, Misread> {
        if self.byte() != b'.' {
            return Ok(false);
        }
        self.at += 1;
        self.digits().map(|_| true)
    }

    /// Passes over the power of ten, and says whether there is one.
    fn pass_exponent(&mut self) -> Result<bool, Misread> {
        if !matches!(self.byte(), b'e' | b'E') {
            return Ok(false);
        }
        self.at += 1;
        self.at += usize::from(matches!(self.byte(), b'-' | b'+'));
        self.digits().map(|_| true)
    }

    /// A text between quotes.
    pub(super) fn text(&mut self) -> Result<Cow<'de, str>, Misread> {
        if !self.eats(b'"') {
            return Err(self.wants("a text"));
        }
        let mut read = Cow::Borrowed("");
        loop {
            let from = self.at;
            while !matches!(self.byte(), b'"' | b'\\' | 0) {
                self.at += 1;
            }
            let plain = &self.json[from..self.at];
            match &mut read {
                Cow::Borrowed("") => read = Cow::Borrowed(plain),
                _ => read.to_mut().push_str(plain),
            }
            if self.byte() == 0 {
                return Err(self.wants("the end of a text"));
            }
            self.at += 1;
            if self.json.as_bytes()[self.at - 1] == b'"' {
                return Ok(read);
            }
            let letter = self.escaped()?;
            read.to_mut().push(letter);
        }
    }

    /// What stands for a letter, after the backslash.
    fn escaped(&mut self) -> Result<char, Misread> {
        let byte = self.byte();
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => {
                self.at -= 1;
                return Err(self.wants("a letter"));
            }
        })
    }

    /// A letter by its number. One that needs more than 16 bits is written as two numbers.
    fn unicode(&mut self) -> Result<char, Misread> {
        let first = self.four_digits()?;
        let mut units = [first, 0];
        let mut letters = char::decode_utf16(units);
        if matches!(first, 0xd800..0xdc00) && self.word("\\u") {
            units[1] = self.four_digits()?;
            letters = char::decode_utf16(units);
        }
        match letters.next() {
            Some(Ok(letter)) => Ok(letter),
            _ => Err(self.wants("the other half of a letter")),
        }
    }

    fn four_digits(&mut self) -> Result<u16, Misread> {
        let digits = self.json.get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.map(|digits| u16::from_str_radix(digits, 16)) {
            Some(Ok(unit)) => {
                self.at += 4;
                Ok(unit)
            }
            _ => Err(self.wants("four digits")),
        }
    }

    /// Passes over a value.
    pub(super) fn skip(&mut self) -> Result<(), Misread> {
        match self.peek() {
            b'"' => self.text().map(drop),
            b'[' => {
                self.open(b'[')?;
                while self.part(b']')? {
                    self.skip()?;
                }
                self.close(b']')
            }
            b'{' => {
                self.open(b'{')?;
                while self.entry()? {
                    self.text()?;
                    self.expect(b':')?;
                    self.skip()?;
                }
                self.close(b'}')
            }
            b'n' => self.null(),
            b't' | b'f' => self.bool().map(drop),
            _ => self.number().map(drop),
        }
    }
}
