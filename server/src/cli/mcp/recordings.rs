//! The recordings that tools are asked about: files, and runs of a dashboard. The last ones stay in
//! memory, because a client asks several questions about one.

use crate::cli::CliError;
use crate::cli::reading::{read_from, trace_of};
use crate::cli::remote::Remote;
use crate::mcp::{ENOUGH, Library, MOST_RUNS, Place, Recording, Reference, only_one};
use api::bench::RowOfRun;
use api::ids::RunId;
use api::projects::ProjectName;
use api::routes;
use api::runs::{RunDetail, RunSource, RunSummary};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use trace::naming::Rules;
use trace::trace::Trace;

/// How many recordings are kept: two, for a comparison.
const KEPT: usize = 2;

/// A recording as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// A file, with the data that shows whether it was changed.
    File {
        path: PathBuf,
        size: u64,
        modified: Option<SystemTime>,
    },
    Run(RunId),
}

/// A run of the dashboard.
struct Called {
    run: RunId,
    /// What people call it, if the search for it told all there is to tell.
    name: Option<String>,
}

/// The available recordings.
pub struct Recordings {
    server: Option<String>,
    token: Option<String>,
    project: Option<ProjectName>,
    /// What the team calls blocks.
    rules: Rules,
    kept: Mutex<Vec<(Source, Arc<Trace>)>>,
}

impl Recordings {
    /// Files, and the runs of a dashboard if there is one.
    pub fn new(
        server: Option<String>,
        token: Option<String>,
        project: Option<ProjectName>,
        rules: Rules,
    ) -> Recordings {
        Recordings {
            server: server.map(|url| url.trim_end_matches('/').to_owned()),
            token,
            project,
            rules,
            kept: Mutex::default(),
        }
    }

    fn trace(&self, source: &Source) -> Result<Arc<Trace>, String> {
        if let Some(trace) = self.known(source) {
            return Ok(trace);
        }
        // What is forgotten for the new one goes first, so that no third one is in memory.
        self.kept().truncate(KEPT - 1);
        let trace = match source {
            Source::File { path, .. } => {
                trace_of(path, None, &self.rules).map_err(|error| error.to_string())
            }
            Source::Run(run) => self.fetched(run).map_err(|error| error.to_string()),
        };
        let trace = Arc::new(trace?);
        let mut kept = self.kept();
        kept.truncate(KEPT - 1);
        kept.insert(0, (source.clone(), Arc::clone(&trace)));
        Ok(trace)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(Source, Arc<Trace>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, source: &Source) -> Option<Arc<Trace>> {
        let mut kept = self.kept();
        let at = kept.iter().position(|(known, _)| known == source)?;
        kept[..=at].rotate_right(1);
        Some(Arc::clone(&kept[0].1))
    }

    fn remote<'a>(&'a self, server: &'a str) -> Remote<'a> {
        Remote::at(server, self.token.as_deref()).of(self.project.as_ref())
    }

    /// Downloads a run from the dashboard's export.
    fn fetched(&self, run: &RunId) -> Result<Trace, CliError> {
        let server = self.server.as_deref().unwrap_or_default();
        let remote = self.remote(server);
        let body = remote.open(&routes::run_export(run, "pickle"))?;
        let snapshot = read_from(Box::new(body));
        let snapshot = snapshot.map_err(|why| CliError::Failed(format!("{run}: {why}")))?;
        let mut trace = trace::replay::run(snapshot);
        trace.stacks.own = (!self.rules.is_empty()).then(|| Arc::new(self.rules.clone()));
        Ok(trace)
    }

    /// What people call a run, and what a bench knows of it.
    fn told_of(&self, run: &RunId, server: &str) -> Result<(String, Option<RowOfRun>), String> {
        let asked = self.remote(server).get(&routes::run(run));
        let detail: RunDetail = asked.map_err(|error: CliError| error.to_string())?;
        Ok((detail.summary.called(), detail.bench_row))
    }

    /// The run of the dashboard that a text means, and what people call it. What a name or labels
    /// mean, and what a run is called, changes, so it is asked each time, and once.
    fn meant(&self, text: &str, server: &str) -> Result<Called, String> {
        let wanted = match Reference::read(text) {
            Reference::Id(run) => {
                let name = None;
                return Ok(Called { run, name });
            }
            other => other,
        };
        let list = routes::runs_with(wanted.labels());
        let mut found = Vec::new();
        let enough = |run: &RunSummary| {
            if wanted.means(run) {
                found.push(run.clone());
            }
            found.len() >= ENOUGH
        };
        let asked = self.remote(server).find(&list, enough);
        asked.map_err(|error: CliError| error.to_string())?;
        let only = only_one(text, &found)?;
        // Of what a bench made, the bench knows more.
        let is_all = only.source != RunSource::Engine;
        Ok(Called {
            run: only.id.clone(),
            name: is_all.then(|| only.called()),
        })
    }
}

impl Library for Recordings {
    /// A path, or a run of the dashboard.
    fn recording(&self, name: &str) -> Result<Recording, String> {
        let run = match (Path::new(name).exists(), &self.server) {
            (true, _) => None,
            (false, None) => {
                let run = name.parse().ok();
                run.map(|run| Called { run, name: None })
            }
            (false, Some(server)) => match self.meant(name, server) {
                Ok(called) => Some(called),
                // A path is the more likely meaning of what looks like one.
                Err(_) if Path::new(name).components().count() > 1 => None,
                Err(why) => return Err(why),
            },
        };
        let (source, name, run, known) = match (run, &self.server) {
            (None, _) => {
                let path = PathBuf::from(name);
                let shown = path.file_name().unwrap_or(path.as_os_str());
                let shown = shown.to_string_lossy().into_owned();
                (file(&path)?, shown, None, None)
            }
            (Some(Called { run, name }), Some(server)) => {
                let place = Some(Place {
                    server: server.clone(),
                    project: self.project.clone(),
                    run: run.clone(),
                });
                let (name, known) = match name {
                    Some(name) => (name, None),
                    None => self.told_of(&run, server)?,
                };
                (Source::Run(run), name, place, known)
            }
            (Some(Called { run, .. }), None) => {
                return Err(format!(
                    "{run} is a run of a dashboard, and none is known: start `tidemark mcp` with \
                     --server URL, or give the path of a snapshot."
                ));
            }
        };
        let trace = self.trace(&source)?;
        Ok(Recording::new(name, trace, run).beside(known))
    }

