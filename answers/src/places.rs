//! Which places in the code requested memory: the innermost lines of the program, outside of
//! PyTorch.

use crate::names::{frame_text, shown};
use api::frames::FrameText;
use std::cmp::Reverse;
use std::collections::HashMap;
use trace::code;
use trace::forward::Forwards;
use trace::oom::Asker;
use trace::stacks::{Frame, StackIdx, Stacks};
use trace::tally::Tally;
use trace::tiles::{FROM_BEFORE, frame_label, stack_label};
use trace::trace::{BlockIdx, DeviceTrace};
use trace::units::Bytes;
use trace::watch::{Stopped, Watch};

/// A place in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// In words.
    pub name: String,
    /// The line of the program.
    pub frame: Option<FrameText>,
}

/// The places of blocks; each is searched only once.
pub struct Places<'a> {
    device: &'a DeviceTrace,
    stacks: &'a Stacks,
    forwards: Forwards<'a>,
    known: HashMap<(StackIdx, bool), Place>,
}

impl<'a> Places<'a> {
    /// Of a device.
    pub fn new(device: &'a DeviceTrace, stacks: &'a Stacks) -> Places<'a> {
        Places {
            device,
            stacks,
            forwards: Forwards::new(device, stacks),
            known: HashMap::new(),
        }
    }

    /// The place in the program that asked for most of these blocks, and how much that is.
    pub fn most_of(&mut self, blocks: &[BlockIdx]) -> Option<(String, Bytes)> {
        let mut sums: HashMap<String, Bytes> = HashMap::new();
        for &block in blocks {
            let place = self.of(block);
            if place.frame.is_some() {
                *sums.entry(place.name).or_default() += self.device.blocks.kind(block).size;
            }
        }
        let sums = sums.into_iter();
        sums.max_by_key(|(place, sum)| (*sum, Reverse(place.clone())))
    }

    /// How much each place holds of these blocks, the largest first.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn held(
        &mut self,
        blocks: impl Iterator<Item = BlockIdx>,
        watch: Watch<'_>,
    ) -> Result<Vec<(Place, Tally)>, Stopped> {
        let mut sums: HashMap<String, (Place, Tally)> = HashMap::new();
        for (row, block) in blocks.enumerate() {
            watch.at_row(row, || 0)?;
            let place = self.of(block);
            let sum = sums.entry(place.name.clone());
            let (_, tally) = sum.or_insert_with(|| (place, Tally::default()));
            tally.add(self.device.blocks.kind(block).size);
        }
        let mut sums: Vec<(Place, Tally)> = sums.into_values().collect();
        sums.sort_by(|(a, of_a), (b, of_b)| of_b.bytes.cmp(&of_a.bytes).then(a.name.cmp(&b.name)));
        Ok(sums)
    }

    /// The place that requested a block: the innermost line of the program outside of PyTorch.
    /// Blocks of a backward pass without such a line get the place of their forward operation.
    pub fn of(&mut self, block: BlockIdx) -> Place {
        let (device, stacks) = (self.device, self.stacks);
        let own = device.blocks.kind(block).alloc_stack;
        let is_before = block.0 < device.blocks.n_preexisting;
        if is_before && own == StackIdx::NONE {
            return Place {
                name: FROM_BEFORE.to_owned(),
                frame: None,
            };
        }
        let forward = self.forwards.of(block);
        let forward = forward.filter(|found| self.forwards.has_python(found.stack));
        let key = forward.map_or((own, false), |found| (found.stack, true));
        let known = self.known.entry(key);
        known.or_insert_with(|| place(stacks, key.0, key.1)).clone()
    }
}

fn place(stacks: &Stacks, stack: StackIdx, backward: bool) -> Place {
    let frame = Asker::of(stacks, stack).frame;
    let is_python = |frame: &Frame| code::is_python(stacks.str(frame.filename), frame.line);
    let name = match frame.filter(is_python) {
        Some(frame) => frame_label(stacks, frame),
        None => stack_label(stacks, stack),
    };
    Place {
        name: shown(&match backward {
            true => format!("backward of {name}"),
            false => name,
        }),
        frame: frame.map(|frame| frame_text(stacks, frame)),
    }
}
