//! The kinds of numbers, and the evidence for each.

use super::figures::level;
use ::timeline::format;
use api::bench::{Evidence, EvidenceKind};

/// If a loss ends at more than this multiple of its first value, data were damaged.
const DIVERGED: f64 = 1.5;

/// The class that gives a kind of number its colour and pattern.
pub fn class_of(kind: EvidenceKind) -> &'static str {
    match kind {
        EvidenceKind::Measured => "measured",
        EvidenceKind::EngineOnCard => "on-card",
        EvidenceKind::Published => "published",
    }
}

/// The real run's loss beside its memory, and whether it says that data were damaged: only the loss
/// shows that.
pub fn losses(known: &Evidence) -> Option<(String, bool)> {
    let losses = known.losses?;
    let text = format!("loss {:.3} → {:.3}", losses.first, losses.last);
    Some((text, losses.last > DIVERGED * losses.first))
}

/// The evidence for a number, line by line.
pub fn facts(known: &Evidence) -> Vec<(&'static str, String)> {
    let text = |name: &'static str, value: &Option<String>| value.clone().map(|v| (name, v));
    let losses = known.losses.map(|losses| {
        let (first, last) = (losses.first, losses.last);
        (
            "Loss",
            format!("{first:.3} at the first step, {last:.3} at the last"),
        )
    });
    [
        known
            .peak_allocated
            .map(|peak| ("Peak allocated", level(peak))),
        losses,
        text("Crash", &known.crash),
        text("Note", &known.note),
        known.steps.map(|steps| ("Steps", steps.to_string())),
        Some(("Source", known.source.clone())),
        text("File", &known.file),
        text("Machine", &known.machine),
        text("Program", &known.command),
        text("Date", &known.date),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What a source says about the peak, in a few words. If it ran another number of steps, the text
/// says so, because a leak's peak grows with the steps.
pub fn peak_text(known: &Evidence, steps: Option<u32>) -> Option<String> {
    let Some(peak) = known.peak_allocated else {
        let ended = known.crash.as_ref().map(|_| "crashed".to_owned());
        let ended = ended.or(known.out_of_memory.then(|| "out of memory".to_owned()));
        return ended.or(known.note.clone());
    };
    let mut text = level(peak);
    if known.out_of_memory {
        text += ", out of memory";
    }
    match known.steps {
        Some(n) if steps.is_some_and(|own| own != n) => {
            text += &format!(" ({})", format::plural(u64::from(n), "step"));
        }
        _ => {}
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::units::Bytes;

    #[test]
    fn a_peak_of_other_steps_says_so() {
        let known = |steps| Evidence {
            peak_allocated: Some(Bytes(10_741_697_536)),
            steps,
            ..Evidence::new(EvidenceKind::Measured, "TRL")
        };
        let check = |steps: Option<u32>, own: Option<u32>, expected: &str| {
            assert_eq!(peak_text(&known(steps), own).as_deref(), Some(expected));
        };
        check(Some(100), Some(100), "10.004 GiB");
        check(Some(100), Some(20), "10.004 GiB (100 steps)");
        check(None, Some(20), "10.004 GiB");
        let crashed = Evidence {
            crash: Some("raised".to_owned()),
            ..Evidence::new(EvidenceKind::Measured, "TRL")
        };
        assert_eq!(peak_text(&crashed, None).as_deref(), Some("crashed"));
    }
}
