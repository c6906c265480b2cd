//! Runs over one axis: the curve of each.

use crate::decoded::Decoded;
use api::compare::{Curve, CurvesWanted};
use trace::compare::curves::{Align, Alignment};
use trace::compare::pairs::{Load, together};
use trace::compare::phase::{Rhythm, begins_at};
use trace::trace::DeviceTrace;
use trace::watch::{Stopped, Watch};

/// What is wanted of each of the compared runs, the baseline first: `pair` becomes the position of
/// its device.
pub fn of_each(runs: &[Vec<Load>], wanted: CurvesWanted) -> Vec<CurvesWanted> {
    let devices = together(runs, wanted.pair as usize).into_iter();
    let of_device = |device: Option<usize>| CurvesWanted {
        pair: device.map_or(u32::MAX, |device| device as u32),
        ..wanted
    };
    devices.map(of_device).collect()
}

/// Where a run lies on the axis.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// Its first and last place.
    pub domain: (f64, f64),
    /// Where its first step lies among the baseline's steps.
    pub begins: i64,
}

/// Where a run lies on the axis; `None` if it has no such device. `base` is the rhythm of the
/// baseline, `None` for the baseline itself.
pub fn placed(decoded: &Decoded, base: Option<&Rhythm>, wanted: CurvesWanted) -> Option<Placed> {
    let device = decoded.trace.devices.get(wanted.pair as usize)?;
    let begins = begins_at(device, base);
    let domain = alignment(device, begins, wanted.align, &[]).domain();
    Some(Placed { domain, begins })
}

/// The axis of all runs.
#[derive(Clone, Debug)]
pub struct Axis {
    /// First and last place of any run.
    pub whole: (f64, f64),
    /// Where the first step of each run lies.
    pub begins: Vec<u32>,
}

impl Axis {
    /// That of these runs. Where one begins before the baseline, all lie so much later that no step
    /// has a number below 0.
    pub fn of(runs: &[Option<Placed>], align: Align) -> Axis {
        let there = || runs.iter().flatten();
        let first = there().map(|run| run.begins).min().unwrap_or(0).min(0);
        let whole = there().map(|run| run.domain);
        let whole = whole.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let later = match align {
            Align::Step => -first as f64,
            Align::Event | Align::Time => 0.0,
        };
        let whole = whole.map(|(from, to)| (from + later, to + later));
        let begins = |run: &Option<Placed>| run.map_or(0, |run| (run.begins - first) as u32);
        Axis {
            whole: whole.filter(|(from, to)| from < to).unwrap_or((0.0, 1.0)),
            begins: runs.iter().map(begins).collect(),
        }
    }
}

fn alignment<'d>(
    device: &'d DeviceTrace,
    begins: i64,
    align: Align,
    anchors: &[(f64, f64)],
) -> Alignment<'d> {
    let alignment = Alignment::new(device, align, anchors);
    match align {
        Align::Step => alignment.beginning_at(begins),
        Align::Event | Align::Time => alignment,
    }
}

/// The rhythm of a run's steps, to which those of other runs are aligned; none without such a
/// device.
///
/// # Errors
/// [`Stopped`].
pub fn rhythm(
    decoded: &Decoded,
    wanted: CurvesWanted,
    watch: Watch<'_>,
) -> Result<Rhythm, Stopped> {
    let device = decoded.trace.devices.get(wanted.pair as usize);
    let rhythm = device.map(|device| Rhythm::of(device, &decoded.trace.stacks, watch));
    Ok(rhythm.transpose()?.unwrap_or_default())
}

/// The curve of one run, whose first step lies at `begins`; empty if it has no such device. `base`
/// as in [`placed`].
///
/// # Errors
/// [`Stopped`].
pub fn curve(
    decoded: &Decoded,
    base: Option<&Rhythm>,
    wanted: CurvesWanted,
    window: (f64, f64),
    begins: u32,
    watch: Watch<'_>,
) -> Result<Curve, Stopped> {
    watch.look(0)?;
    let n = wanted.parts as usize;
    let Some(device) = decoded.trace.devices.get(wanted.pair as usize) else {
        return Ok(Curve {
            parts: vec![None; n],
            events: vec![0; n + 1],
            steps: vec![None; n],
        });
    };
    let anchors = match (wanted.align, base) {
        (Align::Step, Some(base)) => {
            let rhythm = Rhythm::of(device, &decoded.trace.stacks, watch)?;
            rhythm.over(base, watch)?
        }
        _ => Vec::new(),
    };
    watch.look(0)?;
    let alignment = alignment(device, begins.into(), wanted.align, &anchors);
    let (extents, events) = alignment.curve(wanted.series, window, n);
    let levels = |extent: trace::tiles::Extent| [extent.min.0, extent.max.0, extent.last.0];
    watch.look(0)?;
    Ok(Curve {
        parts: extents
            .into_iter()
            .map(|extent| extent.map(levels))
            .collect(),
        steps: events[..n]
            .iter()
            .map(|&event| Some(begins + step_at(device, event)?))
            .collect(),
        events,
    })
}

fn step_at(device: &DeviceTrace, event: u32) -> Option<u32> {
    let after = device
        .steps
        .partition_point(|step| step.events.start().0 <= event);
    let at = after.checked_sub(1)?;
    (event < device.steps[at].events.end().0).then_some(at as u32)
}
