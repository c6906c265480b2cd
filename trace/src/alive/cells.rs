//! Blocks that differ only in when and at which address they were allocated, summed up.

use super::Subject;
use crate::categories::{self, Named};
use crate::forward;
use crate::span::Span;
use crate::stacks::{FxHashMap, StackIdx};
use crate::tally::Tally;
use crate::trace::{BlockIdx, DeviceTrace, KindIdx};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};

/// Blocks that no grouping distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Their kind.
    pub kind: KindIdx,
    /// Whether they existed before the first event.
    pub preexisting: bool,
    /// For blocks without a Python stack: the stack of the forward operation whose backward pass
    /// made them, as inferred. [`StackIdx::NONE`] if they have a stack of their own or nothing was
    /// found.
    pub forward: StackIdx,
    /// What they are for, where the subject knows.
    pub category: Option<Named>,
    /// How many blocks.
    pub tally: Tally,
}

impl Cell {
    /// A cell for one block, to find its group.
    pub(super) fn of_one(subject: Subject<'_>, block: BlockIdx, forward: StackIdx) -> Cell {
        let blocks = &subject.device.blocks;
        Cell {
            kind: blocks.kind[block.index()],
            preexisting: block.0 < blocks.n_preexisting,
            forward,
            category: subject.categories.map(|categories| categories.get(block)),
            tally: Tally {
                count: 1,
                bytes: Bytes::ZERO,
            },
        }
    }
}

/// What is alive at an event; `None`: before the first event, which is all that a recording of a
/// state alone holds.
///
/// # Errors
/// [`Stopped`].
pub fn alive(
    subject: Subject<'_>,
    at: Option<EventIdx>,
    watch: Watch<'_>,
) -> Result<Vec<Cell>, Stopped> {
    let Some(at) = at else {
        let mut cells = Cells::new(subject, watch);
        categories::alive(subject.device, None).try_for_each(|block| cells.add_if(true, block))?;
        return Ok(cells.finish());
    };
    alive_where(subject, at, watch, |_| true)
}

/// What is alive at the end of a span and was not yet alive before its first event.
///
/// # Errors
/// [`Stopped`].
pub fn came(
    subject: Subject<'_>,
    events: Span<EventIdx>,
    watch: Watch<'_>,
) -> Result<Vec<Cell>, Stopped> {
    let blocks = &subject.device.blocks;
    alive_where(subject, events.end(), watch, |block| {
        block.0 >= blocks.n_preexisting && blocks.alloc[block.index()] > events.start().0
    })
}

/// What is alive at the start of a span and no longer at its end.
///
/// # Errors
/// [`Stopped`].
pub fn went(
    subject: Subject<'_>,
    events: Span<EventIdx>,
    watch: Watch<'_>,
) -> Result<Vec<Cell>, Stopped> {
    let freed = &subject.device.blocks.free_requested;
    alive_where(subject, events.start(), watch, |block| {
        freed[block.index()] <= events.end().0
    })
}

/// What is alive at an event, of some blocks.
fn alive_where(
    subject: Subject<'_>,
    at: EventIdx,
    watch: Watch<'_>,
    counts: impl Fn(BlockIdx) -> bool,
) -> Result<Vec<Cell>, Stopped> {
    let mut cells = Cells::new(subject, watch);
    each_alive(subject, at, |block| cells.add_if(counts(block), block))?;
    Ok(cells.finish())
}

/// What was allocated after the start of a span and given back before its end.
///
/// # Errors
/// [`Stopped`].
pub fn passed(
    subject: Subject<'_>,
    events: Span<EventIdx>,
    watch: Watch<'_>,
) -> Result<Tally, Stopped> {
    let blocks = &subject.device.blocks;
    let (after, until) = (events.start().0 + 1, events.end().0 + 1);
    let range = blocks.allocated_in(Span::new(EventIdx(after.min(until)), EventIdx(until)));
    let mut tally = Tally::default();
    for block in range {
        watch.at_row(block as usize, || 0)?;
        if blocks.free_requested[block as usize] <= events.end().0 {
            tally.add(blocks.kind(BlockIdx(block)).size);
        }
    }
    Ok(tally)
}

/// Calls `found` with each block that is allocated at an event, oldest first, until it fails.
///
/// # Errors
/// That of `found`.
pub(super) fn each_alive<E>(
    subject: Subject<'_>,
    at: EventIdx,
    mut found: impl FnMut(BlockIdx) -> Result<(), E>,
) -> Result<(), E> {
    let blocks = &subject.device.blocks;
    let start = blocks.n_preexisting as usize;
    let end = start + blocks.alloc[start..].partition_point(|&alloc| alloc <= at.0);
    let live = subject.live;
    live.outliving(blocks, end as u32, at.0, |block| {
        // The program has given a block back even if another stream still uses it.
        match blocks.free_requested[block.index()] > at.0 {
            true => found(block),
            false => Ok(()),
        }
    })
}

