//! Drives the offloader with a tape and compares after each call.

use std::rc::Rc;

use super::ahead::Ahead;
use super::line::{After, Line, PackLine, UnpackLine};
use super::passes::Ended;
use super::report::{Comparison, ReplayReport};
use super::reuse::Reuse;
use super::runtime::TapeRuntime;
use super::tensor::{TapeType, TapeTypes};
use super::{TapeError, TapeVersion};
use crate::deviation::Deviation;
use crate::offload::{
    Decision, KeyPlace, OffloadActivations, OffloadError, Origin, StorageKey, TensorId,
};
use trace::units::Bytes;

/// Replays all lines against one version; not the rest if more than `limit` values differ.
pub(super) fn drive(
    lines: &[Line],
    version: &TapeVersion,
    deviation: Option<Deviation>,
    limit: u64,
) -> Result<ReplayReport, TapeError> {
    let first = lines.iter().position(|line| !line.is_no_call());
    let first = first.unwrap_or(lines.len().saturating_sub(1));
    let Some(Line::Init(init)) = lines.get(first) else {
        return Err(TapeError::MisplacedInit { line: first + 1 });
    };
    let mut config = init.config(version.changes(), deviation);
    if init.use_pin_memory.is_none() {
        // What pinned memory would have refused was copied.
        config.use_pin_memory = !lines.iter().any(Line::is_sparse_copy);
    }
    let mut runtime = TapeRuntime::default();
    let offloader = OffloadActivations::new(config, &mut runtime)
        .map_err(|error| TapeError::Refused(error.to_string()))?;
    let mut driver = Driver {
        offloader,
        runtime,
        types: TapeTypes::default(),
        comparison: Comparison::default(),
        ahead: Ahead::new(lines),
        reuse: Reuse::default(),
    };
    for (index, line) in lines.iter().enumerate().skip(first + 1) {
        driver.step(index + 1, line, &lines[index + 1..])?;
        if driver.comparison.mismatches() > limit {
            break;
        }
    }
    Ok(ReplayReport {
        reused_ids: driver.reuse.restores(),
        ..driver.comparison.finish()
    })
}

struct Driver {
    offloader: OffloadActivations<TapeRuntime>,
    runtime: TapeRuntime,
    types: TapeTypes,
    comparison: Comparison,
    ahead: Ahead,
    reuse: Reuse,
}

impl Driver {
    fn step(&mut self, number: usize, line: &Line, rest: &[Line]) -> Result<(), TapeError> {
        match line {
            Line::Init(_) => return Err(TapeError::MisplacedInit { line: number }),
            Line::Unknown => {}
            Line::Step {} => {
                self.comparison.at(number, "step");
                self.nothing_runs();
                self.reuse.step();
            }
            Line::UseCount { value } => self.keep_use_count(*value),
            Line::Enter { after } => {
                self.begin(number, "enter");
                let ended = self.runtime.passes.enter(number - 1, &self.ahead);
                self.passes_ended(ended);
                let before = self.offloader.sizes();
                self.offloader.enter(&mut self.runtime);
                self.reuse.entered(before, self.offloader.sizes());
                self.compare_sizes(after);
            }
            Line::Pack(pack) => {
                self.begin(number, "pack");
                self.pack(number, pack)?;
            }
            Line::Unpack(unpack) => {
                self.begin(number, "unpack");
                self.unpack(unpack, rest);
            }
            Line::NodeHook { error, after } => {
                self.begin(number, "node_hook");
                self.node_hook(error.as_deref(), after);
            }
            Line::BackwardEnd { after } => {
                self.begin(number, "backward_end");
                self.backward_end(after);
            }
            Line::Exit { after } => {
                self.begin(number, "exit");
                let ended = self.runtime.passes.exit(number - 1, &self.ahead);
                self.passes_ended(ended);
                let outcome = self.offloader.exit(&mut self.runtime);
                self.compare_outcome(None, outcome);
                self.compare_sizes(after);
            }
            Line::ForwardEnd { after } => {
                self.comparison.at(number, "forward_end");
                self.nothing_runs();
                self.compare_sizes(after);
            }
            Line::StepEnd { after } => {
                self.comparison.at(number, "step_end");
                self.nothing_runs();
                self.reuse.step();
                self.compare_sizes(after);
            }
        }
        Ok(())
    }

    fn begin(&mut self, number: usize, op: &'static str) {
        self.comparison.at(number, op);
        self.comparison.count_call();
    }

    fn pack(&mut self, number: usize, line: &PackLine) -> Result<(), TapeError> {
        let saved = self.types.tensor(number, line)?;
        self.runtime.passes.pack();
        self.comparison
            .equal("bytes", line.bytes.0, saved.bytes().0);
        let key = key_number(StorageKey::of(&saved));
        self.comparison.equal("key", line.key.0, key);
        if let Some(base) = saved.storage.base {
            self.offloader
                .set_param_storage(base, line.in_param_storages);
        }
        let outcome = self.offloader.pack(&Rc::new(saved), &mut self.runtime);
        if let Some(id) = self.compare_outcome(line.error.as_deref(), outcome) {
            self.comparison
                .equal("id", line.id.unwrap_or_default(), id.0);
            let offloaded = self.offloader.decision(id) == Some(Decision::Offloaded);
            self.comparison
                .equal("offloaded", line.offloaded.unwrap_or_default(), offloaded);
        }
        self.compare_sizes(&line.after);
        Ok(())
    }

