//! Makes the profile of a run, with one pass over the events of each device. Nothing here depends
//! on addresses.

use super::called::{headline, own_function, set_workspaces_apart};
use super::kept_frames;
use super::names::Namer;
use super::peak_lines;
use super::profile::{
    DeviceProfile, FunctionHash, LeakProfile, LeakingSite, MAX_LEAKING, OutOfMemory, Profile,
    Requested, SiteProfile, StepProfile,
};
use super::rates::{Counted, Rate, Rates};
use super::stays;
use crate::categories::{self, Categories, Category, Named};
use crate::footprint::of_vec;
use crate::growth::{Growth, settled, wobble};
use crate::leaks::{self, LeakGroup, LeakReport, Verdict};
use crate::levels::{Effect, GivenBack};
use crate::oom;
use crate::quality_code;
use crate::site::{self, SiteKey, Sites};
use crate::stacks::{FxHashMap, StackIdx, Stacks, fx_hash};
use crate::trace::{Action, BlockIdx, DeviceTrace, Series, Trace};
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Levels per site are kept for this many steps, the last ones.
const MAX_SITE_STEPS: usize = 256;
/// The largest number of levels kept at once: a file with a million sites must not take gigabytes.
const MAX_CELLS: usize = 1 << 21;
/// Distinct sizes kept of a site.
const MAX_SIZES: usize = 12;
/// Sites kept of a device, the largest. The largest recordings at hand have some thousands.
const MAX_SITES: usize = 1 << 16;
/// Functions kept of a site, the innermost. Python's own limit is a thousand calls.
const MAX_FUNCTIONS: usize = 1200;
/// Functions kept of all sites of a device; the sites that hold less have no room any more.
const MAX_ALL_FUNCTIONS: usize = 1 << 21;

impl Profile {
    /// The profile of a trace, with its leaks.
    pub fn of(trace: &Trace) -> Profile {
        Watch::undisturbed(|watch| Profile::judged_while(trace, watch, watch))
    }

    /// The same, but the search for leaks ends when `judging` stops it, and says then that it
    /// cannot tell. `watch` learns what memory the profile takes, and may stop all of it.
    ///
    /// # Errors
    /// [`Stopped`] by `watch`.
    pub fn judged_while(
        trace: &Trace,
        judging: Watch<'_>,
        watch: Watch<'_>,
    ) -> Result<Profile, Stopped> {
        let mut namer = Namer::new(&trace.stacks);
        let mut profile = Profile {
            torch: trace.format.torch_guess.clone(),
            settings: trace.format.settings.clone(),
            devices: Vec::new(),
            pinned: None,
        };
        for device in &trace.devices {
            let watch = watch.beside(profile.heap_bytes());
            let device = device_profile(device, trace, &mut namer, Watches { judging, watch })?;
            profile.devices.push(device);
        }
        profile.pinned = trace.pinned.as_ref().map(|pinned| {
            let report = leaks::find_while(pinned, &trace.stacks, &trace.quality, judging);
            DeviceProfile {
                device: pinned.device,
                events: pinned.events.len(),
                leaks: leak_profile(report, &mut namer),
                ..DeviceProfile::default()
            }
        });
        let names = Arc::new(namer.finish());
        for device in profile.devices.iter_mut().chain(&mut profile.pinned) {
            device.names = Arc::clone(&names);
        }
        Ok(profile)
    }
}

/// Who may stop a survey.
#[derive(Clone, Copy)]
struct Watches<'a> {
    /// Only ends the search for leaks.
    judging: Watch<'a>,
    /// Ends the survey.
    watch: Watch<'a>,
}

