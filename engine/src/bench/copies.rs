//! The copy benchmark: the stack of docs/measurements.md, "Copies", under several offloaders.
//!
//! If a step offloads everything, the link bounds it: it cannot be shorter than its bytes divided
//! by the plain rate of the same kind of copy, measured in the same run. If a step offloads little,
//! arithmetic bounds it: it should take no longer than the step without offloading. On a card,
//! cuBLASLt computes the products if it is installed. Otherwise a kernel reads and writes the
//! operands, and lasts as long as the product would at the simulation's calibrated rate.

use api::bench::{CardFacts, DeviceKind};
use serde::Serialize;

use super::run::open;
use super::timing::Timing;
use crate::device::cuda::{Addresses, PlainRates, plain_rates, products};
use crate::device::sim::{CostModel, SimSpec};
use crate::device::{Device, DeviceError, Ordinal};
use crate::offload::{OffloadConfig, Release};
use crate::session::{RunError, Session};
use crate::workload::{MlpStack, Workload};
use trace::units::Bytes;

/// Arithmetic rate of the products, FLOP/s. With this rate the step without offloading takes the
/// 0.187 s that docs/measurements.md, "Copies", has for real products.
pub(super) const PRODUCT_RATE: f64 = 660e12;
/// Size of a plain copy: that of the workload's smallest activation.
pub(super) const PLAIN_COPY: Bytes = Bytes::mib(64);

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct CopySpec {
    /// Where to run.
    pub device: DeviceKind,
    /// Tokens of a sample; each number gives a group of rows.
    pub tokens: Vec<u64>,
    /// Steps of a row that are timed.
    pub steps: u32,
}

/// An offloader on the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyVariant {
    /// No offloading.
    None,
    /// Before #5694 (`trl-0.29` of docs/measurements.md).
    V2,
    /// After #6241 (`trl-1.8` of docs/measurements.md).
    V6,
    /// The same without a side stream.
    V6SingleStream,
    /// The same on every sixth block only: a step bound by arithmetic.
    V6FewCopies,
}

impl CopyVariant {
    /// Every variant, the one that others are compared with first.
    pub const ALL: [CopyVariant; 5] = [
        CopyVariant::None,
        CopyVariant::V2,
        CopyVariant::V6,
        CopyVariant::V6SingleStream,
        CopyVariant::V6FewCopies,
    ];

    /// In words: an offloader by the TRL release that ships it, as `docs/offloaders.md` has it.
    pub fn title(self) -> &'static str {
        match self {
            CopyVariant::None => "no offloading",
            CopyVariant::V2 => "trl-0.29",
            CopyVariant::V6 => "trl-1.8",
            CopyVariant::V6SingleStream => "trl-1.8 without streams",
            CopyVariant::V6FewCopies => "trl-1.8 on every 6th block",
        }
    }

    fn version(self) -> Option<&'static Release> {
        match self {
            CopyVariant::None => None,
            CopyVariant::V2 => Some(Release::TRL_0_29),
            _ => Some(Release::TRL_1_8),
        }
    }

    /// The variant that was measured for a release, if there is one.
    pub(super) fn of(release: &Release) -> Option<CopyVariant> {
        let mut streams = [CopyVariant::V2, CopyVariant::V6].into_iter();
        streams.find(|variant| variant.version() == Some(release))
    }

    fn every(self) -> u32 {
        if self == CopyVariant::V6FewCopies {
            6
        } else {
            1
        }
    }

    /// Step in seconds, peak and offloaded bytes, as measured with the real offloader.
    pub(super) fn measured(self, tokens: u64) -> Option<MeasuredStep> {
        let (step_seconds, memory) = match (tokens, self) {
            (8192, CopyVariant::None) => (0.187, Some((16.95, 0.0))),
            (8192, CopyVariant::V2) => (0.245, Some((11.61, 6.04))),
            (8192, CopyVariant::V6) => (0.414, Some((11.11, 11.41))),
            (8192, CopyVariant::V6SingleStream) => (0.572, Some((11.04, 11.41))),
            (32_768, CopyVariant::None) => (0.745, Some((51.7, 0.0))),
            (32_768, CopyVariant::V2) => (0.967, Some((30.5, 24.2))),
            (32_768, CopyVariant::V6) => (1.654, Some((14.3, 45.6))),
            // Only its time was written down.
            (32_768, CopyVariant::V6SingleStream) => (2.287, None),
            _ => return None,
        };
        let bytes = |gigabytes: f64| Bytes((gigabytes * 1e9) as u64);
        Some(MeasuredStep {
            step_seconds,
            peak_allocated: memory.map(|(peak, _)| bytes(peak)),
            offloaded_bytes: memory.map(|(_, offloaded)| bytes(offloaded)),
            source: "docs/measurements.md, Copies: NVIDIA H200, PyTorch 2.11.0+cu130",
        })
    }
}

