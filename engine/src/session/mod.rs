//! A session: one training process. It owns the device, the state of the graph and the offloader.
//!
//! Operations ([`crate::ops`]) allocate memory through the session, save tensors through its stack
//! of hooks, and add their outputs to the graph. The backward pass ([`crate::autograd`]) runs on
//! it.

mod accelerator;
mod around;
mod error;
mod factors;
mod modules;
mod scripted;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

pub use accelerator::{Accelerator, AcceleratorEvent, Copied, HostCopy};
pub use around::Around;
pub(crate) use around::OnHost;
pub use error::RunError;
pub(crate) use factors::Factors;
pub(crate) use modules::{END_OF_MODULE, Slot, Unit};
pub use modules::{HostKey, Limits, ModuleOffload, Share};
pub(crate) use scripted::{Scripted, Written};

use crate::autograd::{
    CtxLifetime, Edge, Edges, Formula, HookLayer, Inputs, Kind, LeafMeta, Meta, Node, NodeRef,
    Saved, SavedVariable, Tensor, Variables,
};
use crate::deviation::Deviation;
use crate::device::{Device, Fingerprint, Kernel, StreamId};
use crate::memory::{Role, SharedHeap, Storage};
use crate::offload::{Decision, GraphTask, OffloadActivations, OffloadConfig, PostHook, TensorId};
use crate::script::Op;
use crate::tensor::{DType, Dims, Layout, Placement, SavedTensor, StorageInfo, TensorClass};
use trace::units::{Bytes, DeviceAddr};

/// Sequence number of accumulators: they run before every other node that is ready.
const FIRST: u64 = u64::MAX;

/// One training process on one device.
pub struct Session {
    /// Device, streams and memory, which the offloader uses too.
    pub accelerator: Accelerator,
    offloader: Option<OffloadActivations<Accelerator>>,
    around: Around,
    modules: Option<modules::Modules>,
    hooks: Vec<HookLayer>,
    grad_enabled: bool,
    /// A rule that is broken on purpose.
    deviation: Option<Deviation>,
    /// One node that replaces all nodes that a recompute makes and drops.
    discarded: Rc<Node>,
    sequence: u64,
    /// Checksums of offloaded tensors, on devices that keep bytes.
    prints: HashMap<TensorId, Fingerprint>,
    /// cuBLAS workspaces: one for the thread of the forward pass, and one for the thread of
    /// autograd.
    workspaces: [Option<Rc<Storage>>; 2],
    /// cuBLASLt's workspace, which products with a bias use.
    lt_workspace: Option<Rc<Storage>>,
    /// What is known about a step while it is written down.
    writing: Option<Box<scripted::Writing>>,
}

/// Whether one of a node's saved variables is a tensor that the node itself holds, or leads to one.
pub(crate) fn holds_tensors(saved: &[SavedVariable]) -> bool {
    let offloaded = |variable: &SavedVariable| matches!(variable.packed, Saved::Offloaded(_));
    !saved.iter().all(offloaded)
}

/// The bytes that a kernel moves: it reads and writes each tensor once.
fn traffic(reads: &[&Tensor], writes: &[&Tensor]) -> Bytes {
    let touched = reads.iter().chain(writes);
    touched.map(|tensor| tensor.bytes()).sum()
}

/// One cuBLAS workspace on a Hopper card.
pub(crate) const CUBLAS_WORKSPACE: Bytes = Bytes::mib(32);
/// The workspace of cuBLASLt.
const CUBLAS_LT_WORKSPACE: Bytes = Bytes::mib(1);

impl Session {
    /// A session on a fresh device.
    pub fn new(device: Box<dyn Device>) -> Session {
        Session {
            accelerator: Accelerator::new(device),
            offloader: None,
            around: Around::default(),
            modules: None,
            hooks: Vec::new(),
            grad_enabled: true,
            deviation: None,
            discarded: Recording::of_recompute("recompute", |_, _| Err(RunError::NoGradient))
                .finish(1),
            sequence: 0,
            prints: HashMap::new(),
            workspaces: [None, None],
            lt_workspace: None,
            writing: None,
        }
    }

    /// The heap that storages belong to.
    pub fn heap(&self) -> &SharedHeap {
        self.accelerator.heap()
    }

