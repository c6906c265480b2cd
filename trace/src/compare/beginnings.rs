//! Recordings that begin at different steps of a program whose steps have no numbers.
//!
//! What a run holds when its recording begins says which of two began later. Where memory grows
//! with each step, only one shift lays the steps of both over one another so that their levels
//! agree. Where nothing grows, each shift is as good as any other.

use super::noise::{self, LEVEL_FLOOR};
use super::profile::DeviceProfile;
use crate::growth::Growth;
use crate::leaks::{self, Verdict};
use crate::steps::StepLevels;
use crate::trace::{DeviceTrace, Series};
use crate::units::Bytes;

/// How the beginnings of two recordings lie to one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Beginnings {
    /// At the same step, as far as anything says.
    #[default]
    Together,
    /// One begins so many steps after the other: where the first steps of each lie.
    Apart([u32; 2]),
    /// At different steps, and nothing tells at which.
    Unknown,
    /// The same, but the steps of one run are all alike: its peak is that of any of them.
    OneIsFlat,
}

/// Steps that must agree: two may do so by chance.
const LEAST: usize = 3;
/// How many pairs of steps are looked at. Only a file that was made to be slow has more.
const MAX_PAIRS: usize = 1 << 22;
/// A first step that makes so many more blocks than the second is the first of its program: it
/// makes the optimizer's state.
const FIRST_MAKES: f64 = 1.02;

/// The levels of a run: what it holds when the recording begins, its peak, and those of its whole
/// steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    start: Bytes,
    peak: Bytes,
    steps: Vec<Stage>,
}

#[derive(Clone, Copy, Debug)]
struct Stage {
    peak: Bytes,
    end: Bytes,
}

impl Course {
    fn of_profile(device: &DeviceProfile) -> Course {
        let summary = &device.summary[Series::Allocated as usize];
        let whole = &device.steps[..device.whole_steps as usize];
        Course {
            start: summary.start,
            peak: summary.peak,
            steps: whole
                .iter()
                .map(|step| Stage {
                    peak: step.peak,
                    end: step.end,
                })
                .collect(),
        }
    }

    /// The same of a device that has no profile: for curves.
    pub fn of_device(device: &DeviceTrace) -> Course {
        let summary = &device.summary[Series::Allocated as usize];
        let whole = leaks::whole_steps(device).len();
        let levels = crate::steps::levels(device).into_iter().take(whole);
        let stage = |levels: StepLevels| Stage {
            peak: levels.allocated_peak,
            end: levels.allocated_end,
        };
        Course {
            start: summary.start,
            peak: summary.peak,
            steps: levels.map(stage).collect(),
        }
    }

    /// Whether its steps have one peak and one end, as far as levels of one program differ.
    fn is_flat(&self) -> bool {
        let alike = |level: fn(&Stage) -> Bytes| {
            let levels = self.steps.iter().map(level);
            let (low, high) = (levels.clone().min(), levels.max());
            low.zip(high).is_some_and(|(low, high)| {
                noise::delta(low, high).unsigned_abs() <= noise::level(low, high, Bytes::ZERO).0
            })
        };
        self.steps.len() >= LEAST && alike(|step| step.peak) && alike(|step| step.end)
    }

    /// By how many steps `later` begins after this run, where that lays the levels of both over one
    /// another.
    fn until(&self, later: &Course) -> Option<u32> {
        let mut left = MAX_PAIRS;
        let mut agrees = |by: usize| {
            let early = self.steps.get(by..).unwrap_or_default();
            agree(early, &later.steps, &mut left)
        };
        if agrees(0) {
            return None;
        }
        let mut found = (1..self.steps.len()).filter(|&by| agrees(by));
        let by = found.next()?;
        let is_sure = found.next().is_none() && left > 0;
        is_sure.then_some(by as u32)
    }
}

/// Whether memory grows with the steps of both, and their levels are the same. Where the later
/// recording begins within a step, its first peak may be missing.
fn agree(early: &[Stage], late: &[Stage], left: &mut usize) -> bool {
    let n = early.len().min(late.len());
    if n < LEAST {
        return false;
    }
    let rise = noise::delta(late[0].end, late[n - 1].end).unsigned_abs() / (n as u64 - 1);
    let tolerance = LEVEL_FLOOR.0.min(rise / 4);
    let close = |a: Bytes, b: Bytes| noise::delta(a, b).unsigned_abs() < tolerance;
    early.iter().zip(late).enumerate().all(|(at, (a, b))| {
        *left = left.saturating_sub(1);
        *left > 0 && close(a.end, b.end) && (at == 0 || close(a.peak, b.peak))
    })
}

/// Where the first steps of two runs lie, if levels tell it.
pub(super) fn places([base, new]: [&Course; 2]) -> Option<[u32; 2]> {
    if !starts_differ([base, new]) {
        return None;
    }
    match base.start < new.start {
        true => Some([0, base.until(new)?]),
        false => Some([new.until(base)?, 0]),
    }
}