/// What was measured with PyTorch and the real offloader.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredStep {
    /// Seconds.
    pub step_seconds: f64,
    /// Peak of allocated memory, if it was written down.
    pub peak_allocated: Option<Bytes>,
    /// Bytes that a step copies in each direction, if they were written down.
    pub offloaded_bytes: Option<Bytes>,
    /// Where the numbers are from.
    pub source: &'static str,
}

/// One offloader at one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CopyRow {
    /// Tokens of a sample.
    pub tokens: u64,
    /// The offloader.
    pub offloader: CopyVariant,
    /// Median step after warming up, seconds; none if it failed before that.
    pub step_seconds: Option<f64>,
    /// Highest allocated memory.
    pub peak_allocated: Bytes,
    /// Bytes copied to the host in a step after warming up; 0 if it failed before that.
    pub offloaded_bytes: Bytes,
    /// Bytes copied back in such a step.
    pub restored_bytes: Bytes,
    /// Bytes a second over the whole step: the bytes of both directions ÷ step.
    pub rate: Option<f64>,
    /// Time that the step's copies take at the plain rates, seconds.
    pub copy_floor_seconds: f64,
    /// `copy_floor_seconds` ÷ step: 1 means that the step is at the limit of the link.
    pub share_of_link: Option<f64>,
    /// Step ÷ step without offloading, minus 1; none if either failed.
    pub over_no_offloading: Option<f64>,
    /// What only a card can say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<CardFacts>,
    /// What was measured with the real offloader.
    pub measured: Option<MeasuredStep>,
    /// The error that ended the run, if it failed; the figures are then those up to the error.
    pub failure: Option<String>,
}

/// Result of the copy benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CopyTable {
    /// Device that ran it.
    pub device: String,
    /// What computed the matrix products, or what replaced them.
    pub compute: String,
    /// Rates of plain copies on the same device: measured on a card, taken from the model in the
    /// simulation.
    pub plain: PlainRates,
    /// One row for each size and offloader.
    pub rows: Vec<CopyRow>,
}

/// Runs the benchmark.
///
/// # Errors
/// The device cannot be opened, or plain copies fail.
pub fn run_copies(spec: &CopySpec) -> Result<CopyTable, RunError> {
    let sim = SimSpec {
        cost: CostModel {
            flops_per_second: PRODUCT_RATE,
            ..CostModel::default()
        },
        ..SimSpec::default()
    };
    let plain = match spec.device {
        DeviceKind::Cuda => plain_rates(PLAIN_COPY, Ordinal::default())?,
        DeviceKind::Sim => PlainRates {
            copy_bytes: PLAIN_COPY,
            to_host: sim.cost.to_host_rate,
            to_device: sim.cost.to_device_rate,
        },
    };
    let mut table = CopyTable {
        device: open_first(spec.device, sim)?.name(),
        compute: match spec.device {
            DeviceKind::Sim => "simulated: 2mnk / 660 TFLOP/s".to_owned(),
            DeviceKind::Cuda => products(),
        },
        plain,
        rows: Vec::new(),
    };
    for &tokens in &spec.tokens {
        let first = table.rows.len();
        for variant in CopyVariant::ALL {
            let mut row = run_row(spec, sim, tokens, variant, &plain)?;
            let alone = table.rows.get(first).unwrap_or(&row).step_seconds;
            let both = row.step_seconds.zip(alone);
            row.over_no_offloading = both.map(|(step, alone)| step / alone - 1.0);
            table.rows.push(row);
        }
    }
    Ok(table)
}

