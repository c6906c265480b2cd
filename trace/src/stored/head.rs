//! Everything about a trace that is small, as JSON.

use super::{StoredError, VERSION};
use crate::device::DeviceIdx;
use crate::trace::{
    DeviceTrace, Fidelity, FormatInfo, Levels, PoolId, QualityNote, SeriesSummary, Step,
    StepSource, Trace,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub version: u32,
    pub format: FormatInfo,
    pub quality: Vec<QualityNote>,
    pub n_strings: usize,
    pub n_frames: usize,
    pub n_stacks: usize,
    pub devices: Vec<DeviceHead>,
    /// The pinned memory of the host; absent in traces that older versions stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<DeviceHead>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DeviceHead {
    pub device: DeviceIdx,
    pub n_events: u32,
    pub n_blocks: usize,
    pub n_preexisting: u32,
    pub start: Levels,
    pub summary: [SeriesSummary; 4],
    pub fidelity: Fidelity,
    pub unmatched_frees: u64,
    pub step_source: StepSource,
    pub steps: Vec<Step>,
    /// Failed requests in private pools; absent in traces that older versions stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_in: Vec<(u32, PoolId)>,
}

impl Head {
    pub fn of(trace: &Trace) -> Head {
        Head {
            version: VERSION,
            format: trace.format.clone(),
            quality: trace.quality.clone(),
            n_strings: trace.stacks.strings.len(),
            n_frames: trace.stacks.n_frames(),
            n_stacks: trace.stacks.len(),
            devices: trace.devices.iter().map(DeviceHead::of).collect(),
            pinned: trace.pinned.as_ref().map(DeviceHead::of),
        }
    }

    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("maps have string keys and numbers are finite")
    }

    pub fn from_json(json: &[u8]) -> Result<Head, StoredError> {
        #[derive(Deserialize)]
        struct VersionOnly {
            version: u32,
        }
        let damaged = |e: serde_json::Error| StoredError::Head(e.to_string());
        let VersionOnly { version } = serde_json::from_slice(json).map_err(damaged)?;
        if version != VERSION {
            return Err(StoredError::Version(version));
        }
        let head: Head = serde_json::from_slice(json).map_err(damaged)?;
        let is_pinned = |device: &DeviceHead| device.device.is_pinned();
        if head.devices.iter().any(is_pinned) || !head.pinned.iter().all(is_pinned) {
            return Err(StoredError::Head("pinned memory is no device".to_owned()));
        }
        for device in head.devices.iter().chain(&head.pinned) {
            let outside = |step: &Step| step.events.end().0 > device.n_events;
            if device.steps.iter().any(outside) {
                return Err(StoredError::Head("a step ends after the trace".to_owned()));
            }
        }
        Ok(head)
    }
}

impl DeviceHead {
    fn of(device: &DeviceTrace) -> DeviceHead {
        DeviceHead {
            device: device.device,
            n_events: device.events.len(),
            n_blocks: device.blocks.len(),
            n_preexisting: device.blocks.n_preexisting,
            start: device.pyramid.start(),
            summary: device.summary,
            fidelity: device.fidelity,
            unmatched_frees: device.unmatched_frees,
            step_source: device.step_source,
            steps: device.steps.clone(),
            failed_in: device.events.failed_in.clone(),
        }
    }
}
