//! Exact values at one place of the axis.

use super::Overlay;
use crate::format;
use crate::ticks;
use trace::compare::curves::Align;

/// The values at one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Readout {
    /// The beginning of the part on the axis.
    pub at: f64,
    /// The place in words.
    pub place: String,
    /// One for each run that is drawn.
    pub rows: Vec<Row>,
    /// The highest level of the compared run minus that of the baseline.
    pub difference: Option<i64>,
}

/// One run at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its position among the runs.
    pub run: usize,
    /// Lowest and highest level of the part, bytes; `None` where the run has no events.
    pub levels: Option<(u64, u64)>,
    /// The first event of the part.
    pub event: u32,
}

/// The values at a place of the axis; `None` if nothing was drawn there.
pub fn readout(overlay: &Overlay<'_>, at: f64) -> Option<Readout> {
    let part = overlay.part_at(at)?;
    let row = |&run: &usize| {
        let curve = overlay.curves.runs.get(run)?;
        let levels = curve.parts.get(part)?.map(|[min, max, _]| (min, max));
        let event = *curve.events.get(part)?;
        Some(Row { run, levels, event })
    };
    Some(Readout {
        at: overlay.begin_of(part),
        place: overlay.place(at),
        rows: overlay.runs.iter().filter_map(row).collect(),
        difference: overlay.difference(part),
    })
}

impl Overlay<'_> {
    /// A place of the axis in words.
    pub fn place(&self, at: f64) -> String {
        match self.align {
            Align::Step if self.is_one_pass() => format!("{:.0} % through", at * 100.0),
            Align::Step if at < 0.0 => "before the first step".to_owned(),
            Align::Step => {
                let step = at.floor();
                format!("step {step:.0}, {:.0} % through", (at - step) * 100.0)
            }
            Align::Event => format!("event {}", format::count(at.max(0.0) as u64)),
            Align::Time => ticks::duration(at * 1e6, 1e3),
        }
    }
}
