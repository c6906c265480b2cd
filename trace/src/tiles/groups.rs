//! The bands of a picture: allocations grouped by stack, file, stream, pool or category.

use super::GroupBy;
use super::callers::callers;
use super::labels::{FROM_BEFORE, NO_STACK, file_label, pool_label, stack_label, stream_label};
use crate::categories::Categories;
use crate::intervals::LiveIndex;
use crate::stacks::{FxHashMap, StackIdx, Stacks};
use crate::trace::{BlockIdx, BlockKind, DeviceTrace, KindIdx, PoolId, PoolSize};
use std::hash::Hash;

/// The key of the group for everything that no other band shows.
pub const OTHER: u32 = u32::MAX;
/// The key, when grouping by file, of allocations without a stack.
const NO_FILE: u32 = u32::MAX - 1;

/// The key, when grouping by place, of memory from before the recording.
pub(super) const BEFORE: u32 = u32::MAX - 2;

/// What mountain tiles of a device need besides its columns. It is built once for each device and
/// grouping (a pass over the blocks) and then serves every tile, so keep it.
#[derive(Clone, Debug)]
pub struct MountainIndex {
    pub(super) group_by: GroupBy,
    pub(super) live: LiveIndex,
    /// Per kind, the group's position in `groups`.
    group_of_kind: Vec<u32>,
    /// The group of blocks from before the recording that have no stack.
    before: Option<Before>,
    /// Per block, the group's position; used if the kind of a block does not decide its group.
    of_block: Option<Vec<u8>>,
    pub(super) groups: Vec<GroupName>,
}

/// The group of memory from before the recording that has no stack.
#[derive(Clone, Debug)]
struct Before {
    group: u32,
    n_before: u32,
    /// Per kind, whether it has no stack.
    stackless: Vec<bool>,
}

/// The name of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupName {
    pub key: u32,
    /// Rank by first allocation; categories have a fixed order.
    pub order: u32,
    pub label: String,
    /// Who called it, where others have the same label.
    pub caller: String,
}

impl MountainIndex {
    /// Indexes a device's blocks.
    pub fn new(device: &DeviceTrace, group_by: GroupBy, stacks: &Stacks) -> MountainIndex {
        if group_by == GroupBy::Category {
            return MountainIndex::by_category(device, stacks);
        }
        let mut grouping = Grouping::default();
        let group_of_kind = device
            .blocks
            .kinds
            .iter()
            .map(|kind| grouping.group_of(kind, group_by, stacks))
            .collect();
        grouping.name_callers(stacks);
        let by_place = matches!(group_by, GroupBy::Stack | GroupBy::File);
        let n_before = device.blocks.n_preexisting;
        let is_stackless =
            |kind: &KindIdx| device.blocks.kinds[kind.index()].alloc_stack == StackIdx::NONE;
        let from_before = &device.blocks.kind[..n_before as usize];
        let before = (by_place && from_before.iter().any(is_stackless)).then(|| {
            grouping.groups.push(group(BEFORE, FROM_BEFORE.to_owned()));
            (grouping.groups.len() as u32 - 1, n_before)
        });
        let stackless = device.blocks.kinds.iter();
        let stackless = stackless.map(|kind| kind.alloc_stack == StackIdx::NONE);
        let mut index = MountainIndex {
            group_by,
            live: LiveIndex::new(&device.blocks),
            group_of_kind,
            before: before.map(|(group, n_before)| Before {
                group,
                n_before,
                stackless: stackless.collect(),
            }),
            of_block: None,
            groups: grouping.groups,
        };
        index.rank_by_first_allocation(device);
        index
    }

    /// Indexes them by category, block by block: the same stack makes blocks that are kept and
    /// blocks that are not.
    fn by_category(device: &DeviceTrace, stacks: &Stacks) -> MountainIndex {
        let categories = Categories::of(device, stacks);
        let blocks = 0..device.blocks.len() as u32;
        let of_block = blocks.map(|block| categories.position(BlockIdx(block)) as u8);
        // Each category has the same place and colour in every recording.
        let name = |position: usize| {
            let category = categories.name(position);
            GroupName {
                key: category.key(),
                order: category.key(),
                label: category.label().to_owned(),
                caller: String::new(),
            }
        };
        MountainIndex {
            group_by: GroupBy::Category,
            live: LiveIndex::new(&device.blocks),
            group_of_kind: Vec::new(),
            before: None,
            of_block: Some(of_block.collect()),
            groups: (0..categories.len()).map(name).collect(),
        }
    }

