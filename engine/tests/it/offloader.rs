//! The offloader's rules: ports of the upstream tests (docs/offloader-rules.md, "Upstream tests"),
//! the invariants that concern only the offloader (docs/offloader-rules.md, "Invariants"), and
//! programs that only some versions can run.

use std::rc::Rc;

use engine::autograd::{Region, Tensor};
use engine::device::StreamId;
use engine::device::sim::{SimDevice, SimSpec};
use engine::offload::{
    Change, Changes, Decision, OffloadConfig, OffloadError, Release, Runtime, StorageKey, TensorId,
};
use engine::session::{RunError, Session};
use engine::tensor::DType;
use trace::units::{Bytes, DeviceAddr};

const F32: DType = DType::Float32;

fn session(changes: Changes, adjust: impl FnOnce(&mut OffloadConfig)) -> Session {
    let mut config = OffloadConfig {
        min_offload_size: Bytes(1),
        ..OffloadConfig::new(changes)
    };
    adjust(&mut config);
    let mut session = Session::new(Box::new(SimDevice::new(SimSpec::default())));
    session.install_offloader(config).unwrap();
    session
}

/// #5694 alone, which was never a release.
fn with_contiguous_packs() -> Changes {
    Release::TRL_0_29.changes().with(Change::PackContiguous)
}

fn sizes(s: &Session) -> engine::offload::ContainerSizes {
    s.offloader().unwrap().sizes()
}

/// `used` is part of the loss; `unused` saves its input and is dropped (docs/measurements.md,
/// "A branch that is not used", here with a small program).
fn stale_step(s: &mut Session, used: usize, unused: usize) -> Result<(), RunError> {
    s.enter();
    let input = s.empty(&[64, 64], F32)?;
    let leaf = s.leaf_over(&input);
    let mut x = leaf.clone();
    for _ in 0..used {
        x = s.silu(&x)?;
    }
    for _ in 0..unused {
        drop(s.silu(&leaf)?);
        let other = s.scale(&leaf)?;
        drop(s.silu(&other)?);
    }
    let loss = s.sum(&x)?;
    drop(x);
    let outcome = s.backward(&loss);
    let left = s.exit();
    outcome?;
    left
}

#[test]
fn a_forward_stash_of_zero_is_refused_and_of_one_works() {
    let config = |max_fwd_stash_size| OffloadConfig {
        max_fwd_stash_size,
        ..OffloadConfig::new(Release::TRL_1_8.changes())
    };
    let mut s = Session::new(Box::new(SimDevice::new(SimSpec::default())));
    let refused = s.install_offloader(config(0));
    assert!(matches!(
        refused,
        Err(RunError::Offload(OffloadError::StashTooSmall))
    ));
    s.install_offloader(config(1)).unwrap();
    stale_step(&mut s, 6, 0).unwrap();
    // Without streams there is no stash, so no stash can have a wrong size.
    s.install_offloader(OffloadConfig {
        use_streams: false,
        ..config(0)
    })
    .unwrap();
}

/// `test_min_offload_size`, and the limit in invariant 10.
#[test]
fn a_tensor_of_the_minimum_size_is_offloaded_and_one_byte_less_is_not() {
    for (bytes, expected) in [(1023, Decision::Kept), (1024, Decision::Offloaded)] {
        let mut s = session(Release::TRL_0_29.changes(), |config| {
            config.min_offload_size = Bytes(1024)
        });
        let tensor = s.empty(&[bytes], DType::Uint8).unwrap();
        let Session { accelerator, .. } = &mut s;
        let mut offloader = engine::offload::OffloadActivations::new(
            OffloadConfig::new(Release::TRL_0_29.changes()),
            accelerator,
        )
        .unwrap();
        let id = offloader.pack(&tensor, accelerator).unwrap();
        assert_eq!(offloader.decision(id), Some(expected), "{bytes} bytes");
    }
}

