//! A search for allocations by place, size, age, stream, pool, step and moment.

use super::cells::Forwards;
use super::{Cell, Dimension, Grouping, Subject, Tally};
use crate::categories::Named;
use crate::site::{Keys, SiteKey};
use crate::span::Span;
use crate::stacks::{FrameIdx, FxHashMap, StackIdx, Stacks};
use crate::tiles::{FROM_BEFORE, stack_label};
use crate::trace::{BlockIdx, BlockKind, DeviceTrace, KindIdx, PoolId, PoolSize};
use crate::units::{Bytes, EventIdx};
use std::convert::Infallible;

/// Which pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All pools of a size.
    Size(PoolSize),
    /// One pool, both sizes.
    Pool(PoolId),
}

/// What to look for; the default finds everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Part of a function's name or of a path, `file:line` or `function file:line` of any frame, or
    /// part of the name of a stack, in any case.
    pub text: String,
    /// The call shape.
    pub site: Option<SiteKey>,
    /// The recorded stack.
    pub stack: Option<StackIdx>,
    /// The group: what the groups stand for, and its [`super::Label::key`].
    pub group: Option<(Dimension, String)>,
    /// Block sizes from here.
    pub min_size: Option<Bytes>,
    /// Block sizes up to here.
    pub max_size: Option<Bytes>,
    /// At least this age: the number of ends of steps that the block has outlived.
    pub min_age: Option<u32>,
    /// At most this age.
    pub max_age: Option<u32>,
    /// Raw stream handle.
    pub stream: Option<u64>,
    /// Pool.
    pub pool: Option<Place>,
    /// Steps in which the block was allocated: the positions of the first and the last.
    pub born: Option<(u32, u32)>,
    /// An event at which the block is alive.
    pub alive_at: Option<EventIdx>,
}

/// In which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// By allocation.
    #[default]
    Oldest,
    /// By allocation, the last first.
    Newest,
    /// By size, the largest first, the older of equals first.
    Largest,
}

/// Why a search is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFilter {
    /// The device has no steps.
    #[error("the device has no steps, so there is no age in steps and no step of birth")]
    NoSteps,
    /// The recording had ended before this event.
    #[error("alive: event {asked} comes after the end; the last one is {last}")]
    AfterTheEnd {
        /// The event.
        asked: EventIdx,
        /// The last event.
        last: EventIdx,
    },
}

/// A page of what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// All that was found.
    pub total: Tally,
    /// This page of it.
    pub blocks: Vec<BlockIdx>,
}

/// How many ends of steps a block has outlived.
pub fn age(device: &DeviceTrace, block: BlockIdx) -> u32 {
    let ends = || device.steps.iter().map(|step| step.events.end().0);
    let crossed = |event: u32| ends().filter(|&end| end <= event).count() as u32;
    let at = block.index();
    let before = match block.0 < device.blocks.n_preexisting {
        true => 0,
        false => crossed(device.blocks.alloc[at]),
    };
    crossed(device.blocks.free_requested[at]) - before
}

/// Finds a page of blocks.
///
/// # Errors
/// When it asks for steps and there are none, or for an event after the last.
pub fn select(
    subject: Subject<'_>,
    filter: &Filter,
    order: Order,
    offset: usize,
    limit: usize,
) -> Result<Page, BadFilter> {
    let search = Search::new(subject, filter)?;
    let blocks = &subject.device.blocks;
    let mut page = Page::default();
    let mut of_kind = vec![0_u64; blocks.kinds.len()];
    // The oldest come first in the columns, so one pass gathers and counts them.
    let first = match order {
        Order::Oldest => offset..offset.saturating_add(limit),
        Order::Newest | Order::Largest => 0..0,
    };
    let mut nth = 0;
    search.each(|block| {
        of_kind[blocks.kind[block.index()].index()] += 1;
        if first.contains(&nth) {
            page.blocks.push(block);
        }
        nth += 1;
    });
    for (kind, count) in blocks.kinds.iter().zip(&of_kind) {
        page.total.count += count;
        page.total.bytes += Bytes(kind.size.0 * count);
    }
    let total = nth;
    let shown = offset.min(total)..offset.saturating_add(limit).min(total);
    match order {
        Order::Oldest => {}
        Order::Newest => page.blocks = newest(&search, total - shown.end..total - shown.start),
        Order::Largest => page.blocks = largest(&search, &of_kind, shown),
    }
    Ok(page)
}

