//! The first failed allocation: what refused it, its cause, and what gets past it.

use super::moment;
use super::{Look, lowers, room, words};
use crate::places::Places;
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
use trace::what_if::batch::Share;
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
    let failing = Failing::of(look.device, look.stacks(), kinds, &own, &failure);
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
    let whole_pass = whole_pass(&failing, fits, limit_below, found);
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
        is_limit_narrowed: found.is_some_and(|found| found.is_narrowed),
        // The failure itself emptied the cache too.
        retries_before: found.map(|found| found.failed.retries.saturating_sub(1)),
        leaked,
        later_failures: later_failures(look.device),
        cause: with_what_followed(
            failed.cause(room.as_ref(), found, limit, leaked),
            failing.state_made > failure.asked || is_too_much,
            outgrown.is_some() || failed.may_be_of_more(room.as_ref(), whole_pass.as_ref(), limit),
        ),
        remedies: found.map_or_else(Vec::new, |found| ranked(found, &look.leaks, needs_more)),
        settings_perhaps: found.map_or_else(Vec::new, perhaps),
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
    /// memory, in pieces. Otherwise there was not enough, or the limit is not known well enough to
    /// tell.
    fn cause(
        &self,
        room: Option<&Room>,
        diagnosis: Option<&Diagnosis>,
        limit: Option<LimitSeen>,
        leaked: Bytes,
    ) -> Cause {
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
        let most = limit.map_or(could_reserve, LimitSeen::taken);
        match (is_leak, room) {
            (true, _) => Cause::Leak,
            (false, Some(_)) => of_need(in_use + needed, could_reserve, most),
            (false, None) => Cause::Demand,
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
        let has_room = |(pass, limit): (&WholePass, LimitSeen)| {
            let about = match pass.times_as_large {
                Some(_) => limit.at_least / words::ABOUT,
                None => Bytes::ZERO,
            };
            pass.least + about <= limit.at_least
        };
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

/// The cause by what was in use and requested together, where the process could reserve so much
/// for sure, and this much at most.
fn of_need(needed: Bytes, surely: Bytes, most: Bytes) -> Cause {
    match needed {
        needed if needed <= surely => Cause::Fragmentation,
        needed if needed <= most => Cause::NotKnown,
        _ => Cause::Demand,
    }
}

/// The cause, if the pieces might have served this request, but not all that was to follow, or
/// nobody knows whether they had.
fn with_what_followed(cause: Cause, needs_more: bool, may_need_more: bool) -> Cause {
    match cause {
        Cause::Fragmentation | Cause::NotKnown if needs_more => Cause::Demand,
        Cause::Fragmentation if may_need_more => Cause::NotKnown,
        cause => cause,
    }
}

/// What a whole pass would have needed.
fn whole_pass(
    failing: &Failing,
    fits: Option<Fits>,
    limit: Option<Bytes>,
    found: Option<&Diagnosis>,
) -> Option<WholePass> {
    let (need, fits, limit) = (failing.need?, fits?, limit?);
    let batch = fits.share().and_then(|most| match found {
        Some(found) => for_pass(most, shares(&found.remedies)),
        None => Some(most),
    });
    Some(WholePass {
        least: need.least,
        times_as_large: need.times.map(Times::number),
        is_too_much: is_more(need.least, limit, need.times.is_some()),
        batch: batch.map(|share| Change::Batch(share).to_string()),
        with_batch: batch.and_then(|share| need.with_share(share)),
    })
}

/// The shares of the batch that get past the failed request.
fn shares(remedies: &[what_if::Remedy]) -> impl Iterator<Item = Share> {
    remedies.iter().filter_map(|remedy| match remedy.change {
        Change::Batch(share) => Some(share),
        _ => None,
    })
}

/// The share of the batch for a whole pass that has room for `most` of it: what does not get past
/// the failed request does not get to its end.
fn for_pass(most: Share, past: impl Iterator<Item = Share>) -> Option<Share> {
    past.filter(|share| share.0 <= most.0)
        .max_by_key(|share| share.0)
}

/// Whether a pass needs more than there was below a limit. An estimate that is about as much does
/// not tell.
fn is_more(need: Bytes, limit: Bytes, is_estimated: bool) -> bool {
    match is_estimated {
        true => need > limit + limit / words::ABOUT,
        false => need >= limit,
    }
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

/// The settings that would get past it under the largest limit.
fn perhaps(diagnosis: &Diagnosis) -> Vec<String> {
    let settings = diagnosis.perhaps.iter();
    settings.map(|remedy| remedy.change.to_string()).collect()
}

/// How many steps get through where each leaves so much behind.
fn steps(left: Bytes, rate: f64) -> u64 {
    (left.0 as f64 / rate) as u64
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
        let limit = diagnosis.limit;
        let left = limit.at_least.saturating_sub(remedy.outcome.peak_reserved);
        // What is reserved and free may take what leaks, too.
        let most = limit.taken().saturating_sub(remedy.outcome.peak_allocated);
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
            steps_until_full: (rate >= 1.0).then(|| steps(left, rate)),
            steps_until_full_at_most: (rate >= 1.0).then(|| steps(most, rate)),
        }
    });
    remedies.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::testing::{TraceBuilder, block_of};
    use trace::trace::Step;

    #[test]
    fn a_cause_is_told_only_where_the_limit_is_known_well_enough() {
        let check = |needed: u64, expected: Cause| {
            let found = of_need(Bytes::mib(needed), Bytes::mib(1684), Bytes::mib(1843));
            assert_eq!(found, expected, "{needed}");
        };
        check(1684, Cause::Fragmentation);
        check(1792, Cause::NotKnown);
        check(1843, Cause::NotKnown);
        check(1844, Cause::Demand);
        let check = |cause: Cause, needs: bool, may_need: bool, expected: Cause| {
            assert_eq!(with_what_followed(cause, needs, may_need), expected);
        };
        check(Cause::Fragmentation, false, false, Cause::Fragmentation);
        check(Cause::Fragmentation, true, false, Cause::Demand);
        check(Cause::Fragmentation, false, true, Cause::NotKnown);
        check(Cause::NotKnown, false, true, Cause::NotKnown);
        check(Cause::NotKnown, true, true, Cause::Demand);
        check(Cause::Leak, true, true, Cause::Leak);
    }

    /// The passes before have room for 7/8 of the batch, and replay for 1/2.
    #[test]
    fn a_batch_for_the_whole_pass_gets_past_the_failed_request() {
        let check = |most: u8, past: &[u8], expected: Option<u8>| {
            let past = past.iter().copied().map(Share);
            assert_eq!(for_pass(Share(most), past), expected.map(Share));
        };
        check(7, &[4], Some(4));
        check(2, &[4, 2], Some(2));
        check(2, &[4], None);
        check(7, &[2, 7], Some(7));
        check(7, &[], None);
    }

    #[test]
    fn an_estimate_near_the_limit_is_not_more_than_it() {
        let check = |need: u64, is_estimated: bool, expected: bool| {
            let found = is_more(Bytes::mib(need), Bytes::mib(1000), is_estimated);
            assert_eq!(found, expected, "{need}");
        };
        check(999, false, false);
        check(1000, false, true);
        check(1050, true, false);
        check(1051, true, true);
    }

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
