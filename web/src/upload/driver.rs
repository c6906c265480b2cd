//! Sends the queue's files one after the other, and reports everything that happens to the queue.
//!
//! Files are sent one at a time: the server parses while bytes arrive, so two files would only
//! share its time.

use crate::client::{self, Method};
use crate::clock::{self, sleep};
use crate::objects;
use crate::upload::queue::{self, Change, Item, LocalId, LocalJob, Novelty};
use crate::upload::transfer::{Answer, Transfer};
use api::ids::{JobId, RunId, UploadId};
use api::jobs::{JobSummary, NewJob};
use api::problem::{Problem, ProblemCode};
use api::progress::UploadProgress;
use api::routes;
use api::runs::{AnnounceUpload, AnnouncedUpload, FinishedUpload};
use leptos::prelude::*;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use trace::ranks::Rank;
use trace::ranks::names::{Chosen, sets};
use trace::units::Bytes;
use web_sys::File;

/// How often to ask whether a run is ready, if the server answered before that.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// All uploads of this page, in the context of the whole application.
#[derive(Clone, Copy)]
pub struct Uploads {
    items: RwSignal<Vec<Item>>,
    jobs: RwSignal<Vec<Job>>,
    fresh: RwSignal<HashSet<RunId>>,
    hidden: StoredValue<Hidden, LocalStorage>,
}

/// A job whose ranks are uploaded. The server makes it when its first rank is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its name within this page.
    pub id: LocalJob,
    /// Its name.
    pub name: String,
    /// Its id on the server, once it is made.
    pub made: Option<JobId>,
}

/// State that no component shows.
#[derive(Default)]
struct Hidden {
    files: HashMap<LocalId, File>,
    transfers: HashMap<LocalId, Transfer>,
    next_id: u32,
    sending: bool,
}

impl Uploads {
    /// None yet.
    pub fn new() -> Uploads {
        Uploads {
            items: RwSignal::new(Vec::new()),
            jobs: RwSignal::new(Vec::new()),
            fresh: RwSignal::new(HashSet::new()),
            hidden: StoredValue::new_local(Hidden::default()),
        }
    }

    /// All of them, in the order in which they were added.
    pub fn items(self) -> Signal<Vec<Item>> {
        self.items.into()
    }

    /// Jobs whose ranks are among them.
    pub fn jobs(self) -> Signal<Vec<Job>> {
        self.jobs.into()
    }

    /// One of them.
    pub fn item(self, id: LocalId) -> Option<Item> {
        self.items
            .with(|items| items.iter().find(|item| item.id == id).cloned())
    }

    /// Runs that this page uploaded and that were not opened yet.
    pub fn fresh(self) -> Signal<HashSet<RunId>> {
        self.fresh.into()
    }

    /// Marks a run as looked at.
    pub fn seen(self, run: &RunId) {
        if self.fresh.with_untracked(|fresh| fresh.contains(run)) {
            self.fresh.update(|fresh| {
                fresh.remove(run);
            });
        }
    }

    /// Queues files that were chosen one by one. Files whose names differ only in the rank become a
    /// job.
    pub fn add(self, files: Vec<File>) {
        let named = files.into_iter().map(|file| (file.name(), file));
        self.add_paths(named.collect(), Chosen::OneByOne);
    }

    /// Queues files by their paths, and groups the ranks of a job. If a folder has jobs, only their
    /// files are queued: other files there are often no snapshots.
    pub fn add_paths(self, files: Vec<(String, File)>, chosen: Chosen) {
        let paths: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        let (sets, mut left) = sets(&paths, chosen);
        for set in &sets {
            let job = self.new_job(&set.name);
            for &(rank, at) in &set.files {
                self.queue(vec![files[at].1.clone()], Some((job, rank)));
            }
        }
        if chosen == Chosen::Folder && !sets.is_empty() {
            left.clear();
        }
        self.queue(
            left.into_iter().map(|at| files[at].1.clone()).collect(),
            None,
        );
        self.work();
    }

    fn new_job(self, name: &str) -> LocalJob {
        let id = LocalJob(self.jobs.with_untracked(Vec::len) as u32);
        let (name, made) = (name.to_owned(), None);
        self.jobs.update(|jobs| jobs.push(Job { id, name, made }));
        id
    }

