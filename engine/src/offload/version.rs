//! Versions of the offloader as sets of upstream changes.
//!
//! Each released state is a set of changes, so that a patch can be tried alone on any base. The
//! table of releases is offload-semantics.md §1.0; the code paths are gated one change at a time.

use serde::{Deserialize, Serialize};

/// One upstream change to `OffloadActivations`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// TRL #4236: the "new step" flag is re-armed when the tracker is empty, not at first unpack.
    RearmWhenEmpty,
    /// TRL #4247: de-duplication by storage, parameter and fp8 filters, stride save, safer hook.
    Deduplicate,
    /// TRL #5694 (P4): offset and non-contiguous tensors are copied inside pack, on the side
    /// stream.
    PackContiguous,
    /// TRL #5700 (P3): leaving the context synchronises both streams and clears the stashes.
    ExitSyncAndClear,
    /// TRL #5730: entering the context resets the whole state.
    EnterReset,
    /// TRL #6241: a de-duplication key lives only as long as the accelerator tensor it stands for.
    ReleaseDedupeKey,
    /// axolotl bcb3b9eb1: a local `__enter__` that shadows TRL's own.
    AxolotlBackport,
    /// axolotl 93a94e0d7: `s0` is the current stream at each use, not the default stream.
    LiveComputeStream,
    /// axolotl 393d25f4f: the copy of #5694 is made on the compute stream, before TRL's pack.
    ComputeStreamClone,
}

/// A set of [`Change`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Changes(u16);

impl Changes {
    /// No change at all: the first release.
    pub const NONE: Changes = Changes(0);

    /// Whether `change` is part of the set.
    pub const fn has(self, change: Change) -> bool {
        self.0 & (1 << change as u16) != 0
    }

    /// The set with `change` added.
    #[must_use]
    pub const fn with(self, change: Change) -> Changes {
        Changes(self.0 | 1 << change as u16)
    }
}

/// A released state of the offloader (offload-semantics.md §1.0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Version {
    /// TRL #2954, v0.18.0: the port from torchtune.
    V0,
    /// + #4236, v0.24.0.
    V1,
    /// + #4247, v0.25.0 … v1.3.0: the published baseline.
    V2,
    /// + #5694.
    V3,
    /// + #5700, v1.4.0.
    V4,
    /// + #5730, v1.5.0.
    V5,
    /// + #6241, v1.8.0.
    V6,
}

impl Version {
    /// All released states, oldest first.
    pub const ALL: [Version; 7] = [
        Version::V0,
        Version::V1,
        Version::V2,
        Version::V3,
        Version::V4,
        Version::V5,
        Version::V6,
    ];

    /// The changes this state contains.
    pub fn changes(self) -> Changes {
        const ORDER: [Change; 6] = [
            Change::RearmWhenEmpty,
            Change::Deduplicate,
            Change::PackContiguous,
            Change::ExitSyncAndClear,
            Change::EnterReset,
            Change::ReleaseDedupeKey,
        ];
        ORDER
            .iter()
            .take(self as usize)
            .fold(Changes::NONE, |set, &change| set.with(change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_adds_one_change_to_the_one_before() {
        for pair in Version::ALL.windows(2) {
            let added = pair[1].changes().0 ^ pair[0].changes().0;
            assert_eq!(added.count_ones(), 1, "{pair:?}");
            assert_eq!(
                pair[1].changes().0 & pair[0].changes().0,
                pair[0].changes().0
            );
        }
    }

    #[test]
    fn the_published_baseline_deduplicates_and_does_not_clear() {
        let v2 = Version::V2.changes();
        assert!(v2.has(Change::RearmWhenEmpty) && v2.has(Change::Deduplicate));
        assert!(!v2.has(Change::PackContiguous) && !v2.has(Change::ExitSyncAndClear));
    }
}
