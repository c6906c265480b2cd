//! Failed allocations: when, how much was asked, how much was free, who asked, what was held.

use crate::allocator::Config;
use crate::categories::{Categories, Shares};
use crate::code::{self, Native};
use crate::median;
use crate::span::Span;
use crate::stacks::{Frame, StackIdx, Stacks};
use crate::trace::{Action, BlockIdx, Blocks, DeviceTrace, NO_TARGET, Series, Step};
use crate::units::{Bytes, EventIdx};
use std::ops::Range;

/// A failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The event.
    pub event: EventIdx,
    /// Position among the steps of the step in which it failed.
    pub step: Option<u32>,
    /// The requested bytes.
    pub asked: Bytes,
    /// The free bytes of the driver; `None` where the recording does not say.
    pub free: Option<Bytes>,
    /// *Allocated* at that moment.
    pub allocated: Bytes,
    /// *Reserved* at that moment.
    pub reserved: Bytes,
    /// The stack of the request.
    pub stack: StackIdx,
}

/// The driver never hands out the last of what it tells as free, nor a page that leaves less than
/// this: on full H200s a page of 20 MiB was refused while 21.125 MiB were free.
pub const NEVER_GIVEN: Bytes = Bytes(4 << 20);

impl Failure {
    /// The process's own limit, if a limit must have refused the request because the driver had
    /// enough free memory for the segment, or the pages, that it needed under these settings, and
    /// [`NEVER_GIVEN`]. The limit lies between the reserved bytes and the reserved bytes plus that
    /// segment; this is the upper bound.
    pub fn limit_under(&self, own: &Config) -> Option<Bytes> {
        let needed = Bytes(own.driver_needs(own.round_size(self.asked.0)));
        let enough = needed.saturating_add(NEVER_GIVEN);
        let had_enough = self.free.is_some_and(|free| free >= enough);
        had_enough.then_some(self.reserved + self.segment(own))
    }

    /// The segment that the request needed under these settings.
    pub fn segment(&self, config: &Config) -> Bytes {
        Bytes(config.segment_size(config.round_size(self.asked.0)))
    }
}

/// The largest number of failed allocations that are listed for a device, the first ones.
pub const MAX_FAILURES: usize = 256;

/// Who asked for memory: the operation, and the line of the program that called it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// `mm`, or the innermost function of a framework. Absent if the program itself asked.
    pub operation: Option<String>,
    /// The innermost frame of the program that a person wrote. If there is none, one of code that
    /// was generated, or the frame that a person would recognise.
    pub frame: Option<Frame>,
}

impl Asker {
    /// Finds who asked, from the stack of a request.
    pub fn of(stacks: &Stacks, stack: StackIdx) -> Asker {
        let frames = || {
            let frames = stacks.frames(stack).iter();
            frames.map(|&frame| stacks.frame(frame))
        };
        let is_python = |frame: &Frame| code::is_python(stacks.str(frame.filename), frame.line);
        let is_own = |frame: &Frame| !code::is_framework(stacks.str(frame.filename), frame.line);
        let native = frames().find(|frame| {
            !is_python(frame) && code::native(stacks.str(frame.name)) == Native::Operation
        });
        let native = native.map(|frame| code::function_name(stacks.str(frame.name)).to_owned());
        let called = || {
            let inner = frames().find(is_python).filter(|frame| !is_own(frame))?;
            let (name, file) = (stacks.str(inner.name), stacks.str(inner.filename));
            Some(format!("{name} at {}:{}", code::module(file), inner.line))
        };
        // Nobody can change code that `torch.compile` wrote: its caller is told.
        let is_written =
            |frame: &Frame| is_own(frame) && !code::is_generated(stacks.str(frame.filename));
        let own = frames().find(is_written).or_else(|| frames().find(is_own));
        Asker {
            operation: native.or_else(|| own.and_then(|_| called())),
            frame: own.or_else(|| stacks.headline(stack)),
        }
    }
}

/// How many allocations of a device failed.
pub fn count(device: &DeviceTrace) -> usize {
    let actions = device.events.action.iter();
    actions.filter(|&&action| action == Action::Oom).count()
}

/// The first failed allocations of a device, in order.
pub fn failures(device: &DeviceTrace) -> Vec<Failure> {
    let actions = device.events.action.iter().enumerate();
    actions
        .filter(|(_, action)| **action == Action::Oom)
        .filter_map(|(event, _)| failure(device, EventIdx(event as u32)))
        .take(MAX_FAILURES)
        .collect()
}

/// The first failed allocations that were not passed over, in order.
pub fn felt(device: &DeviceTrace) -> Vec<Failure> {
    let passed_over = passed_over(device);
    let actions = device.events.action.iter().enumerate();
    let events = actions
        .filter(|(_, action)| **action == Action::Oom)
        .map(|(event, _)| EventIdx(event as u32))
        .filter(|event| passed_over.binary_search(event).is_err());
    events
        .filter_map(|event| failure(device, event))
        .take(MAX_FAILURES)
        .collect()
}

