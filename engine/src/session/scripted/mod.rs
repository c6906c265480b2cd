//! Writes a step down as a script, and plays it ([`crate::script`]).
//!
//! While a step is written, the program runs as usual, but its memory has no blocks and the
//! offloader holds nothing. So every storage of the step ends when the program itself drops it. How
//! much longer the offloader holds it shows in each step that is played.

mod leaves;
mod play;

use std::rc::{Rc, Weak};

pub(crate) use play::Scripted;

use super::accelerator::range_of;
use super::{Accelerator, Around, RunError, Session};
use crate::autograd::{Edge, Node, Tensor, TensorImpl};
use crate::memory::Storage;
use crate::offload::{GraphTask, TensorId};
use crate::script::{Name, Op, Place, Writer};
use crate::tensor::{SavedTensor, StorageInfo};
use leaves::Leaves;
use trace::units::{Bytes, DeviceAddr};

/// The result of the attempt to write a step down.
pub(crate) enum Written {
    /// It can be played.
    Script(Box<Scripted>),
    /// The step does something that a script cannot express; nothing has changed.
    Refused,
    /// The same, but the program has freed memory, so it cannot continue.
    Lost,
}

/// A tensor that was saved through the offloader.
struct Packed {
    saved: SavedTensor,
    /// Memory that exists before and after the step; `None` if the step made it.
    kept: Option<Rc<Storage>>,
    /// Leaves of the step that this tensor keeps alive.
    reaches: u64,
    unpacked: bool,
}

/// A tensor that backward needed again.
struct Unpacked {
    pack: u32,
    /// Leaves of the step that the node keeps alive.
    reaches: u64,
}

/// A restored tensor of the node that runs now.
struct Restored {
    place: Place,
    tensor: Weak<TensorImpl>,
    storage: Weak<Storage>,
}

/// What is known about a step while it is written down, besides the script itself.
pub(super) struct Writing {
    leaves: Leaves,
    packs: Vec<Packed>,
    /// The places of the packed tensors.
    packed: Vec<Place>,
    unpacks: Vec<Unpacked>,
    unpacked: Vec<Place>,
    restored: Vec<Restored>,
    /// Whether a node has unpacked and its hooks have not run yet.
    unpacks_now: bool,
    /// The pass that counts as the first.
    first_task: u64,
}

impl Session {
    /// Writes down what `step` does. For the session, everything must be the same afterwards; the
    /// caller must check what the program keeps.
    pub(crate) fn write_step(
        &mut self,
        step: &mut dyn FnMut(&mut Session) -> Result<(), RunError>,
    ) -> Written {
        if !self.may_write() {
            return Written::Refused;
        }
        let before = (self.workspaces.clone(), self.lt_workspace.clone());
        self.writing = Some(Box::new(Writing {
            leaves: Leaves::new(self.sequence + 1),
            packs: Vec::new(),
            packed: Vec::new(),
            unpacks: Vec::new(),
            unpacked: Vec::new(),
            restored: Vec::new(),
            unpacks_now: false,
            first_task: self.accelerator.tasks_begun(),
        }));
        self.heap().borrow_mut().writer = Some(Writer::new());
        let place = self.accelerator.place_in_program();
        let outcome = step(self);
        let returned = self.accelerator.return_to(place);
        let workspaces = (self.workspaces.clone(), self.lt_workspace.clone());
        let takes_workspace = holds(&workspaces) != holds(&before);
        (self.workspaces, self.lt_workspace) = before;
        drop(workspaces);
        let writer = self.heap().borrow_mut().writer.take();
        let (Some(writing), Some(mut writer)) = (self.writing.take(), writer) else {
            return Written::Refused;
        };
        if writer.lost {
            return Written::Lost;
        }
        if outcome.is_err() || !returned || takes_workspace || writing.leaves.leave_holders() {
            writer.refuse("the step leaves something behind");
        }
        let tasks = self.accelerator.tasks_begun() - writing.first_task;
        match writer.finish() {
            Some((script, shared)) => {
                Written::Script(Box::new(Scripted::new(*writing, script, &shared, tasks)))
            }
            None => Written::Refused,
        }
    }

