//! The bands of the growth chart as a table.

use ::timeline::format;
use api::alive::GrowthBand;

/// What a band gains from the first moment to the last one: `+1.00 MiB`.
pub fn change(band: &GrowthBand) -> String {
    let ends = band.bytes.first().zip(band.bytes.last());
    match ends.map_or((0, 0), |(&first, &last)| (first, last)) {
        (first, last) if first > last => format!("−{}", format::bytes(first - last)),
        (first, last) if first == last => "0 B".to_owned(),
        (first, last) => format!("+{}", format::bytes(last - first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::areas::tests::growth;

    #[test]
    fn a_change_has_a_sign() {
        let bands = growth(&[
            ("a", &[1, 9, 2049]),
            ("b", &[2049, 1, 1]),
            ("c", &[5, 1, 5]),
        ])
        .bands;
        let changes: Vec<String> = bands.iter().map(change).collect();
        assert_eq!(changes, ["+2.00 KiB", "−2.00 KiB", "0 B"]);
    }
}
