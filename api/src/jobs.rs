//! Jobs: the recordings of all ranks of one program, and how the ranks differ.

use crate::ids::{JobId, RunId};
use serde::{Deserialize, Serialize};
use trace::ranks::curves::{Band, Curve};
use trace::ranks::sites::SiteAcross;
use trace::ranks::{
    MAX_RANKS, Rank, RankRow, Spread, Survey, missing_in_words, missing_of, unread_in_words,
};
use trace::units::Bytes;

/// `POST` to make a job, which its ranks are uploaded into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewJob {
    /// Its name; 1 to 200 characters.
    pub name: String,
    /// A name of one start of a program, the same in all of its ranks: who asks first makes the
    /// job, the others are given it. 1 to 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What no rank tells.
    #[serde(default, skip_serializing_if = "JobNotes::is_empty")]
    pub notes: JobNotes,
}

/// What whoever sends a job knows of it that no rank tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobNotes {
    /// How the ranks are numbered, if no file says which it is: a sentence of at most 600
    /// characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbered: Option<String>,
    /// Ranks that ran out of memory and whose recordings are not sent; at most 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_apart: Vec<FailedApart>,
    /// How many ranks the job is known to have, also those whose recordings could not be sent; at
    /// most 4096. Those that are not there are called missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
}

/// A rank that ran out of memory, whose recording lies apart from those of its job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailedApart {
    /// The rank.
    pub rank: Rank,
    /// Its file; at most 200 characters.
    pub file: String,
}

impl FailedApart {
    /// The sentence about it.
    pub fn told(&self) -> String {
        let FailedApart { rank, file } = self;
        format!("Rank {rank} ran out of memory; its recording lies apart: {file}.")
    }
}

impl JobNotes {
    /// The largest number of failed ranks.
    pub const MOST: usize = 8;
    /// The longest sentence about the numbers, and the longest name of a file; characters.
    const LONGEST: [usize; 2] = [600, 200];

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == JobNotes::default()
    }

    /// Whether they are as short as they must be.
    pub fn are_short(&self) -> bool {
        let [sentence, name] = JobNotes::LONGEST;
        let is_within = |text: &str, most: usize| text.chars().count() <= most;
        self.failed_apart.len() <= JobNotes::MOST
            && self.ranks.is_none_or(|n| n <= MAX_RANKS)
            && (self.failed_apart.iter()).all(|failed| is_within(&failed.file, name))
            && self
                .numbered
                .as_ref()
                .is_none_or(|told| is_within(told, sentence))
    }

    /// The ranks that a job lacks which has those of `present`.
    pub fn missing(&self, present: impl IntoIterator<Item = Rank>) -> Vec<Rank> {
        missing_of(self.ranks.unwrap_or(0), present)
    }

    /// All that is said of a job: failed ranks that it lacks come first, how its ranks are
    /// numbered comes last.
    pub fn around(&self, sentences: impl Iterator<Item = String>, missing: &[Rank]) -> Vec<String> {
        let lacks = |failed: &&FailedApart| missing.contains(&failed.rank);
        let failed = self.failed_apart.iter().filter(lacks);
        let failed = failed.map(FailedApart::told);
        failed
            .chain(sentences)
            .chain(self.numbered.clone())
            .collect()
    }
}

/// One row of the list of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobSummary {
    /// Its id.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// When it was made, milliseconds since the epoch.
    pub created_ms: i64,
    /// How many ranks are there.
    pub n_ranks: u32,
}

/// Which rank of which job a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunOfJob {
    /// The job.
    pub job: JobId,
    /// Its name.
    pub name: String,
    /// The rank.
    pub rank: Rank,
    /// Older jobs that the same recording is a rank of, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub older: Vec<JobId>,
}

impl RunOfJob {
    /// How many older jobs are named.
    pub const MOST_OLDER: usize = 1024;

    /// Which it is, in words: `rank 7 of pretrain`.
    pub fn told(&self) -> String {
        format!("rank {} of {}", self.rank, self.name)
    }
}

/// What a run of this name is called beside others. A rank is called by its job: its file often has
/// the same name as those of other jobs (`rank0.pickle`).
pub fn called(name: &str, job: Option<&RunOfJob>) -> String {
    match job {
        Some(of) => format!("{}, rank {}", of.name, of.rank),
        None => name.to_owned(),
    }
}

