//! The questions that the gate asks of a difference, one after another.

use super::{Finding, Limits, Weight};
use crate::compare::failure::{self, Failure, Reached};
use crate::compare::pass::{self, PhaseDelta};
use crate::compare::rates::{Counted, Rates};
use crate::compare::words::{self, growth_told, signed};
use crate::compare::work::Unknown;
use crate::compare::{Difference, LeakChange, LeakPlace, Leaks, noise, peak_place};
use crate::growth::Growth;
use crate::leaks::{MIN_BYTES, Verdict};
use crate::phases::Phase;
use crate::trace::Series;
use crate::units::Bytes;
use std::cmp::Ordering;

/// Everything that is found in the difference of a device.
pub(super) fn findings(difference: &Difference, limits: &Limits) -> Vec<Finding> {
    let mut judge = Judge {
        difference,
        limits,
        findings: Vec::new(),
    };
    judge.all();
    judge.findings
}

struct Judge<'a> {
    difference: &'a Difference,
    limits: &'a Limits,
    findings: Vec<Finding>,
}

impl Judge<'_> {
    fn find(&mut self, weight: Weight, code: &str, detail: String) {
        self.findings.push(Finding {
            weight,
            code: code.to_owned(),
            detail,
        });
    }

    fn fails_for(&self, code: &str) -> bool {
        let mut failures = self.findings.iter().filter(|f| f.weight == Weight::Fail);
        failures.any(|finding| finding.code == code)
    }

    fn all(&mut self) {
        for condition in &self.difference.conditions {
            let detail = format!(
                "{}: {} → {}; {}",
                condition.name, condition.base, condition.new, condition.meaning
            );
            self.findings.push(Finding {
                weight: Weight::Note,
                code: "differs".to_owned(),
                detail,
            });
        }
        self.out_of_memory();
        self.reserved();
        let difference = self.difference;
        // States that agree pass, unless the limit is tighter than that.
        let agrees = difference.is_of_states() && difference.alike && !self.peak_exceeds();
        if difference.lacks_history() && !agrees {
            let detail = words::without_history(difference);
            self.find(Weight::Unknown, "history", detail);
            return;
        }
        if difference.alike {
            self.alike();
            if self.peak_exceeds() {
                self.peak();
            }
            self.growth();
            return;
        }
        if let Some(detail) = words::contradictory(difference) {
            self.find(Weight::Unknown, "history", detail);
            return;
        }
        if difference.facts.is_other_program {
            self.other_program();
            self.leaks();
            return;
        }
        match difference.is_of_single_passes() && !difference.phases.is_empty() {
            true => self.passes(),
            false => self.peak(),
        }
        self.kept();
        self.leaks();
        self.growth();
    }

    /// What is kept between steps. It is there when something else needs memory, but only then does
    /// it cost any: so this is a warning.
    fn kept(&mut self) {
        let difference = self.difference;
        let Some(kept) = difference.kept_besides() else {
            return;
        };
        let limit = self
            .limits
            .peak_growth
            .of(kept.base)
            .max(noise::LEVEL_FLOOR.0);
        if kept.by() > 0 && kept.by().unsigned_abs() > limit {
            let detail = format!(
                "allocated is {} higher at the ends of steps ({} → {}): more is kept between them",
                Bytes(kept.by().unsigned_abs()),
                kept.base,
                kept.new
            );
            self.find(Weight::Warn, "kept", detail);
        }
    }

    /// A lower peak of another program is no good news, and a higher one is no bad news.
    fn other_program(&mut self) {
        let (base, new) = (&self.difference.base, &self.difference.new);
        let peaks = self.difference.series(Series::Allocated);
        let detail = format!(
            "too little of what they allocate and keep is the same in both runs, so they look like \
             two programs, and their peaks ({} and {}) say nothing of one another; compare with a \
             recording of the same program",
            base.peak(peaks.base.peak),
            new.peak(peaks.new.peak)
        );
        self.find(Weight::Unknown, "program", detail);
    }

    /// Every step and every site agrees as far as two runs of one program do, so nothing is new. A
    /// limit may still be tighter than that.
    fn alike(&mut self) {
        let difference = self.difference;
        if difference.new.leaks.verdict == Verdict::Leak {
            self.both_leak();
        } else if difference.leaks == LeakChange::CannotTell {
            let reason = &difference.new.leaks.reason;
            let detail = format!(
                "both runs agree in everything, but neither alone is enough to judge: {reason}"
            );
            self.find(Weight::Note, "leaks", detail);
        }
    }

    fn out_of_memory(&mut self) {
        let new = &self.difference.new;
        let Some(oom) = new.oom else {
            return;
        };
        let [_, reached] = failure::reached(self.difference);
        let at = match (reached, oom.step) {
            (Some(Reached::After(_)), Some(step)) => format!(" in step {step}"),
            (Some(reached), _) => reached.told(),
            (None, _) => String::new(),
        };
        let detail = format!(
            "the new run is out of memory{at}: a request for {} failed",
            oom.wanted
        );
        let (weight, more) = match Failure::of(self.difference) {
            Failure::Both(Some(Ordering::Less)) => (Weight::Fail, "; the baseline got further"),
            Failure::Both(None) if !self.difference.alike => (
                Weight::Unknown,
                "; so is the baseline, and which got further is not known",
            ),
            Failure::Both(_) => (Weight::Note, "; so is the baseline"),
            _ => (Weight::Fail, ""),
        };
        self.find(weight, "out_of_memory", format!("{detail}{more}"));
    }

    fn reserved(&mut self) {
        let reserved = self.difference.series(Series::Reserved);
        let limit = (reserved.base.peak.0 as f64 * noise::RESERVED_SHARE) as i64;
        // What a baseline reserved at most is not known of a ring that wrapped.
        let is_known = !self.difference.base.is_least();
        if is_known && reserved.peak > limit.max(noise::LEVEL_FLOOR.0 as i64) {
            let detail = format!(
                "reserved peaks {} higher ({} → {}); the limits are for allocated, so this is a \
                 warning",
                Bytes(reserved.peak.unsigned_abs()),
                reserved.base.peak,
                reserved.new.peak
            );
            self.find(Weight::Warn, "reserved", detail);
        }
    }

    /// Compares two single passes phase by phase, and as a whole. If one pass has a phase that the
    /// other lacks, it also needs more in its other phases (an optimizer step needs its state).
    /// Then nothing can be judged.
    fn passes(&mut self) {
        let phases = &self.difference.phases;
        let lacking = |lacks: fn(&PhaseDelta) -> bool| -> Vec<Phase> {
            let rows = phases.iter().filter(|row| lacks(row));
            rows.map(|row| row.phase).collect()
        };
        let only_new = lacking(|row| row.base.is_none());
        let only_base = lacking(|row| row.new.is_none());
        let comparable = only_new.is_empty() && only_base.is_empty();
        for row in phases {
            let (Some(before), Some(after)) = (row.base, row.new) else {
                continue;
            };
            let limit = self.limits.peak_growth.of(before).max(noise::LEVEL_FLOOR.0);
            let more = noise::delta(before, after);
            if more > 0 && more.unsigned_abs() > limit {
                let detail = format!(
                    "the {} phase peaks {} higher ({before} → {after}, {})",
                    row.phase.name(),
                    Bytes(more.unsigned_abs()),
                    allowed(more.unsigned_abs(), limit)
                );
                let weight = match comparable {
                    true => Weight::Fail,
                    false => Weight::Warn,
                };
                self.find(weight, "phase", detail);
            }
        }
        for (only, side) in [(&only_new, "baseline"), (&only_base, "new run")] {
            if !only.is_empty() {
                let detail = format!(
                    "one pass each, and the {side} holds no {} phase: record the same part of \
                     the program in both",
                    pass::names(only)
                );
                self.find(Weight::Unknown, "phase", detail);
            }
        }
        if comparable {
            self.peak();
        }
    }

    /// How much higher the peak may be, bytes.
    fn peak_limit(&self) -> u64 {
        let base = &self.difference.base;
        let limit = self.limits.peak_growth.of(base.common_peak);
        let limit = limit.max(noise::LEVEL_FLOOR.0);
        // The baseline's own steps differ by some amount, apart from their trend (garbage that is
        // collected now and then). Two runs may differ by that much too.
        match self.difference.varying {
            true => limit,
            false => limit.max(base.wobble.0),
        }
    }

    fn peak_exceeds(&self) -> bool {
        let (base, new) = (&self.difference.base, &self.difference.new);
        let more = noise::delta(base.common_peak, new.common_peak);
        more > 0 && more.unsigned_abs() > self.peak_limit()
    }

    fn peak(&mut self) {
        let difference = self.difference;
        let (base, new) = (&difference.base, &difference.new);
        let (before, after) = (base.common_peak, new.common_peak);
        let (limit, exceeds) = (self.peak_limit(), self.peak_exceeds());
        let more = noise::delta(before, after);
        // Of steps that both have, it is known what the baseline needed.
        let is_bound = base.wrapped && difference.facts.shared.steps.is_none();
        let recorded = if is_bound { " on record" } else { "" };
        let sentence = format!(
            "the peak of allocated{recorded} is {} higher ({before} → {after}{}, {}){}{}",
            signed(more as f64).trim_start_matches('+'),
            words::over(difference),
            allowed(more.unsigned_abs(), limit),
            peak_place::told(difference),
            self.rounding()
        );
        if difference.is_of_other_steps() {
            self.peak_of_other_steps();
            return;
        }
        if difference.varying && exceeds && !is_bound {
            self.varying_peak(difference.excess, sentence);
            return;
        }
        if exceeds && is_bound {
            let detail = format!(
                "{sentence}, but the ring of the baseline wrapped: what it needed before is not \
                 known"
            );
            self.find(Weight::Unknown, "peak", detail);
        } else if exceeds {
            self.find(Weight::Fail, "peak", sentence);
        } else if new.wrapped {
            let detail = "the ring of the new run wrapped: its peak may be in the part that was \
                          overwritten; record more (max_entries)"
                .to_owned();
            self.find(Weight::Unknown, "peak", detail);
        } else if new.oom.is_some() && base.oom.is_none() {
            // This was reported already: the peak is only a lower bound.
        } else if more < 0 && more.unsigned_abs() > difference.tolerance.0 {
            let less = Bytes(more.unsigned_abs());
            let detail = format!("the peak is {less} lower ({before} → {after})");
            self.find(Weight::Note, "peak", detail);
        }
    }

    /// Only the first step of the later recording is not known, where no ring wrapped. If only one
    /// run grows, its first steps are its lowest, whichever steps of the program they are.
    fn peak_of_other_steps(&mut self) {
        let difference = self.difference;
        let (before, after) = (difference.base.common_peak, difference.new.common_peak);
        let lowest = difference.facts.shared.lowest;
        let limit = self.peak_limit();
        let exceeds = |base: Bytes, new: Bytes| new.0 > base.0.saturating_add(limit);
        let which = "whichever steps are compared";
        match (lowest, difference.grows()) {
            (Some([base, _]), [true, false]) if !exceeds(base, after) => {
                let detail = format!("the peak is no higher {which} ({before} and {after})");
                self.find(Weight::Note, "peak", detail);
            }
            (Some([_, new]), [false, true]) if exceeds(before, new) => {
                let more = new.saturating_sub(before);
                let detail = format!(
                    "the peak of allocated is at least {more} higher {which} ({before} → at \
                     least {new}, {})",
                    allowed(more.0, limit)
                );
                self.find(Weight::Fail, "peak", detail);
            }
            _ => {
                let detail = format!(
                    "the peaks ({before} and {after}) may be of other steps: {}, and memory \
                     grows with each step; record the same steps in both",
                    difference.why_other_steps()
                );
                self.find(Weight::Unknown, "peak", detail);
            }
        }
    }

    /// Adds a note if the program requests no more: then only the rounding of sizes has changed.
    /// What it requests is known at the peaks of whole recordings.
    fn rounding(&self) -> &'static str {
        if !words::over(self.difference).is_empty() {
            return "";
        }
        let requested = self.difference.series(Series::Requested);
        let known = requested.base.peak > Bytes::ZERO && requested.new.peak > Bytes::ZERO;
        let tolerance = noise::level(requested.base.peak, requested.new.peak, Bytes::ZERO);
        // A limit may be tighter than the tolerance.
        let most = noise::delta(
            self.difference.base.common_peak,
            self.difference.new.common_peak,
        );
        let is_less = requested.peak.saturating_mul(2) < most;
        match known && is_less && requested.peak.unsigned_abs() <= tolerance.0 {
            true => {
                "; the program requests no more: its blocks are rounded up further, or not split"
            }
            false => "",
        }
    }

    /// Lengths vary from step to step, so the highest step of each run is a matter of luck. The
    /// needs of steps with equal work are not.
    fn varying_peak(&mut self, excess: Option<f64>, sentence: String) {
        let before = self.difference.base.common_peak;
        let allowed = self.limits.peak_growth.of(before) as f64 / before.0.max(1) as f64;
        let allowed = allowed.max(noise::LEVEL_SHARE);
        let (weight, why) = match (excess, self.difference.facts.unknown) {
            (Some(excess), _) if excess > allowed => (
                Weight::Fail,
                format!(
                    "; steps need up to {:.1} % more than the baseline's steps of equal work",
                    excess * 100.0
                ),
            ),
            (_, Some(Unknown::Beyond(times))) => (
                Weight::Unknown,
                format!(
                    ", in a step that does {times:.2} times the work of the baseline's largest \
                     after its first: \
                     what the baseline would have needed for it is not known"
                ),
            ),
            (_, Some(Unknown::Outside)) => (
                Weight::Unknown,
                ", in no whole step, and steps do different amounts of work: what the baseline \
                 would have needed there is not known"
                    .to_owned(),
            ),
            (Some(_), None) => (
                Weight::Warn,
                ", because a step of the new run does more work; steps of equal work need no more"
                    .to_owned(),
            ),
            (None, None) => (
                Weight::Unknown,
                "; no step can be compared with one of equal work".to_owned(),
            ),
        };
        let detail = sentence + &why;
        self.find(weight, "peak", detail);
    }

    fn leaks(&mut self) {
        let (base, new) = (&self.difference.base.leaks, &self.difference.new.leaks);
        match (base.verdict, new.verdict) {
            (_, Verdict::Clean) => {}
            (Verdict::Clean, Verdict::Leak) => {
                let detail = format!("a leak that the baseline does not have: {}", sentence(new));
                self.find(Weight::Fail, "leak", detail);
            }
            (Verdict::Leak, Verdict::Leak) => self.both_leak(),
            (Verdict::CannotTell, Verdict::Leak) => self.leak_of_unknown_age(),
            (_, Verdict::CannotTell) => self.unknown_leak(),
        }
    }

    /// What leaks from step to step, and what leaks within steps, each beside its own kind in the
    /// baseline.
    fn both_leak(&mut self) {
        for counted in Counted::ALL {
            self.both_leak_so(counted);
        }
    }

    fn both_leak_so(&mut self, counted: Counted) {
        let (base, new) = (&self.difference.base.leaks, &self.difference.new.leaks);
        let rates = [base.rates(), new.rates()];
        let [before, after] = rates.map(|rates| Bytes(rates.of(counted).bytes.round() as u64));
        let change = Rates::change_of(counted, &rates[0], &rates[1]);
        let unit = counted.unit();
        let told = || {
            let told = places(new.places_of(counted));
            match new.part_at(new.places_of(counted), counted) {
                Some(part) => format!("{part} of them {told}"),
                None => told,
            }
        };
        // How fast another program leaks is no measure for this one.
        let own = || format!("the new run leaks {after} {unit}, {}", told());
        let is_other = self.difference.facts.is_other_program;
        let (weight, detail) = match (change, fresh(new, counted)) {
            (LeakChange::NeverLeaked | LeakChange::CannotTell, _) => return,
            (LeakChange::Fixed, _) if is_other => return,
            (LeakChange::Faster, None) if is_other => (Weight::Fail, own()),
            (LeakChange::Faster, Some(fresh)) if is_other => (Weight::Fail, fresh),
            // In another program, every place is another one.
            (LeakChange::Slower | LeakChange::Same, _) if is_other => (Weight::Warn, own()),
            (LeakChange::Fixed, _) => (Weight::Note, format!("a leak of {before} {unit} is gone")),
            (LeakChange::Appeared, _) => (
                Weight::Fail,
                format!(
                    "a leak that the baseline does not have: {after} {unit}, {}",
                    told()
                ),
            ),
            (LeakChange::Faster, _) => (
                Weight::Fail,
                format!("the leak is faster: {before} → {after} {unit}, {}", told()),
            ),
            (_, Some(fresh)) => (Weight::Fail, fresh),
            (LeakChange::Slower, None) => (
                Weight::Warn,
                format!("still a leak, but slower: {before} → {after} {unit}"),
            ),
            (LeakChange::Same, None) => (
                Weight::Warn,
                format!(
                    "both runs leak {after} {unit}, {}: not made by this change",
                    told()
                ),
            ),
        };
        self.find(weight, "leak", detail);
    }

    fn leak_of_unknown_age(&mut self) {
        let (base, new) = (&self.difference.base.leaks, &self.difference.new.leaks);
        let unknown = new.places.iter().filter(|place| !place.known);
        let has_stacks = new.places.iter().any(|place| !place.place.name.is_empty());
        // What another program allocates is no news anywhere.
        let is_told = has_stacks && !self.difference.facts.is_other_program;
        if is_told && unknown.count() > 0 {
            let detail = format!(
                "a leak where the baseline allocates nothing: {}",
                sentence(new)
            );
            self.find(Weight::Fail, "leak", detail);
        } else {
            let detail = format!(
                "the new run leaks ({}), but whether the baseline does is not known: {}",
                sentence(new),
                base.reason
            );
            self.find(Weight::Unknown, "leak", detail);
        }
    }

    /// Neither verdict is known; the growth at the ends of steps may still help.
    fn unknown_leak(&mut self) {
        let difference = self.difference;
        let reason = difference.new.leaks.reason.clone();
        let both = difference.base.leaks.verdict == Verdict::CannotTell;
        match self.growth_bounds() {
            Some((_, most)) if both && most <= self.limits.step_growth.0 as f64 => {
                let detail = format!("no verdict on leaks ({reason}), but growth is the same");
                self.find(Weight::Note, "leak", detail);
            }
            // Neither run has a loop: both are single passes, and their peaks say all there is.
            _ if both && difference.is_of_single_passes() => {
                let detail = match difference.phases.is_empty() {
                    true => "neither recording holds a loop: the peak is judged",
                    false => "neither recording holds a loop: the peaks of the phases are judged",
                };
                self.find(Weight::Note, "leak", detail.to_owned());
            }
            _ => self.find(Weight::Unknown, "leak", reason),
        }
    }

    /// The least and the most by which growth per step can have risen, given the errors of both
    /// fits.
    fn growth_bounds(&self) -> Option<(f64, f64)> {
        let (base, new) = (self.difference.base.growth?, self.difference.new.growth?);
        let error = base.error? + new.error?;
        let more = new.slope - base.slope;
        Some((more - error, more + error))
    }

    fn growth(&mut self) {
        let Some((least, _)) = self.growth_bounds() else {
            return;
        };
        let limit = self.limits.step_growth;
        if least <= limit.0 as f64 {
            return;
        }
        let (base, new) = (self.difference.base.growth, self.difference.new.growth);
        let [before, after] = [base, new].map(|g| g.and_then(Growth::told).unwrap_or(0.0));
        let [told_before, told] = [base, new].map(|g| g.map_or_else(String::new, growth_told));
        let more = match told == told_before {
            true => format!("{} more; ", Bytes((after - before).round() as u64)),
            false => String::new(),
        };
        let detail = format!(
            "allocated grows by {told} a step, {told_before} in the baseline ({more}allowed \
             {limit} more)"
        );
        match self.difference.new.leaks.verdict {
            // Nothing that outlives a step accumulates, so this growth will end.
            Verdict::Clean => self.find(Weight::Warn, "growth", detail),
            // A leak that fails was reported already, with its place. Where both runs leak, the
            // limit still holds.
            Verdict::Leak if self.fails_for("leak") => self.find(Weight::Note, "growth", detail),
            _ => self.find(Weight::Fail, "growth", detail),
        }
    }
}

