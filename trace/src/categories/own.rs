//! Which blocks a team's own rules take ([`crate::naming`]).

use super::{Categories, Category, alive};
use crate::naming::{OwnName, Rule, Rules};
use crate::site::module_name;
use crate::stacks::{Frame, StackIdx, Stacks};
use crate::tally::Tally;
use crate::trace::{DeviceTrace, KindIdx};
use crate::units::EventIdx;

/// What one line takes of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The line, counted from 1.
    pub line: u32,
    /// The name in it.
    pub name: OwnName,
    /// Blocks of the whole recording.
    pub blocks: u64,
    /// Those that are allocated at the asked event.
    pub alive: Tally,
}

/// What each line takes, in the order of the file. `at` is the event whose live blocks are summed;
/// `None`: before the first event.
pub fn preview(
    rules: &Rules,
    device: &DeviceTrace,
    stacks: &Stacks,
    at: Option<EventIdx>,
) -> Vec<Taken> {
    let found = Categories::inferred_of(device, stacks);
    let takers = Takers::new(rules, device, stacks);
    let takes_nothing = |rule: &Rule| Taken {
        line: rule.line,
        name: rule.name,
        blocks: 0,
        alive: Tally::default(),
    };
    let mut taken: Vec<Taken> = rules.all().iter().map(takes_nothing).collect();
    for (&kind, &found) in device.blocks.kind.iter().zip(&found) {
        if let Some(rule) = takers.of(kind, found) {
            taken[rule].blocks += 1;
        }
    }
    for block in alive(device, at) {
        let kind = device.blocks.kind[block.index()];
        if let Some(rule) = takers.of(kind, found[block.index()]) {
            taken[rule].alive.add(device.blocks.kind(block).size);
        }
    }
    taken
}

/// The position in [`Rules::names`] of each block's name; `None` for blocks that no rule takes.
pub(super) fn apply<'a>(
    rules: &'a Rules,
    device: &'a DeviceTrace,
    stacks: &Stacks,
    found: &'a [Category],
) -> impl Iterator<Item = Option<usize>> + 'a {
    let names = rules.names();
    let position = |rule: &Rule| names.iter().position(|name| *name == rule.name);
    let names: Vec<_> = rules.all().iter().map(position).collect();
    let takers = Takers::new(rules, device, stacks);
    let blocks = device.blocks.kind.iter().zip(found);
    blocks.map(move |(&kind, &found)| takers.of(kind, found).and_then(|rule| names[rule]))
}

/// The part of a name that rules read. A hostile file can hold names of megabytes, and each rule
/// reads each name.
fn read(name: &str) -> &str {
    const MOST: usize = 1024;
    &name[..name.floor_char_boundary(MOST)]
}

/// Which rule takes which blocks of a device. A bit stands for a rule.
struct Takers<'a> {
    rules: &'a [Rule],
    of_kind: Vec<u64>,
}

impl<'a> Takers<'a> {
    fn new(rules: &'a Rules, device: &DeviceTrace, stacks: &Stacks) -> Takers<'a> {
        let rules = rules.all();
        let bits = |holds: &dyn Fn(&Rule) -> bool| {
            let set = rules.iter().enumerate().filter(|(_, rule)| holds(rule));
            set.fold(0_u64, |bits, (at, _)| bits | 1 << at)
        };
        let of_frame = |frame: &Frame| {
            let (function, file) = (
                read(stacks.str(frame.name)),
                read(stacks.str(frame.filename)),
            );
            let module = module_name(file);
            bits(&|rule| rule.asks_for_frame() && rule.has_frame(function, file, &module))
        };
        let of_frame: Vec<u64> = stacks.all_frames().iter().map(of_frame).collect();
        let anywhere = bits(&|rule| !rule.asks_for_frame());
        let of_stack = |stack: StackIdx| {
            let frames = stacks.frames(stack).iter();
            frames.fold(anywhere, |bits, frame| bits | of_frame[frame.index()])
        };
        let kinds = device.blocks.kinds.iter().map(|kind| {
            let described = kind.metadata.map(|text| stacks.str(text));
            of_stack(kind.alloc_stack) & bits(&|rule| rule.fits(kind.size, described))
        });
        Takers {
            rules,
            of_kind: kinds.collect(),
        }
    }

    /// The position of the rule that takes a block of a kind, which Tidemark found to be of this
    /// category.
    fn of(&self, kind: KindIdx, found: Category) -> Option<usize> {
        let mut left = self.of_kind[kind.index()];
        while left != 0 {
            let rule = left.trailing_zeros() as usize;
            let wanted = self.rules[rule].category;
            if wanted.is_none_or(|wanted| wanted == found) {
                return Some(rule);
            }
            left &= left - 1;
        }
        None
    }
}
