//! `tidemark bench`: configurations × patches on the engine.

use super::CliError;
use clap::Args;
use engine::bench::{Config, Patch, Row, RunSpec, Table, run_all};
use engine::device::sim::SimSpec;
use std::fmt::Write as _;
use std::io::Write as _;

const EXAMPLES: &str = "\
Examples:
  tidemark bench vl-qwen3.5-9b --patches all
  tidemark bench text-qwen3.5-9b --patches baseline,p3,p3+p4+enter-reset --steps 20
  tidemark bench vl-qwen3.5-9b --capacity 24GB --json

Configurations: vl-qwen3.5-9b text-qwen3.5-9b moe-gemma4-26b qlora-bnb-9b
                fast-llm-qwen2.5-7b te-fused-attention-fp8 dedupe-reuse";

/// Options of `tidemark bench`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    /// Configurations; `all` for every one
    #[arg(required = true, value_name = "CONFIG")]
    configs: Vec<String>,
    /// Sets of patches, a row each: `baseline`, ids (p3 is short for p3-exit-sync-and-clear),
    /// several joined by `+`; `all` for the baseline, each applicable patch and the published
    /// combination
    #[arg(long, value_delimiter = ',', default_value = "all")]
    patches: Vec<String>,
    /// Where to run: the simulated device
    #[arg(long, default_value = "sim", value_parser = ["sim"])]
    device: String,
    /// Steps; else the configuration's own number
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: Option<u32>,
    /// Device memory, such as 24GB or 16GiB; else the configuration's own, if it has one
    #[arg(long, value_parser = capacity)]
    capacity: Option<u64>,
    /// Print one JSON document: {"device", "rows": [...]}, sizes in bytes
    #[arg(long)]
    json: bool,
}

/// Runs the rows and prints the table.
///
/// # Errors
/// [`CliError::Usage`] for a name that does not exist.
pub fn bench(args: &BenchArgs) -> Result<(), CliError> {
    let sim = SimSpec {
        capacity: args.capacity,
        ..SimSpec::default()
    };
    let mut specs = Vec::new();
    // The status of a row is judged by its baseline, which runs even when nobody asked for it.
    let mut unasked = Vec::new();
    for config in configs(&args.configs)? {
        let mut sets = sets(config, &args.patches)?;
        if !sets.contains(&Vec::new()) {
            unasked.push(config.id());
            sets.insert(0, Vec::new());
        }
        specs.extend(sets.iter().map(|patches| RunSpec {
            steps: args.steps,
            sim,
            ..RunSpec::new(config, patches)
        }));
    }
    let asked = |row: &Row| !row.patches.is_empty() || !unasked.contains(&row.config);
    let table = Table {
        device: args.device.clone(),
        rows: run_all(&specs).into_iter().filter(asked).collect(),
    };
    let text = match args.json {
        true => serde_json::to_string_pretty(&table).expect("a table is plain data") + "\n",
        false => for_people(&table),
    };
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|why| CliError::Failed(format!("cannot write the table: {why}")))
}

fn configs(names: &[String]) -> Result<Vec<Config>, CliError> {
    if names.iter().any(|name| name == "all") {
        return Ok(Config::ALL.to_vec());
    }
    let config = |name: &String| {
        Config::from_id(name).ok_or_else(|| {
            CliError::Usage(format!(
                "there is no configuration `{name}`; see `tidemark bench --help`"
            ))
        })
    };
    names.iter().map(config).collect()
}

fn sets(config: Config, names: &[String]) -> Result<Vec<Vec<Patch>>, CliError> {
    if names.iter().any(|name| name == "all") {
        return Ok(config.matrix());
    }
    names.iter().map(|set| one_set(config, set)).collect()
}

