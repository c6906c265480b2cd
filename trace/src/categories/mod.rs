//! What a block is for: parameter, gradient, activation … inferred from what happened to it.
//!
//! A snapshot does not say. The rules below use the phase in which a block was made, the phase in
//! which it was given back and by whom, its size, and how often the same place makes such a block
//! again ([`crate::phases`]). Only what the recorder itself noted is a fact; everything else is
//! marked as inferred.
//!
//! A team's own names come on top ([`own`]).
//!
//! `docs/categories.md` has the rule of each category. In short: parameters and buffers are made
//! while a module is made, moved or loaded, and outlive that; gradients are made in a backward pass
//! and outlive it; optimizer state is made by an optimizer and outlives its step; activations are
//! made in a forward pass and given back in its backward pass; inputs are made by the program's own
//! code and live into a forward pass; what is gone before its phase ends is temporary.
//!
//! Blocks from before the recording show little of their behaviour. A gradient is cleared by
//! `zero_grad`; an activation is given back in a backward pass. Where there is exactly one lasting
//! block for each gradient, it is the parameter.

mod batches;
mod caches;
mod dropped;
mod facts;
mod history;
mod kept;
pub mod own;
mod rules;
mod sizes;
mod surplus;
mod survey;
#[cfg(test)]
mod tests;

pub use crate::naming::{Category, Named, OwnName};

use crate::levels::GivenBack;
use crate::phases::Phases;
use crate::stacks::Stacks;
use crate::trace::{BlockIdx, BlockKind, DeviceTrace};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};
use crate::workspaces;
use std::collections::BTreeSet;

/// Bytes of each category.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Those that hold anything, in their order.
    held: Vec<(Named, Bytes)>,
}

impl Shares {
    /// Bytes of one category.
    pub fn get(&self, category: impl Into<Named>) -> Bytes {
        let category = category.into();
        let found = self.held.iter().find(|(held, _)| *held == category);
        found.map_or(Bytes::ZERO, |(_, bytes)| *bytes)
    }

    /// The categories that hold anything, most bytes first.
    pub fn largest_first(&self) -> Vec<(Named, Bytes)> {
        let mut held = self.held.clone();
        held.sort_by_key(|&(category, bytes)| (std::cmp::Reverse(bytes), category));
        held
    }
}

/// Whether categories were looked for to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LookedFor {
    #[default]
    ToTheEnd,
    /// That would have taken more memory than [`memory_needed`]: all are unknown.
    UntilTheBound,
}

/// Said where no category is told since finding them would have taken too much memory.
const TOO_LARGE: &str = "what memory is for is not told: finding it would take more memory than \
                         is allowed for a recording of this size; record fewer steps";

/// The category of every block of a device, and what it is shown as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Categories {
    found: Vec<Category>,
    /// Whether there was memory enough to find them.
    looked_for: LookedFor,
    /// The team's own names.
    own: Vec<OwnName>,
    /// Of each block, what it is shown as: a position in [`Categories::name`]'s order. Empty
    /// without names of the team's own.
    shown: Vec<u8>,
}

impl LookedFor {
    /// By the phases that were found with them.
    fn of(phases: Option<&Phases>) -> LookedFor {
        match phases {
            Some(_) => LookedFor::ToTheEnd,
            None => LookedFor::UntilTheBound,
        }
    }
}

impl Categories {
    /// Applies the rules: a few passes over the blocks, one over events and stacks; then the
    /// team's own ([`Stacks::own`]).
    ///
    /// If that would take more memory than [`memory_needed`], all categories are unknown.
    pub fn of(device: &DeviceTrace, stacks: &Stacks) -> Categories {
        Watch::undisturbed(|watch| Categories::of_while(device, stacks, watch))
    }

