//! Patches: what each changes in a run (docs/scenarios.md, "Patches").

use serde::{Deserialize, Serialize};

use crate::offload::{Change, Changes};

/// A patch under its public id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Patch {
    /// bitsandbytes #1935: `no_grad` around the dequantised product. Nothing was saved there.
    #[serde(rename = "p1-matmul4bit-no-grad")]
    Matmul4bitNoGrad,
    /// transformers #45769: bf16 autocast around the model. Cross-entropy runs in fp32 anyway.
    #[serde(rename = "p2-bf16-cross-entropy")]
    Bf16CrossEntropy,
    /// TRL #5700.
    #[serde(rename = "p3-exit-sync-and-clear")]
    ExitSyncAndClear,
    /// TRL #5694.
    #[serde(rename = "p4-pack-contiguous")]
    PackContiguous,
    /// Source unavailable. Tested as the hypothesis that activations stay on the device.
    #[serde(rename = "p5-torch-memory-fix")]
    TorchMemoryFix,
    /// TRL #5730.
    EnterReset,
    /// TRL #6241.
    ReleaseDedupeKey,
    /// axolotl bcb3b9eb1.
    AxolotlBackport,
    /// axolotl 393d25f4f.
    ComputeStreamClone,
    /// TRL #7195: the copies of #5694 on the stream that computes, before the other one waits.
    CloneBeforeWait,
    /// Fast-LLM #486.
    LossDetach,
    /// Transformer Engine #2772, which mends issue #1935.
    ClearCtxTensors,
}

impl Patch {
    /// Every patch, in the order of the published table.
    pub const ALL: [Patch; 12] = [
        Patch::Matmul4bitNoGrad,
        Patch::Bf16CrossEntropy,
        Patch::ExitSyncAndClear,
        Patch::PackContiguous,
        Patch::TorchMemoryFix,
        Patch::EnterReset,
        Patch::ReleaseDedupeKey,
        Patch::AxolotlBackport,
        Patch::ComputeStreamClone,
        Patch::CloneBeforeWait,
        Patch::LossDetach,
        Patch::ClearCtxTensors,
    ];

    /// The public id.
    pub fn id(self) -> &'static str {
        match self {
            Patch::Matmul4bitNoGrad => "p1-matmul4bit-no-grad",
            Patch::Bf16CrossEntropy => "p2-bf16-cross-entropy",
            Patch::ExitSyncAndClear => "p3-exit-sync-and-clear",
            Patch::PackContiguous => "p4-pack-contiguous",
            Patch::TorchMemoryFix => "p5-torch-memory-fix",
            Patch::EnterReset => "enter-reset",
            Patch::ReleaseDedupeKey => "release-dedupe-key",
            Patch::AxolotlBackport => "axolotl-backport",
            Patch::ComputeStreamClone => "compute-stream-clone",
            Patch::CloneBeforeWait => "clone-before-wait",
            Patch::LossDetach => "loss-detach",
            Patch::ClearCtxTensors => "clear-ctx-tensors",
        }
    }

    /// The patch with this id; `p1` … `p5` are accepted for the first five.
    pub fn from_id(id: &str) -> Option<Patch> {
        let matches = |patch: &Patch| {
            let full = patch.id();
            let short = full.split('-').next().unwrap_or(full);
            id == full || (short.starts_with('p') && short.len() == 2 && id == short)
        };
        Patch::ALL.into_iter().find(matches)
    }

    /// The change to the offloader, for patches that are one.
    pub fn change(self) -> Option<Change> {
        match self {
            Patch::ExitSyncAndClear => Some(Change::ExitSyncAndClear),
            Patch::PackContiguous => Some(Change::PackContiguous),
            Patch::EnterReset => Some(Change::EnterReset),
            Patch::ReleaseDedupeKey => Some(Change::ReleaseDedupeKey),
            Patch::AxolotlBackport => Some(Change::AxolotlBackport),
            Patch::ComputeStreamClone => Some(Change::ComputeStreamClone),
            Patch::CloneBeforeWait => Some(Change::CloneBeforeWait),
            Patch::Matmul4bitNoGrad
            | Patch::Bf16CrossEntropy
            | Patch::TorchMemoryFix
            | Patch::LossDetach
            | Patch::ClearCtxTensors => None,
        }
    }

    /// What is assumed of this patch, where its source was never published.
    pub fn hypothesis(self) -> Option<&'static str> {
        (self == Patch::TorchMemoryFix).then_some("the hook keeps activations on the device")
    }

    /// Why this patch changes nothing that the engine runs, where that is read from its source and
    /// not computed.
    pub fn asserted(self) -> Option<&'static str> {
        match self {
            Patch::Matmul4bitNoGrad => Some(
                "asserted from the source: a forward of autograd.Function runs without gradients \
                 already, so nothing was saved",
            ),
            Patch::Bf16CrossEntropy => Some(
                "asserted from the source: the trainer autocasts already, and cross-entropy runs \
                 in fp32 under autocast",
            ),
            _ => None,
        }
    }
}

/// The base's changes and those of all patches.
pub(super) fn changes(base: Changes, patches: &[Patch]) -> Changes {
    patches
        .iter()
        .filter_map(|patch| patch.change())
        .fold(base, Changes::with)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_and_match_their_serialised_form() {
        for patch in Patch::ALL {
            assert_eq!(Patch::from_id(patch.id()), Some(patch));
            assert_eq!(serde_json::to_value(patch).unwrap(), patch.id());
        }
        assert_eq!(Patch::from_id("p3"), Some(Patch::ExitSyncAndClear));
        assert_eq!(Patch::from_id("p"), None);
        assert_eq!(Patch::from_id("enter"), None);
    }
}
