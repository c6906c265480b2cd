//! What is known of a run beside the computed numbers: published, measured with the real software,
//! and this engine's own runs on a card. Each with what it rests on.

use std::sync::OnceLock;

use api::bench::{Evidence, EvidenceKind, Known, Losses};

use super::base::Base;
use super::config::Config;
use super::patch::{self, Patch};
use crate::offload::{Change, Release};

/// Runs of the engine on a card: the file's name and its content, the newest first.
const CARD_RESULTS: [(&str, &str); 2] = [
    (
        "engine/results/h200-2026-11-21.json",
        include_str!("../../results/h200-2026-11-21.json"),
    ),
    (
        "engine/results/h200-2026-11-20.json",
        include_str!("../../results/h200-2026-11-20.json"),
    ),
];

const PAGE: &str = "butterweck leak analysis";
const PAGE_MACHINE: &str = "RTX 3090, TRL 0.29.0, PyTorch 2.10";
const REAL: &str = "the real PyTorch and TRL";
const REAL_MACHINE: &str = "NVIDIA H200, PyTorch 2.11.0+cu130, transformers 5.17.0, peft 0.21.0";
const REAL_FILE: &str = "docs/measurements.md";
const REAL_DATE: &str = "November 2026";

/// The loss of the first step, in every run of the vision program: the same seed and weights.
const VL_LOSS: f64 = 13.382_083_892_822_266;

/// All that is known of a run.
pub fn known(config: Config, base: Base, patches: &[Patch]) -> Known {
    let own_base = base == config.base();
    let published = own_base.then(|| published(config, patches)).flatten();
    let on_card = own_base.then(|| on_card(config, patches)).flatten();
    // A patch without source was measured by nobody: a run of our hypothesis is no run of it.
    let has_source = !patches.iter().any(|patch| patch.hypothesis().is_some());
    Known {
        measured: measured(config, base, patches).filter(|_| has_source),
        engine_on_card: on_card.filter(|_| has_source),
        published,
    }
}

fn gigabytes(gigabytes: f64) -> Option<u64> {
    Some((gigabytes * 1e9).round() as u64)
}

/// A row of the published table.
fn page(peak: f64, steps: u32) -> Evidence {
    Evidence {
        peak_allocated: gigabytes(peak),
        steps: Some(steps),
        machine: Some(PAGE_MACHINE.to_owned()),
        ..Evidence::new(EvidenceKind::Published, PAGE)
    }
}

fn statement(source: &str, note: &str) -> Evidence {
    Evidence {
        note: Some(note.to_owned()),
        ..Evidence::new(EvidenceKind::Published, source)
    }
}

/// The published row, where there is one.
fn published(config: Config, patches: &[Patch]) -> Option<Evidence> {
    let all_five = patches == &Patch::ALL[..5];
    match config {
        Config::VlQwen => match patches {
            [] | [Patch::Matmul4bitNoGrad | Patch::Bf16CrossEntropy | Patch::PackContiguous] => {
                Some(page(20.308, 100))
            }
            [Patch::ExitSyncAndClear] => Some(page(13.283, 100)),
            [Patch::TorchMemoryFix] => Some(page(15.935, 100)),
            _ if all_five => Some(page(14.290, 100)),
            _ => None,
        },
        Config::TextQwen => match patches {
            [Patch::TorchMemoryFix] => Some(out_of_memory(page(24.216, 150))),
            _ if all_five => Some(out_of_memory(page(24.216, 150))),
            [] => Some(page(8.498, 150)),
            [one] if Patch::ALL[..4].contains(one) => Some(page(8.498, 150)),
            _ => None,
        },
        Config::MoeGemma => match patches {
            [] => Some(Evidence {
                growth_per_step: Some(0.8055 * (1u64 << 30) as f64),
                steps: Some(293),
                machine: Some("B300".to_owned()),
                ..statement(
                    "axolotl #3638",
                    "24 to 260 GiB; packing lengths were not published",
                )
            }),
            [Patch::EnterReset] => Some(statement(
                "TRL #5737",
                "200 steps between 17.73 and 18.76 GiB",
            )),
            _ => None,
        },
        Config::QloraBnb => match patches {
            [] => Some(statement(
                "TRL #5730",
                "about 0.6 GiB a step, out of memory after 30 to 40 steps",
            )),
            [Patch::ComputeStreamClone] => Some(Evidence {
                machine: Some("L40S, PyTorch 2.11, TRL 1.7.0".to_owned()),
                ..statement(
                    "axolotl #3833",
                    "Xid 43 in 20 of 20 runs without it, in 0 of 10 with it",
                )
            }),
            _ => None,
        },
        Config::FastLlm => Some(fast_llm(patches)),
        Config::TeFusedAttention => Some(match patches {
            [] => statement(
                "Transformer Engine issue #1935",
                "1070 MiB allocated after the iteration",
            ),
            _ => statement(
                "Transformer Engine issue #1935, mended by #2772",
                "284.1 MiB allocated after the iteration",
            ),
        }),
        Config::DedupeReuse | Config::ChunkViews => None,
    }
}