/// Finds the forward operations of blocks that have no Python stack.
pub(super) struct Forwards<'a> {
    device: &'a DeviceTrace,
    found: forward::Forwards<'a>,
}

impl<'a> Forwards<'a> {
    pub(super) fn new(subject: Subject<'a>) -> Forwards<'a> {
        let Subject { device, stacks, .. } = subject;
        Forwards {
            device,
            found: forward::Forwards::new(device, stacks),
        }
    }

    /// The stack of the forward operation that a block belongs to, as inferred;
    /// [`StackIdx::NONE`] where it has a stack of its own or nothing was found.
    pub(super) fn of(&mut self, block: BlockIdx) -> StackIdx {
        let found = self.found.of(block);
        found.map_or(StackIdx::NONE, |found| found.stack)
    }

    /// Whether blocks of a kind have a Python stack.
    pub(super) fn has_stack(&mut self, kind: KindIdx) -> bool {
        let stack = self.device.blocks.kinds[kind.index()].alloc_stack;
        self.found.has_python(stack)
    }
}

/// Sums blocks up into cells.
struct Cells<'a> {
    subject: Subject<'a>,
    watch: Watch<'a>,
    /// Blocks that were looked at.
    looked: usize,
    forwards: Forwards<'a>,
    /// Per kind, the blocks that were allocated during the recording.
    of_kind: Vec<Tally>,
    preexisting: Vec<Tally>,
    inferred: FxHashMap<(KindIdx, StackIdx), Tally>,
    of_category: FxHashMap<(KindIdx, bool, Named), Tally>,
}

impl<'a> Cells<'a> {
    fn new(subject: Subject<'a>, watch: Watch<'a>) -> Cells<'a> {
        let n = subject.device.blocks.kinds.len();
        Cells {
            subject,
            watch,
            looked: 0,
            forwards: Forwards::new(subject),
            of_kind: vec![Tally::default(); n],
            preexisting: vec![Tally::default(); n],
            inferred: FxHashMap::default(),
            of_category: FxHashMap::default(),
        }
    }

    fn heap_bytes(&self) -> usize {
        // An entry of a map, and its share of the places that are free.
        const PER_ENTRY: usize = 64;
        let kinds = self.of_kind.len() * (2 * size_of::<Tally>() + size_of::<Option<bool>>());
        kinds + (self.inferred.len() + self.of_category.len()) * PER_ENTRY
    }

    fn add_if(&mut self, wanted: bool, block: BlockIdx) -> Result<(), Stopped> {
        self.watch.at_row(self.looked, || self.heap_bytes())?;
        self.looked += 1;
        if wanted {
            self.add(block);
        }
        Ok(())
    }

    fn add(&mut self, block: BlockIdx) {
        let blocks = &self.subject.device.blocks;
        let kind = blocks.kind[block.index()];
        let size = blocks.kinds[kind.index()].size;
        let preexisting = block.0 < blocks.n_preexisting;
        if let Some(categories) = self.subject.categories {
            let key = (kind, preexisting, categories.get(block));
            return self.of_category.entry(key).or_default().add(size);
        }
        if preexisting {
            return self.preexisting[kind.index()].add(size);
        }
        let forward = self.forwards.of(block);
        if forward != StackIdx::NONE {
            return self.inferred.entry((kind, forward)).or_default().add(size);
        }
        self.of_kind[kind.index()].add(size);
    }

    fn finish(self) -> Vec<Cell> {
        let cells = |tallies: Vec<Tally>, preexisting| {
            let filled = tallies.into_iter().enumerate().filter(|(_, t)| t.count > 0);
            filled.map(move |(kind, tally)| Cell {
                kind: KindIdx(kind as u32),
                preexisting,
                forward: StackIdx::NONE,
                category: None,
                tally,
            })
        };
        let mut all: Vec<Cell> = cells(self.preexisting, true).collect();
        all.extend(cells(self.of_kind, false));
        let mut inferred: Vec<_> = self.inferred.into_iter().collect();
        inferred.sort_unstable_by_key(|(key, _)| *key);
        all.extend(inferred.into_iter().map(|((kind, forward), tally)| Cell {
            kind,
            preexisting: false,
            forward,
            category: None,
            tally,
        }));
        let mut of_category: Vec<_> = self.of_category.into_iter().collect();
        of_category.sort_unstable_by_key(|(key, _)| *key);
        let told_apart = of_category.into_iter();
        all.extend(
            told_apart.map(|((kind, preexisting, category), tally)| Cell {
                kind,
                preexisting,
                forward: StackIdx::NONE,
                category: Some(category),
                tally,
            }),
        );
        all
    }
}
