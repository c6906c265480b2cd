//! Verdicts in words. They say only what is known. If there is no verdict, they say what to do.

use super::MIN_STEPS;
use super::accumulated::{counts, more_at_first, rhythm, stays};
use super::anew::Anew;
use super::beside::Beside;
use super::doubt::Doubt;
use super::edges::Piled;
use super::excuse::Excuse;
use super::judge;
use super::others::Others;
use super::rate;
use super::report::{LeakGroup, LeakReport, Pattern, Verdict};
use super::second::Second;
use super::spread::Spread;
use super::survivors::Ends;
use super::thresholds::{MIN_BYTES, MIN_LATE_GROWTHS};
use crate::growth::{Growth, settled};
use crate::phases::{Role, Roles};
use crate::quality_code;
use crate::redact;
use crate::stacks::{FxHashMap, StackIdx};
use crate::steps::Word;
use crate::trace::{BlockIdx, DeviceTrace, QualityNote, Series, StepSource};
use crate::units::{Bytes, EventIdx};

/// The number of steps that an advised recording should hold.
const ADVISED_STEPS: u64 = 5;

/// So many allocations of a recording at one line are worth a word.
const NEARLY_ALL: f64 = 0.9;

/// What limits a verdict, a sentence each.
pub fn caveats(device: &DeviceTrace, quality: &[QualityNote]) -> Vec<String> {
    let mut caveats = Vec::new();
    if device.step_source == StepSource::Inferred {
        caveats.push("no annotation marks the steps: they are inferred".to_owned());
    }
    for note in quality.iter().filter(|note| note.concerns(device.device)) {
        match note.code.as_str() {
            quality_code::RING_WRAPPED => caveats.push(
                "the ring of events wrapped: only the steps that it still holds are judged"
                    .to_owned(),
            ),
            quality_code::NO_STACKS => {
                caveats.push(format!("{}: these are grouped by size", note.sentence()));
            }
            _ => {}
        }
    }
    // The verdict on a device says nothing of the host. Pinned memory itself says why.
    let is_lost = |note: &QualityNote| note.code == quality_code::PINNED_NOT_JUDGED;
    if !device.device.is_pinned()
        && let Some(note) = quality.iter().find(|note| is_lost(note))
    {
        caveats.push(note.detail.clone());
    }
    caveats
}

/// Tells the verdict on one device.
pub struct Teller<'a> {
    pub device: &'a DeviceTrace,
    /// Whole steps.
    pub n_steps: usize,
    /// Whether events were overwritten.
    pub wrapped: bool,
    pub caveats: Vec<String>,
    pub growth: Option<Growth>,
    /// *Allocated* at the ends of whole steps.
    pub levels: Vec<u64>,
}

