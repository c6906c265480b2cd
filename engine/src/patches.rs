//! Patches: the table of what can be changed about a run. One entry holds everything about a patch.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::offload::{Change, Changes};

/// A patch: what it changes, and where it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Patch {
    /// The public id: it is in links, in the database and in result files.
    pub id: &'static str,
    /// Its number in the published table, such as `P3`.
    pub number: Option<&'static str>,
    /// What it changes, in a sentence.
    pub about: &'static str,
    /// The project that it changes.
    pub project: &'static str,
    /// The pull request or commit; none if there is no public source.
    pub source: Option<Source>,
    /// What it does to a run.
    pub effect: Effect,
    /// Whether the root-cause chain adds it.
    pub chain: Chain,
}

/// Where a patch can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Source {
    /// The pull request or commit.
    pub pr: &'static str,
    /// Its address.
    pub url: &'static str,
}

/// What a patch does to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// It changes the offloader.
    Offloader(Change),
    /// It changes which tensors ms-swift's offloader treats as the same tensor.
    HostKey,
    /// It changes the program. The system asks for it when it builds its workload.
    Program,
    /// It changes nothing that the engine runs. This was read from its source, not computed.
    Nothing {
        /// The reason.
        why: &'static str,
    },
    /// Its source was never published. The engine tests the assumption that activations stay on the
    /// device.
    StaysOnDevice {
        /// The assumption, as a sentence.
        hypothesis: &'static str,
    },
}

/// The root-cause chain: patches that each fix something, in the order in which the projects merged
/// them. This is also the order of [`Patch::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Chain {
    /// The chain adds this patch where it applies.
    Link,
    /// The chain does not add it.
    Aside,
}

impl Patch {
    /// Every patch, in the order of the published table.
    pub const ALL: [&'static Patch; 14] = [
        Patch::MATMUL_4BIT_NO_GRAD,
        Patch::BF16_CROSS_ENTROPY,
        Patch::EXIT_SYNC_AND_CLEAR,
        Patch::PACK_CONTIGUOUS,
        Patch::TORCH_MEMORY_FIX,
        Patch::ENTER_RESET,
        Patch::RELEASE_DEDUPE_KEY,
        Patch::AXOLOTL_BACKPORT,
        Patch::COMPUTE_STREAM_CLONE,
        Patch::CLONE_BEFORE_WAIT,
        Patch::LOSS_DETACH,
        Patch::CLEAR_CTX_TENSORS,
        Patch::DISTINGUISH_VIEWS,
        Patch::LIVE_STREAM,
    ];

    /// P1 to P5 of the published table, which were published together as the solution.
    pub const PUBLISHED_FIVE: [&'static Patch; 5] = [
        Patch::MATMUL_4BIT_NO_GRAD,
        Patch::BF16_CROSS_ENTROPY,
        Patch::EXIT_SYNC_AND_CLEAR,
        Patch::PACK_CONTIGUOUS,
        Patch::TORCH_MEMORY_FIX,
    ];

