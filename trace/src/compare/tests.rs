//! Made-up programs, compared.

use super::gate::{Allowance, Limits, Outcome, Verdicts, Weight};
use super::profile::{OutOfMemory, Profile};
use super::sites::{Matched, SiteChange};
use super::*;
use crate::categories::{Category, Named};
use crate::span::Span;
use crate::stacks::{FrameIdx, StackIdx};
use crate::steps;
use crate::testing::{TraceBuilder, block_of};
use crate::trace::{Annotation, BlockIdx, QualityNote, Trace};
use crate::watch::Watch;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// A training program: layers, an optimizer, and what is wrong with it.
#[derive(Clone)]
pub(crate) struct Program {
    pub steps: u32,
    /// Bytes of a layer's activation, one value for each step, repeated in turn.
    pub lengths: Vec<u64>,
    /// Bytes kept with each step by `keep`.
    pub leak: u64,
    /// Name and file of the function that leaks.
    pub leaker: (&'static str, &'static str),
    /// Name and file of the training step, which is in every stack.
    pub trainer: (&'static str, &'static str),
    /// Added to all lines.
    pub shift: u32,
    /// Put before all files.
    pub root: &'static str,
    /// Bytes that live during the whole run.
    pub weights: u64,
    /// Blocks made and given back before all others, which moves every address.
    pub dust: u32,
}

impl Default for Program {
    fn default() -> Program {
        Program {
            steps: 12,
            lengths: vec![16 * MIB],
            leak: 0,
            leaker: ("keep", "cache.py"),
            trainer: ("train_step", "train.py"),
            shift: 0,
            root: "/srv/",
            weights: 200 * MIB,
            dust: 0,
        }
    }
}

/// A program that runs.
struct Running<'a> {
    program: &'a Program,
    builder: TraceBuilder,
    n_events: u32,
}

impl Running<'_> {
    fn alloc(&mut self, stack: &[(&str, &str)], bytes: u64) -> BlockIdx {
        let (root, shift) = (self.program.root, self.program.shift);
        let frames: Vec<FrameIdx> = stack
            .iter()
            .map(|(name, file)| {
                let file = format!("{root}{file}");
                let single = self.builder.stack(name, &file, 10 + shift);
                self.builder.stacks.frames(single)[0]
            })
            .collect();
        let known = (1..self.builder.stacks.len() as u32)
            .map(StackIdx)
            .find(|&s| self.builder.stacks.frames(s) == frames.as_slice());
        let alloc_stack = match known {
            Some(stack) => stack,
            None => self.builder.stacks.push_stack(&frames),
        };
        self.n_events += 1;
        self.builder.alloc(crate::trace::BlockKind {
            alloc_stack,
            ..block_of(Bytes(bytes))
        })
    }

    fn free(&mut self, block: BlockIdx) {
        self.builder.free_requested(block);
        self.builder.free_completed(block);
        self.n_events += 2;
    }

    fn step(&mut self, index: u32) {
        let program = self.program;
        let length = program.lengths[index as usize % program.lengths.len()];
        let trainer = program.trainer;
        let mut saved = Vec::new();
        for layer in ["attention", "mlp", "norm", "head"] {
            saved.push(self.alloc(&[("forward", layer), ("run", "model.py"), trainer], length));
        }
        if index == 0 {
            self.alloc(&[("init_state", "adam.py"), trainer], program.weights);
        }
        if program.leak > 0 {
            self.alloc(&[program.leaker, trainer], program.leak);
        }
        saved.into_iter().rev().for_each(|block| self.free(block));
    }
}

impl Program {
    pub fn trace(&self) -> Trace {
        let mut running = Running {
            program: self,
            builder: TraceBuilder::default(),
            n_events: 0,
        };
        for _ in 0..self.dust {
            let block = running.alloc(&[("dust", "x.py")], 4096);
            running.free(block);
        }
        running.alloc(&[("load", "model.py"), ("main", "main.py")], self.weights);
        let mut scopes = Vec::new();
        for index in 0..self.steps {
            let start = running.n_events;
            running.step(index);
            scopes.push((start, running.n_events));
        }
        let mut trace = running.builder.finish();
        for (index, (start, end)) in scopes.into_iter().enumerate() {
            let name = trace.stacks.strings.push(&format!("## step {index} ##"));
            trace.devices[0].annotations.push(Annotation {
                name,
                events: Span::new(EventIdx(start), EventIdx(end)),
                depth: 0,
            });
        }
        let stacks = trace.stacks.clone();
        steps::find(&mut trace.devices[0], &stacks, 1, Watch::nobody()).unwrap();
        trace
    }

