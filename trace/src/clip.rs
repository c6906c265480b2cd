//! Cuts texts that are too long to show, and marks the cut.

use std::borrow::Cow;

/// Stands in place of the rest of a text.
pub const CUT: &str = "…";

/// The longest name that is read, bytes: a file may use one name for all its scopes and frames, and
/// every answer repeats it. The longest name of a C++ template that we saw has a thousand bytes.
pub const LONGEST_KEPT: usize = 4 << 10;
/// The longest name in an answer, bytes: an answer may have very many names.
pub const LONGEST_SHOWN: usize = 1024;

/// At most `bytes` bytes of a text, the mark of the cut included.
pub fn clipped(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(bytes.saturating_sub(CUT.len()));
    Cow::Owned([&text[..end], CUT].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_seen_and_halves_no_character() {
        let check = |text: &str, bytes, expected: &str| assert_eq!(clipped(text, bytes), expected);
        check("short", 5, "short");
        check("longer", 5, "lo…");
        check("üüü", 6, "üüü");
        check("üüü", 5, "ü…");
    }
}
