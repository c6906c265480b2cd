//! The parts of answers about a run: names, frames, forward operations.

use api::frames::{ForwardOp, FrameText};
use trace::clip::clipped;
use trace::forward::Forward;
use trace::plain::marked;
use trace::stacks::{Frame, Stacks};
use trace::tiles::stack_label;

/// Longest name in an answer, bytes; an answer may have very many names.
const LONGEST_NAME: usize = 1024;

/// A name for an answer: not too long and made plain, because older versions may have stored it
/// otherwise.
pub fn shown(name: &str) -> String {
    marked(&clipped(name, LONGEST_NAME)).into_owned()
}

/// A frame with its names.
pub fn frame_text(stacks: &Stacks, frame: Frame) -> FrameText {
    FrameText {
        name: shown(stacks.str(frame.name)),
        filename: shown(stacks.str(frame.filename)),
        line: frame.line,
    }
}

/// An inferred forward operation with its names.
pub fn forward_op(stacks: &Stacks, forward: &Forward) -> ForwardOp {
    let frame = stacks.headline(forward.stack);
    let place = frame.map(|_| stack_label(stacks, forward.stack));
    let label = match (&forward.node, place) {
        (Some(node), Some(place)) => format!("{node}, of {place}"),
        (Some(node), None) => node.clone(),
        (None, place) => place.unwrap_or_default(),
    };
    ForwardOp {
        label,
        node: forward.node.clone(),
        frame: frame.map(|frame| frame_text(stacks, frame)),
        evidence: forward.evidence.name().to_owned(),
    }
}
