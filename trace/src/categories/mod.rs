//! What a block is for: parameter, gradient, activation … inferred from what happened to it.
//!
//! A snapshot does not say. The rules below use the phase in which a block was made, the phase in
//! which it was given back and by whom, its size, and how often the same place makes such a block
//! again ([`crate::phases`]). Only what the recorder itself noted is a fact; everything else is
//! marked as inferred.
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

mod caches;
mod facts;
mod history;
mod rules;
mod sizes;
mod survey;
#[cfg(test)]
mod tests;

use crate::stacks::Stacks;
use crate::trace::{BlockIdx, BlockKind, DeviceTrace};
use crate::units::{Bytes, EventIdx};
use crate::watch::Watch;
use serde::{Deserialize, Serialize};

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[repr(u8)]
pub enum Category {
    /// A weight, trained or frozen.
    Parameter,
    /// A module's state that is not trained.
    Buffer,
    /// What a backward pass leaves for the optimizer.
    Gradient,
    /// Momentum, variance, master weights.
    OptimizerState,
    /// Made by a forward pass and kept for the backward pass.
    Activation,
    /// Part of a sample.
    Input,
    /// Keys and values of earlier tokens.
    KvCache,
    /// Short-lived, or a library's workspace.
    Temporary,
    /// There before the recording.
    Before,
    /// No rule holds.
    Unknown,
}

impl Category {
    /// All categories, in the order in which they are listed when bytes do not decide.
    pub const ALL: [Category; 10] = [
        Category::Parameter,
        Category::Buffer,
        Category::Gradient,
        Category::OptimizerState,
        Category::Activation,
        Category::Input,
        Category::KvCache,
        Category::Temporary,
        Category::Before,
        Category::Unknown,
    ];

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Category::Parameter => "parameter",
            Category::Buffer => "buffer",
            Category::Gradient => "gradient",
            Category::OptimizerState => "optimizer_state",
            Category::Activation => "activation",
            Category::Input => "input",
            Category::KvCache => "kv_cache",
            Category::Temporary => "temporary",
            Category::Before => "before",
            Category::Unknown => "unknown",
        }
    }

    /// The name for people, in the plural.
    pub const fn label(self) -> &'static str {
        match self {
            Category::Parameter => "parameters",
            Category::Buffer => "buffers",
            Category::Gradient => "gradients",
            Category::OptimizerState => "optimizer state",
            Category::Activation => "activations",
            Category::Input => "inputs",
            Category::KvCache => "KV cache",
            Category::Temporary => "temporaries",
            Category::Before => "from before the recording",
            Category::Unknown => "unknown",
        }
    }

    /// The category that a recorder wrote down, under torch's own names.
    fn recorded(text: &str) -> Option<Category> {
        let text = text.to_ascii_lowercase();
        match text.as_str() {
            "autograd_detail" => Some(Category::Temporary),
            text => Category::ALL.into_iter().find(|c| c.name() == text),
        }
    }
}

/// Bytes of each category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares([Bytes; Category::ALL.len()]);

impl Shares {
    /// Bytes of one category.
    pub fn get(&self, category: Category) -> Bytes {
        self.0[category as usize]
    }

    /// The categories that hold anything, most bytes first.
    pub fn largest_first(&self) -> Vec<(Category, Bytes)> {
        let held = Category::ALL.into_iter().map(|c| (c, self.get(c)));
        let mut held: Vec<_> = held.filter(|(_, bytes)| *bytes > Bytes::ZERO).collect();
        held.sort_by_key(|&(category, bytes)| (std::cmp::Reverse(bytes), category));
        held
    }
}

/// The category of every block of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Categories {
    of_block: Vec<Category>,
}

impl Categories {
    /// Applies the rules: a few passes over the blocks, one over events and stacks.
    ///
    /// If that would take more memory than [`memory_needed`], all categories are unknown.
    pub fn of(device: &DeviceTrace, stacks: &Stacks) -> Categories {
        let most = memory_needed(device, stacks);
        let go_on = |bytes| bytes <= most;
        let found = rules::apply(device, stacks, Watch::new(&go_on));
        let unknown = |_| vec![Category::Unknown; device.blocks.len()];
        Categories {
            of_block: found.unwrap_or_else(unknown),
        }
    }

    /// The category of a block.
    pub fn get(&self, block: BlockIdx) -> Category {
        self.of_block[block.index()]
    }

    /// Bytes alive at an event, by category; they sum to *allocated*. `None`: before the first
    /// event.
    pub fn alive(&self, device: &DeviceTrace, at: Option<EventIdx>) -> Shares {
        let mut shares = Shares::default();
        for block in alive(device, at) {
            let bytes = &mut shares.0[self.get(block) as usize];
            *bytes += device.blocks.kind(block).size;
        }
        shares
    }
}

/// The most memory that finding the categories of a device may take, bytes: several times what it
/// takes for any recording at hand.
pub fn memory_needed(device: &DeviceTrace, stacks: &Stacks) -> usize {
    const PER_BLOCK: usize = 24;
    const PER_EVENT: usize = 2;
    const PER_NAME: usize = 192;
    const ANY: usize = 8 << 20;
    let names = stacks.len() + stacks.n_frames() + device.blocks.kinds.len();
    let events = device.events.len() as usize;
    ANY + device.blocks.len() * PER_BLOCK + events * PER_EVENT + names * PER_NAME
}

/// The blocks that are allocated at an event; `None`: before the first event.
pub fn alive(device: &DeviceTrace, at: Option<EventIdx>) -> impl Iterator<Item = BlockIdx> + '_ {
    let blocks = &device.blocks;
    let is_alive = move |index: usize| match at {
        // A block whose free was pending already has been given back.
        None => index < blocks.n_preexisting as usize && !was_pending(device, index),
        Some(at) => blocks.alloc[index] <= at.0 && at.0 < blocks.free_requested[index],
    };
    let all = (0..blocks.len()).filter(move |&index| is_alive(index));
    all.map(|index| BlockIdx(index as u32))
}

/// Whether a block from before the recording had been given back already, while other streams still
/// used it.
fn was_pending(device: &DeviceTrace, index: usize) -> bool {
    use crate::trace::Action;
    let first = device
        .events
        .action
        .first()
        .zip(device.events.target.first());
    device.blocks.free_requested[index] == 0
        && first != Some((&Action::FreeRequested, &(index as u32)))
}

/// Whether the recorder itself noted what blocks of a kind are for.
pub fn is_recorded(stacks: &Stacks, kind: &BlockKind) -> bool {
    let recorded = |text| Category::recorded(stacks.str(text)).is_some();
    kind.metadata.is_some_and(recorded)
}
