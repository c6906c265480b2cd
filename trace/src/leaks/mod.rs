//! Does it leak, how fast, since when, and which code is it?
//!
//! # Method
//!
//! The ends of steps are the moments to compare: what is alive there has outlived its step. One
//! pass over the blocks ([`survivors`]) gives, for each allocation site ([`site`]: the call shape,
//! which survives shifted lines), what is alive at each end, and from which step the blocks are
//! that are alive at the last end. [`judge`] then asks of each site whether its survivors come
//! from step after step, without end:
//!
//! | pattern | how it is told apart |
//! |---|---|
//! | steady leak | survivors from every step |
//! | growth every n-th step | survivors at a regular distance |
//! | a buffer that is enlarged | the level never falls, and the rest of the program is constant |
//! | growth within a step | the same questions at the ends of the parts of a step (micro-batches) |
//! | warm-up that ends | quiet at the end for longer than ever between two growths |
//! | bounded buffer | survivors are no older than what the site gives back |
//! | saw-tooth (garbage collection) | as a bounded buffer, and twice the longest age is granted |
//! | longer sequences | no survivors; what is alive at the end grows with everything else |
//! | evaluation, gradient accumulation | as a bounded buffer |
//! | first steps | what step 0 keeps counts only when later steps keep about as much |
//! | sizes that differ, without stacks | all stackless blocks together, when nothing else grows |
//! | buffer from before the recording | blocks of the same size from before it are given back |
//!
//! # Thresholds
//!
//! * [`MIN_STEPS`] = 4: step 0 differs in every program (optimizer state, workspaces), so four
//!   leave three chances to grow.
//! * [`MIN_GROWTHS`] = 3: two growths have one distance, and one distance is no rhythm. Two equal
//!   growths with no time to see a third make the verdict *cannot tell*.
//! * [`MIN_LATE_GROWTHS`] = 6 where growth begins after step 2 and takes up less than half of the
//!   trace: a bounded buffer that starts late looks like a leak until it is full. With fewer the
//!   verdict is *cannot tell*.
//! * Quiet for 1.5 times the longest distance so far: growth has ended.
//! * [`MAX_GAP_SPREAD`] = 4 times the mean distance at most (1.5 times with three or four growths):
//!   random retention has a longest gap of a few times its mean; caches that fill get rarer and
//!   rarer, so a quarter of the growths must be in the later half.
//! * A buffer counts as enlarged after five rises without a fall between, while the rest of the
//!   program grows by less than a tenth as much: random sizes rise five times in a row once in
//!   120, and longer sequences make everything grow.
//! * [`MIN_BYTES`] = 2 KiB whenever it grows, all sites together: the allocator's smallest block is
//!   512 B, and one to three of them a step are how metrics are collected (a list of detached
//!   losses). It is stated in the reason, not called a leak.
//! * Confidence is Laplace's rule of succession, (growths + 1) / (chances + 2), a chance being one
//!   rhythm: how likely the next one grows too. The slope's error is two standard errors.
//!
//! Verdicts come from survivors, never from peaks, and adding allocations that are given back in
//! their step changes none of these numbers. *Cannot tell* is a verdict: too few steps, or two
//! growths only. What limits a verdict (ring wrapped, no stacks, steps inferred) is stated.

mod culprit;
mod judge;
pub mod site;
mod survivors;
mod within;

use crate::span::Span;
use crate::stacks::{Frame, FxHashMap, StackIdx, Stacks, StrIdx};
use crate::trace::{Action, BlockIdx, BlockKind, DeviceTrace, QualityNote, StepSource, Trace};
use crate::units::{Bytes, EventIdx};
use culprit::{Amount, Culprits};
use judge::{Finding, Growth};
use serde::{Deserialize, Serialize};
use site::{SiteKey, Sites};
use survivors::{Ends, Kept, Survey};

/// Version of the method: answers of another one are looked for again.
pub const VERSION: u32 = 1;
/// Steps that it takes to say anything.
pub const MIN_STEPS: usize = 4;
/// Growths that it takes to call something a leak.
pub const MIN_GROWTHS: usize = 3;
/// Growths that it takes when they begin late.
pub const MIN_LATE_GROWTHS: usize = 6;
/// Longest distance between growths, in mean distances.
pub const MAX_GAP_SPREAD: f64 = 4.0;
/// What all sites together must add whenever they grow.
pub const MIN_BYTES: Bytes = Bytes::kib(2);
/// Blocks listed as evidence of a group, the oldest first.
pub const MAX_EVIDENCE: usize = 256;

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Memory grows step after step.
    Leak,
    /// It does not.
    Clean,
    /// The trace does not say; the reason does.
    CannotTell,
}

