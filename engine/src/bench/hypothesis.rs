//! Patches without public source: what is assumed about them, and whether it can be true.

use api::bench::{BenchResult, Evidence, Fate, Hypothesis};
use trace::units::Bytes;
use trace::units::size;

/// If a peak differs from the published one by more than this share, it belongs to another program.
const SAME_PEAK: f64 = 0.1;

/// Judges the assumption about a patch without source: compares its run with what was published.
pub fn judge(about: &str, run: Option<&BenchResult>, published: Option<&Evidence>) -> Hypothesis {
    let (fate, why) = match (run, published) {
        (None, _) => (Fate::Untested, "it has not been run".to_owned()),
        (Some(_), None) => {
            let why = "nothing was published that it could contradict".to_owned();
            (Fate::NotRefuted, why)
        }
        (Some(run), Some(published)) => beside_published(run, published),
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
            let why = format!("it peaks at {ours}, published is {}", size(peak));
            (fate, why)
        }
        None => (Fate::NotRefuted, "no peak was published".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::bench::EvidenceKind;

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
        let check = |run: Option<BenchResult>, published: Option<Evidence>, expected: Fate| {
            assert_eq!(
                judge("it is so", run.as_ref(), published.as_ref()).fate,
                expected
            );
        };
        let peak = 15_935_000_000;
        check(None, Some(published(peak, false)), Fate::Untested);
        let far = run(10_789_000_000, None);
        check(
            Some(far.clone()),
            Some(published(peak, false)),
            Fate::Refuted,
        );
        check(
            Some(far.clone()),
            Some(published(10_789_000_000, true)),
            Fate::Refuted,
        );
        check(Some(far), None, Fate::NotRefuted);
        let near = run(peak + 1_000_000, None);
        check(Some(near), Some(published(peak, false)), Fate::NotRefuted);
    }
}
