//! `tidemark categories`: what a team's own categories take of snapshots; and the option that names
//! them.

use super::CliError;
use super::output::{json, print};
use super::reading::{apart, trace_of};
use crate::own_categories::{hints, read, taken};
use crate::system::table::Table;
use api::categories::TakenOfDevice;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use trace::naming::Rules;
use trace::units::grouped;
use trace::watch::Watch;

const EXAMPLES: &str = "\
Examples:
  tidemark categories team.categories snapshot.pickle
  tidemark inspect --categories team.categories snapshot.pickle
  tidemark serve --categories team.categories

A rule a line: a name, then conditions that must all hold; the first rule that holds takes a block.
  attention    function=*attention*  size>=1MiB
  attention    module=flash_attn.*
  \"KV 8 bit\"   shape=[*,8,128]  category=kv_cache
Conditions: function=, file=, module= (of one frame of the stack, the whole of it; * and ? as in a
shell: file=*/train.py), shape= (where the recording notes it), category= (what Tidemark takes it
for), size>=, size<=.

Exit status: 0 when every file was read, 2 when one was not.";

/// The option that names a file of rules.
#[derive(Args, Clone, Debug, Default)]
pub struct OwnArgs {
    /// File with the team's own categories; `tidemark categories --help` describes it
    #[arg(long, value_name = "FILE", env = "TIDEMARK_CATEGORIES")]
    categories: Option<PathBuf>,
}

impl OwnArgs {
    /// The text of the file, and the rules in it; `None` if none is named.
    ///
    /// # Errors
    /// [`CliError::Usage`] for a file that cannot be read, or a line that is no rule.
    pub fn file(&self) -> Result<Option<(String, Rules)>, CliError> {
        let Some(path) = &self.categories else {
            return Ok(None);
        };
        let read = read(path).map_err(|error| CliError::Usage(error.to_string()))?;
        Ok(Some(read))
    }

    /// The rules; none if no file is named.
    ///
    /// # Errors
    /// As [`OwnArgs::file`].
    pub fn rules(&self) -> Result<Rules, CliError> {
        Ok(self.file()?.map(|(_, rules)| rules).unwrap_or_default())
    }
}

/// Options of `tidemark categories`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CategoriesArgs {
    /// The file of rules
    #[arg(value_name = "RULES")]
    rules: PathBuf,
    /// Snapshots: pickle or JSON, plain or packed with gzip or zstd
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON document; sizes in bytes
    #[arg(long)]
    json: bool,
}

/// What the rules take of one file.
#[derive(Serialize)]
struct TakenOfFile {
    file: String,
    devices: Vec<TakenOfDevice>,
    /// Rules that take nothing, and how they would.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
}

/// Prints what each rule takes.
///
/// # Errors
/// [`CliError::Usage`] for bad rules, [`CliError::Several`] for bad files; the others are printed.
pub fn categories(args: &CategoriesArgs) -> Result<(), CliError> {
    let (rules_text, rules) =
        read(&args.rules).map_err(|error| CliError::Usage(error.to_string()))?;
    let of_file = |path: &PathBuf| {
        let trace = trace_of(path, None, &Rules::default())?;
        let devices = Watch::undisturbed(|watch| taken(&rules, &trace, watch));
        Ok::<_, CliError>(TakenOfFile {
            file: path.display().to_string(),
            hints: hints(&rules_text, &devices, &trace),
            devices,
        })
    };
    let (mut files, mut unread) = (Vec::new(), Vec::new());
    for path in &args.files {
        match apart(path, || of_file(path)) {
            Ok(file) => files.push(file),
            Err(error) => unread.push(error),
        }
    }
    print(&match args.json {
        true => json(&files),
        false => files.iter().map(text).collect::<Vec<_>>().join("\n"),
    })?;
    match unread.is_empty() {
        true => Ok(()),
        false => Err(CliError::Several(unread)),
    }
}

fn text(file: &TakenOfFile) -> String {
    let mut out = format!("{}\n", file.file);
    for device in &file.devices {
        out += &format!(
            "device {}: {} at the peak\n",
            device.device, device.allocated
        );
        let mut table = Table::new(["category", "line", "blocks", "at the peak", "share"]);
        for rule in &device.rules {
            let share = rule.bytes.0 as f64 / device.allocated.0.max(1) as f64 * 100.0;
            table.row([
                rule.name.label().to_owned(),
                rule.line.to_string(),
                grouped(rule.blocks),
                rule.bytes.to_string(),
                format!("{share:.1} %"),
            ]);
        }
        out += &table.print("  ");
    }
    for hint in &file.hints {
        out += &format!("{hint}\n");
    }
    out
}
