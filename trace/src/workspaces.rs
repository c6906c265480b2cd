//! Workspaces: memory that cuBLAS and cuBLASLt take once for each handle and stream, in whichever
//! operation needs it first, and keep for good. They lie at a line of the program that has nothing
//! to do with them.
//!
//! C++ frames tell them ([`is_stack`]). Without such frames only their size does, and tensors have
//! these sizes, too. What else must be so depends on what a mistake would cost:
//!
//! * `leaks::spared`, `categories::kept`: that it is alone among what one site keeps ([`Alike`]).
//!   One is made for each stream, and what accumulates comes again.
//! * `categories::rules`, where nothing learns: that it is alone in the whole recording. What a
//!   model makes comes again with each call.
//! * The same, in training: that it lasts, alone or with one other, since autograd's thread takes
//!   one of its own. What a backward pass waits for is gone by its end.
//! * `what_if::batch`: that it lasts, and so does all of its size. A tensor that comes and goes
//!   would shrink with the batch.
//! * `leaks::judge`, of what came once: nothing. There is no second block to compare with.

use crate::footprint::of_map;
use crate::site;
use crate::stacks::{Frame, FxHashMap, StackIdx, Stacks};
use crate::trace::{BlockIdx, BlockKind, Blocks};
use crate::units::Bytes;

/// Their sizes: 8,519,680 B before Hopper and 32 MiB since, and 1 MiB of cuBLASLt (PyTorch,
/// `CUDABlas.cpp`).
pub(crate) const SIZES: [Bytes; 3] = [Bytes(8_519_680), Bytes(33_554_432), Bytes(1_048_576)];

/// Whether a workspace may have this requested size. Other blocks may, too.
pub(crate) fn is_size(requested: Bytes) -> bool {
    SIZES.contains(&requested)
}

/// In names of C++ functions that request workspaces. In torch 2.8 and 2.9 the last one has the
/// code of `getNewWorkspace` in it; it requests nothing else.
const NAMES: [&str; 3] = ["Workspace", "workspace", "getCurrentCUDABlasHandle"];

/// Whether a C++ frame is that of a workspace.
pub(crate) fn is_frame(stacks: &Stacks, frame: Frame) -> bool {
    let name = stacks.str(frame.name);
    !site::is_python(stacks, frame)
        && NAMES.iter().any(|part| name.contains(part))
        && name.contains("at::")
}

/// Whether a stack is in the code of workspaces.
pub(crate) fn is_stack(stacks: &Stacks, stack: StackIdx) -> bool {
    let mut frames = stacks.frames(stack).iter();
    frames.any(|&frame| is_frame(stacks, stacks.frame(frame)))
}

/// How many of some blocks have each size of a workspace, by stream.
#[derive(Default)]
pub(crate) struct Alike {
    count: FxHashMap<(Bytes, u64), u32>,
}

impl Alike {
    pub(crate) fn of<'k>(kinds: impl Iterator<Item = &'k BlockKind>) -> Alike {
        let mut alike = Alike::default();
        kinds.for_each(|kind| alike.add(kind));
        alike
    }

    pub(crate) fn add(&mut self, kind: &BlockKind) {
        if is_size(kind.requested) {
            let count = self.count.entry((kind.requested, kind.stream));
            *count.or_default() += 1;
        }
    }

    /// Whether a block is the only one of its size on its stream, and that is a workspace's.
    pub(crate) fn has_alone(&self, kind: &BlockKind) -> bool {
        self.count(kind) == 1
    }

    /// How many of them have the size of a block and its stream, if that is a workspace's size.
    pub(crate) fn count(&self, kind: &BlockKind) -> u32 {
        let count = self.count.get(&(kind.requested, kind.stream));
        count.copied().unwrap_or_default()
    }

    /// Heap bytes that it uses.
    pub(crate) fn heap_bytes(&self) -> usize {
        of_map(&self.count)
    }
}

/// Which of the blocks that one site keeps are workspaces: those that were made in the code for
/// workspaces, and without C++ stacks the only block of such a size on its stream.
pub(crate) fn among(blocks: &Blocks, stacks: &Stacks, kept: &[BlockIdx]) -> Vec<BlockIdx> {
    let alike = Alike::of(kept.iter().map(|&block| blocks.kind(block)));
    let is_workspace = |block: &BlockIdx| {
        let kind = blocks.kind(*block);
        alike.has_alone(kind) || is_stack(stacks, kind.alloc_stack)
    };
    kept.iter().copied().filter(is_workspace).collect()
}
