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
//! What the program asks for is taken so many times, and rounded up as its allocator does.
//!
//! A first pass makes more than it needs again: gradients that later ones add to, workspaces of
//! libraries, the memory of a graph. The failed pass finds that, so it is not counted twice.

use super::likeness::{Likeness, Times};
use crate::allocator::Config;
use crate::categories::{Categories, Category};
use crate::levels::Effect;
use crate::phases::{Phase, Phases};
use crate::span::Span;
use crate::stacks::{Frame, FxHashSet, StackIdx, Stacks};
use crate::trace::{BlockIdx, BlockKind, DeviceTrace, Series};
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
    /// What it would have needed with this share of the batch; `None` if nobody knows that, or the
    /// share is none of those that are tried.
    pub fn with_share(&self, share: Share) -> Option<Bytes> {
        let at = Share::TRIED.iter().position(|tried| *tried == share)?;
        Some(self.with?[at])
    }

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
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Of what grows with the batch.
    grows: Bytes,
    /// Whether gradients were there.
    has_gradients: bool,
    /// Where the first gradient was made; `None` where one had been before the recording.
    first_gradient: Option<EventIdx>,
    had_gradients: bool,
}

impl Found {
    /// Counts a block that was made by then, at this event or before the recording, and was still
    /// there or not. Blocks come in order.
    pub fn add(
        &mut self,
        made: Option<EventIdx>,
        is_there: bool,
        category: Category,
        grows: Bytes,
    ) {
        if category == Category::Gradient {
            self.has_gradients |= is_there;
            if !self.had_gradients {
                self.first_gradient = made;
            }
            self.had_gradients = true;
        }
        if is_there {
            self.grows += grows;
        }
    }

    /// Whether the gradients of a pass are the first ones, and others were found.
    fn replaces(&self, pass: Span<EventIdx>) -> bool {
        let is_in_pass = |first: EventIdx| pass.contains(first);
        self.has_gradients && self.first_gradient.is_some_and(is_in_pass)
    }
}

/// No estimate is larger, so that sums of two do not overflow.
const MOST: u64 = u64::MAX >> 2;

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
    ///
    /// `own` are the settings of the program.
    pub fn need(
        &self,
        device: &DeviceTrace,
        own: &Config,
        (batch, categories): (&Batch, &Categories),
        found: Found,
    ) -> Option<Need> {
        let at = |event: EventIdx| device.levels_before(event).get(Series::Allocated);
        let above = |span: &Span<EventIdx>| {
            let peak = device.allocated_peak(*span);
            peak.saturating_sub(at(span.start()))
        };
        let kind = |block: BlockIdx| device.blocks.kind(block);
        let lasting = Lasting {
            work: self,
            device,
            batch,
            categories,
            found,
        };
        let passes = self.before.iter().copied();
        let passes = passes.map(|pass| (lasting.peak_without(pass, |b| kind(b).size), pass));
        let passes: Vec<(Bytes, Span<EventIdx>)> = passes.collect();
        let least = passes.iter().map(|(peak, _)| *peak).min()?;
        let (_, largest) = *passes.iter().max_by_key(|(peak, _)| *peak)?;
        let most = self.before.iter().map(above).max()?;
        let taken = at(self.failed).saturating_sub(at(self.start));
        let failed = Span::new(self.start, self.failed);
        let grows = |block: BlockIdx| batch.grows(block);
        let likeness = Likeness::between(device, largest, failed, grows);
        let is_like = likeness.is_some() || taken <= most;
        let outgrown = (likeness.is_none() && taken > most).then_some(taken);
        let larger = likeness.filter(|likeness| !likeness.times.is_same());
        let times = larger.as_ref().map(|larger| larger.times);
        // Where each step finds more, such as those of a rollout before its backward pass, nobody
        // knows how many are still to come.
        let found_less = |span: &Span<EventIdx>| at(span.start()) < at(self.start);
        let is_more = self.is_step && self.before.iter().all(found_less);
        let resized = |share: Share, block: BlockIdx| {
            let BlockKind {
                size, requested, ..
            } = *kind(block);
            let other = match &larger {
                _ if !batch.grows(block) => requested,
                Some(larger) if larger.is_as_before(kind(block).alloc_stack) => requested,
                Some(larger) => share.of(larger.times.of(requested)),
                None => share.of(requested),
            };
            match other == requested {
                true => size,
                false => Bytes(own.round_size(other.0.min(MOST))),
            }
        };
        let needs = |share: Share| {
            let start = at(self.start).saturating_sub(found.grows) + share.of(found.grows);
            start + lasting.peak_without(largest, |block| resized(share, block))
        };
        let least = match times {
            Some(_) => needs(Share::WHOLE),
            None => at(self.start) + least,
        };
        Some(Need {
            least,
            times,
            outgrown,
            with: (is_like && !is_more).then(|| Share::TRIED.map(needs)),
        })
    }
}

