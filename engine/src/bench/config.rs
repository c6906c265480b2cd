//! Configurations: which workload, on which base, with which inputs, and what is known of it.

use serde::{Deserialize, Serialize};

use super::base::Base;
use super::patch::Patch;
use crate::offload::Release;

/// A configuration under its public id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Config {
    /// QLoRA on a vision-language model, with an image in each sample.
    #[serde(rename = "vl-qwen3.5-9b")]
    VlQwen,
    /// The same model on text alone.
    #[serde(rename = "text-qwen3.5-9b")]
    TextQwen,
    /// Mixture of experts whose checkpoints are never recomputed (path 1).
    #[serde(rename = "moe-gemma4-26b")]
    MoeGemma,
    /// The vision-language run after #5700, with bitsandbytes (path 2).
    #[serde(rename = "qlora-bnb-9b")]
    QloraBnb,
    /// Fast-LLM's loop that keeps each micro-batch's loss.
    #[serde(rename = "fast-llm-qwen2.5-7b")]
    FastLlm,
    /// Transformer Engine's fused attention with fp8 tensors on the context.
    #[serde(rename = "te-fused-attention-fp8")]
    TeFusedAttention,
    /// Activations of one size, one after another.
    #[serde(rename = "dedupe-reuse")]
    DedupeReuse,
    /// Gated blocks that save both halves of a chunk.
    #[serde(rename = "chunk-views")]
    ChunkViews,
}

/// Where an input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// Stated by the source of the published numbers.
    Published,
    /// Taken from the model's or program's public source.
    Source,
    /// Assumed here, because nobody published it.
    Assumed,
}

/// One input of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Input {
    /// What.
    pub name: &'static str,
    /// Its value.
    pub value: &'static str,
    /// Where it comes from.
    pub provenance: Provenance,
}

const fn published(name: &'static str, value: &'static str) -> Input {
    Input {
        name,
        value,
        provenance: Provenance::Published,
    }
}

const fn source(name: &'static str, value: &'static str) -> Input {
    Input {
        name,
        value,
        provenance: Provenance::Source,
    }
}

const fn assumed(name: &'static str, value: &'static str) -> Input {
    Input {
        name,
        value,
        provenance: Provenance::Assumed,
    }
}

const QWEN: &[Input] = &[
    source(
        "dimensions",
        "32 layers, hidden 4096, intermediate 12288, vocabulary 248320",
    ),
    source(
        "vision tower",
        "27 blocks, hidden 1152, patch 16, merge 2; frozen, checkpointed",
    ),
    published(
        "quantisation",
        "NF4 with double quantisation on the text model's linears",
    ),
    assumed("batch", "1"),
    assumed("tokens a sample", "512"),
    assumed("patches an image", "1024 (512 x 512 pixels)"),
    assumed(
        "LoRA",
        "rank 16 on q, k, v, o, gate, up, down and the delta net's projections",
    ),
    assumed("optimizer", "AdamW, fp32 states"),
    assumed(
        "checkpointing",
        "non-reentrant, every text layer and vision block",
    ),
    assumed(
        "loss",
        "eager cross-entropy in fp32: it sets the peak of text-only steps",
    ),
    assumed(
        "gated delta rule",
        "its reference PyTorch form, many small allocations; a fused kernel moves addresses",
    ),
    assumed(
        "cuBLAS workspaces",
        "32 MiB a thread, as on Hopper; other cards take less, by tens of MiB",
    ),
];

const MOE: &[Input] = &[
    source(
        "dimensions",
        "30 layers, hidden 2816, dense 2112, experts 704, top 8",
    ),
    published("sequence", "2048 tokens, packed, 4 micro-batches a step"),
    assumed("packing", "every micro-batch has the full length"),
    assumed(
        "weights",
        "one block of 15 GiB that plays no part in the growth",
    ),
    assumed(
        "saved inside a layer",
        "kept on the device by a NoOpManager on every module",
    ),
];

const FAST_LLM: &[Input] = &[
    published(
        "model",
        "Qwen2.5-7B, 7 615 616 512 parameters, vocabulary 152 064",
    ),
    published(
        "sequence",
        "16 384 tokens over 2 sequence ranks: 8192 local",
    ),
    assumed(
        "data-parallel ranks",
        "4 for the fp32 weight, gradient and moment shards",
    ),
    assumed("gradient buffers", "two in fp32, embedding and head"),
    assumed("card", "79.3 GiB usable of 80"),
];

const TE: &[Input] = &[
    source(
        "shape",
        "batch 32, sequence 1048, 16 heads of 128, 3 layers",
    ),
    source("kept on the context", "q, k, v and output in fp8"),
    assumed("everything else", "input and output of the stack in bf16"),
    assumed("building the model", "leaves one cached segment of 4 GiB"),
];

const REUSE: &[Input] = &[
    assumed(
        "activations",
        "32 of 4 MiB, each dead once it has been saved",
    ),
    assumed("forward stash", "5"),
];

const CHUNKS: &[Input] = &[
    assumed(
        "blocks",
        "8 gated blocks of width 2048 and 4096, bf16, all parameters trained, no checkpoints",
    ),
    assumed("tokens a sample", "2048"),
    source(
        "saved",
        "both halves of up(x).chunk(2, dim=-1), as SwiGLU and GEGLU layers have them",
    ),
];

