//! Reads and writes sizes: the only place that decides between GiB and GB.
//!
//! Sizes are written with binary prefixes ([`PREFIXES`]), because the allocator counts in powers of
//! two. Typed sizes are read literally: `GB` is 10⁹ bytes and `GiB` 2³⁰, in upper or lower case,
//! with or without a space. A single letter (`64k`) is binary, as in `ls` and `du`; a plain number
//! is bytes.

use super::numbers::Numbers;
use super::{Bytes, grouped};
use std::fmt;
use std::str::FromStr;

/// A family of prefixes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prefixes {
    /// Bytes in the next larger unit.
    pub step: f64,
    /// The units, smallest first.
    pub units: [&'static str; 7],
}

/// KiB, MiB, GiB: steps of 1024.
pub const BINARY: Prefixes = Prefixes {
    step: 1024.0,
    units: ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"],
};

/// The prefixes for all sizes that are written.
pub const PREFIXES: Prefixes = BINARY;

impl Prefixes {
    /// The position of the largest unit of which a size has one.
    fn unit_of(&self, size: f64) -> usize {
        let mut value = size;
        let mut unit = 0;
        // 1023.5 would print as "1024". The unit before would be another for neighbours: "995 MiB"
        // beside "0.98 GiB".
        while value >= self.step - 0.5 && unit + 1 < self.units.len() {
            value /= self.step;
            unit += 1;
        }
        unit
    }

    /// Bytes of the unit at a position.
    pub fn scale(&self, unit: usize) -> f64 {
        self.step.powi(i32::try_from(unit).unwrap_or(i32::MAX))
    }
}

/// Three significant digits, or all before the point: `512 B`, `1.50 GiB`, `1000 MiB`. Where exact
/// [`Numbers`] are asked for: `1,610,612,736 B`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if Numbers::written() == Numbers::Exact {
            return f.write_str(&all_digits(self.0));
        }
        f.write_str(&rounded(*self))
    }
}

/// Three significant digits, also where exact numbers are asked for: beside an axis.
pub fn rounded(Bytes(bytes): Bytes) -> String {
    let unit = PREFIXES.unit_of(bytes as f64);
    let value = bytes as f64 / PREFIXES.scale(unit);
    let digits = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", PREFIXES.units[unit])
}

/// All digits, in groups of three: `1,610,612,736 B`.
pub fn all_digits(bytes: u64) -> String {
    grouped(bytes) + " B"
}

/// Something that is as large as the first and smaller than the second: `between 2.01 GiB and 2.07
/// GiB`, `at most 2.07 GiB` where nothing is known of the first, or one size where the two read
/// alike.
pub fn between(least: Bytes, below: Bytes) -> String {
    let [low, high] = [least, below].map(|bytes| bytes.to_string());
    match least {
        Bytes::ZERO => format!("at most {high}"),
        _ if low == high => low,
        _ => format!("between {low} and {high}"),
    }
}

/// The same after a noun: `of 2.01 GiB`, `of at most 2.07 GiB`, `between 2.01 GiB and 2.07 GiB`.
pub fn of_between(least: Bytes, below: Bytes) -> String {
    let between = between(least, below);
    match between.starts_with("between") {
        true => between,
        false => format!("of {between}"),
    }
}

/// Three decimals, for tables whose rows differ in the last digits: `19.971 GiB`.
pub fn exact(bytes: f64) -> String {
    if Numbers::written() == Numbers::Exact {
        let sign = if bytes <= -0.5 { "-" } else { "" };
        return [sign, &all_digits(bytes.abs().round() as u64)].concat();
    }
    let unit = PREFIXES.unit_of(bytes.abs());
    let value = bytes / PREFIXES.scale(unit);
    match unit {
        0 => format!("{value:.0} {}", PREFIXES.units[0]),
        _ => format!("{value:.3} {}", PREFIXES.units[unit]),
    }
}

/// Text that is not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a size such as 512MiB, 1.5 GiB, 24GB or 4096")]
pub struct BadSize;

impl FromStr for Bytes {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Bytes, BadSize> {
        let text = text.trim();
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let factor = factor(&text[number.len()..]).ok_or(BadSize)?;
        let number = &without_commas(number.trim_end(), factor);
        let is_digit = |c: char| c.is_ascii_digit() || c == '.';
        if !number.chars().all(is_digit) {
            return Err(BadSize);
        }
        let bytes = times(number, factor).ok_or(BadSize)?;
        // Stored sizes must fit SQLite's integers.
        i64::try_from(bytes).map_err(|_| BadSize)?;
        Ok(Bytes(bytes))
    }
}

/// Whole bytes as [`all_digits`] writes them. A comma in anything else stays: it may mean a point.
fn without_commas(number: &str, factor: u64) -> String {
    let plain = number.replace(',', "");
    let is_written = |bytes: u64| grouped(bytes) == number;
    match plain.parse() {
        Ok(bytes) if factor == 1 && is_written(bytes) => plain,
        _ => number.to_owned(),
    }
}

