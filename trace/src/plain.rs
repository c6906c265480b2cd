//! Characters that are safe to show. The author of a recording chooses its names, and they are
//! shown in pages, terminals and comments beside other text.

use std::borrow::Cow;

/// Whether a character is safe to show: it is no control character, and it does not turn, hide or
/// reorder its neighbours. So a name reads as it is.
pub fn is_plain(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{206f}');
    let breaks = matches!(c, '\u{2028}' | '\u{2029}');
    // Joiners are allowed: scripts and emoji need them.
    let hides = matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2065}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !(c.is_control() || turns || breaks || hides)
}

/// A text from a stranger, made safe for terminals, Markdown and pages: each character that is not
/// plain is replaced by a mark. Line breaks and tabs stay.
pub fn marked(text: &str) -> Cow<'_, str> {
    marked_but(text, |c| matches!(c, '\n' | '\t'))
}

/// A name from a stranger in one line of a text: line breaks and tabs are replaced, too. A file's
/// path may have them, and what follows would read as a line of the text itself.
pub fn one_line(name: &str) -> Cow<'_, str> {
    marked_but(name, |_| false)
}

fn marked_but(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let stays = |c: char| is_plain(c) || stays(c);
    let is_usual = |byte: u8| matches!(byte, b' '..=b'~');
    // Nearly all names consist of these bytes only, and this test is fast.
    if text.bytes().all(is_usual) || text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mark = |c| match stays(c) {
        true => c,
        false => char::REPLACEMENT_CHARACTER,
    };
    text.chars().map(mark).collect()
}

/// A text as code in Markdown. Inside a code span, only its own quotes are special, and a bar ends
/// a table's cell. So both are removed.
pub fn code(text: &str) -> String {
    let text = marked(text).replace('`', "'").replace('|', "¦");
    format!("`{}`", text.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_second_line() {
        let check = |name: &str, expected: &str| assert_eq!(one_line(name), expected, "{name:?}");
        check("net.py", "net.py");
        check("a\nno leak\tb\u{1b}", "a\u{fffd}no leak\u{fffd}b\u{fffd}");
    }

    #[test]
    fn what_a_terminal_would_obey_is_marked() {
        let check = |text: &str, expected: &str| assert_eq!(marked(text), expected, "{text:?}");
        check("\u{1b}[2Jgone\u{7}", "\u{fffd}[2Jgone\u{fffd}");
        // The same escape sequence as one character, as in terminals of eight bits.
        check("\u{9b}31mred\r", "\u{fffd}31mred\u{fffd}");
        check("a\u{202e}b\n\tc", "a\u{fffd}b\n\tc");
        check("naïve – 実行 שלום", "naïve – 実行 שלום");
    }
}
