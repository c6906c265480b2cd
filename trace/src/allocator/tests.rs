//! Compares the rules with an interval map, and with sizes that PyTorch is known to choose.

use super::*;
use crate::units::Bytes;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const KEY: PoolKey = PoolKey {
    pool: PoolId(0, 0),
    size: PoolSize::Large,
    stream: 0,
};
const SMALL: PoolKey = PoolKey {
    size: PoolSize::Small,
    ..KEY
};
const MIB: u64 = 1 << 20;

#[test]
fn sizes_round_as_pytorch_rounds_them() {
    let plain = Config::default();
    let check = |config: &Config, n: u64, expected: u64| {
        assert_eq!(config.round_size(n), expected, "{n}");
    };
    check(&plain, 1, 512);
    check(&plain, 512, 512);
    check(&plain, 513, 1024);
    check(&plain, MIB + 1, MIB + 512);
    // Divisions apply above 512 bytes times their number, and between powers of two.
    let four = Config {
        roundup_power2_divisions: [4; 16],
        ..Config::default()
    };
    check(&four, 1200, 1536);
    check(&four, 2049, 2560);
    check(&four, 9 * MIB, 10 * MIB);
    check(&four, 8 * MIB, 8 * MIB);
    // torch_npu adds something to each request first.
    let padded = Config {
        padding: PADDING,
        ..Config::default()
    };
    check(&padded, 1, 512);
    check(&padded, 480, 512);
    check(&padded, 481, 1024);
    check(&padded, 512, 1024);
}

#[test]
fn a_block_that_should_have_been_split_tells_of_its_pool() {
    let [plain, expandable, oversize] = [
        Config::default(),
        Config {
            expandable_segments: true,
            ..Config::default()
        },
        Config {
            max_split_size: Some(8 * MIB),
            ..Config::default()
        },
    ];
    let check = |config: &Config, pool, size, requested, of_pool: PoolSize, expected: bool| {
        let key = PoolKey {
            pool,
            size: of_pool,
            stream: 0,
        };
        let found = config.unsplit_pools_of([(key, size, requested); 2].into_iter());
        let pools: &[PoolId] = if expected { &[pool] } else { &[] };
        assert_eq!(found, pools, "{size} {requested}");
    };
    let (default, own) = (PoolId::default(), PoolId(0, 1));
    let (small, large) = (PoolSize::Small, PoolSize::Large);
    check(&plain, own, 2 * MIB, 3000, small, true);
    check(&plain, default, 2 * MIB, 3000, small, false);
    check(&plain, own, 3072, 3000, small, false);
    // torch_npu: one granule more.
    check(&plain, own, 1024, 512, small, false);
    check(&plain, own, 20 * MIB, 5 * MIB, large, true);
    check(&plain, own, 6 * MIB, 5 * MIB, large, false);
    check(&expandable, own, 6 * MIB, 5 * MIB, large, false);
    check(&expandable, own, 20 * MIB, 5 * MIB, large, true);
    // From this size on no pool splits a block.
    check(&oversize, own, 20 * MIB, 9 * MIB, large, false);
}

#[test]
fn segments_are_as_large_as_pytorch_makes_them() {
    let config = Config::default();
    let check = |rounded: u64, expected: u64| assert_eq!(config.segment_size(rounded), expected);
    check(512, 2 * MIB);
    check(MIB, 2 * MIB);
    check(MIB + 512, 20 * MIB);
    check(10 * MIB - 512, 20 * MIB);
    check(10 * MIB, 10 * MIB);
    check(11 * MIB, 12 * MIB);
}

#[test]
fn no_driver_grants_an_absurd_request() {
    for expandable_segments in [false, true] {
        let config = Config {
            expandable_segments,
            ..Config::default()
        };
        let mut allocator = caching::Caching::new(config, VecDeque::new());
        let mut check = |absurd: u64| {
            let refused = allocator
                .malloc(PoolId(0, 0), 0, Bytes(absurd))
                .unwrap_err();
            let found = (refused.segment, allocator.reserved());
            assert_eq!(found, (Bytes(absurd), Bytes(0)));
        };
        check(1 << 62);
        check(1 << 49);
        // An expandable segment has less address space than the driver.
        if expandable_segments {
            check(1 << 45);
            check((1 << 44) + (2 << 20));
        }
        let large = allocator.malloc(PoolId(0, 0), 0, Bytes(1 << 43)).unwrap();
        assert_eq!(allocator.arena().size(large), 1 << 43);
    }
}