/// A decimal number times `factor`, rounded to a whole number; exact, even beyond 2^53.
fn times(number: &str, factor: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + part.len() == 0 || !digits(whole) || !digits(part) {
        return None;
    }
    // Further digits make no difference: even a terabyte has fewer bytes than that.
    let part = &part[..part.len().min(18)];
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let below: u64 = if part.is_empty() {
        0
    } else {
        part.parse().ok()?
    };
    let one = 10_u128.pow(part.len() as u32);
    let below = (u128::from(below) * u128::from(factor) + one / 2) / one;
    let sum = u128::from(whole) * u128::from(factor) + below;
    u64::try_from(sum).ok()
}

/// Bytes of a unit, in the spellings that people use.
fn factor(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_print_three_significant_digits_with_binary_prefixes() {
        let check = |bytes: u64, expected: &str| assert_eq!(Bytes(bytes).to_string(), expected);
        check(0, "0 B");
        check(512, "512 B");
        check(999, "999 B");
        check(1000, "1000 B");
        check(1023, "1023 B");
        check(1024, "1.00 KiB");
        check(10 << 10, "10.0 KiB");
        check(995 << 20, "995 MiB");
        check(1000 << 20, "1000 MiB");
        check((1023 << 20) + (511 << 10), "1023 MiB");
        check((1023 << 20) + (513 << 10), "1.00 GiB");
        check(1_610_612_736, "1.50 GiB");
        check(120 << 30, "120 GiB");
        check(u64::MAX, "16.0 EiB");
    }

    #[test]
    fn all_digits_are_written_where_they_are_asked_for() {
        Numbers::Exact.write();
        let check = |bytes: u64, expected: &str| {
            assert_eq!(Bytes(bytes).to_string(), expected);
            assert_eq!(expected.parse(), Ok(Bytes(bytes)));
        };
        check(7, "7 B");
        check(1_610_612_736, "1,610,612,736 B");
        check(i64::MAX as u64, "9,223,372,036,854,775,807 B");
        assert_eq!(exact(-1_572_864.4), "-1,572,864 B");
        assert_eq!(exact(-0.2), "0 B");
        assert_eq!(rounded(Bytes(1_610_612_736)), "1.50 GiB");
        assert_eq!(
            between(Bytes(1024), Bytes(1025)),
            "between 1,024 B and 1,025 B"
        );
        Numbers::Rounded.write();
        assert_eq!(Bytes(1024).to_string(), "1.00 KiB");
    }

    #[test]
    fn a_range_is_told_as_exactly_as_it_is_known() {
        let check = |least: u64, below: u64, expected: &str, after_noun: &str| {
            let [least, below] = [least, below].map(|mib| Bytes(mib << 20));
            assert_eq!(between(least, below), expected);
            assert_eq!(of_between(least, below), after_noun);
        };
        let range = "between 1.99 GiB and 2.05 GiB";
        check(2040, 2104, range, range);
        check(2040, 2041, "1.99 GiB", "of 1.99 GiB");
        check(0, 2040, "at most 1.99 GiB", "of at most 1.99 GiB");
    }

    #[test]
    fn tables_show_three_decimals() {
        let check = |bytes: f64, expected: &str| assert_eq!(exact(bytes), expected);
        check(21_444_000_000.0, "19.971 GiB");
        check(-1_572_864.0, "-1.500 MiB");
        check(12.4, "12 B");
        check(1_048_576_000.0, "1000.000 MiB");
        check(0.0, "0 B");
    }

    /// The capture in `recipes` is tested by the same table.
    #[test]
    fn sizes_are_read_as_they_are_written() {
        #[derive(serde::Deserialize)]
        struct Table {
            read: Vec<(String, u64)>,
            refused: Vec<String>,
        }
        let table = include_str!("../../../tests/fixtures/sizes.json");
        let table: Table = serde_json::from_str(table).unwrap();
        assert!(table.read.len() > 20 && table.refused.len() > 20);
        for (text, expected) in table.read {
            assert_eq!(text.parse(), Ok(Bytes(expected)), "{text:?}");
        }
        for text in table.refused {
            assert_eq!(text.parse::<Bytes>(), Err(BadSize), "{text:?}");
        }
    }

    proptest! {
        /// Three digits lose at most half a per cent, and no unit is misread.
        #[test]
        fn what_is_written_reads_back(digits in 0..1024_u64, shift in 0..30_u32) {
            let size = (digits << shift) + digits;
            let text = Bytes(size).to_string();
            let read: Bytes = text.parse().expect("it was written by us");
            let off = read.0.abs_diff(size) as f64;
            prop_assert!(off <= 0.0053 * size as f64, "{text}: {size}");
        }
    }
}
