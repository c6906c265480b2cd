//! What the parts of the matrix share.

use super::store::BenchStore;
use crate::components::toasts::Toasts;
use api::bench::{Bench, BenchCatalog, BenchRow};
use api::ids::BenchRowId;
use leptos::prelude::*;
use std::sync::Arc;

/// The bench that the matrix shows, and what is needed to change it.
#[derive(Clone, Copy)]
pub struct Shared {
    /// What can be run.
    pub catalog: StoredValue<Arc<BenchCatalog>>,
    /// The bench.
    pub bench: Memo<Option<Bench>>,
    /// The store that holds it.
    pub store: BenchStore,
    /// Where failures are shown.
    pub toasts: Toasts,
}

impl Shared {
    /// One row.
    pub fn row(self, id: &BenchRowId) -> Option<BenchRow> {
        let find = |bench: &Bench| bench.rows.iter().find(|row| row.id == *id).cloned();
        self.bench.with(|bench| bench.as_ref().and_then(find))
    }
}
