//! Blocks by the files of libraries that are in their stacks.

use super::super::Look;
use trace::code as source;
use trace::trace::BlockIdx;
use trace::units::Bytes;

/// Bytes of blocks with a frame of such a file in their stack.
pub fn held_in(look: &Look<'_>, blocks: &[BlockIdx], is_there: fn(&str) -> bool) -> Bytes {
    let stacks = look.stacks();
    let kind = |block: &BlockIdx| look.device.blocks.kind(*block);
    let is_in = |block: &&BlockIdx| {
        let mut frames = stacks.frames(kind(block).alloc_stack).iter();
        frames.any(|frame| {
            let file = stacks.str(stacks.frame(*frame).filename);
            is_there(&source::slashed(file))
        })
    };
    blocks
        .iter()
        .filter(is_in)
        .map(|block| kind(block).size)
        .sum()
}

/// PyTorch's activation checkpointing.
pub fn is_checkpoint(file: &str) -> bool {
    file.ends_with("torch/utils/checkpoint.py")
}

/// The optimizer that keeps a history of gradients.
pub fn is_lbfgs(file: &str) -> bool {
    file.ends_with("torch/optim/lbfgs.py")
}

/// The optimizers of PyTorch that have a fused form.
pub fn is_update(file: &str) -> bool {
    let of_torch = file.rsplit_once("torch/optim/");
    of_torch
        .is_some_and(|(_, name)| ["adam.py", "adamw.py", "sgd.py", "adagrad.py"].contains(&name))
}

/// Where compiled code and Triton run each way that they may take.
pub fn is_benchmark(file: &str) -> bool {
    file.ends_with("_inductor/runtime/benchmarking.py") || file.ends_with("triton/testing.py")
}
