//! The runs as the server has them, kept as long as the application runs. So the list appears at
//! once when people come back to it, and changes are fetched in the background.

use crate::client::{self, Method};
use crate::components::drafts;
use crate::components::toasts::{ToastAction, Toasts};
use api::ids::RunId;
use api::problem::Problem;
use api::routes;
use api::runs::{RenameRun, RunSummary};
use leptos::prelude::*;
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
    /// Number of the newest request: an older answer must not overwrite a newer one.
    newest: StoredValue<u32>,
}

impl RunsStore {
    /// Empty.
    pub fn new() -> RunsStore {
        RunsStore {
            runs: RwSignal::new(Loaded::Loading),
            newest: StoredValue::new(0),
        }
    }

    /// All runs that are not deleted.
    pub fn runs(self) -> Signal<Loaded<Vec<RunSummary>>> {
        self.runs.into()
    }

    /// One run.
    pub fn run(self, id: &RunId) -> Option<RunSummary> {
        self.runs.with(|runs| match runs {
            Loaded::Ready(runs) => runs.iter().find(|run| run.id == *id).cloned(),
            Loaded::Loading | Loaded::Failed(_) => None,
        })
    }

    /// Reads them again if a page has read them: changes may have been missed.
    pub fn read_again(self) {
        if self.newest.get_value() > 0 {
            self.refresh();
        }
    }

    /// Reads them again. The old data stays until the answer is there, also if none comes; but not
    /// for someone who may not see them any more.
    pub fn refresh(self) {
        let request = self.newest.get_value().wrapping_add(1);
        self.newest.set_value(request);
        leptos::task::spawn_local(async move {
            let answer = client::list::<RunSummary>(routes::RUNS).await;
            let shows_none = self
                .runs
                .with_untracked(|runs| matches!(runs, Loaded::Loading));
            if self.newest.get_value() != request && !shows_none {
                return;
            }
            match answer {
                Ok(mut runs) => {
                    runs.retain(|run| run.deleted_ms.is_none());
                    let runs = Loaded::Ready(runs);
                    if self.runs.with_untracked(|old| *old != runs) {
                        self.runs.set(runs);
                    }
                }
                Err(problem) => self.runs.update(|runs| match runs {
                    Loaded::Ready(_) if may_go_better(&problem) => {}
                    _ => *runs = Loaded::Failed(problem),
                }),
            }
        });
    }

    /// Renames a run immediately; undoes that if the server refuses.
    pub fn rename(self, toasts: Toasts, id: RunId, name: String) {
        self.change(&id, |run| run.name.clone_from(&name));
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
        let (id, name) = (run.id.clone(), run.name.clone());
        self.runs.update(|runs| {
            if let Loaded::Ready(runs) = runs {
                runs.retain(|run| run.id != id);
            }
        });
        leptos::task::spawn_local(async move {
            match client::send::<serde::de::IgnoredAny>(Method::Delete, &routes::run(&id)).await {
                Ok(_) => toasts.show(format!("Deleted “{name}”"), Some(self.undo(toasts, id))),
                Err(problem) => toasts.fail("Not deleted", &problem),
            }
            self.refresh();
        });
    }

    /// Undoes a deletion.
    pub fn restore(self, toasts: Toasts, id: &RunId) {
        let path = routes::run_restore(id);
        leptos::task::spawn_local(async move {
            let restored = client::send::<serde::de::IgnoredAny>(Method::Post, &path).await;
            if let Err(problem) = restored {
                toasts.fail("Not restored", &problem);
            }
            self.refresh();
        });
    }

    fn undo(self, toasts: Toasts, id: RunId) -> ToastAction {
        ToastAction {
            label: "Undo",
            act: Callback::new(move |()| self.restore(toasts, &id)),
        }
    }

    fn change(self, id: &RunId, change: impl FnOnce(&mut RunSummary)) {
        self.runs.update(|runs| {
            if let Loaded::Ready(runs) = runs
                && let Some(run) = runs.iter_mut().find(|run| run.id == *id)
            {
                change(run);
            }
        });
    }
}

impl Default for RunsStore {
    fn default() -> RunsStore {
        RunsStore::new()
    }
}
