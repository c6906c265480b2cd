//! What to look at in a training that runs: memory that grows from step to step, and a peak that
//! nears the limit. [`trainings`] makes one row of all processes of a training, [`judgements`]
//! keeps what was found until the next report.

pub mod judgements;
pub mod trainings;

use api::live::{LiveRun, LiveStep};
use timeline::format::plural;
use trace::growth::Growth;
use trace::units::Bytes;

/// How many of the last steps are judged.
pub const JUDGED: u64 = 200;
/// With fewer steps nothing is said of growth: a warm-up grows too.
const FEWEST: usize = 20;
/// The rise over the judged steps that is worth a word: this many bytes, and this share of what is
/// allocated.
const SMALLEST_RISE: u64 = 8 << 20;
const SMALLEST_SHARE: f64 = 0.005;
/// A peak above this share of the limit is close to it.
const CLOSE: f64 = 0.95;

/// What a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// Memory that grows from step to step.
    Growth,
    /// A peak that nears the limit.
    Limit,
}

/// What somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What it is about.
    pub concern: Concern,
    /// A sentence.
    pub said: String,
}

/// What somebody should look at. `steps` are the last ones, oldest first.
pub fn warnings(run: &LiveRun, steps: &[LiveStep]) -> Vec<Warning> {
    let about = |concern| move |said| Warning { concern, said };
    let growth = growing(steps).map(|slope| {
        let rise = Bytes(slope.round() as u64);
        let judged = plural(steps_between(steps) + 1, "step");
        let said = format!("Memory grows by {rise} a step ({judged})");
        match steps_left(run.limit, steps, slope) {
            Some(left) => {
                let left = plural(left, "step");
                format!("{said}: at this rate it is full in about {left}.")
            }
            None => format!("{said}."),
        }
    });
    let last = steps.last().copied().unwrap_or_default();
    let close = run.limit.filter(|limit| is_close(last.peak, *limit));
    let close = close.map(|limit| {
        let peak = last.peak;
        format!("The peak ({peak}) is close to what the process may use ({limit}).")
    });
    let growth = growth.map(about(Concern::Growth));
    growth
        .into_iter()
        .chain(close.map(about(Concern::Limit)))
        .collect()
}

fn is_close(peak: Bytes, limit: Bytes) -> bool {
    peak.get() as f64 >= CLOSE * limit.get() as f64
}

/// How many steps lie between the first report and the last: a report may have been dropped, or a
/// program may report only some of its steps.
fn steps_between(steps: &[LiveStep]) -> u64 {
    let ends = steps.first().zip(steps.last());
    ends.map_or(0, |(first, last)| last.step.saturating_sub(first.step))
}

/// Bytes a step, if memory surely grows: in all of these steps and in their second half, so that
/// memory that has settled is not blamed for how it began.
fn growing(steps: &[LiveStep]) -> Option<f64> {
    if steps.len() < FEWEST {
        return None;
    }
    let ends: Vec<u64> = steps.iter().map(|step| step.allocated.get()).collect();
    let surely = |ends: &[u64]| {
        let growth = Growth::of(ends)?;
        let least = growth.slope - growth.error?;
        (least > 0.0).then_some(growth.slope)
    };
    let slope = surely(&ends)?;
    surely(&ends[ends.len() / 2..])?;
    let rise = slope * ends.len() as f64;
    let now = ends.last().copied().unwrap_or(0) as f64;
    let is_worth_a_word = rise >= SMALLEST_RISE as f64 && rise >= SMALLEST_SHARE * now;
    // From report to report, and from step to step.
    let by_step = slope * (ends.len() - 1) as f64 / steps_between(steps).max(1) as f64;
    is_worth_a_word.then_some(by_step)
}

/// After how many steps the peak reaches the limit. The peak is the highest since the program
/// began: where it has not moved in these steps, it does not say how much they need.
fn steps_left(limit: Option<Bytes>, steps: &[LiveStep], slope: f64) -> Option<u64> {
    let (first, last) = steps.first().zip(steps.last())?;
    let room = limit?.get().checked_sub(last.peak.get())?;
    (last.peak > first.peak).then(|| (room as f64 / slope).round() as u64)
}

