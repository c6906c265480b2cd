//! Finds steps by sizes that repeat, for recordings in which nearly nothing has a stack.
//!
//! A training loop allocates the same sizes in the same order, step after step. Three sizes in a
//! row that occur exactly once a step are an *anchor*. There are dozens of anchors: all occur
//! equally often, and they take turns. So the steps are found by their anchors:
//!
//! 1. Places are sorted by how often they occur. Places that all occur `n` times and take turns are
//!    the anchors of `n` periods. There must be at least [`MIN_ANCHORS`], and most of the places
//!    that occur `n` times must be anchors (places of a random program agree by chance now and
//!    then).
//! 2. The periods must be alike: most have about the median length, by number of periods and by
//!    number of allocations. Together they must cover the recording.
//! 3. They must look like training steps, because layers repeat, too, and so do the parts of a long
//!    backward pass: of these, each leaves less memory than the one before.
//! 4. If there are several candidates, the one with the most anchors is taken.
//! 5. A step begins at the anchor before which the least memory is allocated, on average. That is
//!    after gradients were dropped and before the next batch arrives. Or it begins a little
//!    earlier: at the lowest level after the previous anchor.
//!
//! Anything in between (an evaluation, a checkpoint) belongs to the step before it.

use crate::median;
use crate::span::Span;
use crate::stacks::{FxHashMap, fx_hash};
use crate::trace::{Action, Blocks, DeviceTrace, Series, Step};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};

/// The least number of anchors: fewer agree by chance.
const MIN_ANCHORS: usize = 4;
/// The least number of periods.
const MIN_PERIODS: usize = 3;
/// The least number of allocations in a period: shorter periods are loops inside a step.
const MIN_LENGTH: usize = 8;
/// A period counts as alike if its length differs from the median by no more than this share.
const ALIKE: f64 = 0.35;
/// This share of the periods, and of the allocations, must lie in periods that are alike.
const MOSTLY: f64 = 0.7;
/// The periods must cover this share of the allocations: they are the whole program, not a part of
/// it.
const COVERED: f64 = 0.75;
/// Share of a training step's blocks that are alive at once …
const HELD: f64 = 0.15;
/// … and of those, the share that may outlive it.
const LEFT: f64 = 0.5;
/// How many places are looked at for one number of occurrences.
const MAX_PLACES: usize = 512;
/// How many candidates are tried as the first anchor.
const MAX_FIRST: usize = 4;
/// At how many occurrences the level before an anchor is looked up.
const MAX_LEVELS: usize = 16;

/// The largest number of places that are counted: a program has thousands, a hostile file as many
/// as allocations.
const MAX_KEYS: usize = 1 << 20;

/// Where each place occurs: allocations, numbered from 0.
struct Places {
    places: Vec<Place>,
    n_allocs: usize,
}

struct Place {
    at: Vec<u32>,
}

/// Places that take turns.
struct Anchors<'a> {
    places: Vec<&'a Place>,
    /// Median number of allocations in a period.
    length: usize,
}

/// The steps that the sequence of allocations shows, if it repeats often enough.
///
/// # Errors
/// [`Stopped`].
pub fn steps(device: &DeviceTrace, watch: Watch<'_>) -> Result<Option<Vec<Step>>, Stopped> {
    // The memory for two keys of each allocation, where each occurs, and how often.
    let n_blocks = device.blocks.len();
    let watch = watch.beside(n_blocks * 24 + (2 * n_blocks).min(MAX_KEYS) * 96);
    watch.look(0)?;
    let places = Places::new(&device.blocks, watch)?;
    let mut by_count: FxHashMap<usize, Vec<&Place>> = FxHashMap::default();
    for place in &places.places {
        by_count.entry(place.at.len()).or_default().push(place);
    }
    let mut candidates = Vec::new();
    for same in by_count.into_values() {
        watch.look(0)?;
        if same.len() >= MIN_ANCHORS {
            candidates.extend(anchors(same, places.n_allocs));
        }
    }
    let best = candidates
        .into_iter()
        .max_by_key(|a| (a.places.len(), a.places[0].at.len()));
    Ok(best
        .map(|best| cut(device, &best))
        .filter(|steps| is_training(device, steps) && !only_falls(device, steps)))
}

