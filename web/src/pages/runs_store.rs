//! The runs as the server has them, kept as long as the application runs. So the list appears at
//! once when people come back to it, and changes are fetched in the background.

use crate::client::{self, Method};
use crate::components::drafts;
use crate::components::focus;
use crate::components::toasts::{ToastAction, Toasts};
use api::ids::{JobId, RunId};
use api::page;
use api::problem::Problem;
use api::routes;
use api::runs::{RenameRun, RunSummary};
use leptos::prelude::*;
use presentation::pages::job::delete::is_rank;
use presentation::response::may_go_better;

/// The key of what is typed for the name of a run.
pub fn typed_name(run: &RunId) -> String {
    format!("tidemark.rename {run}")
}

/// Something read from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded<T> {
    /// Not loaded yet.
    Loading,
    /// Loaded.
    Ready(T),
    /// Could not be loaded.
    Failed(Problem),
}

/// The runs; in the context of the whole application.
#[derive(Clone, Copy)]
pub struct RunsStore {
    runs: RwSignal<Loaded<Vec<RunSummary>>>,
    /// Whether the list was read to its end once. Until then it has its first pages only. Each
    /// reading sets it again.
    whole: RwSignal<bool>,
    /// How often it was asked to be read.
    asked: StoredValue<u32>,
    /// Whether it is being read.
    reading: StoredValue<bool>,
    /// How often it was changed here: what was read meanwhile does not count.
    changes: StoredValue<u32>,
    /// The last run whose deletion was undone.
    back: RwSignal<Option<RunId>>,
}

impl RunsStore {
    /// Empty.
    pub fn new() -> RunsStore {
        RunsStore {
            runs: RwSignal::new(Loaded::Loading),
            whole: RwSignal::new(false),
            asked: StoredValue::new(0),
            reading: StoredValue::new(false),
            changes: StoredValue::new(0),
            back: RwSignal::new(None),
        }
    }

    /// All runs that are not deleted.
    pub fn runs(self) -> Signal<Loaded<Vec<RunSummary>>> {
        self.runs.into()
    }

    /// Whether these are all of them: of a long list the first page is there before the others.
    /// Whoever tracks it is told of each reading.
    pub fn is_whole(self) -> bool {
        self.whole.get()
    }

    /// The last run whose deletion was undone.
    pub fn came_back(self) -> Option<RunId> {
        self.back.get()
    }

    /// One run.
    pub fn run(self, id: &RunId) -> Option<RunSummary> {
        self.runs.with(|runs| match runs {
            Loaded::Ready(runs) => runs.iter().find(|run| run.id == *id).cloned(),
            Loaded::Loading | Loaded::Failed(_) => None,
        })
    }

    /// The ranks of a job; none until the list was read to its end.
    pub fn of_job(self, job: &JobId) -> Vec<RunSummary> {
        self.runs.with(|runs| match runs {
            Loaded::Ready(runs) if self.is_whole() => {
                let ranks = runs.iter().filter(|run| is_rank(run, job));
                ranks.cloned().collect()
            }
            _ => Vec::new(),
        })
    }

    /// Reads them again if a page has read them: changes may have been missed.
    pub fn read_again(self) {
        if self.asked.get_value() > 0 {
            self.refresh();
        }
    }

    /// Reads them again. The old data stays until the answer is there, also if none comes; but not
    /// for someone who may not see them any more. One at a time reads: of a long list, each event
    /// would ask for many pages. Whoever asks meanwhile gets another reading after it.
    pub fn refresh(self) {
        self.asked.update_value(|asked| *asked += 1);
        if self.reading.get_value() {
            return;
        }
        self.reading.set_value(true);
        leptos::task::spawn_local(async move {
            let mut done = 0;
            while done != self.asked.get_value() {
                done = self.asked.get_value();
                self.read().await;
            }
            self.reading.set_value(false);
        });
    }

    async fn read(self) {
        let changes = self.changes.get_value();
        match self.pages().await {
            Ok(runs) => {
                // Every change here asks for another reading, once the server has done it.
                if self.changes.get_value() != changes {
                    return;
                }
                let runs = Loaded::Ready(runs);
                if self.runs.with_untracked(|old| *old != runs) {
                    self.runs.set(runs);
                }
                self.whole.set(true);
            }
            Err(problem) => self.runs.update(|runs| match runs {
                Loaded::Ready(_) if may_go_better(&problem) => {}
                _ => *runs = Loaded::Failed(problem),
            }),
        }
    }