/// How a group grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// In every step, or nearly.
    EveryStep,
    /// In every n-th step.
    EveryNth(u32),
    /// In each part of a step; what was kept is given back at the step's end.
    WithinStep,
    /// One buffer is replaced by a larger one again and again.
    Enlarged,
}

/// Allocations of one site that accumulate.
#[derive(Clone, Debug, PartialEq)]
pub struct LeakGroup {
    /// The site: equal in another trace of the same program.
    pub site: SiteKey,
    /// The stack that accounts for most of it ([`StackIdx::NONE`]: none was recorded).
    pub stack: StackIdx,
    /// The function that explains it best.
    pub frame: Option<Frame>,
    /// Whether `frame` is taken from the allocations beside it, since these have no stack.
    pub frame_inferred: bool,
    /// Where it was allocated: the innermost frame that a person would recognise.
    pub alloc_frame: Option<Frame>,
    /// How it grows.
    pub pattern: Pattern,
    /// Name of the scopes that are the parts, when it grows within steps.
    pub scope: Option<StrIdx>,
    /// Blocks added for each step (for each part, when it grows within steps).
    pub count_per_step: f64,
    /// Bytes added for each step (for each part, when it grows within steps).
    pub bytes_per_step: f64,
    /// Half of the 95 % interval of the slope of its level, bytes per step.
    pub slope_error: f64,
    /// How likely it goes on, from 0 to 1.
    pub confidence: f64,
    /// The first step (its position among the steps) that added to it.
    pub first_step: u32,
    /// The last one.
    pub last_step: u32,
    /// Blocks alive at the end of the last step.
    pub live_count: u64,
    /// Bytes alive at the end of the last step.
    pub live_bytes: Bytes,
    /// Bytes alive at the end of each step.
    pub per_step: Vec<Bytes>,
    /// The blocks, oldest first, [`MAX_EVIDENCE`] at most; `live_count` says how many there are.
    pub evidence: Vec<BlockIdx>,
}

/// What was found about one device.
#[derive(Clone, Debug, PartialEq)]
pub struct LeakReport {
    /// The answer.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// What limits the answer, a sentence each.
    pub caveats: Vec<String>,
    /// What accumulates, most bytes a step first.
    pub groups: Vec<LeakGroup>,
    /// Bytes that all groups add for each step.
    pub bytes_per_step: f64,
}

/// Looks for leaks on every device: a report for each of [`Trace::devices`].
pub fn of_trace(trace: &Trace) -> Vec<LeakReport> {
    let devices = trace.devices.iter();
    devices
        .map(|device| find(device, &trace.stacks, &trace.quality))
        .collect()
}

/// The position of the report that speaks for the whole trace: of a leak before one that cannot
/// tell before a clean one, and of several leaks the fastest. `None` without devices.
pub fn worst(reports: &[LeakReport]) -> Option<usize> {
    let severity = |report: &LeakReport| match report.verdict {
        Verdict::Clean => 0,
        Verdict::CannotTell => 1,
        Verdict::Leak => 2,
    };
    let by_severity = |a: &&(usize, &LeakReport), b: &&(usize, &LeakReport)| {
        let speed = a.1.bytes_per_step.total_cmp(&b.1.bytes_per_step);
        // Of equals the first device.
        severity(a.1)
            .cmp(&severity(b.1))
            .then(speed)
            .then(b.0.cmp(&a.0))
    };
    let numbered: Vec<(usize, &LeakReport)> = reports.iter().enumerate().collect();
    numbered.iter().max_by(by_severity).map(|(index, _)| *index)
}

