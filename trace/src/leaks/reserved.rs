//! *Reserved* that grows with the steps while *allocated* needs no more.
//!
//! It is no leak: the program keeps nothing, so the verdict stays. But the driver, and whoever else
//! uses the device, has less and less, and in the end memory runs out. So it is told beside the
//! verdict.
//!
//! What counts is what is reserved at the ends of steps beyond the highest need so far: the peak of
//! *allocated*, or what was *active* at an end. Whatever rises with the need (larger batches, a
//! leak, blocks that wait for other streams) is no part of it. Of this, only what stays until the
//! last end counts. There are two ways to grow:
//!
//! * Steps bring streams: they reserve for a stream that nothing was reserved for before. What is
//!   freed on one stream serves no other, so each stream gets segments of its own. PyTorch has 32
//!   streams of each priority and then begins again, so this growth may have ended.
//! * What is free does not fit what is asked for. This may converge, so more rises are needed, and
//!   they must go on until the last step and become neither rarer nor smaller.
//!
//! The first two steps count for neither: they reserve what all steps use.

use super::judge;
use super::report::ReservedGrowth;
use crate::redact;
use crate::span::Span;
use crate::stacks::FxHashMap;
use crate::steps::Word;
use crate::trace::{Action, DeviceTrace, NO_TARGET, SegmentEvent, Series, Step};
use crate::units::{Bytes, EventIdx};

/// First steps that reserve what all steps use.
const FIRST_STEPS: usize = 2;

/// So many steps that bring streams are a rhythm: three equal distances.
const MIN_BRINGING: usize = 4;

/// So many rises are needed where no streams explain them: what converges rises a few times, too.
const MIN_RISES: usize = 8;

/// Streams of one priority that PyTorch hands out before it begins again with the first.
const STREAMS: usize = 32;

/// Less than this, or than this share of what is reserved, is not worth a word.
const MIN_BYTES: Bytes = Bytes::mib(16);
const MIN_SHARE: f64 = 0.1;

/// The later half of the steps must add this share of the growth; otherwise it converges.
const LATER: f64 = 0.4;

/// Growth on a device over these whole steps; `None` if there is none.
pub(super) fn growth(device: &DeviceTrace, steps: &[&Step]) -> Option<ReservedGrowth> {
    if device.device.is_pinned() || steps.len() < FIRST_STEPS + MIN_BRINGING {
        return None;
    }
    let ends: Vec<EventIdx> = steps.iter().map(|step| step.events.end()).collect();
    let spare = Spare::of(device, &ends);
    by_streams(device, steps, &ends, &spare).or_else(|| by_rises(device, steps, &spare))
}

/// What is reserved at the ends of steps and not needed.
struct Spare {
    /// *Reserved* there.
    reserved: Vec<u64>,
    /// What of it was never needed at once so far, and is still there at the last end.
    unneeded: Vec<u64>,
}

impl Spare {
    fn of(device: &DeviceTrace, ends: &[EventIdx]) -> Spare {
        let mut from = EventIdx(0);
        let mut needed = Bytes::ZERO;
        let mut spare = Spare {
            reserved: Vec::new(),
            unneeded: Vec::new(),
        };
        for &end in ends {
            let levels = device.levels_before(end);
            let peak = device.allocated_peak(Span::new(from.min(end), end));
            needed = needed.max(peak).max(levels.get(Series::Active));
            let reserved = levels.get(Series::Reserved);
            spare.reserved.push(reserved.0);
            spare.unneeded.push(reserved.saturating_sub(needed).0);
            from = end;
        }
        let unneeded = &mut spare.unneeded;
        for at in (1..unneeded.len()).rev() {
            unneeded[at - 1] = unneeded[at - 1].min(unneeded[at]);
        }
        spare
    }

    /// By how much it grew in a step.
    fn rise(&self, at: usize) -> u64 {
        match at.checked_sub(1) {
            Some(before) => self.unneeded[at].saturating_sub(self.unneeded[before]),
            None => 0,
        }
    }

    /// By how much it grew from one step to another one, both included; `None` if that is little,
    /// or if most of what was reserved there was needed.
    fn grown(&self, first: usize, last: usize) -> Option<Bytes> {
        let before = first.checked_sub(1)?;
        let grown = |levels: &[u64]| levels[last].saturating_sub(levels[before]);
        let (bytes, all) = (grown(&self.unneeded), grown(&self.reserved));
        let is_much = bytes as f64 >= MIN_SHARE * self.reserved[last] as f64;
        (bytes >= MIN_BYTES.0 && is_much && 2 * bytes >= all).then_some(Bytes(bytes))
    }
}

