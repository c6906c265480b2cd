//! Memory without a stack that belongs to backward passes, named by the operation of the forward
//! pass, as elsewhere ([`crate::forward`]).

use super::together::Together;
use crate::code;
use crate::compare::profile::Place;
use crate::forward::Forwards;
use crate::oom::Asker;
use crate::site::{OfSites, SiteKey};
use crate::stacks::{Frame, FxHashMap, StackIdx, Stacks};
use crate::trace::{BlockIdx, DeviceTrace};
use crate::watch::{Stopped, Watch};
use std::cmp::Reverse;
use std::collections::HashSet;

/// Blocks of a site that are looked at: the last ones, because first steps differ.
const LOOKED_AT: u32 = 32;

/// What is known of a site's blocks.
#[derive(Clone, Default)]
struct Seen {
    /// Some are from before the recording. Nobody knows what these are.
    is_from_before: bool,
    looked_at: u32,
    /// How many belong to each forward call.
    forward: FxHashMap<StackIdx, u32>,
}

/// Names the sites without a stack most of whose blocks belong to a known forward call.
///
/// # Errors
/// [`Stopped`].
pub(super) fn name(
    sites: &mut [Together],
    device: &DeviceTrace,
    stacks: &Stacks,
    watch: Watch<'_>,
) -> Result<(), Stopped> {
    let keys = sites.iter().map(|site| site.keys[0]).enumerate();
    let sizes = keys.filter(|(_, key)| matches!(key, SiteKey::Size(_)));
    let of_size = sizes.map(|(at, key)| (key, at)).collect::<OfSites<usize>>();
    if of_size.is_empty() {
        return Ok(());
    }
    let blocks = &device.blocks;
    let of_kinds = of_size.of_kinds(blocks, stacks);
    let site_of = |block: u32| *of_kinds.get(blocks.kind.get(block as usize)?.index())?;
    let mut seen = vec![Seen::default(); sites.len()];
    for at in (0..blocks.n_preexisting).filter_map(site_of) {
        seen[at].is_from_before = true;
    }
    let mut forwards = Forwards::new(device, stacks);
    let last_first = (blocks.n_preexisting..blocks.kind.len() as u32).rev();
    for (row, block) in last_first.enumerate() {
        watch.at_row(row, || 0)?;
        let Some(seen) = site_of(block).map(|at| &mut seen[at]) else {
            continue;
        };
        if seen.is_from_before || seen.looked_at == LOOKED_AT {
            continue;
        }
        seen.looked_at += 1;
        if let Some(found) = forwards.of(BlockIdx(block))
            && forwards.has_python(found.stack)
        {
            *seen.forward.entry(found.stack).or_default() += 1;
        }
    }
    for (site, seen) in sites.iter_mut().zip(&seen) {
        if let Some(place) = backward_of(site.keys[0], seen, stacks) {
            site.held.place = Some(place);
            site.held.caller = None;
        }
    }
    Ok(())
}

/// What most of the blocks are the backward pass of; `None` if that is not known of most.
fn backward_of(key: SiteKey, seen: &Seen, stacks: &Stacks) -> Option<Place> {
    let known: u32 = seen.forward.values().sum();
    let SiteKey::Size(size) = key else {
        return None;
    };
    if seen.is_from_before || 2 * known <= seen.looked_at {
        return None;
    }
    let calls = seen.forward.iter();
    let (&most, _) = calls.max_by_key(|&(stack, n)| (*n, Reverse(stack.0)))?;
    let lines: HashSet<Frame> = seen
        .forward
        .keys()
        .filter_map(|&s| line(stacks, s))
        .collect();
    let others = if lines.len() > 1 { " and others" } else { "" };
    let place = Place::of(stacks, line(stacks, most)?);
    Some(Place {
        name: format!("backward of {}{others}, {size} each", place.name),
        ..place
    })
}

/// The line of the program that called, as in `tidemark explain`.
fn line(stacks: &Stacks, stack: StackIdx) -> Option<Frame> {
    let is_python = |frame: &Frame| code::is_python(stacks.str(frame.filename), frame.line);
    let own = Asker::of(stacks, stack).frame.filter(is_python);
    own.or_else(|| stacks.headline(stack))
}
