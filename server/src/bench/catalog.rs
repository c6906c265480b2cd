//! What can be run, in words: configurations, patches, devices, and what others say of rows.

use super::BenchSettings;
use api::bench::{
    BenchCatalog, BenchConfig, BenchDevice, BenchInput, BenchLimits, BenchPatch, BenchRow,
    BenchStatus, DeviceKind, Provenance, PublishedOnly,
};
use engine::bench::{Config, Input, Patch, judge_hypothesis, known};

/// Rows of one bench: every configuration with every patch, twice.
const MOST_ROWS: u32 = 200;

/// Steps of one row.
const MOST_STEPS: u32 = 10_000;

/// Steps recorded event by event. Twelve show what repeats and what grows, and make a run of some
/// megabytes; all steps are kept as numbers.
const RECORDED_STEPS: u32 = 12;
const MOST_RECORDED_STEPS: u32 = 200;

/// Patches in the order in which upstream merged them, as far as each fixes something: what the
/// root-cause chain adds one after the other.
const CHAIN: [Patch; 5] = [
    Patch::ExitSyncAndClear,
    Patch::EnterReset,
    Patch::ReleaseDedupeKey,
    Patch::LossDetach,
    Patch::ClearCtxTensors,
];

/// What can be run.
pub fn catalog(settings: &BenchSettings, card: &Result<String, String>) -> BenchCatalog {
    BenchCatalog {
        configs: Config::ALL.into_iter().map(config).collect(),
        patches: Patch::ALL.into_iter().map(patch).collect(),
        devices: devices(card),
        limits: limits(settings),
    }
}

/// What a request and a row may take.
pub fn limits(settings: &BenchSettings) -> BenchLimits {
    BenchLimits {
        rows: MOST_ROWS,
        steps: MOST_STEPS,
        recorded_steps: RECORDED_STEPS,
        most_recorded_steps: MOST_RECORDED_STEPS,
        seconds: settings.time.as_secs(),
        memory: settings.memory.get(),
    }
}

/// Where rows can run: always on the simulated device, and on a card where there is one.
pub fn devices(card: &Result<String, String>) -> Vec<BenchDevice> {
    let about = match card {
        Ok(card) => format!("{card}: real allocations, copies and kernels, checksums of all data."),
        Err(_) => "A real GPU: real allocations, copies and kernels.".to_owned(),
    };
    vec![
        BenchDevice {
            kind: DeviceKind::Sim,
            about: "The simulated device: exact sizes and addresses, virtual time, the same \
                    result every time."
                .to_owned(),
            unavailable: None,
        },
        BenchDevice {
            kind: DeviceKind::Cuda,
            about,
            unavailable: card.as_ref().err().cloned(),
        },
    ]
}

/// Its place in the published table.
pub fn position(patch: Patch) -> usize {
    let found = Patch::ALL.iter().position(|&other| other == patch);
    found.unwrap_or(Patch::ALL.len())
}

/// What the run of a row is called: `vl-qwen3.5-9b · P3 + enter-reset`.
pub fn run_name(config: &str, patches: &[String]) -> String {
    let label = |id: &String| Patch::from_id(id).map_or(id.clone(), label);
    let labels: Vec<String> = patches.iter().map(label).collect();
    match labels.is_empty() {
        true => format!("{config} · baseline"),
        false => format!("{config} · {}", labels.join(" + ")),
    }
}

/// Adds what is known beside the computed numbers. A row that tests a hypothesis gives its numbers
/// up: they are no numbers of the patch.
pub fn add_known(row: &mut BenchRow) {
    let patches: Vec<Patch> = row
        .patches
        .iter()
        .filter_map(|id| Patch::from_id(id))
        .collect();
    if let Some(config) = Config::from_id(&row.config) {
        row.known = known(config, config.base(), &patches);
    }
    if let [only] = patches.as_slice() {
        row.asserted = only.asserted().map(str::to_owned);
    }
    if let Some(about) = patches.iter().find_map(|patch| patch.hypothesis()) {
        let published = row.known.published.as_ref();
        row.hypothesis = Some(judge_hypothesis(about, row.result.as_ref(), published));
        row.status = row.result.take().map(|_| BenchStatus::SourceUnavailable);
        row.spark.clear();
    }
}

fn config(config: Config) -> BenchConfig {
    let ids = |patches: &[Patch]| {
        let ids = patches.iter().map(|patch| patch.id().to_owned());
        ids.collect::<Vec<String>>()
    };
    let applicable = config.applicable();
    let chained: Vec<Patch> = CHAIN
        .into_iter()
        .filter(|patch| applicable.contains(patch))
        .collect();
    BenchConfig {
        id: config.id().to_owned(),
        about: about_config(config).to_owned(),
        base: config.base().to_string(),
        default_steps: config.default_steps(),
        capacity: config.published_capacity(),
        inputs: config.inputs().iter().map(input).collect(),
        applicable: ids(&applicable),
        combination: match config.published_combination() {
            several if several.len() > 1 => ids(&several),
            _ => Vec::new(),
        },
        chain: (1..=chained.len()).map(|n| ids(&chained[..n])).collect(),
        published_only: published_only(config),
    }
}