/// Growth because steps bring streams.
fn by_streams(
    device: &DeviceTrace,
    steps: &[&Step],
    ends: &[EventIdx],
    spare: &Spare,
) -> Option<ReservedGrowth> {
    let streams = Streams::of(device, ends);
    let mut bringing: Vec<usize> = streams.brought.values().map(|own| own.step).collect();
    bringing.retain(|&step| step >= FIRST_STEPS);
    bringing.sort_unstable();
    bringing.dedup();
    let (&first, &last) = (bringing.first()?, bringing.last()?);
    let goes_on = judge::goes_on(&bringing, steps.len() - 1);
    let has_ended = streams.n > STREAMS && judge::goes_on(&bringing, last);
    if bringing.len() < MIN_BRINGING || !(goes_on || has_ended) {
        return None;
    }
    let bytes = spare.grown(first, last)?;
    let own = streams.brought.values().filter(|own| own.step >= first);
    if 2 * own.map(|own| own.bytes).sum::<u64>() < bytes.0 {
        return None;
    }
    let word = Word::of(&device.steps);
    let those = match last - first + 1 {
        all if all == bringing.len() => format!("each of these {all} {}", word.many()),
        all => format!("{} of these {all} {}", bringing.len(), word.many()),
    };
    let seen = format!(
        "{}: {those} used a new stream, and what is freed on one stream serves no other",
        grew(device, steps, (first, last, goes_on), bytes)
    );
    Some(ReservedGrowth {
        seen,
        advice: "make the stream, or the object that makes it, only once",
        by_streams: true,
    })
}

/// Growth for any other reason, until the last step.
fn by_rises(device: &DeviceTrace, steps: &[&Step], spare: &Spare) -> Option<ReservedGrowth> {
    let n = steps.len();
    let rising: Vec<usize> = (FIRST_STEPS..n).filter(|&at| spare.rise(at) > 0).collect();
    if rising.len() < MIN_RISES || !judge::goes_on(&rising, n - 1) {
        return None;
    }
    let (&first, &last) = (rising.first()?, rising.last()?);
    let bytes = spare.grown(first, last)?;
    let later: u64 = (n.div_ceil(2)..n).map(|at| spare.rise(at)).sum();
    if (later as f64) < LATER * bytes.0 as f64 {
        return None;
    }
    let expands = device.events.action.contains(&Action::SegmentMap)
        || device
            .segments_before
            .iter()
            .any(|segment| segment.expandable);
    let advice = match expands {
        true => "the memory map shows what lies between",
        false => "try `expandable_segments:True`",
    };
    let seen = format!(
        "{}: what is free does not fit what is asked for, or belongs to another stream or pool",
        grew(device, steps, (first, last, true), bytes)
    );
    Some(ReservedGrowth {
        seen,
        advice,
        by_streams: false,
    })
}

/// How fast, and from which step to which.
fn grew(
    device: &DeviceTrace,
    steps: &[&Step],
    (first, last, goes_on): (usize, usize, bool),
    bytes: Bytes,
) -> String {
    let a = Word::of(&device.steps).a();
    let rate = Bytes((bytes.0 as f64 / (last - first + 1) as f64).round() as u64);
    let since = redact::step_in_words(steps[first]);
    match goes_on {
        true => format!(
            "reserved memory grows by {rate} {a} beyond what allocated memory needs, by {bytes} \
             since {since}"
        ),
        false => format!(
            "reserved memory grew by {rate} {a} beyond what allocated memory needs, by {bytes} \
             from {since} to {}",
            redact::step_in_words(steps[last])
        ),
    }
}

/// A stream for which nothing was reserved before a step.
struct Brought {
    /// The position of that step.
    step: usize,
    /// What is reserved for it at the last end.
    bytes: u64,
}

/// The streams for which memory is reserved.
struct Streams {
    /// All of them, with those from before the first event.
    n: usize,
    /// Those that came later, until the last end.
    brought: FxHashMap<u64, Brought>,
}

impl Streams {
    fn of(device: &DeviceTrace, ends: &[EventIdx]) -> Streams {
        // Traces that older versions stored lack segments from before the first event.
        let blocks = &device.blocks;
        let of_blocks = blocks.kind[..blocks.n_preexisting as usize].iter();
        let of_blocks = of_blocks.map(|kind| blocks.kinds[kind.index()].stream);
        let of_segments = device.segments_before.iter().map(|segment| segment.stream);
        let mut before: Vec<u64> = of_blocks.chain(of_segments).collect();
        before.sort_unstable();
        before.dedup();
        let mut brought: FxHashMap<u64, Brought> = FxHashMap::default();
        let end = ends.last().map_or(0, |end| end.index());
        let events = &device.events;
        for (row, action) in events.action[..end].iter().enumerate() {
            let Some((segment, is_more)) = reserving(device, row, *action) else {
                continue;
            };
            if before.binary_search(&segment.stream).is_ok() {
                continue;
            }
            let own = brought.entry(segment.stream).or_insert_with(|| Brought {
                step: ends.partition_point(|end| end.index() <= row),
                bytes: 0,
            });
            own.bytes = match is_more {
                true => own.bytes.saturating_add(segment.size.0),
                false => own.bytes.saturating_sub(segment.size.0),
            };
        }
        Streams {
            n: before.len() + brought.len(),
            brought,
        }
    }
}

/// The segment that an event reserves (`true`) or gives back.
fn reserving(device: &DeviceTrace, row: usize, action: Action) -> Option<(&SegmentEvent, bool)> {
    let is_more = match action {
        Action::SegmentAlloc | Action::SegmentMap => true,
        Action::SegmentFree | Action::SegmentUnmap => false,
        _ => return None,
    };
    let target = device.events.target[row];
    let segment = (target != NO_TARGET).then(|| &device.events.segments[target as usize])?;
    Some((segment, is_more))
}
