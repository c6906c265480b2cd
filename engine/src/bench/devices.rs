//! Several devices of one host: each runs every row in its own thread, at the same time.
//!
//! Each device has its own streams, events and memory. Pinned memory belongs to the host, so what a
//! row uses of it is the sum over the devices.

use serde::Serialize;

use super::row::Row;
use super::spec::RunSpec;
use crate::device::Ordinal;
use crate::patches::Patch;
use trace::units::Bytes;

/// What one row used of the host, on all devices together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostRow {
    /// Id of the configuration.
    pub config: &'static str,
    /// Version before patches.
    pub base: String,
    /// Ids of the patches; none for the baseline.
    pub patches: Vec<&'static Patch>,
    /// Devices that ran it.
    pub devices: u16,
    /// Most pinned memory that was taken from the system.
    pub host_pinned_peak: Bytes,
    /// Pinned memory in use at the end; `None` if no step completed on one of the devices.
    pub host_pinned_end: Option<Bytes>,
    /// The step time of the slowest device, seconds.
    pub step_seconds: f64,
    /// The devices that are in the sums.
    #[serde(skip)]
    counted: Vec<Ordinal>,
}

impl HostRow {
    fn new(row: &Row) -> HostRow {
        HostRow {
            config: row.config,
            base: row.base.clone(),
            patches: row.patches.clone(),
            devices: 0,
            host_pinned_peak: Bytes::ZERO,
            host_pinned_end: Some(Bytes::ZERO),
            step_seconds: 0.0,
            counted: Vec::new(),
        }
    }

    fn is_of(&self, row: &Row) -> bool {
        (self.config, &self.base, &self.patches) == (row.config, &row.base, &row.patches)
    }

    fn add(&mut self, row: &Row) {
        // Equal rows are one run that was asked for twice, not two devices.
        if self.counted.contains(&row.device_index) {
            return;
        }
        self.counted.push(row.device_index);
        self.devices += 1;
        if let Some(outcome) = &row.outcome {
            self.host_pinned_peak += outcome.host_pinned_peak.unwrap_or_default();
            let end = (outcome.steps_run > 0).then_some(outcome.host_pinned_end);
            self.host_pinned_end = self.host_pinned_end.zip(end).map(|(sum, end)| sum + end);
            self.step_seconds = self.step_seconds.max(outcome.step_seconds);
        }
    }
}

/// Sums the rows over their devices; empty if no row ran on more than one device.
pub fn hosts(rows: &[Row]) -> Vec<HostRow> {
    let mut hosts: Vec<HostRow> = Vec::new();
    for row in rows {
        match hosts.iter_mut().find(|host| host.is_of(row)) {
            Some(host) => host.add(row),
            None => {
                let mut host = HostRow::new(row);
                host.add(row);
                hosts.push(host);
            }
        }
    }
    hosts.retain(|host| host.devices > 1);
    hosts
}

/// The same run on each of the host's first devices.
pub fn on_devices(spec: &RunSpec, devices: u16) -> Vec<RunSpec> {
    let on = |ordinal| RunSpec {
        ordinal: Ordinal(ordinal),
        ..spec.clone()
    };
    (0..devices).map(on).collect()
}
