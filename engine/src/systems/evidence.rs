//! How a system's file writes down what others published and what was measured.

use api::bench::{Evidence, EvidenceKind, PublishedOnly};

use super::base::Base;
use crate::offload::{Change, Release};
use crate::patches::{self, Patch};
use trace::units::Bytes;

/// The page with the published table.
pub(super) const PAGE: &str = "butterweck leak analysis";
const PAGE_MACHINE: &str = "RTX 3090, TRL 0.29.0, PyTorch 2.10";
/// Memory of that card.
const PAGE_CAPACITY: Bytes = Bytes::gib(24);
/// Why the page's absolute numbers cannot be derived.
pub(super) const NO_INPUTS: &str = "batch, LoRA rank and targets, image size and checkpointing \
                                    flags were not published: compare the differences to the \
                                    baseline";

const REAL: &str = "the real PyTorch and TRL";
const REAL_MACHINE: &str = "NVIDIA H200, PyTorch 2.11.0+cu130, transformers 5.17.0, peft 0.21.0";
const REAL_FILE: &str = "docs/measurements.md";
const REAL_DATE: &str = "November 2026";

/// Decimal gigabytes, in the form that [`Evidence`] needs.
pub(super) fn gigabytes(gigabytes: f64) -> Option<Bytes> {
    Some(Bytes((gigabytes * 1e9).round() as u64))
}

/// A row of the published table, by its peak in GB.
pub(super) fn page(peak: f64, steps: u32) -> Evidence {
    Evidence {
        peak_allocated: gigabytes(peak),
        steps: Some(steps),
        capacity: Some(PAGE_CAPACITY),
        machine: Some(PAGE_MACHINE.to_owned()),
        ..Evidence::new(EvidenceKind::Published, PAGE)
    }
}

/// What a source says in words, without numbers.
pub(super) fn statement(source: &str, note: &str) -> Evidence {
    Evidence {
        note: Some(note.to_owned()),
        ..Evidence::new(EvidenceKind::Published, source)
    }
}

/// A statement for which nothing can be computed.
pub(super) fn only(what: &str, source: &str, why: &str) -> PublishedOnly {
    PublishedOnly {
        what: what.to_owned(),
        source: source.to_owned(),
        why: why.to_owned(),
    }
}

/// A run of the real software in which memory was counted.
pub(super) fn real_run(command: &str) -> Evidence {
    Evidence {
        file: Some(REAL_FILE.to_owned()),
        machine: Some(REAL_MACHINE.to_owned()),
        date: Some(REAL_DATE.to_owned()),
        command: Some(command.to_owned()),
        ..Evidence::new(EvidenceKind::Measured, REAL)
    }
}

/// A run of the real software that raised an exception.
pub(super) fn real_crash(command: &str, crash: &str) -> Evidence {
    Evidence {
        crash: Some(crash.to_owned()),
        ..real_run(command)
    }
}

/// The code that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuredCode {
    /// TRL 0.29.
    Trl029,
    /// TRL 0.29 with #5700.
    WithP3,
    /// TRL 0.29 with #5694.
    WithP4,
    /// TRL 1.4.
    Trl14,
    /// TRL 1.5.
    Trl15,
    /// TRL 1.8.
    Trl18,
    /// TRL 1.14.
    Trl114,
    /// `save_on_cpu(pin_memory=True)`.
    SaveOnCpu,
    /// Checkpointing alone.
    NoOffloading,
}

impl MeasuredCode {
    /// The code that a base with patches gives, if it was measured.
    pub fn of(base: Base, patches: &[&'static Patch]) -> Option<MeasuredCode> {
        match base {
            Base::Release(release) => MeasuredCode::of_release(release, patches),
            Base::SaveOnCpu => patches.is_empty().then_some(MeasuredCode::SaveOnCpu),
            Base::NoOffloading => patches.is_empty().then_some(MeasuredCode::NoOffloading),
            Base::HiddenStates | Base::MegatronLm | Base::MsSwift | Base::Program(_) => None,
        }
    }

    /// These runs had no patches of code outside the offloader, and no patches that only one
    /// project had.
    fn of_release(release: &'static Release, patches: &[&'static Patch]) -> Option<MeasuredCode> {
        if !patches.iter().all(|patch| patch.change().is_some()) {
            return None;
        }
        let changes = patches::changes(release.changes(), patches);
        let baseline = Release::TRL_0_29.changes();
        let known = [
            (baseline, MeasuredCode::Trl029),
            (
                baseline.with(Change::ExitSyncAndClear),
                MeasuredCode::WithP3,
            ),
            (baseline.with(Change::PackContiguous), MeasuredCode::WithP4),
            (Release::TRL_1_4.changes(), MeasuredCode::Trl14),
            (Release::TRL_1_5.changes(), MeasuredCode::Trl15),
            (Release::TRL_1_8.changes(), MeasuredCode::Trl18),
            (Release::TRL_1_14.changes(), MeasuredCode::Trl114),
        ];
        let found = known.into_iter().find(|(set, _)| *set == changes);
        found.map(|(_, ran)| ran)
    }
}