    /// P1. bitsandbytes #1935: `no_grad` around the dequantised product.
    pub const MATMUL_4BIT_NO_GRAD: &'static Patch = &Patch {
        id: "p1-matmul4bit-no-grad",
        number: Some("P1"),
        about: "no_grad around the product with dequantised weights. Nothing was saved there.",
        project: "bitsandbytes",
        source: Some(Source {
            pr: "#1935",
            url: "https://github.com/bitsandbytes-foundation/bitsandbytes/pull/1935",
        }),
        effect: Effect::Nothing {
            why: "asserted from the source: a forward of autograd.Function runs without gradients \
                  already, so nothing was saved",
        },
        chain: Chain::Aside,
    };

    /// P2. transformers #45769: bf16 autocast around the model.
    pub const BF16_CROSS_ENTROPY: &'static Patch = &Patch {
        id: "p2-bf16-cross-entropy",
        number: Some("P2"),
        about: "bf16 autocast around the model. Cross-entropy runs in fp32 all the same.",
        project: "transformers",
        source: Some(Source {
            pr: "#45769",
            url: "https://github.com/huggingface/transformers/pull/45769",
        }),
        effect: Effect::Nothing {
            why: "asserted from the source: the trainer autocasts already, and cross-entropy runs \
                  in fp32 under autocast",
        },
        chain: Chain::Aside,
    };

    /// P3. TRL #5700.
    pub const EXIT_SYNC_AND_CLEAR: &'static Patch = &Patch {
        number: Some("P3"),
        chain: Chain::Link,
        ..Patch::of_trl(
            "p3-exit-sync-and-clear",
            "Leaving the context waits for both streams and clears both stashes.",
            Source {
                pr: "#5700",
                url: "https://github.com/huggingface/trl/pull/5700",
            },
            Change::ExitSyncAndClear,
        )
    };

    /// P4. TRL #5694.
    pub const PACK_CONTIGUOUS: &'static Patch = &Patch {
        number: Some("P4"),
        ..Patch::of_trl(
            "p4-pack-contiguous",
            "Packs a contiguous clone, made on the side stream: views survive, and can be read \
             before they are written.",
            Source {
                pr: "#5694",
                url: "https://github.com/huggingface/trl/pull/5694",
            },
            Change::PackContiguous,
        )
    };

    /// P5; its source is not available.
    pub const TORCH_MEMORY_FIX: &'static Patch = &Patch {
        id: "p5-torch-memory-fix",
        number: Some("P5"),
        about: "A backward hook whose source was never published.",
        project: "unknown",
        source: None,
        effect: Effect::StaysOnDevice {
            hypothesis: "the hook keeps activations on the device",
        },
        chain: Chain::Aside,
    };

    /// TRL #5730.
    pub const ENTER_RESET: &'static Patch = &Patch {
        chain: Chain::Link,
        ..Patch::of_trl(
            "enter-reset",
            "Entering the context clears tracker, maps and flags.",
            Source {
                pr: "#5730",
                url: "https://github.com/huggingface/trl/pull/5730",
            },
            Change::EnterReset,
        )
    };

    /// TRL #6241.
    pub const RELEASE_DEDUPE_KEY: &'static Patch = &Patch {
        chain: Chain::Link,
        ..Patch::of_trl(
            "release-dedupe-key",
            "The key of a duplicate lives only as long as its tensor.",
            Source {
                pr: "#6241",
                url: "https://github.com/huggingface/trl/pull/6241",
            },
            Change::ReleaseDedupeKey,
        )
    };

    /// axolotl bcb3b9eb1.
    pub const AXOLOTL_BACKPORT: &'static Patch = &Patch {
        project: "axolotl",
        ..Patch::of_trl(
            "axolotl-backport",
            "Axolotl's own reset on entry, without the wait on exit.",
            Source {
                pr: "bcb3b9eb1",
                url: "https://github.com/axolotl-ai-cloud/axolotl/commit/bcb3b9eb1",
            },
            Change::AxolotlBackport,
        )
    };

    /// axolotl 393d25f4f.
    pub const COMPUTE_STREAM_CLONE: &'static Patch = &Patch {
        project: "axolotl",
        ..Patch::of_trl(
            "compute-stream-clone",
            "Makes the clone on the compute stream, before it is packed.",
            Source {
                pr: "#3833",
                url: "https://github.com/axolotl-ai-cloud/axolotl/pull/3833",
            },
            Change::ComputeStreamClone,
        )
    };

    /// axolotl 93a94e0d7; also part of TRL #7195.
    pub const LIVE_STREAM: &'static Patch = &Patch {
        project: "axolotl",
        ..Patch::of_trl(
            "live-stream",
            "Waits for the stream that computes now, not for the default one of the start.",
            Source {
                pr: "93a94e0d7",
                url: "https://github.com/axolotl-ai-cloud/axolotl/commit/93a94e0d7",
            },
            Change::LiveComputeStream,
        )
    };

    /// TRL #7195: makes the copies of #5694 on the stream that computes, before the other stream
    /// waits.
    pub const CLONE_BEFORE_WAIT: &'static Patch = &Patch::of_trl(
        "clone-before-wait",
        "Makes P4's copy on the compute stream, before the side stream waits for it.",
        Source {
            pr: "#7195",
            url: "https://github.com/huggingface/trl/pull/7195",
        },
        Change::CloneBeforeWait,
    );

    /// Fast-LLM #486.
    pub const LOSS_DETACH: &'static Patch = &Patch {
        id: "loss-detach",
        number: None,
        about: "Detaches each loss before it is kept.",
        project: "Fast-LLM",
        source: Some(Source {
            pr: "#486",
            url: "https://github.com/ServiceNow/Fast-LLM/pull/486",
        }),
        effect: Effect::Program,
        chain: Chain::Link,
    };

    /// Transformer Engine #2772, which fixes issue #1935.
    pub const CLEAR_CTX_TENSORS: &'static Patch = &Patch {
        id: "clear-ctx-tensors",
        number: None,
        about: "Drops the context's references once they were used.",
        project: "Transformer Engine",
        source: Some(Source {
            pr: "#2772",
            url: "https://github.com/NVIDIA/TransformerEngine/pull/2772",
        }),
        effect: Effect::Program,
        chain: Chain::Link,
    };

    /// ms-swift #10157.
    pub const DISTINGUISH_VIEWS: &'static Patch = &Patch {
        id: "distinguish-views",
        number: None,
        about: "Views of one tensor share a host copy only where shape and strides are equal.",
        project: "ms-swift",
        source: Some(Source {
            pr: "#10157",
            url: "https://github.com/modelscope/ms-swift/pull/10157",
        }),
        effect: Effect::HostKey,
        chain: Chain::Aside,
    };

    /// A change to TRL's offloader.
    const fn of_trl(
        id: &'static str,
        about: &'static str,
        source: Source,
        change: Change,
    ) -> Patch {
        Patch {
            id,
            number: None,
            about,
            project: "TRL",
            source: Some(source),
            effect: Effect::Offloader(change),
            chain: Chain::Aside,
        }
    }

    /// The patch with this id, in upper or lower case. The first five are also found as `p1` …
    /// `p5`.
    pub fn from_id(id: &str) -> Option<&'static Patch> {
        let is_it = |name: &str| name.eq_ignore_ascii_case(id);
        let mut all = Patch::ALL.into_iter();
        all.find(|patch| is_it(patch.id) || patch.number.is_some_and(is_it))
    }

    /// The ids of all patches, as a sentence lists them.
    pub fn names() -> String {
        Patch::ALL.map(|patch| patch.id).join(", ")
    }

    /// A set of patches, joined by `+`; `baseline` is the empty set. Each is called by its id, its
    /// number or the first word of its id, in any case.
    ///
    /// # Errors
    /// The name that no patch has.
    pub fn set_from(text: &str) -> Result<Vec<&'static Patch>, UnknownPatch> {
        if text.eq_ignore_ascii_case("baseline") {
            return Ok(Vec::new());
        }
        let patch = |name: &str| {
            let name = name.trim();
            let begins = |patch: &&Patch| {
                let first = patch.id.split('-').next();
                first.is_some_and(|first| first.eq_ignore_ascii_case(name))
            };
            let found = Patch::from_id(name).or_else(|| Patch::ALL.into_iter().find(begins));
            found.ok_or_else(|| UnknownPatch(name.to_owned()))
        };
        let patches: Result<Vec<&'static Patch>, UnknownPatch> =
            text.split('+').map(patch).collect();
        patches.map(Patch::in_order)
    }

    /// A set has one name: the order of [`Patch::ALL`], each patch once.
    pub fn in_order(mut patches: Vec<&'static Patch>) -> Vec<&'static Patch> {
        patches.sort_by_key(|patch| patch.position());
        patches.dedup();
        patches
    }

    /// Its name in a table: its number, or its id if it has none.
    pub fn label(&self) -> &'static str {
        self.number.unwrap_or(self.id)
    }

    /// Its place in [`Patch::ALL`]; a patch that is not in it comes after all of them.
    pub fn position(&self) -> usize {
        let found = Patch::ALL.iter().position(|&other| other == self);
        found.unwrap_or(Patch::ALL.len())
    }

    /// The change to the offloader, if the patch is one.
    pub fn change(&self) -> Option<Change> {
        match self.effect {
            Effect::Offloader(change) => Some(change),
            _ => None,
        }
    }

    /// What is assumed about it, if its source was never published.
    pub fn hypothesis(&self) -> Option<&'static str> {
        match self.effect {
            Effect::StaysOnDevice { hypothesis } => Some(hypothesis),
            _ => None,
        }
    }

    /// Why it changes nothing that the engine runs, if this was read from its source and not
    /// computed.
    pub fn asserted(&self) -> Option<&'static str> {
        match self.effect {
            Effect::Nothing { why } => Some(why),
            _ => None,
        }
    }
}