    fn queue(self, files: Vec<File>, in_job: Option<(LocalJob, Rank)>) {
        for file in files {
            let id = self.hidden.try_update_value(|hidden| {
                let id = LocalId(hidden.next_id);
                hidden.next_id += 1;
                hidden.files.insert(id, file.clone());
                id
            });
            if let Some(id) = id {
                let item = Item::waiting(id, file.name(), file.size() as u64);
                let item = Item { in_job, ..item };
                self.items.update(|items| items.push(item));
            }
        }
    }

    /// Cancels the unfinished uploads of a job.
    pub fn cancel_job(self, job: LocalJob) {
        let open = self.items.with_untracked(|items| {
            let of_it = items.iter().filter(|item| item.is_of(job));
            let open = of_it.filter(|item| !item.state.is_final());
            open.map(|item| item.id).collect::<Vec<_>>()
        });
        open.into_iter().for_each(|id| self.cancel(id));
    }

    /// The job on the server, made now if it is not there.
    async fn job_of(self, id: LocalId) -> Result<(Option<JobId>, Option<Rank>), Problem> {
        let place = self.item_untracked(id).and_then(|item| item.in_job);
        let Some((local, rank)) = place else {
            return Ok((None, None));
        };
        let known = |job: &&Job| job.id == local;
        let job = self
            .jobs
            .with_untracked(|jobs| jobs.iter().find(known).cloned());
        let job = job.ok_or_else(gone)?;
        if job.made.is_some() {
            return Ok((job.made, Some(rank)));
        }
        let new = NewJob {
            name: job.name,
            key: None,
        };
        let made: JobSummary = client::send_json(Method::Post, routes::JOBS, &new).await?;
        self.jobs.update(|jobs| {
            if let Some(job) = jobs.iter_mut().find(|job| job.id == local) {
                job.made = Some(made.id.clone());
            }
        });
        Ok((Some(made.id), Some(rank)))
    }

    fn item_untracked(self, id: LocalId) -> Option<Item> {
        self.items
            .with_untracked(|items| items.iter().find(|item| item.id == id).cloned())
    }

    /// Cancels one, wherever it is.
    pub fn cancel(self, id: LocalId) {
        let upload = self.items.with_untracked(|items| {
            items
                .iter()
                .find(|item| item.id == id)
                .and_then(|item| item.upload.clone())
        });
        self.change(id, Change::Cancelled);
        let transfer = self
            .hidden
            .try_update_value(|hidden| hidden.transfers.remove(&id));
        if let Some(Some(transfer)) = transfer {
            transfer.abort();
        }
        if let Some(upload) = upload {
            leptos::task::spawn_local(async move {
                // The server also notices the lost connection; this is only faster.
                let _ = client::send::<()>(Method::Delete, &routes::upload(&upload)).await;
            });
        }
    }

    /// Tries one again that failed or was cancelled.
    pub fn retry(self, id: LocalId) {
        self.change(id, Change::Retried);
        self.work();
    }

    /// Forgets those that are over.
    pub fn clear(self) {
        self.items
            .update(|items| items.retain(|item| !item.state.is_final()));
        self.items.with_untracked(|items| {
            let kept: HashSet<LocalId> = items.iter().map(|item| item.id).collect();
            self.hidden
                .update_value(|hidden| hidden.files.retain(|id, _| kept.contains(id)));
        });
    }

    /// Passes a report of the server to its upload.
    pub fn report(self, upload: &UploadId, progress: UploadProgress) {
        let id = self.items.with_untracked(|items| {
            items
                .iter()
                .find(|item| item.upload.as_ref() == Some(upload))
                .map(|item| item.id)
        });
        if let Some(id) = id {
            self.change(id, Change::Progress(progress));
        }
    }

    fn change(self, id: LocalId, change: Change) {
        let new_run = match &change {
            Change::Finished(run, Novelty::New) => Some(run.clone()),
            _ => None,
        };
        let there = self.items.try_update(|items| {
            let item = items.iter_mut().find(|item| item.id == id)?;
            item.on(change);
            Some(())
        });
        if let (Some(Some(())), Some(run)) = (there, new_run) {
            self.fresh.update(|fresh| {
                fresh.insert(run);
            });
        }
    }