/// `test_tensor_deduplication`: views of one storage are offloaded once.
#[test]
fn views_of_one_storage_are_offloaded_once() {
    let mut s = session(Release::TRL_0_29.changes(), |_| {});
    s.enter();
    let input = s.empty(&[10, 100], F32).unwrap();
    let leaf = s.leaf_over(&input);
    let out = s.scale(&leaf).unwrap();
    let first = s.view(&out, &[1000]).unwrap();
    let saved_twice = [s.silu(&first).unwrap(), s.silu(&out).unwrap()];
    let now = sizes(&s);
    assert_eq!((now.offloaded, now.tracker, now.dedup_keys), (1, 2, 1));
    assert!(now.dedup_keys < now.tensor_id);
    let flat = s.view(&saved_twice[1], &[1000]).unwrap();
    let sum = s.add(&saved_twice[0], &flat).unwrap();
    let loss = s.sum(&sum).unwrap();
    s.backward(&loss).unwrap();
    s.exit().unwrap();
    assert_eq!(sizes(&s).tracker, 0);
}

/// `test_parameter_filtering`: parameters, and all views of them, stay where they are.
#[test]
fn parameters_and_their_views_stay_on_the_device() {
    let mut s = session(Release::TRL_0_29.changes(), |_| {});
    let weight = s.frozen(&[64, 64], F32).unwrap();
    let view = s.view(&weight, &[4096]).unwrap();
    let base = weight.storage().start();
    let offloader = s.offloader_mut().unwrap();
    offloader.update_model_params([base, DeviceAddr(0)]);
    assert_eq!(
        offloader.param_storages().collect::<Vec<_>>(),
        [base],
        "address 0 does not count"
    );
    s.enter();
    let input = s.empty(&[4096], F32).unwrap();
    let leaf = s.leaf_over(&input);
    let _out = s.mul(&leaf, &view).unwrap();
    let now = sizes(&s);
    assert_eq!((now.tracker, now.offloaded), (1, 0));
    // Before #4247 only the class of the object counted, so the view was copied to the host.
    let mut s = session(Release::TRL_0_24.changes(), |_| {});
    let weight = s.frozen(&[4096], F32).unwrap();
    let view = s.view(&weight, &[4096]).unwrap();
    drop((weight, view));
}

/// `test_stale_tracker_state_is_cleared_between_forwards`, and invariant 5.
#[test]
fn stale_entries_add_up_until_enter_resets() {
    for version in [
        Release::TRL_0_24,
        Release::TRL_0_29,
        Release::TRL_1_4,
        Release::TRL_1_5,
        Release::TRL_1_8,
    ] {
        let mut s = session(version.changes(), |_| {});
        let mut counts = Vec::new();
        for _ in 0..3 {
            stale_step(&mut s, 4, 1).unwrap();
            counts.push(sizes(&s).tracker);
        }
        let expected = if version >= Release::TRL_1_5 {
            [2, 2, 2]
        } else {
            [2, 4, 6]
        };
        assert_eq!(counts, expected, "{version:?}");
    }
}

/// docs/offloader-rules.md, "What each version gets wrong": before #4236 the second forward raises
/// instead.
#[test]
fn the_first_release_raises_over_a_full_tracker() {
    let mut s = session(Release::TRL_0_18.changes(), |_| {});
    stale_step(&mut s, 4, 1).unwrap();
    let raised = stale_step(&mut s, 4, 1).unwrap_err();
    let RunError::Offload(error) = raised else {
        panic!("{raised}")
    };
    assert_eq!(error.python_class(), "ValueError");
    assert!(
        error
            .to_string()
            .starts_with("Backward pass should have cleared tracker")
    );
}

