//! The history of the offloader: every release and every other offloader on every configuration
//! that has one, kept as data. `tests/it/grid.rs` computes it again.

use std::sync::OnceLock;

use api::bench::{GridCell, Offloader, OffloaderGrid};
use serde::Deserialize;

use super::base::Base;
use super::config::Config;
use super::known::known;
use crate::offload::Release;

/// Where the grid is kept.
const FILE: &str = "engine/results/offloaders.json";
const TEXT: &str = include_str!("../../results/offloaders.json");

/// The file: what a command printed, and when.
#[derive(Deserialize)]
struct Kept {
    command: String,
    date: String,
    table: KeptTable,
}

#[derive(Deserialize)]
struct KeptTable {
    rows: Vec<KeptRow>,
}

#[derive(Deserialize)]
struct KeptRow {
    config: String,
    base: String,
    #[serde(flatten)]
    result: api::bench::BenchResult,
}

impl Config {
    /// The configurations that an offloader can be chosen for.
    pub fn with_offloader() -> impl Iterator<Item = Config> {
        let has_one = |config: &Config| !matches!(config.base(), Base::Program(_));
        Config::ALL.into_iter().filter(has_one)
    }
}

/// The grid. Empty where the file cannot be read, which a test rules out.
pub fn offloader_grid() -> &'static OffloaderGrid {
    static GRID: OnceLock<OffloaderGrid> = OnceLock::new();
    GRID.get_or_init(|| {
        let kept = serde_json::from_str::<Kept>(TEXT).unwrap_or_else(|_| Kept {
            command: String::new(),
            date: String::new(),
            table: KeptTable { rows: Vec::new() },
        });
        OffloaderGrid {
            command: kept.command,
            date: kept.date,
            file: FILE.to_owned(),
            offloaders: Base::choices().map(offloader).collect(),
            configs: Config::with_offloader()
                .map(|config| config.id().to_owned())
                .collect(),
            cells: kept.table.rows.into_iter().filter_map(cell).collect(),
        }
    })
}

fn cell(row: KeptRow) -> Option<GridCell> {
    let config = Config::from_id(&row.config)?;
    let base = Base::from_label(&row.base)?;
    Some(GridCell {
        config: row.config,
        offloader: row.base,
        result: row.result,
        known: known(config, base, &[]),
    })
}

fn offloader(base: Base) -> Offloader {
    let about = match base {
        Base::Release(Release::Trl018) => "the first: ported from torchtune (#2954)",
        Base::Release(Release::Trl024) => "#4236: re-armed when the tracker is empty",
        Base::Release(Release::Trl029) => "0.25 to 1.3, #4247: de-duplication",
        Base::Release(Release::Trl14) => "#5694: contiguous copies; #5700: exit clears",
        Base::Release(Release::Trl15) => "1.5 to 1.7, #5730: enter resets",
        Base::Release(Release::Trl18) => "1.8 to 1.13, #6241: keys released",
        Base::Release(Release::Trl114) => "1.14 to 1.16, #7193, #7195: copies before the wait",
        Base::SaveOnCpu => "torch.autograd.graph, pinned: everything saved, one stream",
        Base::HiddenStates => "Unsloth, axolotl: inputs of checkpointed blocks only",
        Base::NoOffloading => "checkpointing alone",
        Base::Program(name) => name,
    };
    Offloader {
        label: base.to_string(),
        about: about.to_owned(),
    }
}
