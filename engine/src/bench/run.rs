//! Runs one row.

use std::ops::ControlFlow;

use api::bench::{BenchResult, BenchStep, DeviceKind};

use super::spec::{CopyStream, RunSpec};
use crate::device::cuda::{Addresses, CudaDevice};
use crate::device::sim::{SimDevice, SimSpec};
use crate::device::{Device, DeviceError, Ordinal, micros};
use crate::offload::OffloadConfig;
use crate::recording::Recording;
use crate::repeat::{Interrupted, Repetition, Scripts, Steps, Watch};
use crate::session::{RunError, Session};
use crate::workload::Workload;
use trace::growth::Line;
use trace::units::Bytes;

/// How many first steps differ from the rest, because they make optimizer state and workspaces
/// (docs/measurements.md, "The 9B program").
const SETTLED_AFTER: usize = 5;

/// Opens a device.
///
/// # Errors
/// [`DeviceError::Unavailable`] if there is no card, or the card's fault.
pub fn open(
    kind: DeviceKind,
    sim: SimSpec,
    addresses: Addresses,
    ordinal: Ordinal,
) -> Result<Box<dyn Device>, DeviceError> {
    Ok(match kind {
        DeviceKind::Sim => Box::new(SimDevice::new(sim)),
        DeviceKind::Cuda => Box::new(CudaDevice::new(sim, addresses, ordinal)?),
    })
}

/// The median of the values; 0 if there are none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Runs the specification. `progress` is called after each step and may
/// end the run by returning `false`.
pub fn run(spec: &RunSpec, progress: &mut dyn FnMut(BenchStep) -> bool) -> BenchResult {
    run_recorded(spec, progress).0
}

/// [`run`], with the events of the first [`RunSpec::record_steps`] steps and the memory after them.
/// If the program cannot be built, the events are those of building. If the device cannot be
/// opened, the run has no steps, and its crash says why.
pub fn run_recorded(
    spec: &RunSpec,
    progress: &mut dyn FnMut(BenchStep) -> bool,
) -> (BenchResult, Recording) {
    let (result, log) = run_logged(spec, progress);
    (result, log.recording)
}

/// [`run_recorded`], with everything that is kept about the run.
pub(super) fn run_logged(
    spec: &RunSpec,
    progress: &mut dyn FnMut(BenchStep) -> bool,
) -> (BenchResult, Log) {
    let mut reported = 0;
    let (result, log) = run_once(spec, &mut |fact| {
        reported += 1;
        progress(fact)
    });
    if !log.interrupted {
        return (result, log);
    }
    // The same steps again, which were already reported, and then the steps after them.
    let spec = RunSpec {
        computed: Steps::Compute,
        ..spec.clone()
    };
    run_once(&spec, &mut |fact| match reported {
        0 => progress(fact),
        _ => {
            reported -= 1;
            true
        }
    })
}

fn run_once(spec: &RunSpec, progress: &mut dyn FnMut(BenchStep) -> bool) -> (BenchResult, Log) {
    let device = match open(spec.device, spec.machine(), spec.addresses, spec.ordinal) {
        Ok(device) => device,
        Err(error) => return (not_started(&error), Log::default()),
    };
    let mut session = Session::new(device);
    session.deviate(spec.deviation);
    let mut log = Log::default();
    log.recording.of_device(spec.ordinal);
    let outcome = run_steps(spec, &mut session, &mut log, progress);
    let mut result = summarise(&session, &log.facts, outcome.err());
    result.began = (result.steps_run == 0).then_some(log.began);
    #[cfg(test)]
    if let Some(detector) = session.accelerator.detector() {
        log.races = detector.races().cloned().collect();
    }
    (result, log)
}

/// What is kept of a run while it runs.
#[derive(Default)]
pub(super) struct Log {
    pub facts: Vec<BenchStep>,
    pub recording: Recording,
    /// Whether the program was built, so that its first step began.
    pub began: bool,
    /// Steps that were written down instead of computed.
    pub written_down: u32,
    /// Steps that were played from a script.
    pub played: u32,
    /// Races between two places, with how often each was found.
    #[cfg(test)]
    pub races: Vec<crate::race::Race>,
    /// Whether a step failed while it was played: then the result cannot be used.
    interrupted: bool,
}