/// A part of all found blocks, the newest first.
fn newest(search: &Search<'_>, part: std::ops::Range<usize>) -> Vec<BlockIdx> {
    let mut found = Vec::with_capacity(part.len());
    let mut nth = 0;
    search.each(|block| {
        if part.contains(&nth) {
            found.push(block);
        }
        nth += 1;
    });
    found.reverse();
    found
}

/// The part `shown` of all found blocks by size: only sizes that reach into it are gathered.
fn largest(search: &Search<'_>, of_kind: &[u64], shown: std::ops::Range<usize>) -> Vec<BlockIdx> {
    let blocks = &search.subject.device.blocks;
    let mut per_size: FxHashMap<Bytes, usize> = FxHashMap::default();
    for (kind, &count) in blocks.kinds.iter().zip(of_kind) {
        *per_size.entry(kind.size).or_default() += count as usize;
    }
    let mut sizes: Vec<(Bytes, usize)> = per_size.into_iter().collect();
    sizes.sort_unstable_by_key(|(size, _)| std::cmp::Reverse(*size));
    // For each size on this page, the position of its first block among all found blocks; and for
    // each kind, which of these sizes it has.
    let mut next: Vec<usize> = Vec::new();
    let mut slot: FxHashMap<Bytes, usize> = FxHashMap::default();
    let mut before = 0;
    for (size, count) in sizes {
        if before < shown.end && before + count > shown.start {
            slot.insert(size, next.len());
            next.push(before);
        }
        before += count;
    }
    let slots = blocks.kinds.iter().map(|kind| slot.get(&kind.size));
    let slots: Vec<Option<usize>> = slots.map(Option::<&usize>::copied).collect();
    let mut found: Vec<(usize, BlockIdx)> = Vec::new();
    search.each(|block| {
        if let Some(slot) = slots[blocks.kind[block.index()].index()] {
            if shown.contains(&next[slot]) {
                found.push((next[slot], block));
            }
            next[slot] += 1;
        }
    });
    found.sort_unstable();
    found.into_iter().map(|(_, block)| block).collect()
}

/// A filter, made ready for a pass over the columns.
struct Search<'a> {
    subject: Subject<'a>,
    /// Per kind, whether its blocks can match.
    wanted: Vec<bool>,
    /// The same for blocks from before the recording: without a stack, they have another name.
    wanted_before: Vec<bool>,
    /// The range of blocks that can match.
    range: std::ops::Range<u32>,
    ends: Vec<u32>,
    min_age: usize,
    max_age: Option<usize>,
    alive_at: Option<EventIdx>,
    group: Option<&'a (Dimension, String)>,
}

impl<'a> Search<'a> {
    fn new(subject: Subject<'a>, filter: &'a Filter) -> Result<Search<'a>, BadFilter> {
        let device = subject.device;
        let aged = filter.min_age.is_some_and(|age| age > 0) || filter.max_age.is_some();
        if device.steps.is_empty() && (aged || filter.born.is_some()) {
            return Err(BadFilter::NoSteps);
        }
        // A state has no events; its moment is the first one.
        let last = EventIdx(device.events.len().saturating_sub(1));
        if let Some(asked) = filter.alive_at.filter(|asked| *asked > last) {
            return Err(BadFilter::AfterTheEnd { asked, last });
        }
        let (wanted, wanted_before) = wanted_kinds(subject, filter);
        Ok(Search {
            subject,
            wanted,
            wanted_before,
            range: range(device, filter),
            ends: device.steps.iter().map(|s| s.events.end().0).collect(),
            min_age: filter.min_age.unwrap_or(0) as usize,
            max_age: filter.max_age.map(|age| age as usize),
            alive_at: filter.alive_at,
            group: filter.group.as_ref(),
        })
    }

    /// Calls `found` with each block that is looked for, oldest first.
    fn each(&self, mut found: impl FnMut(BlockIdx)) {
        match self.group {
            None => self.each_of_any_group(found),
            Some((by, key)) => {
                let mut members = Members::new(self.subject, *by, key);
                self.each_of_any_group(|block| {
                    if members.has(block) {
                        found(block);
                    }
                });
            }
        }
    }

    fn each_of_any_group(&self, mut found: impl FnMut(BlockIdx)) {
        let blocks = &self.subject.device.blocks;
        let any_age = self.min_age == 0 && self.max_age.is_none();
        if any_age && self.alive_at.is_none() {
            let range = self.range.start as usize..self.range.end as usize;
            for (kind, block) in blocks.kind[range].iter().zip(self.range.clone()) {
                if self.is_wanted(block, *kind) {
                    found(BlockIdx(block));
                }
            }
            return;
        }
        let mut period = 0;
        let mut check = |block: BlockIdx| {
            let at = block.index();
            if !self.is_wanted(block.0, blocks.kind[at]) || !self.range.contains(&block.0) {
                return;
            }
            if block.0 >= blocks.n_preexisting {
                while period < self.ends.len() && self.ends[period] <= blocks.alloc[at] {
                    period += 1;
                }
            }
            if self.is_of_age(period, blocks.free_requested[at]) {
                found(block);
            }
        };
        match self.alive_at {
            Some(at) => {
                let Ok(()) = super::cells::each_alive(self.subject, at, |block| {
                    check(block);
                    Ok::<(), Infallible>(())
                });
            }
            None => self.range.clone().for_each(|block| check(BlockIdx(block))),
        }
    }

    fn is_wanted(&self, block: u32, kind: KindIdx) -> bool {
        let wanted = match block < self.subject.device.blocks.n_preexisting {
            true => &self.wanted_before,
            false => &self.wanted,
        };
        wanted[kind.index()]
    }

    /// Whether a block that was allocated in a period has outlived enough ends of steps, and not
    /// too many.
    fn is_of_age(&self, period: usize, freed: u32) -> bool {
        let outlives = |age: usize| {
            let at = |age: usize| self.ends.get(period.saturating_add(age));
            let end = age.checked_sub(1).map(at);
            end.is_none_or(|end| end.is_some_and(|&end| freed >= end))
        };
        let too_many = |max: usize| max.checked_add(1).is_some_and(outlives);
        outlives(self.min_age) && !self.max_age.is_some_and(too_many)
    }
}