/// Whether each period ends with less memory than the one before. Then they are parts of a backward
/// pass, which gives back what a forward pass made before the recording began.
fn only_falls(device: &DeviceTrace, steps: &[Step]) -> bool {
    let every = steps.len().div_ceil(MAX_LEVELS).max(1);
    let level = |step: &Step| {
        let levels = device.levels_before(step.events.end());
        levels.get(Series::Requested)
    };
    let ends: Vec<Bytes> = steps.iter().step_by(every).map(level).collect();
    ends.windows(2).all(|pair| pair[1] < pair[0])
}

/// Whether periods look like training steps. What the forward pass saves is held until the backward
/// pass. So a good part of a step's blocks are alive at once, and most are given back before the
/// step ends. Layers of a forward pass either hold everything or hardly anything.
fn is_training(device: &DeviceTrace, steps: &[Step]) -> bool {
    let every = steps.len().div_ceil(MAX_LEVELS).max(1);
    let sample: Vec<&Step> = steps.iter().skip(1).step_by(every).collect();
    let shaped = sample.iter().filter(|step| {
        let born = device.blocks.allocated_in(step.events);
        let (first, all) = (born.start, born.len() as f64);
        let (mut alive, mut most) = (0_i64, 0_i64);
        for event in step.events.start().index()..step.events.end().index() {
            let target = device.events.target[event];
            match device.events.action[event] {
                Action::Alloc => alive += 1,
                Action::FreeRequested if (first..born.end).contains(&target) => alive -= 1,
                _ => {}
            }
            most = most.max(alive);
        }
        most as f64 >= HELD * all && (alive as f64) < LEFT * most as f64
    });
    shaped.count() as f64 >= MOSTLY * sample.len() as f64 && !sample.is_empty()
}

impl Places {
    fn new(blocks: &Blocks, watch: Watch<'_>) -> Result<Places, Stopped> {
        let kinds = blocks.made_kinds();
        let keys = keys(blocks);
        let mut count: FxHashMap<u64, u32> = FxHashMap::default();
        for (at, key) in keys.iter().enumerate() {
            watch.at_row(at, || 0)?;
            if let Some(n) = count.get_mut(key) {
                *n += 1;
            } else if count.len() < MAX_KEYS {
                count.insert(*key, 1);
            }
        }
        // A place that occurs in every eighth allocation or more often marks no steps.
        let most = (kinds.len() / MIN_LENGTH) as u32;
        count.retain(|&key, n| key != NO_KEY && (MIN_PERIODS as u32..=most).contains(n));
        let mut slot: FxHashMap<u64, usize> = FxHashMap::default();
        let mut places: Vec<Place> = Vec::with_capacity(count.len());
        for (alloc, key) in keys.iter().enumerate() {
            watch.at_row(alloc, || 0)?;
            let Some(&n) = count.get(key) else {
                continue;
            };
            let index = *slot.entry(*key).or_insert_with(|| {
                places.push(Place {
                    at: Vec::with_capacity(n as usize),
                });
                places.len() - 1
            });
            places[index].at.push(alloc as u32);
        }
        Ok(Places {
            places,
            n_allocs: kinds.len(),
        })
    }
}

/// The key of an allocation that has no place.
const NO_KEY: u64 = 0;

/// The place of each allocation: its size together with the sizes of its neighbours.
fn keys(blocks: &Blocks) -> Vec<u64> {
    let kinds = blocks.made_kinds();
    let kind = |i: usize| &blocks.kinds[kinds[i].index()];
    let size = |i: usize| kind(i).requested.0;
    let among = |i: usize| match i == 0 || i + 1 == kinds.len() {
        true => NO_KEY,
        false => fx_hash(&(size(i - 1), size(i), size(i + 1), kind(i).stream)) | 1,
    };
    (0..kinds.len()).map(among).collect()
}