fn out_of_memory(evidence: Evidence) -> Evidence {
    Evidence {
        out_of_memory: true,
        ..evidence
    }
}

fn fast_llm(patches: &[Patch]) -> Evidence {
    let row = Evidence {
        steps: Some(128),
        machine: Some("8 x H100 80 GB".to_owned()),
        ..Evidence::new(EvidenceKind::Published, "Fast-LLM #486")
    };
    match patches {
        [] => Evidence {
            growth_per_step: Some(164.0 * (1u64 << 20) as f64),
            out_of_memory: true,
            note: Some("out of memory before micro-batch 128".to_owned()),
            ..row
        },
        _ => Evidence {
            peak_allocated: Some(62_240 << 20),
            growth_per_step: Some(0.24 * (1u64 << 20) as f64),
            ..row
        },
    }
}

/// A run of the real software that was counted, by the code that ran.
fn measured(config: Config, base: Base, patches: &[Patch]) -> Option<Evidence> {
    let run = |command: &str| Evidence {
        file: Some(REAL_FILE.to_owned()),
        machine: Some(REAL_MACHINE.to_owned()),
        date: Some(REAL_DATE.to_owned()),
        command: Some(command.to_owned()),
        ..Evidence::new(EvidenceKind::Measured, REAL)
    };
    let ran = Ran::of(base, patches)?;
    let program = "Qwen3.5-9B dimensions, NF4 and LoRA, non-reentrant checkpointing, batch 1";
    let vision = run(&format!(
        "{program}, 512 tokens and an image of 1024 patches"
    ));
    let text = run(&format!("{program}, 512 tokens"));
    match config {
        Config::VlQwen => Some(ran.vision(vision)),
        Config::TextQwen => ran.text(text),
        // The same program as the vision run's, with bitsandbytes imported.
        Config::QloraBnb => (ran == Ran::Trl14).then(|| Evidence {
            note: Some("counted on vl-qwen3.5-9b, whose program this is".to_owned()),
            ..ran.vision(vision)
        }),
        Config::ChunkViews => ran.views(run("a small program that saves chunk, transpose and \
                                             expand views")),
        _ => None,
    }
}

/// The code that was measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ran {
    Trl029,
    WithP3,
    WithP4,
    Trl14,
    Trl15,
    Trl18,
    Trl114,
    SaveOnCpu,
    NoOffloading,
}

impl Ran {
    fn of(base: Base, patches: &[Patch]) -> Option<Ran> {
        match base {
            Base::Release(release) => Ran::of_release(release, patches),
            Base::SaveOnCpu => patches.is_empty().then_some(Ran::SaveOnCpu),
            Base::NoOffloading => patches.is_empty().then_some(Ran::NoOffloading),
            Base::HiddenStates | Base::Program(_) => None,
        }
    }

    /// The patches that touch other code than the offloader's were not in these runs, and neither
    /// are those that only one project had.
    fn of_release(release: Release, patches: &[Patch]) -> Option<Ran> {
        if !patches.iter().all(|patch| patch.change().is_some()) {
            return None;
        }
        let changes = patch::changes(release.changes(), patches);
        let baseline = Release::Trl029.changes();
        let known = [
            (baseline, Ran::Trl029),
            (baseline.with(Change::ExitSyncAndClear), Ran::WithP3),
            (baseline.with(Change::PackContiguous), Ran::WithP4),
            (Release::Trl14.changes(), Ran::Trl14),
            (Release::Trl15.changes(), Ran::Trl15),
            (Release::Trl18.changes(), Ran::Trl18),
            (Release::Trl114.changes(), Ran::Trl114),
        ];
        let found = known.into_iter().find(|(set, _)| *set == changes);
        found.map(|(_, ran)| ran)
    }

