//! What several pages show.

pub mod badge;
pub mod labels;