    /// Installs an offloader for the run; it is used between [`Session::enter`] and
    /// [`Session::exit`].
    ///
    /// # Errors
    /// The error of its constructor.
    pub fn install_offloader(&mut self, config: OffloadConfig) -> Result<(), RunError> {
        self.offloader = Some(OffloadActivations::new(config, &mut self.accelerator)?);
        Ok(())
    }

    /// The offloader, where there is one.
    pub fn offloader(&self) -> Option<&OffloadActivations<Accelerator>> {
        self.offloader.as_ref()
    }

    /// The offloader, where there is one.
    pub fn offloader_mut(&mut self) -> Option<&mut OffloadActivations<Accelerator>> {
        self.offloader.as_mut()
    }

    /// Breaks a rule on purpose, for negative controls.
    pub fn deviate(&mut self, deviation: Option<Deviation>) {
        self.deviation = deviation;
        self.heap().borrow_mut().caching.deviate(deviation);
    }

    pub(crate) fn deviates(&self, deviation: Deviation) -> bool {
        deviation.is(self.deviation)
    }

    /// `__enter__` of the offloader; does nothing without one.
    pub fn enter(&mut self) {
        let written = self.offloader.is_some() && self.write(Op::Enter);
        if let Some(offloader) = &mut self.offloader {
            if !written {
                offloader.enter(&mut self.accelerator);
            }
            self.hooks.push(HookLayer::Offload);
        }
        self.enter_around();
    }

    /// `__exit__`; the hooks are popped in any case.
    ///
    /// # Errors
    /// A synchronisation that reports earlier faults.
    pub fn exit(&mut self) -> Result<(), RunError> {
        self.exit_around();
        let written = self.offloader.is_some() && self.write(Op::Exit);
        let Some(offloader) = &mut self.offloader else {
            return Ok(());
        };
        let outcome = match written {
            true => Ok(()),
            false => offloader.exit(&mut self.accelerator),
        };
        self.hooks.pop();
        Ok(outcome?)
    }

    /// Runs `body` under a `NoOpManager`, if the context around the steps uses them.
    ///
    /// # Errors
    /// The error of the body.
    pub fn without_offload<T>(
        &mut self,
        body: impl FnOnce(&mut Session) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        if !self.has_managers() {
            return body(self);
        }
        self.hooks.push(HookLayer::NoOp);
        let outcome = body(self);
        self.hooks.pop();
        outcome
    }

    /// Runs `body` with grad disabled.
    ///
    /// # Errors
    /// The error of the body.
    pub fn no_grad<T>(
        &mut self,
        body: impl FnOnce(&mut Session) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let before = self.set_grad_enabled(false);
        let outcome = body(self);
        self.set_grad_enabled(before);
        outcome
    }

    /// Whether the allocator keeps events.
    pub(crate) fn keeps_events(&self) -> bool {
        self.heap().borrow().caching.keeps_events()
    }

    /// Whether operations build a graph now.
    pub fn grad_enabled(&self) -> bool {
        self.grad_enabled
    }

    pub(crate) fn set_grad_enabled(&mut self, enabled: bool) -> bool {
        std::mem::replace(&mut self.grad_enabled, enabled)
    }

    pub(crate) fn push_hooks(&mut self, layer: HookLayer) {
        self.hooks.push(layer);
    }

    pub(crate) fn pop_hooks(&mut self) {
        self.hooks.pop();
    }

    /// Everything besides what is alive that decides what a step does, as numbers; `None` within a
    /// step, or if the device has bytes in memory.
    pub(crate) fn standing(&mut self) -> Option<Vec<u64>> {
        let between_steps = self.hooks.is_empty() && self.grad_enabled && self.prints.is_empty();
        match between_steps {
            true => self.accelerator.standing(),
            false => None,
        }
    }

    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    // ---- tensors -------------------------------------------------------------------------

    /// An uninitialised tensor on the current stream.
    ///
    /// # Errors
    /// Out of memory.
    pub fn empty(&mut self, shape: impl Into<Dims>, dtype: DType) -> Result<Tensor, RunError> {
        let role = self.role_now();
        self.empty_as(shape, dtype, role)
    }

