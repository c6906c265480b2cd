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
//!   a large one, if it has been quiet for no longer since than it was before.
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
//! survivors  one pass over the blocks: what each site keeps across the ends of steps
//! last       what the last step would have kept, had it ended where the others do
//! edges      what a short ring of events hides at its two ends
//! judge      whether one site's survivors come from step after step
//! lines      a site of which one line keeps and another one collects, line by line
//! within     growth within a step
//! spread     growth that no site has alone
//! anew       growth in code that has another name each time
//! excuse     innocent explanations for growth
//! found      what grows, what may grow, and what has an excuse
//! spared     blocks of a site that grows that are no part of the growth
//! groups     sites that grow -> the groups of a report
//! culprit    which function to name for a group
//! apart      what tells groups apart that are named by one line
//! beside     what of the level is no growth of the leaks
//! reason     the verdict in words
//! leaking    which blocks leak, for other questions
//! ```

mod anew;
mod apart;
mod beside;
mod culprit;
mod edges;
mod excuse;
mod found;
mod groups;
mod judge;
mod last;
mod leaking;
mod lines;
mod reason;
mod spared;
mod spread;
mod survivors;
mod within;

pub use crate::steps::MIN_STEPS;
pub use culprit::caller;
pub use leaking::Leaking;
pub use survivors::MAX_CELLS;

use crate::growth::Growth;
use crate::median;
use crate::optimizer::is_step_scope;
use crate::phases::{Role, Roles};
use crate::site::{SiteKey, Sites};
use crate::stacks::{Frame, StackIdx, Stacks, StrIdx};
use crate::steps::Word;
use crate::trace::{Action, Annotation, BlockIdx, DeviceTrace, QualityNote, Series, Step, Trace};
use crate::units::{Bytes, EventIdx};
use crate::watch::{Stopped, Watch};
use anew::Anew;
use beside::{Beside, beside, others};
use excuse::Excuse;
use found::Found;
use judge::Together;
use reason::Teller;
use serde::{Deserialize, Serialize};
use spread::Spread;
use survivors::{Ends, Survey};

/// Version of the method. Answers of another version are computed again.
pub const VERSION: u32 = 26;
/// How many growths make a leak.
pub const MIN_GROWTHS: usize = 3;
/// How many growths make a leak if they begin late.
pub const MIN_LATE_GROWTHS: usize = 6;
/// Longest distance between growths, in mean distances.
pub const MAX_GAP_SPREAD: f64 = 4.0;
/// All sites together must add at least this much whenever they grow.
pub const MIN_BYTES: Bytes = Bytes::kib(2);
/// The largest number of blocks listed as evidence of a group, the oldest first.
pub const MAX_EVIDENCE: usize = 256;

/// Whether something leaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Something grows with the steps.
    Leak,
    /// Nothing does.
    Clean,
    /// The data does not allow an answer; the reason says why.
    CannotTell,
}

/// How a group grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// In every step, or nearly.
    EveryStep,
    /// In every n-th step.
    EveryNth(u32),
    /// In each part of a step; what was kept is given back at the step's end.
    WithinStep,
    /// One buffer is replaced by a larger one again and again.
    Enlarged,
}

/// What the rate of a leak is counted by.
pub const fn rate_unit(within_step: bool) -> &'static str {
    match within_step {
        true => "a part of a step",
        false => "a step",
    }
}

/// The same for a device whose steps are called so: `a request`, `a part of a request`.
pub fn counted_by(within_step: bool, word: Word) -> String {
    match within_step {
        true => format!("a part of {}", word.a()),
        false => word.a(),
    }
}

/// What memory does that leaks so fast; 0 if it grows within steps only.
pub fn in_words(bytes_per_step: Bytes, word: Word) -> String {
    match bytes_per_step {
        Bytes::ZERO => format!("leaks within each {}", word.one()),
        bytes => format!("leaks {bytes} {}", word.a()),
    }
}