    fn profile(&self) -> Profile {
        Profile::of(&self.trace())
    }
}

fn compare(base: &Profile, new: &Profile) -> Vec<Difference> {
    Watch::undisturbed(|watch| super::compare(base, new, watch))
}

fn difference(base: &Program, new: &Program) -> Difference {
    compare(&base.profile(), &new.profile()).remove(0)
}

fn gated(base: &Program, new: &Program) -> Verdicts {
    gate::gate(
        &compare(&base.profile(), &new.profile()),
        &Limits::default(),
    )
}

#[test]
fn a_program_moved_edited_and_rerun_is_no_change() {
    let base = Program::default();
    for new in [
        base.clone(),
        Program {
            shift: 7,
            ..base.clone()
        },
        Program {
            root: "/home/me/venv/lib/python3.12/",
            ..base.clone()
        },
        Program {
            dust: 40,
            ..base.clone()
        },
    ] {
        let difference = difference(&base, &new);
        assert_eq!(difference.change, Change::None, "{}", difference.headline);
        assert!(difference.alike && difference.sites.is_empty());
        assert_eq!(gated(&base, &new).outcome, Outcome::Pass);
    }
}

#[test]
fn a_new_leak_is_a_regression_that_names_its_place() {
    let (base, new) = (
        Program::default(),
        Program {
            leak: 8 * MIB,
            ..Program::default()
        },
    );
    let difference = difference(&base, &new);
    assert_eq!(
        (difference.change, difference.leaks),
        (Change::Worse, LeakChange::Appeared)
    );
    let [row] = &difference.sites[..] else {
        panic!("one site differs: {:?}", difference.sites)
    };
    assert_eq!((row.change, row.matched), (SiteChange::New, Matched::Alone));
    assert_eq!(row.at_end, 96 * MIB as i64);
    assert_eq!(row.place().unwrap().name, "keep");
    let growth = difference.new.growth.unwrap();
    assert!((growth.slope - 8.0 * MIB as f64).abs() < 1.0);
    let verdicts = gated(&base, &new);
    assert_eq!(verdicts.outcome, Outcome::Regression);
    assert!(
        verdicts.reason.contains("in keep (cache.py:10)"),
        "{}",
        verdicts.reason
    );
    assert_eq!(gated(&new, &base).outcome, Outcome::Pass);
}

#[test]
fn small_leaks_fail_too() {
    let new = Program {
        leak: 4096,
        ..Program::default()
    };
    assert_eq!(
        gated(&Program::default(), &new).outcome,
        Outcome::Regression
    );
}

#[test]
fn a_leak_that_both_have_is_warned_about_and_a_faster_one_fails() {
    let leaky = |leak: u64, steps: u32| Program {
        leak,
        steps,
        ..Program::default()
    };
    let base = leaky(8 * MIB, 12);
    // A run with more steps holds more, which is not a difference.
    for new in [base.clone(), leaky(8 * MIB, 20), leaky(4 * MIB, 12)] {
        let verdicts = gated(&base, &new);
        assert_eq!(verdicts.outcome, Outcome::Pass, "{}", verdicts.reason);
        let warned = verdicts
            .findings
            .iter()
            .any(|f| f.weight == Weight::Warn && f.code == "leak");
        assert!(warned, "{verdicts:?}");
    }
    let verdicts = gated(&base, &leaky(9 * MIB, 12));
    assert_eq!(verdicts.outcome, Outcome::Regression);
    assert!(
        verdicts.reason.contains("the leak is faster"),
        "{}",
        verdicts.reason
    );
}

#[test]
fn a_leak_traded_for_another_fails() {
    let base = Program {
        leak: 8 * MIB,
        ..Program::default()
    };
    // A different size, so that it is not taken for a renamed function.
    let new = Program {
        leaker: ("hoard", "other.py"),
        leak: 8 * MIB + 512,
        ..base.clone()
    };
    let verdicts = gated(&base, &new);
    assert_eq!(verdicts.outcome, Outcome::Regression, "{}", verdicts.reason);
    assert!(verdicts.reason.contains("in hoard"), "{}", verdicts.reason);
}

