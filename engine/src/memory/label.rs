//! What an allocation is, for people who look at it later: the rules for blocks never use it.

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
    /// Made during the backward pass: gradients of activations, and sums of them.
    ActivationGradient,
    /// Brought back from the host by the offloader.
    Restored,
    /// A dense copy that the offloader made of a view.
    Clone,
    /// Scratch memory of a kernel or a library.
    Workspace,
}

impl Role {
    /// Its category in a viewer (docs/categories.md, "Categories").
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

/// The name of an allocation in recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Label {
    /// The module, as a number of the session.
    pub site: u32,
    /// The operation.
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
    /// Index of its `alloc` event, counted from the first event that was kept.
    pub event: u32,
    /// Index of its `free_requested` event, if it was kept too.
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
