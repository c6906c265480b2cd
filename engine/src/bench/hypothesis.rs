//! Patches without public source: what is assumed about them, and whether it can be true.

use api::bench::{BenchResult, Evidence, Fate, Hypothesis};
use trace::units::Bytes;
use trace::units::size;

/// If a peak differs from the published one by more than this share, it belongs to another program.
const SAME_PEAK: f64 = 0.1;

/// Under which conditions a run was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conditions {
    /// The steps that it was to have.
    pub steps: u32,
    /// Memory of its device; `None` for one without a limit.
    pub capacity: Option<Bytes>,
}

impl Conditions {
    /// What was published, if this differs from it.
    fn other_than(self, published: &Evidence) -> Option<String> {
        let steps = published.steps.unwrap_or(self.steps);
        let capacity = published.capacity.or(self.capacity);
        let as_published = (steps, capacity) == (self.steps, self.capacity);
        let device = |capacity: Option<Bytes>| match capacity {
            Some(bytes) => format!("a device of {}", size::exact(bytes.0 as f64)),
            None => "a device without a limit".to_owned(),
        };
        (!as_published).then(|| {
            format!(
                "the published run had {steps} steps on {}, this one had {} on {}",
                device(capacity),
                self.steps,
                device(self.capacity)
            )
        })
    }
}

/// Judges the assumption about a patch without source: compares its run with what was published, if
/// both had the same conditions.
pub fn judge(
    about: &str,
    run: Option<&BenchResult>,
    conditions: Conditions,
    published: Option<&Evidence>,
) -> Hypothesis {
    let (fate, why) = match (run, published) {
        (None, _) => (Fate::Untested, "it has not been run".to_owned()),
        (Some(_), None) => {
            let why = "nothing was published that it could contradict".to_owned();
            (Fate::NotRefuted, why)
        }
        (Some(run), Some(published)) => match conditions.other_than(published) {
            Some(why) => (Fate::Untested, why),
            None => beside_published(run, published),
        },
    };
    Hypothesis {
        about: about.to_owned(),
        fate,
        why,
    }
}

fn beside_published(run: &BenchResult, published: &Evidence) -> (Fate, String) {
    let size = |bytes: Bytes| size::exact(bytes.0 as f64);
    let ours = size(run.peak_allocated);
    let ran_out = run.oom_step.is_some();
    if published.out_of_memory != ran_out {
        let did = |out: bool| if out { "ran out of memory" } else { "did not" };
        let why = format!(
            "published: {}; the hypothesis: {}, at a peak of {ours}",
            did(published.out_of_memory),
            did(ran_out)
        );
        return (Fate::Refuted, why);
    }
    match published.peak_allocated {
        Some(peak) => {
            let apart = run.peak_allocated.0.abs_diff(peak.0);
            let miss = apart as f64 / peak.0 as f64;
            let fate = match miss > SAME_PEAK {
                true => Fate::Refuted,
                false => Fate::NotRefuted,
            };
            let both = match (ran_out, published.capacity) {
                (true, Some(device)) => {
                    format!("both ran out of memory on a device of {}; ", size(device))
                }
                (true, None) => "both ran out of memory; ".to_owned(),
                (false, _) => String::new(),
            };
            let why = format!("{both}it peaks at {ours}, published is {}", size(peak));
            (fate, why)
        }
        None => (Fate::NotRefuted, "no peak was published".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::bench::EvidenceKind;

    const CARD: Bytes = Bytes::gib(24);

    #[test]
    fn what_was_published_refutes_or_does_not() {
        let run = |peak: u64, oom_step: Option<u32>| BenchResult {
            peak_allocated: Bytes(peak),
            oom_step,
            ..BenchResult::default()
        };
        let published = |peak: u64, out_of_memory: bool| Evidence {
            peak_allocated: Some(Bytes(peak)),
            out_of_memory,
            ..Evidence::new(EvidenceKind::Published, "page")
        };
        let published = |peak: u64, out_of_memory: bool| Evidence {
            steps: Some(100),
            capacity: Some(CARD),
            ..published(peak, out_of_memory)
        };
        let same = Conditions {
            steps: 100,
            capacity: Some(CARD),
        };
        let check = |run: Option<&BenchResult>, published: Option<&Evidence>, expected: Fate| {
            assert_eq!(judge("it is so", run, same, published).fate, expected);
        };
        let peak = 15_935_000_000;
        let page = published(peak, false);
        check(None, Some(&page), Fate::Untested);
        let far = run(10_789_000_000, None);
        check(Some(&far), Some(&page), Fate::Refuted);
        let ran_out = published(10_789_000_000, true);
        check(Some(&far), Some(&ran_out), Fate::Refuted);
        check(Some(&far), None, Fate::NotRefuted);
        let both = judge("it is so", Some(&run(peak, Some(2))), same, Some(&ran_out));
        assert_eq!(
            both.why,
            "both ran out of memory on a device of 24.000 GiB; it peaks at 14.841 GiB, published \
             is 10.048 GiB"
        );
        let near = run(peak + 1_000_000, None);
        check(Some(&near), Some(&page), Fate::NotRefuted);
        let judged_on = |steps, capacity| {
            let conditions = Conditions { steps, capacity };
            let judged = judge("it is so", Some(&far), conditions, Some(&page));
            (judged.fate, judged.why)
        };
        for (steps, capacity) in [(1, Some(CARD)), (100, Some(Bytes::gib(9))), (100, None)] {
            let (fate, why) = judged_on(steps, capacity);
            assert_eq!(fate, Fate::Untested, "{why}");
            assert!(
                why.starts_with("the published run had 100 steps on a device of "),
                "{why}"
            );
        }
        assert_eq!(judged_on(100, Some(CARD)).0, Fate::Refuted);
    }
}
