//! Values that are several things in one object, and how they are read.
//!
//! An enum with its tag among its fields, and a structure with another one's fields among its own,
//! are easy to use for a client. But to read them, serde first builds a tree, with code for that
//! tree in every type below. The front end would carry all of this. So those of them that it reads
//! are read as plain structures with all fields (`Read…`), and made from these.

/// A field that this variant must have is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("missing field `{0}`")]
pub(crate) struct Lacks(pub &'static str);