/// The profile of a device, apart from the names.
///
/// # Errors
/// [`Stopped`], when the second watch stops it.
fn device_profile(
    device: &DeviceTrace,
    trace: &Trace,
    namer: &mut Namer<'_>,
    watches: Watches<'_>,
) -> Result<DeviceProfile, Stopped> {
    let Watches { judging, watch } = watches;
    let stacks = &trace.stacks;
    let report = leaks::find_while(device, stacks, &trace.quality, judging);
    let whole = leaks::whole_steps(device).len();
    watch.look(namer.heap_bytes())?;
    let mut survey = Survey::new(device, stacks);
    survey.run(whole, watch)?;
    let steps = survey.step_profiles();
    // Of several leaks at one site, the first is told.
    let groups = report.groups.iter().rev();
    let leaking = groups.map(|group| (group.site, group.stack)).collect();
    let (mut sites, has_native) = survey.site_profiles(&leaking, namer, watch)?;
    let proven = proven_rates(&report);
    for site in &mut sites {
        site.leaks = leaking.contains_key(&site.key);
        if let Some(rate) = proven.get(&site.key) {
            site.growth = *rate;
        }
    }
    let noted = |code: &str| {
        let mut notes = trace.quality.iter().filter(|note| note.code == code);
        notes.any(|note| note.concerns(device.device))
    };
    let (at_peak, inferred) = at_peak(device, stacks);
    Ok(DeviceProfile {
        device: device.device,
        names: Arc::default(),
        events: match noted(quality_code::EVENTS_LEFT_OUT) {
            // What is left tells no history.
            true => 0,
            false => device.events.len(),
        },
        summary: device.summary,
        at_peak,
        inferred,
        lines: peak_lines::of(device, namer, watch)?,
        step_source: device.step_source,
        whole_steps: whole as u32,
        wrapped: noted(quality_code::RING_WRAPPED),
        contradictory: noted(quality_code::CONTRADICTORY),
        has_stacks: sites
            .iter()
            .any(|site| matches!(site.key, SiteKey::Shape(_))),
        has_native,
        oom: out_of_memory(device),
        growth: report.growth,
        phases: match device.steps.len() {
            0 | 1 => super::pass::peaks(device, stacks),
            _ => Vec::new(),
        },
        leaks: leak_profile(report, namer),
        sites_left_out: (survey.live.len() - sites.len()) as u32,
        sites,
        stays: stays::sizes(device, whole),
        steps,
    })
}

/// What sites that leak keep with each step, bytes. That is exact; a line through the ends of steps
/// is not.
fn proven_rates(report: &LeakReport) -> FxHashMap<SiteKey, f64> {
    let mut rates = FxHashMap::default();
    let groups = report.groups.iter();
    let by_steps = groups.filter(|group| Counted::of(group.pattern) == Counted::BySteps);
    for group in by_steps.filter(|_| report.verdict == Verdict::Leak) {
        *rates.entry(group.site).or_insert(0.0) += group.bytes_per_step;
    }
    rates
}

/// What a search for leaks found.
fn leak_profile(report: LeakReport, namer: &mut Namer<'_>) -> LeakProfile {
    let of = |counted| {
        let groups = report.groups.iter();
        groups.filter(move |group| Counted::of(group.pattern) == counted)
    };
    let error = |counted| {
        let squares = of(counted).map(|group| group.slope_error.powi(2));
        // The sum of no numbers is −0.
        (0.0 + squares.sum::<f64>()).sqrt()
    };
    let by_parts = of(Counted::ByParts).map(|group| group.bytes_per_step);
    LeakProfile {
        rates: Rates {
            by_steps: Rate {
                bytes: report.bytes_per_step,
                error: error(Counted::BySteps),
            },
            by_parts: Rate {
                bytes: 0.0 + by_parts.sum::<f64>(),
                error: error(Counted::ByParts),
            },
        },
        groups: report
            .groups
            .iter()
            .take(MAX_LEAKING)
            .map(|group| leaking_site(group, namer))
            .collect(),
        verdict: report.verdict,
        reason: report.reason,
    }
}

/// What is held at the peak, and the categories that are inferred of some of it.
fn at_peak(device: &DeviceTrace, stacks: &Stacks) -> (Vec<(Named, Bytes)>, BTreeSet<Named>) {
    let peak = device.summary[Series::Allocated as usize].peak_event;
    let found = Categories::of(device, stacks);
    let held = found.alive(device, peak).largest_first();
    let mut inferred = found.inferred_among(device, stacks, categories::alive(device, peak));
    // That a block is from before the recording is seen.
    inferred.remove(&Named::Ours(Category::Before));
    (held, inferred)
}