    fn work(self) {
        let already = self
            .hidden
            .try_update_value(|hidden| std::mem::replace(&mut hidden.sending, true));
        if already != Some(false) {
            return;
        }
        leptos::task::spawn_local(async move {
            while let Some(id) = self
                .items
                .with_untracked(|items| queue::next_waiting(items))
            {
                self.change(id, Change::Started(clock::now()));
                if let Err(problem) = self.upload(id).await {
                    self.change(id, Change::Failed(problem));
                }
                self.hidden.update_value(|hidden| {
                    hidden.transfers.remove(&id);
                });
            }
            self.hidden.update_value(|hidden| hidden.sending = false);
        });
    }

    async fn upload(self, id: LocalId) -> Result<(), Problem> {
        let file = self
            .hidden
            .with_value(|hidden| hidden.files.get(&id).cloned());
        let file = file.ok_or_else(gone)?;
        let name = file.name();
        let (job, rank) = self.job_of(id).await?;
        let announce = AnnounceUpload {
            name,
            size: Some(Bytes(file.size() as u64)),
            job,
            rank,
        };
        let announced: AnnouncedUpload =
            client::send_json(Method::Post, routes::UPLOADS, &announce).await?;
        let upload = announced.upload;
        self.change(id, Change::Announced(upload.clone()));

        let transfer = Transfer::to(&routes::upload(&upload)).map_err(|_| client::unreachable())?;
        self.hidden.update_value(|hidden| {
            hidden.transfers.insert(id, transfer.clone());
        });
        let sent = move |bytes| self.change(id, Change::Sent(bytes, clock::now()));
        match transfer.send(&file, sent).await {
            Answer::Aborted => Ok(()),
            Answer::Lost => self.ask_why(id, &upload).await,
            Answer::Http {
                status: 200..=299,
                body,
                ..
            } => self.finish(id, &upload, &body).await,
            Answer::Http {
                status,
                body,
                retry,
            } => {
                let problem = client::problem_in(status, &body);
                let Some(wait) = client::worth_waiting(&problem, retry.as_deref()) else {
                    client::notice(&problem);
                    return Err(problem);
                };
                client::busy(&problem);
                sleep(wait).await;
                match self.is_open(id) {
                    true => Box::pin(self.upload(id)).await,
                    // The upload was cancelled in the meantime.
                    false => Ok(()),
                }
            }
        }
    }

    /// The server has the whole body. The run may be there too, or in a moment.
    async fn finish(self, id: LocalId, upload: &UploadId, body: &str) -> Result<(), Problem> {
        if let Ok(finished) = objects::read::<FinishedUpload>(body) {
            let novelty = if finished.known {
                Novelty::Known
            } else {
                Novelty::New
            };
            self.change(id, Change::Finished(finished.run.id, novelty));
            return Ok(());
        }
        while self.is_open(id) {
            let progress = client::get(&routes::upload(upload)).await?;
            self.change(id, Change::Progress(progress));
            sleep(ASK_EVERY).await;
        }
        Ok(())
    }

    /// The connection broke. If a server refuses a file in the middle of it, it closes the
    /// connection, and browsers then do not show its answer. So this asks again for the reason.
    async fn ask_why(self, id: LocalId, upload: &UploadId) -> Result<(), Problem> {
        match client::get(&routes::upload(upload)).await? {
            UploadProgress::Running { received, .. } => Err(Problem {
                code: ProblemCode::Interrupted,
                status: 0,
                title: "The connection was lost".to_owned(),
                detail: "Nothing was stored. Try again; the file is sent from its beginning."
                    .to_owned(),
                offset: Some(received),
            }),
            progress => {
                self.change(id, Change::Progress(progress));
                Ok(())
            }
        }
    }

    fn is_open(self, id: LocalId) -> bool {
        self.items.with_untracked(|items| {
            items
                .iter()
                .any(|item| item.id == id && !item.state.is_final())
        })
    }
}

impl Default for Uploads {
    fn default() -> Uploads {
        Uploads::new()
    }
}

fn gone() -> Problem {
    Problem {
        code: ProblemCode::NotFound,
        status: 0,
        title: "The file is gone".to_owned(),
        detail: "This page no longer holds the file; choose it again.".to_owned(),
        offset: None,
    }
}
