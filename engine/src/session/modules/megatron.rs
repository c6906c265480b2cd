//! Megatron-LM's fine-grained activation offloading: it moves a fraction of the named modules.
//!
//! The first pass moves every module and learns their order. After it, the last module of each name
//! stays, because its backward pass comes at once. Of the others, the later ones stay, so that only
//! the fraction moves. Copies go out on one stream and come back on another. When backward leaves a
//! module, it brings back the module that was copied out last. So the number of modules on their
//! way back equals the number of names. (docs/offloader-rules.md, "Module by module".)

use std::collections::VecDeque;
use std::rc::Rc;

use super::super::{Accelerator, AcceleratorEvent, RunError};
use super::{Copies, Place, Slot};
use crate::offload::{HostCopyShape, Runtime};
use trace::units::Bytes;

/// Elements of the smallest tensor that is moved (`min_offloaded_tensor_size`).
const SMALLEST: u64 = 1 << 20;

/// If a view covers less than this share of its storage, it is gathered and not moved with all of
/// it.
const LEAST_COVERED: f64 = 0.5;

/// How much is moved, and how many copies may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The share of the modules that could be moved (`activation_offload_fraction`).
    pub share: Share,
    /// How many modules of one name may have copies under way before the computing stream waits
    /// (`fine_grained_offloading_max_inflight_offloads`); `None` if it never waits.
    pub in_flight: Option<u32>,
}

impl Limits {
    /// Megatron-LM's own setting: moves everything, without a limit.
    pub const NONE: Limits = Limits {
        share: Share(100),
        in_flight: None,
    };
}

/// A share of modules, in percent, 100 at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(u8);

impl Share {
    /// All modules.
    pub const ALL: Share = Share(100);

    /// The share; `None` for more than 100 percent.
    pub const fn percent(percent: u8) -> Option<Share> {
        match percent <= 100 {
            true => Some(Share(percent)),
            false => None,
        }
    }

    /// The share in percent.
    pub const fn as_percent(self) -> u8 {
        self.0
    }

    /// How many modules stay; the product is rounded down, as in the original.
    fn that_stay(self, modules: usize) -> usize {
        (modules as f64 * (1.0 - f64::from(self.0) / 100.0)) as usize
    }
}

/// A module of a pass.
struct Module {
    name: &'static str,
    slots: Vec<Rc<Slot>>,
    /// Whether the plan moves it.
    moves: bool,
    /// What was copied out of it in the first pass.
    moved: Bytes,
    copied_out: Option<Rc<AcceleratorEvent>>,
    brought_back: Option<AcceleratorEvent>,
}

