//! The first failed allocation: what refused it, its cause, and what gets past it.

use super::moment::{self, Places};
use super::{Look, lowers, room, words};
use api::explain::{Basis, Cause, Leaks, OutOfMemory, Refusal, Remedy, Room, WholePass};
use api::leaks::Verdict;
use timeline::oom::place_of;
use trace::allocator::Config;
use trace::failing::{Failing, Fits, Need, Times};
use trace::oom::{self, Asker, Failure};
use trace::span::Span;
use trace::stacks::Frame;
use trace::steps::Word;
use trace::tiles::frame_label;
use trace::trace::{Action, DeviceTrace, Series};
use trace::units::{Bytes, EventIdx};
use trace::watch::Stopped;
use trace::what_if::{self, Change, Diagnosis, Early, LimitSeen, Replay, Tried};

/// Explains the first failed allocation, if there is one.
///
/// # Errors
/// [`Stopped`].
pub fn explained(look: &Look<'_>, places: &mut Places<'_>) -> Result<Option<OutOfMemory>, Stopped> {
    let Some(failure) = oom::first(look.device) else {
        return Ok(None);
    };
    let own = what_if::own_settings(&look.trace.format, look.device);
    let early = Early::leaks(look.device, look.stacks(), &look.report);
    let kinds = (&look.categories, &look.phases);
    let failing = Failing::of(look.device, look.stacks(), kinds, &failure);
    let room = room::at(look, places, Some(failure.event));
    let evidence = what_if::evidence(look.device, &own, look.watch)?;
    let failed = Failed {
        look,
        own: &own,
        failure: &failure,
    };
    // A limit that was set late refused nothing that the recording shows before.
    let refused = || LimitSeen::of_refusal(None, &own, &failure);
    let fits = failed.fits(evidence.limit.or_else(refused), &failing);
    let tried = Tried {
        leaks: Some(&early),
        batch: Some(&failing.batch),
        limit: look.limit,
        share: fits.and_then(Fits::share),
    };
    let replay = Replay::new(look.device, &evidence, look.watch);
    let diagnosis = what_if::remedies(replay, &own, tried)?;
    let leaked = early.overdue(look.device, failure.event);
    let found = diagnosis.as_ref();
    let limit = failed.limit(evidence.limit, found);
    let limit_below = limit.map(|limit| limit.below);
    let whole_pass = whole_pass(&failing, fits, limit_below);
    let is_too_much = whole_pass.as_ref().is_some_and(|pass| pass.is_too_much);
    let outgrown = failing.need.and_then(|need| need.outgrown);
    let needs_more = is_too_much || outgrown.is_some();
    let mut explained = OutOfMemory {
        held: moment::at(look, places, Some(failure.event))?,
        phase: failing.phase,
        asked: failure.asked,
        segment: found.and_then(|found| found.failed.segment),
        free: failure.free,
        refused_by: failed.refused_by(),
        limit_at_least: limit.map(|limit| limit.at_least),
        limit_below,
        // The failure itself emptied the cache too.
        retries_before: found.map(|found| found.failed.retries.saturating_sub(1)),
        leaked,
        later_failures: later_failures(look.device),
        cause: match failed.cause(room.as_ref(), found, leaked) {
            // The pieces might have served this request, but not all that were to follow.
            Cause::Fragmentation
                if failing.state_made > failure.asked
                    || needs_more
                    || failed.may_be_of_more(room.as_ref(), whole_pass.as_ref(), limit) =>
            {
                Cause::Demand
            }
            cause => cause,
        },
        remedies: found.map_or_else(Vec::new, |found| ranked(found, &look.leaks, needs_more)),
        room,
        why: String::new(),
        what_would_have_helped: String::new(),
        whole_pass,
        outgrown,
    };
    explained.why = failed.why(&explained, failing.state_made);
    explained.what_would_have_helped = failed.helped(&explained, &failing, places);
    Ok(Some(explained))
}

/// Of what was reserved, this share in pieces is little.
const LITTLE: u64 = 16;

/// An allocation that failed, in a recording.
struct Failed<'a, 'r> {
    look: &'a Look<'r>,
    /// The settings of the program.
    own: &'a Config,
    failure: &'a Failure,
}

impl Failed<'_, '_> {
    /// What refused the request.
    fn refused_by(&self) -> Refusal {
        match self.failure.limit_under(self.own) {
            Some(_) => Refusal::ProcessLimit,
            None if self.failure.free.is_none() => Refusal::NotKnown,
            None => Refusal::Device,
        }
    }

    /// The limit that replay was tried with; otherwise what is told, or what the failure shows
    /// beside what was `seen` in the whole recording.
    fn limit(&self, seen: Option<LimitSeen>, diagnosis: Option<&Diagnosis>) -> Option<LimitSeen> {
        match diagnosis {
            Some(found) => Some(found.limit),
            None => {
                Some(LimitSeen::of_refusal(seen, self.own, self.failure)?.or_told(self.look.limit))
            }
        }
    }