/// Allocations of one site that accumulate.
#[derive(Clone, Debug, PartialEq)]
pub struct LeakGroup {
    /// The site: equal in another trace of the same program.
    pub site: SiteKey,
    /// The stack that accounts for most of it ([`StackIdx::NONE`]: none was recorded).
    pub stack: StackIdx,
    /// The function that explains it best.
    pub frame: Option<Frame>,
    /// Whether `frame` is taken from the allocations beside it, since these have no stack.
    pub frame_inferred: bool,
    /// Where it was allocated: the innermost frame that a person would recognise.
    pub alloc_frame: Option<Frame>,
    /// How it grows.
    pub pattern: Pattern,
    /// If it grows within steps: the name of the scopes that are the parts of a step.
    pub scope: Option<StrIdx>,
    /// Blocks added for each step (for each part, when it grows within steps).
    pub count_per_step: f64,
    /// Bytes added for each step (for each part, when it grows within steps).
    pub bytes_per_step: f64,
    /// Half of the 95 % interval of the slope of its level, bytes per step.
    pub slope_error: f64,
    /// Whether chance seems to decide when it grows: its rate is a mean.
    pub uneven: bool,
    /// How likely it goes on, from 0 to 1.
    pub confidence: f64,
    /// The first step (its position among the steps) that added to it.
    pub first_step: u32,
    /// The last one.
    pub last_step: u32,
    /// Blocks alive at the end of the last step.
    pub live_count: u64,
    /// Whether all of these are given back before the recording ends.
    pub all_end: bool,
    /// Bytes alive at the end of the last step.
    pub live_bytes: Bytes,
    /// Bytes alive at the end of each step.
    pub per_step: Vec<Bytes>,
    /// Blocks of the site that do not leak and are not counted: workspaces of libraries, and what
    /// was made once before the growth began.
    pub spared: Vec<BlockIdx>,
    /// The blocks, oldest first, at most [`MAX_EVIDENCE`]; `live_count` is the number of all.
    pub evidence: Vec<BlockIdx>,
}

impl LeakGroup {
    /// Whether it grows within steps: then its rate is bytes a part of a step.
    pub fn is_within(&self) -> bool {
        self.pattern == Pattern::WithinStep
    }

    /// How often it has grown, by its rhythm.
    fn growths_seen(&self) -> usize {
        let span = self.last_step - self.first_step;
        let times = match self.pattern {
            Pattern::EveryNth(n) => span / n.max(1),
            _ => span,
        };
        times as usize + 1
    }
}

/// What was found about one device.
#[derive(Clone, Debug, PartialEq)]
pub struct LeakReport {
    /// The answer.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// What limits the answer, a sentence each.
    pub caveats: Vec<String>,
    /// What accumulates: first what does so from step to step, then what does within steps; of
    /// both, most bytes first.
    pub groups: Vec<LeakGroup>,
    /// Bytes that accumulate with each step, as [`Growth::proven`] gives it: the sum of all groups,
    /// or more if something else makes the level rise too. 0 unless it leaks from step to step.
    pub bytes_per_step: f64,
    /// Growth of *allocated* at the ends of whole steps. If something leaks from step to step, its
    /// slope is `bytes_per_step`.
    pub growth: Option<Growth>,
}

impl LeakReport {
    /// The leak that is told where only one is: the fastest from step to step, or within steps if
    /// nothing outlives its step. Its rate, its unit and its place belong together.
    pub fn told(&self) -> Option<&LeakGroup> {
        self.groups.first()
    }

    /// How fast everything accumulates that is counted as [`LeakReport::told`] is.
    pub fn rate(&self) -> f64 {
        match self.told().is_some_and(LeakGroup::is_within) {
            true => self.groups.iter().map(|group| group.bytes_per_step).sum(),
            false => self.bytes_per_step,
        }
    }
}

/// Looks for leaks on every device: a report for each of [`Trace::devices`].
pub fn of_trace(trace: &Trace) -> Vec<LeakReport> {
    let devices = trace.devices.iter();
    devices
        .map(|device| find(device, &trace.stacks, &trace.quality))
        .collect()
}

/// The position of the report that is shown for the whole trace. A leak comes before *cannot tell*,
/// and that before *clean*. Of several leaks the fastest is shown. `None` if there are no devices.
pub fn worst(reports: &[LeakReport]) -> Option<usize> {
    let severity = |report: &LeakReport| match report.verdict {
        Verdict::Clean => 0,
        Verdict::CannotTell => 1,
        Verdict::Leak => 2,
    };
    let by_severity = |a: &&(usize, &LeakReport), b: &&(usize, &LeakReport)| {
        let speed = a.1.bytes_per_step.total_cmp(&b.1.bytes_per_step);
        // Among equals, the first device.
        severity(a.1)
            .cmp(&severity(b.1))
            .then(speed)
            .then(b.0.cmp(&a.0))
    };
    let numbered: Vec<(usize, &LeakReport)> = reports.iter().enumerate().collect();
    numbered.iter().max_by(by_severity).map(|(index, _)| *index)
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
    let teller = || teller(device, &ends, quality);
    judged((device, stacks), (&steps, &ends), teller(), watch)
        .unwrap_or_else(|Stopped| teller().stopped())
}

fn teller<'a>(device: &'a DeviceTrace, ends: &Ends, quality: &[QualityNote]) -> Teller<'a> {
    let level = |end: &u32| {
        let levels = device.levels_before(EventIdx(*end));
        levels.get(Series::Allocated).0
    };
    let levels: Vec<u64> = ends.as_slice().iter().map(level).collect();
    Teller {
        device,
        n_steps: ends.len(),
        caveats: reason::caveats(device, quality),
        growth: Growth::of(&levels),
        levels,
    }
}

