//! Sends the queue's files one after the other, and reports everything that happens to the queue.
//!
//! Files are sent one at a time: the server parses while bytes arrive, so two files would only
//! share its time.

use crate::client::{self, Method};
use crate::clock::{self, sleep};
use crate::upload::archive::Source;
use crate::upload::transfer::{Answer, Transfer};
use api::ids::{JobId, RunId, UploadId};
use api::jobs::{JobNotes, JobSummary, NewJob};
use api::problem::{Problem, ProblemCode};
use api::progress::UploadProgress;
use api::routes;
use api::runs::{AnnounceUpload, AnnouncedUpload, FinishedUpload};
use leptos::prelude::*;
use presentation::json;
use presentation::response;
use presentation::upload::item::{Change, Item, LocalId, LocalJob, Novelty, State};
use presentation::upload::queue;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;
use trace::ranks::Rank;
use trace::ranks::archives::Packed;
use trace::ranks::names::{Chosen, sets_that_say};
use trace::units::Bytes;
use web_sys::{Blob, File};

/// How often to ask whether a run is ready, if the server answered before that.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// All uploads of this page, in the context of the whole application.
#[derive(Clone, Copy)]
pub struct Uploads {
    items: RwSignal<Vec<Item>>,
    jobs: RwSignal<Vec<Job>>,
    fresh: RwSignal<HashSet<RunId>>,
    hidden: StoredValue<Rc<RefCell<Hidden>>, LocalStorage>,
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
    /// What names it with the ranks that are there. In a tab without a server, that is made of
    /// their content.
    pub shown: Option<JobId>,
}

/// State that no component shows.
#[derive(Default)]
struct Hidden {
    files: HashMap<LocalId, Source>,
    transfers: HashMap<LocalId, Transfer>,
    unpacked: Vec<Unpacked>,
    next_id: u32,
    sending: bool,
}

/// The files in the archive of a rank, until those of the other ranks are known.
#[derive(Clone)]
struct Unpacked {
    archive: LocalId,
    job: LocalJob,
    rank: Rank,
    members: Vec<Source>,
}

