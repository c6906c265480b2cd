//! The command line.

mod alert;
mod archives;
mod backup;
mod bench;
mod bench_choice;
mod bench_stack;
mod categories;
mod compare;
mod doctor;
mod explain;
mod export;
mod failed_apart;
mod files;
mod gate;
mod history;
mod inspect;
mod label;
mod labels;
mod mcp;
mod number;
mod oidc;
mod output;
mod page;
mod people;
mod progress;
mod prune;
mod pull_request;
mod push;
mod ranks;
mod reading;
mod remote;
mod replay;
mod room;
mod run_row;
mod serve;
mod sizes;
mod tables;
mod token;
mod unpacking;
mod what_if;
mod whose;
mod written;

pub use output::tell;

use crate::page_files::FrontEnd;
use clap::builder::Resettable;
use clap::error::ContextKind;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::{Path, PathBuf};

/// Where GPU memory went.
///
/// Tidemark reads the snapshots that torch.cuda.memory._dump_snapshot() writes, shows where memory
/// stood at every moment of a run, and what kept it there. Without a command it serves the
/// dashboard at http://127.0.0.1:7878.
#[derive(Parser)]
#[command(name = "tidemark", version, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
struct Line {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

const EXAMPLES: &str = "\
Examples:
  tidemark                                   serve the dashboard at http://127.0.0.1:7878
  tidemark inspect snapshot.pickle           what is in a snapshot
  tidemark explain snapshot.pickle           what held the memory, why it ran out, what would help
  tidemark compare before.pickle after.pickle
  tidemark gate before.pickle after.pickle   exit 1 when it got worse
  tidemark ranks snapshots/                  how the ranks of a job differ
  tidemark push snapshot.pickle              upload it to a running dashboard, print the link
  curl -T snapshot.pickle http://127.0.0.1:7878/api/upload/

A snapshot is made by the training program itself:
  torch.cuda.memory._record_memory_history()
  ...                                        # some steps
  torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")";

#[derive(Subcommand)]
enum Command {
    /// Serve the dashboard (the default command)
    Serve(Box<serve::ServeArgs>),
    /// Serve the page that keeps files in the browser. It has no data folder, and sends nothing
    /// unless you use Share
    Page(page::PageArgs),
    /// Make an access token for `tidemark serve --token-file`
    Token(token::TokenArgs),
    /// Summarise snapshots: series, steps, leaks, quality
    Inspect(inspect::InspectArgs),
    /// One page: what it is, what held the memory, what leaks, why it ran out, what would help
    Explain(explain::ExplainArgs),
    /// What a team's own categories take of snapshots
    Categories(categories::CategoriesArgs),
    /// What changed between two runs, by stack
    Compare(compare::CompareArgs),
    /// How the ranks of a job differ, which is odd, and why
    Ranks(ranks::RanksArgs),
    /// Fail when a new run needs more memory than a baseline, or leaks
    Gate(gate::GateArgs),
    /// Upload snapshots to a dashboard and print their links
    Push(push::PushArgs),
    /// Put labels on a run of a dashboard or on all ranks of a job, or take them off
    Label(label::LabelArgs),
    /// How peak, end and growth went from run to run, and where they changed for good
    History(history::HistoryArgs),
    /// List old runs of a dashboard that nothing keeps; with --delete, delete them
    Prune(prune::PruneArgs),
    /// Write all runs of a dashboard as Parquet, for questions over many of them
    Tables(tables::TablesArgs),
    /// Run the offload engine: configurations and patches, one row each
    Bench(bench::BenchArgs),
    /// Drive the offloader with recorded calls and report each difference
    Replay(replay::ReplayArgs),
    /// What other allocator settings or another limit would have done
    WhatIf(what_if::WhatIfArgs),
    /// Answer the questions of a language model: the commands as tools, over stdin and stdout
    Mcp(mcp::McpArgs),
    /// Write a run for other tools: PyTorch's viewers, dataframes, Perfetto
    Export(export::ExportArgs),
    /// Say who may sign in, while the server is stopped
    People(people::PeopleArgs),
    /// Look after a data folder: find damage, make runs of stored files, rebuild the database
    Doctor(doctor::DoctorArgs),
    /// Back a data folder up, while the server runs
    Backup(backup::BackupArgs),
    /// Make a data folder of a backup
    Restore(backup::RestoreArgs),
    /// Run one row of a bench, as the server asks for it on stdin
    #[command(hide = true, after_help = run_row::EXAMPLES)]
    RunRow,
    /// Say whether there is a card, as the server asks
    #[command(hide = true, after_help = run_row::EXAMPLES)]
    ProbeCard,
}

/// Why a command failed, as `main` prints it.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// A file cannot be read or is not a snapshot.
    #[error("{}: {why}", .path.display())]
    BadInput {
        /// Which file.
        path: PathBuf,
        /// Why, with the byte offset where there is one.
        why: String,
    },
    /// The program failed while it looked at a file, whatever is in it.
    #[error(
        "{}: Tidemark failed on this file, and that is its own fault: please report it",
        .0.display()
    )]
    Panicked(PathBuf),
    /// The server cannot start.
    #[error(transparent)]
    Open(#[from] crate::app::OpenError),
    /// The arguments make no sense.
    #[error("{0}")]
    Usage(String),
    /// Another failure.
    #[error("{0}")]
    Failed(String),
    /// `tidemark gate`: the new run is worse; the report says why.
    #[error("regression: {0}")]
    Regression(String),
    /// `tidemark gate`: there is not enough data for an answer.
    #[error("cannot tell: {0}")]
    CannotTell(String),
    /// `tidemark gate`: it could not judge, or not say so. That is no regression.
    #[error(transparent)]
    NotJudged(Box<CliError>),
    /// The engine and a recording disagree; the report says where.
    #[error("the engine and the recording disagree")]
    Mismatch,
    /// Such a failure, in words that stand on the standard output already.
    #[error(transparent)]
    Said(Box<CliError>),
    /// Some of the files could not be read; what was asked was answered for the others.
    #[error("{}", .0.iter().map(CliError::to_string).collect::<Vec<_>>().join("\ntidemark: "))]
    Several(Vec<CliError>),
}

