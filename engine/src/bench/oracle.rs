//! Rows whose repeated steps are written down, held against the same rows with every step computed:
//! result, steps and recording are equal in every field.

use api::bench::BenchResult;

use super::run::{CopyStream, Program, RunSpec, run_logged};
use crate::patches::Patch;
use crate::repeat::Steps;
use crate::systems::{Base, System};

/// Steps that are recorded, and steps in all: enough to settle, to be found alike, and to be
/// written down a few times.
const RECORDED: u32 = 2;
const STEPS: u32 = 12;

/// Checks a row; how many of its steps were written down.
fn check(spec: &RunSpec) -> u32 {
    let of = |computed: Steps| {
        let spec = RunSpec {
            record_steps: RECORDED,
            computed,
            ..spec.clone()
        };
        run_logged(&spec, &mut |_| true)
    };
    let (jumped, all) = (of(Steps::Jump), of(Steps::All));
    let name = format!(
        "{:?} on {:?} with {:?}",
        spec.system, spec.base, spec.patches
    );
    assert_eq!(all.1.written_down, 0, "{name}");
    assert_eq!(jumped.0, all.0, "{name}");
    assert_eq!(jumped.1.facts, all.1.facts, "{name}");
    assert!(jumped.1.recording == all.1.recording, "{name}");
    let written_down = jumped.1.written_down;
    // Of these two the last graph lives on, so their steps are computed.
    let keeps_graphs = [System::TE_ATTENTION, System::FAST_LLM].contains(&spec.system);
    // Its frees wait for copies, so that blocks come to lie elsewhere in each step.
    let frees_late = spec.base == Base::MegatronLm;
    assert!(
        written_down > 0 || keeps_graphs || frees_late || !is_flat(&all.0),
        "{name}"
    );
    written_down
}

fn is_flat(result: &BenchResult) -> bool {
    let growth = [result.growth_per_step, result.host_growth_per_step];
    growth == [0.0; 2] && result.crash.is_none()
}

fn with_steps(steps: u32, system: &'static System, patches: &[&'static Patch]) -> RunSpec {
    RunSpec {
        steps: Some(steps),
        ..RunSpec::new(system, patches)
    }
}

#[test]
fn every_row_of_every_matrix_is_what_it_is_step_by_step() {
    let sets = System::ALL.into_iter().flat_map(|system| {
        let sets = system.matrix().into_iter();
        // The programs of the text run once more, with steps that are eight times as long.
        let sets = sets.take(match system == System::TEXT_4096 {
            true => 1,
            false => usize::MAX,
        });
        sets.map(|patches| with_steps(STEPS, system, &patches))
    });
    let mut programs = Vec::new();
    let mut written_down = 0;
    for spec in sets {
        let program = Program::of(&spec);
        if !programs.contains(&program) {
            written_down += check(&spec);
            programs.push(program);
        }
    }
    assert!(written_down > 50, "{written_down}");
}

#[test]
fn every_offloader_is_what_it_is_step_by_step() {
    for base in Base::choices() {
        for copies in [CopyStream::Side, CopyStream::Compute] {
            check(&RunSpec {
                base,
                copies,
                ..with_steps(10, System::TEXT_QWEN, &[])
            });
        }
    }
}

/// Sums of times do not drift apart, and races go on being counted.
#[test]
fn long_rows_are_what_they_are_step_by_step() {
    for (system, patches) in [
        (System::REUSE, &[][..]),
        (System::CHUNK_VIEWS, &[Patch::PACK_CONTIGUOUS]),
    ] {
        let written_down = check(&with_steps(400, system, patches));
        assert!(written_down > 380, "{system:?}: {written_down}");
    }
}
