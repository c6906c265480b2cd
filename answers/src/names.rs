//! The parts of answers about a run: names, frames, forward operations.

use api::frames::{ForwardOp, FrameText};
use std::borrow::Cow;
use trace::clip::{LONGEST_SHOWN, clipped};
use trace::code;
use trace::forward::Forward;
use trace::plain::one_line;
use trace::stacks::{Frame, Stacks};
use trace::tiles::stack_label;

/// A name for an answer: not too long, in one line, and made plain, because older versions may have
/// stored it otherwise.
pub fn shown(name: &str) -> String {
    one_line(&clipped(name, LONGEST_SHOWN)).into_owned()
}

/// A frame with its names.
pub fn frame_text(stacks: &Stacks, frame: Frame) -> FrameText {
    FrameText {
        name: shown(stacks.str(frame.name)),
        filename: shown(stacks.str(frame.filename)),
        line: frame.line,
    }
}

/// A frame in one line.
pub fn frame_line(frame: &FrameText) -> String {
    let parts = (&*frame.name, &*frame.filename, frame.line);
    code::frame_line(parts, Cow::Borrowed)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_named_as_a_person_would() {
        let check = |name: &str, filename: &str, line: u32, expected: &str| {
            let frame = FrameText {
                name: name.to_owned(),
                filename: filename.to_owned(),
                line,
            };
            assert_eq!(frame_line(&frame), expected);
        };
        check("step", "/srv/train.py", 41, "step /srv/train.py:41");
        check("step", "<frozen>", 0, "step <frozen>");
        check("no stack recorded", "", 0, "no stack recorded");
        let raw = "at::_ops::_log_softmax_backward_data::redispatch(c10::DispatchKeySet, long)";
        check(raw, "??", 0, "_log_softmax_backward_data");
        check(raw, "RegisterCUDA.cpp", 0, "_log_softmax_backward_data");
        check("malloc", "", 0, "malloc");
    }
}
