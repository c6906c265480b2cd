//! Does it leak, how fast, since when, and which code is it?
//!
//! # Method
//!
//! The moments to compare are the ends of steps: a block that is alive there has outlived its step.
//! One pass over the blocks ([`survivors`]) gives two facts for each allocation site ([`site`]: the
//! call shape, which stays the same when lines shift): the bytes alive at each end, and the steps
//! of the blocks that are alive at the last end. [`judge`] then asks for each site whether its
//! survivors come from step after step, without end:
//!
//! | pattern | how it is distinguished |
//! |---|---|
//! | steady leak | survivors from every step |
//! | growth every n-th step | survivors at a regular distance |
//! | a buffer that is enlarged | the level never falls, and the rest of the program is constant |
//! | a history that is copied | as such a buffer, of more and more blocks |
//! | growth within a step | the same questions at the ends of the parts of a step (micro-batches) |
//! | warm-up that ends | quiet at the end for longer than ever between two growths |
//! | bounded buffer | survivors are no older than what the site gives back |
//! | full buffer | the number of blocks stays the same while new ones replace others |
//! | one line keeps, another collects | such a site is judged again, line by line |
//! | one line keeps, another is a queue | the queue's line is not counted, named or freed |
//! | a pool that is not full yet | blocks go at random ages: perhaps all do (*cannot tell*) |
//! | saw-tooth (garbage collection) | as a bounded buffer, and twice the longest age is granted |
//! | longer sequences | no survivors; what is alive at the end grows with everything else |
//! | evaluation, gradient accumulation | as a bounded buffer |
//! | first steps | what step 0 keeps counts only when later steps keep about as much |
//! | sizes that differ, without stacks | all stackless blocks together, when nothing else grows |
//! | the same, of a buffer that is enlarged | only where an optimizer steps |
//! | buffer from before the recording | it replaces blocks of the same size from before it |
//! | the same, of many sizes | as many bytes from before it are given back: *cannot tell* |
//!
//! # Thresholds
//!
//! * [`MIN_STEPS`] = 4: step 0 differs in every program (optimizer state, workspaces), so four
//!   steps leave three chances to grow.
//! * [`MIN_GROWTHS`] = 3: two growths have one distance, and one distance is not a rhythm. Two
//!   equal or large growths with no time to see a third make the verdict *cannot tell*, and so does
//!   a large one, if it has been quiet for no longer since than it was before. Every program makes
//!   a model in its first step, so two models after that are two growths.
//! * [`MIN_LATE_GROWTHS`] = 6 if growth begins after step 2 and lasts for less than half of the
//!   trace: a bounded buffer that starts late looks like a leak until it is full. With fewer
//!   growths the verdict is *cannot tell*.
//! * Quiet for 1.5 times the longest distance so far: growth has ended.
//!   But where nearly every step kept something, and at least six did, a quiet of up to four steps
//!   (or a tenth of the growth) makes the verdict *cannot tell*.
//! * [`MAX_GAP_SPREAD`] = 4: the longest distance is at most 4 times the mean distance (1.5 times
//!   with three or four growths). If memory is kept at random, the longest of `n` distances is
//!   about `ln n` times the mean. So with 20 growths or more it may be `2 ln n + 1` times the mean;
//!   with fewer (six or more), or beyond that, the verdict is *cannot tell*. Caches that fill grow
//!   more and more rarely, so a quarter of the growths must be in the later half; and four of ten,
//!   where the longest distance is in that half.
//! * Five growths or more whose distances differ by more than a step may come by chance. Then the
//!   model is one probability for all steps. If fewer than four of ten are in the later half, and
//!   the rank sum of their moments is as low once in ten cases at most, growth becomes rarer:
//!   *cannot tell*. And growth that seems to have ended, or to have no rhythm, is *clean* only if
//!   chance would make it as quiet at the end, or as early, once in a hundred cases at most. The
//!   rate is a mean, told with the error that this probability makes.
//! * A buffer counts as enlarged after five rises of its requested bytes by one amount, or six by
//!   different ones, without a fall between, while the rest of the program grows by less than a
//!   tenth as much. Five random sizes are in order once in 120 cases, six once in 720, and longer
//!   sequences make everything grow. If the rest grows by a tenth to a quarter as much, the verdict
//!   is *cannot tell*. So it is if young blocks are added, not replaced, in more than a quarter of
//!   the rises: blocks of random lives pile up like this before the first of them are given back.
//!   Eight rises by one amount are no such pile: a queue is filled faster than it is emptied.
//!   A buffer that is doubled whenever it is full rises more and more rarely, and each time by
//!   twice as much: four such rises make the verdict *cannot tell*, until the next is overdue.
//! * Where no site leaks, but four of five steps ([`spread::SPREAD`], at least
//!   [`spread::MIN_SPREAD_STEPS`]) keep something somewhere, the verdict is *cannot tell*: each of
//!   the sites may be a first use.
//! * The same where blocks of one size are kept at even distances, six times or more from the first
//!   half of the trace to its end, each time at another site, and *allocated* rises with them:
//!   *cannot tell* ([`anew`]). Code that is made anew has another name each time.
//! * [`MIN_BYTES`] = 2 KiB whenever it grows, all sites together. The allocator's smallest block is
//!   512 B, and programs that collect metrics (a list of detached losses) keep one to three of them
//!   a step. The reason mentions such growth, but does not call it a leak. If one growth alone
//!   makes it more, that was kept once so far: *cannot tell*.
//! * Confidence is Laplace's rule of succession, (growths + 1) / (chances + 2): how likely it grows
//!   at the next chance too. A chance is one rhythm. The slope's error is two standard errors.
//!
//! Verdicts come from survivors, never from peaks. Allocations that are given back in their own
//! step change none of these numbers. *Cannot tell* is a verdict: too few steps, or only two
//! growths. The report states what limits a verdict (ring wrapped, no stacks, steps inferred).
//!
//! # Files
//!
//! ```text
//! survivors   one pass over the blocks: what each site keeps across the ends of steps
//! last        what the last step would have kept, had it ended where the others do
//! edges       what a short ring of events hides at its two ends
//! emptied     what is given back by a call that comes after the last step
//! judge       whether one site's survivors come from step after step
//! lines       a site of which one line keeps and another one collects, line by line
//! within      growth within a step
//! doubt       what may grow though no place is seen to grow
//! second      an optimizer that is made anew while the old one is kept
//! spread      growth that no site has alone
//! anew        growth in code that has another name each time
//! given_back  what accumulates until the last step gives it back
//! excuse      innocent explanations for growth
//! found       what grows, what may grow, and what has an excuse
//! states      optimizer state that belongs to models which leak
//! spared      blocks of a site that grows that are no part of the growth
//! groups      sites that grow -> the groups of a report
//! culprit     which function to name for a group
//! apart       what tells groups apart that are named by one line
//! bounded     lines of a site that grows which are bounded
//! beside      what of the level is no growth of the leaks
//! others      what else accumulates, in words
//! rate        how fast several groups accumulate together
//! accumulated how memory accumulates, and until when it stays, in words
//! unrecorded  recordings of which events are missing
//! reason      the verdict in words
//! reserved    *reserved* that grows while *allocated* does not: told beside the verdict
//! report      what is told: verdict, reason, groups
//! view        what all of these look at
//! weight      which device's answer stands for the whole trace
//! thresholds  how much must be seen
//! leaking     which blocks leak, for other questions
//! ```

