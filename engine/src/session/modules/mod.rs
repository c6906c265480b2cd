//! Offloaders that move the tensors of a module together: those of Megatron-LM, ms-swift and
//! Tidemark.
//!
//! What a module saves is collected in its forward pass and copied out after it. Before its
//! backward pass it is brought back (docs/offloader-rules.md, "Module by module"). This file has
//! what these offloaders share. [`megatron`], [`ms_swift`] and [`duplex`] say when copies are made,
//! and of what.

mod duplex;
mod megatron;
mod ms_swift;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use smallvec::smallvec;

pub use megatron::{Limits, Share};
pub use ms_swift::HostKey;

use super::{Accelerator, HostCopy, RunError, Session};
use crate::autograd::{Call, Grads, HookLayer, Saved, Tensor};
use crate::device::{Fingerprint, StreamId};
use crate::memory::SharedHeap;
use crate::offload::Runtime;
use crate::tensor::{Layout, Placement, SavedTensor, TensorClass};
use duplex::Duplex;
use megatron::Megatron;
use ms_swift::MsSwift;
use trace::units::DeviceAddr;

/// An offloader that moves modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModuleOffload {
    /// Megatron-LM's fine-grained activation offloading.
    Megatron(Limits),
    /// ms-swift's `activation_cpu_offload`; the key says which tensors it treats as the same.
    MsSwift(HostKey),
    /// Tidemark's own, which copies out and back at once. It is for programs that run both passes
    /// next to each other.
    Duplex,
}

/// A part of a model whose saved tensors may be moved together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A layer in the sense of FSDP.
    Layer,
    /// A module in a layer, which Megatron-LM knows by name.
    Part(&'static str),
}

/// A tensor that a module saved, wherever it is now.
pub(crate) struct Slot {
    /// The tensor that was saved.
    saved: SavedTensor,
    place: RefCell<Place>,
    /// Checksum of the saved tensor, until it is compared.
    print: Cell<Option<Fingerprint>>,
    heap: SharedHeap,
}

/// Where a slot's tensor is.
enum Place {
    Device(Tensor),
    Host(Rc<HostCopy>),
    /// Back on the device, and whether its elements are the saved ones.
    Restored(Tensor, Contents),
    /// Backward has taken it.
    Taken,
}

/// The node of a module that backward reaches first.
pub(crate) const END_OF_MODULE: &str = "GroupCommitBackward";

/// What a restored tensor holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    Packed,
    /// The elements of another view of the same memory.
    OfAnotherView,
}

impl Slot {
    /// Changes the place; returns the tensor that was on the device, which keeps its memory alive.
    fn replace(&self, place: Place) -> Option<Tensor> {
        match self.place.replace(place) {
            Place::Device(tensor) | Place::Restored(tensor, _) => Some(tensor),
            Place::Host(_) | Place::Taken => None,
        }
    }

    /// The tensor, if it has not left the device.
    fn on_device(&self) -> Option<Tensor> {
        match &*self.place.borrow() {
            Place::Device(tensor) => Some(tensor.clone()),
            _ => None,
        }
    }

    /// The copy, if the tensor is on the host.
    fn on_host(&self) -> Option<Rc<HostCopy>> {
        match &*self.place.borrow() {
            Place::Host(copy) => Some(Rc::clone(copy)),
            _ => None,
        }
    }

    fn is_taken(&self) -> bool {
        matches!(&*self.place.borrow(), Place::Taken)
    }

    /// Restores the slot from a tensor with the bytes of the copy.
    fn fill(&self, copy: &HostCopy, bytes: &Tensor) -> Result<(), RunError> {
        let whole = copy.is_whole_storage();
        let layout = match whole {
            true => self.saved.layout,
            false => Layout::contiguous(self.saved.layout.shape),
        };
        if !whole && layout.elements() != bytes.elements() {
            return Err(RunError::Reshape {
                packed: layout.elements(),
                copied: bytes.elements(),
            });
        }
        let contents = match whole || self.saved.reads_as(copy.source()) {
            true => Contents::Packed,
            false => Contents::OfAnotherView,
        };
        let view = bytes.view_as(layout, None);
        drop(self.replace(Place::Restored(view, contents)));
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(print) = self.print.take() {
            self.heap.borrow_mut().device.forget(print);
        }
    }
}

/// The streams that copies run on.
#[derive(Debug, Clone, Copy)]
struct Copies {
    out: StreamId,
    back: StreamId,
}

/// The offloader of a run.
pub(super) struct Modules {
    /// Storages whose tensors stay.
    parameters: Vec<DeviceAddr>,
    schedule: Schedule,
}

enum Schedule {
    Megatron(Megatron),
    MsSwift(MsSwift),
    Duplex(Duplex),
}

