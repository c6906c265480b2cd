//! Comparisons as Markdown.

use super::{Links, Names, code, escaped};
use crate::benched;
use crate::cards::{capital, categories, place_among, word};
use api::compare::{Against, Comparison};
use std::fmt::Write;
use trace::compare::gate::{Outcome, Verdicts, Weight};
use trace::compare::sites::SiteDelta;
use trace::compare::words::{change_or_same, common_peaks, growth_by, growth_with_error, signed};
use trace::compare::{Difference, Leaks, leak_places};
use trace::trace::Series;

/// Sites listed.
const SITES: usize = 3;

/// Devices listed besides the one that is shown.
const DEVICES: usize = 15;

/// What is said where nothing can be compared.
const NO_DEVICE: &str = "No device in both that holds memory or events.\n";

/// The text of the link to the page.
const OPEN: &str = "Open the comparison";

/// A comparison: what differs, headline numbers, the top sites, and the picture and link if they
/// exist.
pub fn comparison(comparison: &Comparison, links: Option<&Links>) -> String {
    let base = &comparison.runs[0].name;
    let mut out = String::new();
    for (run, against) in comparison.runs[1..].iter().zip(&comparison.against) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "### GPU memory: {} → {}\n",
            escaped(base),
            escaped(&run.name)
        );
        out += &one(against);
        out.push('\n');
    }
    if let Some(links) = links {
        out += &links.lines(OPEN, Names::Told);
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// Only the headline numbers, without any name or place: a project may be private while its pull
/// request is public.
pub fn numbers_only(comparison: &Comparison, links: Option<&Links>) -> String {
    let mut out = "### GPU memory\n\n".to_owned();
    for (at, against) in comparison.against.iter().enumerate() {
        if comparison.against.len() > 1 {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "Run {} against the baseline:\n", at + 1);
        }
        match against.difference() {
            Some(difference) => {
                let _ = writeln!(out, "**{}**\n", verdict(against, difference));
                out += &of_bench(against);
                out += &others(against, |other| {
                    format!("peak allocated {}", peak_change(other, Series::Allocated))
                });
                out += &numbers(against, difference);
            }
            None => {
                out += &of_bench(against);
                out += NO_DEVICE;
            }
        }
        out.push('\n');
    }
    if let Some(links) = links {
        out += &links.lines(OPEN, Names::Withheld);
    }
    out
}

/// The answer of a gate, then the comparison.
pub fn gate(comparison: &Comparison, verdicts: &Verdicts) -> String {
    let (mark, word) = match verdicts.outcome {
        Outcome::Pass => ("✅", "Pass"),
        Outcome::Regression => ("❌", "Regression"),
        Outcome::CannotTell => ("❔", "Cannot tell"),
    };
    let mut out = format!("**{mark} {word}:** {}\n\n", escaped(&verdicts.reason));
    let warnings = verdicts
        .findings
        .iter()
        .filter(|f| f.weight == Weight::Warn);
    for finding in warnings {
        let _ = writeln!(out, "- ⚠️ {}", escaped(&finding.detail));
    }
    if !out.ends_with("\n\n") {
        out.push('\n');
    }
    out + &self::comparison(comparison, None)
}

fn one(against: &Against) -> String {
    let Some(difference) = against.difference() else {
        return of_bench(against) + NO_DEVICE;
    };
    let mut out = format!(
        "**{}**: {}\n\n",
        verdict(against, difference),
        escaped(&difference.headline)
    );
    out += &others(against, |other| escaped(&other.headline));
    for condition in &difference.conditions {
        let _ = writeln!(
            out,
            "- differs: {}: {} → {}; {}",
            escaped(&condition.name),
            code(&condition.base),
            code(&condition.new),
            escaped(&condition.meaning)
        );
    }
    if !difference.conditions.is_empty() {
        out.push('\n');
    }
    out + &numbers(against, difference) + &leaks(difference) + &sites(difference)
}

/// What a bench knows of the runs, where no headline tells it.
fn of_bench(against: &Against) -> String {
    let lines = benched::known(&against.gate);
    let lines: String = lines
        .map(|finding| format!("- {}\n", escaped(&finding.detail)))
        .collect();
    match lines.is_empty() {
        true => lines,
        false => lines + "\n",
    }
}

/// What became of each place that leaks, where there are several.
fn leaks(difference: &Difference) -> String {
    let lines = leak_places::lines(difference).into_iter();
    let lines: String = lines
        .map(|line| format!("- {}\n", escaped(&line)))
        .collect();
    match lines.is_empty() {
        true => lines,
        false => format!("\nLeaks, by place:\n\n{lines}"),
    }
}

/// What became of the device that is shown, with its name where there are several.
fn verdict(against: &Against, difference: &Difference) -> String {
    let word = word(difference.change);
    match against.devices.len() {
        0 | 1 => capital(word),
        _ => format!("{}: {word}", capital(&difference.new.device.name())),
    }
}