impl Teller<'_> {
    /// What the steps are called.
    fn word(&self) -> Word {
        Word::of(&self.device.steps)
    }

    /// For the steps that end there.
    pub fn of<'a>(device: &'a DeviceTrace, ends: &Ends, quality: &[QualityNote]) -> Teller<'a> {
        let level = |end: &u32| {
            let levels = device.levels_before(EventIdx(*end));
            levels.get(Series::Allocated).0
        };
        let levels: Vec<u64> = ends.as_slice().iter().map(level).collect();
        let concerns = |note: &&QualityNote| note.concerns(device.device);
        let mut notes = quality.iter().filter(concerns);
        Teller {
            device,
            n_steps: ends.len(),
            wrapped: notes.any(|note| note.code == quality_code::RING_WRAPPED),
            caveats: caveats(device, quality),
            growth: Growth::of(&levels),
            levels,
        }
    }

    fn report(self, verdict: Verdict, reason: String) -> LeakReport {
        LeakReport {
            verdict,
            reason,
            caveats: self.caveats,
            groups: Vec::new(),
            bytes_per_step: 0.0,
            growth: self.growth,
            reserved_growth: None,
        }
    }

    /// The report if there are too few steps.
    pub fn too_few(self) -> LeakReport {
        let (one, many) = (self.word().one(), self.word().many());
        let seen = match (self.device.events.len(), self.n_steps) {
            (0, _) => "only the state at the end was recorded, no events".to_owned(),
            (1, _) => "only the state at the end was recorded, and one event".to_owned(),
            (_, 0) if self.device.device.is_pinned() && !self.device.events.time.ascends() => {
                "the clock was set back: what is pinned belongs to no certain step".to_owned()
            }
            (_, 0) if let Some((all, own, kept)) = self.at_one_line() => {
                let stay = match kept {
                    0 => "none of them stays".to_owned(),
                    _ if kept == own => "all of them stay".to_owned(),
                    _ => format!("{kept} of them stay"),
                };
                let seen = format!(
                    "no loop is seen: {own} of {all} allocations are at one line, and {stay}; one \
                     line does not show where an iteration ends; mark each one with \
                     `torch.profiler.record_function(f\"step {{i}}\")`, and record with \
                     `global_record_annotations=True`"
                );
                return self.report(Verdict::CannotTell, seen);
            }
            (_, 0) => {
                "no loop is seen that covers the recording: only that can show a leak".to_owned()
            }
            (_, 1) => format!("one {one} is too few: {MIN_STEPS} {many} are needed to see a leak"),
            (_, n) => {
                format!("{n} whole {many} are too few: {MIN_STEPS} {many} are needed to see a leak")
            }
        };
        let reason = format!("{seen}; {}", self.advice());
        self.report(Verdict::CannotTell, reason)
    }

    /// The number of allocations, how many of them one line makes, and how many of these stay;
    /// `None` if it does not make nearly all, or only a few.
    fn at_one_line(&self) -> Option<(usize, usize, usize)> {
        let blocks = &self.device.blocks;
        let made = blocks.n_preexisting as usize..blocks.len();
        let mut of_stacks: FxHashMap<StackIdx, usize> = FxHashMap::default();
        let stack = |at: usize| blocks.kind(BlockIdx(at as u32)).alloc_stack;
        for at in made.clone() {
            *of_stacks.entry(stack(at)).or_default() += 1;
        }
        let known = of_stacks
            .into_iter()
            .filter(|(stack, _)| *stack != StackIdx::NONE);
        let (line, own) = known.max_by_key(|&(stack, n)| (n, stack))?;
        let n_events = self.device.events.len();
        let stays = |at: &usize| blocks.free_requested[*at] >= n_events && stack(*at) == line;
        let kept = made.clone().filter(stays).count();
        let is_most = own >= MIN_STEPS && own as f64 >= NEARLY_ALL * made.len() as f64;
        is_most.then_some((made.len(), own, kept))
    }

    /// The one thing to do: record enough steps, with room for all their events.
    fn advice(&self) -> String {
        let many = self.word().many();
        let wrapped = self.wrapped;
        let events = u64::from(self.device.events.len());
        match advised_entries(events, self.n_steps as u64, wrapped) {
            None => format!(
                "record {MIN_STEPS} {many} or more with \
                 `torch.cuda.memory._record_memory_history()`"
            ),
            Some(entries) => format!(
                "record {MIN_STEPS} {many} or more: \
                 `torch.cuda.memory._record_memory_history(max_entries={entries})`"
            ),
        }
    }

    /// The report if something grows and the trace ends too early to judge it.
    pub fn unsure(self, growth: &judge::Growth, doubtful: f64) -> LeakReport {
        let [first, last] = [growth.first, growth.last].map(|at| self.step(at));
        self.too_short(growth, doubtful, [format!("at {first}"), first, last])
    }

    /// The same, of growth that is seen only in a closer look.
    pub fn doubted(self, doubt: &Doubt) -> LeakReport {
        let growth = &doubt.growth;
        let [first, last] = [growth.first, growth.last].map(|at| {
            let at = at.checked_sub(doubt.before)?;
            Some(self.step(at))
        });
        let before = || format!("before {}", self.step(0));
        let at = first
            .as_ref()
            .map_or_else(before, |first| format!("at {first}"));
        let since = first.unwrap_or_else(|| format!("the time {}", before()));
        let last = last.unwrap_or_else(before);
        self.too_short(growth, doubt.bytes, [at, since, last])
    }

    /// What a step is called, or what follows the last. Whole steps are the first of the device.
    fn step(&self, at: usize) -> String {
        let step = self.device.steps.get(at);
        step.map_or_else(|| "the end".to_owned(), redact::step_in_words)
    }

    /// The report if growth is seen at some step and since then, and at a last one.
    fn too_short(
        self,
        growth: &judge::Growth,
        doubtful: f64,
        [at_first, first, last]: [String; 3],
    ) -> LeakReport {
        let bytes = Bytes(doubtful as u64);
        let (n, many) = (self.n_steps, self.word().many());
        // Larger blocks, not more of them.
        let more = growth.count_per_period * n.saturating_sub(growth.first) as f64;
        let is_replaced = growth.pattern == Pattern::Enlarged && more * 2.0 < growth.growths as f64;
        let seen = match growth.growths {
            1 => format!("{bytes} were kept once so far, {at_first}"),
            2 => format!("{bytes} were kept {at_first} and again at {last}"),
            times if is_replaced => {
                format!("a buffer was enlarged {times} times since {first}, by {bytes} on average")
            }
            times => format!("{bytes} at a time are kept since {first}, {times} times so far"),
        };
        let reason = format!(
            "{seen}: the {n} {many} recorded are too few to see whether it goes on; record {} \
             {many} or more",
            2 * n
        );
        self.report(Verdict::CannotTell, reason)
    }

    /// The report if an optimizer seems to be made anew while the old one is kept.
    pub fn second(self, second: &Second) -> LeakReport {
        let bytes = Bytes(second.bytes.round() as u64);
        let (n, many) = (self.n_steps, self.word().many());
        let [first, last] = [second.first, second.last].map(|at| self.step(at));
        let again = match second.times {
            1 => String::new(),
            2 => format!(" and again at {last}"),
            times => format!(" and again until {last}, {times} times"),
        };
        let reason = format!(
            "{bytes} of optimizer state were made at {first}{again}, for parameters that were \
             trained before: an optimizer makes its state once, so perhaps a new one is made \
             again and again while the old ones are kept; record {} {many} or more",
            2 * n
        );
        self.report(Verdict::CannotTell, reason)
    }

    /// The report if blocks were made at too many places to follow.
    pub fn too_many(self, blocks: u64) -> LeakReport {
        let (n, one, many) = (self.n_steps, self.word().a(), self.word().many());
        let reason = format!(
            "{blocks} blocks outlive {one} at more places than can be followed over {n} {many}"
        );
        self.report(Verdict::CannotTell, reason)
    }

    /// The report if `watch` stopped the search.
    pub fn stopped(self) -> LeakReport {
        let (n, many) = (self.n_steps, self.word().many());
        let reason = format!(
            "judging its {n} {many} was stopped at the time limit; `tidemark inspect` has no limit"
        );
        self.report(Verdict::CannotTell, reason)
    }

    /// The report if the growth has an innocent explanation.
    pub fn excused(self, why: Excuse, bytes_per_step: f64) -> LeakReport {
        let bytes = Bytes(bytes_per_step.round() as u64);
        let (n, one, many) = (self.n_steps, self.word().a(), self.word().many());
        let verdict = match why.leaves_doubt() {
            true => Verdict::CannotTell,
            false => Verdict::Clean,
        };
        let reason = match why {
            Excuse::OptimizerState => format!(
                "apart from {bytes} {one} of optimizer state, which the optimizer bounds, \
                 nothing accumulates over {n} {many}"
            ),
            Excuse::Loading => format!(
                "{bytes} {one} accumulate while weights are made or loaded; record the \
                 {many} that follow"
            ),
            Excuse::StateAgain => format!(
                "{bytes} {one} of optimizer state accumulate over {n} {many}, as much each \
                 time and at equal distances: an optimizer makes its state once, so perhaps a \
                 new one is made each time while the old one is kept"
            ),
            Excuse::MadeInUpdates => format!(
                "{bytes} {one} accumulate over {n} {many}, all of it made while an optimizer \
                 stepped: perhaps the state of parameters that are trained later; record with \
                 stacks"
            ),
            Excuse::MoreLayers => format!(
                "{bytes} {one} accumulate over {n} {many}, and each time the {many} that \
                 follow do more work: perhaps layers are added to a model, or trained from \
                 then on, or old models are kept"
            ),
            Excuse::LargerSteps => format!(
                "a buffer is enlarged by {bytes} {one}, and some of the program's work grows \
                 with it over {n} {many}: it has no bound, or the data become longer; record \
                 with data of one size"
            ),
            Excuse::GraphsWait => format!(
                "{bytes} {one} accumulate over {n} {many}, which give back little of \
                 what they make: perhaps each keeps its graph, as an evaluation does without \
                 `torch.no_grad()`, or all are parts of one pass that waits for its backward \
                 pass; record until memory is given back"
            ),
            // The cache of one request grows with its tokens, that of a conversation with requests.
            Excuse::OneRequest if self.word() == Word::Request => format!(
                "buffers are enlarged by {bytes} in each of {n} requests, as the key/value cache \
                 of one conversation is; record until it is given back"
            ),
            Excuse::OneRequest => format!(
                "buffers are enlarged by {bytes} in each of {n} iterations, as the key/value \
                 cache of one request is; record {MIN_STEPS} requests or more"
            ),
        };
        self.report(verdict, reason)
    }

    /// The report if nearly every step keeps something, and no site alone leaks.
    pub fn spread(self, spread: &Spread) -> LeakReport {
        let bytes = Bytes(spread.bytes_per_step.round() as u64);
        let (n, one, many) = (self.n_steps, self.word().a(), self.word().many());
        let reason = format!(
            "{bytes} {one} are kept over {n} {many}, spread over {} places, none of which alone \
             leaks: the code may be used for the first time there, or be made anew again and \
             again; record {} {many} or more",
            spread.sites,
            2 * n
        );
        self.report(Verdict::CannotTell, reason)
    }

    /// The report if something is kept in a rhythm, each time at another place.
    pub fn anew(self, anew: &Anew) -> LeakReport {
        let bytes = Bytes(anew.bytes.round() as u64);
        let (n, times, many) = (self.n_steps, anew.times, self.word().many());
        let reason = format!(
            "{bytes} at a time are kept, {times} times over {n} {many}, in blocks of one size but \
             each time at another place: code that is made anew again and again, or code that is \
             used for the first time; record {} {many} or more",
            2 * n
        );
        self.report(Verdict::CannotTell, reason)
    }

    /// The report if nothing grows, but much is kept after the last step of a short recording.
    pub fn after(self, bytes: Bytes) -> LeakReport {
        let (n, many) = (self.n_steps, self.word().many());
        let reason = format!(
            "{bytes} were kept once so far, after the last of {n} {many}: these are too few to \
             see whether it is kept again and again; record {} {many} or more",
            2 * n
        );
        self.report(Verdict::CannotTell, reason)
    }

    /// The report if nothing grows, but a place keeps block after block when the steps are over.
    pub fn piled(self, piled: &Piled) -> LeakReport {
        let (n, times, many) = (self.n_steps, piled.times, self.word().many());
        let reason = format!(
            "nothing accumulates over {n} {many}, but at the end {times} blocks of one size, {} \
             in all, were kept one after another at one place: a loop may go on there, which no \
             {many} show",
            piled.bytes
        );
        self.report(Verdict::CannotTell, reason)
    }

    /// The report if nothing grows, except by `noise` bytes at a time. Perhaps something did, but
    /// has `ended`.
    pub fn clean(self, noise: f64, ended: Option<judge::Ended>) -> LeakReport {
        let (n, one, many) = (self.n_steps, self.word().a(), self.word().many());
        let metrics = format!(
            "{} at a time (less than {MIN_BYTES}: probably metrics that the program collects)",
            Bytes(noise as u64)
        );
        let mut reason = match noise > 0.0 {
            true => format!("apart from {metrics} nothing accumulates over {n} {many}"),
            false => {
                format!("what outlives {one} is bounded: nothing accumulates over {n} {many}")
            }
        };
        if let Some(ended) = &ended {
            let last = redact::step_in_words(&self.device.steps[ended.last]);
            let since = self.word().counted(n - 1 - ended.last);
            reason = format!(
                "memory grew until {last} and then no more: {} of it are still held, and nothing \
                 accumulates over the {since} since",
                Bytes(ended.bytes)
            );
            if noise > 0.0 {
                reason += &format!(", apart from {metrics}");
            }
        }
        LeakReport {
            growth: ended
                .and_then(|ended| Growth::since(&self.levels, ended.last))
                .or(self.growth),
            ..self.report(Verdict::Clean, reason)
        }
    }

    /// *Allocated* at the ends of whole steps, without what the groups hold, and without `others`.
    fn beside<'g>(&self, groups: impl Iterator<Item = &'g LeakGroup>, others: &[u64]) -> Vec<u64> {
        let mut levels = self.levels.clone();
        for (level, own) in levels.iter_mut().zip(others) {
            *level = level.saturating_sub(*own);
        }
        for group in groups {
            for (level, own) in levels.iter_mut().zip(group.levels()) {
                *level = level.saturating_sub(own.0);
            }
        }
        levels
    }

    /// Says so where what was seen may be the growth of what has a bound: few growths, or growth
    /// that chance decides, as requests do that a cache has no answer to.
    fn note_what_may_be_bounded(&mut self, groups: &[LeakGroup]) {
        let across = || groups.iter().filter(|group| !group.is_within());
        let seen = across().map(LeakGroup::growths_seen).max();
        let enlarged = across().any(|group| group.pattern == Pattern::Enlarged);
        if let Some(times) = seen.filter(|&seen| seen < MIN_LATE_GROWTHS && !enlarged) {
            self.caveats.push(format!(
                "it grew {times} times so far: a cache or a buffer that is being filled looks the \
                 same"
            ));
        } else if seen.is_some() && across().all(|group| group.uneven) {
            self.caveats.push(
                "it grows at uneven distances: a cache that is filled with what it lacks looks the \
                 same"
                    .to_owned(),
            );
        }
    }

    /// The report if what accumulates is given back by a function that is called after the last
    /// step.
    pub fn emptied(self, groups: &[LeakGroup]) -> LeakReport {
        let all: f64 = groups.iter().map(|group| group.bytes_per_step).sum();
        let (one, many) = (self.word().a(), self.word().many());
        let (n, advised) = (self.n_steps, 2 * self.n_steps);
        let them = match counts(groups) {
            [given_back, all] if given_back < all => format!("{given_back} of {all} blocks"),
            _ => "them".to_owned(),
        };
        let reason = format!(
            "{} {one} accumulate over {n} {many}, and a function that is called after the last one \
             gives {them} back: a list that is emptied after each epoch looks like this; record \
             {advised} {many} or more",
            Bytes(all.round() as u64)
        );
        self.report(Verdict::CannotTell, reason)
    }

    /// The report if what accumulates is given back by the last step.
    pub fn given_back(self, bytes_per_step: f64) -> LeakReport {
        let bytes = Bytes(bytes_per_step.round() as u64);
        let (n, one, many) = (self.n_steps - 1, self.word().a(), self.word().many());
        let reason = format!(
            "{bytes} {one} accumulate over {n} {many}, and the last one gives them back: results \
             that an evaluation collects on the GPU look like this, and so does the key/value \
             cache of one request; their peak grows with the number of {many}"
        );
        self.report(Verdict::CannotTell, reason)
    }

    /// Says so where models are made in each step, and stay. What refers to itself, as a model does
    /// that holds its own hooks, stays until Python looks for such cycles.
    pub fn note_models_made_anew(&mut self, roles: &Roles, groups: &[LeakGroup]) {
        let is_made = |group: &LeakGroup| {
            roles.get(group.stack) == Role::ModelSetup && group.pattern == Pattern::EveryStep
        };
        if groups.iter().any(is_made) {
            self.caveats.push(format!(
                "a model is made in each {} and stays: objects that refer to one another stay \
                 until `gc.collect()`, which looks the same",
                self.word().one()
            ));
        }
    }

    /// The report if groups accumulate; `others` is what else grows, and `beside` is what is no
    /// growth of them.
    pub fn leak(
        mut self,
        mut groups: Vec<LeakGroup>,
        others: &Others,
        beside: &Beside,
    ) -> LeakReport {
        groups.sort_by(|a, b| {
            let speed = b.bytes_per_step.total_cmp(&a.bytes_per_step);
            let rank = |group: &LeakGroup| (group.is_within(), group.is_state);
            rank(a).cmp(&rank(b)).then(speed)
        });
        let across = || groups.iter().filter(|g| !g.is_within());
        if across().next().is_none() {
            let each: f64 = groups.iter().map(|g| g.bytes_per_step).sum();
            let reason = format!(
                "within each {} {} accumulate with every part and are given back only at its \
                 end: the peak grows with the number of parts",
                self.word().one(),
                Bytes(each.round() as u64)
            );
            return LeakReport {
                groups,
                ..self.report(Verdict::Leak, reason)
            };
        }
        let proven = rate::together(across());
        // Without one half of what only changes places, the other half may seem to rise.
        let told = |growth: Growth| {
            [&beside.young, &beside.emptied].map(|others| {
                let rest = Growth::of(&self.beside(across(), others));
                let whole = Growth::of(&self.beside([].iter(), others)).unwrap_or(growth);
                let [slope, all] = [whole, growth].map(|of| of.proven(proven, rest).slope);
                Growth {
                    slope: slope.min(all),
                    ..growth
                }
            })
        };
        let slower = |[a, b]: [Growth; 2]| if b.slope < a.slope { b } else { a };
        self.growth = self.growth.map(|growth| slower(told(growth)));
        let total = self.growth.map_or(proven, |growth| growth.slope);
        let mut reason = self.accumulated(&groups, [total, proven], others);
        if let Some(ended) = others.ended_beside(total) {
            let last = self.step(ended.last);
            reason += &format!(
                "; memory{} grew until {last} and then no more: {} of it are still held",
                ended.at, ended.bytes
            );
        }
        self.note_what_may_be_bounded(&groups);
        LeakReport {
            groups,
            bytes_per_step: total,
            ..self.report(Verdict::Leak, reason)
        }
    }

    /// How fast memory accumulates, since when and until when; the groups, of which one or more
    /// grow from step to step, hold so much of it as is `proven`.
    fn accumulated(
        &self,
        groups: &[LeakGroup],
        [total, proven]: [f64; 2],
        others: &Others,
    ) -> String {
        let across = || groups.iter().filter(|group| !group.is_within());
        let is_alone = across().nth(1).is_none();
        let first = across().next();
        let rhythm = first.map(|first| rhythm(first, is_alone, self.word().many()));
        let rhythm = rhythm.unwrap_or_default() + &more_at_first(groups);
        let [all, known] = [total, proven].map(|bytes| Bytes(bytes.round() as u64));
        // A rate times all steps would be more than what is kept, if it began late.
        let (n, many) = (self.n_steps, self.word().many());
        let first = across().map(|group| group.first_step as usize).min();
        let n = match first.filter(|&first| first > settled(n)) {
            Some(first) => format!("the last {} of {n}", n - first),
            None => n.to_string(),
        };
        let all = format!("{all} {}", self.word().a());
        match total > proven {
            true => format!(
                "{all} accumulate over {n} {many}: {known} of them{rhythm}{}; {}",
                stays(groups, " are "),
                others.in_words(total - proven)
            ),
            false => format!(
                "{all} accumulate over {n} {many}{rhythm}{}",
                stays(groups, " and are ")
            ),
        }
    }
}