/// Invariant 2: without leftovers everything is empty after backward, and nothing grows.
#[test]
fn a_healthy_step_leaves_nothing() {
    for version in Release::ALL {
        for use_streams in [true, false] {
            let mut s = session(version.changes(), |config| config.use_streams = use_streams);
            let mut allocated = Vec::new();
            for _ in 0..4 {
                stale_step(&mut s, 12, 0).unwrap();
                let now = sizes(&s);
                assert_eq!(
                    (now.tracker, now.fwd_stash, now.bwd_stash),
                    (0, 0, 0),
                    "{version:?}"
                );
                allocated.push(s.heap().borrow().caching.stats().allocated);
            }
            assert!(
                allocated[1..].iter().all(|bytes| *bytes == allocated[1]),
                "{version:?}"
            );
        }
    }
}

/// Invariant 3: from the second step on, every restored tensor stays in the backward stash for
/// ever.
#[test]
fn one_leftover_keeps_the_backward_stash_from_ever_draining() {
    let mut s = session(Release::TRL_0_24.changes(), |_| {});
    let mut stash = Vec::new();
    for _ in 0..4 {
        stale_step(&mut s, 12, 1).unwrap();
        stash.push(sizes(&s).bwd_stash);
    }
    assert_eq!(stash[0], 0, "the flags are right in the first step");
    let grown: Vec<u64> = stash.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        grown[0] > 0 && grown.iter().all(|more| *more == grown[0]),
        "{stash:?}"
    );
}

/// docs/offloader-rules.md, "What each version gets wrong", trl-0.29 and #5694: a restored view of
/// a larger storage does not fit its copy.
#[test]
fn an_offset_view_raises_before_5694_and_comes_back_after() {
    let step = |changes: Changes| {
        let mut s = session(changes, |_| {});
        s.enter();
        let input = s.empty(&[8, 64], F32)?;
        let leaf = s.leaf_over(&input);
        let whole = s.scale(&leaf)?;
        let parts = s.split_last(&whole, &[32, 32])?;
        let first = s.silu(&parts[1])?;
        let mut x = first;
        for _ in 0..8 {
            x = s.silu(&x)?;
        }
        let loss = s.sum(&x)?;
        let outcome = s.backward(&loss);
        s.exit()?;
        outcome
    };
    let Err(RunError::Offload(error)) = step(Release::TRL_0_29.changes()) else {
        panic!("trl-0.29 must raise")
    };
    assert_eq!(error.python_class(), "RuntimeError");
    assert!(error.to_string().contains("out of bounds"), "{error}");
    step(with_contiguous_packs()).unwrap();
    // Before strides were saved, nothing was checked, so nothing raised.
    step(Release::TRL_0_24.changes()).unwrap();
}

/// A broadcast view (stride 0) is copied as its whole storage, and comes back as the same view.
#[test]
fn a_broadcast_view_round_trips() {
    let mut s = session(Release::TRL_0_29.changes(), |_| {});
    s.enter();
    let input = s.empty(&[1, 8, 64], DType::Bfloat16).unwrap();
    let leaf = s.leaf_over(&input);
    let mask = s.empty(&[1, 8, 1], DType::Bool).unwrap();
    let source = s.empty(&[8, 64], DType::Bfloat16).unwrap();
    let out = s.masked_scatter(&leaf, &mask, &source).unwrap();
    assert_eq!(sizes(&s).offloaded, 1);
    assert_eq!(
        s.accelerator.copied().to_host,
        Bytes(8),
        "the storage, not the 512 elements"
    );
    drop(mask);
    let loss = s.sum(&out).unwrap();
    s.backward(&loss).unwrap();
    s.exit().unwrap();
    assert_eq!(sizes(&s).tracker, 0);
}

