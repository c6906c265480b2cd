//! Runs one row.

use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::config::Config;
use super::known;
use super::patch::{self, Patch};
use super::row::{Row, Status, slope};
use crate::deviation::Deviation;
use crate::device::cuda::{Addresses, CudaDevice};
use crate::device::sim::{SimDevice, SimSpec};
use crate::device::{Device, DeviceError, DeviceKind};
use crate::offload::{Changes, OffloadConfig, Release};
use crate::race::Access;
use crate::recording::{Recording, micros};
use crate::session::{RunError, Session};
use crate::workload::{self, Workload};

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
    /// Where to run.
    pub device: DeviceKind,
    /// Whose addresses a card's run is decided by.
    pub addresses: Addresses,
    /// Steps; `None` for the configuration's own number.
    pub steps: Option<u32>,
    /// The simulated machine, which also decides for a card; a capacity given here replaces the
    /// configuration's.
    pub sim: SimSpec,
    /// Steps, from the first, whose events [`run_recorded`] keeps.
    pub record_steps: u32,
    /// A rule that is broken on purpose.
    pub deviation: Option<Deviation>,
}

impl RunSpec {
    /// A run with the configuration's own inputs.
    pub fn new(config: Config, patches: &[Patch]) -> RunSpec {
        RunSpec {
            config,
            patches: patches.to_vec(),
            device: DeviceKind::Sim,
            addresses: Addresses::default(),
            steps: None,
            sim: SimSpec::default(),
            record_steps: 0,
            deviation: None,
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
    /// Time of the step, in the device's own time.
    pub seconds: f64,
}

/// Opens a device.
///
/// # Errors
/// [`DeviceError::Unavailable`] where there is no card, or its fault.
pub fn open(
    kind: DeviceKind,
    sim: SimSpec,
    addresses: Addresses,
) -> Result<Box<dyn Device>, DeviceError> {
    Ok(match kind {
        DeviceKind::Sim => Box::new(SimDevice::new(sim)),
        DeviceKind::Cuda => Box::new(CudaDevice::new(sim, addresses)?),
    })
}

/// The middle of some figures; 0 of none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Runs the specification. `progress` is called after each step and may
/// end the run by returning `false`.
pub fn run(spec: &RunSpec, progress: &mut dyn FnMut(StepFacts) -> bool) -> Row {
    run_recorded(spec, progress).0
}

/// [`run`], with the events of the first [`RunSpec::record_steps`] steps and the memory at their
/// end. Where the device cannot be opened, the row has run no step, and says why as its crash.
pub fn run_recorded(
    spec: &RunSpec,
    progress: &mut dyn FnMut(StepFacts) -> bool,
) -> (Row, Recording) {
    let mut sim = spec.sim;
    sim.capacity = sim.capacity.or(spec.config.published_capacity());
    let device = match open(spec.device, sim, spec.addresses) {
        Ok(device) => device,
        Err(error) => return (not_started(spec, &error), Recording::default()),
    };
    let mut session = Session::new(device);
    session.deviate(spec.deviation);
    let mut log = Log::default();
    let outcome = run_steps(spec, &mut session, &mut log, progress);
    let row = summarise(spec, &session, &log.facts, outcome.err());
    (row, log.recording)
}

/// What is kept of a run while it runs.
#[derive(Default)]
struct Log {
    facts: Vec<StepFacts>,
    recording: Recording,
}

/// Runs baseline, each applicable patch alone, and the published combination.
pub fn run_matrix(config: Config, steps: Option<u32>, sim: SimSpec) -> Vec<Row> {
    run_rows(config, &config.matrix(), steps, sim)
}

/// Runs the given sets of patches; none is the baseline, which is run in any case, because the
/// status of the others is judged by it.
pub fn run_rows(config: Config, sets: &[Vec<Patch>], steps: Option<u32>, sim: SimSpec) -> Vec<Row> {
    let baseline = [Vec::new()];
    let spec = |patches: &Vec<Patch>| RunSpec {
        config,
        patches: patches.clone(),
        steps,
        sim,
        ..RunSpec::new(config, &[])
    };
    let specs: Vec<RunSpec> = baseline.iter().chain(sets).map(spec).collect();
    run_all(&specs).split_off(1)
}

/// Runs several specifications on all cores.
///
/// Those whose patches leave the same program are run once: P1 and P2 change no line that runs
/// (offload-semantics.md §3.1 and §3.2), and the simulation has no other source of difference. A
/// card runs every specification, one after another.
/// The first row of a configuration without patches is
/// the baseline that its other rows are judged by.
pub fn run_all(specs: &[RunSpec]) -> Vec<Row> {
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
    let mut rows: Vec<Row> = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        let position = distinct.iter().position(|&other| other == first(index));
        let Some(row) = position.and_then(|position| done[position].get()) else {
            continue;
        };
        rows.push(row.relabelled(spec));
    }
    judge(&mut rows);
    rows
}

fn run_distinct(specs: &[RunSpec], distinct: &[usize]) -> Vec<OnceLock<Row>> {
    let done: Vec<OnceLock<Row>> = distinct.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let card = specs.iter().any(|spec| spec.device == DeviceKind::Cuda);
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = if card { 1 } else { cores };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(distinct.len()) {
            scope.spawn(|| {
                while let Some(&index) = distinct.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = run(&specs[index], &mut |_| true);
                    if let Some(slot) = distinct.iter().position(|&other| other == index) {
                        // Each index is taken by one thread only.
                        let _ = done[slot].set(row);
                    }
                }
            });
        }
    });
    done
}

