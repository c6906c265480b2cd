//! What the other devices of a recording have to tell, and the pinned memory of the host, while one
//! device is looked at.

use trace::device::DeviceIdx;
use trace::leaks::{self, LeakGroup, Verdict};
use trace::oom;
use trace::steps::Word;
use trace::trace::{DeviceTrace, Trace};
use trace::units::Bytes;
use trace::watch::Watch;

/// Another device.
#[derive(Clone, Debug, PartialEq)]
pub struct Elsewhere {
    /// Its CUDA ordinal, or the number of pinned memory.
    pub device: DeviceIdx,
    /// Whether an allocation failed on it.
    pub out_of_memory: bool,
    /// Whether it leaks.
    pub verdict: Verdict,
    /// Bytes that accumulate with each step; 0 if it grows within steps only.
    pub bytes_per_step: Bytes,
    /// What its steps are called.
    pub word: Word,
    /// The foremost place that leaks.
    pub foremost: Option<LeakGroup>,
}

/// All devices but the one that is shown. If the watch stops the search for leaks, the verdict is
/// *cannot tell*.
pub fn elsewhere<'a>(
    trace: &'a Trace,
    shown: Option<DeviceIdx>,
    watch: Watch<'a>,
) -> impl Iterator<Item = Elsewhere> + 'a {
    let others = trace.with_pinned().filter(move |d| Some(d.device) != shown);
    others.map(move |device| look(trace, device, watch))
}

fn look(trace: &Trace, device: &DeviceTrace, watch: Watch<'_>) -> Elsewhere {
    let report = leaks::find_while(device, &trace.stacks, &trace.quality, watch);
    Elsewhere {
        device: device.device,
        out_of_memory: oom::first(device).is_some(),
        verdict: report.verdict,
        bytes_per_step: Bytes(report.bytes_per_step.max(0.0).round() as u64),
        word: Word::of(&device.steps),
        foremost: report
            .groups
            .into_iter()
            .next()
            .filter(|_| report.verdict == Verdict::Leak),
    }
}

impl Elsewhere {
    /// What is wrong there, without the device's name; `None` if nothing is.
    pub fn trouble(&self) -> Option<String> {
        let leaks = (self.verdict == Verdict::Leak)
            .then(|| leaks::in_words(self.bytes_per_step, self.word));
        match (self.out_of_memory, leaks) {
            (true, Some(leaks)) => Some(format!("ran out of memory and {leaks}")),
            (true, None) => Some("ran out of memory".to_owned()),
            (false, leaks) => leaks,
        }
    }

    /// The same as the middle of a sentence: `device 1 leaks 4.00 MiB a step`.
    pub fn sentence(&self) -> Option<String> {
        let trouble = self.trouble()?;
        Some(format!("{} {trouble}", self.device.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_elsewhere_is_told() {
        let check = |out_of_memory, verdict, bytes, expected: Option<&str>| {
            let other = Elsewhere {
                device: DeviceIdx(1),
                out_of_memory,
                verdict,
                bytes_per_step: Bytes::mib(bytes),
                word: Word::Step,
                foremost: None,
            };
            assert_eq!(other.sentence().as_deref(), expected);
        };
        check(false, Verdict::Clean, 0, None);
        check(false, Verdict::CannotTell, 0, None);
        check(
            false,
            Verdict::Leak,
            4,
            Some("device 1 leaks 4.00 MiB a step"),
        );
        check(
            false,
            Verdict::Leak,
            0,
            Some("device 1 leaks within each step"),
        );
        check(true, Verdict::Clean, 0, Some("device 1 ran out of memory"));
        check(
            true,
            Verdict::Leak,
            4,
            Some("device 1 ran out of memory and leaks 4.00 MiB a step"),
        );
    }
}
