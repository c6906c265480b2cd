//! The vision-language run in axolotl's version of May 2026: TRL 1.5 with bitsandbytes, and
//! axolotl's own reset on entry, which shadows that of TRL.

use api::bench::{Evidence, PublishedOnly};

use super::evidence::{MeasuredCode, only, statement};
use super::qwen::Samples;
use super::{Base, System, vl_qwen};
use crate::offload::Release;
use crate::patches::Patch;
use crate::workload::QwenVlSpec;

pub(super) const SPEC: &QwenVlSpec = &QwenVlSpec::nine_billion(Samples::WithImage);

impl System {
    /// The vision-language run with TRL 1.5 and bitsandbytes, as axolotl ran it.
    pub const AXOLOTL_BNB: &'static System = &System {
        base: Base::Release(Release::TRL_1_5),
        default_steps: 100,
        bitsandbytes: true,
        applies: |patch| {
            matches!(
                patch,
                Patch::AXOLOTL_BACKPORT | Patch::LIVE_STREAM | Patch::COMPUTE_STREAM_CLONE
            )
        },
        combination: &[Patch::COMPUTE_STREAM_CLONE, Patch::LIVE_STREAM],
        published,
        measured,
        published_only,
        ..System::new(
            "axolotl-bnb-9b",
            "The vision-language run on TRL 1.5 with bitsandbytes: what axolotl's own reset on \
             entry changes there.",
            SPEC,
        )
    };
}

fn published(patches: &[&'static Patch]) -> Option<Evidence> {
    let (source, said) = match patches {
        [Patch::AXOLOTL_BACKPORT] => (
            "axolotl b04d0c860",
            "strictly worse than TRL 1.5.1: ids go on counting, and the cache is not emptied",
        ),
        [Patch::COMPUTE_STREAM_CLONE] => (
            "axolotl #3833",
            "Xid 43 in 20 of 20 runs without it, in 0 of 10 with it",
        ),
        _ => return None,
    };
    Some(statement(source, said))
}

/// It is the same program as the vision run; its allocations do not depend on bitsandbytes.
fn measured(code: MeasuredCode) -> Option<Evidence> {
    (code == MeasuredCode::Trl15).then(|| Evidence {
        note: Some(
            "counted on vl-qwen3.5-9b, whose program this is; the loss shows that restored data \
             are wrong"
                .to_owned(),
        ),
        ..vl_qwen::measured(code)
    })
}

fn published_only() -> Vec<PublishedOnly> {
    vec![only(
        "Xid 43 since TRL 1.5.1, because of axolotl's own reset",
        "axolotl b04d0c860",
        "its cause was found in July (#3833): P4's copy on the side stream, with and without the \
         reset",
    )]
}