    /// How large a batch a whole pass has room for under the limit that was seen. Where something
    /// leaks, that is what to tell, unless the pass is larger than those before; `None` then, and
    /// where no pass like the failed one was recorded before.
    fn fits(&self, seen: Option<LimitSeen>, failing: &Failing) -> Option<Fits> {
        let is_told =
            |need: &Need| self.look.leaks.verdict != Verdict::Leak || need.times.is_some();
        let need = failing.need.filter(is_told)?;
        let least = seen?.or_told(self.look.limit).at_least;
        // What lay between blocks then is no use to others either.
        let in_use = self
            .look
            .device
            .levels_at(self.failure.event)
            .get(Series::Active);
        let pieces = self.failure.reserved.saturating_sub(in_use);
        Some(need.fits(least.saturating_sub(pieces)))
    }

    /// It is a leak if the request succeeds without it. It is fragmentation if there was enough
    /// memory, in pieces. Otherwise there was not enough.
    fn cause(&self, room: Option<&Room>, diagnosis: Option<&Diagnosis>, leaked: Bytes) -> Cause {
        let is_leak = match diagnosis {
            Some(found) => found.remedies.iter().any(|r| r.change == Change::NoLeaks),
            None => self.look.leaks.verdict == Verdict::Leak && leaked >= self.failure.asked,
        };
        let in_use = self
            .look
            .device
            .levels_at(self.failure.event)
            .get(Series::Active);
        let could_reserve = match (diagnosis, self.failure.limit_under(self.own)) {
            (Some(found), _) => found.limit.at_least.max(self.failure.reserved),
            (None, Some(_)) => self.failure.reserved,
            (None, None) => self
                .failure
                .reserved
                .saturating_add(self.failure.free.unwrap_or_default()),
        };
        // Together, the pieces would have served the request; or segments in their place would have
        // left enough for another one.
        let pieces = room.is_some_and(|room| room.free >= self.failure.asked);
        let needed = match pieces {
            true => self.failure.asked,
            false => self.failure.segment(self.own),
        };
        match (is_leak, in_use + needed <= could_reserve && room.is_some()) {
            (true, _) => Cause::Leak,
            (false, true) => Cause::Fragmentation,
            (false, false) => Cause::Demand,
        }
    }

    /// Whether so little was not in use that the pieces it lay in are not why memory ran out. They
    /// are where the whole pass is known to have had room.
    fn may_be_of_more(
        &self,
        room: Option<&Room>,
        pass: Option<&WholePass>,
        limit: Option<LimitSeen>,
    ) -> bool {
        let is_little = |room: &Room| room.free.0 * LITTLE < self.failure.reserved.0;
        let has_room = |(pass, limit): (&WholePass, LimitSeen)| pass.least <= limit.at_least;
        room.is_some_and(is_little) && !pass.zip(limit).is_some_and(has_room)
    }

    /// Why it failed, at this place of the program, and that the program went on.
    fn why(&self, explained: &OutOfMemory, optimizer_made: Bytes) -> String {
        let step = Word::of(&self.look.device.steps);
        let place = place_of(&self.look.device.steps, self.failure.event, explained.phase);
        let asker = Asker::of(self.look.stacks(), self.failure.stack);
        // For C++ the operation says more.
        let is_line = |frame: &Frame| frame.line > 0 || asker.operation.is_none();
        let line = asker.frame.filter(is_line);
        let line = line.map(|frame| frame_label(self.look.stacks(), frame));
        let before = Span::new(EventIdx(0), self.failure.event);
        let request = words::Request {
            peak_before: self.look.device.allocated_peak(before),
            place: &place,
            operation: asker.operation.as_deref(),
            line: line.as_deref(),
            is_rounded: self.own.roundup_power2_divisions.iter().any(|n| *n > 1),
            optimizer_made,
            step,
        };
        let went_on = words::went_on(steps_after(self.look.device), step);
        let why = Some(words::why(explained, &self.look.leaks, &request));
        why.into_iter().chain(went_on).collect::<Vec<_>>().join(" ")
    }

    /// What would have helped.
    fn helped(
        &self,
        explained: &OutOfMemory,
        failing: &Failing,
        places: &mut Places<'_>,
    ) -> String {
        let look = self.look;
        let lowers = match explained.cause {
            Cause::Leak => None,
            _ => lowers::largest(look, places, &explained.held, "what was in use"),
        };
        let replays = words::Replays {
            grows: failing.grows,
            lowers: lowers.as_ref().map(|advice| advice.sentence.as_str()),
            fails: explained.retries_before.is_some(),
            expands: self.own.expandable_segments,
            saved: failing.saved,
            step: Word::of(&look.device.steps),
        };
        words::helped(explained, &look.leaks, replays)
    }
}

