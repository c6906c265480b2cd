//! The root-cause chain: patches are added one after the other, and it shows which part each one
//! removes.

use api::bench::{BenchResult, BenchRow, GROWS, shows_growth};
use api::ids::BenchRowId;
use trace::units::Bytes;

/// The quantity that the chain shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Growth, bytes a step.
    Growth,
    /// Allocated memory at the end, for runs in which nothing grows but something is kept without
    /// need.
    End,
    /// The peak.
    Peak,
}

impl Measure {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Measure::Growth => "growth a step",
            Measure::End => "allocated at the end",
            Measure::Peak => "peak allocated",
        }
    }

    /// Whether growth is the quantity, by the baseline.
    fn grows(baseline: &BenchResult) -> bool {
        shows_growth(baseline) && baseline.growth_per_step > GROWS
    }

    /// Its value in a row, bytes.
    pub fn of(self, result: &BenchResult) -> f64 {
        match self {
            Measure::Growth => result.growth_per_step.max(0.0),
            Measure::End => result.allocated_end.0 as f64,
            Measure::Peak => result.peak_allocated.0 as f64,
        }
    }
}

/// One patch of the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Ids of all patches so far.
    pub patches: Vec<String>,
    /// The value before it, bytes.
    pub before: f64,
    /// The value with it, bytes.
    pub after: f64,
    /// The rows without and with it, if both have a recording.
    pub recorded: Option<(BenchRowId, BenchRowId)>,
}

/// A chain, from the baseline to what is left.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// The quantity that it shows.
    pub measure: Measure,
    /// The baseline's value, bytes.
    pub start: f64,
    /// What each patch changes.
    pub links: Vec<Link>,
    /// Sets of patches that have not run, or not as long as the baseline.
    pub missing: Vec<Vec<String>>,
    /// The fewest and the most steps of its runs, if they differ.
    pub steps: Option<(u32, u32)>,
}

/// The chain of a configuration's rows; `None` without a baseline, or if no set of the chain has
/// run.
///
/// Levels are compared after as many steps as the baseline has, at least one. Growth is compared
/// wherever the steps show it.
pub fn chain(rows: &[&BenchRow], sets: &[Vec<String>]) -> Option<Chain> {
    let result = |patches: &[String]| {
        let row = rows.iter().copied().find(|row| row.patches == patches)?;
        let result = row.result.as_ref();
        Some((row, result.filter(|result| result.crash.is_none())?))
    };
    let (mut last, baseline) = result(&[])?;
    let as_long = |result: &BenchResult| match Measure::grows(baseline) {
        true => shows_growth(result),
        false => result.steps_run == baseline.steps_run && result.steps_run > 0,
    };
    let known = |set: &[String]| result(set).filter(|(_, result)| as_long(result));
    let links_of: Vec<(&Vec<String>, (&BenchRow, &BenchResult))> = sets
        .iter()
        .filter_map(|set| Some((set, known(set)?)))
        .collect();
    let missing = sets.iter().filter(|set| known(set).is_none());
    let missing: Vec<Vec<String>> = missing.cloned().collect();
    let measure = measure(baseline, links_of.iter().map(|(_, (_, result))| *result));
    let start = measure.of(baseline);
    let mut before = start;
    let mut links = Vec::with_capacity(links_of.len());
    let mut steps = (baseline.steps_run, baseline.steps_run);
    for (set, (row, result)) in links_of {
        let after = measure.of(result);
        let recorded = last.run.is_some() && row.run.is_some();
        links.push(Link {
            patches: set.clone(),
            before,
            after,
            recorded: recorded.then(|| (last.id.clone(), row.id.clone())),
        });
        steps = (steps.0.min(result.steps_run), steps.1.max(result.steps_run));
        (before, last) = (after, row);
    }
    (!links.is_empty()).then_some(Chain {
        measure,
        start,
        links,
        missing,
        steps: (steps.0 < steps.1).then_some(steps),
    })
}

fn measure<'a>(
    baseline: &BenchResult,
    mut patched: impl Iterator<Item = &'a BenchResult>,
) -> Measure {
    const MATTERS: Bytes = Bytes::mib(1);
    if Measure::grows(baseline) {
        return Measure::Growth;
    }
    match patched.any(|row| row.allocated_end + MATTERS < baseline.allocated_end) {
        true => Measure::End,
        false => Measure::Peak,
    }
}

/// A bar of the waterfall, in percent of the width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Where it begins.
    pub x: f64,
    /// Its width; a patch that changes nothing is a line.
    pub width: f64,
}

impl Chain {
    /// The value after the last patch.
    pub fn rest(&self) -> f64 {
        self.links.last().map_or(self.start, |link| link.after)
    }

