//! Cuts texts that are too long to show, and marks the cut.

use std::borrow::Cow;

/// Stands in place of the rest of a text.
pub const CUT: &str = "…";

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
