//! The what-if chart: the text about a column.

use super::levels::Levels;
use ::timeline::format::count;
use trace::units::Bytes;

/// The text about a column of the chart.
pub fn readout(levels: &Levels, column: usize) -> String {
    let (_, first, last) = levels.place(column);
    let (allocated, recorded, computed) = levels.at(column);
    let size = |bytes: Option<Bytes>| bytes.map_or_else(|| "–".to_owned(), |b| b.to_string());
    format!(
        "events {} to {}, highest: what if {} · recorded {} reserved, {} allocated",
        count(first),
        count(last),
        size(computed),
        size(recorded),
        size(allocated),
    )
}