    /// The same, with a `watch` that may stop it.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn of_while(
        device: &DeviceTrace,
        stacks: &Stacks,
        watch: Watch<'_>,
    ) -> Result<Categories, Stopped> {
        let (found, phases) = Categories::inferred_of(device, stacks, watch)?;
        let looked_for = LookedFor::of(phases.as_ref());
        let categories = Categories::shown(found, device, stacks, watch)?;
        Ok(Categories {
            looked_for,
            ..categories
        })
    }

    /// The same, with the phases that they rest on.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn with_phases(
        device: &DeviceTrace,
        stacks: &Stacks,
        watch: Watch<'_>,
    ) -> Result<(Categories, Phases), Stopped> {
        let (found, phases) = Categories::inferred_of(device, stacks, watch)?;
        let looked_for = LookedFor::of(phases.as_ref());
        let phases = match phases {
            Some(phases) => phases,
            None => Phases::of_while(device, stacks, watch)?,
        };
        let watch = watch.beside(phases.heap_bytes());
        let categories = Categories {
            looked_for,
            ..Categories::shown(found, device, stacks, watch)?
        };
        Ok((categories, phases))
    }

    /// What blocks are shown as, where this was found.
    fn shown(
        found: Vec<Category>,
        device: &DeviceTrace,
        stacks: &Stacks,
        watch: Watch<'_>,
    ) -> Result<Categories, Stopped> {
        let Some(rules) = stacks.own.as_deref().filter(|rules| !rules.is_empty()) else {
            return Ok(Categories {
                found,
                ..Categories::default()
            });
        };
        watch.look(2 * found.len())?;
        let ours = Category::ALL.len();
        let named = own::apply(rules, device, stacks, &found, watch)?.zip(&found);
        let shown = named.map(|(own, found)| match own {
            Some(own) => (ours + own) as u8,
            None => *found as u8,
        });
        Ok(Categories {
            shown: shown.collect(),
            own: rules.names(),
            found,
            ..Categories::default()
        })
    }

    /// What Tidemark infers for each block, and the phases that it rests on, if there was memory
    /// enough for that.
    fn inferred_of(
        device: &DeviceTrace,
        stacks: &Stacks,
        watch: Watch<'_>,
    ) -> Result<(Vec<Category>, Option<Phases>), Stopped> {
        let most = memory_needed(device, stacks);
        let found = watch.within(most, |watch| rules::apply(device, stacks, watch))?;
        Ok(match found {
            Some((found, phases)) => (found, Some(phases)),
            None => (vec![Category::Unknown; device.blocks.len()], None),
        })
    }

    /// Why no category is told, and what to do; `None` where they are.
    pub fn why_unknown(&self) -> Option<&'static str> {
        (self.looked_for == LookedFor::UntilTheBound).then_some(TOO_LARGE)
    }

    /// What Tidemark takes a block for, whatever the team calls it.
    pub fn found(&self, block: BlockIdx) -> Category {
        self.found[block.index()]
    }

    /// What a block is shown as.
    pub fn get(&self, block: BlockIdx) -> Named {
        self.name(self.position(block))
    }

    /// The position of what a block is shown as, below [`Categories::len`].
    pub fn position(&self, block: BlockIdx) -> usize {
        let shown = self.shown.get(block.index()).copied();
        usize::from(shown.unwrap_or(self.found[block.index()] as u8))
    }

    /// The name at a position: Tidemark's categories, then the team's own.
    pub fn name(&self, position: usize) -> Named {
        match position.checked_sub(Category::ALL.len()) {
            None => Named::Ours(Category::ALL[position]),
            Some(own) => Named::Own(self.own[own]),
        }
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        Category::ALL.len() + self.own.len()
    }

    /// Always false: there are always Tidemark's.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What blocks are shown as if that [is inferred](is_inferred) of one of them.
    pub fn inferred(&self, device: &DeviceTrace, stacks: &Stacks) -> BTreeSet<Named> {
        let all = (0..device.blocks.len() as u32).map(BlockIdx);
        self.inferred_among(device, stacks, all)
    }

    /// The same of these blocks alone.
    pub fn inferred_among(
        &self,
        device: &DeviceTrace,
        stacks: &Stacks,
        blocks: impl Iterator<Item = BlockIdx>,
    ) -> BTreeSet<Named> {
        let mut found = vec![false; self.len()];
        for block in blocks {
            let position = self.position(block);
            if !found[position] {
                let (kind, shown) = (device.blocks.kind(block), self.name(position));
                found[position] = is_inferred(stacks, kind, shown);
            }
        }
        let found = found.into_iter().enumerate().filter(|(_, is)| *is);
        found.map(|(position, _)| self.name(position)).collect()
    }

    /// Whether a block is a workspace of a library: its stack says so, or it is a temporary of such
    /// a size that is still there at the end.
    pub fn is_workspace(&self, device: &DeviceTrace, stacks: &Stacks, block: BlockIdx) -> bool {
        let kind = device.blocks.kind(block);
        let lasts = || device.blocks.free_requested[block.index()] >= device.events.len();
        self.found(block) == Category::Temporary
            && (workspaces::is_stack(stacks, kind.alloc_stack)
                || workspaces::is_size(kind.requested) && lasts())
    }

    /// Bytes alive at an event, by category; they sum to *allocated*. `None`: before the first
    /// event.
    pub fn alive(&self, device: &DeviceTrace, at: Option<EventIdx>) -> Shares {
        let mut bytes = vec![Bytes::ZERO; self.len()];
        for block in alive(device, at) {
            bytes[self.position(block)] += device.blocks.kind(block).size;
        }
        let named = bytes.into_iter().enumerate();
        let held = named.filter(|(_, bytes)| *bytes > Bytes::ZERO);
        Shares {
            held: held.map(|(at, bytes)| (self.name(at), bytes)).collect(),
        }
    }
}

