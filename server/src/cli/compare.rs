//! `tidemark compare`: what changed between runs.

use super::categories::OwnArgs;
use super::output::{json, print};
use super::reading::{apart, trace_of};
use super::{CliError, files};

use crate::system::table::Table;
use answers::cards::{self, markdown, place_among, word};
use api::compare::{Against, ComparedRun, Comparison};
use clap::Args;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use trace::compare::gate::Limits;
use trace::compare::profile::Profile;
use trace::compare::sites::{Matched, SiteChange, SiteDelta};
use trace::compare::words::{change_or_same, common_peaks, growth_by, growth_with_error};
use trace::compare::{Difference, Leaks, StepSide, leak_places};
use trace::naming::Rules;
use trace::trace::Series;
use trace::units::grouped;

const EXAMPLES: &str = "\
Examples:
  tidemark compare before.pickle after.pickle
  tidemark compare base.pickle p3.pickle p4.pickle --json | jq '.against[].devices[0].headline'
  tidemark compare before.pickle after.pickle --markdown >> \"$GITHUB_STEP_SUMMARY\"

Exit status: 0 when every file was compared, 2 when one could not be read, 1 when Tidemark failed
on one. If the baseline cannot be read, nothing is compared; otherwise the other files still are.";

/// Rows printed of long tables.
const SITES_SHOWN: usize = 20;
/// Steps printed at each end of a long list.
const STEPS_SHOWN: usize = 5;

/// Options of `tidemark compare`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// The baseline: a snapshot
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// What to compare with it
    #[arg(required = true, value_name = "NEW")]
    new: Vec<PathBuf>,
    /// Print one JSON document; sizes in bytes
    #[arg(long)]
    json: bool,
    /// Print Markdown, for a pull request or a job summary
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Use this loop's iterations as the steps, as `tidemark inspect` names it
    #[arg(long, value_name = "LEVEL")]
    steps: Option<String>,
    #[command(flatten)]
    own: OwnArgs,
}

/// Prints what differs, for the files that can be read.
///
/// # Errors
/// [`CliError::BadInput`] for the baseline, [`CliError::Several`] for others that cannot be read.
pub fn compare(args: &CompareArgs) -> Result<(), CliError> {
    let all = || std::iter::once(&args.base).chain(&args.new);
    files::input_once(all().map(PathBuf::as_path))?;
    let (level, rules) = (args.steps.as_deref(), args.own.rules()?);
    let (comparison, unread) =
        compare_files(&args.base, &args.new, &Limits::default(), level, &rules)?;
    if !comparison.against.is_empty() {
        print(&shown(args, &comparison))?;
    }
    match unread.is_empty() {
        true => Ok(()),
        false => Err(CliError::Several(unread)),
    }
}

fn shown(args: &CompareArgs, comparison: &Comparison) -> String {
    if args.json {
        json(comparison)
    } else if args.markdown {
        markdown::comparison(comparison, None)
    } else {
        text(comparison)
    }
}

/// Reads the files one after the other, keeps only their profiles, and compares them. With the
/// comparison come the errors of those that could not be compared with the baseline.
///
/// # Errors
/// Why the baseline cannot be read.
pub(super) fn compare_files(
    base: &Path,
    new: &[PathBuf],
    limits: &Limits,
    level: Option<&str>,
    rules: &Rules,
) -> Result<(Comparison, Vec<CliError>), CliError> {
    files::all_open(std::iter::once(base))?;
    let opens = |path: &Path| files::all_open(std::iter::once(path));
    let mut unread: Vec<CliError> = new.iter().filter_map(|path| opens(path).err()).collect();
    let mut comparison = Comparison {
        runs: Vec::new(),
        against: Vec::new(),
    };
    // A baseline may take long to read, and there may be nothing to compare it with.
    if unread.len() == new.len() {
        return Ok((comparison, unread));
    }
    unread.clear();
    let base_profile = profile(base, level, rules)?;
    comparison.runs.push(compared(base, &base_profile));
    for path in new {
        match apart(path, || profile(path, level, rules)) {
            Ok(profile) => {
                comparison.runs.push(compared(path, &profile));
                let against = Against::of(&base_profile, &profile, limits);
                comparison.against.push(against);
            }
            Err(error) => unread.push(error),
        }
    }
    Ok((comparison, unread))
}

fn profile(path: &Path, level: Option<&str>, rules: &Rules) -> Result<Profile, CliError> {
    Ok(Profile::of(&trace_of(path, level, rules)?))
}

fn compared(path: &Path, profile: &Profile) -> ComparedRun {
    let name = path.file_name().unwrap_or(path.as_os_str());
    ComparedRun {
        id: None,
        name: name.to_string_lossy().into_owned(),
        torch: profile.torch.clone(),
    }
}