#[test]
fn renamed_functions_and_files_are_inferred() {
    let base = Program {
        leak: 8 * MIB,
        ..Program::default()
    };
    for new in [
        Program {
            leaker: ("retain", "cache.py"),
            ..base.clone()
        },
        Program {
            leaker: ("keep", "storage.py"),
            ..base.clone()
        },
        // In every stack.
        Program {
            trainer: ("fit", "loop.py"),
            ..base.clone()
        },
    ] {
        let difference = difference(&base, &new);
        assert_eq!(difference.change, Change::None, "{:?}", difference.sites);
        let place = &difference.new.leaks.places[0];
        assert!(place.in_both && place.known);
        assert_eq!(gated(&base, &new).outcome, Outcome::Pass);
    }
}

#[test]
fn another_batch_size_is_said_first() {
    let base = Program::default();
    let new = Program {
        lengths: vec![32 * MIB],
        ..base.clone()
    };
    let difference = difference(&base, &new);
    let work = &difference.conditions[0];
    assert_eq!(work.kind, conditions::ConditionKind::Work);
    assert!(
        work.meaning
            .contains("most tensors are 2.00 times as large"),
        "{}",
        work.meaning
    );
    assert_eq!(gated(&base, &new).outcome, Outcome::Regression);
}

#[test]
fn settings_that_differ_are_told_once() {
    fn check(base: &[(&str, &str)], new: &[(&str, &str)], expected: &[&str]) {
        let of = |settings: &[(&str, &str)]| {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            Profile {
                torch: None,
                settings: settings.iter().map(own).collect(),
                devices: Vec::new(),
                pinned: None,
            }
        };
        let found = conditions::of_runs(&of(base), &of(new));
        let told: Vec<String> = found
            .iter()
            .map(|c| format!("{}: {} → {}", c.name, c.base, c.new))
            .collect();
        assert_eq!(told, expected);
    }
    const RAW: &str = "PYTORCH_CUDA_ALLOC_CONF";
    const SMALL: &str = "roundup_power2_divisions.1";
    const LARGE: &str = "roundup_power2_divisions.2";
    check(
        &[(RAW, "a")],
        &[(RAW, "b")],
        &["PYTORCH_CUDA_ALLOC_CONF: a → b"],
    );
    check(
        &[(RAW, ""), (SMALL, "0"), (LARGE, "0"), ("x", "1")],
        &[(RAW, "r:8"), (SMALL, "8"), (LARGE, "8"), ("x", "1")],
        &["roundup_power2_divisions: 0 → 8"],
    );
    check(
        &[(RAW, ""), (SMALL, "0"), (LARGE, "0")],
        &[(RAW, "r:8"), (SMALL, "8"), (LARGE, "4")],
        &[
            "roundup_power2_divisions.1: 0 → 8",
            "roundup_power2_divisions.2: 0 → 4",
        ],
    );
    check(&[(RAW, "a")], &[], &[]);
    check(
        &[("x", "1")],
        &[("y", "1")],
        &["x: 1 → not set", "y: not set → 1"],
    );
}

#[test]
fn sequences_of_varying_length_may_come_in_any_order() {
    let base = Program {
        lengths: vec![8 * MIB, 40 * MIB, 24 * MIB],
        ..Program::default()
    };
    let longer = Program {
        lengths: vec![8 * MIB, 48 * MIB, 24 * MIB],
        ..base.clone()
    };
    for new in [
        Program {
            lengths: vec![24 * MIB, 8 * MIB, 8 * MIB],
            ..base.clone()
        },
        longer.clone(),
    ] {
        let verdicts = gated(&base, &new);
        assert_eq!(verdicts.outcome, Outcome::Pass, "{}", verdicts.reason);
    }
    // With equal lengths, more weights are not a matter of luck.
    let heavier = Program {
        weights: 260 * MIB,
        ..longer
    };
    assert_eq!(gated(&base, &heavier).outcome, Outcome::Regression);
}

