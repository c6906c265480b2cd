//! The child process of a row: it writes progress to stdout and its recording to a file.
//!
//! The specification is one line of JSON on stdin, which then stays open. When stdin ends, the
//! server is gone, and the child ends too.

use crate::limits::work;
use crate::tensors::TensorTable;
use api::bench::{BenchResult, BenchStep, DeviceKind};
use engine::bench::{RunSpec, run_recorded};
use engine::device::cuda;
use engine::device::sim::SimSpec;
use engine::patches::Patch;
use engine::systems::System;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufWriter, Read, Write};
use std::path::PathBuf;
use trace::trace::ENGINE_SETTING;
use trace::units::Bytes;

/// Exit status of a child whose server is gone.
const ORPHANED: i32 = 3;

/// Address space beyond the memory limit, for the program, stacks, and arenas of the allocator. The
/// server watches the memory that is really used.
const OVERHEAD: u64 = 1 << 30;

/// One row to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildSpec {
    /// Id of the configuration.
    pub config: String,
    /// Ids of the patches.
    pub patches: Vec<String>,
    /// Steps to run.
    pub steps: u32,
    /// Which device.
    pub device: DeviceKind,
    /// Device memory in bytes; without it, the configuration's own, if it has one.
    pub capacity: Option<Bytes>,
    /// Steps recorded event by event.
    pub recorded_steps: u32,
    /// The file for the recording.
    pub recording: PathBuf,
    /// The file for what is known about its tensors.
    pub tensors: PathBuf,
    /// Memory in bytes that the process may take.
    pub memory: u64,
    /// A fault to inject.
    #[cfg(feature = "faults")]
    pub fault: Option<super::Fault>,
}

/// One line of the child's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub enum Line {
    /// A step is done.
    Step(BenchStep),
    /// The row is done and its recording written.
    Done {
        /// The version that patches were applied to.
        base: String,
        /// The numbers.
        result: Box<BenchResult>,
    },
    /// The row cannot be run.
    Refused {
        /// Why, as a sentence.
        reason: String,
    },
}

/// Runs the row that stdin names. Errors are written to stdout.
///
/// # Errors
/// When stdin or stdout cannot be used, or the recording not be written.
pub fn run_child() -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let spec: ChildSpec = serde_json::from_str(&line)?;
    // This comes before other threads exist, so that they get the same priority.
    work::give_way();
    std::thread::spawn(end_with_the_server);
    limit_memory(&spec);
    match run_spec(&spec) {
        Ok(run_spec) => run_row(&spec, &run_spec),
        Err(reason) => say(&Line::Refused { reason }),
    }
}

fn run_row(spec: &ChildSpec, run: &RunSpec) -> io::Result<()> {
    let mut broken = None;
    let (result, mut recording) = run_recorded(run, &mut |facts| {
        let said = say(&Line::Step(facts));
        broken = said.err();
        #[cfg(feature = "faults")]
        super::fault::misbehave(spec.fault.as_ref(), facts.step);
        broken.is_none()
    });
    // Nobody listens any more, so the rest is not needed.
    if let Some(error) = broken {
        return Err(error);
    }
    std::fs::write(&spec.tensors, TensorTable::of(recording.tensors()).pack()?)?;
    recording.label(ENGINE_SETTING, run.system.id);
    recording.label("tidemark.patches", &spec.patches.join(" "));
    recording.label("tidemark.device", spec.device.name());
    let file = File::create(&spec.recording)?;
    recording.write_pickle(BufWriter::with_capacity(1 << 20, file))?;
    say(&Line::Done {
        base: run.base.to_string(),
        result: Box::new(result),
    })
}

fn run_spec(spec: &ChildSpec) -> Result<RunSpec, String> {
    let unknown = |what: &str, id: &str| format!("there is no {what} `{id}`");
    if spec.device == DeviceKind::Cuda {
        cuda::probe().map_err(|why| why.to_string())?;
    }
    let system = System::from_id(&spec.config);
    let system = system.ok_or_else(|| unknown("configuration", &spec.config))?;
    let patch = |id: &String| Patch::from_id(id).ok_or_else(|| unknown("patch", id));
    let patches: Vec<&Patch> = spec.patches.iter().map(patch).collect::<Result<_, _>>()?;
    Ok(RunSpec {
        steps: Some(spec.steps),
        sim: SimSpec {
            capacity: spec.capacity,
            ..SimSpec::default()
        },
        record_steps: spec.recorded_steps,
        device: spec.device,
        ..RunSpec::new(system, &patches)
    })
}

fn say(line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Waits until stdin ends, which happens when the server ends.
fn end_with_the_server() {
    let mut rest = [0; 64];
    while let Ok(1..) = io::stdin().lock().read(&mut rest) {}
    std::process::exit(ORPHANED);
}

/// Limits the address space, which stops the process between two checks by the server of what it
/// really uses. A driver reserves more address space than there is memory, so on a GPU only the
/// server's checks count.
fn limit_memory(spec: &ChildSpec) {
    // If the whole machine runs out of memory, the system should end this process and not the
    // server. Without this file the system has no such setting.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    if spec.device == DeviceKind::Cuda {
        return;
    }
    let most = Some(spec.memory.saturating_add(OVERHEAD));
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    // Fails only if a lower limit is already set.
    let _ = setrlimit(Resource::As, limit);
    let no_dump = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _ = setrlimit(Resource::Core, no_dump);
}
