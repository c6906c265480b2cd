//! Min, max and last of the four series over buckets of events, at every power of two.

/// The pyramid of one device.
#[derive(Clone, Debug, Default)]
pub struct Pyramid {}