fn text(comparison: &Comparison) -> String {
    let base = &comparison.runs[0];
    let mut out = String::new();
    for (run, against) in comparison.runs[1..].iter().zip(&comparison.against) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{} → {}", base.name, run.name);
        if against.devices.is_empty() {
            out += "  no device in both that holds memory or events\n";
        }
        for difference in &against.devices {
            if against.devices.len() > 1 {
                let (old, new) = (difference.base.device, difference.new.device);
                let _ = writeln!(out, "\n  device {old} → device {new}");
            }
            out += &device(difference);
        }
        out += &beside(against);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// Leaks of memory that no pair of devices covers.
fn beside(against: &Against) -> String {
    let rows = against.leaks_beside(Leaks::told_where).into_iter();
    rows.map(|[name, base, new]| format!("\n  {name} leaks: {base} → {new}\n"))
        .collect()
}

fn device(difference: &Difference) -> String {
    let mut out = format!("\n  {}: {}\n", word(difference.change), difference.headline);
    if !difference.conditions.is_empty() {
        out += "\n  other differences between the runs\n";
    }
    for condition in &difference.conditions {
        let (name, base, new) = (&condition.name, &condition.base, &condition.new);
        let _ = writeln!(out, "    {name}: {base} → {new}; {}", condition.meaning);
    }
    out + &levels(difference) + &categories(difference) + &steps(difference) + &sites(difference)
}

fn levels(difference: &Difference) -> String {
    let mut table = Table::new(["", "base", "new", "change"]);
    if let Some((over, [before, after])) = common_peaks(difference) {
        table.row([
            format!("allocated peak{over}"),
            before.to_string(),
            after.to_string(),
            change_or_same(after.0 as f64 - before.0 as f64),
        ]);
    }
    let (base, new) = (&difference.base, &difference.new);
    for series in [Series::Allocated, Series::Requested, Series::Reserved] {
        let delta = difference.series(series);
        let bounded = difference.bounded_change(series);
        table.row([
            format!("{} peak", series.name()),
            base.peak(delta.base.peak),
            new.peak(delta.new.peak),
            bounded.unwrap_or_else(|| change_or_same(delta.peak as f64)),
        ]);
        table.row([
            format!("{} end", series.name()),
            delta.base.end.to_string(),
            delta.new.end.to_string(),
            change_or_same(delta.end as f64),
        ]);
    }
    let growth = |side: &trace::compare::Side| {
        let growth = side.growth.map(growth_with_error);
        growth.unwrap_or_else(|| "–".to_owned())
    };
    let more = match (base.growth, new.growth) {
        (Some(base), Some(new)) => growth_by(base, new).map_or_else(String::new, change_or_same),
        _ => String::new(),
    };
    table.row(["growth a step".to_owned(), growth(base), growth(new), more]);
    let places = leak_places::lines(difference).into_iter();
    let places: String = places.map(|line| format!("      {line}\n")).collect();
    format!(
        "\n{}    leaks: {} → {}\n{places}",
        table.print("    "),
        base.leaks.told_where(),
        new.leaks.told_where()
    )
}

/// What the peaks consist of, if that differs.
fn categories(difference: &Difference) -> String {
    match cards::categories(difference) {
        none if none.is_empty() => String::new(),
        differ => format!("    {differ}\n"),
    }
}

fn steps(difference: &Difference) -> String {
    let steps = &difference.steps;
    if steps.is_empty() {
        return "\n  steps: none in either\n".to_owned();
    }
    let mut table = Table::new([
        "step",
        "base peak",
        "new peak",
        "base end",
        "new end",
        "change of end",
    ]);
    let cell = |side: &Option<StepSide>, level: fn(&StepSide) -> String| {
        side.as_ref().map_or_else(|| "–".to_owned(), level)
    };
    for (at, step) in steps.iter().enumerate() {
        let n = steps.len();
        if n > 2 * STEPS_SHOWN + 1 && (STEPS_SHOWN..n - STEPS_SHOWN).contains(&at) {
            if at == STEPS_SHOWN {
                let more = format!("… {} more", n - 2 * STEPS_SHOWN);
                table.row([
                    more,
                    String::new(),
                    String::new(),
                    String::new(),
                    String::new(),
                    String::new(),
                ]);
            }
            continue;
        }
        let change = match (&step.base, &step.new) {
            (Some(base), Some(new)) => change_or_same(new.end.0 as f64 - base.end.0 as f64),
            _ => String::new(),
        };
        let name = step.base.as_ref().or(step.new.as_ref());
        table.row([
            name.map_or_else(String::new, |side| side.name.clone()),
            cell(&step.base, StepSide::told_peak),
            cell(&step.new, StepSide::told_peak),
            cell(&step.base, |s| s.end.to_string()),
            cell(&step.new, |s| s.end.to_string()),
            change,
        ]);
    }
    format!("\n  steps (allocated)\n{}", table.print("    "))
}

fn sites(difference: &Difference) -> String {
    let same = grouped(u64::from(difference.sites_same));
    let untold = difference.told_rest().into_iter();
    let untold: String = untold.map(|line| format!("    {line}\n")).collect();
    if difference.sites.is_empty() {
        let same = match difference.sites_same {
            0 => "no site is in both".to_owned(),
            1 => "the only site is the same".to_owned(),
            _ => format!("all {same} sites are the same"),
        };
        return format!("\n  by stack: {same}\n{untold}");
    }
    // A site's own peak need not be at the peak of the run.
    let mut table = Table::new([
        "change of own peak",
        "at the run's peak",
        "of end",
        "",
        "base peak",
        "new peak",
    ]);
    let mut places = vec![String::new()];
    for site in difference.sites.iter().take(SITES_SHOWN) {
        let level = |side: &Option<trace::compare::sites::SiteSide>| {
            side.as_ref()
                .map_or_else(|| "–".to_owned(), |side| side.peak.to_string())
        };
        table.row([
            change_or_same(site.peak as f64),
            change_or_same(site.at_peak as f64),
            change_or_same(site.at_end as f64),
            change_word(site).to_owned(),
            level(&site.base),
            level(&site.new),
        ]);
        places.push(shortened(place_among(site, &difference.sites)));
    }
    let total = difference.sites.len() + difference.sites_left_out as usize;
    let more = match total.saturating_sub(SITES_SHOWN) {
        0 => String::new(),
        more => format!("    … {more} more\n"),
    };
    let lines = table.print("    ");
    let lines = lines.lines().zip(&places);
    let lines: String = lines
        .map(|(line, place)| format!("{line}  {place}\n"))
        .collect();
    let sites = if total == 1 {
        "site differs"
    } else {
        "sites differ"
    };
    format!("\n  by stack: {total} {sites}, {same} the same\n{lines}{more}{untold}")
}

/// Long C++ names would fill the screen.
fn shortened(place: String) -> String {
    const MOST: usize = 72;
    match place.chars().count() > MOST {
        true => place.chars().take(MOST - 1).chain(['…']).collect(),
        false => place,
    }
}

fn change_word(site: &SiteDelta) -> &'static str {
    match (site.change, site.matched) {
        (SiteChange::Grown, Matched::Inferred) => "grown (inferred)",
        (SiteChange::Shrunk, Matched::Inferred) => "shrunk (inferred)",
        (SiteChange::Grown, _) => "grown",
        (SiteChange::Shrunk, _) => "shrunk",
        (SiteChange::Shifted, _) => "at the peak only",
        (SiteChange::New, _) => "new",
        (SiteChange::Gone, _) => "gone",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::compare::StepDelta;
    use trace::units::{Bytes, EventIdx};

    /// A ring that wrapped tells only that its peaks were no lower, and so does a step without its
    /// beginning.
    #[test]
    fn what_is_a_bound_is_told_as_one() {
        let run = |mib: u64| {
            let text = format!("a alloc {mib}MiB at f m.py:1\nb alloc 512B at f m.py:1");
            Profile::of(&trace::testing::trace(&text))
        };
        let mut against = Against::of(&run(100), &run(400), &Limits::default());
        let difference = &mut against.devices[0];
        assert!(levels(difference).contains("400 MiB  +300 MiB\n"));
        difference.new.wrapped = true;
        let text = levels(difference);
        let line = "allocated peak  100 MiB  at least 400 MiB  at least +300 MiB\n";
        assert!(text.contains(line), "{text}");
        let side = |is_cut: bool| {
            let side = StepSide {
                name: "step 1".to_owned(),
                first_event: EventIdx(0),
                end_event: EventIdx(9),
                peak: Bytes::mib(860),
                end: Bytes::mib(7),
                reserved_end: Bytes::ZERO,
                work: Bytes::ZERO,
                allocs: 0,
                is_cut,
            };
            Some(side)
        };
        difference.steps = vec![StepDelta {
            index: 1,
            base: side(false),
            new: side(true),
        }];
        let text = steps(difference);
        assert!(text.contains("  860 MiB  at least 860 MiB  "), "{text}");
    }

    #[test]
    fn what_no_row_tells_is_told_beside_sites_that_are_the_same() {
        let profile = Profile::of(&trace::testing::trace("a alloc 8MiB at f m.py:1"));
        let mut against = Against::of(&profile, &profile, &Limits::default());
        let difference = &mut against.devices[0];
        difference.unsplit = 134 << 20;
        let text = sites(difference);
        let says = "the only site is the same\n    +134 MiB of the same requests, ";
        assert!(text.contains(says), "{text}");
    }
}
