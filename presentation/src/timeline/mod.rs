//! The hands on the picture of a run; the picture itself is the crate `timeline`.

pub mod facts;
pub mod input;
pub mod tooltip;
