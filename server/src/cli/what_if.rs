//! `tidemark what-if`: the requests of a recording under other settings or another limit.

use super::CliError;
use super::number::from_to;
use super::output::{json, print};
use super::reading::trace_of;
use crate::system::table::Table;
use answers::questions::what_if::{self, Asked, Gone, Leaks, Settings};
use api::what_if::{Limit, Replayed, WhatIf};
use clap::Args;
use std::path::PathBuf;
use trace::device::DeviceIdx;
use trace::main_device;
use trace::naming::Rules;
use trace::trace::{DeviceTrace, Series, Trace};
use trace::units::{Bytes, size};
use trace::watch::Watch;

const EXAMPLES: &str = "\
Examples:
  tidemark what-if snapshot.pickle --alloc-conf expandable_segments:True
  tidemark what-if snapshot.pickle --alloc-conf max_split_size_mb:128 --limit 24GiB
  tidemark what-if snapshot.pickle --alloc-conf '' --limit 16GiB     PyTorch's defaults
  tidemark what-if snapshot.pickle --without-leaks
  tidemark what-if snapshot.pickle --without train.py:41 --without cache_logits
  tidemark what-if snapshot.pickle --json | jq .calibration

Options that are not given stay as the file has them, but for the limit: with --alloc-conf and no
--limit nothing is refused, and the answer is given for the recorded limit as well, if one shows.

Exit status: 0 when there is an answer, 2 for a file or a setting that cannot be read.";

/// Options of `tidemark what-if`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct WhatIfArgs {
    /// A snapshot: pickle or JSON, plain or packed with gzip or zstd; `-` is the standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Settings in the form of PYTORCH_CUDA_ALLOC_CONF (PYTORCH_ALLOC_CONF); settings that are not
    /// named get PyTorch's defaults
    #[arg(long, value_name = "CONF", value_parser = Settings::of)]
    alloc_conf: Option<Settings>,
    /// How much the process may reserve, such as 4GiB: a smaller or larger card, or a memory
    /// fraction
    #[arg(long, value_name = "SIZE")]
    limit: Option<Bytes>,
    /// Free leaked memory at the end of the step that allocated it
    #[arg(long)]
    without_leaks: bool,
    /// Leave out requests from places in the program's own code whose function or `file:line`
    /// contains this text; may be repeated
    #[arg(long, value_name = "PLACE")]
    without: Vec<String>,
    /// CUDA ordinal. Default: the device that ran out of memory, otherwise the one that held most
    #[arg(long, value_name = "N", value_parser = from_to(0, u32::MAX))]
    device: Option<u32>,
    /// Print one JSON document: {"calibration", "recorded", "what_if", …}; sizes in bytes
    #[arg(long)]
    json: bool,
}

/// Answers.
///
/// # Errors
/// [`CliError::BadInput`] for a file that cannot be read or holds no such device.
pub fn what_if(args: &WhatIfArgs) -> Result<(), CliError> {
    let trace = trace_of(&args.file, None, &Rules::default())?;
    let device = device(&trace, args)?;
    let asked = Asked {
        settings: args.alloc_conf.clone(),
        limit: args.limit,
        leaks: match args.without_leaks {
            true => Leaks::GivenBack,
            false => Leaks::AsRecorded,
        },
        gone: Gone::Places(args.without.clone()),
    };
    let unknown = what_if::unknown_places(&trace, device, &asked);
    if let Some(why) = what_if::refusal_of(&unknown, device.device) {
        let path = args.file.clone();
        return Err(CliError::BadInput { path, why });
    }
    let report = what_if::what_if(&trace, device, &asked, Watch::nobody());
    let report = report.map_err(|stopped| CliError::Failed(stopped.to_string()))?;
    let text = match args.json {
        true => json(&report),
        false => {
            let others = trace.devices.len() - 1;
            let mut text = for_people(&args.file.display().to_string(), &report, others);
            if let Some(otherwise) = report.otherwise.in_words() {
                text += &format!("  {otherwise}\n");
            }
            if let Some(in_vain) = what_if::nothing_given_back(&asked, &report) {
                text += &format!("  {in_vain}\n");
            }
            text
        }
    };
    print(&text)
}

fn device<'a>(trace: &'a Trace, args: &WhatIfArgs) -> Result<&'a DeviceTrace, CliError> {
    let found = match args.device.map(DeviceIdx) {
        Some(ordinal) => trace.devices.iter().find(|device| device.device == ordinal),
        None => main_device::of(trace),
    };
    found.ok_or_else(|| CliError::BadInput {
        path: args.file.clone(),
        why: match args.device {
            Some(ordinal) => format!("it holds nothing of device {ordinal}"),
            None => "it holds no device".to_owned(),
        },
    })
}

fn for_people(file: &str, report: &WhatIf, others: usize) -> String {
    let recorded = &report.recorded;
    let second = report.at_recorded_limit.as_ref();
    let head = second.map_or("", |_| "at the recorded limit");
    let mut table = Table::new(["", "recorded", "what if", head]);
    let mut row = |name: &str, was: String, is: &dyn Fn(&Replayed) -> String| {
        let second = second.map(is).unwrap_or_default();
        table.row([name.to_owned(), was, is(&report.what_if), second]);
    };
    let limit = recorded.limit;
    let limit = limit.map_or_else(|| "none shows".to_owned(), Limit::in_words);
    let no_limit = || "none".to_owned();
    row("limit", limit, &|r| {
        r.limit.map_or_else(no_limit, |l| l.to_string())
    });
    let allocated = recorded.told_peak(Series::Allocated, exact(recorded.peak_allocated));
    let reserved = recorded.told_peak(Series::Reserved, exact(recorded.peak_reserved));
    row("allocated, peak", allocated, &|r| exact(r.peak_allocated));
    row("reserved, peak", reserved, &|r| {
        exact(r.peak_reserved) + &r.range_in_words(exact)
    });
    row("retries", "–".to_owned(), &|r| r.retries.to_string());
    let failed = |place: &Option<String>| place.clone().unwrap_or_else(|| "no".to_owned());
    row("out of memory", failed(&recorded.oom_place), &|r| {
        failed(&r.oom_place)
    });
    let of = match others {
        0 => String::new(),
        n => format!(", device {} ({n} more: --device)", report.device),
    };
    format!(
        "{file}{of}\n\n{}\n  {}\n  {}\n",
        table.print("  "),
        report.sentence,
        report.trust
    )
}

fn exact(bytes: Bytes) -> String {
    size::exact(bytes.0 as f64)
}
