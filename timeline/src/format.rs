//! Numbers in the form that people read: sizes, counts, rates, durations, ages.
//!
//! Sizes have binary prefixes (`trace::units::Bytes` prints them). A rounded value has its exact
//! value in its tooltip ([`exact_bytes`], [`count`]), and is written exactly where the reader asks
//! for exact [`Numbers`].

use std::time::Duration;
use trace::units::numbers::Numbers;
use trace::units::size::all_digits;
use trace::units::{Bytes, grouped};

/// A moment, milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// The time from `earlier` to here; zero when `earlier` is later (clocks disagree).
    pub fn since(self, earlier: UnixMillis) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// `1.50 GiB`.
pub fn bytes(size: u64) -> String {
    Bytes(size).to_string()
}

/// `1,610,612,736 B`.
pub fn exact_bytes(size: u64) -> String {
    all_digits(size)
}

/// Both: `1.50 GiB (1,610,612,736 B)`, or once where they are the same.
pub fn with_exact(size: u64) -> String {
    let (rounded, exact) = (bytes(size), exact_bytes(size));
    match size < 1024 || rounded == exact {
        true => rounded,
        false => format!("{rounded} ({exact})"),
    }
}

/// `412 MiB/s`.
pub fn rate(bytes_per_second: u64) -> String {
    format!("{}/s", Bytes(bytes_per_second))
}

/// All digits, in groups of three: `11,034,567`.
pub fn count(n: u64) -> String {
    grouped(n)
}

/// Three significant digits with a decimal prefix: `982`, `3.70 k`, `11.0 M`.
pub fn short_count(n: u64) -> String {
    const PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];
    if Numbers::written() == Numbers::Exact {
        return count(n);
    }
    let mut value = n as f64;
    let mut prefix = 0;
    while value >= 999.5 && prefix + 1 < PREFIXES.len() {
        value /= 1000.0;
        prefix += 1;
    }
    let digits = match value {
        _ if prefix == 0 => return count(n),
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", PREFIXES[prefix])
}

/// `1 step`, `12 steps`.
pub fn plural(n: u64, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {noun}{s}", count(n))
}

