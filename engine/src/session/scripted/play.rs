//! Plays a step that was written down.

use std::rc::{Rc, Weak};

use super::{Packed, Unpacked, Writing};
use crate::autograd::{CtxLifetime, Edge, Edges, Inputs, Kind, Node, NodeRef, Tensor};
use crate::device::StreamId;
use crate::memory::{Block, Heap, Label, Storage};
use crate::offload::{GraphTask, TensorId};
use crate::race::Range;
use crate::script::{Op, Operand, Place, Script, assign_places};
use crate::session::accelerator::range_of;
use crate::session::{RunError, Session};
use crate::tensor::{DType, Layout, Placement, SavedTensor, StorageInfo, TensorClass};
use trace::units::{Bytes, DeviceAddr};

/// The contents of a place.
#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    Block(Block),
    /// Memory that the offloader may hold too.
    Shared(Rc<Storage>),
    /// What unpack brought back: the tensor that the program holds.
    Restored(Tensor),
}

/// A leaf of the step that is played.
struct Leaf {
    place: Place,
    /// Represents the leaf in the graph of everything besides the program that keeps the leaf
    /// alive.
    node: Weak<Node>,
    gradient: Option<Place>,
}

/// A step that can be played, with what exists while it is played.
pub(crate) struct Scripted {
    script: Script,
    packs: Vec<Packed>,
    packed: Vec<Place>,
    unpacks: Vec<Unpacked>,
    unpacked: Vec<Place>,
    /// Backward passes of the step.
    tasks: u64,
    // The fields from here on belong to the step that is being played.
    held: Vec<Held>,
    /// First address of the contents of each place.
    bases: Vec<u64>,
    ids: Vec<TensorId>,
    leaves: Vec<Leaf>,
    /// The node that has unpacked, until its hooks have run.
    node: Option<Rc<Node>>,
}

impl Scripted {
    pub(super) fn new(
        writing: Writing,
        mut script: Script,
        shared: &[bool],
        tasks: u64,
    ) -> Scripted {
        let (mut packed, mut unpacked) = (writing.packed, writing.unpacked);
        let mut leaves = writing.leaves.into_places();
        let mut shared = shared.to_vec();
        for leaf in &leaves {
            shared[leaf.0 as usize] = true;
        }
        assign_places(
            &mut script,
            &shared,
            &mut packed,
            &mut unpacked,
            &mut leaves,
        );
        let leaf = |place: Place| Leaf {
            place,
            node: Weak::new(),
            gradient: None,
        };
        Scripted {
            held: std::iter::repeat_with(Held::default)
                .take(script.places)
                .collect(),
            bases: vec![0; script.places],
            ids: vec![TensorId(0); packed.len()],
            leaves: leaves.into_iter().map(leaf).collect(),
            node: None,
            script,
            packs: writing.packs,
            packed,
            unpacks: writing.unpacks,
            unpacked,
            tasks,
        }
    }

    fn storage(&self, place: Place) -> Option<&Rc<Storage>> {
        match &self.held[place.0 as usize] {
            Held::Shared(storage) => Some(storage),
            Held::Restored(tensor) => Some(tensor.storage()),
            Held::Nothing | Held::Block(_) => None,
        }
    }

    /// The bytes that an operand means now.
    fn range(&self, operand: &Operand) -> Range {
        match *operand {
            Operand::Part(place, from, to) => {
                let base = self.bases[place.0 as usize];
                Range {
                    start: DeviceAddr(base + from),
                    end: DeviceAddr(base + to),
                }
            }
            Operand::Restored(place) => match &self.held[place.0 as usize] {
                Held::Restored(tensor) => range_of(tensor.saved()),
                _ => Range {
                    start: DeviceAddr(0),
                    end: DeviceAddr(0),
                },
            },
        }
    }

    fn hold(&mut self, place: Place, base: u64, what: Held) {
        self.bases[place.0 as usize] = base;
        self.held[place.0 as usize] = what;
    }

