//! Releases of the offloader as sets of upstream changes.
//!
//! Each release is a set of changes, so that a patch can be tried alone on any base. The code
//! paths are gated one change at a time.

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
    /// TRL #7193: tensors are de-duplicated only where copies run on a side stream.
    DedupeOnlyWithStreams,
    /// TRL #7195: the copy of #5694 is made on the compute stream, before the side stream waits
    /// for it.
    CloneBeforeWait,
    /// `s0` is the current stream at each use, not the default stream at construction: TRL #7195,
    /// and before it axolotl 93a94e0d7.
    LiveComputeStream,
    /// axolotl bcb3b9eb1: a local `__enter__` that shadows TRL's own.
    AxolotlBackport,
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

    /// Whether all changes of `other` are part of this set.
    pub const fn contains(self, other: Changes) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A TRL release from which on the offloader behaves differently, by its first number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Release {
    /// #2954: the port from torchtune.
    Trl018,
    /// + #4236.
    Trl024,
    /// + #4247, out since 0.25 and unchanged to 1.3: the published baseline.
    Trl029,
    /// + #5694 and #5700.
    Trl14,
    /// + #5730.
    Trl15,
    /// + #6241.
    Trl18,
    /// + #7193 and #7195; 1.16 decides the same.
    Trl114,
}

impl Release {
    /// All of them, oldest first.
    pub const ALL: [Release; 7] = [
        Release::Trl018,
        Release::Trl024,
        Release::Trl029,
        Release::Trl14,
        Release::Trl15,
        Release::Trl18,
        Release::Trl114,
    ];

    /// The name that users know: `trl-0.29`.
    pub const fn label(self) -> &'static str {
        match self {
            Release::Trl018 => "trl-0.18",
            Release::Trl024 => "trl-0.24",
            Release::Trl029 => "trl-0.29",
            Release::Trl14 => "trl-1.4",
            Release::Trl15 => "trl-1.5",
            Release::Trl18 => "trl-1.8",
            Release::Trl114 => "trl-1.14",
        }
    }

    /// What is new in it.
    pub const fn about(self) -> &'static str {
        match self {
            Release::Trl018 => "the first: ported from torchtune (#2954)",
            Release::Trl024 => "#4236: re-armed when the tracker is empty",
            Release::Trl029 => "0.25 to 1.3, #4247: de-duplication",
            Release::Trl14 => "#5694: contiguous copies; #5700: exit clears",
            Release::Trl15 => "1.5 to 1.7, #5730: enter resets",
            Release::Trl18 => "1.8 to 1.13, #6241: keys released",
            Release::Trl114 => "1.14 to 1.16, #7193, #7195: copies before the wait",
        }
    }

    /// The first release, as major and minor number, with this offloader.
    const fn since(self) -> (u32, u32) {
        match self {
            Release::Trl018 => (0, 18),
            Release::Trl024 => (0, 24),
            // The label is that of the published run; its code came with 0.25.
            Release::Trl029 => (0, 25),
            Release::Trl14 => (1, 4),
            Release::Trl15 => (1, 5),
            Release::Trl18 => (1, 8),
            Release::Trl114 => (1, 14),
        }
    }

    /// The offloader of a TRL release, such as `trl-1.4`, `trl-1.16` or `trl-0.29.0`: a release
    /// without a change of its own has that of the one before.
    pub fn from_label(label: &str) -> Option<Release> {
        let mut numbers = label.strip_prefix("trl-")?.split('.');
        let mut number = || numbers.next()?.parse::<u32>().ok();
        let version = (number()?, number()?);
        let patch_is_a_number = numbers.next().is_none_or(|n| n.parse::<u32>().is_ok());
        if !patch_is_a_number || numbers.next().is_some() {
            return None;
        }
        let mut known = Release::ALL.into_iter().rev();
        known.find(|release| release.since() <= version)
    }

    /// The changes that are in.
    pub fn changes(self) -> Changes {
        const ADDED: [&[Change]; 7] = [
            &[],
            &[Change::RearmWhenEmpty],
            &[Change::Deduplicate],
            &[Change::PackContiguous, Change::ExitSyncAndClear],
            &[Change::EnterReset],
            &[Change::ReleaseDedupeKey],
            &[
                Change::DedupeOnlyWithStreams,
                Change::CloneBeforeWait,
                Change::LiveComputeStream,
            ],
        ];
        let added = ADDED.iter().take(self as usize + 1).copied().flatten();
        added.fold(Changes::NONE, |set, &change| set.with(change))
    }
}

impl Serialize for Release {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.label())
    }
}

impl<'de> Deserialize<'de> for Release {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let label = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        let unknown = || serde::de::Error::custom(format!("`{label}` is no TRL release"));
        Release::from_label(&label).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_keeps_the_changes_of_the_one_before() {
        for pair in Release::ALL.windows(2) {
            let (before, after) = (pair[0].changes(), pair[1].changes());
            assert!(after.contains(before) && after != before, "{pair:?}");
            assert!(pair[0].since() < pair[1].since(), "{pair:?}");
        }
    }

    #[test]
    fn the_published_baseline_deduplicates_and_does_not_clear() {
        let baseline = Release::Trl029.changes();
        assert!(baseline.has(Change::RearmWhenEmpty) && baseline.has(Change::Deduplicate));
        assert!(!baseline.has(Change::PackContiguous) && !baseline.has(Change::ExitSyncAndClear));
    }

    #[test]
    fn a_label_reads_back_and_any_release_has_the_offloader_of_its_time() {
        for release in Release::ALL {
            assert_eq!(Release::from_label(release.label()), Some(release));
        }
        let check = |label, expected| assert_eq!(Release::from_label(label), expected, "{label}");
        check("trl-0.23.1", Some(Release::Trl018));
        check("trl-0.25", Some(Release::Trl029));
        check("trl-1.3.0", Some(Release::Trl029));
        check("trl-1.5.1", Some(Release::Trl15));
        check("trl-1.13", Some(Release::Trl18));
        check("trl-1.16", Some(Release::Trl114));
        check("trl-0.17", None);
        check("trl-1", None);
        check("trl-1.4.x", None);
        check("1.4", None);
    }
}
