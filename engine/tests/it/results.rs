//! Compares the stored results of a real card with the simulation of today.

use api::bench::BenchResult;
use engine::bench::{RunSpec, outcomes, run};
use engine::patches::Patch;
use engine::session::{Limits, Share};
use engine::systems::{Base, System};
use serde_json::Value;
use trace::growth::Line;

/// The file of the first day, which also has the copies.
const FIRST: &str = include_str!("../../results/h200-2026-11-20.json");
/// Every configuration with its own number of steps, and rows that were run from the dashboard.
const FULL: &str = include_str!("../../results/h200-2026-11-21.json");
/// Patches that were new on that day.
const PATCHES: &str = include_str!("../../results/h200-2026-11-22.json");

/// Rows with products by cuBLASLt, on one card and on two cards at the same time.
const PRODUCTS: &str = include_str!("../../results/h200-2026-11-23.json");
/// Every offloader again, with products by cuBLASLt.
const OFFLOADERS: &str = include_str!("../../results/h200-2026-11-26.json");
/// What changed when weights of linear layers moved.
const WEIGHTS: &str = include_str!("../../results/h200-2026-11-28.json");

fn parsed(file: &str) -> Value {
    serde_json::from_str(file).unwrap()
}

/// All rows of the command line's runs.
fn rows() -> Vec<Value> {
    let mut rows = Vec::new();
    for file in [FIRST, FULL, PATCHES, PRODUCTS, OFFLOADERS, WEIGHTS].map(parsed) {
        rows.extend(rows_of(&file));
        rows.extend(rows_of(&file["fractions"]));
    }
    rows
}

/// The rows of all runs; empty if there are no runs.
fn rows_of(file: &Value) -> impl Iterator<Item = Value> {
    let runs = file["runs"].as_array().into_iter().flatten();
    let rows = runs.flat_map(|run| run["table"]["rows"].as_array().unwrap());
    rows.cloned().collect::<Vec<_>>().into_iter()
}

/// What the allocator and the offloader decided, and the results of that; time is the card's own.
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

/// What the card's checksums found.
const SEEN: &str = "wrong bytes on the card";

/// Systems with small copies: most copies end before their source is overwritten. The simulation
/// counts every tensor that a race can change, so the card may see fewer.
const WON_RACES: [&str; 2] = ["chunk-views", "own-stream"];

fn spec_of(row: &Value) -> RunSpec {
    let system = System::from_id(row["config"].as_str().unwrap()).unwrap();
    let ids = row["patches"].as_array().unwrap();
    let patches: Vec<&'static Patch> = ids
        .iter()
        .map(|id| Patch::from_id(id.as_str().unwrap()).unwrap())
        .collect();
    let ran = row["steps_run"].as_u64().unwrap() as u32;
    let ended_early = !row["oom_step"].is_null() || !row["crash"].is_null();
    let spec = RunSpec {
        steps: Some(ran + u32::from(ended_early)),
        ..RunSpec::new(system, &patches)
    };
    let base = row["base"].as_str().unwrap_or(system.base.label());
    // Rows of the first days have a release with an old name, or a program with an older name.
    if base.ends_with(')') || matches!(system.base, Base::Program(_)) {
        return spec;
    }
    let on = spec.on(base);
    on.unwrap_or_else(|| panic!("{base} is the name of a base"))
}

/// What a row says about its base, with limits, is enough to make the same run.
#[test]
fn bases_read_back_with_their_limits() {
    let mut limits = vec![Limits::NONE];
    for percent in [0, 1, 50, 99, 100] {
        for in_flight in [None, Some(0), Some(1), Some(17)] {
            let share = Share::percent(percent).unwrap();
            limits.push(Limits { share, in_flight });
        }
    }
    for system in System::ALL {
        for base in Base::choices().chain([Base::MsSwift, system.base]) {
            for &limits in &limits {
                let plain = RunSpec::new(system, &[]);
                // Only this base has limits.
                let limits = match base {
                    Base::MegatronLm => limits,
                    _ => Limits::NONE,
                };
                let spec = RunSpec {
                    base,
                    limits,
                    ..plain.clone()
                };
                let words = spec.base_in_words();
                assert_eq!(plain.on(&words), Some(spec), "{words}");
            }
        }
    }
}

#[test]
fn what_no_row_says_of_its_base_is_no_base() {
    let check = |words: &str| {
        let spec = RunSpec::new(System::VL_QWEN, &[]);
        assert_eq!(spec.on(words), None, "{words}");
    };
    check("megatron-lm, 101 % of modules");
    check("megatron-lm, 050 % of modules");
    check("megatron-lm, 100 % of modules");
    check("megatron-lm, 1 in flight");
    check("megatron-lm, 50 % of modules, 1 in flight, 2 in flight");
    check("megatron-lm, half of the modules");
    check("save_on_cpu, 50 % of modules");
    check("trl-0.29.0 (V2)");
    check("");
}

/// In runs of so many steps or more, the stored rows left out as many first steps from their line
/// as it is the rule today (`trace::growth`).
const SAME_FIT: u64 = 17;

