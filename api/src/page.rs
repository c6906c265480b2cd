//! Lists that grow with use come in pages, newest first: `?offset=…&limit=…`.

/// Entries of a page, unless fewer are asked for. A page that has as many may not be the last.
pub const MOST: usize = 1000;

/// The address of the page of a list that begins with the `offset`-th entry.
pub fn from(list: &str, offset: usize) -> String {
    let joint = if list.contains('?') { '&' } else { '?' };
    format!("{list}{joint}offset={offset}&limit={MOST}")
}

/// Where the next page begins, unless this one of `count` entries is the last.
pub const fn next(offset: usize, count: usize) -> Option<usize> {
    match count < MOST {
        true => None,
        false => Some(offset + count),
    }
}
