//! What bands and blocks are called: one line each.

use crate::clip::clipped;
use crate::code::{self, file_name, is_python, last_components};
use crate::forward::node;
use crate::plain::one_line;
use crate::stacks::{Frame, StackIdx, Stacks};
use crate::trace::{BlockIdx, DeviceTrace, PoolId, PoolSize};

pub(super) const NO_STACK: &str = "no stack recorded";

/// The name for blocks from before the recording whose stack the recorder did not keep. What they
/// are for is another question: their category may be known.
pub const FROM_BEFORE: &str = "allocated before the recording";

/// `forward model.py:12`; only the function where file or line are unknown.
pub fn frame_label(stacks: &Stacks, frame: Frame) -> String {
    let file = file_name(stacks.str(frame.filename));
    let parts = (stacks.str(frame.name), file, frame.line);
    code::frame_line(parts, |text| part(text).into())
}

/// Longest name of a function or file in a label, bytes: every group has a label.
const LONGEST_PART: usize = 240;

/// A name of a stranger's program as a part of a label.
fn part(name: &str) -> String {
    clipped(&one_line(name), LONGEST_PART).into_owned()
}

/// The name of a stack in one line: its headline frame. If there are only C++ frames, also the
/// autograd node that called it: `mm in MmBackward0`.
pub fn stack_label(stacks: &Stacks, stack: StackIdx) -> String {
    let Some(frame) = stacks.headline(stack) else {
        return NO_STACK.to_owned();
    };
    let label = frame_label(stacks, frame);
    let is_native = !is_python(stacks.str(frame.filename), frame.line);
    match node(stacks, stack) {
        Some(node) if is_native && !label.contains(node) => {
            format!("{label} in {}", part(node))
        }
        _ => label,
    }
}

/// Where a block was allocated, in one line.
pub fn block_label(device: &DeviceTrace, stacks: &Stacks, block: BlockIdx) -> String {
    match device.blocks.kind(block).alloc_stack {
        StackIdx::NONE if block.0 < device.blocks.n_preexisting => FROM_BEFORE.to_owned(),
        stack => stack_label(stacks, stack),
    }
}

pub(super) fn file_label(file: &str) -> String {
    match file {
        "" | "??" => "file unknown".to_owned(),
        file => part(last_components(file, 2)),
    }
}

pub(super) fn stream_label(stream: u64) -> String {
    match stream {
        // CUDA's handles of the legacy and the per-thread default stream are 0, 1 and 2;
        // all others are pointers.
        small @ 0..=2 => format!("stream {small}"),
        handle => format!("stream {handle:#x}"),
    }
}

pub(super) fn pool_label((pool, size): (PoolId, PoolSize)) -> String {
    let size = match size {
        PoolSize::Small => "small",
        PoolSize::Large => "large",
    };
    match pool {
        PoolId(0, 0) => format!("{size} pool"),
        PoolId(owner, user) => format!("private {size} pool ({owner}, {user})"),
    }
}
