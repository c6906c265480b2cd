//! The recordings that are open in the tab.

use crate::problems::{Refused, bad_request, no_device, not_open};
use answers::decoded::{Decoded, is_judged_now};
use answers::facts::DeviceFacts;
use answers::questions;
use answers::run_names;
use api::ids::{JobId, RunId};
use api::jobs::{RunOfJob, called};
use api::labels::Labels;
use api::leaks::{LeakSummary, Leaks, Verdict};
use api::runs::{RunDetail, RunSource, RunSummary};
use std::cell::{OnceCell, RefCell};
use std::sync::Arc;
use trace::compare::profile::Profile;
use trace::device::DeviceIdx;
use trace::leaks::Weight;
use trace::ranks::Rank;
use trace::ranks::profile::RankProfile;
use trace::steps::choices;
use trace::trace::Series;
use trace::units::Bytes;
use trace::watch::Watch;

/// An open recording.
pub struct Run {
    /// Named by its content.
    pub id: RunId,
    /// The file's name, or what a person made of it.
    pub name: String,
    /// BLAKE3 of the file.
    pub hash: String,
    /// The file's size.
    pub file_bytes: Bytes,
    /// When it was opened.
    pub created_ms: i64,
    /// When it was deleted; until a file needs its memory, that can be undone.
    pub deleted_ms: Option<i64>,
    /// Which rank of which job it is; of several jobs, the newest.
    pub job: Option<(JobId, String, Rank)>,
    /// Facts of its devices.
    pub facts: Vec<DeviceFacts>,
    /// Facts of the host's pinned memory, if it was recorded.
    pub pinned: Option<DeviceFacts>,
    decoded: Arc<Decoded>,
    /// The verdict about each device.
    judged: OnceCell<Vec<(DeviceIdx, Leaks)>>,
    /// The trace with other steps that was asked for last.
    cut: RefCell<Option<(String, Arc<Decoded>)>>,
    profile: OnceCell<Profile>,
    of_rank: OnceCell<RankProfile>,
}

impl Run {
    /// A recording that was just read.
    pub fn new(opened: crate::opening::Opened, name: String, now_ms: i64) -> Run {
        let run = Run {
            id: opened.run,
            name,
            hash: opened.hash,
            file_bytes: opened.file_bytes,
            created_ms: now_ms,
            deleted_ms: None,
            job: None,
            pinned: opened.trace.pinned.as_ref().map(DeviceFacts::of),
            facts: opened.trace.devices.iter().map(DeviceFacts::of).collect(),
            decoded: Arc::new(Decoded::new(opened.trace, ())),
            judged: OnceCell::new(),
            cut: RefCell::default(),
            profile: OnceCell::new(),
            of_rank: OnceCell::new(),
        };
        if is_judged_now(&run.decoded.trace) {
            run.judged();
        }
        run
    }

    /// Its trace, with the iterations of a loop as the steps if one is named.
    ///
    /// # Errors
    /// When it has no such loop.
    pub fn decoded(&self, level: Option<&str>) -> Result<Arc<Decoded>, Refused> {
        let Some(level) = level else {
            return Ok(Arc::clone(&self.decoded));
        };
        if let Some((key, cut)) = &*self.cut.borrow()
            && key == level
        {
            return Ok(Arc::clone(cut));
        }
        // The earlier copy is as large as the trace.
        self.cut.take();
        let mut trace = self.decoded.trace.clone();
        choices::recut_all(&mut trace, level).map_err(|why| crate::problems::no_loop(&why))?;
        let cut = Arc::new(Decoded::new(trace, ()));
        self.cut.replace(Some((level.to_owned(), Arc::clone(&cut))));
        Ok(cut)
    }

    /// Memory that it takes.
    pub fn weight(&self) -> Bytes {
        let copies = 1 + u64::from(self.cut.borrow().is_some());
        Bytes(self.decoded.weight().get() * copies)
    }

    /// Whether its verdict is known.
    pub fn is_judged(&self) -> bool {
        self.judged.get().is_some()
    }

    /// The verdict about each device; searched for now if it is not known.
    pub fn judged(&self) -> &[(DeviceIdx, Leaks)] {
        self.judged.get_or_init(|| {
            let trace = &self.decoded.trace;
            let devices = trace.with_pinned();
            let report = |device| questions::report(trace, device, Watch::nobody());
            devices
                .map(|device| (device.device, report(device)))
                .collect()
        })
    }

