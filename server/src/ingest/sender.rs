//! Who sends a file, and whether they still may.

use crate::limits::clients::ClientAddress;
use std::sync::Arc;

/// Tells whether a sender may still do what it began: an upload takes as long as it takes.
#[derive(Clone)]
pub struct Lasts(Arc<dyn Fn() -> bool + Send + Sync>);

impl Lasts {
    /// As long as this says so.
    pub fn while_true(may: impl Fn() -> bool + Send + Sync + 'static) -> Lasts {
        Lasts(Arc::new(may))
    }

    /// Whether it may now.
    pub fn now(&self) -> bool {
        (self.0)()
    }
}

impl std::fmt::Debug for Lasts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lasts")
    }
}

/// Who sends a file.
#[derive(Clone, Debug)]
pub enum Sender {
    /// A client: its uploads are counted, and it must keep the pace.
    Client {
        /// Where it is.
        address: ClientAddress,
        /// Who it is, where people sign in.
        name: Option<String>,
        /// Whether it may still send. `None`: nobody can end that.
        lasts: Option<Lasts>,
    },
    /// This server, with the recording of a bench; there is only one at a time.
    Server,
}