    /// An uninitialised tensor with a known purpose.
    ///
    /// # Errors
    /// Out of memory.
    pub fn empty_as(
        &mut self,
        shape: impl Into<Dims>,
        dtype: DType,
        role: Role,
    ) -> Result<Tensor, RunError> {
        let layout = Layout::contiguous(shape);
        let stream = self.accelerator.stream();
        let storage = self
            .accelerator
            .allocate(layout.shape, dtype, role, stream)?;
        Ok(self.accelerator.tensor_over(storage, layout, dtype))
    }

    /// The purpose of a tensor that is made now, unless the caller knows better.
    fn role_now(&self) -> Role {
        if matches!(self.hooks.last(), Some(HookLayer::Recompute { .. })) {
            Role::Recomputed
        } else if self.in_backward() {
            Role::ActivationGradient
        } else {
            Role::Activation
        }
    }

    pub(crate) fn empty_like(&mut self, like: &Tensor) -> Result<Tensor, RunError> {
        self.empty(like.layout().shape, like.dtype())
    }

    /// Allocates scratch memory of a kernel, which is freed when the result is dropped.
    ///
    /// # Errors
    /// Out of memory.
    pub fn scratch(&mut self, bytes: Bytes) -> Result<Rc<Storage>, RunError> {
        let stream = self.accelerator.stream();
        Ok(self.accelerator.allocate_raw(bytes, stream)?)
    }

    /// A parameter that requires grad.
    ///
    /// # Errors
    /// Out of memory.
    pub fn parameter(&mut self, shape: impl Into<Dims>, dtype: DType) -> Result<Tensor, RunError> {
        let data = self.frozen(shape, dtype)?;
        let leaf = Some(LeafMeta::default());
        Ok(Tensor::new(
            data.0.saved,
            Rc::clone(data.storage()),
            None,
            leaf,
        ))
    }

    /// A parameter that is frozen.
    ///
    /// # Errors
    /// Out of memory.
    pub fn frozen(&mut self, shape: impl Into<Dims>, dtype: DType) -> Result<Tensor, RunError> {
        let data = self.empty_as(shape, dtype, Role::Parameter)?;
        self.initialise(&data)?;
        let saved = SavedTensor {
            class: TensorClass::Parameter,
            ..data.0.saved
        };
        Ok(Tensor::new(saved, Rc::clone(data.storage()), None, None))
    }

    /// A leaf on the host that requires grad, for example a checkpoint's dummy.
    pub(crate) fn host_leaf(&mut self, shape: &[u64], dtype: DType) -> Result<Tensor, RunError> {
        let storage = self
            .accelerator
            .allocate_raw(Bytes::ZERO, StreamId::DEFAULT)?;
        let saved = SavedTensor {
            storage: StorageInfo {
                base: Some(DeviceAddr(0)),
                bytes: Bytes::ZERO,
            },
            layout: Layout::contiguous(shape),
            dtype,
            placement: Placement::Host,
            class: TensorClass::Plain,
            object: self.accelerator.next_object(),
        };
        Ok(Tensor::new(saved, storage, None, Some(LeafMeta::default())))
    }

    /// The same data as a leaf that requires grad (`detach().requires_grad_()`).
    pub fn leaf_over(&mut self, tensor: &Tensor) -> Tensor {
        let leaf = Some(LeafMeta::default());
        Tensor::new(tensor.0.saved, Rc::clone(tensor.storage()), None, leaf)
    }

    pub(crate) fn ones_like(&mut self, tensor: &Tensor) -> Result<Tensor, RunError> {
        let ones = self.empty_like(tensor)?;
        self.kernel_over(&[], &[&ones])?;
        Ok(ones)
    }

    // ---- kernels -------------------------------------------------------------------------

    /// A kernel that is limited by memory: it reads and writes each tensor once.
    pub(crate) fn kernel_over(
        &mut self,
        reads: &[&Tensor],
        writes: &[&Tensor],
    ) -> Result<(), RunError> {
        self.kernel(reads, writes, 0.0)
    }

    pub(crate) fn kernel(
        &mut self,
        reads: &[&Tensor],
        writes: &[&Tensor],
        flops: f64,
    ) -> Result<(), RunError> {
        let kernel = Kernel {
            flops,
            traffic: traffic(reads, writes),
        };
        Ok(self.accelerator.launch(reads, writes, kernel, None)?)
    }

