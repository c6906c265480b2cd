//! Whether the server can be reached.

/// Whether the server answers; in the context of the whole application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It does.
    There,
    /// It does not; the page keeps trying.
    Lost,
}