impl Modules {
    /// # Errors
    /// The device refuses a stream.
    pub(super) fn new(
        offload: ModuleOffload,
        accelerator: &mut Accelerator,
    ) -> Result<Modules, RunError> {
        let copies = Copies {
            out: accelerator.new_stream()?,
            back: accelerator.new_stream()?,
        };
        let schedule = match offload {
            ModuleOffload::Megatron(limits) => Schedule::Megatron(Megatron::new(limits, copies)),
            ModuleOffload::MsSwift(key) => Schedule::MsSwift(MsSwift::new(key, copies)),
            ModuleOffload::Duplex => {
                accelerator.watch_pinned_memory();
                Schedule::Duplex(Duplex::new(copies))
            }
        };
        Ok(Modules {
            parameters: Vec::new(),
            schedule,
        })
    }

    /// Both passes have ended.
    pub(super) fn end_pass(&mut self) {
        match &mut self.schedule {
            Schedule::Megatron(schedule) => schedule.end_pass(),
            Schedule::MsSwift(schedule) => schedule.end_pass(),
            Schedule::Duplex(schedule) => schedule.end_pass(),
        }
    }

    fn opens(&self, unit: Unit) -> bool {
        match (&self.schedule, unit) {
            (Schedule::Megatron(_), Unit::Part(_)) | (Schedule::Duplex(_), Unit::Layer) => true,
            (Schedule::MsSwift(schedule), Unit::Layer) => schedule.is_worth_it(),
            _ => false,
        }
    }

    /// Whether the graph keeps this tensor, so that the offloader does not move it.
    fn leaves(&self, saved: &SavedTensor) -> bool {
        let host = saved.placement == Placement::Host;
        match self.schedule {
            Schedule::Megatron(_) => host || saved.class == TensorClass::Parameter,
            Schedule::MsSwift(_) | Schedule::Duplex(_) => {
                let base = saved.storage.base.unwrap_or_default();
                host || self.parameters.contains(&base)
            }
        }
    }

    /// Every known slot, with the number of its module.
    fn slots(&self) -> Vec<(usize, &Rc<Slot>)> {
        match &self.schedule {
            Schedule::Megatron(schedule) => schedule.slots().collect(),
            Schedule::MsSwift(schedule) => schedule.slots().collect(),
            Schedule::Duplex(schedule) => schedule.slots().collect(),
        }
    }

    /// Shows the tensors that are on the device, each with the number of its module.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(usize, &Tensor)) {
        for (module, slot) in self.slots() {
            if let Place::Device(tensor) | Place::Restored(tensor, _) = &*slot.place.borrow() {
                visit(module, tensor);
            }
        }
        let mut show = |(module, tensor)| visit(module, tensor);
        match &self.schedule {
            Schedule::Megatron(_) => {}
            Schedule::MsSwift(schedule) => schedule.held().for_each(&mut show),
            Schedule::Duplex(schedule) => schedule.held().for_each(&mut show),
        }
    }

    /// What is held between two steps besides the tensors that [`Modules::visit`] shows, as
    /// numbers.
    pub(crate) fn standing(&self) -> Vec<u64> {
        let mut numbers = match &self.schedule {
            Schedule::Megatron(schedule) => schedule.standing(),
            Schedule::MsSwift(schedule) => schedule.standing(),
            Schedule::Duplex(schedule) => schedule.standing(),
        };
        for (module, slot) in self.slots() {
            numbers.push(module as u64);
            match &*slot.place.borrow() {
                Place::Device(_) => numbers.push(0),
                Place::Host(copy) => {
                    numbers.push(1);
                    numbers.extend(copy.standing());
                }
                Place::Restored(_, contents) => numbers.push(2 + *contents as u64),
                Place::Taken => numbers.push(4),
            }
        }
        numbers
    }
}

/// Backward has left a module.
fn started(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    if let Some(Schedule::Megatron(schedule)) = s.modules.as_mut().map(|all| &mut all.schedule) {
        schedule.left_by_backward(&mut s.accelerator)?;
    }
    Ok(smallvec![Some(call.grad()?)])
}

/// Backward comes to a module.
fn committed(s: &mut Session, call: &mut Call<'_>) -> Result<Grads, RunError> {
    match s.modules.as_mut().map(|all| &mut all.schedule) {
        Some(Schedule::Megatron(schedule)) => schedule.reached_by_backward(&mut s.accelerator)?,
        Some(Schedule::MsSwift(schedule)) => schedule.reached_by_backward(&mut s.accelerator)?,
        Some(Schedule::Duplex(schedule)) => schedule.reached_by_backward(&mut s.accelerator)?,
        None => {}
    }
    Ok(smallvec![Some(call.grad()?)])
}

impl Session {
    /// Sets how many layers the model has, in the sense of FSDP.
    pub(crate) fn declare_layers(&mut self, layers: u64) {
        match self.modules.as_mut().map(|all| &mut all.schedule) {
            Some(Schedule::MsSwift(schedule)) => schedule.set_layers(layers as usize),
            Some(Schedule::Duplex(schedule)) => schedule.set_layers(layers as usize),
            Some(Schedule::Megatron(_)) | None => {}
        }
    }

    /// Whether linear layers are functions of their own, which save the parameter itself, as those
    /// of Megatron-LM do.
    pub(crate) fn has_linear_functions(&self) -> bool {
        let schedule = self.modules.as_ref().map(|all| &all.schedule);
        matches!(schedule, Some(Schedule::Megatron(_)))
    }