    fn may_write(&mut self) -> bool {
        let around = matches!(self.around, Around::Trl | Around::Nothing);
        let simple = around && self.modules.is_none() && self.deviation.is_none();
        let watched = self.accelerator.detector().is_some();
        let heap = &mut *self.heap().borrow_mut();
        let simulated = heap.device.as_sim().is_some() && !heap.caching.keeps_events();
        simple && watched && simulated && self.hooks.is_empty() && self.grad_enabled
    }

    /// Adds an instruction to the step that is written down; returns whether there is one.
    pub(super) fn write(&self, op: Op) -> bool {
        if self.writing.is_none() {
            return false;
        }
        if let Some(writer) = &mut self.heap().borrow_mut().writer {
            writer.push(op);
        }
        true
    }

    /// If a step is being written down, notes why it cannot be.
    fn refuse(&self, why: &'static str) {
        if let Some(writer) = &mut self.heap().borrow_mut().writer {
            writer.refuse(why);
        }
    }

    pub(super) fn write_task(&self, task: GraphTask) {
        if let Some(writing) = &self.writing {
            let counted = match task {
                GraphTask(0) => 0,
                GraphTask(task) => task - writing.first_task + 1,
            };
            self.write(Op::Task(counted));
        }
    }

    /// Notes a new node, with its edges.
    pub(crate) fn write_node(&mut self, sequence: u64, next: &[Option<Edge>], holds: bool) {
        let Some(writing) = &mut self.writing else {
            return;
        };
        if writing.leaves.add_node(sequence, next, holds).is_none() {
            self.refuse("the step has too many leaves");
        }
    }

    /// Notes that a node runs.
    pub(crate) fn write_run(&mut self, node: &Node) {
        if let Some(writing) = &mut self.writing {
            writing.leaves.run(node);
            if self.offloader.is_some() && !node.ctx.borrow().is_empty() {
                self.refuse("a context lives as long as its node, which the offloader may hold");
            }
        }
    }

    /// Pack in a step that is written down.
    pub(super) fn write_pack(&mut self, tensor: &Tensor) -> Option<TensorId> {
        let writing = self.writing.as_mut()?;
        let number = writing.packs.len() as u32;
        let Some(reaches) = writing.leaves.held_by_tensor(tensor) else {
            self.refuse("the step has too many leaves");
            return Some(TensorId(0));
        };
        let name = Name::of(tensor.storage().start());
        writing
            .packed
            .push(name.map_or(Place::FIXED, |name| name.place));
        writing.packs.push(Packed {
            saved: *tensor.saved(),
            kept: name.is_none().then(|| Rc::clone(tensor.storage())),
            reaches,
            unpacked: false,
        });
        if let Some(name) = name {
            self.share(name);
        }
        self.write(Op::Pack(number));
        Some(TensorId(u64::from(number)))
    }

    /// Notes that the offloader may hold a storage of the step.
    fn share(&self, name: Name) {
        if let Some(writer) = &mut self.heap().borrow_mut().writer {
            if name.restored {
                writer.refuse("a restored tensor is saved, or is a leaf");
            }
            writer.share(name);
        }
    }