fn input(input: &Input) -> BenchInput {
    BenchInput {
        name: input.name.to_owned(),
        value: input.value.to_owned(),
        provenance: match input.provenance {
            engine::bench::Provenance::Published => Provenance::Published,
            engine::bench::Provenance::Source => Provenance::Source,
            engine::bench::Provenance::Assumed => Provenance::Assumed,
        },
    }
}

fn about_config(config: Config) -> &'static str {
    match config {
        Config::VlQwen => {
            "QLoRA on a vision-language model: the checkpoints of the frozen vision tower are \
             packed and never unpacked."
        }
        Config::TextQwen => "The same model on text alone: everything packed is unpacked again.",
        Config::MoeGemma => {
            "Mixture of experts with packed samples: checkpoints that are never recomputed."
        }
        Config::QloraBnb => {
            "The vision-language run after #5700, with bitsandbytes: what is left of the leak."
        }
        Config::FastLlm => "Fast-LLM's loop, which keeps the loss of each micro-batch.",
        Config::TeFusedAttention => {
            "Transformer Engine's fused attention, which keeps fp8 tensors on the context."
        }
        Config::ChunkViews => {
            "Gated blocks that save both halves of a chunk: views that start in the middle of \
             their storage."
        }
        Config::DedupeReuse => {
            "Activations of one size, one after another: an address that comes back passes for \
             the same tensor."
        }
    }
}

fn patch(patch: Patch) -> BenchPatch {
    let origin = origin(patch);
    BenchPatch {
        id: patch.id().to_owned(),
        label: label(patch),
        project: origin.project.to_owned(),
        pr: origin.pr.map(str::to_owned),
        url: origin.url.map(|path| format!("https://github.com/{path}")),
        about: about_patch(patch).to_owned(),
        hypothesis: patch.hypothesis().map(str::to_owned),
    }
}

/// `P3` for those that the published table numbers, else the id.
fn label(patch: Patch) -> String {
    let short = patch.id().split('-').next().unwrap_or_default();
    let numbered = short.len() == 2 && short.starts_with('p');
    match numbered {
        true => short.to_ascii_uppercase(),
        false => patch.id().to_owned(),
    }
}

/// Where a patch is from.
struct Origin {
    project: &'static str,
    pr: Option<&'static str>,
    url: Option<&'static str>,
}

fn origin(patch: Patch) -> Origin {
    let (project, pr, url) = match patch {
        Patch::Matmul4bitNoGrad => (
            "bitsandbytes",
            Some("#1935"),
            Some("bitsandbytes-foundation/bitsandbytes/pull/1935"),
        ),
        Patch::Bf16CrossEntropy => (
            "transformers",
            Some("#45769"),
            Some("huggingface/transformers/pull/45769"),
        ),
        Patch::ExitSyncAndClear => trl("#5700", "huggingface/trl/pull/5700"),
        Patch::PackContiguous => trl("#5694", "huggingface/trl/pull/5694"),
        Patch::EnterReset => trl("#5730", "huggingface/trl/pull/5730"),
        Patch::ReleaseDedupeKey => trl("#6241", "huggingface/trl/pull/6241"),
        Patch::TorchMemoryFix => ("unknown", None, None),
        Patch::AxolotlBackport => (
            "axolotl",
            Some("bcb3b9eb1"),
            Some("axolotl-ai-cloud/axolotl/commit/bcb3b9eb1"),
        ),
        Patch::ComputeStreamClone => (
            "axolotl",
            Some("#3833"),
            Some("axolotl-ai-cloud/axolotl/pull/3833"),
        ),
        Patch::CloneBeforeWait => trl("#7195", "huggingface/trl/pull/7195"),
        Patch::LossDetach => (
            "Fast-LLM",
            Some("#486"),
            Some("ServiceNow/Fast-LLM/pull/486"),
        ),
        Patch::ClearCtxTensors => (
            "Transformer Engine",
            Some("#2772"),
            Some("NVIDIA/TransformerEngine/pull/2772"),
        ),
    };
    Origin { project, pr, url }
}

