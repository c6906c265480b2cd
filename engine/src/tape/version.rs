//! Which code a tape recorded: a TRL release, or a release with one change added.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::offload::{Changes, Release};
use crate::patches::{self, Patch};

/// The recorded code, such as `trl-1.4`, or `trl-0.29+P3` with a patch added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapeVersion {
    /// The release.
    release: &'static Release,
    /// What was added to it.
    added: Option<&'static Patch>,
}

/// Patches that were recorded on a release, each alone.
const ADDED: [&Patch; 2] = [Patch::EXIT_SYNC_AND_CLEAR, Patch::PACK_CONTIGUOUS];

/// Labels of older recordings, in which the published baseline is `v0`.
const OLD_LABELS: [(&str, &str); 7] = [
    ("v0", "trl-0.29"),
    ("v0+P3", "trl-0.29+P3"),
    ("v0+P4", "trl-0.29+P4"),
    ("v1", "trl-0.29+P4"),
    ("v2", "trl-1.4"),
    ("v3", "trl-1.5"),
    ("v4", "trl-1.8"),
];

impl TapeVersion {
    /// Every code that a recording is compared with if its name says nothing, oldest first.
    pub fn candidates() -> impl Iterator<Item = TapeVersion> {
        let plain = Release::ALL.map(TapeVersion::from);
        let patched = ADDED.map(|patch| TapeVersion {
            release: Release::TRL_0_29,
            added: Some(patch),
        });
        plain.into_iter().chain(patched)
    }

    /// The code with this label: a TRL release (`trl-1.16`), which may have a patch
    /// (`trl-0.29+P3`), or one of the older labels `v0` to `v4`.
    pub fn from_label(label: &str) -> Option<TapeVersion> {
        let old = OLD_LABELS.iter().find(|(old, _)| *old == label);
        let label = old.map_or(label, |(_, new)| new);
        let (release, patch) = match label.split_once('+') {
            Some((release, patch)) => (release, Some(patch)),
            None => (label, None),
        };
        let added = match patch {
            None => None,
            Some(label) => Some(ADDED.into_iter().find(|patch| patch.label() == label)?),
        };
        let release = Release::from_label(release)?;
        Some(TapeVersion { release, added })
    }

    /// The code that a file name such as `trl-1.5_dense.jsonl.zst` gives, if it gives one.
    pub fn from_name(name: &str) -> Option<TapeVersion> {
        let name = name.strip_suffix(".zst").unwrap_or(name);
        let name = name.strip_suffix(".jsonl").unwrap_or(name);
        TapeVersion::from_label(name.split('_').next()?)
    }

    /// The changes that are included.
    pub fn changes(self) -> Changes {
        patches::changes(self.release.changes(), self.added.as_slice())
    }
}

impl From<&'static Release> for TapeVersion {
    fn from(release: &'static Release) -> TapeVersion {
        let added = None;
        TapeVersion { release, added }
    }
}

impl fmt::Display for TapeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.release.label)?;
        match self.added {
            Some(patch) => write!(f, "+{}", patch.label()),
            None => Ok(()),
        }
    }
}

/// Written as its label.
impl Serialize for TapeVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_state_versions() {
        let check = |name: &str, expected: Option<&str>| {
            let found = TapeVersion::from_name(name).map(|version| version.to_string());
            assert_eq!(found.as_deref(), expected, "{name}");
        };
        check("trl-1.14_views_single.jsonl.zst", Some("trl-1.14"));
        check("trl-1.16_dense.jsonl", Some("trl-1.14"));
        check("trl-0.18_dense.jsonl.zst", Some("trl-0.18"));
        check("trl-0.29+P3_stale.jsonl", Some("trl-0.29+P3"));
        check("v3_dense.jsonl.zst", Some("trl-1.5"));
        check("v0+P3_stale.jsonl", Some("trl-0.29+P3"));
        check("v0+P4_stale.jsonl", Some("trl-0.29+P4"));
        check("v1.jsonl", Some("trl-0.29+P4"));
        check("v4.jsonl", Some("trl-1.8"));
        check("dense.jsonl", None);
        check("v9_dense.jsonl", None);
        check("trl-0.29+P9_dense.jsonl", None);
    }

    #[test]
    fn every_candidate_reads_back() {
        for version in TapeVersion::candidates() {
            assert_eq!(TapeVersion::from_label(&version.to_string()), Some(version));
        }
    }
}