/// The failed allocation at this event.
fn failure(device: &DeviceTrace, event: EventIdx) -> Option<Failure> {
    let events = &device.events;
    let row = events.others.get(events.target[event.index()] as usize)?;
    let levels = device.levels_at(event);
    let mut steps = device.steps.iter();
    let step = steps.position(|step| step.events.contains(event));
    Some(Failure {
        event,
        step: step.map(|at| at as u32),
        asked: row.size,
        free: row.free(),
        allocated: levels.get(Series::Allocated),
        reserved: levels.get(Series::Reserved),
        stack: row.stack,
    })
}

/// The first failed allocation that was not passed over.
pub fn first(device: &DeviceTrace) -> Option<Failure> {
    felt(device).into_iter().next()
}

/// The failed allocations after which the program went on as if nothing had happened: with another
/// request at once, or with the rest of its step, and then with later steps. So do libraries that
/// look for an algorithm whose work space fits, such as cuDNN. A program that catches a failure
/// itself gives up the step, and what the step held goes back first, also where it then does the
/// same step again with a smaller batch.
pub fn passed_over(device: &DeviceTrace) -> Vec<EventIdx> {
    let mut passed_over = Vec::new();
    let Some(last) = device.steps.last().filter(|_| count(device) > 0) else {
        return passed_over;
    };
    let usual = Usual::of(device);
    let whole: Vec<bool> = (device.steps.iter())
        .map(|step| usual.is_whole(&device.blocks.allocated_in(step.events)))
        .collect();
    let is_in_whole = |event: EventIdx| {
        let after = device.steps.partition_point(|s| s.events.start() <= event);
        let step = after.checked_sub(1);
        step.is_some_and(|at| whole[at] && device.steps[at].events.contains(event))
    };
    let given_up = given_up(device);
    let is_given_up = |event: EventIdx| given_up.binary_search(&event).is_ok();
    let mut asks_again = false;
    for (event, action) in device.events.action.iter().enumerate().rev() {
        let event = EventIdx(event as u32);
        match action {
            Action::Oom => {
                let goes_on = asks_again || is_in_whole(event) && !is_given_up(event);
                let is_followed = event < last.events.start();
                passed_over.extend((goes_on && is_followed).then_some(event));
            }
            Action::SegmentAlloc
            | Action::SegmentFree
            | Action::SegmentMap
            | Action::SegmentUnmap
            | Action::FreeCompleted => {}
            action => asks_again = *action == Action::Alloc,
        }
    }
    passed_over.reverse();
    passed_over
}

/// The failed allocations after which more than half of what their step held was given back before
/// the next request, in order.
fn given_up(device: &DeviceTrace) -> Vec<EventIdx> {
    let mut given_up = Vec::new();
    let mut steps = device.steps.iter().peekable();
    // What the step holds of what it allocated, and what it held at the failures since then.
    let (mut begin, mut held) = (EventIdx(0), Bytes::ZERO);
    let mut failed: Vec<(EventIdx, Bytes)> = Vec::new();
    for (at, action) in device.events.action.iter().enumerate() {
        let event = EventIdx(at as u32);
        if let Some(step) = steps.next_if(|step| step.events.start() <= event) {
            (begin, held) = (step.events.start(), Bytes::ZERO);
            failed.clear();
        }
        let block = BlockIdx(device.events.target[at]);
        let size = || device.blocks.kind(block).size;
        match action {
            Action::Oom => failed.push((event, held)),
            Action::Alloc => {
                let lost = failed.iter().filter(|(_, before)| held.0 < before.0 / 2);
                given_up.extend(lost.map(|(event, _)| *event));
                failed.clear();
                held += size();
            }
            Action::FreeRequested if block.0 != NO_TARGET => {
                let is_of_step = block.0 >= device.blocks.n_preexisting
                    && device.blocks.alloc[block.index()] >= begin.0;
                held = held.saturating_sub(if is_of_step { size() } else { Bytes::ZERO });
            }
            _ => {}
        }
    }
    given_up
}

/// A step in which something failed ran to its end if it has at least this share of the allocations
/// of a usual step.
const COMPLETE: f64 = 0.9;

/// What steps without a failure allocate.
struct Usual<'t> {
    blocks: &'t Blocks,
    /// The fewest allocations of a step that ran to its end.
    allocations: f64,
    /// The fewest events of one.
    events: f64,
    /// The place of the last one, and how often it is called at least.
    last: Option<(StackIdx, usize)>,
}

