//! Which events are a forward pass, a backward pass, an optimizer's step.
//!
//! Read from stacks and scopes, in this order:
//!
//! 1. **Backward.** A frame of the autograd engine (`torch::autograd::Engine`, `Tensor.backward`,
//!    `torch.autograd.grad`, a recomputing checkpoint). Autograd's threads have no Python frames:
//!    in a recording that has Python frames, an allocation without any is the engine's.
//! 2. **Optimizer.** A frame of an optimizer, of gradient clipping or of a gradient scaler's step;
//!    a scope `Optimizer.step#…` in which no gradients are cleared. Also an optimizer written by
//!    hand: code of the program after the call of `backward` that allocates blocks as large as the
//!    gradients, or is called `step`.
//! 3. **Forward.** A call of a module, its `forward`, or `torch.nn.functional`; and code between
//!    such a call and a backward pass. If no module is called at all: the program's code before a
//!    backward pass, on lines before the one that calls `backward`.
//! 4. **Setup.** Making, moving or loading a model or an optimizer.
//! 5. Everything else that has a stack is **other**: inputs, logging, evaluation by hand. Without
//!    stacks and scopes the phase is **unknown**.
//!
//! A free counts only if its own stack decides the phase; otherwise it never splits a phase. The
//! search is one pass over the events, and one over the frames and stacks.

#[cfg(test)]
pub(crate) mod program;
mod resolve;
mod role;
#[cfg(test)]
mod tests;

pub use role::{Role, Roles};

use crate::footprint::of_vec;
use crate::span::Span;
use crate::stacks::Stacks;
use crate::trace::DeviceTrace;
use crate::units::EventIdx;
use crate::watch::{Stopped, Watch};
use serde::{Deserialize, Serialize};

/// A part of a program's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Phase {
    /// The model, or an optimizer, is made, moved or loaded.
    Setup,
    /// A forward pass.
    Forward,
    /// A backward pass; what a checkpoint computes again is part of it.
    Backward,
    /// An optimizer's step.
    Optimizer,
    /// None of these.
    Other,
    /// Nothing says.
    Unknown,
}

impl Phase {
    /// Lower-case name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Setup => "setup",
            Phase::Forward => "forward",
            Phase::Backward => "backward",
            Phase::Optimizer => "optimizer",
            Phase::Other => "other",
            Phase::Unknown => "unknown",
        }
    }
}

/// Events that follow one another in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseSpan {
    /// The phase.
    pub phase: Phase,
    /// Its events.
    pub events: Span<EventIdx>,
}

/// The phases of a device: every event lies in one span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    spans: Vec<PhaseSpan>,
}

impl Phases {
    /// Finds the phases of a device.
    pub fn of(device: &DeviceTrace, stacks: &Stacks) -> Phases {
        Phases::with_roles(device, stacks, &Roles::of(stacks))
    }

    /// The same, with a `watch` that may stop it.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn of_while(
        device: &DeviceTrace,
        stacks: &Stacks,
        watch: Watch<'_>,
    ) -> Result<Phases, Stopped> {
        Phases::watched(device, stacks, &Roles::of(stacks), watch)
    }

    /// Finds them where the roles of the stacks are known already.
    pub fn with_roles(device: &DeviceTrace, stacks: &Stacks, roles: &Roles) -> Phases {
        Watch::undisturbed(|watch| Phases::watched(device, stacks, roles, watch))
    }

    /// The same, with a `watch` that may stop it.
    ///
    /// # Errors
    /// [`Stopped`], when the `watch` stops it.
    pub(crate) fn watched(
        device: &DeviceTrace,
        stacks: &Stacks,
        roles: &Roles,
        watch: Watch<'_>,
    ) -> Result<Phases, Stopped> {
        let spans = resolve::spans(device, stacks, roles, watch)?;
        Ok(Phases { spans })
    }

    /// Heap bytes that they use.
    pub(crate) fn heap_bytes(&self) -> usize {
        of_vec(&self.spans)
    }

    /// All of them, in order; neighbours differ.
    pub fn spans(&self) -> &[PhaseSpan] {
        &self.spans
    }

    /// The phase of an event; [`Phase::Unknown`] if there is no such event.
    pub fn at(&self, event: EventIdx) -> Phase {
        let after = self.spans.partition_point(|s| s.events.end() <= event);
        self.spans.get(after).map_or(Phase::Unknown, |s| s.phase)
    }

    /// The spans that share an event with a range.
    pub fn overlapping(&self, events: Span<EventIdx>) -> &[PhaseSpan] {
        let from = self
            .spans
            .partition_point(|s| s.events.end() <= events.start());
        let until = self
            .spans
            .partition_point(|s| s.events.start() < events.end());
        &self.spans[from..until.max(from)]
    }

    /// Whether any event is in a phase.
    pub fn has(&self, phase: Phase) -> bool {
        self.spans.iter().any(|s| s.phase == phase)
    }
}
