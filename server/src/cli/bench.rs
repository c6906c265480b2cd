//! `tidemark bench`: configurations × patches on the engine.

use super::bench_choice::{Bases, base_help, bases, bases_called, configs, sets};
use super::number::from_to;
use super::output::{json, print, tell};
use super::{CliError, bench_stack};
use api::bench::{BenchResult, DeviceKind, Evidence, shows_growth};
use clap::{Args, ValueEnum};
use engine::bench::{CopyStream, Row, RunSpec, Table, hosts, on_devices, run_all};
use engine::device::Ordinal;
use engine::device::cuda::{self, Addresses};
use engine::device::sim::SimSpec;
use engine::patches::Patch;
use engine::session::{Limits, Share};
use engine::systems::{Base, System};
use std::fmt::Write as _;
use timeline::format::plural;
use trace::units::{Bytes, size};

const EXAMPLES: &str = "\
Examples:
  tidemark bench vl-qwen3.5-9b --patches all
  tidemark bench text-qwen3.5-9b --patches baseline,p3,p3+p4+enter-reset --steps 20
  tidemark bench vl-qwen3.5-9b --patches baseline --base trl-0.29,trl-1.14,none
  tidemark bench vl-qwen3.5-9b --capacity 24GB --json
  tidemark bench vl-qwen3.5-9b --patches all --device cuda
  tidemark bench chunk-views --patches baseline --base megatron-lm --fraction 50 --in-flight 1
  tidemark bench vl-qwen3.5-9b --patches baseline --device cuda --devices all
  tidemark bench --copies --device cuda      how near copies come to the limit of the link
  tidemark bench --frontier                  peak against step time, for every offloader

On the simulated device nothing is allocated and time is virtual. On a CUDA card (the first one,
unless --devices says more) segments, copies and kernels are real, and every restored tensor's
checksum is compared with what was packed. No toolkit is needed, only the driver; products of bf16
matrices are those of cuBLASLt where its library is found, and the output says so.

Exit status: 0 when the table was printed, whose rows say how each of them ended, 2 when an option
is wrong, otherwise 1.

";

/// Ids on one line of the help.
const IDS_A_LINE: usize = 4;

/// The examples, and the ids of all configurations and patches.
fn after_help() -> String {
    let systems: Vec<&str> = System::ALL.iter().map(|system| system.id).collect();
    let patches = Patch::ALL.map(|patch| patch.id);
    [
        EXAMPLES,
        &listed("Configurations: ", &systems),
        "\n",
        &listed("Patches: ", &patches),
    ]
    .concat()
}

fn listed(title: &str, ids: &[&str]) -> String {
    let lines: Vec<String> = ids.chunks(IDS_A_LINE).map(|ids| ids.join(" ")).collect();
    let indent = format!("\n{}", " ".repeat(title.len()));
    title.to_owned() + &lines.join(&indent)
}

/// Options of `tidemark bench`.
#[derive(Args)]
#[command(after_help = after_help())]
pub struct BenchArgs {
    /// Configurations; `all` for every one
    #[arg(required_unless_present_any = ["copies", "frontier"], value_name = "CONFIG")]
    configs: Vec<String>,
    /// Sets of patches, a row each: `baseline`, ids (p3 is short for p3-exit-sync-and-clear),
    /// several joined by `+`; `all`: the baseline, each patch that applies, and the published
    /// combination. What the base already contains is left out
    #[arg(long, value_delimiter = ',', default_value = "all")]
    patches: Vec<String>,
    #[arg(long, value_delimiter = ',', value_parser = bases_called, value_name = "RELEASE",
          help = base_help())]
    base: Vec<Bases>,
    /// Copy on the stream that computes (`use_streams=False`)
    #[arg(long)]
    no_streams: bool,
    /// Percent of the modules that Megatron-LM's offloader moves (`--base megatron-lm`)
    /// [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = from_to(0_u8, 100))]
    fraction: Option<u8>,
    /// Modules of one name whose copies may be under way before the stream that computes waits
    /// (`--base megatron-lm`); else it never waits
    #[arg(long, value_name = "COPIES", value_parser = from_to(0, u32::MAX))]
    in_flight: Option<u32>,
    /// Where to run: the simulated device, or a CUDA card
    #[arg(long, value_enum, default_value_t = On::Sim)]
    device: On,
    /// Devices of the host that run every row at the same time: a number, or `all` cards. Pinned
    /// host memory is summed over them
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = devices_called,
          conflicts_with = "copies")]
    devices: Devices,
    /// Addresses that decide on a card: those of the simulation, so that the run can be compared
    /// with it to the byte, or the driver's own [default: simulated]
    #[arg(long, value_enum)]
    addresses: Option<Decided>,
    /// Measure copies instead: a stack that offloads gigabytes a step, against plain copies
    #[arg(long, conflicts_with_all = ["configs", "patches", "base", "no_streams", "capacity",
                                      "addresses"])]
    copies: bool,
    /// Peak of memory against step time instead: every offloader, and fractions, on one stack
    #[arg(long, conflicts_with_all = ["configs", "patches", "base", "no_streams", "capacity",
                                      "addresses", "copies"])]
    frontier: bool,
    /// Tokens of a sample of the copy benchmark [default: 8192,32768]
    #[arg(long, value_delimiter = ',', value_parser = from_to(1_u64, 1 << 20))]
    tokens: Vec<u64>,
    /// Steps; else the configuration's own number
    #[arg(long, value_parser = from_to(1_u32, 100_000))]
    steps: Option<u32>,
    /// Device memory, such as 24GB or 16GiB; else the configuration's own, if it has one
    #[arg(long, value_name = "SIZE", value_parser = capacity_called)]
    capacity: Option<Bytes>,
    /// Print one JSON document, sizes in bytes: {"device", "rows": [...]}; with --copies
    /// {"device", "compute", "plain", "rows"}, with --frontier {"device", "workload", "points", …}
    #[arg(long)]
    json: bool,
}

