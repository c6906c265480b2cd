//! QLoRA on a vision-language model, with an image in each sample.

use api::bench::{Evidence, Losses, PublishedOnly};

use super::System;
use super::evidence::{MeasuredCode, NO_INPUTS, PAGE, gigabytes, only, page, real_crash, real_run};
use super::qwen::{self, Samples};
use crate::patches::Patch;
use crate::workload::QwenVlSpec;

/// The loss of the first step in every measured run: they have the same seed and weights.
const FIRST_LOSS: f64 = 13.382_083_892_822_266;

pub(super) const SPEC: &QwenVlSpec = &QwenVlSpec::nine_billion(Samples::WithImage);

impl System {
    /// QLoRA on a vision-language model, with an image in each sample.
    pub const VL_QWEN: &'static System = &System {
        default_steps: 100,
        applies: qwen::touches_trl_029,
        combination: &Patch::PUBLISHED_FIVE,
        published,
        measured: |code| Some(measured(code)),
        published_only,
        ..System::new(
            "vl-qwen3.5-9b",
            "QLoRA on a vision-language model: the checkpoints of the frozen vision tower are \
             packed and never unpacked.",
            SPEC,
        )
    };
}

fn published(patches: &[&'static Patch]) -> Option<Evidence> {
    let peak = match patches {
        [] | [Patch::MATMUL_4BIT_NO_GRAD | Patch::BF16_CROSS_ENTROPY | Patch::PACK_CONTIGUOUS] => {
            20.308
        }
        [Patch::EXIT_SYNC_AND_CLEAR] => 13.283,
        [Patch::TORCH_MEMORY_FIX] => 15.935,
        _ if patches == Patch::PUBLISHED_FIVE => 14.290,
        _ => return None,
    };
    Some(page(peak, 100))
}

/// Each code was measured for 100 steps, except one.
pub(super) fn measured(code: MeasuredCode) -> Evidence {
    let command = format!(
        "{}, 512 tokens and an image of 1024 patches",
        qwen::MEASURED_PROGRAM
    );
    let (peak, growth, last_loss) = match code {
        MeasuredCode::Trl029 => (21.443_777_536, 103.8e6, Some(13.237_631_797_790_527)),
        MeasuredCode::WithP3 => (14.051_314_688, 33.4e6, Some(13.234_785_079_956_055)),
        MeasuredCode::Trl15 => (10.741_697_536, 0.0, Some(60.386_211_395_263_67)),
        MeasuredCode::Trl18 => (10.654_665_728, 0.0, Some(60.554_786_682_128_906)),
        MeasuredCode::Trl114 => (10.655, 0.0, Some(13.236_639_976_501_465)),
        MeasuredCode::SaveOnCpu => (11.410, 0.0, Some(13.236_639_976_501_465)),
        MeasuredCode::NoOffloading => (10.788_899_840, 0.0, None),
        MeasuredCode::WithP4 | MeasuredCode::Trl14 => {
            let crash = "device-side assert, cuBLAS failure, in the first steps";
            return real_crash(&command, crash);
        }
    };
    let corrupts = matches!(code, MeasuredCode::Trl15 | MeasuredCode::Trl18);
    let note = "the loss shows that restored data are wrong; the memory looks well";
    Evidence {
        peak_allocated: gigabytes(peak),
        growth_per_step: Some(growth),
        steps: Some(match code {
            MeasuredCode::NoOffloading => 30,
            _ => 100,
        }),
        losses: last_loss.map(|last| Losses {
            first: FIRST_LOSS,
            last,
        }),
        note: corrupts.then(|| note.to_owned()),
        ..real_run(&command)
    }
}

fn published_only() -> Vec<PublishedOnly> {
    vec![
        only("absolute peaks of 13.3 to 20.3 GB", PAGE, NO_INPUTS),
        only(
            "out of memory at step 19, 14.69 GB and 5.83 GB",
            PAGE,
            "it belongs to an earlier run whose inputs were not published",
        ),
        only("P5: 15.935 GB", PAGE, qwen::NO_SOURCE),
        only(
            "s0 copies to the device, s1 to the host",
            "descriptions of #5700",
            "in the source s0 is the stream that computes, and s1 copies both ways",
        ),
    ]
}
