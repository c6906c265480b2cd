//! What the tools take, as a client sees it.

use rmcp::model::JsonObject;
use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use trace::units::Bytes;

/// Which recording, and which part of the answer.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OfRecording {
    /// Path of a snapshot (pickle or JSON, plain, gzip or zstd), or a run of the dashboard: its id
    /// or link, or its name or labels (`branch=main,config=a`) if no other run has them.
    pub(super) recording: String,
    /// CUDA ordinal. Default: the one with the worst verdict.
    pub(super) device: Option<u32>,
    /// First entry of the list; `next` of the page before.
    #[serde(default)]
    pub(super) offset: usize,
}

/// Which recording, and under which limit it was made.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OfLimited {
    /// Path of a snapshot (pickle or JSON, plain, gzip or zstd), or a run of the dashboard: its id
    /// or link, or its name or labels (`branch=main,config=a`) if no other run has them.
    pub(super) recording: String,
    /// CUDA ordinal. Default: the device that ran out of memory, otherwise the one that held most;
    /// for `inspect`, all.
    pub(super) device: Option<u32>,
    /// How much the process could reserve when it was recorded, such as `24GiB`: a recording does
    /// not hold it. Where it ran out of memory, answers are more certain with it.
    pub(super) limit: Option<String>,
    /// First entry of the list; `next` of the page before.
    #[serde(default)]
    pub(super) offset: usize,
}

impl OfLimited {
    /// The limit, in bytes.
    pub(super) fn bytes(&self) -> Result<Option<Bytes>, String> {
        let limit = self.limit.as_deref().map(str::parse).transpose();
        limit.map_err(|error| format!("limit: {error}."))
    }
}

/// What is alive, when, and by what.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OfMoment {
    /// Path of a snapshot, or a run of the dashboard: its id or link, or its name or labels.
    pub(super) recording: String,
    /// CUDA ordinal. Default: the device that ran out of memory, otherwise the one that held most.
    pub(super) device: Option<u32>,
    /// `peak` (of allocated, the default), `end`, `oom` (the first failed allocation), or the
    /// number of an event.
    pub(super) at: Option<At>,
    /// `site` (call shape, the default), `stack`, `module`, `file`, `function`, `category`,
    /// `stream` or `pool`.
    pub(super) by: Option<String>,
    /// First entry of the list; `next` of the page before.
    #[serde(default)]
    pub(super) offset: usize,
}

/// A moment.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum At {
    /// An event.
    Event(u64),
    /// A word, or the number of an event.
    Word(String),
    /// Neither: it is refused with what it has to be.
    #[schemars(skip)]
    Other(serde_json::Value),
}

/// Two recordings.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OfTwo {
    /// The baseline: path of a snapshot, or a run of the dashboard: its id or link, or its name or
    /// labels.
    pub(super) base: String,
    /// What is compared with it, called in the same ways.
    pub(super) new: String,
    /// First entry of the list; `next` of the page before.
    #[serde(default)]
    pub(super) offset: usize,
}

/// Other conditions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OfConditions {
    /// Path of a snapshot, or a run of the dashboard: its id or link, or its name or labels.
    pub(super) recording: String,
    /// CUDA ordinal. Default: the device that ran out of memory, otherwise the one that held most.
    pub(super) device: Option<u32>,
    /// Settings in the form of PYTORCH_CUDA_ALLOC_CONF, such as `expandable_segments:True` or
    /// `max_split_size_mb:128`; an empty text is PyTorch's defaults. Left out: those of the
    /// recording.
    pub(super) alloc_conf: Option<String>,
    /// How much the process may reserve, such as `24GiB`: a smaller or larger card, or a memory
    /// fraction.
    pub(super) limit: Option<String>,
    /// Free leaked memory at the end of the step that allocated it.
    #[serde(default)]
    pub(super) without_leaks: bool,
    /// Leave out requests from places whose function or `file:line` contains one of these texts.
    #[serde(default)]
    pub(super) without: Vec<String>,
}

/// Which runs.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OfRuns {
    /// Part of the names that are wanted, in any case; left out: all.
    #[serde(default)]
    pub(super) name: String,
    /// First entry of the list; `next` of the page before.
    #[serde(default)]
    pub(super) offset: usize,
}

/// The names of the recordings that a question is about.
pub fn recordings_of(arguments: &JsonObject) -> impl Iterator<Item = &str> {
    let named = ["recording", "base", "new"].map(|argument| arguments.get(argument));
    named.into_iter().flatten().filter_map(Value::as_str)
}

pub(super) fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("The arguments do not fit: {error}."))
}
