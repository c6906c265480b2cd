//! Which blocks a team's own rules take ([`crate::naming`]).

use super::{Categories, Category, alive};
use crate::naming::{OwnName, Rule, Rules};
use crate::site::module_name;
use crate::stacks::{Frame, FxHashMap, StackIdx, Stacks, StrIdx};
use crate::tally::Tally;
use crate::trace::{DeviceTrace, KindIdx};
use crate::units::EventIdx;
use crate::watch::{Stopped, Watch};

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
///
/// # Errors
/// [`Stopped`].
pub fn preview(
    rules: &Rules,
    device: &DeviceTrace,
    stacks: &Stacks,
    at: Option<EventIdx>,
    watch: Watch<'_>,
) -> Result<Vec<Taken>, Stopped> {
    let takers = Takers::new(rules, device, stacks, watch)?;
    let (found, _) = Categories::inferred_of(device, stacks, watch)?;
    watch.look(0)?;
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
    Ok(taken)
}

/// The position in [`Rules::names`] of each block's name; `None` for blocks that no rule takes.
pub(super) fn apply<'a>(
    rules: &'a Rules,
    device: &'a DeviceTrace,
    stacks: &Stacks,
    found: &'a [Category],
    watch: Watch<'_>,
) -> Result<impl Iterator<Item = Option<usize>> + use<'a>, Stopped> {
    let names = rules.names();
    let position = |rule: &Rule| names.iter().position(|name| *name == rule.name);
    let names: Vec<_> = rules.all().iter().map(position).collect();
    let takers = Takers::new(rules, device, stacks, watch)?;
    let blocks = device.blocks.kind.iter().zip(found);
    Ok(blocks.map(move |(&kind, &found)| takers.of(kind, found).and_then(|rule| names[rule])))
}

/// The part of a name that rules read. A hostile file can hold names of megabytes, and each rule
/// reads each name.
fn read(name: &str) -> &str {
    const MOST: usize = 1024;
    &name[..name.floor_char_boundary(MOST)]
}

/// The rules that texts satisfy, found once for each.
struct Known<'w> {
    found: FxHashMap<StrIdx, u64>,
    watch: Watch<'w>,
}

impl Known<'_> {
    fn new(watch: Watch<'_>) -> Known<'_> {
        Known {
            found: FxHashMap::default(),
            watch,
        }
    }

    fn get(&mut self, text: StrIdx, find: impl FnOnce() -> u64) -> Result<u64, Stopped> {
        if let Some(&found) = self.found.get(&text) {
            return Ok(found);
        }
        // Many patterns and a long text may take some milliseconds.
        self.watch.look(0)?;
        let found = find();
        self.found.insert(text, found);
        Ok(found)
    }
}

/// Which rule takes which blocks of a device. A bit stands for a rule.
struct Takers<'a> {
    rules: &'a [Rule],
    of_kind: Vec<u64>,
}

impl<'a> Takers<'a> {
    /// Each text is held against the patterns once, however many frames have it.
    fn new(
        rules: &'a Rules,
        device: &DeviceTrace,
        stacks: &Stacks,
        watch: Watch<'_>,
    ) -> Result<Takers<'a>, Stopped> {
        let rules = rules.all();
        let bits = |holds: &dyn Fn(&Rule) -> bool| {
            let set = rules.iter().enumerate().filter(|(_, rule)| holds(rule));
            set.fold(0_u64, |bits, (at, _)| bits | 1 << at)
        };
        let anywhere = bits(&|rule| !rule.asks_for_frame());
        let asks = bits(&|rule| rule.asks_for_frame());
        let (mut functions, mut files) = (Known::new(watch), Known::new(watch));
        let mut of_frame = |frame: &Frame| {
            if asks == 0 {
                return Ok(0);
            }
            let function = functions.get(frame.name, || {
                let function = read(stacks.str(frame.name));
                bits(&|rule| rule.has_function(function))
            })?;
            let file = files.get(frame.filename, || {
                let file = read(stacks.str(frame.filename));
                let module = module_name(file);
                bits(&|rule| rule.has_file(file, &module))
            })?;
            Ok(function & file & asks)
        };
        let frames = stacks.all_frames().iter();
        let of_frame: Vec<u64> = frames.map(&mut of_frame).collect::<Result<_, Stopped>>()?;
        let of_stack = |stack: StackIdx| {
            let frames = stacks.frames(stack).iter();
            frames.fold(anywhere, |bits, frame| bits | of_frame[frame.index()])
        };
        let mut of_stacks: FxHashMap<StackIdx, u64> = FxHashMap::default();
        let mut described = Known::new(watch);
        let undescribed = bits(&|rule| rule.has_shape(None));
        let mut of_kind = Vec::with_capacity(device.blocks.kinds.len());
        for (at, kind) in device.blocks.kinds.iter().enumerate() {
            watch.at_row(at, || 0)?;
            let shape = match kind.metadata {
                None => undescribed,
                Some(text) => described.get(text, || {
                    bits(&|rule| rule.has_shape(Some(stacks.str(text))))
                })?,
            };
            let stack = of_stacks.entry(kind.alloc_stack);
            let stack = *stack.or_insert_with(|| of_stack(kind.alloc_stack));
            of_kind.push(stack & shape & bits(&|rule| rule.has_size(kind.size)));
        }
        Ok(Takers { rules, of_kind })
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