/// docs/offloader-rules.md, "Entering and leaving": two forward passes may come before their
/// backward passes, until #5730 clears the entries of the first one.
#[test]
fn two_forwards_before_their_backwards() {
    let run = |changes: Changes| -> Result<(), RunError> {
        let mut s = session(changes, |_| {});
        let mut losses = Vec::new();
        for _ in 0..2 {
            s.enter();
            let input = s.empty(&[64, 64], F32)?;
            let leaf = s.leaf_over(&input);
            let out = s.silu(&leaf)?;
            losses.push(s.sum(&out)?);
            s.exit()?;
        }
        losses.iter().try_for_each(|loss| s.backward(loss))
    };
    run(with_contiguous_packs()).unwrap();
    for version in [Release::TRL_0_24, Release::TRL_0_29, Release::TRL_1_4] {
        run(version.changes()).unwrap_or_else(|error| panic!("{version:?}: {error}"));
    }
    for version in [Release::TRL_1_5, Release::TRL_1_8, Release::TRL_1_14] {
        let error = run(version.changes()).unwrap_err();
        assert!(
            matches!(error, RunError::Offload(OffloadError::Untracked(_))),
            "{version:?}"
        );
    }
}

/// docs/offloader-rules.md, "Entering and leaving": backward runs after the context. So #5700 must
/// not clear the tracker when the context is left.
#[test]
fn backward_outside_the_context_works_in_every_version() {
    for version in Release::ALL {
        let mut s = session(version.changes(), |_| {});
        for _ in 0..3 {
            s.enter();
            let input = s.empty(&[64, 64], F32).unwrap();
            let leaf = s.leaf_over(&input);
            let mut x = leaf.clone();
            for _ in 0..10 {
                x = s.silu(&x).unwrap();
            }
            let loss = s.sum(&x).unwrap();
            drop(x);
            s.exit().unwrap();
            s.backward(&loss)
                .unwrap_or_else(|error| panic!("{version:?}: {error}"));
            assert!(leaf.grad().is_some());
            assert_eq!(sizes(&s).tracker, 0);
        }
    }
}

/// `test_noop_manager_with_offloading`: in a nested `NoOpManager` nothing reaches the offloader.
#[test]
fn a_nested_noop_manager_hides_its_region() {
    let mut s = session(Release::TRL_1_8.changes(), |_| {});
    s.enter();
    let input = s.empty(&[64, 64], F32).unwrap();
    let leaf = s.leaf_over(&input);
    let hidden = s.without_offload(|s| s.silu(&leaf)).unwrap();
    assert_eq!(sizes(&s).tracker, 0);
    let out = s.silu(&hidden).unwrap();
    assert_eq!(sizes(&s).tracker, 1);
    let loss = s.sum(&out).unwrap();
    s.backward(&loss).unwrap();
    s.exit().unwrap();
    assert!(leaf.grad().is_some());
}

/// axolotl's `test_no_vram_leak_regression`: adds 4 MiB to the tracker after each step.
#[test]
fn an_injected_tensor_leaks_until_enter_resets() {
    for (version, leaks) in [
        (Release::TRL_0_29, true),
        (Release::TRL_1_4, true),
        (Release::TRL_1_5, false),
    ] {
        let mut s = session(version.changes(), |_| {});
        let mut allocated = Vec::new();
        for _ in 0..10 {
            stale_step(&mut s, 6, 0).unwrap();
            let tensor = s.empty(&[1 << 20], F32).unwrap();
            s.offloader_mut().unwrap().inject(tensor, Bytes::mib(4));
            allocated.push(s.heap().borrow().caching.stats().allocated.0 as i64);
        }
        let growth = allocated[9] - allocated[3];
        let limit = 10_000_000;
        assert_eq!(growth > limit, leaks, "{version:?}: {growth}");
        if leaks {
            assert!(growth >= 6 * (4 << 20), "{version:?}: {growth}");
        }
    }
}