    fn unpack(&mut self, line: &UnpackLine, rest: &[Line]) {
        self.runtime.is_outside = line.graph.is_none();
        if let Some(graph) = line.graph {
            let ended = self.runtime.passes.unpack(graph);
            self.passes_ended(ended);
        }
        // The use count that a restore reads is on the line after it.
        let held = std::mem::take(&mut self.runtime.use_counts);
        let next = rest.iter().find(|line| !matches!(line, Line::Unknown));
        if let Some(Line::UseCount { value }) = next {
            self.runtime.use_counts.push_back(*value);
        }
        let outcome = self.offloader.unpack(TensorId(line.id), &mut self.runtime);
        if line.is_failed_look() {
            // What it restored in vain has read a count, whose line is before or after this one.
            self.runtime.unrecorded_reads = 0;
            self.runtime.skip_next_use_count = matches!(next, Some(Line::UseCount { .. }));
        } else {
            self.report_unrecorded_reads();
            self.runtime.use_counts = held;
        }
        if let Some((_, origin)) = self.compare_outcome(line.error.as_deref(), outcome) {
            let recorded = line.from.as_deref().unwrap_or_default();
            self.comparison.equal("from", recorded, origin_name(origin));
            self.reuse.unpacked(TensorId(line.id));
            // This restore has used the count, so its own line is skipped later.
            self.runtime.skip_next_use_count = origin == Origin::Host && self.has_streams();
        }
        self.runtime.is_outside = false;
        self.compare_sizes(&line.after);
    }

    fn keep_use_count(&mut self, value: u64) {
        if std::mem::take(&mut self.runtime.skip_next_use_count) {
            return;
        }
        self.runtime.use_counts.push_back(value);
    }

    fn node_hook(&mut self, error: Option<&str>, after: &After) {
        match self.runtime.passes.hook() {
            None => self
                .comparison
                .differ("hook", "ran".into(), "none registered".into()),
            Some((hook, ended)) => {
                self.passes_ended(ended);
                let outcome = self.offloader.node_finished(hook, &mut self.runtime);
                self.compare_outcome(error, outcome);
            }
        }
        self.report_unrecorded_reads();
        let unread = std::mem::take(&mut self.runtime.use_counts).len();
        self.comparison.equal("use counts not read", 0, unread);
        self.compare_sizes(after);
    }

    fn backward_end(&mut self, after: &After) {
        let ended = self.runtime.passes.end_all();
        self.passes_ended(ended);
        self.compare_sizes(after);
    }

    /// The program is between its backward passes.
    fn nothing_runs(&mut self) {
        let ended = self.runtime.passes.end_or_die(&self.ahead);
        self.passes_ended(ended);
    }

    fn passes_ended(&mut self, ended: Ended) {
        self.comparison
            .equal("hooks that did not run", 0, ended.hooks_left);
        if ended.has_callback {
            let outcome = self.offloader.backward_finished(&mut self.runtime);
            self.compare_outcome(None, outcome);
        }
    }

    fn has_streams(&self) -> bool {
        self.offloader.config().use_streams
    }

    fn report_unrecorded_reads(&mut self) {
        let reads = std::mem::take(&mut self.runtime.unrecorded_reads);
        self.comparison
            .equal("use counts read without a record", 0, reads);
    }

    /// Compares success with success. If the engine raises an exception, the recording must have
    /// one. A recorded exception ends the backward passes that it leaves.
    fn compare_outcome<T, E: std::error::Error + 'static>(
        &mut self,
        recorded: Option<&str>,
        outcome: Result<T, OffloadError<E>>,
    ) -> Option<T> {
        if recorded.is_some() && !self.runtime.is_outside {
            self.runtime.passes.die();
        }
        match (outcome, recorded) {
            (Ok(value), None) => Some(value),
            (Ok(value), Some(text)) => {
                self.comparison
                    .differ("error", text.to_owned(), "none".into());
                Some(value)
            }
            (Err(_), Some(_)) => None,
            (Err(error), None) => {
                let computed = format!("{}: {error}", error.python_class());
                self.comparison.differ("error", "none".into(), computed);
                None
            }
        }
    }

    fn compare_sizes(&mut self, after: &After) {
        let sizes = self.offloader.sizes();
        let kept = after.gpu_kept_bytes.map(Bytes::get);
        let pairs = [
            ("tracker", after.tracker, sizes.tracker),
            ("offloaded", after.offloaded, sizes.offloaded),
            ("gpu_kept_bytes", kept, sizes.gpu_kept_bytes.0),
            ("dedup_keys", after.dedup_keys, sizes.dedup_keys),
            ("tensor_id", after.tensor_id, sizes.tensor_id),
            ("fwd_stash", after.fwd_stash, sizes.fwd_stash),
            ("bwd_stash", after.bwd_stash, sizes.bwd_stash),
            ("bwd_ev", after.bwd_ev, sizes.bwd_ev),
        ];
        for (field, recorded, computed) in pairs {
            if let Some(recorded) = recorded {
                self.comparison.equal(field, recorded, computed);
            }
        }
    }
}

fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Kept => "kept",
        Origin::ForwardStash => "fwd_stash",
        Origin::Host => "host",
    }
}

fn key_number(key: StorageKey<TapeType>) -> u64 {
    match key.place {
        KeyPlace::Address(number) | KeyPlace::Object(number) => number,
    }
}
