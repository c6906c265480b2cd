//! What `tidemark inspect` shows of a recording: facts, as a document and as text.

mod text;

pub use text::{of_all, of_device, text};
use trace::device::DeviceIdx;

use answers::facts::{DeviceFacts, StepFacts, step_facts};
use answers::{explain, questions};
use api::frames::FrameText;
use api::inspect::{
    Device, Format, Inspection, LeakGroup, Leaks, LiveBlock, OutOfMemory, Remedy, StepLevels, Steps,
};
use api::leaks::{Pattern, Verdict};
use std::collections::BTreeMap;
use trace::categories::Categories;
use trace::known::Unknown;
use trace::leaks::{self, Weight};
use trace::main_device;
use trace::oom;
use trace::redact::step_in_words;
use trace::stacks::Stacks;
use trace::steps::recording::{self, Recording};
use trace::steps::{Word, choices};
use trace::tiles::block_label;
use trace::trace::{DeviceTrace, QualityNote, Series, StepSource, Trace, is_of_engine};
use trace::units::{Bytes, EventIdx};
use trace::watch::{Stopped, Watch};
use trace::what_if::{self, LimitSeen, Replay, Tried};

/// Whether the blocks that are alive at the end are listed one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Live {
    /// Each with its address.
    Listed,
    /// Only their sums.
    Summed,
}

/// What is inspected: a trace, and which of its devices.
#[derive(Clone, Copy)]
pub struct Inspected<'a> {
    /// The recording.
    pub trace: &'a Trace,
    /// One of its devices, or all.
    pub only: Option<&'a DeviceTrace>,
    /// The limit of the process, if somebody tells it.
    pub limit: Option<Bytes>,
}

impl<'a> Inspected<'a> {
    /// Its devices, without the pinned memory of the host.
    fn devices(self) -> impl Iterator<Item = &'a DeviceTrace> {
        let devices = self.trace.devices.iter();
        devices.filter(move |device| self.wants(device))
    }

    /// Why the device that is told about cannot have been recorded under the limit that somebody
    /// tells; `None` if it can.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn refusal(self, watch: Watch<'_>) -> Result<Option<String>, Stopped> {
        let device = self.only.or_else(|| main_device::of(self.trace));
        explain::refusal_of(self.limit, self.trace, device, watch)
    }

    /// The pinned memory of the host.
    fn pinned(self) -> Option<&'a DeviceTrace> {
        let pinned = self.trace.pinned.as_ref();
        pinned.filter(|pinned| self.wants(pinned))
    }

    /// What is judged. The pinned memory of the host has steps and leaks of its own, for who asks
    /// about it.
    fn judged(self) -> Vec<&'a DeviceTrace> {
        match self.only {
            Some(only) => vec![only],
            None => self.devices().collect(),
        }
    }

    fn wants(self, found: &DeviceTrace) -> bool {
        self.only.is_none_or(|only| only.device == found.device)
    }
}

/// What memory held on each device.
pub struct Memory {
    devices: Vec<Device>,
    pinned: Option<Device>,
}

impl Memory {
    /// Sums blocks by category.
    ///
    /// # Errors
    /// [`Stopped`]: incomplete facts would be wrong.
    pub fn of(subject: Inspected<'_>, live: Live, watch: Watch<'_>) -> Result<Memory, Stopped> {
        let devices = subject.devices();
        let devices = devices.map(|d| device(d, subject, live, watch));
        let pinned = subject.pinned();
        let pinned = pinned.map(|p| device(p, subject, live, watch));
        Ok(Memory {
            devices: devices.collect::<Result<_, _>>()?,
            pinned: pinned.transpose()?,
        })
    }
}

/// What the program did, and what it leaves behind.
pub struct Judgement {
    recording: Option<Recording>,
    steps: Steps,
    leaks: Leaks,
}

impl Judgement {
    /// Looks for loops and leaks.
    ///
    /// # Errors
    /// [`Stopped`]: an incomplete verdict would be wrong.
    pub fn of(subject: Inspected<'_>, watch: Watch<'_>) -> Result<Judgement, Stopped> {
        let Inspected { trace, .. } = subject;
        let judged = subject.judged();
        let told = judged.iter().copied();
        let told = told.max_by_key(|device| main_device::weight_of(device));
        let levels = told.map(|device| choices::of_device(device, &trace.stacks));
        let levels = levels.unwrap_or_default();
        Ok(Judgement {
            recording: told.map(|device| recording::of_device(device, &trace.stacks)),
            steps: Steps {
                device: told.map(|device| device.device),
                source: told.map_or(StepSource::None, |device| device.step_source),
                chosen: levels.iter().find(|l| l.chosen).map(|l| l.key.clone()),
                levels,
                items: told.map_or(Vec::new(), |device| steps(device, &trace.quality)),
            },
            leaks: leaks(subject, watch)?,
        })
    }
}

