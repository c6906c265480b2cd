//! The levels of memory along a recording, in columns of a picture.

use crate::trace::{DeviceTrace, Levels, Series};
use crate::units::{Bytes, EventIdx};

/// The highest *allocated* and *reserved* in each column. All columns but the last have the same
/// number of events. If an answer ends early, the columns end there too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Events in a column: at least 1.
    pub events_per_column: u32,
    /// Highest *allocated* of each column.
    pub allocated: Vec<Bytes>,
    /// Highest *reserved* of each column.
    pub reserved: Vec<Bytes>,
}

impl Curve {
    /// An empty curve of at most `columns` columns over `events` events.
    pub(super) fn over(events: u32, columns: u32) -> Curve {
        Curve {
            events_per_column: events.div_ceil(columns.max(1)).max(1),
            allocated: Vec::new(),
            reserved: Vec::new(),
        }
    }

    /// The levels as they were recorded.
    pub(super) fn recorded(device: &DeviceTrace, columns: u32) -> Curve {
        let n = device.events.len();
        let mut curve = Curve::over(n, columns);
        let mut levels = device.pyramid.start();
        for event in (0..n).map(EventIdx) {
            // Memory from before the first event counts in the first column.
            if event.0 == 0 {
                curve.note(event, levels);
            }
            levels.apply(device.effect(event));
            curve.note(event, levels);
        }
        curve
    }

    fn note(&mut self, event: EventIdx, levels: Levels) {
        let level = |series| levels.get(series);
        self.reach(event, level(Series::Allocated), level(Series::Reserved));
    }

    /// Notes the levels at an event. Must be called in the order of events.
    pub(super) fn reach(&mut self, event: EventIdx, allocated: Bytes, reserved: Bytes) {
        let column = event.index() / self.events_per_column as usize;
        if column >= self.allocated.len() {
            self.allocated.resize(column + 1, Bytes::ZERO);
            self.reserved.resize(column + 1, Bytes::ZERO);
        }
        self.allocated[column] = self.allocated[column].max(allocated);
        self.reserved[column] = self.reserved[column].max(reserved);
    }
}