/// A name that no patch has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no patch `{0}`; there are {names}", names = Patch::names())]
pub struct UnknownPatch(pub String);

/// The changes of the base and of all patches.
pub fn changes(base: Changes, patches: &[&Patch]) -> Changes {
    patches
        .iter()
        .filter_map(|patch| patch.change())
        .fold(base, Changes::with)
}

impl fmt::Debug for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// Written as its id.
impl Serialize for Patch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_and_are_what_is_serialised() {
        for patch in Patch::ALL {
            assert_eq!(Patch::from_id(patch.id), Some(patch));
            assert_eq!(serde_json::to_value(patch).unwrap(), patch.id);
        }
        assert_eq!(Patch::from_id("p3"), Some(Patch::EXIT_SYNC_AND_CLEAR));
        assert_eq!(Patch::from_id("p"), None);
        assert_eq!(Patch::from_id("enter"), None);
    }

    #[test]
    fn a_set_has_one_name_in_whatever_way_it_is_written() {
        let check = |text: &str, expected: &[&Patch]| {
            assert_eq!(Patch::set_from(text).unwrap(), expected, "{text}");
        };
        let (p3, p4) = (Patch::EXIT_SYNC_AND_CLEAR, Patch::PACK_CONTIGUOUS);
        check("baseline", &[]);
        check("Baseline", &[]);
        check("p3", &[p3]);
        check("P3", &[p3]);
        check("p3+p3-exit-sync-and-clear", &[p3]);
        check("p4 + P3", &[p3, p4]);
        check("enter-reset+p4+p3", &[p3, p4, Patch::ENTER_RESET]);
        check("Enter+p3", &[p3, Patch::ENTER_RESET]);
        for wrong in ["", "p9", "p3+", "p3,p4", "baseline+p3"] {
            let why = Patch::set_from(wrong).unwrap_err().to_string();
            assert!(why.starts_with("there is no patch `"), "{wrong}: {why}");
        }
    }

    #[test]
    fn what_has_no_public_source_is_only_assumed() {
        for patch in Patch::ALL {
            let assumed = patch.hypothesis().is_some();
            assert_eq!(patch.source.is_none(), assumed, "{patch:?}");
        }
    }

    /// The number is the first part of the id, so `p3` and `p3-…` mean the same.
    #[test]
    fn a_numbered_patch_begins_with_its_number() {
        for patch in Patch::ALL {
            if let Some(number) = patch.number {
                let first = patch.id.split('-').next().unwrap();
                assert_eq!(number.to_ascii_lowercase(), first);
            }
        }
    }
}
