//! Random programs in every version: what is always true, whatever is saved, dropped, recomputed or
//! hidden (docs/offloader-rules.md, "Invariants").

use std::ops::RangeInclusive;
use std::rc::Rc;

use engine::autograd::{Region, Tensor};
use engine::device::sim::{SimDevice, SimSpec};
use engine::offload::{OffloadConfig, Release, TensorId};
use engine::session::{RunError, Session};
use engine::tensor::DType;
use proptest::prelude::*;
use trace::units::Bytes;

/// One line of a program with the current value `x`; places count back from the latest value.
#[derive(Debug, Clone, Copy)]
enum Line {
    /// Saves its input.
    Silu,
    /// Saves nothing.
    Scale,
    /// Saves both factors, of which one is an older value. This makes duplicates, and storages with
    /// many names.
    TimesEarlier(usize),
    /// Another name for the same storage.
    View,
    /// A region with this many operations, which backward recomputes.
    Checkpoint(usize),
    /// An operation that is hidden from the offloader.
    Hidden,
    /// A branch that saves its input and that backward never reaches.
    Dead,
}

const SIDE: u64 = 64;

fn alive_line() -> impl Strategy<Value = Line> {
    prop_oneof![
        3 => Just(Line::Silu),
        2 => Just(Line::Scale),
        2 => (0..6_usize).prop_map(Line::TimesEarlier),
        1 => Just(Line::View),
        2 => (1..4_usize).prop_map(Line::Checkpoint),
        1 => Just(Line::Hidden),
    ]
}

fn any_line() -> impl Strategy<Value = Line> {
    prop_oneof![6 => alive_line(), 1 => Just(Line::Dead)]
}

fn session(version: &'static Release, streams: bool, stash: u64) -> Session {
    let mut session = Session::new(Box::new(SimDevice::new(SimSpec::default())));
    let config = OffloadConfig {
        use_streams: streams,
        max_fwd_stash_size: stash,
        ..OffloadConfig::new(version.changes())
    };
    session.install_offloader(config).unwrap();
    session.accelerator.watch_races();
    session
}

fn line(s: &mut Session, line: Line, values: &[Tensor]) -> Result<Option<Tensor>, RunError> {
    let x = values.last().unwrap();
    Ok(Some(match line {
        Line::Silu => s.silu(x)?,
        Line::Scale => s.scale(x)?,
        Line::TimesEarlier(back) => {
            let other = &values[values.len() - 1 - back.min(values.len() - 1)];
            s.mul(x, other)?
        }
        Line::View => {
            let flat = s.view(x, &[SIDE * SIDE])?;
            s.view(&flat, &[SIDE, SIDE])?
        }
        Line::Checkpoint(operations) => {
            let region: Region = Rc::new(move |s: &mut Session, inputs: &[Tensor]| {
                let mut x = inputs[0].clone();
                for _ in 0..operations {
                    x = s.silu(&x)?;
                }
                Ok(x)
            });
            s.checkpoint(region, std::slice::from_ref(x))?
        }
        Line::Hidden => s.without_offload(|s| s.silu(x))?,
        Line::Dead => {
            let branch = s.scale(x)?;
            drop(s.silu(&branch)?);
            return Ok(None);
        }
    }))
}

/// The number of keys of #6241 whose tensor is gone (invariant 7).
fn dead_keys(s: &Session) -> usize {
    let offloader = s.offloader().unwrap();
    let kept = offloader.forward_stash().chain(offloader.kept_tensors());
    let alive: Vec<TensorId> = kept.map(|(id, _)| id).collect();
    let keys = offloader.dedupe_keys();
    keys.filter(|(_, id)| !alive.contains(id)).count()
}

/// What is left after one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left {
    tracker: u64,
    forward: u64,
    backward: u64,
    allocated: Bytes,
}