    /// With an image in each sample, 100 steps.
    fn vision(self, run: Evidence) -> Evidence {
        let (peak, growth, last_loss) = match self {
            Ran::Trl029 => (21.443_777_536, 103.8e6, Some(13.237_631_797_790_527)),
            Ran::WithP3 => (14.051_314_688, 33.4e6, Some(13.234_785_079_956_055)),
            Ran::Trl15 => (10.741_697_536, 0.0, Some(60.386_211_395_263_67)),
            Ran::Trl18 => (10.654_665_728, 0.0, Some(60.554_786_682_128_906)),
            Ran::Trl114 => (10.655, 0.0, Some(13.236_639_976_501_465)),
            Ran::SaveOnCpu => (11.410, 0.0, Some(13.236_639_976_501_465)),
            Ran::NoOffloading => (10.788_899_840, 0.0, None),
            Ran::WithP4 | Ran::Trl14 => {
                return Evidence {
                    crash: Some("device-side assert, cuBLAS failure, in the first steps".into()),
                    ..run
                };
            }
        };
        let corrupts = matches!(self, Ran::Trl15 | Ran::Trl18);
        let note = "the loss shows that restored data are wrong; the memory looks well";
        Evidence {
            peak_allocated: gigabytes(peak),
            growth_per_step: Some(growth),
            steps: Some(if self == Ran::NoOffloading { 30 } else { 100 }),
            losses: last_loss.map(|last| Losses {
                first: VL_LOSS,
                last,
            }),
            note: corrupts.then(|| note.to_owned()),
            ..run
        }
    }

    /// On text alone, 40 steps.
    fn text(self, run: Evidence) -> Option<Evidence> {
        let (peak, last_loss) = match self {
            Ran::Trl029 => (10.712_340_480, Some(13.197_500_228_881_836)),
            Ran::Trl15 => (10.712_340_480, Some(13.183_608_055_114_746)),
            Ran::Trl18 => (10.653_620_224, Some(13.187_188_148_498_535)),
            Ran::NoOffloading => (10.783_660_032, None),
            Ran::Trl14 => {
                return Some(Evidence {
                    crash: Some("device-side assert".to_owned()),
                    ..run
                });
            }
            Ran::WithP3 | Ran::WithP4 | Ran::Trl114 | Ran::SaveOnCpu => return None,
        };
        Some(Evidence {
            peak_allocated: gigabytes(peak),
            growth_per_step: Some(0.0),
            steps: Some(if self == Ran::NoOffloading { 20 } else { 40 }),
            losses: last_loss.map(|last| Losses {
                first: 13.314_535_140_991_211,
                last,
            }),
            ..run
        })
    }

    /// A program that saves views: only whether it raised was written down.
    fn views(self, run: Evidence) -> Option<Evidence> {
        match self {
            Ran::Trl029 => Some(Evidence {
                crash: Some("setStorage out of bounds, with and without streams".to_owned()),
                ..run
            }),
            Ran::Trl18 | Ran::Trl114 => Some(Evidence {
                note: Some("it runs to its end".to_owned()),
                ..run
            }),
            _ => None,
        }
    }
}

/// A run on a card, kept as data.
struct CardRun {
    file: &'static str,
    machine: Option<String>,
    date: Option<String>,
    command: Option<String>,
    row: serde_json::Value,
}

