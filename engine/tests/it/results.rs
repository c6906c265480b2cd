//! The results kept from a real card, against the simulation of today.

use api::bench::BenchResult;
use engine::bench::{RunSpec, outcomes};
use engine::patches::Patch;
use engine::systems::System;
use serde_json::Value;

/// The first day's file, which also holds the copies.
const FIRST: &str = include_str!("../../results/h200-2026-11-20.json");
/// Every configuration for its own number of steps, and rows that the dashboard ran.
const FULL: &str = include_str!("../../results/h200-2026-11-21.json");

fn parsed(file: &str) -> Value {
    serde_json::from_str(file).unwrap()
}

/// All rows of the command line's runs.
fn rows() -> Vec<Value> {
    let mut rows = Vec::new();
    for file in [FIRST, FULL] {
        for run in parsed(file)["runs"].as_array().unwrap() {
            rows.extend(run["table"]["rows"].as_array().unwrap().iter().cloned());
        }
    }
    rows
}

/// What the allocator and the offloader did, and what came of it; time is the card's own.
const DECIDED: [&str; 13] = [
    "corrupted_tensors",
    "steps_run",
    "peak_allocated",
    "peak_reserved",
    "allocated_end",
    "growth_per_step",
    "growth_error",
    "oom_step",
    "tracker_end",
    "bwd_stash_end",
    "host_pinned_end",
    "d2h_bytes",
    "h2d_bytes",
];

fn spec_of(row: &Value) -> RunSpec {
    let system = System::from_id(row["config"].as_str().unwrap()).unwrap();
    let ids = row["patches"].as_array().unwrap();
    let patches: Vec<&'static Patch> = ids
        .iter()
        .map(|id| Patch::from_id(id.as_str().unwrap()).unwrap())
        .collect();
    let ran = row["steps_run"].as_u64().unwrap() as u32;
    let out_of_memory = u32::from(!row["oom_step"].is_null());
    RunSpec {
        steps: Some(ran + out_of_memory),
        ..RunSpec::new(system, &patches)
    }
}

/// Numbers of the row that the simulation gives otherwise: decisions, and the count of wrong
/// tensors, which the card compares and the race detector infers.
fn disagreements(card: &Value, sim: &BenchResult) -> Vec<String> {
    // Written and read like the card's row: reading a float can be off by its last bit.
    let sim: Value = parsed(&serde_json::to_string(sim).unwrap());
    let wrong = DECIDED.iter().filter(|field| card[**field] != sim[**field]);
    wrong
        .map(|field| {
            let (config, patches) = (&card["config"], &card["patches"]);
            format!(
                "{config} {patches} {field}: {} {}",
                card[*field], sim[*field]
            )
        })
        .collect()
}

/// Steps of the longest runs that are simulated again each time; `TIDEMARK_SLOW=1` repeats all.
const QUICK: u64 = 20;

/// The card's run and the simulation take the same decisions, to the byte.
#[test]
fn the_card_and_the_simulation_agree_on_every_allocator_number() {
    let rows = rows();
    assert!(rows.len() > 80, "{} rows", rows.len());
    let slow = std::env::var_os("TIDEMARK_SLOW").is_some();
    let quick = |row: &&Value| {
        let large = row["config"].as_str().unwrap().ends_with("9b");
        slow || !large || row["steps_run"].as_u64().unwrap() <= QUICK
    };
    let rows: Vec<&Value> = rows.iter().filter(quick).collect();
    assert_eq!(simulated_otherwise(&rows), Vec::<String>::new());
}

/// A server's child process on the card takes the same decisions as the command line there.
#[test]
fn rows_that_the_dashboard_ran_agree_too() {
    let file = parsed(FULL);
    let rows = file["dashboard"]["rows"].as_array().unwrap();
    // The request's side of a row names what ran, the result's what came of it.
    let merge = |row: &Value| {
        let mut merged = row["result"].clone();
        merged["config"] = row["config"].clone();
        merged["patches"] = row["patches"].clone();
        merged
    };
    let rows: Vec<Value> = rows.iter().map(merge).collect();
    let rows: Vec<&Value> = rows.iter().collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(simulated_otherwise(&rows), Vec::<String>::new());
    assert_eq!(rows[1]["corrupted_tensors"], 2, "P4's corruption was seen");
}

/// What the simulation of today gives otherwise for the same rows.
fn simulated_otherwise(rows: &[&Value]) -> Vec<String> {
    let specs: Vec<RunSpec> = rows.iter().map(|row| spec_of(row)).collect();
    let simulated = outcomes(&specs);
    let pairs = rows.iter().zip(&simulated);
    pairs
        .flat_map(|(card, sim)| disagreements(card, sim))
        .collect()
}

/// Where the race detector sees unordered reads, the card saw other bytes, and nowhere else.
#[test]
fn the_card_saw_the_corruption_that_the_detector_infers() {
    for row in rows() {
        let hardware = &row["hardware"];
        let seen = hardware["corrupted_tensors"].as_u64().unwrap();
        assert_eq!(row["corrupted_tensors"], seen);
        let racy = row["races"].as_u64().unwrap() > 0;
        let name = format!("{} {}", row["config"], row["patches"]);
        assert_eq!(seen > 0, racy, "{name}");
    }
}

/// design.md §5: the configurations allocate for real, 20 GB and more.
#[test]
fn the_driver_saw_the_memory_that_the_allocator_reserved() {
    let mut most = 0;
    for row in rows() {
        let used = row["hardware"]["peak_used"].as_u64().unwrap();
        let reserved = row["peak_reserved"].as_u64().unwrap();
        assert!(used >= reserved, "{} {}", row["config"], row["patches"]);
        most = most.max(used);
    }
    assert!(most > 20_000_000_000, "{most}");
}

/// design.md §7: the budgets of real copies.
#[test]
fn copies_met_their_budgets_on_the_card() {
    let results = parsed(FIRST);
    for table in results["copies"].as_array().unwrap() {
        for row in table["table"]["rows"].as_array().unwrap() {
            let share = row["share_of_link"].as_f64().unwrap();
            let over = row["over_no_offloading"].as_f64().unwrap();
            match row["offloader"].as_str().unwrap() {
                "v6" => assert!(share >= 0.97, "copy-bound: {row}"),
                "v6_few_copies" => assert!(over <= 0.03, "compute-bound: {row}"),
                _ => {}
            }
            assert_eq!(row["hardware"]["corrupted_tensors"], 0, "{row}");
        }
    }
}
