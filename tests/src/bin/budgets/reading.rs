//! Time to read and analyse a file, compared with CPython's own unpickling of it.

use crate::table::Table;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tests::process::{self, Memory};

/// CPython only loads the file.
const PICKLE_LOAD: &str = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))";

/// Seconds that `tidemark inspect` took.
pub fn measure(big: &Path, table: &mut Table) -> f64 {
    // Reads the file once, so that it is in the page cache for both programs.
    std::io::copy(
        &mut std::fs::File::open(big).expect("the snapshot can be read"),
        &mut std::io::sink(),
    )
    .expect("the snapshot can be read");
    let runs: Vec<(f64, u64)> = (0..3).map(|_| timed(inspect(big))).collect();
    let (seconds, peak) = runs
        .into_iter()
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("three runs");
    let mut python = Command::new("python3");
    python.args(["-c", PICKLE_LOAD]).arg(big);
    let (python_seconds, python_peak) = timed(python);
    table.ratio(
        "read + analyse, CLI",
        "≥ 20× CPython",
        python_seconds,
        seconds,
    );
    table.bytes("— peak memory", "≤ 300 MB", peak);
    table.bytes("— CPython's peak memory", "", python_peak);
    seconds
}

fn inspect(big: &Path) -> Command {
    let mut command = Command::new(tests::tidemark());
    command.args(["inspect", "--json"]).arg(big);
    command
}

/// Wall seconds and peak memory of a command.
fn timed(mut command: Command) -> (f64, u64) {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let started = Instant::now();
    let child = command.spawn().expect("the command starts");
    let peak = watch(child);
    (started.elapsed().as_secs_f64(), peak)
}

fn watch(mut child: Child) -> u64 {
    let mut peak = 0;
    while child
        .try_wait()
        .expect("the child can be waited for")
        .is_none()
    {
        peak = peak.max(process::memory(child.id(), Memory::Peak));
        sleep(Duration::from_millis(5));
    }
    peak
}