fn open_first(kind: DeviceKind, sim: SimSpec) -> Result<Box<dyn Device>, DeviceError> {
    open(kind, sim, Addresses::default(), Ordinal::default())
}

fn run_row(
    spec: &CopySpec,
    sim: SimSpec,
    tokens: u64,
    variant: CopyVariant,
    plain: &PlainRates,
) -> Result<CopyRow, RunError> {
    let mut session = Session::new(open_first(spec.device, sim)?);
    let mut timing = Timing::on(spec.device);
    let failure = run_steps(spec, tokens, variant, &mut session, &mut timing).err();
    let copied = timing.copied_a_step();
    let mut heap = session.heap().borrow_mut();
    let hardware = heap.device.hardware().unwrap_or(None);
    let (out, back) = (copied.to_host, copied.to_device);
    let step_seconds = Some(timing.step_seconds()).filter(|step| *step > 0.0);
    let floor = out.0 as f64 / plain.to_host + back.0 as f64 / plain.to_device;
    Ok(CopyRow {
        tokens,
        offloader: variant,
        step_seconds,
        peak_allocated: heap.caching.highest_allocated(),
        offloaded_bytes: out,
        restored_bytes: back,
        rate: step_seconds.map(|step| (out + back).0 as f64 / step),
        copy_floor_seconds: floor,
        share_of_link: step_seconds.map(|step| floor / step),
        over_no_offloading: None,
        hardware,
        measured: variant.measured(tokens),
        failure: failure.map(|error| error.to_string()),
    })
}

fn run_steps(
    spec: &CopySpec,
    tokens: u64,
    variant: CopyVariant,
    session: &mut Session,
    timing: &mut Timing,
) -> Result<(), RunError> {
    if let Some(version) = variant.version() {
        session.install_offloader(OffloadConfig {
            use_streams: variant != CopyVariant::V6SingleStream,
            ..OffloadConfig::new(version.changes())
        })?;
    }
    let mut stack = MlpStack::new(session, tokens, variant.every())?;
    timing.run(spec.steps, session, |session| stack.step(session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_a_timed_step_has_no_rates() {
        let rows = |steps| {
            let spec = CopySpec {
                device: DeviceKind::Sim,
                tokens: vec![16],
                steps,
            };
            run_copies(&spec).unwrap().rows
        };
        for row in rows(0) {
            let figures = [row.rate, row.share_of_link, row.over_no_offloading];
            assert_eq!((row.step_seconds, figures), (None, [None; 3]));
        }
        let timed = rows(1);
        assert_eq!(timed[0].over_no_offloading, Some(0.0));
        assert!(timed.iter().all(|row| row.share_of_link.is_some()));
    }

    /// docs/measurements.md, "Copies".
    #[test]
    fn every_measured_step_is_known() {
        let check = |tokens: u64, expected: [Option<f64>; 5]| {
            let found = CopyVariant::ALL.map(|variant| variant.measured(tokens));
            let seconds = found.map(|found| found.map(|step| step.step_seconds));
            assert_eq!(seconds, expected, "{tokens}");
        };
        let [alone, v2, v6, single] = [0.187, 0.245, 0.414, 0.572].map(Some);
        check(8192, [alone, v2, v6, single, None]);
        let [alone, v2, v6, single] = [0.745, 0.967, 1.654, 2.287].map(Some);
        check(32_768, [alone, v2, v6, single, None]);
        check(512, [None; 5]);
    }

    #[test]
    fn an_offloader_is_named_by_its_release() {
        for variant in CopyVariant::ALL {
            let name = variant.title().split(' ').next();
            let expected = variant.version().map_or("no", |release| release.label);
            assert_eq!(name, Some(expected), "{variant:?}");
        }
    }
}
