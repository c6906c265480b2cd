//! Programs as tests write them: allocations with whole stacks.

use crate::stacks::{Frame, FrameIdx, StackIdx, StrIdx, Strings};
use crate::testing::{TraceBuilder, block_of};
use crate::trace::{BlockIdx, BlockKind, Trace};
use crate::units::Bytes;

pub(crate) const MODULE: &str = "/v/site-packages/torch/nn/modules/module.py";
pub(crate) const TENSOR: &str = "/v/site-packages/torch/_tensor.py";
pub(crate) const ADAM: &str = "/v/site-packages/torch/optim/adam.py";
pub(crate) const CHECKPOINT: &str = "/v/site-packages/torch/utils/checkpoint.py";

/// Equal strings get one index, as in the reader.
fn interned(strings: &mut Strings, text: &str) -> StrIdx {
    let mut known = (0..strings.len() as u32).map(StrIdx);
    match known.find(|&idx| strings.get(idx) == text) {
        Some(known) => known,
        None => strings.push(text),
    }
}

/// A program under construction: stacks are written outermost first, `function file:line`.
#[derive(Default)]
pub(crate) struct Program {
    pub builder: TraceBuilder,
}

impl Program {
    pub fn stack(&mut self, frames: &[&str]) -> StackIdx {
        let stacks = &mut self.builder.stacks;
        let mut members = Vec::new();
        for text in frames.iter().rev() {
            let (name, place) = text.split_once(' ').unwrap_or((text, "??:0"));
            let (file, line) = place.rsplit_once(':').expect("a place is file:line");
            let frame = Frame {
                name: interned(&mut stacks.strings, name),
                filename: interned(&mut stacks.strings, file),
                line: line.parse().expect("a line"),
            };
            let known = stacks.all_frames().iter().position(|f| *f == frame);
            members.push(match known {
                Some(at) => FrameIdx(at as u32),
                None => stacks.push_frame(frame),
            });
        }
        // Equal stacks get one index, too.
        let mut known = (0..stacks.len() as u32).map(StackIdx);
        match known.find(|&idx| stacks.frames(idx) == members) {
            Some(known) => known,
            None => stacks.push_stack(&members),
        }
    }

    pub fn alloc(&mut self, bytes: u64, frames: &[&str]) -> BlockIdx {
        let alloc_stack = match frames {
            [] => StackIdx::NONE,
            frames => self.stack(frames),
        };
        self.builder.alloc(BlockKind {
            alloc_stack,
            ..block_of(Bytes(bytes))
        })
    }

    pub fn free(&mut self, block: BlockIdx) {
        self.builder.free_requested(block);
        self.builder.free_completed(block);
    }

    pub fn finish(self) -> Trace {
        self.builder.finish()
    }
}

/// The same trace as if it had been recorded on Windows.
pub(crate) fn on_windows(mut trace: Trace) -> Trace {
    let before = std::mem::take(&mut trace.stacks.strings);
    for text in (0..before.len() as u32).map(|at| before.get(StrIdx(at))) {
        trace.stacks.strings.push(&match text.starts_with('/') {
            true => format!("C:{}", text.replace('/', "\\")),
            false => text.to_owned(),
        });
    }
    trace
}