    /// Sets which storages hold parameters.
    pub(crate) fn keep_parameters(&mut self, storages: impl IntoIterator<Item = DeviceAddr>) {
        if let Some(modules) = &mut self.modules {
            modules.parameters = storages.into_iter().collect();
        }
    }

    /// Shows what an offloader of modules holds on the device, with the number of the module.
    pub(crate) fn visit_modules(&self, visit: &mut dyn FnMut(usize, &Tensor)) {
        if let Some(modules) = &self.modules {
            modules.visit(visit);
        }
    }

    /// What an offloader of modules holds between two steps besides those tensors, as numbers.
    pub(crate) fn standing_of_modules(&self) -> Vec<u64> {
        let modules = self.modules.as_ref();
        modules.map_or_else(Vec::new, Modules::standing)
    }

    /// Runs a part of the model. An offloader that moves modules takes what the part saves.
    ///
    /// # Errors
    /// The errors of the part or of the copies.
    pub(crate) fn module(
        &mut self,
        unit: Unit,
        x: Tensor,
        body: impl FnOnce(&mut Session, Tensor) -> Result<Tensor, RunError>,
    ) -> Result<Tensor, RunError> {
        let opens = self.modules.as_ref().is_some_and(|all| all.opens(unit));
        if !opens || !self.grad_enabled() {
            return body(self, x);
        }
        let x = match unit {
            Unit::Part(name) => self.start_part(name, &x),
            Unit::Layer => x,
        };
        self.push_hooks(HookLayer::Module);
        let outcome = body(self, x);
        self.pop_hooks();
        self.commit(&outcome?)
    }

    /// The identity that marks the start of a module in the graph.
    fn start_part(&mut self, name: &'static str, x: &Tensor) -> Tensor {
        if let Some(Schedule::Megatron(schedule)) = self.modules.as_mut().map(|m| &mut m.schedule) {
            schedule.start(name);
        }
        let node = self.record("GroupStartBackward", started, &[x]);
        self.attach(x.alias(), node)
    }

    /// The identity that marks the end of a module; its copies begin here.
    fn commit(&mut self, out: &Tensor) -> Result<Tensor, RunError> {
        let node = self.record(END_OF_MODULE, committed, &[out]);
        match self.modules.as_mut().map(|all| &mut all.schedule) {
            Some(Schedule::Megatron(schedule)) => {
                schedule.commit(node.is_some(), &mut self.accelerator)?;
            }
            Some(Schedule::MsSwift(schedule)) => schedule.commit(&mut self.accelerator)?,
            Some(Schedule::Duplex(schedule)) => schedule.commit(&mut self.accelerator)?,
            None => {}
        }
        Ok(self.attach(out.alias(), node))
    }

    /// The pack hook in a module.
    pub(super) fn pack_into_module(&mut self, tensor: &Tensor) -> Result<Saved, RunError> {
        let Some(modules) = self.modules.as_mut() else {
            return Ok(Saved::Plain(tensor.clone()));
        };
        if modules.leaves(tensor.saved()) {
            return Ok(Saved::Plain(tensor.clone()));
        }
        let print = match self.accelerator.keeps_contents() {
            true => self.accelerator.fingerprint(tensor)?,
            false => None,
        };
        let slot = Rc::new(Slot {
            saved: *tensor.saved(),
            place: RefCell::new(Place::Device(tensor.detach())),
            print: Cell::new(print),
            heap: Rc::clone(self.accelerator.heap()),
        });
        match &mut modules.schedule {
            Schedule::Megatron(schedule) => schedule.push(&slot),
            Schedule::MsSwift(schedule) => schedule.push(&slot)?,
            Schedule::Duplex(schedule) => schedule.push(&slot),
        }
        Ok(Saved::InModule(slot))
    }

    /// The unpack hook.
    pub(crate) fn unpack_from_module(&mut self, slot: &Slot) -> Result<Tensor, RunError> {
        if let Some(copy) = slot.on_host() {
            // What no schedule has brought back, Megatron-LM brings back here; the others assert.
            let schedule = self.modules.as_ref().map(|all| &all.schedule);
            if let Some(Schedule::MsSwift(_) | Schedule::Duplex(_)) = schedule {
                return Err(RunError::NotBroughtBack);
            }
            let stream = self.accelerator.current_stream();
            let bytes = self.accelerator.copy_to_device(&copy, stream)?;
            slot.fill(&copy, &bytes)?;
        }
        let (tensor, contents) = match slot.place.replace(Place::Taken) {
            Place::Device(tensor) => (tensor, None),
            Place::Restored(tensor, contents) => (tensor, Some(contents)),
            Place::Host(_) | Place::Taken => return Err(RunError::UnpackedTwice),
        };
        match (contents, slot.print.take()) {
            (Some(_), Some(print)) => self.accelerator.verify(&tensor, print)?,
            // It never left.
            (None, Some(print)) => self.accelerator.forget(print),
            (_, None) => {}
        }
        if contents == Some(Contents::OfAnotherView) {
            self.accelerator.count_wrong_bytes();
        }
        Ok(tensor)
    }
}
