//! What an allocation is, for those who look at it later: the block rules never ask.

use serde::{Deserialize, Serialize};

use trace::categories::Category;

use crate::tensor::{DType, Dims};

/// What a tensor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A weight, trained or frozen.
    Parameter,
    /// State of the optimizer.
    OptimizerState,
    /// Part of a sample.
    Input,
    /// Made by the forward pass.
    #[default]
    Activation,
    /// Made again by the recompute of a checkpoint.
    Recomputed,
    /// Made by the backward pass, or the `.grad` of a leaf.
    Gradient,
    /// Brought back from the host by the offloader.
    Restored,
    /// A dense copy that the offloader made of a view.
    Clone,
    /// Scratch memory of a kernel or a library.
    Workspace,
}

impl Role {
    /// What a viewer calls it. Of what the backward pass makes, only what becomes of it tells
    /// gradients of parameters from those of activations.
    pub const fn category(self) -> Option<Category> {
        match self {
            Role::Parameter => Some(Category::Parameter),
            Role::OptimizerState => Some(Category::OptimizerState),
            Role::Input => Some(Category::Input),
            Role::Activation | Role::Recomputed | Role::Restored | Role::Clone => {
                Some(Category::Activation)
            }
            Role::Workspace => Some(Category::Temporary),
            Role::Gradient => None,
        }
    }
}

/// What an allocation is called in recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Label {
    /// Module, as a number of the session.
    pub site: u32,
    /// Operation.
    pub op: &'static str,
    /// What it is for.
    pub role: Role,
    /// Shape of the tensor it was made for.
    pub shape: Dims,
    /// Element type; `None` for memory that is not a tensor.
    pub dtype: Option<DType>,
}

/// A block that was handed out while events were kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// Its `alloc`, counted from the first event that was kept.
    pub event: u32,
    /// Its `free_requested`, where that was kept too.
    pub freed: Option<u32>,
    /// First address.
    pub start: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Step in which it was made, from 0; `None` before the first.
    pub step: Option<u32>,
    /// What it is.
    pub label: Label,
}
