//! How much the work in which memory ran out would have needed in all, as far as the work before
//! shows it.
//!
//! In training that is a pass: from its first forward code to the end of its backward code. Passes
//! need the same again and again, above what they find. So the least that one of them needed above
//! that, and what the failed one found, is less than the failed one needed, if it is like any of
//! them. Without a backward pass it is a step; the first one is left out, in which a program makes
//! much that it makes once. A pass none of whose lines the failed one has come to is other work: a
//! derivative that a program takes of its noise schedule, before the model is called.
//!
//! What the failed one would have needed with a smaller batch is told from the largest of them: it
//! is gone through again with the blocks smaller that grow with the batch. If the failed one asked
//! for other sizes at the same places, fifteen times as much for example, they are larger by that.

use super::likeness::{Likeness, Times};
use crate::categories::Category;
use crate::levels::Effect;
use crate::phases::{Phase, Phases};
use crate::span::Span;
use crate::stacks::{Frame, FxHashSet, StackIdx, Stacks};
use crate::trace::{BlockIdx, DeviceTrace, Series};
use crate::units::{Bytes, EventIdx};
use crate::what_if::batch::{Batch, Share};

/// What a whole pass needs at its peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The least that the failed one would have needed, if it is like any of those before, or so
    /// many times as large as the largest.
    pub least: Bytes,
    /// How many times as much it asked for as the largest of them, at the same places; `None` if
    /// as much, or nobody knows.
    pub times: Option<Times>,
    /// What it had taken by then, if that is more than any of them took in all: it is larger in a
    /// way of its own, and nobody knows how much it needs.
    pub outgrown: Option<Bytes>,
    /// What it would have needed with each share of the batch, if it is like the largest of them;
    /// `None` if nobody knows that.
    with: Option<[Bytes; Share::TRIED.len()]>,
}

/// How large a batch a whole pass has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fits {
    /// This share of it, and what the pass would need then.
    Share(Share, Bytes),
    /// Not even the smallest share that is tried.
    None,
    /// Nobody knows: the pass is larger than all before, in a way of its own, or found more than
    /// each step before.
    Unknown,
}

impl Fits {
    /// The share of the batch, where one has room.
    pub fn share(self) -> Option<Share> {
        match self {
            Fits::Share(share, _) => Some(share),
            Fits::None | Fits::Unknown => None,
        }
    }
}

impl Need {
    /// The largest share of the batch with which a pass needs no more than `most`.
    pub fn fits(&self, most: Bytes) -> Fits {
        let Some(with) = self.with else {
            return Fits::Unknown;
        };
        let mut shares = Share::TRIED.into_iter().zip(with);
        let largest = shares.find(|(_, need)| *need <= most);
        largest.map_or(Fits::None, |(share, need)| Fits::Share(share, need))
    }
}

/// What was found when the failed work began.
#[derive(Default)]
pub(super) struct Found {
    gradients: Bytes,
    /// Of what grows with the batch.
    grows: Bytes,
}

impl Found {
    /// Counts a block that was made by then, and was still there or not.
    pub fn add(&mut self, is_there: bool, category: Category, size: Bytes, grows: bool) {
        if is_there && category == Category::Gradient {
            self.gradients += size;
        }
        if is_there && grows {
            self.grows += size;
        }
    }
}

/// The work in which an allocation failed, and the same work before.
pub(super) struct Work {
    /// Where it began.
    pub start: EventIdx,
    failed: EventIdx,
    before: Vec<Span<EventIdx>>,
    /// Whether steps stand for passes.
    is_step: bool,
}

impl Work {
    /// The work in which an allocation failed at this event.
    pub fn before(
        device: &DeviceTrace,
        stacks: &Stacks,
        phases: &Phases,
        failed: EventIdx,
    ) -> Option<Work> {
        let is_step = !phases.has(Phase::Backward);
        let (before, start) = match is_step {
            false => {
                let (mut before, start) = passes(phases, failed)?;
                let own = lines(device, stacks, Span::new(start, failed));
                before.retain(|pass| {
                    own.is_empty() || !own.is_disjoint(&lines(device, stacks, *pass))
                });
                (before, start)
            }
            true => steps(device, failed)?,
        };
        Some(Work {
            start,
            failed,
            before,
            is_step,
        })
    }

