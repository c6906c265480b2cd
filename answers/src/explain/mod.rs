//! Explains a recording: what it is, what held its memory, what leaks, how memory was laid out, why
//! it ran out, and what would have helped.
//!
//! ```text
//! moment     what was held at a moment: by category and by place in the code
//! room       where memory lay then: pools, gaps, what pins segments
//! failure    the first failed allocation: what refused it, its cause, what gets past it
//! advice     what to try where nothing failed
//! lowers     what lowers the largest part of what was held
//! peak       how the step of the peak differs from the others, and what it still held
//! words      why, and what would have helped, in sentences
//! ended      how the run ended, where a bench knows it
//! page       all of it as a page of Markdown
//! ```
//!
//! `docs/explain.md` describes the parts of an explanation and their sources.

mod advice;
mod ended;
mod failure;
mod lowers;
mod moment;
mod page;
mod peak;
mod room;
#[cfg(test)]
mod tests;
mod words;

pub use ended::beside;
pub use page::page;

use crate::elsewhere::{Elsewhere, elsewhere};
use crate::names::frame_text;
use crate::places::Places;
use crate::questions;
use crate::texts::OwnNames;
use api::explain::{DeviceExplained, Explanation, LeakExplained, Leaks, OtherDevice};
use api::frames::FrameText;
use trace::categories::Categories;
use trace::code;
use trace::known::Unknown;
use trace::leaks::{self, LeakGroup, LeakReport, Leaking, Pattern, Verdict};
use trace::oom;
use trace::phases::Phases;
use trace::site;
use trace::stacks::{Frame, StackIdx, Stacks};
use trace::steps::{Word, recording};
use trace::trace::{DeviceTrace, Series, Trace, is_of_engine};
use trace::units::Bytes;
use trace::watch::{Stopped, Watch};
use trace::what_if;

/// The share of a leak from which on it is told how much of it the program requested.
const RESTS: f64 = 0.01;
/// The largest number of entries in any list of an explanation, except lists of other devices,
/// categories and findings.
pub const MOST_LISTED: usize = 16;

/// Version of the texts and of the verdict in them; part of the entity tags of pages.
pub const VERSION: u32 = 24 << 16 | api::leaks::Leaks::VERSION;

/// The version of explanations that are stored, where these names hold.
pub fn version(own: OwnNames) -> u32 {
    match own {
        OwnNames::NONE => VERSION,
        // Versions without names are far below.
        OwnNames(key) => (key ^ key >> 32) as u32 | 1 << 31,
    }
}

/// Leak groups listed.
const GROUPS: usize = 5;
/// Frames of a stack listed.
const FRAMES: usize = 8;

/// One device, with everything that is known about it.
struct Look<'a> {
    trace: &'a Trace,
    device: &'a DeviceTrace,
    watch: Watch<'a>,
    categories: Categories,
    phases: Phases,
    report: LeakReport,
    leaks: Leaks,
    /// The limit of the process, if somebody tells it.
    limit: Option<Bytes>,
}

impl<'a> Look<'a> {
    fn stacks(&self) -> &'a Stacks {
        &self.trace.stacks
    }

    /// Tells what leaks; without a verdict nothing does.
    fn leaking(&self) -> Leaking<'a> {
        let groups: &[LeakGroup] = match self.report.verdict {
            Verdict::Leak => &self.report.groups,
            _ => &[],
        };
        Leaking::of(self.device, self.stacks(), groups)
    }
}

/// Why a device cannot have been recorded under this limit, in words; `None` if it can.
///
/// # Errors
/// [`Stopped`].
pub fn refusal_of(
    limit: Option<Bytes>,
    trace: &Trace,
    device: Option<&DeviceTrace>,
    watch: Watch<'_>,
) -> Result<Option<String>, Stopped> {
    let Some((limit, device)) = limit.zip(device) else {
        return Ok(None);
    };
    if device.device.is_pinned() {
        return Ok(Some(
            "pinned host memory has no limit of its own".to_owned(),
        ));
    }
    let own = what_if::own_settings(&trace.format, device);
    let why = what_if::contradiction(device, &own, limit, watch)?;
    Ok(why.map(|why| why.to_string()))
}

