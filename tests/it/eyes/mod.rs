//! Every page as people see it: it looks as approved, everything on it can be seen and reached
//! without pointing at it, and axe finds nothing that keeps anybody out.

pub(crate) mod axe;
mod pictures;
mod sight;
mod views;
mod world;
