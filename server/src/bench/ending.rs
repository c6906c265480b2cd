//! How a row ended, and how that is written down: all of it, or as much as the database takes.

use super::verdicts::changed_verdicts;
use crate::store::{BenchEnd, BenchJob, Store, StoreResult};
use crate::system::clock::now_ms;
use api::bench::BenchStep;
use api::ids::{BenchId, BenchRowId};
use std::sync::Arc;

/// How a row ended. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Ending {
    row: BenchRowId,
    bench: BenchId,
    end: Arc<BenchEnd>,
    steps: Arc<Vec<BenchStep>>,
}

impl Ending {
    /// The end of this row, with the steps that it got done.
    pub fn of(job: &BenchJob, end: BenchEnd, steps: Vec<BenchStep>) -> Ending {
        Ending {
            row: job.row.clone(),
            bench: job.bench.clone(),
            end: Arc::new(end),
            steps: Arc::new(steps),
        }
    }

    /// Whether there is a result.
    pub fn is_done(&self) -> bool {
        matches!(*self.end, BenchEnd::Done { .. })
    }

    /// Writes down all of it, and what it changes of the verdicts of other rows.
    ///
    /// # Errors
    /// The database's, which is a conflict when the row is no longer running.
    pub async fn write(&self, store: &Store) -> StoreResult<()> {
        let ending = self.clone();
        let write = store.write(move |writer| {
            writer.finish_bench_row(&ending.row, &ending.end, &ending.steps, now_ms())?;
            let rows = writer.reader().bench(&ending.bench)?.rows;
            for (row, status) in changed_verdicts(&rows) {
                writer.set_bench_status(&row, status)?;
            }
            Ok(())
        });
        write.await
    }

    /// Writes down as much of it as the database takes, which says why it refuses all of it. What
    /// is missing is told with the rest. Whether it took anything.
    pub async fn write_less(&self, store: &Store, why: &str) -> bool {
        for less in self.less(why) {
            match less.write(store).await {
                Ok(()) => return true,
                Err(error) => {
                    tracing::warn!(row = %self.row, %error, "cannot write down a part either");
                }
            }
        }
        false
    }

    /// Parts of it, the largest first.
    fn less(&self, why: &str) -> Vec<Ending> {
        let no_steps = format!("its steps are missing, because they cannot be stored: {why}");
        let none = Arc::new(Vec::new());
        let mut end = (*self.end).clone();
        match &mut end {
            BenchEnd::Done { note, .. } => {
                let notes: Vec<String> = note.take().into_iter().chain([no_steps]).collect();
                *note = Some(notes.join("; "));
                let reason = format!("it ran, but its result cannot be stored: {why}");
                let failed = BenchEnd::Failed { reason };
                vec![
                    self.with(end, Arc::clone(&none)),
                    self.with(failed.clone(), Arc::clone(&self.steps)),
                    self.with(failed, none),
                ]
            }
            BenchEnd::Failed { reason } => {
                *reason = format!("{reason}; {no_steps}");
                vec![self.with(end, none)]
            }
            BenchEnd::Cancelled => vec![self.with(end, none)],
        }
    }

    fn with(&self, end: BenchEnd, steps: Arc<Vec<BenchStep>>) -> Ending {
        Ending {
            row: self.row.clone(),
            bench: self.bench.clone(),
            end: Arc::new(end),
            steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::bench::{BenchResult, BenchStatus, DeviceKind};
    use trace::units::Bytes;

    #[test]
    fn numbers_are_kept_before_steps_and_steps_before_nothing() {
        let job = BenchJob {
            row: "row_a".parse().unwrap(),
            bench: "ben_a".parse().unwrap(),
            config: "any".to_owned(),
            patches: Vec::new(),
            steps: 1,
            device: DeviceKind::Sim,
            capacity: None,
            recorded_steps: 1,
        };
        let step = BenchStep {
            step: 0,
            allocated: Bytes(1),
            peak_allocated: Bytes(1),
            reserved: Bytes(1),
            tracker: 0,
            bwd_stash: 0,
            host_pinned: Bytes(0),
            seconds: 0.1,
        };
        let less = |end: BenchEnd| {
            let less = Ending::of(&job, end, vec![step]).less("no");
            let told = less.into_iter().map(|less| {
                let words = match (*less.end).clone() {
                    BenchEnd::Done { note, .. } => note.unwrap(),
                    BenchEnd::Failed { reason } => reason,
                    BenchEnd::Cancelled => "cancelled".to_owned(),
                };
                (words, less.steps.len())
            });
            told.collect::<Vec<_>>()
        };
        let no_steps = "its steps are missing, because they cannot be stored: no";
        let no_result = "it ran, but its result cannot be stored: no";
        let done = BenchEnd::Done {
            status: BenchStatus::Baseline,
            result: Box::new(BenchResult::default()),
            base: "v1".to_owned(),
            run: None,
            note: Some("one thing".to_owned()),
        };
        let expected = [
            (format!("one thing; {no_steps}"), 0),
            (no_result.to_owned(), 1),
            (no_result.to_owned(), 0),
        ];
        assert_eq!(less(done), expected);
        let reason = "it crashed".to_owned();
        let expected = [(format!("it crashed; {no_steps}"), 0)];
        assert_eq!(less(BenchEnd::Failed { reason }), expected);
        let expected = [("cancelled".to_owned(), 0)];
        assert_eq!(less(BenchEnd::Cancelled), expected);
    }
}
