//! How the window moves: by a person's actions, and when something is to be shown.

use super::Model;
use crate::facts;
use crate::lines;
use crate::neighbours;
use crate::stack::Item;
use crate::viewport::{Action, Viewport};
use api::view_state::Selection;
use trace::trace::{BlockIdx, Series};

/// How an action takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// Immediately, as when a person drags.
    Direct,
    /// Over some frames, so that the eye can follow.
    Eased,
}
impl Model {
    /// Does a person's action on the window.
    pub fn act(&mut self, action: Action, motion: Motion) {
        let limits = self.limits();
        let base = match motion {
            Motion::Direct => self.viewport,
            Motion::Eased => self.target,
        };
        self.target = base.apply(action, &self.prepared.axis, limits);
        if motion == Motion::Direct {
            self.viewport = self.target;
        }
    }

    /// Moves on by the time since the last frame. Returns whether the movement goes on.
    pub fn advance(&mut self, elapsed_ms: f64) -> bool {
        if self.viewport == self.target {
            return false;
        }
        let limits = self.limits();
        self.viewport = self.viewport.eased_towards(self.target, limits, elapsed_ms);
        self.viewport != self.target
    }

    /// Zooms vertically to the levels at which the visible events differ.
    pub fn frame_activity(&mut self) {
        let tops = self.prepared.series.iter().flat_map(|piece| {
            let part = lines::part(&piece.tile, piece.from, piece.to);
            let runs = self.prepared.columns.runs(part);
            runs.into_iter()
                .map(|run| lines::extent(&piece.tile, Series::Active, run.first, run.end))
        });
        let high = tops.map(|(_, high)| high).fold(0.0, f64::max);
        let quiet = self.prepared.mountains.iter().map(|piece| {
            let part = piece.tile.part(piece.from, piece.to);
            let bucket = |event: f64| ((event - part.first) / part.bucket_events) as usize;
            let last = part.n_buckets.saturating_sub(1);
            let (first, end) = (bucket(part.from).min(last), bucket(part.to).min(last) + 1);
            piece.tile.layout.quiet_level(first, end).get() as f64
        });
        let low = quiet.fold(f64::INFINITY, f64::min);
        let low = if low.is_finite() { low.min(high) } else { 0.0 };
        let margin = (high - low) * 0.06;
        let Viewport { from, to, .. } = self.target;
        let levels = (low - margin, high + margin);
        self.act(
            Action::Frame {
                events: (from, to),
                levels,
            },
            Motion::Eased,
        );
    }

    /// Shows the selection: a block's life with some room around it, and its band; or a group's
    /// band in the current window. Returns whether there is anything to show.
    pub fn frame_selection(&mut self) -> bool {
        match self.selection {
            Some(Selection::Block(block)) => self.frame_block(block),
            Some(Selection::Group(key)) => self.frame_group(key),
            None => false,
        }
    }

    fn frame_group(&mut self, key: u32) -> bool {
        let band = facts::group_band(&self.prepared.mountains, key);
        let Some((low, high)) = band else {
            return false;
        };
        let levels = widened((low.get() as f64, high.get() as f64), 0.15);
        let levels = (levels.0, levels.1.min(self.high));
        let Viewport { from, to, .. } = self.target;
        let events = (from, to);
        self.act(Action::Frame { events, levels }, Motion::Eased);
        true
    }

    fn frame_block(&mut self, block: BlockIdx) -> bool {
        let Some((piece, index)) = neighbours::find(&self.prepared.mountains, block) else {
            return self.frame_life();
        };
        let live = piece.tile.tile.blocks[index].live;
        let (start, end) = (f64::from(live.start().0), f64::from(live.end().0));
        let samples = &piece.tile.tile.samples;
        let columns = samples.partition_point(|&s| s < live.start())
            ..samples.partition_point(|&s| s < live.end());
        let bands: Vec<_> = columns
            .filter_map(|column| piece.tile.layout.find(column, Item::Block(index as u32)))
            .collect();
        let low = bands.iter().map(|b| b.bottom.get()).min().unwrap_or(0) as f64;
        let high = bands.iter().map(|b| b.top.get()).max().unwrap_or(0) as f64;
        let events = widened((start, end), 0.6);
        let levels = widened((low, high), 0.8);
        let levels = (levels.0, levels.1.min(self.high));
        self.act(Action::Frame { events, levels }, Motion::Eased);
        true
    }

    fn frame_life(&mut self) -> bool {
        let Some(life) = self.selected_life else {
            return false;
        };
        let (from, to) = widened(life, 0.6);
        self.act(Action::Events { from, to }, Motion::Eased);
        true
    }
}

fn widened((start, end): (f64, f64), share: f64) -> (f64, f64) {
    let more = (end - start) * share;
    ((start - more).max(0.0), end + more)
}
