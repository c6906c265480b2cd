//! Models as programs: the order of operations, and the moments at which variables are dropped.
//!
//! Sizes follow from dimensions alone. The order follows the published source of each model,
//! because false de-duplication depends on which freed address the next tensor gets.

mod adamw;
mod delta_net;
mod lora;
mod qwen_text;
mod qwen_vision;

pub use adamw::AdamW;
pub use lora::LoraLinear;
pub use qwen_text::{TextConfig, TextModel};
pub use qwen_vision::{VisionConfig, VisionTower};

use crate::autograd::Tensor;
use crate::tensor::DType;

const BF16: DType = DType::Bfloat16;
const F32: DType = DType::Float32;

/// Is called with each tensor of a model and its name.
pub(crate) type Visit<'v> = dyn FnMut(&str, &Tensor) + 'v;
