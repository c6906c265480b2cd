//! Many runs: a row for each device of each run, and for each group that accumulates in one.

use super::super::TableError;
use super::columns::{Table, Value};
use api::ids::RunId;
use api::leaks::{LeakGroup, Pattern, Verdict};
use api::runs::{DeviceSummary, RunSource, RunSummary};
use std::io::Write;
use trace::device::DeviceIdx;
use trace::known::{Point, Unknown};
use trace::trace::{QualityNote, Series, SeriesSummary, StepSource};
use trace::units::Bytes;

/// One device of a run.
struct DeviceOf<'r> {
    run: &'r RunSummary,
    device: &'r DeviceSummary,
}

impl DeviceOf<'_> {
    fn series(&self, series: Series) -> &SeriesSummary {
        &self.device.series[series as usize]
    }

    /// A peak; `None` where the recording does not say.
    fn peak(&self, series: Series) -> Option<i64> {
        let note = |code: &String| QualityNote {
            code: code.clone(),
            detail: String::new(),
        };
        let notes: Vec<QualityNote> = self.run.quality.iter().map(note).collect();
        let unknown = Unknown::of(self.device.device, &notes);
        let is_known = !unknown.has(series, Point::Peak);
        is_known.then(|| bytes(self.series(series).peak)).flatten()
    }
}

/// A group that accumulates in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct LeakOf {
    /// The run.
    pub run: RunId,
    /// Its device, as the process numbered it.
    pub device: DeviceIdx,
    /// What accumulates.
    pub group: LeakGroup,
}

fn number(n: impl Into<i64>) -> Option<i64> {
    Some(n.into())
}

/// More than any memory has is no number of bytes.
fn bytes(bytes: Bytes) -> Option<i64> {
    i64::try_from(bytes.0).ok()
}

/// What went wrong in the bench row of a run; empty if nothing did, or no bench ran it.
fn faults(run: &RunSummary) -> String {
    let names = run.faults.iter().map(|fault| fault.name());
    names.collect::<Vec<_>>().join(",")
}

/// The columns of runs.
fn of_runs<'r>() -> [(&'static str, Value<DeviceOf<'r>>); 23] {
    [
        ("run", Value::Text(|r| Some(r.run.id.to_string()))),
        ("name", Value::Text(|r| Some(r.run.name.clone()))),
        (
            "source",
            Value::Text(|r| Some(source(r.run.source).to_owned())),
        ),
        ("created_ms", Value::Number(|r| Some(r.run.created_ms))),
        ("file_bytes", Value::Number(|r| bytes(r.run.file_bytes))),
        (
            "job",
            Value::Text(|r| Some(r.run.job.as_ref()?.job.to_string())),
        ),
        (
            "rank",
            Value::Number(|r| number(r.run.job.as_ref()?.rank.0)),
        ),
        (
            "labels",
            Value::Text(|r| serde_json::to_string(&r.run.labels).ok()),
        ),
        ("device", Value::Number(|r| number(r.device.device.0))),
        ("events", Value::Number(|r| number(r.device.events))),
        ("allocations", Value::Number(|r| number(r.device.blocks))),
        ("steps", Value::Number(|r| number(r.device.steps))),
        (
            "steps_from",
            Value::Text(|r| Some(steps_from(r.device.step_source).to_owned())),
        ),
        (
            "peak_requested",
            Value::Number(|r| r.peak(Series::Requested)),
        ),
        (
            "peak_allocated",
            Value::Number(|r| r.peak(Series::Allocated)),
        ),
        ("peak_active", Value::Number(|r| r.peak(Series::Active))),
        ("peak_reserved", Value::Number(|r| r.peak(Series::Reserved))),
        (
            "end_allocated",
            Value::Number(|r| bytes(r.series(Series::Allocated).end)),
        ),
        (
            "failed_allocations",
            Value::Number(|r| Some(r.device.oom_events.len() as i64)),
        ),
        ("quality", Value::Text(|r| Some(r.run.quality.join(",")))),
        // Of the run: what its bench knows.
        ("faults", Value::Text(|r| Some(faults(r.run)))),
        // Of the run: that of its device that leaks most.
        (
            "verdict",
            Value::Text(|r| Some(verdict(r.run.leaks.as_ref()?.verdict).to_owned())),
        ),
        (
            "leaked_per_step",
            Value::Number(|r| {
                let leaks = r.run.leaks.as_ref()?;
                let is_known = leaks.verdict != Verdict::CannotTell;
                is_known.then(|| bytes(leaks.bytes_per_step)).flatten()
            }),
        ),
    ]
}

