//! ms-swift's offloader of FSDP layers (first in verl): it keeps two layers on the device and the
//! others on the host, with one copy for tensors that share memory.
//!
//! A layer is copied out while the next one computes, and brought back during the backward pass of
//! the layer after it. Both streams wait for each other at each layer. Tensors of a layer with the
//! same key share one dense copy, which is brought back once and given to each in its own shape.
//! Before #10157 the key is the start of a tensor and its type. Then a tensor and its transpose get
//! the same elements in the same order. (docs/offloader-rules.md, "Module by module".)

use std::rc::Rc;

use indexmap::IndexMap;

use super::super::{Accelerator, HostCopy, RunError};
use super::{Copies, Place, Slot};
use crate::autograd::Tensor;
use crate::offload::{HostCopyShape, Runtime, StorageKey};
use crate::tensor::SavedTensor;

/// Which tensors count as the same tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKey {
    /// Tensors with the same start and the same type.
    Start,
    /// Tensors that also have the same shape and strides (#10157).
    View,
}

impl HostKey {
    fn of(self, saved: &SavedTensor) -> (StorageKey, Vec<u64>) {
        match self {
            HostKey::Start => (StorageKey::of(saved), Vec::new()),
            HostKey::View => (StorageKey::of(saved), saved.layout.numbers().collect()),
        }
    }
}

/// Models with fewer layers are not offloaded.
const FEWEST_LAYERS: usize = 3;

/// The schedule and its state.
pub(super) struct MsSwift {
    key: HostKey,
    copies: Copies,
    layers: usize,
    /// The layer that computes; forward counts it up and backward counts it down.
    current: usize,
    /// How many layers have left the device.
    away: usize,
    /// Slots by layer, in the order in which they were saved.
    slots: Vec<(usize, Rc<Slot>)>,
    /// Tensors whose copies have begun and that are still held.
    held: Vec<(usize, Tensor)>,
}

impl MsSwift {
    pub(super) fn new(key: HostKey, copies: Copies) -> MsSwift {
        MsSwift {
            key,
            copies,
            layers: 0,
            current: 0,
            away: 0,
            slots: Vec::new(),
            held: Vec::new(),
        }
    }

    pub(super) fn set_layers(&mut self, layers: usize) {
        self.layers = layers;
    }

    pub(super) fn is_worth_it(&self) -> bool {
        self.layers >= FEWEST_LAYERS
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = (usize, &Rc<Slot>)> {
        self.slots.iter().map(|(layer, slot)| (*layer, slot))
    }

    pub(super) fn held(&self) -> impl Iterator<Item = (usize, &Tensor)> {
        self.held.iter().map(|(layer, tensor)| (*layer, tensor))
    }

    pub(super) fn standing(&self) -> Vec<u64> {
        let numbers = [self.layers, self.current, self.away, self.slots.len()];
        numbers.map(|number| number as u64).to_vec()
    }

    /// How many layers move: all but the last one. Each layer gives up its memory at the end of the
    /// next layer.
    fn moves(&self) -> usize {
        self.layers - 1
    }

    pub(super) fn push(&mut self, slot: &Rc<Slot>) -> Result<(), RunError> {
        if self.current >= self.layers {
            return Err(RunError::LayersDoNotReturn);
        }
        self.slots.push((self.current, Rc::clone(slot)));
        Ok(())
    }

    /// The end of a layer's forward pass.
    pub(super) fn commit(&mut self, accelerator: &mut Accelerator) -> Result<(), RunError> {
        let compute = accelerator.current_stream();
        if self.current == 0 {
            accelerator.wait_stream(self.copies.out, compute)?;
            self.copy_out(0, accelerator)?;
        }
        if self.current == self.away + 1 {
            accelerator.wait_stream(self.copies.out, compute)?;
            accelerator.wait_stream(compute, self.copies.out)?;
            let gone = self.away;
            self.held.retain(|(layer, _)| *layer != gone);
            if self.away + 1 < self.moves() {
                self.copy_out(self.away + 1, accelerator)?;
            }
            self.away += 1;
        }
        self.current += 1;
        Ok(())
    }

    /// Copies out the tensors of a layer, with one copy for each key.
    fn copy_out(&mut self, layer: usize, accelerator: &mut Accelerator) -> Result<(), RunError> {
        let mut copies: IndexMap<_, Rc<HostCopy>> = IndexMap::new();
        for (_, slot) in self.slots.iter().filter(|(of, _)| *of == layer) {
            let Some(tensor) = slot.on_device() else {
                continue;
            };
            let key = self.key.of(&slot.saved);
            let copy = match copies.get(&key) {
                Some(copy) => Rc::clone(copy),
                None => {
                    let shape = HostCopyShape::View;
                    let copy = accelerator.copy_to_host(&tensor, shape, self.copies.out)?;
                    let copy = Rc::new(copy);
                    copies.insert(key, Rc::clone(&copy));
                    copy
                }
            };
            let left = slot.replace(Place::Host(copy));
            self.held.extend(left.map(|tensor| (layer, tensor)));
        }
        Ok(())
    }

    /// Before a layer's backward pass.
    pub(super) fn reached_by_backward(
        &mut self,
        accelerator: &mut Accelerator,
    ) -> Result<(), RunError> {
        let compute = accelerator.current_stream();
        self.slots.retain(|(_, slot)| !slot.is_taken());
        self.current = self.current.saturating_sub(1);
        if self.away == self.current {
            accelerator.wait_stream(self.copies.back, compute)?;
            accelerator.wait_stream(compute, self.copies.back)?;
            let Some(layer) = self.away.checked_sub(1) else {
                return Ok(());
            };
            self.bring_back(layer, accelerator)?;
            self.away = layer.max(1);
        }
        if self.current == 0 {
            accelerator.wait_stream(compute, self.copies.back)?;
            self.away = 0;
        }
        Ok(())
    }

    /// Brings a layer back: each copy once, for all tensors that share it.
    fn bring_back(&self, layer: usize, accelerator: &mut Accelerator) -> Result<(), RunError> {
        let mut returned: Vec<(Rc<HostCopy>, Tensor)> = Vec::new();
        for (_, slot) in self.slots.iter().filter(|(of, _)| *of == layer) {
            let Some(copy) = slot.on_host() else {
                continue;
            };
            let known = returned.iter().find(|(other, _)| Rc::ptr_eq(other, &copy));
            let bytes = match known {
                Some((_, bytes)) => bytes.clone(),
                None => {
                    let bytes = accelerator.copy_to_device(&copy, self.copies.back)?;
                    returned.push((Rc::clone(&copy), bytes.clone()));
                    bytes
                }
            };
            slot.fill(&copy, &bytes)?;
        }
        Ok(())
    }

    /// The end of a pass.
    pub(super) fn end_pass(&mut self) {
        self.slots.retain(|(_, slot)| !slot.is_taken());
    }
}
