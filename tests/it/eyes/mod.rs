//! Every page as people see it. It looks like its approved picture, everything on it can be seen
//! and reached without pointing at it, and axe-core finds no barrier.

pub(crate) mod axe;
mod pictures;
mod sight;
mod views;
mod walk;
pub(crate) mod world;
