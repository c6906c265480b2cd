//! The forward operation that a backward allocation belongs to.
//!
//! Autograd runs backward passes on threads of its own, without Python frames: half of the
//! allocations of a training run have no stack, or only a C++ one. Which operation they belong to
//! is inferred, and always marked as inferred:
//!
//! 1. **Node.** A C++ frame names the autograd node (`torch::autograd::generated::MmBackward0`).
//! 2. **Forward frames.** The recorder kept the stack of the forward call (`forward_frames`, with
//!    anomaly detection): frames that have only a name.
//! 3. **Size and order.** A node gives back what its operation saved as soon as it has run. So
//!    Tidemark looks at the blocks with a Python stack that are given back next (before
//!    [`MAX_ALLOCS`] further allocations). The first of them with the same requested size is what
//!    the operation saved, because a gradient is as large as the tensor that it belongs to.
//! 4. **Order.** If none has the same size, the first one that is given back.
//!
//! What an operation saves is mostly its input, which another operation made. So its own call is
//! looked for from there on, among the next [`MAX_CALLS`] allocations of the forward pass. Where
//! the node is known it is the first call of the node's operation by its C++ frames
//! (`at::_ops::addmm` for `AddmmBackward0`); if none of them is, only the node is told. Where the
//! node is not known it is the next allocation: in six recordings whose C++ frames tell, that is
//! the line in 50 to 87 % of the cases, and the line that made the input in 19 to 54 %.

use crate::code;
use crate::site;
use crate::stacks::{FxHashMap, StackIdx, Stacks};
use crate::trace::{Action, BlockIdx, DeviceTrace};

/// After this many allocations, a node's own operation is certainly done.
const MAX_ALLOCS: u32 = 4;
/// How many events are looked at, at most.
const MAX_EVENTS: usize = 64;
/// How many allocations with a Python stack are looked at, from what the operation saved on.
const MAX_CALLS: usize = 9;
/// How many allocations lie between them, at most.
const MAX_BLOCKS: u32 = 64;

/// Operations whose backward pass needs only inputs, never what they made (PyTorch's
/// `tools/autograd/derivatives.yaml`).
const SAVE_INPUTS: [&str; 8] = [
    "addmm",
    "baddbmm",
    "bmm",
    "convolution",
    "linear",
    "matmul",
    "mm",
    "mul",
];

/// The evidence for an inference, the most certain first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evidence {
    /// The autograd node is in the C++ frames.
    Node,
    /// The recorder kept the forward call.
    ForwardFrames,
    /// A block of the same size is given back next.
    SizeAndOrder,
    /// Some block is given back next.
    Order,
}

impl Evidence {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Evidence::Node => "node",
            Evidence::ForwardFrames => "forward_frames",
            Evidence::SizeAndOrder => "size_and_order",
            Evidence::Order => "order",
        }
    }
}

/// The forward operation of a backward allocation, as inferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The autograd node (`MmBackward0`), where a frame names it.
    pub node: Option<String>,
    /// The stack of the forward call; [`StackIdx::NONE`] when only the node is known.
    pub stack: StackIdx,
    /// The evidence for it.
    pub evidence: Evidence,
}

/// The forward operation of one block. `None` for blocks that have a Python stack of their own, or
/// if nothing points to an operation.
pub fn of_block(device: &DeviceTrace, stacks: &Stacks, block: BlockIdx) -> Option<Forward> {
    Forwards::new(device, stacks).of(block)
}

/// Finds the forward operations of many blocks. Very many may have the same deep stack: it is read
/// once.
pub struct Forwards<'a> {
    device: &'a DeviceTrace,
    stacks: &'a Stacks,
    known: FxHashMap<StackIdx, Own<'a>>,
    /// Whether a stack is a call of a node's operation.
    calls: FxHashMap<(&'a str, StackIdx), bool>,
}

/// What a block's own stack says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own<'a> {
    /// It has a Python frame.
    Python,
    /// It is the stack of the forward call.
    Forward,
    /// Neither; the autograd node in it, if there is one.
    Native(Option<&'a str>),
}

