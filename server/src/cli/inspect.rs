//! `tidemark inspect`: what is in a snapshot.

use super::CliError;
use super::output::{json, print};
use super::table;
use crate::facts::{DeviceFacts, StepFacts, step_facts};
use crate::ingest::parse;
use crate::questions;
use api::frames::FrameText;
use api::inspect::{
    Device, Format, Inspection, LeakGroup, Leaks, LiveBlock, OutOfMemory, Remedy, StepLevels, Steps,
};
use api::leaks::Verdict;
use clap::Args;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use trace::categories::Categories;
use trace::leaks;
use trace::oom;
use trace::snapshot::Snapshot;
use trace::stacks::Stacks;
use trace::steps::{levels, recording};
use trace::tiles::block_label;
use trace::trace::{DeviceTrace, Series, StepSource, Trace};
use trace::units::EventIdx;
use trace::watch::Watch;
use trace::what_if::{self, Tried};

const EXAMPLES: &str = "\
Examples:
  tidemark inspect snapshot.pickle
  tidemark inspect --json rank0.pickle.zst rank1.pickle.gz
  tidemark inspect --json snapshot.pickle | jq '.devices[0].allocated.peak'
  tidemark inspect --json --live snapshot.pickle | jq '.devices[0].live[0]'

Exit status: 0 when every file was read, 2 when one was not.";

/// Bytes read from the file at once.
const PIECE: usize = 1 << 20;

/// Pieces between the thread that reads and the one that parses.
const PIECES: usize = 4;

/// Options of `tidemark inspect`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct InspectArgs {
    /// Snapshots: pickle or JSON, plain or packed with gzip or zstd; `-` is the standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON document: an object for one file, an array for several; sizes in bytes
    #[arg(long)]
    json: bool,
    /// Take this loop's iterations for steps: a key or a word of the line "can be taken for steps"
    #[arg(long, value_name = "LEVEL")]
    steps: Option<String>,
    /// List every block that is allocated at the end, with its category; needs --json
    #[arg(long, requires = "json")]
    live: bool,
}

/// Prints the summaries.
///
/// # Errors
/// [`CliError::BadInput`] for the first file that cannot be read.
pub fn inspect(args: &InspectArgs) -> Result<(), CliError> {
    let inspected: Result<Vec<Inspection>, CliError> = args
        .files
        .iter()
        .map(|path| inspect_file(path, args))
        .collect();
    let mut inspected = inspected?;
    let text = match args.json {
        true if inspected.len() == 1 => json(&inspected.remove(0)),
        true => json(&inspected),
        false => inspected
            .iter()
            .map(table::inspection)
            .collect::<Vec<_>>()
            .join("\n"),
    };
    print(&text)
}

fn inspect_file(path: &Path, args: &InspectArgs) -> Result<Inspection, CliError> {
    let trace = trace_of(path, args.steps.as_deref())?;
    Ok(summary(path.display().to_string(), &trace, args.live))
}

/// Reads a file, and takes another loop's iterations for its steps if a level is named.
pub(super) fn trace_of(path: &Path, level: Option<&str>) -> Result<Trace, CliError> {
    let bad = |why: String| CliError::BadInput {
        path: path.to_owned(),
        why,
    };
    let mut trace = trace::replay::run(read(path).map_err(bad)?);
    if let Some(level) = level {
        levels::recut_all(&mut trace, level).map_err(|why| bad(why.to_string()))?;
    }
    Ok(trace)
}

fn read(path: &Path) -> Result<Snapshot, String> {
    read_from(match path.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => {
            let opened = File::open(path);
            Box::new(opened.map_err(|error| format!("cannot open it: {error}"))?)
        }
    })
}

/// Reads and parses at the same time, a few megabytes apart.
pub(super) fn read_from(mut file: Box<dyn Read + Send>) -> Result<Snapshot, String> {
    std::thread::scope(|scope| {
        let (to_parser, pieces) = sync_channel(PIECES);
        let (to_reader, emptied) = sync_channel(PIECES + 2);
        let reading = scope.spawn(move || read_pieces(&mut *file, &to_parser, &emptied));
        let parsed = parse(recycled(&pieces, &to_reader), &AtomicU64::new(0));
        // Wakes the reader when the parser has stopped early.
        drop(pieces);
        let read = reading
            .join()
            .map_err(|_| "the reading thread panicked".to_owned())?;
        read.map_err(|error| format!("cannot read it: {error}"))?;
        parsed.map_err(|error| error.to_string())
    })
}

