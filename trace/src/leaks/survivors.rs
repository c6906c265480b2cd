//! One pass over the blocks: finds what each site keeps across the ends of steps.

use super::last::Fates;
use crate::growth::settled;
use crate::site::{SiteKey, Sites};
use crate::stacks::FxHashMap;
use crate::trace::{BlockIdx, Blocks};
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};

/// The ends of periods (steps, or parts of one): `ends[i]` is the first event after period `i`. A
/// block is alive at end `i` when it was allocated before that event and not given back before it.
/// Events before the first end belong to period 0.
pub struct Ends {
    ends: Vec<u32>,
}

impl Ends {
    /// From ascending events.
    pub fn new(ends: Vec<u32>) -> Ends {
        debug_assert!(ends.is_sorted(), "ends must ascend");
        Ends { ends }
    }

    /// How many periods.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The events.
    pub fn as_slice(&self) -> &[u32] {
        &self.ends
    }

    /// The period that contains the event; the number of periods when it comes after the last.
    pub fn period_of(&self, event: u32) -> usize {
        self.ends.partition_point(|&end| end <= event)
    }
}

/// What one site keeps across ends of periods.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Per end, bytes alive.
    pub live: Vec<u64>,
    /// Per end, requested bytes alive: without the remainders that are too small to split off a
    /// large block, which come and go.
    pub requested: Vec<u64>,
    /// Per period, bytes allocated in it, whether kept or not.
    pub churn: Vec<u64>,
    /// Per end, blocks alive.
    pub live_count: Vec<u32>,
    /// Per period, how many of the blocks that are alive at its end were made in it.
    pub new_count: Vec<u32>,
    /// The same in bytes.
    pub new_bytes: Vec<u64>,
    /// Per period, bytes allocated in it that are alive at the last end.
    pub survivors: Vec<u64>,
    /// The same in requested bytes: equal for equal growths, without remainders.
    pub survivors_requested: Vec<u64>,
    /// Per period, how many blocks these are.
    pub survivor_count: Vec<u32>,
    /// The age of the oldest block that *was* given back: how many ends it had outlived. Blocks of
    /// period 0 do not count, because first steps differ.
    pub longest_freed: usize,
    /// How many blocks were given back at each age (in ends outlived).
    pub freed_ages: Vec<u32>,
    /// Whether they were given back oldest first.
    pub in_order: bool,
    /// The last period in which one was given back, and whether a survivor was met since.
    order: (usize, bool),
    /// Per period, how many blocks were given back in it that had outlived two ends or more.
    pub old_gone: Vec<u32>,
    /// Requested sizes of the survivors, with counts. What the last period made may be given back
    /// in the next one, as the variables of a loop are.
    pub sizes: FxHashMap<Bytes, u32>,
    /// Whether the program had run before the first period, which then is like the others.
    pub ran_before: bool,
}

/// What all sites keep across ends of periods.
pub struct Survey {
    /// The first event that is surveyed.
    pub from: u32,
    /// Per site; `None` if it keeps nothing across an end.
    pub kept: Vec<Option<Box<Kept>>>,
    /// Per period, bytes allocated in it, whether kept or not.
    pub churn: Vec<u64>,
    /// Per period, bytes of `churn` that are given back before the period ends.
    pub temporary: Vec<u64>,
    /// Blocks from before the first event that were given back after the first end, by requested
    /// size: newer blocks may have taken their place. The periods in which they were given back,
    /// and how many.
    pub replaced: FxHashMap<Bytes, Vec<(usize, u32)>>,
    /// Per period, requested bytes of these blocks, whatever their sizes.
    pub gone: Vec<u64>,
    /// Blocks of the last period that are alive at its end, but which other periods give back.
    /// They ascend.
    pub held: Vec<BlockIdx>,
    /// Per site with a stack, bytes allocated in the first half of the settled periods and in the
    /// second, whether kept or not.
    halves: Vec<[u64; 2]>,
    /// Blocks of sites that were left out because there are too many sites and ends: see
    /// [`MAX_CELLS`].
    pub left_out: u64,
    /// Whether the program had run before the first period.
    pub ran_before: bool,
}

/// The largest number of sites times ends that is surveyed, at 68 bytes each. This is enough for
/// hundreds of sites that keep something over four thousand steps.
pub const MAX_CELLS: usize = 3 << 20;