#[test]
fn too_few_steps_and_wrapped_rings_are_not_judged_unless_nothing_differs() {
    let short = Program {
        steps: 3,
        ..Program::default()
    };
    let verdicts = gated(&Program::default(), &short);
    assert_eq!(verdicts.outcome, Outcome::CannotTell);
    assert!(verdicts.reason.contains("too few"), "{}", verdicts.reason);
    assert_eq!(gated(&short, &short).outcome, Outcome::Pass);
    let mut trace = Program {
        steps: 8,
        ..Program::default()
    }
    .trace();
    let whole = Program::default().profile();
    trace.quality.push(QualityNote {
        code: "ring_wrapped".to_owned(),
        detail: "device 0: the ring wrapped".to_owned(),
    });
    let wrapped = Profile::of(&trace);
    let outcome =
        |base: &Profile, new: &Profile| gate::gate(&compare(base, new), &Limits::default()).outcome;
    assert_eq!(outcome(&whole, &wrapped), Outcome::CannotTell);
    assert_eq!(outcome(&wrapped, &wrapped), Outcome::Pass);
    // A higher peak is a regression whatever came before. Against a wrapped baseline it cannot be
    // judged.
    let high = Program {
        weights: 300 * MIB,
        ..Program::default()
    }
    .profile();
    assert_eq!(outcome(&wrapped, &high), Outcome::CannotTell);
}

#[test]
fn limits_are_the_users() {
    let base = Program::default();
    let new = Program {
        weights: 210 * MIB,
        ..base.clone()
    };
    let differences = compare(&base.profile(), &new.profile());
    let outcome = |peak_growth| {
        let limits = Limits {
            peak_growth,
            ..Limits::default()
        };
        gate::gate(&differences, &limits).outcome
    };
    assert_eq!(outcome(Allowance::Share(0.02)), Outcome::Regression);
    assert_eq!(outcome(Allowance::Share(0.10)), Outcome::Pass);
    assert_eq!(
        outcome(Allowance::Bytes(Bytes::mib(5))),
        Outcome::Regression
    );
    assert_eq!(outcome(Allowance::Bytes(Bytes::mib(30))), Outcome::Pass);
}

/// Two runs may be alike as runs of one program are, and differ by more than a limit allows.
#[test]
fn a_limit_tighter_than_the_noise_of_two_runs_is_held() {
    let base = Program {
        weights: 400 * MIB,
        ..Program::default()
    };
    let new = Program {
        weights: 402 * MIB,
        ..base.clone()
    };
    let differences = compare(&base.profile(), &new.profile());
    assert!(differences[0].alike);
    let outcome = |peak_growth| {
        let limits = Limits {
            peak_growth,
            ..Limits::default()
        };
        gate::gate(&differences, &limits).outcome
    };
    assert_eq!(outcome(Allowance::Share(0.02)), Outcome::Pass);
    assert_eq!(outcome(Allowance::Bytes(Bytes::mib(4))), Outcome::Pass);
    let tight = Bytes::mib(3);
    assert_eq!(outcome(Allowance::Bytes(tight)), Outcome::Regression);
    assert_eq!(outcome(Allowance::Share(0.0)), Outcome::Regression);
    let limits = Limits {
        peak_growth: Allowance::Share(0.0),
        ..Limits::default()
    };
    let reason = gate::gate(&differences, &limits).reason;
    assert!(!reason.contains("requests no more"), "{reason}");
}

/// A run of some steps that then runs out of memory, in a step that is cut off.
fn failing(steps: u32) -> Profile {
    let program = Program {
        steps,
        ..Program::default()
    };
    let mut profile = program.profile();
    let device = &mut profile.devices[0];
    device.oom = Some(OutOfMemory {
        event: EventIdx(device.events),
        step: None,
        wanted: Bytes::mib(64),
    });
    profile
}

#[test]
fn a_run_that_runs_out_of_memory_is_worse_and_earlier_is_worse_still() {
    let check = |base: &Profile, new: &Profile, expected: (Change, Outcome), says: &str| {
        let differences = compare(base, new);
        let verdicts = gate::gate(&differences, &Limits::default());
        assert_eq!((differences[0].change, verdicts.outcome), expected);
        let headline = &differences[0].headline;
        assert!(headline.contains(says), "{headline}");
    };
    let fine = Program::default().profile();
    let (early, late) = (failing(7), failing(11));
    let worse = (Change::Worse, Outcome::Regression);
    let says = "ran out of memory after 7 steps, the baseline did not";
    check(&fine, &early, worse, says);
    let says = "ran out of memory after 7 steps, the baseline after 11 steps";
    check(&late, &early, worse, says);
    let better = (Change::Better, Outcome::Pass);
    check(&early, &fine, better, "the baseline ran out of memory");
    check(
        &early,
        &late,
        better,
        "after 11 steps, the baseline after 7",
    );
    let same = (Change::None, Outcome::Pass);
    check(&late, &late, same, "both ran out of memory");
    // In its first step, a run has not come to its peak.
    let mut first = failing(1);
    first.devices[0].steps.clear();
    first.devices[0].whole_steps = 0;
    first.devices[0].summary[Series::Allocated as usize].peak = Bytes::mib(10);
    check(
        &fine,
        &first,
        worse,
        "ran out of memory, the baseline did not",
    );
    let verdicts = gate::gate(&compare(&early, &first), &Limits::default());
    assert_eq!(verdicts.outcome, Outcome::CannotTell);
    assert!(verdicts.reason.contains("which got further is not known"));
}