/// Invariants 4 and 10: if the flags are right, the backward stash holds the tensors of two nodes
/// at most. Without streams nothing is ever stashed.
#[test]
fn the_backward_stash_holds_two_nodes_at_most() {
    let run = |use_streams: bool| {
        let mut s = session(Release::TRL_0_29.changes(), |config| {
            config.use_streams = use_streams
        });
        let most = Rc::new(std::cell::Cell::new(0));
        s.enter();
        let input = s.empty(&[64, 64], F32).unwrap();
        let mut x = s.leaf_over(&input);
        for _ in 0..16 {
            let seen = Rc::clone(&most);
            let region: Region = Rc::new(move |s: &mut Session, inputs: &[Tensor]| {
                let stash = s
                    .offloader()
                    .map_or(0, |offloader| offloader.backward_stash().count());
                seen.set(seen.get().max(stash));
                s.silu(&inputs[0])
            });
            x = s.checkpoint(region, std::slice::from_ref(&x)).unwrap();
        }
        let loss = s.sum(&x).unwrap();
        s.backward(&loss).unwrap();
        s.exit().unwrap();
        most.get()
    };
    assert_eq!(run(true), 2);
    assert_eq!(run(false), 0);
}

/// Invariant 7: every key of #6241 belongs to a live tensor; before it, some keys do not.
#[test]
fn a_key_outlives_its_tensor_only_before_6241() {
    let dead_keys = |version: &'static Release| {
        let mut s = session(version.changes(), |config| config.max_fwd_stash_size = 1);
        s.enter();
        let mut dead = 0;
        let input = s.empty(&[64, 64], F32).unwrap();
        let mut x = s.leaf_over(&input);
        drop(input);
        for _ in 0..12 {
            x = s.silu(&x).unwrap();
            let offloader = s.offloader().unwrap();
            let alive: Vec<TensorId> = offloader
                .forward_stash()
                .chain(offloader.kept_tensors())
                .map(|(id, _)| id)
                .collect();
            dead += offloader
                .dedupe_keys()
                .filter(|(_, id)| !alive.contains(id))
                .count();
        }
        dead
    };
    assert_eq!(dead_keys(Release::TRL_1_8), 0);
    assert!(
        dead_keys(Release::TRL_1_5) > 0,
        "a counter-example of trl-0.29 to trl-1.5"
    );
}

/// `test_reused_storage_key_after_stash_reap_is_not_deduplicated`, with an address that is really
/// reused: the first tensor is gone when the third one gets its block.
#[test]
fn a_reused_address_is_a_duplicate_only_before_6241() {
    let decide = |version: &'static Release| {
        let mut s = session(version.changes(), |config| config.max_fwd_stash_size = 1);
        let config = *s.offloader().unwrap().config();
        let accelerator = &mut s.accelerator;
        let mut offloader = engine::offload::OffloadActivations::new(config, accelerator).unwrap();
        let mut decisions = Vec::new();
        let mut keys = Vec::new();
        for _ in 0..3 {
            let s = &mut s;
            let tensor = s.empty(&[4, 4], F32).unwrap();
            keys.push(StorageKey::of(s.accelerator.saved(&tensor)));
            let id = offloader.pack(&tensor, &mut s.accelerator).unwrap();
            decisions.push(offloader.decision(id).unwrap());
        }
        assert_eq!(keys[0], keys[2], "the program must reuse the address");
        decisions
    };
    use Decision::{Kept, Offloaded};
    assert_eq!(decide(Release::TRL_1_8), [Offloaded, Offloaded, Offloaded]);
    assert_eq!(decide(Release::TRL_1_5), [Offloaded, Offloaded, Kept]);
}

/// Invariant 12: nothing orders work on another stream and the captured `s0`; the live `s0` has an
/// order (axolotl 93a94e0d7).
#[test]
fn a_captured_default_stream_races_with_compute_elsewhere() {
    let races = |changes: Changes| {
        let mut s = session(changes, |_| {});
        let elsewhere = s.accelerator.new_stream().unwrap();
        s.accelerator.watch_races();
        s.accelerator.set_stream(elsewhere);
        stale_step(&mut s, 12, 0).unwrap();
        s.accelerator.set_stream(StreamId::DEFAULT);
        s.accelerator.detector().unwrap().races().count()
    };
    let v2 = Release::TRL_0_29.changes();
    assert!(races(v2) > 0);
    assert_eq!(races(v2.with(Change::LiveComputeStream)), 0);
}