impl<'a> Forwards<'a> {
    /// Of a device's blocks.
    pub fn new(device: &'a DeviceTrace, stacks: &'a Stacks) -> Forwards<'a> {
        Forwards {
            device,
            stacks,
            known: FxHashMap::default(),
            calls: FxHashMap::default(),
        }
    }

    /// As [`of_block`].
    pub fn of(&mut self, block: BlockIdx) -> Option<Forward> {
        let blocks = &self.device.blocks;
        let own = blocks.kind(block).alloc_stack;
        if block.0 < blocks.n_preexisting {
            return None;
        }
        match self.own(own) {
            Own::Python => None,
            Own::Forward => Some(Forward {
                node: None,
                stack: own,
                evidence: Evidence::ForwardFrames,
            }),
            Own::Native(node) => match (node, self.saved_by(block)) {
                (Some(node), saved) => Some(Forward {
                    node: Some(node.to_owned()),
                    stack: saved
                        .and_then(|(saved, _)| self.call_of(node, saved, block))
                        .unwrap_or(StackIdx::NONE),
                    evidence: Evidence::Node,
                }),
                (None, Some((saved, evidence))) => Some(Forward {
                    node: None,
                    stack: self.call_after(saved, block),
                    evidence,
                }),
                (None, None) => None,
            },
        }
    }

    /// As [`site::has_python`].
    pub fn has_python(&mut self, stack: StackIdx) -> bool {
        self.own(stack) == Own::Python
    }

    fn own(&mut self, stack: StackIdx) -> Own<'a> {
        let stacks = self.stacks;
        *self.known.entry(stack).or_insert_with(|| {
            if site::has_python(stacks, stack) {
                Own::Python
            } else if is_forward_stack(stacks, stack) {
                Own::Forward
            } else {
                Own::Native(node(stacks, stack))
            }
        })
    }

    /// The call of a node's operation: the first from what it saved on, and before the block.
    fn call_of(&mut self, node: &'a str, saved: BlockIdx, block: BlockIdx) -> Option<StackIdx> {
        let is_input = SAVE_INPUTS.contains(&operation_of(node).as_str());
        let made = self.device.blocks.kind(saved).alloc_stack;
        if !is_input && self.is_call(node, made) {
            return Some(made);
        }
        let calls = self.calls_after(saved, block);
        calls.into_iter().find(|&stack| self.is_call(node, stack))
    }

    /// The stack of the allocation after what a node saved, or the saved one's own if it is the
    /// last of the forward pass.
    fn call_after(&mut self, saved: BlockIdx, block: BlockIdx) -> StackIdx {
        let next = self.calls_after(saved, block).first().copied();
        next.unwrap_or_else(|| self.device.blocks.kind(saved).alloc_stack)
    }

    /// The stacks of the next allocations of the forward pass after a block, up to another one.
    fn calls_after(&mut self, saved: BlockIdx, block: BlockIdx) -> Vec<StackIdx> {
        let blocks = &self.device.blocks;
        if saved.0 < blocks.n_preexisting {
            // When that was made is not known.
            return Vec::new();
        }
        let until = block.0.min(saved.0.saturating_add(MAX_BLOCKS));
        let next = (saved.0 + 1..until).map(|at| blocks.kind(BlockIdx(at)).alloc_stack);
        let calls = next.filter(|&stack| self.is_of_forward(stack));
        calls.take(MAX_CALLS - 1).collect()
    }

    /// Whether a stack is Python's, and of no pass back.
    fn is_of_forward(&mut self, stack: StackIdx) -> bool {
        self.has_python(stack) && !begins_backward(self.stacks, stack)
    }

    fn is_call(&mut self, node: &'a str, stack: StackIdx) -> bool {
        let stacks = self.stacks;
        let known = self.calls.entry((node, stack));
        *known.or_insert_with(|| calls(stacks, stack, &operation_of(node)))
    }

    /// The block that the backward node gives back.
    fn saved_by(&mut self, block: BlockIdx) -> Option<(BlockIdx, Evidence)> {
        let device = self.device;
        let (blocks, events) = (&device.blocks, &device.events);
        let at = blocks.alloc[block.index()] as usize;
        let requested = blocks.kind(block).requested;
        let (mut allocs, mut first) = (0, None);
        for event in at + 1..(at + 1 + MAX_EVENTS).min(events.action.len()) {
            let target = events.target[event];
            match events.action[event] {
                Action::Alloc => {
                    allocs += 1;
                    if allocs > MAX_ALLOCS {
                        break;
                    }
                }
                Action::FreeRequested if target != crate::trace::NO_TARGET => {
                    let freed = blocks.kind(BlockIdx(target));
                    if target >= block.0 || !self.is_of_forward(freed.alloc_stack) {
                        continue;
                    }
                    if freed.requested == requested {
                        return Some((BlockIdx(target), Evidence::SizeAndOrder));
                    }
                    first.get_or_insert(BlockIdx(target));
                }
                _ => {}
            }
        }
        first.map(|saved| (saved, Evidence::Order))
    }
}

/// Whether the innermost Python frame is where PyTorch begins a backward pass: there it makes the
/// first gradient.
fn begins_backward(stacks: &Stacks, stack: StackIdx) -> bool {
    let frames = stacks.frames(stack).iter().map(|&f| stacks.frame(f));
    let innermost = frames.into_iter().find(|&f| site::is_python(stacks, f));
    innermost.is_some_and(|frame| {
        let file = code::slashed(stacks.str(frame.filename));
        file.ends_with("torch/autograd/__init__.py")
    })
}