impl Survey {
    /// Surveys the blocks that are allocated in the periods from event `from` on.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn new(
        blocks: &Blocks,
        sites: &Sites,
        ends: &Ends,
        from: u32,
        watch: Watch<'_>,
    ) -> Result<Survey, Stopped> {
        let n = ends.len();
        let mut survey = Survey::empty(from, n, sites.keys.len());
        let mut room = MAX_CELLS / n.max(1);
        // What sites made in a period before the first block that they keep.
        let mut before: Vec<(usize, u64)> = vec![(0, 0); sites.keys.len()];
        let Some(&last_end) = ends.as_slice().last() else {
            return Ok(survey);
        };
        let first = blocks.n_preexisting as usize;
        survey.preexisting(blocks, ends);
        let mut fates = Fates::new(blocks, n, last_end);
        let mut index = first + blocks.alloc[first..].partition_point(|&event| event < from);
        for (period, &end) in ends.as_slice().iter().enumerate() {
            watch.at_row(period, || 0)?;
            while index < blocks.len() && blocks.alloc[index] < end {
                watch.at_row(index, || 0)?;
                let kind = blocks.kind[index].index();
                let size = blocks.kinds[kind].size.0;
                let site = sites.of_kind[kind] as usize;
                survey.count(site, period, size, &mut before[site]);
                if !fates.outlives(blocks, index, period, end) {
                    survey.temporary[period] += size;
                } else {
                    let block = Crossing {
                        period,
                        freed: match blocks.free_requested[index] {
                            freed if freed < last_end && period + 1 < n => ends.period_of(freed),
                            _ => n,
                        },
                        size,
                        requested: blocks.kinds[kind].requested,
                    };
                    match &mut survey.kept[site] {
                        Some(kept) => kept.add(&block, n),
                        None if room == 0 => survey.left_out += 1,
                        new => {
                            room -= 1;
                            let kept = new.insert(Box::new(Kept::empty(n)));
                            kept.churn[period] = before[site].1;
                            kept.add(&block, n);
                        }
                    }
                }
                index += 1;
            }
        }
        for kept in survey.kept.iter_mut().flatten() {
            watch.look(0)?;
            kept.sum_up();
        }
        survey.held = fates.held;
        survey.keep_halves_with_stack(sites);
        Ok(survey)
    }

    fn empty(from: u32, periods: usize, sites: usize) -> Survey {
        Survey {
            from,
            kept: vec![None; sites],
            churn: vec![0; periods],
            temporary: vec![0; periods],
            replaced: FxHashMap::default(),
            gone: vec![0; periods],
            held: Vec::new(),
            halves: vec![[0; 2]; sites],
            left_out: 0,
            ran_before: false,
        }
    }

    /// Notes that the program had run before the first period.
    pub fn ran_before(&mut self) {
        self.ran_before = true;
        let kept = self.kept.iter_mut().flatten();
        kept.for_each(|kept| kept.ran_before = true);
    }

    fn keep_halves_with_stack(&mut self, sites: &Sites) {
        let mut keys = sites.keys.iter();
        self.halves
            .retain(|_| matches!(keys.next(), Some(SiteKey::Shape(_))));
    }

    /// The share of the sites with a stack whose work grows from the first half of the settled
    /// periods to the second, by `part` of itself or more; `None` if there are none.
    pub fn share_that_grows(&self, part: f64) -> Option<f64> {
        let at_work = self.halves.iter().filter(|halves| !halves.contains(&0));
        let (mut n, mut growing) = (0, 0);
        for &[first, second] in at_work {
            n += 1;
            growing += usize::from(second as f64 >= (1.0 + part) * first as f64);
        }
        (n > 0).then(|| growing as f64 / f64::from(n))
    }

    /// Counts what a site makes in a period; in `before`, if it has kept nothing yet.
    fn count(&mut self, site: usize, period: usize, size: u64, before: &mut (usize, u64)) {
        self.churn[period] += size;
        if let Some(half) = half_of(period, self.churn.len()) {
            self.halves[site][half] += size;
        }
        match &mut self.kept[site] {
            Some(kept) => kept.churn[period] += size,
            None if before.0 == period => before.1 += size,
            None => *before = (period, size),
        }
    }

    fn preexisting(&mut self, blocks: &Blocks, ends: &Ends) {
        let Some((&first, &last)) = ends.as_slice().first().zip(ends.as_slice().last()) else {
            return;
        };
        let mut counts: FxHashMap<(Bytes, usize), u32> = FxHashMap::default();
        for index in 0..blocks.n_preexisting {
            let freed = blocks.free_requested[index as usize];
            if (first..last).contains(&freed) {
                let requested = blocks.kind(BlockIdx(index)).requested;
                let period = ends.period_of(freed);
                *counts.entry((requested, period)).or_default() += 1;
                self.gone[period] += requested.0;
            }
        }
        for ((requested, period), n) in counts {
            let periods = self.replaced.entry(requested).or_default();
            periods.push((period, n));
        }
    }
}

