//! The results kept from a real card, against the simulation of today.

use engine::bench::{Config, Patch, Row, RunSpec, run_all};
use serde_json::Value;

const H200: &str = include_str!("../../results/h200-2026-11-20.json");

fn results() -> Value {
    serde_json::from_str(H200).unwrap()
}

/// What the allocator and the offloader did; time and contents are the card's own.
const DECIDED: [&str; 12] = [
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
    let config = Config::from_id(row["config"].as_str().unwrap()).unwrap();
    let ids = row["patches"].as_array().unwrap();
    let patches: Vec<Patch> = ids
        .iter()
        .map(|id| Patch::from_id(id.as_str().unwrap()).unwrap())
        .collect();
    let ran = row["steps_run"].as_u64().unwrap() as u32;
    let out_of_memory = u32::from(!row["oom_step"].is_null());
    RunSpec {
        steps: Some(ran + out_of_memory),
        ..RunSpec::new(config, &patches)
    }
}

fn disagreements(card: &Value, sim: &Row) -> Vec<String> {
    let sim = serde_json::to_value(sim).unwrap();
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
    let results = results();
    let runs = results["runs"].as_array().unwrap();
    let rows: Vec<&Value> = runs
        .iter()
        .flat_map(|run| run["table"]["rows"].as_array().unwrap())
        .collect();
    assert!(rows.len() > 40, "{} rows", rows.len());
    let slow = std::env::var_os("TIDEMARK_SLOW").is_some();
    let quick = |row: &&Value| {
        let large = row["config"].as_str().unwrap().ends_with("9b");
        slow || !large || row["steps_run"].as_u64().unwrap() <= QUICK
    };
    let rows: Vec<&Value> = rows.into_iter().filter(quick).collect();
    let specs: Vec<RunSpec> = rows.iter().map(|row| spec_of(row)).collect();
    let simulated = run_all(&specs);
    let wrong: Vec<String> = rows
        .iter()
        .zip(&simulated)
        .flat_map(|(card, sim)| disagreements(card, sim))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

/// Where the race detector sees unordered reads, the card saw other bytes, and nowhere else.
#[test]
fn the_card_saw_the_corruption_that_the_detector_infers() {
    let results = results();
    for run in results["runs"].as_array().unwrap() {
        for row in run["table"]["rows"].as_array().unwrap() {
            let hardware = &row["hardware"];
            let seen = hardware["corrupted_tensors"].as_u64().unwrap();
            assert_eq!(row["corrupted_tensors"], seen);
            let racy = row["races"].as_u64().unwrap() > 0;
            let name = format!("{} {}", row["config"], row["patches"]);
            assert_eq!(seen > 0, racy, "{name}");
        }
    }
}

/// design.md §5: the configurations allocate for real, 20 GB and more.
#[test]
fn the_driver_saw_the_memory_that_the_allocator_reserved() {
    let results = results();
    let mut most = 0;
    for run in results["runs"].as_array().unwrap() {
        for row in run["table"]["rows"].as_array().unwrap() {
            let used = row["hardware"]["peak_used"].as_u64().unwrap();
            let reserved = row["peak_reserved"].as_u64().unwrap();
            assert!(used >= reserved, "{} {}", row["config"], row["patches"]);
            most = most.max(used);
        }
    }
    assert!(most > 20_000_000_000, "{most}");
}

/// design.md §7: the budgets of real copies.
#[test]
fn copies_met_their_budgets_on_the_card() {
    let results = results();
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
