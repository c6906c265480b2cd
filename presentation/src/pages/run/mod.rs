//! The page of a run.

pub mod controls;
pub mod device;
pub mod failures;
pub mod head;
pub mod recording;
pub mod row;