    /// A matrix product by cuBLAS. The first one on each thread takes a workspace that stays.
    pub(crate) fn cublas(
        &mut self,
        reads: &[&Tensor],
        out: &Tensor,
        flops: f64,
        factors: Option<Factors<'_>>,
    ) -> Result<(), RunError> {
        let thread = usize::from(self.in_backward());
        if self.workspaces[thread].is_none() {
            self.workspaces[thread] = Some(self.scratch(CUBLAS_WORKSPACE)?);
        }
        let workspace = &self.workspaces[thread];
        let product = factors
            .filter(|_| self.accelerator.keeps_contents())
            .zip(workspace.as_ref())
            .and_then(|(factors, workspace)| factors.product(out, workspace));
        let kernel = Kernel {
            flops,
            traffic: traffic(reads, &[out]),
        };
        Ok(self.accelerator.launch(reads, &[out], kernel, product)?)
    }

    /// A matrix product with a bias, by cuBLASLt.
    pub(crate) fn cublas_lt(
        &mut self,
        reads: &[&Tensor],
        out: &Tensor,
        flops: f64,
        factors: Option<Factors<'_>>,
    ) -> Result<(), RunError> {
        self.cublas(reads, out, flops, factors)?;
        if self.lt_workspace.is_none() {
            self.lt_workspace = Some(self.scratch(CUBLAS_LT_WORKSPACE)?);
        }
        Ok(())
    }

    // ---- graph ---------------------------------------------------------------------------

    /// Saves a tensor for backward through the hook on top of the stack.
    pub(crate) fn save(&mut self, tensor: &Tensor) -> Result<SavedVariable, RunError> {
        let packed = match self.hooks.last().cloned() {
            None | Some(HookLayer::NoOp) => Saved::Plain(tensor.clone()),
            Some(HookLayer::Offload) => self.pack_offloaded(tensor)?,
            Some(HookLayer::Host) => self.pack_to_host(tensor)?,
            Some(HookLayer::Module) => self.pack_into_module(tensor)?,
            Some(HookLayer::Region(frame)) => Session::pack_into_region(&frame),
            Some(HookLayer::Recompute { frame, saved }) => {
                Session::pack_into_recompute(&frame, &saved, tensor)?
            }
        };
        let grad_fn = match &packed {
            Saved::Plain(_) => None,
            // A leaf must come back as one that requires grad; otherwise a recompute would save
            // less.
            _ => self.edge_of(tensor),
        };
        Ok(SavedVariable { packed, grad_fn })
    }

    /// The edge that the gradients of a tensor take.
    pub(crate) fn edge_of(&mut self, tensor: &Tensor) -> Option<Edge> {
        if let Some(edge) = &tensor.0.grad_fn {
            return Some(edge.clone());
        }
        let leaf = tensor.0.leaf.as_ref()?;
        let known = leaf.accumulator.borrow().upgrade();
        let node = known.unwrap_or_else(|| {
            let node = Rc::new(Node {
                sequence: FIRST,
                name: "AccumulateGrad",
                kind: Kind::Accumulate(tensor.clone()),
                next: Edges::new(),
                inputs: Inputs::new(),
                outputs: 1,
                flops: 0,
                saved: Default::default(),
                hooks: Default::default(),
                ctx: Default::default(),
                ctx_lifetime: CtxLifetime::Node,
                waiting: Default::default(),
            });
            leaf.accumulator.replace(Rc::downgrade(&node));
            node
        });
        Some(Edge { node, output: 0 })
    }

    /// Begins a graph node for an operation on `inputs`, if one of them requires grad.
    pub(crate) fn record(
        &mut self,
        name: &'static str,
        formula: Formula,
        inputs: &[&Tensor],
    ) -> Option<Recording> {
        self.accelerator.set_op(name);
        if !self.grad_enabled || !inputs.iter().any(|input| input.requires_grad()) {
            return None;
        }
        if matches!(self.hooks.last(), Some(HookLayer::Recompute { .. })) {
            return Some(Recording::of_recompute(name, formula));
        }
        let metas = inputs.iter().map(|input| Meta {
            shape: input.layout().shape,
            dtype: input.dtype(),
            needs_grad: input.requires_grad(),
        });
        Some(Recording {
            name,
            formula,
            inputs: metas.collect(),
            next: inputs.iter().map(|input| self.edge_of(input)).collect(),
            saved: Variables::new(),
            flops: 0,
            sequence: self.next_sequence(),
            ctx: Vec::new(),
            ctx_lifetime: CtxLifetime::Node,
            fate: Fate::Runs,
        })
    }

