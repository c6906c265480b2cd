//! What a row runs: a system, what its patches are applied to, and where.

use std::ops::RangeInclusive;

use api::bench::DeviceKind;

use crate::deviation::Deviation;
use crate::device::Ordinal;
use crate::device::cuda::Addresses;
use crate::device::sim::SimSpec;
use crate::offload::Changes;
use crate::patches::{self, Effect, Patch};
use crate::repeat::Steps;
use crate::session::{Around, HostKey, Limits, ModuleOffload, Share};
use crate::systems::{Base, System};
use trace::units::Bytes;

/// Which stream the offloader copies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyStream {
    /// A stream of its own (`use_streams=True`).
    #[default]
    Side,
    /// The stream that computes (`use_streams=False`).
    Compute,
}

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpec {
    /// What is run.
    pub system: &'static System,
    /// What the patches are applied to.
    pub base: Base,
    /// The patches.
    pub patches: Vec<&'static Patch>,
    /// Which stream the offloader copies on.
    pub copies: CopyStream,
    /// How much Megatron-LM's offloader moves, if it is the base.
    pub limits: Limits,
    /// Where to run.
    pub device: DeviceKind,
    /// Which of the host's devices.
    pub ordinal: Ordinal,
    /// Whose addresses decide on a card.
    pub addresses: Addresses,
    /// Steps; `None` for the system's own number.
    pub steps: Option<u32>,
    /// The simulated machine, which also decides for a card. A capacity given here replaces that of
    /// the system.
    pub sim: SimSpec,
    /// How many steps, from the first one on, [`run_recorded`] keeps the events of.
    pub record_steps: u32,
    /// A rule that is broken on purpose.
    pub deviation: Option<Deviation>,
    /// Whether steps that repeat are computed too.
    pub computed: Steps,
}

impl RunSpec {
    /// The device memory that can be asked for: from too little for any model to more than any card
    /// has.
    pub const CAPACITY: RangeInclusive<Bytes> = Bytes::mib(16)..=Bytes::gib(16 << 10);

    /// A run with the system's own inputs.
    pub fn new(system: &'static System, patches: &[&'static Patch]) -> RunSpec {
        RunSpec {
            system,
            base: system.base,
            patches: patches.to_vec(),
            copies: CopyStream::Side,
            limits: Limits::NONE,
            device: DeviceKind::Sim,
            ordinal: Ordinal::default(),
            addresses: Addresses::default(),
            steps: None,
            sim: SimSpec::default(),
            record_steps: 0,
            deviation: None,
            computed: Steps::default(),
        }
    }

    /// Steps that it is to have: what was asked for, else the system's own.
    pub fn planned_steps(&self) -> u32 {
        self.steps.unwrap_or(self.system.default_steps)
    }

    /// Memory of the device: what was asked for, else the system's own. A run that only tests an
    /// assumption has that of the published run, because it is compared with nothing else.
    pub fn capacity(&self) -> Option<Bytes> {
        let tests_assumption = self.stays_on_device() && self.base == self.system.base;
        let published = || (self.system.published)(&self.patches)?.capacity;
        let own = || match tests_assumption {
            true => published(),
            false => None,
        };
        self.sim.capacity.or(self.system.capacity).or_else(own)
    }

    /// The simulated machine with that memory.
    pub(super) fn machine(&self) -> SimSpec {
        SimSpec {
            capacity: self.capacity(),
            ..self.sim
        }
    }

    /// The same run on another base, given by its name as in [`RunSpec::base_in_words`]; `None` for
    /// an unknown name.
    pub fn on(self, words: &str) -> Option<RunSpec> {
        let mut parts = words.split(", ");
        let label = parts.next()?;
        let own = Some(self.system.base).filter(|base| base.label() == label);
        let mut limits = Limits::NONE;
        for part in parts {
            if let Some(percent) = part.strip_suffix(" % of modules") {
                limits.share = Share::percent(percent.parse().ok()?)?;
            } else {
                limits.in_flight = Some(part.strip_suffix(" in flight")?.parse().ok()?);
            }
        }
        let on = RunSpec {
            base: Base::from_label(label).or(own)?,
            limits,
            ..self
        };
        (on.base_in_words() == words).then_some(on)
    }

    /// The name of the base, with the limits that it was given.
    pub fn base_in_words(&self) -> String {
        let mut words = self.base.to_string();
        if self.base != Base::MegatronLm || self.limits == Limits::NONE {
            return words;
        }
        words += &format!(", {} % of modules", self.limits.share.as_percent());
        if let Some(most) = self.limits.in_flight {
            words += &format!(", {most} in flight");
        }
        words
    }

    /// Whether a patch is assumed to keep activations on the device.
    fn stays_on_device(&self) -> bool {
        let mut patches = self.patches.iter();
        patches.any(|patch| patch.hypothesis().is_some())
    }

    /// What stands around the steps.
    pub(super) fn around(&self) -> Around {
        if self.stays_on_device() {
            // TRL's context is used, but moves nothing.
            return Around::Trl;
        }
        let keys = |patch: &&'static Patch| patch.effect == Effect::HostKey;
        match self.base {
            Base::MegatronLm => Around::Modules(ModuleOffload::Megatron(self.limits)),
            Base::MsSwift if self.patches.iter().any(keys) => {
                Around::Modules(ModuleOffload::MsSwift(HostKey::View))
            }
            base => base.around(),
        }
    }

    /// The changes of TRL's offloader; `None` if it offloads nothing.
    pub(super) fn offloader_changes(&self) -> Option<Changes> {
        let base = self.base.changes().filter(|_| !self.stays_on_device())?;
        Some(patches::changes(base, &self.patches))
    }
}

/// What really runs: two specifications with the same program give the same row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Program {
    system: &'static System,
    device: DeviceKind,
    ordinal: Ordinal,
    addresses: Addresses,
    /// The changes of TRL's offloader; `None` without it.
    changes: Option<Changes>,
    around: Around,
    copies: CopyStream,
    /// Those patches that change the program itself.
    patches: Vec<&'static Patch>,
    sim: SimSpec,
    deviation: Option<Deviation>,
}

impl Program {
    pub(super) fn of(spec: &RunSpec) -> Program {
        let patches = spec.patches.iter().copied();
        let of_program = patches.filter(|patch| patch.effect == Effect::Program);
        Program {
            system: spec.system,
            device: spec.device,
            ordinal: spec.ordinal,
            addresses: spec.addresses,
            changes: spec.offloader_changes(),
            around: spec.around(),
            copies: spec.copies,
            patches: of_program.collect(),
            sim: spec.machine(),
            deviation: spec.deviation,
        }
    }
}
