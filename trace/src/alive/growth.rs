//! How much of each group is alive at a row of moments: the bands of a growth chart.

use super::cells::Forwards;
use super::{Cell, Dimension, Grouping, Label, Subject, Tally};
use crate::categories::Named;
use crate::site::SiteKey;
use crate::stacks::{FxHashMap, StackIdx};
use crate::tiles::stack_label;
use crate::trace::{BlockIdx, KindIdx};
use crate::units::EventIdx;
use crate::watch::{Stopped, Watch};
use std::cmp::Reverse;

/// Moments of a device that has no steps.
const MOMENTS_WITHOUT_STEPS: u32 = 48;

/// One group over the moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Band {
    /// The group; `None` for the band of all groups that have no band of their own.
    pub label: Option<Label>,
    /// Bytes alive at each moment.
    pub bytes: Vec<u64>,
    /// Blocks alive at each moment.
    pub counts: Vec<u64>,
}

/// Bands that sum to what is allocated at each moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The groups that change most, the largest change first; the last band holds all others.
    pub bands: Vec<Band>,
    /// Groups that share the last band.
    pub others: u64,
}

/// The moments to compare: the last event of each step. If there are very many steps, every n-th.
/// Without steps, evenly spaced events.
pub fn moments(subject: Subject<'_>) -> Vec<EventIdx> {
    let device = subject.device;
    let n = device.events.len();
    if device.steps.is_empty() {
        let count = MOMENTS_WITHOUT_STEPS.min(n);
        let at = |i: u32| u64::from(i + 1) * u64::from(n) / u64::from(count.max(1));
        return (0..count).map(|i| EventIdx(at(i) as u32 - 1)).collect();
    }
    let ends = device.steps.iter().map(|s| s.events.end().0);
    let ends: Vec<u32> = ends.filter(|&end| end > 0).collect();
    let every = ends.len().div_ceil(most_moments(subject));
    let last = ends.len().wrapping_sub(1) % every.max(1);
    // The last step is always one of them.
    let ends = ends.iter().skip(last).step_by(every.max(1));
    ends.map(|end| EventIdx(end - 1)).collect()
}

/// The largest number of moments.
pub const MAX_MOMENTS: usize = 4096;

/// Bytes of a kind in the maps from kinds to groups.
const PER_KIND: usize = 2 * size_of::<Found>() + size_of::<Option<bool>>();

/// The number of moments: fewer if there are very many groups, since each group has a column for
/// them.
fn most_moments(subject: Subject<'_>) -> usize {
    const CELLS: usize = 1 << 22;
    let groups = subject.device.blocks.kinds.len().max(1);
    (CELLS / groups).clamp(8, MAX_MOMENTS)
}

/// Bytes alive per group at ascending moments. The groups in `first` (keys) always get a band; then
/// the groups that change most, until there are `top` bands.
///
/// # Errors
/// [`Stopped`].
pub fn growth(
    subject: Subject<'_>,
    grouping: &mut Grouping<'_>,
    moments: &[EventIdx],
    (first, top): (&[String], usize),
    watch: Watch<'_>,
) -> Result<Growth, Stopped> {
    const PER_RANKED: usize = 64;
    let n = moments.len();
    let Held {
        groups,
        inferred,
        bytes,
    } = held(subject, grouping, moments, watch)?;
    let watch = watch.beside(bytes + grouping.heap_bytes());
    let named = |at: usize| {
        let key = &grouping.labels[at].key;
        first.iter().position(|k| k == key).unwrap_or(first.len())
    };
    let mut order = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        watch.at_row(at, || order.len() * PER_RANKED)?;
        if group.is_seen() {
            order.push((named(at), Reverse(change(&group.levels(n).0)), at));
        }
    }
    order.sort_unstable();
    let (shown, rest) = order.split_at(order.len().min(top.max(first.len())));
    let mut out: Vec<Band> = Vec::new();
    for &(_, _, at) in shown {
        let (bytes, counts) = groups[at].levels(n);
        let label = grouping.labels[at].clone();
        let label = match inferred.get(&at) {
            Some(forwards) => named_by(subject, label, forwards),
            None => label,
        };
        out.push(Band {
            label: Some(label),
            bytes,
            counts,
        });
    }
    let mut others = (vec![0; n], vec![0; n]);
    for (row, &(_, _, at)) in rest.iter().enumerate() {
        watch.at_row(row, || order.len() * PER_RANKED)?;
        let (bytes, counts) = groups[at].levels(n);
        add(&mut others.0, &bytes);
        add(&mut others.1, &counts);
    }
    if !rest.is_empty() {
        out.push(Band {
            label: None,
            bytes: others.0,
            counts: others.1,
        });
    }
    Ok(Growth {
        bands: out,
        others: rest.len() as u64,
    })
}