/// The facts, for people and programs.
pub fn of(
    file: String,
    subject: Inspected<'_>,
    memory: Memory,
    judgement: Judgement,
) -> Inspection {
    let Inspected { trace, only, .. } = subject;
    let concerns = |note: &&QualityNote| only.is_none_or(|only| note.concerns(only.device));
    Inspection {
        file,
        format: Format {
            pickle_protocol: trace.format.pickle_protocol,
            torch_guess: trace.format.torch_guess.clone(),
            engine: is_of_engine(&trace.format.settings),
        },
        devices: memory.devices,
        pinned: memory.pinned,
        recording: judgement.recording,
        steps: judgement.steps,
        leaks: judgement.leaks,
        quality: trace.quality.iter().filter(concerns).cloned().collect(),
    }
}

fn device(
    trace: &DeviceTrace,
    subject: Inspected<'_>,
    live: Live,
    watch: Watch<'_>,
) -> Result<Device, Stopped> {
    let stacks = &subject.trace.stacks;
    let facts = DeviceFacts::of(trace);
    let categories = Categories::of_while(trace, stacks, watch)?;
    let last = trace.events.len().checked_sub(1).map(EventIdx);
    let peak = facts.series(Series::Allocated).peak_event;
    let unknown = Unknown::of(trace.device, &subject.trace.quality);
    let by_category = |at| {
        let shares = categories.alive(trace, at).largest_first();
        shares.into_iter().collect()
    };
    Ok(Device {
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
        categories_at_peak: match unknown.is_of_state() {
            true => BTreeMap::new(),
            false => by_category(peak),
        },
        unknown,
        categories_unknown: categories.why_unknown().map(str::to_owned),
        inferred: categories.inferred(trace, stacks),
        live: (live == Live::Listed).then(|| live_blocks(trace, stacks, &categories, last)),
        out_of_memory: out_of_memory(trace, subject, &categories, watch)?,
        remedies: remedies(trace, subject, watch)?,
    })
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
            inferred: trace::categories::is_inferred(
                stacks,
                trace.blocks.kind(block),
                categories.get(block),
            ),
            site: block_label(trace, stacks, block),
        })
        .collect()
}

/// The changes that would have got past the first failed allocation; `None` if they are not known.
fn remedies(
    device: &DeviceTrace,
    Inspected { trace, limit, .. }: Inspected<'_>,
    watch: Watch<'_>,
) -> Result<Option<Vec<Remedy>>, Stopped> {
    if oom::first(device).is_none() {
        return Ok(None);
    }
    let own = what_if::own_settings(&trace.format, device);
    let report = leaks::find_while(device, &trace.stacks, &trace.quality, watch);
    let leaks = what_if::Early::leaks(device, &trace.stacks, &report);
    let tried = Tried {
        leaks: Some(&leaks),
        limit,
        ..Tried::default()
    };
    let evidence = what_if::evidence(device, &own, watch)?;
    let replay = Replay::new(device, &evidence, watch);
    let Some(found) = what_if::remedies(replay, &own, tried)? else {
        return Ok(None);
    };
    let remedies = found.remedies.into_iter().map(|remedy| Remedy {
        change: remedy.change.to_string(),
        peak_reserved: remedy.outcome.peak_reserved,
        retries: remedy.outcome.retries,
    });
    Ok(Some(remedies.collect()))
}

