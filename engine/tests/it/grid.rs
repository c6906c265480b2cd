//! Compares the stored grid of offloaders with the simulation of today, and with what is known
//! about the real software.

use api::bench::{GridCell, Trouble};
use engine::bench::{RunSpec, offloader_grid, outcomes};
use engine::systems::{Base, System};

/// For the longest rows, this many steps are simulated each time; `TIDEMARK_SLOW=1` repeats all.
const QUICK: u32 = 20;

fn spec(cell: &GridCell) -> RunSpec {
    RunSpec {
        base: Base::from_label(&cell.offloader).expect("the column is an offloader"),
        ..RunSpec::new(System::from_id(&cell.config).expect("the row is one"), &[])
    }
}

fn troubles(config: &str, offloader: &str) -> Vec<Trouble> {
    let cell = offloader_grid().cell(config, offloader);
    Trouble::of(&cell.expect("every pair was computed").result)
}

#[test]
fn every_pair_is_there_and_says_where_it_is_from() {
    let grid = offloader_grid();
    assert_eq!(grid.cells.len(), grid.offloaders.len() * grid.configs.len());
    assert!(grid.configs.len() >= 6 && grid.offloaders.len() >= 10);
    for config in &grid.configs {
        for offloader in &grid.offloaders {
            assert!(grid.cell(config, &offloader.label).is_some());
        }
    }
    assert!(grid.command.starts_with("tidemark bench ") && !grid.date.is_empty());
}

/// The stored numbers are those of today.
#[test]
fn the_kept_numbers_are_computed_again() {
    let slow = std::env::var_os("TIDEMARK_SLOW").is_some();
    let quick = |cell: &&GridCell| slow || spec(cell).system.default_steps < QUICK;
    let cells: Vec<&GridCell> = offloader_grid().cells.iter().filter(quick).collect();
    assert!(cells.len() >= 20, "{}", cells.len());
    let specs: Vec<RunSpec> = cells.iter().map(|cell| spec(cell)).collect();
    for (cell, now) in cells.iter().zip(outcomes(&specs)) {
        // Written and read like the stored row, because reading a float can change its last bit.
        let now: api::bench::BenchResult =
            serde_json::from_str(&serde_json::to_string(&now).unwrap()).unwrap();
        assert_eq!(cell.result, now, "{} {}", cell.config, cell.offloader);
    }
}

/// Where the real software was measured, the computed peak differs by 2 % at most. If the loss of a
/// run diverged, the row says that it has wrong bytes.
#[test]
fn the_grid_agrees_with_what_was_measured() {
    let mut compared = 0;
    for cell in &offloader_grid().cells {
        let Some(measured) = &cell.known.measured else {
            continue;
        };
        let name = format!("{} {}", cell.config, cell.offloader);
        if let Some(peak) = measured.peak_allocated {
            let ratio = cell.result.peak_allocated.0 as f64 / peak.0 as f64;
            assert!((0.98..1.02).contains(&ratio), "{name}: {ratio}");
            compared += 1;
        }
        if let Some(losses) = measured.losses {
            let diverged = losses.last > 2.0 * losses.first;
            let corrupts = Trouble::of(&cell.result).contains(&Trouble::Corrupts);
            assert!(corrupts || !diverged, "{name}");
        }
    }
    assert!(compared >= 9, "{compared}");
}

/// `save_on_cpu` gathers each transposed weight before its copy. Reserved memory shows it: without
/// that it would be 1.6 % too low (docs/measurements.md, "The 9B program").
#[test]
fn memory_that_save_on_cpu_reserves_is_that_of_the_real_one() {
    let cell = offloader_grid().cell("vl-qwen3.5-9b", "save_on_cpu");
    let computed = cell.unwrap().result.peak_reserved.0 as f64;
    let ratio = computed / 13.749e9;
    assert!((0.995..1.005).contains(&ratio), "{ratio}");
}

/// The statements of docs/measurements.md, in words.
#[test]
fn the_history_is_told_as_it_was() {
    use Trouble::{Corrupts, Crashes, Leaks, LeaksOnHost};
    let check = |config: &str, offloader: &str, expected: &[Trouble]| {
        assert_eq!(
            troubles(config, offloader),
            expected,
            "{config} {offloader}"
        );
    };
    let vision = "vl-qwen3.5-9b";
    check(vision, "trl-0.18", &[Crashes]);
    check(vision, "trl-0.29", &[Leaks, LeaksOnHost]);
    check(vision, "trl-1.4", &[Corrupts, Leaks, LeaksOnHost]);
    check(vision, "trl-1.5", &[Corrupts]);
    check(vision, "trl-1.8", &[Corrupts]);
    for offloader in ["trl-1.14", "save_on_cpu", "hidden-states", "none"] {
        check(vision, offloader, &[]);
        check("chunk-views", offloader, &[]);
    }
    check("chunk-views", "trl-0.29", &[Crashes]);
    check("chunk-views", "trl-1.5", &[Corrupts]);
    check("moe-gemma4-26b", "trl-0.24", &[LeaksOnHost]);
    check("moe-gemma4-26b", "trl-1.5", &[]);
}