/// A process may have next to nothing on a device that it does not use.
#[test]
fn a_device_that_holds_next_to_nothing_takes_nobodys_place() {
    let alone = Program::default().trace();
    let beside = |program: Program| {
        let mut trace = program.trace();
        let mut idle = crate::testing::trace("x alloc 1KiB").devices.remove(0);
        trace.devices[0].device = 1;
        idle.device = 0;
        trace.devices.insert(0, idle);
        trace
    };
    let heavier = Program {
        weights: 260 * MIB,
        ..Program::default()
    };
    let outcome = |base: &Trace, new: &Trace| {
        let [base, new] = [base, new].map(Profile::of);
        let differences = compare(&base, &new);
        gate::gate_runs(&base, &new, &differences, &Limits::default()).outcome
    };
    let same = beside(Program::default());
    assert_eq!(outcome(&alone, &same), Outcome::Pass);
    assert_eq!(outcome(&same, &alone), Outcome::Pass);
    assert_eq!(outcome(&alone, &beside(heavier)), Outcome::Regression);
    // Where both have as many, a device stays where it is, however little it holds.
    let load = |mib: u64, events: u32| pairs::Load {
        peak: Bytes::mib(mib),
        events,
    };
    let (idle, less, used) = (load(1, 2), load(90, 50), load(100, 900));
    let check = |base: &[pairs::Load], new: &[pairs::Load], expected: [&[usize]; 2]| {
        assert_eq!(pairs::in_order(base, new), expected.map(<[usize]>::to_vec));
    };
    check(&[used], &[idle, used], [&[0], &[1, 0]]);
    check(&[idle, used], &[less, used], [&[0, 1], &[0, 1]]);
    check(&[less, used], &[used], [&[0, 1], &[0]]);
    check(&[], &[idle], [&[], &[0]]);
}

/// Lengths vary from step to step. That is no excuse for steps of equal work that need more.
#[test]
fn steps_of_equal_work_that_need_more_are_worse() {
    let base = Program {
        lengths: vec![8 * MIB, 40 * MIB, 24 * MIB],
        ..Program::default()
    }
    .profile();
    let mut new = base.clone();
    let device = &mut new.devices[0];
    let more = |bytes: Bytes| Bytes(bytes.0 + bytes.0 / 20);
    device.steps.iter_mut().for_each(|s| s.peak = more(s.peak));
    let peak = &mut device.summary[Series::Allocated as usize].peak;
    *peak = more(*peak);
    let [worse, better] = [(&base, &new), (&new, &base)].map(|(a, b)| compare(a, b).remove(0));
    // The highest step alone says nothing.
    assert!(!worse.peaks_differ());
    assert_eq!(
        (worse.change, better.change),
        (Change::Worse, Change::Better)
    );
    let outcome = |difference| gate::gate(&[difference], &Limits::default()).outcome;
    assert_eq!(outcome(worse), Outcome::Regression);
    assert_eq!(outcome(better), Outcome::Pass);
}

/// A ring that wrapped may have held a higher peak.
#[test]
fn a_lower_peak_of_a_ring_that_wrapped_is_not_better() {
    let whole = Program::default().profile();
    let light = Program {
        weights: 100 * MIB,
        ..Program::default()
    };
    let mut wrapped = light.profile();
    wrapped.devices[0].wrapped = true;
    let of = |base: &Profile, new: &Profile| compare(base, new).remove(0);
    let lower = of(&whole, &wrapped);
    assert_eq!(lower.change, Change::NotComparable);
    let says = "at least 264 MiB), but the ring of the new run wrapped";
    assert!(lower.headline.contains(says), "{}", lower.headline);
    let higher = of(&wrapped, &whole);
    assert_eq!(higher.change, Change::NotComparable);
    assert!(higher.headline.contains("the ring of the baseline wrapped"));
    // The other way round, it needs at least so much more.
    let mut high = whole.clone();
    high.devices[0].wrapped = true;
    assert_eq!(of(&light.profile(), &high).change, Change::Worse);
}

