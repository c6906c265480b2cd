//! The runs as the server has them, kept as long as the application runs. So the list appears at
//! once when people come back to it. While a page shows the list, changes by others are read at a
//! pace that many tabs can have; else it is only known that the list is old.

use crate::client::{self, Method};
use crate::components::drafts;
use crate::components::focus;
use crate::components::toasts::{ToastAction, Toasts};
use crate::paced::{self, Paced, Reads};
use api::ids::{JobId, RunId};
use api::page;
use api::problem::{Problem, ProblemCode};
use api::routes;
use api::runs::{RenameRun, RunSummary};
use leptos::prelude::*;
use presentation::pace::{Haste, Reading, Sight};
use presentation::pages::job::delete::is_rank;
use presentation::pages::runs::delete::{Progress, deleted, not_deleted, not_restored};
use presentation::response::may_go_better;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::rc::Rc;

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
    /// How often the server said that runs changed.
    news: RwSignal<u32>,
    /// A run that is not in the list as it was read last, and was read alone.
    alone: RwSignal<Option<RunSummary>>,
    /// When it is read again.
    paced: Paced,
    /// How many parts of the page show it.
    shown: StoredValue<u32>,
    /// How often it was changed here: what was read meanwhile does not count.
    changes: StoredValue<u32>,
    /// How many deletions or restorings of several runs are under way. Meanwhile it is not read:
    /// it would show a part of them.
    under_way: StoredValue<u32>,
    /// How far the deletion of several runs has come.
    deleting: RwSignal<Option<Progress>>,
    /// The last run whose deletion was undone.
    back: RwSignal<Option<RunId>>,
}

