//! What takes the disk of a server, for its admins.

use crate::ids::RunId;
use crate::projects::{ProjectName, WhyKept};
use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::Add;
use trace::units::Bytes;

/// What takes the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    /// When it was measured, milliseconds since the epoch; at most a minute ago.
    pub at_ms: i64,
    /// All projects together, without those of `unknown`.
    pub parts: StoredParts,
    /// Each project, the first one first.
    pub projects: Vec<ProjectUsage>,
    /// The runs that take most, of all projects, the largest first; deleted ones are not among
    /// them.
    pub largest: Vec<LargeRun>,
    /// What each person's runs take, of all projects, the largest first. Deleted runs that still
    /// take room are among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub people: Vec<PersonUsage>,
    /// Projects whose databases cannot be read, or of closed ones are of an older version. They
    /// are counted nowhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<ProjectName>,
}

impl Usage {
    /// How many of the largest runs are named.
    pub const MOST_LARGEST: usize = 20;
    /// How many people are named.
    pub const MOST_PEOPLE: usize = 100;

    /// Whether it is known of any run who sent it: only where people sign in.
    pub fn names_people(&self) -> bool {
        let mut people = self.people.iter();
        people.any(|person| person.uploaded_by.is_some())
    }
}

/// Bytes on disk by what they are. Files are in the blob store, everything else is in the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoredParts {
    /// Recordings, as they are packed.
    pub files: Bytes,
    /// Their events, as questions read them; they can be made again of the files.
    pub events: Bytes,
    /// Their pictures, which can be made again, too.
    pub pictures: Bytes,
    /// What trainings report while they run.
    pub live: Bytes,
    /// Tensors of the runs of benches.
    pub tensors: Bytes,
    /// Everything else: the facts of runs, verdicts, links, the audit, people.
    pub other: Bytes,
}

impl StoredParts {
    /// All of them.
    pub fn all(&self) -> Bytes {
        self.named().into_iter().map(|(_, _, size)| size).sum()
    }

    /// Each with its name in this answer, and with words for it.
    pub const fn named(&self) -> [(&'static str, &'static str, Bytes); 6] {
        [
            ("files", "files as stored", self.files),
            ("events", "their events", self.events),
            ("pictures", "their pictures", self.pictures),
            ("live", "reports of trainings", self.live),
            ("tensors", "tensors of benches", self.tensors),
            ("other", "everything else", self.other),
        ]
    }
}

impl Add for StoredParts {
    type Output = StoredParts;
    fn add(self, other: StoredParts) -> StoredParts {
        StoredParts {
            files: self.files + other.files,
            events: self.events + other.events,
            pictures: self.pictures + other.pictures,
            live: self.live + other.live,
            tensors: self.tensors + other.tensors,
            other: self.other + other.other,
        }
    }
}

impl Sum for StoredParts {
    fn sum<I: Iterator<Item = StoredParts>>(parts: I) -> StoredParts {
        parts.fold(StoredParts::default(), Add::add)
    }
}

/// What a project takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProjectUsage {
    /// Which.
    pub project: ProjectName,
    /// What it takes.
    pub parts: StoredParts,
    /// Runs that are listed.
    pub runs: u64,
    /// Runs whose deletion can still be undone. The parts have them, too.
    pub deleted: DeletedRuns,
    /// What its rule for old runs would delete now; absent where there is no rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<FreedByRule>,
}

/// Deleted runs that still take room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeletedRuns {
    /// How many.
    pub runs: u64,
    /// What they take: files, events, pictures and tensors.
    pub stored: Bytes,
    /// When the last of them can no longer be restored; soon after that, they are gone.
    pub until_ms: Option<i64>,
}

/// What a rule for old runs would free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FreedByRule {
    /// How many runs it would delete.
    pub runs: u64,
    /// What they take, as stored.
    pub stored: Bytes,
}

/// What the runs of a person take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PersonUsage {
    /// Who sent them; absent for those of which it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploaded_by: Option<String>,
    /// How many.
    pub runs: u64,
    /// What they take: their files as stored, events, pictures and tensors.
    pub stored: Bytes,
}

/// One of the largest runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LargeRun {
    /// In which project.
    pub project: ProjectName,
    /// Which.
    pub run: RunId,
    /// Its name; of a rank, its job and its rank.
    pub name: String,
    /// What it takes: its file as stored, its events, pictures and tensors.
    pub stored: Bytes,
    /// When it arrived.
    pub created_ms: i64,
    /// Who sent it, where people sign in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploaded_by: Option<String>,
    /// Why no rule deletes it, whatever its age. A rank is also held by what holds another rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<WhyKept>,
}

impl LargeRun {
    /// In how many ways a run can be held.
    pub const MOST_HELD: usize = 4;

    /// What holds it, in words.
    pub fn held_in_words(&self) -> String {
        let words: Vec<&str> = self.held.iter().map(|why| why.words()).collect();
        match words.is_empty() {
            true => "nothing".to_owned(),
            false => words.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        let parts = StoredParts {
            files: Bytes(1),
            events: Bytes(2),
            pictures: Bytes(4),
            live: Bytes(8),
            tensors: Bytes(16),
            other: Bytes(32),
        };
        assert_eq!(parts.all(), Bytes(63));
        assert_eq!(
            [parts, parts].into_iter().sum::<StoredParts>().all(),
            Bytes(126)
        );
        let json = serde_json::to_value(parts).unwrap();
        for (name, _, size) in parts.named() {
            assert_eq!(json[name], size.get(), "{name}");
        }
    }
}