    /// Saves a tensor for the node, if there is one.
    pub(crate) fn save_for(
        &mut self,
        recording: &mut Option<Recording>,
        tensor: &Tensor,
    ) -> Result<(), RunError> {
        if let Some(recording) = recording {
            let variable = self.save(tensor)?;
            if recording.fate == Fate::Runs {
                recording.saved.push(variable);
            }
        }
        Ok(())
    }

    /// Saves an output without its place in the graph; otherwise it would keep itself alive.
    pub(crate) fn save_output(
        &mut self,
        recording: &mut Option<Recording>,
        output: &Tensor,
    ) -> Result<(), RunError> {
        debug_assert!(output.0.grad_fn.is_none(), "saved before it is attached");
        self.save_for(recording, output)
    }

    /// The output as a tensor of the graph.
    pub(crate) fn attach(&mut self, output: Tensor, recording: Option<Recording>) -> Tensor {
        match recording {
            None => output,
            Some(recording) => {
                let node = self.node_of(recording, 1);
                output.with_grad_fn(Edge { node, output: 0 })
            }
        }
    }

    fn node_of(&mut self, recording: Recording, outputs: usize) -> Rc<Node> {
        match recording.fate {
            Fate::Runs => {
                let holds = holds_tensors(&recording.saved);
                self.write_node(recording.sequence, &recording.next, holds);
                recording.finish(outputs)
            }
            Fate::Discarded => Rc::clone(&self.discarded),
        }
    }

    /// Outputs of one node, numbered in order.
    pub(crate) fn attach_all(
        &mut self,
        outputs: Vec<Tensor>,
        recording: Option<Recording>,
    ) -> Vec<Tensor> {
        let Some(recording) = recording else {
            return outputs;
        };
        let node = self.node_of(recording, outputs.len());
        let attach = |(output, tensor): (usize, Tensor)| {
            let edge = Some(Edge {
                node: Rc::clone(&node),
                output,
            });
            Tensor::new(tensor.0.saved, Rc::clone(tensor.storage()), edge, None)
        };
        outputs.into_iter().enumerate().map(attach).collect()
    }

    // ---- backward ------------------------------------------------------------------------

    /// Memory that libraries hold for the rest of the run, with a name for each piece.
    pub(crate) fn workspace_memory(&self) -> impl Iterator<Item = (&'static str, &Rc<Storage>)> {
        let [forward, backward] = &self.workspaces;
        [
            ("cuBLAS workspace of the forward thread", forward),
            ("cuBLAS workspace of the backward thread", backward),
            ("cuBLASLt workspace", &self.lt_workspace),
        ]
        .into_iter()
        .filter_map(|(what, storage)| Some((what, storage.as_ref()?)))
    }

    /// Whether a backward pass is running; it has its own thread.
    fn in_backward(&self) -> bool {
        self.accelerator.task() != GraphTask(0)
    }

    pub(crate) fn graph_task(&self) -> GraphTask {
        self.accelerator.task()
    }

    pub(crate) fn begin_graph_task(&mut self) -> GraphTask {
        self.accelerator.begin_task()
    }

    pub(crate) fn end_graph_task(&mut self, outer: GraphTask) {
        self.write_task(outer);
        self.accelerator.end_task(outer);
    }

    pub(crate) fn set_current_node(&mut self, node: NodeRef) -> NodeRef {
        self.accelerator.set_node(node)
    }

    fn pack_offloaded(&mut self, tensor: &Tensor) -> Result<Saved, RunError> {
        if let Some(id) = self.write_pack(tensor) {
            return Ok(Saved::Offloaded(id));
        }
        let Some(offloader) = &mut self.offloader else {
            return Ok(Saved::Plain(tensor.clone()));
        };
        let id = offloader.pack(tensor, &mut self.accelerator)?;
        self.print_packed(id, tensor)?;
        Ok(Saved::Offloaded(id))
    }