/// The schedule and its state.
pub(super) struct Megatron {
    limits: Limits,
    copies: Copies,
    modules: Vec<Module>,
    /// Whether the first pass has not ended yet.
    learns: bool,
    /// How many modules this pass has started.
    started: usize,
    /// Modules in which the forward pass is.
    open: Vec<usize>,
    /// Modules that have left the device, the last one last.
    away: Vec<usize>,
    /// Modules on their way back.
    returning: VecDeque<usize>,
    /// Modules that backward will reach, the next one last.
    ahead: Vec<usize>,
    /// Copies that the computing stream has not waited for.
    pending: VecDeque<(&'static str, Rc<AcceleratorEvent>)>,
}

impl Megatron {
    pub(super) fn new(limits: Limits, copies: Copies) -> Megatron {
        Megatron {
            limits,
            copies,
            modules: Vec::new(),
            learns: true,
            started: 0,
            open: Vec::new(),
            away: Vec::new(),
            returning: VecDeque::new(),
            ahead: Vec::new(),
            pending: VecDeque::new(),
        }
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = (usize, &Rc<Slot>)> {
        let modules = self.modules.iter().enumerate();
        modules.flat_map(|(at, module)| module.slots.iter().map(move |slot| (at, slot)))
    }

    pub(super) fn standing(&self) -> Vec<u64> {
        let mut numbers = vec![u64::from(self.learns), self.modules.len() as u64];
        let moves = self.modules.iter().map(|module| u64::from(module.moves));
        numbers.extend(moves);
        numbers
    }

    /// The end of a pass. Nothing that began in this pass is waited for later.
    pub(super) fn end_pass(&mut self) {
        if self.learns && self.started > 0 {
            self.plan();
        }
        self.started = 0;
        self.open.clear();
        self.away.clear();
        self.returning.clear();
        self.ahead.clear();
        self.pending.clear();
        for module in &mut self.modules {
            module.copied_out = None;
            module.brought_back = None;
            module.slots.retain(|slot| !slot.is_taken());
        }
    }

    /// Decides which modules move from now on.
    fn plan(&mut self) {
        self.learns = false;
        let mut names: Vec<&str> = Vec::new();
        for module in self.modules.iter_mut().rev() {
            if !names.contains(&module.name) {
                names.push(module.name);
                module.moves = false;
            }
        }
        let could = |module: &&mut Module| module.moves && module.moved > Bytes::ZERO;
        let mut eligible: Vec<&mut Module> = self.modules.iter_mut().filter(could).collect();
        let stay = self.limits.share.that_stay(eligible.len());
        for module in eligible.iter_mut().rev().take(stay) {
            module.moves = false;
        }
    }

    pub(super) fn start(&mut self, name: &'static str) {
        let at = self.started;
        self.started += 1;
        match self.modules.get_mut(at) {
            // Tensors that backward never asked for are dropped.
            Some(module) => module.slots.clear(),
            None => self.modules.push(Module {
                name,
                slots: Vec::new(),
                moves: true,
                moved: Bytes::ZERO,
                copied_out: None,
                brought_back: None,
            }),
        }
        self.open.push(at);
    }

    pub(super) fn push(&mut self, slot: &Rc<Slot>) {
        if let Some(&at) = self.open.last() {
            self.modules[at].slots.push(Rc::clone(slot));
        }
    }

    /// The end of a module's forward pass. `returns` says whether backward will reach the module.
    pub(super) fn commit(
        &mut self,
        returns: bool,
        accelerator: &mut Accelerator,
    ) -> Result<(), RunError> {
        let Some(at) = self.open.pop() else {
            return Ok(());
        };
        if returns {
            self.ahead.push(at);
        }
        let current = accelerator.current_stream();
        accelerator.wait_stream(self.copies.out, current)?;
        let learns = self.learns;
        let module = &mut self.modules[at];
        if !module.moves {
            return Ok(());
        }
        self.away.push(at);
        for slot in &module.slots {
            let bytes = copy_out(slot, self.copies, accelerator)?;
            module.moved += if learns { bytes } else { Bytes::ZERO };
        }
        let event = Rc::new(accelerator.record_event(self.copies.out)?);
        module.copied_out = Some(Rc::clone(&event));
        let name = module.name;
        self.wait_for_old_copies(name, event, accelerator)
    }

    /// Makes the computing stream wait until few enough copies are under way.
    fn wait_for_old_copies(
        &mut self,
        name: &'static str,
        event: Rc<AcceleratorEvent>,
        accelerator: &mut Accelerator,
    ) -> Result<(), RunError> {
        let Some(most) = self.limits.in_flight else {
            return Ok(());
        };
        self.pending.push_back((name, event));
        loop {
            let mut of_name = self.pending.iter().enumerate();
            let oldest = of_name.find(|(_, (other, _))| *other == name);
            let under_way = self.pending.iter().filter(|(other, _)| *other == name);
            let (Some((at, _)), true) = (oldest, under_way.count() > most as usize) else {
                return Ok(());
            };
            if let Some((_, event)) = self.pending.remove(at) {
                let current = accelerator.current_stream();
                accelerator.wait_event(current, &event)?;
            }
        }
    }

    /// Before a module's backward pass: waits for what was brought back.
    pub(super) fn reached_by_backward(
        &mut self,
        accelerator: &mut Accelerator,
    ) -> Result<(), RunError> {
        let Some(at) = self.ahead.pop() else {
            return Ok(());
        };
        let name = self.modules[at].name;
        let of_name = |&other: &usize| self.modules[other].name == name;
        let Some(place) = self.returning.iter().position(of_name) else {
            return Ok(());
        };
        let returned = self.returning.remove(place);
        let event = returned.and_then(|other| self.modules[other].brought_back.take());
        if let Some(event) = event {
            let current = accelerator.current_stream();
            accelerator.wait_event(current, &event)?;
        }
        Ok(())
    }

    /// After a module's backward pass: brings back the module that left last.
    pub(super) fn left_by_backward(
        &mut self,
        accelerator: &mut Accelerator,
    ) -> Result<(), RunError> {
        let back = self.copies.back;
        let current = accelerator.current_stream();
        accelerator.wait_stream(back, current)?;
        let Some(at) = self.away.pop() else {
            return Ok(());
        };
        let module = &mut self.modules[at];
        if let Some(event) = module.copied_out.take() {
            accelerator.wait_event(back, &event)?;
        }
        for slot in &module.slots {
            if let Some(copy) = slot.on_host() {
                let bytes = accelerator.copy_to_device(&copy, back)?;
                slot.fill(&copy, &bytes)?;
            }
        }
        module.brought_back = Some(accelerator.record_event(back)?);
        self.returning.push_back(at);
        Ok(())
    }
}

/// Copies a slot's tensor out, if it is large enough; returns the number of bytes.
fn copy_out(slot: &Slot, copies: Copies, accelerator: &mut Accelerator) -> Result<Bytes, RunError> {
    let Some(tensor) = slot.on_device() else {
        return Ok(Bytes::ZERO);
    };
    let saved = slot.saved;
    if saved.layout.elements() < SMALLEST {
        return Ok(Bytes::ZERO);
    }
    let covered = saved.bytes().0 as f64 / saved.storage.bytes.0.max(1) as f64;
    let gathers = saved.layout.is_contiguous() || covered < LEAST_COVERED;
    let shape = match gathers {
        true => HostCopyShape::View,
        false => HostCopyShape::WholeStorage,
    };
    let copy = accelerator.copy_to_host(&tensor, shape, copies.out)?;
    accelerator.record_stream(&tensor, copies.out);
    drop(slot.replace(Place::Host(Rc::new(copy))));
    Ok(saved.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_modules_is_cut_off_as_upstream_cuts_it() {
        let check = |percent: u8, modules: usize, expected: usize| {
            let share = Share::percent(percent).unwrap();
            assert_eq!(share.that_stay(modules), expected, "{percent} of {modules}");
        };
        check(100, 23, 0);
        check(0, 23, 23);
        check(75, 46, 11);
        check(50, 5, 2);
        // `int(10 * (1 - 0.9))`: in floating point this is just below 1.
        check(90, 10, 0);
        assert_eq!(Share::percent(101), None);
    }
}
