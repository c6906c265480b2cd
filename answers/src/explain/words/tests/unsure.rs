//! Where a recording does not tell, the sentences say so.

use super::*;

/// Between the smallest limit that fits the recording and the largest there is room, or a step has
/// taken more than any before.
#[test]
fn what_is_demand_or_pieces_is_not_told_as_one_of_them() {
    let check = |oom: OutOfMemory, expected: &str| {
        let told = words::why(&oom, &no_leaks(), &NOBODY);
        assert!(told.contains(expected), "{told}");
        assert!(!told.contains("The program needed more"), "{told}");
        let helped = words::helped(&oom, &no_leaks(), FAILS);
        assert!(!helped.contains("the memory was in use"), "{helped}");
    };
    check(
        failure(Cause::NotKnown),
        "Whether the program needed more than there was, or memory only lay in pieces, cannot be \
         told: it depends on the limit, which the recording does not tell exactly. 900 MiB were in \
         use, mostly activations (700 MiB) and parameters (150 MiB), the largest part asked for by \
         `forward model.py:12` (700 MiB); 60.0 MiB of what was reserved were not, but in pieces of \
         20.0 MiB at most.",
    );
    let about = |least: u64| OutOfMemory {
        whole_pass: Some(WholePass {
            least: Bytes::mib(least),
            times_as_large: Some(1.52),
            is_too_much: false,
            batch: None,
            with_batch: None,
        }),
        ..failure(Cause::NotKnown)
    };
    let larger = "at most. This step asked for 1.5 times as much at the same lines as the largest \
                  before.";
    check(about(1000), larger);
    let outgrown = OutOfMemory {
        outgrown: Some(Bytes::mib(330)),
        ..failure(Cause::NotKnown)
    };
    check(
        outgrown,
        "cannot be told: this step had taken 330 MiB by then, more than any whole one before. 900",
    );
    // An estimate that is near the limit.
    let near = "All of this step needs about 1000 MiB (estimated), about as much as the limit: ";
    let told = words::helped(&about(1000), &no_leaks(), FAILS);
    assert!(told.contains(near), "{told}");
    let told = words::helped(&about(800), &no_leaks(), FAILS);
    assert!(!told.contains("All of this step"), "{told}");
}

/// On a device that was full, a segment of 100 MiB was refused.
#[test]
fn what_the_driver_keeps_is_said_where_as_much_was_free_as_was_needed() {
    let check = |free: u64, is_told: bool| {
        let oom = OutOfMemory {
            free: Some(Bytes::mib(free)),
            ..failure(Cause::Demand)
        };
        let told = words::why(&oom, &no_leaks(), &NOBODY);
        let kept = "MiB free (the driver never hands out the last of it), and the process 960 MiB";
        assert_eq!(told.contains(kept), is_told, "{told}");
    };
    check(99, false);
    check(100, true);
    check(103, true);
    check(104, false);
}

/// What is reserved and free may take what leaks, or lie in pieces that do not.
#[test]
fn how_long_a_leak_takes_is_told_as_a_range() {
    let check = |low: u64, high: u64, expected: &str| {
        let oom = OutOfMemory {
            remedies: vec![Remedy {
                steps_until_full_at_most: Some(high),
                ..remedy("expandable_segments:True", Basis::Computed, Some(low))
            }],
            ..failure(Cause::Leak)
        };
        let told = words::helped(&oom, &a_leak(), FAILS);
        let expected = format!("the leak fills what is left in {expected} like those before. ");
        assert!(told.contains(&expected), "{told}");
    };
    check(0, 0, "the next step, if it is");
    check(0, 1, "the next step, or up to 1 step later, if they are");
    check(0, 17, "the next step, or up to 17 steps later, if they are");
    check(1, 1, "about one more step, if they are");
    check(2, 9, "2 to 9 more steps, if they are");
}

/// A setting may help under the larger ones of the limits that fit the recording.
#[test]
fn a_setting_that_helps_under_a_larger_limit_is_told_with_that() {
    let oom = OutOfMemory {
        settings_perhaps: ["expandable_segments:True", "default settings"]
            .map(str::to_owned)
            .into(),
        ..failure(Cause::Fragmentation)
    };
    let told = words::helped(&oom, &no_leaks(), FAILS);
    let begin = "No allocator setting that was tried is sure to get past it. That depends on the \
                 limit, which the recording does not tell exactly: under the largest one that fits \
                 it, `expandable_segments:True`, or the allocator with its default settings would \
                 get past it (computed). Ask *What if* with the one that was set.";
    assert!(told.starts_with(begin), "{told}");
}

/// Which of the limits that fit a recording was set, only the replay tells.
#[test]
fn a_limit_that_was_narrowed_is_not_told_as_a_recorded_one() {
    let check = |is_limit_narrowed: bool, expected: &str| {
        let oom = OutOfMemory {
            refused_by: Refusal::ProcessLimit,
            is_limit_narrowed,
            ..failure(Cause::Fragmentation)
        };
        let told = words::why(&oom, &no_leaks(), &NOBODY);
        let limit = "a memory limit of the process between 970 MiB and 1.04 GiB";
        assert!(told.contains(&format!("{limit}{expected}, as ")), "{told}");
    };
    check(false, "");
    let narrowed = " (computed: the recording fits larger ones, under which the replay does not \
                    fail here)";
    check(true, narrowed);
}