    /// A node that keeps leaves of the step alive.
    fn node_above(&mut self, reaches: u64) -> Rc<Node> {
        let mut next = Edges::new();
        for number in 0..self.leaves.len() {
            if reaches >> number & 1 != 0 {
                let node = self.leaf_node(number);
                next.push(Some(Edge { node, output: 0 }));
            }
        }
        stand_in(next, Vec::new())
    }

    fn leaf_node(&mut self, number: usize) -> Rc<Node> {
        let leaf = &self.leaves[number];
        if let Some(node) = leaf.node.upgrade() {
            return node;
        }
        let places = [Some(leaf.place), leaf.gradient];
        let storages = places.into_iter().flatten();
        let storages = storages.filter_map(|place| self.storage(place));
        let node = stand_in(Edges::new(), storages.map(memory_of).collect());
        self.leaves[number].node = Rc::downgrade(&node);
        node
    }
}

impl Session {
    /// Plays a step.
    ///
    /// # Errors
    /// The errors of the program. The session cannot be used after an error.
    pub(crate) fn play(&mut self, step: &mut Scripted) -> Result<(), RunError> {
        let first_task = self.accelerator.skip_tasks(step.tasks);
        for leaf in &mut step.leaves {
            leaf.node = Weak::new();
            leaf.gradient = None;
        }
        let script = std::mem::take(&mut step.script);
        let outcome = self.play_all(step, &script, first_task);
        step.script = script;
        outcome
    }

    fn play_all(
        &mut self,
        step: &mut Scripted,
        script: &Script,
        first_task: u64,
    ) -> Result<(), RunError> {
        let mut operands = &script.operands[..];
        let mut views = &script.views[..];
        for op in &script.ops {
            match *op {
                Op::Allocate(place, stream, bytes) => {
                    let Heap {
                        caching, device, ..
                    } = &mut *self.heap().borrow_mut();
                    let block = caching.take_block(bytes, stream, device.as_mut())?;
                    step.hold(place, block.start.0, Held::Block(block));
                }
                Op::Share(place, stream, bytes) => self.play_share(step, place, stream, bytes)?,
                Op::Free(place) => {
                    match std::mem::take(&mut step.held[place.0 as usize]) {
                        Held::Block(block) => self.heap().borrow_mut().caching.give_block(block),
                        // Dropping frees the memory, unless the offloader still holds it.
                        Held::Shared(_) | Held::Restored(_) | Held::Nothing => {}
                    }
                }
                Op::Launch {
                    stream,
                    site,
                    seconds,
                    reads,
                    writes,
                } => {
                    let count = usize::from(reads) + usize::from(writes);
                    let (these, rest) = operands.split_at(count);
                    operands = rest;
                    let (reads, writes) = these.split_at(usize::from(reads));
                    let reads = reads.iter().map(|operand| step.range(operand));
                    let writes = writes.iter().map(|operand| step.range(operand));
                    self.accelerator
                        .relaunch(stream, seconds, site, reads, writes);
                }
                Op::Hooks(count) => {
                    let (these, rest) = views.split_at(usize::from(count));
                    views = rest;
                    self.play_hooks(step, these)?;
                }
                Op::Task(0) => self.accelerator.end_task(GraphTask(0)),
                Op::Task(number) => self
                    .accelerator
                    .end_task(GraphTask(first_task + number - 1)),
                _ => self.play_offload(step, *op)?,
            }
        }
        Ok(())
    }

    fn play_share(
        &mut self,
        step: &mut Scripted,
        place: Place,
        stream: StreamId,
        bytes: Bytes,
    ) -> Result<(), RunError> {
        let storage = Storage::allocate(self.heap(), bytes, stream, Label::default())?;
        step.hold(place, storage.start().0, Held::Shared(storage));
        Ok(())
    }

