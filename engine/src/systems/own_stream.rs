//! The chain of checkpointed blocks on a stream of its own, as under FSDP2 or with custom kernels:
//! an offloader that keeps the default stream of its start waits for the wrong one.

use api::bench::Evidence;

use super::evidence::statement;
use super::reuse::{ReuseSpec, RunsOn};
use super::{Base, System};
use crate::offload::Release;
use crate::patches::Patch;

const SPEC: &ReuseSpec = &ReuseSpec {
    blocks: 32,
    tokens: 512,
    width: 4096,
    stream: RunsOn::OwnStream,
};

impl System {
    /// A chain that computes on a stream of its own.
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

#[cfg(test)]
mod tests {
    use super::super::shown::is_computed_with;
    use super::*;

    #[test]
    fn what_is_shown_is_computed_with() {
        let spec = *SPEC;
        is_computed_with(
            &spec,
            &[
                (&["activations"], |s| s.blocks += 1),
                (&["activations"], |s| s.tokens *= 2),
                (&["activations"], |s| s.width *= 2),
            ],
        );
    }
}
