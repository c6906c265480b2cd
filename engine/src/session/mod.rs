//! A session: one training process. It owns the device, the state of the graph and the offloader.
//!
//! Operations ([`crate::ops`]) allocate memory through the session, save tensors through its stack
//! of hooks, and add their outputs to the graph. The backward pass ([`crate::autograd`]) runs on
//! it.

mod accelerator;
mod around;
mod error;
mod factors;
mod graph;
mod kernels;
mod modules;
mod scripted;
mod tensors;

use std::collections::HashMap;
use std::rc::Rc;

pub use accelerator::{Accelerator, AcceleratorEvent, Copied, HostCopy};
pub use around::Around;
pub(crate) use around::OnHost;
pub use error::RunError;
pub(crate) use factors::Factors;
pub(crate) use graph::{Recording, holds_tensors};
pub(crate) use kernels::CUBLAS_WORKSPACE;
pub(crate) use modules::{END_OF_MODULE, Slot, Unit};
pub use modules::{HostKey, Limits, ModuleOffload, Share};
pub(crate) use scripted::{Scripted, Written};

use crate::autograd::{HookLayer, Node, NodeRef, Saved, Tensor};
use crate::deviation::Deviation;
use crate::device::{Device, Fingerprint};
use crate::memory::{SharedHeap, Storage};
use crate::offload::{Decision, GraphTask, OffloadActivations, OffloadConfig, PostHook, TensorId};
use crate::script::Op;

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