/// The most memory that finding the categories of a device may take, bytes: several times what it
/// takes for any recording at hand.
pub fn memory_needed(device: &DeviceTrace, stacks: &Stacks) -> usize {
    const PER_BLOCK: usize = 36;
    const PER_EVENT: usize = 2;
    const PER_NAME: usize = 192;
    /// A phase may be as short as an event, as where text is generated token by token.
    const PER_PHASE: usize = 96;
    const MOST_PHASES: usize = 1 << 19;
    const ANY: usize = 8 << 20;
    let names = stacks.len() + stacks.n_frames() + device.blocks.kinds.len();
    let events = device.events.len() as usize;
    let phases = events.min(MOST_PHASES) * PER_PHASE;
    ANY + device.blocks.len() * PER_BLOCK + events * PER_EVENT + phases + names * PER_NAME
}

/// The blocks that are allocated at an event; `None`: before the first event.
pub fn alive(device: &DeviceTrace, at: Option<EventIdx>) -> impl Iterator<Item = BlockIdx> + '_ {
    let blocks = &device.blocks;
    let is_alive = move |index: usize| match at {
        None => {
            let is_given_back = || device.given_back(BlockIdx(index as u32)) == GivenBack::Before;
            index < blocks.n_preexisting as usize && !is_given_back()
        }
        Some(at) => blocks.alloc[index] <= at.0 && at.0 < blocks.free_requested[index],
    };
    let all = (0..blocks.len()).filter(move |&index| is_alive(index));
    all.map(|index| BlockIdx(index as u32))
}

/// Whether the name that a block is shown under rests on inference: the recorder did not note it,
/// and no rule of the team's own says it.
pub fn is_inferred(stacks: &Stacks, kind: &BlockKind, shown: Named) -> bool {
    match shown {
        Named::Ours(_) => !is_recorded(stacks, kind),
        Named::Own(name) => {
            let infers = stacks.own.as_deref().is_some_and(|own| own.infers(name));
            infers && !is_recorded(stacks, kind)
        }
    }
}

/// Whether the recorder itself noted what blocks of a kind are for.
pub fn is_recorded(stacks: &Stacks, kind: &BlockKind) -> bool {
    let recorded = |text| recorded(stacks.str(text)).is_some();
    kind.metadata.is_some_and(recorded)
}

/// The category that a recorder wrote down, under torch's own names.
fn recorded(text: &str) -> Option<Category> {
    let text = text.to_ascii_lowercase();
    match text.as_str() {
        "autograd_detail" => Some(Category::Temporary),
        text => Category::ALL.into_iter().find(|c| c.name() == text),
    }
}