    /// Unpack in a step that is written down.
    pub(super) fn write_unpack(&mut self, id: TensorId) -> Option<Result<Tensor, RunError>> {
        let writing = self.writing.as_mut()?;
        let Some(packed) = writing.packs.get_mut(id.0 as usize) else {
            return Some(Err(RunError::NoOffloader));
        };
        let twice = std::mem::replace(&mut packed.unpacked, true);
        let (mut saved, kept) = (packed.saved, packed.kept.clone());
        let node = self.accelerator.running_node();
        let reaches = node.and_then(|node| writing.leaves.held_by_node(&node));
        if twice || reaches.is_none() {
            self.refuse("a tensor is wanted twice, or by nobody");
        }
        let empty = kept.filter(|_| saved.storage.bytes == Bytes::ZERO);
        let of_step = empty.is_none();
        let storage = empty
            .or_else(|| Storage::restored(self.heap(), saved.storage.bytes, only_bytes(&saved)));
        let storage = storage?;
        saved.storage.base = Some(storage.start());
        let tensor = Tensor::new(saved, storage, None, None);
        let writing = self.writing.as_mut()?;
        let place = Name::of(tensor.storage().start()).filter(|_| of_step);
        let place = place.map_or(Place::FIXED, |name| name.place);
        let number = writing.unpacks.len() as u32;
        writing.unpacked.push(place);
        writing.unpacks.push(Unpacked {
            pack: id.0 as u32,
            reaches: reaches.unwrap_or(0),
        });
        writing.unpacks_now = true;
        if of_step {
            writing.restored.push(Restored {
                place,
                tensor: Rc::downgrade(&tensor.0),
                storage: Rc::downgrade(tensor.storage()),
            });
        }
        self.write(Op::Unpack(number));
        Some(Ok(tensor))
    }

    /// Writes down the hooks of a node that unpacked. The offloader asks how many tensors, besides
    /// the restored ones, show the restored memory.
    pub(crate) fn write_hooks(&mut self) {
        let Some(writing) = &mut self.writing else {
            return;
        };
        if !std::mem::take(&mut writing.unpacks_now) {
            return;
        }
        let mut views = Vec::new();
        for restored in writing.restored.drain(..) {
            let itself = usize::from(restored.tensor.strong_count() > 0);
            let others =
                restored.storage.strong_count() - itself.min(restored.storage.strong_count());
            if others > 0 {
                views.push((restored.place, others as u32));
            }
        }
        if let Some(writer) = &mut self.heap().borrow_mut().writer {
            writer.hooks(&views);
        }
    }

    /// Something asks whether a gradient has one owner. The answer must not depend on the
    /// offloader.
    pub(crate) fn write_asked(&self, gradient: &Tensor) {
        if let Some(writer) = &mut self.heap().borrow_mut().writer {
            let name = Name::of(gradient.storage().start());
            if name.is_none_or(|name| name.restored || writer.is_shared(name)) {
                writer.refuse("a gradient may be the offloader's too");
            }
        }
    }

    /// Notes that a leaf gets its first gradient.
    pub(crate) fn write_gradient(&mut self, leaf: &Tensor, gradient: &Tensor) {
        let Some(writing) = &mut self.writing else {
            return;
        };
        if Name::of(leaf.storage().start()).is_none() {
            if leaf.storage().bytes() == Bytes::ZERO {
                self.refuse("a leaf without memory has a gradient");
            }
            return;
        }
        let number = writing.leaves.number(leaf);
        match (number, Name::of(gradient.storage().start())) {
            (Some(number), Some(name)) => {
                self.share(name);
                self.write(Op::Gradient(number, name.place));
            }
            _ => self.refuse("a leaf has a gradient from elsewhere"),
        }
    }
}

/// Which workspaces exist.
fn holds(of: &([Option<Rc<Storage>>; 2], Option<Rc<Storage>>)) -> [bool; 3] {
    let ([forward, backward], lt) = of;
    [forward, backward, lt].map(Option::is_some)
}

/// The bytes that a tensor shows, if it may come back in another layout or with other memory around
/// it.
fn only_bytes(saved: &SavedTensor) -> Option<(u64, u64)> {
    if saved.layout.is_dense_from_start() && saved.storage.bytes == saved.bytes() {
        return None;
    }
    let range = range_of(&SavedTensor {
        storage: StorageInfo {
            base: Some(DeviceAddr(0)),
            ..saved.storage
        },
        ..*saved
    });
    Some((range.start.0, range.end.0))
}

impl Accelerator {
    /// Fails while a step is written down: a script cannot express this.
    pub(super) fn not_written(&self) -> Result<(), crate::device::DeviceError> {
        match self.heap().borrow().writer {
            None => Ok(()),
            Some(_) => Err(crate::device::DeviceError::Unavailable(
                "no script has words for this".to_owned(),
            )),
        }
    }
}