/// What a limit allows. If it reads like what it is exceeded by, it also says how much is too much.
fn allowed(more: u64, limit: u64) -> String {
    let (more, limit) = (Bytes(more), Bytes(limit));
    match more > limit && more.to_string() == limit.to_string() {
        true => format!(
            "allowed {limit}, which is {} less",
            more.saturating_sub(limit)
        ),
        false => format!("allowed {limit}"),
    }
}

fn sentence(leaks: &Leaks) -> String {
    format!("{}, {}", leaks.reason, places(leaks.places.iter()))
}

/// What leaks at places that do not leak in the baseline: replacing one leak by another is no
/// progress. `None` if that is less than any leak.
fn fresh(leaks: &Leaks, counted: Counted) -> Option<String> {
    let fresh = leaks.places_of(counted).filter(|place| !place.in_both);
    let rate: f64 = fresh.clone().map(|place| place.rate).sum();
    let first = fresh.clone().next()?;
    let base = match first.known {
        true => "does not leak",
        false => "allocates nothing",
    };
    (rate >= MIN_BYTES.0 as f64).then(|| {
        format!(
            "a leak in another place: {} {} {}, where the baseline {base}",
            Bytes(rate.round() as u64),
            counted.unit(),
            places(fresh)
        )
    })
}

/// The first few functions that leak.
fn places<'a>(leaking: impl Iterator<Item = &'a LeakPlace>) -> String {
    let mut names: Vec<String> = Vec::new();
    for place in leaking {
        let name = match place.place.name.is_empty() {
            true => "code without a stack".to_owned(),
            false => place.place_told(),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(3);
    names.truncate(3);
    match more {
        0 => format!("in {}", names.join(", ")),
        1 => format!("in {} and one more place", names.join(", ")),
        more => format!("in {} and {more} more places", names.join(", ")),
    }
}