    /// The verdict about a device.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn leaks(&self, device: DeviceIdx) -> Result<&Leaks, Refused> {
        self.decoded.device(device).map_err(no_device)?;
        let found = self.judged().iter().find(|(of, _)| *of == device);
        found.map(|(_, leaks)| leaks).ok_or_else(not_open)
    }

    /// What comparisons need of it.
    pub fn profile(&self) -> &Profile {
        self.profile
            .get_or_init(|| Profile::of(&self.decoded.trace))
    }

    /// What a survey of ranks needs of it.
    pub fn of_rank(&self) -> &RankProfile {
        let trace = &self.decoded.trace;
        let make = || Watch::undisturbed(|watch| RankProfile::of(trace, watch, watch));
        self.of_rank.get_or_init(make)
    }

    /// The entry in the list.
    pub fn summary(&self) -> RunSummary {
        let facts = self.facts.iter();
        let peak = |facts: &DeviceFacts| facts.series(Series::Allocated).peak;
        let quality = self.decoded.trace.quality.iter();
        let quality = quality.filter(|note| !note.is_of_pinned());
        RunSummary {
            id: self.id.clone(),
            name: self.name.clone(),
            source: RunSource::Upload,
            created_ms: self.created_ms,
            file_bytes: self.file_bytes,
            content_hash: self.hash.clone(),
            steps: DeviceFacts::main(&self.facts).map_or(0, |facts| facts.steps),
            peak_allocated: facts.clone().map(peak).max().unwrap_or_default(),
            devices: facts.cloned().map(DeviceFacts::summary).collect(),
            pinned: self.pinned.clone().map(DeviceFacts::summary),
            quality: quality.map(|note| note.code.clone()).collect(),
            faults: Vec::new(),
            leaks: self.verdict(),
            job: self.place(),
            labels: Labels::new(),
            uploaded_by: None,
            deleted_ms: self.deleted_ms,
        }
    }

    /// Which rank of which job it is.
    fn place(&self) -> Option<RunOfJob> {
        let (job, name, rank) = self.job.as_ref()?;
        Some(RunOfJob {
            older: Vec::new(),
            job: job.clone(),
            name: name.clone(),
            rank: *rank,
        })
    }

    /// What it is called beside other runs.
    pub fn called(&self) -> String {
        called(&self.name, self.place().as_ref())
    }

    /// The head of its page.
    pub fn detail(&self) -> RunDetail {
        let format = &self.decoded.trace.format;
        RunDetail {
            summary: self.summary(),
            pickle_protocol: format.pickle_protocol,
            torch_guess: format.torch_guess.clone(),
            settings: format.settings.clone(),
            quality_notes: self.decoded.trace.quality.clone(),
            bench_row: None,
        }
    }

    /// One verdict for all devices, chosen as the server does: a leak counts most, then what cannot
    /// be told. Of pinned memory only a leak counts, after those of devices.
    fn verdict(&self) -> Option<LeakSummary> {
        let judged = self.judged.get()?.iter();
        let judged =
            judged.filter(|(device, leaks)| !device.is_pinned() || leaks.verdict == Verdict::Leak);
        let weight = |(device, leaks): &&(DeviceIdx, Leaks)| {
            Weight::new(*device, leaks.verdict, leaks.bytes_per_step)
        };
        let (device, worst) = judged.max_by_key(weight)?;
        Some(LeakSummary {
            device: *device,
            recording: worst.recording,
            verdict: worst.verdict,
            reason: worst.reason.clone(),
            bytes_per_step: Bytes(worst.bytes_per_step.round() as u64),
            step: worst.step.clone(),
        })
    }
}

/// All of them, in the order in which they were opened.
#[derive(Default)]
pub struct Runs(Vec<Run>);

impl Runs {
    /// The open ones, newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Run> {
        self.0.iter().rev().filter(|run| run.deleted_ms.is_none())
    }

    /// Those whose deletion can be undone, newest first.
    pub fn deleted(&self) -> impl Iterator<Item = &Run> {
        self.0.iter().rev().filter(|run| run.deleted_ms.is_some())
    }

    /// An open one.
    ///
    /// # Errors
    /// When it is not open in this tab.
    pub fn get(&self, id: &str) -> Result<&Run, Refused> {
        let found = self.newest().find(|run| run.id.as_str() == id);
        found.ok_or_else(not_open)
    }

    /// One of them, deleted or not.
    ///
    /// # Errors
    /// As [`Runs::get`].
    pub fn change(&mut self, id: &str) -> Result<&mut Run, Refused> {
        let found = self.0.iter_mut().find(|run| run.id.as_str() == id);
        found.ok_or_else(not_open)
    }

    /// Adds one that was just read.
    pub fn add(&mut self, run: Run) {
        self.0.push(run);
    }

    /// All of them, to be changed.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Run> {
        self.0.iter_mut()
    }

    /// Drops those that were deleted: their memory is needed.
    pub fn forget_deleted(&mut self) {
        self.0.retain(|run| run.deleted_ms.is_none());
    }

    /// Memory of all.
    pub fn weight(&self) -> Bytes {
        self.0.iter().map(Run::weight).sum()
    }

    /// Finds the verdict of one that has none; says whether there was one.
    pub fn judge_one(&self) -> bool {
        let unjudged = self.newest().find(|run| !run.is_judged());
        unjudged.map(Run::judged).is_some()
    }
}

/// A name from a person.
///
/// # Errors
/// When no run may be called so.
pub fn run_name(text: &str) -> Result<String, Refused> {
    run_names::typed(text).map_err(|error| bad_request(error.to_string()))
}