/// Without streams a tensor is copied out on the captured `s0`, and back on the stream that asks.
#[test]
fn without_streams_a_tensor_comes_back_on_the_current_stream() {
    for version in Release::ALL {
        let config = OffloadConfig {
            use_streams: false,
            ..OffloadConfig::new(version.changes())
        };
        let mut s = session(version.changes(), |_| {});
        let tensor = s.empty(&[64, 64], F32).unwrap();
        let Session { accelerator, .. } = &mut s;
        let mut offloader = engine::offload::OffloadActivations::new(config, accelerator).unwrap();
        let id = offloader.pack(&tensor, accelerator).unwrap();
        assert_eq!(offloader.decision(id), Some(Decision::Offloaded));
        let elsewhere = accelerator.new_stream().unwrap();
        accelerator.set_stream(elsewhere);
        let (back, _) = offloader.unpack(id, accelerator).unwrap();
        let start = back.storage().start();
        let heap = s.heap().borrow();
        let pool = heap
            .caching
            .segments()
            .find(|(first, bytes, _)| (*first..*first + *bytes).contains(&start));
        assert_eq!(
            pool.map(|(_, _, stream)| stream),
            Some(elsewhere),
            "{version:?}"
        );
    }
}

/// Invariant 6: entering brings memory to the same level in every step. Emptying the cache takes
/// nothing from the program, and keeps exactly those segments that hold something.
#[test]
fn entering_gives_back_wholly_free_segments_and_no_others() {
    let mut s = session(Release::TRL_1_5.changes(), |config| {
        config.bitsandbytes_imported = true;
    });
    let kept = s.empty(&[3, 1024, 1024], F32).unwrap();
    let mut levels = Vec::new();
    for _ in 0..4 {
        stale_step(&mut s, 12, 2).unwrap();
        let leftovers = s.heap().borrow().caching.stats();
        s.enter();
        let heap = s.heap().borrow();
        let level = heap.caching.stats();
        assert!(level.allocated < leftovers.allocated);
        let live: Vec<DeviceAddr> = heap
            .caching
            .blocks()
            .filter_map(|(start, _, used)| used.then_some(start))
            .collect();
        let holding = heap.caching.segments().filter(|(start, bytes, _)| {
            live.iter()
                .any(|block| (*start..*start + *bytes).contains(block))
        });
        assert_eq!(
            level.reserved,
            holding.map(|(_, bytes, _)| bytes).sum::<Bytes>()
        );
        drop(heap);
        s.heap().borrow_mut().empty_cache();
        assert_eq!(s.heap().borrow().caching.stats().allocated, level.allocated);
        s.exit().unwrap();
        levels.push(level.allocated);
    }
    assert!(levels.iter().all(|level| *level == levels[0]), "{levels:?}");
    drop(kept);
}

/// Invariant 10: without streams there is one pool, and no stash is used.
#[test]
fn a_single_stream_touches_no_stash_and_no_other_pool() {
    for version in Release::ALL {
        let mut s = session(version.changes(), |config| config.use_streams = false);
        s.enter();
        let input = s.empty(&[64, 64], F32).unwrap();
        let mut x = s.leaf_over(&input);
        drop(input);
        for _ in 0..12 {
            x = s.silu(&x).unwrap();
            assert_eq!((sizes(&s).fwd_stash, sizes(&s).bwd_stash), (0, 0));
        }
        let loss = s.sum(&x).unwrap();
        drop(x);
        s.backward(&loss).unwrap();
        s.exit().unwrap();
        assert_eq!(sizes(&s).bwd_ev, 0, "{version:?}");
        let heap = s.heap().borrow();
        let mut streams = heap.caching.segments().map(|(_, _, stream)| stream);
        assert!(streams.all(|stream| stream == StreamId::DEFAULT));
    }
}