fn judge(rows: &mut [Row]) {
    let baselines: Vec<Row> = rows
        .iter()
        .filter(|row| row.patches.is_empty())
        .cloned()
        .collect();
    for row in rows {
        if let Some(baseline) = baselines
            .iter()
            .find(|baseline| baseline.config == row.config)
        {
            row.status = verdict(row, baseline);
        }
    }
}

/// What actually runs: two specifications with the same program give the same row.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Program {
    config: Config,
    device: DeviceKind,
    addresses: Addresses,
    changes: Changes,
    offloads: bool,
    detached: bool,
    cleared: bool,
    sim: SimSpec,
    deviation: Option<Deviation>,
}

impl Program {
    fn of(spec: &RunSpec) -> Program {
        let base = spec.config.base().map(Release::changes).unwrap_or_default();
        Program {
            config: spec.config,
            device: spec.device,
            addresses: spec.addresses,
            changes: patch::changes(base, &spec.patches),
            offloads: !spec.patches.contains(&Patch::TorchMemoryFix),
            detached: spec.patches.contains(&Patch::LossDetach),
            cleared: spec.patches.contains(&Patch::ClearCtxTensors),
            sim: spec.sim,
            deviation: spec.deviation,
        }
    }
}

impl Row {
    /// The same run under the name of another specification.
    fn relabelled(&self, spec: &RunSpec) -> Row {
        let mut row = Row {
            patches: spec.patches.clone(),
            hypothesis: spec.patches.iter().find_map(|patch| patch.hypothesis()),
            published: known::published(spec.config, &spec.patches),
            measured: known::measured_row(spec.config, &spec.patches),
            ..self.clone()
        };
        row.status = own_verdict(&row);
        row
    }
}

fn run_steps(
    spec: &RunSpec,
    session: &mut Session,
    log: &mut Log,
    progress: &mut dyn FnMut(StepFacts) -> bool,
) -> Result<(), RunError> {
    let steps = spec.steps.unwrap_or(spec.config.default_steps());
    install(spec, session)?;
    let mut workload = workload::build(spec.config, &spec.patches, session)?;
    session.heap().borrow_mut().empty_cache();
    session.accelerator.watch_races();
    let outcome = step_through(spec, steps, workload.as_mut(), session, log, progress);
    if spec.record_steps > 0 && !log.recording.is_finished() {
        log.recording.finish(session, workload.as_ref());
    }
    outcome
}

fn step_through(
    spec: &RunSpec,
    steps: u32,
    workload: &mut dyn Workload,
    session: &mut Session,
    log: &mut Log,
    progress: &mut dyn FnMut(StepFacts) -> bool,
) -> Result<(), RunError> {
    let mut before = session.heap().borrow_mut().device.settle()?;
    for step in 0..steps {
        let start = begin_step(session, step, step < spec.record_steps);
        let outcome = workload.step(session);
        // Faults of the step's work show here at the latest.
        let settled = session.heap().borrow_mut().device.settle();
        let after = settled.as_ref().copied().unwrap_or(before);
        if step < spec.record_steps {
            log.recording.add_step(step, start, session);
        }
        // The events and the memory at their end belong together.
        if step + 1 == spec.record_steps {
            log.recording.finish(session, workload);
        }
        let now = StepFacts {
            seconds: after - before,
            ..step_facts(session, step)
        };
        before = after;
        // A failing step's peak counts, its end does not.
        log.facts.push(now);
        outcome?;
        settled?;
        if step + 1 == WATCHED_STEPS {
            session.accelerator.pause_watching();
        }
        if !progress(now) {
            break;
        }
    }
    Ok(())
}

