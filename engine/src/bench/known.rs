//! Numbers that others published, and numbers measured on a real H200, beside the computed ones.

use std::sync::OnceLock;

use serde::Serialize;

use super::config::Config;
use super::patch::Patch;

/// What a source says of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Known {
    /// Peak of allocated memory, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_allocated: Option<u64>,
    /// Growth a step, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth_per_step: Option<f64>,
    /// Steps of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Where it is from.
    pub source: &'static str,
    /// What to keep in mind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

/// Runs of the engine on a card.
const CARD_RESULTS: [&str; 2] = [
    include_str!("../../results/h200-2026-11-21.json"),
    include_str!("../../results/h200-2026-11-20.json"),
];
const CARD: &str = "engine/results, NVIDIA H200";
const PAGE: &str = "butterweck leak analysis, RTX 3090, TRL 0.29.0, PyTorch 2.10";
const H200: &str = "measured.md section 1, NVIDIA H200, PyTorch 2.11.0+cu130";

fn peak(gigabytes: f64, steps: u32, source: &'static str) -> Option<Known> {
    Some(Known {
        peak_allocated: Some((gigabytes * 1e9).round() as u64),
        growth_per_step: None,
        steps: Some(steps),
        source,
        note: None,
    })
}

fn measured(gigabytes: f64, growth: f64, steps: u32) -> Option<Known> {
    let growth_per_step = Some(growth);
    peak(gigabytes, steps, H200).map(|known| Known {
        growth_per_step,
        ..known
    })
}

fn text(source: &'static str, note: &'static str) -> Option<Known> {
    let none = Known {
        peak_allocated: None,
        growth_per_step: None,
        steps: None,
        source,
        note: Some(note),
    };
    Some(none)
}

/// The published row, where there is one.
pub fn published(config: Config, patches: &[Patch]) -> Option<Known> {
    match config {
        Config::VlQwen => match patches {
            [] | [Patch::Matmul4bitNoGrad | Patch::Bf16CrossEntropy | Patch::PackContiguous] => {
                peak(20.308, 100, PAGE)
            }
            [Patch::ExitSyncAndClear] => peak(13.283, 100, PAGE),
            [Patch::TorchMemoryFix] => peak(15.935, 100, PAGE),
            all if all == &Patch::ALL[..5] => peak(14.290, 100, PAGE),
            _ => None,
        },
        Config::TextQwen => match patches {
            [Patch::TorchMemoryFix] => peak(24.216, 150, PAGE),
            all if all == &Patch::ALL[..5] => peak(24.216, 150, PAGE),
            [] => peak(8.498, 150, PAGE),
            [one] if Patch::ALL[..4].contains(one) => peak(8.498, 150, PAGE),
            _ => None,
        },
        Config::MoeGemma => match patches {
            [] => Some(Known {
                peak_allocated: None,
                growth_per_step: Some(0.8055 * (1u64 << 30) as f64),
                steps: Some(293),
                source: "axolotl #3638, B300",
                note: Some("24 to 260 GiB; packing lengths were not published"),
            }),
            [Patch::EnterReset] => text("TRL #5730", "200 steps between 17.73 and 18.76 GiB"),
            _ => None,
        },
        Config::QloraBnb => match patches {
            [] => text(
                "TRL #5730",
                "about 0.6 GiB a step, out of memory after 30 to 40 steps",
            ),
            _ => None,
        },
        Config::FastLlm => match patches {
            [] => Some(Known {
                peak_allocated: None,
                growth_per_step: Some(164.0 * (1u64 << 20) as f64),
                steps: Some(128),
                source: "Fast-LLM #486, 8 x H100",
                note: Some("out of memory before micro-batch 128"),
            }),
            _ => Some(Known {
                peak_allocated: Some(62_240 << 20),
                growth_per_step: Some(0.24 * (1u64 << 20) as f64),
                steps: Some(128),
                source: "Fast-LLM #486, 8 x H100",
                note: None,
            }),
        },
        Config::TeFusedAttention => match patches {
            [] => text(
                "Transformer Engine #1935",
                "1070 MiB allocated after the iteration",
            ),
            _ => text(
                "Transformer Engine #1935",
                "284.1 MiB allocated after the iteration",
            ),
        },
        Config::DedupeReuse => None,
    }
}

/// The measured row, where there is one: of the real software if it was measured, else of this
/// engine on a real card.
pub fn measured_row(config: Config, patches: &[Patch]) -> Option<Known> {
    measured_in_pytorch(config, patches).or_else(|| measured_on_card(config, patches))
}

/// The engine's own runs on a card, kept as data. Only whole runs count, because a peak after 20
/// steps says nothing beside one after 100: the configuration's own number of steps, or the card
/// ran out before.
fn measured_on_card(config: Config, patches: &[Patch]) -> Option<Known> {
    static RESULTS: OnceLock<Vec<serde_json::Value>> = OnceLock::new();
    let parse = |file: &&str| serde_json::from_str::<serde_json::Value>(file).ok();
    let files = RESULTS.get_or_init(|| CARD_RESULTS.iter().filter_map(parse).collect());
    let runs = files.iter().filter_map(|file| file["runs"].as_array());
    let rows = runs
        .flatten()
        .filter_map(|run| run["table"]["rows"].as_array())
        .flatten();
    let row = rows
        .filter(|row| row["config"] == config.id() && has_patches(row, patches))
        .find(|row| {
            let whole = row["steps_run"] == config.default_steps();
            whole || !row["oom_step"].is_null()
        })?;
    let steps = row["steps_run"].as_u64()?;
    Some(Known {
        peak_allocated: row["peak_allocated"].as_u64(),
        growth_per_step: row["growth_per_step"].as_f64(),
        steps: u32::try_from(steps).ok(),
        source: CARD,
        note: Some("this engine on the card: checks the engine, not the published software"),
    })
}

fn has_patches(row: &serde_json::Value, patches: &[Patch]) -> bool {
    let ids = row["patches"].as_array().into_iter().flatten();
    ids.eq(patches.iter().map(|patch| patch.id()))
}

fn measured_in_pytorch(config: Config, patches: &[Patch]) -> Option<Known> {
    match (config, patches) {
        (Config::VlQwen, []) => measured(21.444, 103.8e6, 100),
        (Config::VlQwen, [Patch::ExitSyncAndClear]) => measured(14.051, 33.4e6, 100),
        (Config::VlQwen, [Patch::PackContiguous]) => text(
            H200,
            "crashed in the first steps: device-side assert, cuBLAS failure",
        ),
        (Config::TextQwen, []) => measured(10.712, 0.0, 40),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_software_comes_before_the_card_and_the_card_before_nothing() {
        let source = |config, patches: &[Patch]| measured_row(config, patches).map(|k| k.source);
        assert_eq!(source(Config::VlQwen, &[]), Some(H200));
        assert_eq!(source(Config::FastLlm, &[Patch::LossDetach]), Some(CARD));
        assert_eq!(source(Config::VlQwen, &[Patch::EnterReset]), Some(CARD));
        // Of the earlier day.
        let both = [Patch::ExitSyncAndClear, Patch::EnterReset];
        assert_eq!(source(Config::VlQwen, &both), Some(CARD));
        let never_ran = [Patch::EnterReset, Patch::LossDetach];
        assert_eq!(source(Config::VlQwen, &never_ran), None);
        let long = measured_row(Config::FastLlm, &[]).unwrap();
        assert_eq!(long.steps, Some(113), "out of memory after as many");
    }
}