#[test]
fn an_expandable_block_counts_as_large_as_it_can_become() {
    let expandable = Config {
        expandable_segments: true,
        ..Config::default()
    };
    // [6 used] [10 free] [2 used] [7 free], then 4 MiB unmapped, then [20 used] [8 free].
    let arena = |config: &Config| {
        let mut arena = Arena::new(config.clone());
        let lower = arena.map(KEY, 64 * MIB, 25 * MIB);
        let gap = arena.occupy(lower, 64 * MIB, 6 * MIB);
        let gap = arena.free_above(gap).unwrap();
        arena.occupy(gap, 80 * MIB, 2 * MIB);
        let upper = arena.map(KEY, 93 * MIB, 28 * MIB);
        arena.occupy(upper, 93 * MIB, 20 * MIB);
        arena
    };
    let check = |config: &Config, request: u64, expected: u64| {
        let arena = arena(config);
        let fit = arena
            .best_fit(KEY, request * MIB)
            .map(|slot| arena.addr(slot) / MIB);
        assert_eq!(fit, Some(expected), "{request}");
    };
    // A 7 MiB request: the first block could grow to 11, the next, of 8 MiB, without end. The
    // search stops at the first.
    check(&expandable, 7, 82);
    // The block of 8 MiB could grow beyond 10 MiB; the block of 10 cannot grow, so it is taken.
    check(&expandable, 8, 70);
    check(&expandable, 9, 70);
    let switched_off = arena(&Config::default());
    assert_eq!(switched_off.best_fit(KEY, MIB), None);
}

#[test]
fn settings_of_a_snapshot_change_the_rules() {
    let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let config = Config::from_settings(
        &[
            setting("max_split_size", "-1"),
            setting("expandable_segments", "true"),
            setting("roundup_power2_divisions.1", "4"),
            setting("roundup_power2_divisions.32768", "8"),
        ],
        None,
    );
    assert_eq!(config.max_split_size, None);
    assert!(config.expandable_segments);
    assert_eq!(
        (
            config.roundup_power2_divisions[0],
            config.roundup_power2_divisions[15]
        ),
        (4, 8)
    );
}

#[test]
fn a_small_remainder_stays_in_the_block() {
    let mut arena = Arena::new(Config::default());
    let segment = arena.add_segment(KEY, 0, 20 * MIB);
    let slot = arena.take(segment, 19 * MIB);
    // One MiB would be left: not more than 1 MiB, so it is not split off.
    assert_eq!(arena.size(slot), 20 * MIB);
    let slot = arena.free(slot);
    let slot = arena.take(slot, 19 * MIB - 512);
    assert_eq!(arena.size(slot), 19 * MIB - 512);
}

#[test]
fn the_smallest_block_that_fits_is_taken_and_the_lowest_address_on_ties() {
    let mut arena = Arena::new(Config::default());
    for (addr, size) in [
        (100 * MIB, 30),
        (200 * MIB, 22),
        (300 * MIB, 22),
        (400 * MIB, 26),
    ] {
        arena.add_segment(KEY, addr, size * MIB);
    }
    let fit = |arena: &Arena, mib: u64| arena.best_fit(KEY, mib * MIB).map(|s| arena.addr(s));
    assert_eq!(fit(&arena, 21), Some(200 * MIB));
    assert_eq!(fit(&arena, 25), Some(400 * MIB));
    assert_eq!(fit(&arena, 31), None);
    assert_eq!(arena.best_fit(PoolKey { stream: 7, ..KEY }, MIB), None);
}

/// Two segments, the later one at the lower address. In each, a block of 2 MiB is free between used
/// ones; the earlier one was given back first, or last.
#[test]
fn which_of_two_equal_blocks_is_taken_depends_on_the_version() {
    let check = |torch: &str, high_is_freed_last: bool, expected: u64| {
        let ties = Ties::of_torch(Some(torch));
        let mut arena = Arena::new(Config {
            ties,
            ..Config::default()
        });
        let mut middle = Vec::new();
        for base in [100 * MIB, 0] {
            let mut segment = arena.add_segment(KEY, base, 20 * MIB);
            for n in 0..3 {
                let used = arena.take(segment, 2 * MIB);
                if n == 1 {
                    middle.push(used);
                }
                segment = arena.free_above(used).expect("there is a rest");
            }
            arena.take(segment, 14 * MIB);
        }
        if !high_is_freed_last {
            middle.reverse();
        }
        for slot in middle.into_iter().rev() {
            arena.free(slot);
        }
        let fit = arena.best_fit(KEY, 2 * MIB).map(|slot| arena.addr(slot));
        assert_eq!(fit, Some(expected), "torch {torch}");
    };
    for last in [false, true] {
        check("2.10 to 2.11", last, 2 * MIB);
        check("2.12", last, 102 * MIB);
        check("2.13", last, 102 * MIB);
        check("2.15 or later", last, 102 * MIB);
    }
}

