//! Checks rows whose steps are written down or played against the same rows with every step
//! computed by the program. Result, steps, races and recording must be equal in every field.

use api::bench::BenchResult;

use super::run::{Log, run_logged};
use super::spec::{CopyStream, Program, RunSpec};
use crate::patches::Patch;
use crate::repeat::Steps;
use crate::systems::{Base, System};

/// How many steps are recorded, and how many steps there are: enough to settle, to be found alike,
/// and to be written down a few times.
const RECORDED: u32 = 2;
const STEPS: u32 = 12;

/// How many steps of a row the program did not compute.
#[derive(Default)]
struct Saved {
    written_down: u32,
    /// Counted in the run that plays all the steps that it can.
    played: u32,
}

impl std::ops::AddAssign for Saved {
    fn add_assign(&mut self, more: Saved) {
        self.written_down += more.written_down;
        self.played += more.played;
    }
}

/// Runs a row, with its steps made in the given way.
fn run_with(spec: &RunSpec, computed: Steps) -> (BenchResult, Log) {
    let spec = RunSpec {
        record_steps: RECORDED,
        computed,
        ..spec.clone()
    };
    run_logged(&spec, &mut |_| true)
}

fn name_of(spec: &RunSpec) -> String {
    let (system, base, patches) = (spec.system, spec.base, &spec.patches);
    format!("{system:?} on {base:?} with {patches:?}, {:?}", spec.copies)
}

fn agree(spec: &RunSpec, one: &(BenchResult, Log), other: &(BenchResult, Log)) {
    let name = name_of(spec);
    assert_eq!(one.0, other.0, "{name}");
    assert_eq!(one.1.facts, other.1.facts, "{name}");
    assert!(one.1.recording == other.1.recording, "{name}");
}

/// Checks a row whose steps are played as soon as possible; returns how many were played.
fn check_played(spec: &RunSpec, all: &(BenchResult, Log)) -> u32 {
    let played = run_with(spec, Steps::Play);
    agree(spec, &played, all);
    // Races are compared only here: for steps that are written down, only their number is known.
    assert_eq!(played.1.races, all.1.races, "{}", name_of(spec));
    played.1.played
}

/// Checks a row.
fn check(spec: &RunSpec) -> Saved {
    let name = name_of(spec);
    let (jumped, all) = (run_with(spec, Steps::Jump), run_with(spec, Steps::All));
    assert_eq!((all.1.written_down, all.1.played), (0, 0), "{name}");
    agree(spec, &jumped, &all);
    let played = check_played(spec, &all);
    let written_down = jumped.1.written_down;
    // In these two the last graph stays alive, so their steps are computed.
    let keeps_graphs = [System::TE_ATTENTION, System::FAST_LLM].contains(&spec.system);
    // Its frees wait for copies, so that blocks have other addresses in each step.
    let frees_late = spec.base == Base::MegatronLm;
    assert!(
        written_down > 0 || keeps_graphs || frees_late || !is_flat(&all.0),
        "{name}"
    );
    Saved {
        written_down,
        played,
    }
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
        // The text programs run again here with steps that are eight times as long; one row is
        // enough.
        let sets = sets.take(match system == System::TEXT_4096 {
            true => 1,
            false => usize::MAX,
        });
        sets.map(|patches| with_steps(STEPS, system, &patches))
    });
    let mut programs = Vec::new();
    let mut saved = Saved::default();
    for spec in sets {
        let program = Program::of(&spec);
        if !programs.contains(&program) {
            saved += check(&spec);
            programs.push(program);
        }
    }
    let Saved {
        written_down,
        played,
    } = saved;
    assert!(written_down > 50, "{written_down}");
    assert!(played > 300, "{played}");
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

/// Sums of times do not drift apart, and races are still counted.
#[test]
fn long_rows_are_what_they_are_step_by_step() {
    for (system, patches) in [
        (System::REUSE, &[][..]),
        (System::CHUNK_VIEWS, &[Patch::PACK_CONTIGUOUS]),
    ] {
        let written_down = check(&with_steps(400, system, patches)).written_down;
        assert!(written_down > 380, "{system:?}: {written_down}");
    }
}

/// Views that share addresses, come back in other layouts or fail, on all kinds of streams, with
/// every offloader: playing makes the same decisions as the program.
#[test]
fn small_programs_are_what_they_are_step_by_step_with_every_offloader() {
    let systems = [
        System::REUSE,
        System::CHUNK_VIEWS,
        System::TRANSPOSED_VIEWS,
        System::OWN_STREAM,
    ];
    let mut played = 0;
    for system in systems {
        for base in Base::choices() {
            for copies in [CopyStream::Side, CopyStream::Compute] {
                let spec = RunSpec {
                    base,
                    copies,
                    ..with_steps(STEPS, system, &[])
                };
                played += check_played(&spec, &run_with(&spec, Steps::All));
            }
        }
    }
    assert!(played > 200, "{played}");
}

/// If a row grows, all its steps except the first ones are played.
#[test]
fn rows_that_grow_are_what_they_are_step_by_step() {
    for patches in [&[][..], &[Patch::RELEASE_DEDUPE_KEY]] {
        let saved = check(&with_steps(20, System::VL_QWEN, patches));
        assert!(saved.played > 12, "{}", saved.played);
    }
}

/// If a step fails while it is played, the row is the same as without playing.
#[test]
fn a_row_that_runs_out_of_memory_is_what_it_is_step_by_step() {
    let mut spec = with_steps(20, System::VL_QWEN, &[]);
    spec.sim.capacity = Some(trace::units::Bytes::mib(12_000));
    let mut reported = Vec::new();
    let (result, _) = run_logged(&spec, &mut |fact| {
        reported.push(fact.step);
        true
    });
    let failed = result.oom_step.expect("it grows");
    assert!(failed > 4, "{failed}");
    assert_eq!(reported, Vec::from_iter(0..failed));
    check(&spec);
}