fn install(spec: &RunSpec, session: &mut Session) -> Result<(), RunError> {
    let offloads = !spec.patches.contains(&Patch::TorchMemoryFix);
    let Some(base) = spec.config.base().filter(|_| offloads) else {
        return Ok(());
    };
    let changes = patch::changes(base.changes(), &spec.patches);
    session.install_offloader(OffloadConfig {
        bitsandbytes_imported: spec.config == Config::QloraBnb,
        deviation: spec.deviation,
        ..OffloadConfig::new(changes)
    })
}

/// Resets peaks and switches recording on or off; returns the time, in microseconds.
fn begin_step(session: &Session, step: u32, record: bool) -> u64 {
    let mut heap = session.heap().borrow_mut();
    heap.caching.begin_step(step);
    heap.caching.reset_peaks();
    if record {
        heap.caching.record_events();
    } else {
        heap.caching.stop_recording();
    }
    micros(heap.device.host_time())
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
        seconds: 0.0,
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
    // A card that has failed cannot say any more; the crash says why.
    let hardware = session.heap().borrow_mut().device.hardware();
    let hardware = hardware.unwrap_or(None);
    let heap = session.heap().borrow();
    let copied = session.accelerator.copied();
    let (races, unordered) = race_counts(session);
    let seconds: Vec<f64> = facts[..completed].iter().map(|step| step.seconds).collect();
    let timed = seconds.get(SETTLED_AFTER..).filter(|rest| !rest.is_empty());
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
        corrupted_tensors: hardware.map_or(unordered, |seen| seen.corrupted_tensors),
        races,
        tracker_end: last.map_or(0, |step| step.tracker),
        bwd_stash_end: last.map_or(0, |step| step.bwd_stash),
        host_pinned_end: last.map_or(0, |step| step.host_pinned),
        d2h_bytes: copied.to_host,
        h2d_bytes: copied.to_device,
        step_seconds: median(timed.unwrap_or(&seconds)),
        device: heap.device.name(),
        hardware,
        status: Status::Baseline,
        hypothesis: spec.patches.iter().find_map(|patch| patch.hypothesis()),
        published: known::published(spec.config, &spec.patches),
        measured: known::measured_row(spec.config, &spec.patches),
    };
    row.status = own_verdict(&row);
    row
}

/// The row of a run whose device could not be opened: nothing ran, so every figure is 0.
fn not_started(spec: &RunSpec, error: &DeviceError) -> Row {
    let mut row = Row {
        config: spec.config.id(),
        base: spec.config.base_name(),
        patches: spec.patches.clone(),
        steps_run: 0,
        peak_allocated: 0,
        peak_reserved: 0,
        allocated_end: 0,
        growth_per_step: 0.0,
        growth_error: 0.0,
        oom_step: None,
        crash: Some(error.to_string()),
        corrupted_tensors: 0,
        races: 0,
        tracker_end: 0,
        bwd_stash_end: 0,
        host_pinned_end: 0,
        d2h_bytes: 0,
        h2d_bytes: 0,
        step_seconds: 0.0,
        device: "none".to_owned(),
        hardware: None,
        status: Status::Crash,
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
    } else if row.patches.is_empty() {
        Status::Baseline
    } else if row.corrupted_tensors > 0 {
        Status::Corruption
    } else {
        Status::NotReproducible
    }
}

/// What a row says beside its baseline.
pub fn verdict(row: &Row, baseline: &Row) -> Status {
    let own = own_verdict(row);
    let inherited = own == Status::Corruption && baseline.corrupted_tensors > 0;
    if own != Status::NotReproducible && !inherited {
        return own;
    }
    let leaks = baseline.growth_per_step > 1e5 || baseline.oom_step.is_some();
    let heals = baseline.corrupted_tensors > 0 && row.corrupted_tensors == 0;
    if baseline.crash.is_some() || heals {
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
