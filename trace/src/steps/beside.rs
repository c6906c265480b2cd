//! What the steps of one device say of the names of another one's.
//!
//! Where a model lies on several devices, not each shows all levels of its loops: the tokens of a
//! request may look alike only where the embedding is. Then a device's steps are whole requests,
//! and the function that they are made in is called after tokens.

use super::word::Word;
use crate::median;
use crate::trace::{DeviceTrace, Step};

/// A token that takes at least this part of the time of a request is no part of one.
const PART: i64 = 2;

/// Calls the tokens of a device requests where another one has as many requests, or requests that
/// take as long: a request makes several tokens.
pub fn name_alike(devices: &mut [DeviceTrace]) {
    let requests: Vec<(usize, Option<i64>)> = devices
        .iter()
        .filter(|device| Word::of(&device.steps) == Word::Request && !device.steps.is_empty())
        .map(|device| (device.steps.len(), usual(device)))
        .collect();
    for device in devices {
        let is_request = |&(n, long): &(usize, Option<i64>)| {
            let as_long = long.zip(usual(device));
            device.steps.len() == n
                || as_long.is_some_and(|(request, own)| own.saturating_mul(PART) >= request)
        };
        let is_named = !device.steps.is_empty() && Word::of(&device.steps) == Word::Token;
        if is_named && requests.iter().any(is_request) {
            device.steps.iter_mut().for_each(call_a_request);
        }
    }
}

pub(super) fn call_a_request(step: &mut Step) {
    step.name = Word::Request.nth(step.index);
}

/// How long the steps of a device usually take, microseconds; `None` where no time was recorded.
fn usual(device: &DeviceTrace) -> Option<i64> {
    let last = device.events.len().checked_sub(1)?;
    let time = |event: u32| device.events.time.get(event.min(last) as usize).0;
    let long = device.steps.iter().map(|step| {
        let (start, end) = (step.events.start().0, step.events.end().0);
        time(end).saturating_sub(time(start))
    });
    median::upper(long).filter(|&long| long > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceIdx;
    use crate::span::Span;
    use crate::units::EventIdx;

    /// A device with so many steps of this word, a block of each event.
    fn device(at: u32, n: u32, word: Word, events: u32) -> DeviceTrace {
        let lines: Vec<String> = (0..n * events)
            .map(|i| format!("b{i} alloc 1MiB"))
            .collect();
        let mut device = crate::testing::trace(&lines.join("\n")).devices.remove(0);
        device.device = DeviceIdx(at);
        let end = |step: u32| EventIdx(step * events);
        device.steps = (0..n)
            .map(|index| Step {
                index,
                name: word.nth(index),
                events: Span::new(end(index), end(index + 1)),
            })
            .collect();
        device
    }

    #[test]
    fn as_many_tokens_as_requests_are_requests() {
        let check = |tokens: u32, expected: Word| {
            let requests = device(0, 6, Word::Request, 8);
            let mut devices = [requests, device(1, tokens, Word::Token, 48 / tokens)];
            name_alike(&mut devices);
            let words = [Word::of(&devices[0].steps), Word::of(&devices[1].steps)];
            assert_eq!(words, [Word::Request, expected], "{tokens}");
        };
        check(6, Word::Request);
        // A ring that holds fewer of them.
        check(4, Word::Request);
        check(48, Word::Token);
        // Nothing says so without another device.
        let mut alone = [0, 1].map(|at| device(at, 6, Word::Token, 1));
        name_alike(&mut alone);
        assert_eq!(Word::of(&alone[1].steps), Word::Token);
    }
}
