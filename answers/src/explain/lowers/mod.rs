//! What lowers the largest part of what was in use at a moment.
//!
//! ```text
//! update   temporaries of an optimizer's step
//! copies   copies of all weights
//! tried    a first step in which a library tries what is fastest
//! by_file  blocks by the files of libraries in their stacks
//! ```

mod by_file;
mod copies;
mod tried;
mod update;

use super::Look;
use crate::cards::capital;
use crate::cards::markdown::code;
use crate::places::Places;
use api::explain::{Advice, Basis, Moment};
use by_file::{held_in, is_checkpoint, is_lbfgs};
use copies::copies;
use trace::categories::{self, Category, Named};
use trace::peaking::Peaking;
use trace::phases::Phase;
use trace::trace::BlockIdx;
use trace::units::{Bytes, EventIdx};
use tried::tried_once;
use update::of_update;

/// A category is mentioned from this share of the peak on, and a line from this share of it.
const LARGE: f64 = 0.4;
/// Of the weights, or of the gradients, so much is all.
const ALL: f64 = 0.9;

/// What lowers the peak of a recording in which nothing failed. What a variable still holds of the
/// step before (`is_held`), and what autocast caches, makes temporaries of what else would be gone,
/// or be an activation.
pub fn at_peak(
    look: &Look<'_>,
    places: &mut Places<'_>,
    (peak, peaking, is_held): (&Moment, &Peaking, bool),
    whole: &str,
) -> Vec<Advice> {
    let unasked = peaking.unasked.as_ref().map(|unasked| Advice {
        basis: Basis::NotComputed,
        sentence: format!(
            "{} are what a forward pass keeps for a backward pass, and none follows (inferred): \
             under `torch.no_grad()` none of it is kept{}.",
            unasked.bytes,
            asked_for_by(look, places, &unasked.blocks, 0.0)
        ),
    });
    let cached = peaking.cached.as_ref().map(|cached| Advice {
        basis: Basis::NotComputed,
        sentence: format!(
            "{} are copies of weights in fewer bits, which autocast keeps until it ends (their \
             stacks say so){}. Nothing else holds them: {} keeps none, and with the weights \
             themselves in these bits none are made.",
            cached.bytes,
            asked_for_by(look, places, &cached.blocks, 0.0),
            code("torch.autocast(…, cache_enabled=False)")
        ),
    });
    let largest = match unasked {
        Some(_) => unasked,
        None if is_held || cached.is_some() => {
            let largest = largest_of(look, places, peak, whole);
            largest
                .filter(|(category, _)| *category != Some(Category::Temporary))
                .map(|(_, advice)| advice)
        }
        None => tried_once(look, peak, peaking).or_else(|| largest(look, places, peak, whole)),
    };
    let others = [of_update(look, peak), copies(look, places, peak)];
    let first = cached.into_iter().chain(largest);
    first.chain(others.into_iter().flatten()).collect()
}

/// In a small program they are most of what there is, and nothing that it does lowers them.
fn about_workspaces(share: f64, whole: &str) -> Advice {
    Advice {
        basis: Basis::NotComputed,
        sentence: format!(
            "Workspaces of cuBLAS are {:.0} % of {whole}. They are made once for each stream and \
             thread, and grow neither with the model nor with the batch; the variable {} sets \
             their size.",
            100.0 * share,
            code("CUBLAS_WORKSPACE_CONFIG")
        ),
    }
}

/// Advice to lower the largest part of a moment, apart from what leaks and from workspaces; `whole`
/// names all that was in use then.
pub fn largest(
    look: &Look<'_>,
    places: &mut Places<'_>,
    peak: &Moment,
    whole: &str,
) -> Option<Advice> {
    largest_of(look, places, peak, whole).map(|(_, advice)| advice)
}

/// The same, with the category; none of workspaces.
fn largest_of(
    look: &Look<'_>,
    places: &mut Places<'_>,
    peak: &Moment,
    whole: &str,
) -> Option<(Option<Category>, Advice)> {
    let leaking = look.leaking();
    let alive = categories::alive(look.device, peak.event);
    let alive = alive.filter(|block| !leaking.has(*block));
    let is_workspace =
        |block: &BlockIdx| (look.categories).is_workspace(look.device, look.stacks(), *block);
    let (workspaces, others): (Vec<BlockIdx>, Vec<BlockIdx>) = alive.partition(is_workspace);
    let size = |block: BlockIdx| look.device.blocks.kind(block).size;
    let mut sums = vec![Bytes::ZERO; look.categories.len()];
    for &block in &others {
        sums[look.categories.position(block)] += size(block);
    }
    let first = (0..sums.len()).rev().max_by_key(|at| sums[*at])?;
    let (name, bytes) = (look.categories.name(first), sums[first]);
    let share = |bytes: Bytes| bytes.0 as f64 / peak.allocated.0.max(1) as f64;
    let of_libraries: Bytes = workspaces.iter().map(|&block| size(block)).sum();
    if of_libraries > bytes && share(of_libraries) >= LARGE {
        return Some((None, about_workspaces(share(of_libraries), whole)));
    }
    let share = share(bytes);
    // What would lower a category of the team's own, only the team knows.
    let Named::Ours(category) = name else {
        return None;
    };
    if share < LARGE {
        return None;
    }
    let is_of_it = |block: &BlockIdx| look.categories.position(*block) == first;
    let of_it: Vec<BlockIdx> = others.iter().copied().filter(is_of_it).collect();
    let what = what_lowers(look, category, &of_it, bytes)?;
    let least = match category {
        Category::Temporary => 0.0,
        _ => LARGE,
    };
    let line = asked_for_by(look, places, &of_it, least);
    let all = peak.categories.iter().find(|all| all.category == name);
    let all = all.map_or(bytes, |all| all.bytes);
    let workspaces = workspaces.into_iter().filter(is_of_it);
    let workspaces: Bytes = workspaces.map(size).sum();
    let label = LeftOut::of(all, bytes, workspaces).named(name.label());
    let verb = match category {
        Category::OptimizerState | Category::KvCache => "is",
        _ => "are",
    };
    let kind = |block: &BlockIdx| look.device.blocks.kind(*block);
    let is_inferred = |block| categories::is_inferred(look.stacks(), kind(block), name);
    let inferred = match of_it.iter().any(is_inferred) {
        true => " (inferred)",
        false => "",
    };
    let advice = Advice {
        basis: Basis::NotComputed,
        sentence: format!(
            "{label} {verb} {:.0} % of {whole}{inferred}{line}. What lowers that: {what}.",
            100.0 * share
        ),
    };
    Some((Some(category), advice))
}