/// Fills buffers until the file ends or the parser stops.
fn read_pieces(
    file: &mut dyn Read,
    to_parser: &SyncSender<Vec<u8>>,
    emptied: &Receiver<Vec<u8>>,
) -> std::io::Result<()> {
    loop {
        let mut piece = emptied.try_recv().unwrap_or_default();
        piece.resize(PIECE, 0);
        let filled = match file.read(&mut piece) {
            Ok(filled) => filled,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        piece.truncate(filled);
        if filled == 0 || to_parser.send(piece).is_err() {
            return Ok(());
        }
    }
}

/// Pieces to parse; each goes back to be filled again when the next is asked for.
fn recycled<'c>(
    pieces: &'c Receiver<Vec<u8>>,
    to_reader: &'c SyncSender<Vec<u8>>,
) -> impl Iterator<Item = Piece<'c>> {
    pieces.iter().map(|bytes| Piece { bytes, to_reader })
}

struct Piece<'c> {
    bytes: Vec<u8>,
    to_reader: &'c SyncSender<Vec<u8>>,
}

impl AsRef<[u8]> for Piece<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece<'_> {
    fn drop(&mut self) {
        // The reader may be done.
        let _ = self.to_reader.try_send(std::mem::take(&mut self.bytes));
    }
}

/// The facts of a trace, for people and programs.
pub(super) fn summary(file: String, trace: &Trace, live: bool) -> Inspection {
    let most_steps = trace.devices.iter().max_by_key(|device| {
        (
            device.steps.len(),
            device.events.len(),
            std::cmp::Reverse(device.device),
        )
    });
    let levels = most_steps.map(|device| levels::of_device(device, &trace.stacks));
    let levels = levels.unwrap_or_default();
    Inspection {
        file,
        format: Format {
            pickle_protocol: trace.format.pickle_protocol,
            torch_guess: trace.format.torch_guess.clone(),
        },
        devices: trace
            .devices
            .iter()
            .map(|d| device(d, trace, live))
            .collect(),
        recording: most_steps.map(|device| recording::of_device(device, &trace.stacks)),
        steps: Steps {
            device: most_steps.map(|device| device.device),
            source: most_steps.map_or(StepSource::None, |device| device.step_source),
            chosen: levels.iter().find(|l| l.chosen).map(|l| l.key.clone()),
            levels,
            items: most_steps.map_or(Vec::new(), |device| {
                step_facts(device).into_iter().map(step).collect()
            }),
        },
        leaks: leaks(trace),
        quality: trace.quality.clone(),
    }
}

fn device(trace: &DeviceTrace, whole: &Trace, live: bool) -> Device {
    let stacks = &whole.stacks;
    let facts = DeviceFacts::of(trace);
    let categories = Categories::of(trace, stacks);
    let last = trace.events.len().checked_sub(1).map(EventIdx);
    let peak = facts.series(Series::Allocated).peak_event;
    let by_category = |at| {
        let shares = categories.alive(trace, at).largest_first();
        shares.into_iter().collect()
    };
    Device {
        device: facts.device,
        events: facts.events,
        requested: *facts.series(Series::Requested),
        allocated: *facts.series(Series::Allocated),
        active: *facts.series(Series::Active),
        reserved: *facts.series(Series::Reserved),
        unmatched_frees: facts.unmatched_frees,
        preexisting_blocks: trace.blocks.n_preexisting,
        fidelity: facts.fidelity,
        categories_at_end: by_category(last),
        categories_at_peak: by_category(peak),
        live: live.then(|| live_blocks(trace, stacks, &categories, last)),
        out_of_memory: out_of_memory(trace, stacks, &categories),
        remedies: remedies(trace, whole),
    }
}

/// The blocks that are allocated at an event, by address.
fn live_blocks(
    trace: &DeviceTrace,
    stacks: &Stacks,
    categories: &Categories,
    at: Option<EventIdx>,
) -> Vec<LiveBlock> {
    let blocks = &trace.blocks;
    let mut alive: Vec<_> = trace::categories::alive(trace, at).collect();
    alive.sort_by_key(|block| blocks.addr[block.index()]);
    let alive = alive.into_iter();
    alive
        .map(|block| LiveBlock {
            address: blocks.addr[block.index()].to_string(),
            size: blocks.kind(block).size,
            category: categories.get(block),
            inferred: !trace::categories::is_recorded(stacks, trace.blocks.kind(block)),
            site: block_label(trace, stacks, block),
        })
        .collect()
}

