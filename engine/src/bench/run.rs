//! Runs one row.

use super::config::Config;
use super::known;
use super::patch::{self, Patch};
use super::row::{Row, Status, slope};
use crate::device::Device;
use crate::device::sim::{SimDevice, SimSpec};
use crate::offload::OffloadConfig;
use crate::race::Access;
use crate::session::{RunError, Session};
use crate::workload;

/// Steps in which all accesses are watched for races; the program repeats after that.
const WATCHED_STEPS: u32 = 2;
/// First steps differ from the rest: optimizer state, workspaces (measured.md §1).
const SETTLED_AFTER: usize = 5;

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSpec {
    /// Configuration.
    pub config: Config,
    /// Patches on its base.
    pub patches: Vec<Patch>,
    /// Steps; `None` for the configuration's own number.
    pub steps: Option<u32>,
    /// The simulated machine; a capacity given here replaces the configuration's.
    pub sim: SimSpec,
}

impl RunSpec {
    /// A run with the configuration's own inputs.
    pub fn new(config: Config, patches: &[Patch]) -> RunSpec {
        RunSpec {
            config,
            patches: patches.to_vec(),
            steps: None,
            sim: SimSpec::default(),
        }
    }
}

/// One step, for progress and charts. Bytes.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct StepFacts {
    /// From 0.
    pub step: u32,
    /// Allocated at the end of the step.
    pub allocated: u64,
    /// Highest allocated within the step.
    pub peak_allocated: u64,
    /// Reserved at the end of the step.
    pub reserved: u64,
    /// Entries of the tracker.
    pub tracker: u64,
    /// Tensors in the backward stash.
    pub bwd_stash: u64,
    /// Pinned host memory in use.
    pub host_pinned: u64,
}

/// Runs the specification on the simulated device. `progress` is called after each step and may
/// end the run by returning `false`.
pub fn run(spec: &RunSpec, progress: &mut dyn FnMut(StepFacts) -> bool) -> Row {
    let mut sim = spec.sim;
    sim.capacity = sim.capacity.or(spec.config.published_capacity());
    let device: Box<dyn Device> = Box::new(SimDevice::new(sim));
    let steps = spec.steps.unwrap_or(spec.config.default_steps());
    let mut session = Session::new(device);
    let mut facts = Vec::new();
    let outcome = run_steps(spec, steps, &mut session, &mut facts, progress);
    summarise(spec, &session, &facts, outcome.err())
}

/// Runs baseline, each applicable patch alone, and the published combination.
pub fn run_matrix(config: Config, steps: Option<u32>, sim: SimSpec) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for patches in config.matrix() {
        let spec = RunSpec {
            config,
            patches,
            steps,
            sim,
        };
        let mut row = run(&spec, &mut |_| true);
        if let Some(baseline) = rows.first() {
            row.status = verdict(&row, baseline);
        }
        rows.push(row);
    }
    rows
}

fn run_steps(
    spec: &RunSpec,
    steps: u32,
    session: &mut Session,
    facts: &mut Vec<StepFacts>,
    progress: &mut dyn FnMut(StepFacts) -> bool,
) -> Result<(), RunError> {
    let offloads = !spec.patches.contains(&Patch::TorchMemoryFix);
    if let Some(base) = spec.config.base().filter(|_| offloads) {
        let changes = patch::changes(base.changes(), &spec.patches);
        let bitsandbytes_imported = spec.config == Config::QloraBnb;
        let config = OffloadConfig {
            bitsandbytes_imported,
            ..OffloadConfig::new(changes)
        };
        session.install_offloader(config)?;
    }
    let mut workload = workload::build(spec.config, &spec.patches, session)?;
    session.heap().borrow_mut().empty_cache();
    session.accelerator.watch_races();
    for step in 0..steps {
        session.heap().borrow_mut().caching.reset_peaks();
        let outcome = workload.step(session);
        let now = step_facts(session, step);
        if outcome.is_err() {
            // The failing step's peak counts, its end does not.
            facts.push(now);
            return outcome;
        }
        if step + 1 == WATCHED_STEPS {
            session.accelerator.pause_watching();
        }
        facts.push(now);
        if !progress(now) {
            break;
        }
    }
    Ok(())
}