/// What a whole pass would have needed.
fn whole_pass(failing: &Failing, fits: Option<Fits>, limit: Option<Bytes>) -> Option<WholePass> {
    let (need, fits, limit) = (failing.need?, fits?, limit?);
    let (batch, with_batch) = match fits {
        Fits::Share(share, need) => (Some(Change::Batch(share).to_string()), Some(need)),
        Fits::None | Fits::Unknown => (None, None),
    };
    Some(WholePass {
        least: need.least,
        times_as_large: need.times.map(Times::number),
        is_too_much: need.least >= limit,
        batch,
        with_batch,
    })
}

/// How many more allocations failed that were not passed over.
fn later_failures(device: &DeviceTrace) -> u64 {
    (oom::count(device) - oom::passed_over(device).len()).saturating_sub(1) as u64
}

/// How many steps ran to their end after the last allocation that failed and was not passed over.
fn steps_after(device: &DeviceTrace) -> usize {
    let passed_over = oom::passed_over(device);
    let felt = |event: &u32| {
        device.events.action[*event as usize] == Action::Oom
            && passed_over.binary_search(&EventIdx(*event)).is_err()
    };
    let last = (0..device.events.len()).rev().find(felt);
    last.map_or(0, |failed| oom::steps_after(device, EventIdx(failed)))
}

/// Remedies that end the cause come before those that only get past the failure; estimates come
/// last.
fn ranked(diagnosis: &Diagnosis, leaks: &Leaks, needs_more: bool) -> Vec<Remedy> {
    let mut remedies: Vec<&what_if::Remedy> = diagnosis.remedies.iter().collect();
    remedies.sort_by_key(|remedy| match remedy.change {
        Change::NoLeaks => 0,
        Change::Settings(_) if !needs_more => 1,
        Change::Batch(_) => 2,
        // The step needs more than there is, wherever it lies.
        Change::Settings(_) => 3,
    });
    let rate = match leaks.verdict {
        Verdict::Leak => leaks.bytes_per_step,
        _ => 0.0,
    };
    let remedies = remedies.into_iter().map(|remedy| {
        let left = diagnosis
            .limit
            .at_least
            .saturating_sub(remedy.outcome.peak_reserved);
        let rate = match remedy.change {
            Change::NoLeaks => 0.0,
            Change::Settings(_) => rate,
            Change::Batch(share) => rate * share.part(),
        };
        Remedy {
            change: remedy.change.to_string(),
            basis: match remedy.change {
                Change::Batch(_) => Basis::Estimated,
                _ => Basis::Computed,
            },
            peak_reserved: remedy.outcome.peak_reserved,
            left,
            steps_until_full: (rate >= 1.0).then(|| (left.0 as f64 / rate) as u64),
        }
    });
    remedies.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::testing::{TraceBuilder, block_of};
    use trace::trace::Step;

    /// `a` requests memory, `f` gives it back, and `o` fails; steps begin at these events.
    #[test]
    fn a_program_that_goes_on_is_said_to() {
        let check = |events: &str, starts: &[u32], expected: Option<&str>| {
            let mut builder = TraceBuilder::default();
            let mut held = Vec::new();
            for event in events.chars() {
                match event {
                    'a' => held.push(builder.alloc(block_of(Bytes::mib(2)))),
                    'f' => builder.free_requested(held.pop().expect("a block")),
                    _ => builder.out_of_memory(Bytes::mib(9)),
                }
            }
            let mut device = builder.finish().devices.remove(0);
            let ends = starts[1..].iter().copied().chain([device.events.len()]);
            let step = |((&start, end), index): ((&u32, u32), u32)| Step {
                index,
                name: format!("step {index}"),
                events: Span::new(EventIdx(start), EventIdx(end)),
            };
            device.steps = starts.iter().zip(ends).zip(0..).map(step).collect();
            let told = words::went_on(steps_after(&device), Word::Step);
            let begin = told.as_deref().map(|told| &told[..30]);
            assert_eq!(begin, expected, "{events}");
        };
        check(
            "aofaaffaaffaa",
            &[0, 3, 7, 11],
            Some("The program went on: 2 steps r"),
        );
        // The last one did as much as others, or may have been cut.
        check(
            "aofaaffaaff",
            &[0, 3, 7],
            Some("The program went on: 2 steps r"),
        );
        check(
            "aofaaffa",
            &[0, 3, 7],
            Some("The program went on: 1 step ra"),
        );
        // Its own step was done again to the end, the last of the recording.
        check(
            "aaffaaoffaaff",
            &[0, 4],
            Some("The program went on: 1 step ra"),
        );
        check("aofaaff", &[0, 3], Some("The program went on: 1 step ra"));
        check("aafaof", &[0, 3], None);
        check("aaff", &[0, 2], None);
    }
}