/// The limit of events that is advised, after a recording of so many events and whole steps.
/// Where nothing was overwritten, there was room enough. Where no whole step is left, nobody knows
/// how long one is. `None`: no limit.
fn advised_entries(events: u64, n_steps: u64, wrapped: bool) -> Option<u64> {
    let entries = (events * ADVISED_STEPS).checked_div(n_steps);
    entries.filter(|_| wrapped).map(round_up)
}

/// Rounds up to a number with one significant digit, from 1000 on: a number that people would type.
fn round_up(n: u64) -> u64 {
    let mut step = 1000;
    while n > 10 * step {
        step *= 10;
    }
    n.max(1).next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaks;
    use crate::testing;

    #[test]
    fn a_state_is_told_with_the_events_that_it_has() {
        let check = |script: &str, expected: &str| {
            let trace = testing::trace(script);
            let report = leaks::find(&trace.devices[0], &trace.stacks, &[]);
            let seen = report.reason.split(';').next().unwrap_or_default();
            assert_eq!(seen, expected);
        };
        check("", "only the state at the end was recorded, no events");
        check(
            "a alloc 1MiB at f m.py:1",
            "only the state at the end was recorded, and one event",
        );
    }

    /// One operation again and again: its stack shows no loop.
    #[test]
    fn a_line_that_allocates_alone_is_told_with_what_it_keeps() {
        let check = |lines: &[&str], expected: &str| {
            let trace = testing::trace(&lines.join("\n"));
            let reason = leaks::find(&trace.devices[0], &trace.stacks, &[]).reason;
            assert!(reason.starts_with(expected), "{reason}");
        };
        let kept: Vec<String> = (0..12)
            .map(|at| format!("{at} alloc 1MiB at f m.py:1"))
            .collect();
        let mut lines: Vec<&str> = kept.iter().map(String::as_str).collect();
        check(
            &lines,
            "no loop is seen: 12 of 12 allocations are at one line, and all of them stay",
        );
        lines.push("3 free");
        check(
            &lines,
            "no loop is seen: 12 of 12 allocations are at one line, and 11 of them stay",
        );
        check(&lines[..3], "no loop is seen that covers the recording");
    }

    #[test]
    fn a_limit_is_advised_where_it_is_known_how_long_a_step_is() {
        let check = |n_steps, wrapped, expected| {
            assert_eq!(advised_entries(10_000, n_steps, wrapped), expected);
        };
        check(2, true, Some(30_000));
        check(2, false, None);
        check(0, true, None);
    }

    #[test]
    fn an_advised_number_is_round_and_enough() {
        let check = |n, expected| assert_eq!(round_up(n), expected);
        check(0, 1000);
        check(1, 1000);
        check(1000, 1000);
        check(1001, 2000);
        check(10_001, 20_000);
        check(376_000, 400_000);
    }
}
