//! Prints text so that nothing in it can control the terminal.

use super::CliError;
use crate::system::plain::{is_plain, marked};
use std::fmt::Write as _;
use std::io::{ErrorKind, Write};

/// Writes to the standard output. A reader that stops early (`tidemark inspect … | head`) is not an
/// error. The text is made plain, because strangers may choose the names in recordings.
///
/// # Errors
/// When it cannot be written.
pub fn print(text: &str) -> Result<(), CliError> {
    match std::io::stdout().lock().write_all(marked(text).as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(CliError::Failed(format!(
            "cannot write to the standard output: {error}"
        ))),
        _ => Ok(()),
    }
}

/// Tells a person something on the standard error, where it disturbs no result. Nobody may read it:
/// that changes nothing, least of all the exit status.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", marked(text));
}

/// A document, indented, with a newline at the end. Characters that are not plain are escaped, so
/// it can be read back unchanged.
pub fn json(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string_pretty(value).expect("what is printed is plain data");
    let mut out = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        match is_plain(c) || c == '\n' {
            true => out.push(c),
            false => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }),
        }
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_reads_back_and_commands_no_terminal() {
        let names = [
            "\u{1b}[2J",
            "\u{9b}2J",
            "a\u{202e}b",
            "\u{e0041}",
            "naïve 実行\t\n",
        ];
        let document = json(&names);
        assert!(
            document.chars().all(|c| is_plain(c) || c == '\n'),
            "{document:?}"
        );
        assert_eq!(marked(&document), document);
        let read: Vec<String> = serde_json::from_str(&document).unwrap();
        assert_eq!(read, names);
    }
}
