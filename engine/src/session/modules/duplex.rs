//! Tidemark's own offloader: it copies in both directions of the link at once.
//!
//! A schedule that copies out in forward and back in backward uses one direction at a time. Here
//! the backward pass of one micro-batch runs next to the forward pass of the next one, layer by
//! layer: while one copies a layer out, the other brings a layer back. There are two streams for
//! copies. Memory that copies use may only be reused by a stream that has been told to wait:
//! sources by the stream that computes, pinned memory by the stream that copies out.

use std::collections::VecDeque;
use std::rc::Rc;

use super::super::{Accelerator, AcceleratorEvent, HostCopy, RunError};
use super::{Copies, Place, Slot};
use crate::autograd::Tensor;
use crate::offload::{HostCopyShape, Runtime};
use trace::units::Bytes;

/// Smaller tensors stay on the device.
const SMALLEST: Bytes = Bytes::mib(1);

/// How many layers may have copies under way, in each direction, before another stream waits for
/// the oldest copy.
const UNDER_WAY: usize = 2;

/// A layer of a pass.
#[derive(Default)]
struct Layer {
    slots: Vec<Rc<Slot>>,
    /// When its copies out are done; none if it stays.
    copied_out: Option<AcceleratorEvent>,
    /// When it is back on the device.
    brought_back: Option<Rc<AcceleratorEvent>>,
}

/// The schedule and its state.
pub(super) struct Duplex {
    copies: Copies,
    layers: usize,
    /// The layer in which the forward pass is.
    open: Layer,
    /// The layers of the forward pass, the first one first.
    forward: Vec<Layer>,
    /// The layers of the backward pass that it has not finished.
    backward: Vec<Layer>,
    /// Tensors that copies out still read, the oldest first.
    leaving: VecDeque<(AcceleratorEvent, Vec<Tensor>)>,
    /// Pinned memory that copies back still read, the oldest first.
    spent: VecDeque<(Rc<AcceleratorEvent>, Vec<Rc<HostCopy>>)>,
}

impl Duplex {
    pub(super) fn new(copies: Copies) -> Duplex {
        Duplex {
            copies,
            layers: 0,
            open: Layer::default(),
            forward: Vec::new(),
            backward: Vec::new(),
            leaving: VecDeque::new(),
            spent: VecDeque::new(),
        }
    }

    pub(super) fn set_layers(&mut self, layers: usize) {
        self.layers = layers;
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = (usize, &Rc<Slot>)> {
        let layers = self.forward.iter().chain([&self.open]).enumerate();
        let layers = layers.chain(self.backward.iter().enumerate());
        layers.flat_map(|(at, layer)| layer.slots.iter().map(move |slot| (at, slot)))
    }

    /// Tensors that have left, if their copies may still be under way.
    pub(super) fn held(&self) -> impl Iterator<Item = (usize, &Tensor)> {
        let tensors = self.leaving.iter().flat_map(|(_, tensors)| tensors);
        tensors.map(|tensor| (0, tensor))
    }

    pub(super) fn standing(&self) -> Vec<u64> {
        let numbers = [
            self.layers,
            self.forward.len(),
            self.backward.len(),
            self.leaving.len(),
            self.spent.len(),
        ];
        numbers.map(|number| number as u64).to_vec()
    }

    pub(super) fn push(&mut self, slot: &Rc<Slot>) {
        self.open.slots.push(Rc::clone(slot));
    }

    /// The end of a layer's forward pass. The last layer stays, because its backward pass comes at
    /// once.
    pub(super) fn commit(&mut self, accelerator: &mut Accelerator) -> Result<(), RunError> {
        let mut layer = std::mem::take(&mut self.open);
        if self.forward.len() + 1 < self.layers {
            self.copy_out(&mut layer, accelerator)?;
        }
        self.forward.push(layer);
        Ok(())
    }

    fn copy_out(
        &mut self,
        layer: &mut Layer,
        accelerator: &mut Accelerator,
    ) -> Result<(), RunError> {
        let (compute, out) = (accelerator.current_stream(), self.copies.out);
        while self.spent.len() >= UNDER_WAY
            && let Some((read, copies)) = self.spent.pop_front()
        {
            accelerator.wait_event(out, &read)?;
            drop(copies);
        }
        accelerator.wait_stream(out, compute)?;
        let mut sources = Vec::new();
        for slot in &layer.slots {
            let Some(tensor) = slot.on_device() else {
                continue;
            };
            if slot.saved.bytes() < SMALLEST {
                continue;
            }
            let copy = accelerator.copy_to_host(&tensor, HostCopyShape::View, out)?;
            sources.extend(slot.replace(Place::Host(Rc::new(copy))));
        }
        layer.copied_out = Some(accelerator.record_event(out)?);
        self.leaving
            .push_back((accelerator.record_event(out)?, sources));
        while self.leaving.len() > UNDER_WAY
            && let Some((copied, sources)) = self.leaving.pop_front()
        {
            accelerator.wait_event(compute, &copied)?;
            drop(sources);
        }
        Ok(())
    }

    /// Before a layer's backward pass: the layer that comes after it begins to come back.
    pub(super) fn reached_by_backward(
        &mut self,
        accelerator: &mut Accelerator,
    ) -> Result<(), RunError> {
        let Some(mut layer) = self.backward.pop() else {
            return Ok(());
        };
        self.bring_back_next(accelerator)?;
        if let Some(event) = layer.brought_back.take() {
            let compute = accelerator.current_stream();
            accelerator.wait_event(compute, &event)?;
        }
        Ok(())
    }

    /// Brings the next layer back, into memory that the computing stream no longer uses.
    fn bring_back_next(&mut self, accelerator: &mut Accelerator) -> Result<(), RunError> {
        let Some(layer) = self.backward.last_mut() else {
            return Ok(());
        };
        let Some(copied) = layer.copied_out.take() else {
            return Ok(());
        };
        let (compute, back) = (accelerator.current_stream(), self.copies.back);
        accelerator.wait_stream(back, compute)?;
        accelerator.wait_event(back, &copied)?;
        let mut spent = Vec::new();
        for slot in &layer.slots {
            if let Some(copy) = slot.on_host() {
                let bytes = accelerator.copy_to_device(&copy, back)?;
                slot.fill(&copy, &bytes)?;
                spent.push(copy);
            }
        }
        let event = Rc::new(accelerator.record_event(back)?);
        layer.brought_back = Some(Rc::clone(&event));
        self.spent.push_back((event, spent));
        Ok(())
    }

    /// The end of a forward pass and of the backward pass next to it. The next backward pass runs
    /// through the layers that have just gone forward.
    pub(super) fn end_pass(&mut self) {
        self.backward = std::mem::take(&mut self.forward);
    }
}
