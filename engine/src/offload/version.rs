//! Releases of the offloader as sets of upstream changes.
//!
//! Each release is a set of changes, so that a patch can be tried alone on any base. In the code,
//! each change has its own switch.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One upstream change to `OffloadActivations`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// TRL #4236: the "new step" flag is set when the tracker is empty, not at the first unpack.
    RearmWhenEmpty,
    /// TRL #4247: de-duplication by storage, filters for parameters and fp8, saved strides, safer
    /// hook.
    Deduplicate,
    /// TRL #5694 (P4): pack copies offset and non-contiguous tensors, on the side stream.
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
    /// `s0` is the current stream at each use, not the default stream at construction. This is in
    /// TRL #7195, and was in axolotl 93a94e0d7 before.
    LiveComputeStream,
    /// axolotl bcb3b9eb1: axolotl's own `__enter__`, which shadows that of TRL.
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

/// A TRL release that changed how the offloader behaves. Releases are ordered, the oldest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Release {
    /// Major and minor number of the first release with this offloader. It is the first field,
    /// because releases are ordered by it.
    since: (u32, u32),
    /// The name that users know: `trl-0.29`.
    pub label: &'static str,
    /// What is new in it.
    pub about: &'static str,
    /// What it adds to the release before it.
    adds: &'static [Change],
}

impl Release {
    /// All of them, oldest first. A new one needs an entry below and its name here.
    pub const ALL: [&'static Release; 7] = [
        Release::TRL_0_18,
        Release::TRL_0_24,
        Release::TRL_0_29,
        Release::TRL_1_4,
        Release::TRL_1_5,
        Release::TRL_1_8,
        Release::TRL_1_14,
    ];

    /// The newest release whose source was read. Later ones may behave differently, so they are
    /// refused.
    pub const NEWEST_READ: &'static str = "trl-1.16";

    /// The port from torchtune.
    pub const TRL_0_18: &'static Release = &Release {
        since: (0, 18),
        label: "trl-0.18",
        about: "the first: ported from torchtune (#2954)",
        adds: &[],
    };

    /// With #4236.
    pub const TRL_0_24: &'static Release = &Release {
        since: (0, 24),
        label: "trl-0.24",
        about: "#4236: re-armed when the tracker is empty",
        adds: &[Change::RearmWhenEmpty],
    };

    /// The published baseline, named after the release of its run; its code came with 0.25.
    pub const TRL_0_29: &'static Release = &Release {
        since: (0, 25),
        label: "trl-0.29",
        about: "0.25 to 1.3, #4247: de-duplication",
        adds: &[Change::Deduplicate],
    };

    /// With #5694 and #5700.
    pub const TRL_1_4: &'static Release = &Release {
        since: (1, 4),
        label: "trl-1.4",
        about: "#5694: contiguous copies; #5700: exit clears",
        adds: &[Change::PackContiguous, Change::ExitSyncAndClear],
    };

    /// With #5730.
    pub const TRL_1_5: &'static Release = &Release {
        since: (1, 5),
        label: "trl-1.5",
        about: "1.5 to 1.7, #5730: enter resets",
        adds: &[Change::EnterReset],
    };

    /// With #6241.
    pub const TRL_1_8: &'static Release = &Release {
        since: (1, 8),
        label: "trl-1.8",
        about: "1.8 to 1.13, #6241: keys released",
        adds: &[Change::ReleaseDedupeKey],
    };

    /// With #7193 and #7195.
    pub const TRL_1_14: &'static Release = &Release {
        since: (1, 14),
        label: "trl-1.14",
        about: "1.14 to 1.16, #7193, #7195: copies before the wait",
        adds: &[
            Change::DedupeOnlyWithStreams,
            Change::CloneBeforeWait,
            Change::LiveComputeStream,
        ],
    };

    /// The offloader of a TRL release, such as `trl-1.4`, `trl-1.16` or `trl-0.29.0`. If a release
    /// did not change the offloader, it has that of the release before. One that is newer than
    /// [`Release::NEWEST_READ`] has none: nobody has read it.
    pub fn from_label(label: &str) -> Option<&'static Release> {
        let version = numbers(label)?;
        let mut known = Release::ALL.into_iter().rev();
        let found = known.find(|release| release.since <= version);
        found.filter(|_| !Release::is_unread(label))
    }

    /// Whether a TRL release is newer than the newest one whose source was read.
    pub fn is_unread(label: &str) -> bool {
        numbers(label) > numbers(Release::NEWEST_READ)
    }

    /// The changes that are included: its own, and those of every release before it.
    pub fn changes(&self) -> Changes {
        let until = Release::ALL
            .into_iter()
            .filter(|one| one.since <= self.since);
        let added = until.flat_map(|one| one.adds);
        added.fold(Changes::NONE, |set, &change| set.with(change))
    }
}

/// Major and minor number of a TRL release: (1, 4) for `trl-1.4` and `trl-1.4.0`.
fn numbers(label: &str) -> Option<(u32, u32)> {
    let mut numbers = label.strip_prefix("trl-")?.split('.');
    let mut number = || numbers.next()?.parse::<u32>().ok();
    let version = (number()?, number()?);
    let patch_is_a_number = numbers.next().is_none_or(|n| n.parse::<u32>().is_ok());
    (patch_is_a_number && numbers.next().is_none()).then_some(version)
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label)
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
            assert!(pair[0].since < pair[1].since, "{pair:?}");
        }
    }

    #[test]
    fn the_published_baseline_deduplicates_and_does_not_clear() {
        let baseline = Release::TRL_0_29.changes();
        assert!(baseline.has(Change::RearmWhenEmpty) && baseline.has(Change::Deduplicate));
        assert!(!baseline.has(Change::PackContiguous) && !baseline.has(Change::ExitSyncAndClear));
    }

    #[test]
    fn a_label_reads_back_and_any_release_has_the_offloader_of_its_time() {
        for release in Release::ALL {
            assert_eq!(Release::from_label(release.label), Some(release));
        }
        let check = |label, expected| assert_eq!(Release::from_label(label), expected, "{label}");
        check("trl-0.23.1", Some(Release::TRL_0_18));
        check("trl-0.25", Some(Release::TRL_0_29));
        check("trl-1.3.0", Some(Release::TRL_0_29));
        check("trl-1.5.1", Some(Release::TRL_1_5));
        check("trl-1.13", Some(Release::TRL_1_8));
        check("trl-1.16", Some(Release::TRL_1_14));
        check("trl-1.16.3", Some(Release::TRL_1_14));
        check("trl-1.17", None);
        check("trl-1.99", None);
        check("trl-2.0", None);
        check("trl-0.17", None);
        check("trl-1", None);
        check("trl-1.4.x", None);
        check("1.4", None);
    }

    #[test]
    fn a_release_is_unread_if_it_is_newer_than_the_newest_read() {
        let check = |label, expected| assert_eq!(Release::is_unread(label), expected, "{label}");
        check(Release::NEWEST_READ, false);
        check("trl-1.16.9", false);
        check("trl-0.17", false);
        check("trl-1.17", true);
        check("trl-2.0.1", true);
        check("dense", false);
    }
}