impl RunsStore {
    /// Empty.
    pub fn new() -> RunsStore {
        RunsStore {
            runs: RwSignal::new(Loaded::Loading),
            whole: RwSignal::new(false),
            news: RwSignal::new(0),
            alone: RwSignal::new(None),
            paced: Paced::in_rounds(),
            shown: StoredValue::new(0),
            changes: StoredValue::new(0),
            under_way: StoredValue::new(0),
            deleting: RwSignal::new(None),
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

    /// How far the deletion of several runs has come, if one is under way.
    pub fn deleting(self) -> Option<Progress> {
        self.deleting.get()
    }

    /// One run.
    pub fn run(self, id: &RunId) -> Option<RunSummary> {
        let listed = self.runs.with(|runs| match runs {
            Loaded::Ready(runs) => runs.iter().find(|run| run.id == *id).cloned(),
            Loaded::Loading | Loaded::Failed(_) => None,
        });
        let is_it = |run: &&RunSummary| run.id == *id;
        listed.or_else(|| self.alone.with(|run| run.as_ref().filter(is_it).cloned()))
    }

    /// A page read this run alone.
    pub fn learn(self, run: RunSummary) {
        let (mut is_listed, mut is_known) = (false, false);
        self.runs.with_untracked(|runs| {
            if let Loaded::Ready(runs) = runs {
                let listed = runs.iter().find(|listed| listed.id == run.id);
                is_listed = listed.is_some();
                is_known = listed == Some(&run);
            }
        });
        match (is_listed, is_known) {
            (_, true) => {}
            (true, false) => self.runs.update(|runs| {
                if let Loaded::Ready(runs) = runs
                    && let Some(old) = runs.iter_mut().find(|listed| listed.id == run.id)
                {
                    *old = run;
                }
            }),
            (false, false) => self.alone.set(Some(run)),
        }
    }

    /// A page found that this run is not there any more.
    pub fn forget(self, id: &RunId) {
        self.runs.update(|runs| {
            if let Loaded::Ready(runs) = runs {
                runs.retain(|run| run.id != *id);
            }
        });
        self.alone.set(None);
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

    /// The page shows the list from now until it is left: reads it.
    pub fn show(self) {
        self.shown.update_value(|shown| *shown += 1);
        on_cleanup(move || {
            self.shown.try_update_value(|shown| *shown -= 1);
        });
        self.refresh();
    }

    /// Runs changed, or may have: reads them again at a pace, once a page shows them.
    pub fn changed(self) {
        self.news.update(|news| *news = news.wrapping_add(1));
        self.paced.ask(Haste::AtAPace, Rc::new(self));
    }

    /// Somebody sent a file from here: reads the runs at once if a page shows them.
    pub fn added(self) {
        let haste = match self.sight() {
            Sight::Shown => Haste::AtOnce,
            Sight::Away | Sight::Held => Haste::AtAPace,
        };
        self.paced.ask(haste, Rc::new(self));
    }

    /// Tracks when the server says that runs changed, for a page of one run.
    pub fn track_news(self) {
        self.news.track();
    }

    /// Reads them again, at once. The old data stays until the answer is there, also if none comes;
    /// but not for someone who may not see them any more. One at a time reads. Whoever asks
    /// meanwhile gets another reading after it.
    pub fn refresh(self) {
        self.paced.ask(Haste::AtOnce, Rc::new(self));
    }

    /// Whether several runs are being deleted or restored. Who does so asks for a reading after it.
    fn is_busy(self) -> bool {
        self.under_way.get_value() > 0
    }

    async fn read_all(self, haste: Haste) -> Reading {
        let changes = self.changes.get_value();
        let read = self.pages(haste).await;
        let reading = paced::reading_of(&read);
        match read {
            Ok(runs) => {
                // Every change here asks for another reading, once the server has done it.
                if self.changes.get_value() != changes {
                    return reading;
                }
                let runs = Loaded::Ready(runs);
                if self.runs.with_untracked(|old| *old != runs) {
                    self.runs.set(runs);
                }
                if self.alone.with_untracked(Option::is_some) {
                    self.alone.set(None);
                }
                self.whole.set(true);
            }
            Err(problem) => self.runs.update(|runs| match runs {
                Loaded::Ready(_) if may_go_better(&problem) => {}
                _ => *runs = Loaded::Failed(problem),
            }),
        }
        reading
    }

    /// All pages. Where no runs were shown before, the first page is shown at once.
    async fn pages(self, haste: Haste) -> Result<Vec<RunSummary>, Problem> {
        let list = match haste {
            Haste::AtOnce => routes::RUNS,
            Haste::AtAPace => routes::RUNS_SHARED,
        };
        let mut all = Vec::new();
        let mut from = Some(0);
        while let Some(offset) = from {
            let page: Vec<RunSummary> = client::get_soon(&page::from(list, offset)).await?;
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
                Ok(_) => self.tell_deleted(toasts, vec![run]),
                Err(problem) => {
                    self.came_to_nothing(vec![run]);
                    toasts.fail("Not deleted", &problem);
                }
            }
            self.refresh();
        });
    }

    /// Deletes several runs, one after the other, with one button that undoes it. What the server
    /// did not take comes back and is told; `left` gets it.
    pub fn delete_all(
        self,
        toasts: Toasts,
        runs: &[RunId],
        left: impl FnOnce(Vec<RunId>) + 'static,
    ) {
        let ids: BTreeSet<&RunId> = runs.iter().collect();
        let mut going = Vec::new();
        self.change(|runs| {
            let all = std::mem::take(runs).into_iter();
            (going, *runs) = all.partition(|run| ids.contains(&run.id));
        });
        let of = going.len();
        // At once, so that the list is not taken for one that has always been empty.
        self.deleting.set(Some(Progress { done: 0, of }));
        self.under_way.update_value(|n| *n += 1);
        leptos::task::spawn_local(async move {
            let mut going = going.into_iter();
            let (mut gone, mut stay, mut failed) = (Vec::new(), Vec::new(), None);
            while let Some(run) = going.next() {
                let done = of - going.len() - 1;
                self.deleting.set(Some(Progress { done, of }));
                let path = routes::run(&run.id);
                match client::send::<serde::de::IgnoredAny>(Method::Delete, &path).await {
                    Ok(_) => gone.push(run),
                    // Somebody else was faster. It is not ours to bring back.
                    Err(problem) if problem.code == ProblemCode::NotFound => {}
                    // The others would meet the same: nothing is asked of a run here but that it
                    // is there.
                    Err(problem) => {
                        failed = Some(problem);
                        stay.push(run);
                        stay.extend(going.by_ref());
                    }
                }
            }
            self.came_to_nothing(stay.clone());
            self.deleting.set(None);
            if !gone.is_empty() || failed.is_none() {
                self.tell_deleted(toasts, gone);
            }
            if let Some(problem) = failed {
                toasts.fail(&not_deleted(&stay), &problem);
                left(stay.into_iter().map(|run| run.id).collect());
            }
            self.done();
        });
    }

    /// Shows runs again that are not deleted: a server that cannot be reached would not say that
    /// they are there.
    fn came_to_nothing(self, stay: Vec<RunSummary>) {
        if !stay.is_empty() {
            self.change(|runs| put_back(runs, stay));
        }
    }

    /// Ends what held back the readings, and reads.
    fn done(self) {
        self.under_way.update_value(|n| *n -= 1);
        self.refresh();
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

    /// Undoes several deletions, one after the other. How many fail is told, and why the last did.
    pub fn restore_all(self, toasts: Toasts, runs: Vec<RunId>) {
        self.under_way.update_value(|n| *n += 1);
        leptos::task::spawn_local(async move {
            let mut failed = Vec::new();
            for run in &runs {
                let path = routes::run_restore(run);
                let restored = client::send::<serde::de::IgnoredAny>(Method::Post, &path).await;
                failed.extend(restored.err());
            }
            if let Some(problem) = failed.last() {
                toasts.fail(&not_restored(failed.len(), runs.len()), problem);
            }
            self.done();
        });
    }

    /// Says that these runs are deleted, with a button that brings all of them back immediately,
    /// with the focus on the first.
    fn tell_deleted(self, toasts: Toasts, gone: Vec<RunSummary>) {
        let (text, is_any) = (deleted(&gone), !gone.is_empty());
        let act = move |()| {
            let Some(first) = gone.first() else { return };
            self.change(|runs| put_back(runs, gone.clone()));
            self.back.set(Some(first.id.clone()));
            focus::rescue_at(format!(".run-link[href*={}]", first.id));
            self.restore_all(toasts, gone.iter().map(|run| run.id.clone()).collect());
        };
        let undo = is_any.then(|| ToastAction {
            label: "Undo",
            act: Callback::new(act),
        });
        toasts.show(text, undo);
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

/// Adds runs to the list again. Those that a reading brought back meanwhile are in it already: a
/// list with a run twice cannot be shown.
fn put_back(runs: &mut Vec<RunSummary>, back: Vec<RunSummary>) {
    let there: BTreeSet<RunId> = runs.iter().map(|run| run.id.clone()).collect();
    runs.extend(back.into_iter().filter(|run| !there.contains(&run.id)));
}

impl Reads for RunsStore {
    fn sight(&self) -> Sight {
        match self.shown.get_value() {
            _ if self.is_busy() => Sight::Held,
            0 => Sight::Away,
            _ => paced::in_this_tab(),
        }
    }

    fn read_again(&self, haste: Haste) -> Pin<Box<dyn Future<Output = Reading>>> {
        Box::pin(self.read_all(haste))
    }
}

impl Default for RunsStore {
    fn default() -> RunsStore {
        RunsStore::new()
    }
}