    /// What it would have needed; `None` if nothing like it was recorded before.
    pub fn need(&self, device: &DeviceTrace, batch: &Batch, found: Found) -> Option<Need> {
        let at = |event: EventIdx| device.levels_before(event).get(Series::Allocated);
        let above = |span: &&Span<EventIdx>| {
            let peak = device.allocated_peak(**span);
            peak.saturating_sub(at(span.start()))
        };
        let least = self.before.iter().map(|span| above(&span)).min()?;
        let largest = self.before.iter().max_by_key(above)?;
        // The first pass made the gradients that this one may find.
        let gradients = match self.before.len() {
            1 => found.gradients,
            _ => Bytes::ZERO,
        };
        let own = at(self.failed).saturating_sub(at(self.start));
        let failed = Span::new(self.start, self.failed);
        let grows = |block: BlockIdx| batch.grows(block);
        let likeness = Likeness::between(device, *largest, failed, grows);
        let is_like = likeness.is_some() || own <= above(&largest);
        let outgrown = (likeness.is_none() && own > above(&largest)).then_some(own);
        let larger = likeness.filter(|likeness| !likeness.times.is_same());
        let times = larger.as_ref().map(|larger| larger.times);
        // Where each step finds more, such as those of a rollout before its backward pass, nobody
        // knows how many are still to come.
        let found_less = |span: &Span<EventIdx>| at(span.start()) < at(self.start);
        let is_more = self.is_step && self.before.iter().all(found_less);
        let needs = |share: Share| {
            let start = at(self.start).saturating_sub(found.grows) + share.of(found.grows);
            let above = peak(device, batch, *largest, |place, size| match &larger {
                Some(larger) if larger.is_as_before(place) => size,
                Some(larger) => share.of(larger.times.of(size)),
                None => share.of(size),
            });
            (start + above).saturating_sub(gradients)
        };
        let least = match times {
            Some(_) => needs(Share::WHOLE),
            None => (at(self.start) + least).saturating_sub(gradients),
        };
        Some(Need {
            least,
            times,
            outgrown,
            with: (is_like && !is_more).then(|| Share::TRIED.map(needs)),
        })
    }
}

/// How much a pass would have needed above what it found, if what grows with the batch had these
/// other sizes.
fn peak(
    device: &DeviceTrace,
    batch: &Batch,
    pass: Span<EventIdx>,
    other: impl Fn(StackIdx, Bytes) -> Bytes,
) -> Bytes {
    let (mut level, mut peak) = (0_i128, 0);
    for event in (pass.start().0..pass.end().0).map(EventIdx) {
        let block = BlockIdx(device.events.target[event.index()]);
        let size = |size: Bytes| match batch.grows(block) {
            true => i128::from(other(device.blocks.kind(block).alloc_stack, size).0),
            false => i128::from(size.0),
        };
        level += match device.effect(event) {
            Effect::Alloc { size: is, .. } => size(is),
            Effect::FreeRequested { size: is } | Effect::Free { size: is, .. } => -size(is),
            _ => 0,
        };
        peak = peak.max(level);
    }
    Bytes(u64::try_from(peak).unwrap_or(u64::MAX >> 2))
}

/// The lines that allocated in these events.
fn lines(device: &DeviceTrace, stacks: &Stacks, events: Span<EventIdx>) -> FxHashSet<Frame> {
    let blocks = device.blocks.allocated_in(events).map(BlockIdx);
    let places = blocks.map(|block| device.blocks.kind(block).alloc_stack);
    let places: FxHashSet<StackIdx> = places.collect();
    let lines = places.into_iter();
    lines.filter_map(|place| stacks.headline(place)).collect()
}

/// The passes that ran to the end of their backward code, and where the one begins that failed.
fn passes(phases: &Phases, failed: EventIdx) -> Option<(Vec<Span<EventIdx>>, EventIdx)> {
    let mut whole = Vec::new();
    let mut start = None;
    let mut back_until = None;
    let spans = phases.spans().iter();
    for span in spans.filter(|span| span.events.start() <= failed) {
        match (span.phase, start, back_until) {
            (Phase::Forward, Some(from), Some(until)) => {
                whole.push(Span::new(from, until));
                (start, back_until) = (Some(span.events.start()), None);
            }
            (Phase::Forward, None, _) => start = Some(span.events.start()),
            (Phase::Backward, Some(_), _) => back_until = Some(span.events.end()),
            _ => {}
        }
    }
    let is_within = matches!(phases.at(failed), Phase::Forward | Phase::Backward);
    Some((whole, start?)).filter(|_| is_within)
}

