//! A page of a list that grows with use.

use crate::store::Slice;
use serde::Deserialize;
use std::num::NonZeroUsize;

/// Which page.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Entries before this page.
    #[serde(default)]
    offset: u32,
    /// Entries on it, 1 at least; default and maximum: 1000. A page that has fewer is the last.
    #[param(value_type = Option<usize>, minimum = 1)]
    limit: Option<NonZeroUsize>,
}

impl PageQuery {
    /// A page of so many entries.
    pub fn new(offset: u32, limit: usize) -> PageQuery {
        let limit = NonZeroUsize::new(limit);
        PageQuery { offset, limit }
    }

    /// The rows of the page.
    pub fn slice(&self) -> Slice {
        let most = api::page::MOST;
        Slice {
            offset: self.offset,
            limit: self.limit.map_or(most, |limit| limit.get().min(most)) as u32,
        }
    }
}
