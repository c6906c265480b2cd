//! The frames of a site's stack that a comparison keeps.
//!
//! A stack with C++ frames can have thirty of them inside the innermost Python frame, and three
//! between each two after that. Cut at its end, such a stack loses the program's own calls, which
//! tell two sites of one operation apart. So Python frames go first.

use crate::site::is_python;
use crate::stacks::{Frame, StackIdx, Stacks};

/// Frames kept of a stack.
pub const MAX: usize = 48;

/// The frames of a stack that are kept, innermost first: of Python's the innermost ones, and of the
/// others as many as there is room for.
pub(super) fn of(stacks: &Stacks, stack: StackIdx) -> Vec<Frame> {
    let all = stacks.frames(stack);
    let frames = || all.iter().map(|&frame| stacks.frame(frame));
    let python = frames().filter(|&frame| is_python(stacks, frame)).count();
    let mut room = [MAX.saturating_sub(python), MAX];
    let has_room = |frame: &Frame| {
        let left = &mut room[usize::from(is_python(stacks, *frame))];
        let has_room = *left > 0;
        *left = left.saturating_sub(1);
        has_room
    };
    frames().filter(has_room).collect()
}

/// Whether a stack has a frame that is not Python.
pub(super) fn has_native(stacks: &Stacks, stack: StackIdx) -> bool {
    let mut frames = stacks.frames(stack).iter();
    frames.any(|&frame| is_native(stacks, stacks.frame(frame)))
}

/// A frame that is not Python: C++ frames have no line.
fn is_native(stacks: &Stacks, frame: Frame) -> bool {
    frame.line == 0 && !stacks.str(frame.filename).ends_with(".py")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::program::Program;

    #[test]
    fn a_long_stack_keeps_its_python_frames() {
        let check = |innermost: usize, between: usize, calls: usize, expected: [usize; 2]| {
            let mut frames = vec!["at::_ops::empty::call"; innermost];
            for _ in 0..calls {
                frames.push("forward model.py:7");
                frames.extend(vec!["_PyEval_EvalFrameDefault"; between]);
            }
            // A program tells its stacks outermost first.
            frames.reverse();
            let mut program = Program::default();
            let stack = program.stack(&frames);
            let stacks = &program.builder.stacks;
            let kept = of(stacks, stack);
            let python = kept
                .iter()
                .filter(|&&frame| is_python(stacks, frame))
                .count();
            assert_eq!([python, kept.len() - python], expected);
            let native = kept.iter().take_while(|&&frame| !is_python(stacks, frame));
            assert_eq!(
                native.count(),
                innermost.min(expected[1]),
                "innermost ones first"
            );
        };
        check(0, 0, 3, [3, 0]);
        check(30, 0, 3, [3, 30]);
        check(30, 3, 10, [10, 38]);
        check(60, 3, 10, [10, 38]);
        check(30, 3, 60, [48, 0]);
    }
}
