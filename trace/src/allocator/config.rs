//! The constants of PyTorch's caching allocator, and what its settings change about the rules.

use super::PoolKey;
use crate::trace::{PoolId, PoolSize};

/// Smallest block and granule of rounding, bytes (`kMinBlockSize`).
pub const MIN_BLOCK: u64 = 512;
/// Largest request that the small pool serves, bytes (`kSmallSize`).
pub const SMALL_SIZE: u64 = 1 << 20;
/// Segment of the small pool, bytes (`kSmallBuffer`).
pub const SMALL_BUFFER: u64 = 2 << 20;
/// Below this a large request gets a [`LARGE_BUFFER`], bytes (`kMinLargeAlloc`).
pub const MIN_LARGE_ALLOC: u64 = 10 << 20;
/// Usual segment of the large pool, bytes (`kLargeBuffer`).
pub const LARGE_BUFFER: u64 = 20 << 20;
/// Granule of larger segments, bytes (`kRoundLarge`).
pub const ROUND_LARGE: u64 = 2 << 20;

/// What torch_npu adds to each request for most of Huawei's devices, bytes (`AddPadSize`).
pub const PADDING: u64 = 32;

/// Which of several free blocks of equal size is handed out. No setting says so, but the version of
/// PyTorch does (docs/allocator.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// The one with the lowest address: up to torch 2.11.
    #[default]
    Address,
    /// The one that was made first: torch 2.12. A part that is split off to be handed out is a new
    /// block. Where free blocks are joined, the one that was given back last goes on.
    BlockAge,
    /// The one in the segment that was made first, and in it the lowest: from torch 2.13 on.
    SegmentAge,
}

impl Ties {
    /// Of the version of torch that a file was written with, such as `2.10 to 2.11`.
    pub fn of_torch(guess: Option<&str>) -> Ties {
        match minor_version(guess) {
            Some(13_u32..) => Ties::SegmentAge,
            Some(12) => Ties::BlockAge,
            _ => Ties::Address,
        }
    }
}

/// Whether private pools have expandable segments under the version of torch that a file was
/// written with. Up to 2.5 they have none, from 2.8 on they have. A file does not tell the versions
/// between from 2.5, so they count as those without.
pub(super) fn expands_private(guess: Option<&str>) -> bool {
    minor_version(guess).is_some_and(|minor| minor >= 8)
}

/// The earliest minor version of torch 2 in a guess such as `2.10 to 2.11`.
pub(super) fn minor_version(guess: Option<&str>) -> Option<u32> {
    let minor = guess?.strip_prefix("2.")?;
    minor
        .split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// The rules that depend on the version of PyTorch and on `PYTORCH_CUDA_ALLOC_CONF`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Which of several free blocks of equal size is handed out.
    pub ties: Ties,
    /// Bytes that are added to each request before it is rounded: [`PADDING`] under Huawei's
    /// allocator, otherwise 0. No setting says so, but addresses and sizes of blocks do.
    pub padding: u64,
    /// Blocks of at least this many bytes are never split; `None`: no limit.
    pub max_split_size: Option<u64>,
    /// An oversize block may exceed its request by this many bytes.
    pub max_non_split_rounding: u64,
    /// `roundup_power2_divisions` for sizes of 1 MiB, 2 MiB, … 32 GiB; 0 and 1 mean none.
    pub roundup_power2_divisions: [u64; 16],
    /// Whether segments grow by mapping pages.
    pub expandable_segments: bool,
    /// Whether those of private pools do so, too. No setting says so, but the version of PyTorch
    /// does (docs/allocator.md).
    pub expandable_private: bool,
    /// Share of the limit above which cached segments are given back before the driver is asked for
    /// another; 0: never.
    pub garbage_collection_threshold: f64,
    /// Usual segment of the large pool, and its page when segments are expandable, bytes.
    pub large_segment: u64,
    /// Private pools that hand out whole blocks and never split one (`MemPool(no_split=True)`, seen
    /// in torch 2.11). No setting says so, but sizes of blocks do.
    pub unsplit_pools: Vec<PoolId>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            ties: Ties::default(),
            padding: 0,
            max_split_size: None,
            max_non_split_rounding: LARGE_BUFFER,
            roundup_power2_divisions: [0; 16],
            expandable_segments: false,
            expandable_private: true,
            garbage_collection_threshold: 0.0,
            large_segment: LARGE_BUFFER,
            unsplit_pools: Vec::new(),
        }
    }
}