/// Rows are made of what the reader sees.
#[test]
fn a_site_of_one_run_alone_differs_and_so_do_parts_of_the_peaks() {
    let base = Program::default().profile();
    let mut new = base.clone();
    let sites = &mut new.devices[0].sites;
    // One that is used now and then, as in a run whose steps differ.
    sites.push(profile::SiteProfile {
        key: SiteKey::Shape(7),
        functions: Vec::new(),
        wobble: Bytes::mib(500),
        ..sites[0].clone()
    });
    let rows = compare(&base, &new).remove(0).sites;
    assert_eq!((rows.len(), rows[0].change), (1, SiteChange::New));
    // Without a stack it may be another length.
    let added = new.devices[0].sites.last_mut().unwrap();
    added.key = SiteKey::Size(added.sizes[0].0);
    assert!(compare(&base, &new).remove(0).sites.is_empty());
    // Each site holds as much as before, but no longer at the same time.
    let mut new = base.clone();
    let device = &mut new.devices[0];
    let by = Bytes::mib(60);
    device.sites[1].at_peak = device.sites[1].at_peak.saturating_sub(by);
    let moved = base.devices[0].sites[1].at_peak.0 - device.sites[1].at_peak.0;
    assert!(moved > 0);
    let peak = &mut device.summary[Series::Allocated as usize].peak;
    *peak = peak.saturating_sub(Bytes(moved));
    let difference = compare(&base, &new).remove(0);
    let rows = &difference.sites;
    assert_eq!((rows.len(), rows[0].change), (1, SiteChange::Shrunk));
    assert_eq!(
        (rows[0].at_peak, rows[0].by()),
        (-(moved as i64), -(moved as i64))
    );
    // Where the peaks are the same, it does not matter when they are.
    new.devices[0].summary = base.devices[0].summary;
    assert!(compare(&base, &new).remove(0).sites.is_empty());
}

#[test]
fn what_differs_adds_up() {
    let base = Program {
        leak: 8 * MIB,
        ..Program::default()
    };
    let new = Program {
        leak: 24 * MIB,
        weights: 190 * MIB,
        ..Program::default()
    };
    let difference = difference(&base, &new);
    let allocated = difference.series(Series::Allocated);
    let sum = |of: fn(&SiteDelta) -> i64| difference.sites.iter().map(of).sum::<i64>();
    assert_eq!(sum(|row| row.at_peak), allocated.peak);
    assert_eq!(sum(|row| row.at_end), allocated.end);
}

/// What is leaked where the other run has nothing to compare it with, or on the host.
#[test]
fn leaks_outside_of_the_pairs_are_judged() {
    let clean = Program::default().profile();
    let leaking = Program {
        leak: 4 * MIB,
        ..Program::default()
    };
    let leaking = leaking.profile();
    let second = |first: &Profile, second: &Profile| Profile {
        devices: [&first.devices[..], &second.devices].concat(),
        ..first.clone()
    };
    let host = |pinned: &Profile| Profile {
        pinned: Some(pinned.devices[0].clone()),
        ..clean.clone()
    };
    let check = |base: &Profile, new: &Profile, expected, says: &str| {
        let verdicts = gate::gate_runs(base, new, &compare(base, new), &Limits::default());
        assert_eq!(verdicts.outcome, expected, "{}", verdicts.reason);
        let mut told = verdicts.findings.iter().map(|finding| &finding.detail);
        assert!(
            says.is_empty() || told.any(|told| told.contains(says)),
            "{:?}",
            verdicts.findings
        );
    };
    let leaks = "which the baseline does not have, leaks 4.00 MiB a step in keep";
    check(
        &clean,
        &second(&clean, &leaking),
        Outcome::Regression,
        leaks,
    );
    check(
        &clean,
        &second(&clean, &clean),
        Outcome::Pass,
        "devices: 1 → 2",
    );
    let leaks = "pinned host memory leaks, and does not in the baseline: 4.00 MiB a step in keep";
    check(&host(&clean), &host(&leaking), Outcome::Regression, leaks);
    check(
        &host(&leaking),
        &host(&leaking),
        Outcome::Pass,
        "leaks in both runs",
    );
    check(&clean, &host(&leaking), Outcome::CannotTell, "is not known");
    check(&host(&leaking), &host(&clean), Outcome::Pass, "");
}

