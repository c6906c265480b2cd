//! Ranks whose recordings lie apart from those of their job: a rank that ran out of memory often
//! writes alone, since the others were ended.

use super::files::{Found, LISTED};
use super::reading::{apart, trace_of};
use std::path::{Path, PathBuf};
use trace::naming::Rules;
use trace::oom;
use trace::ranks::Rank;

/// The ranks that ran out of memory, each with its file.
pub struct FailedApart(Vec<(Rank, PathBuf)>);

impl FailedApart {
    /// The first of them among files that are no ranks of a job.
    pub fn among<'f>(found: &Found, others: impl IntoIterator<Item = &'f PathBuf>) -> Self {
        let named = others.into_iter();
        let named = named.filter_map(|file| Some((found.rank_of(file)?, file.clone())));
        Self(
            named
                .take(LISTED)
                .filter(|(_, file)| ran_out(file))
                .collect(),
        )
    }

    /// What is said of a file in a list of what was left out.
    pub fn says(&self, file: &Path) -> String {
        match self.0.iter().find(|(_, path)| path == file) {
            Some((rank, _)) => format!(": rank {rank} ran out of memory"),
            None => String::new(),
        }
    }

    /// What is known of a job that lacks such a rank.
    pub fn told(&self, found: &Found) -> Vec<api::jobs::FailedApart> {
        let told = |(rank, path): &(Rank, PathBuf)| api::jobs::FailedApart {
            rank: *rank,
            file: found.called(path),
        };
        self.0.iter().map(told).collect()
    }
}

/// Whether it is a recording that has a failed allocation.
fn ran_out(path: &Path) -> bool {
    let failed = || {
        let trace = trace_of(path, None, &Rules::default())?;
        let mut devices = trace.devices.iter();
        Ok(devices.any(|device| oom::first(device).is_some()))
    };
    apart(path, failed).unwrap_or(false)
}