/// What would have got past the first failed allocation; `None` where that cannot be told.
fn remedies(device: &DeviceTrace, trace: &Trace) -> Option<Vec<Remedy>> {
    if oom::count(device) == 0 {
        return None;
    }
    let own = what_if::own_settings(&trace.format, device);
    let report = leaks::find(device, &trace.stacks, &trace.quality);
    let leaks = what_if::Early::leaks(device, &trace.stacks, &report);
    let tried = Tried {
        leaks: Some(&leaks),
        batch: None,
    };
    let found = what_if::remedies(device, &own, tried, Watch::nobody()).ok()??;
    let remedies = found.remedies.into_iter().map(|remedy| Remedy {
        change: remedy.change.to_string(),
        peak_reserved: remedy.outcome.peak_reserved,
        retries: remedy.outcome.retries,
    });
    Some(remedies.collect())
}

/// Failed allocations, and what was held when they failed.
fn out_of_memory(
    device: &DeviceTrace,
    stacks: &Stacks,
    categories: &Categories,
) -> Vec<OutOfMemory> {
    let failures = oom::failures(device).into_iter().map(|failure| {
        let held = categories.alive(device, Some(failure.event));
        let frame = stacks.headline(failure.stack);
        OutOfMemory {
            event: failure.event,
            step: failure.step,
            asked: failure.asked,
            free: failure.free,
            limit: failure.limit(),
            allocated: failure.allocated,
            reserved: failure.reserved,
            frame: frame.map(|frame| FrameText {
                name: stacks.str(frame.name).to_owned(),
                filename: stacks.str(frame.filename).to_owned(),
                line: frame.line,
            }),
            held: held.largest_first().into_iter().collect(),
        }
    });
    failures.collect()
}

fn step(facts: StepFacts) -> StepLevels {
    StepLevels {
        index: facts.step.index,
        name: facts.step.name,
        first_event: facts.step.events.start(),
        end_event: facts.step.events.end(),
        allocated_end: facts.allocated_end,
        allocated_peak: facts.allocated_peak,
        reserved_end: facts.reserved_end,
        requested_end: facts.requested_end,
    }
}

/// What is left behind, step after step: the worst verdict of any device, and all groups.
fn leaks(trace: &Trace) -> Leaks {
    let reports = leaks::of_trace(trace);
    let Some(worst) = leaks::worst(&reports) else {
        return Leaks {
            verdict: Verdict::CannotTell,
            reason: "no device holds memory or events".to_owned(),
            groups: Vec::new(),
        };
    };
    let devices = trace.devices.iter().zip(reports);
    let reports: Vec<_> = devices
        .map(|(d, report)| questions::named(trace, d, report))
        .collect();
    let worst = &reports[worst];
    let reasons = std::iter::once(&worst.reason).chain(&worst.caveats);
    let reason: Vec<&str> = reasons.map(String::as_str).collect();
    let groups = reports.iter().flat_map(|report| &report.groups);
    Leaks {
        verdict: worst.verdict,
        reason: reason.join("; "),
        groups: groups.map(leak_group).collect(),
    }
}

fn leak_group(group: &api::leaks::LeakGroup) -> LeakGroup {
    let frame = group.frame.clone().or_else(|| group.alloc_frame.clone());
    let unknown = || FrameText {
        name: "no stack recorded".to_owned(),
        filename: String::new(),
        line: 0,
    };
    LeakGroup {
        bytes_per_step: group.bytes_per_step,
        count_per_step: group.count_per_step,
        live_bytes: group.live_bytes,
        frame: frame.unwrap_or_else(unknown),
        confidence: group.confidence,
        site: group.site.clone(),
        pattern: group.pattern,
        every: group.every,
        slope_error: group.slope_error,
        first_step: group.first_step,
        last_step: group.last_step,
        live_count: group.live_count,
        frame_inferred: group.frame_inferred,
        forward: group.forward.clone(),
    }
}
