//! Reads the words, numbers and texts that JSON is made of. Nothing here is generic.

use super::Misread;
use std::borrow::Cow;

/// How deep lists and objects may lie in one another.
const DEEPEST: u8 = 128;

/// A power of ten that a float can hold.
const MOST: i64 = 300;

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

    fn digits(&mut self) -> &'de str {
        let from = self.at;
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
        &self.json[from..self.at]
    }

    pub(super) fn number(&mut self) -> Result<Number, Misread> {
        let is_negative = self.eats(b'-');
        let whole = self.digits();
        if whole.is_empty() {
            return Err(self.wants("a number"));
        }
        let is_float = matches!(self.byte(), b'.' | b'e' | b'E');
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
        let float = self.float(whole)?;
        Ok(Number::Float(if is_negative { -float } else { float }))
    }

    /// The rest of a number that is no integer.
    fn float(&mut self, whole: &str) -> Result<f64, Misread> {
        let mut fraction = "";
        if self.byte() == b'.' {
            self.at += 1;
            fraction = self.digits();
            if fraction.is_empty() {
                return Err(self.wants("a digit"));
            }
        }
        let mut exponent = 0_i32;
        if matches!(self.byte(), b'e' | b'E') {
            self.at += 1;
            let sign = self.byte();
            self.at += usize::from(matches!(sign, b'-' | b'+'));
            let digits = self.digits();
            if digits.is_empty() {
                return Err(self.wants("a digit"));
            }
            // Nothing is as large as what has more digits.
            exponent = digits.parse().unwrap_or(i32::MAX / 2);
            exponent = if sign == b'-' { -exponent } else { exponent };
        }
        Ok(scaled(whole, fraction, exponent))
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

/// A number by its digits. The last bit may differ: tables that make it exact take 10 KB.
fn scaled(whole: &str, fraction: &str, exponent: i32) -> f64 {
    let mut digits = 0_u64;
    let mut exponent = i64::from(exponent);
    let figures = whole.bytes().map(|byte| (byte, 0));
    for (byte, after_point) in figures.chain(fraction.bytes().map(|byte| (byte, 1))) {
        let more = digits.checked_mul(10);
        match more.and_then(|more| more.checked_add(u64::from(byte - b'0'))) {
            Some(more) => {
                digits = more;
                exponent -= after_point;
            }
            // A digit that makes no difference.
            None => exponent += 1 - after_point,
        }
    }
    let mut value = digits as f64;
    while exponent < 0 && value != 0.0 {
        let step = exponent.max(-MOST);
        value /= 10_f64.powi(-step as i32);
        exponent -= step;
    }
    while exponent > 0 && value.is_normal() {
        let step = exponent.min(MOST);
        value *= 10_f64.powi(step as i32);
        exponent -= step;
    }
    value
}