impl Config {
    /// The same settings under the version of PyTorch that `other` is of, and on its device.
    pub fn under_version_of(self, other: &Config) -> Config {
        Config {
            ties: other.ties,
            padding: other.padding,
            expandable_private: other.expandable_private,
            unsplit_pools: other.unsplit_pools.clone(),
            ..self
        }
    }

    /// Whether the segments of a pool grow by mapping pages.
    pub fn expands(&self, pool: PoolId) -> bool {
        self.expandable_segments && (self.expandable_private || pool == PoolId::default())
    }

    /// Bytes of the block that a request of `n` bytes asks for.
    pub fn round_size(&self, n: u64) -> u64 {
        let n = n.saturating_add(self.padding);
        if n < MIN_BLOCK {
            return MIN_BLOCK;
        }
        let bucket = (63 - n.leading_zeros()).saturating_sub(20).min(15) as usize;
        let divisions = self.roundup_power2_divisions[bucket];
        if divisions > 1 && n > MIN_BLOCK.saturating_mul(divisions) {
            return next_division(n, divisions);
        }
        n.next_multiple_of(MIN_BLOCK)
    }

    /// The fewest bytes of a request for which a block of `rounded` bytes is asked for.
    pub fn least_request(&self, rounded: u64) -> u64 {
        let (mut low, mut high) = (1, rounded.max(1));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.round_size(middle) >= rounded {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    }

    /// Bytes of the segment for a rounded request that nothing fits.
    pub fn segment_size(&self, rounded: u64) -> u64 {
        match rounded {
            0..=SMALL_SIZE => SMALL_BUFFER,
            n if n < MIN_LARGE_ALLOC => self.large_segment,
            n => n.next_multiple_of(ROUND_LARGE),
        }
    }

    /// The most bytes that the driver must have for a rounded request that nothing fits. An
    /// expandable segment needs whole pages, fewer if free memory lies in front of them.
    pub fn driver_needs(&self, rounded: u64) -> u64 {
        match self.expandable_segments {
            true => rounded.next_multiple_of(self.page(self.pool_size(rounded))),
            false => self.segment_size(rounded),
        }
    }

    /// Bytes of the page in which an expandable segment of a pool grows and shrinks.
    pub fn page(&self, pool: PoolSize) -> u64 {
        match pool {
            PoolSize::Small => SMALL_BUFFER,
            PoolSize::Large => self.large_segment,
        }
    }

    /// The pool that serves a rounded request.
    pub fn pool_size(&self, rounded: u64) -> PoolSize {
        if rounded <= SMALL_SIZE {
            PoolSize::Small
        } else {
            PoolSize::Large
        }
    }

    /// Whether a free block of a pool that would leave `remaining` bytes is split.
    pub fn splits(&self, pool: &PoolKey, rounded: u64, remaining: u64) -> bool {
        if self.unsplit_pools.contains(&pool.pool) {
            false
        } else if pool.size == PoolSize::Small || self.expandable_segments {
            remaining >= MIN_BLOCK
        } else {
            self.max_split_size.is_none_or(|max| rounded < max) && remaining > SMALL_SIZE
        }
    }

    /// The largest remainder that stays inside a block of the pool because it is not split off.
    pub fn largest_unsplit_remainder(&self, pool: &PoolKey) -> u64 {
        if self.unsplit_pools.contains(&pool.pool) {
            u64::MAX
        } else if pool.size == PoolSize::Small || self.expandable_segments {
            0
        } else {
            SMALL_SIZE
        }
    }

    /// Whether best fit rejects a block (oversize rules).
    pub(crate) fn rejects(&self, rounded: u64, block: u64) -> bool {
        self.max_split_size.is_some_and(|max| {
            (rounded < max && block >= max)
                || (rounded >= max && block >= rounded + self.max_non_split_rounding)
        })
    }
}

/// `n` rounded up to the next of `divisions` steps between powers of two.
fn next_division(n: u64, divisions: u64) -> u64 {
    if n.is_power_of_two() {
        return n;
    }
    let floor = 1_u64 << (63 - n.leading_zeros());
    match floor >> (63 - divisions.leading_zeros()) {
        0 => floor << 1,
        step => n.next_multiple_of(step),
    }
}