/// The engine's own run on a card. Only whole runs count, because a peak after 20 steps says
/// nothing beside one after 100: the configuration's own number of steps, or the card ran out
/// before.
fn on_card(config: Config, patches: &[Patch]) -> Option<Evidence> {
    static RUNS: OnceLock<Vec<CardRun>> = OnceLock::new();
    let runs = RUNS.get_or_init(|| CARD_RESULTS.into_iter().flat_map(card_runs).collect());
    let whole = |run: &&CardRun| {
        run.row["steps_run"] == config.default_steps() || !run.row["oom_step"].is_null()
    };
    let run = runs
        .iter()
        .filter(|run| run.row["config"] == config.id() && has_patches(&run.row, patches))
        .find(whole)?;
    let steps = run.row["steps_run"].as_u64()?;
    Some(Evidence {
        peak_allocated: run.row["peak_allocated"].as_u64(),
        growth_per_step: run.row["growth_per_step"].as_f64(),
        steps: u32::try_from(steps).ok(),
        out_of_memory: !run.row["oom_step"].is_null(),
        file: Some(run.file.to_owned()),
        machine: run.machine.clone(),
        command: run.command.clone(),
        date: run.date.clone(),
        note: Some(
            "the allocator's decisions follow the simulation, so these numbers check the engine, \
             not the published software"
                .to_owned(),
        ),
        ..Evidence::new(EvidenceKind::EngineOnCard, "this engine on a card")
    })
}

fn card_runs((file, text): (&'static str, &str)) -> Vec<CardRun> {
    let Ok(parsed) = serde_json::from_str::<serde_json::Value>(text) else {
        return Vec::new();
    };
    let word = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let runs = parsed["runs"].as_array().into_iter().flatten();
    let rows = runs.flat_map(|run| {
        let rows = run["table"]["rows"].as_array().into_iter().flatten();
        rows.map(|row| CardRun {
            file,
            machine: word(&parsed["machine"]["gpu"]),
            date: word(&parsed["date"]),
            command: word(&run["command"]),
            row: row.clone(),
        })
    });
    rows.collect()
}

fn has_patches(row: &serde_json::Value, patches: &[Patch]) -> bool {
    let ids = row["patches"].as_array().into_iter().flatten();
    ids.eq(patches.iter().map(|patch| patch.id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(config: Config, patches: &[Patch], kind: EvidenceKind) -> Option<Evidence> {
        known(config, config.base(), patches).get(kind).cloned()
    }

    #[test]
    fn real_software_and_the_engine_on_a_card_are_two_kinds() {
        use EvidenceKind::{EngineOnCard, Measured};
        let real = of(Config::VlQwen, &[], Measured).unwrap();
        assert_eq!(real.peak_allocated, Some(21_443_777_536));
        let ours = of(Config::VlQwen, &[], EngineOnCard).unwrap();
        assert!(ours.file.unwrap().starts_with("engine/results/"));
        assert!(ours.command.unwrap().contains("--device cuda"));
        assert!(ours.machine.is_some() && ours.date.is_some());
        assert_eq!(of(Config::FastLlm, &[], Measured), None);
        let long = of(Config::FastLlm, &[], EngineOnCard).unwrap();
        assert_eq!((long.steps, long.out_of_memory), (Some(113), true));
    }

    #[test]
    fn a_patch_without_source_has_no_number_but_the_published_one() {
        for set in [vec![Patch::TorchMemoryFix], Patch::ALL[..5].to_vec()] {
            for config in [Config::VlQwen, Config::TextQwen] {
                let kinds: Vec<EvidenceKind> = known(config, config.base(), &set)
                    .iter()
                    .map(|known| known.kind)
                    .collect();
                assert_eq!(kinds, [EvidenceKind::Published], "{config:?} {set:?}");
            }
        }
    }

    #[test]
    fn the_real_runs_are_found_by_the_code_that_ran() {
        let patched = [
            Patch::ExitSyncAndClear,
            Patch::PackContiguous,
            Patch::EnterReset,
        ];
        let released = known(Config::VlQwen, Base::Release(Release::Trl15), &[]);
        let released = released.measured.unwrap();
        let losses = released.losses.unwrap();
        assert!(losses.first < 14.0 && losses.last > 60.0, "{losses:?}");
        let by_patches = of(Config::VlQwen, &patched, EvidenceKind::Measured);
        assert_eq!(by_patches.as_ref(), Some(&released));
        let crashed = of(Config::QloraBnb, &[], EvidenceKind::Measured).unwrap();
        assert!(crashed.crash.is_some() && crashed.peak_allocated.is_none());
    }
}