/// Which half of the settled ones of `n` periods a period is in. The middle one of an odd number is
/// in none.
fn half_of(period: usize, n: usize) -> Option<usize> {
    let from = settled(n);
    let half = (n - from) / 2;
    match period {
        _ if period >= n - half => Some(1),
        _ if (from..from + half).contains(&period) => Some(0),
        _ => None,
    }
}

/// A block that is alive at the end of its period.
struct Crossing {
    period: usize,
    /// The first end at which it is no longer alive.
    freed: usize,
    size: u64,
    requested: Bytes,
}

impl Kept {
    /// Of a site that keeps so much of each period, in one block.
    #[cfg(test)]
    pub(super) fn of_survivors(bytes: &[u64]) -> Kept {
        Kept {
            live: vec![0; bytes.len()],
            survivors: bytes.to_vec(),
            survivor_count: bytes.iter().map(|&bytes| u32::from(bytes > 0)).collect(),
            ..Kept::default()
        }
    }

    fn empty(n: usize) -> Kept {
        Kept {
            live: vec![0; n],
            requested: vec![0; n],
            churn: vec![0; n],
            live_count: vec![0; n],
            new_count: vec![0; n],
            new_bytes: vec![0; n],
            survivors: vec![0; n],
            survivors_requested: vec![0; n],
            survivor_count: vec![0; n],
            longest_freed: 0,
            freed_ages: vec![0; n + 1],
            in_order: true,
            order: (0, false),
            old_gone: vec![0; n],
            sizes: FxHashMap::default(),
            ran_before: false,
        }
    }

    /// Adds a block: `live` holds differences until [`Kept::sum_up`].
    fn add(&mut self, block: &Crossing, n: usize) {
        let &Crossing {
            period,
            freed,
            size,
            requested,
        } = block;
        self.live[period] = self.live[period].wrapping_add(size);
        self.requested[period] = self.requested[period].wrapping_add(requested.0);
        self.live_count[period] = self.live_count[period].wrapping_add(1);
        self.new_count[period] += 1;
        self.new_bytes[period] += size;
        if freed < n {
            self.live[freed] = self.live[freed].wrapping_sub(size);
            self.requested[freed] = self.requested[freed].wrapping_sub(requested.0);
            self.live_count[freed] = self.live_count[freed].wrapping_sub(1);
            if period > 0 {
                self.longest_freed = self.longest_freed.max(freed - period);
                self.freed_ages[freed - period] += 1;
                self.old_gone[freed] += u32::from(freed - period > 1);
                let (last, has_survivor) = self.order;
                self.in_order &= freed >= last && !has_survivor;
                self.order.0 = freed;
            }
        } else {
            self.order.1 |= period > 0;
            self.survivors[period] += size;
            self.survivors_requested[period] += requested.0;
            self.survivor_count[period] += 1;
            if period + 1 < n {
                *self.sizes.entry(requested).or_default() += 1;
            }
        }
    }

    /// Per end, blocks alive.
    pub fn counts(&self) -> Vec<u64> {
        self.live_count.iter().map(|&count| count.into()).collect()
    }

    /// The same as if the recording had ended before the last period. Blocks that survive it are
    /// counted as before.
    pub fn without_last_end(&self) -> Kept {
        let mut kept = self.clone();
        let n = self.live.len().saturating_sub(1);
        let bytes = [
            &mut kept.live,
            &mut kept.requested,
            &mut kept.churn,
            &mut kept.new_bytes,
            &mut kept.survivors,
            &mut kept.survivors_requested,
        ];
        bytes.into_iter().for_each(|column| column.truncate(n));
        let counts = [
            &mut kept.live_count,
            &mut kept.new_count,
            &mut kept.survivor_count,
            &mut kept.old_gone,
        ];
        counts.into_iter().for_each(|column| column.truncate(n));
        kept
    }

    fn sum_up(&mut self) {
        for levels in [&mut self.live, &mut self.requested] {
            let mut bytes = 0_u64;
            for level in levels {
                bytes = bytes.wrapping_add(*level);
                *level = bytes;
            }
        }
        let mut count = 0_u32;
        for level in &mut self.live_count {
            count = count.wrapping_add(*level);
            *level = count;
        }
    }
}
