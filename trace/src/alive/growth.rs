//! How much of each group is alive at a row of moments: the bands of a growth chart.

use super::cells::Forwards;
use super::{Cell, Dimension, Grouping, Label, Subject};
use crate::categories::Named;
use crate::site::SiteKey;
use crate::stacks::{FxHashMap, StackIdx};
use crate::tiles::stack_label;
use crate::trace::{BlockIdx, KindIdx};
use crate::units::EventIdx;
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

/// The number of moments: fewer if there are very many groups, since each group has a column for
/// them.
fn most_moments(subject: Subject<'_>) -> usize {
    const CELLS: usize = 1 << 22;
    let groups = subject.device.blocks.kinds.len().max(1);
    (CELLS / groups).clamp(8, MAX_MOMENTS)
}

/// Bytes alive per group at ascending moments. The groups in `first` (keys) always get a band; then
/// the groups that change most, until there are `top` bands.
pub fn growth(
    subject: Subject<'_>,
    grouping: &mut Grouping<'_>,
    moments: &[EventIdx],
    first: &[String],
    top: usize,
) -> Growth {
    let (mut bands, inferred) = levels(subject, grouping, moments);
    let named = |at: usize| {
        let key = &grouping.labels[at].key;
        first.iter().position(|k| k == key).unwrap_or(first.len())
    };
    let mut order: Vec<usize> = (0..bands.len())
        .filter(|&g| !bands[g].0.is_empty())
        .collect();
    order.sort_by_cached_key(|&g| (named(g), Reverse(change(&bands[g].0)), g));
    let shown = order.len().min(top.max(first.len()));
    let mut rest = (vec![0; moments.len()], vec![0; moments.len()]);
    for &group in &order[shown..] {
        add(&mut rest.0, &bands[group].0);
        add(&mut rest.1, &bands[group].1);
    }
    let others = (order.len() - shown) as u64;
    let mut out: Vec<Band> = order[..shown]
        .iter()
        .map(|&group| {
            let (bytes, counts) = std::mem::take(&mut bands[group]);
            let label = grouping.labels[group].clone();
            Band {
                label: Some(match inferred.get(&group) {
                    Some(forwards) => named_by(subject, label, forwards),
                    None => label,
                }),
                bytes,
                counts,
            }
        })
        .collect();
    if others > 0 {
        out.push(Band {
            label: None,
            bytes: rest.0,
            counts: rest.1,
        });
    }
    Growth { bands: out, others }
}

type Levels = (Vec<u64>, Vec<u64>);

/// Blocks of a site by the forward operation that they belong to ([`StackIdx::NONE`]: unknown).
type ForwardCounts = FxHashMap<StackIdx, u64>;

/// Bytes and blocks of each group at each moment; empty for groups that are never seen. Also, for
/// sites without a Python stack, the forward operations that were inferred. A site stays one group,
/// because its key is also the key of its leak. Other groupings by place split blocks by the
/// inferred operation.
fn levels(
    subject: Subject<'_>,
    grouping: &mut Grouping<'_>,
    moments: &[EventIdx],
) -> (Vec<Levels>, FxHashMap<usize, ForwardCounts>) {
    let blocks = &subject.device.blocks;
    let n = moments.len();
    let mut levels: Vec<Levels> = Vec::new();
    let mut inferred: FxHashMap<usize, ForwardCounts> = FxHashMap::default();
    let mut forwards = Forwards::new(subject);
    let mut groups = GroupOf::new(blocks.kinds.len());
    // The first moment at which a block is alive, and the first at which it is gone.
    let mut from = 0;
    for block in 0..blocks.len() {
        let preexisting = block < blocks.n_preexisting as usize;
        if !preexisting {
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
        let group = groups.find(grouping, cell);
        if grouping.by() == Dimension::Site && !forwards.has_stack(kind) {
            let of_group = inferred.entry(group).or_default();
            *of_group.entry(forward).or_default() += 1;
        }
        levels.resize_with(levels.len().max(group + 1), Levels::default);
        let (bytes, counts) = &mut levels[group];
        if bytes.is_empty() {
            (*bytes, *counts) = (vec![0; n], vec![0; n]);
        }
        let size = blocks.kinds[kind.index()].size.0;
        bytes[from] = bytes[from].wrapping_add(size);
        counts[from] = counts[from].wrapping_add(1);
        if until < n {
            bytes[until] = bytes[until].wrapping_sub(size);
            counts[until] = counts[until].wrapping_sub(1);
        }
    }
    for (bytes, counts) in &mut levels {
        sum_up(bytes);
        sum_up(counts);
    }
    (levels, inferred)
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

/// The groups of the cells seen so far.
struct GroupOf {
    /// Per kind: groups of blocks from before the recording, and of all others.
    recorded: [Vec<u32>; 2],
    inferred: FxHashMap<(KindIdx, StackIdx), u32>,
    of_category: FxHashMap<(KindIdx, Named), u32>,
}

impl GroupOf {
    fn new(kinds: usize) -> GroupOf {
        GroupOf {
            recorded: [vec![u32::MAX; kinds], vec![u32::MAX; kinds]],
            inferred: FxHashMap::default(),
            of_category: FxHashMap::default(),
        }
    }

    fn find(&mut self, grouping: &mut Grouping<'_>, cell: Cell) -> usize {
        let group = match (cell.category, cell.forward) {
            (Some(category), _) => self
                .of_category
                .entry((cell.kind, category))
                .or_insert(u32::MAX),
            (None, StackIdx::NONE) => {
                &mut self.recorded[usize::from(cell.preexisting)][cell.kind.index()]
            }
            (None, forward) => self
                .inferred
                .entry((cell.kind, forward))
                .or_insert(u32::MAX),
        };
        if *group == u32::MAX {
            *group = grouping.group_of(&cell);
        }
        *group as usize
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