impl Usual<'_> {
    fn of(device: &DeviceTrace) -> Usual<'_> {
        let blocks = &device.blocks;
        let actions = |step: &Step| {
            let events = step.events.start().index()..step.events.end().index();
            &device.events.action[events]
        };
        let steps = device.steps.iter();
        let without: Vec<&Step> = steps
            .filter(|step| !actions(step).contains(&Action::Oom))
            .collect();
        let made = |step: &&Step| blocks.allocated_in(step.events);
        let usual: Vec<Range<u32>> = without.iter().map(made).collect();
        let least = |counts: Vec<usize>| {
            median::upper(counts).map_or(f64::INFINITY, |usual| COMPLETE * usual as f64)
        };
        let places = usual.iter().filter_map(|made| {
            let last = made.clone().next_back()?;
            Some(blocks.kind(BlockIdx(last)).alloc_stack)
        });
        let mut found = Usual {
            blocks,
            allocations: least(usual.iter().map(ExactSizeIterator::len).collect()),
            events: least(without.iter().map(|step| actions(step).len()).collect()),
            last: None,
        };
        found.last = usual_last(places).map(|last| {
            let counts = usual.iter().map(|made| found.at(last, made));
            (last, counts.filter(|&n| n > 0).min().unwrap_or(0))
        });
        found
    }

    /// How many of these blocks were allocated at a place.
    fn at(&self, place: StackIdx, made: &Range<u32>) -> usize {
        let places = made
            .clone()
            .map(|block| self.blocks.kind(BlockIdx(block)).alloc_stack);
        places.filter(|&at| at == place).count()
    }

    /// Whether a step that allocated these blocks ran to its end: they are as many as in steps
    /// without a failure, also at the place of the last one. A first step makes the model, too, and
    /// so does as much before it is given up.
    fn is_whole(&self, made: &Range<u32>) -> bool {
        let is_last = |(last, n)| self.at(last, made) >= n;
        made.len() as f64 >= self.allocations && self.last.is_none_or(is_last)
    }
}

/// How many steps ran to their end after a failed allocation: those that follow, and its own if all
/// that a step does was done again after it. A last step that the recording may have cut counts if
/// it did as much as others.
pub fn steps_after(device: &DeviceTrace, failed: EventIdx) -> usize {
    let usual = Usual::of(device);
    let n = EventIdx(device.events.len());
    let is_whole = |step: &&Step| {
        let from = step.events.start().max(EventIdx(failed.0 + 1));
        let rest = Span::new(from, step.events.end());
        let ends_before = step.events.start() > failed && step.events.end() < n;
        let events = rest.end().0.saturating_sub(rest.start().0);
        let does_all = || {
            f64::from(events) >= usual.events && usual.is_whole(&device.blocks.allocated_in(rest))
        };
        ends_before || does_all()
    };
    let after = device
        .steps
        .iter()
        .filter(|step| step.events.end().0 > failed.0 + 1);
    after.filter(is_whole).count()
}

/// The place of the last allocation of most steps; `None` if they differ, or it has no stack.
fn usual_last(last: impl Iterator<Item = StackIdx>) -> Option<StackIdx> {
    let mut last: Vec<StackIdx> = last.collect();
    last.sort_unstable();
    let same = last.chunk_by(|a, b| a == b).max_by_key(|same| same.len())?;
    (same.len() * 2 > last.len() && same[0] != StackIdx::NONE).then_some(same[0])
}