impl CliError {
    /// The process's exit status: 2 for bad input and bad usage (as in clap), 3 if a gate cannot
    /// tell, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::BadInput { .. } | CliError::Usage(_) | CliError::NotJudged(_) => 2,
            CliError::CannotTell(_) => 3,
            CliError::Said(error) => error.exit_code(),
            CliError::Several(errors) => errors.first().map_or(1, CliError::exit_code),
            CliError::Open(_)
            | CliError::Panicked(_)
            | CliError::Failed(_)
            | CliError::Regression(_)
            | CliError::Mismatch => 1,
        }
    }

    /// What stderr has to say of it; `None` if the standard output has said it.
    pub fn for_stderr(&self) -> Option<String> {
        match self {
            CliError::Said(_) => None,
            other => Some(other.to_string()),
        }
    }
}

/// A variable that is set to nothing counts as not set: so CI sets one for a secret that is not
/// there.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &Arg| {
        let value = arg.get_env().and_then(std::env::var_os);
        value.is_some_and(|value| value.is_empty())
    };
    let command = command.mut_args(|arg| match is_empty(&arg) {
        true => arg.env(Resettable::Reset),
        false => arg,
    });
    command.mut_subcommands(without_empty_variables)
}

/// What to say to who names a file where a command is expected.
fn file_for_command(error: &clap::Error) -> Option<CliError> {
    let word = error.get(ContextKind::InvalidSubcommand)?.to_string();
    let path = Path::new(&word);
    path.exists().then(|| {
        let (what, command) = match path.is_dir() {
            true => ("folder", "ranks"),
            false => ("file", "inspect"),
        };
        CliError::Usage(format!(
            "`{word}` is a {what}, no command; to see what is in it: tidemark {command} {word}"
        ))
    })
}

