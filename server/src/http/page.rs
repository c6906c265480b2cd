//! A page of a list that grows with use.

use crate::store::Slice;
use serde::Deserialize;

/// Which page.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Entries before this page.
    #[serde(default)]
    offset: u32,
    /// Entries on it; default and maximum: 1000. A page that has fewer is the last.
    limit: Option<usize>,
}

impl PageQuery {
    /// A page of so many entries.
    pub fn new(offset: u32, limit: usize) -> PageQuery {
        let limit = Some(limit);
        PageQuery { offset, limit }
    }

    /// The rows of the page.
    pub fn slice(&self) -> Slice {
        let most = api::page::MOST;
        Slice {
            offset: self.offset,
            limit: self.limit.unwrap_or(most).clamp(1, most) as u32,
        }
    }
}