mod accumulated;
mod anew;
mod apart;
mod beside;
mod bounded;
mod culprit;
mod doubt;
mod edges;
mod emptied;
mod excuse;
mod found;
mod given_back;
mod groups;
mod judge;
mod last;
mod leaking;
mod lines;
mod others;
mod rate;
mod reason;
mod report;
mod reserved;
mod second;
mod spared;
mod spread;
mod states;
mod survivors;
mod thresholds;
mod unrecorded;
mod view;
mod weight;
mod within;

pub use crate::steps::MIN_STEPS;
pub use culprit::caller;
pub use leaking::Leaking;
pub use report::{Cycle, LeakGroup, LeakReport, Pattern, ReservedGrowth, Verdict};
pub use report::{alive_when, counted_by, in_words, rate_unit};
pub use survivors::MAX_CELLS;
pub use thresholds::{MAX_EVIDENCE, MAX_GAP_SPREAD, MIN_BYTES, MIN_GROWTHS, MIN_LATE_GROWTHS};
pub(crate) use view::whole_steps;
pub use weight::{Weight, worst};

use crate::optimizer::is_step_scope;
use crate::phases::Roles;
use crate::site::Sites;
use crate::stacks::Stacks;
use crate::trace::{Annotation, DeviceTrace, QualityNote, Trace};
use crate::watch::{Stopped, Watch};
use anew::Anew;
use beside::{Beside, beside};
use bounded::Unbounded;
use excuse::Excuse;
use found::Found;
use judge::Together;
use others::Others;
use reason::Teller;
use second::Second;
use spread::Spread;
use survivors::{Ends, Survey};
use view::View;

