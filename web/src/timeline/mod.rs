//! The timeline: the four series and the mountain of live allocations over one axis.
//!
//! ```text
//! tiles -> tile_cache -> stack (layout) -> mountain, lines, lanes, axes -> scene -> paint -> canvas
//! pointer, keys -> input -> viewport (window)          point -> hit_test -> what is there
//! ```
//!
//! Everything but `canvas`, `input` and the components is pure and tested natively.

pub mod axes;
pub mod axis;
pub mod colours;
pub mod highlight;
pub mod hit_test;
pub mod input;
pub mod lanes;
pub mod lines;
pub mod minimap;
pub mod model;
pub mod mountain;
pub mod paint;
pub mod plot;
pub mod raster;
pub mod readout;
pub mod scene;
pub mod stack;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod ticks;
pub mod tile_cache;
pub mod viewport;