impl Uploads {
    /// None yet.
    pub fn new() -> Uploads {
        Uploads {
            items: RwSignal::new(Vec::new()),
            jobs: RwSignal::new(Vec::new()),
            fresh: RwSignal::new(HashSet::new()),
            hidden: StoredValue::new_local(Rc::default()),
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

    /// How many of them are runs by now, and whether none is under way any more.
    pub fn arrived(self) -> (usize, bool) {
        self.items.with(|items| {
            let arrived = items
                .iter()
                .filter(|item| matches!(item.state, State::Done(..)));
            let is_last = items.iter().all(|item| item.state.is_final());
            (arrived.count(), is_last)
        })
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

    // The next two take their work as a `dyn`, so that the code of a signal exists once.

    fn look(self, work: &mut dyn FnMut(&[Item])) {
        self.items.with_untracked(|items| work(items));
    }

    fn edit(self, work: &mut dyn FnMut(&mut Vec<Item>)) {
        self.items.update(|items| work(items));
    }

    fn hidden(self) -> Rc<RefCell<Hidden>> {
        self.hidden.get_value()
    }

    /// Queues files that were chosen one by one. Files whose names differ only in the rank become a
    /// job.
    pub fn add(self, files: Vec<File>) {
        let named = files.into_iter().map(|file| (file.name(), file));
        self.add_paths(named.collect(), Chosen::OneByOne);
    }

    /// Queues files by their paths; see [`Uploads::add_sources`].
    pub fn add_paths(self, files: Vec<(String, File)>, chosen: Chosen) {
        let files = files.into_iter();
        let sources = files.map(|(path, file)| Source::whole(path, file.into()));
        self.add_sources(sources.collect(), chosen);
    }

    /// Queues files by their paths, and groups the ranks of a job. If a folder has jobs, only their
    /// files are queued: other files there are often no snapshots.
    fn add_sources(self, files: Vec<Source>, chosen: Chosen) {
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let (sets, mut left) = sets_that_say(&paths, chosen);
        for set in &sets {
            let job = self.new_job(&set.name);
            for &(rank, at) in &set.files {
                self.queue(vec![files[at].clone()], Some((job, rank)));
            }
        }
        if chosen == Chosen::Folder && !sets.is_empty() {
            left.clear();
        }
        self.queue(left.into_iter().map(|at| files[at].clone()).collect(), None);
        self.work();
    }

    fn new_job(self, name: &str) -> LocalJob {
        let id = LocalJob(self.jobs.with_untracked(Vec::len) as u32);
        let job = Job {
            id,
            name: name.to_owned(),
            made: None,
            shown: None,
        };
        self.jobs.update(|jobs| jobs.push(job));
        id
    }

    fn queue(self, files: Vec<Source>, in_job: Option<(LocalJob, Rank)>) {
        for file in files {
            let hidden = self.hidden();
            let mut hidden = hidden.borrow_mut();
            let id = LocalId(hidden.next_id);
            hidden.next_id += 1;
            let item = Item {
                in_job,
                archive: file.archive.clone(),
                ..Item::waiting(id, file.name().to_owned(), file.size)
            };
            hidden.files.insert(id, file);
            drop(hidden);
            self.edit(&mut |items| items.push(item.clone()));
        }
    }

    /// Cancels the unfinished uploads of a job.
    pub fn cancel_job(self, job: LocalJob) {
        let mut open = Vec::new();
        self.look(&mut |items| {
            let of_it = items.iter().filter(|item| item.is_of(job));
            let unfinished = of_it.filter(|item| !item.state.is_final());
            open.extend(unfinished.map(|item| item.id));
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
            notes: JobNotes::default(),
        };
        let made: JobSummary = client::send_json(Method::Post, routes::JOBS, &new).await?;
        self.change_job(local, |job| {
            job.made = Some(made.id.clone());
            job.shown = Some(made.id.clone());
        });
        Ok((Some(made.id), Some(rank)))
    }

    fn change_job(self, id: LocalJob, change: impl FnOnce(&mut Job)) {
        self.jobs.update(|jobs| {
            if let Some(job) = jobs.iter_mut().find(|job| job.id == id) {
                change(job);
            }
        });
    }

    fn item_untracked(self, id: LocalId) -> Option<Item> {
        let mut found = None;
        self.look(&mut |items| found = items.iter().find(|item| item.id == id).cloned());
        found
    }

    /// Cancels one, wherever it is.
    pub fn cancel(self, id: LocalId) {
        let upload = self.item_untracked(id).and_then(|item| item.upload);
        self.change(id, Change::Cancelled);
        let transfer = self.hidden().borrow_mut().transfers.remove(&id);
        if let Some(transfer) = transfer {
            transfer.abort();
        }
        if let Some(upload) = upload {
            // The server also notices the lost connection; this is only faster.
            leptos::task::spawn_local(async move { withdraw(&upload).await });
        }
    }

    /// Tries one again that failed or was cancelled.
    pub fn retry(self, id: LocalId) {
        self.change(id, Change::Retried);
        self.work();
    }

    /// Sends those again that did not arrive because the server did not answer: it does now.
    pub fn server_is_back(self) {
        let mut ids = Vec::new();
        self.look(&mut |items| ids = queue::not_answered(items));
        ids.iter()
            .for_each(|id| self.change(*id, Change::ServerBack));
        if !ids.is_empty() {
            self.work();
        }
    }

    /// Sends those again that were refused because the session had ended. Whether there were any.
    pub fn let_in(self) -> bool {
        let mut ids = Vec::new();
        self.look(&mut |items| ids = queue::not_let_in(items));
        ids.iter().for_each(|id| self.retry(*id));
        !ids.is_empty()
    }

    /// Forgets those that are over.
    pub fn clear(self) {
        let mut kept = HashSet::new();
        self.edit(&mut |items| {
            items.retain(|item| !item.state.is_final());
            kept.extend(items.iter().map(|item| item.id));
        });
        let hidden = self.hidden();
        hidden.borrow_mut().files.retain(|id, _| kept.contains(id));
    }

    /// Passes a report of the server to its upload.
    pub fn report(self, upload: &UploadId, progress: UploadProgress) {
        let mut id = None;
        self.look(&mut |items| {
            let mut named = items.iter();
            let item = named.find(|item| item.upload.as_ref() == Some(upload));
            id = item.map(|item| item.id);
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
        let mut change = Some(change);
        self.edit(&mut |items| {
            if let Some(item) = items.iter_mut().find(|item| item.id == id)
                && let Some(change) = change.take()
            {
                item.on(change);
            }
        });
        // Nothing took the change of an upload that is gone.
        if let (None, Some(run)) = (change, new_run) {
            self.fresh.update(|fresh| {
                fresh.insert(run);
            });
        }
    }

    fn work(self) {
        let already = std::mem::replace(&mut self.hidden().borrow_mut().sending, true);
        if already {
            return;
        }
        leptos::task::spawn_local(async move {
            while let Some(id) = self.next_waiting() {
                if let Err(problem) = self.take(id).await {
                    self.change(id, Change::Failed(problem));
                }
                self.hidden().borrow_mut().transfers.remove(&id);
                self.queue_unpacked();
            }
            self.hidden().borrow_mut().sending = false;
        });
    }

    fn next_waiting(self) -> Option<LocalId> {
        let mut next = None;
        self.look(&mut |items| next = queue::next_waiting(items));
        next
    }

    /// Uploads a file; an archive is replaced by the files in it.
    async fn take(self, id: LocalId) -> Result<(), Problem> {
        let source = self.hidden().borrow().files.get(&id).cloned();
        let source = source.ok_or_else(gone)?;
        if let Some(archive) = source.archive().await.map_err(not_read)? {
            self.change(id, Change::Unpacking);
            if let Some(members) = archive.members().await.map_err(not_unpacked)? {
                self.replace(id, members);
                return Ok(());
            }
        }
        if source.is_packed {
            self.change(id, Change::Unpacking);
        }
        let bytes = source.bytes().await.map_err(not_unpacked)?;
        // It may have been cancelled in the meantime.
        if !self.is_open(id) {
            return Ok(());
        }
        self.change(id, Change::Started(clock::now()));
        self.upload(id, source.name().to_owned(), bytes).await
    }

    /// Queues the files of an archive in its place, unless it was cancelled. That of a rank is kept
    /// until those of the other ranks are unpacked, too.
    fn replace(self, archive: LocalId, members: Vec<Source>) {
        let item = self.item_untracked(archive);
        let Some(item) = item.filter(|item| !item.state.is_final()) else {
            return;
        };
        match item.in_job {
            Some((job, rank)) => self.hidden().borrow_mut().unpacked.push(Unpacked {
                archive,
                job,
                rank,
                members,
            }),
            None => {
                self.forget(archive);
                self.add_sources(members, Chosen::Folder);
            }
        }
    }

    fn forget(self, archive: LocalId) {
        self.edit(&mut |items| items.retain(|item| item.id != archive));
        self.hidden().borrow_mut().files.remove(&archive);
    }

    /// Queues the files of archives that are the ranks of a job, once all of them are unpacked.
    fn queue_unpacked(self) {
        let mut unpacked = std::mem::take(&mut self.hidden().borrow_mut().unpacked);
        unpacked.retain(|rank| self.is_open(rank.archive));
        for ranks in unpacked.chunk_by(|a, b| a.job == b.job) {
            let mut waits = false;
            self.look(&mut |items| waits = queue::waits_for_ranks(items, ranks[0].job));
            match waits {
                true => self.hidden().borrow_mut().unpacked.extend_from_slice(ranks),
                false => self.queue_ranks(ranks),
            }
        }
    }

    fn queue_ranks(self, ranks: &[Unpacked]) {
        ranks.iter().for_each(|rank| self.forget(rank.archive));
        let is_it = |job: &&Job| job.id == ranks[0].job;
        let job = self
            .jobs
            .with_untracked(|jobs| jobs.iter().find(is_it).cloned());
        let name = job.map(|job| job.name).unwrap_or_default();
        let paths = |rank: &Unpacked| rank.members.iter().map(|file| file.path.clone()).collect();
        let paths: Vec<Vec<String>> = ranks.iter().map(paths).collect();
        let texts: Vec<Vec<&str>> = (paths.iter())
            .map(|paths| paths.iter().map(String::as_str).collect())
            .collect();
        match Packed::of(&name, &texts) {
            Packed::ByArchive => {
                for rank in ranks {
                    self.queue(rank.members.clone(), Some((rank.job, rank.rank)));
                }
            }
            Packed::Together(paths) => {
                let members = ranks.iter().flat_map(|rank| rank.members.iter().cloned());
                let placed = members.zip(paths).map(|(mut file, path)| {
                    file.path = path;
                    file
                });
                self.add_sources(placed.collect(), Chosen::Folder);
            }
            Packed::Apart => {
                for rank in ranks {
                    self.add_sources(rank.members.clone(), Chosen::Folder);
                }
            }
        }
    }

    async fn upload(self, id: LocalId, name: String, file: Blob) -> Result<(), Problem> {
        let (job, rank) = self.job_of(id).await?;
        // It may be cancelled during any request; then no other may follow.
        if !self.is_open(id) {
            return Ok(());
        }
        let announce = AnnounceUpload {
            name: name.clone(),
            size: Some(Bytes(file.size() as u64)),
            job,
            rank,
        };
        let announced: AnnouncedUpload =
            client::send_json(Method::Post, routes::UPLOADS, &announce).await?;
        let upload = announced.upload;
        if !self.is_open(id) {
            withdraw(&upload).await;
            return Ok(());
        }
        self.change(id, Change::Announced(upload.clone()));

        let transfer =
            Transfer::to(&routes::upload(&upload)).map_err(|_| response::unreachable())?;
        let hidden = self.hidden();
        hidden.borrow_mut().transfers.insert(id, transfer.clone());
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
                let problem = response::problem_in(status, &body);
                let Some(wait) = response::worth_waiting(&problem, retry.as_deref()) else {
                    client::notice(&problem);
                    return Err(problem);
                };
                client::busy(&problem);
                sleep(wait).await;
                match self.is_open(id) {
                    true => Box::pin(self.upload(id, name, file)).await,
                    // The upload was cancelled in the meantime.
                    false => Ok(()),
                }
            }
        }
    }

    /// The server has the whole body. The run may be there too, or in a moment.
    async fn finish(self, id: LocalId, upload: &UploadId, body: &str) -> Result<(), Problem> {
        if let Ok(finished) = json::read::<FinishedUpload>(body) {
            let novelty = match finished.known {
                true => Novelty::Known(finished.run.name),
                false => Novelty::New,
            };
            let local = self.item_untracked(id).and_then(|item| item.in_job);
            if let (Some((local, _)), Some(place)) = (local, finished.run.job) {
                self.change_job(local, |job| job.shown = Some(place.job));
            }
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
        let item = self.item_untracked(id);
        item.is_some_and(|item| !item.state.is_final())
    }
}

impl Default for Uploads {
    fn default() -> Uploads {
        Uploads::new()
    }
}

/// Tells the server that the file of an upload will not come.
async fn withdraw(upload: &UploadId) {
    // If nobody tells it, it forgets the upload after a while.
    let _ = client::send::<()>(Method::Delete, &routes::upload(upload)).await;
}

/// The browser cannot read the first bytes of a file.
fn not_read(_: String) -> Problem {
    Problem {
        code: ProblemCode::Gone,
        status: 0,
        title: "The browser cannot read this file any more".to_owned(),
        detail: "It was changed, moved or deleted since it was chosen. Choose it again.".to_owned(),
        offset: None,
    }
}

fn not_unpacked(why: String) -> Problem {
    Problem {
        code: ProblemCode::BadSnapshot,
        status: 0,
        title: "The archive cannot be unpacked".to_owned(),
        detail: why,
        offset: None,
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
