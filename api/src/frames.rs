//! Frames of stacks with their names, and the forward operation of a backward allocation.

use serde::{Deserialize, Serialize};

/// One frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FrameText {
    /// Function.
    pub name: String,
    /// File.
    pub filename: String,
    /// Line; 0 when unknown.
    pub line: u32,
}

/// The forward operation that a backward allocation belongs to. Always inferred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ForwardOp {
    /// In one line: the node, the place of the forward call, or both.
    pub label: String,
    /// The autograd node (`MmBackward0`), where a frame names it.
    pub node: Option<String>,
    /// The forward call.
    pub frame: Option<FrameText>,
    /// What it rests on: `node`, `forward_frames`, `size_and_order` or `order`.
    pub evidence: String,
}
