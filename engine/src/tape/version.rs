//! Which state of the offloader a tape recorded (the labels of measured.md).

use crate::offload::{Change, Changes, Version};

/// The states that were recorded; the labels count from the published baseline, V2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapeVersion {
    /// `v0`: V2, before #5694.
    V0,
    /// `v0+P3`: V2 with only the `__exit__` of #5700.
    V0P3,
    /// `v0+P4`: another name for `v1`.
    V1,
    /// `v2`: V4.
    V2,
    /// `v3`: V5.
    V3,
    /// `v4`: V6.
    V4,
}

impl TapeVersion {
    /// Every recorded state, oldest first.
    pub const RECORDED: [TapeVersion; 6] = [
        TapeVersion::V0,
        TapeVersion::V0P3,
        TapeVersion::V1,
        TapeVersion::V2,
        TapeVersion::V3,
        TapeVersion::V4,
    ];

    /// The label that recordings use.
    pub fn label(self) -> &'static str {
        match self {
            TapeVersion::V0 => "v0",
            TapeVersion::V0P3 => "v0+P3",
            TapeVersion::V1 => "v1",
            TapeVersion::V2 => "v2",
            TapeVersion::V3 => "v3",
            TapeVersion::V4 => "v4",
        }
    }

    /// The state with this label.
    pub fn from_label(label: &str) -> Option<TapeVersion> {
        match label {
            "v0+P4" => Some(TapeVersion::V1),
            _ => TapeVersion::RECORDED
                .into_iter()
                .find(|version| version.label() == label),
        }
    }

    /// The state that a file name such as `v3_dense.jsonl.zst` states, if it states one.
    pub fn from_name(name: &str) -> Option<TapeVersion> {
        TapeVersion::from_label(name.split(['_', '.']).next()?)
    }

    /// The changes that are in.
    pub fn changes(self) -> Changes {
        match self {
            TapeVersion::V0 => Version::V2.changes(),
            TapeVersion::V0P3 => Version::V2.changes().with(Change::ExitSyncAndClear),
            TapeVersion::V1 => Version::V3.changes(),
            TapeVersion::V2 => Version::V4.changes(),
            TapeVersion::V3 => Version::V5.changes(),
            TapeVersion::V4 => Version::V6.changes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_state_versions() {
        let named = |name| TapeVersion::from_name(name).map(TapeVersion::label);
        assert_eq!(named("v3_dense.jsonl.zst"), Some("v3"));
        assert_eq!(named("v0+P3_stale.jsonl"), Some("v0+P3"));
        assert_eq!(named("v0+P4_stale.jsonl"), Some("v1"));
        assert_eq!(named("v4.jsonl"), Some("v4"));
        assert_eq!(named("dense.jsonl"), None);
        assert_eq!(named("v9_dense.jsonl"), None);
    }
}
