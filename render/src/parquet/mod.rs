//! Tables in Parquet: what every dataframe library and database reads.
//!
//! ```text
//! columns      a table of rows of any kind
//! allocations  a row for each allocation of a run
//! fleet        a row for each run, and for each leak
//! ```

pub mod allocations;
mod columns;
pub mod fleet;