fn run_steps(
    spec: &RunSpec,
    session: &mut Session,
    log: &mut Log,
    progress: &mut dyn FnMut(BenchStep) -> bool,
) -> Result<(), RunError> {
    let steps = spec.planned_steps();
    let mut workload = build(spec, session, log)?;
    log.began = true;
    session.heap().borrow_mut().empty_cache();
    session.accelerator.watch_races();
    let outcome = step_through(spec, steps, workload.as_mut(), session, log, progress);
    if spec.record_steps > 0 && !log.recording.is_finished() {
        log.recording.finish(session, Some(workload.as_ref()));
    }
    outcome
}

fn step_through(
    spec: &RunSpec,
    steps: u32,
    workload: &mut dyn Workload,
    session: &mut Session,
    log: &mut Log,
    progress: &mut dyn FnMut(BenchStep) -> bool,
) -> Result<(), RunError> {
    let mut before = session.heap().borrow_mut().device.settle()?;
    let mut watch = Watch::new(spec.computed);
    let mut scripts = Scripts::new(spec.computed);
    let mut step = 0;
    while step < steps {
        let start = begin_step(session, step, step < spec.record_steps);
        let played = scripts.play(session);
        log.played += u32::from(played.is_some());
        let outcome = played.unwrap_or_else(|| workload.step(session));
        let outcome = outcome.and_then(|()| session.read_loss());
        // If the step's work failed, the error shows here at the latest.
        let settled = session.heap().borrow_mut().device.settle();
        if scripts.is_written() && (outcome.is_err() || settled.is_err()) {
            log.interrupted = true;
            break;
        }
        let after = settled.as_ref().copied().unwrap_or(before);
        if step < spec.record_steps {
            log.recording.add_step(step, start, session);
        }
        // Events and memory must be from the same moment.
        if step + 1 == spec.record_steps {
            log.recording.finish(session, Some(workload));
        }
        let now = BenchStep {
            seconds: after - before,
            ..step_facts(session, step)
        };
        before = after;
        // If a step fails, its peak counts, but its end does not.
        log.facts.push(now);
        outcome?;
        settled?;
        if !progress(now) {
            break;
        }
        step += 1;
        if step < spec.record_steps {
            continue;
        }
        if let Some(again) = watch.look(session, workload, &log.facts) {
            let goes_on;
            (before, goes_on) = jump(again, steps, before, session, log, progress);
            step = log.facts.len() as u32;
            if !goes_on {
                break;
            }
        }
        if let Err(Interrupted) = scripts.consider(session, workload, &watch, &log.facts) {
            log.interrupted = true;
            break;
        }
    }
    Ok(())
}

