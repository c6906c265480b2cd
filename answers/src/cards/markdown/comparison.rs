//! Comparisons as Markdown.

use super::{Links, Names, code, escaped};
use crate::cards::{capital, categories, place, word};
use api::compare::{Against, Comparison};
use std::fmt::Write;
use trace::compare::gate::{Outcome, Verdicts, Weight};
use trace::compare::headline::signed;
use trace::compare::sites::SiteDelta;
use trace::compare::{Difference, Leaks};
use trace::growth::Growth;
use trace::trace::Series;
use trace::units::Bytes;

/// Sites listed.
const SITES: usize = 3;

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
                let _ = writeln!(out, "**{}**\n", capital(word(difference.change)));
                out += &numbers(against, difference);
            }
            None => out += "No device in both that holds memory or events.\n",
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
        return "No device in both that holds memory or events.\n".to_owned();
    };
    let mut out = format!(
        "**{}**: {}\n\n",
        capital(word(difference.change)),
        escaped(&difference.headline)
    );
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
    out + &numbers(against, difference) + &sites(difference)
}

fn numbers(against: &Against, difference: &Difference) -> String {
    let mut out = "| | baseline | new | change |\n|---|--:|--:|--:|\n".to_owned();
    let (base, new) = (&difference.base, &difference.new);
    for (name, series) in [
        ("peak allocated", Series::Allocated),
        ("peak reserved", Series::Reserved),
    ] {
        let delta = difference.series(series);
        let change = signed(delta.peak as f64);
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {change} |",
            base.peak(delta.base.peak),
            new.peak(delta.new.peak)
        );
    }
    if let (Some(before), Some(after)) = (base.growth, new.growth) {
        let change = signed(after.slope - before.slope);
        let [before, after] = [before, after].map(with_error);
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

fn with_error(growth: Growth) -> String {
    match growth.error {
        Some(error) if error >= 0.5 => {
            format!("{} ± {}", signed(growth.slope), Bytes(error.round() as u64))
        }
        _ => signed(growth.slope),
    }
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
        .map(|site| format!("- {} {}\n", signed(by(site) as f64), code(&place(site))))
        .collect();
    let total = difference.sites.len() + difference.sites_left_out as usize;
    let more = total - lines.len();
    let at_the_peak = if of_the_peaks { " at the peak" } else { "" };
    let out = lines.concat();
    match (total, more) {
        (0, _) => format!(
            "\nAll {} allocation sites hold the same.\n",
            difference.sites_same
        ),
        (_, 0) => format!("\nDifferences{at_the_peak}, by stack:\n\n{out}"),
        _ => format!("\nLargest differences{at_the_peak}, by stack:\n\n{out}- … {more} more\n"),
    }
}
