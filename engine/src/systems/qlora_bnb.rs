//! The vision-language run after #5700, with bitsandbytes (path 2).

use api::bench::{Evidence, PublishedOnly};

use super::evidence::{MeasuredCode, only, statement};
use super::qwen::Samples;
use super::{Base, System, vl_qwen};
use crate::offload::Release;
use crate::patches::Patch;
use crate::workload::QwenVlSpec;

pub(super) const SPEC: &QwenVlSpec = &QwenVlSpec::nine_billion(Samples::WithImage);

impl System {
    /// The vision-language run after #5700, with bitsandbytes (path 2).
    pub const QLORA_BNB: &'static System = &System {
        base: Base::Release(Release::TRL_1_4),
        default_steps: 100,
        bitsandbytes: true,
        applies: |patch| {
            matches!(
                patch,
                Patch::ENTER_RESET
                    | Patch::RELEASE_DEDUPE_KEY
                    | Patch::COMPUTE_STREAM_CLONE
                    | Patch::CLONE_BEFORE_WAIT
            )
        },
        combination: &[
            Patch::ENTER_RESET,
            Patch::RELEASE_DEDUPE_KEY,
            Patch::CLONE_BEFORE_WAIT,
        ],
        published,
        measured,
        published_only,
        ..System::new(
            "qlora-bnb-9b",
            "The vision-language run after #5700, with bitsandbytes: what is left of the leak.",
            SPEC,
        )
    };
}

fn published(patches: &[&'static Patch]) -> Option<Evidence> {
    match patches {
        [] => Some(statement(
            "TRL #5730",
            "about 0.6 GiB a step, out of memory after 30 to 40 steps",
        )),
        [Patch::COMPUTE_STREAM_CLONE] => Some(Evidence {
            machine: Some("L40S, PyTorch 2.11, TRL 1.7.0".to_owned()),
            ..statement(
                "axolotl #3833",
                "Xid 43 in 20 of 20 runs without it, in 0 of 10 with it",
            )
        }),
        _ => None,
    }
}

/// It is the same program as the vision run, with bitsandbytes imported.
fn measured(code: MeasuredCode) -> Option<Evidence> {
    (code == MeasuredCode::Trl14).then(|| Evidence {
        note: Some("counted on vl-qwen3.5-9b, whose program this is".to_owned()),
        ..vl_qwen::measured(code)
    })
}

fn published_only() -> Vec<PublishedOnly> {
    vec![
        only(
            "about 0.6 GiB a step, out of memory after 30 to 40 steps",
            "TRL #5730",
            "the two contradict each other on a 24 GB card, and the order of operations was \
             not published",
        ),
        only(
            "Xid 43, blamed in June on axolotl's own reset on entry",
            "axolotl b04d0c860",
            "its cause was found in July (#3833): P4's copy on the side stream, which is \
             computed here as a race",
        ),
    ]
}
