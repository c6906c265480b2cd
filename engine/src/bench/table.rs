//! The table of all rows.

use serde::Serialize;

use super::devices::HostRow;
use super::row::Row;

/// The table of a bench run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// Device that ran it.
    pub device: String,
    /// What computes products there. The device in each row says what did its arithmetic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute: Option<String>,
    /// One row for each configuration, set of patches and device.
    pub rows: Vec<Row>,
    /// What rows used of the host, if several devices ran them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostRow>,
}
