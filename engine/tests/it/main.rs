//! Tests of the whole engine: one binary, with one module for each subject.

mod axolotl;
mod bench;
mod capacity;
mod contents;
mod deviations;
mod devices;
mod duplex;
mod frontier;
mod grid;
mod late_device;
mod modules;
mod offloader;
mod programs;
mod recordings;
mod results;
mod step_ends;
mod tapes;
mod toy;
mod toy_system;
mod weights;
