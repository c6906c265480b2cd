//! Numbers of the matrix, in the decimal units of the published table.

/// `21.444 GB`.
pub fn gigabytes(bytes: u64) -> String {
    format!("{:.3} GB", bytes as f64 / 1e9)
}

/// `−7.392 GB`, `+0.101 GB`, `±0`.
pub fn change(from: u64, to: u64) -> String {
    let delta = to as f64 - from as f64;
    match delta {
        0.0 => "±0".to_owned(),
        d if d.abs() < 5e5 => format!("{}{:.0} kB", sign(d), d.abs() / 1e3),
        d => format!("{}{:.3} GB", sign(d), d.abs() / 1e9),
    }
}

/// `+103.8 MB`, `0`: growth a step. Less than half a kilobyte a step is none.
pub fn growth(bytes: f64) -> String {
    match bytes {
        b if b.abs() < 500.0 => "0".to_owned(),
        b if b.abs() < 1e5 => format!("{}{:.1} kB", sign(b), b.abs() / 1e3),
        b => format!("{}{:.1} MB", sign(b), b.abs() / 1e6),
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
    fn numbers_read_as_in_the_published_table() {
        assert_eq!(gigabytes(20_308_000_000), "20.308 GB");
        assert_eq!(change(20_308_000_000, 13_283_000_000), "−7.025 GB");
        assert_eq!(change(13_283_000_000, 14_290_000_000), "+1.007 GB");
        assert_eq!(change(5, 5), "±0");
        assert_eq!(change(1_000_000, 996_000), "−4 kB");
        assert_eq!(growth(103_812_000.0), "+103.8 MB");
        assert_eq!(growth(-2_400.0), "−2.4 kB");
        assert_eq!(growth(12.0), "0");
        assert_eq!(seconds(0.0352), "35.2 ms");
    }
}
