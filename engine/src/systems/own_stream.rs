//! The chain of checkpointed blocks on its own stream, as under FSDP2 or with custom kernels. An
//! offloader that remembers the default stream of its construction waits for the wrong stream.

use api::bench::Evidence;

use super::evidence::statement;
use super::reuse::{self, ReuseSpec, RunsOn};
use super::{Base, System};
use crate::offload::Release;
use crate::patches::Patch;

/// The chain of [`System::REUSE`]; only its stream is another one.
pub(super) const SPEC: &ReuseSpec = &ReuseSpec {
    stream: RunsOn::OwnStream,
    ..*reuse::SPEC
};

impl System {
    /// A chain that computes on its own stream.
    pub const OWN_STREAM: &'static System = &System {
        base: Base::Release(Release::TRL_1_5),
        applies: |patch| patch == Patch::LIVE_STREAM,
        published,
        ..System::new(
            "own-stream",
            "Activations of one size, computed on another stream than the default one.",
            SPEC,
        )
    };
}

fn published(patches: &[&'static Patch]) -> Option<Evidence> {
    let said = match patches {
        [] => "what comes back is read too early: NaN on sm90, an illegal access on sm120",
        _ => return None,
    };
    Some(statement("axolotl 93a94e0d7", said))
}
