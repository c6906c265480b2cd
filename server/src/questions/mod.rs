//! Questions about a run that the page and programs ask: does it leak, what is alive, what came and
//! went, which allocations are there. `trace` answers them; here answers get names.

mod alive;
mod allocations;
mod contents;
mod judge;
mod leaks;

pub use alive::{alive, changes, growth};
pub use allocations::{BadQuestion, beside, page};
pub use contents::contents;
pub use judge::{Judge, judge_now};
pub use leaks::{forward_op, named, report};

use api::timeline::FrameText;
use trace::stacks::{Frame, Stacks};

/// A frame with its names.
pub(crate) fn frame_text(stacks: &Stacks, frame: Frame) -> FrameText {
    FrameText {
        name: stacks.str(frame.name).to_owned(),
        filename: stacks.str(frame.filename).to_owned(),
        line: frame.line,
    }
}
