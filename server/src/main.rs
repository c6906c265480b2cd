//! The `tidemark` binary.
fn main() {}
