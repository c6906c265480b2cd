//! The drawing code: from tiles to a painted picture, for the browser's canvas and for the
//! pictures that the server renders.
//!
//! ```text
//! tiles -> tile_cache -> stack (layout) -> mountain, lines, lanes, axes -> scene
//! scene -> paint -> raster, SVG, canvas
//! viewport (window)                        point -> hit_test -> what is there
//! ```
//!
//! Modules, in reading order: `viewport`, `tile_cache`, `axis` (the window, its tiles, what it
//! counts); `plot`, `stack`, `mountain`, `lines`, `lanes`, `uncovered`, `host_lane`, `axes`,
//! `ticks`, `minimap` (where each part lies); `highlight`, `overlay`, `hit_test`, `neighbours`
//! (the pointer and the keyboard); `scene`, `paint`, `raster`, `colours` (shapes to pixels);
//! `readout`, `facts`, `summary`, `oom`, `format` (the same in words); `card` (a picture for
//! other places); `order` and `testing` (sorting, and tiles for tests).
//!
//! [`model`] holds the state of all this. Everything is pure: no IO, no clock, no browser. So the
//! geometry is tested natively.

pub mod axes;
pub mod axis;
pub mod card;
pub mod colours;
pub mod facts;
pub mod format;
pub mod highlight;
pub mod hit_test;
pub mod host_lane;
pub mod lanes;
pub mod lines;
pub mod minimap;
pub mod model;
pub mod mountain;
pub mod neighbours;
pub mod oom;
pub mod order;
pub mod overlay;
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
mod uncovered;
pub mod viewport;