type TrlOrigin = (&'static str, Option<&'static str>, Option<&'static str>);

fn trl(pr: &'static str, url: &'static str) -> TrlOrigin {
    ("TRL", Some(pr), Some(url))
}

fn about_patch(patch: Patch) -> &'static str {
    match patch {
        Patch::Matmul4bitNoGrad => {
            "no_grad around the product with dequantised weights. Nothing was saved there."
        }
        Patch::Bf16CrossEntropy => {
            "bf16 autocast around the model. Cross-entropy runs in fp32 all the same."
        }
        Patch::ExitSyncAndClear => {
            "Leaving the context waits for both streams and clears both \
                                    stashes."
        }
        Patch::PackContiguous => {
            "Packs a contiguous clone, made on the side stream: views survive, and can be read \
             before they are written."
        }
        Patch::TorchMemoryFix => "A backward hook whose source was never published.",
        Patch::EnterReset => "Entering the context clears tracker, maps and flags.",
        Patch::ReleaseDedupeKey => "The key of a duplicate lives only as long as its tensor.",
        Patch::AxolotlBackport => "Axolotl's own reset on entry, without the wait on exit.",
        Patch::ComputeStreamClone => "Makes the clone on the compute stream, before it is packed.",
        Patch::CloneBeforeWait => {
            "Makes P4's copy on the compute stream, before the side stream waits for it."
        }
        Patch::LossDetach => "Detaches each loss before it is kept.",
        Patch::ClearCtxTensors => "Drops the context's references once they were used.",
    }
}

/// Statements that were published and cannot be derived.
fn published_only(config: Config) -> Vec<PublishedOnly> {
    const PAGE: &str = "butterweck leak analysis";
    let only = |what: &str, source: &str, why: &str| PublishedOnly {
        what: what.to_owned(),
        source: source.to_owned(),
        why: why.to_owned(),
    };
    let absolute = "batch, LoRA rank and targets, image size and checkpointing flags were not \
                    published: compare the differences to the baseline";
    match config {
        Config::VlQwen => vec![
            only("absolute peaks of 13.3 to 20.3 GB", PAGE, absolute),
            only(
                "out of memory at step 19, 14.69 GB and 5.83 GB",
                PAGE,
                "it belongs to an earlier run whose inputs were not published",
            ),
            only(
                "P5: 15.935 GB",
                PAGE,
                "the source of the patch was never published",
            ),
            only(
                "s0 copies to the device, s1 to the host",
                "descriptions of #5700",
                "in the source s0 is the stream that computes, and s1 copies both ways",
            ),
        ],
        Config::TextQwen => vec![
            only("absolute peak of 8.498 GB", PAGE, absolute),
            only(
                "P5: 24.216 GB, out of memory",
                PAGE,
                "the source of the patch was never published",
            ),
        ],
        Config::MoeGemma => vec![only(
            "about 9 GiB a step, out of memory by step 2",
            "TRL #5737",
            "seven times what all layer inputs amount to: other tensors must have leaked there",
        )],
        Config::QloraBnb => vec![
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
        ],
        Config::FastLlm => vec![only(
            "0.24 MiB a micro-batch after the fix",
            "Fast-LLM #486",
            "scalars and metadata of batches, which were not listed",
        )],
        Config::TeFusedAttention => vec![only(
            "284.1 MiB after the iteration",
            "Transformer Engine issue #1935",
            "depends on the number of GPUs and on workspaces; the difference of 786 MiB is derived",
        )],
        Config::DedupeReuse | Config::ChunkViews => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_card() -> Result<String, String> {
        Err("no driver".to_owned())
    }

    #[test]
    fn the_card_can_be_chosen_only_where_there_is_one() {
        let cuda = |card| devices(&card)[1].clone();
        assert_eq!(cuda(no_card()).unavailable.as_deref(), Some("no driver"));
        let there = cuda(Ok("NVIDIA H200, CUDA 13.0".to_owned()));
        assert_eq!(there.unavailable, None);
        assert!(there.about.starts_with("NVIDIA H200"));
    }

    #[test]
    fn a_run_is_named_by_what_ran() {
        let check = |patches: &[&str], expected: &str| {
            let patches: Vec<String> = patches.iter().map(|&id| id.to_owned()).collect();
            assert_eq!(run_name("c", &patches), expected);
        };
        check(&[], "c · baseline");
        check(
            &["p3-exit-sync-and-clear", "enter-reset"],
            "c · P3 + enter-reset",
        );
    }

    #[test]
    fn a_chain_grows_by_one_applicable_patch_at_a_time() {
        for config in catalog(&BenchSettings::default(), &no_card()).configs {
            let sizes: Vec<usize> = config.chain.iter().map(Vec::len).collect();
            let expected: Vec<usize> = (1..=sizes.len()).collect();
            assert_eq!(sizes, expected, "{}", config.id);
            // A baseline that raises at once has no growth to divide among patches.
            assert_eq!(sizes.is_empty(), config.id == Config::ChunkViews.id());
            for set in &config.chain {
                let applies = |id: &String| config.applicable.contains(id);
                assert!(set.iter().all(applies), "{}", config.id);
            }
        }
    }

    #[test]
    fn a_patch_without_public_source_has_no_address() {
        for patch in catalog(&BenchSettings::default(), &no_card()).patches {
            assert_eq!(patch.pr.is_some(), patch.url.is_some(), "{}", patch.id);
            assert_eq!(
                patch.pr.is_none(),
                patch.hypothesis.is_some(),
                "{}",
                patch.id
            );
        }
    }
}
