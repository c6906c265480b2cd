//! Bytes of memory that a table takes: its capacity, not only the part that is filled.

use std::collections::HashMap;

/// Heap bytes of a vector.
pub(crate) fn of_vec<T>(vec: &Vec<T>) -> usize {
    vec.capacity() * size_of::<T>()
}

/// Heap bytes of a vector after `more` further rows, added one at a time: it may have to double.
pub(crate) fn of_vec_after<T>(vec: &Vec<T>, more: usize) -> usize {
    match vec.capacity() - vec.len() < more {
        true => (2 * vec.capacity()).max(vec.len() + more) * size_of::<T>(),
        false => of_vec(vec),
    }
}

/// Heap bytes of a hash map.
pub(crate) fn of_map<K, V, S>(map: &HashMap<K, V, S>) -> usize {
    table_bytes::<(K, V)>(map.capacity())
}

/// Extra bytes while the table moves to a larger one because of one more entry; 0 while there is
/// room. Only for large tables: the peak of small ones does not matter.
pub(crate) fn growth_of_map<K, V, S>(map: &HashMap<K, V, S>) -> usize {
    match map.len() < map.capacity() || of_map(map) < LARGE {
        true => 0,
        false => table_bytes::<(K, V)>(map.capacity() * 2),
    }
}

/// Bytes that the map will request at its next move, if that is soon.
pub(crate) fn growth_soon<K, V, S>(map: &HashMap<K, V, S>) -> usize {
    match map.len() < map.capacity() / 8 * 7 || of_map(map) < LARGE {
        true => 0,
        false => table_bytes::<(K, V)>(map.capacity() * 2),
    }
}

/// From this size on, the move of a table counts.
const LARGE: usize = 1 << 20;

/// The tables of the standard library are full at 7/8, and need one extra byte for each entry.
fn table_bytes<E>(capacity: usize) -> usize {
    let buckets = match capacity {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        more => (more / 7) * 8,
    };
    buckets * (size_of::<E>() + 1) + 16
}
