//! Moves from one allocation to the next with the keyboard: in time and in the stack.

use super::mountain::Mountain;
use super::stack::{Item, ItemIdx};
use super::tile_cache::Piece;
use trace::trace::BlockIdx;
use trace::units::EventIdx;

/// The direction of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// The one allocated before.
    Earlier,
    /// The one allocated after.
    Later,
    /// The one above it in the stack.
    Above,
    /// The one below it in the stack.
    Below,
}

/// The tile that draws a block alone, and the block's index in it.
pub fn find(pieces: &[Piece<Mountain>], block: BlockIdx) -> Option<(&Piece<Mountain>, usize)> {
    pieces.iter().find_map(|piece| {
        let blocks = &piece.tile.tile.blocks;
        Some((piece, blocks.iter().position(|b| b.block == block)?))
    })
}

/// The next allocation from `from`, among those drawn alone; without `from`, the first in the
/// window.
pub fn next(
    pieces: &[Piece<Mountain>],
    window: (f64, f64),
    from: Option<BlockIdx>,
    towards: Neighbour,
) -> Option<BlockIdx> {
    match (from, towards) {
        (Some(block), Neighbour::Above | Neighbour::Below) => {
            stacked(pieces, window, block, towards)
        }
        _ => in_time(pieces, window, from, towards),
    }
}

fn in_time(
    pieces: &[Piece<Mountain>],
    window: (f64, f64),
    from: Option<BlockIdx>,
    towards: Neighbour,
) -> Option<BlockIdx> {
    let (first, end) = (EventIdx(window.0 as u32), EventIdx(window.1.ceil() as u32));
    let visible = pieces
        .iter()
        .flat_map(|piece| &piece.tile.tile.blocks)
        .filter(|b| b.live.start() < end && b.live.end() > first)
        .map(|b| b.block);
    match (from, towards) {
        (Some(at), Neighbour::Earlier) => visible.filter(|&b| b < at).max(),
        (Some(at), _) => visible.filter(|&b| b > at).min(),
        (None, _) => visible.min(),
    }
}

/// The one above or below in the stack, in the middle of the visible part of the block's life.
fn stacked(
    pieces: &[Piece<Mountain>],
    window: (f64, f64),
    block: BlockIdx,
    towards: Neighbour,
) -> Option<BlockIdx> {
    let (piece, index) = find(pieces, block)?;
    let (tile, layout) = (&piece.tile.tile, &piece.tile.layout);
    let live = tile.blocks[index].live;
    let from = f64::from(live.start().0).max(window.0);
    let to = f64::from(live.end().0).min(window.1);
    let middle = EventIdx(((from + to) / 2.0) as u32);
    let column = tile.samples.partition_point(|&s| s < middle);
    let column = column.min(tile.samples.len().checked_sub(1)?);
    let (items, _) = layout.column(column);
    let own = layout.index(Item::Block(index as u32));
    let at = items.iter().position(|&item| item == own)?;
    let drawn_alone = |&item: &ItemIdx| match layout.item(item) {
        Item::Block(b) => Some(tile.blocks[b as usize].block),
        Item::Base | Item::Rest(_) | Item::Pending => None,
    };
    match towards {
        Neighbour::Above => items[at + 1..].iter().find_map(drawn_alone),
        _ => items[..at].iter().rev().find_map(drawn_alone),
    }
}