const LEAKS: [(&str, Value<LeakOf>); 23] = [
    ("run", Value::Text(|l| Some(l.run.to_string()))),
    ("device", Value::Number(|l| number(l.device.0))),
    ("site", Value::Text(|l| Some(l.group.site.clone()))),
    (
        "function",
        Value::Text(|l| Some(l.group.frame.as_ref()?.name.clone())),
    ),
    (
        "file",
        Value::Text(|l| Some(l.group.frame.as_ref()?.filename.clone())),
    ),
    (
        "line",
        Value::Number(|l| number(l.group.frame.as_ref()?.line)),
    ),
    (
        "inferred",
        Value::Number(|l| number(l.group.frame_inferred)),
    ),
    (
        "alloc_function",
        Value::Text(|l| Some(l.group.alloc_frame.as_ref()?.name.clone())),
    ),
    (
        "alloc_file",
        Value::Text(|l| Some(l.group.alloc_frame.as_ref()?.filename.clone())),
    ),
    (
        "alloc_line",
        Value::Number(|l| number(l.group.alloc_frame.as_ref()?.line)),
    ),
    // Where a graph keeps what leaks, the line that made it.
    (
        "made_in_function",
        Value::Text(|l| Some(l.group.made_in.as_ref()?.name.clone())),
    ),
    (
        "made_in_file",
        Value::Text(|l| Some(l.group.made_in.as_ref()?.filename.clone())),
    ),
    (
        "made_in_line",
        Value::Number(|l| number(l.group.made_in.as_ref()?.line)),
    ),
    (
        "pattern",
        Value::Text(|l| Some(pattern(l.group.pattern).to_owned())),
    ),
    ("every", Value::Number(|l| number(l.group.every?))),
    (
        "count_per_step",
        Value::Real(|l| Some(l.group.count_per_step)),
    ),
    (
        "bytes_per_step",
        Value::Real(|l| Some(l.group.bytes_per_step)),
    ),
    ("slope_error", Value::Real(|l| Some(l.group.slope_error))),
    ("confidence", Value::Real(|l| Some(l.group.confidence))),
    ("first_step", Value::Number(|l| number(l.group.first_step))),
    ("last_step", Value::Number(|l| number(l.group.last_step))),
    (
        "live_count",
        Value::Number(|l| i64::try_from(l.group.live_count).ok()),
    ),
    ("live_bytes", Value::Number(|l| bytes(l.group.live_bytes))),
];

const fn source(source: RunSource) -> &'static str {
    match source {
        RunSource::Upload => "upload",
        RunSource::Sample => "sample",
        RunSource::Engine => "engine",
    }
}

const fn steps_from(source: StepSource) -> &'static str {
    match source {
        StepSource::Annotations => "annotations",
        StepSource::Inferred => "inferred",
        StepSource::None => "none",
    }
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Leak => "leak",
        Verdict::Clean => "clean",
        Verdict::CannotTell => "cannot_tell",
    }
}

const fn pattern(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::EveryStep => "every_step",
        Pattern::EveryNth => "every_nth",
        Pattern::WithinStep => "within_step",
        Pattern::Enlarged => "enlarged",
    }
}

/// Writes the runs.
pub fn write_runs(runs: &[RunSummary], out: impl Write + Send) -> Result<(), TableError> {
    let devices = runs.iter().flat_map(|run| {
        let devices = run.devices.iter();
        devices.map(move |device| DeviceOf { run, device })
    });
    let rows: Vec<DeviceOf<'_>> = devices.collect();
    let columns = of_runs();
    let named = columns.iter().map(|(name, value)| (*name, value.kind()));
    let mut table = Table::new(out, "runs", named, &[])?;
    table.rows(columns.iter().map(|(_, value)| value.cells(&rows)))?;
    table.finish()
}

