//! The ranks of a job, as a page shows them.

use api::ids::RunId;
use api::jobs::{JobDetail, JobNotes, JobRank, JobSummary, RankCurve};
use trace::ranks::{Rank, Survey, missing_in_words, unread_in_words};

/// Ranks that a survey says nothing of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Without {
    /// How many are still looked at.
    pub waiting: u32,
    /// Those whose recordings cannot be read.
    pub unreadable: Vec<Rank>,
    /// Those that have no recording.
    pub missing: Vec<Rank>,
}

/// How the ranks of a job differ. `runs` are the id and name of each rank, in the order of the
/// survey; then come the ranks that are not in it, and what no rank tells.
pub fn detail(
    job: JobSummary,
    runs: impl Iterator<Item = (RunId, String)>,
    survey: &Survey,
    without: Without,
    notes: &JobNotes,
) -> JobDetail {
    let mut curves: Vec<_> = survey.ranks.iter().zip(&survey.curves).collect();
    if curves.len() > JobDetail::MAX_CURVES {
        curves.sort_by_key(|(row, _)| row.by_oddness);
        curves.truncate(JobDetail::MAX_CURVES);
    }
    let curves = curves.into_iter();
    let unread = unread_in_words(survey.ranks.len(), &without.unreadable);
    let sentences = unread.into_iter().chain(survey.sentences.iter().cloned());
    JobDetail {
        job,
        waiting: without.waiting,
        unreadable: without.unreadable.len() as u32,
        sentences: notes.around(
            sentences.chain(missing_in_words(&without.missing)),
            &without.missing,
        ),
        missing: without.missing,
        allocated: survey.allocated,
        reserved: survey.reserved,
        ranks: runs
            .zip(&survey.ranks)
            .map(|((run, name), row)| JobRank {
                run,
                name,
                row: row.clone(),
            })
            .collect(),
        band: survey.band.clone(),
        curves: curves
            .map(|(row, curve)| RankCurve::of(row.rank, curve))
            .collect(),
        sites_differ: survey.sites.len() as u32,
        sites_left_out: survey.sites_left_out,
        sites_same: survey.sites_same,
        sites_unclear: survey.sites_unclear,
        none_differs: survey.none_differs.clone(),
        moments_differ: survey.moments_differ,
    }
}