/// Version of the method. Answers of another version are computed again.
pub const VERSION: u32 = 32;
/// Looks for leaks on every device: a report for each of [`Trace::devices`].
pub fn of_trace(trace: &Trace) -> Vec<LeakReport> {
    let devices = trace.devices.iter();
    devices
        .map(|device| find(device, &trace.stacks, &trace.quality))
        .collect()
}

/// Looks for leaks on one device, in one pass over its blocks. The steps must be known.
pub fn find(device: &DeviceTrace, stacks: &Stacks, quality: &[QualityNote]) -> LeakReport {
    find_while(device, stacks, quality, Watch::nobody())
}

/// The same, but it ends when `watch` stops it; then the answer is *cannot tell*.
pub fn find_while(
    device: &DeviceTrace,
    stacks: &Stacks,
    quality: &[QualityNote],
    watch: Watch<'_>,
) -> LeakReport {
    let steps = whole_steps(device);
    let ends = Ends::new(steps.iter().map(|s| s.events.end().0).collect());
    let teller = || Teller::of(device, &ends, quality);
    if let Some(why) = unrecorded::why(device.device, quality) {
        return unrecorded::report(teller(), why);
    }
    if steps.len() < MIN_STEPS {
        return teller().too_few();
    }
    let looked = || {
        let sites = Sites::new(&device.blocks, stacks);
        watch.look(0)?;
        let view = View {
            watch,
            device,
            stacks,
            roles: &Roles::of(stacks),
            sites: &sites,
            steps: &steps,
            ends: &ends,
            survey: &Survey::new(&device.blocks, &sites, &ends, 0, watch)?,
        };
        let report = judged(&view, teller())?;
        match report.verdict {
            Verdict::Clean => doubted(&view, report, teller()),
            _ => Ok(report),
        }
    };
    LeakReport {
        reserved_growth: reserved::growth(device, &steps),
        ..looked().unwrap_or_else(|Stopped| teller().stopped())
    }
}

/// The questions, the most certain answer first.
fn judged(view: &View<'_>, teller: Teller<'_>) -> Result<LeakReport, Stopped> {
    let mut found = Found::of(view)?;
    let (groups, beside) = accumulating(view, &mut found)?;
    if !groups.is_empty() {
        return leaking_or_emptied(view, groups, (&found, &beside), teller);
    }
    found.doubt_what_came_once();
    let doubtful: f64 = found.unsure.iter().map(|(_, g)| g.bytes_per_growth).sum();
    if let Some((_, growth)) = found.unsure.first()
        && doubtful >= MIN_BYTES.0 as f64
    {
        return Ok(teller.unsure(growth, doubtful));
    }
    if view.survey.left_out > 0 {
        return Ok(teller.too_many(view.survey.left_out));
    }
    let excuse = found.main_excuse();
    if excuse.is_none_or(|(why, _)| !why.leaves_doubt())
        && let Some(bytes) = given_back::by_the_last_step(view, &teller.levels)?
    {
        return Ok(teller.given_back(bytes));
    }
    if let Some((why, bytes)) = excuse {
        return Ok(teller.excused(why, bytes));
    }
    Ok(no_site_grows(view, &found, teller))
}

/// The report on what seems clean, unless something leaves a doubt.
fn doubted(view: &View<'_>, report: LeakReport, teller: Teller<'_>) -> Result<LeakReport, Stopped> {
    if let Some(second) = Second::of(view)? {
        return Ok(teller.second(&second));
    }
    let ran_before = teller.wrapped || view.device.unmatched_frees > 0;
    let doubt = doubt::find(view, ran_before)?;
    Ok(doubt.map_or(report, |doubt| teller.doubted(&doubt)))
}

