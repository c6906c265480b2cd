//! Runs: what the list and the head of a run page show.

use crate::bench::{Fault, RowOfRun};
use crate::ids::{JobId, RunId, SessionId, UploadId};
use crate::jobs::{RunOfJob, called};
use crate::labels::Labels;
use crate::leaks::LeakSummary;
use crate::quality::{self, told_peak};
use serde::{Deserialize, Serialize};
use trace::device::DeviceIdx;
use trace::main_device;
use trace::ranks::Rank;
use trace::trace::{Fidelity, QualityNote, Series, SeriesSummary, StepSource, is_of_engine};
use trace::units::Bytes;

/// The longest name of a run, characters.
pub const MAX_NAME: usize = 200;

/// Where a run came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunSource {
    /// An uploaded file.
    Upload,
    /// A bundled sample.
    Sample,
    /// The engine.
    Engine,
}

impl RunSource {
    /// What wrote a file from here, where that is known: `torch 2.14 or later`, or `engine
    /// recording`, also for one that was uploaded.
    pub fn written_by(
        self,
        settings: &[(String, String)],
        torch_guess: Option<&str>,
    ) -> Option<String> {
        match self == RunSource::Engine || is_of_engine(settings) {
            true => Some("engine recording".to_owned()),
            false => torch_guess.map(|torch| format!("torch {torch}")),
        }
    }
}

/// One row of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunSummary {
    /// Its id: derived from the content, so equal bytes have equal ids.
    pub id: RunId,
    /// The name the user gave; at first the file's.
    pub name: String,
    /// Where it came from.
    pub source: RunSource,
    /// When it arrived, milliseconds since the epoch.
    pub created_ms: i64,
    /// Size of the file as uploaded.
    pub file_bytes: Bytes,
    /// BLAKE3 of the file as uploaded, hexadecimal.
    pub content_hash: String,
    /// Its devices.
    pub devices: Vec<DeviceSummary>,
    /// The pinned memory of the host, where it was recorded (torch 2.14 and later): as a device
    /// with the number 128, by which questions name it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pinned: Option<DeviceSummary>,
    /// Steps of the main device: the one that ran out of memory, else the one that held most.
    pub steps: u32,
    /// Largest *allocated* of any device.
    pub peak_allocated: Bytes,
    /// Codes of the quality notes, for badges.
    pub quality: Vec<String>,
    /// What went wrong in the bench row whose first steps it is; the recording need not show it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub faults: Vec<Fault>,
    /// Whether it leaks; absent until that was looked at, shortly after it arrives.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub leaks: Option<LeakSummary>,
    /// Which rank of which job it is, if it is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job: Option<RunOfJob>,
    /// What the team says of it, by key: branch, commit, config.
    #[serde(skip_serializing_if = "Labels::is_empty", default)]
    pub labels: Labels,
    /// The person who sent it, or the server's token. Absent where nobody signs in, for links, and
    /// for runs that the server made or that are older than this field.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uploaded_by: Option<String>,
    /// Set while a deletion can be undone, milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub deleted_ms: Option<i64>,
}

impl RunSummary {
    /// What it is called beside other runs ([`called`]).
    pub fn called(&self) -> String {
        called(&self.name, self.job.as_ref())
    }

    /// Its peak in words: of a recording that lost its beginning, it is only known to be no lower.
    pub fn peak(&self) -> String {
        told_peak(self.peak_allocated, &self.quality)
    }

    /// The same in few letters, for a narrow column: `≥ 8.00 GiB`.
    pub fn peak_in_short(&self) -> String {
        quality::peak_in_short(self.peak_allocated, &self.quality)
    }

    /// Whether an allocation failed, on any device.
    pub fn ran_out_of_memory(&self) -> bool {
        let mut devices = self.devices.iter();
        devices.any(|device| !device.oom_events.is_empty())
    }

    /// What went wrong, as its recording and its bench know it.
    pub fn went_wrong(&self) -> Vec<Fault> {
        Fault::with_recorded(&self.faults, self.ran_out_of_memory())
    }

    /// The device that is shown when none is named ([`trace::main_device`]).
    pub fn main_device(&self) -> Option<&DeviceSummary> {
        self.devices.iter().max_by_key(|device| {
            let peak = device.series[Series::Allocated as usize].peak;
            main_device::weight(!device.oom_events.is_empty(), peak, device.device)
        })
    }
}

/// One device of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceSummary {
    /// CUDA ordinal as the process saw it.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub device: DeviceIdx,
    /// Events.
    pub events: u32,
    /// Allocations seen, pre-existing ones included.
    pub blocks: u32,
    /// Start, peak and end of requested, allocated, active, reserved, in that order.
    pub series: [SeriesSummary; 4],
    /// How well the allocator's rules reproduced the trace.
    pub fidelity: Fidelity,
    /// Frees of memory that the trace did not see allocated.
    pub unmatched_frees: u64,
    /// Where the steps come from.
    pub step_source: StepSource,
    /// Number of steps.
    pub steps: u32,
    /// Time of the first and last event, microseconds since the epoch; `None` without times.
    pub time: Option<(i64, i64)>,
    /// Events at which an allocation failed.
    pub oom_events: Vec<u32>,
}

/// The head of a run page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "ReadDetail")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunDetail {
    /// What the list shows.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// Pickle protocol; absent for JSON and recordings.
    pub pickle_protocol: Option<u8>,
    /// The torch versions that write such a file.
    pub torch_guess: Option<String>,
    /// Allocator settings, flattened.
    pub settings: Vec<(String, String)>,
    /// Findings about the data, in full.
    pub quality_notes: Vec<QualityNote>,
    /// What it is the beginning of, and how that ended, where a bench recorded it.
    pub bench_row: Option<RowOfRun>,
}