    /// The bar of the whole: from nothing to `value`.
    pub fn total(&self, value: f64) -> Bar {
        self.between(0.0, value)
    }

    /// The bar of what a patch removes or adds.
    pub fn bar(&self, link: &Link) -> Bar {
        self.between(link.before.min(link.after), link.before.max(link.after))
    }

    fn between(&self, low: f64, high: f64) -> Bar {
        const LINE: f64 = 0.4;
        let values = self.links.iter().flat_map(|link| [link.before, link.after]);
        let largest = values.fold(self.start, f64::max).max(1.0);
        let x = low / largest * 100.0;
        let width = ((high - low) / largest * 100.0).max(LINE);
        Bar {
            x: x.min(100.0 - width),
            width,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::explain::tests::row;
    use super::*;
    use api::bench::BenchStatus;

    fn sets(names: &[&[&str]]) -> Vec<Vec<String>> {
        let set = |set: &&[&str]| set.iter().map(|&id| id.to_owned()).collect();
        names.iter().map(set).collect()
    }

    #[test]
    fn each_patch_removes_what_those_before_it_left() {
        let base = row(&[], BenchStatus::Baseline, 21_000_000_000, 100e6);
        let p3 = row(&["p3"], BenchStatus::RootCauseFix, 14_000_000_000, 33e6);
        let both = row(
            &["p3", "reset"],
            BenchStatus::RootCauseFix,
            10_000_000_000,
            0.0,
        );
        let sets = sets(&[&["p3"], &["p3", "reset"], &["p3", "reset", "key"]]);
        let chain = chain(&[&p3, &base, &both], &sets).unwrap();
        assert_eq!((chain.measure, chain.start), (Measure::Growth, 100e6));
        let parts: Vec<f64> = chain.links.iter().map(|l| l.before - l.after).collect();
        assert_eq!(parts, [67e6, 33e6]);
        assert_eq!(chain.rest(), 0.0);
        assert_eq!(chain.missing, [sets[2].clone()]);
        let bar = chain.bar(&chain.links[0]);
        assert_eq!((bar.x, bar.width), (33.0, 67.0));
        let rest = chain.total(chain.rest());
        assert!(rest.x == 0.0 && rest.width < 1.0);
    }

    #[test]
    fn what_does_not_grow_is_measured_by_what_it_keeps() {
        let base = row(&[], BenchStatus::Baseline, 3_000_000_000, 0.0);
        let clear = row(&["clear"], BenchStatus::RootCauseFix, 2_000_000_000, 0.0);
        let one = sets(&[&["clear"]]);
        let kept = chain(&[&base, &clear], &one).unwrap();
        assert_eq!(kept.measure, Measure::End);
        assert_eq!(chain(&[&base], &one), None, "nothing to compare with");
        assert_eq!(chain(&[&clear], &one), None, "no baseline");
    }

    #[test]
    fn runs_of_other_lengths_are_left_out_or_told() {
        let check = |(done, before): (u32, f64), patched: u32, expected: Option<Measure>| {
            let mut base = row(&[], BenchStatus::OutOfMemory, 3_000_000_000, before);
            base.result.as_mut().unwrap().steps_run = done;
            let mut p3 = row(&["p3"], BenchStatus::LowersPeak, 2_000_000_000, 33e6);
            p3.result.as_mut().unwrap().steps_run = patched;
            let chain = chain(&[&base, &p3], &sets(&[&["p3"]]));
            let told = chain.as_ref().map(|chain| (chain.measure, chain.steps));
            let steps = (done != patched).then_some((done.min(patched), done.max(patched)));
            assert_eq!(
                told,
                expected.map(|measure| (measure, steps)),
                "{done} {patched}"
            );
        };
        check((2, 0.0), 8, None);
        check((2, 100e6), 8, None);
        check((19, 0.0), 100, None);
        check((0, 0.0), 0, None);
        check((2, 0.0), 2, Some(Measure::End));
        check((19, 100e6), 100, Some(Measure::Growth));
        check((100, 100e6), 100, Some(Measure::Growth));
        check((100, 100e6), 2, None);
    }

    #[test]
    fn a_patch_that_adds_is_drawn_to_the_other_side() {
        let base = row(&[], BenchStatus::Baseline, 3_000_000_000, 1e6);
        let worse = row(&["w"], BenchStatus::NotReproducible, 3_000_000_000, 4e6);
        let chain = chain(&[&base, &worse], &sets(&[&["w"]])).unwrap();
        let bar = chain.bar(&chain.links[0]);
        assert_eq!((bar.x, bar.width), (25.0, 75.0));
    }
}
