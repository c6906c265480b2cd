//! Tests of the engine as a whole: one binary, one module for each subject.

mod bench;
mod deviations;
mod offloader;
mod tapes;
