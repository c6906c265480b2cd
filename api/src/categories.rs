//! A team's own categories: the rules, and what they take of a recording.

use serde::{Deserialize, Serialize};
use trace::device::DeviceIdx;
use trace::naming::Named;
use trace::units::{Bytes, EventIdx};

/// The rules, as a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OwnRules {
    /// The file of rules, a rule a line (`docs/categories.md`). Empty: no categories of one's own.
    pub rules: String,
}

/// The rules that hold, and where they come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OwnCategories {
    /// The file of rules, a rule a line.
    pub rules: String,
    /// Where they are kept.
    pub kept: Kept,
    /// The names in them, in the order of the rules.
    pub names: Vec<Named>,
}

/// Where rules are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Kept {
    /// In the dashboard: they can be changed there.
    Here,
    /// In the file that the server was started with (`--categories`).
    File,
}

/// What rules would take of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TakenOfRun {
    /// Of each of its devices.
    pub devices: Vec<TakenOfDevice>,
}

/// What rules would take of one device of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TakenOfDevice {
    /// CUDA ordinal.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub device: DeviceIdx,
    /// The peak of *allocated*, where `bytes` are counted; absent without events.
    pub peak: Option<EventIdx>,
    /// *Allocated* there.
    pub allocated: Bytes,
    /// What each rule takes, in their order.
    pub rules: Vec<Taken>,
}

/// What one rule takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Taken {
    /// Its line in the file, counted from 1.
    pub line: u32,
    /// The name in it.
    pub name: Named,
    /// Blocks of the whole recording.
    pub blocks: u64,
    /// Bytes at the peak.
    pub bytes: Bytes,
}