impl RunDetail {
    /// The codes of what is found about the data of a device.
    pub fn codes_of(&self, device: DeviceIdx) -> Vec<String> {
        let concerns = |note: &&QualityNote| match device.is_pinned() {
            true => note.is_of_pinned(),
            false => note.concerns(device),
        };
        let notes = self.quality_notes.iter().filter(concerns);
        notes.map(|note| note.code.clone()).collect()
    }
}

/// It as it is read; `crate::lacks` says why.
#[derive(Deserialize)]
struct ReadDetail {
    id: RunId,
    name: String,
    source: RunSource,
    created_ms: i64,
    file_bytes: Bytes,
    content_hash: String,
    devices: Vec<DeviceSummary>,
    pinned: Option<DeviceSummary>,
    steps: u32,
    peak_allocated: Bytes,
    quality: Vec<String>,
    #[serde(default)]
    faults: Vec<Fault>,
    leaks: Option<LeakSummary>,
    job: Option<RunOfJob>,
    #[serde(default)]
    labels: Labels,
    uploaded_by: Option<String>,
    deleted_ms: Option<i64>,
    pickle_protocol: Option<u8>,
    torch_guess: Option<String>,
    settings: Vec<(String, String)>,
    quality_notes: Vec<QualityNote>,
    bench_row: Option<RowOfRun>,
}

impl From<ReadDetail> for RunDetail {
    fn from(read: ReadDetail) -> RunDetail {
        RunDetail {
            summary: RunSummary {
                id: read.id,
                name: read.name,
                source: read.source,
                created_ms: read.created_ms,
                file_bytes: read.file_bytes,
                content_hash: read.content_hash,
                devices: read.devices,
                pinned: read.pinned,
                steps: read.steps,
                peak_allocated: read.peak_allocated,
                quality: read.quality,
                faults: read.faults,
                leaks: read.leaks,
                job: read.job,
                labels: read.labels,
                uploaded_by: read.uploaded_by,
                deleted_ms: read.deleted_ms,
            },
            pickle_protocol: read.pickle_protocol,
            torch_guess: read.torch_guess,
            settings: read.settings,
            quality_notes: read.quality_notes,
            bench_row: read.bench_row,
        }
    }
}

/// `PATCH` of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RenameRun {
    /// The new name; 1 to 200 characters.
    pub name: String,
}

/// `POST` to announce an upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AnnounceUpload {
    /// The file's name.
    pub name: String,
    /// Its size, so that the limit and the disk are checked before a byte is sent.
    pub size: Option<Bytes>,
    /// The job that it is a rank of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job: Option<JobId>,
    /// Which rank of the job; what the name says unless given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rank: Option<Rank>,
}

/// Answer to an announcement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AnnouncedUpload {
    /// Its id; `PUT` the body to [`crate::routes::upload`].
    pub upload: UploadId,
}

/// Answer to a finished upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FinishedUpload {
    /// The run.
    pub run: RunSummary,
    /// Address of its page, absolute.
    pub url: String,
    /// Whether the same bytes were there before.
    pub known: bool,
}

/// A bundled sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Sample {
    /// Name in the URL.
    pub name: String,
    /// What to call it.
    pub title: String,
    /// One sentence on what there is to see.
    pub about: String,
    /// Size of the file.
    pub bytes: Bytes,
}

/// What the page needs to know of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerInfo {
    /// Version of the binary.
    pub version: String,
    /// Largest upload accepted.
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub upload_limit: Bytes,
    /// Whether requests need a token, and this one had it.
    pub access: Access,
    /// What time it is there, milliseconds since the epoch: what is old is told by this clock.
    /// Servers of older versions do not say it.
    #[serde(default)]
    #[cfg_attr(target_family = "wasm", serde(skip_deserializing))]
    pub now_ms: Option<i64>,
}

/// Whether this client may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// No token is configured: loopback only.
    Open,
    /// A token is needed and was sent.
    Granted,
    /// A token is needed: ask for it.
    TokenNeeded,
}

/// A browser that is signed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// Names it.
    pub id: SessionId,
    /// When the token was typed.
    pub created_ms: i64,
    /// When it was used last.
    pub seen_ms: i64,
    /// When it ends by itself.
    pub expires_ms: i64,
    /// From which address the token was typed.
    pub address: String,
    /// What the browser called itself then.
    pub agent: String,
    /// Whose it is; none: of somebody with the server's own token.
    #[serde(default)]
    pub person: Option<String>,
    /// Whether it is the one that asks.
    pub current: bool,
}

/// Who has typed the access token, and how often a wrong one was typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Sessions {
    /// Those that have not ended, newest first.
    pub sessions: Vec<Session>,
    /// Wrong tokens and links since the server was started.
    pub wrong: u64,
    /// Tokens and links that were not looked at, because too many before them were wrong.
    pub refused: u64,
}

/// `POST` of the access token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenSession {
    /// The configured token.
    pub token: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::trace::ENGINE_SETTING;

    #[test]
    fn the_engine_is_no_torch() {
        let torch = Some("2.14 or later");
        let own = [(ENGINE_SETTING.to_owned(), "off_v3_moe".to_owned())];
        let check = |source: RunSource, settings: &[(String, String)], expected: &str| {
            let told = source.written_by(settings, torch);
            assert_eq!(told.as_deref(), Some(expected));
        };
        check(RunSource::Upload, &[], "torch 2.14 or later");
        check(RunSource::Upload, &own, "engine recording");
        check(RunSource::Engine, &[], "engine recording");
        assert_eq!(RunSource::Sample.written_by(&[], None), None);
    }
}