/// Failed allocations, and what was held when they failed.
fn out_of_memory(
    device: &DeviceTrace,
    subject: Inspected<'_>,
    categories: &Categories,
    watch: Watch<'_>,
) -> Result<Vec<OutOfMemory>, Stopped> {
    let stacks = &subject.trace.stacks;
    let own = what_if::own_settings(&subject.trace.format, device);
    let passed_over = oom::passed_over(device);
    let failures = oom::failures(device);
    let limits = LimitSeen::of_refusals(device, &own, &failures, watch)?;
    let failures = failures.into_iter().zip(limits).map(|(failure, limit)| {
        let limit = limit.map(|seen| seen.or_told(subject.limit));
        let held = categories.alive(device, Some(failure.event));
        let frame = stacks.headline(failure.stack);
        OutOfMemory {
            event: failure.event,
            step: failure.step,
            step_name: failure
                .step
                .map(|at| step_in_words(&device.steps[at as usize])),
            asked: failure.asked,
            free: failure.free,
            limit: limit.map(|limit| limit.below),
            limit_at_least: limit.map(|limit| limit.at_least),
            allocated: failure.allocated,
            reserved: failure.reserved,
            frame: frame.map(|frame| FrameText {
                name: stacks.str(frame.name).to_owned(),
                filename: stacks.str(frame.filename).to_owned(),
                line: frame.line,
            }),
            held: held.largest_first().into_iter().collect(),
            passed_over: passed_over.binary_search(&failure.event).is_ok(),
        }
    });
    Ok(failures.collect())
}

fn steps(device: &DeviceTrace, notes: &[QualityNote]) -> Vec<StepLevels> {
    let unknown = Unknown::of(device.device, notes);
    let steps = step_facts(device).into_iter();
    steps.map(|facts| step(facts, &unknown)).collect()
}