    /// What a band stands for.
    pub fn group_by(&self) -> GroupBy {
        self.group_by
    }

    /// The group of a block of some kind, as a position in `groups`.
    #[inline]
    pub(super) fn group_of(&self, block: u32, kind: KindIdx) -> u32 {
        if let Some(of_block) = &self.of_block {
            return u32::from(of_block[block as usize]);
        }
        match &self.before {
            Some(before) if block < before.n_before && before.stackless[kind.index()] => {
                before.group
            }
            _ => self.group_of_kind[kind.index()],
        }
    }

    fn rank_by_first_allocation(&mut self, device: &DeviceTrace) {
        const UNSEEN: u32 = u32::MAX;
        let mut rank = 0;
        self.groups.iter_mut().for_each(|g| g.order = UNSEEN);
        for (block, &kind) in device.blocks.kind.iter().enumerate() {
            let group = self.group_of(block as u32, kind) as usize;
            let group = &mut self.groups[group];
            if group.order == UNSEEN {
                group.order = rank;
                rank += 1;
                if rank as usize == self.groups.len() {
                    return;
                }
            }
        }
    }
}

/// Groups found so far.
#[derive(Default)]
struct Grouping {
    groups: Vec<GroupName>,
    by_stack: FxHashMap<StackIdx, u32>,
    by_file: FxHashMap<String, u32>,
    by_stream: FxHashMap<u64, u32>,
    by_pool: FxHashMap<(PoolId, PoolSize), u32>,
}

impl Grouping {
    fn group_of(&mut self, kind: &BlockKind, group_by: GroupBy, stacks: &Stacks) -> u32 {
        let groups = &mut self.groups;
        let next = groups.len() as u32;
        match group_by {
            GroupBy::Stack => find_or_add(&mut self.by_stack, kind.alloc_stack, groups, |_| {
                let label = stack_label(stacks, kind.alloc_stack);
                (kind.alloc_stack.0, label)
            }),
            GroupBy::File => {
                let frame = stacks.headline(kind.alloc_stack);
                let file = frame.map_or("", |f| stacks.str(f.filename)).to_owned();
                find_or_add(&mut self.by_file, file, groups, |file| match frame {
                    None => (NO_FILE, NO_STACK.to_owned()),
                    Some(frame) => (frame.filename.0, file_label(file)),
                })
            }
            GroupBy::Stream => find_or_add(&mut self.by_stream, kind.stream, groups, |&stream| {
                (next, stream_label(stream))
            }),
            GroupBy::Pool => {
                let pool = (kind.pool, kind.pool_size);
                find_or_add(&mut self.by_pool, pool, groups, |&pool| {
                    (next, pool_label(pool))
                })
            }
            // Categories are indexed separately, block by block.
            GroupBy::None | GroupBy::Category => {
                if groups.is_empty() {
                    groups.push(group(0, "all allocations".to_owned()));
                }
                0
            }
        }
    }

    /// Tells groups of different stacks with the same label apart.
    fn name_callers(&mut self, stacks: &Stacks) {
        let (all, at): (Vec<StackIdx>, Vec<usize>) = self
            .by_stack
            .iter()
            .map(|(&stack, &group)| (stack, group as usize))
            .unzip();
        let labels: Vec<&str> = at.iter().map(|&at| &*self.groups[at].label).collect();
        let found = callers(stacks, &all, &labels);
        for (at, caller) in at.into_iter().zip(found) {
            self.groups[at].caller = caller;
        }
    }
}

fn find_or_add<K: Hash + Eq>(
    known: &mut FxHashMap<K, u32>,
    what: K,
    groups: &mut Vec<GroupName>,
    name: impl FnOnce(&K) -> (u32, String),
) -> u32 {
    if let Some(&at) = known.get(&what) {
        return at;
    }
    let (key, label) = name(&what);
    let at = groups.len() as u32;
    groups.push(group(key, label));
    known.insert(what, at);
    at
}

fn group(key: u32, label: String) -> GroupName {
    GroupName {
        key,
        order: 0,
        label,
        caller: String::new(),
    }
}