/// Explains a file, and one of its devices, under the limit that somebody tells. One that
/// [`refusal_of`] refuses would not be believed.
///
/// # Errors
/// [`Stopped`]: half an explanation would blame whatever it has seen so far.
pub fn explain(
    file: &str,
    trace: &Trace,
    device: Option<&DeviceTrace>,
    limit: Option<Bytes>,
    watch: Watch<'_>,
) -> Result<Explanation, Stopped> {
    let concerns = |device: &DeviceTrace| {
        let notes = trace.quality.iter();
        let notes = notes.filter(|note| note.concerns(device.device));
        notes.cloned().collect()
    };
    let explained = device.map(|device| explained(trace, device, limit, watch));
    let others = elsewhere(trace, device.map(|device| device.device), watch);
    let other_devices: Vec<_> = others.map(|other| other_device(trace, &other)).collect();
    // A search that was stopped says nothing about the recording.
    watch.look(0)?;
    Ok(Explanation {
        file: file.to_owned(),
        bench_row: None,
        limit,
        torch: (trace.format.torch_guess.clone()).filter(|_| !is_of_engine(&trace.format.settings)),
        device: explained.transpose()?.map(|mut device| {
            // Behind the leak of its own.
            let at = usize::from(device.leaks.verdict == Verdict::Leak).min(device.to_try.len());
            device
                .to_try
                .splice(at..at, advice::of_others(&other_devices));
            device
        }),
        other_devices,
        notes: device.map_or_else(|| trace.quality.clone(), concerns),
    })
}

fn other_device(trace: &Trace, other: &Elsewhere) -> OtherDevice {
    let device = trace.with_pinned().find(|d| d.device == other.device);
    let peak = |series| device.map_or(Bytes::ZERO, |d| d.summary[series as usize].peak);
    OtherDevice {
        device: other.device,
        events: device.map_or(0, |device| device.events.len()),
        peak_allocated: peak(Series::Allocated),
        peak_reserved: peak(Series::Reserved),
        out_of_memory: other.out_of_memory,
        verdict: other.verdict,
        trouble: other.trouble(),
        leaking_place: (other.foremost.as_ref()).map(|group| moment::leaking(&trace.stacks, group)),
    }
}

fn explained(
    trace: &Trace,
    device: &DeviceTrace,
    limit: Option<Bytes>,
    watch: Watch<'_>,
) -> Result<DeviceExplained, Stopped> {
    let report = leaks::find_while(device, &trace.stacks, &trace.quality, watch);
    // If the search for leaks was stopped, its report says "cannot tell", which is not true of the
    // recording.
    watch.look(0)?;
    let (categories, phases) = Categories::with_phases(device, &trace.stacks, watch)?;
    let look = Look {
        trace,
        device,
        watch,
        categories,
        phases,
        limit,
        leaks: leaks(trace, device, &report, watch),
        report,
    };
    let allocated = device.summary[Series::Allocated as usize];
    let mut places = Places::new(device, look.stacks());
    let peak = moment::at(&look, &mut places, allocated.peak_event)?;
    let unknown = Unknown::of(device.device, &trace.quality);
    let room = match unknown.hides_reserved() {
        true => None,
        false => room::at(&look, &mut places, allocated.peak_event),
    };
    let room_at_reserved = room.as_ref();
    let room_at_reserved =
        room_at_reserved.and_then(|room| room::at_reserved(&look, &mut places, room));
    let out_of_memory = failure::explained(&look, &mut places)?;
    let (mut unlike, mut outlived) = (None, None);
    let (to_try, other_settings) = match out_of_memory {
        Some(_) => (Vec::new(), None),
        None => {
            let peaking = peak::at(&look, &peak)?;
            (unlike, outlived) = peak::told(&look, &mut places, (peak.event, &peaking));
            let peaking = (&peaking, outlived.as_ref());
            advice::of(&look, &mut places, &peak, peaking, &unknown)?
        }
    };
    Ok(DeviceExplained {
        device: device.device,
        events: device.events.len(),
        recording: recording::of_device_while(device, &trace.stacks, watch)?,
        step_source: device.step_source,
        steps: device.steps.len() as u32,
        fidelity: device.fidelity,
        allocated,
        reserved: device.summary[Series::Reserved as usize],
        unknown,
        peak: (allocated.peak.0 > 0).then_some(peak),
        categories_unknown: look.categories.why_unknown().map(str::to_owned),
        unlike,
        outlived,
        room,
        room_at_reserved,
        other_settings,
        out_of_memory,
        passed_over: oom::passed_over(device).len() as u64,
        to_try,
        leaks: look.leaks,
    })
}