/// Bytes and blocks at each moment.
type Levels = (Vec<u64>, Vec<u64>);

/// At which of the moments a block is alive, and its size.
#[derive(Clone, Copy)]
struct Stay {
    from: u16,
    until: u16,
    size: u64,
}

// A stay has 16 bytes, as many as both levels of a moment.
const _: () = assert!(size_of::<Stay>() == 16 && MAX_MOMENTS <= u16::MAX as usize);

impl Stay {
    /// Adds the change of the levels at either end.
    fn put(self, (bytes, counts): &mut Levels) {
        let (from, until) = (usize::from(self.from), usize::from(self.until));
        bytes[from] = bytes[from].wrapping_add(self.size);
        counts[from] = counts[from].wrapping_add(1);
        if until < bytes.len() {
            bytes[until] = bytes[until].wrapping_sub(self.size);
            counts[until] = counts[until].wrapping_sub(1);
        }
    }
}

/// The blocks of a group over the moments. Most groups of a recording with very many have a block
/// or two, which take less room than a column.
enum Blocks {
    /// One by one, no more of them than there are moments.
    Few(Vec<Stay>),
    /// The changes of the levels.
    Many(Levels),
}

impl Blocks {
    fn add(&mut self, stay: Stay, moments: usize) {
        match self {
            Blocks::Few(stays) if stays.len() < moments => {
                if stays.is_empty() {
                    stays.reserve_exact(1);
                }
                stays.push(stay);
            }
            Blocks::Few(stays) => {
                let mut levels = (vec![0; moments], vec![0; moments]);
                stays.iter().for_each(|stay| stay.put(&mut levels));
                stay.put(&mut levels);
                *self = Blocks::Many(levels);
            }
            Blocks::Many(levels) => stay.put(levels),
        }
    }

    fn is_seen(&self) -> bool {
        !matches!(self, Blocks::Few(stays) if stays.is_empty())
    }

    fn levels(&self, moments: usize) -> Levels {
        let mut levels = match self {
            Blocks::Few(_) => (vec![0; moments], vec![0; moments]),
            Blocks::Many(levels) => levels.clone(),
        };
        if let Blocks::Few(stays) = self {
            stays.iter().for_each(|stay| stay.put(&mut levels));
        }
        sum_up(&mut levels.0);
        sum_up(&mut levels.1);
        levels
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Blocks::Few(stays) => stays.capacity() * size_of::<Stay>(),
            Blocks::Many((bytes, _)) => bytes.len() * size_of::<Stay>(),
        }
    }
}

/// Blocks of a site by the forward operation that they belong to ([`StackIdx::NONE`]: unknown).
type ForwardCounts = FxHashMap<StackIdx, u64>;

/// What each group holds.
struct Held {
    /// By group; without blocks for groups that are never seen.
    groups: Vec<Blocks>,
    /// For sites without a Python stack, the forward operations that were inferred. A site stays
    /// one group, because its key is also the key of its leak. Other groupings by place split
    /// blocks by the inferred operation.
    inferred: FxHashMap<usize, ForwardCounts>,
    /// About how many heap bytes they use.
    bytes: usize,
}

fn held(
    subject: Subject<'_>,
    grouping: &mut Grouping<'_>,
    moments: &[EventIdx],
    watch: Watch<'_>,
) -> Result<Held, Stopped> {
    const PER_INFERRED: usize = 192;
    let blocks = &subject.device.blocks;
    let n = moments.len();
    let mut groups: Vec<Blocks> = Vec::new();
    let mut inferred: FxHashMap<usize, ForwardCounts> = FxHashMap::default();
    let mut forwards = Forwards::new(subject);
    let mut known = GroupOf::new(blocks.kinds.len());
    // Of the kinds, and of what the groups hold.
    let (of_kinds, mut of_groups) = (blocks.kinds.len() * PER_KIND, 0);
    // The first moment at which a block is alive, and the first at which it is gone.
    let mut from = 0;
    for block in 0..blocks.len() {
        let bytes = of_kinds + of_groups + groups.len() * size_of::<Blocks>();
        let bytes = bytes + inferred.len() * PER_INFERRED;
        watch.at_row(block, || bytes + grouping.heap_bytes())?;
        if block >= blocks.n_preexisting as usize {
            while from < n && moments[from].0 < blocks.alloc[block] {
                from += 1;
            }
        }
        let freed = blocks.free_requested[block];
        if from == n || freed <= moments[from].0 {
            continue;
        }
        let until = from + moments[from..].partition_point(|m| m.0 < freed);
        let kind = blocks.kind[block];
        let forward = match grouping.by().is_place() {
            true => forwards.of(BlockIdx(block as u32)),
            false => StackIdx::NONE,
        };
        let told_apart = match grouping.by() {
            Dimension::Site => StackIdx::NONE,
            _ => forward,
        };
        let cell = Cell::of_one(subject, BlockIdx(block as u32), told_apart);
        let found = known.find(grouping, &cell);
        let size = blocks.kinds[kind.index()].size.0;
        found.weight = found
            .weight
            .saturating_add(size.saturating_mul((until - from) as u64));
        let group = found.group as usize;
        if grouping.by() == Dimension::Site && !forwards.has_stack(kind) {
            let of_group = inferred.entry(group).or_default();
            *of_group.entry(forward).or_default() += 1;
        }
        groups.resize_with(groups.len().max(group + 1), || Blocks::Few(Vec::new()));
        let stay = Stay {
            from: from as u16,
            until: until as u16,
            size,
        };
        of_groups -= groups[group].heap_bytes();
        groups[group].add(stay, n);
        of_groups += groups[group].heap_bytes();
    }
    known.weigh(grouping);
    grouping.name_by_most();
    Ok(Held {
        bytes: of_kinds + of_groups + groups.len() * size_of::<Blocks>(),
        groups,
        inferred,
    })
}

