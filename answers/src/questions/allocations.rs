//! Lists of allocations.

use super::alive::{Known, step_at, tally};
use crate::decoded::Decoded;
use crate::names::forward_op;
use api::alive::{AllocationFilter, AllocationPage, AllocationRow, MAX_PAGE, Sort};
use trace::alive::{self, BadFilter, Dimension, Filter, Order, Place};
use trace::forward::Forwards;
use trace::levels::GivenBack;
use trace::site::BadSite;
use trace::steps::Word;
use trace::tiles::block_label;
use trace::trace::{BlockIdx, DeviceTrace, PoolId, PoolSize};
use trace::units::{Bytes, EventIdx};

/// How many allocations are listed before and after one.
const BESIDE: u32 = 8;

/// A question that has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuestion {
    /// The site is not valid.
    #[error(transparent)]
    Site(#[from] BadSite),
    /// The pool is not valid.
    #[error("a pool is `small`, `large`, or a private one as `owner-user`, such as `0-1`")]
    Pool,
    /// The group is not valid.
    #[error("a group is what groups stand for, a colon and the group's key, such as `stream:0`")]
    Group,
    /// The device has nothing to which the filter could apply.
    #[error(transparent)]
    Filter(#[from] BadFilter),
}

/// A page of the allocations that match a filter.
///
/// # Errors
/// When the filter is not understood.
pub fn page(
    decoded: &Decoded,
    device: &DeviceTrace,
    filter: &AllocationFilter,
    offset: u64,
    limit: usize,
) -> Result<AllocationPage, BadQuestion> {
    let order = match filter.sort {
        Sort::Oldest => Order::Oldest,
        Sort::Newest => Order::Newest,
        Sort::Largest => Order::Largest,
    };
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    let wanted = parsed(filter)?;
    let by = wanted.group.as_ref().map(|(by, _)| *by);
    let known = Known::of(decoded, device, by);
    let subject = known.subject(&decoded.trace, device);
    let found = alive::select(subject, &wanted, order, from, limit.min(MAX_PAGE))?;
    Ok(AllocationPage {
        total: tally(found.total),
        offset,
        items: rows(decoded, device, found.blocks),
        step: Word::of(&device.steps).one().to_owned(),
    })
}

/// An allocation with its neighbours before and after it.
pub fn beside(decoded: &Decoded, device: &DeviceTrace, block: BlockIdx) -> Option<AllocationPage> {
    let blocks = &device.blocks;
    if block.index() >= blocks.len() {
        return None;
    }
    // Blocks from before the recording have no order.
    let first = match block.0 < blocks.n_preexisting {
        true => 0,
        false => blocks.n_preexisting,
    };
    let from = block.0.saturating_sub(BESIDE).max(first);
    let to = (block.0 + BESIDE + 1).min(blocks.len() as u32);
    let found: Vec<BlockIdx> = (from..to).map(BlockIdx).collect();
    let mut total = alive::Tally::default();
    found.iter().for_each(|&b| total.add(blocks.kind(b).size));
    Some(AllocationPage {
        total: tally(total),
        offset: 0,
        items: rows(decoded, device, found),
        step: Word::of(&device.steps).one().to_owned(),
    })
}

fn parsed(filter: &AllocationFilter) -> Result<Filter, BadQuestion> {
    let site = filter.site.as_deref().map(str::parse).transpose()?;
    let group = filter.of.as_deref().map(group).transpose()?;
    let pool = filter.pool.as_deref().map(pool).transpose()?;
    let born = match (filter.born, filter.until) {
        (None, None) => None,
        (from, to) => Some((from.unwrap_or(0), to.unwrap_or(u32::MAX))),
    };
    Ok(Filter {
        text: filter.q.clone(),
        site,
        stack: None,
        group,
        min_size: filter.min.map(Bytes),
        max_size: filter.max.map(Bytes),
        min_age: filter.older,
        max_age: filter.younger,
        stream: filter.stream,
        pool,
        born,
        alive_at: filter.alive.map(EventIdx),
    })
}

fn group(text: &str) -> Result<(Dimension, String), BadQuestion> {
    let (by, key) = text.split_once(':').ok_or(BadQuestion::Group)?;
    let by = by.parse().map_err(|_| BadQuestion::Group)?;
    Ok((by, key.to_owned()))
}

fn pool(text: &str) -> Result<Place, BadQuestion> {
    match text {
        "small" => return Ok(Place::Size(PoolSize::Small)),
        "large" => return Ok(Place::Size(PoolSize::Large)),
        _ => {}
    }
    let (owner, user) = text.split_once('-').ok_or(BadQuestion::Pool)?;
    let number = |text: &str| text.parse().map_err(|_| BadQuestion::Pool);
    Ok(Place::Pool(PoolId(number(owner)?, number(user)?)))
}

fn rows(decoded: &Decoded, device: &DeviceTrace, found: Vec<BlockIdx>) -> Vec<AllocationRow> {
    let mut forwards = Forwards::new(device, &decoded.trace.stacks);
    let row = |block| row(decoded, device, &mut forwards, block);
    found.into_iter().map(row).collect()
}

fn row(
    decoded: &Decoded,
    device: &DeviceTrace,
    forwards: &mut Forwards<'_>,
    block: BlockIdx,
) -> AllocationRow {
    let (blocks, stacks) = (&device.blocks, &decoded.trace.stacks);
    let kind = blocks.kind(block);
    let alloc = (block.0 >= blocks.n_preexisting).then(|| EventIdx(blocks.alloc[block.index()]));
    let given_back = device.given_back(block);
    let forward = forwards.of(block);
    AllocationRow {
        block: block.0,
        size: kind.size,
        requested: kind.requested,
        alloc,
        freed: given_back.event(),
        freed_before: given_back == GivenBack::Before,
        step: alloc.and_then(|event| step_at(device, event)),
        age: alive::age(device, block),
        stream: kind.stream,
        label: block_label(device, stacks, block),
        forward: forward.map(|found| forward_op(stacks, &found)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pictures::details;

    /// The column of frees says 0 for event 0 and for "before it".
    #[test]
    fn what_was_given_back_before_the_trace_was_not_given_back_at_event_0() {
        let decoded = Decoded::new(trace::testing::given_back_before(), ());
        let device = &decoded.trace.devices[0];
        let n = device.blocks.len() as u32;
        let all = rows(&decoded, device, (0..n).map(BlockIdx).collect());
        let told: Vec<_> = all
            .iter()
            .map(|row| (row.freed, row.freed_before))
            .collect();
        let (before, never) = ((None, true), (None, false));
        assert_eq!(told, [before, (Some(EventIdx(0)), false), before, never]);
        for row in all {
            let detail = details::block(&decoded, device, BlockIdx(row.block)).unwrap();
            let requested = detail.free_requested.map(|(event, _)| event);
            assert_eq!(
                (requested, detail.freed_before),
                (row.freed, row.freed_before)
            );
        }
    }
}