/// Whether one holds more when its recording begins than levels of one program differ by.
fn starts_differ([base, new]: [&Course; 2]) -> bool {
    let by = noise::delta(base.start, new.start).unsigned_abs();
    by > noise::level(base.peak, new.peak, Bytes::ZERO).0
}

/// What two runs hold when their recordings begin, if one begins later in its program: no ring
/// that wrapped, and not the same.
pub(super) fn starts(runs: [&DeviceProfile; 2]) -> Option<[Bytes; 2]> {
    let [base, new] = runs.map(Course::of_profile);
    let is_cut = runs.iter().any(|run| run.wrapped || run.events == 0);
    (!is_cut && starts_differ([&base, &new])).then_some([base.start, new.start])
}

impl Beginnings {
    /// Of two runs whose steps have no numbers in common.
    pub fn of(runs: [&DeviceProfile; 2]) -> Beginnings {
        let [base, new] = runs.map(Course::of_profile);
        if let Some(places) = places([&base, &new]) {
            return Beginnings::Apart(places);
        }
        // A ring that wrapped begins anywhere, and that is told otherwise.
        let is_known = runs.iter().any(|run| run.wrapped || run.whole_steps == 0)
            || !starts_differ([&base, &new])
            || runs.into_iter().all(makes_more_first)
            || are_recorded_alike([&base, &new])
            || !runs.into_iter().any(grows);
        if is_known {
            return Beginnings::Together;
        }
        let mut flat = runs.into_iter().zip([&base, &new]);
        match flat.any(|(run, course)| !grows(run) && course.is_flat()) {
            true => Beginnings::OneIsFlat,
            false => Beginnings::Unknown,
        }
    }
}

/// Whether both hold something when they begin, and last as long: one script recorded both, and
/// what it holds is what was changed.
fn are_recorded_alike([base, new]: [&Course; 2]) -> bool {
    let nothing = noise::level(base.peak, new.peak, Bytes::ZERO);
    base.steps.len() == new.steps.len() && base.start.min(new.start) > nothing
}

fn makes_more_first(run: &DeviceProfile) -> bool {
    match &run.steps[..] {
        [first, second, ..] => f64::from(first.allocs) > f64::from(second.allocs) * FIRST_MAKES,
        _ => true,
    }
}

/// Whether memory grows with each step.
pub(super) fn grows(run: &DeviceProfile) -> bool {
    is_growth(run.growth, run.leaks.verdict)
}

/// Whether this is growth with each step.
pub(super) fn is_growth(growth: Option<Growth>, verdict: Verdict) -> bool {
    let rises = growth.is_some_and(|growth| growth.slope > 0.0 && !is_flat(growth));
    rises || verdict == Verdict::Leak
}

/// Whether it is no more than its error, or than nothing.
pub(super) fn is_flat(growth: Growth) -> bool {
    let least = LEVEL_FLOOR.0 as f64 / 16.0;
    growth.slope.abs() <= growth.error.unwrap_or(0.0).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts with so many MiB; peaks are higher than ends by 50 MiB.
    fn course(start: u64, ends: &[u64]) -> Course {
        let stage = |&end: &u64| Stage {
            peak: Bytes::mib(end + 50),
            end: Bytes::mib(end),
        };
        Course {
            start: Bytes::mib(start),
            peak: Bytes::mib(ends.iter().max().copied().unwrap_or(0) + 50),
            steps: ends.iter().map(stage).collect(),
        }
    }

    #[test]
    fn steps_lie_where_levels_agree() {
        let check = |base: (u64, &[u64]), new: (u64, &[u64]), expected: Option<[u32; 2]>| {
            let [a, b] = [base, new].map(|(start, ends)| course(start, ends));
            assert_eq!(places([&a, &b]), expected, "{base:?} {new:?}");
            let turned = expected.map(|[a, b]| [b, a]);
            assert_eq!(places([&b, &a]), turned, "{new:?} {base:?}");
        };
        let whole: &[u64] = &[110, 120, 130, 140, 150, 160];
        check((0, whole), (125, &[130, 140, 150, 160]), Some([0, 2]));
        check((0, whole), (125, &[130, 140, 150, 160, 170]), Some([0, 2]));
        // Of only two steps that agree, nobody knows.
        check((0, whole), (145, &[150, 160]), None);
        check((0, whole), (145, &[150, 160, 170, 180]), None);
        // Levels of another program.
        check((0, whole), (125, &[133, 143, 153, 163]), None);
        // Nothing grows: any shift will do.
        check((0, &[110; 6]), (105, &[110; 4]), None);
        // Both begin with the same.
        check((105, whole), (105, &[130, 140, 150, 160]), None);
        // The model was made before the recording began.
        check((0, whole), (100, whole), None);
        // Something is kept in each third step.
        let seldom: &[u64] = &[110, 110, 130, 130, 130, 150, 150, 150, 170, 170];
        check((0, seldom), (125, &[130, 130, 150, 150, 150]), Some([0, 3]));
    }
}