/// The operation of a node, in small letters and without `_`: `nllloss` for `NllLossBackward0`.
fn operation_of(node: &str) -> String {
    let name = node.split("Backward").next().unwrap_or(node);
    let letters = name.chars().filter(|&c| c != '_');
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether C++ frames of a stack call this operation, or a part of it: `at::_ops::nll_loss_forward`
/// is a call of `nllloss`, `at::_ops::add` is none of `addmm`.
fn calls(stacks: &Stacks, stack: StackIdx, operation: &str) -> bool {
    const CALLED: &str = "at::_ops::";
    let frames = stacks.frames(stack).iter().map(|&f| stacks.frame(f));
    frames.into_iter().any(|frame| {
        let (_, called) = match stacks.str(frame.name).split_once(CALLED) {
            Some(found) => found,
            None => return false,
        };
        let name = called.split("::").next().unwrap_or(called);
        let mut begun = String::new();
        name.split('_').any(|word| {
            begun.extend(word.chars().map(|c| c.to_ascii_lowercase()));
            begun == operation
        })
    })
}

/// Frames of a forward call that the recorder kept have a name and nothing else.
fn is_forward_stack(stacks: &Stacks, stack: StackIdx) -> bool {
    let frames = stacks.frames(stack);
    let nameless = |f: crate::stacks::Frame| stacks.str(f.filename).is_empty() && f.line == 0;
    let native = |f: crate::stacks::Frame| stacks.str(f.name).contains("::");
    !frames.is_empty()
        && frames.iter().all(|&f| {
            let frame = stacks.frame(f);
            nameless(frame) && !native(frame)
        })
}

/// The autograd node among C++ frames: the innermost identifier that ends in `Backward` and a
/// number.
pub(crate) fn node(stacks: &Stacks, stack: StackIdx) -> Option<&str> {
    let frames = stacks.frames(stack).iter().map(|&f| stacks.frame(f));
    let mut names = frames.map(|frame| stacks.str(frame.name));
    names.find_map(node_in)
}

fn node_in(name: &str) -> Option<&str> {
    const NODE: &str = "Backward";
    let in_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    // A name may be long and has few words that can be it.
    name.match_indices(NODE).find_map(|(at, _)| {
        let after = &name.as_bytes()[at + NODE.len()..];
        let digits = after
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if digits == 0 || after.get(digits).is_some_and(in_word) {
            return None;
        }
        let before = name.as_bytes()[..at].iter().rev();
        let letters = before.take_while(|byte| in_word(byte)).count();
        (letters > 0).then(|| &name[at - letters..at + NODE.len() + digits])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TraceBuilder, block_of};
    use crate::trace::BlockKind;
    use crate::units::Bytes;
    use proptest::prelude::*;

    fn kind(
        builder: &mut TraceBuilder,
        name: &str,
        file: &str,
        line: u32,
        bytes: u64,
    ) -> BlockKind {
        BlockKind {
            alloc_stack: builder.stack(name, file, line),
            ..block_of(Bytes(bytes))
        }
    }

    #[test]
    fn a_gradient_belongs_to_what_is_given_back_after_it() {
        let mut b = TraceBuilder::default();
        let norm = kind(&mut b, "norm", "net.py", 3, 4096);
        let gelu = kind(&mut b, "gelu", "net.py", 9, 8192);
        let (saved_norm, saved_gelu) = (b.alloc(norm), b.alloc(gelu));
        // The backward pass of gelu gives back its scratch block first. After it comes the backward
        // pass of norm.
        let scratch = b.alloc(block_of(Bytes(100)));
        let gradient = b.alloc(block_of(Bytes(8192)));
        for block in [scratch, saved_gelu] {
            b.free_requested(block);
            b.free_completed(block);
        }
        let other = b.alloc(block_of(Bytes(17)));
        b.free_requested(saved_norm);
        b.free_completed(saved_norm);
        let last = b.alloc(block_of(Bytes(17)));
        let trace = b.finish();
        let found = |block| {
            let found = of_block(&trace.devices[0], &trace.stacks, block);
            found.map(|f| (f.stack, f.evidence))
        };
        // Nothing was made after it in the forward pass.
        let of_gelu = |evidence| Some((gelu.alloc_stack, evidence));
        assert_eq!(found(gradient), of_gelu(Evidence::SizeAndOrder));
        // What norm made is what gelu saved.
        assert_eq!(found(other), of_gelu(Evidence::Order));
        assert_eq!(found(last), None, "nothing is given back after it");
        assert_eq!(found(saved_gelu), None, "it has a stack of its own");
    }

    #[test]
    fn a_node_and_forward_frames_are_read_from_the_stack() {
        let mut b = TraceBuilder::default();
        let name = "torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor>&&)";
        let native = kind(&mut b, name, "??", 0, 512);
        let native = b.alloc(native);
        let forward = kind(&mut b, "  File model.py line 3 in forward", "", 0, 512);
        let forward = b.alloc(forward);
        let trace = b.finish();
        let found = |block| of_block(&trace.devices[0], &trace.stacks, block).unwrap();
        assert_eq!(found(native).node.as_deref(), Some("MmBackward0"));
        assert_eq!(found(native).evidence, Evidence::Node);
        assert_eq!(found(forward).evidence, Evidence::ForwardFrames);
    }

    /// A stack of Python with a C++ frame below it.
    fn call(b: &mut TraceBuilder, operation: &str, line: u32) -> StackIdx {
        let native = format!("at::_ops::{operation}::call(at::Tensor const&)");
        b.deep_stack(&[(&native, "??", 0), ("forward", "net.py", line)])
    }

    #[test]
    fn a_node_belongs_to_the_call_of_its_own_operation() {
        let check = |node: &str, calls: &[&str], saved: usize, expected: Option<u32>| {
            let mut b = TraceBuilder::default();
            let lines = 1..=calls.len() as u32;
            let stacks: Vec<StackIdx> = calls
                .iter()
                .zip(lines)
                .map(|(operation, line)| call(&mut b, operation, line))
                .collect();
            let of = |stack, bytes| BlockKind {
                alloc_stack: stack,
                ..block_of(Bytes(bytes))
            };
            let made: Vec<BlockIdx> = stacks.iter().map(|&s| b.alloc(of(s, 512))).collect();
            let name =
                format!("torch::autograd::generated::{node}::apply(std::vector<at::Tensor>)");
            let native = kind(&mut b, &name, "??", 0, 1024);
            let gradient = b.alloc(native);
            b.free_requested(made[saved]);
            b.free_completed(made[saved]);
            let trace = b.finish();
            let found = of_block(&trace.devices[0], &trace.stacks, gradient).unwrap();
            assert_eq!(found.node.as_deref(), Some(node));
            let expected = expected.map_or(StackIdx::NONE, |line| stacks[line as usize - 1]);
            assert_eq!(found.stack, expected, "{node}: {calls:?}");
        };
        // A product saves its input, which a norm made.
        check(
            "AddmmBackward0",
            &["native_layer_norm", "addmm"],
            0,
            Some(2),
        );
        check("MmBackward0", &["mm", "mm"], 0, Some(2));
        // An operation that saves what it made.
        check(
            "NativeLayerNormBackward0",
            &["native_layer_norm", "addmm"],
            0,
            Some(1),
        );
        check(
            "MaxPool2DWithIndicesBackward0",
            &["max_pool2d_with_indices"],
            0,
            Some(1),
        );
        check(
            "NllLossBackward0",
            &["_log_softmax", "nll_loss_forward"],
            0,
            Some(2),
        );
        check("ReluBackward0", &["add", "relu_"], 0, Some(2));
        // `add` is no call of `addmm`, nor the other way round.
        check("AddmmBackward0", &["native_layer_norm", "add"], 0, None);
        check("AddBackward0", &["native_layer_norm", "addmm"], 0, None);
        check(
            "EmbeddingBackward0",
            &["native_layer_norm", "gelu", "mm"],
            0,
            None,
        );
    }

    #[test]
    fn the_first_gradient_is_no_operation_of_a_forward_pass() {
        let mut b = TraceBuilder::default();
        let loss = kind(&mut b, "loss", "net.py", 3, 512);
        let loss = b.alloc(loss);
        let file = "/v/site-packages/torch/autograd/__init__.py";
        let first = kind(&mut b, "_make_grads", file, 231, 512);
        let first = b.alloc(first);
        let gradient = b.alloc(block_of(Bytes(512)));
        for block in [first, loss] {
            b.free_requested(block);
            b.free_completed(block);
        }
        let trace = b.finish();
        let found = of_block(&trace.devices[0], &trace.stacks, gradient).unwrap();
        let of_loss = trace.devices[0].blocks.kind(loss).alloc_stack;
        assert_eq!(found.stack, of_loss);
    }

    /// The same, word by word.
    fn node_among_words(name: &str) -> Option<&str> {
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.find(|word| {
            let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
            stem.len() < word.len() && stem.len() > 8 && stem.ends_with("Backward")
        })
    }

    proptest! {
        #[test]
        fn a_node_is_the_first_word_that_has_its_form(
            parts in proptest::collection::vec(
                proptest::sample::select(vec!["Backward", "Mm", "ward", "1", "23", "_", "::", "é"]),
                0..12,
            ),
        ) {
            let name = parts.concat();
            prop_assert_eq!(node_in(&name), node_among_words(&name));
        }
    }
}