/// The other devices that are not the same, a line each, with what `told` says of them.
fn others(against: &Against, told: impl Fn(&Difference) -> String) -> String {
    let lines = against.others().take(DEVICES).map(|other| {
        let (name, word) = (other.new.device.name(), word(other.change));
        format!("- {name}: {word}: {}\n", told(other))
    });
    let lines: String = lines.collect();
    match against.others().count() {
        0 => lines,
        n if n > DEVICES => format!("{lines}- … {} more\n\n", n - DEVICES),
        _ => lines + "\n",
    }
}

fn numbers(against: &Against, difference: &Difference) -> String {
    let name = match against.devices.len() {
        0 | 1 => String::new(),
        _ => format!("{} ", difference.new.device.name()),
    };
    let mut out = format!("| {name}| baseline | new | change |\n|---|--:|--:|--:|\n");
    let (base, new) = (&difference.base, &difference.new);
    let whole = match common_peaks(difference) {
        Some((over, [before, after])) => {
            let change = change_or_same(after.0 as f64 - before.0 as f64);
            let _ = writeln!(
                out,
                "| peak allocated{over} | {before} | {after} | {change} |"
            );
            "peak allocated, all steps"
        }
        None => "peak allocated",
    };
    for (name, series) in [
        (whole, Series::Allocated),
        ("peak reserved", Series::Reserved),
    ] {
        let delta = difference.series(series);
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {} |",
            base.peak(delta.base.peak),
            new.peak(delta.new.peak),
            peak_change(difference, series)
        );
    }
    if let (Some(before), Some(after)) = (base.growth, new.growth) {
        let change = growth_by(before, after).map_or_else(|| "–".to_owned(), change_or_same);
        let [before, after] = [before, after].map(growth_with_error);
        let _ = writeln!(out, "| growth a step | {before} | {after} | {change} |");
    }
    let _ = writeln!(
        out,
        "| leaks | {} | {} | |",
        base.leaks.told(),
        new.leaks.told()
    );
    for [name, base, new] in against.other_leaks(Leaks::told) {
        let _ = writeln!(out, "| leaks, {name} | {base} | {new} | |");
    }
    match categories(difference).as_str() {
        "" => {}
        line => out += &format!("\n{line}.\n"),
    }
    out
}

/// How much the peak of a series changed; a bound, where only that is known.
fn peak_change(difference: &Difference, series: Series) -> String {
    let bounded = difference.bounded_change(series);
    bounded.unwrap_or_else(|| change_or_same(difference.series(series).peak as f64))
}

