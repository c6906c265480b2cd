//! What a query asks for, with what is meant where it says nothing. The server and the page without
//! one read queries each in their own way, and mean the same.

use api::compare::{CurvesAsked, CurvesWanted, RUNS};
use trace::device::DeviceIdx;
use trace::span::Span;
use trace::trace::{DeviceTrace, Series};
use trace::units::EventIdx;

/// How many allocations a page has, unless the query says it.
pub const PAGE: usize = 100;

/// Into how many parts a window of curves is divided, unless the query says it.
const PARTS: u32 = 600;

/// Why a query is no question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misasked {
    /// The device has no such event.
    #[error("event {event} on {}", .device.name())]
    NoEvent {
        /// The event that is asked for.
        event: u32,
        /// The device.
        device: DeviceIdx,
    },
    /// The device has no such block.
    #[error("block {block} on {}", .device.name())]
    NoBlock {
        /// The block that is asked for.
        block: u32,
        /// The device.
        device: DeviceIdx,
    },
    /// A span that ends before it begins.
    #[error("the first moment comes after the second one")]
    Backwards,
    /// Too few or too many runs.
    #[error("a comparison takes 2 to 8 runs, not {0}: `runs=BASELINE,OTHER,…`")]
    Runs(usize),
    /// Too few or too many parts.
    #[error("parts: 1 to 2000")]
    Parts,
    /// A window without one of its ends, or without room between them.
    #[error("a window has two ends: `from` below `to`")]
    Window,
}

/// An event of a device.
///
/// # Errors
/// [`Misasked::NoEvent`].
pub fn event(device: &DeviceTrace, event: u32) -> Result<EventIdx, Misasked> {
    match event < device.events.len() {
        true => Ok(EventIdx(event)),
        false => Err(Misasked::NoEvent {
            event,
            device: device.device,
        }),
    }
}

/// A moment: the last event unless given; none in a recording of a state alone.
///
/// # Errors
/// As [`event`].
pub fn moment(device: &DeviceTrace, at: Option<u32>) -> Result<Option<EventIdx>, Misasked> {
    let at = at.or(device.events.len().checked_sub(1));
    at.map(|at| event(device, at)).transpose()
}

/// The numbers of two moments, the first of which is not the later one.
///
/// # Errors
/// [`Misasked::Backwards`].
pub fn in_order(from: u32, to: u32) -> Result<(u32, u32), Misasked> {
    match from <= to {
        true => Ok((from, to)),
        false => Err(Misasked::Backwards),
    }
}

/// What lies between two moments.
///
/// # Errors
/// As [`in_order`] and [`event`].
pub fn between(device: &DeviceTrace, from: u32, to: u32) -> Result<Span<EventIdx>, Misasked> {
    let (from, to) = in_order(from, to)?;
    Ok(Span::new(event(device, from)?, event(device, to)?))
}

/// The runs of a comparison, the baseline first.
///
/// # Errors
/// [`Misasked::Runs`].
pub fn compared<T>(runs: Vec<T>) -> Result<Vec<T>, Misasked> {
    match RUNS.contains(&runs.len()) {
        true => Ok(runs),
        false => Err(Misasked::Runs(runs.len())),
    }
}

/// Curves of a comparison.
///
/// # Errors
/// [`Misasked::Parts`] and [`Misasked::Window`].
pub fn curves(asked: &CurvesAsked) -> Result<CurvesWanted, Misasked> {
    let parts = asked.parts.unwrap_or(PARTS);
    if !(1..=CurvesWanted::MAX_PARTS).contains(&parts) {
        return Err(Misasked::Parts);
    }
    let window = match (asked.from, asked.to) {
        (None, None) => None,
        (Some(from), Some(to)) if from < to && from.is_finite() && to.is_finite() => {
            Some((from, to))
        }
        _ => return Err(Misasked::Window),
    };
    Ok(CurvesWanted {
        align: asked.align,
        series: asked.series.unwrap_or(Series::Allocated),
        pair: asked.pair,
        window,
        parts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::testing::{TraceBuilder, block_of};
    use trace::units::Bytes;

    #[test]
    fn a_moment_is_the_last_one_unless_it_is_said() {
        let state = TraceBuilder::default().finish();
        let mut builder = TraceBuilder::default();
        for mib in [1, 2] {
            builder.alloc(block_of(Bytes::mib(mib)));
        }
        let mut trace = builder.finish();
        let device = &mut trace.devices[0];
        let last = device.events.len() - 1;
        assert_eq!(moment(device, None), Ok(Some(EventIdx(last))));
        assert_eq!(moment(device, Some(0)), Ok(Some(EventIdx(0))));
        assert_eq!(moment(&state.devices[0], None), Ok(None));
        assert_eq!(between(device, 1, 0), Err(Misasked::Backwards));
        device.device = DeviceIdx::PINNED;
        let missing = between(device, 0, last + 1).unwrap_err();
        let expected = format!("event {} on pinned host memory", last + 1);
        assert_eq!(missing.to_string(), expected);
    }

    #[test]
    fn curves_have_a_window_with_two_ends() {
        let of = |from, to, parts| {
            let asked = CurvesAsked {
                from,
                to,
                parts,
                ..CurvesAsked::default()
            };
            curves(&asked).map(|wanted| (wanted.window, wanted.parts))
        };
        assert_eq!(of(None, None, None), Ok((None, 600)));
        assert_eq!(
            of(Some(1.0), Some(2.5), Some(2000)),
            Ok((Some((1.0, 2.5)), 2000))
        );
        for (from, to) in [
            (1.0, 1.0),
            (2.0, 1.0),
            (0.0, f64::INFINITY),
            (f64::NAN, 1.0),
        ] {
            assert_eq!(of(Some(from), Some(to), None), Err(Misasked::Window));
        }
        assert_eq!(of(Some(1.0), None, None), Err(Misasked::Window));
        for parts in [0, 2001] {
            assert_eq!(of(None, None, Some(parts)), Err(Misasked::Parts));
        }
    }
}