/// What is left behind, with the stacks of the program.
fn leaks(trace: &Trace, device: &DeviceTrace, report: &LeakReport, watch: Watch<'_>) -> Leaks {
    let named = questions::named(trace, device, report.clone(), watch);
    let word = Word::of(&device.steps);
    let groups = named.groups.iter().zip(&report.groups).take(GROUPS);
    Leaks {
        verdict: named.verdict,
        reason: named.reason.clone(),
        caveats: named.caveats.clone(),
        reserved_growth: named.reserved_growth.clone(),
        bytes_per_step: named.bytes_per_step,
        rate: report.rate(),
        groups_left_out: report.groups.len().saturating_sub(GROUPS) as u64,
        groups: groups
            .map(|(group, found)| LeakExplained {
                place: moment::leaking(&trace.stacks, found),
                made_in: group.made_in.clone(),
                pattern: group.pattern,
                bytes_per_step: group.bytes_per_step,
                requested_per_step: requested(device, found),
                counted_by: leaks::counted_by(found.is_within(), word),
                count_per_step: group.count_per_step,
                live_bytes: group.live_bytes,
                confidence: group.confidence,
                forward: group.forward.as_ref().map(|forward| forward.label.clone()),
                stack: own_frames(&trace.stacks, found.stack),
                caller: caller(&trace.stacks, found),
            })
            .collect(),
    }
}

/// What the program requests of a leak's rate; `None` if that is about all of it. The allocator
/// gives a block the rest of its segment, too, if that is too small to split off.
fn requested(device: &DeviceTrace, group: &LeakGroup) -> Option<f64> {
    let is_rate_of_blocks = matches!(group.pattern, Pattern::EveryStep | Pattern::EveryNth(_));
    let knows_all = group.evidence.len() as u64 == group.live_count && group.live_count > 0;
    let kinds = group.evidence.iter().map(|&at| device.blocks.kind(at));
    let asked: u64 = kinds.map(|kind| kind.requested.0).sum();
    let rate = group.count_per_step * asked as f64 / group.live_count.max(1) as f64;
    let is_less = rate > 0.0 && rate <= group.bytes_per_step * (1.0 - RESTS);
    (is_rate_of_blocks && knows_all && is_less).then_some(rate)
}

/// The frames of a stack that are not PyTorch's, innermost first.
pub fn own_frames(stacks: &Stacks, stack: StackIdx) -> Vec<FrameText> {
    let own = outside_torch(stacks, stack).take(FRAMES);
    own.map(|frame| frame_text(stacks, frame)).collect()
}

fn outside_torch(stacks: &Stacks, stack: StackIdx) -> impl Iterator<Item = Frame> + '_ {
    let frames = stacks.frames(stack).iter();
    let frames = frames.map(|&frame| stacks.frame(frame));
    let is_generated = |frame: &Frame| code::is_generated(stacks.str(frame.filename));
    frames.filter(move |frame| !site::is_framework(stacks, *frame) && !is_generated(frame))
}

/// The innermost line of the program itself, for a place in a package.
fn caller(stacks: &Stacks, found: &LeakGroup) -> Option<FrameText> {
    let place = found.frame.or(found.alloc_frame)?;
    let own = leaks::caller(stacks, found.stack, place)?;
    Some(frame_text(stacks, own))
}
