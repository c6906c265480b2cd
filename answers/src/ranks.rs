//! The ranks of a job, as a page shows them.

use api::ids::RunId;
use api::jobs::{JobDetail, JobRank, JobSummary, RankCurve};
use trace::ranks::Survey;

/// How the ranks of a job differ. `runs` are the id and name of each rank, in the order of the
/// survey; then come the ranks that still wait, and those that cannot be read.
pub fn detail(
    job: JobSummary,
    runs: impl Iterator<Item = (RunId, String)>,
    survey: &Survey,
    (waiting, unreadable): (u32, u32),
) -> JobDetail {
    let mut curves: Vec<_> = survey.ranks.iter().zip(&survey.curves).collect();
    if curves.len() > JobDetail::MAX_CURVES {
        curves.sort_by_key(|(row, _)| row.by_oddness);
        curves.truncate(JobDetail::MAX_CURVES);
    }
    let curves = curves.into_iter();
    JobDetail {
        job,
        waiting,
        unreadable,
        sentences: survey.sentences.clone(),
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
    }
}