fn step_facts(session: &Session, step: u32) -> StepFacts {
    let heap = session.heap().borrow();
    let stats = heap.caching.stats();
    let (tracker, bwd_stash) = session.offloader().map_or((0, 0), |offloader| {
        (
            offloader.tracked(),
            offloader.backward_stash().count() as u64,
        )
    });
    StepFacts {
        step,
        allocated: stats.allocated,
        peak_allocated: stats.peak_allocated,
        reserved: stats.reserved,
        tracker,
        bwd_stash,
        host_pinned: heap.host.in_use(),
    }
}

fn summarise(
    spec: &RunSpec,
    session: &Session,
    facts: &[StepFacts],
    failure: Option<RunError>,
) -> Row {
    let completed = facts.len() - usize::from(failure.is_some() && !facts.is_empty());
    let ends: Vec<f64> = facts[..completed]
        .iter()
        .map(|step| step.allocated as f64)
        .collect();
    let settled = if ends.len() > 2 * SETTLED_AFTER {
        &ends[SETTLED_AFTER..]
    } else {
        &ends[..]
    };
    let (growth_per_step, growth_error) = slope(settled);
    let last = completed.checked_sub(1).and_then(|index| facts.get(index));
    let oom = failure.as_ref().is_some_and(RunError::is_out_of_memory);
    let heap = session.heap().borrow();
    let copied = session.accelerator.copied();
    let (races, corrupted_tensors) = race_counts(session);
    let mut row = Row {
        config: spec.config.id(),
        base: spec.config.base_name(),
        patches: spec.patches.clone(),
        steps_run: completed as u32,
        peak_allocated: facts
            .iter()
            .map(|step| step.peak_allocated)
            .max()
            .unwrap_or(0),
        peak_reserved: heap.caching.highest_reserved(),
        allocated_end: last.map_or(0, |step| step.allocated),
        growth_per_step,
        growth_error,
        oom_step: oom.then_some(completed as u32),
        crash: failure.filter(|_| !oom).map(|error| error.to_string()),
        corrupted_tensors,
        races,
        tracker_end: last.map_or(0, |step| step.tracker),
        bwd_stash_end: last.map_or(0, |step| step.bwd_stash),
        host_pinned_end: last.map_or(0, |step| step.host_pinned),
        d2h_bytes: copied.to_host,
        h2d_bytes: copied.to_device,
        step_seconds: heap.device.busy_until() / f64::from((completed as u32).max(1)),
        status: Status::Baseline,
        hypothesis: spec.patches.iter().find_map(|patch| patch.hypothesis()),
        published: known::published(spec.config, &spec.patches),
        measured: known::measured_row(spec.config, &spec.patches),
    };
    row.status = own_verdict(&row);
    row
}

/// Racing pairs, and how many reads found bytes that nothing says were written by then.
fn race_counts(session: &Session) -> (u64, u64) {
    let Some(detector) = session.accelerator.detector() else {
        return (0, 0);
    };
    let stale =
        |race: &&crate::race::Race| race.earlier == Access::Write && race.later == Access::Read;
    let corrupted = detector.races().filter(stale).map(|race| race.count).sum();
    (detector.races().count() as u64, corrupted)
}

/// What a row says without a baseline beside it.
fn own_verdict(row: &Row) -> Status {
    if row.oom_step.is_some() {
        Status::OutOfMemory
    } else if row.crash.is_some() {
        Status::Crash
    } else if row.corrupted_tensors > 0 {
        Status::Corruption
    } else if row.patches.is_empty() {
        Status::Baseline
    } else {
        Status::NotReproducible
    }
}

/// What a row says beside its baseline.
fn verdict(row: &Row, baseline: &Row) -> Status {
    let own = own_verdict(row);
    if own != Status::NotReproducible {
        return own;
    }
    let leaks = baseline.growth_per_step > 1e5 || baseline.oom_step.is_some();
    if baseline.crash.is_some() {
        Status::PreventsCrash
    } else if leaks && row.growth_per_step < 0.5 * baseline.growth_per_step {
        Status::RootCauseFix
    } else if !leaks && row.allocated_end + (64 << 20) < baseline.allocated_end {
        // Nothing grows, but what was kept for nothing is gone.
        Status::RootCauseFix
    } else if row.peak_allocated + (1 << 20) < baseline.peak_allocated {
        Status::LowersPeak
    } else {
        Status::NotReproducible
    }
}