fn sites(difference: &Difference) -> String {
    // Where the peaks differ, that difference is told in parts. They add up to it.
    let of_the_peaks = difference.peaks_differ();
    let by = |site: &SiteDelta| match of_the_peaks {
        true => site.at_peak,
        false => site.by(),
    };
    let mut sites: Vec<&SiteDelta> = difference.sites.iter().collect();
    sites.sort_by_key(|site| std::cmp::Reverse(by(site).unsigned_abs()));
    let shown = sites.iter().take(SITES).filter(|site| by(site) != 0);
    let lines: Vec<String> = shown
        .map(|site| {
            let place = place_among(site, &difference.sites);
            format!("- {} {}\n", signed(by(site) as f64), code(&place))
        })
        .collect();
    let total = difference.sites.len() + difference.sites_left_out as usize;
    let more = total - lines.len();
    let at_the_peak = if of_the_peaks { " at the peak" } else { "" };
    let untold = difference.told_rest().into_iter();
    let untold: String = untold.map(|line| format!("- {line}\n")).collect();
    let out = lines.concat() + &untold;
    match (total, more) {
        (0, _) => {
            let same = match difference.sites_same {
                0 => "No allocation site is in both".to_owned(),
                1 => "The only allocation site holds the same".to_owned(),
                n => format!("All {n} allocation sites hold the same"),
            };
            let gap = if out.is_empty() { "" } else { "\n" };
            format!("\n{same}.\n{gap}{out}")
        }
        (_, 0) => format!("\nDifferences{at_the_peak}, by stack:\n\n{out}"),
        _ => format!("\nLargest differences{at_the_peak}, by stack:\n\n{out}- … {more} more\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::compare::ComparedRun;
    use api::routes;
    use trace::compare::gate::Limits;
    use trace::compare::profile::Profile;
    use trace::device::DeviceIdx;
    use trace::trace::Trace;

    /// A pass on two devices that hold so many MiB.
    fn run(held: [u64; 2]) -> Profile {
        let of = |mib: u64| {
            let text = format!("a alloc {mib}MiB at f m.py:1\nb alloc 512B at f m.py:1");
            trace::testing::trace(&text)
        };
        let [mut trace, other]: [Trace; 2] = held.map(of);
        let device = other.devices.into_iter().next();
        trace
            .devices
            .extend(device.map(|device| trace::trace::DeviceTrace {
                device: DeviceIdx(1),
                ..device
            }));
        Profile::of(&trace)
    }

    /// What a ring that wrapped tells of a peak is a bound, and so is the change.
    #[test]
    fn the_change_of_a_peak_that_is_a_bound_is_one_too() {
        let check = |held: [u64; 2], wrapped: [bool; 2], expected: &str| {
            let [base, new] = held.map(|mib| run([mib, mib]));
            let mut against = Against::of(&base, &new, &Limits::default());
            for difference in &mut against.devices {
                [difference.base.wrapped, difference.new.wrapped] = wrapped;
            }
            let text = numbers(&against, &against.devices[0]);
            let line = text.lines().find(|line| line.contains("peak allocated"));
            let change = line.unwrap_or_default().trim_end_matches([' ', '|']);
            assert_eq!(change.rsplit(" | ").next(), Some(expected), "{text}");
        };
        check([100, 400], [false, false], "+300 MiB");
        check([100, 400], [true, false], "at most +300 MiB");
        check([100, 400], [false, true], "at least +300 MiB");
        check([400, 100], [true, false], "at least 300 MiB less");
        check([400, 100], [false, true], "at most 300 MiB less");
        check([400, 400], [true, false], "same or less");
        check([400, 400], [false, true], "same or more");
        check([100, 400], [true, true], "not known");
    }

    /// A slope within its own error is no growth, here as on the page.
    #[test]
    fn growth_within_its_error_is_told_as_none() {
        use trace::growth::Growth;
        let (base, new) = (run([168, 168]), run([96, 184]));
        let mut against = Against::of(&base, &new, &Limits::default());
        let growth = |slope: f64, error: f64| {
            let growth = Growth {
                slope,
                error: Some(error),
                from_step: 5,
                steps: 20,
            };
            Some(growth)
        };
        let mut check = |base: Option<Growth>, new: Option<Growth>, expected: &str| {
            for difference in &mut against.devices {
                (difference.base.growth, difference.new.growth) = (base, new);
            }
            let text = numbers(&against, &against.devices[0]);
            let line = text.lines().find(|line| line.contains("growth"));
            assert_eq!(line.unwrap_or_default(), expected);
        };
        check(
            growth(117e3, 200e3),
            growth(-1048576.0, 1024.0),
            "| growth a step | 0 B ± 195 KiB | −1.00 MiB ± 1.00 KiB | −1.00 MiB |",
        );
        check(
            growth(2048.0, 0.0),
            growth(5e3, 6e3),
            "| growth a step | 2.00 KiB | 0 B ± 5.86 KiB | −2.00 KiB |",
        );
        check(
            growth(2048.0, 0.0),
            growth(2048.0, 0.0),
            "| growth a step | 2.00 KiB | 2.00 KiB | same |",
        );
        // Two ends have no error.
        let error = None;
        let two_ends = growth(9e7, 0.0).map(|growth| Growth { error, ..growth });
        let expected = "| growth a step | 2.00 KiB | – | – |";
        check(growth(2048.0, 0.0), two_ends, expected);
    }

    /// What the allocator rounds up further has no row.
    #[test]
    fn what_no_row_tells_is_told_beside_sites_that_are_the_same() {
        let profile = run([168, 168]);
        let mut against = Against::of(&profile, &profile, &Limits::default());
        let difference = &mut against.devices[0];
        assert_eq!(
            sites(difference),
            "\nThe only allocation site holds the same.\n"
        );
        (difference.unsplit, difference.unsplit_at_end) = (134 << 20, 26 << 20);
        let line = "- +134 MiB, at the end +26.0 MiB, of the same requests, rounded up or not \
                    split by the allocator\n";
        let text = sites(difference);
        assert_eq!(
            text.split_once("the same.\n\n").map(|(_, rest)| rest),
            Some(line)
        );
    }

    #[test]
    fn of_several_devices_the_worse_one_is_shown_and_the_others_are_named() {
        let (base, new) = (run([168, 168]), run([96, 184]));
        let named = |name: &str| ComparedRun {
            id: None,
            name: name.to_owned(),
            torch: None,
        };
        let compared = Comparison {
            runs: vec![named("base"), named("new")],
            against: vec![Against::of(&base, &new, &Limits::default())],
        };
        let text = comparison(&compared, None);
        for says in [
            "**Device 1: worse**: peak +16.0 MiB",
            "- device 0: better: peak −72.0 MiB",
            "| device 1 | baseline | new | change |",
        ] {
            assert!(text.contains(says), "{says}: {text}");
        }
        let links = Links {
            page: routes::COMPARE_PAGE.to_owned(),
            image: None,
        };
        let text = numbers_only(&compared, Some(&links));
        let line = "- device 0: better: peak allocated −72.0 MiB\n";
        assert!(text.contains(line) && !text.contains("m.py"), "{text}");
    }
}
