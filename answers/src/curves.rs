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

/// The range of a run on the axis; `None` if it has no such device. `base` is the rhythm of the
/// baseline, `None` for the baseline itself.
pub fn domain(
    decoded: &Decoded,
    base: Option<&Rhythm>,
    wanted: CurvesWanted,
) -> Option<(f64, f64)> {
    let device = decoded.trace.devices.get(wanted.pair as usize)?;
    Some(alignment(device, base, wanted.align, &[]).domain())
}

fn alignment<'d>(
    device: &'d DeviceTrace,
    base: Option<&Rhythm>,
    align: Align,
    anchors: &[(f64, f64)],
) -> Alignment<'d> {
    let alignment = Alignment::new(device, align, anchors);
    match align {
        Align::Step => alignment.beginning_at(begins_at(device, base)),
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

/// The curve of one run; empty if it has no such device. `base` as in [`domain`].
///
/// # Errors
/// [`Stopped`].
pub fn curve(
    decoded: &Decoded,
    base: Option<&Rhythm>,
    wanted: CurvesWanted,
    window: (f64, f64),
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
    let alignment = alignment(device, base, wanted.align, &anchors);
    let (extents, events) = alignment.curve(wanted.series, window, n);
    let levels = |extent: trace::tiles::Extent| [extent.min.0, extent.max.0, extent.last.0];
    watch.look(0)?;
    let first = begins_at(device, base);
    Ok(Curve {
        parts: extents
            .into_iter()
            .map(|extent| extent.map(levels))
            .collect(),
        steps: events[..n]
            .iter()
            .map(|&event| Some(first + step_at(device, event)?))
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
