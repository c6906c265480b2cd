//! Typed texts: the characters that a name may have. [`trace::plain`] defines which characters are
//! plain.

pub use trace::plain::{is_plain, marked};

/// The plain characters of a text.
pub fn plain(text: &str) -> String {
    text.chars().filter(|&c| is_plain(c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_turns_or_hides_what_follows() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected, "{text:?}");
        check("run\u{202e}elkcip.exe", "runelkcip.exe");
        check("a\u{2066}b\u{2069}c\u{200f}d", "abcd");
        check("a\u{200b}b\u{feff}c\u{ad}d", "abcd");
        check("a\u{e0041}b\u{2028}c\u{85}d\u{7f}", "abcd");
        check("naïve – 実行 שלום 👩‍🔬", "naïve – 実行 שלום 👩‍🔬");
    }
}