/// `1 holds`, `12 hold`: how many do something.
pub fn doing(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// `820 ms`, `4.2 s`, `3 min 05 s`, `2 h 04 min`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..=9 => format!("{:.1} s", (time.as_millis() / 100) as f64 / 10.0),
        10..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// How long ago; the older, the less exact: `just now`, `5 min ago`, `3 h ago`, `6 d ago`, then the
/// date. As an exact number, the date with its time.
pub fn age(then: UnixMillis, now: UnixMillis) -> String {
    const DAY: u64 = 86_400;
    if Numbers::written() == Numbers::Exact {
        return date_time(then);
    }
    match now.since(then).as_secs() {
        s @ ..60 if s < 45 => "just now".to_owned(),
        s @ ..3600 => format!("{} min ago", (s / 60).max(1)),
        s @ ..DAY => format!("{} h ago", s / 3600),
        s if s < 30 * DAY => format!("{} d ago", s / DAY),
        _ => date(then),
    }
}

/// The day in UTC: `2026-11-20`.
pub fn date(moment: UnixMillis) -> String {
    let (year, month, day) = civil_date(moment.0.div_euclid(86_400_000));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Day, hour and minute in UTC: `2026-11-20 14:05 UTC`.
pub fn date_time(moment: UnixMillis) -> String {
    let minutes = moment.0.rem_euclid(86_400_000) / 60_000;
    format!(
        "{} {:02}:{:02} UTC",
        date(moment),
        minutes / 60,
        minutes % 60
    )
}

/// Whole percent, rounded down so that 100 % means done.
pub fn percent(part: u64, whole: u64) -> u8 {
    if whole == 0 {
        return 100;
    }
    (u128::from(part.min(whole)) * 100 / u128::from(whole)) as u8
}

/// Year, month and day of a day count since 1970-01-01, in the proleptic Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last day of its year. Eras have 400
/// years, and all eras have 146,097 days.
fn civil_date(days: i64) -> (i64, u8, u8) {
    let from_march_of_year_0 = days + 719_468;
    let era = from_march_of_year_0.div_euclid(146_097);
    let day_of_era = from_march_of_year_0.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    } as u8;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_and_shortened() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1,000");
        assert_eq!(count(11_034_567), "11,034,567");
        assert_eq!(exact_bytes(1_610_612_736), "1,610,612,736 B");
        assert_eq!(short_count(982), "982");
        assert_eq!(short_count(999), "999");
        assert_eq!(short_count(3_700), "3.70 k");
        assert_eq!(short_count(999_600), "1.00 M");
        assert_eq!(short_count(11_034_567), "11.0 M");
        assert_eq!(plural(1, "step"), "1 step");
        assert_eq!(plural(1200, "step"), "1,200 steps");
        assert_eq!(doing(1, "site differs", "sites differ"), "1 site differs");
        assert_eq!(doing(1200, "holds", "hold"), "1,200 hold");
        assert_eq!(doing(0, "holds", "hold"), "0 hold");
    }

    #[test]
    fn exact_numbers_have_all_their_digits() {
        let now = UnixMillis(1_795_183_500_000);
        let told = || [bytes(1_610_612_736), short_count(3_700), age(now, now)].join("; ");
        assert_eq!(told(), "1.50 GiB; 3.70 k; just now");
        assert_eq!(with_exact(1_610_612_736), "1.50 GiB (1,610,612,736 B)");
        assert_eq!(with_exact(512), "512 B");
        Numbers::Exact.write();
        assert_eq!(told(), "1,610,612,736 B; 3,700; 2026-11-20 14:05 UTC");
        assert_eq!(rate(1_610_612_736), "1,610,612,736 B/s");
        assert_eq!(with_exact(1_610_612_736), "1,610,612,736 B");
        Numbers::Rounded.write();
    }

    #[test]
    fn durations_lose_digits_as_they_grow() {
        let check = |ms: u64, expected: &str| {
            assert_eq!(duration(Duration::from_millis(ms)), expected);
        };
        check(0, "0 ms");
        check(820, "820 ms");
        check(4_290, "4.2 s");
        check(9_999, "9.9 s");
        check(59_999, "59 s");
        check(185_000, "3 min 05 s");
        check(7_440_000, "2 h 04 min");
    }

    #[test]
    fn ages_end_in_a_date() {
        let now = UnixMillis(1_795_183_200_000); // 2026-11-20 14:00 UTC
        let check = |seconds_ago: i64, expected: &str| {
            assert_eq!(age(UnixMillis(now.0 - seconds_ago * 1000), now), expected);
        };
        check(-5, "just now");
        check(44, "just now");
        check(45, "1 min ago");
        check(3599, "59 min ago");
        check(3600, "1 h ago");
        check(86_399, "23 h ago");
        check(6 * 86_400, "6 d ago");
        check(30 * 86_400, "2026-10-21");
    }

    #[test]
    fn dates_follow_the_calendar() {
        let check = |ms: i64, expected: &str| assert_eq!(date(UnixMillis(ms)), expected);
        check(0, "1970-01-01");
        check(-1, "1969-12-31");
        check(951_782_400_000, "2000-02-29");
        check(951_868_800_000, "2000-03-01");
        check(1_795_183_200_000, "2026-11-20");
        check(4_107_542_399_000, "2100-02-28");
        check(4_107_542_400_000, "2100-03-01");
        assert_eq!(
            date_time(UnixMillis(1_795_183_500_000)),
            "2026-11-20 14:05 UTC"
        );
    }

    #[test]
    fn a_hundred_percent_means_done() {
        assert_eq!(percent(999, 1000), 99);
        assert_eq!(percent(1000, 1000), 100);
        assert_eq!(percent(1001, 1000), 100);
        assert_eq!(percent(0, 0), 100);
    }
}