fn judged(
    (device, stacks): (&DeviceTrace, &Stacks),
    (steps, ends): (&[&Step], &Ends),
    teller: Teller<'_>,
    watch: Watch<'_>,
) -> Result<LeakReport, Stopped> {
    if ends.len() < MIN_STEPS {
        return Ok(teller.too_few());
    }
    let sites = Sites::new(&device.blocks, stacks);
    watch.look(0)?;
    let survey = Survey::new(&device.blocks, &sites, ends, 0, watch)?;
    let roles = Roles::of(stacks);
    let view = View {
        watch,
        device,
        stacks,
        roles: &roles,
        sites: &sites,
        ends,
        survey: &survey,
    };
    let mut found = Found::of(&view)?;
    let mut groups = view.groups(&found.grown)?;
    if found.at_once < MIN_BYTES.0 as f64 {
        groups.clear();
    }
    let mut beside = beside(&view, &groups);
    groups.extend(lines::find(&view, &mut beside)?);
    groups.extend(within::find(&view, steps)?);
    if groups.is_empty() && found.unsure.is_empty() && found.excused.is_empty() {
        groups.extend(of_any_size(&view, &mut found)?);
        // Such a group holds all that has no stack.
        beside = Beside::default();
    }
    if !groups.is_empty() {
        let others = others(&view, &groups);
        if edges::are_emptied(&view, steps, &groups)? {
            return Ok(teller.emptied(&groups));
        }
        let mut teller = teller;
        teller.note_models_made_anew(&roles, &groups);
        return Ok(teller.leak(groups, others, &beside));
    }
    found.doubt_what_came_once();
    let doubtful: f64 = found.unsure.iter().map(|(_, g)| g.bytes_per_growth).sum();
    if let Some((_, growth)) = found.unsure.first()
        && doubtful >= MIN_BYTES.0 as f64
    {
        return Ok(teller.unsure(growth, doubtful));
    }
    if survey.left_out > 0 {
        return Ok(teller.too_many(survey.left_out));
    }
    Ok(match (found.main_excuse(), Spread::of(&view)) {
        (Some((why, bytes)), _) => teller.excused(why, bytes),
        (None, Some(spread)) => teller.spread(&spread),
        (None, None) => {
            let after = edges::kept_after(&view, steps).filter(|_| teller.wrapped());
            let piled = edges::piled_after(&view, steps);
            match (after, Anew::of(&view, &teller.levels), piled) {
                (Some(bytes), ..) => teller.after(bytes),
                (_, Some(anew), _) => teller.anew(&anew),
                (.., Some(piled)) => teller.piled(&piled),
                _ => teller.clean(found.at_once, ended(&view)),
            }
        }
    })
}

/// Growth that has ended, of all sites together; `None` if there was none.
fn ended(view: &View<'_>) -> Option<judge::Ended> {
    let sites = view.survey.kept.iter().zip(&view.sites.stacks);
    let own = sites.filter(|(_, stack)| {
        // Optimizers make state when a parameter is used for the first time.
        !matches!(
            view.roles.get(**stack),
            Role::Optimizer | Role::OptimizerSetup
        )
    });
    let ended = own.filter_map(|(kept, _)| judge::ended(kept.as_deref()?));
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
            found.excused.push((Excuse::OneRequest, growth));
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
        Together::Ambiguous(growth) => found.excused.push((Excuse::LargerSteps, growth)),
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

/// The input of the analysis.
pub(crate) struct View<'a> {
    watch: Watch<'a>,
    device: &'a DeviceTrace,
    stacks: &'a Stacks,
    roles: &'a Roles,
    sites: &'a Sites,
    ends: &'a Ends,
    survey: &'a Survey,
}

/// Steps that ran to their end. A last step that ran out of memory or was cut off by the end of the
/// trace does not show what it would have kept.
pub(crate) fn whole_steps(device: &DeviceTrace) -> Vec<&Step> {
    let mut steps: Vec<_> = device.steps.iter().collect();
    let Some(last) = steps.last() else {
        return steps;
    };
    let events = last.events;
    let range = events.start().index()..events.end().index();
    let out_of_memory = device.events.action[range].contains(&Action::Oom);
    let usual = median::upper(steps.iter().map(|s| s.events.len())).unwrap_or(0);
    let open = events.end().0 == device.events.len();
    if out_of_memory || (open && events.len() * 2 < usual) {
        steps.pop();
    }
    steps
}

#[cfg(test)]
mod tests;