/// Looks for leaks on one device. A pass over its blocks; needs its steps.
pub fn find(device: &DeviceTrace, stacks: &Stacks, quality: &[QualityNote]) -> LeakReport {
    let steps = whole_steps(device);
    let ends = Ends::new(steps.iter().map(|s| s.events.end().0).collect());
    let caveats = caveats(device, quality);
    if ends.len() < MIN_STEPS {
        return cannot_tell(too_few(device, ends.len()), caveats);
    }
    let sites = Sites::new(&device.blocks, stacks);
    let survey = Survey::new(&device.blocks, &sites, &ends, 0);
    let findings = findings(&survey);
    let mut grown = Vec::new();
    let mut unsure = Vec::new();
    for (site, finding) in findings {
        match finding {
            Finding::Grows(growth) => grown.push((site, growth)),
            Finding::TooFew(growth) => unsure.push((site, growth)),
            Finding::Bounded => {}
        }
    }
    let view = View {
        device,
        stacks,
        sites: &sites,
        ends: &ends,
        survey: &survey,
    };
    let at_once: f64 = grown.iter().map(|(_, g)| g.bytes_per_growth).sum();
    let mut groups = view.groups(&grown);
    if at_once < MIN_BYTES.0 as f64 {
        groups.clear();
    }
    groups.extend(within::find(&view, &steps));
    if groups.is_empty() && unsure.is_empty() {
        groups.extend(of_any_size(&view));
    }
    if !groups.is_empty() {
        return leak(groups, ends.len(), caveats);
    }
    let doubtful: f64 = unsure.iter().map(|(_, g)| g.bytes_per_growth).sum();
    if let Some((_, growth)) = unsure.first()
        && doubtful >= MIN_BYTES.0 as f64
    {
        let bytes = Bytes(doubtful as u64);
        let (first, last, n) = (growth.first, growth.last, ends.len());
        let seen = match growth.growths {
            2 => format!("{bytes} were kept at step {first} and again at step {last}"),
            times => format!("{bytes} at a time are kept since step {first}, {times} times so far"),
        };
        let reason =
            format!("{seen}: the {n} steps recorded are too few to see whether it goes on");
        return cannot_tell(reason, caveats);
    }
    clean(at_once, ends.len(), caveats)
}

/// Allocations without a stack are told apart by their size. Where sizes differ from step to step
/// each looks like an accident: so, when nothing else grows, all of them are judged together.
fn of_any_size(view: &View<'_>) -> Vec<LeakGroup> {
    let Some(sites) = view.sites.stackless() else {
        return Vec::new();
    };
    let survey = Survey::new(&view.device.blocks, &sites, view.ends, 0);
    let Some(kept) = survey.kept[0].as_deref() else {
        return Vec::new();
    };
    match judge::judge(kept, &survey) {
        // Slower rhythms may come from any of the many sites that this is made of.
        Finding::Grows(growth)
            if growth.pattern == Pattern::EveryStep
                && growth.bytes_per_growth >= MIN_BYTES.0 as f64 =>
        {
            let view = View {
                sites: &sites,
                survey: &survey,
                ..*view
            };
            view.groups(&[(0, growth)])
        }
        _ => Vec::new(),
    }
}

/// What the analysis looks at.
pub(crate) struct View<'a> {
    device: &'a DeviceTrace,
    stacks: &'a Stacks,
    sites: &'a Sites,
    ends: &'a Ends,
    survey: &'a Survey,
}

/// Steps that ran to their end: a last step that ran out of memory, or that the end of the trace
/// cut short, says nothing about what it would have kept.
pub(crate) fn whole_steps(device: &DeviceTrace) -> Vec<&crate::trace::Step> {
    let mut steps: Vec<_> = device.steps.iter().collect();
    let Some(last) = steps.last() else {
        return steps;
    };
    let events = last.events;
    let range = events.start().index()..events.end().index();
    let out_of_memory = device.events.action[range].contains(&Action::Oom);
    let mut lengths: Vec<u32> = steps.iter().map(|s| len(s.events)).collect();
    lengths.sort_unstable();
    let usual = lengths[lengths.len() / 2];
    let open = events.end().0 == device.events.len();
    if out_of_memory || (open && len(events) * 2 < usual) {
        steps.pop();
    }
    steps
}

fn len(events: Span<EventIdx>) -> u32 {
    events.end().0 - events.start().0
}

fn findings(survey: &Survey) -> Vec<(usize, Finding)> {
    let kept = survey.kept.iter().enumerate();
    kept.filter_map(|(site, kept)| {
        let finding = judge::judge(kept.as_deref()?, survey);
        (finding != Finding::Bounded).then_some((site, finding))
    })
    .collect()
}

fn too_few(device: &DeviceTrace, n: usize) -> String {
    match (n, device.step_source) {
        (_, StepSource::None) => {
            "no steps: nothing marks them, and no sequence of allocations repeats often enough \
             to infer them"
                .to_owned()
        }
        (n, _) => format!(
            "{n} whole {} too few: the first differs in every program, so it takes {MIN_STEPS} \
             to see a rhythm",
            if n == 1 { "step is" } else { "steps are" },
        ),
    }
}

