//! A link to a view: how long it lives, and what it does not show.

/// Seconds of a day.
const DAY_S: u32 = 24 * 3600;

/// The lifetimes of a link: text in the menu, and seconds.
pub const LIVES: [(&str, Option<u32>); 5] = [
    ("in a day", Some(DAY_S)),
    ("in a week", Some(7 * DAY_S)),
    ("in 30 days", Some(30 * DAY_S)),
    ("in a year", Some(365 * DAY_S)),
    ("never", None),
];

/// What a redacted link shows, and what it does not.
pub const ABOUT_REDACTION: &str = "\
    Names of PyTorch, of well-known packages and of Python, sizes, counts and line numbers are \
    shown. Your own files, functions, scopes, metadata and settings get stand-ins, the same ones \
    everywhere in this link and in no other. What is searched for is left out. The note and the \
    name that you type below are shown as they are.";

/// The entry of [`LIVES`] that is selected at first.
pub const FIRST_LIFE: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_ends_unless_someone_wants_otherwise() {
        assert_eq!(LIVES[FIRST_LIFE].1, Some(30 * DAY_S));
        assert_eq!(LIVES.iter().filter(|life| life.1.is_none()).count(), 1);
    }
}
