//! The chain of checkpointed blocks on its own stream, as under FSDP2 or with custom kernels. An
//! offloader that remembers the default stream of its construction waits for the wrong stream.

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
