//! Numbers and names between Rust and SQLite's `i64` and text.

use super::{StoreError, StoreResult};
use api::runs::RunSource;
use rusqlite::Row;
use trace::trace::{Series, StepSource};
use trace::units::{Bytes, EventIdx};

/// SQLite stores `i64`. Larger sizes do not exist (`trace::units::Bytes`); larger counters become
/// `i64::MAX`.
pub(super) fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A column that is never negative.
pub(super) fn uint(row: &Row, column: &str) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.max(0) as u64)
}

/// A column of bytes.
pub(super) fn bytes(row: &Row, column: &str) -> rusqlite::Result<Bytes> {
    uint(row, column).map(Bytes)
}

/// Stands for bytes that are not known, in a column that is never empty.
pub(super) const NOT_KNOWN: i64 = -1;

/// A column of bytes that may not be known.
pub(super) fn known_bytes(row: &Row, column: &str) -> rusqlite::Result<Option<Bytes>> {
    let found = row.get::<_, i64>(column)?;
    Ok(u64::try_from(found).ok().map(Bytes))
}

/// A column that may hold the number of an event.
pub(super) fn event(row: &Row, column: &str) -> rusqlite::Result<Option<EventIdx>> {
    Ok(row.get::<_, Option<u32>>(column)?.map(EventIdx))
}

pub(super) fn source_name(source: RunSource) -> &'static str {
    match source {
        RunSource::Upload => "upload",
        RunSource::Sample => "sample",
        RunSource::Engine => "engine",
    }
}

pub(super) fn source_of(name: &str) -> StoreResult<RunSource> {
    let all = [RunSource::Upload, RunSource::Sample, RunSource::Engine];
    named("run source", name, all, source_name)
}

pub(super) fn step_source_name(source: StepSource) -> &'static str {
    match source {
        StepSource::Annotations => "annotations",
        StepSource::Inferred => "inferred",
        StepSource::None => "none",
    }
}

pub(super) fn step_source_of(name: &str) -> StoreResult<StepSource> {
    let all = [
        StepSource::Annotations,
        StepSource::Inferred,
        StepSource::None,
    ];
    named("step source", name, all, step_source_name)
}

pub(super) fn series_of(name: &str) -> StoreResult<Series> {
    named("series", name, Series::ALL, Series::name)
}

/// The one of `all` that has the name `value`.
pub(super) fn named<T: Copy>(
    what: &'static str,
    value: &str,
    all: impl IntoIterator<Item = T>,
    name: impl Fn(T) -> &'static str,
) -> StoreResult<T> {
    let found = all.into_iter().find(|&item| name(item) == value);
    found.ok_or_else(|| corrupt(what, value))
}

pub(super) fn corrupt(what: &'static str, value: &str) -> StoreError {
    let value = value.to_owned();
    StoreError::Corrupt { what, value }
}

/// Which rows of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// How many rows to skip.
    pub offset: u32,
    /// How many.
    pub limit: u32,
}

impl Slice {
    /// All of them.
    pub const ALL: Slice = Slice {
        offset: 0,
        limit: u32::MAX,
    };
}