fn capacity_called(word: &str) -> Result<Bytes, String> {
    let capacity: Bytes = word.parse().map_err(|why| format!("{why}"))?;
    match RunSpec::CAPACITY.contains(&capacity) {
        true => Ok(capacity),
        false => Err("a device has 16 MiB to 16 TiB".to_owned()),
    }
}

impl BenchArgs {
    fn limits(&self) -> Limits {
        Limits {
            share: self.fraction.and_then(Share::percent).unwrap_or(Share::ALL),
            in_flight: self.in_flight,
        }
    }

    /// A row on the first device.
    fn spec(&self, system: &'static System, base: Base, patches: &[&'static Patch]) -> RunSpec {
        RunSpec {
            base,
            copies: match self.no_streams {
                true => CopyStream::Compute,
                false => CopyStream::Side,
            },
            limits: self.limits(),
            steps: self.steps,
            sim: SimSpec {
                capacity: self.capacity,
                ..SimSpec::default()
            },
            device: self.device.kind(),
            addresses: self
                .addresses
                .map_or(Addresses::Simulated, Decided::addresses),
            ..RunSpec::new(system, patches)
        }
    }
}

/// How many devices of the host are to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Devices {
    All,
    Count(u16),
}

fn devices_called(word: &str) -> Result<Devices, String> {
    match word.parse() {
        Ok(count @ 1..=64) => Ok(Devices::Count(count)),
        _ if word == "all" => Ok(Devices::All),
        _ => Err("expected a number from 1 to 64, or all".to_owned()),
    }
}

impl Devices {
    /// The number, which is no more than there are cards.
    ///
    /// # Errors
    /// Where there are fewer, or no end of simulated ones is asked for.
    fn count(self, on: On) -> Result<u16, CliError> {
        let there = match on {
            On::Sim => None,
            On::Cuda => Some(cuda::count().map_err(|why| CliError::Failed(why.to_string()))?),
        };
        match (self, there) {
            (Devices::Count(count), None) => Ok(count),
            (Devices::All, Some(there)) => Ok(there),
            (Devices::Count(count), Some(there)) if count <= there => Ok(count),
            (Devices::Count(count), Some(there)) => Err(CliError::Failed(format!(
                "{count} devices were asked for, and this machine has {there}"
            ))),
            (Devices::All, None) => Err(CliError::Usage(
                "there are as many simulated devices as you like: give --devices a number"
                    .to_owned(),
            )),
        }
    }
}

/// The devices under their names on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    Sim,
    Cuda,
}

impl On {
    fn kind(self) -> DeviceKind {
        match self {
            On::Sim => DeviceKind::Sim,
            On::Cuda => DeviceKind::Cuda,
        }
    }

    /// What products are computed with there.
    fn compute(self) -> Option<String> {
        match self {
            On::Sim => None,
            On::Cuda => Some(cuda::products()),
        }
    }

    /// Its name in results.
    ///
    /// # Errors
    /// Why there is no card, before any row is run.
    fn name(self) -> Result<String, CliError> {
        match self {
            On::Sim => Ok("sim".to_owned()),
            On::Cuda => match cuda::probe() {
                Ok(card) => Ok(format!("cuda ({}, CUDA {})", card.name, card.cuda)),
                Err(why) => Err(CliError::Failed(why.to_string())),
            },
        }
    }
}