/// Blocks from before a recording leave gaps of equal size: each of them is handed out once, under
/// the rules of every version.
#[test]
fn equal_gaps_between_blocks_that_were_there_before_are_handed_out_once_each() {
    for ties in [Ties::Address, Ties::BlockAge, Ties::SegmentAge] {
        let mut arena = Arena::new(Config {
            ties,
            ..Config::default()
        });
        let mut free = arena.add_segment(SMALL, 0, 2 * MIB);
        let mut last = free;
        for addr in [0, 1024, 2048, 3072] {
            last = arena.occupy(free, addr, 512);
            free = arena.free_above(last).expect("there is a rest");
        }
        arena.take(free, 512);
        arena.free(last);
        arena.check_lists();
        let mut handed_out = Vec::new();
        for _ in 0..5 {
            let fit = arena.best_fit(SMALL, 512).expect("the rest is free");
            let slot = arena.take(fit, 512);
            handed_out.push(arena.addr(slot));
            arena.check_lists();
        }
        // The gaps in the order of their addresses; the last one has grown.
        assert_eq!(handed_out, [512, 1536, 2560, 3072, 4096], "{ties:?}");
    }
}

#[test]
fn oversize_blocks_are_kept_for_oversize_requests() {
    let config = Config {
        max_split_size: Some(50 * MIB),
        ..Config::default()
    };
    let mut arena = Arena::new(config);
    arena.add_segment(KEY, 0, 100 * MIB);
    assert_eq!(
        arena.best_fit(KEY, 10 * MIB),
        None,
        "an oversize block is not broken up"
    );
    assert_eq!(arena.best_fit(KEY, 60 * MIB), None, "it would waste 40 MiB");
    assert!(arena.best_fit(KEY, 90 * MIB).is_some());
}

#[test]
fn mapped_ranges_join_and_unmapped_ones_part() {
    let config = Config {
        expandable_segments: true,
        ..Config::default()
    };
    let mut arena = Arena::new(config);
    arena.map(KEY, 0, 20 * MIB);
    let whole = arena.map(KEY, 20 * MIB, 20 * MIB);
    assert_eq!((arena.addr(whole), arena.size(whole)), (0, 40 * MIB));
    let used = arena.take(whole, 10 * MIB);
    assert_eq!(
        arena.unmap(0, 2 * MIB),
        Err(SegmentError::Unknown),
        "it is in use"
    );
    arena.unmap(20 * MIB, 10 * MIB).unwrap();
    let mut blocks: Vec<_> = arena.blocks().collect();
    blocks.sort_unstable();
    let mib = |(addr, size, used): (u64, u64, bool)| (addr / MIB, size / MIB, used);
    let blocks: Vec<_> = blocks.into_iter().map(mib).collect();
    assert_eq!(blocks, [(0, 10, true), (10, 10, false), (30, 10, false)]);
    let free = arena.free(used);
    assert_eq!(
        arena.size(free),
        20 * MIB,
        "the unmapped hole keeps the parts apart"
    );
}

/// An arena as an interval map: which bytes are used, per segment, and nothing else.
#[derive(Default)]
struct Model {
    segments: BTreeMap<u64, u64>,
    used: BTreeMap<u64, u64>,
}

impl Model {
    /// Maximal free gaps, by address.
    fn gaps(&self) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        for (&base, &size) in &self.segments {
            let mut at = base;
            for (&addr, &len) in self.used.range(base..base + size) {
                if addr > at {
                    gaps.push((at, addr - at));
                }
                at = addr + len;
            }
            if base + size > at {
                gaps.push((at, base + size - at));
            }
        }
        gaps
    }

    /// Best fit, in the simplest way.
    fn fit(&self, rounded: u64) -> Option<u64> {
        let fits = self.gaps().into_iter().filter(|&(_, len)| len >= rounded);
        fits.min_by_key(|&(addr, len)| (len, addr))
            .map(|(addr, _)| addr)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Alloc(u64),
    Free(prop::sample::Index),
    Release,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (1..40 * MIB).prop_map(Op::Alloc),
        2 => (1..3 * MIB).prop_map(Op::Alloc),
        4 => any::<prop::sample::Index>().prop_map(Op::Free),
        1 => Just(Op::Release),
    ];
    prop::collection::vec(op, 1..120)
}

/// What happens to ranges of expandable segments, in pages of 2 MiB.
#[derive(Clone, Debug)]
enum RangeOp {
    Map(u64, u64, bool),
    Unmap(u64, u64),
    Take(u64),
    Occupy(u64),
    FreeAt(prop::sample::Index),
    Grow(prop::sample::Index),
}

