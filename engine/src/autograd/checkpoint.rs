//! Non-reentrant checkpointing: nothing inside a region is kept, and all of it is recomputed.
//!
//! The hooks around the region save its inputs, and an empty host tensor that requires grad. Inside
//! the region, a [`Holder`] replaces each saved tensor. When backward unpacks the first holder, the
//! recompute begins. It stops as soon as every holder has its tensor.

use std::cell::{Cell, RefCell};
use std::iter;
use std::rc::{Rc, Weak};

use super::graph::{
    CtxLifetime, Edges, Frame, Holder, Inputs, Kind, Node, Region, Saved, Tensor, Variables,
};
use crate::deviation::Deviation;
use crate::session::{RunError, Session, Unit, holds_tensors};
use crate::tensor::DType;

/// What saved-tensor hooks do at one level of the stack.
#[derive(Clone)]
pub(crate) enum HookLayer {
    /// The offloader.
    Offload,
    /// Everything goes to the host and comes back with the graph.
    Host,
    /// Inside a module, where an offloader moves modules.
    Module,
    /// `NoOpManager`: tensors stay as they are.
    NoOp,
    /// The forward of a region.
    Region(Rc<Frame>),
    /// The recompute of a region; counts the tensors it has saved.
    Recompute {
        frame: Rc<Frame>,
        saved: Rc<Cell<usize>>,
    },
}

impl Session {
    /// Runs `function` under a checkpoint.
    ///
    /// # Errors
    /// The error of the function or of the hooks.
    pub fn checkpoint(&mut self, function: Region, inputs: &[Tensor]) -> Result<Tensor, RunError> {
        self.checkpoint_with(function, inputs, &[])
    }

    /// [`Session::checkpoint`] of a function that holds tensors itself: its keyword arguments stay
    /// with the function and are not among the saved inputs.
    ///
    /// # Errors
    /// As for [`Session::checkpoint`].
    pub fn checkpoint_with(
        &mut self,
        function: Region,
        inputs: &[Tensor],
        captured: &[Tensor],
    ) -> Result<Tensor, RunError> {
        if !self.grad_enabled() {
            return function(self, inputs);
        }
        let Some((first, others)) = inputs.split_first() else {
            return self.checkpoint_module(function, inputs, captured);
        };
        self.module(Unit::Part("checkpoint"), first.clone(), |s, first| {
            let inputs: Vec<Tensor> = iter::once(first).chain(others.iter().cloned()).collect();
            s.checkpoint_module(function, &inputs, captured)
        })
    }

    /// Runs the module under a checkpoint.
    fn checkpoint_module(
        &mut self,
        function: Region,
        inputs: &[Tensor],
        captured: &[Tensor],
    ) -> Result<Tensor, RunError> {
        let frame = Rc::new(Frame {
            function,
            input_saver: RefCell::new(None),
            holders: RefCell::new(Vec::new()),
            recomputed_in: Cell::new(None),
            captured: captured.to_vec(),
        });
        let saver = self.saving_block_inputs(|s| s.save_region_inputs(inputs))?;
        frame.input_saver.replace(Some(saver));
        self.push_hooks(HookLayer::Region(Rc::clone(&frame)));
        let outcome = (frame.function)(self, inputs);
        self.pop_hooks();
        outcome
    }

    /// `_NoopSaveInputs`: a node that only saves: first the dummy, then the inputs.
    fn save_region_inputs(&mut self, inputs: &[Tensor]) -> Result<Rc<Node>, RunError> {
        let dummy = self.host_leaf(&[0], DType::Float32)?;
        let mut saved = Variables::new();
        if !self.deviates(Deviation::SkipDummy) {
            saved.push(self.save(&dummy)?);
        }
        for input in inputs {
            saved.push(self.save(input)?);
        }
        let next = std::iter::once(&dummy)
            .chain(inputs)
            .map(|tensor| self.edge_of(tensor));
        let next: Edges = next.collect();
        let sequence = self.next_sequence();
        self.write_node(sequence, &next, holds_tensors(&saved));
        Ok(Rc::new(Node {
            sequence,
            name: "_NoopSaveInputs",
            kind: Kind::Formula(|_, _| Err(RunError::NoGradient)),
            next,
            inputs: Inputs::new(),
            outputs: 1,
            flops: 0,
            saved: RefCell::new(saved),
            hooks: RefCell::default(),
            ctx: RefCell::default(),
            ctx_lifetime: CtxLifetime::Node,
            waiting: RefCell::default(),
        }))
    }

    pub(crate) fn pack_into_region(frame: &Rc<Frame>) -> Saved {
        let holder = Rc::new(Holder::default());
        frame.holders.borrow_mut().push(Rc::downgrade(&holder));
        Saved::Held {
            holder,
            frame: Rc::clone(frame),
        }
    }

    /// Gives the tensor to the next holder; stops the recompute after the last one.
    pub(crate) fn pack_into_recompute(
        frame: &Rc<Frame>,
        saved: &Cell<usize>,
        tensor: &Tensor,
    ) -> Result<Saved, RunError> {
        let alias = tensor.detach();
        let holders = frame.holders.borrow();
        let index = saved.get();
        saved.set(index + 1);
        // If a holder is gone, an earlier pass has served it, and its tensor is not needed.
        if let Some(holder) = holders.get(index).and_then(Weak::upgrade) {
            holder.value.replace(Some(alias.clone()));
        }
        if saved.get() == holders.len() {
            return Err(RunError::StopRecompute);
        }
        Ok(Saved::Plain(alias))
    }

    pub(crate) fn unpack_from_region(
        &mut self,
        holder: &Rc<Holder>,
        frame: &Rc<Frame>,
    ) -> Result<Tensor, RunError> {
        let task = self.graph_task();
        if frame.recomputed_in.get() != Some(task) {
            self.recompute(frame)?;
            frame.recomputed_in.set(Some(task));
        }
        holder.value.take().ok_or(RunError::UnpackedTwice)
    }

    fn recompute(&mut self, frame: &Rc<Frame>) -> Result<(), RunError> {
        let saver = frame
            .input_saver
            .borrow()
            .clone()
            .ok_or(RunError::NoGradient)?;
        let mut tensors = self.unpack_all(&saver)?;
        if !self.deviates(Deviation::SkipDummy) {
            tensors.remove(0);
        }
        let layer = HookLayer::Recompute {
            frame: Rc::clone(frame),
            saved: Rc::new(Cell::new(0)),
        };
        self.push_hooks(layer);
        let before = self.set_grad_enabled(true);
        let outcome = (frame.function)(self, &tensors);
        self.set_grad_enabled(before);
        self.pop_hooks();
        match outcome {
            Ok(_) | Err(RunError::StopRecompute) => Ok(()),
            Err(other) => Err(other),
        }
    }
}