/// Finds the anchors among places that occur equally often; the places are sorted by first
/// occurrence.
fn anchors(mut same: Vec<&Place>, n_allocs: usize) -> Option<Anchors<'_>> {
    same.truncate(MAX_PLACES);
    let spread = same.len().div_ceil(MAX_FIRST);
    let first = (0..same.len()).step_by(spread);
    let best = first
        .map(|first| {
            let turn = |place: &&&Place| take_turns(same[first], place);
            same.iter().filter(turn).copied().collect::<Vec<&Place>>()
        })
        .max_by_key(Vec::len)?;
    // Two places that occur three times each take turns by chance in one case of ten; with six
    // times each, in one case of five hundred. And another loop may run equally often by chance.
    let agree = if best[0].at.len() < 6 { 2 } else { 8 };
    if best.len() < MIN_ANCHORS || best.len() * agree < same.len() {
        return None;
    }
    let length = alike(best[0], n_allocs)?;
    Some(Anchors {
        places: best,
        length,
    })
}

/// Whether each place occurs once between two occurrences of the other, nearly always.
fn take_turns(a: &Place, b: &Place) -> bool {
    if std::ptr::eq(a, b) {
        return true;
    }
    let (first, second) = match a.at[0] < b.at[0] {
        true => (&a.at, &b.at),
        false => (&b.at, &a.at),
    };
    let n = first.len();
    let turns = (0..n)
        .filter(|&i| first[i] < second[i] && first.get(i + 1).is_none_or(|&next| second[i] < next));
    turns.count() * 20 >= n * 19
}

/// The median length of the periods, if most of them have about that length.
fn alike(place: &Place, n_allocs: usize) -> Option<usize> {
    let lengths: Vec<u32> = place.at.windows(2).map(|w| w[1] - w[0]).collect();
    let median = f64::from(median::upper(lengths.iter().copied())?);
    let alike = lengths
        .iter()
        .filter(|&&l| (f64::from(l) - median).abs() <= ALIKE * median);
    let (n, allocs) = alike.fold((0_usize, 0_u64), |(n, sum), &l| (n + 1, sum + u64::from(l)));
    let all: u64 = lengths.iter().map(|&l| u64::from(l)).sum();
    let enough = n as f64 >= MOSTLY * lengths.len() as f64
        && allocs as f64 >= MOSTLY * all as f64
        && (all as f64 + median) >= COVERED * n_allocs as f64;
    (enough && median >= MIN_LENGTH as f64).then_some(median as usize)
}

/// Cuts at the anchor before which the least memory is allocated.
fn cut(device: &DeviceTrace, anchors: &Anchors<'_>) -> Vec<Step> {
    let event = |alloc: u32| device.blocks.nth_event(alloc);
    let rank = |place: &&&Place| {
        let every = place.at.len().div_ceil(MAX_LEVELS);
        let sample = place.at.iter().step_by(every).map(|&alloc| event(alloc));
        let (mut level, mut freed) = (0_u128, 0_u64);
        for at in sample {
            level += u128::from(device.levels_before(at).get(Series::Allocated).0);
            freed += freed_before(device, at);
        }
        // If levels are equal, the anchor before which most was given back.
        (level, u64::MAX - freed)
    };
    let place = anchors.places.iter().min_by_key(rank);
    let place = place.expect("there are anchors");
    let earlier = allocs_earlier(device, anchor_before(&anchors.places, place), place);
    let starts: Vec<EventIdx> = place
        .at
        .iter()
        .map(|&alloc| event(alloc.saturating_sub(earlier)))
        .collect();
    let n_allocs = device.blocks.made().len();
    let mut ends: Vec<EventIdx> = starts[1..].to_vec();
    let rest = n_allocs - place.at[place.at.len() - 1] as usize;
    // A last step that was cut short is not counted.
    if rest as f64 >= MOSTLY * anchors.length as f64 {
        ends.push(EventIdx(device.events.len()));
    }
    let spans = starts.into_iter().zip(ends).enumerate();
    spans
        .map(|(index, (start, end))| Step {
            index: index as u32,
            name: format!("step {index}"),
            events: Span::new(start, end),
        })
        .collect()
}

