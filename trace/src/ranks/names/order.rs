//! The order of names with numbers in them.

use std::cmp::Ordering;

/// The order of two texts whose numbers count as numbers: `step5` comes before `step10`.
pub fn by_number(a: &str, b: &str) -> Ordering {
    let parts = parts_of(a).into_iter().zip(parts_of(b));
    let of_parts = parts.map(|(a, b)| {
        let is_number = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
        match is_number(a) && is_number(b) {
            true => {
                let [a, b] = [a, b].map(|part| part.trim_start_matches('0'));
                a.len().cmp(&b.len()).then_with(|| a.cmp(b))
            }
            false => a.cmp(b),
        }
    });
    let first = of_parts.into_iter().find(|order| order.is_ne());
    first.unwrap_or_else(|| parts_of(a).len().cmp(&parts_of(b).len()))
}

/// Splits a path into numbers and the text between them, in turn.
pub(super) fn parts_of(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let bytes = path.as_bytes();
    for at in 1..=bytes.len() {
        let turns =
            at == bytes.len() || bytes[at].is_ascii_digit() != bytes[at - 1].is_ascii_digit();
        if turns {
            parts.push(&path[start..at]);
            start = at;
        }
    }
    parts
}
