//! Numbers of the matrix, with three decimals: rows differ in the last digits.

use trace::units::{Bytes, size};

/// `19.971 GiB`.
pub fn level(bytes: Bytes) -> String {
    size::exact(bytes.0 as f64)
}

/// `−6.884 GiB`, `+96.321 MiB`, `±0`.
pub fn change(from: Bytes, to: Bytes) -> String {
    let delta = to.0 as f64 - from.0 as f64;
    match delta {
        0.0 => "±0".to_owned(),
        d => format!("{}{}", sign(d), size::exact(d.abs())),
    }
}

/// `+99.003 MiB`, `0`: growth a step. Less than half a kilobyte a step is shown as 0.
pub fn growth(bytes: f64) -> String {
    match bytes {
        b if b.abs() < 500.0 => "0".to_owned(),
        b => format!("{}{}", sign(b), size::exact(b.abs())),
    }
}

/// `1.43 s`, `35.2 ms`.
pub fn seconds(time: f64) -> String {
    match time {
        t if t < 1.0 => format!("{:.1} ms", t * 1e3),
        t => format!("{t:.2} s"),
    }
}

fn sign(number: f64) -> &'static str {
    // A real minus sign: as wide as the plus.
    if number < 0.0 { "−" } else { "+" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_show_what_rows_differ_by() {
        assert_eq!(level(Bytes(20_308_000_000)), "18.913 GiB");
        let check = |from: u64, to: u64, expected: &str| {
            assert_eq!(change(Bytes(from), Bytes(to)), expected);
        };
        check(20_308_000_000, 13_283_000_000, "−6.543 GiB");
        check(13_283_000_000, 14_290_000_000, "+960.350 MiB");
        check(5, 5, "±0");
        check(1_000_000, 996_000, "−3.906 KiB");
        assert_eq!(growth(103_812_000.0), "+99.003 MiB");
        assert_eq!(growth(-2_400.0), "−2.344 KiB");
        assert_eq!(growth(12.0), "0");
        assert_eq!(seconds(0.0352), "35.2 ms");
    }
}