/// The anchor that precedes another in the cycle.
fn anchor_before<'a>(places: &[&'a Place], place: &Place) -> &'a Place {
    let at = place.at[place.at.len() / 2];
    let last_before = |p: &&&Place| {
        let earlier = p.at.partition_point(|&a| a < at);
        earlier.checked_sub(1).map(|i| p.at[i])
    };
    places
        .iter()
        .max_by_key(last_before)
        .expect("there are anchors")
}

/// How many allocations before an anchor a step begins: where the level is lowest since the
/// previous anchor. The median is taken, because the first steps differ.
fn allocs_earlier(device: &DeviceTrace, before: &Place, place: &Place) -> u32 {
    let event = |alloc: u32| device.blocks.nth_event(alloc);
    let every = place.at.len().div_ceil(MAX_LEVELS);
    let sample = place.at.iter().skip(1).step_by(every);
    let earlier = sample.filter_map(|&alloc| {
        let at = before.at.partition_point(|&a| a < alloc).checked_sub(1)?;
        let start = lowest(device, event(before.at[at]), event(alloc));
        let between = device.blocks.allocated_in(Span::new(start, event(alloc)));
        Some(between.len() as u32)
    });
    median::lower(earlier).unwrap_or(0)
}

/// The last event in `(from, to]` with the lowest level before it.
fn lowest(device: &DeviceTrace, from: EventIdx, to: EventIdx) -> EventIdx {
    let mut levels = device.levels_at(from);
    let mut best = (u64::MAX, to);
    for event in (from.0 + 1..=to.0).map(EventIdx) {
        let allocated = levels.get(Series::Allocated).0;
        if allocated <= best.0 {
            best = (allocated, event);
        }
        levels.apply(device.effect(event));
    }
    best.1
}

/// Bytes given back between the allocation before `at` and the one at `at`.
fn freed_before(device: &DeviceTrace, at: EventIdx) -> u64 {
    let mut freed = 0;
    for event in (0..at.0).rev() {
        match device.events.action[event as usize] {
            Action::Alloc => break,
            Action::FreeRequested => {
                if let crate::levels::Effect::FreeRequested { size } =
                    device.effect(EventIdx(event))
                {
                    freed += size.0;
                }
            }
            _ => {}
        }
    }
    freed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TraceBuilder, block_of};
    use crate::trace::BlockIdx;

    /// A ring that begins within the backward pass of twelve chunks: it gives back what they saved.
    #[test]
    fn parts_of_one_backward_pass_are_no_steps() {
        let found = |is_given_back: bool| {
            let mut program = TraceBuilder::default();
            let give_back = |program: &mut TraceBuilder, block: BlockIdx| {
                program.free_requested(block);
                program.free_completed(block);
            };
            let saved = |_| program.preexisting(block_of(Bytes::mib(1)));
            let mut saved: Vec<BlockIdx> = (0..12).map(saved).collect();
            for _ in 0..12 {
                let sizes = (1..=10).map(|n| block_of(Bytes::kib(n)));
                let made: Vec<BlockIdx> = sizes.map(|kind| program.alloc(kind)).collect();
                made.into_iter()
                    .for_each(|block| give_back(&mut program, block));
                if is_given_back && let Some(block) = saved.pop() {
                    give_back(&mut program, block);
                }
            }
            let trace = program.finish();
            let steps = steps(&trace.devices[0], Watch::nobody()).unwrap();
            steps.map_or(0, |steps| steps.len())
        };
        assert_eq!(found(false), 12);
        assert_eq!(found(true), 0);
    }
}