/// At most so many of the steps: of neighbours, the one with the highest *allocated*.
pub fn thinned(steps: &[LiveStep], most: usize) -> Vec<LiveStep> {
    let each = steps.len().div_ceil(most.max(1)).max(1);
    let highest = |part: &[LiveStep]| part.iter().copied().max_by_key(|step| step.allocated);
    steps.chunks(each).filter_map(highest).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use api::labels::Labels;

    const MIB: u64 = 1 << 20;

    fn steps(allocated: impl IntoIterator<Item = u64>) -> Vec<LiveStep> {
        let mut peak = Bytes::ZERO;
        let numbered = (1..).zip(allocated);
        numbered
            .map(|(step, mib)| {
                let allocated = Bytes(mib * MIB);
                peak = peak.max(allocated);
                LiveStep {
                    step,
                    allocated,
                    peak,
                    ..LiveStep::default()
                }
            })
            .collect()
    }

    pub fn run(limit: Option<u64>) -> LiveRun {
        LiveRun {
            id: "live_a".parse().unwrap(),
            name: "a".to_owned(),
            rank: None,
            ranks: None,
            job: None,
            device: 0,
            limit: limit.map(|mib| Bytes(mib * MIB)),
            labels: Labels::default(),
            created_ms: 0,
            seen_ms: 0,
            outcome: None,
            what: None,
            capture: None,
            last: None,
            warnings: Vec::new(),
            training: None,
        }
    }

    #[test]
    fn what_grows_and_what_is_close_is_said() {
        let check = |limit, allocated: Vec<u64>, expected: &[&str]| {
            let found = warnings(&run(limit), &steps(allocated));
            let said: Vec<&str> = found.iter().map(|warning| warning.said.as_str()).collect();
            assert_eq!(said, expected);
        };
        check(
            None,
            (0..40).map(|n| 1000 + 2 * n).collect(),
            &["Memory grows by 2.00 MiB a step (40 steps)."],
        );
        check(
            Some(2078),
            (0..40).map(|n| 1000 + 2 * n).collect(),
            &[
                "Memory grows by 2.00 MiB a step (40 steps): at this rate it is full in about 500 \
             steps.",
            ],
        );
        // Too few steps, a level, noise, and a warm-up that has settled.
        check(None, (0..19).map(|n| 1000 + 2 * n).collect(), &[]);
        check(None, vec![1000; 100], &[]);
        check(None, (0..100).map(|n| 1000 + n * 7919 % 13).collect(), &[]);
        check(None, (0..100).map(|n| 1000 + 20 * n.min(10)).collect(), &[]);
        check(None, Vec::new(), &[]);
        let close = "The peak (960 MiB) is close to what the process may use (1000 MiB).";
        check(Some(1000), vec![960; 5], &[close]);
    }

    #[test]
    fn growth_is_told_by_the_step_and_not_by_the_report() {
        let mut every_tenth = steps((0..40).map(|n| 1000 + 20 * n));
        for step in &mut every_tenth {
            step.step *= 10;
        }
        let found = warnings(&run(Some(2780)), &every_tenth);
        assert_eq!(
            found[0].said,
            "Memory grows by 2.00 MiB a step (391 steps): at this rate it is full in about 500 \
             steps."
        );
    }

    #[test]
    fn a_peak_of_long_ago_does_not_say_when_memory_is_full() {
        let mut after_a_peak = steps((0..40).map(|n| 1000 + 2 * n));
        for step in &mut after_a_peak {
            step.peak = Bytes(1900 * MIB);
        }
        let found = warnings(&run(Some(2078)), &after_a_peak);
        assert_eq!(found[0].said, "Memory grows by 2.00 MiB a step (40 steps).");
    }

    #[test]
    fn thinning_keeps_the_highest() {
        let all = steps((0..1000).map(|n| if n == 501 { 9000 } else { n }));
        let few = thinned(&all, 100);
        assert_eq!(few.len(), 100);
        assert!(few.iter().any(|step| step.step == 502));
        assert_eq!(thinned(&all[..3], 100), all[..3]);
        assert_eq!(thinned(&[], 100), []);
    }
}