/// What passes made for good: the failed work finds it, and does not make it again.
struct Lasting<'a> {
    work: &'a Work,
    device: &'a DeviceTrace,
    batch: &'a Batch,
    categories: &'a Categories,
    found: Found,
}

impl Lasting<'_> {
    /// How much a pass needs above what it finds, if blocks have these sizes, without what it made
    /// for good.
    fn peak_without(&self, pass: Span<EventIdx>, size_of: impl Fn(BlockIdx) -> Bytes) -> Bytes {
        let (mut level, mut peak) = (0_i128, 0);
        for event in (pass.start().0..pass.end().0).map(EventIdx) {
            let block = BlockIdx(self.device.events.target[event.index()]);
            let size = || match self.is_of(pass, block) {
                true => 0,
                false => i128::from(size_of(block).0),
            };
            level += match self.device.effect(event) {
                Effect::Alloc { .. } => size(),
                Effect::FreeRequested { .. } | Effect::Free { .. } => -size(),
                _ => 0,
            };
            peak = peak.max(level);
        }
        Bytes(u64::try_from(peak).unwrap_or(MOST).min(MOST))
    }

    /// Whether a pass made a block for good. What the last pass left may be made again in each, as
    /// an output that a variable holds until the next one is there; only where no other pass shows
    /// that, what does not grow with the batch is taken to stay. Gradients are for good, too, where
    /// the pass found none and the failed one did: it holds those of the pass before in their
    /// place.
    fn is_of(&self, pass: Span<EventIdx>, block: BlockIdx) -> bool {
        let until = self.device.blocks.free_requested[block.index()];
        if until < pass.end().0 {
            return false;
        }
        let is_last = self.work.before.last() == Some(&pass);
        let is_only = !self.work.is_step && self.work.before.len() == 1;
        let is_found = until >= self.work.start.0;
        let is_for_good = is_found && (!is_last || is_only && !self.batch.grows(block));
        let is_replaced =
            self.found.replaces(pass) && self.categories.found(block) == Category::Gradient;
        is_for_good || is_replaced
    }
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
    use crate::failing::Failing;
    use crate::phases::program::{ADAM, MODULE, Program, TENSOR};
    use crate::testing::block_of;

    const MIB: u64 = 1 << 20;

    /// Passes of these many MiB; the next one fails in its forward code after so many. 10 MiB are
    /// there, and an optimizer keeps 4 MiB after the first pass.
    fn recorded(passes: &[u64], failed_after: u64) -> Option<Need> {
        let own = Config::default();
        need(program(&own, passes, 0, failed_after), &own)
    }

    /// The same under these settings, if the first pass makes so many MiB more for good.
    fn program(own: &Config, passes: &[u64], for_good: u64, failed_after: u64) -> Program {
        let mut p = Program::default();
        let module = format!("_call_impl {MODULE}:1");
        let forward = ["main t.py:4", &module, "forward net.py:3"];
        let alloc_stack = p.stack(&forward);
        let save = |p: &mut Program, mib: u64| {
            let requested = Bytes::mib(mib);
            p.builder.alloc(BlockKind {
                alloc_stack,
                size: Bytes(own.round_size(requested.0)),
                ..block_of(requested)
            })
        };
        let backward = ["main t.py:5", &format!("backward {TENSOR}:5")];
        p.alloc(10 * MIB, &["main t.py:1"]);
        for (at, pass) in passes.iter().enumerate() {
            let saved = save(&mut p, *pass);
            p.alloc(512, &backward);
            let gradient = p.alloc(MIB, &[]);
            if at == 0 && for_good > 0 {
                p.alloc(for_good * MIB, &backward);
            }
            p.free(saved);
            p.free(gradient);
            if at == 0 {
                p.alloc(4 * MIB, &["main t.py:6", &format!("step {ADAM}:7")]);
            }
        }
        save(&mut p, failed_after);
        p.builder.out_of_memory(Bytes::mib(40));
        p
    }

    fn need(p: Program, own: &Config) -> Option<Need> {
        let trace = p.finish();
        let device = &trace.devices[0];
        let phases = Phases::of(device, &trace.stacks);
        let categories = Categories::of(device, &trace.stacks);
        let failed = crate::oom::first(device).expect("a failure");
        Failing::of(device, &trace.stacks, (&categories, &phases), own, &failed).need
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
            let need = need(p, &Config::default());
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
        assert_eq!(need.with_share(share), Some(bytes));
        assert_eq!(need.with_share(Share::WHOLE), None);
    }

    /// The failed pass finds them, and makes none again.
    #[test]
    fn what_the_first_pass_made_for_good_is_not_needed_twice() {
        let check = |passes: &[u64], failed_after: u64, mib: u64| {
            let own = Config::default();
            let need = need(program(&own, passes, 30, failed_after), &own);
            let need = need.expect("passes before");
            assert_eq!(need.times.map(|times| times.number().round()), Some(5.0));
            assert_eq!(need.least.0 / MIB, mib, "{passes:?}");
        };
        check(&[20, 20], 100, 100 + 5 + 14 + 30);
        // The first one is the largest.
        check(&[40, 20, 20], 200, 200 + 5 + 14 + 30);
    }

    /// The first pass makes gradients. Each later one gives those up that it found, after its
    /// forward code, and makes others.
    #[test]
    fn gradients_that_are_replaced_are_not_needed_twice() {
        let mut p = Program::default();
        let module = format!("_call_impl {MODULE}:1");
        let forward = ["main t.py:4", &module, "forward net.py:3"];
        let backward = ["main t.py:5", &format!("backward {TENSOR}:5")];
        let noted = |p: &mut Program, mib: u64, category: Category| {
            let text = p.builder.stacks.strings.push(category.name());
            p.builder.alloc(BlockKind {
                metadata: Some(text),
                ..block_of(Bytes::mib(mib))
            })
        };
        noted(&mut p, 24, Category::Parameter);
        let mut gradient = None;
        for pass in [30, 20] {
            let saved = p.alloc(pass * MIB, &forward);
            if let Some(old) = gradient {
                p.free(old);
            }
            p.alloc(512, &backward);
            gradient = Some(noted(&mut p, 24, Category::Gradient));
            p.free(saved);
            if pass == 30 {
                p.alloc(4 * MIB, &["main t.py:6", &format!("step {ADAM}:7")]);
            }
        }
        p.alloc(150 * MIB, &forward);
        p.builder.out_of_memory(Bytes::mib(40));
        let need = need(p, &Config::default()).expect("passes before");
        // Beside it are the parameter, the gradient that the failed pass found, and the state.
        assert_eq!(need.least.0 / MIB, 150 + 24 + 24 + 4);
    }

    /// 17 MiB get a block of 20 MiB, and 40 MiB one of 40 MiB.
    #[test]
    fn what_is_asked_for_grows_and_not_what_it_is_rounded_to() {
        let own = Config {
            roundup_power2_divisions: [4; 16],
            ..Config::default()
        };
        let need = need(program(&own, &[17, 17], 0, 40), &own).expect("passes before");
        // The gradient beside it would have 2.4 MiB, in a block of 2.5 MiB.
        assert_eq!(need.least.0 / MIB, 40 + 2 + 14);
    }
}
