//! What is known about a run besides the computed numbers, each with its source.

use serde::{Deserialize, Serialize};
use trace::units::Bytes;

/// Where numbers come from that this bench did not compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// The real software, run and counted.
    Measured,
    /// This engine on a real card. It checks the engine, not the published software: the
    /// allocator's decisions follow the simulation.
    EngineOnCard,
    /// Published by others, not checked here.
    Published,
}

impl EvidenceKind {
    /// All of them, the strongest first.
    pub const ALL: [EvidenceKind; 3] = [
        EvidenceKind::Measured,
        EvidenceKind::EngineOnCard,
        EvidenceKind::Published,
    ];

    /// The word for people.
    pub const fn word(self) -> &'static str {
        match self {
            EvidenceKind::Measured => "measured",
            EvidenceKind::EngineOnCard => "engine on H200",
            EvidenceKind::Published => "published",
        }
    }
}

/// All that is known of a run beside the computed numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Known {
    /// Of the real software.
    #[serde(default)]
    pub measured: Option<Evidence>,
    /// Of this engine on a card.
    #[serde(default)]
    pub engine_on_card: Option<Evidence>,
    /// By others.
    #[serde(default)]
    pub published: Option<Evidence>,
}

impl Known {
    /// What is known of one kind.
    pub fn get(&self, kind: EvidenceKind) -> Option<&Evidence> {
        match kind {
            EvidenceKind::Measured => self.measured.as_ref(),
            EvidenceKind::EngineOnCard => self.engine_on_card.as_ref(),
            EvidenceKind::Published => self.published.as_ref(),
        }
    }

    /// All evidence, the strongest kind first.
    pub fn iter(&self) -> impl Iterator<Item = &Evidence> {
        EvidenceKind::ALL
            .into_iter()
            .filter_map(|kind| self.get(kind))
    }
}

/// What one source says of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Evidence {
    /// What kind of number this is.
    pub kind: EvidenceKind,
    /// Peak of allocated memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_allocated: Option<Bytes>,
    /// Growth, bytes a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth_per_step: Option<f64>,
    /// Steps of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Memory of its device, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Bytes>,
    /// Whether it ran out of memory.
    #[serde(default)]
    pub out_of_memory: bool,
    /// How it crashed, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crash: Option<String>,
    /// The program's loss, where it was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub losses: Option<Losses>,
    /// Who says so.
    pub source: String,
    /// The file or page that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What it ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The command, or the program and its inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// What to keep in mind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Evidence {
    /// A statement of a source, without numbers.
    pub fn new(kind: EvidenceKind, source: &str) -> Evidence {
        Evidence {
            kind,
            peak_allocated: None,
            growth_per_step: None,
            steps: None,
            capacity: None,
            out_of_memory: false,
            crash: None,
            losses: None,
            source: source.to_owned(),
            file: None,
            machine: None,
            command: None,
            date: None,
            note: None,
        }
    }
}

/// The loss at the first and at the last step of a run. A memory chart cannot see corrupted data;
/// the loss can.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Losses {
    /// Of the first step.
    pub first: f64,
    /// Of the last one.
    pub last: f64,
}

/// What was assumed of a patch without public source, and whether the assumption can be true.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Hypothesis {
    /// The assumption, as a sentence.
    pub about: String,
    /// Whether it can be true.
    pub fate: Fate,
    /// Why, with the numbers.
    pub why: String,
}

/// What a run says of a hypothesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It has not been run, or not under the published conditions.
    Untested,
    /// It contradicts what was published.
    Refuted,
    /// It contradicts nothing that was published; that does not make it true.
    NotRefuted,
}

impl Fate {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Fate::Untested => "not tested",
            Fate::Refuted => "refuted",
            Fate::NotRefuted => "not refuted",
        }
    }
}