/// Whose addresses decide on a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Decided {
    Simulated,
    Card,
}

impl Decided {
    fn addresses(self) -> Addresses {
        match self {
            Decided::Simulated => Addresses::Simulated,
            Decided::Card => Addresses::Card,
        }
    }
}

/// Runs the rows and prints the table.
///
/// # Errors
/// [`CliError::Usage`] for a name that does not exist, [`CliError::Failed`] without the device.
pub fn bench(args: &BenchArgs) -> Result<(), CliError> {
    let device = args.device.name()?;
    let devices = args.devices.count(args.device)?;
    if args.copies || args.frontier {
        options_apply(args, &[])?;
    }
    if args.copies {
        return bench_stack::copies(args.device.kind(), &args.tokens, args.steps, args.json);
    }
    if args.frontier {
        return bench_stack::frontier(args.device.kind(), devices, args.steps, args.json);
    }
    let asked = asked(args, devices)?;
    for why in &asked.left_out {
        tell(&format!("left out: {why}"));
    }
    let rows = run_all(&asked.specs).into_iter();
    let rows: Vec<Row> = rows.filter(|row| asked.shows(row)).collect();
    let table = Table {
        device,
        compute: args.device.compute(),
        hosts: hosts(&rows),
        rows,
    };
    print(&match args.json {
        true => json(&table),
        false => for_people(&table),
    })
}

/// What a command asks for.
struct Asked {
    specs: Vec<RunSpec>,
    /// Where the baseline was not asked for. It runs in any case, because the status of the other
    /// rows depends on it.
    unasked: Vec<(&'static str, String)>,
    /// Why some of all configurations do not run.
    left_out: Vec<String>,
}

impl Asked {
    fn shows(&self, row: &Row) -> bool {
        let is_of = |(config, base): &(&str, String)| (*config, base) == (row.config, &row.base);
        !row.patches.is_empty() || !self.unasked.iter().any(is_of)
    }
}

fn asked(args: &BenchArgs, devices: u16) -> Result<Asked, CliError> {
    let (mut specs, mut unasked) = (Vec::new(), Vec::new());
    let mut all_bases = Vec::new();
    let (systems, left_out) = configs(&args.configs, &args.base)?;
    for system in systems {
        for base in bases(system, &args.base)? {
            let mut sets = sets(system, base, &args.patches)?;
            if !sets.contains(&Vec::new()) {
                unasked.push((system.id, args.spec(system, base, &[]).base_in_words()));
                sets.insert(0, Vec::new());
            }
            let specs_of = |patches: &Vec<&'static Patch>| {
                on_devices(&args.spec(system, base, patches), devices)
            };
            specs.extend(sets.iter().flat_map(specs_of));
            all_bases.push(base);
        }
    }
    options_apply(args, &all_bases)?;
    Ok(Asked {
        specs,
        unasked,
        left_out,
    })
}

/// Refuses options that would change nothing about what runs.
fn options_apply(args: &BenchArgs, bases: &[Base]) -> Result<(), CliError> {
    let megatron = "a limit of Megatron-LM's offloader, which is not run: add --base megatron-lm";
    let has_trl = bases.iter().any(|base| matches!(base, Base::Release(_)));
    let has_megatron = bases.contains(&Base::MegatronLm);
    let on_sim = args.device == On::Sim;
    let not_so = [
        (
            args.fraction.is_some() && !has_megatron,
            "--fraction",
            megatron,
        ),
        (
            args.in_flight.is_some() && !has_megatron,
            "--in-flight",
            megatron,
        ),
        (
            args.no_streams && !has_trl,
            "--no-streams",
            "a setting of TRL's offloader, which is not run: add --base with a TRL release",
        ),
        (
            args.addresses.is_some() && on_sim,
            "--addresses",
            "a choice on a card: add --device cuda",
        ),
        (
            !args.tokens.is_empty() && !args.copies,
            "--tokens",
            "for the copy benchmark: add --copies",
        ),
    ];
    match not_so.iter().find(|(ignored, ..)| *ignored) {
        None => Ok(()),
        Some((_, option, what)) => Err(CliError::Usage(format!(
            "{option} is {what}, or leave {option} out"
        ))),
    }
}