    /// All pages. Where no runs were shown before, the first page is shown at once.
    async fn pages(self) -> Result<Vec<RunSummary>, Problem> {
        let mut all = Vec::new();
        let mut from = Some(0);
        while let Some(offset) = from {
            let page: Vec<RunSummary> = client::get(&page::from(routes::RUNS, offset)).await?;
            from = page::next(offset, page.len());
            all.extend(page.into_iter().filter(|run| run.deleted_ms.is_none()));
            let shows_none = self
                .runs
                .with_untracked(|runs| matches!(runs, Loaded::Loading));
            if shows_none && from.is_some() {
                self.runs.set(Loaded::Ready(all.clone()));
            }
        }
        Ok(all)
    }

    /// Renames a run immediately; undoes that if the server refuses.
    pub fn rename(self, toasts: Toasts, id: RunId, name: String) {
        self.change(|runs| {
            if let Some(run) = runs.iter_mut().find(|run| run.id == id) {
                run.name.clone_from(&name);
            }
        });
        leptos::task::spawn_local(async move {
            let body = RenameRun { name };
            let path = routes::run(&id);
            let renamed =
                client::send_json::<_, serde::de::IgnoredAny>(Method::Patch, &path, &body).await;
            match renamed {
                Ok(_) => drafts::forget(&typed_name(&id)),
                Err(problem) => toasts.fail("Not renamed", &problem),
            }
            self.refresh();
        });
    }

    /// Deletes a run immediately, with a button to undo it.
    pub fn delete(self, toasts: Toasts, run: &RunSummary) {
        let run = run.clone();
        let id = run.id.clone();
        self.change(|runs| runs.retain(|run| run.id != id));
        leptos::task::spawn_local(async move {
            match client::send::<serde::de::IgnoredAny>(Method::Delete, &routes::run(&id)).await {
                Ok(_) => toasts.show(
                    format!("Deleted “{}”", run.name),
                    Some(self.undo(toasts, run)),
                ),
                Err(problem) => toasts.fail("Not deleted", &problem),
            }
            self.refresh();
        });
    }

    /// Says what was deleted, with a button that brings these runs back.
    pub fn deleted(self, toasts: Toasts, text: String, runs: Vec<RunId>) {
        self.refresh();
        let undo = (!runs.is_empty()).then(|| ToastAction {
            label: "Undo",
            act: Callback::new(move |()| self.restore_all(toasts, runs.clone())),
        });
        toasts.show(text, undo);
    }

    /// Undoes a deletion.
    pub fn restore(self, toasts: Toasts, id: &RunId) {
        self.restore_all(toasts, vec![id.clone()]);
    }

    /// Undoes several deletions, one after the other. Of what fails, the last is told.
    pub fn restore_all(self, toasts: Toasts, runs: Vec<RunId>) {
        leptos::task::spawn_local(async move {
            let mut failed = None;
            for run in &runs {
                let path = routes::run_restore(run);
                let restored = client::send::<serde::de::IgnoredAny>(Method::Post, &path).await;
                failed = restored.err().or(failed);
            }
            if let Some(problem) = failed {
                toasts.fail("Not restored", &problem);
            }
            self.refresh();
        });
    }

    /// The button that brings a deleted run back immediately, with the focus on it.
    fn undo(self, toasts: Toasts, run: RunSummary) -> ToastAction {
        let act = move |()| {
            self.change(|runs| runs.push(run.clone()));
            self.back.set(Some(run.id.clone()));
            focus::rescue_at(format!(".run-link[href*={}]", run.id));
            self.restore(toasts, &run.id);
        };
        ToastAction {
            label: "Undo",
            act: Callback::new(act),
        }
    }

    /// Changes the list here, before the server does.
    fn change(self, change: impl FnOnce(&mut Vec<RunSummary>)) {
        self.changes.update_value(|changes| *changes += 1);
        self.runs.update(|runs| {
            if let Loaded::Ready(runs) = runs {
                change(runs);
            }
        });
    }
}

impl Default for RunsStore {
    fn default() -> RunsStore {
        RunsStore::new()
    }
}
