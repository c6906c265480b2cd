//! What runs may be called: by the file they come from, and by people. The same here and in a
//! browser without a server.

use api::runs::MAX_NAME;
use trace::code::file_name;
use trace::plain::is_plain;

/// A name that no run may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {MAX_NAME} characters, none of which hides or turns others")]
pub struct BadName;

/// A file's name without folders, and without characters that hide or reorder others; never empty.
pub fn of_file(text: &str) -> String {
    let printable = file_name(text)
        .chars()
        .filter(|&c| is_plain(c))
        .take(MAX_NAME);
    let name = printable.collect::<String>();
    match name.trim() {
        "" => "snapshot".to_owned(),
        name => name.to_owned(),
    }
}

/// A name from a person: trimmed, not too long, without characters that hide or reorder others.
///
/// # Errors
/// [`BadName`].
pub fn typed(text: &str) -> Result<String, BadName> {
    let name = text.trim();
    let fits = (1..=MAX_NAME).contains(&name.chars().count()) && name.chars().all(is_plain);
    fits.then(|| name.to_owned()).ok_or(BadName)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_bare_and_printable() {
        let check = |text: &str, expected: &str| assert_eq!(of_file(text), expected, "{text:?}");
        check("snapshot.pickle", "snapshot.pickle");
        check("/etc/../x/a b.pickle", "a b.pickle");
        check("C:\\runs\\a.pickle", "a.pickle");
        check("a\n\u{7}b", "ab");
        check("run\u{202e}elkcip.exe", "runelkcip.exe");
        check("\u{200b}\u{2066}", "snapshot");
        check("runs/", "snapshot");
        check(&"x".repeat(999), &"x".repeat(MAX_NAME));
    }

    #[test]
    fn typed_names_hide_nothing() {
        let check = |text: &str, expected: Result<&str, BadName>| {
            assert_eq!(
                typed(text).as_deref(),
                expected.as_ref().copied(),
                "{text:?}"
            );
        };
        check(" before ", Ok("before"));
        check("", Err(BadName));
        check("  ", Err(BadName));
        check("a\u{202e}b", Err(BadName));
        check(&"x".repeat(MAX_NAME + 1), Err(BadName));
    }
}
