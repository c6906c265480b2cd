//! The what-if chart: the text about a column.

use super::levels::Levels;
use ::timeline::format::count;
use trace::units::Bytes;

/// The text about a column of the chart.
pub fn readout(levels: &Levels, column: usize) -> String {
    let (place, level) = (levels.place(column), levels.at(column));
    let size = |bytes: Option<Bytes>| bytes.map_or_else(|| "–".to_owned(), |b| b.to_string());
    format!(
        "events {} to {}, highest: what if {} · recorded {} reserved, {} allocated",
        count(place.first),
        count(place.last),
        size(level.computed),
        size(level.reserved),
        size(level.allocated),
    )
}