/// The growth of a row and its standard error, from the simulation's steps of today, by the rule of
/// the day when the row was stored: a short run had its line through all steps.
fn fitted_then(card: &Value) -> (Value, Value) {
    let mut ends = Vec::new();
    let ran = run(&spec_of(card), &mut |step| {
        ends.push(step.allocated.0);
        true
    });
    ends.truncate(ran.steps_run as usize);
    let from = if ends.len() > 10 { 5 } else { 0 };
    let line = Line::fit(&ends[from..]);
    let (slope, error) = line.map_or((0.0, 0.0), |line| {
        (line.slope, line.standard_error.unwrap_or(0.0))
    });
    (read_again(slope), read_again(error))
}

/// A number as it is once it was written and read: reading a float can change its last bit.
fn read_again(number: f64) -> Value {
    parsed(&serde_json::to_string(&number).unwrap())
}

/// Numbers of the row that differ in the simulation: decisions, and what only the card can know
/// (how many restored tensors had other bytes, and how much memory the driver gave out).
fn disagreements(card: &Value, sim: &BenchResult) -> Vec<String> {
    // Written and read like the card's row, because reading a float can change its last bit.
    let mut sim: Value = parsed(&serde_json::to_string(sim).unwrap());
    if sim["steps_run"].as_u64().unwrap() < SAME_FIT {
        (sim["growth_per_step"], sim["growth_error"]) = fitted_then(card);
    }
    let config = card["config"].as_str().unwrap();
    let of_field = |field: &str| (field.to_owned(), &card[field], &sim[field]);
    let mut pairs: Vec<_> = DECIDED.iter().map(|field| of_field(field)).collect();
    // The name in the first files.
    let hardware = card.get("card").unwrap_or(&card["hardware"]);
    let seen = &hardware["corrupted_tensors"];
    if !seen.is_null() {
        pairs.push((SEEN.to_owned(), seen, &sim["corrupted_tensors"]));
    }
    let is_shown = |seen: &Value, possible: &Value| match WON_RACES.contains(&config) {
        true => seen.as_u64() <= possible.as_u64(),
        false => seen == possible,
    };
    pairs.retain(|(field, card, sim)| match field.as_str() {
        "corrupted_tensors" | SEEN => !is_shown(card, sim),
        _ => card != sim,
    });
    let row = format!("{} {}", card["config"], card["patches"]);
    let told = pairs.into_iter();
    let mut told: Vec<String> = told
        .map(|(field, card, sim)| format!("{row} {field}: {card} {sim}"))
        .collect();
    let used = hardware["peak_used"].as_u64();
    let reserved = sim["peak_reserved"].as_u64().unwrap();
    if used.is_some_and(|used| used < reserved) {
        told.push(format!("{row}: the driver gave out {used:?} of {reserved}"));
    }
    told
}

/// For the longest runs, this many steps are simulated each time; `TIDEMARK_SLOW=1` repeats all.
const QUICK: u64 = 20;

/// The card's run and the simulation make the same decisions, to the byte. For the allocator's
/// numbers this is mostly so by design, because on a card the simulation decides addresses and the
/// order of events. But only the card says which tensors had other bytes, and how much memory the
/// driver gave out.
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

/// On two cards at the same time, each row has the number of its card, and pinned memory is the
/// sum.
#[test]
fn two_cards_took_of_the_host_what_both_took() {
    let file = parsed(PRODUCTS);
    let runs = file["runs"].as_array().unwrap();
    let of_two: Vec<&Value> = runs
        .iter()
        .map(|run| &run["table"])
        .filter(|table| !table["hosts"].is_null())
        .collect();
    assert_eq!(of_two.len(), 1);
    let rows = of_two[0]["rows"].as_array().unwrap();
    let numbers: Vec<_> = rows
        .iter()
        .map(|row| row["device_index"].as_u64())
        .collect();
    assert_eq!(numbers, [Some(0), Some(1), Some(0), Some(1)]);
    for host in of_two[0]["hosts"].as_array().unwrap() {
        let of_host = rows.iter().filter(|row| row["patches"] == host["patches"]);
        let pinned = of_host.map(|row| row["host_pinned_peak"].as_u64().unwrap());
        assert_eq!(host["host_pinned_peak"], pinned.sum::<u64>());
    }
    for row in rows {
        let device = row["device"].as_str().unwrap();
        assert!(device.contains("cublasLt 13.1.0 bf16 (97.2 %"), "{device}");
    }
}

/// A server's child process on the card makes the same decisions as the command line there.
#[test]
fn rows_that_the_dashboard_ran_agree_too() {
    let file = parsed(FULL);
    let rows = file["dashboard"]["rows"].as_array().unwrap();
    // The request in a row names what ran; the result says what came of it.
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

/// The numbers that differ in the simulation of today for the same rows.
fn simulated_otherwise(rows: &[&Value]) -> Vec<String> {
    let specs: Vec<RunSpec> = rows.iter().map(|row| spec_of(row)).collect();
    let simulated = outcomes(&specs);
    let pairs = rows.iter().zip(&simulated);
    pairs
        .flat_map(|(card, sim)| disagreements(card, sim))
        .collect()
}