fn one_set(config: Config, set: &str) -> Result<Vec<Patch>, CliError> {
    if set == "baseline" {
        return Ok(Vec::new());
    }
    let patch = |name: &str| {
        let short = |patch: &Patch| patch.id().split('-').next() == Some(name);
        let found =
            Patch::from_id(name).or_else(|| Patch::ALL.iter().copied().find(|patch| short(patch)));
        match found {
            Some(patch) if config.applicable().contains(&patch) => Ok(patch),
            Some(patch) => Err(CliError::Usage(format!(
                "`{}` does not apply to `{}`",
                patch.id(),
                config.id()
            ))),
            None => Err(CliError::Usage(format!("there is no patch `{name}`"))),
        }
    };
    set.split('+').map(patch).collect()
}

/// `24GB` is decimal, `24GiB` binary, a bare number bytes.
fn capacity(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 4] = [
        ("GiB", (1_u64 << 30) as f64),
        ("MiB", (1_u64 << 20) as f64),
        ("GB", 1e9),
        ("MB", 1e6),
    ];
    let unit = UNITS.iter().find(|(name, _)| text.ends_with(name));
    let (number, factor) = match unit {
        Some((name, factor)) => (text.trim_end_matches(name), *factor),
        None => (text, 1.0),
    };
    match number.trim().parse::<f64>() {
        Ok(n) if n > 0.0 && n.is_finite() => Ok((n * factor) as u64),
        _ => Err("expected a size such as 24GB or 16GiB".to_owned()),
    }
}

/// Decimal gigabytes, as the published table has them.
fn for_people(table: &Table) -> String {
    let mut text = format!(
        "device: {} (computed; published and measured beside)\n",
        table.device
    );
    let mut config = "";
    for row in &table.rows {
        if row.config != config {
            config = row.config;
            let _ = writeln!(
                text,
                "\n{config} (base {}), GB and MB are decimal\n  {:<44} {:>9} {:>12} {:>9} {:>9}  \
                 status",
                row.base, "patches", "peak GB", "MB a step", "published", "measured"
            );
        }
        let _ = writeln!(text, "{}", line(row));
    }
    text
}

fn line(row: &Row) -> String {
    let known = |known: &Option<engine::bench::Known>| match known.and_then(|k| k.peak_allocated) {
        Some(bytes) => format!("{:.3}", bytes as f64 / 1e9),
        None => "–".to_owned(),
    };
    let patches: Vec<&str> = row.patches.iter().map(|patch| patch.id()).collect();
    let patches = match patches.is_empty() {
        true => "baseline".to_owned(),
        false => patches.join(" + "),
    };
    let mut text = format!(
        "  {patches:<44} {:>9.3} {:>12.1} {:>9} {:>9}  {}",
        row.peak_allocated as f64 / 1e9,
        row.growth_per_step / 1e6,
        known(&row.published),
        known(&row.measured),
        status(row),
    );
    if let Some(hypothesis) = row.hypothesis {
        let _ = write!(text, " [hypothesis: {hypothesis}]");
    }
    text
}

/// The status word, as JSON has it, and what ended the run.
fn status(row: &Row) -> String {
    let word = serde_json::to_value(row.status).expect("a status is a word");
    let word = word.as_str().unwrap_or_default();
    match (row.oom_step, &row.crash) {
        (Some(step), _) => format!("{word} at step {step}"),
        (None, Some(crash)) => format!("{word}: {crash}"),
        (None, None) => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_decimal_or_binary() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(capacity(text).ok(), expected, "{text}");
        };
        check("24GB", Some(24_000_000_000));
        check("1GiB", Some(1 << 30));
        check("512", Some(512));
        check("-1GB", None);
        check("much", None);
    }

    #[test]
    fn patches_are_named_in_full_or_by_number() {
        let check = |set: &str, expected: usize| {
            let patches = one_set(Config::VlQwen, set);
            assert_eq!(
                patches.map(|p| p.len()).unwrap_or(usize::MAX),
                expected,
                "{set}"
            );
        };
        check("baseline", 0);
        check("p3", 1);
        check("p3-exit-sync-and-clear+enter-reset", 2);
        check("p9", usize::MAX);
        check("loss-detach", usize::MAX);
    }
}