/// Without stacks, a leak of blocks of any size is no row of the table of sites.
#[test]
fn a_leak_without_stacks_is_not_new_beside_itself() {
    let mut run = Program {
        leak: 4 * MIB,
        ..Program::default()
    }
    .profile();
    run.devices[0].leaks.groups[0].key = SiteKey::ANY_SIZE;
    for site in &mut run.devices[0].sites {
        site.leaks = false;
    }
    // Something else differs, so that the two are not merely alike.
    let mut other = run.clone();
    other.devices[0].sites[0].at_end += Bytes(4096);
    let verdicts = gate::gate(&compare(&run, &other), &Limits::default());
    assert_eq!(verdicts.outcome, Outcome::Pass, "{}", verdicts.reason);
}

/// The pair with the worst news is shown, though another one changed more.
#[test]
fn a_new_leak_is_shown_before_a_larger_change() {
    let clean = Program::default().profile();
    let of = |program: Program| program.profile().devices.remove(0);
    let leaks = of(Program {
        leak: MIB,
        ..Program::default()
    });
    let smaller = of(Program {
        weights: 20 * MIB,
        ..Program::default()
    });
    let two = |devices: [profile::DeviceProfile; 2]| Profile {
        devices: devices.to_vec(),
        ..clean.clone()
    };
    let base = two([clean.devices[0].clone(), clean.devices[0].clone()]);
    let new = two([smaller, leaks]);
    assert_eq!(foremost(&compare(&base, &new)), Some(1));
}

/// A snapshot without history has no peak.
#[test]
fn a_state_is_not_held_against_a_history() {
    let run = Program::default().profile();
    let mut state = run.clone();
    state.devices[0].events = 0;
    for (base, new, says) in [
        (&state, &run, "the baseline holds no history"),
        (&run, &state, "the new run holds no history"),
    ] {
        let differences = compare(base, new);
        assert_eq!(differences[0].change, Change::NotComparable);
        let verdicts = gate::gate(&differences, &Limits::default());
        assert_eq!(verdicts.outcome, Outcome::CannotTell);
        assert!(verdicts.reason.starts_with(says), "{}", verdicts.reason);
    }
}

/// What a state is made of is compared as what a peak is.
#[test]
fn a_peak_before_the_first_event_has_categories() {
    let state = Profile::of(&crate::testing::trace("a pre 10MiB"));
    let falls = Profile::of(&crate::testing::trace("a pre 10MiB\na free"));
    for profile in [state, falls] {
        let held: Bytes = profile.devices[0]
            .at_peak
            .iter()
            .map(|(_, bytes)| *bytes)
            .sum();
        assert_eq!(held, Bytes::mib(10));
    }
}

