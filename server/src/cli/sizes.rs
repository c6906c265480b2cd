//! `tidemark doctor --sizes`: what takes the disk.

use super::CliError;
use super::output::{json, print};
use crate::app::OpenError;
use crate::projects::{folder_of, found_in};
use crate::store::{Store, StoreResult};
use crate::system::clock::now_ms;
use crate::system::data_folder::DATABASE;
use crate::system::table::Table;
use crate::usage::{glance, together};
use api::projects::{Keep, ProjectName};
use api::usage::{LargeRun, PersonUsage, ProjectUsage, StoredParts, Usage};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use timeline::format::{UnixMillis, count, date_time, percent, plural};

/// Longest name of a run in the table, characters.
const NAME: usize = 40;

/// Says what takes the disk in a data folder. A server may run on it.
///
/// # Errors
/// When the database of the server cannot be read.
pub fn sizes(data: &Path, as_json: bool) -> Result<(), CliError> {
    let usage = looked_at(data)?;
    print(&match as_json {
        true => json(&usage),
        false => told(data, &usage),
    })
}

fn looked_at(data: &Path) -> Result<Usage, CliError> {
    let main = ProjectName::main();
    let database = folder_of(data, &main).join(DATABASE);
    if !database.exists() {
        return Err(CliError::BadInput {
            path: data.to_owned(),
            why: "there is no database in it".to_owned(),
        });
    }
    let rules = rules(&database).map_err(OpenError::from)?;
    let older = || {
        let database = database.display();
        CliError::Failed(format!(
            "{database}: of an older version, which the next start of `serve` brings up to date"
        ))
    };
    let rules = rules.ok_or_else(older)?;
    let look = |project: &ProjectName| glance(data, project, rules.get(project).cloned(), now_ms());
    let first = look(&main).map_err(OpenError::from)?.ok_or_else(older)?;
    let (mut all, mut unknown) = (vec![Arc::new(first)], Vec::new());
    for project in found_in(data) {
        match look(&project) {
            Ok(Some(measured)) => all.push(Arc::new(measured)),
            Ok(None) | Err(_) => unknown.push(project),
        }
    }
    Ok(together(&all, unknown))
}

/// The rules of the projects that are open; `None`: an older version wrote the database.
fn rules(database: &Path) -> StoreResult<Option<BTreeMap<ProjectName, Keep>>> {
    let rows = Store::glance(database, |reader| reader.projects())?;
    let of = |rows: Vec<crate::store::ProjectRow>| {
        let open = rows.into_iter().filter(|row| row.closed_ms.is_none());
        let rules = open.filter_map(|row| Some((row.name, row.settings.keep?)));
        rules.collect()
    };
    Ok(rows.map(of))
}

fn told(data: &Path, usage: &Usage) -> String {
    let mut text = format!("{}: {}\n", data.display(), usage.parts.all());
    text += &parts(&usage.parts);
    text += "\n";
    text += &projects(&usage.projects);
    for project in &usage.unknown {
        text += &format!(
            "what the project {project} takes is not known, and counted nowhere here: its database \
             is of an older version, or cannot be read\n"
        );
    }
    if usage.names_people() {
        text += "\n";
        text += &people(&usage.people);
    }
    if !usage.largest.is_empty() {
        text += "\n";
        text += &largest(&usage.largest);
    }
    text
}

fn parts(parts: &StoredParts) -> String {
    let all = parts.all().get();
    let mut table = Table::new(["", "bytes", "share"]);
    for (_, words, size) in parts.named() {
        let share = format!("{} %", percent(size.get(), all));
        table.row([words.to_owned(), size.to_string(), share]);
    }
    table.print("  ")
}

fn projects(projects: &[ProjectUsage]) -> String {
    let mut table = Table::new([
        "project",
        "runs",
        "files",
        "database",
        "deleted",
        "the rule frees",
    ]);
    for ProjectUsage {
        project,
        parts,
        runs,
        deleted,
        rule,
    } in projects
    {
        let of_runs = |stored, runs| format!("{stored} ({})", plural(runs, "run"));
        let deleted_told = deleted.until_ms.map(|until_ms| {
            let until = date_time(UnixMillis(until_ms));
            format!("{} until {until}", of_runs(deleted.stored, deleted.runs))
        });
        table.row([
            project.to_string(),
            count(*runs),
            parts.files.to_string(),
            (parts.all() - parts.files).to_string(),
            deleted_told.unwrap_or_else(|| "none".to_owned()),
            rule.map_or_else(
                || "no rule".to_owned(),
                |rule| of_runs(rule.stored, rule.runs),
            ),
        ]);
    }
    table.print("")
}

fn people(people: &[PersonUsage]) -> String {
    let mut table = Table::new(["uploaded by", "runs", "stored"]);
    for person in people {
        let by = person.uploaded_by.clone();
        table.row([
            by.unwrap_or_else(|| "not known".to_owned()),
            count(person.runs),
            person.stored.to_string(),
        ]);
    }
    table.print("")
}

fn largest(runs: &[LargeRun]) -> String {
    let mut table = Table::new([
        "largest runs",
        "stored",
        "id",
        "project",
        "uploaded",
        "by",
        "kept by",
    ]);
    for run in runs {
        table.row([
            run.name.chars().take(NAME).collect(),
            run.stored.to_string(),
            run.run.to_string(),
            run.project.to_string(),
            date_time(UnixMillis(run.created_ms)),
            run.uploaded_by.clone().unwrap_or_default(),
            run.held_in_words(),
        ]);
    }
    table.print("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::projects::WhyKept;
    use api::usage::{DeletedRuns, FreedByRule};
    use trace::units::Bytes;

    #[test]
    fn what_takes_the_disk_is_told() {
        let parts = StoredParts {
            files: Bytes::mib(3),
            other: Bytes::mib(1),
            ..StoredParts::default()
        };
        let main = ProjectName::main();
        let usage = Usage {
            at_ms: 0,
            parts,
            projects: vec![ProjectUsage {
                project: main.clone(),
                parts,
                runs: 1200,
                deleted: DeletedRuns {
                    runs: 2,
                    stored: Bytes::kib(5),
                    until_ms: Some(600_000),
                },
                rule: Some(FreedByRule {
                    runs: 1,
                    stored: Bytes::kib(7),
                }),
            }],
            largest: vec![LargeRun {
                project: main,
                run: "run_a".parse().unwrap(),
                name: "pretrain, rank 0".to_owned(),
                stored: Bytes::mib(2),
                created_ms: 0,
                uploaded_by: Some("bo".to_owned()),
                held: vec![WhyKept::Pinned, WhyKept::Link],
            }],
            people: vec![PersonUsage {
                uploaded_by: Some("bo".to_owned()),
                runs: 1200,
                stored: Bytes::mib(3),
            }],
            unknown: vec!["vision".parse().unwrap()],
        };
        let text = told(Path::new("data"), &usage);
        for said in [
            "data: 4.00 MiB",
            "files as stored       3.00 MiB   75 %",
            "1,200  3.00 MiB  1.00 MiB  5.00 KiB (2 runs) until 1970-01-01 00:10",
            "7.00 KiB (1 run)",
            "bo           1,200  3.00 MiB",
            "what the project vision takes is not known, and counted nowhere here: its database",
            "pretrain, rank 0  2.00 MiB  run_a     main  1970-01-01 00:00 UTC  bo  pinned, opened",
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }
}
