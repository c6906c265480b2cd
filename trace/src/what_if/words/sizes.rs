//! Sizes and ranges of them.

use crate::units::Bytes;
use crate::units::size::exact;

/// Three decimals, or none: `82.115 GiB`, `660 MiB`.
pub(super) fn size(bytes: Bytes) -> String {
    exact(bytes.0 as f64).replacen(".000", "", 1)
}

/// `3 to 5`, or `3` where both ends are told alike.
pub(super) fn range([low, high]: [String; 2]) -> String {
    match low == high {
        true => low,
        false => format!("{low} to {high}"),
    }
}