/// What accumulates, and what else of the level is no growth.
fn accumulating(view: &View<'_>, found: &mut Found) -> Result<(Vec<LeakGroup>, Beside), Stopped> {
    let unbounded = Unbounded::of(view, &mut found.grown)?;
    let mut groups = match &unbounded {
        Some(unbounded) => unbounded.view(view).groups(&found.grown)?,
        None => view.groups(&found.grown)?,
    };
    if found.at_once < MIN_BYTES.0 as f64 {
        groups.clear();
    }
    let mut beside = beside(view, &groups);
    if let Some(unbounded) = unbounded.filter(|_| !groups.is_empty()) {
        unbounded.narrow(view, &mut groups);
        unbounded.add_to(&mut beside);
    }
    groups.extend(lines::find(view, &mut beside)?);
    if !groups.is_empty() {
        beside.leave_out_what_has_ended(view, &others::covered(view, &groups), found);
    }
    groups.extend(within::find(view)?);
    if groups.is_empty() && found.unsure.is_empty() && found.excused.is_empty() {
        groups.extend(of_any_size(view, found)?);
        // Such a group holds all that has no stack.
        beside = Beside::default();
    }
    Ok((groups, beside))
}

/// The report on what accumulates: perhaps a function that is called after the last step gives it
/// back.
fn leaking_or_emptied(
    view: &View<'_>,
    groups: Vec<LeakGroup>,
    (found, beside): (&Found, &Beside),
    mut teller: Teller<'_>,
) -> Result<LeakReport, Stopped> {
    let others = Others::of(view, &groups, found, beside);
    if emptied::are_emptied(view, &groups)? {
        return Ok(teller.emptied(&groups));
    }
    teller.note_models_made_anew(view.roles, &groups);
    Ok(teller.leak(groups, &others, beside))
}

/// The report where no site alone grows: perhaps several do together, or something else is kept.
fn no_site_grows(view: &View<'_>, found: &Found, teller: Teller<'_>) -> LeakReport {
    if let Some(spread) = Spread::of(view) {
        return teller.spread(&spread);
    }
    if teller.wrapped
        && let Some(bytes) = edges::kept_after(view)
    {
        return teller.after(bytes);
    }
    if let Some(anew) = Anew::of(view, &teller.levels) {
        return teller.anew(&anew);
    }
    if let Some(piled) = edges::piled_after(view) {
        return teller.piled(&piled);
    }
    teller.clean(found.at_once, ended(view))
}

/// Growth that has ended, of all sites together; `None` if there was none.
fn ended(view: &View<'_>) -> Option<judge::Ended> {
    let ended = beside::ended(view).map(|(_, ended)| ended);
    ended.reduce(|a, b| judge::Ended {
        last: a.last.max(b.last),
        bytes: a.bytes.saturating_add(b.bytes),
    })
}

/// Allocations without a stack are distinguished by their size. If sizes differ from step to step,
/// growth of each size alone looks like chance. So when nothing else grows, all of them are judged
/// together. Returns what leaks; growth that may come from longer data is added to `found`.
fn of_any_size(view: &View<'_>, found: &mut Found) -> Result<Vec<LeakGroup>, Stopped> {
    let Some(sites) = view.sites.stackless() else {
        return Ok(Vec::new());
    };
    let survey = Survey::new(&view.device.blocks, &sites, view.ends, 0, view.watch)?;
    let Some(kept) = survey.kept[0].as_deref() else {
        return Ok(Vec::new());
    };
    let is_enough = |growth: &judge::Growth| growth.bytes_per_growth >= MIN_BYTES.0 as f64;
    match judge::judge_together(kept, &survey) {
        Together::Grows(growth) if may_be_a_request(view, &growth) => {
            found.excused.push((Excuse::OneRequest, 0, growth));
        }
        Together::Grows(growth) if growth.jump.is_some() => {
            found.unsure.extend(growth.apart().1.map(|once| (0, once)));
        }
        Together::Grows(growth) if is_enough(&growth) => {
            let view = View {
                sites: &sites,
                survey: &survey,
                ..*view
            };
            return view.groups(&[(0, growth)]);
        }
        Together::Ambiguous(growth) => found.excused.push((Excuse::LargerSteps, 0, growth)),
        Together::TooFew(growth) => found.unsure.push((0, growth)),
        Together::Grows(_) | Together::Bounded => {}
    }
    Ok(Vec::new())
}

/// Whether this may be the key/value cache of one request: nothing shows that the program trains.
fn may_be_a_request(view: &View<'_>, growth: &judge::Growth) -> bool {
    let name = |annotation: &Annotation| view.stacks.str(annotation.name);
    let mut scopes = view.device.annotations.iter().map(name);
    let trains = scopes.any(is_step_scope)
        || excuse::recorded_stacks(view).any(|stack| excuse::is_backward(view, stack));
    growth.pattern == Pattern::Enlarged && !trains
}

#[cfg(test)]
mod tests;
