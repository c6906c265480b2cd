//! The lines of a program whose blocks are alive at the peak of *allocated*.
//!
//! A site is a function without lines, and its stack is the one that holds most at the site's own
//! highest moment. Neither says which line holds something at the peak of the run, so that is
//! counted here. What the backward pass of an operation made is the line's, too
//! ([`crate::forward`]). Workspaces of cuBLAS are no line's.

use super::names::{Namer, Room};
use super::place::Place;
use super::profile::{DeviceProfile, Held};
use crate::categories;
use crate::code;
use crate::footprint::of_map;
use crate::forward::Forwards;
use crate::site;
use crate::stacks::{Frame, FxHashMap, StackIdx, Stacks};
use crate::trace::{DeviceTrace, Series};
use crate::units::Bytes;
use crate::watch::{Stopped, Watch};
use crate::workspaces;
use std::cmp::Reverse;

/// Lines kept of a device, those that hold most.
const MAX_LINES: usize = 128;

/// A line at the peak, for one comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PeakLine {
    /// Which.
    pub place: Place,
    /// What it holds.
    pub held: Held,
}

/// The lines of a device at its peak, the frames among the names of a profile.
///
/// # Errors
/// [`Stopped`].
pub(super) fn of(
    device: &DeviceTrace,
    namer: &mut Namer<'_>,
    watch: Watch<'_>,
) -> Result<Vec<(Frame, Held)>, Stopped> {
    let stacks = namer.stacks();
    let peak = device.summary[Series::Allocated as usize].peak_event;
    let mut forwards = Forwards::new(device, stacks);
    let mut by_stack: FxHashMap<(StackIdx, bool), u64> = FxHashMap::default();
    for (row, block) in categories::alive(device, peak).enumerate() {
        watch.at_row(row, || of_map(&by_stack))?;
        let kind = device.blocks.kind(block);
        let forward = forwards.of(block).map(|forward| forward.stack);
        let forward = forward.filter(|stack| *stack != StackIdx::NONE);
        let key = (forward.unwrap_or(kind.alloc_stack), forward.is_some());
        if !workspaces::is_stack(stacks, kind.alloc_stack) {
            *by_stack.entry(key).or_default() += kind.size.0;
        }
    }
    let mut lines: FxHashMap<Frame, Held> = FxHashMap::default();
    for (row, (&(stack, is_backward), &bytes)) in by_stack.iter().enumerate() {
        watch.at_row(row, || of_map(&by_stack) + of_map(&lines))?;
        for (depth, frame) in own_lines(stacks, stack).into_iter().enumerate() {
            let held = lines.entry(frame).or_default();
            held.all += bytes;
            held.own += if depth == 0 { bytes } else { 0 };
            held.backward += if depth == 0 && is_backward { bytes } else { 0 };
        }
    }
    let mut lines: Vec<(Frame, Held)> = lines.into_iter().collect();
    lines.sort_by_key(|(frame, held)| {
        let order = (frame.name.0, frame.filename.0, frame.line);
        (Reverse(held.all), Reverse(held.own), order)
    });
    lines.truncate(MAX_LINES);
    let named = lines.into_iter();
    Ok(named
        .map(|(frame, held)| (namer.frame(frame), held))
        .collect())
}

/// The lines of a stack that somebody may change, innermost first, each once.
fn own_lines(stacks: &Stacks, stack: StackIdx) -> Vec<Frame> {
    let mut found: Vec<Frame> = Vec::new();
    for &frame in stacks.frames(stack) {
        let frame = stacks.frame(frame);
        let file = stacks.str(frame.filename);
        let is_own = site::is_python(stacks, frame)
            && !code::is_framework(file, frame.line)
            && !code::is_generated(file);
        if is_own && !found.contains(&frame) {
            found.push(frame);
        }
    }
    found
}

/// The same as text.
pub(super) fn told(device: &DeviceProfile, room: &mut Room) -> Vec<PeakLine> {
    let lines = device.lines.iter();
    let told = lines.map(|&(frame, held)| PeakLine {
        place: room.place(&device.names, frame),
        held,
    });
    told.collect()
}

/// The lines of the run that peaks higher, and of the other one.
#[derive(Clone, Copy)]
pub(super) struct Lines<'d> {
    pub more: &'d [PeakLine],
    pub less: &'d [PeakLine],
}

impl<'d> Lines<'d> {
    /// Of these lines, the one that holds most more than the other run's; with how much that is.
    /// `of` says what counts of a line.
    pub fn most(
        self,
        is_one: impl Fn(&Place) -> bool,
        of: impl Fn(&Held) -> u64,
    ) -> Option<(&'d PeakLine, u64)> {
        let lines = self.more.iter().filter(|line| is_one(&line.place));
        let more = lines.map(|line| {
            let held = of(&line.held);
            (line, held.saturating_sub(self.before(line, held, &of)))
        });
        // Of equals, the first: it holds most in all.
        more.rev().max_by_key(|(_, more)| *more)
    }

    /// How much more blocks hold of which these lines are the innermost, all together.
    pub fn sum(self, is_one: impl Fn(&Place) -> bool) -> u64 {
        let own = |lines: &[PeakLine]| -> u64 {
            let lines = lines.iter().filter(|line| is_one(&line.place));
            lines.map(|line| line.held.own).sum()
        };
        own(self.more).saturating_sub(own(self.less))
    }

    /// What the other run holds of a line. Edits move lines: where it has no such line, it may be
    /// any of those that only it has of the function.
    fn before(self, line: &PeakLine, held: u64, of: impl Fn(&Held) -> u64) -> u64 {
        let is_of = |other: &&PeakLine| function(&other.place) == function(&line.place);
        let of_function = || self.less.iter().filter(is_of);
        let is_same = |other: &&PeakLine| other.place.line == line.place.line;
        if let Some(same) = of_function().find(is_same) {
            return of(&same.held);
        }
        let is_there = |other: &PeakLine| {
            let mut lines = self.more.iter().filter(is_of);
            lines.any(|line| line.place.line == other.place.line)
        };
        let moved = of_function().filter(|other| !is_there(other));
        let moved = moved.map(|other| of(&other.held));
        moved.filter(|n| *n <= held).max().unwrap_or(0)
    }
}

/// Name and file, wherever that is installed. Which cell of a notebook it is says nothing.
pub(super) fn function(place: &Place) -> (&str, &str) {
    match code::is_cell(&place.filename) {
        true => (&place.name, ""),
        false => (&place.name, code::module(&place.filename)),
    }
}

/// Bytes that the texts of lines take.
pub(super) fn heap_bytes(lines: &[PeakLine]) -> usize {
    let text = |line: &PeakLine| line.place.name.len() + line.place.filename.len();
    size_of_val(lines) + lines.iter().map(text).sum::<usize>()
}

/// Whether this is half of a change, or more.
pub(super) fn is_half(part: u64, of: Bytes) -> bool {
    part > 0 && part.saturating_mul(2) >= of.0
}
