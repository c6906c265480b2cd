//! Runs with the same labels, one after the other: which numbers changed for good, and at which
//! run.

use api::history::{History, HistoryChange, HistoryRun, Measure};
use api::leaks::Verdict;
use api::runs::{DeviceSummary, RunSummary};
use trace::history::changes;
use trace::median;
use trace::steps::Word;
use trace::trace::Series;
use trace::units::Bytes;

/// The smallest change that counts: a share of the level, and also a number of bytes.
const LEAST_SHARE: f64 = 0.01;
const LEAST: Bytes = Bytes::mib(4);
/// For growth, smaller changes matter already.
const LEAST_GROWTH: Bytes = Bytes::mib(1);

/// The history of these runs, which are listed newest first and are all there are. A job is one
/// moment of the program; the rank with the highest peak stands for it, which is the first to run
/// out of memory.
pub fn of(newest_first: Vec<RunSummary>) -> History {
    let runs = newest_first.into_iter().rev();
    let runs: Vec<HistoryRun> = runs.filter_map(run).collect();
    let mut found: Vec<(usize, HistoryChange)> = Vec::new();
    for measure in Measure::ALL {
        found.extend(of_measure(&runs, measure));
    }
    found.sort_by_key(|(at, _)| *at);
    let changes = found.into_iter().map(|(_, change)| change).collect();
    History {
        total: runs.len() as u32,
        older: None,
        runs,
        changes,
        project: None,
    }
}

/// The data of the device with the highest peak, and what accumulates on the device that the
/// verdict is about; `None` for a run without devices.
pub fn run(summary: RunSummary) -> Option<HistoryRun> {
    let peak = |device: &&DeviceSummary| device.series[Series::Allocated as usize].peak;
    // Of equals, the last is taken.
    let device = summary.devices.iter().rev().max_by_key(peak)?;
    let [allocated, reserved] =
        [Series::Allocated, Series::Reserved].map(|series| device.series[series as usize]);
    let name = summary.called();
    let verdict = summary.leaks.as_ref().map(|leaks| leaks.verdict);
    let told = summary.leaks.as_ref();
    // Growth is that of a device. Of the host's memory only the verdict counts.
    let told =
        told.filter(|leaks| leaks.verdict != Verdict::CannotTell && !leaks.device.is_pinned());
    let elsewhere =
        told.filter(|leaks| leaks.device != device.device && leaks.bytes_per_step > Bytes::ZERO);
    Some(HistoryRun {
        growth: told.map(|leaks| leaks.bytes_per_step),
        growth_device: elsewhere.map(|leaks| leaks.device),
        step: told.map_or(Word::Step.one().to_owned(), |leaks| leaks.step.clone()),
        verdict,
        peak: allocated.peak,
        end: allocated.end,
        unused: reserved.peak.saturating_sub(allocated.peak),
        out_of_memory: summary.ran_out_of_memory(),
        quality: summary.quality,
        faults: summary.faults,
        run: summary.id,
        name,
        created_ms: summary.created_ms,
        labels: summary.labels,
    })
}

/// The changes of one measure, each with the position of its first run. Runs of a bench that
/// crashed, or whose data are wrong, change nothing for good.
fn of_measure(runs: &[HistoryRun], measure: Measure) -> Vec<(usize, HistoryChange)> {
    let measured = runs.iter().enumerate();
    let measured: Vec<(usize, Bytes)> = measured
        .filter(|(_, run)| run.is_measure())
        .filter_map(|(at, run)| Some((at, run.measured(measure)?)))
        .collect();
    let values: Vec<u64> = measured.iter().map(|(_, bytes)| bytes.0).collect();
    let found = changes(&values, least(&values, measure)).into_iter();
    let told = found.map(|change| {
        let at = |position: usize| measured[position].0;
        let told = HistoryChange {
            measure,
            before: runs[at(change.at - 1)].run.clone(),
            first: runs[at(change.at)].run.clone(),
            from: Bytes(change.before),
            to: Bytes(change.after),
            runs: change.values as u32,
        };
        (at(change.at), told)
    });
    told.collect()
}