/// Writes down steps that repeat. Returns when the last one ended, and whether the run continues.
fn jump(
    mut again: Repetition,
    steps: u32,
    before: f64,
    session: &mut Session,
    log: &mut Log,
    progress: &mut dyn FnMut(BenchStep) -> bool,
) -> (f64, bool) {
    let mut goes_on = true;
    let next = log.facts.len() as u32;
    let before = again.write_down(next, steps, before, &mut |fact| {
        log.facts.push(fact);
        log.written_down += 1;
        goes_on = progress(fact);
        if goes_on {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    again.go_on(session);
    (before, goes_on)
}

/// Builds the program. What happens meanwhile is recorded only if this fails.
fn build(
    spec: &RunSpec,
    session: &mut Session,
    log: &mut Log,
) -> Result<Box<dyn Workload>, RunError> {
    let records = spec.record_steps > 0;
    if records {
        let mut heap = session.heap().borrow_mut();
        heap.caching.record_events();
        heap.host.record_events();
    }
    let built = install(spec, session);
    let built = built.and_then(|()| spec.system.spec.build(&spec.patches, session));
    if built.is_err() && records {
        log.recording.add_building(session);
        log.recording.finish(session, None);
    }
    let mut heap = session.heap().borrow_mut();
    heap.caching.forget_recording();
    heap.host.stop_recording();
    drop(heap);
    built
}

fn install(spec: &RunSpec, session: &mut Session) -> Result<(), RunError> {
    session.surround(spec.around())?;
    let Some(changes) = spec.offloader_changes() else {
        return Ok(());
    };
    session.install_offloader(OffloadConfig {
        use_streams: spec.copies == CopyStream::Side,
        bitsandbytes_imported: spec.system.bitsandbytes,
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
        heap.host.record_events();
    } else {
        heap.caching.stop_recording();
        heap.host.stop_recording();
    }
    micros(heap.device.host_time())
}

fn step_facts(session: &Session, step: u32) -> BenchStep {
    let heap = session.heap().borrow();
    let stats = heap.caching.stats();
    let (tracker, bwd_stash) = session.offloader().map_or((0, 0), |offloader| {
        (
            offloader.tracked(),
            offloader.backward_stash().count() as u64,
        )
    });
    BenchStep {
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

fn summarise(session: &Session, facts: &[BenchStep], failure: Option<RunError>) -> BenchResult {
    let completed = facts.len() - usize::from(failure.is_some() && !facts.is_empty());
    let (growth_per_step, growth_error) = slope_of(&facts[..completed], |step| step.allocated);
    let (host_growth_per_step, _) = slope_of(&facts[..completed], |step| step.host_pinned);
    let last = completed.checked_sub(1).and_then(|index| facts.get(index));
    let oom = failure.as_ref().is_some_and(RunError::is_out_of_memory);
    // If the card has failed, it cannot answer any more; the crash says why.
    let hardware = session.heap().borrow_mut().device.hardware();
    let hardware = hardware.unwrap_or(None);
    let heap = session.heap().borrow();
    let copied = session.accelerator.copied();
    let (races, spoilt) = race_counts(session);
    let seconds: Vec<f64> = facts[..completed].iter().map(|step| step.seconds).collect();
    let timed = seconds.get(SETTLED_AFTER..).filter(|rest| !rest.is_empty());
    let peaks = facts.iter().map(|step| step.peak_allocated).max();
    // Without a step it is the peak of building.
    let peak = peaks.unwrap_or_else(|| heap.caching.highest_allocated());
    BenchResult {
        device: match heap.device.compute() {
            Some(compute) => format!("{}, {compute}", heap.device.name()),
            None => heap.device.name(),
        },
        steps_run: completed as u32,
        peak_allocated: peak,
        peak_reserved: heap.caching.highest_reserved(),
        began: None,
        allocated_end: last.map_or(Bytes::ZERO, |step| step.allocated),
        growth_per_step,
        growth_error,
        host_growth_per_step,
        oom_step: oom.then_some(completed as u32),
        crash: failure.filter(|_| !oom).map(|error| error.to_string()),
        corrupted_tensors: hardware.map_or(spoilt, |seen| seen.corrupted_tensors),
        races,
        tracker_end: last.map_or(0, |step| step.tracker),
        bwd_stash_end: last.map_or(0, |step| step.bwd_stash),
        host_pinned_end: last.map_or(Bytes::ZERO, |step| step.host_pinned),
        host_pinned_peak: Some(heap.host.reserved()),
        d2h_bytes: copied.to_host,
        h2d_bytes: copied.to_device,
        step_seconds: median(timed.unwrap_or(&seconds)),
        card: hardware,
    }
}

/// Slope of a level at the ends of steps, and its standard error, by the rule of [`trace::growth`]:
/// the row says what the page of its run says. [`api::bench::FEWEST_STEPS`] says when it means
/// anything.
fn slope_of(steps: &[BenchStep], level: impl Fn(&BenchStep) -> Bytes) -> (f64, f64) {
    let ends: Vec<u64> = steps.iter().map(|step| level(step).0).collect();
    Line::settled(&ends).map_or((0.0, 0.0), |line| {
        (line.slope, line.standard_error.unwrap_or(0.0))
    })
}

/// The result if the device could not be opened: nothing ran, and every figure is 0.
fn not_started(error: &DeviceError) -> BenchResult {
    BenchResult {
        device: "none".to_owned(),
        began: Some(false),
        crash: Some(error.to_string()),
        host_pinned_peak: Some(Bytes::ZERO),
        ..BenchResult::default()
    }
}

/// The number of racing pairs of places, and of kernels and copies that may have used wrong bytes.
fn race_counts(session: &Session) -> (u64, u64) {
    let Some(detector) = session.accelerator.detector() else {
        return (0, 0);
    };
    (detector.races().count() as u64, detector.spoilt())
}
