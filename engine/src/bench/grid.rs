//! The history of the offloader: every release and every other offloader, on every configuration
//! that has an offloader. It is kept as data, and `tests/it/grid.rs` computes it again.

use std::sync::OnceLock;

use api::bench::{GridCell, Offloader, OffloaderGrid};
use serde::Deserialize;

use super::known::known;
use crate::systems::{Base, System};

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

/// The grid. Empty if the file cannot be read; a test makes sure that it can.
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
            configs: System::with_offloader()
                .map(|system| system.id.to_owned())
                .collect(),
            cells: kept.table.rows.into_iter().filter_map(cell).collect(),
        }
    })
}

fn cell(row: KeptRow) -> Option<GridCell> {
    let system = System::from_id(&row.config)?;
    let base = Base::from_label(&row.base)?;
    Some(GridCell {
        config: row.config,
        offloader: row.base,
        result: row.result,
        known: known(system, base, &[]),
    })
}

fn offloader(base: Base) -> Offloader {
    Offloader {
        label: base.label().to_owned(),
        about: base.about().to_owned(),
    }
}
