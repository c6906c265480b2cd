//! Questions about a run that the page and programs ask: does it leak, what is alive, what came and
//! went, which allocations are there. `trace` answers them; here answers get names.

mod alive;
mod allocations;
mod contents;
mod judge;
mod leaks;

pub use alive::{alive, changes, growth};
pub use allocations::{BadQuestion, beside, page};
pub use contents::{contents, held};
pub use judge::{Judge, is_judged_now, judge_now};
pub use leaks::{forward_op, named, report};

use api::timeline::FrameText;
use trace::clip::clipped;
use trace::stacks::{Frame, Stacks};

/// Bytes of a name in an answer, which may hold very many.
const LONGEST_NAME: usize = 1024;

/// A name as answers have it.
pub(crate) fn shown(name: &str) -> String {
    clipped(name, LONGEST_NAME).into_owned()
}

/// A frame with its names.
pub(crate) fn frame_text(stacks: &Stacks, frame: Frame) -> FrameText {
    FrameText {
        name: shown(stacks.str(frame.name)),
        filename: shown(stacks.str(frame.filename)),
        line: frame.line,
    }
}
