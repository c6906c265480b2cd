//! What blocks are called: Tidemark's categories, a team's own, and the rules of the latter.

mod name;
mod rules;

pub use name::{BadName, Named, OwnName};
pub use rules::{BadRule, LONGEST_FILE, MOST_RULES, Rule, Rules};

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
            Category::Before => "unknown from before",
            Category::Unknown => "unknown",
        }
    }
}
