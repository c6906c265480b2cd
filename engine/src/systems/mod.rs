//! Systems: what the bench runs. The command line and the API call them configurations.
//!
//! Each system has one file with everything about it: its numbers, the program that runs with them,
//! what others published and what was measured. [`System::ALL`] is the table.
//! `docs/add-a-system.md` shows how to add one.

use trace::units::Bytes;

mod axolotl_bnb;
mod base;
mod chunk_views;
mod evidence;
mod fast_llm;
mod input;
mod moe_gemma;
mod own_stream;
mod qlora_bnb;
mod qwen;
mod reuse;
#[cfg(test)]
mod shown;
mod te_attention;
mod text_4096;
mod text_qwen;
mod transposed_views;
mod vl_qwen;

pub use base::Base;
pub use evidence::MeasuredCode;
pub use input::{assumed, published, source};

use std::fmt;
use std::hash::{Hash, Hasher};

use api::bench::{BenchInput, Evidence, PublishedOnly};

use crate::offload::Release;
use crate::patches::Patch;
use crate::session::{RunError, Session};
use crate::workload::Workload;

/// Everything about a system. Two systems with the same id are equal.
pub struct System {
    /// The public id: it is in links, in the database and in result files.
    pub id: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// The code before any patch, unless the caller says otherwise.
    pub base: Base,
    /// Steps of a run, unless the caller says otherwise.
    pub default_steps: u32,
    /// Device memory of the published run, if it limits anything.
    pub capacity: Option<Bytes>,
    /// Whether the process has imported bitsandbytes, which the offloader looks for.
    pub bitsandbytes: bool,
    /// Whether its blocks are layers that FSDP would wrap, which ms-swift's offloader moves.
    pub has_layers: bool,
    /// What a run is made of.
    pub spec: &'static dyn Spec,
    /// Whether a patch changes anything that it runs.
    pub applies: fn(&Patch) -> bool,
    /// The combination of patches that was published or merged as the solution.
    pub combination: &'static [&'static Patch],
    /// What was published about a run with these patches.
    pub published: fn(&[&'static Patch]) -> Option<Evidence>,
    /// What was measured with the real software, for the code that ran.
    pub measured: fn(MeasuredCode) -> Option<Evidence>,
    /// What was published but cannot be derived, and why.
    pub published_only: fn() -> Vec<PublishedOnly>,
}

/// The numbers of a system. The allocations and the numbers that users see both come from them, so
/// they cannot differ.
pub trait Spec: Sync {
    /// What users see, each number with its source.
    fn inputs(&self) -> Vec<BenchInput>;

    /// The program with its patches, except those of the offloader.
    ///
    /// # Errors
    /// Out of memory.
    fn build(
        &self,
        patches: &[&'static Patch],
        session: &mut Session,
    ) -> Result<Box<dyn Workload>, RunError>;
}

impl System {
    /// Every system, in the order in which they are shown.
    pub const ALL: [&'static System; 12] = [
        System::VL_QWEN,
        System::TEXT_QWEN,
        System::MOE_GEMMA,
        System::QLORA_BNB,
        System::FAST_LLM,
        System::TE_ATTENTION,
        System::REUSE,
        System::CHUNK_VIEWS,
        System::TRANSPOSED_VIEWS,
        System::AXOLOTL_BNB,
        System::OWN_STREAM,
        System::TEXT_4096,
    ];

    /// A system of ten steps on TRL 0.29, without anything published or measured. The entries of
    /// [`System::ALL`] say what is different.
    pub const fn new(id: &'static str, about: &'static str, spec: &'static dyn Spec) -> System {
        System {
            id,
            about,
            base: Base::Release(Release::TRL_0_29),
            default_steps: 10,
            capacity: None,
            bitsandbytes: false,
            has_layers: false,
            spec,
            applies: |_| false,
            combination: &[],
            published: |_| None,
            measured: |_| None,
            published_only: Vec::new,
        }
    }

    /// The system with this id.
    pub fn from_id(id: &str) -> Option<&'static System> {
        System::ALL.into_iter().find(|system| system.id == id)
    }

    /// The systems that an offloader can be chosen for.
    pub fn with_offloader() -> impl Iterator<Item = &'static System> {
        let has_one = |system: &&System| !matches!(system.base, Base::Program(_));
        System::ALL.into_iter().filter(has_one)
    }

    /// Patches that change anything it runs.
    pub fn applicable(&self) -> Vec<&'static Patch> {
        let all = Patch::ALL.into_iter();
        all.filter(|patch| (self.applies)(patch)).collect()
    }

    /// Baseline, each applicable patch alone, and the published combination.
    pub fn matrix(&self) -> Vec<Vec<&'static Patch>> {
        let mut rows = vec![Vec::new()];
        rows.extend(self.applicable().into_iter().map(|patch| vec![patch]));
        if !self.combination.is_empty() {
            rows.push(self.combination.to_vec());
        }
        rows
    }
}

impl PartialEq for System {
    fn eq(&self, other: &System) -> bool {
        self.id == other.id
    }
}

impl Eq for System {}

impl Hash for System {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}