fn range_op() -> impl Strategy<Value = RangeOp> {
    prop_oneof![
        4 => (0..60_u64, 1..6_u64, any::<bool>()).prop_map(|(at, n, s)| RangeOp::Map(at, n, s)),
        2 => (0..60_u64, 1..4_u64).prop_map(|(at, n)| RangeOp::Unmap(at, n)),
        3 => (1..8 * MIB).prop_map(RangeOp::Take),
        2 => (0..120_u64).prop_map(RangeOp::Occupy),
        3 => any::<prop::sample::Index>().prop_map(RangeOp::FreeAt),
        1 => any::<prop::sample::Index>().prop_map(RangeOp::Grow),
    ]
}

fn ties() -> impl Strategy<Value = Ties> {
    prop_oneof![
        Just(Ties::Address),
        Just(Ties::BlockAge),
        Just(Ties::SegmentAge)
    ]
}

impl RangeOp {
    /// The change that it makes, in addresses.
    fn apply(&self, arena: &mut Arena) -> Option<(u64, u64)> {
        const PAGE: u64 = 2 * MIB;
        let told = |arena: &Arena, slot| Some((arena.addr(slot), arena.size(slot)));
        let used = |arena: &Arena, index: &prop::sample::Index| {
            let slots = (0..arena.blocks.len() as u32).map(Slot);
            let mut used: Vec<Slot> = slots.filter(|slot| arena.is_used(*slot)).collect();
            used.sort_by_key(|slot| arena.addr(*slot));
            (!used.is_empty()).then(|| *index.get(&used))
        };
        match self {
            RangeOp::Map(at, n, small) => {
                let (addr, size) = (at * PAGE, n * PAGE);
                let taken =
                    |(base, len, _): (u64, u64, bool)| base < addr + size && addr < base + len;
                if arena.blocks().any(taken) {
                    return None;
                }
                let slot = arena.map(if *small { SMALL } else { KEY }, addr, size);
                told(arena, slot)
            }
            RangeOp::Unmap(at, n) => {
                let unmapped = arena.unmap(at * PAGE, n * PAGE);
                unmapped.ok().map(|()| (at * PAGE, n * PAGE))
            }
            RangeOp::Take(size) => {
                let rounded = arena.config().round_size(*size);
                let slot = arena.best_fit(KEY, rounded)?;
                let slot = arena.take(slot, rounded);
                told(arena, slot)
            }
            RangeOp::Occupy(at) => {
                let slot = arena.free_block_at(at * MIB)?;
                let slot = arena.occupy(slot, at * MIB, MIB);
                told(arena, slot)
            }
            RangeOp::FreeAt(index) => {
                let slot = used(arena, index)?;
                let slot = arena.free(slot);
                told(arena, slot)
            }
            RangeOp::Grow(index) => {
                let slot = used(arena, index)?;
                let above = arena.free_above(slot)?;
                if arena.size(above) <= 512 {
                    return None;
                }
                arena.grow_used(slot, 512);
                told(arena, slot)
            }
        }
    }
}

