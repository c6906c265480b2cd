//! Files on their way in, under the addresses of a server's uploads.

use crate::jobs::Jobs;
use crate::message::{Request, Response};
use crate::opening::{MEMORY, Opened, Opening};
use crate::problems::{Refused, cancelled, missing};
use crate::runs::{Run, Runs};
use answers::run_names;
use api::ids::{JobId, UploadId};
use api::problem::{Problem, ProblemCode};
use api::progress::{Phase, UploadProgress};
use api::routes;
use api::runs::{AnnounceUpload, AnnouncedUpload, FinishedUpload};
use std::collections::HashMap;
use trace::ranks::Rank;
use trace::units::Bytes;

/// How many uploads are known at once; the page announces one at a time.
const MOST: usize = 1000;

/// Memory for each byte of a file, unless it is packed unusually well: the densest recordings that
/// were measured take 0.3 bytes for each of theirs, and are packed 1 to 30.
const MEMORY_PER_BYTE: u64 = 12;

/// The uploads of this tab.
#[derive(Default)]
pub struct Uploads {
    announced: u32,
    known: HashMap<UploadId, Upload>,
}

struct Upload {
    name: String,
    total: Option<u64>,
    job: Option<(JobId, Rank)>,
    opening: Option<Opening>,
    /// What was read, until it becomes a run.
    opened: Option<Box<Opened>>,
    /// How it ended, once it did.
    ended: Option<UploadProgress>,
}

impl Uploads {
    /// Announces a file.
    ///
    /// # Errors
    /// When its job is not open.
    pub fn announce(&mut self, jobs: &Jobs, request: &Request) -> Result<Response, Refused> {
        let asked: AnnounceUpload = request.sent()?;
        let name = run_names::of_file(&asked.name);
        let job = jobs.place(asked.job, asked.rank, &name)?;
        if self.known.len() >= MOST {
            self.known.retain(|_, upload| upload.ended.is_none());
        }
        self.announced += 1;
        let id = format!("{}{}", UploadId::PREFIX, self.announced);
        let upload: UploadId = id.parse().map_err(|_| missing(format!("upload {id}")))?;
        let new = Upload {
            name,
            total: asked.size.map(Bytes::get),
            job,
            opening: None,
            opened: None,
            ended: None,
        };
        self.known.insert(upload.clone(), new);
        Ok(Response::created(&AnnouncedUpload { upload }))
    }

    /// Begins to take the bytes of a file.
    ///
    /// # Errors
    /// When it was not announced, or was cancelled before.
    pub fn begin(&mut self, id: &str, runs: &mut Runs) -> Result<(), Refused> {
        // Then somebody deletes a run, as they are told, to make room.
        let is_full = self.known.values().any(Upload::had_no_room);
        let upload = self.get_mut(id)?;
        if upload.ended.is_some() {
            return Err(cancelled());
        }
        // Undoing a deletion is less than opening a file, if there is no room for both.
        let needed = upload
            .total
            .map(|bytes| bytes.saturating_mul(MEMORY_PER_BYTE));
        let room = MEMORY.saturating_sub(runs.weight());
        if is_full || needed.is_none_or(|needed| Bytes(needed) > room) {
            runs.forget_deleted();
        }
        upload.opening = Some(Opening::beside(runs.weight()));
        Ok(())
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// Why the file cannot be read, or that it was cancelled.
    pub fn push(&mut self, id: &str, bytes: &[u8]) -> Result<(), Refused> {
        let upload = self.get_mut(id)?;
        let Some(opening) = &mut upload.opening else {
            return Err(cancelled());
        };
        let pushed = opening.push(bytes);
        pushed.inspect_err(|problem| upload.fail(problem))
    }

    /// All bytes are there: reads what they mean, which takes a while. Until the file becomes a
    /// run, it can be cancelled.
    ///
    /// # Errors
    /// As [`Uploads::push`].
    pub fn replay(&mut self, id: &str) -> Result<(), Refused> {
        let upload = self.get_mut(id)?;
        let opening = upload.opening.take().ok_or_else(cancelled)?;
        let opened = opening.finish();
        let opened = opened.inspect_err(|problem| upload.fail(problem))?;
        upload.opened = Some(Box::new(opened));
        Ok(())
    }

    /// Ends a file that was replayed: it becomes a run.
    ///
    /// # Errors
    /// As [`Uploads::push`].
    pub fn finish(
        &mut self,
        id: &str,
        jobs: &mut Jobs,
        runs: &mut Runs,
        request: &Request,
    ) -> Result<Response, Refused> {
        let upload = self.get_mut(id)?;
        let opened = *upload.opened.take().ok_or_else(cancelled)?;
        let run = opened.run.clone();
        let known = match runs.change(run.as_str()) {
            Ok(known) => {
                known.deleted_ms = None;
                true
            }
            Err(_) => {
                runs.add(Run::new(opened, upload.name.clone(), request.now_ms));
                false
            }
        };
        match &upload.job {
            Some(place) => jobs.join(place, &run, runs),
            // It may be a rank that was deleted before.
            None => jobs.tell(runs),
        }
        upload.ended = Some(UploadProgress::Done { run: run.clone() });
        let finished = FinishedUpload {
            url: format!("{}{}", request.origin, routes::run_page(&run)),
            run: runs.change(run.as_str())?.summary(),
            known,
        };
        Ok(match known {
            true => Response::json(&finished),
            false => Response::created(&finished),
        })
    }

    /// Cancels one.
    ///
    /// # Errors
    /// When there is none.
    pub fn cancel(&mut self, id: &str) -> Result<Response, Refused> {
        let upload = self.get_mut(id)?;
        (upload.opening, upload.opened) = (None, None);
        upload.ended.get_or_insert(UploadProgress::Cancelled);
        Ok(Response::empty())
    }

    /// How one stands.
    ///
    /// # Errors
    /// When there is none.
    pub fn progress(&self, id: &str, phase: Phase) -> Result<UploadProgress, Refused> {
        let mut known = self.known.iter();
        let found = known.find(|(of, _)| of.as_str() == id);
        let (_, upload) = found.ok_or_else(|| missing(format!("upload {id}")))?;
        Ok(upload.progress(phase))
    }

    fn get_mut(&mut self, id: &str) -> Result<&mut Upload, Refused> {
        let mut known = self.known.iter_mut();
        let found = known.find(|(of, _)| of.as_str() == id);
        let (_, upload) = found.ok_or_else(|| missing(format!("upload {id}")))?;
        Ok(upload)
    }
}

impl Upload {
    fn fail(&mut self, problem: &Problem) {
        self.opening = None;
        self.ended = Some(UploadProgress::Failed {
            problem: problem.clone(),
        });
    }