/// Tells whether a block belongs to a group; groups are formed in the same way as for live blocks.
struct Members<'a> {
    grouping: Grouping<'a>,
    forwards: Forwards<'a>,
    subject: Subject<'a>,
    key: &'a str,
    known: FxHashMap<(KindIdx, bool, StackIdx, Option<Named>), bool>,
}

impl<'a> Members<'a> {
    fn new(subject: Subject<'a>, by: Dimension, key: &'a str) -> Members<'a> {
        Members {
            grouping: Grouping::new(subject.device, subject.stacks, by),
            forwards: Forwards::new(subject),
            subject,
            key,
            known: FxHashMap::default(),
        }
    }

    fn has(&mut self, block: BlockIdx) -> bool {
        let forward = match self.grouping.by().is_place() {
            true => self.forwards.of(block),
            false => StackIdx::NONE,
        };
        let cell = Cell::of_one(self.subject, block, forward);
        let (grouping, key) = (&mut self.grouping, self.key);
        let alike = (cell.kind, cell.preexisting, forward, cell.category);
        *self.known.entry(alike).or_insert_with(|| {
            let group = grouping.group_of(&cell);
            grouping.labels[group as usize].key == key
        })
    }
}

/// The blocks that were allocated in the wanted steps; only these are examined further.
fn range(device: &DeviceTrace, filter: &Filter) -> std::ops::Range<u32> {
    let Some((first, last)) = filter.born else {
        return 0..device.blocks.len() as u32;
    };
    let steps = &device.steps;
    let (first, last) = (
        first as usize,
        (last as usize).min(steps.len().saturating_sub(1)),
    );
    if first > last {
        return 0..0;
    }
    let (start, end) = (steps[first].events.start(), steps[last].events.end());
    device.blocks.allocated_in(Span::new(start, end))
}

/// Per kind, whether its blocks can match: those of the recording, and those from before it.
fn wanted_kinds(subject: Subject<'_>, filter: &Filter) -> (Vec<bool>, Vec<bool>) {
    let lower = filter.text.to_lowercase();
    let mut named = Wanted::new(&lower).map(|wanted| Names::new(subject.stacks, wanted));
    let kinds = subject.device.blocks.kinds.iter();
    let mut keys = Keys::new(subject.stacks);
    kinds
        .map(|kind| {
            let size = filter.min_size.is_none_or(|min| kind.size >= min)
                && filter.max_size.is_none_or(|max| kind.size <= max);
            let pool = filter.pool.is_none_or(|place| match place {
                Place::Size(size) => kind.pool_size == size,
                Place::Pool(pool) => kind.pool == pool,
            });
            let stream = filter.stream.is_none_or(|stream| kind.stream == stream);
            let stack = filter.stack.is_none_or(|stack| kind.alloc_stack == stack);
            let mut site = || {
                let site = filter.site;
                site.is_none_or(|site| site.covers(keys.of(kind)))
            };
            if !(size && pool && stream && stack && site()) {
                return (false, false);
            }
            named.as_mut().map_or((true, true), |named| named.has(kind))
        })
        .unzip()
}