fn leaking_site(group: &LeakGroup, namer: &mut Namer<'_>) -> LeakingSite {
    let frame = group.frame.or(group.alloc_frame);
    let caller = frame.and_then(|frame| leaks::caller(namer.stacks(), group.stack, frame));
    LeakingSite {
        key: group.site,
        place: frame.map(|frame| namer.frame(frame)),
        caller: caller.map(|frame| namer.frame(frame)),
        pattern: group.pattern,
        bytes_per_step: group.bytes_per_step,
        error: group.slope_error,
    }
}

fn out_of_memory(device: &DeviceTrace) -> Option<OutOfMemory> {
    oom::first(device).map(|failure| OutOfMemory {
        event: failure.event,
        step: failure.step,
        wanted: failure.asked,
    })
}

/// Levels per site over the events of a device.
struct Survey<'a> {
    device: &'a DeviceTrace,
    sites: Sites,
    /// Per site.
    live: Vec<u64>,
    peak: Vec<u64>,
    /// The same, as requested, and at the device's peak.
    asked: Vec<u64>,
    asked_peak: Vec<u64>,
    asked_at_peak: Vec<u64>,
    /// Where that is; `None` before the first event.
    peak_event: Vec<Option<u32>>,
    at_peak: Vec<u64>,
    /// Per site, the highest level so far in this step.
    in_step: Vec<u64>,
    /// Blocks per kind.
    count: Vec<u64>,
    /// Per step: requested bytes, and number of allocations.
    work: Vec<(u64, u32)>,
    /// The first step whose levels per site are kept; the levels are one row of sites after
    /// another.
    first_kept: usize,
    step_peaks: Vec<u64>,
    step_ends: Vec<u64>,
}

