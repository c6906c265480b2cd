//! `tidemark bench --copies` and `--frontier`: runs offloaders on one stack of blocks, which
//! offloads gigabytes a step.

use super::CliError;
use super::output::{json, print};
use api::bench::{DeviceKind, Frontier};
use engine::bench::{
    CopyRow, CopySpec, CopyTable, FrontierSpec, FrontierTable, run_copies, run_frontiers,
};
use engine::device::Ordinal;
use serde::Serialize;
use std::fmt::Write as _;
use timeline::format::plural;

/// Steps that are timed by default.
const STEPS: u32 = 8;

/// Tokens of a sample by default.
const TOKENS: [u64; 2] = [8192, 32_768];

/// Runs the copy benchmark and prints it.
///
/// # Errors
/// [`CliError::Failed`] without the device.
pub fn copies(
    device: DeviceKind,
    tokens: &[u64],
    steps: Option<u32>,
    as_json: bool,
) -> Result<(), CliError> {
    let spec = CopySpec {
        device,
        tokens: match tokens {
            [] => TOKENS.to_vec(),
            named => named.to_vec(),
        },
        steps: steps.unwrap_or(STEPS),
    };
    let table = run_copies(&spec).map_err(|why| CliError::Failed(why.to_string()))?;
    print(&match as_json {
        true => json(&table),
        false => copies_for_people(&table),
    })
}

/// Runs every point of the frontier and prints them.
///
/// # Errors
/// [`CliError::Failed`] without the device.
pub fn frontier(
    device: DeviceKind,
    devices: u16,
    steps: Option<u32>,
    as_json: bool,
) -> Result<(), CliError> {
    let spec = FrontierSpec {
        device,
        steps: steps.unwrap_or(STEPS),
        ordinal: Ordinal::default(),
    };
    let tables = run_frontiers(&spec, devices).map_err(|why| CliError::Failed(why.to_string()))?;
    let card = || card_for_people(engine::bench::frontier());
    print(&match (as_json, &tables[..]) {
        (true, [table]) => json(table),
        (true, _) => json(&Together { devices: &tables }),
        (false, _) => tables.iter().map(frontier_for_people).collect::<String>() + &card(),
    })
}

/// Tables of devices that ran at the same time.
#[derive(Serialize)]
struct Together<'t> {
    devices: &'t [FrontierTable],
}

/// The stored results of the same points on a card, as text.
fn card_for_people(frontier: &Frontier) -> String {
    let card = &frontier.card;
    let mut text = format!(
        "\nengine on {} ({}, {}: {}; products: {})\n\n  {:<32} {:>8} {:>9}\n",
        card.machine,
        card.file,
        card.date,
        card.command,
        card.compute,
        "offloader",
        "step s",
        "peak",
    );
    for point in &card.points {
        let peak = point.peak_allocated.to_string();
        let _ = write!(
            text,
            "  {:<32} {:>8.3} {peak:>9}",
            point.label, point.step_seconds
        );
        if point.corrupted_tensors > 0 {
            let _ = write!(
                text,
                "  {}",
                plural(point.corrupted_tensors, "wrong tensor")
            );
        }
        text.push('\n');
    }
    text
}

fn frontier_for_people(table: &FrontierTable) -> String {
    let limits = &table.limits;
    let compute = table.compute.as_deref().unwrap_or("simulated");
    let mut text = format!(
        "device {}: {}; rates are in decimal GB\n{}; products: {compute}\nlimits: {:.3} s a step \
         that copies nothing, at a peak of {}; copies at {:.1} GB/s to the host and {:.1} GB/s \
         back\nin use: and freed memory that a copy still reads\n\n  {:<32} {:>8} {:>9} {:>10} \
         {:>9} {:>10} {:>11} {:>10}\n",
        table.device_index.0,
        table.device,
        table.workload,
        limits.compute_seconds,
        limits.peak,
        limits.to_host / 1e9,
        limits.to_device / 1e9,
        "offloader",
        "step s",
        "copies s",
        "peak",
        "in use",
        "reserved",
        "to the host",
        "PyTorch s",
    );
    for point in &table.points {
        let measured = point.measured.map(|measured| measured.step_seconds);
        // Without a timed step it is 0.
        let step = Some(point.step_seconds).filter(|step| *step > 0.0);
        let _ = write!(
            text,
            "  {:<32} {:>8} {:>9.3} {:>10} {:>9} {:>10} {:>11} {:>10}",
            point.label,
            known(step, seconds),
            limits.copy_seconds(point.peak_allocated),
            point.peak_allocated.to_string(),
            point.peak_active.to_string(),
            point.peak_reserved.to_string(),
            point.to_host.to_string(),
            known(measured, seconds),
        );
        if point.corrupted_tensors > 0 {
            let _ = write!(text, "  {} may hold wrong bytes", point.corrupted_tensors);
        }
        if let Some(failure) = &point.failure {
            let _ = write!(text, "  failed: {failure}");
        }
        text.push('\n');
    }
    text
}

fn copies_for_people(table: &CopyTable) -> String {
    let plain = &table.plain;
    let mut text = format!(
        "device: {}; rates are in decimal GB\nplain pinned copies of {} MiB: {:.1} GB/s to the \
         host, {:.1} \
         GB/s to the device\nproducts: {}\n\n  {:>6} {:<26} {:>8} {:>8} {:>13} {:>7} {:>7} {:>8} \
         {:>9}\n",
        table.device,
        plain.copy_bytes.0 >> 20,
        plain.to_host / 1e9,
        plain.to_device / 1e9,
        table.compute,
        "tokens",
        "offloader",
        "step s",
        "peak",
        "offloaded",
        "GB/s",
        "of link",
        "over none",
        "PyTorch s",
    );
    for row in &table.rows {
        let _ = writeln!(text, "{}", copy_line(row));
    }
    text
}

/// A number in words, or a dash if nobody knows it.
fn known(number: Option<f64>, words: impl Fn(f64) -> String) -> String {
    number.map_or_else(|| "–".to_owned(), words)
}

fn seconds(time: f64) -> String {
    format!("{time:.3}")
}

fn copy_line(row: &CopyRow) -> String {
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    let mut line = format!(
        "  {:>6} {:<26} {:>8} {:>8} {:>13} {:>7} {:>7} {:>9} {:>9}",
        row.tokens,
        row.offloader.title(),
        known(row.step_seconds, seconds),
        row.peak_allocated.to_string(),
        row.offloaded_bytes.to_string(),
        known(row.rate, |rate| format!("{:.1}", rate / 1e9)),
        known(row.share_of_link, percent),
        known(row.over_no_offloading, percent),
        known(row.measured.map(|measured| measured.step_seconds), seconds),
    );
    if let Some(hardware) = row.hardware {
        let _ = write!(
            line,
            "  {} of {} corrupted",
            hardware.corrupted_tensors,
            plural(hardware.verified_tensors, "restored tensor")
        );
    }
    if let Some(failure) = &row.failure {
        let _ = write!(line, "  failed: {failure}");
    }
    line
}
