//! `tidemark inspect`: what is in a snapshot.

use super::CliError;
use super::table;
use crate::facts::{DeviceFacts, StepFacts, step_facts};
use crate::ingest::parse;
use crate::questions;
use api::inspect::{Device, Format, Inspection, LeakGroup, Leaks, StepLevels, Steps, Verdict};
use api::timeline::FrameText;
use clap::Args;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use trace::leaks;
use trace::snapshot::Snapshot;
use trace::trace::{DeviceTrace, Series, StepSource, Trace};

const EXAMPLES: &str = "\
Examples:
  tidemark inspect snapshot.pickle
  tidemark inspect --json rank0.pickle.zst rank1.pickle.gz
  tidemark inspect --json snapshot.pickle | jq '.devices[0].allocated.peak'

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
}

/// Prints the summaries.
///
/// # Errors
/// [`CliError::BadInput`] for the first file that cannot be read.
pub fn inspect(args: &InspectArgs) -> Result<(), CliError> {
    let inspected: Result<Vec<Inspection>, CliError> =
        args.files.iter().map(|path| inspect_file(path)).collect();
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
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // `tidemark inspect … | head` has read enough.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(CliError::Failed(
            format!("cannot write the summary: {error}"),
        )),
        _ => Ok(()),
    }
}

fn json(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string_pretty(value).expect("summaries are plain data");
    text + "\n"
}

fn inspect_file(path: &Path) -> Result<Inspection, CliError> {
    let snapshot = read(path).map_err(|why| CliError::BadInput {
        path: path.to_owned(),
        why,
    })?;
    let trace = trace::replay::run(snapshot);
    Ok(summary(path.display().to_string(), &trace))
}

/// Reads and parses at the same time, a few megabytes apart.
pub(super) fn read(path: &Path) -> Result<Snapshot, String> {
    let mut file: Box<dyn Read + Send> = match path.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => {
            let opened = File::open(path);
            Box::new(opened.map_err(|error| format!("cannot open it: {error}"))?)
        }
    };
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

/// Fills buffers until the file ends or nobody wants more.
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
fn summary(file: String, trace: &Trace) -> Inspection {
    let most_steps = trace.devices.iter().max_by_key(|device| {
        (
            device.steps.len(),
            device.events.len(),
            std::cmp::Reverse(device.device),
        )
    });
    Inspection {
        file,
        format: Format {
            pickle_protocol: trace.format.pickle_protocol,
            torch_guess: trace.format.torch_guess.clone(),
        },
        devices: trace.devices.iter().map(device).collect(),
        steps: Steps {
            device: most_steps.map(|device| device.device),
            source: most_steps.map_or(StepSource::None, |device| device.step_source),
            items: most_steps.map_or(Vec::new(), |device| {
                step_facts(device).into_iter().map(step).collect()
            }),
        },
        leaks: leaks(trace),
        quality: trace.quality.clone(),
    }
}

fn device(trace: &DeviceTrace) -> Device {
    let facts = DeviceFacts::of(trace);
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
    }
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
