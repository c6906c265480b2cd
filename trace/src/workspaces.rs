//! Workspaces: memory that cuBLAS and cuBLASLt take once for each handle and stream, in whichever
//! operation needs it first, and keep for good. They lie at a line of the program that has nothing
//! to do with them.

use crate::site;
use crate::stacks::{Frame, FxHashMap, Stacks};
use crate::trace::{BlockIdx, Blocks};
use crate::units::Bytes;

/// Their sizes: 8,519,680 B before Hopper and 32 MiB since, and 1 MiB of cuBLASLt (PyTorch,
/// `CUDABlas.cpp`).
const SIZES: [Bytes; 3] = [Bytes(8_519_680), Bytes(33_554_432), Bytes(1_048_576)];

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

/// Which of the blocks that one site keeps are workspaces: those that were made in the code for
/// workspaces, and without C++ stacks the only block of such a size on its stream.
pub(crate) fn among(blocks: &Blocks, stacks: &Stacks, kept: &[BlockIdx]) -> Vec<BlockIdx> {
    let mut alike: FxHashMap<(Bytes, u64), u32> = FxHashMap::default();
    for &block in kept {
        let kind = blocks.kind(block);
        if is_size(kind.requested) {
            *alike.entry((kind.requested, kind.stream)).or_default() += 1;
        }
    }
    let is_workspace = |block: &BlockIdx| {
        let kind = blocks.kind(*block);
        let mut frames = stacks.frames(kind.alloc_stack).iter();
        alike.get(&(kind.requested, kind.stream)) == Some(&1)
            || frames.any(|&frame| is_frame(stacks, stacks.frame(frame)))
    };
    kept.iter().copied().filter(is_workspace).collect()
}