/// What was allocated when it failed, by category.
pub fn held(device: &DeviceTrace, stacks: &Stacks, failure: &Failure) -> Shares {
    Categories::of(device, stacks).alive(device, Some(failure.event))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TraceBuilder, block_of};
    use crate::trace::BlockKind;

    /// `a` requests memory, and `u` for an update, `f` gives it back, and `o` fails; steps begin at
    /// these events.
    #[test]
    fn what_asks_again_at_once_and_goes_on_is_passed_over() {
        let check = |events: &str, starts: &[u32], expected: &[u32], failed: Option<u32>| {
            let mut builder = TraceBuilder::default();
            let usual = block_of(Bytes::mib(2));
            let update = BlockKind {
                alloc_stack: builder.stack("step", "adam.py", 9),
                ..usual
            };
            let mut held = Vec::new();
            for event in events.chars() {
                match event {
                    'a' => held.push(builder.alloc(usual)),
                    'u' => held.push(builder.alloc(update)),
                    'f' => builder.free_requested(held.pop().expect("a block")),
                    _ => builder.out_of_memory(Bytes::mib(9)),
                }
            }
            let mut device = builder.finish().devices.remove(0);
            let n = device.events.len();
            let ends = starts[1..].iter().copied().chain([n]);
            let step = |((&start, end), index): ((&u32, u32), u32)| Step {
                index,
                name: format!("step {index}"),
                events: Span::new(EventIdx(start), EventIdx(end)),
            };
            let steps = starts.iter().zip(ends).zip(0..).map(step);
            device.steps = steps.collect();
            let expected: Vec<_> = expected.iter().copied().map(EventIdx).collect();
            assert_eq!(passed_over(&device), expected, "{events}");
            let found = first(&device).map(|failure| failure.event.0);
            assert_eq!(found, failed, "{events}");
        };
        check("aooaa", &[0, 4], &[1, 2], None);
        // What it held is given back: it was caught, or the program ends.
        check("aofaa", &[0, 3], &[], Some(1));
        check("aoa", &[0], &[], Some(1));
        // Its step does as much as another one.
        check("aaofaaaa", &[0, 5], &[2], None);
        check("aoaofaaa", &[0, 5], &[1], Some(3));
        // It does as much, but no update.
        check("aaaaofaaauaaau", &[0, 6, 10], &[], Some(4));
        check("aaauofaaauaaau", &[0, 6, 10], &[4], None);
        check("aaaofuaaauaaau", &[0, 6, 10], &[3], None);
        // The same step again with a smaller batch: all that the first try held goes back.
        check("aaaofffaaauaaau", &[0, 11], &[], Some(3));
    }

    #[test]
    fn who_asked_is_an_operation_and_a_line_of_the_program() {
        let check = |frames: &[(&str, &str, u32)], operation: Option<&str>, line: Option<u32>| {
            let mut stacks = Stacks::default();
            let frames: Vec<_> = frames
                .iter()
                .map(|&(name, file, line)| {
                    let name = stacks.strings.push(name);
                    let filename = stacks.strings.push(file);
                    stacks.push_frame(Frame {
                        name,
                        filename,
                        line,
                    })
                })
                .collect();
            let stack = stacks.push_stack(&frames);
            let asker = Asker::of(&stacks, stack);
            let found = (asker.operation.as_deref(), asker.frame.map(|f| f.line));
            assert_eq!(found, (operation, line));
        };
        let malloc = ("c10::cuda::CUDACachingAllocator::malloc(void**)", "??", 0);
        let addmm = ("at::_ops::addmm::call(at::Tensor const&)", "??", 0);
        let torch = (
            "forward",
            "/v/site-packages/torch/nn/modules/linear.py",
            125,
        );
        let own = ("forward", "/srv/model.py", 12);
        check(&[malloc, addmm, torch, own], Some("addmm"), Some(12));
        let python = Some("forward at torch/nn/modules/linear.py:125");
        check(&[torch, own], python, Some(12));
        check(&[own], None, Some(12));
        let compiled = ("call", "/tmp/torchinductor_me/ab/cabc.py", 53);
        check(&[compiled, torch, own], None, Some(12));
        check(&[compiled, torch], None, Some(53));
        check(&[malloc, addmm], Some("addmm"), Some(0));
        check(&[torch], None, Some(125));
        check(&[], None, None);
    }

    #[test]
    fn a_limit_is_known_where_the_driver_had_enough() {
        let failure = |asked: u64, free: u64| Failure {
            event: EventIdx(0),
            step: None,
            asked: Bytes::mib(asked),
            free: Some(Bytes::mib(free)),
            allocated: Bytes::mib(900),
            reserved: Bytes::mib(1000),
            stack: StackIdx::NONE,
        };
        let usual = Config::default();
        assert_eq!(
            failure(64, 4000).limit_under(&usual),
            Some(Bytes::mib(1064))
        );
        // A small request needs a whole segment.
        assert_eq!(failure(4, 4000).limit_under(&usual), Some(Bytes::mib(1020)));
        assert_eq!(failure(64, 10).limit_under(&usual), None);
        assert_eq!(failure(4, 10).limit_under(&usual), None);
        let unknown = Failure {
            free: None,
            ..failure(4, 10)
        };
        assert_eq!(unknown.limit_under(&usual), None);
        // Under larger segments the driver did not have enough.
        let large = Config {
            large_segment: 64 << 20,
            ..Config::default()
        };
        assert_eq!(failure(4, 40).limit_under(&usual), Some(Bytes::mib(1020)));
        assert_eq!(failure(4, 40).limit_under(&large), None);
        assert_eq!(failure(4, 64).limit_under(&large), None);
        assert_eq!(failure(4, 68).limit_under(&large), Some(Bytes::mib(1064)));
        // Expandable segments need whole pages.
        let pages = Config {
            expandable_segments: true,
            ..Config::default()
        };
        assert_eq!(failure(30, 39).limit_under(&usual), Some(Bytes::mib(1030)));
        assert_eq!(failure(30, 39).limit_under(&pages), None);
        // It had, but for the last of its memory.
        assert_eq!(failure(30, 43).limit_under(&pages), None);
        assert_eq!(failure(30, 44).limit_under(&pages), Some(Bytes::mib(1030)));
    }
}
