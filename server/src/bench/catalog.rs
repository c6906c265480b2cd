//! What can be run, in the form of the API: the tables of the engine, and the devices for rows.

use super::BenchSettings;
use api::bench::{
    BenchCatalog, BenchConfig, BenchDevice, BenchLimits, BenchPatch, BenchRow, BenchStatus,
    DeviceKind,
};
use engine::bench::{Beside, RunSpec};
use engine::device::sim::SimSpec;
use engine::patches::{Chain, Patch};
use engine::systems::System;
use trace::units::Bytes;

/// The largest number of rows in a bench: enough for every configuration with every patch, twice.
pub const MOST_ROWS: u32 = 200;

/// Steps of one row.
pub const MOST_STEPS: u32 = 10_000;

/// Steps recorded event by event. Twelve are enough to show what repeats and what grows, and they
/// make a run of some megabytes. Numbers are kept for all steps.
const RECORDED_STEPS: u32 = 12;
const MOST_RECORDED_STEPS: u32 = 200;

/// What can be run.
pub fn catalog(settings: &BenchSettings, card: &Result<String, String>) -> BenchCatalog {
    BenchCatalog {
        configs: System::ALL.into_iter().map(config).collect(),
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
        memory: settings.memory,
    }
}

/// Where rows can run: always on the simulated device, and on a card if there is one.
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

/// The name of a row's run: `vl-qwen3.5-9b · P3 + enter-reset`.
pub fn run_name(config: &str, patches: &[String]) -> String {
    let labels = patches.iter().map(|id| match Patch::from_id(id) {
        Some(patch) => patch.label(),
        None => id.as_str(),
    });
    let labels: Vec<&str> = labels.collect();
    match labels.is_empty() {
        true => format!("{config} · baseline"),
        false => format!("{config} · {}", labels.join(" + ")),
    }
}

/// Adds the known numbers beside the computed ones. A row that tests a hypothesis loses its
/// computed numbers, because they are not numbers of the patch.
/// `capacity` is what the bench was asked for.
pub fn add_known(row: &mut BenchRow, capacity: Option<Bytes>) {
    let patches = row.patches.iter().filter_map(|id| Patch::from_id(id));
    let patches: Vec<&Patch> = patches.collect();
    let Some(system) = System::from_id(&row.config) else {
        return;
    };
    let spec = RunSpec {
        steps: Some(row.steps),
        sim: SimSpec {
            capacity,
            ..SimSpec::default()
        },
        ..RunSpec::new(system, &patches)
    };
    let beside = Beside::of(&spec, row.result.as_ref());
    row.known = beside.known;
    row.asserted = beside.asserted.map(str::to_owned);
    row.hypothesis = beside.hypothesis;
    if row.hypothesis.is_some() {
        row.status = row.result.take().map(|_| BenchStatus::SourceUnavailable);
        row.spark.clear();
    }
}

fn config(system: &System) -> BenchConfig {
    let ids = |patches: &[&Patch]| {
        let ids = patches.iter().map(|patch| patch.id.to_owned());
        ids.collect::<Vec<String>>()
    };
    let applicable = system.applicable();
    let links = applicable.iter().copied();
    let links: Vec<&Patch> = links.filter(|patch| patch.chain == Chain::Link).collect();
    BenchConfig {
        id: system.id.to_owned(),
        about: system.about.to_owned(),
        base: system.base.label().to_owned(),
        default_steps: system.default_steps,
        capacity: system.capacity,
        inputs: system.spec.inputs(),
        applicable: ids(&applicable),
        combination: ids(system.combination),
        chain: (1..=links.len()).map(|n| ids(&links[..n])).collect(),
        published_only: (system.published_only)(),
    }
}

fn patch(patch: &Patch) -> BenchPatch {
    BenchPatch {
        id: patch.id.to_owned(),
        label: patch.label().to_owned(),
        project: patch.project.to_owned(),
        pr: patch.source.map(|source| source.pr.to_owned()),
        url: patch.source.map(|source| source.url.to_owned()),
        about: patch.about.to_owned(),
        hypothesis: patch.hypothesis().map(str::to_owned),
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

    /// Links, scripts and databases depend on these ids and their order.
    #[test]
    fn the_catalog_is_what_it_was() {
        let catalog = catalog(&BenchSettings::default(), &no_card());
        insta::assert_json_snapshot!(catalog);
    }

    #[test]
    fn a_chain_grows_by_one_applicable_patch_at_a_time() {
        for config in catalog(&BenchSettings::default(), &no_card()).configs {
            let sizes: Vec<usize> = config.chain.iter().map(Vec::len).collect();
            let expected: Vec<usize> = (1..=sizes.len()).collect();
            assert_eq!(sizes, expected, "{}", config.id);
            // A baseline that fails at once has no growth to divide among patches. Neither has a
            // baseline with wrong bytes whose memory is fine.
            let mends_bytes = [
                System::CHUNK_VIEWS,
                System::TRANSPOSED_VIEWS,
                System::AXOLOTL_BNB,
                System::OWN_STREAM,
            ];
            let mends_bytes = mends_bytes.map(|system| system.id);
            let is_empty = mends_bytes.contains(&config.id.as_str());
            assert_eq!(sizes.is_empty(), is_empty, "{}", config.id);
            for set in &config.chain {
                let applies = |id: &String| config.applicable.contains(id);
                assert!(set.iter().all(applies), "{}", config.id);
            }
        }
    }
}