fn step(facts: StepFacts, unknown: &Unknown) -> StepLevels {
    StepLevels {
        is_cut: unknown.cuts(facts.step.events.start()),
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

/// What is left behind, step after step: the worst verdict of these devices, and all groups.
fn leaks(subject: Inspected<'_>, watch: Watch<'_>) -> Result<Leaks, Stopped> {
    let Inspected { trace, .. } = subject;
    // Who asks about one device hears of no other.
    let pinned = subject.pinned().filter(|_| subject.only.is_none());
    let (devices, reports) = questions::judged(trace, subject.judged(), pinned, watch);
    // If the search for leaks was stopped, its report says "cannot tell", which is not true of the
    // recording.
    watch.look(0)?;
    let weights = devices.iter().zip(&reports);
    let weights = weights.map(|(device, report)| Weight::of(device.device, report));
    let Some(worst) = leaks::worst(weights) else {
        return Ok(Leaks {
            device: None,
            verdict: Verdict::CannotTell,
            reason: "no device holds memory or events".to_owned(),
            bytes_per_step: 0.0,
            reserved_growth: None,
            groups: Vec::new(),
        });
    };
    let (device, verdict) = (devices[worst].device, reports[worst].verdict);
    let named = devices.iter().zip(reports);
    let named = named.map(|(device, report)| DeviceLeaks {
        device: device.device,
        word: Word::of(&device.steps),
        report: questions::named(trace, device, report, watch),
    });
    let named: Vec<DeviceLeaks> = named.collect();
    let others = named
        .iter()
        .filter(|other| other.device != device && other.report.verdict == Verdict::Leak);
    let others = others.map(|other| {
        let speed = Bytes(other.report.bytes_per_step.max(0.0).round() as u64);
        let name = other.device.name();
        format!("{name} {}", leaks::in_words(speed, other.word))
    });
    let report = &named[worst].report;
    let reason = match (verdict, device) {
        (Verdict::Leak, DeviceIdx(1..)) => format!("{}: {}", device.name(), report.reason),
        _ => report.reason.clone(),
    };
    let reasons = std::iter::once(reason).chain(others);
    let reasons: Vec<String> = reasons.chain(report.caveats.clone()).collect();
    let groups = named.iter().flat_map(|of| {
        let groups = of.report.groups.iter();
        groups.map(|group| leak_group(of.device, of.word, group))
    });
    let elsewhere = named.iter().filter(|other| other.device != device);
    let mut growing = std::iter::once(&named[worst]).chain(elsewhere);
    let reserved_growth = growing.find_map(|of| {
        let told = of.report.reserved_growth.as_ref()?;
        Some(match named.len() {
            1 => told.clone(),
            _ => format!("{}: {told}", of.device.name()),
        })
    });
    Ok(Leaks {
        device: Some(device),
        verdict,
        reason: reasons.join("; "),
        bytes_per_step: report.bytes_per_step,
        reserved_growth,
        groups: groups.collect(),
    })
}

/// What leaks on one device.
struct DeviceLeaks {
    device: DeviceIdx,
    word: Word,
    report: api::leaks::Leaks,
}

fn leak_group(device: DeviceIdx, word: Word, group: &api::leaks::LeakGroup) -> LeakGroup {
    let frame = group.frame.clone().or_else(|| group.alloc_frame.clone());
    let unknown = || FrameText {
        name: "no stack recorded".to_owned(),
        filename: String::new(),
        line: 0,
    };
    LeakGroup {
        device,
        bytes_per_step: group.bytes_per_step,
        counted_by: leaks::counted_by(group.pattern == Pattern::WithinStep, word),
        count_per_step: group.count_per_step,
        live_bytes: group.live_bytes,
        frame: frame.unwrap_or_else(unknown),
        made_in: group.made_in.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use trace::categories::Named;
    use trace::naming::Rules;
    use trace::testing::{TraceBuilder, block_of};

    /// A device that nobody uses may go through more steps than the one that holds the model.
    #[test]
    fn the_steps_are_those_of_the_main_device() {
        let step = |index: u32| trace::trace::Step {
            index,
            name: format!("step {index}"),
            events: trace::span::Span::new(EventIdx(index), EventIdx(index + 1)),
        };
        let mut trace = trace::testing::trace("a alloc 1MiB\nb alloc 1MiB\nc alloc 1MiB");
        trace.devices[0].steps = (0..3).map(step).collect();
        let mut model = trace::testing::trace("m alloc 9MiB\nn alloc 9MiB")
            .devices
            .remove(0);
        model.device = DeviceIdx(1);
        model.steps = (0..2).map(step).collect();
        trace.devices.push(model);
        let subject = Inspected {
            trace: &trace,
            only: None,
            limit: None,
        };
        let main = main_device::of(&trace).map(|device| device.device);
        let memory = Watch::undisturbed(|watch| Memory::of(subject, Live::Summed, watch));
        let judged = Watch::undisturbed(|watch| Judgement::of(subject, watch));
        let found = of("a.pickle".to_owned(), subject, memory, judged);
        assert_eq!((found.steps.device, main), (main, Some(DeviceIdx(1))));
        assert_eq!(found.steps.items.len(), 2);
        let told = text(&found);
        let says = "\n  holds (of device 1, the main one; the other is device 0): ";
        assert!(told.contains(says), "{told}");
    }

    #[test]
    fn the_step_in_which_a_ring_begins_is_cut() {
        let step = |index: u32| trace::trace::Step {
            index,
            name: format!("step {index}"),
            events: trace::span::Span::new(EventIdx(index), EventIdx(index + 1)),
        };
        let mut trace = trace::testing::trace("a alloc 1MiB\nb alloc 1MiB");
        trace.devices[0].steps = (0..2).map(step).collect();
        let wrapped = QualityNote {
            code: trace::quality_code::RING_WRAPPED.to_owned(),
            detail: String::new(),
        };
        for (notes, expected) in [(&[][..], [false; 2]), (&[wrapped][..], [true, false])] {
            let found = steps(&trace.devices[0], notes);
            let cut: Vec<bool> = found.iter().map(|step| step.is_cut).collect();
            assert_eq!(cut, expected);
        }
    }

    #[test]
    fn what_a_rule_alone_says_is_not_inferred() {
        let mut builder = TraceBuilder::default();
        builder.preexisting(block_of(Bytes::mib(4)));
        let mut trace = builder.finish();
        let mut inferred = |rules: &str| {
            let rules = Rules::parse(rules).unwrap();
            trace.stacks.own = Some(Arc::new(rules));
            let subject = Inspected {
                trace: &trace,
                only: None,
                limit: None,
            };
            let found = Watch::undisturbed(|watch| Memory::of(subject, Live::Summed, watch));
            let device = &found.devices[0];
            let names = |of: &mut dyn Iterator<Item = Named>| {
                let names: Vec<String> = of.map(|name| name.label().to_owned()).collect();
                names.join(", ")
            };
            let at_end = names(&mut device.categories_at_end.keys().copied());
            (at_end, names(&mut device.inferred.iter().copied()))
        };
        assert_eq!(inferred("mine size>=0"), ("mine".to_owned(), String::new()));
        let (at_end, of_inference) = inferred("mine size>=1GiB");
        assert!(!at_end.is_empty());
        assert_eq!(at_end, of_inference);
    }
}