proptest! {
    /// Free blocks are always the maximal gaps of an interval map, best fit gives the same as the
    /// simple way, and no byte is lost.
    #[test]
    fn the_arena_is_an_interval_map(ops in ops()) {
        let mut arena = Arena::new(Config::default());
        let mut model = Model::default();
        let mut used: Vec<(Slot, u64)> = Vec::new();
        let mut next_base = 0;
        for op in ops {
            match op {
                Op::Alloc(n) => {
                    let rounded = arena.config().round_size(n).max(MIB + 512);
                    let fit = arena.best_fit(KEY, rounded);
                    prop_assert_eq!(fit.map(|s| arena.addr(s)), model.fit(rounded));
                    let slot = fit.unwrap_or_else(|| {
                        let size = arena.config().segment_size(rounded);
                        model.segments.insert(next_base, size);
                        let slot = arena.add_segment(KEY, next_base, size);
                        next_base += size + 2 * MIB;
                        slot
                    });
                    let slot = arena.take(slot, rounded);
                    prop_assert!(arena.size(slot) >= rounded);
                    prop_assert!(arena.size(slot) - rounded <= MIB);
                    model.used.insert(arena.addr(slot), arena.size(slot));
                    used.push((slot, arena.addr(slot)));
                }
                Op::Free(index) if !used.is_empty() => {
                    let (slot, addr) = used.swap_remove(index.index(used.len()));
                    model.used.remove(&addr);
                    arena.free(slot);
                }
                Op::Free(_) => {}
                Op::Release => {
                    for (&base, &size) in model.segments.clone().iter() {
                        let empty = model.used.range(base..base + size).next().is_none();
                        prop_assert_eq!(arena.remove_segment(base).is_ok(), empty);
                        if empty {
                            model.segments.remove(&base);
                        }
                    }
                }
            }
            let mut free: Vec<_> =
                arena.blocks().filter(|b| !b.2).map(|(addr, size, _)| (addr, size)).collect();
            free.sort_unstable();
            prop_assert_eq!(free, model.gaps());
        }
    }

    /// A search through all blocks and a search in the index find the same block.
    #[test]
    fn an_index_changes_nothing(ops in prop::collection::vec(range_op(), 1..150)) {
        let config = Config { expandable_segments: true, ..Config::default() };
        let mut scanned = Arena::new(config);
        let mut indexed = scanned.clone();
        indexed.keep_index();
        for op in ops {
            prop_assert_eq!(op.apply(&mut scanned), op.apply(&mut indexed), "{:?}", op);
            let sorted = |arena: &Arena| {
                let mut blocks: Vec<_> = arena.blocks().collect();
                blocks.sort_unstable();
                blocks
            };
            prop_assert_eq!(sorted(&scanned), sorted(&indexed));
        }
    }

    /// Under the rules of every version each entry of a list has a key of its own, however memory
    /// was laid out.
    #[test]
    fn no_two_free_blocks_are_listed_alike(
        ops in prop::collection::vec(range_op(), 1..150),
        ties in ties(),
    ) {
        let config = Config { expandable_segments: true, ties, ..Config::default() };
        let mut arena = Arena::new(config);
        for op in ops {
            op.apply(&mut arena);
            arena.check_lists();
        }
    }

    /// Pools never share a block.
    #[test]
    fn pools_are_apart(sizes in prop::collection::vec(1..4 * MIB, 1..40)) {
        let mut arena = Arena::new(Config::default());
        arena.add_segment(SMALL, 0, 2 * MIB);
        arena.add_segment(KEY, 100 * MIB, 200 * MIB);
        for n in sizes {
            let rounded = arena.config().round_size(n);
            let key = PoolKey { size: arena.config().pool_size(rounded), ..KEY };
            if let Some(slot) = arena.best_fit(key, rounded) {
                let slot = arena.take(slot, rounded);
                prop_assert_eq!(arena.addr(slot) < 100 * MIB, rounded <= MIB);
                prop_assert_eq!(arena.pool(slot), key);
            }
        }
    }

    /// What is counted for each pool is what a look at every block finds.
    #[test]
    fn idle_pools_are_those_without_a_used_block(
        ops in prop::collection::vec((0..5_u64, 0..3_u64, any::<bool>()), 1..120),
    ) {
        let mut arena = Arena::new(Config::default());
        let mut used: Vec<Slot> = Vec::new();
        for (at, (pool, stream, takes)) in ops.into_iter().enumerate() {
            let key = PoolKey { pool: PoolId(0, pool), stream, ..KEY };
            match takes {
                true => {
                    let slot = arena.add_segment(key, at as u64 * 64 * MIB, 20 * MIB);
                    used.push(arena.take(slot, 2 * MIB + stream * 5 * MIB));
                }
                false if !used.is_empty() => {
                    let whole = arena.free(used.swap_remove(at % used.len()));
                    if stream == 0 {
                        let addr = arena.addr(whole);
                        prop_assert_eq!(arena.remove_segment(addr), Ok(()));
                    }
                }
                false => {}
            }
            let live = arena.blocks.iter().filter(|block| block.state != State::Vacant);
            let mut of_pool: BTreeMap<PoolId, bool> = BTreeMap::new();
            for block in live {
                let pool = arena.pools[usize::from(block.pool)].key.pool;
                *of_pool.entry(pool).or_insert(true) &= block.state == State::Free;
            }
            of_pool.retain(|pool, idle| *idle && *pool != PoolId::default());
            let mut idle = arena.idle_pools();
            idle.sort_unstable();
            prop_assert_eq!(idle, of_pool.into_keys().collect::<Vec<_>>());
            for pool in (0..5).map(|pool| PoolId(0, pool)) {
                let free = arena.free_blocks(pool, PoolSize::Large);
                let free: BTreeSet<u64> = free.map(|slot| arena.addr(slot)).collect();
                let all = arena.blocks.iter().filter(|block| block.state == State::Free);
                let all = all.filter(|block| arena.pools[usize::from(block.pool)].key.pool == pool);
                prop_assert_eq!(free, all.map(|block| block.addr).collect());
            }
        }
    }
}