impl Config {
    /// Every configuration.
    pub const ALL: [Config; 8] = [
        Config::VlQwen,
        Config::TextQwen,
        Config::MoeGemma,
        Config::QloraBnb,
        Config::FastLlm,
        Config::TeFusedAttention,
        Config::DedupeReuse,
        Config::ChunkViews,
    ];

    /// The public id.
    pub fn id(self) -> &'static str {
        match self {
            Config::VlQwen => "vl-qwen3.5-9b",
            Config::TextQwen => "text-qwen3.5-9b",
            Config::MoeGemma => "moe-gemma4-26b",
            Config::QloraBnb => "qlora-bnb-9b",
            Config::FastLlm => "fast-llm-qwen2.5-7b",
            Config::TeFusedAttention => "te-fused-attention-fp8",
            Config::DedupeReuse => "dedupe-reuse",
            Config::ChunkViews => "chunk-views",
        }
    }

    /// The configuration with this id.
    pub fn from_id(id: &str) -> Option<Config> {
        Config::ALL.into_iter().find(|config| config.id() == id)
    }

    /// The code before any patch, unless the caller says otherwise.
    pub fn base(self) -> Base {
        match self {
            Config::VlQwen | Config::TextQwen | Config::MoeGemma | Config::ChunkViews => {
                Base::Release(Release::Trl029)
            }
            Config::QloraBnb => Base::Release(Release::Trl14),
            Config::DedupeReuse => Base::Release(Release::Trl15),
            Config::FastLlm => Base::Program("fast-llm before #486"),
            Config::TeFusedAttention => Base::Program("transformer-engine before #2772"),
        }
    }

    /// Steps of a run, unless the caller says otherwise.
    pub fn default_steps(self) -> u32 {
        match self {
            Config::VlQwen | Config::QloraBnb => 100,
            Config::TextQwen => 40,
            Config::MoeGemma => 20,
            Config::FastLlm => 128,
            Config::TeFusedAttention => 6,
            Config::DedupeReuse | Config::ChunkViews => 10,
        }
    }

    /// Device memory in bytes that the published run had, where it limits anything.
    pub fn published_capacity(self) -> Option<u64> {
        // 80 GiB less what the driver and the context keep (docs/scenarios.md,
        // "Losses that are kept").
        (self == Config::FastLlm).then_some(85_150_000_000)
    }

    /// Inputs, with where each comes from.
    pub fn inputs(self) -> &'static [Input] {
        match self {
            Config::VlQwen | Config::TextQwen | Config::QloraBnb => QWEN,
            Config::MoeGemma => MOE,
            Config::FastLlm => FAST_LLM,
            Config::TeFusedAttention => TE,
            Config::DedupeReuse => REUSE,
            Config::ChunkViews => CHUNKS,
        }
    }

    /// Patches that touch anything the workload runs.
    pub fn applicable(self) -> Vec<Patch> {
        match self {
            Config::FastLlm => vec![Patch::LossDetach],
            Config::TeFusedAttention => vec![Patch::ClearCtxTensors],
            Config::DedupeReuse => vec![Patch::ReleaseDedupeKey],
            Config::QloraBnb => {
                vec![
                    Patch::EnterReset,
                    Patch::ReleaseDedupeKey,
                    Patch::ComputeStreamClone,
                    Patch::CloneBeforeWait,
                ]
            }
            Config::ChunkViews => vec![
                Patch::PackContiguous,
                Patch::ComputeStreamClone,
                Patch::CloneBeforeWait,
            ],
            Config::VlQwen | Config::TextQwen | Config::MoeGemma => Patch::ALL
                .into_iter()
                // #7195 moves the copies of #5694, which are not in the base of these.
                .filter(|patch| {
                    !matches!(
                        patch,
                        Patch::LossDetach | Patch::ClearCtxTensors | Patch::CloneBeforeWait
                    )
                })
                .collect(),
        }
    }

    /// The combination that was published or merged as the solution.
    pub fn published_combination(self) -> Vec<Patch> {
        match self {
            Config::VlQwen | Config::TextQwen => Patch::ALL[..5].to_vec(),
            Config::MoeGemma => {
                vec![
                    Patch::ExitSyncAndClear,
                    Patch::PackContiguous,
                    Patch::EnterReset,
                ]
            }
            Config::QloraBnb => vec![
                Patch::EnterReset,
                Patch::ReleaseDedupeKey,
                Patch::CloneBeforeWait,
            ],
            Config::ChunkViews => vec![Patch::PackContiguous, Patch::CloneBeforeWait],
            _ => Vec::new(),
        }
    }

    /// Baseline, each applicable patch alone, and the published combination.
    pub fn matrix(self) -> Vec<Vec<Patch>> {
        let mut rows = vec![Vec::new()];
        rows.extend(self.applicable().into_iter().map(|patch| vec![patch]));
        let combination = self.published_combination();
        if combination.len() > 1 {
            rows.push(combination);
        }
        rows
    }
}
