//! The rank that a path names, and the rest of its name.

use super::Rank;
use std::ops::Range;

/// The largest number of digits of a rank.
const DIGITS: usize = 6;
/// Endings that say how a file is written.
const ENDINGS: [&str; 10] = [
    ".zst", ".gz", ".tgz", ".tar", ".zip", ".pickle", ".pkl", ".pt", ".json", ".bin",
];
pub(super) const SEPARATORS: [char; 5] = ['_', '-', '.', '=', ' '];

/// A path that names a rank.
pub(super) struct Named {
    pub rank: Rank,
    /// Position of the word and the number in the path.
    token: Range<usize>,
    /// Position of the number.
    digits: Range<usize>,
    /// Whether the rank is in the file's own name.
    pub by_file: bool,
}

impl Named {
    pub fn of(path: &str) -> Option<Named> {
        Named::below(path, 0)
    }

    /// What the path names behind this position; what is before it does not count.
    pub fn below(path: &str, top: usize) -> Option<Named> {
        let path = path.trim_end_matches('/');
        let mut end = path.len();
        let mut by_file = true;
        while end >= top {
            let start = path[..end].rfind('/').map_or(0, |at| at + 1);
            if let Some((token, digits)) = token(&path[start..end]) {
                let digits = start + digits.start..start + digits.end;
                return Some(Named {
                    rank: Rank(path[digits.clone()].parse().ok()?),
                    token: start + token.start..start + token.end,
                    digits,
                    by_file,
                });
            }
            by_file = false;
            end = start.checked_sub(1)?;
        }
        None
    }

    /// The path without the number.
    pub fn rest(&self, path: &str) -> String {
        format!(
            "{}#{}",
            &path[..self.digits.start],
            &path[self.digits.end..]
        )
    }

    /// The file's name without the rank; empty if nothing is left.
    pub fn name(&self, path: &str) -> String {
        let path = path.trim_end_matches('/');
        if !self.by_file {
            return folder_name(folder_of(&path[..self.token.start])).to_owned();
        }
        let start = folder_of(path).map_or(0, |folder| folder.len() + 1);
        let before = path[start..self.token.start].trim_end_matches(SEPARATORS);
        let after = without_ending(&path[self.token.end..]).trim_matches(SEPARATORS);
        match (before, after) {
            ("", "") => folder_name(folder_of(path)).to_owned(),
            ("", one) | (one, "") => one.trim_matches(SEPARATORS).to_owned(),
            (before, after) => format!("{before}_{after}"),
        }
    }
}

/// The last word for a rank in a name, with its number.
fn token(name: &str) -> Option<(Range<usize>, Range<usize>)> {
    let lower = name.to_ascii_lowercase();
    let bytes = lower.as_bytes();
    let mut best: Option<(u8, Range<usize>, Range<usize>)> = None;
    for at in 0..bytes.len() {
        let (word, standing) = match &bytes[at..] {
            [b'r', b'a', b'n', b'k', ..] => (4, Standing::Word),
            [b'r', ..] => (1, Standing::Letter),
            _ => continue,
        };
        let Some(digits) = number(bytes, at, word, standing) else {
            continue;
        };
        let trust = match standing {
            Standing::Letter => 1,
            Standing::Word if lower[..at].trim_end_matches(SEPARATORS).ends_with("local") => 0,
            Standing::Word => 2,
        };
        if best.as_ref().is_none_or(|(known, ..)| trust >= *known) {
            best = Some((trust, at..digits.end, digits));
        }
    }
    best.map(|(_, token, digits)| (token, digits))
}

/// The text before a number.
#[derive(Clone, Copy)]
enum Standing {
    /// `rank`, with no letter before it.
    Word,
    /// `r`, with no letter or digit around it and its number.
    Letter,
}

fn number(bytes: &[u8], at: usize, word: usize, standing: Standing) -> Option<Range<usize>> {
    let before = at.checked_sub(1).map(|at| bytes[at]);
    let mut start = at + word;
    let stands = match standing {
        Standing::Word => !before.is_some_and(|b| b.is_ascii_alphabetic()),
        Standing::Letter => !before.is_some_and(|b| b.is_ascii_alphanumeric()),
    };
    if let (Standing::Word, Some(b' ' | b'_' | b'-' | b'.' | b'=')) = (standing, bytes.get(start)) {
        start += 1;
    }
    let n = bytes[start.min(bytes.len())..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let next = bytes.get(start + n);
    let ends = match standing {
        Standing::Word => true,
        Standing::Letter => !next.is_some_and(|b| b.is_ascii_alphanumeric()),
    };
    (stands && ends && (1..=DIGITS).contains(&n)).then_some(start..start + n)
}

pub(super) fn folder_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(folder, _)| folder)
}

pub(super) fn folder_name(folder: Option<&str>) -> &str {
    let name = folder.and_then(|folder| folder.rsplit('/').find(|part| !part.is_empty()));
    name.unwrap_or("ranks")
}

pub(super) fn without_ending(name: &str) -> &str {
    let shorter = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
    shorter.map_or(name, without_ending)
}
