//! Numbers in few bytes: LEB128. Signed numbers are folded, so that small differences stay small.

/// Why bytes could not be read as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBytes {
    /// The bytes end in the middle of something.
    #[error("the bytes end too early")]
    Truncated,
    /// A number has too many bits.
    #[error("a number is too large")]
    TooLarge,
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    NotUtf8,
}

/// Appends a number.
#[inline]
pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends the difference `to - from`, modulo 2^64.
#[inline]
pub fn put_difference(out: &mut Vec<u8>, from: u64, to: u64) {
    put(out, fold(to.wrapping_sub(from) as i64));
}

/// Appends text with its length in front.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Stores 0, -1, 1, -2 … as 0, 1, 2, 3 …
#[inline]
pub const fn fold(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// The number that [`fold`] folded.
#[inline]
pub const fn unfold(folded: u64) -> i64 {
    (folded >> 1) as i64 ^ -((folded & 1) as i64)
}

/// Reads what was appended, from the front to the back.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// A cursor at the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes }
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// A single byte.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, BadBytes> {
        let (&first, rest) = self.rest.split_first().ok_or(BadBytes::Truncated)?;
        self.rest = rest;
        Ok(first)
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], BadBytes> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(BadBytes::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// A number.
    #[inline]
    pub fn number(&mut self) -> Result<u64, BadBytes> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut number = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                return Err(BadBytes::TooLarge);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(BadBytes::TooLarge)
    }

    /// A number that fits 32 bits.
    #[inline]
    pub fn number32(&mut self) -> Result<u32, BadBytes> {
        u32::try_from(self.number()?).map_err(|_| BadBytes::TooLarge)
    }

    /// Reads a difference and adds it to `from`.
    #[inline]
    pub fn after(&mut self, from: u64) -> Result<u64, BadBytes> {
        Ok(from.wrapping_add(unfold(self.number()?) as u64))
    }

    /// Text with its length in front.
    pub fn text(&mut self) -> Result<&'a str, BadBytes> {
        let length = usize::try_from(self.number()?).map_err(|_| BadBytes::Truncated)?;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| BadBytes::NotUtf8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_back_what_was_put(numbers: Vec<u64>, text: String, from: u64, to: u64) {
            let mut out = Vec::new();
            numbers.iter().for_each(|&n| put(&mut out, n));
            put_text(&mut out, &text);
            put_difference(&mut out, from, to);
            let mut cursor = Cursor::new(&out);
            for &number in &numbers {
                prop_assert_eq!(cursor.number(), Ok(number));
            }
            prop_assert_eq!(cursor.text(), Ok(text.as_str()));
            prop_assert_eq!(cursor.after(from), Ok(to));
            prop_assert_eq!(cursor.remaining(), 0);
            prop_assert_eq!(cursor.number(), Err(BadBytes::Truncated));
        }

        #[test]
        fn any_bytes_are_a_number_or_an_error(bytes: Vec<u8>) {
            let mut cursor = Cursor::new(&bytes);
            while cursor.remaining() > 0 && cursor.number().is_ok() {}
        }
    }

    #[test]
    fn small_differences_take_one_byte() {
        for (from, to) in [(1000, 1000), (1000, 1063), (1000, 936), (0, u64::MAX)] {
            let mut out = Vec::new();
            put_difference(&mut out, from, to);
            assert_eq!(out.len(), 1, "{from} to {to}");
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        let mut eleven = [0xff; 11];
        assert_eq!(Cursor::new(&eleven).number(), Err(BadBytes::TooLarge));
        eleven[9] = 0x01;
        assert_eq!(Cursor::new(&eleven).number(), Ok(u64::MAX));
    }
}