fn for_people(table: &Table) -> String {
    let mut text = format!(
        "device: {}{}\n\
         computed: here (peak; growth a step; what stays allocated at the end)\n\
         measured: the real software\n\
         on H200: this engine on a card\n\
         published: by others, not checked\n",
        table.device,
        match &table.compute {
            Some(compute) => format!("; products: {compute}"),
            None => String::new(),
        },
    );
    let mut shown = None;
    for row in &table.rows {
        if shown != Some((row.config, &row.base)) {
            shown = Some((row.config, &row.base));
            let _ = writeln!(
                text,
                "\n{} (base {})\n  {:<44} {:>11} {:>12} {:>11} {:>16} {:>16} {:>16}  status",
                row.config,
                row.base,
                "patches",
                "computed",
                "a step",
                "at the end",
                "measured",
                "on H200",
                "published"
            );
        }
        let _ = writeln!(text, "{}", line(row));
    }
    if !table.hosts.is_empty() {
        text.push_str("\nall devices together\n");
    }
    for host in &table.hosts {
        let _ = writeln!(
            text,
            "  {} ({}), {}: {}, pinned host memory {} at the peak and {} at the end, \
             slowest step {:.3} s",
            host.config,
            host.base,
            called(&host.patches),
            plural(u64::from(host.devices), "device"),
            size::exact(host.host_pinned_peak.0 as f64),
            known_end(host.host_pinned_end),
            host.step_seconds,
        );
    }
    text
}

/// A set of patches in words.
fn called(patches: &[&Patch]) -> String {
    let ids: Vec<&str> = patches.iter().map(|patch| patch.id).collect();
    match ids.is_empty() {
        true => "baseline".to_owned(),
        false => ids.join(" + "),
    }
}

fn line(row: &Row) -> String {
    let mut patches = called(&row.patches);
    if row.device_index > Ordinal::default() {
        patches += &format!(", device {}", row.device_index.0);
    }
    let steps = row.outcome.as_ref().map(|outcome| outcome.steps_run);
    let known = |known: &Option<Evidence>| known.as_ref().map_or("–".into(), |k| peak(k, steps));
    let computed = |number: &dyn Fn(&BenchResult) -> String| {
        row.outcome.as_ref().map_or("–".to_owned(), number)
    };
    let mut text = format!(
        "  {patches:<44} {:>11} {:>12} {:>11} {:>16} {:>16} {:>16}  {}",
        computed(&|outcome| size::exact(outcome.peak_allocated.0 as f64)),
        computed(&|outcome| match shows_growth(outcome) {
            true => size::exact(outcome.growth_per_step),
            false => "–".to_owned(),
        }),
        computed(&|outcome| known_end(outcome.at_end())),
        known(&row.known.measured),
        known(&row.known.engine_on_card),
        known(&row.known.published),
        status(row),
    );
    if let Some(card) = row.outcome.as_ref().and_then(|outcome| outcome.card) {
        let _ = write!(
            text,
            " [{} of {} corrupted, {} of the card]",
            card.corrupted_tensors,
            plural(card.verified_tensors, "restored tensor"),
            size::exact(card.peak_used.0 as f64),
        );
    }
    if let Some(hypothesis) = &row.hypothesis {
        let _ = write!(
            text,
            " [hypothesis that {}: {}; {}]",
            hypothesis.about,
            hypothesis.fate.word(),
            hypothesis.why
        );
    }
    if let Some(losses) = row.known.measured.as_ref().and_then(|known| known.losses) {
        let (first, last) = (losses.first, losses.last);
        let _ = write!(text, " [measured loss: {first:.3} → {last:.3}]");
    }
    if let Some(asserted) = row.asserted {
        let _ = write!(text, " [{asserted}]");
    }
    text
}

/// What is there at the end; without a completed step it is not known.
fn known_end(bytes: Option<Bytes>) -> String {
    bytes.map_or("–".to_owned(), |bytes| size::exact(bytes.0 as f64))
}

/// A known peak, with its number of steps if that differs: the peak of a leak grows with the steps.
fn peak(known: &Evidence, steps: Option<u32>) -> String {
    let Some(bytes) = known.peak_allocated else {
        return match (&known.crash, known.out_of_memory) {
            (Some(_), _) => "crashed".to_owned(),
            (None, true) => "out of memory".to_owned(),
            (None, false) => "–".to_owned(),
        };
    };
    let peak = size::exact(bytes.0 as f64);
    match known.steps {
        Some(other) if steps.is_some_and(|steps| steps != other) => {
            format!("{peak} ({other} st)")
        }
        _ => peak,
    }
}

