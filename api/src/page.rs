//! Lists that grow with use come in pages, newest first: `?offset=…&limit=…`.

/// The largest, and the usual, number of entries on a page. A page with so many entries may not be
/// the last.
pub const MOST: usize = 1000;

/// The address of the page of a list that begins with the entry at `offset`.
pub fn from(list: &str, offset: usize) -> String {
    let joint = if list.contains('?') { '&' } else { '?' };
    format!("{list}{joint}offset={offset}&limit={MOST}")
}

/// Where the next page begins; `None` if this page of `count` entries is the last.
pub const fn next(offset: usize, count: usize) -> Option<usize> {
    match count < MOST {
        true => None,
        false => Some(offset + count),
    }
}
