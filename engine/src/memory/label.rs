//! What an allocation is, for those who look at it later: the block rules never ask.

use serde::{Deserialize, Serialize};

use trace::categories::Category;
use trace::units::{Bytes, DeviceAddr};

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
    /// The `.grad` of a leaf.
    Gradient,
    /// Made by the backward pass on its way: gradients of activations, and what sums them up.
    ActivationGradient,
    /// Brought back from the host by the offloader.
    Restored,
    /// A dense copy that the offloader made of a view.
    Clone,
    /// Scratch memory of a kernel or a library.
    Workspace,
}

impl Role {
    /// What a viewer calls it (docs/categories.md, "Categories").
    pub const fn category(self) -> Category {
        match self {
            Role::Parameter => Category::Parameter,
            Role::OptimizerState => Category::OptimizerState,
            Role::Input => Category::Input,
            Role::Activation | Role::Recomputed | Role::Restored | Role::Clone => {
                Category::Activation
            }
            Role::Gradient => Category::Gradient,
            Role::ActivationGradient | Role::Workspace => Category::Temporary,
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
    pub start: DeviceAddr,
    /// Bytes asked for.
    pub bytes: Bytes,
    /// Step in which it was made, from 0; `None` before the first.
    pub step: Option<u32>,
    /// What it is.
    pub label: Label,
}