/// What of a category is left out of its sum.
#[derive(Clone, Copy)]
enum LeftOut {
    Nothing,
    Leaks,
    Workspaces,
    LeaksAndWorkspaces,
}

impl LeftOut {
    /// Of all bytes of a category, so many are counted; what is neither these nor `workspaces`
    /// leaks.
    fn of(all: Bytes, counted: Bytes, workspaces: Bytes) -> LeftOut {
        match (all > counted + workspaces, workspaces > Bytes::ZERO) {
            (true, true) => LeftOut::LeaksAndWorkspaces,
            (true, false) => LeftOut::Leaks,
            (false, true) => LeftOut::Workspaces,
            (false, false) => LeftOut::Nothing,
        }
    }

    /// `Without what leaks, temporaries`: at the beginning of a sentence.
    fn named(self, category: &str) -> String {
        match self {
            LeftOut::LeaksAndWorkspaces => {
                format!("Without what leaks and workspaces of cuBLAS, {category}")
            }
            LeftOut::Leaks => format!("Without what leaks, {category}"),
            LeftOut::Workspaces => format!("Without workspaces of cuBLAS, {category}"),
            LeftOut::Nothing => capital(category),
        }
    }
}

/// `; most is asked for by …`: the place in the program that asked for most of these blocks, if
/// that is at least such a share of them.
fn asked_for_by(
    look: &Look<'_>,
    places: &mut Places<'_>,
    blocks: &[BlockIdx],
    least: f64,
) -> String {
    let sizes = blocks
        .iter()
        .map(|block| look.device.blocks.kind(*block).size);
    let all: Bytes = sizes.sum();
    let most = places.most_of(blocks);
    let most = most.filter(|(_, sum)| sum.0 as f64 >= least * all.0 as f64);
    most.map_or_else(String::new, |(place, sum)| {
        let how = match sum.0 * 2 > all.0 {
            true => "most",
            false => "the largest part",
        };
        format!("; {how} is asked for by {}", code(&place))
    })
}

/// What lowers what blocks of a category hold; `None` where nobody knows.
fn what_lowers(
    look: &Look<'_>,
    category: Category,
    blocks: &[BlockIdx],
    all: Bytes,
) -> Option<&'static str> {
    let most_in = |is_there: fn(&str) -> bool| held_in(look, blocks, is_there).0 * 2 > all.0;
    let made_backward = |block: &&BlockIdx| {
        let made = EventIdx(look.device.blocks.alloc[block.index()]);
        look.phases.at(made) == Phase::Backward
    };
    let backward = blocks.iter().filter(made_backward);
    let backward: Bytes = backward
        .map(|block| look.device.blocks.kind(*block).size)
        .sum();
    Some(match category {
        Category::Activation if most_in(is_checkpoint) => {
            "smaller segments of the activation checkpointing, each of which is computed again as \
             a whole; offloading, or a smaller batch"
        }
        // A second backward pass goes through the first one.
        Category::Activation if backward.0 * 2 > all.0 => {
            "fewer gradients at once, or a smaller batch"
        }
        Category::Activation => "activation checkpointing, offloading, or a smaller batch",
        Category::OptimizerState if most_in(is_lbfgs) => {
            "a shorter history of L-BFGS (`history_size`)"
        }
        Category::OptimizerState => "an optimizer with a smaller state (8-bit), or sharding it",
        Category::Parameter => "a lower precision, or sharding",
        Category::Gradient => "clearing them before the forward pass, or sharding",
        Category::Temporary => "computing in chunks, or fusing operations",
        Category::KvCache => "a shorter context, fewer requests at once, or a lower precision",
        Category::Input => "a smaller batch, or moving each to the device only when it is used",
        Category::Buffer | Category::Before | Category::Unknown => return None,
    })
}
