//! What is known about a run besides the computed numbers: what was published, what was measured
//! with the real software, and this engine's own runs on a card. Each comes with its evidence.

use std::sync::OnceLock;

use api::bench::{Evidence, EvidenceKind, Known};

use crate::patches::Patch;
use crate::systems::{Base, MeasuredCode, System};
use trace::units::Bytes;

/// Runs of the engine on a card: file name and content, the newest first.
const CARD_RESULTS: [(&str, &str); 5] = [
    (
        "engine/results/h200-2026-11-26.json",
        include_str!("../../results/h200-2026-11-26.json"),
    ),
    (
        "engine/results/h200-2026-11-23.json",
        include_str!("../../results/h200-2026-11-23.json"),
    ),
    (
        "engine/results/h200-2026-11-22.json",
        include_str!("../../results/h200-2026-11-22.json"),
    ),
    (
        "engine/results/h200-2026-11-21.json",
        include_str!("../../results/h200-2026-11-21.json"),
    ),
    (
        "engine/results/h200-2026-11-20.json",
        include_str!("../../results/h200-2026-11-20.json"),
    ),
];

/// All that is known of a run.
pub fn known(system: &System, base: Base, patches: &[&'static Patch]) -> Known {
    let own_base = base == system.base;
    let published = own_base.then(|| (system.published)(patches)).flatten();
    let on_card = own_base.then(|| on_card(system, patches)).flatten();
    let measured = MeasuredCode::of(base, patches).and_then(system.measured);
    // Nobody has measured a patch without source: a run of our assumption is not a run of the
    // patch.
    let has_source = !patches.iter().any(|patch| patch.hypothesis().is_some());
    Known {
        measured: measured.filter(|_| has_source),
        engine_on_card: on_card.filter(|_| has_source),
        published,
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

/// The engine's own run on a card. Only whole runs count: those with the system's own number of
/// steps, and those that ran out of memory before. A peak after 20 steps cannot be compared with
/// one after 100.
fn on_card(system: &System, patches: &[&'static Patch]) -> Option<Evidence> {
    static RUNS: OnceLock<Vec<CardRun>> = OnceLock::new();
    let runs = RUNS.get_or_init(|| CARD_RESULTS.into_iter().flat_map(card_runs).collect());
    let whole = |run: &&CardRun| {
        run.row["steps_run"] == system.default_steps || !run.row["oom_step"].is_null()
    };
    let run = runs
        .iter()
        .filter(|run| run.row["config"] == system.id && has_patches(&run.row, patches))
        .filter(|run| ran_on_own_base(&run.row, system))
        .find(whole)?;
    let steps = run.row["steps_run"].as_u64()?;
    Some(Evidence {
        peak_allocated: run.row["peak_allocated"].as_u64().map(Bytes),
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

/// Whether a row ran on its system's own base. Before a base could be chosen, all rows did, and
/// they have labels that are no longer used.
fn ran_on_own_base(row: &serde_json::Value, system: &System) -> bool {
    let base = row["base"].as_str().and_then(Base::from_label);
    base.is_none_or(|base| base == system.base)
}

fn has_patches(row: &serde_json::Value, patches: &[&'static Patch]) -> bool {
    let ids = row["patches"].as_array().into_iter().flatten();
    ids.eq(patches.iter().map(|patch| patch.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::Release;

    fn of(system: &System, patches: &[&'static Patch], kind: EvidenceKind) -> Option<Evidence> {
        known(system, system.base, patches).get(kind).cloned()
    }

    #[test]
    fn real_software_and_the_engine_on_a_card_are_two_kinds() {
        use EvidenceKind::{EngineOnCard, Measured};
        let real = of(System::VL_QWEN, &[], Measured).unwrap();
        assert_eq!(real.peak_allocated, Some(Bytes(21_443_777_536)));
        let ours = of(System::VL_QWEN, &[], EngineOnCard).unwrap();
        assert!(ours.file.unwrap().starts_with("engine/results/"));
        assert!(ours.command.unwrap().contains("--device cuda"));
        assert!(ours.machine.is_some() && ours.date.is_some());
        let waiting = of(System::QLORA_BNB, &[Patch::CLONE_BEFORE_WAIT], EngineOnCard);
        assert_eq!(waiting.unwrap().date.as_deref(), Some("2026-11-22"));
        assert_eq!(of(System::FAST_LLM, &[], Measured), None);
        let long = of(System::FAST_LLM, &[], EngineOnCard).unwrap();
        assert_eq!((long.steps, long.out_of_memory), (Some(113), true));
    }

    #[test]
    fn a_patch_without_source_has_no_number_but_the_published_one() {
        for set in [
            vec![Patch::TORCH_MEMORY_FIX],
            Patch::PUBLISHED_FIVE.to_vec(),
        ] {
            for system in [System::VL_QWEN, System::TEXT_4096] {
                let kinds: Vec<EvidenceKind> = known(system, system.base, &set)
                    .iter()
                    .map(|known| known.kind)
                    .collect();
                assert_eq!(kinds, [EvidenceKind::Published], "{system:?} {set:?}");
            }
        }
    }

    #[test]
    fn the_real_runs_are_found_by_the_code_that_ran() {
        let patched = [
            Patch::EXIT_SYNC_AND_CLEAR,
            Patch::PACK_CONTIGUOUS,
            Patch::ENTER_RESET,
        ];
        let released = known(System::VL_QWEN, Base::Release(Release::TRL_1_5), &[]);
        let released = released.measured.unwrap();
        let losses = released.losses.unwrap();
        assert!(losses.first < 14.0 && losses.last > 60.0, "{losses:?}");
        let by_patches = of(System::VL_QWEN, &patched, EvidenceKind::Measured);
        assert_eq!(by_patches.as_ref(), Some(&released));
        let crashed = of(System::QLORA_BNB, &[], EvidenceKind::Measured).unwrap();
        assert!(crashed.crash.is_some() && crashed.peak_allocated.is_none());
    }
}