/// The steps that ran to their end, without the first, and where the one begins that failed.
fn steps(device: &DeviceTrace, failed: EventIdx) -> Option<(Vec<Span<EventIdx>>, EventIdx)> {
    let spans = device.steps.iter().map(|step| step.events);
    let whole: Vec<_> = spans.filter(|span| span.end() <= failed).collect();
    // A step that was cut off is none.
    let start = whole.last()?.end();
    Some((whole[1..].to_vec(), start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::categories::Categories;
    use crate::failing::Failing;
    use crate::phases::program::{ADAM, MODULE, Program, TENSOR};

    const MIB: u64 = 1 << 20;

    /// Passes of these many MiB; the next one fails in its forward code after so many. 10 MiB are
    /// there, and an optimizer keeps 4 MiB after the first pass.
    fn recorded(passes: &[u64], failed_after: u64) -> Option<Need> {
        let mut p = Program::default();
        let module = format!("_call_impl {MODULE}:1");
        let forward = ["main t.py:4", &module, "forward net.py:3"];
        let backward = ["main t.py:5", &format!("backward {TENSOR}:5")];
        p.alloc(10 * MIB, &["main t.py:1"]);
        for (at, pass) in passes.iter().enumerate() {
            let saved = p.alloc(pass * MIB, &forward);
            p.alloc(512, &backward);
            let gradient = p.alloc(MIB, &[]);
            p.free(saved);
            p.free(gradient);
            if at == 0 {
                p.alloc(4 * MIB, &["main t.py:6", &format!("step {ADAM}:7")]);
            }
        }
        p.alloc(failed_after * MIB, &forward);
        p.builder.out_of_memory(Bytes::mib(40));
        need(p)
    }

    fn need(p: Program) -> Option<Need> {
        let trace = p.finish();
        let device = &trace.devices[0];
        let phases = Phases::of(device, &trace.stacks);
        let categories = Categories::of(device, &trace.stacks);
        let failed = crate::oom::first(device).expect("a failure");
        Failing::of(device, &trace.stacks, (&categories, &phases), &failed).need
    }

    #[test]
    fn a_pass_needs_what_the_passes_before_needed() {
        let check = |passes: &[u64], mib: Option<u64>| {
            let need = recorded(passes, 1).map(|need| need.least.0 / MIB);
            assert_eq!(need, mib, "{passes:?}");
        };
        // What a pass saves, the gradient beside it, and what is there.
        check(&[20], Some(20 + 1 + 14));
        check(&[20, 20, 20], Some(20 + 1 + 14));
        // Passes of other sizes show what the smallest needs.
        check(&[20, 30, 25], Some(20 + 1 + 14));
        check(&[], None);
    }

    #[test]
    fn a_pass_at_other_lines_tells_nothing_of_what_a_pass_needs() {
        let check = |of_schedule: &str, expected: Option<u64>| {
            let mut p = Program::default();
            let module = format!("_call_impl {MODULE}:1");
            p.alloc(10 * MIB, &["main t.py:1"]);
            let saved = p.alloc(MIB, &["main t.py:2", &module, of_schedule]);
            p.alloc(512, &["main t.py:2", &format!("backward {TENSOR}:5")]);
            p.free(saved);
            p.alloc(30 * MIB, &["main t.py:4", &module, "forward net.py:3"]);
            p.builder.out_of_memory(Bytes::mib(40));
            let need = need(p);
            assert_eq!(
                need.and_then(|need| need.outgrown),
                expected.map(Bytes::mib)
            );
        };
        check("forward net.py:3", Some(30));
        check("forward schedule.py:9", None);
    }

    /// What a pass saves shrinks with the batch, and so do the 10 MiB of its input; the optimizer's
    /// state does not.
    #[test]
    fn a_smaller_batch_has_room_for_the_largest_pass_before() {
        let check = |passes: &[u64], mib: u64, expected: Option<(&str, u64)>| {
            let need = recorded(passes, 1).expect("passes before");
            let found = match need.fits(Bytes::mib(mib)) {
                Fits::Share(share, need) => Some((share.to_string(), need.0 / MIB)),
                Fits::None | Fits::Unknown => None,
            };
            let expected = expected.map(|(share, mib)| (share.to_owned(), mib));
            assert_eq!(found, expected, "{passes:?}, {mib} MiB");
        };
        check(&[24, 16, 16], 38, Some(("7/8", 34)));
        check(&[24, 16, 16], 30, Some(("1/2", 21)));
        check(&[24, 16, 16], 12, None);
    }

    /// At the same place the failed pass asked for five times as much, and so does what the
    /// backward pass makes beside it. Half of the batch needs half of both and of the input of
    /// 10 MiB, and the state of 4 MiB.
    #[test]
    fn a_pass_that_is_larger_at_the_same_places_needs_more_in_proportion() {
        let need = recorded(&[20, 20], 100).expect("passes before");
        assert_eq!(need.times.map(|times| times.number().round()), Some(5.0));
        assert_eq!(need.least.0 / MIB, 100 + 5 + 14);
        let fits = need.fits(Bytes::mib(80));
        let Fits::Share(share, bytes) = fits else {
            panic!("{fits:?}");
        };
        assert_eq!((share, bytes.0 / MIB), (Share(4), 50 + 2 + 4 + 5));
    }
}
