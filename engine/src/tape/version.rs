//! Which code a tape recorded: a TRL release, or a release with one change added.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::offload::{Changes, Release};
use crate::patches::{self, Patch, UnknownPatch};

/// The recorded code, such as `trl-1.4`, or `trl-0.29+P3+P4` with patches added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapeVersion {
    /// The release.
    release: &'static Release,
    /// What was added to it, in the order of [`Patch::ALL`].
    added: Vec<&'static Patch>,
}

/// Why there is no such code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownVersion {
    /// No release has this label.
    #[error(
        "`{0}` is no TRL release: use {oldest} to {newest}, with patches as in trl-0.29+P3+P4",
        oldest = Release::ALL[0].label,
        newest = Release::NEWEST_READ
    )]
    NoRelease(String),
    /// A release whose source was not read.
    #[error(
        "`{0}` is too new: {newest} is the newest release whose offloader is known here",
        newest = Release::NEWEST_READ
    )]
    TooNew(String),
    /// No patch has this name.
    #[error(transparent)]
    NoPatch(#[from] UnknownPatch),
    /// A patch of something else.
    #[error("`{}` does not change TRL's offloader", .0.id)]
    OtherPatch(&'static Patch),
}

/// Patches that were recorded on a release, each alone.
const ADDED: [&Patch; 2] = [Patch::EXIT_SYNC_AND_CLEAR, Patch::PACK_CONTIGUOUS];

/// Labels of older recordings, in which the published baseline is `v0`.
const OLD_LABELS: [(&str, &str); 5] = [
    ("v0", "trl-0.29"),
    ("v1", "trl-0.29+p4"),
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
            added: vec![patch],
        });
        plain.into_iter().chain(patched)
    }

    /// The code with this label: a TRL release (`trl-1.16`) or one of the older labels `v0` to
    /// `v4`, which may have patches of TRL's offloader (`trl-0.29+P3+P4`), in any case and order.
    ///
    /// # Errors
    /// Which part of the label is not known.
    pub fn from_label(label: &str) -> Result<TapeVersion, UnknownVersion> {
        let (base, patches) = match label.split_once('+') {
            Some((base, patches)) => (base, Some(patches)),
            None => (label, None),
        };
        let base = base.to_ascii_lowercase();
        let old = OLD_LABELS.iter().find(|(old, _)| *old == base);
        let base = old.map_or(base.as_str(), |(_, new)| new);
        let (release, own) = match base.split_once('+') {
            Some((release, own)) => (release, Some(own)),
            None => (base, None),
        };
        if Release::is_unread(release) {
            return Err(UnknownVersion::TooNew(release.to_owned()));
        }
        let unknown = || UnknownVersion::NoRelease(label.to_owned());
        let release = Release::from_label(release).ok_or_else(unknown)?;
        let patches: Vec<&str> = own.into_iter().chain(patches).collect();
        let added = match patches.is_empty() {
            true => Vec::new(),
            false => Patch::set_from(&patches.join("+"))?,
        };
        match added.iter().find(|patch| patch.change().is_none()) {
            Some(other) => Err(UnknownVersion::OtherPatch(other)),
            None => Ok(TapeVersion { release, added }),
        }
    }

    /// The code that a file name such as `trl-1.5_dense.jsonl.zst` gives, if it gives one.
    pub fn from_name(name: &str) -> Option<TapeVersion> {
        TapeVersion::from_label(first_word(name)).ok()
    }

    /// The first word of a file name, if it is meant as a label of the code but is none: a release
    /// or a patch that is not known here.
    pub fn unknown_in_name(name: &str) -> Option<&str> {
        let word = first_word(name);
        let lower = word.to_ascii_lowercase();
        let number = lower.strip_prefix("trl-").or(lower.strip_prefix('v'))?;
        let is_meant = number.starts_with(|first: char| first.is_ascii_digit());
        (is_meant && TapeVersion::from_label(word).is_err()).then_some(word)
    }

    /// The changes that are included.
    pub fn changes(&self) -> Changes {
        patches::changes(self.release.changes(), &self.added)
    }
}

/// The part of a tape's file name that may be a label.
fn first_word(name: &str) -> &str {
    let name = name.strip_suffix(".zst").unwrap_or(name);
    let name = name.strip_suffix(".jsonl").unwrap_or(name);
    name.split('_').next().unwrap_or(name)
}

impl From<&'static Release> for TapeVersion {
    fn from(release: &'static Release) -> TapeVersion {
        let added = Vec::new();
        TapeVersion { release, added }
    }
}

impl fmt::Display for TapeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.release.label)?;
        self.added
            .iter()
            .try_for_each(|patch| write!(f, "+{}", patch.label()))
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
        check("trl-0.29+P3+P4_dense.jsonl", Some("trl-0.29+P3+P4"));
        check("trl-1.99_dense.jsonl", None);
    }

    #[test]
    fn a_name_with_an_unknown_release_is_not_one_without() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(TapeVersion::unknown_in_name(name), expected, "{name}");
        };
        check("trl-1.17_dense.jsonl.zst", Some("trl-1.17"));
        check("TRL-0.17_dense.jsonl", Some("TRL-0.17"));
        check("trl-0.29+P9_dense.jsonl", Some("trl-0.29+P9"));
        check("v9_dense.jsonl", Some("v9"));
        check("trl-1.16_dense.jsonl", None);
        check("v1.jsonl", None);
        check("views_dense.jsonl", None);
        check("trl-sft_dense.jsonl", None);
        check("dense.jsonl", None);
    }

    #[test]
    fn labels_have_patches_in_any_case_and_order_and_say_what_is_unknown() {
        let check = |label: &str, expected: &str| {
            let found = match TapeVersion::from_label(label) {
                Ok(version) => version.to_string(),
                Err(why) => why.to_string(),
            };
            assert_eq!(found, expected);
        };
        check("trl-0.29+p3", "trl-0.29+P3");
        check("TRL-0.29+P4+P3+p3", "trl-0.29+P3+P4");
        check("trl-1.4+enter-reset", "trl-1.4+enter-reset");
        check("v1+P3", "trl-0.29+P3+P4");
        check("trl-1.16", "trl-1.14");
        check(
            "trl-1.99",
            "`trl-1.99` is too new: trl-1.16 is the newest release whose offloader is known here",
        );
        let no_patch = |name: &str| UnknownPatch(name.to_owned()).to_string();
        check("trl-0.29+P9", &no_patch("P9"));
        check("trl-0.29+", &no_patch(""));
        check(
            "trl-0.29+P3+P5",
            "`p5-torch-memory-fix` does not change TRL's offloader",
        );
        check(
            "dense",
            "`dense` is no TRL release: use trl-0.18 to trl-1.16, with patches as in \
             trl-0.29+P3+P4",
        );
    }

    #[test]
    fn every_candidate_reads_back() {
        for version in TapeVersion::candidates() {
            let read = TapeVersion::from_label(&version.to_string());
            assert_eq!(read, Ok(version));
        }
    }
}