fn caveats(device: &DeviceTrace, quality: &[QualityNote]) -> Vec<String> {
    let mut caveats = Vec::new();
    if device.step_source == StepSource::Inferred {
        caveats.push(
            "steps are inferred from what repeats: where they begin is a guess, how much they \
             keep is not"
                .to_owned(),
        );
    }
    let about_device = format!("device {}:", device.device);
    let concerns = |note: &&QualityNote| {
        !note.detail.starts_with("device ") || note.detail.starts_with(&about_device)
    };
    for note in quality.iter().filter(concerns) {
        match note.code.as_str() {
            "ring_wrapped" => caveats.push(
                "the ring of events wrapped: only the steps that it still holds are judged"
                    .to_owned(),
            ),
            "no_stacks" => caveats.push(format!("{}: these are grouped by size", note.detail)),
            _ => {}
        }
    }
    caveats
}

fn cannot_tell(reason: String, caveats: Vec<String>) -> LeakReport {
    LeakReport {
        verdict: Verdict::CannotTell,
        reason,
        caveats,
        groups: Vec::new(),
        bytes_per_step: 0.0,
    }
}

fn clean(noise: f64, n_steps: usize, caveats: Vec<String>) -> LeakReport {
    let reason = if noise > 0.0 {
        format!(
            "apart from {} at a time (less than {MIN_BYTES}: collected metrics) nothing \
             accumulates over {n_steps} steps",
            Bytes(noise as u64)
        )
    } else {
        format!("what outlives a step is bounded: nothing accumulates over {n_steps} steps")
    };
    LeakReport {
        verdict: Verdict::Clean,
        reason,
        caveats,
        groups: Vec::new(),
        bytes_per_step: 0.0,
    }
}

fn leak(mut groups: Vec<LeakGroup>, n_steps: usize, caveats: Vec<String>) -> LeakReport {
    groups.sort_by(|a, b| b.bytes_per_step.total_cmp(&a.bytes_per_step));
    let across: Vec<&LeakGroup> = groups
        .iter()
        .filter(|g| g.pattern != Pattern::WithinStep)
        .collect();
    let total: f64 = across.iter().map(|g| g.bytes_per_step).sum();
    let reason = match across.first() {
        Some(first) => {
            let rhythm = match first.pattern {
                Pattern::EveryNth(n) => format!(", every {n} steps"),
                Pattern::Enlarged => ", in a buffer that is enlarged again and again".to_owned(),
                _ => String::new(),
            };
            format!(
                "{} a step accumulate over {n_steps} steps and are never given back{rhythm}",
                Bytes(total.round() as u64)
            )
        }
        None => {
            let each: f64 = groups.iter().map(|g| g.bytes_per_step).sum();
            format!(
                "within each step {} accumulate with every part and are given back only at its \
                 end: the peak grows with the number of parts",
                Bytes(each.round() as u64)
            )
        }
    };
    LeakReport {
        verdict: Verdict::Leak,
        reason,
        caveats,
        groups,
        bytes_per_step: total,
    }
}

