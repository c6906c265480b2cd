//! Peak memory against step time: every offloader on one workload, and two limits that no offloader
//! can pass.

use serde::{Deserialize, Serialize};
use trace::units::Bytes;

/// Every offloader on one workload, computed once and kept as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Frontier {
    /// The command that computes it.
    pub command: String,
    /// When it was computed.
    pub date: String,
    /// The file that holds it.
    pub file: String,
    /// What ran it.
    pub device: String,
    /// What ran, in words.
    pub workload: String,
    /// What bounds every point.
    pub limits: FrontierLimits,
    /// The points, in the order in which they are shown.
    pub points: Vec<FrontierPoint>,
    /// The engine on a card.
    pub card: FrontierCard,
}

impl Frontier {
    /// The same point on the card, if it ran there.
    pub fn on_card(&self, label: &str) -> Option<&FrontierPoint> {
        self.card.points.iter().find(|point| point.label == label)
    }
}

/// The same points, run by the engine on a card: memory is the simulation's, which decides where
/// blocks lie; time is the card's, and what became of the bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FrontierCard {
    /// The command that ran it.
    pub command: String,
    /// When.
    pub date: String,
    /// The file that holds it.
    pub file: String,
    /// What computed the matrix products, or stood for them.
    pub compute: String,
    /// The card and its driver.
    pub machine: String,
    /// The points, with the labels of the computed ones.
    pub points: Vec<FrontierPoint>,
}

/// What bounds a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FrontierLimits {
    /// A step that copies nothing, seconds.
    pub compute_seconds: f64,
    /// Its peak; everything else was copied out.
    pub peak: Bytes,
    /// Plain copies to the host, bytes a second.
    pub to_host: f64,
    /// Plain copies to the device, bytes a second.
    pub to_device: f64,
}

impl FrontierLimits {
    /// The least time that copies take, one way after the other, in a step with this peak.
    pub fn copy_seconds(&self, peak: Bytes) -> f64 {
        let moved = self.peak.saturating_sub(peak).0 as f64;
        moved / self.to_host + moved / self.to_device
    }
}

/// An offloader on the workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FrontierPoint {
    /// What it is called, once: `trl-1.14`, `megatron-lm 50 %`.
    pub label: String,
    /// What kind it is.
    pub kind: FrontierKind,
    /// Highest memory in use, and of frees that still waited for a copy.
    pub peak_active: Bytes,
    /// Highest allocated memory, as PyTorch counts it.
    pub peak_allocated: Bytes,
    /// Highest memory taken from the device.
    pub peak_reserved: Bytes,
    /// Median step after warming up, seconds.
    pub step_seconds: f64,
    /// Copied to the host in a step.
    pub to_host: Bytes,
    /// Copied back in a step.
    pub to_device: Bytes,
    /// Kernels and copies that may have worked on wrong bytes, in all steps.
    pub corrupted_tensors: u64,
    /// What ended the run, where it failed.
    pub failure: Option<String>,
    /// What was measured with PyTorch and the real offloader.
    pub measured: Option<FrontierMeasured>,
}

/// What was measured of a point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FrontierMeasured {
    /// Seconds.
    pub step_seconds: f64,
    /// Highest allocated memory.
    pub peak_allocated: Bytes,
}

/// What an offloader trades memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FrontierKind {
    /// Nothing: everything stays.
    Stays,
    /// Activations are computed again.
    Recompute,
    /// TRL's offloader.
    Trl,
    /// Another one that moves everything it can.
    Other,
    /// Megatron-LM's, which moves a fraction.
    Fraction,
}

impl FrontierKind {
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            FrontierKind::Stays => "no offloading",
            FrontierKind::Recompute => "recomputes",
            FrontierKind::Trl => "TRL",
            FrontierKind::Other => "others",
            FrontierKind::Fraction => "a fraction of modules",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_was_copied_out_and_back() {
        let limits = FrontierLimits {
            compute_seconds: 0.2,
            peak: Bytes(17_000),
            to_host: 1000.0,
            to_device: 2000.0,
        };
        assert_eq!(limits.copy_seconds(Bytes(15_000)), 3.0);
        assert_eq!(limits.copy_seconds(Bytes(20_000)), 0.0);
    }
}