/// Writes what accumulates.
pub fn write_leaks(leaks: &[LeakOf], out: impl Write + Send) -> Result<(), TableError> {
    let columns = LEAKS.iter().map(|(name, value)| (*name, value.kind()));
    let mut table = Table::new(out, "leaks", columns, &[])?;
    table.rows(LEAKS.iter().map(|(_, value)| value.cells(leaks)))?;
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::bench::Fault;
    use api::frames::FrameText;
    use api::leaks::LeakSummary;
    use trace::steps::recording::Kind;
    use trace::trace::Fidelity;

    fn run(verdict: Option<Verdict>) -> RunSummary {
        let leaks = verdict.map(|verdict| LeakSummary {
            device: DeviceIdx(0),
            recording: Kind::Loop,
            verdict,
            reason: String::new(),
            bytes_per_step: Bytes(7),
            step: "step".to_owned(),
        });
        RunSummary {
            id: "run_a".parse().unwrap(),
            name: "a".to_owned(),
            source: RunSource::Upload,
            created_ms: 0,
            file_bytes: Bytes::ZERO,
            content_hash: String::new(),
            devices: Vec::new(),
            pinned: None,
            steps: 0,
            peak_allocated: Bytes::ZERO,
            quality: Vec::new(),
            faults: Vec::new(),
            leaks,
            job: None,
            labels: [].into(),
            uploaded_by: None,
            deleted_ms: None,
        }
    }

    #[test]
    fn the_line_that_made_what_leaks_has_columns() {
        let group = |made_in: Option<FrameText>| LeakGroup {
            site: String::new(),
            stack: None,
            frame: None,
            frame_inferred: false,
            alloc_frame: None,
            made_in,
            forward: None,
            pattern: Pattern::EveryStep,
            every: None,
            scope: None,
            count_per_step: 1.0,
            bytes_per_step: 1.0,
            slope_error: 0.0,
            confidence: 1.0,
            first_step: 0,
            last_step: 0,
            first_number: 0,
            last_number: 0,
            live_count: 1,
            live_bytes: Bytes::ZERO,
            evidence: Vec::new(),
        };
        let told = |made_in| {
            let leak = LeakOf {
                run: "run_a".parse().unwrap(),
                device: DeviceIdx(0),
                group: group(made_in),
            };
            let columns = LEAKS.iter().filter(|(name, _)| name.starts_with("made_in"));
            let told = columns.map(|(_, value)| match value {
                Value::Text(of) => of(&leak),
                Value::Number(of) => of(&leak).map(|line| line.to_string()),
                Value::Real(_) => None,
            });
            told.collect::<Vec<_>>()
        };
        assert_eq!(told(None), [None, None, None]);
        let frame = FrameText {
            name: "gelu".to_owned(),
            filename: "layers.py".to_owned(),
            line: 7,
        };
        let expected = ["gelu", "layers.py", "7"].map(|text| Some(text.to_owned()));
        assert_eq!(told(Some(frame)), expected);
    }

    /// A device that has no events.
    fn device() -> DeviceSummary {
        DeviceSummary {
            device: DeviceIdx(0),
            events: 0,
            blocks: 0,
            series: [SeriesSummary::default(); 4],
            fidelity: Fidelity::default(),
            unmatched_frees: 0,
            step_source: StepSource::None,
            steps: 0,
            time: None,
            oom_events: Vec::new(),
        }
    }

    /// What a column of numbers says of such a device.
    fn number_in(column: &str, run: &RunSummary) -> Option<i64> {
        let device = device();
        let columns = of_runs();
        let mut columns = columns.iter();
        let found = columns.find(|(name, _)| *name == column);
        let Some((_, Value::Number(of))) = found else {
            panic!("there is no such column");
        };
        of(&DeviceOf {
            run,
            device: &device,
        })
    }

    #[test]
    fn what_went_wrong_in_a_bench_has_a_column() {
        let told = |faults: &[Fault]| {
            let run = RunSummary {
                faults: faults.to_vec(),
                ..run(None)
            };
            let device = device();
            let columns = of_runs();
            let column = columns.iter().find(|(name, _)| *name == "faults");
            let Some((_, Value::Text(of))) = column else {
                panic!("there is no such column");
            };
            of(&DeviceOf {
                run: &run,
                device: &device,
            })
        };
        assert_eq!(told(&[]).as_deref(), Some(""));
        let both = told(&[Fault::Crash, Fault::Corruption]);
        assert_eq!(both.as_deref(), Some("crash,corruption"));
    }

    #[test]
    fn a_peak_that_nobody_saw_has_no_size() {
        let check = |code: &str, allocated: Option<i64>, reserved: Option<i64>| {
            let run = RunSummary {
                quality: vec![code.to_owned()],
                ..run(None)
            };
            assert_eq!(number_in("peak_allocated", &run), allocated, "{code}");
            assert_eq!(number_in("peak_reserved", &run), reserved, "{code}");
            assert_eq!(number_in("end_allocated", &run), Some(0), "{code}");
        };
        check("no_stacks", Some(0), Some(0));
        check("state_only", None, None);
        check("segments_not_recorded", Some(0), None);
        check("ring_wrapped", Some(0), Some(0));
    }

    #[test]
    fn a_leak_that_nobody_can_tell_of_has_no_size() {
        let leaked = |verdict| number_in("leaked_per_step", &run(verdict));
        assert_eq!(leaked(Some(Verdict::Leak)), Some(7));
        assert_eq!(leaked(Some(Verdict::Clean)), Some(7));
        assert_eq!(leaked(Some(Verdict::CannotTell)), None);
        assert_eq!(leaked(None), None);
    }
}