    /// Whether it could not be opened beside the others.
    fn had_no_room(&self) -> bool {
        match &self.ended {
            Some(UploadProgress::Failed { problem }) => problem.code == ProblemCode::TooLarge,
            _ => false,
        }
    }

    fn progress(&self, phase: Phase) -> UploadProgress {
        let running = || UploadProgress::Running {
            phase: match self.opening.is_some() || self.opened.is_some() {
                true => phase,
                false => Phase::Waiting,
            },
            received: self.opening.as_ref().map_or(0, |opening| opening.received),
            total: self.total,
            events: self.opening.as_ref().map_or(0, Opening::events),
            // Only what comes over a line has a rate that is worth showing.
            rate: 0,
        };
        self.ended.clone().unwrap_or_else(running)
    }
}

#[cfg(test)]
mod tests {
    use super::Upload;
    use crate::problems::{Refused, missing, too_much_memory};
    use crate::{Local, Request, Response};
    use api::runs::{AnnouncedUpload, FinishedUpload, RunSummary};

    /// A recording of a few events.
    const FILE: &[u8] = include_bytes!("../../trace/fuzz/seeds/torch-2.0.pickle");

    fn asked(local: &mut Local, method: &str, path: &str, body: &str) -> Response {
        local.answer(&Request {
            method: method.to_owned(),
            path: path.to_owned(),
            body: body.to_owned(),
            ..Request::default()
        })
    }

    fn runs(local: &mut Local) -> usize {
        let listed = asked(local, "GET", "/api/runs", "");
        let runs: Vec<RunSummary> = serde_json::from_slice(&listed.body).expect("a list");
        runs.len()
    }

    /// Announces a file of this size, and begins to send it; its id.
    fn begun(local: &mut Local, size: usize) -> String {
        let file = format!(r#"{{"name":"a.pickle","size":{size}}}"#);
        let announced = asked(local, "POST", "/api/uploads", &file);
        let announced: AnnouncedUpload = serde_json::from_slice(&announced.body).expect("an id");
        let id = announced.upload.to_string();
        local.begin(&id).expect("it was announced");
        id
    }

    /// Sends a file and reads it; its path and id.
    fn replayed(local: &mut Local) -> (String, String) {
        let id = begun(local, FILE.len());
        local.push(&id, FILE).expect("a snapshot");
        local.replay(&id).expect("a snapshot");
        (format!("/api/uploads/{id}"), id)
    }

    #[test]
    fn a_file_that_is_cancelled_while_it_is_replayed_becomes_no_run() {
        let mut local = Local::new();
        let (path, id) = replayed(&mut local);
        assert_eq!(asked(&mut local, "DELETE", &path, "").status, 204);
        assert_eq!(local.finish(&id, &Request::default()).status, 409);
        assert_eq!(runs(&mut local), 0);

        let (_, id) = replayed(&mut local);
        assert_eq!(local.finish(&id, &Request::default()).status, 201);
        assert_eq!(runs(&mut local), 1);
    }

    #[test]
    fn what_was_deleted_can_be_restored_until_its_room_is_needed() {
        let mut local = Local::new();
        let (_, id) = replayed(&mut local);
        let made = local.finish(&id, &Request::default());
        let made: FinishedUpload = serde_json::from_slice(&made.body).expect("a run");
        let run = format!("/api/runs/{}", made.run.id);
        let restore = format!("{run}/restore");
        // A file that is none, and one that is cancelled.
        assert!(asked(&mut local, "DELETE", &run, "").status < 300);
        let id = begun(&mut local, 4);
        assert!(
            local
                .push(&id, b"text")
                .and_then(|()| local.replay(&id))
                .is_err()
        );
        let id = begun(&mut local, FILE.len());
        let cancel = format!("/api/uploads/{id}");
        assert_eq!(asked(&mut local, "DELETE", &cancel, "").status, 204);
        assert_eq!(asked(&mut local, "POST", &restore, "").status, 200);
        // A very large one.
        assert!(asked(&mut local, "DELETE", &run, "").status < 300);
        begun(&mut local, 1 << 40);
        assert_eq!(asked(&mut local, "POST", &restore, "").status, 404);
    }

    /// However little its size lets expect: what it needs is known only when it is read.
    #[test]
    fn a_file_for_which_there_was_no_room_is_told_from_other_failures() {
        let had_no_room = |problem: Refused| {
            let mut upload = Upload {
                name: String::new(),
                total: Some(1),
                job: None,
                opening: None,
                opened: None,
                ended: None,
            };
            assert!(!upload.had_no_room());
            upload.fail(&problem);
            upload.had_no_room()
        };
        assert!(had_no_room(too_much_memory()));
        assert!(!had_no_room(missing("a file")));
    }
}