fn step(s: &mut Session, program: &[Line], dead_seen: &mut usize) -> Result<Left, RunError> {
    s.enter();
    let input = s.empty(&[SIDE, SIDE], DType::Float32)?;
    let mut values = vec![s.leaf_over(&input)];
    drop(input);
    for &each in program {
        if let Some(value) = line(s, each, &values)? {
            values.push(value);
        }
        *dead_seen = (*dead_seen).max(dead_keys(s));
    }
    let loss = s.sum(values.last().unwrap())?;
    drop(values);
    s.backward(&loss)?;
    drop(loss);
    s.exit()?;
    let sizes = s.offloader().unwrap().sizes();
    let heap = s.heap().borrow();
    let used: Bytes = heap.caching.blocks().filter(|b| b.2).map(|b| b.1).sum();
    let stats = heap.caching.stats();
    assert_eq!(used, stats.active, "active is the sum of the blocks in use");
    Ok(Left {
        tracker: sizes.tracker,
        forward: sizes.fwd_stash,
        backward: sizes.bwd_stash,
        allocated: stats.allocated,
    })
}

const STEPS: usize = 5;

fn steps(s: &mut Session, program: &[Line]) -> (Vec<Left>, usize) {
    let mut dead = 0;
    let left = (0..STEPS).map(|_| step(s, program, &mut dead).unwrap());
    (left.collect(), dead)
}

fn versions(range: RangeInclusive<usize>) -> impl Strategy<Value = &'static Release> {
    range.prop_map(|index| Release::ALL[index])
}

/// Programs run in milliseconds, so there are enough of them to meet most pairs of lines.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 400,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// Invariants 2 and 10: if a program uses everything that it saves, nothing is left, in any
    /// version.
    #[test]
    fn what_backward_reaches_leaves_nothing(
        program in prop::collection::vec(alive_line(), 1..24),
        version in versions(0..=6),
        streams: bool,
        stash in 1..9_u64,
    ) {
        let mut s = session(version, streams, stash);
        let (left, _) = steps(&mut s, &program);
        for now in &left {
            prop_assert_eq!((now.tracker, now.forward, now.backward), (0, 0, 0));
        }
        let flat = left[1..].iter().all(|now| now.allocated == left[1].allocated);
        prop_assert!(flat, "{left:?}");
    }

    /// Invariant 5: what backward never reaches collects in the tracker until #5730 resets it.
    #[test]
    fn leftovers_add_up_until_enter_resets(
        program in prop::collection::vec(any_line(), 1..24),
        version in versions(1..=6),
        streams: bool,
        stash in 1..9_u64,
    ) {
        let mut s = session(version, streams, stash);
        let (left, _) = steps(&mut s, &program);
        let first = left[0].tracker;
        for (index, now) in left.iter().enumerate() {
            let times = if version >= Release::TRL_1_5 { 1 } else { index as u64 + 1 };
            prop_assert_eq!(now.tracker, first * times, "{:?}", left);
            if !streams {
                prop_assert_eq!((now.forward, now.backward), (0, 0));
            }
            // #5700: whatever the flags are, no stash holds anything after the context.
            if version >= Release::TRL_1_4 {
                prop_assert_eq!((now.forward, now.backward), (0, 0));
            }
        }
        if version >= Release::TRL_1_5 {
            let flat = left[1..].iter().all(|now| now.allocated == left[1].allocated);
            prop_assert!(flat, "{left:?}");
        }
    }

    /// Invariant 7: with #6241 every key belongs to a live tensor, at every moment.
    #[test]
    fn a_key_of_the_last_version_never_outlives_its_tensor(
        program in prop::collection::vec(any_line(), 1..24),
        streams: bool,
        stash in 1..9_u64,
    ) {
        let mut s = session(Release::TRL_1_8, streams, stash);
        prop_assert_eq!(steps(&mut s, &program).1, 0);
    }

    /// Invariant 12: dense programs on the default stream have no races in any version. Only the
    /// copies that #5694 makes of views race.
    #[test]
    fn dense_programs_do_not_race(
        program in prop::collection::vec(any_line(), 1..24),
        version in versions(1..=6),
        stash in 1..9_u64,
    ) {
        let mut s = session(version, true, stash);
        steps(&mut s, &program);
        let races: Vec<_> = s.accelerator.detector().unwrap().races().cloned().collect();
        prop_assert!(races.is_empty(), "{races:?}");
    }
}
