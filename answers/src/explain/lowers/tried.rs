//! A first step that peaks high because a library tries what is fastest.

use super::super::Look;
use super::by_file::{held_in, is_benchmark};
use api::explain::{Advice, Basis, Moment};
use trace::categories::{self, Category};
use trace::peaking::Peaking;
use trace::span::Span;
use trace::steps::Word;
use trace::trace::BlockIdx;
use trace::units::{Bytes, EventIdx};

/// What makes only the first step peak so high: a library tries what is fastest.
pub fn tried_once(look: &Look<'_>, peak: &Moment, peaking: &Peaking) -> Option<Advice> {
    let device = look.device;
    let unlike = peaking
        .unlike
        .as_ref()
        .filter(|unlike| unlike.steps == [0])?;
    let event = peak.event?;
    let half = Bytes(peak.allocated.saturating_sub(unlike.usual).0 / 2);
    let alive: Vec<BlockIdx> = categories::alive(device, Some(event)).collect();
    let tuned = held_in(look, &alive, is_benchmark);
    let newest = BlockIdx(device.events.target[event.index()]);
    let work = Some(newest).filter(|block| is_given_back_at_once(look, *block, event));
    let work = work.map_or(Bytes::ZERO, |block| device.blocks.kind(block).size);
    let (bytes, how) = match tuned >= half {
        true => (tuned, "where compiled code is tuned"),
        false => (
            work,
            "where cuDNN tries algorithms (`torch.backends.cudnn.benchmark`)",
        ),
    };
    (bytes > Bytes::ZERO && bytes >= half).then(|| Advice {
        basis: Basis::NotComputed,
        sentence: format!(
            "{bytes} of the peak are asked for in the first {} only, and given back at once, as \
             {how}: the median one peaks at {}.",
            Word::of(&device.steps).one(),
            unlike.usual
        ),
    })
}

/// Whether the block that an event made is the next that goes, and nothing as large is made by its
/// stack after the first step.
fn is_given_back_at_once(look: &Look<'_>, block: BlockIdx, event: EventIdx) -> bool {
    let (device, blocks) = (look.device, &look.device.blocks);
    let kind = blocks.kind(block);
    let is_next = blocks.free_requested[block.index()] == event.0 + 1;
    let first = device.steps.first().map_or(event, |step| step.events.end());
    let is_like = |other: &BlockIdx| {
        let other = blocks.kind(*other);
        other.alloc_stack == kind.alloc_stack && other.size.0 * 2 > kind.size.0
    };
    let later = Span::new(first, EventIdx(device.events.len()));
    let mut later = blocks.allocated_in(later).map(BlockIdx);
    is_next && look.categories.found(block) == Category::Temporary && !later.any(|b| is_like(&b))
}