    fn runs(&self) -> Result<Vec<RunSummary>, String> {
        let Some(server) = &self.server else {
            return Err(
                "No dashboard is known: start `tidemark mcp` with --server URL, or ask about \
                 snapshots by their paths."
                    .to_owned(),
            );
        };
        let remote = self.remote(server);
        let asked = remote.get(&format!("{}?limit={MOST_RUNS}", routes::RUNS));
        asked.map_err(|error: CliError| error.to_string())
    }
}

/// A readable file. The standard input is not allowed, because the client uses it; devices are not
/// allowed either.
fn file(path: &Path) -> Result<Source, String> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| {
        let folder = std::env::current_dir().unwrap_or_default();
        format!(
            "{shown} cannot be opened: {error}. Give the path of a snapshot; it is looked for in \
             {}.",
            folder.display()
        )
    })?;
    if !metadata.is_file() {
        return Err(format!(
            "{shown} is not a file: give the path of a snapshot, as \
             torch.cuda.memory._dump_snapshot() writes it."
        ));
    }
    Ok(Source::File {
        path: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
        size: metadata.len(),
        modified: metadata.modified().ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_recording_is_told_with_what_to_do() {
        let recordings = Recordings::new(None, None, None, Rules::default());
        let folder = tempfile::tempdir().expect("a folder");
        let here = folder.path().to_str().expect("a plain name");
        let text = folder.path().join("notes.txt");
        std::fs::write(&text, "no snapshot").expect("it is written");
        let text = text.to_str().expect("a plain name");
        for (name, expected) in [
            ("nowhere.pickle", "is looked for in"),
            ("-", "is looked for in"),
            (here, "is not a file"),
            ("/dev/zero", "is not a file"),
            ("run_0123456789abcdef", "--server URL"),
            (text, "notes.txt"),
        ] {
            let Err(why) = recordings.recording(name) else {
                panic!("{name} is a recording");
            };
            assert!(why.contains(expected), "{name}: {why}");
        }
    }

    #[test]
    fn the_last_recordings_are_kept_until_their_files_change() {
        let recordings = Recordings::new(None, None, None, Rules::default());
        let folder = tempfile::tempdir().expect("a folder");
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
        let [first, second] = ["oom", "streams"].map(|name| {
            let path = folder.path().join(format!("{name}.pickle.zst"));
            std::fs::copy(fixture.join(format!("{name}.pickle.zst")), &path).expect("a copy");
            path
        });
        let get = |path: &Path| {
            let found = recordings.recording(path.to_str().expect("a plain name"));
            found.expect("a recording")
        };
        let (a, b) = (get(&first), get(&second));
        let same = |a: &Recording, b: &Recording| std::ptr::eq(a.trace(), b.trace());
        assert!(same(&a, &get(&first)) && same(&b, &get(&second)));
        std::fs::copy(&second, &first).expect("written anew");
        assert!(!same(&a, &get(&first)));
    }
}