impl<'a> Survey<'a> {
    fn new(device: &'a DeviceTrace, stacks: &Stacks) -> Survey<'a> {
        let mut sites = Sites::new(&device.blocks, stacks);
        set_workspaces_apart(&mut sites, device, stacks);
        let n = sites.keys.len();
        Survey {
            device,
            sites,
            live: vec![0; n],
            peak: vec![0; n],
            asked: vec![0; n],
            asked_peak: vec![0; n],
            asked_at_peak: vec![0; n],
            peak_event: vec![None; n],
            at_peak: vec![0; n],
            in_step: vec![0; n],
            count: vec![0; device.blocks.kinds.len()],
            work: vec![(0, 0); device.steps.len()],
            first_kept: 0,
            step_peaks: Vec::new(),
            step_ends: Vec::new(),
        }
    }

    /// Walks through all events. Levels per site are kept for settled whole steps.
    fn run(&mut self, whole: usize, watch: Watch<'_>) -> Result<(), Stopped> {
        let device = self.device;
        let room = MAX_CELLS / self.live.len().max(1);
        let kept = (whole - settled(whole)).min(MAX_SITE_STEPS).min(room);
        self.first_kept = whole - kept;
        self.before_the_trace();
        let peak_event = device.summary[Series::Allocated as usize].peak_event;
        if peak_event.is_none() {
            self.at_peak.clone_from(&self.live);
            self.asked_at_peak.clone_from(&self.asked);
        }
        let peak_event = peak_event.map_or(u32::MAX, |event| event.0);
        let mut done = 0;
        for (index, step) in device.steps.iter().enumerate() {
            watch.at_row(index, || self.heap_bytes())?;
            let is_kept = (self.first_kept..whole).contains(&index);
            let (start, end) = (step.events.start().0, step.events.end().0);
            self.events(done.min(start)..start, peak_event, None);
            if is_kept {
                self.in_step.clone_from(&self.live);
            }
            self.events(start.max(done)..end, peak_event, Some(index));
            done = end.max(done);
            if is_kept {
                self.step_peaks.extend_from_slice(&self.in_step);
                self.step_ends.extend_from_slice(&self.live);
            }
        }
        self.events(done..device.events.len(), peak_event, None);
        watch.look(self.heap_bytes())
    }

    fn heap_bytes(&self) -> usize {
        let per_site = self.live.len() * 8 * size_of::<u64>();
        per_site + of_vec(&self.count) + of_vec(&self.step_peaks) + of_vec(&self.step_ends)
    }

    /// Counts the start as [`crate::levels`] does: blocks that were given back before the trace do
    /// not count.
    fn before_the_trace(&mut self) {
        let blocks = &self.device.blocks;
        for kind in &blocks.kind[..blocks.n_preexisting as usize] {
            self.count[kind.index()] += 1;
        }
        let mut live = std::mem::take(&mut self.live);
        let mut asked = std::mem::take(&mut self.asked);
        self.each_before_the_trace(|kind, size| {
            let site = self.sites.of_kind[kind] as usize;
            live[site] += size;
            asked[site] += self.device.blocks.kinds[kind].requested.0;
        });
        (self.live, self.asked) = (live, asked);
        self.peak.clone_from(&self.live);
        self.asked_peak.clone_from(&self.asked);
    }

    /// Calls `each` with the kind and the bytes of each block that is live at the start.
    fn each_before_the_trace(&self, mut each: impl FnMut(usize, u64)) {
        let blocks = &self.device.blocks;
        for index in 0..blocks.n_preexisting {
            if self.device.given_back(BlockIdx(index)) != GivenBack::Before {
                let kind = blocks.kind[index as usize].index();
                each(kind, blocks.kinds[kind].size.0);
            }
        }
    }

    fn events(&mut self, events: std::ops::Range<u32>, peak_event: u32, step: Option<usize>) {
        for event in events {
            self.event(event, step);
            if event == peak_event {
                self.at_peak.clone_from(&self.live);
                self.asked_at_peak.clone_from(&self.asked);
            }
        }
    }

    #[inline]
    fn event(&mut self, event: u32, step: Option<usize>) {
        let Some((kind, action, size)) = self.moved(event) else {
            return;
        };
        let site = self.sites.of_kind[kind] as usize;
        let requested = self.device.blocks.kinds[kind].requested.0;
        if action != Action::Alloc {
            self.live[site] = self.live[site].saturating_sub(size);
            self.asked[site] = self.asked[site].saturating_sub(requested);
            return;
        }
        self.count[kind] += 1;
        self.asked[site] += requested;
        self.asked_peak[site] = self.asked_peak[site].max(self.asked[site]);
        let live = self.live[site] + size;
        self.live[site] = live;
        if live > self.peak[site] {
            self.peak[site] = live;
            self.peak_event[site] = Some(event);
        }
        self.in_step[site] = self.in_step[site].max(live);
        if let Some(step) = step {
            let (work, allocs) = &mut self.work[step];
            *work += requested;
            *allocs += 1;
        }
    }

    /// The kind of the block that an event makes or gives back, which of them, and the bytes.
    #[inline]
    fn moved(&self, event: u32) -> Option<(usize, Action, u64)> {
        let (blocks, events) = (&self.device.blocks, &self.device.events);
        let action = events.action[event as usize];
        if !matches!(
            action,
            Action::Alloc | Action::FreeRequested | Action::FreeCompleted
        ) {
            return None;
        }
        let target = events.target[event as usize] as usize;
        let kind = blocks.kind.get(target)?.index();
        let block = &blocks.kinds[kind];
        let size = match action {
            Action::FreeCompleted => {
                let requested = blocks.free_requested[target];
                match Effect::on_block(action, event, requested, block) {
                    Effect::Free { size, .. } => size.0,
                    _ => return None,
                }
            }
            _ => block.size.0,
        };
        Some((kind, action, size))
    }

    /// For each kind of block, what is live of it when its site holds most. Only of sites that have
    /// blocks of several stacks: `kinds` are those of each.
    fn at_own_peak(&self, kinds: &[Vec<usize>]) -> Vec<u64> {
        let of_kind = &self.device.blocks.kinds;
        let several: Vec<bool> = kinds
            .iter()
            .map(|kinds| {
                let mut stacks = kinds.iter().map(|&kind| of_kind[kind].alloc_stack);
                let first = stacks.next();
                stacks.any(|stack| Some(stack) != first)
            })
            .collect();
        if !several.contains(&true) {
            return Vec::new();
        }
        let mut live = vec![0_u64; of_kind.len()];
        self.each_before_the_trace(|kind, size| live[kind] += size);
        let mut found = live.clone();
        for event in 0..self.device.events.len() {
            let Some((kind, action, size)) = self.moved(event) else {
                continue;
            };
            live[kind] = match action {
                Action::Alloc => live[kind] + size,
                _ => live[kind].saturating_sub(size),
            };
            let site = self.sites.of_kind[kind] as usize;
            if several[site] && self.peak_event[site] == Some(event) {
                kinds[site]
                    .iter()
                    .for_each(|&kind| found[kind] = live[kind]);
            }
        }
        found
    }

    fn step_profiles(&self) -> Vec<StepProfile> {
        let levels = crate::steps::levels(self.device);
        let steps = self.device.steps.iter().zip(levels).zip(&self.work);
        steps
            .map(|((step, levels), &(work, allocs))| StepProfile {
                name: step.name.clone(),
                events: step.events,
                peak: levels.allocated_peak,
                end: levels.allocated_end,
                reserved_end: levels.reserved_end,
                requested_end: levels.requested_end,
                work: Bytes(work),
                allocs,
            })
            .collect()
    }

    /// The sites, in their order, and whether there are C++ frames. If there are too many, those
    /// that made the most bytes are kept.
    fn site_profiles(
        &self,
        leaking: &FxHashMap<SiteKey, StackIdx>,
        namer: &mut Namer<'_>,
        watch: Watch<'_>,
    ) -> Result<(Vec<SiteProfile>, bool), Stopped> {
        let n = self.sites.keys.len();
        let mut kinds: Vec<Vec<usize>> = vec![Vec::new(); n];
        let mut made = vec![0_u64; n];
        for (kind, &site) in self.sites.of_kind.iter().enumerate() {
            kinds[site as usize].push(kind);
            let bytes = self.device.blocks.kinds[kind].size.0 * self.count[kind];
            made[site as usize] = made[site as usize].saturating_add(bytes);
        }
        let mut largest: Vec<usize> = (0..n).collect();
        largest.sort_by_key(|&site| std::cmp::Reverse(made[site]));
        largest.truncate(MAX_SITES);
        let per_kind = self.count.len() * 2 * size_of::<u64>();
        let per_site = n * (size_of::<Vec<usize>>() + 3 * size_of::<u64>());
        let beside = self.heap_bytes() + per_site + per_kind;
        watch.look(beside + namer.heap_bytes())?;
        let held_most = self.at_own_peak(&kinds);
        let mut held = 0;
        let (mut functions, mut has_native) = (0, false);
        let mut found: Vec<(usize, SiteProfile)> = Vec::new();
        for site in largest {
            watch.look(beside + held + namer.heap_bytes())?;
            let stack = match leaking.get(&self.sites.keys[site]) {
                Some(&stack) if stack != StackIdx::NONE => stack,
                _ => self.stack_of(&kinds[site], &held_most),
            };
            let profile = self.site_profile(site, stack, &kinds[site], namer);
            functions += profile.functions.len();
            if functions > MAX_ALL_FUNCTIONS {
                break;
            }
            held += 2 * size_of::<(usize, SiteProfile)>() + profile.heap_bytes();
            has_native |= kept_frames::has_native(namer.stacks(), profile.stack);
            found.push((site, profile));
        }
        found.sort_by_key(|(site, _)| *site);
        let sites = found.into_iter().map(|(_, profile)| profile);
        Ok((sites.collect(), has_native))
    }

    /// The stack that holds most when these kinds of one site hold most; of equals, the one that
    /// made most.
    fn stack_of(&self, kinds: &[usize], held_most: &[u64]) -> StackIdx {
        let blocks = &self.device.blocks;
        let mut by_stack: FxHashMap<StackIdx, (u64, u64)> = FxHashMap::default();
        for &kind in kinds {
            let block = &blocks.kinds[kind];
            let (held, made) = by_stack.entry(block.alloc_stack).or_default();
            *held += held_most.get(kind).copied().unwrap_or(0);
            *made = made.saturating_add(block.size.0 * self.count[kind]);
        }
        let most = by_stack
            .into_iter()
            .max_by_key(|&(stack, held)| (held, stack.0));
        most.map_or(StackIdx::NONE, |(stack, _)| stack)
    }

    fn site_profile(
        &self,
        site: usize,
        stack: StackIdx,
        kinds: &[usize],
        namer: &mut Namer<'_>,
    ) -> SiteProfile {
        let stacks = namer.stacks();
        let blocks = &self.device.blocks;
        let bytes = |kind: usize| blocks.kinds[kind].size.0 * self.count[kind];
        let mut by_size: FxHashMap<Bytes, u64> = FxHashMap::default();
        for &kind in kinds {
            *by_size.entry(blocks.kinds[kind].requested).or_default() += self.count[kind];
        }
        let mut sizes: Vec<(Bytes, u64)> = by_size.into_iter().collect();
        sizes.sort_by_key(|&(size, n)| (std::cmp::Reverse(size.0 * n), size));
        sizes.truncate(MAX_SIZES);
        let column = |rows: &[u64]| -> Vec<u64> {
            let n = self.live.len().max(1);
            rows.chunks_exact(n).map(|row| row[site]).collect()
        };
        let ends = column(&self.step_ends);
        let frames = kept_frames::of(stacks, stack).into_iter();
        let shape = site::functions(stacks, stack).into_iter();
        let mut functions: Vec<FunctionHash> = shape
            .map(|(module, name)| FunctionHash {
                full: fx_hash(&(module, name)),
                name: fx_hash(name),
            })
            .collect();
        functions.dedup();
        functions.truncate(MAX_FUNCTIONS);
        functions.shrink_to_fit();
        SiteProfile {
            key: self.sites.keys[site],
            stack,
            frames: frames.map(|frame| namer.frame(frame)).collect(),
            headline: headline(namer, stack),
            functions,
            own: own_function(stacks, stack),
            count: kinds.iter().map(|&kind| self.count[kind]).sum(),
            made: Bytes(kinds.iter().map(|&kind| bytes(kind)).sum()),
            peak: Bytes(self.peak[site]),
            at_peak: Bytes(self.at_peak[site]),
            at_end: Bytes(self.live[site]),
            requested: Requested {
                peak: Bytes(self.asked_peak[site]),
                at_peak: Bytes(self.asked_at_peak[site]),
                at_end: Bytes(self.asked[site]),
            },
            growth: Growth::of(&ends).and_then(Growth::told).unwrap_or(0.0),
            wobble: Bytes(wobble(&column(&self.step_peaks))),
            end_wobble: Bytes(end_wobble(&ends, self.live[site])),
            sizes,
            leaks: false,
        }
    }
}

/// How far the ends of steps lie from their trend, and what is live last from the last of them: a
/// recording may end within a step.
fn end_wobble(ends: &[u64], last: u64) -> u64 {
    let after = ends.last().map_or(0, |end| end.abs_diff(last));
    wobble(ends).max(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is replaced while it is kept holds twice as much within a step, and never at its end.
    #[test]
    fn ends_wobble_by_themselves() {
        let check = |ends: &[u64], last, expected| {
            assert_eq!(end_wobble(ends, last), expected, "{ends:?}, {last}");
        };
        check(&[], 7, 0);
        check(&[5, 5, 5], 5, 0);
        check(&[10, 20, 30], 30, 0);
        check(&[5, 5, 5], 9, 4);
    }

    /// One function has a line that makes much and keeps nothing, and one that keeps little.
    #[test]
    fn a_site_is_told_by_the_line_that_holds_most_when_it_holds_most() {
        let check = |script: &str, line: u32| {
            let profile = Profile::of(&crate::testing::trace(script));
            let device = &profile.devices[0];
            let [site] = &device.sites[..] else {
                panic!("one site: {:?}", device.sites)
            };
            assert_eq!(
                site.headline.map(|frame| frame.line),
                Some(line),
                "{script}"
            );
        };
        let brief = "b alloc 3MiB at f m.py:2\nb free\n".repeat(4);
        check(&format!("a alloc 4MiB at f m.py:1\n{brief}"), 1);
        check(&format!("{brief}a alloc 4MiB at f m.py:1"), 1);
        check(&format!("{brief}a alloc 2MiB at f m.py:1\na free"), 2);
        // Of equals, the one that made most.
        check(
            "a alloc 1MiB at f m.py:1\nb alloc 1MiB at f m.py:2\na free\n\
             c alloc 512KiB at f m.py:1",
            1,
        );
    }
}
