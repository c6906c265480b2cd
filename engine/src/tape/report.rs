//! The result of a replay.

use serde::Serialize;

use super::TapeVersion;

/// The first place where engine and recording differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// Line of the tape, from 1.
    pub line: usize,
    /// Operation on that line.
    pub op: &'static str,
    /// What was compared.
    pub field: &'static str,
    /// Value in the recording.
    pub recorded: String,
    /// Value of the engine.
    pub computed: String,
}

/// Numbers of calls and of different values. Serialises to
/// `{"calls", "mismatches", "first", "reused_ids"}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ReplayReport {
    /// Calls of the offloader that were driven.
    pub calls: u64,
    /// Values that differ from the recording.
    pub mismatches: u64,
    /// The first of them.
    pub first: Option<Mismatch>,
    /// Restores of ids that two forward passes had. If the first one was meant, they have the data
    /// of the other.
    pub reused_ids: u64,
}

/// A replay of a tape file. Serialises to
/// `{"version", "equally_good", "calls", "mismatches", "first", "reused_ids"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// The code that was compared with the recording.
    pub version: TapeVersion,
    /// If nothing named the version: all others that differ in as many values, oldest first.
    pub equally_good: Vec<TapeVersion>,
    /// What it gave.
    #[serde(flatten)]
    pub report: ReplayReport,
}

/// Collects comparisons for one line after another.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    report: ReplayReport,
    line: usize,
    op: &'static str,
}

impl Comparison {
    pub fn at(&mut self, line: usize, op: &'static str) {
        self.line = line;
        self.op = op;
    }

    pub fn count_call(&mut self) {
        self.report.calls += 1;
    }

    pub fn differ(&mut self, field: &'static str, recorded: String, computed: String) {
        self.report.mismatches += 1;
        if self.report.first.is_none() {
            let (line, op) = (self.line, self.op);
            self.report.first = Some(Mismatch {
                line,
                op,
                field,
                recorded,
                computed,
            });
        }
    }

    pub fn equal<T: PartialEq + std::fmt::Display>(
        &mut self,
        field: &'static str,
        recorded: T,
        computed: T,
    ) {
        if recorded != computed {
            self.differ(field, recorded.to_string(), computed.to_string());
        }
    }

    pub fn mismatches(&self) -> u64 {
        self.report.mismatches
    }

    pub fn finish(self) -> ReplayReport {
        self.report
    }
}
