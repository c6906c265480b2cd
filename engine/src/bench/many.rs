//! Runs many rows: the matrix of a system, or any specifications, on all cores or cards.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};

use api::bench::{BenchResult, DeviceKind};

use super::row::Row;
use super::run::run;
use super::spec::{Program, RunSpec};
use crate::device::Ordinal;
use crate::device::sim::SimSpec;
use crate::patches::Patch;
use crate::systems::System;

/// Runs baseline, each applicable patch alone, and the published combination.
pub fn run_matrix(system: &'static System, steps: Option<u32>, sim: SimSpec) -> Vec<Row> {
    run_rows(system, &system.matrix(), steps, sim)
}

/// Runs the given sets of patches. The empty set is the baseline; it always runs, because the
/// others are judged by it.
pub fn run_rows(
    system: &'static System,
    sets: &[Vec<&'static Patch>],
    steps: Option<u32>,
    sim: SimSpec,
) -> Vec<Row> {
    let baseline = [Vec::new()];
    let spec = |patches: &Vec<&'static Patch>| RunSpec {
        patches: patches.clone(),
        steps,
        sim,
        ..RunSpec::new(system, &[])
    };
    let specs: Vec<RunSpec> = baseline.iter().chain(sets).map(spec).collect();
    run_all(&specs).split_off(1)
}

/// Runs several specifications on all cores.
///
/// Specifications whose patches leave the same program are run once: P1 and P2 change no line that
/// the engine runs, and in the simulation nothing else can differ. A card runs every specification,
/// one after another; several cards run at the same time. For each system, base and device, the
/// first row without patches is the baseline for the other rows.
pub fn run_all(specs: &[RunSpec]) -> Vec<Row> {
    let outcomes = outcomes(specs);
    let baseline = |of: &RunSpec| {
        let is_baseline = |spec: &RunSpec| {
            spec.patches.is_empty()
                && (spec.system, spec.base, spec.ordinal) == (of.system, of.base, of.ordinal)
        };
        Some(&outcomes[specs.iter().position(is_baseline)?])
    };
    let rows = specs.iter().zip(&outcomes);
    rows.map(|(spec, outcome)| Row::new(spec, outcome, baseline(spec)))
        .collect()
}

/// The results of several specifications, on all cores. Each program is run once.
pub fn outcomes(specs: &[RunSpec]) -> Vec<BenchResult> {
    let programs: Vec<Program> = specs.iter().map(Program::of).collect();
    let first = |index: usize| {
        let same = |other: &usize| {
            programs[*other] == programs[index]
                && specs[*other].steps == specs[index].steps
                && (specs[index].device == DeviceKind::Sim || *other == index)
        };
        (0..=index).find(same).unwrap_or(index)
    };
    let distinct: Vec<usize> = (0..specs.len())
        .filter(|&index| first(index) == index)
        .collect();
    let done = run_distinct(specs, &distinct);
    let outcome = |index: usize| {
        let position = distinct.iter().position(|&other| other == first(index));
        let outcome = position.and_then(|position| done[position].get());
        outcome.expect("every distinct program was run").clone()
    };
    (0..specs.len()).map(outcome).collect()
}

fn run_distinct(specs: &[RunSpec], distinct: &[usize]) -> Vec<OnceLock<BenchResult>> {
    let done: Vec<OnceLock<BenchResult>> = distinct.iter().map(|_| OnceLock::new()).collect();
    if specs.iter().any(|spec| spec.device == DeviceKind::Cuda) {
        run_on_cards(specs, distinct, &done);
        return done;
    }
    let next = AtomicUsize::new(0);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(distinct.len()) {
            scope.spawn(|| {
                while let Some(&index) = distinct.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run(&specs[index], &mut |_| true);
                    if let Some(slot) = distinct.iter().position(|&other| other == index) {
                        // Only one thread takes each index.
                        let _ = done[slot].set(outcome);
                    }
                }
            });
        }
    });
    done
}

/// One thread for each card, which runs its rows one after another. All cards begin a row together,
/// because the row must show what they use of the host at the same time.
fn run_on_cards(specs: &[RunSpec], distinct: &[usize], done: &[OnceLock<BenchResult>]) {
    let mut cards: BTreeMap<Ordinal, Vec<usize>> = BTreeMap::new();
    for (slot, &index) in distinct.iter().enumerate() {
        cards.entry(specs[index].ordinal).or_default().push(slot);
    }
    let rounds = cards.values().map(Vec::len).max().unwrap_or(0);
    let together = Barrier::new(cards.len());
    std::thread::scope(|scope| {
        for slots in cards.values() {
            scope.spawn(|| {
                for round in 0..rounds {
                    together.wait();
                    if let Some(&slot) = slots.get(round) {
                        let outcome = run(&specs[distinct[slot]], &mut |_| true);
                        // Each slot is in the list of one card only.
                        let _ = done[slot].set(outcome);
                    }
                }
            });
        }
    });
}
