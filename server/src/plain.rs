//! Texts that people type and programs send: what may be in a name.

/// Whether a character shows what it is: no control character, and none that turns, hides or
/// reorders its neighbours, so that a name reads as it is.
pub fn is_plain(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{206f}');
    let breaks = matches!(c, '\u{2028}' | '\u{2029}');
    // Joiners stay: scripts and emoji need them.
    let hides = matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2065}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !(c.is_control() || turns || breaks || hides)
}

/// What is plain of a text.
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
