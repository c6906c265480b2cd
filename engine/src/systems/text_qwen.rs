//! The model of the vision-language run with text only, as it was measured: 512 tokens. The
//! published samples are eight times as long ([`super::text_4096`]).

use api::bench::{Evidence, Losses};

use super::System;
use super::evidence::{MeasuredCode, gigabytes, real_crash, real_run};
use super::qwen::{self, Samples};
use crate::patches::Patch;
use crate::workload::QwenVlSpec;

/// The loss of the first step in every measured run: they have the same seed and weights.
const FIRST_LOSS: f64 = 13.314_535_140_991_211;

pub(super) const SPEC: &QwenVlSpec = &QwenVlSpec::nine_billion(Samples::Text);

impl System {
    /// The model of the vision-language run with text only.
    pub const TEXT_QWEN: &'static System = &System {
        default_steps: 40,
        applies: qwen::touches_trl_029,
        combination: &Patch::PUBLISHED_FIVE,
        measured,
        ..System::new(
            "text-qwen3.5-9b",
            "The same model on text alone: everything packed is unpacked again.",
            SPEC,
        )
    };
}

/// Each code was measured for 40 steps, except one.
fn measured(code: MeasuredCode) -> Option<Evidence> {
    let command = format!("{}, 512 tokens", qwen::MEASURED_PROGRAM);
    let (peak, last_loss) = match code {
        MeasuredCode::Trl029 => (10.712_340_480, Some(13.197_500_228_881_836)),
        MeasuredCode::Trl15 => (10.712_340_480, Some(13.183_608_055_114_746)),
        MeasuredCode::Trl18 => (10.653_620_224, Some(13.187_188_148_498_535)),
        MeasuredCode::NoOffloading => (10.783_660_032, None),
        MeasuredCode::Trl14 => return Some(real_crash(&command, "device-side assert")),
        MeasuredCode::WithP3
        | MeasuredCode::WithP4
        | MeasuredCode::Trl114
        | MeasuredCode::SaveOnCpu => return None,
    };
    Some(Evidence {
        peak_allocated: gigabytes(peak),
        growth_per_step: Some(0.0),
        steps: Some(match code {
            MeasuredCode::NoOffloading => 20,
            _ => 40,
        }),
        losses: last_loss.map(|last| Losses {
            first: FIRST_LOSS,
            last,
        }),
        ..real_run(&command)
    })
}