/// Tells which stacks have a name that is looked for. Each stack and each frame is looked at once:
/// a few hundred thousand blocks may share a stack, and as many stacks a frame.
struct Names<'a> {
    stacks: &'a Stacks,
    wanted: Wanted,
    frames: Vec<Option<bool>>,
    known: FxHashMap<StackIdx, bool>,
    /// Whether blocks are looked for that have no stack because they are from before the recording.
    before: bool,
}

impl<'a> Names<'a> {
    fn new(stacks: &'a Stacks, wanted: Wanted) -> Names<'a> {
        Names {
            stacks,
            before: wanted.is_label(FROM_BEFORE),
            wanted,
            frames: vec![None; stacks.n_frames()],
            known: FxHashMap::default(),
        }
    }

    /// Whether blocks of a kind are looked for: those of the recording, and those from before it.
    fn has(&mut self, kind: &BlockKind) -> (bool, bool) {
        let has = self.has_stack(kind.alloc_stack);
        match kind.alloc_stack {
            StackIdx::NONE => (has, self.before),
            _ => (has, has),
        }
    }

    fn has_stack(&mut self, stack: StackIdx) -> bool {
        if let Some(&known) = self.known.get(&stack) {
            return known;
        }
        let stacks = self.stacks;
        let has = stacks.frames(stack).iter().any(|&at| self.has_frame(at))
            || self
                .wanted
                .is_label(&stack_label(stacks, stack).to_lowercase());
        self.known.insert(stack, has);
        has
    }

    fn has_frame(&mut self, at: FrameIdx) -> bool {
        let (stacks, wanted) = (self.stacks, &self.wanted);
        *self.frames[at.index()].get_or_insert_with(|| {
            let frame = stacks.frame(at);
            let lower = |text| stacks.str(text).to_lowercase();
            wanted.is_frame(&lower(frame.name), &lower(frame.filename), frame.line)
        })
    }
}

/// A text that a person looks for. It and all that it is compared with is in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted(String);

impl Wanted {
    /// From a text in lower case; `None` if nothing is looked for.
    pub fn new(lower: &str) -> Option<Wanted> {
        let text = lower.trim();
        // Rows say so who called them: it is no part of a name.
        let called = ["from ", "in "].into_iter();
        let text = called.fold(text, |text, word| text.strip_prefix(word).unwrap_or(text));
        let text = text.trim_start();
        (!text.is_empty()).then(|| Wanted(text.to_owned()))
    }

    /// Whether the text is a part of a name that is drawn.
    pub fn is_label(&self, label: &str) -> bool {
        match has_line(&self.0) {
            true => label.ends_with(&self.0),
            false => label.contains(&self.0),
        }
    }

    /// Whether a frame is looked for: by part of its function's name or of its path, by
    /// `file:line`, or by `function file:line`, as it is drawn or as `function (file:line)`.
    pub fn is_frame(&self, name: &str, file: &str, line: u32) -> bool {
        let place = match line {
            0 => file.to_owned(),
            line => format!("{file}:{line}"),
        };
        let text = &*self.0;
        let is_both = |at: usize| {
            let file = text[at..].trim().trim_matches(['(', ')']);
            name.ends_with(&text[..at]) && is_end_of_path(file, &place)
        };
        name.contains(text)
            || file.contains(text)
            || self.is_label(&place)
            || text.match_indices(' ').any(|(at, _)| is_both(at))
    }
}

/// Whether a text ends with a line. That is the whole number: `:3` does not find line 32.
fn has_line(text: &str) -> bool {
    let line = text.rsplit_once(':').map_or("", |(_, line)| line);
    !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a path, which may have a line, has these last parts, of which the end may be missing.
fn is_end_of_path(parts: &str, place: &str) -> bool {
    let bytes = place.as_bytes();
    let begins = |at: usize| at == 0 || matches!(bytes[at - 1], b'/' | b'\\');
    let ends = |at: usize| !has_line(parts) || at + parts.len() == place.len();
    let mut found = place.match_indices(parts);
    found.any(|(at, _)| begins(at) && ends(at))
}