/// What the page of a job shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobDetail {
    /// What the list shows.
    pub job: JobSummary,
    /// Ranks that are still looked at: ask again in a moment.
    pub waiting: u32,
    /// Ranks whose recording cannot be read; the others are told of without them.
    pub unreadable: u32,
    /// Ranks that have no recording, in order: those below the highest, and those that whoever sent
    /// the job knew of. Whether there were more is not known.
    pub missing: Vec<Rank>,
    /// What a person should know first, a sentence each.
    pub sentences: Vec<String>,
    /// Spread of the peaks of *allocated*; absent without ranks.
    pub allocated: Option<Spread>,
    /// Spread of the peaks of *reserved*.
    pub reserved: Option<Spread>,
    /// The ranks, by rank.
    pub ranks: Vec<JobRank>,
    /// *Allocated* of all ranks over one axis of steps.
    pub band: Band,
    /// The same of single ranks: of all, or of the oddest.
    pub curves: Vec<RankCurve>,
    /// Sites that differ between ranks; they come in pages of their own.
    pub sites_differ: u32,
    /// Sites that differ but cannot be asked for, since there are too many.
    pub sites_left_out: u32,
    /// Sites that hold the same in all ranks.
    pub sites_same: u32,
    /// Sites that may hold the same: some ranks hold memory from before their recordings, and that
    /// may belong there.
    #[serde(default)]
    pub sites_unclear: u32,
    /// What is said of the sites if none differs, without a capital and a full stop.
    #[serde(default)]
    pub none_differs: Option<String>,
    /// Whether the ranks stand highest at different moments of their program. Then the most that a
    /// site holds is compared, not what it holds at the peaks.
    #[serde(default)]
    pub moments_differ: bool,
}

impl JobDetail {
    /// The largest number of curves of single ranks in an answer.
    pub const MAX_CURVES: usize = 16;
    /// The largest number of sentences.
    pub const MAX_SENTENCES: usize = 11 + JobNotes::MOST;
}

/// One rank of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobRank {
    /// Its run.
    pub run: RunId,
    /// The run's name.
    pub name: String,
    /// What was found.
    pub row: RankRow,
}

/// *Allocated* of one rank, over the axis of its job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RankCurve {
    /// Which rank.
    pub rank: Rank,
    /// Lowest and highest level of each part; `None` where the rank has no events.
    pub parts: Vec<Option<[Bytes; 2]>>,
}

impl RankCurve {
    /// The curve of a rank.
    pub fn of(rank: Rank, curve: &Curve) -> RankCurve {
        RankCurve {
            rank,
            parts: curve.parts.clone(),
        }
    }
}

/// What `tidemark ranks --json` prints for each job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RanksReport {
    /// The common name of the files, without the rank.
    pub job: String,
    /// What a person should know first, a sentence each.
    pub sentences: Vec<String>,
    /// Spread of the peaks of *allocated*.
    pub allocated: Option<Spread>,
    /// Spread of the peaks of *reserved*.
    pub reserved: Option<Spread>,
    /// The ranks, by rank.
    pub ranks: Vec<FileOfRank>,
    /// Sites that differ between ranks, the largest difference first.
    pub sites: Vec<SiteAcross>,
    /// Sites that differ but are not in `sites`, since there are too many.
    pub sites_left_out: u32,
    /// Sites that hold the same in all ranks.
    pub sites_same: u32,
    /// Sites that may hold the same: some ranks hold memory from before their recordings, and that
    /// may belong there.
    #[serde(default)]
    pub sites_unclear: u32,
    /// What is said of the sites if none differs, without a capital and a full stop.
    #[serde(default)]
    pub none_differs: Option<String>,
    /// Whether the ranks stand highest at different moments of their program. Then the most that a
    /// site holds is compared, not what it holds at the peaks.
    #[serde(default)]
    pub moments_differ: bool,
    /// Files that cannot be read; the report covers the others, and its first sentence counts both.
    pub unreadable: Vec<Unreadable>,
    /// Ranks below the highest that have no file, in order.
    pub missing: Vec<Rank>,
    /// How the ranks are numbered, if no file says which it is. It is also the last sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbered: Option<String>,
}

/// One rank and its file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileOfRank {
    /// The file.
    pub file: String,
    /// What was found.
    #[serde(flatten)]
    pub row: RankRow,
}

/// A file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// Which rank it is.
    pub rank: Rank,
    /// The file.
    pub file: String,
    /// Why, with the byte offset where there is one.
    pub why: String,
}

impl RanksReport {
    /// The report on a survey; `files` are those of its ranks, in order. Then come the files that
    /// cannot be read, the ranks that have none, and what no rank tells.
    pub fn of(
        job: String,
        survey: Survey,
        files: Vec<String>,
        failed: Vec<Unreadable>,
        missing: Vec<Rank>,
        notes: &JobNotes,
    ) -> Self {
        let unread: Vec<Rank> = failed.iter().map(|one| one.rank).collect();
        let unread = unread_in_words(files.len(), &unread).into_iter();
        let rows = survey.ranks.into_iter().zip(files);
        RanksReport {
            job,
            sentences: notes.around(
                (unread.chain(survey.sentences)).chain(missing_in_words(&missing)),
                &missing,
            ),
            numbered: notes.numbered.clone(),
            allocated: survey.allocated,
            reserved: survey.reserved,
            ranks: rows.map(|(row, file)| FileOfRank { file, row }).collect(),
            sites: survey.sites,
            sites_left_out: survey.sites_left_out,
            sites_same: survey.sites_same,
            sites_unclear: survey.sites_unclear,
            none_differs: survey.none_differs,
            moments_differ: survey.moments_differ,
            unreadable: failed,
            missing,
        }
    }
}