#[test]
fn no_devices_cannot_be_judged() {
    let verdicts = gate::gate(&[], &Limits::default());
    assert_eq!(verdicts.outcome, Outcome::CannotTell);
    assert_eq!(foremost(&[]), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any trace compared with itself shows no change, and passes.
    #[test]
    fn a_trace_against_itself_is_no_change(trace in crate::testing::arbitrary::traces(400)) {
        let profile = Profile::of(&trace);
        let differences = compare(&profile, &profile);
        for difference in &differences {
            prop_assert_eq!(difference.change, Change::None);
            prop_assert!(difference.alike);
            prop_assert!(difference.conditions.is_empty());
        }
        let outcome = gate::gate(&differences, &Limits::default()).outcome;
        prop_assert_eq!(outcome, Outcome::Pass);
    }

    /// The sum over all sites at the peak and at the end equals the series.
    #[test]
    fn sites_add_up_to_the_series(trace in crate::testing::arbitrary::traces(400)) {
        for device in Profile::of(&trace).devices {
            let allocated = device.summary[Series::Allocated as usize];
            let sum = |of: fn(&profile::SiteProfile) -> Bytes| device.sites.iter().map(of).sum();
            prop_assert_eq!(allocated.peak, sum(|site| site.at_peak));
            prop_assert_eq!(allocated.end, sum(|site| site.at_end));
        }
    }
}

#[test]
fn what_either_peak_holds_has_a_change() {
    let profile = |shares: &[(Named, u64)]| Profile {
        devices: vec![profile::DeviceProfile {
            at_peak: shares.iter().map(|&(c, bytes)| (c, Bytes(bytes))).collect(),
            ..profile::DeviceProfile::default()
        }],
        ..Profile::default()
    };
    let base = profile(&[
        (Named::Ours(Category::Activation), 700),
        (Named::Ours(Category::Parameter), 100),
    ]);
    let new = profile(&[
        (Named::Ours(Category::Parameter), 100),
        (Named::Ours(Category::Input), 5),
    ]);
    assert_eq!(
        compare(&base, &new)[0].category_changes(),
        [
            (Named::Ours(Category::Activation), -700),
            (Named::Ours(Category::Input), 5),
            (Named::Ours(Category::Parameter), 0),
        ]
    );
}

/// A trace with so many stacks of one block each. Each has a frame of its own and shares the
/// others, whose names have 4 KiB.
fn of_shared_names(stacks: usize, frames: usize, own: impl Fn(usize) -> [String; 2]) -> Trace {
    let mut builder = TraceBuilder::default();
    let long = "n".repeat(4096);
    let shared: Vec<FrameIdx> = (0..frames)
        .map(|at| {
            let single = builder.stack(&format!("{at}{long}"), &format!("/{long}/{at}.py"), 1);
            builder.stacks.frames(single)[0]
        })
        .collect();
    for at in 0..stacks {
        let [name, file] = own(at);
        let single = builder.stack(&name, &file, 1);
        let mut members = vec![builder.stacks.frames(single)[0]];
        members.extend_from_slice(&shared);
        let alloc_stack = builder.stacks.push_stack(&members);
        builder.alloc(crate::trace::BlockKind {
            alloc_stack,
            ..block_of(Bytes(MIB))
        });
    }
    builder.finish()
}

#[test]
fn names_that_many_stacks_share_are_kept_once_and_cut() {
    let own = |tag: &'static str| move |at| [format!("{tag}{at}"), "a.py".to_owned()];
    let (base, new) = (own("x"), own("y"));
    let [base, new] = [
        Profile::of(&of_shared_names(3000, 47, base)),
        Profile::of(&of_shared_names(3000, 47, new)),
    ];
    // Copies of all names would take 3000 × 48 × 2 KiB.
    assert!(
        base.heap_bytes() < 8 * MIB as usize,
        "{}",
        base.heap_bytes()
    );
    let difference = compare(&base, &new).remove(0);
    assert_eq!(difference.sites.len(), sites::MAX_ROWS);
    assert!(difference.sites_left_out > 4000);
    let answer = serde_json::to_vec(&difference).unwrap();
    assert!(answer.len() < 32 * MIB as usize, "{}", answer.len());
    let first = difference.sites[0]
        .new
        .as_ref()
        .or(difference.sites[0].base.as_ref());
    let frame = &first.unwrap().frames[1];
    assert!(frame.name.len() <= names::LONGEST_NAME && frame.name.ends_with('…'));
}

#[test]
fn the_watch_learns_what_a_profile_takes_and_stops_it() {
    let trace = of_shared_names(2000, 47, |at| [format!("x{at}"), "a.py".to_owned()]);
    let most = std::cell::Cell::new(0);
    let go_on = |held: usize| {
        most.set(most.get().max(held));
        true
    };
    let profile = Profile::judged_while(&trace, Watch::nobody(), Watch::new(&go_on)).unwrap();
    let weight = profile.heap_bytes();
    assert!(most.get() * 11 / 10 >= weight, "{} {weight}", most.get());
    let stopped = Profile::judged_while(&trace, Watch::nobody(), Watch::new(&|n| n < 1 << 20));
    assert_eq!(stopped, Err(Stopped));
}

#[test]
fn pairs_of_all_buckets_together_are_bounded() {
    // Forty functions, each in a hundred and fifty renamed files: 900,000 pairs in each of three
    // rounds.
    let program = |tag: &'static str| {
        let own = move |at: usize| [format!("f{}", at % 40), format!("{tag}{at}.py")];
        Profile::of(&of_shared_names(6000, 0, own))
    };
    let (base, new) = (program("x"), program("y"));
    let looks = std::cell::Cell::new(0);
    let go_on = |_| {
        looks.set(looks.get() + 1);
        true
    };
    let found = super::compare(&base, &new, Watch::new(&go_on)).unwrap();
    assert!(looks.get() < 1_000_000 / 256 + 100, "{}", looks.get());
    // Renamed files are still found.
    let renamed = found[0].sites_same as usize;
    assert_eq!(renamed, 6000, "{:?}", found[0].sites.first());
    let stopped = super::compare(&base, &new, Watch::new(&|_| false));
    assert_eq!(stopped, Err(Stopped));
}
