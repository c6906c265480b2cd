//! What several pages show.

pub mod badge;
pub mod copy_for_pr;
pub mod frames;
pub mod keys;
pub mod labels;
pub mod problem_note;
pub mod prose;
pub mod share;
pub mod sites;
