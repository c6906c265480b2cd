//! What a program was in the middle of at its peak, beside what it held then. Nothing failed; where
//! an allocation did, [`crate::failing`] answers the same.
//!
//! ```text
//! unlike   whether the other steps peak as high, and what is asked for in such steps only
//! outlived what the step before had made, and something still held
//! unasked  what a forward pass keeps for a backward pass that does not come
//! cached   copies of weights that autocast keeps until it ends
//! ```

mod cached;
mod outlived;
#[cfg(test)]
mod tests;
mod unasked;
mod unlike;

pub use cached::Cached;
pub use outlived::Outlived;
pub use unasked::Unasked;
pub use unlike::{OnlyThere, Unlike};

use crate::categories::{Categories, Category};
use crate::phases::Phases;
use crate::stacks::Stacks;
use crate::trace::{BlockIdx, DeviceTrace};
use crate::units::EventIdx;
use crate::watch::{Stopped, Watch};

/// A recording whose peak is looked at.
#[derive(Clone, Copy)]
struct Recorded<'a> {
    device: &'a DeviceTrace,
    stacks: &'a Stacks,
    categories: &'a Categories,
    phases: &'a Phases,
}

/// The work at the peak.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peaking {
    /// How its step differs from the others; `None` if they peak as high.
    pub unlike: Option<Unlike>,
    /// What the step before had made.
    pub outlived: Option<Outlived>,
    /// What waits for a backward pass that does not come.
    pub unasked: Option<Unasked>,
    /// Copies of weights that only autocast's cache holds.
    pub cached: Option<Cached>,
}

impl Peaking {
    /// Looks at the event at which *allocated* peaks.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn of(
        device: &DeviceTrace,
        stacks: &Stacks,
        (categories, phases): (&Categories, &Phases),
        event: EventIdx,
        watch: Watch<'_>,
    ) -> Result<Peaking, Stopped> {
        let recorded = Recorded {
            device,
            stacks,
            categories,
            phases,
        };
        // Each is one walk over the blocks, with tables of stacks and of steps.
        let unlike = unlike::at(recorded, event);
        watch.look(0)?;
        let outlived = outlived::at(recorded, event);
        watch.look(0)?;
        let unasked = unasked::at(recorded, event);
        watch.look(0)?;
        Ok(Peaking {
            unlike,
            outlived,
            unasked,
            cached: cached::at(recorded, event),
        })
    }
}

impl Recorded<'_> {
    /// Whether a block may be made anew in each step: it is none of what lasts.
    fn comes_and_goes(&self, block: BlockIdx) -> bool {
        matches!(
            self.categories.found(block),
            Category::Activation | Category::Temporary | Category::Unknown
        )
    }
}