/// Parses the command line and runs the command; `serve` shows this front end.
///
/// # Errors
/// Why it failed.
pub fn run(front_end: FrontEnd) -> Result<(), CliError> {
    let found = without_empty_variables(Line::command()).try_get_matches();
    let mut found =
        found.map_err(|error| file_for_command(&error).unwrap_or_else(|| error.exit()))?;
    let line = Line::from_arg_matches_mut(&mut found).unwrap_or_else(|error| error.exit());
    match line.command {
        None => serve::serve(line.serve, front_end),
        Some(Command::Serve(args)) => serve::serve(*args, front_end),
        Some(Command::Page(args)) => page::page(&args),
        Some(Command::Token(args)) => token::token(&args),
        Some(Command::Inspect(args)) => inspect::inspect(&args),
        Some(Command::Explain(args)) => explain::explain(&args),
        Some(Command::Categories(args)) => categories::categories(&args),
        Some(Command::Compare(args)) => compare::compare(&args),
        Some(Command::Ranks(args)) => ranks::ranks(&args),
        Some(Command::Gate(args)) => gate::gate(&args),
        Some(Command::Push(args)) => push::push(&args),
        Some(Command::Label(args)) => label::label(&args),
        Some(Command::History(args)) => history::history(&args),
        Some(Command::Prune(args)) => prune::prune(&args),
        Some(Command::Tables(args)) => tables::tables(&args),
        Some(Command::Bench(args)) => bench::bench(&args),
        Some(Command::Replay(args)) => replay::replay(&args),
        Some(Command::WhatIf(args)) => what_if::what_if(&args),
        Some(Command::Mcp(args)) => mcp::mcp(args),
        Some(Command::Export(args)) => export::export(&args),
        Some(Command::People(args)) => people::people(args),
        Some(Command::Doctor(args)) => doctor::doctor(&args),
        Some(Command::Backup(args)) => backup::backup(args),
        Some(Command::Restore(args)) => backup::restore(args),
        Some(Command::RunRow) => run_row::run_row(),
        Some(Command::ProbeCard) => run_row::probe(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Line::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        for command in Line::command().get_subcommands() {
            let name = command.get_name();
            let help = command.get_after_help().map(ToString::to_string);
            assert!(help.unwrap_or_default().contains("Examples:"), "{name}");
        }
    }

    /// The commands below one, each by the words that lead to it.
    fn commands(below: &clap::Command, words: &[String]) -> Vec<(Vec<String>, clap::Command)> {
        let mut found = vec![(words.to_vec(), below.clone())];
        for command in below.get_subcommands() {
            let words = [words, &[command.get_name().to_owned()]].concat();
            found.extend(commands(command, &words));
        }
        found
    }

    /// What is said of values that are wrong for most options: the words of people, not of Rust.
    #[test]
    fn what_an_option_takes_is_said_in_words() {
        const OF_RUST: [&str; 5] = ["..", "digit found", "integer", "target type", "literal"];
        const WRONG: [&str; 6] = ["-1", "0", "256", "1.5", "x", "99999999999999999999999999"];
        let mut refused = 0;
        for (words, command) in commands(&Line::command(), &["tidemark".to_owned()]) {
            let options = command.get_opts().filter_map(clap::Arg::get_long);
            for (option, value) in options.flat_map(|name| WRONG.map(|value| (name, value))) {
                let line = words.iter().cloned().chain([format!("--{option}={value}")]);
                let Err(error) = Line::command().try_get_matches_from(line) else {
                    continue;
                };
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                if first.contains("invalid value") {
                    let of_rust = OF_RUST.iter().find(|word| first.contains(**word));
                    assert_eq!(of_rust, None, "{words:?}: {first}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 100, "{refused}");
    }

    /// A number that is read as another type than its option has would end the program.
    #[test]
    fn numbers_are_read_as_what_their_options_are() {
        for line in [
            "bench all --fraction 50 --in-flight 1 --steps 5",
            "bench --copies --tokens 16",
            "serve --connections 16 --connections-per-address 1 --repack-level 9 --row-seconds 9",
            "explain x --device 1",
            "what-if x --device 1",
            "prune --keep 1",
        ] {
            let words = std::iter::once("tidemark").chain(line.split(' '));
            if let Err(error) = Line::try_parse_from(words) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn serving_is_the_default() {
        let line = Line::try_parse_from(["tidemark", "--listen", "127.0.0.1:0"]).unwrap();
        assert!(line.command.is_none());
        assert_eq!(line.serve.listen.port(), 0);
    }
}