impl View<'_> {
    /// Makes the groups of sites that grow.
    fn groups(&self, grown: &[(usize, Growth)]) -> Vec<LeakGroup> {
        if grown.is_empty() {
            return Vec::new();
        }
        let last_end = *self.ends.as_slice().last().expect("sites grow over ends");
        let first_end = self.ends.as_slice()[0];
        let mut slot = vec![None; self.sites.keys.len()];
        for (at, (site, growth)) in grown.iter().enumerate() {
            let counts = growth.bytes_per_growth >= MIN_BYTES.0 as f64;
            slot[*site] = Some(Slot { at, counts });
        }
        let all = Span::new(EventIdx(0), EventIdx(last_end));
        let tally = self.tally(all, first_end, last_end, &slot, grown.len());
        let culprits = Culprits::new(self.stacks, &tally.amounts);
        let groups = grown.iter().zip(tally.evidence);
        let groups = groups.map(|((site, growth), evidence)| {
            let kept = self.survey.kept[*site].as_deref();
            let kept = kept.expect("a site that grows keeps something");
            self.group(*site, growth, kept, evidence, &culprits)
        });
        groups.collect()
    }

    /// A second pass, made only when something grows: what each stack made and kept, and the
    /// survivors of the sites that have a slot.
    fn tally(
        &self,
        events: Span<EventIdx>,
        steady_from: u32,
        alive_at: u32,
        slot: &[Option<Slot>],
        n_slots: usize,
    ) -> Tally {
        let blocks = &self.device.blocks;
        let mut by_kind: Vec<Amount> = vec![Amount::default(); blocks.kinds.len()];
        let mut evidence = vec![Vec::new(); n_slots];
        for index in blocks.allocated_in(events) {
            let at = index as usize;
            let kind = blocks.kind[at].index();
            let size = blocks.kinds[kind].size.0;
            let steady = blocks.alloc[at] >= steady_from;
            by_kind[kind].made += if steady { size } else { 0 };
            if blocks.free_requested[at] >= alive_at
                && let Some(slot) = slot[self.sites.of_kind[kind] as usize]
            {
                by_kind[kind].kept += if steady && slot.counts { size } else { 0 };
                evidence[slot.at].push(BlockIdx(index));
            }
        }
        let mut amounts: FxHashMap<StackIdx, Amount> = FxHashMap::default();
        for (kind, amount) in blocks.kinds.iter().zip(&by_kind) {
            let total = amounts.entry(kind.alloc_stack).or_default();
            total.made += amount.made;
            total.kept += amount.kept;
        }
        Tally { amounts, evidence }
    }

    fn group(
        &self,
        site: usize,
        growth: &Growth,
        kept: &Kept,
        mut evidence: Vec<BlockIdx>,
        culprits: &Culprits<'_>,
    ) -> LeakGroup {
        let kind = self.largest_kind(&evidence);
        let stack = kind.map_or(StackIdx::NONE, |k| k.alloc_stack);
        let named = culprits.frame(stack);
        let beside = match named {
            Some(_) => None,
            None => self.stack_beside(&evidence),
        };
        let live_count = evidence.len() as u64;
        evidence.truncate(MAX_EVIDENCE);
        LeakGroup {
            site: self.sites.keys[site],
            stack,
            frame: named.or_else(|| beside.and_then(|s| culprits.frame(s))),
            frame_inferred: named.is_none() && beside.is_some(),
            alloc_frame: self.stacks.headline(stack),
            pattern: growth.pattern,
            scope: None,
            count_per_step: growth.count_per_period,
            bytes_per_step: growth.bytes_per_period,
            slope_error: growth.slope_error,
            confidence: growth.confidence(),
            first_step: growth.first as u32,
            last_step: growth.last as u32,
            live_count,
            live_bytes: Bytes(kept.live.last().copied().unwrap_or(0)),
            per_step: kept.live.iter().map(|&b| Bytes(b)).collect(),
            evidence,
        }
    }

    /// The kind that accounts for most bytes.
    fn largest_kind(&self, blocks: &[BlockIdx]) -> Option<&BlockKind> {
        let mut bytes: FxHashMap<StackIdx, u64> = FxHashMap::default();
        for &block in blocks {
            let kind = self.device.blocks.kind(block);
            *bytes.entry(kind.alloc_stack).or_default() += kind.size.0;
        }
        let largest = bytes.iter().max_by_key(|(stack, bytes)| (**bytes, stack.0));
        let stack = *largest?.0;
        let kinds = blocks.iter().map(|&b| self.device.blocks.kind(b));
        kinds.into_iter().find(|k| k.alloc_stack == stack)
    }

    /// The stack of the allocation before these that has Python frames: autograd's threads record
    /// none, but what called them does. The most frequent over the first few.
    fn stack_beside(&self, blocks: &[BlockIdx]) -> Option<StackIdx> {
        const LOOK_AT: usize = 16;
        const LOOK_BACK: u32 = 4096;
        let mut found: FxHashMap<StackIdx, u32> = FxHashMap::default();
        for block in blocks.iter().rev().take(LOOK_AT) {
            let first = block.0.saturating_sub(LOOK_BACK);
            let first = first.max(self.device.blocks.n_preexisting);
            let earlier = (first..block.0).rev().map(|b| {
                let kind = self.device.blocks.kind(BlockIdx(b));
                kind.alloc_stack
            });
            let python = |stack: &StackIdx| {
                let mut frames = self.stacks.frames(*stack).iter();
                frames.any(|&f| site::is_python(self.stacks, self.stacks.frame(f)))
            };
            if let Some(stack) = earlier.into_iter().find(python) {
                *found.entry(stack).or_default() += 1;
            }
        }
        let most = found.into_iter().max_by_key(|(stack, n)| (*n, stack.0));
        most.map(|(stack, _)| stack)
    }
}

/// A site that grows.
#[derive(Clone, Copy)]
struct Slot {
    /// Its position among those that do.
    at: usize,
    /// Whether it adds enough to have a say in which function is named.
    counts: bool,
}

/// What [`View::tally`] counts.
struct Tally {
    amounts: FxHashMap<StackIdx, Amount>,
    /// Per slot, the survivors, oldest first.
    evidence: Vec<Vec<BlockIdx>>,
}

#[cfg(test)]
mod tests;