/// A site without a Python stack, named after the forward operation that most of its blocks belong
/// to.
fn named_by(subject: Subject<'_>, label: Label, forwards: &ForwardCounts) -> Label {
    let known = forwards
        .iter()
        .filter(|(stack, _)| **stack != StackIdx::NONE);
    let Some((&stack, _)) = known.max_by_key(|(stack, n)| (**n, Reverse(stack.0))) else {
        return label;
    };
    let others = if forwards.len() > 1 {
        " and others"
    } else {
        ""
    };
    let size = match label.key.parse() {
        Ok(SiteKey::Size(size)) => format!(", {size} each"),
        _ => String::new(),
    };
    Label {
        text: format!(
            "backward of {}{others}{size}",
            stack_label(subject.stacks, stack)
        ),
        inferred: true,
        ..label
    }
}

/// The group of cells, and what they hold of it: bytes, once for each moment.
#[derive(Clone, Copy)]
struct Found {
    group: u32,
    weight: u64,
}

impl Found {
    const NOT_YET: Found = Found {
        group: u32::MAX,
        weight: 0,
    };
}

/// The groups of the cells seen so far.
struct GroupOf {
    /// Per kind: groups of blocks from before the recording, and of all others.
    recorded: [Vec<Found>; 2],
    inferred: FxHashMap<(KindIdx, StackIdx), Found>,
    of_category: FxHashMap<(KindIdx, Named), Found>,
}

impl GroupOf {
    fn new(kinds: usize) -> GroupOf {
        GroupOf {
            recorded: [vec![Found::NOT_YET; kinds], vec![Found::NOT_YET; kinds]],
            inferred: FxHashMap::default(),
            of_category: FxHashMap::default(),
        }
    }

    fn find(&mut self, grouping: &mut Grouping<'_>, cell: &Cell) -> &mut Found {
        let found = match (cell.category, cell.forward) {
            (Some(category), _) => self
                .of_category
                .entry((cell.kind, category))
                .or_insert(Found::NOT_YET),
            (None, StackIdx::NONE) => {
                &mut self.recorded[usize::from(cell.preexisting)][cell.kind.index()]
            }
            (None, forward) => self
                .inferred
                .entry((cell.kind, forward))
                .or_insert(Found::NOT_YET),
        };
        if found.group == u32::MAX {
            found.group = grouping.group_of(cell);
        }
        found
    }

    /// Tells the groups what their stacks hold.
    fn weigh(&self, grouping: &mut Grouping<'_>) {
        let mut weigh = |kind, preexisting, forward, found: &Found| {
            let cell = Cell {
                kind,
                preexisting,
                forward,
                category: None,
                tally: Tally::default(),
            };
            grouping.weigh(&cell, found.weight);
        };
        for (preexisting, of_kinds) in [false, true].into_iter().zip(&self.recorded) {
            for (kind, found) in of_kinds.iter().enumerate() {
                weigh(KindIdx(kind as u32), preexisting, StackIdx::NONE, found);
            }
        }
        for (&(kind, forward), found) in &self.inferred {
            weigh(kind, false, forward, found);
        }
    }
}

fn sum_up(column: &mut [u64]) {
    let mut sum = 0_u64;
    for value in column {
        sum = sum.wrapping_add(*value);
        *value = sum;
    }
}

fn add(sum: &mut [u64], column: &[u64]) {
    for (sum, value) in sum.iter_mut().zip(column) {
        *sum += value;
    }
}

/// How much a band changes after the first moment (first steps differ), and its highest level.
fn change(bytes: &[u64]) -> (u64, u64) {
    let steady = if bytes.len() > 2 { &bytes[1..] } else { bytes };
    let high = steady.iter().copied().max().unwrap_or(0);
    let low = steady.iter().copied().min().unwrap_or(0);
    (high - low, high)
}
