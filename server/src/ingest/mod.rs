//! From bytes to a stored run: the driver of the pure core.

pub mod decompress;
