//! Which characters show what they are. Names in a recording are written by whoever made it, and
//! stand in pages, terminals and comments beside the words of others.

use std::borrow::Cow;

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

/// A text of a stranger, for terminals, Markdown and pages: a mark stands for each character that
/// is not plain. Lines and tabs stay.
pub fn marked(text: &str) -> Cow<'_, str> {
    let stays = |c: char| is_plain(c) || matches!(c, '\n' | '\t');
    let is_usual = |byte: u8| matches!(byte, b' '..=b'~');
    // Nearly all names are of these bytes, which are quickly looked through.
    if text.bytes().all(is_usual) || text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mark = |c| match stays(c) {
        true => c,
        false => char::REPLACEMENT_CHARACTER,
    };
    text.chars().map(mark).collect()
}

/// A text as code of Markdown. Code spans take everything but their own quotes, and end a table's
/// cell at a bar, so there are none.
pub fn code(text: &str) -> String {
    let text = marked(text).replace('`', "'").replace('|', "¦");
    format!("`{}`", text.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_marked() {
        let check = |text: &str, expected: &str| assert_eq!(marked(text), expected, "{text:?}");
        check("\u{1b}[2Jgone\u{7}", "\u{fffd}[2Jgone\u{fffd}");
        // The same with one character, as terminals of eight bits have it.
        check("\u{9b}31mred\r", "\u{fffd}31mred\u{fffd}");
        check("a\u{202e}b\n\tc", "a\u{fffd}b\n\tc");
        check("naïve – 実行 שלום", "naïve – 実行 שלום");
    }
}