/// The smallest change of a measure that counts.
fn least(values: &[u64], measure: Measure) -> u64 {
    if measure == Measure::Growth {
        return LEAST_GROWTH.0;
    }
    LEAST
        .0
        .max((median::lower(values.iter().copied()).unwrap_or(0) as f64 * LEAST_SHARE) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::bench::Fault;
    use api::ids::RunId;
    use api::leaks::LeakSummary;
    use api::runs::RunSource;
    use trace::device::DeviceIdx;
    use trace::series::SeriesSummary;
    use trace::steps::recording::Kind;
    use trace::trace::{Fidelity, StepSource};

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    /// The run of a commit; sizes in MiB.
    fn summary(commit: &str, peak: u64, reserved: u64, leak: Option<u64>) -> RunSummary {
        let level = |mib: u64| SeriesSummary {
            peak: Bytes(mib * MIB),
            end: Bytes(mib * MIB / 2),
            ..SeriesSummary::default()
        };
        RunSummary {
            pinned: None,
            id: format!("run_{commit}").parse().unwrap(),
            name: format!("{commit}.pickle"),
            source: RunSource::Upload,
            created_ms: 0,
            file_bytes: Bytes::ZERO,
            content_hash: String::new(),
            devices: vec![DeviceSummary {
                device: DeviceIdx(0),
                events: 1,
                blocks: 1,
                series: [level(peak), level(peak), level(peak), level(reserved)],
                fidelity: Fidelity::default(),
                unmatched_frees: 0,
                step_source: StepSource::None,
                steps: 4,
                time: None,
                oom_events: vec![],
            }],
            steps: 4,
            peak_allocated: Bytes(peak * MIB),
            quality: vec![],
            faults: vec![],
            leaks: Some(LeakSummary {
                device: DeviceIdx(0),
                recording: Kind::Loop,
                verdict: leak.map_or(Verdict::CannotTell, |_| Verdict::Leak),
                reason: String::new(),
                bytes_per_step: Bytes(leak.unwrap_or(0) * MIB),
                step: "step".to_owned(),
            }),
            job: None,
            labels: [("commit".to_owned(), commit.to_owned())].into(),
            uploaded_by: None,
            deleted_ms: None,
        }
    }

    #[test]
    fn growth_is_told_by_what_the_steps_are() {
        let told = |word: &str| {
            let mut run = summary("a", 100, 100, Some(4));
            run.leaks.as_mut().unwrap().step = word.to_owned();
            super::run(run).unwrap().leaked()
        };
        assert_eq!(told("step").as_deref(), Some("4.00 MiB"));
        assert_eq!(told("request").as_deref(), Some("4.00 MiB a request"));
    }

    /// Changes of a history that is given oldest first: measure, last before, first after, runs.
    fn changed(runs: &[RunSummary]) -> Vec<(Measure, String, String, u32)> {
        let newest_first = runs.iter().rev().cloned().collect();
        let history = of(newest_first);
        assert_eq!(history.runs.len(), runs.len());
        let called = |id: &RunId| {
            let run = history.runs.iter().find(|run| run.run == *id);
            run.unwrap().called()
        };
        let told = history
            .changes
            .iter()
            .map(|c| (c.measure, called(&c.before), called(&c.first), c.runs));
        told.collect()
    }

    #[test]
    fn a_change_is_told_with_the_runs_on_both_sides() {
        let run = |commit: &str, peak| summary(commit, peak, peak + 100, Some(0));
        let runs = [
            run("a", 8000),
            run("b", 8000),
            run("c", 8412),
            run("d", 8412),
        ];
        let told = changed(&runs);
        let expected = |measure| (measure, "b".to_owned(), "c".to_owned(), 2);
        assert_eq!(told, [expected(Measure::Peak), expected(Measure::End)]);
    }

    #[test]
    fn each_measure_has_its_own_changes() {
        let runs = [
            summary("first", 8000, 8100, Some(0)),
            summary("a", 8000, 8100, Some(0)),
            summary("b", 8000, 8900, Some(0)),
            summary("c", 8000, 8900, Some(3)),
        ];
        let told = changed(&runs);
        let owned = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let [(b, c), (a, first)] = [owned("b", "c"), owned("a", "b")];
        assert_eq!(
            told,
            [(Measure::Unused, a, first, 2), (Measure::Growth, b, c, 1)]
        );
    }

    /// An unknown number is not zero, and a change that is too small is no change.
    #[test]
    fn runs_without_a_number_are_passed_over() {
        let runs = [
            summary("a", 8000, 8100, Some(90)),
            summary("b", 8010, 8110, None),
            summary("c", 8000, 8100, Some(90)),
            summary("d", 8020, 8120, None),
        ];
        assert_eq!(changed(&runs), []);
        let mut bare = summary("e", 1, 1, None);
        bare.devices.clear();
        assert_eq!(of(vec![bare]).runs, []);
    }

    /// What a bench run needs that crashed is no measure.
    #[test]
    fn a_run_that_crashed_changes_nothing() {
        let crashed = |faults: Vec<Fault>| RunSummary {
            faults,
            ..summary("c", 300, 400, Some(0))
        };
        let with = |faults| {
            let usual = ["a", "b"].map(|commit| summary(commit, 8000, 8100, Some(0)));
            let [a, b] = usual;
            changed(&[a, b, crashed(faults)])
        };
        assert_eq!(with(vec![Fault::Crash]), []);
        assert_eq!(with(vec![Fault::Corruption]), []);
        let fell = (Measure::Peak, "b".to_owned(), "c".to_owned(), 1);
        assert_eq!(with(vec![])[0], fell);
        let run = of_one(crashed(vec![Fault::Crash]));
        assert_eq!(run.went_wrong(), [Fault::Crash]);
    }

    #[test]
    fn the_device_with_the_highest_peak_speaks_for_the_run() {
        let mut one = summary("a", 8000, 9000, Some(0));
        let other = summary("b", 9000, 9100, Some(0)).devices.remove(0);
        one.devices.push(other);
        one.devices[0].oom_events = vec![7];
        let history = of(vec![one]);
        assert_eq!(history.runs[0].unused, Bytes(100 * MIB));
        assert!(history.runs[0].out_of_memory, "on the other device");
        assert!(history.runs[0].peak.0 > 8 * GIB);
    }

    /// The numbers of one row may be of two devices: then it says so.
    #[test]
    fn what_accumulates_elsewhere_names_its_device() {
        let check = |grows: u64, of: u32, expected: &str| {
            let mut one = summary("a", 8000, 9000, Some(grows));
            one.leaks.as_mut().unwrap().device = DeviceIdx(of);
            assert_eq!(of_one(one).leaked().as_deref(), Some(expected));
        };
        check(3, 0, "3.00 MiB");
        check(3, 1, "3.00 MiB (device 1)");
        check(0, 1, "0 B");
    }

    fn of_one(run: RunSummary) -> HistoryRun {
        super::run(run).expect("it has a device")
    }
}
