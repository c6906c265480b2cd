//! The page of a job with many ranks.

pub mod curves;
pub mod delete;
pub mod job_state;
pub mod sites;