/// The status word as in JSON, and what ended the run.
fn status(row: &Row) -> String {
    let word = row.status.word();
    let Some(outcome) = &row.outcome else {
        return word.to_owned();
    };
    let ended = outcome.ended(row.steps);
    match (outcome.oom_step, &outcome.crash) {
        (Some(_), _) => format!("{word} {ended}"),
        (None, Some(crash)) => format!("{word} {ended}: {crash}"),
        (None, None) => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_a_number_or_all_cards() {
        let check = |word: &str, expected: Option<u16>| {
            let devices = devices_called(word).ok();
            let count = devices.and_then(|devices| devices.count(On::Sim).ok());
            assert_eq!(count, expected, "{word}");
        };
        check("1", Some(1));
        check("8", Some(8));
        check("0", None);
        check("65", None);
        check("two", None);
        // Of simulated ones there is no end.
        check("all", None);
    }

    /// As on the page; the JSON counts from 0.
    #[test]
    fn an_early_end_counts_steps_from_one() {
        let check = |change: &dyn Fn(&mut BenchResult), end: &str, expected: &str| {
            let mut outcome = BenchResult::default();
            change(&mut outcome);
            let row = Row::new(&RunSpec::new(System::FAST_LLM, &[]), &outcome, None);
            assert_eq!(status(&row), expected);
            assert_eq!(known_end(outcome.at_end()), end, "{expected}");
        };
        check(&|r| r.steps_run = 128, "0 B", "BASELINE");
        check(
            &|r| (r.steps_run, r.oom_step) = (113, Some(113)),
            "0 B",
            "FAIL (OOM) in step 114 of 128",
        );
        check(
            &|r| r.oom_step = Some(0),
            "–",
            "FAIL (OOM) in step 1 of 128, or while it was built",
        );
        check(
            &|r| (r.began, r.oom_step) = (Some(false), Some(0)),
            "–",
            "FAIL (OOM) before step 1 of 128",
        );
        check(
            &|r| (r.began, r.oom_step) = (Some(true), Some(0)),
            "–",
            "FAIL (OOM) in step 1 of 128",
        );
        check(
            &|r| (r.d2h_bytes, r.crash) = (Bytes(1), Some("raised".to_owned())),
            "–",
            "FAIL (CRASH) in step 1 of 128: raised",
        );
    }

    #[test]
    fn an_option_that_changes_nothing_of_the_run_is_refused() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            bench: BenchArgs,
        }
        let check = |line: &str, bases: &[Base], says: &str| {
            let words = std::iter::once("bench").chain(line.split(' '));
            let args = Line::try_parse_from(words).unwrap().bench;
            match options_apply(&args, bases) {
                Ok(()) => assert_eq!(says, "", "{line}"),
                Err(why) => {
                    assert_eq!(why.exit_code(), 2);
                    assert!(why.to_string().starts_with(says), "{line}: {why}");
                    assert!(!says.is_empty(), "{line}: {why}");
                }
            }
        };
        let (none, megatron) = (Base::NoOffloading, Base::MegatronLm);
        check("x --fraction 50", &[none], "--fraction is");
        check("x --in-flight 1", &[none], "--in-flight is");
        check("--frontier --fraction 100", &[], "--fraction is");
        check("x --fraction 50", &[none, megatron], "");
        check("x", &[none], "");
        let trl = System::VL_QWEN.base;
        check("x --no-streams", &[none, megatron], "--no-streams is");
        check(
            "x --no-streams",
            &[Base::Program("fast-llm")],
            "--no-streams is",
        );
        check("x --no-streams", &[none, trl], "");
        check("x --addresses card", &[trl], "--addresses is");
        check("x --addresses card --device cuda", &[trl], "");
        check("x --tokens 512", &[trl], "--tokens is");
        check("--copies --tokens 512", &[], "");
        let parses = |line: &str| {
            let words = std::iter::once("bench").chain(line.split(' '));
            Line::try_parse_from(words).is_ok()
        };
        for with in ["--base none", "--no-streams", "--addresses card"] {
            assert!(!parses(&format!("--copies {with}")), "{with}");
            assert!(!parses(&format!("--frontier {with}")), "{with}");
            assert!(parses(&format!("x {with}")), "{with}");
        }
        for (size, fits) in [
            ("0", false),
            ("1", false),
            ("15MiB", false),
            ("16MiB", true),
        ] {
            assert_eq!(parses(&format!("x --capacity {size}")), fits, "{size}");
        }
    }

    /// Without a driver the command fails before a row is run, with one sentence.
    #[test]
    fn a_machine_without_a_card_is_told_so() {
        if cuda::probe().is_ok() {
            return;
        }
        let why = On::Cuda.name().unwrap_err();
        assert_eq!(why.exit_code(), 1);
        assert!(
            why.to_string()
                .starts_with("there is no CUDA device here: ")
        );
        assert_eq!(On::Sim.name().unwrap(), "sim");
    }
}
