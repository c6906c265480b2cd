//! Bytes of memory that a table takes: what the allocator was asked for, not what is filled.

use std::collections::HashMap;

/// Bytes behind a vector.
pub(crate) fn of_vec<T>(vec: &Vec<T>) -> usize {
    vec.capacity() * size_of::<T>()
}

/// Bytes behind a vector after so many more rows, one at a time: it may have to double.
pub(crate) fn of_vec_after<T>(vec: &Vec<T>, more: usize) -> usize {
    match vec.capacity() - vec.len() < more {
        true => (2 * vec.capacity()).max(vec.len() + more) * size_of::<T>(),
        false => of_vec(vec),
    }
}

/// Bytes behind a hash map.
pub(crate) fn of_map<K, V, S>(map: &HashMap<K, V, S>) -> usize {
    table_bytes::<(K, V)>(map.capacity())
}

/// Bytes that one more entry asks for while the others move: 0 while there is room. Large tables
/// only: of small ones the peak does not matter.
pub(crate) fn growth_of_map<K, V, S>(map: &HashMap<K, V, S>) -> usize {
    match map.len() < map.capacity() || of_map(map) < LARGE {
        true => 0,
        false => table_bytes::<(K, V)>(map.capacity() * 2),
    }
}

/// Bytes that the map asks for when it moves next, if that is soon.
pub(crate) fn growth_soon<K, V, S>(map: &HashMap<K, V, S>) -> usize {
    match map.len() < map.capacity() / 8 * 7 || of_map(map) < LARGE {
        true => 0,
        false => table_bytes::<(K, V)>(map.capacity() * 2),
    }
}

/// A table whose moving counts.
const LARGE: usize = 1 << 20;

/// The tables of the standard library are full at 7/8 and have one more byte an entry.
fn table_bytes<E>(capacity: usize) -> usize {
    let buckets = match capacity {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        more => (more / 7) * 8,
    };
    buckets * (size_of::<E>() + 1) + 16
}