    /// Plays the instructions that come only a few hundred times in a step.
    fn play_offload(&mut self, step: &mut Scripted, op: Op) -> Result<(), RunError> {
        match op {
            Op::Stream(stream) => {
                self.accelerator.set_stream(stream);
            }
            Op::Enter => {
                if let Some(offloader) = &mut self.offloader {
                    offloader.enter(&mut self.accelerator);
                }
            }
            Op::Exit => {
                if let Some(offloader) = &mut self.offloader {
                    offloader.exit(&mut self.accelerator)?;
                }
            }
            Op::Pack(number) => self.play_pack(step, number as usize)?,
            Op::Unpack(number) => self.play_unpack(step, number as usize)?,
            Op::Gradient(number, place) => {
                let leaf = &mut step.leaves[number as usize];
                leaf.gradient = Some(place);
                if let Some(node) = leaf.node.upgrade() {
                    let gradient = step.storage(place).map(memory_of);
                    node.ctx.borrow_mut().extend(gradient);
                }
            }
            Op::EndOfPass => self.run_end_of_backward()?,
            Op::Allocate(..)
            | Op::Share(..)
            | Op::Free(_)
            | Op::Launch { .. }
            | Op::Hooks(_)
            | Op::Task(_) => {}
        }
        Ok(())
    }

    fn play_pack(&mut self, step: &mut Scripted, number: usize) -> Result<(), RunError> {
        let Packed {
            mut saved,
            ref kept,
            reaches,
            ..
        } = step.packs[number];
        let of_step = step.storage(step.packed[number]);
        let Some(storage) = kept.as_ref().or(of_step).cloned() else {
            return Err(RunError::NoOffloader);
        };
        saved.storage.base = Some(storage.start());
        saved.object = self.accelerator.next_object();
        let grad_fn = (reaches != 0).then(|| Edge {
            node: step.node_above(reaches),
            output: 0,
        });
        let tensor = Tensor::new(saved, storage, grad_fn, None);
        let Some(offloader) = &mut self.offloader else {
            return Err(RunError::NoOffloader);
        };
        step.ids[number] = offloader.pack(&tensor, &mut self.accelerator)?;
        Ok(())
    }

    fn play_unpack(&mut self, step: &mut Scripted, number: usize) -> Result<(), RunError> {
        let Unpacked { pack, reaches } = step.unpacks[number];
        let node = step.node.take();
        let node = node.unwrap_or_else(|| step.node_above(reaches));
        self.accelerator.set_node(NodeRef(Some(Rc::clone(&node))));
        step.node = Some(node);
        let tensor = self.unpack_offloaded(step.ids[pack as usize])?;
        let place = step.unpacked[number];
        if place != Place::FIXED {
            let base = tensor.storage().start().0;
            step.hold(place, base, Held::Restored(tensor));
        }
        Ok(())
    }

    fn play_hooks(&mut self, step: &mut Scripted, views: &[(Place, u32)]) -> Result<(), RunError> {
        let others: Vec<Rc<Storage>> = views
            .iter()
            .filter_map(|&(place, count)| Some((step.storage(place)?, count)))
            .flat_map(|(storage, count)| (0..count).map(|_| Rc::clone(storage)))
            .collect();
        if let Some(node) = step.node.take() {
            for hook in node.hooks.take() {
                self.run_post_hook(hook)?;
            }
        }
        self.accelerator.set_node(NodeRef(None));
        drop(others);
        Ok(())
    }
}

/// A node that keeps these edges and tensors alive, and never runs.
fn stand_in(next: Edges, ctx: Vec<Tensor>) -> Rc<Node> {
    Rc::new(Node {
        sequence: 0,
        name: "",
        kind: Kind::Formula(|_, _| Err(RunError::NoGradient)),
        next,
        inputs: Inputs::new(),
        outputs: 1,
        flops: 0,
        saved: Default::default(),
        hooks: Default::default(),
        ctx: ctx.into(),
        ctx_lifetime: CtxLifetime::Node,
        waiting: Default::default(),
    })
}

/// A tensor that only represents its memory.
fn memory_of(storage: &Rc<Storage>) -> Tensor {
    let saved = SavedTensor {
        storage: StorageInfo {
            base: Some(storage.start()),
            bytes: storage.bytes(),
        },
        layout: Layout::contiguous(&[]),
        dtype: DType::Uint8,
        placement: Placement::Accelerator,
        class: TensorClass::Plain,
        object: 0,
    };
    Tensor::new(saved, Rc::clone(storage), None, None)
}