    pub(crate) fn unpack_offloaded(&mut self, id: TensorId) -> Result<Tensor, RunError> {
        if let Some(written) = self.write_unpack(id) {
            return written;
        }
        let Some(offloader) = &mut self.offloader else {
            return Err(RunError::NoOffloader);
        };
        let (tensor, _) = offloader.unpack(id, &mut self.accelerator)?;
        if let Some(print) = self.prints.remove(&id) {
            self.accelerator.verify(&tensor, print)?;
        }
        Ok(tensor)
    }

    /// Takes the checksum of a tensor that has left the device. This is the checksum of the tensor
    /// itself, not of a copy made by pack, and as the stream that packed it sees it.
    fn print_packed(&mut self, id: TensorId, tensor: &Tensor) -> Result<(), RunError> {
        let offloader = self.offloader.as_ref();
        let gone = offloader.and_then(|offloader| offloader.decision(id));
        if !self.accelerator.keeps_contents() || gone != Some(Decision::Offloaded) {
            return Ok(());
        }
        // If ids start again, checksums of tensors that were never restored are forgotten.
        if let Some(stale) = self.prints.remove(&id) {
            self.accelerator.forget(stale);
        }
        if let Some(print) = self.accelerator.fingerprint(tensor)? {
            self.prints.insert(id, print);
        }
        Ok(())
    }

    /// Fills a tensor with bytes from outside, on devices that keep bytes.
    ///
    /// # Errors
    /// A fault of the device.
    pub fn initialise(&mut self, tensor: &Tensor) -> Result<(), RunError> {
        Ok(self.accelerator.initialise(tensor)?)
    }

    pub(crate) fn run_post_hook(&mut self, hook: PostHook) -> Result<(), RunError> {
        let Some(offloader) = &mut self.offloader else {
            return Err(RunError::NoOffloader);
        };
        Ok(offloader.node_finished(hook, &mut self.accelerator)?)
    }

    /// Runs the callbacks that were queued during the pass that has just ended.
    pub(crate) fn run_end_of_backward(&mut self) -> Result<(), RunError> {
        if self.write(Op::EndOfPass) || !self.accelerator.take_callback() {
            return Ok(());
        }
        let Some(offloader) = &mut self.offloader else {
            return Err(RunError::NoOffloader);
        };
        Ok(offloader.backward_finished(&mut self.accelerator)?)
    }
}

/// A node that is not finished yet.
pub(crate) struct Recording {
    name: &'static str,
    formula: Formula,
    inputs: Inputs,
    next: Edges,
    saved: Variables,
    sequence: u64,
    /// Floating point operations of the formula, if it computes products.
    pub flops: u64,
    /// Attributes of the context.
    pub ctx: Vec<Tensor>,
    /// How long these attributes live.
    pub ctx_lifetime: CtxLifetime,
    fate: Fate,
}

/// Whether this node will ever run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It becomes part of a graph.
    Runs,
    /// A recompute makes it only to save tensors; one node replaces all of these.
    Discarded,
}

impl Recording {
    /// The graph of a recompute is dropped when the recompute ends. What it saved is then in the
    /// holders, so its nodes need no edges, no sizes and no identity of their own.
    fn of_recompute(name: &'static str, formula: Formula) -> Recording {
        Recording {
            name,
            formula,
            inputs: Inputs::new(),
            next: Edges::new(),
            saved: Variables::new(),
            flops: 0,
            sequence: 0,
            ctx: Vec::new(),
            ctx_lifetime: CtxLifetime::Node,
            fate: Fate::Discarded,
        }
    }

    /// Makes the node.
    fn finish(self, outputs: usize) -> Rc<Node> {
        Rc::new(Node {
            sequence: self.sequence,
            name: self.name,
            kind: Kind::Formula(self.formula),
            next: self.next,
            inputs: self.inputs,
            outputs,
            flops: self.flops,
            saved: RefCell::new(self.saved),
            hooks: Default::default(),
            ctx: self.ctx.into(),
            ctx_lifetime: self.ctx_lifetime,
            waiting: Default::default(),
        })
    }
}
