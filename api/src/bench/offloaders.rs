//! The history of the offloader in one picture: each release, and each other offloader, on each
//! configuration.

use super::evidence::Known;
use super::outcome::BenchResult;
use super::verdict::{corrupts, grows};
use serde::{Deserialize, Serialize};

/// Offloaders × configurations, computed once and kept as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OffloaderGrid {
    /// The command that computes it.
    pub command: String,
    /// When it was computed.
    pub date: String,
    /// The file that holds it.
    pub file: String,
    /// Columns: releases, oldest first, then the other offloaders.
    pub offloaders: Vec<Offloader>,
    /// Rows: ids of configurations.
    pub configs: Vec<String>,
    /// One for each pair that was computed.
    pub cells: Vec<GridCell>,
}

impl OffloaderGrid {
    /// An offloader on a configuration.
    pub fn cell(&self, config: &str, offloader: &str) -> Option<&GridCell> {
        let found = |cell: &&GridCell| cell.config == config && cell.offloader == offloader;
        self.cells.iter().find(found)
    }
}

/// One column of the grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Offloader {
    /// As `--base` has it: `trl-1.4`.
    pub label: String,
    /// What is new in it, or what it is.
    pub about: String,
}

/// An offloader on a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GridCell {
    /// Id of the configuration.
    pub config: String,
    /// Label of the offloader.
    pub offloader: String,
    /// What came of it.
    pub result: BenchResult,
    /// What else is known of it.
    pub known: Known,
}

/// What is wrong with a run, without comparison to others. A run can have several troubles; without
/// any it is clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// It raised an error.
    Crashes,
    /// Memory ran out.
    RunsOut,
    /// Restored bytes are wrong, or may be.
    Corrupts,
    /// Allocated memory grows.
    Leaks,
    /// Pinned host memory grows.
    LeaksOnHost,
}

impl Trouble {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Trouble::Crashes => "crashes",
            Trouble::RunsOut => "runs out",
            Trouble::Corrupts => "corrupts",
            Trouble::Leaks => "leaks",
            Trouble::LeaksOnHost => "leaks on the host",
        }
    }

    /// All that is wrong with a run, the worst first. Growth counts only for a completed run: the
    /// few steps before a crash do not show it.
    pub fn of(result: &BenchResult) -> Vec<Trouble> {
        if result.crash.is_some() {
            return vec![Trouble::Crashes];
        }
        let tests = [
            (result.oom_step.is_some(), Trouble::RunsOut),
            (corrupts(result), Trouble::Corrupts),
            (grows(result.growth_per_step), Trouble::Leaks),
            (grows(result.host_growth_per_step), Trouble::LeaksOnHost),
        ];
        let holds = tests.into_iter().filter(|(holds, _)| *holds);
        holds.map(|(_, trouble)| trouble).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_every_trouble_that_its_numbers_show() {
        let check = |change: &dyn Fn(&mut BenchResult), expected: &[Trouble]| {
            let mut run = BenchResult::default();
            change(&mut run);
            assert_eq!(Trouble::of(&run), expected);
        };
        check(&|_| {}, &[]);
        check(
            &|r| (r.growth_per_step, r.races) = (1e8, 2),
            &[Trouble::Corrupts, Trouble::Leaks],
        );
        check(&|r| r.host_growth_per_step = 2e9, &[Trouble::LeaksOnHost]);
        check(&|r| r.oom_step = Some(3), &[Trouble::RunsOut]);
        check(
            &|r| (r.crash, r.growth_per_step) = (Some("raised".to_owned()), 1e8),
            &[Trouble::Crashes],
        );
    }
}
